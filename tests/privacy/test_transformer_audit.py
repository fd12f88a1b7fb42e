"""Statistical audits of the gradient steps of variants/transformer on its worst neighbours, and of
broken counterparts that must fail.

What is audited is what the steps answer, while the weights stay where they are (whatever is made of
the answers is post-processing): the sum of the noisy gradients along that of the one case in which
neighbours differ, the statistic that tells them best apart. The tables are those of variants/markov
(``test_markov_audit.py``). Draws are seeded: what is found is found in every run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module

import numpy as np
import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.arrays import Floats, Ints
from cloakwork.base.costs import Cost
from cloakwork.evaluation.dp_audit import AuditResult, HalfLine
from cloakwork.kernel import Factors, Kernel
from cloakwork.kernel import gradients as steps
from cloakwork.kernel.gradients import FactorMoves, Moves, clipped_factors
from cloakwork.mechanisms.variants.markov import RemainingCases
from cloakwork.noise import reproducible
from cloakwork.testing import prepare
from cloakwork_extras.networks.params import TransformerParams
from cloakwork_extras.networks.steps import multiplier_for, steps_event
from cloakwork_extras.networks.transformer import VariantTransformer
from extras.networks.small_networks import needs_torch
from kernel.small import kernel_of, measured
from privacy.sources import seeded_audit

pytestmark = needs_torch

RUNS = 80
CLAIM = Cost(epsilon=1.0, delta=0.2)
"""At a delta at which too little noise of a Gaussian shows in few runs."""

LABELS = ("a", "b", "c")
CASE = tuple("abcabcabcabcabc")
"""Long, of steps that others have too."""

OTHERS = [("a", "b"), ("a", "c", "b"), ("b",), ("c", "a")]
TIMES = 2


@dataclass(slots=True)
class Heard:
    """An optimiser that keeps what it is told, and leaves the weights where they are."""

    rate: float
    times: int
    total: Floats | float = 0.0

    def __call__(self, weights: Floats, gradient: Floats) -> Floats:
        self.total = self.total + gradient
        return weights

    def average(self, weights: Floats) -> Floats:
        """All that was told."""
        return np.asarray(self.total)


def params() -> TransformerParams:
    """For steps that cost the claim, of a network of one layer."""
    facts = {"alphabet": LABELS, "units_at_most": 100}
    given: TransformerParams = prepare(
        VariantTransformer(),
        epsilon=1.0,
        delta=1e-2,
        options={"steps": TIMES, "width": 0},
        **facts,
    ).params
    multiplier = multiplier_for(TIMES, 1.0, given.size, 1, CLAIM)
    return given.model_copy(update={"multiplier": multiplier})


def remaining(kernel: Kernel) -> RemainingCases:
    """Cases of which the tables know that everything follows everything."""
    masses = {(label,): np.ones(len(LABELS) + 1) for label in range(len(LABELS) + 1)}
    return RemainingCases(kernel, LABELS, masses, 100)


def gradients(given: TransformerParams, cases: Sequence[tuple[str, ...]], noise: object) -> Floats:
    """The sum of what the steps answer; the books hold what the claim's parameters cost."""
    event = steps_event(TIMES, 1.0, given.multiplier, given.size)
    seen = measured(list(cases))
    kernel = kernel_of(seen, event, noise=noise).narrowed(LABELS)
    heard = []

    def kept(rate: float, times: int) -> Heard:
        heard.append(Heard(rate, times))
        return heard[-1]

    # Loaded here, since it loads torch.
    network = import_module("cloakwork_extras.networks.prefix_network")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(network, "Adam", kept)
        patched.setattr(network, "seed_from", lambda _: 1)
        network.learned_factors(given, remaining(kernel))
    return np.asarray(heard[0].total)


class Quiet:
    """No noise, or a part of it."""

    def __init__(self, part: float) -> None:
        self.source, self.part = reproducible(1), part

    def gaussian_values(self, sigma: float, size: int) -> Ints:
        if not self.part:
            return np.zeros(size, np.int64)
        return self.source.gaussian_values(sigma * self.part, size)

    def __getattr__(self, name: str) -> object:
        return getattr(self.source, name)


def audit(given: TransformerParams, part: float = 1.0, runs: int = RUNS) -> AuditResult:
    """The other cases with the long one, and without it."""
    noise = Quiet(part)
    with_case, without = [*OTHERS, CASE], OTHERS
    along = gradients(given, with_case, Quiet(0)) - gradients(given, without, Quiet(0))

    def statistic(cases: Sequence[tuple[str, ...]]) -> Callable[[int], Floats]:
        def drawn(size: int) -> Floats:
            return np.array([along @ gradients(given, cases, noise) for _ in range(size)])

        return drawn

    def midway(a: Floats, b: Floats) -> list[HalfLine]:
        return [HalfLine(float(np.median(a) + np.median(b)) / 2, upper=True)]

    return seeded_audit(
        statistic(with_case),
        statistic(without),
        runs=runs,
        delta=CLAIM.delta,
        claim=CLAIM.epsilon,
        events=midway,
    )


def test_one_long_case_more_is_covered() -> None:
    """However many events it has."""
    assert audit(params()).passed


def test_less_noise_is_found() -> None:
    """A twelfth of it."""
    assert not audit(params(), part=1 / 12).passed


@dataclass(frozen=True, slots=True)
class EventByEvent:
    """The counterpart whose clip bounds the gradient of each event, not that of a case."""

    moves: FactorMoves
    places: int

    def rows(self) -> Ints:
        """Not asked for here."""
        raise NotImplementedError

    def summed(self, counts: Ints) -> Ints:
        """As if each event were a case of its own."""
        return self.moves.summed(np.repeat(counts, self.places))


def clipped_by_event(
    found: Sequence[Factors], cases: int, size: int, grid: float, clip: int
) -> Moves:
    """As ``clipped_factors``, of a network of one layer, which has one place an event."""
    (layer,) = found
    places = layer.left.shape[1]
    apart = Factors(layer.left.flatten(0, 1)[:, None], layer.right.flatten(0, 1)[:, None])
    return EventByEvent(clipped_factors([apart], cases * places, size, grid, clip), places)


def test_clipping_by_event_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would leave the long case as many clips as it has events."""
    monkeypatch.setattr(steps, "clipped_factors", clipped_by_event)
    assert not audit(params()).passed


def test_the_steps_cost_what_they_claim() -> None:
    """By the accountant: a little less than the claim, and half the noise more."""
    given = params()
    spent = cost(steps_event(TIMES, 1.0, given.multiplier, given.size), CLAIM.delta)
    assert 0.95 * CLAIM.epsilon < spent.epsilon <= CLAIM.epsilon
    half = steps_event(TIMES, 1.0, given.multiplier / 2, given.size)
    assert cost(half, CLAIM.delta).epsilon > CLAIM.epsilon
