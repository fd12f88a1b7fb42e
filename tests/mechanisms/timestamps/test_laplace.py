"""Noise on timestamps: what it offers and charges, what no raw time may survive, and how times are
completed.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue, ValidationError
from scipy.optimize import isotonic_regression

from cloakwork.accounting.events import cost
from cloakwork.base.costs import Composed, DiscreteLaplace, Repeated
from cloakwork.base.facts import Facts, Unit, Window
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.engines.noised import cases_of
from cloakwork.evaluation.one_mechanism import run_step
from cloakwork.guarantees import DifferentialPrivacy, Guarantee, KAnonymity, MetricPrivacy
from cloakwork.log.eventlog import TIMESTAMP, EventLog
from cloakwork.mechanisms.base import Offer, Refusal
from cloakwork.mechanisms.steps import NoisySample
from cloakwork.mechanisms.timestamps.completion import (
    Bounds,
    UsualValues,
    isotonic_projection,
    spread_pooled,
)
from cloakwork.mechanisms.timestamps.laplace import LaplaceParams, TimestampLaplace
from cloakwork.noise import Stream, reproducible, secret
from contracts.sample_logs import BEGIN, log_of, times_of_cases
from noisy_streams import SILENCE, chosen, drawing_from

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
    """The default: half the noise for the same epsilon."""
    params = params_for(METRIC)
    assert params == params_for(METRIC, noised="times")
    event = LAPLACE.step(params, DECLARED).event
    assert isinstance(event, DiscreteLaplace)
    assert event.sensitivity == 60
    assert event.sensitivity / event.scale <= 1
    assert event.scale == pytest.approx(60)
    # 90 seconds may move a time by two minutes.
    longer = params_for(METRIC.model_copy(update={"shift": timedelta(seconds=90)}))
    assert longer.start_steps == 2


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


def test_the_share_of_starts_minimises_the_summed_error() -> None:
    """Moving budget either way makes start_scale + (M - 1) gap_scale larger."""
    params = params_for(BOUNDED)
    best = params.start_share
    assert best is not None

    def error(share: float) -> float:
        # Scales go by one over their part of the budget.
        of_gaps = 4 * params.gap_scale * (1 - best) / (1 - share)
        return params.start_scale * best / share + of_gaps

    for factor in (0.9, 1.1):
        assert error(best) < error(best * factor)


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


def metric(**changes: object) -> Guarantee:
    return METRIC.model_copy(update=changes)


OPEN = DECLARED.model_copy(update={"longest_gap": None})
ALL = "assume.window, assume.longest_gap, assume.longest_case"
FLOW = DifferentialPrivacy(kind="differential-privacy", epsilon=1, over=(CONTROL_FLOW,))
UNBOUNDED = BOUNDED.model_copy(update={"neighbours": "unbounded"})


@pytest.mark.parametrize(
    ("goal", "facts", "options", "kind", "reason"),
    [
        (KAnonymity(kind="k-anonymity", k=3), DECLARED, {}, "never", "nothing else"),
        (metric(over=("Age",)), DECLARED, {}, "never", "timestamps only"),
        (metric(shift=timedelta(0)), DECLARED, {}, "misconfigured", "longer than 0"),
        (METRIC, DECLARED, {"noised": "nothing"}, "misconfigured", "gaps or times"),
        (BOUNDED, DECLARED, {"noised": "times"}, "misconfigured", "no option 'noised'"),
        (metric(epsilon=1e-15), DECLARED, {}, "misconfigured", "2**53"),
        (UNBOUNDED, DECLARED, {}, "not_yet", "timestamps/histogram"),
        (BOUNDED, Facts(), {}, "needs", ALL),
        (BOUNDED, OPEN, {}, "needs", "declare assume.longest_gap"),
        (BOUNDED, DECLARED, {"share": 0.5}, "misconfigured", "no option 'share'"),
        (FLOW, DECLARED, {}, "never", "only"),
    ],
)
def test_refusals_say_why(
    goal: Guarantee, facts: Facts, options: dict[str, JsonValue], kind: str, reason: str
) -> None:
    """In plain words, and naming what to declare, as it is written in the policy."""
    answer = LAPLACE.offer(goal, facts, options)
    assert isinstance(answer, Refusal)
    assert kind == answer.kind
    assert reason in answer.reason
    if kind == "needs":
        assert ", ".join(answer.needs) in reason


def test_without_noise_times_are_those_of_the_grid() -> None:
    """Nothing but rounding happens to a complete case inside its bounds."""
    log = log_of(["abc"], [at(0.4, 59.6, 60.5)])
    assert [at(0, 60, 61)] == times_of_cases(released(log, METRIC, SILENCE))
    assert [at(0, 60, 61)] == times_of_cases(released(log, BOUNDED, SILENCE))


def test_case_scope_clamps_starts_and_gaps() -> None:
    """A start before the window moves to its edge; a gap of ten days becomes one of a day."""
    log = log_of(["ab"], [at(-(10**5), -(10**5) + 14_400)])
    assert [at(0, 1440)] == times_of_cases(released(log, BOUNDED, SILENCE))


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


CASES = st.lists(st.lists(st.integers(-1000, 1000), max_size=12), max_size=8)


def offsets_of(cases: list[list[int]]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum([len(case) for case in cases])]).astype(np.int64)


@given(CASES)
def test_projects_each_case_as_scipy_does(cases: list[list[int]]) -> None:
    """Case by case; neighbouring cases do not see each other."""
    values = np.array([value for case in cases for value in case], np.float64)
    expected = [isotonic_regression(np.array(case, float)).x for case in cases if case]
    assert isotonic_projection(values, offsets_of(cases)) == pytest.approx(
        np.concatenate([[], *expected])
    )


def test_order_is_exact() -> None:
    """No rounding error leaves a later value below an earlier one, far from zero either."""
    values = np.random.default_rng(1).normal(size=20_000).cumsum() * 1e9 + 1e12
    projected = isotonic_projection(values, np.arange(0, 20_001, 50))
    assert (np.diff(projected.reshape(-1, 50), axis=1) >= 0).all()


def test_a_late_fall_pools_the_whole_case() -> None:
    """The worst case for pooling one neighbour at a time."""
    values = np.concatenate([np.arange(2000.0), [-1e9]])
    assert len(set(isotonic_projection(values, np.array([0, 2001])).tolist())) == 1


@given(CASES)
def test_spreading_keeps_order_and_the_mean_of_what_was_pooled(cases: list[list[int]]) -> None:
    """No run of equal values is left, none reaches past half of the way to its neighbour, and none
    moves as a whole.
    """
    offsets = offsets_of(cases)
    pooled = isotonic_projection(
        np.array([value for case in cases for value in case], np.float64), offsets
    )
    apart = spread_pooled(pooled, offsets, np.full(len(pooled), 7))
    for begin, end in pairwise(offsets):
        before, after = pooled[begin:end], apart[begin:end]
        assert (np.diff(after) > 0).all()
        for value in np.unique(before):
            run = after[before == value]
            assert run.mean() == pytest.approx(value, abs=1e-6)
            assert (np.diff(run) <= 7 + 1e-9).all()


def test_spreading_shrinks_where_a_neighbour_is_near() -> None:
    """Three values tied two steps before the next one stay within one step of their place."""
    apart = spread_pooled(
        np.array([5.0, 5.0, 5.0, 7.0]), np.array([0, 4]), np.array([1, 10, 10, 10])
    )
    assert apart == pytest.approx([4.1, 5.0, 5.9, 7.0])
    assert spread_pooled(np.array([5.0, 5.0]), np.array([0, 2]), np.array([1, 4])).tolist() == [
        3.0,
        7.0,
    ]
    assert len(spread_pooled(np.zeros(0), np.array([0]), np.zeros(0, np.int64))) == 0


NOTHING = np.zeros(0, np.int64)
FREE = Bounds(released=(-(10**12), 10**12))


def test_a_typical_gap_is_a_lower_bound_of_the_median() -> None:
    """Of 16 gaps the one at rank 16 / 2 - 4, from 0; of four the least; below that one step."""
    gaps = np.concatenate([np.arange(100, 116)[::-1], [50, 40, 30, 60], [9, 9, 9]])
    before = np.repeat([0, 2, 4], [16, 4, 3])
    sample = NoisySample(tuple("abcdef"), NOTHING, NOTHING, NOTHING, gaps, before, before + 1)
    cases = cases_of(log_of(["ab", "cd", "ef", "ba", "zb", "az"]))
    typical = UsualValues.of(sample, FREE).typical_gaps(cases)
    assert typical.tolist() == [1, 104, 1, 30, 1, 1, 1, 1, 1, 1, 1, 1]


def test_what_is_usual_lies_in_public_bounds() -> None:
    """Starts and gaps alike."""
    values = np.array([-100, 5, 100])
    zero = np.zeros(3, np.int64)
    sample = NoisySample(("a",), values, values, zero, values, zero, zero)
    usual = UsualValues.of(sample, Bounds((0, 200), start=(0, 50), longest_gap=20))
    assert usual.sample.starts.tolist() == [0, 5, 50]
    assert usual.sample.gaps.tolist() == usual.sample.pair_gaps.tolist() == [-20, 5, 20]


def test_nothing_is_usual_in_an_empty_log() -> None:
    """Gaps of one step, and no activity."""
    sample = NoisySample((), *[NOTHING] * 6)
    cases = cases_of(log_of(["ab"]))
    usual = UsualValues.of(sample, FREE)
    assert usual.typical_gaps(cases).tolist() == [1, 1]
    assert usual.codes_of(cases).tolist() == [-1, -1]


YEAR_OF_A_CASE = DifferentialPrivacy(
    kind="differential-privacy", epsilon=2, over=(TIMESTAMPS,), neighbours="bounded"
)
YEAR = Facts(
    window=Window(start=datetime(2020, 1, 1, tzinfo=UTC), end=datetime(2021, 1, 1, tzinfo=UTC)),
    longest_gap=timedelta(days=1),
    longest_case=15,
    grid=timedelta(minutes=1),
)


def before_and_after(log, goal, seed=1):
    """Times before and after, in minutes, one case a row; all cases have the same length."""
    params = LAPLACE.offer(goal, YEAR, {}).params
    noisy = run_step(LAPLACE, params, log, reproducible(seed), YEAR)
    cases = len(log.offsets) - 1
    return [
        each.events[TIMESTAMP].dt.timestamp("us").to_numpy().reshape(cases, -1) / 6e7
        for each in (log, noisy)
    ]


def regular(cases, gap):
    """``cases`` of the same twelve steps, ``gap`` minutes apart."""
    stamps = [
        [BEGIN + timedelta(minutes=1_000 * row + gap * step) for step in range(12)]
        for row in range(cases)
    ]
    return log_of(["abcdefghijkl"] * cases, stamps)


def test_errors_do_not_add_up_along_a_case():
    """Twelve events a day apart: the last time is no farther off than the first, an hour on
    average, as is every one.
    """
    before, after = before_and_after(regular(2_000, 24 * 60), METRIC)
    error = after - before
    size = np.abs(error).mean(axis=0)
    # Of 2,000 cases the mean is known to 1.4: this is six times that.
    assert size == pytest.approx([60] * 12, abs=6 * 60 / 2_000**0.5)
    assert error.mean() == pytest.approx(0, abs=6 * 85 / 24_000**0.5)
    assert np.corrcoef(error.T) == pytest.approx(np.eye(12), abs=0.15)


def test_what_the_projection_ties_is_drawn_apart():
    """Gaps of twelve minutes under noise of an hour: most are pooled, none is released as zero, and
    the usual gap stays.
    """
    before, after = before_and_after(regular(2_000, 12), METRIC)
    gaps = np.diff(after, axis=1)
    assert (gaps < 0).sum() == 0
    assert (gaps == 0).mean() < 0.05
    assert 6 <= np.median(gaps) <= 40
    assert np.abs(after - before).mean() < 60


def test_case_scope_ties_are_drawn_apart_within_the_declared_range():
    """Noise far above the gaps: order and range hold, and hardly any gap is zero."""
    _, after = before_and_after(regular(1_000, 30), YEAR_OF_A_CASE)
    gaps = np.diff(after, axis=1)
    assert (gaps < 0).sum() == 0
    assert (gaps == 0).mean() < 0.05
    first = int(datetime(2020, 1, 1, tzinfo=UTC).timestamp() / 60)
    assert after.min() >= first
    assert after.max() <= first + (366 + 14) * 24 * 60


def test_equal_noisy_values_give_equal_times_whatever_the_raw_ones_are():
    """Spreading reads no raw time: with noise that makes two logs' noisy times equal, the releases
    are equal.
    """
    one, other = regular(50, 12), regular(50, 0)
    wanted = np.random.default_rng(3).integers(0, 10**6, 600)  # stands for noisy times
    params = LAPLACE.offer(METRIC, YEAR, {}).params
    made = []
    for log in (one, other):
        noise = wanted - log.events[TIMESTAMP].dt.timestamp("us").to_numpy() // 60_000_000
        stream = chosen(lambda at, noise=noise: noise[at.cases * 12 + at.positions])
        made.append(run_step(LAPLACE, params, log, drawing_from(stream), YEAR))
    assert made[0].events[TIMESTAMP].equals(made[1].events[TIMESTAMP])
