"""The k-anonymity problem as an integer program, and HiGHS, which solves it: silent, repeatable,
and open to Ctrl-C; and answers improved where the program over a neighbourhood is solved.

Variables: ``y_j``, whether variant j is open; ``x_ij``, how much of variant i becomes j. Least
``sum_ij n_i d_ij x_ij`` where every variant goes somewhere (*assign*), only to open variants
(*link*: ``x_ij <= y_j``), and every open variant's class holds mass k (*hold*). Over variants the
class of j is j. Over prefixes it is j and the variants that begin with j: that suffices, for a
prefix node at which no kept variant ends holds at least what the kept variants below it hold.
"""

import atexit
from collections.abc import Callable
from typing import Any, Final

import highspy
import numpy as np

from cloakwork.base.arrays import Floats, Ints
from cloakwork.base.frozen import frozen
from cloakwork.mechanisms.kanon.deadline import Deadline
from cloakwork.mechanisms.kanon.lower_bound import CertifiedBound
from cloakwork.mechanisms.kanon.problem import (
    Assignment,
    KAnonymityProblem,
    edit_cost,
    longest_prefixes,
    smallest_class,
)

_ABSOLUTE_GAP: Final = 0.99
"""Costs are whole numbers: a bound that is nearer than this proves an answer optimal."""
_SECONDS_BETWEEN_LOOKS: Final = 0.1
_VERTEX_SECONDS: Final = (1.0, 60.0)
"""Least and most seconds for the linear program that is left when it is decided what is open."""


def class_matrix(problem: KAnonymityProblem) -> Any:
    """Which classes the mass on each variant counts for: a sparse matrix, shape (variants,
    variants), that is 1 where the mass on the row's variant counts for the column's class.

    Over variants each counts for itself; over prefixes also for the variants that it begins with,
    and the variant without events for none.
    """
    from scipy import sparse  # a third of a second: planning asks for it only where it searches

    texts = problem.texts
    if problem.scope == "variants":
        return sparse.eye_array(len(texts), format="csr")
    chains: list[list[int]] = []
    # Prefixes sort before what they begin, so the chain of the longest prefix is known.
    for row, prefix in enumerate(longest_prefixes(texts)):
        chain = chains[prefix] if prefix >= 0 else []
        chains.append([*chain, row] if texts[row] else [])
    classes = [each for chain in chains for each in chain]
    start = np.cumsum([0, *map(len, chains)])
    return sparse.csr_array((np.ones(len(classes)), classes, start), (len(texts), len(texts)))


@frozen
class SolverResult:
    """What HiGHS found.

    ``assignment``: its best answer, None where it found none. ``bound``: no answer within the given
    columns costs less, by HiGHS's tolerance; minus infinity where it proved nothing. ``has_ended``:
    whether the search was complete in time.
    """

    assignment: Assignment | None
    bound: float
    has_ended: bool


class KAnonymityProgram:
    """The integer program over some columns: which variant may become which.

    ``classes``: as ``class_matrix`` gives it. ``source``, ``target``: int64, shape (columns,); no
    pair twice; every variant is a source of at least one, but for those of ``fixed``, which stay on
    their targets whatever happens: part of an answer that holds all their cases. ``split_cases``:
    the cases of a variant may go to different variants; one case is then the unit of ``x``, which
    needs no integrality of its own: with ``y`` fixed the program is a flow through two laminar
    families, whose vertices are whole numbers.
    """

    def __init__(
        self,
        problem: KAnonymityProblem,
        classes: Any,
        source: Ints,
        target: Ints,
        *,
        split_cases: bool,
        fixed: Assignment | None = None,
    ) -> None:
        none = np.zeros(0, np.int64)
        self.problem = problem
        self.source = source
        self.target = target
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
    ) -> SolverResult:
        """The least answer, within ``seconds``. Ctrl-C ends it at once.

        ``start``: an answer to begin with; pairs of it that are no columns make it useless, not
        wrong. ``on_bound`` is called with improved lower bounds.
        """
        solver = _silent_solver(seconds)
        solver.passModel(self._model)
        values = None if start is None else self._values_of(start)
        if values is not None:
            solution = highspy.HighsSolution()
            solution.col_value = values
            solver.setSolution(solution)
        _run_interruptible(solver, on_bound)
        # Complete: an optimum, or the proof that there is no answer.
        status = highspy.HighsModelStatus
        has_ended = solver.getModelStatus() in (status.kOptimal, status.kInfeasible)
        info = solver.getInfo()
        if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            # A complete search without an answer proves that there is none, at any cost.
            bound = np.inf if has_ended else info.mip_dual_bound
            return SolverResult(None, bound, has_ended)
        y, x = np.split(np.array(solver.getSolution().col_value), [len(self.opened)])
        if self.split_cases:
            assignment = self._linear_program_vertex(y, seconds - solver.getRunTime())
        else:
            assignment = self._assignment_from(x)
        return SolverResult(assignment, info.mip_dual_bound, has_ended)

    def _linear_program_vertex(self, y: Floats, seconds: float) -> Assignment | None:
        """The least answer that opens these variants and splits cases: a linear program, solved at
        a vertex; None where ``seconds`` do not suffice.
        """
        solver = _silent_solver(float(np.clip(seconds, *_VERTEX_SECONDS)))
        solver.setOptionValue("solver", "simplex")
        solver.passModel(self._model)
        count = len(self.opened)
        columns = np.arange(count, dtype=np.int32)
        decided = np.round(y)
        solver.changeColsBounds(count, columns, decided, decided)
        continuous = np.full(count, int(highspy.HighsVarType.kContinuous), np.uint8)
        solver.changeColsIntegrality(count, columns, continuous)
        _run_interruptible(solver, None)
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        return self._assignment_from(np.array(solver.getSolution().col_value)[count:])

    def _assignment_from(self, x: Floats) -> Assignment | None:
        """The answer of column values, rounded; None where rounding loses or adds a case."""
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

    def _values_of(self, start: Assignment) -> Floats | None:
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

    def _build_model(self, classes: Any) -> Any:
        """The program as HiGHS takes it. Columns: y, then x. Rows: assign, one a variant; link, one
        a column x; hold, one a class.
        """
        from scipy import sparse

        problem = self.problem
        fixed = self.fixed
        opened = len(self.opened)
        moves = len(self.source)
        movers = len(self.movers)
        # What one unit of x stands for: a case where cases may split, else all cases of a variant.
        cost = problem.distances.matrix[self.source, self.target].astype(np.float64)
        if self.split_cases:
            mass = np.ones(moves, np.int64)
            fixed_mass = fixed.cases
            most = problem.cases[self.source]
            assigned = problem.cases[self.movers]
        else:
            cost *= problem.cases[self.source]
            mass = problem.mass[self.source]
            fixed_mass = problem.mass[fixed.source]
            most = np.ones(moves, np.int64)
            assigned = np.ones(movers, np.int64)
        # Assign: sum of x = what there is. Link: x - most * y <= 0. Hold: mass of x - k * y >= 0.
        place = np.arange(moves)
        mover_of = np.searchsorted(self.movers, self.source)
        assign = sparse.coo_array((np.ones(moves), (mover_of, place)), (movers, moves))
        target_of = np.searchsorted(self.opened, self.target)
        link = sparse.coo_array((-most.astype(np.float64), (place, target_of)), (moves, opened))
        # A class that cannot open (a prefix to which nothing moves) has no row.
        hold = (classes[self.target] * mass[:, None]).T.tocsr()[self.opened]
        must_hold = classes.diagonal()[self.opened] * -problem.k
        matrix = sparse.block_array(
            [
                [None, assign],
                [link, sparse.eye_array(moves)],
                [sparse.diags_array(must_hold), hold],
            ],
            format="csc",
        )
        matrix.eliminate_zeros()
        matrix.sort_indices()
        # What stays in a class counts toward its k.
        missing = -(classes[fixed.target].T @ fixed_mass)[self.opened]
        stays_open = np.isin(self.opened, fixed.target).astype(np.float64)

        model = highspy.HighsLp()
        model.num_col_ = opened + moves
        model.num_row_ = movers + moves + opened
        model.col_cost_ = np.concatenate([np.zeros(opened), cost])
        model.col_lower_ = np.concatenate([stays_open, np.zeros(moves)])
        model.col_upper_ = np.concatenate([np.ones(opened), most])
        model.row_lower_ = np.concatenate([assigned, np.full(moves, -np.inf), missing])
        model.row_upper_ = np.concatenate([assigned, np.zeros(moves), np.full(opened, np.inf)])
        model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        model.a_matrix_.start_ = matrix.indptr.astype(np.int32)
        model.a_matrix_.index_ = matrix.indices.astype(np.int32)
        model.a_matrix_.value_ = matrix.data.astype(np.float64)
        kind = highspy.HighsVarType
        kind_of_x = kind.kContinuous if self.split_cases else kind.kInteger
        model.integrality_ = [kind.kInteger] * opened + [kind_of_x] * moves
        return model


class _SilentHighs(highspy.Highs):
    """HiGHS, printing nothing: from 1.16 on it names itself on standard output at the first call
    with output on, which is one of its constructor's.
    """

    def enableCallbacks(self) -> None:  # noqa: N802 - HiGHS's name
        self.setOptionValue("output_flag", False)
        super().enableCallbacks()  # type: ignore[no-untyped-call]


def _silent_solver(seconds: float) -> Any:
    """A solver that prints nothing, is repeatable, and stops after ``seconds``."""
    solver: Any = _SilentHighs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("random_seed", 0)
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.setOptionValue("mip_abs_gap", _ABSOLUTE_GAP)
    solver.setOptionValue("time_limit", max(seconds, _SECONDS_BETWEEN_LOOKS))
    return solver


def _run_interruptible(solver: Any, on_bound: Callable[[float], None] | None) -> None:
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


_SMALLEST_NEIGHBOURHOOD: Final = 60
_GROWTH: Final = (1, 2, 4)
"""How large neighbourhoods are in the first round, the second and the third, beside the first."""
_TARGETS_OF_A_VARIANT: Final = 6
_SECONDS_OF_A_NEIGHBOURHOOD: Final = 4.0


def improve_by_neighbourhoods(
    best: Assignment,
    certificate: CertifiedBound,
    deadline: Deadline,
    on_improvement: Callable[[int], None],
) -> Assignment:
    """An answer that is cheaper than ``best``, if one is found before ``deadline`` is over; never a
    more expensive one.

    Classes that are near to each other are dissolved and the program over their members is solved
    exactly, everything else staying as it is: neighbourhood after neighbourhood over the whole log,
    then larger ones, until these give no more or the time is over. ``certificate``: a bound whose
    dual prices say which pairs are promising. ``on_improvement`` is called with each improved cost.
    """
    problem = certificate.problem
    classes = class_matrix(problem)
    least = edit_cost(problem, best)
    for growth in _GROWTH:
        size = growth * max(_SMALLEST_NEIGHBOURHOOD, 3 * problem.k)
        before = None
        # Once more over the whole log, as long as that gains anything.
        while before != least:
            before = least
            is_waiting = np.ones(len(problem.texts), np.bool_)
            while is_waiting.any():
                if deadline.is_over:
                    return best
                rows = _variants_near(problem, best, int(np.argmax(is_waiting)), size)
                is_waiting[rows] = False
                found = _solved_around(
                    best,
                    rows,
                    certificate,
                    classes,
                    min(_SECONDS_OF_A_NEIGHBOURHOOD, deadline.seconds_left),
                )
                if found is not None and (cost := edit_cost(problem, found)) < least:
                    best = found
                    least = cost
                    on_improvement(least)
    return best


def _variants_near(
    problem: KAnonymityProblem,
    current: Assignment,
    variant: int,
    size: int,
) -> Ints:
    """``variant``, and the members of the classes nearest to its own, about ``size``: ascending."""
    centre = current.target[current.source == variant][0]
    opened, members = np.unique(current.target, return_counts=True)
    nearest_first = np.argsort(problem.distances.matrix[centre, opened], kind="stable")
    members_within = np.cumsum(members[nearest_first])
    enough = max(2, int(np.searchsorted(members_within, size)))
    chosen = opened[nearest_first[:enough]]
    return np.union1d(chosen, current.source[np.isin(current.target, chosen)])


def _solved_around(
    current: Assignment,
    rows: Ints,
    certificate: CertifiedBound,
    classes: Any,
    seconds: float,
) -> Assignment | None:
    """The best answer that differs from ``current`` only in where ``rows`` go, among promising
    pairs: the few of least reduced cost for each, those of ``current``, and the nearest class that
    stays. None where none was found in time.
    """
    problem = certificate.problem
    variants = len(problem.texts)
    distance = problem.distances.matrix
    moving = np.isin(current.source, rows)
    stays = ~moving
    fixed = Assignment(current.source[stays], current.target[stays], current.cases[stays])
    reduced = certificate.reduced_costs_among(rows)
    few = min(_TARGETS_OF_A_VARIANT, len(rows))
    promising = rows[np.argpartition(reduced, few - 1, axis=1)[:, :few]]
    # One number a pair, so that none occurs twice.
    current_pairs = current.source * variants + current.target
    pairs = [(rows[:, None] * variants + promising).ravel(), current_pairs[moving]]
    outside = np.unique(fixed.target)
    if len(outside):
        # Without a way out, members could not leave for a class that stays.
        nearest = outside[distance[np.ix_(rows, outside)].argmin(axis=1)]
        pairs.append(rows * variants + nearest)
    source, target = np.divmod(np.unique(np.concatenate(pairs)), variants)
    program = KAnonymityProgram(
        problem,
        classes,
        source,
        target,
        split_cases=certificate.constraints.cases_may_split,
        fixed=fixed,
    )
    found = program.solve(seconds, current).assignment
    # Measured, whatever the solver's tolerance let pass.
    smallest = None if found is None else smallest_class(problem, found)
    return found if smallest is None or smallest >= problem.k else None
