"""Neighbouring logs on which a mechanism's claim is hardest to keep, and what to look at in what it
releases of them.

A statistical audit (``evaluation.dp_audit``) needs two inputs that the claim says are hard to
distinguish. Those here are the worst that we can name for mechanisms that release control flow or
times (``privacy.md`` section 7): a case whose variant is its own, a case of maximal length, a
frequent variant, a variant at the threshold, the only case of a log; a time moved by the whole
shift, and all times of a case moved from one edge of the declared bounds to the other. An audit
that passes proves nothing by itself; one that fails refutes the claim.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from time import monotonic
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from cloakwork.accounting.calibrate import least_above
from cloakwork.base.arrays import Floats
from cloakwork.base.errors import MechanismError
from cloakwork.base.facts import Facts, Window
from cloakwork.base.frozen import frozen
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.base.progress import say
from cloakwork.evaluation.dp_audit import (
    CONFIDENCE,
    AuditResult,
    HalfLine,
    OutcomeSet,
    Run,
    empirical_epsilon,
)
from cloakwork.evaluation.one_mechanism import Prepared, mechanism_of, prepare
from cloakwork.log.eventlog import ACTIVITY, TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.log.variants import log_of_variants
from cloakwork.mechanisms.base import Gives, Mechanism
from cloakwork.mechanisms.registry import catalogue

ActivitySequence = tuple[str, ...]

ALPHABET: Final = ("a", "b", "c", "d", "e", "f")
LONGEST: Final = 6
"""Activities that may occur and events of the longest case, declared public for every audit of
control flow.
"""

FREQUENT_SEQUENCE: Final[ActivitySequence] = ("a", "b", "c")
RETURNING_SEQUENCE: Final[ActivitySequence] = ("a", "b", "a")
"""A sequence that comes back to where it began: rules of what precedes what, read off the log, take
its prefixes for faults.
"""

FREQUENT_CASES: Final = 30
_MOST_TRIED: Final = 4096
_TRIALS: Final = 15

COPIES: Final = 50
SHIFT: Final = timedelta(hours=1)
_BEGIN: Final = datetime(2020, 1, 1, tzinfo=UTC)
_WINDOW: Final = timedelta(minutes=10_000)
_GAP: Final = timedelta(minutes=500)
_FAR: Final = timedelta(minutes=100_000)

CONTROL_FLOW_FACTS: Final = Facts(
    alphabet=ALPHABET,
    longest_case=LONGEST,
    units_at_most=100,
)
VALUE: Final = "value"
"""An attribute of events of which one value is common, and one nobody has but one case."""

WHOLE_LOG_FACTS: Final = Facts(
    alphabet=ALPHABET,
    longest_case=LONGEST,
    units_at_most=100,
    domains={VALUE: ("common", "rare")},
    window=Window(start=_BEGIN, end=_BEGIN + 1000 * _WINDOW),
    longest_gap=_GAP,
)
LOCAL_FACTS: Final = Facts(domains={VALUE: (0, 1)}, ranges={VALUE: (0.0, 1.0)})
TIMES_FACTS: Final = Facts(
    window=Window(start=_BEGIN, end=_BEGIN + _WINDOW),
    longest_gap=_GAP,
    longest_case=3,
    grid=timedelta(minutes=1),
)


@frozen
class Statistic:
    """A number that is read off a release; ``event``: the outcomes to count, where they need not be
    found by trial.
    """

    name: str
    event: OutcomeSet | None = None


@frozen
class Pair:
    """Two neighbouring logs, and what is read off each release: ``observe`` gives one row an
    outcome, a column a statistic.

    Times: mechanisms treat each case by itself, so a log of ``COPIES`` equal cases stands for as
    many logs of one case.
    """

    name: str
    a: EventLog
    b: EventLog
    statistics: tuple[Statistic, ...]
    observe: Callable[[EventLog], Floats]


@dataclass(frozen=True, slots=True)
class PairAudit:
    """What an audit found on one pair: the largest lower bound, and which statistic of the
    release shows it.
    """

    pair: str
    statistic: str
    result: AuditResult


def auditable() -> tuple[str, ...]:
    """The mechanisms that ``audit_mechanism`` knows pairs for, by what they declare to give:
    differential privacy over the control flow, times or whole logs, or metric privacy of times.
    """
    known = {claim.gives for claim in _AUDITED_CLAIMS}
    return tuple(name for name, each in catalogue().items() if known & {*each.gives})


def audit_mechanism(
    name: str | Mechanism[Any],
    *,
    epsilon: float,
    delta: float,
    runs: int,
    confidence: float = CONFIDENCE,
    options: Mapping[str, Any] | None = None,
) -> tuple[PairAudit, ...]:
    """A statistical audit of the mechanism ``name`` (or of one that is not registered, such as a
    broken twin) at the claim (epsilon, delta), one result a pair of neighbours.

    Control flow, whole logs: unbounded neighbours at (epsilon, delta). Times: metric privacy at
    epsilon, and bounded neighbours. The error ``1 - confidence`` is shared out over all pairs.
    ``options``: the mechanism's own, as under a policy's ``parameters``. Raises MechanismError
    where the mechanism refuses the claim or the options, or makes no such claim.
    """
    audited = audited_pairs(mechanism_of(name), epsilon, delta, options or {})
    # Bonferroni, over all pairs of all claims.
    each = 1 - (1 - confidence) / len(audited)
    return tuple(
        audit_pair(
            pair,
            prepared.runner,
            runs=runs,
            claim=epsilon,
            delta=of_claim,
            confidence=each,
        )
        for pair, prepared, of_claim in audited
    )


def audited_pairs(
    mechanism: Mechanism[Any],
    epsilon: float,
    delta: float,
    options: Mapping[str, Any],
) -> list[tuple[Pair, Prepared, float]]:
    """The pairs of all that the mechanism claims, what to run on each, and the delta of the
    claim.
    """
    found = list[tuple[Pair, Prepared, float]]()
    refused = []
    on_times = False
    for claim in _AUDITED_CLAIMS:
        if claim.gives not in mechanism.gives:
            continue
        price = {"epsilon": epsilon} | ({"delta": delta} if claim.has_delta else {})
        facts = {key: getattr(claim.facts, key) for key in claim.facts.model_fields_set}
        try:
            prepared = prepare(mechanism, options=options, **price, **claim.goal, **facts)
        except MechanismError as error:
            if claim.has_delta:
                raise
            refused.append(error)
            continue
        on_times |= not claim.has_delta
        found += [(pair, prepared, price.get("delta", 0.0)) for pair in claim.pairs(prepared)]
    # Options that only one of the two claims on times knows are no fault.
    if refused and not (on_times and options):
        raise refused[0]
    if not found:
        said = "claims no differential privacy, so there is nothing to audit"
        raise MechanismError(mechanism.name, said)
    return found


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
    statistics.

    ``runner``: gives for a log what runs the mechanism on it once, with fresh noise. The error is
    shared out over the statistics. Raises ValueError for fewer than 10 runs.
    """
    a = _collect_outcomes(pair, runner(pair.a), runs, "first")
    b = _collect_outcomes(pair, runner(pair.b), runs, "second")
    each = 1 - (1 - confidence) / len(pair.statistics)
    audits = []
    # Each column of outcomes is a statistic; the one that shows most is the pair's result.
    for statistic, of_a, of_b in zip(pair.statistics, a.T, b.T, strict=True):
        result = empirical_epsilon(
            _known(of_a),
            _known(of_b),
            runs=min(len(a), len(b)),
            delta=delta,
            claim=claim,
            events=None if statistic.event is None else [statistic.event],
            confidence=each,
        )
        audits.append(PairAudit(pair.name, statistic.name, result))
    return max(audits, key=lambda audit: audit.result.epsilon_lower_bound)


def _known(outcomes: Floats) -> Run:
    return lambda _: outcomes


def _collect_outcomes(
    pair: Pair,
    run: Callable[[], EventLog],
    runs: int,
    side: str,
) -> Floats:
    """The statistics of ``runs`` runs, one row an outcome."""
    rows = []
    reported = monotonic()
    for turn in range(runs):
        if monotonic() - reported > 1:
            say(f"{pair.name}: {turn:,} of {runs:,} runs on the {side} log")
            reported = monotonic()
        rows.append(pair.observe(run()))
    return np.concatenate(rows)


def control_flow_pairs(least: int | None = None) -> tuple[Pair, ...]:
    """One case more, where it shows most; ``least``: cases from which on a variant is released,
    where it is known.
    """
    base = [("a", "b", "c")] * 30 + [("a", "c", "b")] * 20
    # Backwards through the alphabet, so that it shares no prefix with the other cases.
    longest = tuple(ALPHABET[-1 - place % len(ALPHABET)] for place in range(LONGEST))
    many = max(FREQUENT_CASES, 2 * (least or 0))
    pairs = [
        _pair_with_one_more_case("a case with a variant of its own", base, ("a", "d", "e")),
        _pair_with_one_more_case(f"a case of maximal length ({LONGEST} events)", base, longest),
        _pair_with_one_more_case(
            f"one case more on a frequent variant ({many - 1} cases)",
            [FREQUENT_SEQUENCE] * (many - 1),
            FREQUENT_SEQUENCE,
        ),
        _pair_with_one_more_case("the only case of the log", [], FREQUENT_SEQUENCE),
    ]
    if least is not None and least > 1:
        below = least - 1
        counted = "1 case" if below == 1 else f"{below} cases"
        name = f"one case more on a variant at the threshold ({counted})"
        rest = [RETURNING_SEQUENCE] * below
        pairs.append(_pair_with_one_more_case(name, rest, RETURNING_SEQUENCE))
    return tuple(pairs)


def _pair_with_one_more_case(
    name: str,
    rest: Sequence[ActivitySequence],
    added: ActivitySequence,
) -> Pair:
    steps = set(pairwise(added))

    def observe(released: EventLog) -> Floats:
        sequences = _sequences_of(released)
        taken = sum(step in steps for sequence in sequences for step in pairwise(sequence))
        return np.array([[sequences.count(added), taken, len(sequences)]], np.float64)

    statistics = (
        Statistic("cases that take the added case's variant"),
        Statistic("steps that the added case takes"),
        Statistic("cases released"),
    )
    return Pair(name, _log_of([*rest, added]), _log_of(rest), statistics, observe)


def least_released(runner: Callable[[EventLog], Callable[[], EventLog]]) -> int | None:
    """About how many cases a variant needs, alone in its log, to be released with half of them in
    every third run.

    By bisection over logs of up to ``_MOST_TRIED`` cases, a few runs each; None where that is not
    enough. Which pair is audited may rest on such runs, as the audit's own runs are others.
    """

    def is_released(cases: int) -> bool:
        run = runner(_log_of([RETURNING_SEQUENCE] * cases))
        released = [_sequences_of(run()).count(RETURNING_SEQUENCE) for _ in range(_TRIALS)]
        return 3 * sum(2 * number >= cases for number in released) >= _TRIALS

    least = least_above(0, lambda cases: cases > _MOST_TRIED or is_released(cases))
    return least if least <= _MOST_TRIED else None


def metric_pairs() -> tuple[Pair, ...]:
    """One time moved by ``SHIFT``: the middle one of three, so that one gap grows and the other
    shrinks.
    """
    shift = SHIFT.total_seconds()
    far = _FAR.total_seconds()

    def observe(released: EventLog) -> Floats:
        before, behind = np.diff(_seconds_of(released)).T
        # Moved, the first gap is far + shift, and the second far - shift.
        grown = before - (far + shift)
        shrunk = (far - shift) - behind
        return np.asarray(np.minimum(grown, shrunk)[:, None])

    moved = _log_with_times([timedelta(0), _FAR + SHIFT, 2 * _FAR])
    still = _log_with_times([timedelta(0), _FAR, 2 * _FAR])
    statistic = Statistic("by how much both gaps show the move", HalfLine(0, upper=True))
    name = "the middle of three times moved by the whole shift"
    return (Pair(name, moved, still, (statistic,), observe),)


def bounded_pairs() -> tuple[Pair, ...]:
    """All times of one case moved from the least that the declared bounds allow to the most."""
    latest = _WINDOW.total_seconds()
    widest = _GAP.total_seconds()

    def observe(released: EventLog) -> Floats:
        times = _seconds_of(released)
        widest_gaps = (np.diff(times) >= widest).sum(axis=1)
        at_the_edge = (times[:, 0] >= latest) + widest_gaps
        return np.asarray(at_the_edge[:, None], np.float64)

    most = _log_with_times([_WINDOW + place * _GAP for place in range(3)])
    least = _log_with_times([timedelta(0)] * 3)
    statistic = Statistic("how many of its values lie at the upper edge", HalfLine(3, upper=True))
    name = "all times of a case moved from one edge of the bounds to the other"
    return (Pair(name, most, least, (statistic,), observe),)


def whole_log_pairs() -> tuple[Pair, ...]:
    """One case more of a frequent variant, with a value that no other case has, years after them:
    what tells it is not its variant.
    """
    late = 500 * _WINDOW
    rest = [(timedelta(minutes=case), "common") for case in range(FREQUENT_CASES)]
    statistics = (
        Statistic("events with the value of the added case"),
        Statistic("cases that end as late as the added case starts"),
        Statistic("cases released"),
    )

    def observe(released: EventLog) -> Floats:
        rare = (released.events[VALUE] == "rare").sum()
        ends = released.events[TIMESTAMP].gather(released.offsets[1:] - 1)
        late_ones = (ends >= _BEGIN + late).sum()
        return np.array([[rare, late_ones, released.cases.height]], np.float64)

    name = "a case with a value that no other has, years after them"
    with_it = _log_with_values([*rest, (late, "rare")])
    return (Pair(name, with_it, _log_with_values(rest), statistics, observe),)


def canary_log() -> EventLog:
    """A made-up log of many variants, some of them frequent, with times and values."""
    draws = np.random.default_rng(1)
    lengths = draws.integers(2, LONGEST + 1, 60)
    variants = [tuple(draws.choice(ALPHABET, length).tolist()) for length in lengths]
    # The first third of the variants has most cases.
    chosen = np.minimum(draws.geometric(1 / 20, 800) - 1, len(variants) - 1).tolist()
    log = _log_of([variants[each] for each in chosen])
    # An hour or so between two events; cases one after another.
    times = np.cumsum(draws.exponential(3600e6, log.event_count)) + _BEGIN.timestamp() * 1e6
    stamps = pl.Series(TIMESTAMP, times.astype(np.int64)).cast(TIME_TYPE)
    values = pl.Series(VALUE, draws.choice(["common", "rare"], len(times), p=[0.9, 0.1]))
    return replace(log, events=log.events.with_columns(stamps, values))


def local_pairs() -> tuple[Pair, ...]:
    """A value at one end of its range, or at the other: each value of a log is randomised by
    itself.
    """
    log = _log_of([("a",)] * COPIES)
    most, least = (
        replace(log, events=log.events.with_columns(pl.Series(VALUE, [value] * COPIES)))
        for value in (1.0, 0.0)
    )

    def observe(released: EventLog) -> Floats:
        return released.events[VALUE].cast(pl.Float64).to_numpy()[:, None]

    statistics = (Statistic("values at the upper end", HalfLine(1, upper=True)),)
    name = "a value at one end of its range, or at the other"
    return (Pair(name, most, least, statistics, observe),)


class _AuditedClaim(NamedTuple):
    """What mechanisms may give, and where it is audited: for which ``goal`` beside its price, under
    which declared ``facts``, on which pairs of logs.
    """

    gives: Gives
    goal: Mapping[str, Any]
    facts: Facts
    pairs: Callable[[Prepared], tuple[Pair, ...]]
    has_delta: bool = True


_AUDITED_CLAIMS: Final = (
    # The threshold is found by trial, so that one pair lies at it.
    _AuditedClaim(
        gives=Gives("differential-privacy", CONTROL_FLOW),
        goal={},
        facts=CONTROL_FLOW_FACTS,
        pairs=lambda prepared: control_flow_pairs(least_released(prepared.runner)),
    ),
    _AuditedClaim(
        gives=Gives("differential-privacy"),
        goal={"over": (CONTROL_FLOW, TIMESTAMPS, VALUE)},
        facts=WHOLE_LOG_FACTS,
        pairs=lambda _: whole_log_pairs(),
    ),
    _AuditedClaim(
        gives=Gives("local-dp"),
        goal={"over": (VALUE,)},
        facts=LOCAL_FACTS,
        pairs=lambda _: local_pairs(),
        has_delta=False,
    ),
    _AuditedClaim(
        gives=Gives("metric-privacy", TIMESTAMPS),
        goal={"shift": SHIFT},
        facts=TIMES_FACTS,
        pairs=lambda _: metric_pairs(),
        has_delta=False,
    ),
    _AuditedClaim(
        gives=Gives("differential-privacy", TIMESTAMPS),
        goal={},
        facts=TIMES_FACTS,
        pairs=lambda _: bounded_pairs(),
        has_delta=False,
    ),
)


def _log_of(sequences: Sequence[ActivitySequence]) -> EventLog:
    """One case a sequence, without times."""
    return log_of_variants(sequences, np.ones(len(sequences), np.int64))


def _log_with_values(cases: Sequence[tuple[timedelta, str]]) -> EventLog:
    """Cases of one sequence that start so long after the window's beginning, an hour between two
    events, each event with the case's value.
    """
    log = _log_of([FREQUENT_SEQUENCE] * len(cases))
    hours = [timedelta(hours=hour) for hour in range(len(FREQUENT_SEQUENCE))]
    times = [_BEGIN + start + hour for start, _ in cases for hour in hours]
    values = [value for _, value in cases for _ in hours]
    columns = pl.Series(TIMESTAMP, times).cast(TIME_TYPE), pl.Series(VALUE, values)
    return replace(log, events=log.events.with_columns(*columns))


def _log_with_times(times: Sequence[timedelta]) -> EventLog:
    """A log of ``COPIES`` equal cases, their events at these times after the window's beginning."""
    log = _log_of([("a",) * len(times)] * COPIES)
    stamps = pl.Series(TIMESTAMP, [_BEGIN + time for time in times] * COPIES).cast(TIME_TYPE)
    return replace(log, events=log.events.with_columns(stamps))


def _sequences_of(log: EventLog) -> list[ActivitySequence]:
    labels = log.events[ACTIVITY].to_list()
    return [tuple(labels[start:end]) for start, end in pairwise(log.offsets.tolist())]


def _seconds_of(log: EventLog) -> Floats:
    """The times of the log's cases, one row a case, in seconds after the window's beginning."""
    stamps = log.microseconds.to_numpy().astype(np.float64)
    return np.asarray(stamps / 1e6 - _BEGIN.timestamp()).reshape(log.cases.height, -1)
