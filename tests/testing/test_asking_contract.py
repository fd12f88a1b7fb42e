"""The contract of mechanisms that enrich: a toy passes, and each of its broken twins fails the
check that is about its fault.
"""

from functools import partial
from typing import Any

import numpy as np
import pytest

from cloakwork.base.costs import Composed, Repeated
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, Lineage
from cloakwork.base.quantities import Frozen
from cloakwork.errors import MechanismError
from cloakwork.kernel import (
    Cases,
    Clip,
    Descent,
    Entries,
    Gaussian,
    Kernel,
    Laplace,
    vectors,
)
from cloakwork.mechanisms.base import Mechanism, Offer, PartOfGoal, Refusal, Theorem
from cloakwork.mechanisms.steps import Enrichment, EnrichStep, Listed, Numbers
from cloakwork.testing import MechanismContract

ROLE, CLIP, NOISE = "org:role", Clip("l1", 4, 4), Laplace(16.0)
ROLES = ("role 0", "role 1")
DESCENT = Descent(times=2, rate=0.5, grid=0.01, clip=200, noise=Gaussian(2e4), denominator=50.0)
ZERO = np.zeros(1)


class NoParams(Frozen):
    """Nothing to set."""


class Roles(Mechanism[NoParams]):
    """Gives all events the role that most events of the log have, or none, and says how long cases
    are, by gradient steps.
    """

    name, proof, Params, serves_parts = "toy/roles", "kernel", NoParams, True
    summary = "Gives events the most frequent role."
    theorem = Theorem("Noise on sums of clipped vectors.", "a toy")

    def offer(self, goal: Any, facts: Facts, options: Any) -> Refusal:
        return Refusal("never", "it serves a part of a goal")

    def offer_part(self, part: PartOfGoal, facts: Facts, options: Any) -> Offer[NoParams] | Refusal:
        if options:
            return Refusal("misconfigured", "it has no options")
        return Offer(NoParams(), "counts roles")

    def event(self, facts: Facts) -> Any:
        cases = facts.unit.max_cases
        steps = Repeated(times=DESCENT.times, event=DESCENT.event(1, cases))
        return Composed(events=(*NOISE.events(CLIP, cases, 2)[:1], steps))

    def step(self, params: Any, facts: Facts) -> EnrichStep:
        return EnrichStep(
            lineage=Lineage(
                measures=frozenset({CONTROL_FLOW, ROLE}),
                reads=frozenset({CONTROL_FLOW}),
                writes=frozenset({ROLE, "length"}),
                enriches=True,
            ),
            event=self.event(facts),
            enrich=partial(self.enrich, params),
        )

    def roles(self, cases: Cases) -> Entries:
        role = cases.columns[ROLE]
        place = np.array([(*ROLES, text).index(text) for text in (*role.alphabet, None)])
        code = place[role.codes]
        known = np.flatnonzero(code < 2)
        return Entries(cases.case_of[known], np.ones(len(known), np.int64), code[known])

    def gradient(self, parameters: Any, cases: Cases, step: int) -> Any:
        return (cases.lengths - parameters)[:, None]

    def enrich(self, params: Any, kernel: Kernel, cases: Cases) -> Enrichment:
        counts = kernel.sum(self.roles, NOISE, CLIP, keys=2).at(np.arange(2))
        best = int(np.argmax(counts)) if counts.max() > 0 else -1
        length = kernel.steps(self.gradient, ZERO, lambda was, mean: was + mean, DESCENT)
        return self.made(cases, best, float(length[0]))

    def made(self, cases: Cases, best: int, length: float) -> Enrichment:
        listed = Listed(np.full(len(cases.codes), best), ROLES)
        return Enrichment({ROLE: listed, "length": Numbers(np.full(len(cases.codes), length))})


class TestRoles(MechanismContract):
    """The toy."""

    mechanism = Roles()  # type: ignore[assignment]
    serves = ((ROLE, "length"),)


def finds_fault(twin: Any, check: str) -> bool:
    contract = TestRoles()
    contract.mechanism = twin  # type: ignore[misc]
    try:
        getattr(contract, check)()
    except (AssertionError, MechanismError, ValueError):
        return True
    return False


class CountsTheBatch(Roles):
    """A case weighs less beside others."""

    def roles(self, cases: Cases) -> Entries:
        found = super().roles(cases)
        return Entries(found.case, found.value * (4 // min(4, len(cases))), found.code)


class CentresGradients(Roles):
    """A case's gradient depends on the mean of its batch."""

    def gradient(self, parameters: Any, cases: Cases, step: int) -> Any:
        return (cases.lengths - cases.lengths.sum() / max(1, len(cases)))[:, None]


class NormalisesBatches(Roles):
    """Its network has batch norm: a case's gradient follows from the spread of its batch."""

    def gradient(self, parameters: Any, cases: Cases, step: int) -> Any:
        spread = np.std(cases.lengths) if len(cases) else 0.0
        return (cases.lengths - parameters)[:, None] / (1.0 + spread)


class DividesByTheBatch(Roles):
    """It takes the mean by itself, of as many cases as there happen to be."""

    def gradient(self, parameters: Any, cases: Cases, step: int) -> Any:
        return super().gradient(parameters, cases, step) / max(1, len(cases))


class LearnsWithoutNoise(Roles):
    """An encoder before the rest goes by its exact gradients, and not by the kernel's."""

    def __init__(self) -> None:
        self.encoder = 1.0

    def gradient(self, parameters: Any, cases: Cases, step: int) -> Any:
        found = self.encoder * cases.lengths[:, None] - parameters
        self.encoder -= 0.01 * cases.lengths.sum()
        return found


class TakesRowsOut(Roles):
    """Its query tells the rest of the code how many cases there are."""

    shown = 0

    def roles(self, cases: Cases) -> Entries:
        self.shown = len(cases)
        return super().roles(cases)

    def made(self, cases: Cases, best: int, length: float) -> Enrichment:
        return super().made(cases, best, length + self.shown)


class TakesRowsOutOfGradients(TakesRowsOut):
    """So does its gradient."""

    def roles(self, cases: Cases) -> Entries:
        return Roles.roles(self, cases)

    def gradient(self, parameters: Any, cases: Cases, step: int) -> Any:
        self.shown = len(cases)
        return super().gradient(parameters, cases, step)


class AsksForTimes(Roles):
    """It would measure a column that its lineage does not name."""

    def roles(self, cases: Cases) -> Entries:
        return Entries.one_each(cases, cases.times.values[cases.offsets[:-1]] % 2)


class LooksAtTheLog(Roles):
    """It looks at what its kernel holds."""

    def enrich(self, params: Any, kernel: Any, cases: Cases) -> Enrichment:
        super().enrich(params, kernel, cases)
        held = kernel._Kernel__measured.cases
        return self.made(cases, 0, float(len(held)))


class TripsOverNothing(Roles):
    """It takes for granted that some role is frequent."""

    def made(self, cases: Cases, best: int, length: float) -> Enrichment:
        if best < 0:
            raise ValueError("no role")
        return super().made(cases, best, length)


class WritesMore(Roles):
    """It makes a column that its lineage does not name."""

    def made(self, cases: Cases, best: int, length: float) -> Enrichment:
        found = super().made(cases, best, length)
        return Enrichment({**found.columns, "more": found.columns["length"]})


class ChargesMore(Roles):
    """It is charged for a question that it never asks."""

    def event(self, facts: Facts) -> Any:
        listed = super().event(facts).events
        return Composed(events=(*listed, listed[0]))


class KnowsNoOptions(Roles):
    """It passes over an option that is misspelt."""

    def offer_part(self, part: PartOfGoal, facts: Facts, options: Any) -> Offer[NoParams]:
        return Offer(NoParams(), "counts roles")


@pytest.mark.parametrize(
    ("twin", "check"),
    [
        (CountsTheBatch, "test_vectors_of_a_case_follow_from_that_case_alone"),
        (CentresGradients, "test_vectors_of_a_case_follow_from_that_case_alone"),
        (NormalisesBatches, "test_vectors_of_a_case_follow_from_that_case_alone"),
        (DividesByTheBatch, "test_vectors_of_a_case_follow_from_that_case_alone"),
        (LearnsWithoutNoise, "test_vectors_of_a_case_follow_from_that_case_alone"),
        (LearnsWithoutNoise, "test_queries_leave_nothing_behind"),
        (LearnsWithoutNoise, "test_neighbours_are_asked_the_same"),
        (TakesRowsOut, "test_queries_leave_nothing_behind"),
        (TakesRowsOut, "test_nothing_but_answers_tells_of_the_log"),
        (TakesRowsOutOfGradients, "test_queries_leave_nothing_behind"),
        (AsksForTimes, "test_queries_ask_for_what_was_granted"),
        (LooksAtTheLog, "test_nothing_but_answers_tells_of_the_log"),
        (TripsOverNothing, "test_every_log_gives_a_release"),
        (WritesMore, "test_every_log_gives_a_release"),
        (ChargesMore, "test_asks_what_its_event_lists"),
        (KnowsNoOptions, "test_refuses_options_that_it_does_not_know"),
    ],
)
def test_a_broken_twin_is_found(twin: type[Roles], check: str) -> None:
    assert not finds_fault(Roles(), check)
    assert finds_fault(twin(), check)


def test_a_clip_that_is_left_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the kernel itself."""
    monkeypatch.setattr(vectors, "_clipped", lambda case, value, clip: 5 * value)
    assert finds_fault(Roles(), "test_neighbours_are_asked_the_same")
