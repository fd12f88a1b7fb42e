"""The k-anonymity problem as an integer program, and HiGHS, which solves it.

Variables: ``y_j``, whether variant j is open; ``x_ij``, how much of variant i becomes j. Least
``sum_ij n_i d_ij x_ij`` where every variant goes somewhere (*assign*), only to open variants
(*link*: ``x_ij <= y_j``), and every open variant's class holds mass k (*hold*). Over variants the
class of j is j. Over prefixes it is j and the variants that begin with j: that suffices, for a
prefix node at which no kept variant ends holds at least what the kept variants below it hold.
"""

import atexit
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import highspy
import numpy as np
from numpy.typing import NDArray

from cloakwork.mechanisms.kanon.problem import Assignment, Ints, Problem

Floats = NDArray[np.float64]

WITHIN: Final = 0.99
"""Costs are whole numbers: a bound that is nearer than this proves an answer optimal."""
_WAIT: Final = 0.1
_CORNER_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Classes:
    """Which classes the mass on each variant counts for: ``of[start[j]:start[j + 1]]`` for variant
    j, as variants.

    ``start``: int64, shape (variants + 1,). The empty variant counts for none over prefixes.
    """

    start: Ints
    of: Ints

    @classmethod
    def in_scope(cls, problem: Problem) -> "Classes":
        """Itself over variants; over prefixes itself and the variants that it begins with."""
        texts = problem.texts
        if problem.scope == "variants":
            return cls(np.arange(len(texts) + 1), np.arange(len(texts)))
        chains: list[list[int]] = []
        path: list[int] = []
        for row, text in enumerate(texts):
            while path and not text.startswith(texts[path[-1]]):
                path.pop()
            if text:
                path.append(row)
            chains.append(path.copy())
        start = np.concatenate([[0], np.cumsum([len(chain) for chain in chains])]).astype(np.int64)
        return cls(start, np.array([row for chain in chains for row in chain], np.int64))

    def pairs(self, targets: Ints) -> tuple[Ints, Ints]:
        """All (position in ``targets``, class that it counts for): two int64 arrays of one shape."""
        lengths = np.diff(self.start)[targets]
        position = np.repeat(np.arange(len(targets)), lengths)
        before = np.cumsum(lengths) - lengths
        within = np.arange(len(position)) - np.repeat(before, lengths)
        return position, self.of[self.start[targets][position] + within]

    @property
    def bound_by_k(self) -> NDArray[np.bool_]:
        """Which variants are a class: all, but for the empty one over prefixes."""
        counts = np.zeros(len(self.start) - 1, bool)
        counts[self.of] = True
        return counts


@dataclass(frozen=True, slots=True)
class Outcome:
    """What HiGHS found.

    ``assignment``: its best answer, None where it found none. ``bound``: no answer within the given
    columns costs less, by HiGHS's tolerance; minus infinity where it proved nothing. ``ended``:
    whether it came to its end in time.
    """

    assignment: Assignment | None
    bound: float
    ended: bool


class Program:
    """The integer program over some columns: which variant may become which.

    ``source``, ``target``: int64, shape (columns,); no pair twice; every variant is a source of at
    least one, but for those of ``fixed``, which stay on their targets whatever happens: part of an
    answer that holds all their cases. ``parts``: the cases of a variant may part; one case is then
    the unit of ``x``, which needs no integrality of its own: with ``y`` fixed the program is a flow
    through two laminar families, whose corners are whole numbers.
    """

    def __init__(
        self,
        problem: Problem,
        classes: Classes,
        source: Ints,
        target: Ints,
        *,
        parts: bool,
        fixed: Assignment | None = None,
    ) -> None:
        none = np.zeros(0, np.int64)
        self.problem, self.source, self.target, self.parts = problem, source, target, parts
        self.fixed = Assignment(none, none, none) if fixed is None else fixed
        self.movers = np.unique(source)
        self.opened = np.union1d(target, self.fixed.target)
        self._lp = self._model(classes)

    def solve(
        self,
        seconds: float,
        hint: Assignment | None = None,
        hear: Callable[[float], None] | None = None,
        *,
        within: int | None = None,
    ) -> Outcome:
        """The least answer, within ``seconds``; ``hear`` is told improved lower bounds. Ctrl-C ends
        it at once.

        ``hint``: an answer to begin with; pairs of it that are no columns make it useless, not
        wrong. ``within``: only answers that open or close so many variants beside ``hint``; the
        outcome's bound is one for these alone.
        """
        highs = _quiet_highs(seconds)
        highs.passModel(self._lp)
        if hint is not None and within is not None:
            open_ = np.isin(self.opened, hint.target)
            every = np.arange(len(open_), dtype=np.int32)
            highs.addRow(
                -np.inf, float(within - open_.sum()), len(open_), every, np.where(open_, -1.0, 1.0)
            )
        if hint is not None and (values := self._values(hint)) is not None:
            start = highspy.HighsSolution()
            start.col_value = values
            highs.setSolution(start)
        _run(highs, hear)
        ended = highs.getModelStatus() in (
            highspy.HighsModelStatus.kOptimal,
            highspy.HighsModelStatus.kInfeasible,
        )
        info = highs.getInfo()
        if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            return Outcome(None, np.inf if ended else info.mip_dual_bound, ended)
        values = np.array(highs.getSolution().col_value)
        found = (
            self._corner(values[: len(self.opened)])
            if self.parts
            else self._moved(values[len(self.opened) :])
        )
        return Outcome(found, info.mip_dual_bound, ended)

    def _corner(self, open_: Floats) -> Assignment | None:
        """The least answer in parts that opens these variants: a linear program, solved at a
        corner.
        """
        highs = _quiet_highs(_CORNER_SECONDS)
        highs.setOptionValue("solver", "simplex")
        highs.passModel(self._lp)
        count = len(self.opened)
        fixed = np.round(open_)
        highs.changeColsBounds(count, np.arange(count, dtype=np.int32), fixed, fixed)
        highs.changeColsIntegrality(
            count,
            np.arange(count, dtype=np.int32),
            np.full(count, int(highspy.HighsVarType.kContinuous), np.uint8),
        )
        _run(highs, None)
        if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        return self._moved(np.array(highs.getSolution().col_value)[count:])

    def _moved(self, values: Floats) -> Assignment | None:
        """The answer that column values stand for, rounded; None where rounding loses or adds a
        case.
        """
        amount = np.round(values).astype(np.int64)
        if not self.parts:
            amount *= self.problem.cases[self.source]
        used = amount > 0
        both = (
            (self.fixed.source, self.source[used]),
            (self.fixed.target, self.target[used]),
            (self.fixed.cases, amount[used]),
        )
        found = Assignment(*(np.concatenate(column) for column in both))
        sums = np.bincount(found.source, found.cases, len(self.problem.texts))
        return found if np.array_equal(sums, self.problem.cases) else None

    def _values(self, hint: Assignment) -> Floats | None:
        width = len(self.problem.texts)
        moving = np.isin(hint.source, self.movers)
        columns, asked = (
            self.source * width + self.target,
            (hint.source * width + hint.target)[moving],
        )
        order = np.argsort(columns)
        place = order[np.minimum(np.searchsorted(columns, asked, sorter=order), len(order) - 1)]
        if not np.array_equal(columns[place], asked):
            return None
        values = np.zeros(len(self.opened) + len(columns))
        values[np.searchsorted(self.opened, hint.target)] = 1
        values[len(self.opened) + place] = hint.cases[moving] if self.parts else 1
        return values

    def _held_by_fixed(self, classes: Classes) -> Floats:
        """The mass in each variant's class that stays there."""
        fixed, mass = self.fixed, np.zeros(len(self.problem.texts))
        counted, of = classes.pairs(fixed.target)
        np.add.at(
            mass, of, (fixed.cases if self.parts else self.problem.mass[fixed.source])[counted]
        )
        return mass

    def _model(self, classes: Classes) -> Any:
        """Columns: y, then x. Rows: assign, one a variant; link, one a column x; hold, one a class."""
        problem, source, target = self.problem, self.source, self.target
        count, opened, moves = len(self.movers), len(self.opened), len(source)
        y, x = np.searchsorted(self.opened, target), opened + np.arange(moves)
        most = problem.cases[source] if self.parts else np.ones(moves)
        counted, of = classes.pairs(target)
        held = np.full(len(problem.texts), -1)
        held[self.opened] = np.arange(opened)
        counted, of = counted[held[of] >= 0], held[of][held[of] >= 0]
        weight = np.ones(moves) if self.parts else problem.mass[source]
        classed = np.flatnonzero(classes.bound_by_k[self.opened])
        link, hold = count + np.arange(moves), count + moves
        entries = (
            (np.searchsorted(self.movers, source), x, np.ones(moves)),
            (link, x, np.ones(moves)),
            (link, y, -most),
            (hold + of, opened + counted, weight[counted]),
            (hold + classed, classed, np.full(len(classed), -problem.k)),
        )
        rows, columns, values = (np.concatenate(part) for part in zip(*entries, strict=True))
        distance = problem.distances.matrix[source, target].astype(np.float64)
        price = distance if self.parts else distance * problem.cases[source]
        whole = problem.cases[self.movers].astype(np.float64) if self.parts else np.ones(count)
        there = self._held_by_fixed(classes)[self.opened]
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = opened + moves, hold + opened
        lp.col_cost_ = np.concatenate([np.zeros(opened), price])
        lp.col_lower_ = np.concatenate(
            [np.isin(self.opened, self.fixed.target).astype(np.float64), np.zeros(moves)]
        )
        lp.col_upper_ = np.concatenate([np.ones(opened), most])
        lp.row_lower_ = np.concatenate([whole, np.full(moves, -np.inf), -there])
        lp.row_upper_ = np.concatenate([whole, np.zeros(moves), np.full(opened, np.inf)])
        order = np.lexsort((rows, columns))
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_ = np.searchsorted(columns[order], np.arange(opened + moves + 1)).astype(
            np.int32
        )
        lp.a_matrix_.index_ = rows[order].astype(np.int32)
        lp.a_matrix_.value_ = values[order].astype(np.float64)
        kind = highspy.HighsVarType
        x_kind = kind.kContinuous if self.parts else kind.kInteger
        lp.integrality_ = [kind.kInteger] * opened + [x_kind] * moves
        return lp


def _quiet_highs(seconds: float) -> Any:
    highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    highs.setOptionValue("random_seed", 0)
    highs.setOptionValue("mip_rel_gap", 0.0)
    highs.setOptionValue("mip_abs_gap", WITHIN)
    highs.setOptionValue("time_limit", max(seconds, _WAIT))
    return highs


def _run(highs: Any, hear: Callable[[float], None] | None) -> None:
    """Solve in a thread of its own, so that Ctrl-C reaches Python, stops HiGHS and goes on to the
    caller.
    """
    highs.HandleUserInterrupt = True
    latest = [-np.inf]
    if hear is not None:
        highs.cbMipLogging.subscribe(
            lambda event: latest.__setitem__(0, event.data_out.mip_dual_bound)
        )
    thread, told = highs.startSolve(), -np.inf
    try:
        while not highs.wait(_WAIT)[0]:
            if hear is not None and latest[0] > told:
                told = latest[0]
                hear(told)
    except BaseException:
        highs.cancelSolve()
        atexit.register(
            thread.join
        )  # HiGHS looks up within seconds; only the end of the process waits for it
        raise
    thread.join()
