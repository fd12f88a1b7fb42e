"""Noise on timestamps: what it offers, what it charges, and what no raw time may survive."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from pydantic import JsonValue, ValidationError

from cloakwork.accounting.events import cost
from cloakwork.base.costs import Composed, DiscreteLaplace, Repeated
from cloakwork.base.facts import Facts, Unit, Window
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.evaluation.one_mechanism import run_step
from cloakwork.guarantees import DifferentialPrivacy, Guarantee, KAnonymity, MetricPrivacy
from cloakwork.log.eventlog import TIMESTAMP, EventLog
from cloakwork.mechanisms.base import Offer, Refusal
from cloakwork.mechanisms.timestamps.laplace import LaplaceParams, TimestampLaplace
from cloakwork.noise import Stream, reproducible, secret
from contracts.sample_logs import BEGIN, log_of, times_of_cases
from noisy_streams import SILENCE, drawing_from

LAPLACE = TimestampLaplace()

METRIC = MetricPrivacy(kind="metric-privacy", epsilon=1, shift=timedelta(hours=1))

BOUNDED = DifferentialPrivacy(
    kind="differential-privacy", epsilon=2, over=(TIMESTAMPS,), neighbours="bounded"
)

DECLARED = Facts(
    window=Window(start=BEGIN, end=BEGIN + timedelta(days=100)),
    longest_gap=timedelta(days=1),
    longest_case=5,
    grid=timedelta(minutes=1),
)


def params_for(goal: Guarantee, facts: Facts = DECLARED, **options: JsonValue) -> LaplaceParams:
    offer = LAPLACE.offer(goal, facts, options)
    assert isinstance(offer, Offer), offer
    return offer.params


def released(
    log: EventLog, goal: Guarantee, stream: Stream | None = None, facts: Facts = DECLARED
) -> EventLog:
    noise = drawing_from(stream or secret().stream())
    return run_step(LAPLACE, params_for(goal, facts), log, noise, facts)


def at(*minutes: float | None) -> list[datetime | None]:
    return [None if minute is None else BEGIN + timedelta(minutes=minute) for minute in minutes]


def test_noise_on_gaps_charges_two_values_that_move_by_the_shift() -> None:
    """An hour is 60 steps of a minute: scale 2 * 60 / epsilon, rounded up."""
    params = params_for(METRIC, noised="gaps")
    event = LAPLACE.step(params, DECLARED).event
    assert isinstance(event, DiscreteLaplace)
    assert event.sensitivity == 120
    assert event.scale >= 120
    assert event.scale == pytest.approx(120)
    assert params.start_scale == params.gap_scale == event.scale
    assert cost(event, delta=0.0).epsilon <= METRIC.epsilon
    assert LAPLACE.step(params, Facts()).currency == "metric"


def test_noise_on_times_charges_one_value_that_moves() -> None:
    """The default: half the noise for the same epsilon; every event's error is its own, the last's
    no larger than the first's.
    """
    params = params_for(METRIC)
    assert params == params_for(METRIC, noised="times")
    event = LAPLACE.step(params, DECLARED).event
    assert isinstance(event, DiscreteLaplace)
    assert event.sensitivity == 60
    assert event.sensitivity / event.scale <= 1
    assert event.scale == pytest.approx(60)
    log = log_of(["abcd"] * 5_000, [at(0, 100_000, 200_000, 300_000)] * 5_000)
    noisy = run_step(LAPLACE, params, log, reproducible(1))
    error = (
        (noisy.events[TIMESTAMP] - log.events[TIMESTAMP])
        .dt.total_minutes()
        .to_numpy()
        .reshape(-1, 4)
    )
    assert np.abs(error).mean(axis=0) == pytest.approx([60] * 4, abs=6 * 60 / 5_000**0.5)
    assert np.corrcoef(error.T) == pytest.approx(np.eye(4), abs=0.1)


def test_a_plan_changed_by_hand_is_not_valid() -> None:
    """Bounds that are missing, or sensitivities that are smaller than they imply."""
    event, case = params_for(METRIC, noised="gaps").model_dump(), params_for(BOUNDED).model_dump()
    for broken in (
        event | {"start_steps": 1},
        event | {"shift": None},
        event | {"gap_scale": 0},
        event | {"scope": "case"},
        case | {"gap_steps": 1},
        case | {"window": None},
        case | {"longest_case": None},
        case | {"grid": timedelta(seconds=1)},
        case | {"noised": "times"},
    ):
        with pytest.raises(ValidationError):
            LaplaceParams.model_validate(broken)


def test_a_shift_is_rounded_up_to_grid_steps() -> None:
    """90 seconds may move a time by two minutes."""
    params = params_for(METRIC.model_copy(update={"shift": timedelta(seconds=90)}))
    assert params.start_steps == 2


@pytest.mark.parametrize("epsilon", [0.1, 1 / 3, 1.0, 7.3])
@pytest.mark.parametrize("cases", [1, 3])
def test_case_scope_spends_its_epsilon_and_not_more(epsilon: float, cases: int) -> None:
    """Start and gaps together, over all cases of a unit, in exact arithmetic and in floating
    point.
    """
    facts = DECLARED.model_copy(update={"unit": Unit(attribute="P", max_cases=cases)})
    params = params_for(BOUNDED.model_copy(update={"epsilon": epsilon}), facts)
    event = LAPLACE.step(params, facts).event
    assert isinstance(event, Repeated)
    assert isinstance(event.event, Composed)
    start, gaps = event.event.events
    assert isinstance(start, DiscreteLaplace)
    assert isinstance(gaps, Repeated)
    assert isinstance(gaps.event, DiscreteLaplace)
    assert (event.times, gaps.times) == (cases, 4)
    assert (start.sensitivity, gaps.event.sensitivity) == (100 * 1440, 1440)
    exact = cases * (
        Fraction(start.sensitivity) / Fraction(start.scale)
        + 4 * Fraction(gaps.event.sensitivity) / Fraction(gaps.event.scale)
    )
    assert Fraction(epsilon) * (1 - Fraction(1, 10**11)) <= exact <= Fraction(epsilon)
    assert epsilon * (1 - 1e-11) <= cost(event, delta=0.0).epsilon <= epsilon
    assert LAPLACE.step(params, Facts()).currency == "unit"


def test_default_share_minimises_the_summed_error() -> None:
    """Moving budget either way makes start_scale + (M - 1) gap_scale larger."""

    def error(params: LaplaceParams) -> float:
        return params.start_scale + 4 * params.gap_scale

    best = params_for(BOUNDED)
    assert best.start_share is not None
    for factor in (0.9, 1.1):
        assert error(best) < error(params_for(BOUNDED, start_share=best.start_share * factor))


def test_cases_of_one_event_have_no_gaps() -> None:
    """All of epsilon goes to the start."""
    facts = DECLARED.model_copy(update={"longest_case": 1})
    params = params_for(BOUNDED, facts)
    assert (params.start_share, params.gap_scale) == (1.0, 0.0)
    event = LAPLACE.step(params, facts).event
    assert isinstance(event, Repeated)
    assert isinstance(event.event, Composed)
    assert len(event.event.events) == 1
    assert released(log_of(["ab"]), BOUNDED, facts=facts).events[TIMESTAMP].null_count() == 0


@pytest.mark.parametrize(
    ("goal", "facts", "options", "kind", "reason"),
    [
        (KAnonymity(kind="k-anonymity", k=3), DECLARED, {}, "never", "nothing else"),
        (METRIC.model_copy(update={"over": ("Age",)}), DECLARED, {}, "never", "timestamps only"),
        (
            METRIC.model_copy(update={"shift": timedelta(0)}),
            DECLARED,
            {},
            "misconfigured",
            "longer than 0",
        ),
        (METRIC, DECLARED, {"noised": "nothing"}, "misconfigured", "gaps or times"),
        (BOUNDED, DECLARED, {"noised": "times"}, "misconfigured", "unknown option noised"),
        (METRIC.model_copy(update={"epsilon": 1e-15}), DECLARED, {}, "misconfigured", "2**53"),
        (
            BOUNDED.model_copy(update={"neighbours": "unbounded"}),
            DECLARED,
            {},
            "not_yet",
            "timestamps/histogram",
        ),
        (BOUNDED, Facts(), {}, "needs", "assume.window, assume.longest_gap, assume.longest_case"),
        (BOUNDED, DECLARED, {"start_share": 1.0}, "misconfigured", "above 0 and below 1"),
        (BOUNDED, DECLARED, {"start_share": True}, "misconfigured", "above 0 and below 1"),
        (BOUNDED, DECLARED, {"share": 0.5}, "misconfigured", "unknown option share"),
        (
            DifferentialPrivacy(kind="differential-privacy", epsilon=1, over=(CONTROL_FLOW,)),
            DECLARED,
            {},
            "never",
            "only",
        ),
    ],
)
def test_refusals_say_why(
    goal: Guarantee, facts: Facts, options: dict[str, JsonValue], kind: str, reason: str
) -> None:
    """In plain words, and naming what to declare."""
    answer = LAPLACE.offer(goal, facts, options)
    assert isinstance(answer, Refusal)
    assert kind == answer.kind
    assert reason in answer.reason


def test_needs_names_only_what_is_missing() -> None:
    """As it is written in the policy."""
    answer = LAPLACE.offer(BOUNDED, DECLARED.model_copy(update={"longest_gap": None}), {})
    assert isinstance(answer, Refusal)
    assert answer.needs == ("assume.longest_gap",)


def test_without_noise_times_are_those_of_the_grid() -> None:
    """Nothing but rounding happens to a complete case inside its bounds."""
    log = log_of(["abc"], [at(0.4, 59.6, 60.5)])
    assert [at(0, 60, 61)] == times_of_cases(released(log, METRIC, SILENCE))
    assert [at(0, 60, 61)] == times_of_cases(released(log, BOUNDED, SILENCE))


def test_case_scope_clamps_starts_and_gaps() -> None:
    """A start before the window moves to its edge; a gap of ten days becomes one of a day."""
    log = log_of(["ab"], [at(-(10**5), -(10**5) + 14_400)])
    assert [at(0, 1440)] == times_of_cases(released(log, BOUNDED, SILENCE))


def test_times_beyond_the_longest_case_are_not_looked_at() -> None:
    """Two logs that differ in the sixth time of a case give the same release."""
    one, two = (log_of(["abcdef"], [at(0, 1, 2, 3, 4, last)]) for last in (5, 1000))
    assert times_of_cases(released(one, BOUNDED, SILENCE)) == times_of_cases(
        released(two, BOUNDED, SILENCE)
    )


def test_missing_times_come_from_noised_gaps_of_the_same_activity() -> None:
    """b takes 10 minutes wherever it is known, so it takes them here; at the beginning, so much
    before its successor.
    """
    log = log_of(["ab", "ab", "ab", "ba"], [at(0, 10), at(100, 110), at(200, None), at(None, 300)])
    log = replace(log, events=log.events)
    times = times_of_cases(released(log, METRIC, SILENCE))
    assert at(200, 210) == times[2]
    assert at(290, 300) == times[3]


def test_a_case_without_times_takes_a_noised_start() -> None:
    """Between two others, drawn at random."""
    log = log_of(["ab", "ab", "ab"], [at(0, 10), at(100, 110), at(None, None)])
    begins, ends = times_of_cases(released(log, METRIC, SILENCE))[2]
    assert begins is not None
    assert ends is not None
    assert BEGIN <= begins <= BEGIN + timedelta(minutes=100)
    assert ends - begins == timedelta(minutes=10)


def test_a_log_without_any_time_is_released_all_the_same() -> None:
    """From the epoch, or the beginning of the window, one step apart; without a time column there
    is none to release.
    """
    log = log_of(["ab", "c"], [[None, None], [None]])
    for goal, begin in ((METRIC, datetime(1970, 1, 1, tzinfo=UTC)), (BOUNDED, BEGIN)):
        assert released(log, goal, SILENCE).events[TIMESTAMP].to_list() == [
            begin,
            begin + DECLARED.grid,
            begin,
        ]
    bare = replace(log, events=log.events.drop(TIMESTAMP))
    assert released(bare, METRIC).events.equals(bare.events)


def test_no_time_is_missing_off_the_grid_or_out_of_order() -> None:
    """After inserted events, deleted ones and noise a thousand times the gaps."""
    log = log_of(["abc"] * 50, [at(None, 1, None)] * 25 + [at(0, None, 3)] * 25)
    for goal in (METRIC, BOUNDED):
        times = released(log, goal).events[TIMESTAMP]
        assert times.null_count() == 0
        assert times.dtype == pl.Datetime("us", "UTC")
        assert (times.dt.timestamp("us") % 60_000_000 == 0).all()
        assert (np.diff(times.dt.timestamp("us").to_numpy().reshape(50, 3), axis=1) >= 0).all()


def test_no_case_keeps_the_pattern_of_its_gaps() -> None:
    """200 cases with four long gaps, small noise: none comes through with three of them
    unchanged.
    """
    log = log_of(
        ["abcde"] * 200, [at(0, 7_000 + row, 15_000, 24_000 + row, 34_000) for row in range(200)]
    )
    noisy = released(log, METRIC, reproducible(1).stream())
    raw, noised = (
        case.events[TIMESTAMP].dt.timestamp("us").to_numpy().reshape(200, 5)
        for case in (log, noisy)
    )
    same = np.diff(raw, axis=1) == np.diff(noised, axis=1)
    assert not (same.sum(axis=1) >= 3).any()


def test_noise_has_the_scale_that_is_charged() -> None:
    """Mean absolute noise of starts is the scale (20,000 cases, 6 standard deviations)."""
    log = log_of(["a"] * 20_000, [at(60 * 24 * 365)] * 20_000)
    noisy = released(log, METRIC, reproducible(1).stream())
    moved = (noisy.events[TIMESTAMP] - log.events[TIMESTAMP]).dt.total_minutes().to_numpy()
    assert np.abs(moved).mean() == pytest.approx(60, abs=6 * 60 / 20_000**0.5)
    assert moved.mean() == pytest.approx(0, abs=6 * 85 / 20_000**0.5)


def test_noise_beyond_the_calendar_saturates() -> None:
    """Enormous noise on a fine grid, and raw times at the edges of the calendar."""
    edges = [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, tzinfo=UTC)]
    log = log_of(["ab"] * 200, [edges] * 200)
    goal = METRIC.model_copy(update={"epsilon": 1e-3, "shift": timedelta(days=30)})
    times = released(log, goal, facts=Facts(grid=timedelta(microseconds=1))).events[TIMESTAMP]
    years = times.dt.year().to_list()
    assert times.null_count() == 0
    assert 1677 <= min(years) <= max(years) <= 2262


def test_a_grid_of_a_year() -> None:
    """Coarser than everything: times collapse, nothing breaks."""
    for goal in (METRIC, BOUNDED):
        facts = DECLARED.model_copy(update={"grid": timedelta(days=365)})
        assert released(log_of(["abc"] * 5), goal, facts=facts).events[TIMESTAMP].null_count() == 0
