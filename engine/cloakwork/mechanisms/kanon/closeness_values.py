"""Values of one attribute moved between classes, or randomised, until every class may show its own.

The values of each activity are taken by themselves; what is done with them is in ``value_exchange``
and ``randomise``.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.base.errors import Infeasible
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.base.progress import say
from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.kanon.attribute_values import (
    AttributeValues,
    CycleTimeGrid,
    attribute_values_of,
    with_values,
)
from cloakwork.mechanisms.kanon.closeness_params import NAME, ClosenessParams
from cloakwork.mechanisms.kanon.randomise import Randomiser, epsilon_for, randomiser_of
from cloakwork.mechanisms.kanon.value_exchange import (
    ROUNDING,
    ClassGoal,
    Groups,
    LDiversityGoal,
    TClosenessGoal,
    exchange_values,
)
from cloakwork.noise import Noise


def with_close_values(log: EventLog, params: ClosenessParams, noise: Noise) -> EventLog:
    """The log with the values of ``params.column`` that every class may show; ``log`` itself where
    it is empty and lacks the column.

    Raises ``Infeasible`` where a class holds too few values, ``MechanismError`` when the log lacks
    the attribute.
    """
    grid = None
    if params.column == TIMESTAMPS:
        grid = CycleTimeGrid(params.epoch, params.grid)
    values = attribute_values_of(
        log,
        params.column,
        params.classes,
        grid,
        missing_is_value=params.aim in ("emd", "stochastic"),
        noise=noise,
    )
    if values is None:
        return log
    if params.aim == "stochastic":
        randomiser = randomiser_of(values.distinct, params.domain, params.range, params.step)
        released = _randomised_values(values, params.bound, randomiser, noise)
        return with_values(log, params.column, values.source_rows, released, grid)
    has_value, codes = _exchanged_codes(values, params, noise)
    remaining = values.restricted_to(has_value)
    moved = int((codes != remaining.codes).sum())
    say(f"{params.column}: {moved} of {len(codes)} values changed places")
    released = values.distinct.alias("").gather(codes)
    return with_values(log, params.column, remaining.source_rows, released, grid)


def _randomised_values(
    values: AttributeValues, t: float, randomiser: Randomiser, noise: Noise
) -> pl.Series:
    """Each value randomised, activity by activity, with the epsilon that its smallest class asks
    for, counted with inserted events and without.
    """
    no_rows = np.zeros(0, np.int64)
    # An empty first piece gives the type where there is no activity at all.
    released = [randomiser(no_rows, math.inf, noise)]
    for rows in values.by_activity:
        cells = values.cells[rows]
        cells_of_kept = cells[values.kept[rows]]
        epsilon = min(_epsilon_of_cells(t, cells), _epsilon_of_cells(t, cells_of_kept))
        released.append(randomiser(values.codes[rows], epsilon, noise))
    # Row ``rows[i]`` stands at place i of the pieces; sorting the rows turns that round.
    place_of_row = np.argsort(np.concatenate([no_rows, *values.by_activity]), kind="stable")
    return pl.concat(released).gather(place_of_row)


def _epsilon_of_cells(t: float, cells: Ints) -> float:
    """The epsilon for values that are in these cells."""
    sizes = np.unique(cells, return_counts=True)[1]
    return epsilon_for(t, sizes)


def _exchanged_codes(
    values: AttributeValues, params: ClosenessParams, noise: Noise
) -> tuple[Bools, Ints]:
    """Which rows keep a value, and the code that each of these then has.

    Where classes miss the goal the log is refused, or they lose their values. Without these the
    values that classes are compared with are others, so the exchange starts again from what the
    rest had.
    """
    has_value = np.ones(len(values.codes), np.bool_)
    while True:
        remaining = values.restricted_to(has_value)
        goal = _class_goal(params, remaining)
        by_activity = remaining.by_activity
        outcomes = [_exchange_in_activity(remaining, rows, goal, noise) for rows in by_activity]
        missed = np.concatenate([np.zeros(0), *(each.missed_figures for each in outcomes)])
        if not len(missed):
            codes = remaining.codes.copy()
            for rows, outcome in zip(by_activity, outcomes, strict=True):
                codes[rows] = outcome.codes
            return has_value, codes
        if params.infeasible == "refuse":
            raise Infeasible(NAME, _explain_infeasible(params, missed))
        row_of_remaining = np.flatnonzero(has_value)
        for rows, outcome in zip(by_activity, outcomes, strict=True):
            if len(outcome.missed_figures):
                lost = rows[_is_beyond_help(remaining, rows, goal)]
                has_value[row_of_remaining[lost]] = False
        left_out = int((~has_value).sum())
        say(
            f"{params.column}: {left_out} values are left out, "
            "of classes that cannot be protected otherwise"
        )


def _class_goal(params: ClosenessParams, values: AttributeValues) -> ClassGoal:
    """What the values of every class are to be like."""
    if params.aim == "emd":
        by_rank = params.scale == "rank"
        return TClosenessGoal(params.bound, values.positions(), by_rank, values.missing_code)
    return LDiversityGoal(params.bound, "distinct" if params.aim == "distinct" else "entropy")


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What moving one activity's values came to.

    - ``codes``: int64, shape (rows,); the values afterwards.
    - ``misses``: bool, shape (rows,); which stand in classes that miss the goal.
    - ``missed_figures``: float64; the figures of the groups that miss it.
    """

    codes: Ints
    misses: Bools
    missed_figures: Floats


@dataclass(frozen=True, slots=True)
class _ValuesOfActivity:
    """The values of one activity as the exchange takes them: codes and cells without gaps.

    - ``distinct``: int64, shape (codes,); what each code stands for among all values.
    - ``codes``, ``cells``: int64, shape (rows,).
    - ``groups``: those that must meet ``goal``.
    """

    distinct: Ints
    codes: Ints
    cells: Ints
    groups: Sequence[Groups]
    goal: ClassGoal

    @classmethod
    def at_rows(cls, values: AttributeValues, rows: Ints, goal: ClassGoal) -> "_ValuesOfActivity":
        """Those at ``rows``, all of one activity."""
        distinct, codes, count = np.unique(
            values.codes[rows], return_inverse=True, return_counts=True
        )
        cells, groups = values.groups_to_check(rows)
        goal_of_activity = goal.restricted_to(distinct, count)
        return cls(distinct, codes.astype(np.int64), cells, groups, goal_of_activity)

    def outcome_of(self, moved: Ints) -> _Outcome:
        """What the codes ``moved`` come to."""
        misses = np.zeros(len(moved), np.bool_)
        missed_figures = [np.zeros(0)]
        for groups in self.groups:
            figures = self.goal.measure(moved, groups)
            is_short = self.goal.shortfall(figures) > 0
            misses[groups.member[is_short[groups.group]]] = True
            missed_figures.append(figures[is_short])
        # One that is short takes its whole cell along.
        cell_misses = np.isin(self.cells, self.cells[misses])
        return _Outcome(self.distinct[moved], cell_misses, np.concatenate(missed_figures))


def _exchange_in_activity(
    values: AttributeValues, rows: Ints, goal: ClassGoal, noise: Noise
) -> _Outcome:
    """The values at ``rows``, all of one activity, exchanged."""
    activity = _ValuesOfActivity.at_rows(values, rows, goal)
    moved = exchange_values(activity.codes, activity.cells, activity.groups, activity.goal, noise)
    return activity.outcome_of(moved)


def _is_beyond_help(values: AttributeValues, rows: Ints, goal: ClassGoal) -> Bools:
    """Which of ``rows`` stand in groups that miss the goal even where everything is redistributed,
    without those found before.

    For t it is all of them: a class without values would be as far from the others as can be.
    """
    if isinstance(goal, TClosenessGoal):
        return np.ones(len(rows), np.bool_)
    stays = np.ones(len(rows), np.bool_)
    while stays.any():
        activity = _ValuesOfActivity.at_rows(values, rows[stays], goal)
        spread = activity.goal.redistribute_all(activity.codes, activity.cells)
        outcome = activity.outcome_of(spread)
        if not len(outcome.missed_figures):
            break
        stays[np.flatnonzero(stays)[outcome.misses]] = False
    return ~stays


def _explain_infeasible(params: ClosenessParams, figures: Floats) -> str:
    """What cannot be had, and what can: the worst of the ``figures`` that redistributing everything
    came to.
    """
    letter, reached = "l", "the largest l that the exchange reaches"
    if params.aim == "emd":
        letter, reached = "t", "the least t that the exchange reaches"
    remedies = ["a larger k"]
    if params.column != TIMESTAMPS:
        remedies.append("infeasible: suppress under mechanisms.parameters")
    return (
        f"{letter} = {params.bound:g} is not reached over {params.classes}: "
        f"{reached} is {_feasible_bound(params, figures):g}, since some classes hold too few "
        f"values; remedies are {', '.join(remedies)}"
    )


def _feasible_bound(params: ClosenessParams, figures: Floats) -> float:
    """The bound that the worst of ``figures`` meets, to four decimals on the safe side."""
    if params.aim == "emd":
        return math.ceil((float(figures.max()) - ROUNDING) * 1e4) / 1e4
    if params.aim == "entropy":
        return math.floor((float(figures.min()) + ROUNDING) * 1e4) / 1e4
    return float(figures.min())
