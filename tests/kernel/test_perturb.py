"""Noise on times: what one raw time, or all of a case, can move, and what the books let through."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import numpy as np
import polars as pl
import pytest

from cloakwork.base.arrays import Ints
from cloakwork.base.costs import Composed, DiscreteLaplace, PrivacyEvent, Repeated
from cloakwork.base.facts import Facts, Unit, Window
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.engines.memory import MemoryEngine
from cloakwork.engines.noised import raw_times
from cloakwork.errors import MechanismError, PlanUnsound
from cloakwork.evaluation.one_mechanism import run_step
from cloakwork.guarantees import DifferentialPrivacy, Guarantee, MetricPrivacy
from cloakwork.kernel import Books
from cloakwork.kernel.perturb import (
    Grid,
    OneTime,
    Perturbation,
    Perturbing,
    StartsAndGaps,
    WholeCases,
)
from cloakwork.log.eventlog import TIMESTAMP, EventLog
from cloakwork.mechanisms.base import Offer
from cloakwork.mechanisms.steps import NoiseOnTimesStep
from cloakwork.mechanisms.timestamps.laplace import LaplaceParams, TimestampLaplace
from cloakwork.noise import Stream, reproducible
from cloakwork.run.steps import GrantedStep, Outcome
from cloakwork.testing.contract_logs import assert_same_log
from contracts.sample_logs import BEGIN, log_of
from log_in_parts import rewritten_in_batches
from noisy_streams import SILENCE, chosen, drawing_from

MINUTES = Grid(datetime(1970, 1, 1, tzinfo=UTC), timedelta(minutes=1))
SECONDS = replace(MINUTES, step=timedelta(seconds=1))
HOUR = timedelta(hours=1)
WINDOW = Window(start=BEGIN, end=BEGIN + timedelta(minutes=8))
CASES = WholeCases(WINDOW, longest_gap=timedelta(minutes=3), times=3)
METRIC = MetricPrivacy(kind="metric-privacy", epsilon=1, shift=HOUR)
BOUNDED = DifferentialPrivacy(
    kind="differential-privacy", epsilon=2, over=(TIMESTAMPS,), neighbours="bounded"
)
FACTS = Facts(
    window=Window(start=BEGIN, end=BEGIN + timedelta(days=100)),
    longest_gap=timedelta(days=1),
    longest_case=5,
    grid=timedelta(minutes=1),
    unit=Unit(attribute="case:row", max_cases=2),
)


def noise_on(**changes: Any) -> Perturbation:
    """Noise of scale 60 on each time to the minute, against shifts of an hour."""
    declared = Perturbation(
        grid=MINUTES,
        protects=OneTime(HOUR),
        noised="times",
        start_scale=60.0,
        gap_scale=60.0,
    )
    return replace(declared, **changes)


def perturbing(
    declared: Perturbation, stream: Stream = SILENCE, shift: timedelta | None = HOUR
) -> Perturbing:
    """What a kernel adds under a plan that lists what is declared."""
    return Perturbing(declared, Books.of(declared.event(1)), stream, 1, shift)


def encoded(log: EventLog, declared: Perturbation) -> StartsAndGaps:
    """What lies beneath the noise."""
    shift = declared.protects.shift if isinstance(declared.protects, OneTime) else None
    return perturbing(declared, shift=shift).noised(raw_times(log))


def vector(found: StartsAndGaps) -> Ints:
    return np.concatenate([found.starts, found.gaps])


@pytest.mark.parametrize(("noised", "most"), [("times", 1), ("gaps", 2)])
def test_one_raw_time_moves_what_its_event_says(noised: str, most: int) -> None:
    """Shifts of every size, on either side of the grid, at the first, a middle and the last event,
    some without time. Of ``times``, start and gaps are differences of times that got noise each.
    """
    random = np.random.default_rng(5)
    microseconds = np.sort(random.integers(0, 10**10, size=8))
    for moved, shift in product(range(8), (1, 499_999, 500_000, 999_999, 10**6, 3_600 * 10**6)):
        times = [BEGIN + timedelta(microseconds=int(value)) for value in microseconds]
        others = [
            time + timedelta(microseconds=shift) * (row == moved) for row, time in enumerate(times)
        ]
        declared = noise_on(
            grid=SECONDS, noised=noised, protects=OneTime(timedelta(microseconds=shift))
        )
        one, two = (
            encoded(
                log_of(["abcdefgh"], [[None if row in (2, 5) else case[row] for row in range(8)]]),
                declared,
            )
            for case in (times, others)
        )
        differences = vector(one) - vector(two)
        if noised == "times":
            differences = np.cumsum(differences)
        assert np.count_nonzero(differences) <= most
        event = declared.event(1)
        assert isinstance(event, DiscreteLaplace)
        assert np.abs(differences).sum() <= event.sensitivity


def test_exhaust_times_of_a_case() -> None:
    """Every case of up to four events with times from before the window to behind it, or none: the
    start moves by the window at most, two gaps by the longest gap, and nothing else moves.
    """
    minutes = (None, -2, 0, 3, 9, 20)
    found = []
    for places in product(minutes, repeat=4):
        known = sorted(place for place in places if place is not None)
        if known != [place for place in places if place is not None]:
            continue
        times = [None if place is None else BEGIN + timedelta(minutes=place) for place in places]
        case = encoded(log_of(["abcd"], [times]), noise_on(protects=CASES, noised="gaps"))
        found.append((tuple(place is None for place in places), case))
    event = noise_on(protects=CASES, noised="gaps").event(1)
    assert isinstance(event, Composed)
    start, gaps = event.events
    assert isinstance(start, DiscreteLaplace) and start.sensitivity == 8
    assert isinstance(gaps, Repeated) and gaps.times == 2
    assert isinstance(gaps.event, DiscreteLaplace) and gaps.event.sensitivity == 3
    for (missing, one), (also_missing, other) in product(found, repeat=2):
        if missing == also_missing:
            assert (np.abs(one.starts - other.starts) <= start.sensitivity).all()
            assert (np.abs(one.gaps - other.gaps) <= gaps.event.sensitivity).all()
            assert len(one.gaps) == len(other.gaps) <= gaps.times


@pytest.mark.parametrize("declared", [noise_on(), noise_on(protects=CASES, noised="gaps")])
def test_no_case_is_encoded_by_another(declared: Perturbation) -> None:
    """Case by case, permuted and in parts the noisy values are the same."""
    random = np.random.default_rng(1)
    rows = [sorted(random.integers(0, 60, 4).tolist()) for _ in range(30)]
    log = log_of(
        ["abcd"] * 30, [[BEGIN + timedelta(minutes=place) for place in row] for row in rows]
    )
    log = replace(log, case_index=np.arange(30))
    stream = reproducible(1).stream()
    shift = HOUR if isinstance(declared.protects, OneTime) else None
    noised = perturbing(declared, stream, shift).noised
    whole = noised(raw_times(log))
    for row in random.permutation(30):
        alone = noised(raw_times(log.keep_cases(np.array([row]))))
        assert alone.starts.tolist() == whole.starts[[row]].tolist()
        gaps = len(whole.gaps) // 30
        assert alone.gaps.tolist() == whole.gaps[row * gaps : (row + 1) * gaps].tolist()


def test_noise_far_outside_the_calendar_never_wraps() -> None:
    """In any direction, on the finest grid."""
    log = log_of(["ab"], [[datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)]])
    fine = replace(MINUTES, step=timedelta(microseconds=1))
    signs = np.array([1, -1]) * np.iinfo(np.int64).max
    for noised, sign in product(("times", "gaps"), (1, -1)):
        stream = chosen(lambda at, sign=sign: sign * signs[at.positions])  # type: ignore[misc]
        found = perturbing(noise_on(grid=fine, noised=noised), stream).noised(raw_times(log))
        assert np.sign(found.starts).tolist() == [sign]
        assert np.sign(found.gaps).tolist() == [-sign]


def planned(goal: Guarantee, **options: Any) -> GrantedStep:
    """The step that a plan grants that makes the claim."""
    offer = TimestampLaplace().offer(goal, FACTS, options)
    assert isinstance(offer, Offer)
    granted = GrantedStep.of(TimestampLaplace(), offer.params, FACTS)
    shift = goal.shift if isinstance(goal, MetricPrivacy) else None
    assert granted.shift == shift
    return granted


def otherwise(granted: GrantedStep, changed: Callable[[Perturbation], Any]) -> GrantedStep:
    """One that puts other noise on times than its event says; ``changed``: of what it should."""
    assert isinstance(granted.kind, NoiseOnTimesStep)
    return replace(granted, kind=replace(granted.kind, noise=changed(granted.kind.noise)))


def outcome_of(granted: GrantedStep) -> Outcome:
    """What a step does that was granted this; no log is needed to say."""
    return granted.take(pl.DataFrame(), reproducible(1))


Fault = Callable[[Perturbation], Any]


def changed(start: float = 1.0, gap: float = 1.0, **others: Any) -> Fault:
    """Noise of so much of the scales, and what else is other than the plan lists."""

    def fault(declared: Perturbation) -> Perturbation:
        scales = (declared.start_scale * start, declared.gap_scale * gap)
        return replace(declared, start_scale=scales[0], gap_scale=scales[1], **others)

    return fault


def bounding(**others: Any) -> Fault:
    """Whole cases within other bounds than the plan lists."""

    def fault(declared: Perturbation) -> Perturbation:
        assert isinstance(declared.protects, WholeCases)
        return replace(declared, protects=replace(declared.protects, **others))

    return fault


def half_the_shift_on_a_finer_grid(declared: Perturbation) -> Perturbation:
    """As many steps of half the width: the books alone would let it through."""
    finer = replace(declared.grid, step=declared.grid.step / 2)
    return replace(declared, grid=finer, protects=OneTime(HOUR / 2))


FAULTS: dict[str, tuple[Guarantee, str | None, Fault]] = {
    "half the noise on times": (METRIC, "times", changed(0.5, 0.5)),
    "half the noise": (METRIC, "gaps", changed(0.5, 0.5)),
    "half the noise on gaps": (METRIC, "gaps", changed(gap=0.5)),
    # So that a time may move by twice the shift that is declared.
    "half the shift": (METRIC, "times", changed(0.5, 0.5, protects=OneTime(HOUR / 2))),
    "half the shift on a finer grid": (METRIC, "times", half_the_shift_on_a_finer_grid),
    "half the noise on cases": (BOUNDED, None, changed(0.5, 0.5)),
    "half the noise on gaps of cases": (BOUNDED, None, changed(gap=0.5)),
    "twice the window": (
        BOUNDED,
        None,
        bounding(window=Window(start=BEGIN, end=BEGIN + timedelta(days=200))),
    ),
    "one time more": (BOUNDED, None, bounding(times=6)),
    "longer gaps": (BOUNDED, None, bounding(longest_gap=timedelta(days=2))),
    "single times of a unit": (BOUNDED, None, changed(protects=OneTime(timedelta(minutes=1)))),
    "noise on each time": (BOUNDED, None, changed(noised="times")),
}


@pytest.mark.parametrize(("goal", "noised", "fault"), FAULTS.values(), ids=FAULTS.keys())
def test_noise_that_the_plan_does_not_list_is_refused(
    goal: Guarantee, noised: str | None, fault: Fault
) -> None:
    """Before any time is looked at."""
    granted = planned(goal, **({} if noised is None else {"noised": noised}))
    with pytest.raises(PlanUnsound):
        outcome_of(otherwise(granted, fault))


@pytest.mark.parametrize("fault", [lambda declared: (declared, declared), lambda declared: None])
def test_a_step_perturbs_once(fault: Fault) -> None:
    """There is nothing to average: what is declared is one perturbation."""
    granted = planned(METRIC)
    with pytest.raises(ValueError, match="no Perturbation"):
        otherwise(granted, fault)


def test_twice_the_cases_of_a_unit_are_refused() -> None:
    """The plan charges as many cases of a unit as the log is bounded to."""
    wider = replace(planned(BOUNDED), unit=Unit(attribute="case:row", max_cases=3))
    with pytest.raises(PlanUnsound):
        outcome_of(wider)


def test_times_that_were_not_granted_are_refused() -> None:
    """By lineage."""
    kind = planned(METRIC).kind
    lineage = kind.lineage.model_copy(update={"measures": frozenset()})
    with pytest.raises(ValueError, match="measures them"):
        replace(kind, lineage=lineage)


@pytest.mark.parametrize("goal", [METRIC, BOUNDED])
def test_what_is_recorded_is_what_is_charged(goal: Guarantee) -> None:
    """Once, however many passes look at a time."""
    granted = planned(goal)
    outcome = outcome_of(granted)
    log = log_of(["abc"] * 9)
    rewritten_in_batches(log, 4, outcome.rewrite)
    assert Books.of(outcome.recorded).slots == Books.of(granted.kind.event).slots


def released(log: EventLog, goal: Guarantee, stream: Stream) -> EventLog:
    granted, noise = planned(goal), drawing_from(stream)
    outcome = granted.take(granted.look(log, MemoryEngine(), noise), noise)
    return MemoryEngine().rewrite(log, outcome.rewrite)


def test_no_raw_time_fills_what_has_no_noise() -> None:
    """Of a case only the first times get noise. The later ones, whatever they are, change nothing:
    what is released there is made of noisy values.
    """
    begin = [BEGIN + timedelta(minutes=place) for place in range(5)]
    late = [[BEGIN + timedelta(minutes=place)] * 2 for place in (5, 700)]
    one, other = (log_of(["abcdefg"] * 4, [[*begin, *end]] * 4) for end in late)
    stream = reproducible(1).stream()
    assert (
        released(one, BOUNDED, stream)
        .events[TIMESTAMP]
        .equals(released(other, BOUNDED, stream).events[TIMESTAMP])
    )


class Filling(TimestampLaplace):
    """Completes wrongly: not one whole number for each event."""

    def __init__(self, made: Callable[[int], Any]) -> None:
        self.made = made

    def step(self, params: LaplaceParams, facts: Facts) -> NoiseOnTimesStep:
        def complete(sample: Any) -> Any:
            return lambda noisy: self.made(len(noisy.cases.codes))

        return replace(super().step(params, facts), complete=complete)


@pytest.mark.parametrize("made", [lambda n: np.zeros(n + 1, np.int64), np.zeros])
def test_a_completion_gives_each_event_a_step(made: Callable[[int], Any]) -> None:
    params = planned(METRIC).params
    with pytest.raises(MechanismError, match="no whole number for each event"):
        run_step(Filling(made), params, log_of(["ab"]), reproducible(1), FACTS)


def test_released_times_stay_in_the_calendar() -> None:
    """Whatever the completion makes."""
    params = planned(METRIC).params
    far = Filling(lambda n: np.full(n, 2**62))
    times = run_step(far, params, log_of(["ab"]), reproducible(1), FACTS).events[TIMESTAMP]
    assert times.dt.year().to_list() == [9998, 9998]


def test_a_batch_is_noised_as_in_the_whole_log() -> None:
    """Draws lie at the addresses of the whole log."""
    log = log_of(["abc"] * 12)
    action = outcome_of(planned(METRIC)).rewrite
    whole = MemoryEngine().rewrite(log, action)
    assert_same_log(whole, rewritten_in_batches(log, 4, action))


def test_events_are_what_the_module_proves() -> None:
    """Each encoding, in steps."""
    one = DiscreteLaplace(scale=60, sensitivity=60)
    cases: list[tuple[Perturbation, PrivacyEvent]] = [
        (noise_on(), one),
        (noise_on(noised="gaps", gap_scale=50.0), DiscreteLaplace(scale=50, sensitivity=120)),
        (
            noise_on(noised="gaps", protects=replace(CASES, times=1)),
            Repeated(times=2, event=DiscreteLaplace(scale=60, sensitivity=8)),
        ),
    ]
    for declared, event in cases:
        assert declared.event(2) == event
