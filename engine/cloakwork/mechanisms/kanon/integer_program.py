"""The k-anonymity problem as an integer program, and HiGHS, which solves it.

Variables: ``y_j``, whether variant j is open; ``x_ij``, how much of variant i becomes j. Least
``sum_ij n_i d_ij x_ij`` where every variant goes somewhere (*assign*), only to open variants
(*link*: ``x_ij <= y_j``), and every open variant's class holds mass k (*hold*). Over variants the
class of j is j. Over prefixes it is j and the variants that begin with j: that suffices, for a
prefix node at which no kept variant ends holds at least what the kept variants below it hold.

HiGHS, the solver of linear and integer programs: silent, repeatable, and open to Ctrl-C.
"""

import atexit
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import highspy
import numpy as np
from numpy.typing import NDArray

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.mechanisms.kanon.problem import Assignment, KAnonymityProblem, longest_prefixes

ABSOLUTE_GAP: Final = 0.99
"""Costs are whole numbers: a bound that is nearer than this proves an answer optimal."""
_SECONDS_BETWEEN_LOOKS: Final = 0.1


def silent_solver(seconds: float) -> Any:
    """A solver that prints nothing, is repeatable, and stops after ``seconds``."""
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("random_seed", 0)
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.setOptionValue("mip_abs_gap", ABSOLUTE_GAP)
    solver.setOptionValue("time_limit", max(seconds, _SECONDS_BETWEEN_LOOKS))
    return solver


def has_ended(solver: Any) -> bool:
    """Whether the search was complete: an optimum, or the proof that there is no answer."""
    status = highspy.HighsModelStatus
    return solver.getModelStatus() in (status.kOptimal, status.kInfeasible)


def run_interruptible(solver: Any, on_bound: Callable[[float], None] | None) -> None:
    """Solve in a thread of its own, so that Ctrl-C reaches Python, stops HiGHS and goes on to the
    caller. ``on_bound`` is called with improved lower bounds, in the caller's thread.
    """
    solver.HandleUserInterrupt = True
    latest = [-np.inf]
    if on_bound is not None:
        # HiGHS calls this in its own thread: it only leaves the bound where the caller looks.
        solver.cbMipLogging.subscribe(
            lambda event: latest.__setitem__(0, event.data_out.mip_dual_bound)
        )
    reported = -np.inf
    thread = solver.startSolve()
    try:
        while not solver.wait(_SECONDS_BETWEEN_LOOKS)[0]:
            if on_bound is not None and latest[0] > reported:
                reported = latest[0]
                on_bound(reported)
    except BaseException:
        solver.cancelSolve()
        # HiGHS looks up within seconds; only the end of the process waits for it.
        atexit.register(thread.join)
        raise
    thread.join()


_VERTEX_SECONDS: Final = (1.0, 60.0)
"""Least and most seconds for the linear program that is left when it is decided what is open."""
_NOT_OPENED: Final = -1


@dataclass(frozen=True, slots=True)
class ScopeClasses:
    """Which classes the mass on each variant counts for: for variant j
    ``classes[start[j]:start[j + 1]]``, as variants.

    ``start``: int64, shape (variants + 1,). The empty variant counts for none over prefixes.
    """

    start: Ints
    classes: Ints

    @classmethod
    def of_problem(cls, problem: KAnonymityProblem) -> "ScopeClasses":
        """Itself over variants; over prefixes itself and the variants that it begins with."""
        texts = problem.texts
        if problem.scope == "variants":
            return cls(np.arange(len(texts) + 1), np.arange(len(texts)))
        chains: list[list[int]] = []
        # Prefixes sort before what they begin, so the chain of the longest prefix is known.
        for row, prefix in enumerate(longest_prefixes(texts)):
            chain = chains[prefix] if prefix >= 0 else []
            chains.append([*chain, row] if texts[row] else [])
        lengths = [len(chain) for chain in chains]
        start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return cls(start, np.array([row for chain in chains for row in chain], np.int64))

    def class_pairs(self, targets: Ints) -> tuple[Ints, Ints]:
        """Every (position in ``targets``, class that it counts for): two int64 arrays."""
        lengths = np.diff(self.start)[targets]
        position = np.repeat(np.arange(len(targets)), lengths)
        # The n-th entry of a target is the n-th of its slice of ``classes``.
        first_entry = np.cumsum(lengths) - lengths
        rank = np.arange(len(position)) - first_entry[position]
        return position, self.classes[self.start[targets][position] + rank]

    @property
    def must_hold_k(self) -> Bools:
        """Which variants are a class: all, but for the empty one over prefixes."""
        is_class = np.zeros(len(self.start) - 1, bool)
        is_class[self.classes] = True
        return is_class


@dataclass(frozen=True, slots=True)
class SolverResult:
    """What HiGHS found.

    ``assignment``: its best answer, None where it found none. ``bound``: no answer within the given
    columns costs less, by HiGHS's tolerance; minus infinity where it proved nothing. ``has_ended``:
    whether the search was complete in time.
    """

    assignment: Assignment | None
    bound: float
    has_ended: bool


@dataclass(frozen=True, slots=True)
class _ColumnFigures:
    """What one unit of x stands for: a case where cases may split, else all cases of a variant.

    - ``cost``, ``mass``: shape (columns,); the edits of one unit, and what it counts toward k.
    - ``most``: shape (columns,); how many units there are.
    - ``assigned``: float64, shape (movers,); how many units of each variant go somewhere.
    """

    cost: Floats
    mass: NDArray[Any]
    most: NDArray[Any]
    assigned: Floats


class KAnonymityProgram:
    """The integer program over some columns: which variant may become which.

    ``source``, ``target``: int64, shape (columns,); no pair twice; every variant is a source of at
    least one, but for those of ``fixed``, which stay on their targets whatever happens: part of an
    answer that holds all their cases. ``split_cases``: the cases of a variant may go to different
    variants; one case is then the unit of ``x``, which needs no integrality of its own: with ``y``
    fixed the program is a flow through two laminar families, whose vertices are whole numbers.
    """

    def __init__(
        self,
        problem: KAnonymityProblem,
        classes: ScopeClasses,
        source: Ints,
        target: Ints,
        *,
        split_cases: bool,
        fixed: Assignment | None = None,
    ) -> None:
        none = np.zeros(0, np.int64)
        self.problem, self.source, self.target = problem, source, target
        self.split_cases = split_cases
        self.fixed = Assignment(none, none, none) if fixed is None else fixed
        self.movers = np.unique(source)
        self.opened = np.union1d(target, self.fixed.target)
        self._model = self._build_model(classes)

    def solve(
        self,
        seconds: float,
        start: Assignment | None = None,
        on_bound: Callable[[float], None] | None = None,
        *,
        radius: int | None = None,
    ) -> SolverResult:
        """The least answer, within ``seconds``. Ctrl-C ends it at once.

        ``start``: an answer to begin with; pairs of it that are no columns make it useless, not
        wrong. ``on_bound`` is called with improved lower bounds. ``radius``: only answers that open
        or close so many variants beside ``start``; the result's bound is one for these alone.
        """
        solver = silent_solver(seconds)
        solver.passModel(self._model)
        if start is not None:
            if radius is not None:
                self._restrict_to_radius(solver, start, radius)
            self._set_start(solver, start)
        run_interruptible(solver, on_bound)
        ended = has_ended(solver)
        info = solver.getInfo()
        if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            # A complete search without an answer proves that there is none, at any cost.
            bound = np.inf if ended else info.mip_dual_bound
            return SolverResult(None, bound, ended)
        values = np.array(solver.getSolution().col_value)
        if self.split_cases:
            left = seconds - solver.getRunTime()
            found = self._linear_program_vertex(values[: len(self.opened)], left)
        else:
            found = self._assignment_from_values(values[len(self.opened) :])
        return SolverResult(found, info.mip_dual_bound, ended)

    def _restrict_to_radius(self, solver: Any, start: Assignment, radius: int) -> None:
        """Add the row: how many of start's variants close, and how many others open, is at most
        ``radius`` (local branching; Fischetti and Lodi 2003, equation 1).
        """
        # What closes counts 1 - y, what opens y: the constants go to the right side.
        is_open = np.isin(self.opened, start.target)
        columns = np.arange(len(is_open), dtype=np.int32)
        signs = np.where(is_open, -1.0, 1.0)
        solver.addRow(-np.inf, float(radius - is_open.sum()), len(is_open), columns, signs)

    def _set_start(self, solver: Any, start: Assignment) -> None:
        """Let the search begin with ``start``, where all its pairs are columns."""
        values = self._values_of_start(start)
        if values is not None:
            solution = highspy.HighsSolution()
            solution.col_value = values
            solver.setSolution(solution)

    def _linear_program_vertex(self, y: Floats, seconds: float) -> Assignment | None:
        """The least answer that opens these variants and splits cases: a linear program, solved at
        a vertex; None where ``seconds`` do not suffice.
        """
        solver = silent_solver(float(np.clip(seconds, *_VERTEX_SECONDS)))
        solver.setOptionValue("solver", "simplex")
        solver.passModel(self._model)
        count = len(self.opened)
        columns = np.arange(count, dtype=np.int32)
        decided = np.round(y)
        solver.changeColsBounds(count, columns, decided, decided)
        continuous = np.full(count, int(highspy.HighsVarType.kContinuous), np.uint8)
        solver.changeColsIntegrality(count, columns, continuous)
        run_interruptible(solver, None)
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        return self._assignment_from_values(np.array(solver.getSolution().col_value)[count:])

    def _assignment_from_values(self, x: Floats) -> Assignment | None:
        """The answer that column values stand for, rounded; None where rounding loses or adds a
        case.
        """
        # The solver gives whole numbers to within its tolerance.
        cases = np.round(x).astype(np.int64)
        if not self.split_cases:
            cases *= self.problem.cases[self.source]
        used = cases > 0
        found = Assignment(
            np.concatenate([self.fixed.source, self.source[used]]),
            np.concatenate([self.fixed.target, self.target[used]]),
            np.concatenate([self.fixed.cases, cases[used]]),
        )
        placed = np.bincount(found.source, found.cases, len(self.problem.texts))
        return found if np.array_equal(placed, self.problem.cases) else None

    def _values_of_start(self, start: Assignment) -> Floats | None:
        """The values that stand for ``start``; None where it has a pair that is no column."""
        variants = len(self.problem.texts)
        is_moving = np.isin(start.source, self.movers)
        # One number a pair, so that pairs can be searched for.
        columns = self.source * variants + self.target
        required = (start.source * variants + start.target)[is_moving]
        order = np.argsort(columns)
        rank = np.searchsorted(columns, required, sorter=order)
        # A pair beyond all columns is no column either; the comparison below tells.
        column = order[np.minimum(rank, len(order) - 1)]
        if not np.array_equal(columns[column], required):
            return None
        values = np.zeros(len(self.opened) + len(columns))
        values[np.searchsorted(self.opened, start.target)] = 1
        values[len(self.opened) + column] = start.cases[is_moving] if self.split_cases else 1
        return values

    def _fixed_mass(self, classes: ScopeClasses) -> Floats:
        """The mass in each variant's class that stays there: float64, shape (variants,)."""
        fixed = self.fixed
        mass = fixed.cases if self.split_cases else self.problem.mass[fixed.source]
        held = np.zeros(len(self.problem.texts))
        position, class_variant = classes.class_pairs(fixed.target)
        np.add.at(held, class_variant, mass[position])
        return held

    def _build_model(self, classes: ScopeClasses) -> Any:
        """The program as HiGHS takes it. Columns: y, then x. Rows: assign, one a variant; link, one
        a column x; hold, one a class.
        """
        opened, moves, movers = len(self.opened), len(self.source), len(self.movers)
        figures = self._column_figures()
        stays_open = np.isin(self.opened, self.fixed.target).astype(np.float64)
        # What stays in a class counts toward its k.
        missing = -self._fixed_mass(classes)[self.opened]

        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = opened + moves, movers + moves + opened
        model.col_cost_ = np.concatenate([np.zeros(opened), figures.cost])
        model.col_lower_ = np.concatenate([stays_open, np.zeros(moves)])
        model.col_upper_ = np.concatenate([np.ones(opened), figures.most])
        assigned = figures.assigned
        model.row_lower_ = np.concatenate([assigned, np.full(moves, -np.inf), missing])
        model.row_upper_ = np.concatenate([assigned, np.zeros(moves), np.full(opened, np.inf)])
        _fill_matrix(model, self._matrix_entries(classes, figures))
        kind = highspy.HighsVarType
        kind_of_x = kind.kContinuous if self.split_cases else kind.kInteger
        model.integrality_ = [kind.kInteger] * opened + [kind_of_x] * moves
        return model

    def _column_figures(self) -> _ColumnFigures:
        """The figures of the columns x."""
        problem = self.problem
        cases = problem.cases[self.source]
        distance = problem.distances.matrix[self.source, self.target].astype(np.float64)
        ones = np.ones(len(self.source))
        if self.split_cases:
            assigned = problem.cases[self.movers].astype(np.float64)
            return _ColumnFigures(distance, ones, cases, assigned)
        mass = problem.mass[self.source]
        return _ColumnFigures(distance * cases, mass, ones, np.ones(len(self.movers)))

    def _matrix_entries(
        self, classes: ScopeClasses, figures: _ColumnFigures
    ) -> tuple[Ints, Ints, NDArray[Any]]:
        """Rows, columns and values of the matrix."""
        opened, moves, movers = len(self.opened), len(self.source), len(self.movers)
        x = opened + np.arange(moves)
        y_of_target = np.searchsorted(self.opened, self.target)
        link = movers + np.arange(moves)
        hold = movers + moves

        position, class_variant = classes.class_pairs(self.target)
        y_of_variant = np.full(len(self.problem.texts), _NOT_OPENED)
        y_of_variant[self.opened] = np.arange(opened)
        y_of_class = y_of_variant[class_variant]
        # A class that cannot open (a prefix to which nothing moves) has no row.
        can_open = y_of_class != _NOT_OPENED
        position, y_of_class = position[can_open], y_of_class[can_open]
        bound_by_k = np.flatnonzero(classes.must_hold_k[self.opened])

        minus_k = np.full(len(bound_by_k), -self.problem.k)
        # Assign: sum of x = what there is. Link: x - most * y <= 0. Hold: mass of x - k * y >= 0.
        entries = (
            (np.searchsorted(self.movers, self.source), x, np.ones(moves)),
            (link, x, np.ones(moves)),
            (link, y_of_target, -figures.most),
            (hold + y_of_class, opened + position, figures.mass[position]),
            (hold + bound_by_k, bound_by_k, minus_k),
        )
        rows, columns, values = (np.concatenate(part) for part in zip(*entries, strict=True))
        return rows, columns, values


def _fill_matrix(model: Any, entries: tuple[Ints, Ints, NDArray[Any]]) -> None:
    """Store the entries (rows, columns, values) column by column, as HiGHS reads them."""
    rows, columns, values = entries
    order = np.lexsort((rows, columns))
    # Where the entries of each column begin, and behind the last one.
    starts = np.searchsorted(columns[order], np.arange(model.num_col_ + 1))
    matrix = model.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kColwise
    matrix.start_ = starts.astype(np.int32)
    matrix.index_ = rows[order].astype(np.int32)
    matrix.value_ = values[order].astype(np.float64)
