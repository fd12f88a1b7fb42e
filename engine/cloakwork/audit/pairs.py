"""Neighbouring logs on which a mechanism's claim is hardest to keep, and what to look at in what it
releases of them.

A statistical audit (``audit.dp_audit``) needs two inputs that the claim says are hard to tell
apart. Those here are the worst that we can name for mechanisms that release control flow or times
(``privacy.md`` section 7): a case whose variant is its own, a case of maximal length, a frequent
variant, a variant at the threshold, the only case of a log; a time moved by the whole shift, and
all times of a case moved from one edge of the declared bounds to the other. An audit that passes
proves nothing by itself; one that fails refutes the claim.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from time import monotonic
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.audit.dp_audit import CONFIDENCE, AuditResult, Event, HalfLine, empirical_epsilon
from cloakwork.facts import Facts, Window
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.progress import say

Course = tuple[str, ...]
Numbers = NDArray[np.float64]

ALPHABET: Final = ("a", "b", "c", "d", "e", "f")
LONGEST: Final = 6
"""Activities that may occur and events of the longest case, declared public for every audit of
control flow.
"""

USUAL: Final[Course] = ("a", "b", "c")
RETURNING: Final[Course] = ("a", "b", "a")
"""A course that comes back to where it began: rules of what precedes what, read off the log, take
its prefixes for faults.
"""

FREQUENT: Final = 30
_MOST_TRIED, _TRIALS = 4096, 15

COPIES: Final = 50
SHIFT: Final = timedelta(hours=1)
_BEGIN: Final = datetime(2020, 1, 1, tzinfo=UTC)
_WINDOW, _GAP, _FAR = timedelta(minutes=10_000), timedelta(minutes=500), timedelta(minutes=100_000)

CONTROL_FLOW_FACTS: Final = Facts(alphabet=ALPHABET, longest_case=LONGEST, units_at_most=100)
TIMES_FACTS: Final = Facts(
    window=Window(start=_BEGIN, end=_BEGIN + _WINDOW),
    longest_gap=_GAP,
    longest_case=3,
    grid=timedelta(minutes=1),
)


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that is read off a release; ``event``: the outcomes to count, where they need not be
    found by trial.
    """

    name: str
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """Two neighbouring logs, and what is read off each release: ``observe`` gives one row an
    outcome, a column a figure.

    Times: mechanisms treat each case by itself, so a log of ``COPIES`` equal cases stands for as
    many logs of one case.
    """

    name: str
    a: EventLog
    b: EventLog
    figures: tuple[Figure, ...]
    observe: Callable[[EventLog], Numbers]


@dataclass(frozen=True, slots=True)
class PairAudit:
    """What an audit found on one pair: the largest lower bound, and which figure of the release
    shows it.
    """

    pair: str
    figure: str
    result: AuditResult


def control_flow_pairs(least: int | None = None) -> tuple[Pair, ...]:
    """One case more, where it shows most; ``least``: cases from which on a variant is released,
    where it is known.
    """
    usual: Sequence[Course] = [("a", "b", "c")] * 30 + [("a", "c", "b")] * 20
    longest = tuple(ALPHABET[-1 - place % len(ALPHABET)] for place in range(LONGEST))
    many = max(FREQUENT, 2 * (least or 0))
    pairs = [
        _one_more("a case with a variant of its own", usual, ("a", "d", "e")),
        _one_more(f"a case of maximal length ({LONGEST} events)", usual, longest),
        _one_more(
            f"one case more on a frequent variant ({many - 1} cases)", [USUAL] * (many - 1), USUAL
        ),
        _one_more("the only case of the log", [], USUAL),
    ]
    if least is not None and least > 1:
        at = f"one case more on a variant at the threshold ({least - 1} {'case' if least == 2 else 'cases'})"
        pairs.append(_one_more(at, [RETURNING] * (least - 1), RETURNING))
    return tuple(pairs)


def least_released(runner: Callable[[EventLog], Callable[[], EventLog]]) -> int | None:
    """About how many cases a variant needs, alone in its log, to be released with half of them in
    every third run.

    By bisection over logs of up to ``_MOST_TRIED`` cases, a few runs each; None where that is not
    enough. Which pair is audited may rest on such runs, as the audit's own runs are others.
    """

    def comes_out(cases: int) -> bool:
        run = runner(_log([RETURNING] * cases))
        found = [
            2 * sum(course == RETURNING for course in _courses(run())) >= cases
            for _ in range(_TRIALS)
        ]
        return 3 * sum(found) >= _TRIALS

    high = 1
    while not comes_out(high):
        high *= 2
        if high > _MOST_TRIED:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if comes_out(middle) else (middle, high)
    return high


def metric_pairs() -> tuple[Pair, ...]:
    """One time moved by ``SHIFT``: the middle one of three, so that one gap grows and the other
    shrinks.
    """
    shift, far = SHIFT.total_seconds(), _FAR.total_seconds()

    def observe(released: EventLog) -> Numbers:
        before, behind = np.diff(_seconds(released)).T
        return np.asarray(np.minimum(before - far - shift, far - shift - behind)[:, None])

    moved, still = (_case_at([timedelta(0), _FAR + by, 2 * _FAR]) for by in (SHIFT, timedelta(0)))
    figures = (Figure("by how much both gaps show the move", HalfLine(0, upper=True)),)
    return (
        Pair("the middle of three times moved by the whole shift", moved, still, figures, observe),
    )


def bounded_pairs() -> tuple[Pair, ...]:
    """All times of one case moved from the least that the declared bounds allow to the most."""
    latest, widest = _WINDOW.total_seconds(), _GAP.total_seconds()

    def observe(released: EventLog) -> Numbers:
        times = _seconds(released)
        at_the_edge = (times[:, 0] >= latest) + (np.diff(times) >= widest).sum(axis=1)
        return np.asarray(at_the_edge[:, None], np.float64)

    most, least = (_case_at([start + place * gap for place in range(3)]) for start, gap in _EDGES)
    figures = (Figure("how many of its values lie at the upper edge", HalfLine(3, upper=True)),)
    return (
        Pair(
            "all times of a case moved from one edge of the bounds to the other",
            most,
            least,
            figures,
            observe,
        ),
    )


_EDGES: Final = ((_WINDOW, _GAP), (timedelta(0), timedelta(0)))


def audit_pair(
    pair: Pair,
    runner: Callable[[EventLog], Callable[[], EventLog]],
    *,
    runs: int,
    claim: float,
    delta: float,
    confidence: float = CONFIDENCE,
) -> PairAudit:
    """The largest lower bound on epsilon that ``runs`` runs a side show on ``pair``, over all its
    figures.

    ``runner``: gives for a log what runs the mechanism on it once, with fresh noise. The error is
    shared out over the figures. Raises ValueError for fewer than 10 runs.
    """
    a, b = (
        _outcomes(pair, runner(log), runs, side)
        for log, side in ((pair.a, "first"), (pair.b, "second"))
    )
    each = 1 - (1 - confidence) / len(pair.figures)

    def judged(column: int, figure: Figure) -> AuditResult:
        return empirical_epsilon(
            lambda _: a[:, column],
            lambda _: b[:, column],
            runs=min(len(a), len(b)),
            delta=delta,
            claim=claim,
            events=None if figure.event is None else [figure.event],
            confidence=each,
        )

    found = [(figure.name, judged(column, figure)) for column, figure in enumerate(pair.figures)]
    name, worst = max(found, key=lambda item: item[1].epsilon_lower_bound)
    return PairAudit(pair.name, name, worst)


def _outcomes(pair: Pair, run: Callable[[], EventLog], runs: int, side: str) -> Numbers:
    """The figures of ``runs`` runs, one row an outcome."""
    rows, heard = [], monotonic()
    for turn in range(runs):
        if monotonic() - heard > 1:
            say(f"{pair.name}: {turn:,} of {runs:,} runs on the {side} log")
            heard = monotonic()
        rows.append(pair.observe(run()))
    return np.concatenate(rows)


def _one_more(name: str, rest: Sequence[Course], added: Course) -> Pair:
    steps = set(pairwise(added))

    def observe(released: EventLog) -> Numbers:
        courses = _courses(released)
        taken = sum(step in steps for course in courses for step in pairwise(course))
        return np.array(
            [[sum(course == added for course in courses), taken, len(courses)]], np.float64
        )

    names = (
        "cases that take the added case's variant",
        "steps that the added case takes",
        "cases released",
    )
    return Pair(name, _log([*rest, added]), _log(rest), tuple(map(Figure, names)), observe)


def _log(courses: Sequence[Course]) -> EventLog:
    """One case a course, without times."""
    labels = pl.DataFrame(
        {ACTIVITY: [label for course in courses for label in course]}, schema={ACTIVITY: pl.String}
    )
    cases = pl.DataFrame(
        {CASE_ID: [str(row) for row in range(len(courses))]}, schema={CASE_ID: pl.String}
    )
    return EventLog(labels, cases, np.cumsum([0, *map(len, courses)]).astype(np.int64))


def _courses(log: EventLog) -> list[Course]:
    labels, ends = log.events[ACTIVITY].to_list(), log.offsets.tolist()
    return [tuple(labels[start:end]) for start, end in pairwise(ends)]


def _case_at(times: Sequence[timedelta]) -> EventLog:
    """A log of ``COPIES`` equal cases, their events at these times after the window's beginning."""
    stamps = pl.Series(TIMESTAMP, [_BEGIN + time for time in times] * COPIES).cast(TIME_TYPE)
    events = pl.DataFrame({ACTIVITY: ["a"] * len(stamps), TIMESTAMP: stamps})
    cases = pl.DataFrame({CASE_ID: [str(copy) for copy in range(COPIES)]})
    return EventLog(events, cases, len(times) * np.arange(COPIES + 1, dtype=np.int64))


def _seconds(log: EventLog) -> Numbers:
    """The times of the log's cases, one row a case, in seconds after the window's beginning."""
    stamps = log.events[TIMESTAMP].dt.timestamp("us").to_numpy().astype(np.float64)
    return np.asarray(stamps / 1e6 - _BEGIN.timestamp()).reshape(log.cases.height, -1)
