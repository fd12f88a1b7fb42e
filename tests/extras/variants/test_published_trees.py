"""The published trees: that they do what the papers' code does, and claim nothing here."""

import math

import numpy as np
import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.facts import Facts
from cloakwork.engines.measured import measured_of
from cloakwork.evaluation.control_flow import histogram as variants_of_log
from cloakwork.evaluation.control_flow import relative_log_similarity, true_variants
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import Randomness
from cloakwork.log.eventlog import ACTIVITY, TIMESTAMP
from cloakwork.log.formats import read_log
from cloakwork.mechanisms.base import Offer
from cloakwork.noise import reproducible, secret
from cloakwork.testing import run_mechanism
from cloakwork_extras.trees.published import (
    CandidateExtensions,
    PublishedPrefixTree,
    PublishedSacofa,
    RawRules,
    RawVariants,
    _draw_harmful,
    noisy_as_published,
)
from conftest import SHARED
from extras.variants.tried import Tried, histogram

BOTH = (PublishedPrefixTree(), PublishedSacofa())
GOAL = DifferentialPrivacy(
    kind="differential-privacy", epsilon=1.0, delta=1e-4, over=("control-flow",)
)


@pytest.mark.parametrize("mechanism", BOTH, ids=lambda mechanism: mechanism.name)
def test_nothing_is_claimed(mechanism):
    offer = mechanism.offer(GOAL, Facts(), {})
    assert isinstance(offer, Offer)
    assert mechanism.proof == "published"
    assert offer.params.published == 1.0
    assert cost(mechanism.step(offer.params, Facts()).event, 1e-4).epsilon == math.inf
    assert not mechanism.step(offer.params, Facts()).lineage.measures


@pytest.mark.parametrize("mechanism", BOTH, ids=lambda mechanism: mechanism.name)
def test_without_noise_to_speak_of_the_log_comes_back(mechanism):
    """At a scale of 1/100 no noise is drawn but for e**-100."""
    rows = {("a", "b"): 40, ("a",): 7, ("a", "b", "c"): 30}
    tried = Tried(mechanism)
    for length, expected in ((4, rows), (2, {("a", "b"): 70, ("a",): 7})):
        # As published: beginnings of full length are released like variants, and the end after
        # them is never asked for.
        params = tried.offered(Facts(), 100.0, 1e-4, length=length, threshold=2)
        assert tried.released(rows, params) == expected


def test_noise_is_laplace_cut_towards_zero():
    """Every share within seven standard errors (binomial tails: 1e-10 in all)."""
    noisy = noisy_as_published(np.full(300_000, 100), 0.5, Randomness(secret())) - 100
    q = math.exp(-0.5)
    for value in range(-6, 7):
        expected = (1 - q) * q ** abs(value) / (1 if value == 0 else 2)
        deviation = math.sqrt(expected / 300_000)
        assert abs((noisy == value).mean() - expected) < 7 * deviation, value


def test_rules_of_the_log_and_who_breaks_them():
    rows = histogram({("a", "b"): 4, ("a", "c", "b"): 2})
    rules = RawRules.read_off(RawVariants.of(measured_of(rows, secret())))
    assert rules.first.tolist() == [True, False, False]
    assert rules.always_after[0].tolist() == [False, True, False]
    assert rules.never_after[1].tolist() == [True, True, True]
    assert rules.always_before[2].tolist() == [True, False, False]
    empty = CandidateExtensions(np.empty((1, 0), np.int64), np.zeros(4, np.int64), 3)
    assert rules.count_violations(empty).tolist() == [0, 1, 1, 1]
    after_a = rules.count_violations(CandidateExtensions(np.array([[0]]), np.zeros(4, np.int64), 3))
    # a, b and a, c may go on; a, a repeats what never does; an END after a lacks the b that always
    # follows.
    assert (after_a > 0).tolist() == [True, False, False, True]
    after_ab = CandidateExtensions(np.array([[0, 1]]), np.zeros(4, np.int64), 3)
    assert (rules.count_violations(after_ab) > 0).tolist() == [True, True, True, False]


def test_how_many_harmful_ones_are_drawn():
    """Every share within seven standard errors (binomial tails: 1e-12 in all)."""
    drawn = np.array(
        [len(_draw_harmful(np.full(3, 1), 1.0, 1, Randomness(secret()))) for _ in range(6_000)]
    )
    weights = np.exp(-0.5 * np.arange(4))
    for number, expected in enumerate(weights / weights.sum()):
        assert abs((drawn == number).mean() - expected) < 7 * math.sqrt(expected / 6_000)


@pytest.mark.parametrize(
    ("name", "options", "similarity", "true", "fake"),
    [
        ("variants/prefix-tree-published", {"threshold": 4}, 0.918, 155, 316),
        ("variants/sacofa-published", {"threshold": 4, "harmless_threshold": 4}, 0.918, 156, 296),
    ],
)
def test_published_figures_come_out_on_the_same_log(name, options, similarity, true, fake):
    path = SHARED / "logs" / "bpic2013_incidents.xes.gz"
    if not path.is_file():
        pytest.skip("the real logs are not there")
    log = read_log(path, keep=lambda column: column in (ACTIVITY, TIMESTAMP))
    budget = {"epsilon": 1.0, "delta": 1e-4}
    made = run_mechanism(name, log, noise=reproducible(1), **budget, length=13, **options)
    source, release = variants_of_log(log), variants_of_log(made)
    found = len(true_variants(source, release))
    assert abs(relative_log_similarity(source, release) - similarity) < 0.01
    assert abs(found - true) < 25
    assert abs(len(release) - found - fake) < 60
