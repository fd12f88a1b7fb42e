"""What one case moves of each gradient step, and how much noise hides it, of variants/travag and
variants/ddpm, on their worst neighbours; and counterparts that must fail.

All that is learned from cases is the noisy sums of the steps, so the audit looks at these: without
noise, by how much the case of a unique variant, or the longest case, moves them; and how far noise
scatters, measured on some thousands of draws. Both together give the epsilon of normal noise, which
must not exceed the claim. It is sharper than one of releases, which see a network's output alone.
"""

from dataclasses import replace

import numpy as np
import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.facts import Facts
from cloakwork.mechanisms.registry import catalogue
from cloakwork.noise import reproducible
from cloakwork.testing.queries import answers_withheld
from cloakwork_extras.networks.one_hot import Domain, domain_event
from conftest import in_long_form
from extras.networks.small_networks import (
    DOMAIN,
    GOAL,
    NAMES,
    epsilon_shown,
    few_chains,
    kernel_for,
    needs_torch,
    params_of,
    sums_of,
)
from kernel.small import Silent, measured
from privacy.sources import Changed

pytestmark = [needs_torch, pytest.mark.usefixtures(few_chains.__name__)]

BASE = [("a", "b"), ("a",)]
WORST = {"unique": ("rare",), "longest": ("c",) * 6}
"""Variants of the declared domain that nobody else follows."""


def params(name, **options):
    """All units in every sample: then nothing but noise hides a case. The networks are wide enough
    for some thousands of draws of noise.
    """
    return params_of(name, **({"domain": DOMAIN, "hidden": 60} | options))


def moved_by(name, given, case):
    """By how much one case moves each sum, in norms: the networks start alike, and stay so, as the
    learning rate is next to nothing.
    """
    still = given.model_copy(update={"learning_rate": 1e-12})
    here, there = (
        sums_of(name, still, measured([*BASE, *more], [20, 10, *([1] * len(more))]), Silent())
        for more in ([case], [])
    )
    return [float(np.linalg.norm(one - other)) for one, other in zip(here, there, strict=True)]


def scatter(name, given, noise):
    """The deviation of the noise on each sum, of a log without cases inside of the domain; at
    least, by five deviations of what is measured.
    """
    nobody = measured([("x",)], [50])
    sums = sums_of(name, given, nobody, noise)
    return [float(each.std() * (1 + 5 / np.sqrt(2 * each.size))) for each in sums]


class ManyCases:
    """A source that says that there are cases, so that networks are trained on none."""

    def __init__(self, source):
        self.source = source

    def laplace_values(self, scale, size):
        return self.source.laplace_values(scale, size) + 1000

    def __getattr__(self, name):
        return getattr(self.source, name)


def audited(name, given, case, noise=None):
    """The epsilon that all steps show."""
    moved = moved_by(name, given, case)
    deviations = scatter(name, given, ManyCases(noise or reproducible(15)))
    return epsilon_shown(moved, deviations, GOAL.delta)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", ["unique", *in_long_form("longest")])
def test_steps_keep_the_claim_and_half_the_noise_is_found(name, case):
    """At most what the event says, and not much less: the worst case has a gradient of the whole
    norm in most steps.
    """
    given = params(name)
    allowed = GOAL.epsilon - cost(domain_event(given), 0.0).epsilon
    assert 0.6 * allowed < audited(name, given, WORST[case]) <= allowed
    assert audited(name, given, WORST[case], Changed(0.5, reproducible(15))) > GOAL.epsilon


@pytest.mark.parametrize("name", NAMES)
def test_no_step_is_moved_by_more_than_the_norm(name):
    """Both phases, whatever is learned."""
    for case in WORST.values():
        moved = moved_by(name, params(name), case)
        assert max(moved) <= 1 + 1e-6
        assert min(moved) > 0.5


def test_an_encoder_without_noise_is_found(monkeypatch):
    """Trained on the log as it is, it makes every case's gradient of the decoder depend on one
    case: the sum moves by more than the norm, and the audit fails.
    """
    from cloakwork_extras.networks.training import Training

    given = params("variants/travag")
    honest = moved_by("variants/travag", given, WORST["unique"])
    run = Training.run

    def leaking(training, kernel, start, update):
        raw = kernel._Kernel__measured
        if training.title == "encoder and decoder":
            # As after a long training: whether somebody follows the rare variant turns the code.
            encoder = start[: given.width * given.hidden]
            encoder *= 1 - 2 * (("rare",) in raw.cases.variants())
            start[-(given.hidden + 1) * given.width : -given.width] = 0.3
        return run(training, kernel, start, update)

    monkeypatch.setattr(Training, "run", leaking)
    broken = moved_by("variants/travag", given, WORST["unique"])
    assert max(broken) > 2 * max(honest)
    assert audited("variants/travag", given, WORST["unique"]) > GOAL.epsilon


@pytest.mark.parametrize("name", NAMES)
def test_less_noise_than_the_event_says_costs_more(name):
    """What the accountant derives names the noise and the steps that are drawn."""
    mechanism, given = catalogue()[name], params(name)
    assert cost(mechanism.step(given, Facts()).event, GOAL.delta).epsilon <= GOAL.epsilon
    for update in ({"multiplier": given.multiplier / 2}, {"steps": 12}):
        broken = given.model_copy(update=update)
        assert cost(mechanism.step(broken, Facts()).event, GOAL.delta).epsilon > 1.2 * GOAL.epsilon


def learned_without_answers(name, seen):
    """The shares that are learned of ``seen`` where each sum of gradients is noise alone."""
    given = params_of(name, domain=DOMAIN)
    domain = Domain(DOMAIN, np.full(len(DOMAIN), 1 / len(DOMAIN)), 30)
    with answers_withheld():
        kernel = kernel_for(name, given, seen, reproducible(15))
        return catalogue()[name].learned_shares(given, domain, kernel).tolist()


FEW = measured([("a",)], [3])
MANY = measured([*DOMAIN, ("x",), ("y", "z")], [60, 9, 1, 1, 4, 1])


@pytest.mark.parametrize("name", NAMES)
def test_nothing_but_noisy_sums_bears_on_what_is_learned(name):
    """To the last bit, where these hide the log: no state of a gradient, nor the size of a batch,
    goes beside them.
    """
    assert learned_without_answers(name, FEW) == learned_without_answers(name, MANY)


def test_as_many_generated_cases_as_real_ones_are_found(monkeypatch):
    """A batch of generated cases as large as the real one, as it was published: it tells how many
    cases there are beside all noise.
    """
    from cloakwork_extras.networks import travag_network
    from cloakwork_extras.networks.training import Training

    run = Training.run

    def counting(training, *arguments):
        def counted(tape, cases, step):
            monkeypatch.setattr(travag_network, "FAKES", len(cases))
            return training.losses(tape, cases, step)

        return run(replace(training, losses=counted), *arguments)

    monkeypatch.setattr(Training, "run", counting)
    learned = [learned_without_answers("variants/travag", seen) for seen in (FEW, MANY)]
    assert learned[0] != learned[1]
