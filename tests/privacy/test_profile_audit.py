"""Statistical audit of the DP profile on its worst neighbours, and broken counterparts that the
same audit finds.

Draws are seeded: what is found is found in every run.
"""

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cloakwork.accounting.events import cost
from cloakwork.base.exact import drawn_scale
from cloakwork.base.facts import Unit
from cloakwork.engines.measured import measured_of
from cloakwork.errors import PlanUnsound
from cloakwork.evaluation.dp_audit import AuditResult
from cloakwork.kernel import Books, Kernel, Measured
from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.aggregates import VariantCounts
from cloakwork.mechanisms.profile import ProfileFigures, ProfileParams, measure_profile
from cloakwork.noise import Noise, reproducible
from cloakwork.plan.budget import profile_params
from cloakwork.policy.model import Policy
from contracts.sample_logs import log_of
from plan.conftest import DP, policy_of
from privacy.sources import seeded_audit

RUNS = 200
EPSILON, DELTA = 1.0, 1e-2
BASE = [["a", "b"]] * 60


def params_for(**share: object) -> ProfileParams:
    guarantee = DP | {"epsilon": 2.0, "delta": 0.1}
    spec = {
        "profile": {"epsilon": EPSILON, "delta": DELTA, "activities_per_case": 2} | share,
        "guarantees": [guarantee],
    }
    policy: Policy = policy_of(**spec)
    return profile_params(policy)


def measured(log: EventLog) -> Measured:
    """What a kernel answers from."""
    return measured_of(VariantCounts().of(log), reproducible(1))


def figures(
    params: ProfileParams, log: Measured, noise: Noise, planned: ProfileParams | None = None
) -> ProfileFigures:
    """The figures by a kernel whose books list what ``planned`` charges, ``params`` by default."""
    books = Books.of((planned or params).event())
    return measure_profile(params, Kernel(log, books, noise, params.unit.max_cases))


def audit(a: EventLog, b: EventLog, params: ProfileParams) -> AuditResult:
    """The outcome adds up, group by group, how far the figures speak for one case more."""
    noise = reproducible(1)

    def outcomes(log: EventLog) -> Callable[[int], NDArray[np.float64]]:
        looked_at = measured(log)

        def run(runs: int) -> NDArray[np.float64]:
            return np.array([told(looked_at) for _ in range(runs)])

        return run

    def told(log: Measured) -> float:
        found = figures(params, log, noise)
        near = [np.clip(found.cases - 60.5, -0.5, 0.5) / params.count_scale]
        near += [np.clip(held - 60.5, -0.5, 0.5) / params.top_scale for held in found.top.values()]
        return float(sum(near))

    return seeded_audit(outcomes(a), outcomes(b), runs=60, delta=params.delta, claim=EPSILON)


def selected(
    a: EventLog, b: EventLog, params: ProfileParams, runs: int = RUNS, claim: float = EPSILON
) -> AuditResult:
    """The outcome is the alphabet."""
    noise = reproducible(1)

    def outcomes(log: EventLog) -> Callable[[int], list[Hashable]]:
        looked_at = measured(log)
        return lambda runs: [figures(params, looked_at, noise).alphabet for _ in range(runs)]

    return seeded_audit(outcomes(a), outcomes(b), runs=runs, delta=params.delta, claim=claim)


MORE, BARE = log_of([*BASE, ["a", "b"]]), log_of(BASE)
OWN = log_of([*BASE, ["x", "y"]])


def test_one_case_more_is_covered() -> None:
    assert audit(MORE, BARE, params_for()).passed


def test_a_thirtieth_of_the_noise_is_found() -> None:
    params = params_for()
    scales = {
        name: drawn_scale(getattr(params, name) / 30)
        for name in ("count_scale", "length_scale", "top_scale")
    }
    assert not audit(MORE, BARE, params.model_copy(update=scales)).passed


def test_activities_of_one_case_alone_are_covered_by_delta() -> None:
    assert selected(OWN, BARE, params_for()).passed


def test_a_low_threshold_is_found() -> None:
    """A fifth of the honest one, charged as it is."""
    assert not selected(OWN, BARE, params_for().model_copy(update={"tau": 4})).passed


@pytest.mark.parametrize(
    "fault",
    [
        {"count_scale": 3.0},
        {"length_scale": 3.0},
        {"top_scale": 9.0},
        {"selection_scale": 2.0},
        {"tau": 1},
        {"tau": 19},
        {"activities_per_case": 3},
        {"unit": Unit(attribute="case:row", max_cases=2)},
    ],
)
def test_what_the_plan_does_not_list_is_refused(fault: dict[str, Any]) -> None:
    """Half the noise, a missing threshold or a lower one, one activity or case more: by the books,
    before anything is drawn for it.
    """
    honest = params_for()
    with pytest.raises(PlanUnsound):
        figures(honest.model_copy(update=fault), measured(OWN), reproducible(1), honest)


def test_a_question_too_many_is_refused() -> None:
    """All that the plan lists has been answered."""
    params = params_for()
    kernel = Kernel(measured(OWN), Books.of(params.event()), reproducible(1), 1)
    measure_profile(params, kernel)
    assert Books.of(kernel.recorded).slots == Books.of(params.event()).slots
    with pytest.raises(PlanUnsound):
        measure_profile(params, kernel)


MANY = log_of([*BASE, [f"own {place}" for place in range(700)]])


def test_a_long_case_of_many_activities_of_its_own_is_covered() -> None:
    """Two of its activities count; the counterpart counts 200, and each is one more chance that the
    case shows.

    The claim is that of the selection alone, which gets half of epsilon.
    """
    params = params_for()
    assert params.selection_scale is not None
    claim = 2 / params.selection_scale
    assert claim <= EPSILON / 2
    assert selected(MANY, BARE, params, 50, claim).passed
    more = params.model_copy(update={"activities_per_case": 200})
    assert not selected(MANY, BARE, more, 200, claim).passed


def test_half_the_noise_is_found_by_the_accountant() -> None:
    """The event names the noise drawn; that it is drawn so is tested below."""
    params = params_for()
    scales = ("count_scale", "length_scale", "top_scale", "selection_scale")
    half = params.model_copy(
        update={name: drawn_scale(getattr(params, name) / 2) for name in scales}
    )
    assert cost(params.event(), DELTA).epsilon <= EPSILON < cost(half.event(), DELTA).epsilon
    for name in scales:
        one = params.model_copy(update={name: drawn_scale(getattr(params, name) / 2)})
        assert cost(one.event(), DELTA).epsilon > EPSILON


class Recorder:
    """A source that writes down the scales that pass it."""

    def __init__(self) -> None:
        self.scales: list[float] = []
        self.source = reproducible(1)

    def laplace_values(self, scale: float, size: int) -> NDArray[np.int64]:
        self.scales.append(drawn_scale(scale))
        return self.source.laplace_values(scale, size)

    def __getattr__(self, name: str) -> object:
        return getattr(self.source, name)


@pytest.mark.parametrize("delta", [0.0, DELTA])
def test_every_scale_drawn_is_charged_and_the_reverse(delta: float) -> None:
    params, source = params_for(delta=delta), Recorder()
    figures(params, measured(OWN), source)
    event = params.event()
    charged = [part.scale for part in event.events if part.kind == "discrete-laplace"]
    assert sorted(source.scales) == sorted(charged)
