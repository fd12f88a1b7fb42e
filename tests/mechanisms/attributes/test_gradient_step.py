"""A gradient step from noisy tables: what a case counts for, and what the answer corrects."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from cloakwork.base.arrays import Floats
from cloakwork.engines.measured import measured_cases
from cloakwork.kernel import Books, Cases, Gaussian, Kernel, NoisySums, vectors_of
from cloakwork.kernel.kernel import Measured
from cloakwork.kernel.vectors import Sums
from cloakwork.mechanisms.aggregates import CaseRows
from cloakwork.mechanisms.attributes.contributions import (
    SIDE_WEIGHT,
    SPREAD,
    UNIT_NORM,
    TableLayout,
)
from cloakwork.mechanisms.attributes.domains import MeasuredAttribute
from cloakwork.mechanisms.attributes.tables import (
    AROUND,
    CENTRED,
    LEAST_NORM,
    Counted,
    GradientStep,
    NoisyTables,
    ValueShares,
)
from cloakwork.noise import reproducible
from cloakwork.testing.contract_logs import log_of

ROLE = MeasuredAttribute(name="role", domain=("x", "y"))
AGE = MeasuredAttribute(name="case:age", domain=(1, 2, 3))
LAYOUT = TableLayout((ROLE, AGE), ("a", "b"))
SOURCE = reproducible(3)
FINE = 1024.0
"""The deviation of noise that is a thousandth of a case."""


def measured(rows: list[tuple[list[tuple[str, str | None]], int | None]]) -> Measured:
    """Cases of events (label, role), with an age each."""
    log = log_of([[label for label, _ in events] for events, _ in rows])
    role = pl.Series("role", [role for events, _ in rows for _, role in events], pl.String)
    age = pl.Series("case:age", [age for _, age in rows], pl.Int64)
    log = replace(log, events=log.events.with_columns(role), cases=log.cases.with_columns(age))
    return measured_cases(log, CaseRows(("case:age", "role")), reproducible(1))


ROWS = [
    ([("a", "x"), ("a", "y"), ("b", None)], 1),
    ([("a", "x")], 3),
    ([("b", "y"), ("other", "x")], None),
]


def expected(role: list[list[float]], age: list[float]) -> tuple[Floats, ...]:
    """What tables expect of each value: of roles at a and at b, and of ages."""
    return np.array(role), np.array([age])


def gradients(step: GradientStep, cases: Cases) -> Floats:
    """Shape (cases, keys), in cases."""
    vectors = vectors_of(cases, step.gradients(), SPREAD)
    found = np.zeros((len(cases), LAYOUT.follows(0)))
    for row in range(len(cases)):
        only = np.zeros(len(cases), np.int64)
        only[row] = 1
        sums = vectors.sums(only)
        assert isinstance(sums.keys, np.ndarray)
        found[row, sums.keys] = sums.sums * step.norm / UNIT_NORM
    return found


def test_a_gradient_is_what_a_case_has_less_what_is_expected_of_it() -> None:
    """At each activity that it has; nothing is expected at others, nor of other labels."""
    step = GradientStep(LAYOUT, expected([[0.75, 0.25], [0.0, 0.5]], [0.5, 0.0, 0.5]), 8.0, 1.0)
    found = gradients(step, measured(ROWS).cases)
    role, age = LAYOUT.values(0), LAYOUT.values(1)
    weights = LAYOUT.weight(0), LAYOUT.weight(1)
    exact = np.zeros_like(found)
    # Of two events of an activity each counts for 1 over the root of 2.
    root = np.sqrt(2)
    twice = [(0.5 - 0.75) * root, (0.5 - 0.25) * root, 0, -0.5]
    exact[0, role : role + 4] = np.array(twice) * weights[0]
    exact[1, role : role + 4] = np.array([1 - 0.75, -0.25, 0, 0]) * weights[0]
    exact[2, role : role + 4] = np.array([0, 0, 0, 1 - 0.5]) * weights[0]
    exact[:, age : age + 3] = np.array([[0.5, 0, -0.5], [-0.5, 0, 0.5], [-0.5, 0, -0.5]])
    exact[:, age : age + 3] *= weights[1]
    # The first and the last case change their role.
    exact[[0, 2], 0] = SIDE_WEIGHT
    # Cases come in some order.
    same = np.abs(found[:, None] - exact[None]).max(axis=2) < 1e-4
    assert same.sum(axis=0).tolist() == same.sum(axis=1).tolist() == [1, 1, 1]


def counted(values: Floats, mass: Floats, sigma: float = 1e6) -> Counted:
    """Counts that are as good as unknown, of groups whose cases are known."""
    return Counted(values, sigma, values.sum(axis=1), sigma, mass, 1.0)


def taken(step: GradientStep, known: list[Counted]) -> list[Counted]:
    kernel = Kernel(
        measured(ROWS), Books.of(Gaussian(FINE).events(SPREAD, 1, None)[0]), reproducible(1), 1
    )
    return step.taken(kernel, known, FINE)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_step_without_noise_finds_the_counts_wherever_it_starts(share: float) -> None:
    """And the totals: as shares, values need no second step."""
    begin = expected([[share, 0.1], [0.2, share]], [share, 0.0, 0.05])
    # A case counts for the root of its events of an activity.
    root = np.sqrt(2)
    known = [
        counted(np.full((2, 2), 7.0), np.array([1 + root, 2.0])),
        counted(np.full((1, 3), 7.0), np.array([3.0])),
    ]
    roles, ages = taken(GradientStep(LAYOUT, begin, 8.0, 1.0), known)
    np.testing.assert_allclose(roles.values, [[1 + 1 / root, 1 / root], [0, 1]], atol=0.1)
    np.testing.assert_allclose(ages.values, [[1, 0, 1]], atol=0.1)
    np.testing.assert_allclose(roles.totals, [1 + root, 1], atol=0.2)
    assert roles.sigma == pytest.approx(FINE / UNIT_NORM * 8 / LAYOUT.weight(0))
    # Of three cases two change their role; nothing was known of it but noise of 1.
    assert roles.changed == pytest.approx(2, abs=0.1)
    assert roles.changed_sigma == pytest.approx(FINE / UNIT_NORM * 8 / SIDE_WEIGHT, rel=1e-3)


def test_answers_are_weighted_by_how_precise_they_are() -> None:
    """A table of the step's own noise counts for half."""
    begin = expected([[0.0, 0.0], [0.0, 0.0]], [0.0, 0.0, 0.0])
    own = FINE / UNIT_NORM * 8 / LAYOUT.weight(1)
    ages = counted(np.full((1, 3), 5.0), np.array([3.0]), own)
    roles = counted(np.zeros((2, 2)), np.array([2.0, 2.0]))
    found = taken(GradientStep(LAYOUT, begin, 8.0, 1.0), [roles, ages])[1]
    np.testing.assert_allclose(found.values, [[3, 2.5, 3]], atol=0.1)
    assert found.sigma == pytest.approx(own / np.sqrt(2))


def tables_of_masses(masses: list[int], sigma: float) -> NoisyTables:
    """Noisy tables that hold nothing but how many cases have a, have b, and are."""
    keys = LAYOUT.masses + np.arange(3)
    sums = Sums(keys, np.array(masses, np.int64) * UNIT_NORM // 2)
    answer = NoisySums(sums, Gaussian(sigma), reproducible(2))
    return NoisyTables(LAYOUT, [(answer, sigma)], 1 / UNIT_NORM)


RELEASED = Cases.of([("a", "b")] * 60 + [("a",)] * 40, ("a", "b"))


@pytest.mark.parametrize(("masses", "scale"), [([100, 60, 100], 1.0), ([50, 30, 50], 0.5)])
def test_the_scale_is_what_the_tables_count_a_case_for(masses: list[int], scale: float) -> None:
    """Half a case each, where all were clipped to half."""
    shares = [
        ValueShares(np.ones(2), np.full((2, 2), 0.5)),
        ValueShares(np.ones(1), np.array([[1.0, 0, 0]])),
    ]
    step = GradientStep.starting_at(shares, tables_of_masses(masses, FINE), RELEASED, 1e9)
    # Half of the squares of both halves, at each of two activities.
    norms = LAYOUT.weight(0) * np.sqrt(np.repeat([2 * 0.5, 0.5], [60, 40]))
    norms = np.maximum(np.outer(AROUND, norms), LEAST_NORM)
    # No clip below 1 is looked for; here no gradient is that long.
    assert step.norm == pytest.approx(norms.max())
    assert step.scale == pytest.approx(scale, rel=0.02)


def test_where_noise_is_much_half_of_the_gradients_are_clipped() -> None:
    """And no more than that; the scale makes up for what is clipped away."""
    codes = MeasuredAttribute(name="role", domain=tuple(range(400)))
    layout, norms = TableLayout((codes,), ("a", "b")), np.repeat([2.0, 1.0], [60, 40]) ** 0.5
    norms = np.outer(AROUND, norms * layout.weight(0))
    keys = layout.masses + np.arange(3)
    sums = Sums(keys, np.array([100, 60, 100], np.int64) * UNIT_NORM // 2)
    tables = NoisyTables(layout, [(NoisySums(sums, Gaussian(FINE), SOURCE), FINE)], 1 / UNIT_NORM)
    even = [ValueShares(np.ones(2), np.full((2, 400), 1 / 400))]
    step = GradientStep.starting_at(even, tables, RELEASED, 1e9)
    assert step.norm == pytest.approx(np.median(norms))
    left = np.minimum(1, step.norm / norms).mean()
    assert step.scale == pytest.approx(1 / left, rel=0.02)


@pytest.mark.parametrize(
    ("present", "masses", "sigma", "norm"),
    [(1.0, [100, 60, 100], FINE, AROUND[-1] * LAYOUT.weight(0)), (0.0, [0, 0, 0], 1e9, LEAST_NORM)],
)
def test_little_noise_clips_no_gradient_and_much_lets_all_cases_count_for_one(
    present: float, masses: list[int], sigma: float, norm: float
) -> None:
    """A clip is no smaller than LEAST_NORM, though nothing is expected to differ."""
    roles = ValueShares(np.full(2, present), np.full((2, 2), 0.5))
    ages = ValueShares(np.ones(1), np.array([[1.0, 0, 0]]))
    tables = tables_of_masses(masses, sigma)
    step = GradientStep.starting_at([roles, ages], tables, RELEASED, sigma)
    assert step.norm == pytest.approx(norm)
    assert step.scale == pytest.approx(1.0, rel=0.02)


def test_small_shares_are_not_taken_off() -> None:
    """A case has as many keys as there are usual values, however many values there are."""
    code = MeasuredAttribute(name="role", domain=tuple(range(1000)))
    layout = TableLayout((code,), ("a", "b"))
    even = np.full((2, 1000), 0.1 / 998)
    even[:, :2] = 0.45
    none = NoisySums(Sums(np.zeros(0, np.int64), np.zeros(0, np.int64)), Gaussian(FINE), SOURCE)
    tables = NoisyTables(layout, [(none, FINE)], 1e-6)
    step = GradientStep.starting_at([ValueShares(np.ones(2), even)], tables, RELEASED, FINE)
    assert (step.expected[0] > 0).sum() == 4
    assert step.expected[0].max() == pytest.approx(0.45)
    assert even[0, 5] < CENTRED


def test_no_released_case_is_no_failure() -> None:
    """Nor is a layout without activities."""
    layout = TableLayout((ROLE,), ())
    shares = [ValueShares(np.zeros(0), np.zeros((0, 2)))]
    none = Cases.of([], ())
    sums = NoisySums(Sums(np.zeros(0, np.int64), np.zeros(0, np.int64)), Gaussian(FINE), SOURCE)
    tables = NoisyTables(layout, [(sums, FINE)], 1e-6)
    step = GradientStep.starting_at(shares, tables, none, FINE)
    assert step.norm == LEAST_NORM
    # What is left to count is how often roles change.
    assert set(step.gradients()(measured(ROWS).cases).code.tolist()) == {0}
