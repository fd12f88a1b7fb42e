"""Times drawn from noisy tables: distributions, many draws at once, totals, and hours."""

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloakwork.base.facts import UNIX_EPOCH
from cloakwork.kernel import Randomness
from cloakwork.kernel.perturb import Grid
from cloakwork.mechanisms.timestamps import drawing
from cloakwork.mechanisms.timestamps.bins import Clock, LogBins
from cloakwork.mechanisms.timestamps.drawing import (
    LONGER,
    ManyDraws,
    at_usual_hours,
    distributions,
    last_that_stands_out,
    meet_totals,
    usual_week,
    with_sums,
    without_noise,
)
from cloakwork.mechanisms.timestamps.regression import ALIKE, durations_by_rank
from cloakwork.noise import reproducible

FLAT = np.full((1, 4), 0.25)


def test_without_noise_the_histogram_comes_out():
    cells = np.array([[10.0, 0, 20, 30, 5, 0, 35]])
    found = distributions(cells, 1e-6, cells.sum(axis=1))
    assert found == pytest.approx(cells / 100, abs=1e-6)
    flat = np.full((1, 7), 1 / 7)
    found = distributions(cells, 1e-6, cells.sum(axis=1), flat)
    assert found == pytest.approx(cells / 100, abs=1e-6)


def test_what_stands_out_ends_where_noise_begins():
    """Also where many bins stand out together and none by itself."""
    noise = np.random.default_rng(0).normal(size=64)
    found = [0.0] * 64
    found[20] = 8.0
    assert last_that_stands_out(noise + found, 1.0) == 20
    found[30:46] = [2.0] * 16
    assert 20 < last_that_stands_out(noise + found, 1.0) <= 45
    assert last_that_stands_out(noise, 1.0) == 63


def test_in_noise_alone_what_is_expected_comes_out():
    expected = np.array([[0.1, 0.2, 0.3, 0.4]])
    found = distributions(np.zeros((1, 4)), 1e6, np.ones(1), expected)
    assert found == pytest.approx(expected, abs=1e-3)
    assert distributions(np.zeros((1, 4)), 1e6, np.ones(1)) == pytest.approx(FLAT, abs=1e-3)


def test_where_nothing_is_expected_nothing_is_found():
    expected = np.array([[0.5, 0.5, 0.0, 0.0]])
    found = distributions(np.array([[5.0, 5, 900, 900]]), 1.0, np.array([1810.0]), expected)
    assert found[0, 2:].sum() == 0


def test_a_tail_of_noise_is_empty():
    """Of 1,000 cases in two bins, noise of 5 in the other 30 leaves next to nothing in the tail."""
    rng = np.random.default_rng(2)
    tails = []
    for _ in range(200):
        noisy = rng.normal(0, 5, (1, 32))
        noisy[0, :2] += 500
        tails.append(distributions(noisy, 5.0, np.array([1000.0]))[0, 16:].sum())
    assert np.mean(tails) < 0.005


@given(
    st.integers(1, 40).flatmap(
        lambda bins: st.lists(
            st.lists(st.floats(-1e9, 1e9), min_size=bins, max_size=bins), min_size=0, max_size=4
        ).map(lambda rows: np.array(rows).reshape(-1, bins))
    ),
    st.floats(1e-3, 1e9),
    st.floats(0, 1e6),
)
def test_whatever_the_answers_are_distributions_come_out(noisy, sigma, mass):
    found = distributions(noisy, sigma, np.full(len(noisy), mass))
    assert found.shape == noisy.shape
    assert (found >= 0).all()
    assert found.sum(axis=1) == pytest.approx(np.ones(len(noisy)))


SECONDS = Clock.of(Grid(UNIX_EPOCH, timedelta(seconds=1)))
HOUR, DAY, WEEK = 3_600, 86_400, 7 * 86_400
MONDAY = 4 * DAY
"""1970-01-05, 0:00."""


def draws(seed=1):
    return ManyDraws(Randomness(reproducible(seed)))


def test_draws_follow_their_distributions_closely():
    """Each n-th of a distribution is drawn once of n draws: shares are off by two draws at most."""
    shapes = np.array([[0.5, 0.0, 0.5], [0.1, 0.2, 0.7]])
    group = np.array([0, 1] * 500)
    place = draws().places(shapes, group)
    for row in range(2):
        share = np.bincount(place[group == row], minlength=3) / 500
        assert np.abs(share - shapes[row]).max() <= 2 / 500
    # In random order: the first half is like the second.
    assert abs(place[:500].mean() - place[500:].mean()) < 0.3
    assert draws().places(shapes, group[:0]).tolist() == []


def test_totals_are_met_by_gaps_that_change_places(monkeypatch):
    """Gaps of each pair stay those that were drawn, as nearly as totals allow."""
    rng = np.random.default_rng(4)
    case, pair = np.repeat(np.arange(2000), 3), np.tile([0, 1, 2], 2000)
    usual = 10 ** rng.uniform(1, 5, 2000)
    gaps = np.rint(rng.permuted(usual)[case] * 10 ** rng.normal(0, 0.2, 6000)).astype(np.int64)
    gaps = rng.permuted(gaps.reshape(-1, 3), axis=0).ravel()
    totals = np.rint(3 * usual).astype(np.int64)
    group = np.arange(2000) % 2
    met = meet_totals(gaps, pair, case, totals, group, draws())
    monkeypatch.setattr(drawing, "TURNS", 0)
    scaled = meet_totals(gaps, pair, case, totals, group, draws())
    sums = np.bincount(case, weights=met)
    for each in range(2):
        mine = group == each
        ratio = np.sort(sums[mine]) / np.sort(totals[mine])
        assert 0.9 < ratio.min() <= ratio.max() < 1.1
    assert distance(gaps, met, pair) < 0.5 * distance(gaps, scaled, pair)


def test_the_longest_gaps_alone_make_up_for_a_sum():
    gaps = np.array([1, 5, 60, 2, 80, 90, 7])
    case = np.array([0, 0, 0, 1, 1, 1, 2])
    found = with_sums(gaps, case, np.array([166.0, 102, 0]))
    assert found.tolist() == [1, 5, 160, 2, 50, 50, 0]


@given(st.lists(st.lists(st.integers(0, 10**6), min_size=1, max_size=5), min_size=1, max_size=5))
def test_whatever_the_gaps_sums_are_met_and_the_shortest_stay(cases):
    rng = np.random.default_rng(len(cases))
    gaps = np.array([gap for each in cases for gap in each])
    case = np.repeat(np.arange(len(cases)), [len(each) for each in cases])
    sums = np.bincount(case, gaps) * rng.uniform(0, 3, len(cases))
    found = with_sums(gaps, case, sums)
    assert np.bincount(case, found) == pytest.approx(sums, rel=1e-6, abs=1e-3)
    assert (found >= 0).all()
    # All that changes is as long as the longest that is left.
    longest = np.full(len(cases), 0.0)
    np.maximum.at(longest, case, found)
    changed = np.abs(found - gaps) > 1e-6
    assert found[changed] == pytest.approx(longest[case][changed], rel=1e-6, abs=1e-3)


def distance(one, other, pair):
    """Between the gaps of each pair, on the log scale."""
    return sum(
        np.abs(np.sort(np.log1p(one[pair == each])) - np.sort(np.log1p(other[pair == each]))).mean()
        for each in range(3)
    )


def week_of(rng, days, of_day, cases=4000):
    """Cases of four events over a year that start in the working week, gaps of minutes to days; and
    where in the week the events of another such log lie.
    """
    start = MONDAY + WEEK * rng.integers(0, 50, cases) + DAY * rng.integers(0, 5, cases)
    starts = start + HOUR * rng.integers(9, 17, cases)
    gaps = np.rint(10 ** rng.uniform(2, 5.5, 3 * cases)).astype(np.int64)
    weights = np.zeros((7, 24))
    weights[days, of_day] = 1
    return starts, gaps, np.full(cases, 4), weights.ravel() / weights.sum()


def slots_off(steps, weights):
    found = np.bincount(SECONDS.slot(steps), minlength=168) / len(steps)
    return np.abs(found - weights).sum() / 2


def working_week():
    """Events by day and hour: mornings from Monday to Friday, evenings at weekends."""
    of_day = np.exp(-((np.arange(24) - np.array([[9], [20]])) ** 2) / 8)
    return np.outer([1, 1.2, 1, 0.9, 0.8, 0, 0], of_day[0]) + np.outer(
        [0] * 5 + [0.3, 0.2], of_day[1]
    )


@pytest.mark.parametrize("size", [3e4, 3e3, 300])
def test_a_week_is_found_under_noise(size):
    """Nearer than the noisy slots are; and, while noise lets it show, with weekends of their own,
    which days and hours by themselves cannot tell.
    """
    week = working_week() / working_week().sum() * size
    rng = np.random.default_rng(3)
    off = []
    for _ in range(9):
        answers = [
            each + rng.normal(0, 5, each.shape) for each in (week.sum(1), week.sum(0), week.ravel())
        ]
        found = usual_week(*answers, np.full(3, 5.0))
        raw = np.maximum(answers[2], 0)
        alone = np.outer(week.sum(1), week.sum(0)).ravel() / size
        off.append(
            [np.abs(each / each.sum() - week.ravel() / size).sum() for each in (found, raw, alone)]
        )
    found, raw, alone = np.median(off, axis=0)
    assert found < 0.5 * raw
    assert (found < alone) == (size > 300)


@pytest.mark.parametrize("hours", [1, 24])
def test_a_week_without_noise_comes_out(hours):
    week = np.random.default_rng(5).integers(0, 90, (7, hours)).astype(np.float64)
    found = usual_week(week.sum(axis=1), week.sum(axis=0), week.ravel(), np.full(3, 1e-3))
    assert found == pytest.approx(week.ravel(), abs=0.1)
    assert (
        usual_week(np.zeros(7), np.zeros(hours), np.zeros(7 * hours), np.full(3, 9.0)) > 0
    ).all()


def test_noise_alone_is_even():
    found = without_noise(100 + np.random.default_rng(1).normal(0, 5, 24), 5.0)
    assert np.ptp(found) < 5


def test_events_get_to_usual_hours_while_starts_stay_and_gaps_about(monkeypatch):
    working = slice(0, 5), slice(8, 20)
    starts, gaps, lengths, weights = week_of(np.random.default_rng(6), *working)
    moved = at_usual_hours(starts, gaps, lengths, weights, SECONDS, draws()).reshape(-1, 4)
    assert sorted(moved[:, 0]) == sorted(starts)
    found = np.diff(moved, axis=1).ravel()
    assert (np.abs(found - gaps) <= LONGER * gaps + 1).all()
    monkeypatch.setattr(drawing, "TURNS_OF_WEEK", 0)
    as_drawn = at_usual_hours(starts, gaps, lengths, weights, SECONDS, draws())
    assert (np.diff(as_drawn.reshape(-1, 4), axis=1).ravel() == gaps).all()
    assert slots_off(moved.ravel(), weights) < 0.4 * slots_off(as_drawn, weights)


def test_cases_change_starts_where_gaps_leave_no_choice():
    """Of two events each, in pairs a night apart, and by day: the gaps say who starts when."""
    rng = np.random.default_rng(7)
    days = MONDAY + DAY * rng.integers(0, 700, 2000)
    starts = days + HOUR * np.repeat([8, 20], 1000)
    gaps = rng.permutation(np.repeat([0, 12 * 3600], 1000))
    weights = np.zeros((7, 24))
    weights[:, 8] = 3
    weights[:, 20] = 1
    moved = at_usual_hours(
        starts,
        gaps,
        np.full(2000, 2),
        weights.ravel() / weights.sum(),
        SECONDS,
        draws(),
    ).reshape(-1, 2)
    assert sorted(moved[:, 0]) == sorted(starts)
    begins = SECONDS.slot(moved[:, 0]) % 24
    assert ((begins == 20) == (moved[:, 1] - moved[:, 0] > 6 * 3600)).mean() > 0.9


@pytest.mark.parametrize("lengths", [[1], [1, 1, 1], [3], [2, 1]])
def test_few_events_have_times_at_any_hours(lengths):
    lengths = np.array(lengths)
    gaps = np.full(lengths.sum() - len(lengths), 5)
    weights = np.full(168, 1 / 168)
    starts = np.arange(len(lengths)) * 86_400
    moved = at_usual_hours(starts, gaps, lengths, weights, SECONDS, draws())
    assert len(moved) == lengths.sum()
    firsts = np.cumsum(lengths) - lengths
    assert sorted(moved[firsts]) == sorted(starts)


RANKED = LogBins.up_to(1_000_000, 16)


def drawn_by_rank(shape, place, seed=1):
    durations = durations_by_rank(shape, place, RANKED, ManyDraws(Randomness(reproducible(seed))))
    return durations, RANKED.place(durations)


def test_what_is_drawn_follows_the_distributions():
    """Closely: quantiles lie evenly in each group of cases."""
    shape = np.tile(np.linspace(1, 3, 16) / np.linspace(1, 3, 16).sum(), (1600, 1))
    _, bins = drawn_by_rank(shape, np.zeros(1600, np.int64))
    counts = np.bincount(bins, minlength=16)
    assert np.abs(counts - 1600 * shape[0]).max() <= ALIKE


def test_longer_sums_of_gaps_get_longer_durations():
    """Among cases that are expected to take alike."""
    shape = np.full((800, 16), 1 / 16)
    place = np.repeat([3, 12], 400)
    durations, _ = drawn_by_rank(shape, place)
    order = np.argsort(np.argsort(durations))
    assert order[place == 12].mean() > order[place == 3].mean() + 200


def test_a_distribution_without_choice_is_kept_whatever_the_gaps():
    """Of one bin alone, and for a single case."""
    for size in (1, 3, 50):
        shape = np.zeros((size, 16))
        shape[:, 5] = 1
        _, bins = drawn_by_rank(shape, np.arange(size) % 16)
        assert set(bins.tolist()) == {5}
