"""Statistical audits of each Gaussian answer that mechanisms ask for, one row an answer, with
broken counterparts that must fail.

What one case adds to an answer is seen best where all of it falls on cells that nobody else has: a
case that takes one step, or has one gap, over and over; a value that nobody else has; a gradient
that is as long as the clip allows, in every step. Along the direction in which a unit moves the
answer (Neyman and Pearson's ratio) the noise of all cells is that of one. Each answer has a claim
of its own, what its noise is charged for; half of a Gaussian noise shows best at a large delta,
where epsilon is close to 0 (a few thousand runs a side; at the delta of a release it needs
millions). Draws are seeded: what is found is found in every run.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache, partial

import numpy as np
import polars as pl
import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.arrays import Floats
from cloakwork.base.costs import Cost, PrivacyEvent
from cloakwork.base.facts import UNIX_EPOCH, Facts, Unit, Window
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.engines.measured import measured_cases
from cloakwork.evaluation.dp_audit import AuditResult, HalfLine, empirical_epsilon
from cloakwork.kernel import Cases, Clip, Column, Columns, Gaussian, vector_event, vectors_of
from cloakwork.kernel.perturb import Grid
from cloakwork.mechanisms.aggregates import CaseRows
from cloakwork.mechanisms.attributes import contributions
from cloakwork.mechanisms.attributes.contributions import TableLayout, tables_of
from cloakwork.mechanisms.attributes.tables import GradientStep
from cloakwork.mechanisms.base import Offer, PartOfGoal
from cloakwork.mechanisms.registry import catalogue
from cloakwork.mechanisms.timestamps import tables
from cloakwork.mechanisms.timestamps.bins import HOUR, Clock, LogBins
from cloakwork.mechanisms.timestamps.regression import (
    DurationRegression,
    GapRegression,
)
from cloakwork.mechanisms.timestamps.tables import StartTable, gaps_in, hours_of, totals_in
from cloakwork.mechanisms.variants import markov as markov_params
from cloakwork.mechanisms.variants.markov import (
    MOST_CELLS,
    SPREAD,
    WHOLE,
    calibrate_markov,
    codes_after,
    lengths_by,
    nonempty,
    transitions_of,
)
from cloakwork.noise import reproducible
from cloakwork.testing.contract_logs import log_of

RUNS = 10_000


@dataclass(frozen=True, slots=True)
class Answer:
    """``sigma`` of its noise, and the ``norm`` that a case is clipped to, both in grid steps;
    ``event``: what is charged for it, for units of ``max_cases`` cases.
    """

    sigma: float
    norm: float
    event: PrivacyEvent
    max_cases: int

    def audited(self, moved: float, times: float = 1.0) -> AuditResult:
        """With ``times`` the noise, a unit that moves it so many grid steps, against its claim."""
        delta = 0.3 * self.max_cases * self.norm / self.sigma
        noise, unit = reproducible(1), moved / self.norm

        def outcomes(shift: float) -> Callable[[int], Floats]:
            drawn = Gaussian(self.sigma * times)
            return lambda runs: np.asarray((shift + drawn.draw(noise, runs)) / self.norm)

        events = [
            HalfLine(unit * share, upper) for share in (0.15, 0.5, 0.85) for upper in (True, False)
        ]
        return empirical_epsilon(
            outcomes(moved),
            outcomes(0.0),
            runs=RUNS,
            claim=cost(self.event, delta).epsilon,
            delta=delta,
            events=events,
        )


@dataclass(frozen=True, slots=True)
class Row:
    """``answer``: for units of so many cases. ``moved``: grid steps that so many cases move it, as
    the kernel counts them; ``unclipped``: one case that counts in full, where that is more.
    """

    answer: Callable[[int], Answer]
    moved: Callable[[int], float]
    unclipped: Callable[[], float] | None = None
    too_little: float = 0.5
    """A part of the noise that is found."""


def offered(
    name: str, columns: tuple[str, ...], facts: Facts, max_cases: int, *, replaced: bool = False
) -> object:
    """The parameters of a mechanism that serves ``columns`` at a mu of 1."""
    unit = Unit(attribute="case:who", max_cases=max_cases)
    part = PartOfGoal(columns, 1.0, 0.0, replaced)
    found = catalogue()[name].offer_part(part, facts.model_copy(update={"unit": unit}), {})
    assert isinstance(found, Offer), found
    return found.params


# variants/markov: six tables

STEPS = ("a",) * 2_000
"""START, 2,000 times the same activity, END: within one part in a million its whole weight is on
one cell of each table.
"""
MARKOV = ("frequent variants", "number of other cases", "lengths", "order 1", "order 2", "order 3")


@cache
def markov_sigmas(max_cases: int) -> tuple[float, ...]:
    target = Cost(epsilon=4.0, delta=1e-2)
    return calibrate_markov(target, max_cases, markov_params.SHARES, True)[0]


def markov_answer(table: int, max_cases: int) -> Answer:
    sigma, norm = markov_sigmas(max_cases)[table], markov_params.UNIT_NORM
    cells = max_cases * (MOST_CELLS if table > 2 else 1) if table != 1 else 1
    return Answer(sigma, norm, vector_event(sigma, max_cases * norm, cells), max_cases)


def markov_moved(table: int, cases: int) -> float:
    order, query, clip, cell = table - 2, nonempty, WHOLE, 0
    if order == 0:
        query, cell = lengths_by(np.array([len(STEPS)])), 1
    if order > 0:
        query, clip = transitions_of(order), SPREAD
        cell = int(codes_after([(1,) * order], 2)[0, 0])
    sums = vectors_of(Cases.of([STEPS], ("a", "b")), query, clip).sums(np.array([cases]))
    return float(sums.at(np.array([cell]))[0])


# timestamps/histogram: seven tables; timestamps/regression: two regressions

WINDOW = Window(start=UNIX_EPOCH, end=UNIX_EPOCH + timedelta(days=400))
CLOCK = Clock.of(Grid(UNIX_EPOCH, timedelta(seconds=1)))
BINS = LogBins.up_to(86_400 * 365, 32)
ONE = np.zeros((1, 1), np.int64)
QUERIES = {
    "window": StartTable.within(CLOCK, WINDOW, 40).period_query,
    "gaps": gaps_in(CLOCK, BINS, None),
    "gaps-by-activity": gaps_in(CLOCK, BINS, ONE),
    "gaps-by-pair": gaps_in(CLOCK, BINS, ONE),
    "starts": StartTable.within(CLOCK, WINDOW, 40).query,
    "hours": hours_of(CLOCK),
    "totals": totals_in(CLOCK, BINS, 1),
}
LONG, LONE = 2_000, 2
"""Events of the case that one neighbour has more: all a week apart."""


@cache
def times_answer(table: tables.TableName, max_cases: int) -> Answer:
    found = offered("timestamps/histogram", (TIMESTAMPS,), Facts(), max_cases)
    sigma = found.sigmas[table]  # type: ignore[attr-defined]
    event = tables.event_of(table, sigma, max_cases, replaced=False)
    return Answer(sigma, tables.UNIT_NORM, event, max_cases)


def times_moved(table: tables.TableName, events: int, cases: int) -> float:
    times = np.arange(events) * (7 * 24 * HOUR)
    columns = Columns({TIMESTAMPS: Column.of_times(times, np.zeros(events, np.bool_))})
    case = Cases(("a",), np.zeros(events, np.int64), np.array([0, events]), columns)
    vectors = vectors_of(case, QUERIES[table], tables.CLIPS[table])
    return cases * float(np.linalg.norm(vectors.value.astype(np.float64)))


def sums_answer(name: str, max_cases: int, *, replaced: bool = False) -> Answer:
    """All sums of gradients of a regression together, weighted by how precise they are."""
    facts = Facts(window=WINDOW)
    found = offered("timestamps/regression", (TIMESTAMPS,), facts, max_cases, replaced=replaced)
    sums = getattr(found, name)
    each = [sums.descent(place, 1.0) for place in range(len(sums.multipliers))]
    sigma = sum(one.noise.sigma**-2 for one in each) ** -0.5
    return Answer(sigma, each[0].clip, sums.event(), max_cases)


# attributes/histogram: its tables; attributes/regression: a gradient step

ATTRIBUTES = Facts(domains={"drug": ("common", "rare"), "case:ward": ("a", "b")})
WIDE = Clip("l2", 3 * contributions.UNIT_NORM, contributions.MOST_CELLS)


@cache
def attributes_answer(field: str, max_cases: int) -> Answer:
    columns = tuple(ATTRIBUTES.domains)
    params = offered("attributes/regression", columns, ATTRIBUTES, max_cases)
    if field == "sigma":
        params = offered("attributes/histogram", columns, ATTRIBUTES, max_cases)
    sigma = getattr(params, field)
    event = Gaussian(sigma).events(contributions.SPREAD, max_cases, None)[0]
    return Answer(sigma, contributions.UNIT_NORM, event, max_cases)


def attributes_moved(
    cases: int, norm: float = 0.5, clip: Clip = contributions.SPREAD, expected: float | None = None
) -> float:
    """Cases of fifty events with a value that nobody else has; ``expected``: of a gradient step,
    the share of the value that they do not have.
    """
    log = log_of([["a"] * 50] * cases)
    drug = pl.Series("drug", ["rare"] * 50 * cases, pl.String)
    ward = pl.Series("case:ward", [None] * cases, pl.String)
    log = replace(log, events=log.events.with_columns(drug), cases=log.cases.with_columns(ward))
    columns = tuple(sorted(ATTRIBUTES.domains))
    seen = measured_cases(log, CaseRows(columns), reproducible(1)).cases
    params = offered("attributes/histogram", tuple(ATTRIBUTES.domains), ATTRIBUTES, 1)
    layout = TableLayout(params.attributes, ("a",))  # type: ignore[attr-defined]
    query = tables_of(layout, norm)
    if expected is not None:
        shares = np.array([[expected, 0.0]])
        query = GradientStep(layout, (shares, shares), norm, 1.0).gradients()
    sums = vectors_of(seen, query, clip).sums(np.ones(cases, np.int64))
    return float(np.sqrt((sums.sums.astype(float) ** 2).sum()))


def sums_moved(name: str, cases: int) -> float:
    return cases * sums_answer(name, 1).norm


def sums_moved_by_other_times(name: str) -> float:
    """A case whose events were all at one time, or as far apart as can be told, where either is
    expected as often as the other: its gradient points the other way.
    """
    either = np.zeros(len(BINS))
    either[[0, -1]] = 0.5
    found = offered("timestamps/regression", (TIMESTAMPS,), Facts(window=WINDOW), 1, replaced=True)
    sums = getattr(found, name)
    descent, weights, moved = sums.descent(0, 0.1), np.zeros(sums.inputs * sums.outputs), []
    for apart in (0, 1000 * 24 * HOUR):
        times = np.arange(2) * apart
        columns = Columns({TIMESTAMPS: Column.of_times(times, np.zeros(2, np.bool_))})
        case = Cases(("a",), np.zeros(2, np.int64), np.array([0, 2]), columns)
        model: GapRegression | DurationRegression
        model = GapRegression.expecting(CLOCK, BINS, case, either)
        if name == "durations":
            model = DurationRegression.expecting(CLOCK, BINS, case, np.zeros(1, np.int64))
            model = replace(model, base=np.log(np.maximum(either, 1e-9)))
        (row,) = descent.clipped(model.gradient, weights, case).rows()
        moved.append(row.astype(np.float64))
    return float(np.linalg.norm(moved[0] - moved[1]))


ROWS = {
    **{
        f"variants/markov, {name}": Row(partial(markov_answer, table), partial(markov_moved, table))
        for table, name in enumerate(MARKOV)
    },
    **{
        f"timestamps/histogram, {table}, {events} events": Row(
            partial(times_answer, table),
            partial(times_moved, table, events),
            partial(times_moved, table, events, events - 1)
            if table.startswith("gaps") and events == LONG
            else None,
            too_little=0.4,
        )
        for table in tables.CLIPS
        for events in (LONG, LONE)
    },
    **{
        f"timestamps/regression, {name}": Row(
            partial(sums_answer, name), partial(sums_moved, name), partial(sums_moved, name, 3)
        )
        for name in ("gaps", "durations")
    },
    "attributes/histogram, all tables": Row(
        partial(attributes_answer, "sigma"),
        attributes_moved,
        partial(attributes_moved, 1, 0.3, WIDE),
    ),
    "attributes/regression, a step": Row(
        partial(attributes_answer, "step_sigma"),
        partial(attributes_moved, norm=0.3, expected=1.0),
        partial(attributes_moved, 1, 0.3, WIDE, 1.0),
    ),
}
every_answer = pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)


@every_answer
def test_each_answer_keeps_its_claim_and_half_its_noise_is_found(row: Row) -> None:
    """The counterpart halves the noise of this one; the rest of the mechanism would hide it."""
    honest = row.answer(1).audited(row.moved(1))
    assert honest.passed, honest
    assert not row.answer(1).audited(row.moved(1), row.too_little).passed


@every_answer
def test_three_cases_of_a_unit_are_covered_where_they_are_assumed(row: Row) -> None:
    """And found where one case a unit is assumed."""
    assert row.answer(3).audited(row.moved(3)).passed
    assert not row.answer(1).audited(row.moved(3)).passed


@every_answer
def test_a_case_moves_an_answer_by_the_clip_at_most(row: Row) -> None:
    """As the kernel counts it; in full it may be more, and is found."""
    norm = row.answer(1).norm
    assert 0.5 * norm < row.moved(1) <= norm
    if row.unclipped is not None:
        assert row.unclipped() > 2 * norm
        assert not row.answer(1).audited(row.unclipped()).passed


@pytest.mark.parametrize("expected", [0.0, 0.5, 1.0, 50.0])
@pytest.mark.parametrize("norm", [1e-3, 0.5])
def test_a_case_moves_a_gradient_step_by_the_clip_at_most(expected: float, norm: float) -> None:
    """Whatever the tables expect, and however small the norm that follows from them."""
    unit = contributions.UNIT_NORM
    assert 0.999 * unit < attributes_moved(1, norm, expected=expected) <= unit
    assert attributes_moved(3, norm, expected=expected) == pytest.approx(3 * unit, rel=1e-3)


@pytest.mark.parametrize("name", ["gaps", "durations"])
def test_other_times_of_a_case_are_covered_and_found_where_presence_is_charged(name: str) -> None:
    """Given the control flow a sum of gradients moves by twice the clip: more than the root of 2
    times it, as a table does. The counterpart has the parameters of one case more or less.
    """
    given, moved = sums_answer(name, 1, replaced=True), sums_moved_by_other_times(name)
    assert 1.9 * given.norm < moved <= 2 * given.norm
    honest = given.audited(moved)
    assert honest.passed, honest
    assert not sums_answer(name, 1).audited(moved).passed
