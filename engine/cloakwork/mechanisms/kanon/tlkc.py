"""TLKC: whoever knows a few events of a case finds many cases that match, and learns no sensitive
value for sure.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import ClassVar, Final

import numpy as np
import polars as pl
from pydantic import JsonValue

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.base.errors import Infeasible, MechanismError
from cloakwork.base.facts import UNIX_EPOCH, Facts
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS, Lineage
from cloakwork.base.naming import named
from cloakwork.base.progress import say
from cloakwork.guarantees import ConfidenceBound, Guarantee
from cloakwork.log.eventlog import ACTIVITY, TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.mechanisms.base import Gives, Mechanism, Offer, Proof, Refusal, Theorem
from cloakwork.mechanisms.kanon.background_knowledge import (
    KnowledgeLevel,
    KnownSequences,
    SequenceCases,
    TooManyMatches,
    knowledge_levels,
    support_and_confidence,
)
from cloakwork.mechanisms.kanon.suppression import places_to_suppress
from cloakwork.mechanisms.kanon.tlkc_summary import (
    NAME,
    STEPS,
    SequenceCounts,
    TlkcParams,
    is_of_cases,
    known_sequences,
    sequence_cases,
    sequences_of_cases,
    symbols_of_events,
    whole_microseconds,
)
from cloakwork.mechanisms.steps import Decision, MapCases, Rewrite, RewriteStep
from cloakwork.noise import Noise, Stream

KEPT: Final = "kept"

OTHER_KINDS: Final = {
    "k-anonymity": "it bounds what a few known events tell; "
    "complete activity sequences may stay unique",
    "t-closeness": "it bounds the confidence in single values, "
    "not the distance between distributions",
    "l-diversity": "it bounds the confidence in single values, not how many there are",
    "differential-privacy": "it suppresses events and draws no noise; "
    "it cannot give differential privacy",
    "metric-privacy": "it suppresses events and draws no noise; kept values stay as they are",
    "local-dp": "it suppresses events; it randomises no value",
}
"""Why it gives no other kind of guarantee."""


class Tlkc(Mechanism[TlkcParams]):
    """Suppress events until every piece of background knowledge matches many cases, or none, and
    tells little.

    Knowledge is at most L events of a case, in the form that the guarantee names. It *violates* if
    some case matches it and fewer than K units do, or if more than the share C of those who match
    hold one sensitive value. In rounds, all knowledge is counted, the shortest first. At the first
    size at which some violates, all cases that match it have events suppressed: in each, the event
    with the best score first (violations gone for each event lost), until the case matches none of
    it. Then everything is counted again, until nothing violates.

    **Why the result holds the bound.** The last round counts all knowledge of size at most L on
    what is released, and finds no violation (``background_knowledge`` says why nothing is missed).
    **Why it ends.** Every round suppresses at least one event of a sequence for good, and a log has
    finitely many. Suppressing an event can only take matches away, so it can make other knowledge
    rarer, and its confidence may rise: hence the recount. Knowledge of the shortest violating size
    is minimal, for everything shorter holds; a case that does not match it matches nothing longer
    that contains it.

    Cases with the same sequence lose the same events, whatever their units and values; cases left
    without events are not released. An event attribute's values count for the whole case even where
    their events are suppressed, which only overstates confidence.

    **Edge cases.** Empty log: empty release. Where nothing can be kept (fewer than K cases or
    units; one value that more than the share C of all cases hold; sequences that share no event):
    refused with ``Infeasible``. One variant only, with K cases or more: unchanged.
    """

    name: ClassVar[str] = NAME
    action: ClassVar[str] = "leave events out"
    gives: ClassVar[tuple[Gives, ...]] = (Gives("confidence-bound", CONTROL_FLOW),)
    summary: ClassVar[str] = (
        "Suppresses events until a few known events match many cases and tell little."
    )
    proof: ClassVar[Proof] = "proved"
    theorem: ClassVar[Theorem] = Theorem(
        statement="Any background knowledge of at most L events that matches a released case "
        "matches released cases of at least K units, of which at most the share C holds any one "
        "sensitive value. Variants may be released that nobody followed.",
        source="Rafiei, Wagner and van der Aalst, TLKC-Privacy Model for Process Mining, "
        "RCIS 2020, with complete generation of candidates and suppression by case; "
        "proved in this class's docstring",
    )
    Params = TlkcParams

    def offer(
        self, goal: Guarantee, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[TlkcParams] | Refusal:
        """Meet a confidence bound, counted in units where the policy names one."""
        if not isinstance(goal, ConfidenceBound):
            return Refusal("never", OTHER_KINDS.get(goal.kind, f"it gives no {goal.kind}"))
        if options:
            return Refusal("misconfigured", f"it has no option '{min(options)}'; it has none")
        fault = _meaningless_request(goal)
        if fault is not None:
            return Refusal("misconfigured", fault)
        stated = goal.model_dump(exclude={"kind"})
        params = TlkcParams(**stated, unit=facts.unit.attribute, epoch=facts.epoch)
        return Offer(params, _explain_offer(params))

    def step(self, params: TlkcParams, facts: Facts) -> RewriteStep:
        """Which events stay depends on the control flow, on units and values, and for ``relative``
        on times. The summary says how many cases follow each sequence.
        """
        owned = {name for name in (params.unit, params.attribute) if name is not None}
        times = {TIMESTAMPS} if params.precision is not None else set()
        return RewriteStep(
            lineage=Lineage(
                reads=frozenset({CONTROL_FLOW, *owned, *times}),
                writes=frozenset({CONTROL_FLOW, METADATA, *times}),
                stability=None,
            ),
            summary=SequenceCounts(params),
            decide=partial(self.decide, params),
            rewrite=partial(self.rewrite, params),
        )

    def decide(self, params: TlkcParams, summary: pl.DataFrame, noise: Noise) -> Decision:
        """Say which events of each sequence stay: the columns of ``params.sequence_columns`` and
        ``kept`` (List[Boolean]).

        Raises ``Infeasible`` when the log holds something and nothing of it can be kept,
        ``MechanismError`` when it is too large.
        """
        sequence_columns = named(*params.sequence_columns)
        details = [name for name in summary.columns if name not in params.sequence_columns]
        grouped = summary.group_by(sequence_columns, maintain_order=True).agg(named(*details))
        events = symbols_of_events(grouped, params)
        sequences, place = known_sequences(events, params.background)
        cases = sequence_cases(grouped, details)
        try:
            left, figures = _suppress_until_bounded(sequences, cases, params)
        except TooManyMatches:
            raise MechanismError(
                self.name,
                f"there is too much knowledge of up to L = {params.L} events to be counted; "
                "ask for a smaller L",
            ) from None
        is_kept = np.zeros(len(sequences.symbols), np.bool_)
        is_kept[left] = True
        kept = events.select("sequence").with_columns(pl.Series(KEPT, is_kept[place]))
        lists = kept.group_by("sequence", maintain_order=True).agg(KEPT)
        rows = grouped.select(sequence_columns).with_row_index("sequence")
        rows = rows.with_columns(pl.col("sequence").cast(pl.Int64))
        table = rows.join(lists, on="sequence", how="left", maintain_order="left")
        # A sequence without events has no list.
        kept_or_none = pl.col(KEPT).fill_null([])
        return Decision(table.select(sequence_columns, kept_or_none), figures)

    def rewrite(self, params: TlkcParams, decision: Decision, stream: Stream) -> Rewrite:
        """Suppress what is decided for the sequence of each case."""
        table = decision.table
        return MapCases(lambda log: _suppress_events(log, table, params), together="case")


def _explain_offer(params: TlkcParams) -> str:
    """What the mechanism does, as the plan tells it."""
    events = "one event" if params.L == 1 else f"up to {params.L} events"
    counted = "cases" if params.unit is None else f"different values of '{params.unit}'"
    reason = (
        f"leaves events out until what is known of {events} fits no case, "
        f"or at least {params.K} {counted}"
    )
    if params.attribute is None:
        return reason
    return f"{reason}, of which at most {100 * params.C:g}% hold the same '{params.attribute}'"


def _meaningless_request(goal: ConfidenceBound) -> str | None:
    """What a guarantee asks for that means nothing."""
    name = goal.attribute
    if name in (CONTROL_FLOW, TIMESTAMPS, METADATA, ACTIVITY, TIMESTAMP):
        return f"'{name}' is what background knowledge is about, not a sensitive attribute"
    if name is None and goal.C < 1:
        return (
            f"C = {goal.C:g} says nothing without the sensitive attribute that it speaks of; "
            "name it, or leave C out"
        )
    if name is None and goal.missing == "sensitive":
        return (
            "missing: sensitive says nothing without the attribute whose values may be missing; "
            "name it"
        )
    if name is not None and goal.missing == "sensitive" and not is_of_cases(name):
        return (
            "missing: sensitive needs an attribute of cases: leaving events out takes values of "
            f"'{name}' away"
        )
    if name is not None and goal.C == 1:
        return f"C = 1 bounds no confidence in '{name}'; choose C below 1"
    if goal.background == "relative" and goal.precision is None:
        return (
            "background: relative needs a precision, such as 1d: "
            "how precisely the attacker knows times"
        )
    if goal.background != "relative" and goal.precision is not None:
        return (
            f"background: {goal.background} says nothing about times; "
            "precision belongs to background: relative"
        )
    return None


def _suppress_until_bounded(
    sequences: KnownSequences, cases: SequenceCases, params: TlkcParams
) -> tuple[Ints, dict[str, JsonValue]]:
    """The places that stay (int64, ascending), and figures for the internal report."""
    left = np.arange(len(sequences.symbols))
    if len(cases.cases) and not len(left):
        raise Infeasible(NAME, _nothing_releasable(params, 0, 0, 0.0))
    rounds = 0
    last_report = monotonic()
    while True:
        remaining = sequences.restricted_to(left)
        violations = _shortest_violations(remaining, cases, params)
        if violations is None:
            return left, {**_suppression_figures(sequences, left, cases), "rounds": rounds}
        level, support, confidence = violations
        if level.candidates.shape[1] == 0:
            # Whoever knows nothing matches all cases: suppressing events does not help.
            reason = _nothing_releasable(params, rounds, int(support[0]), float(confidence[0]))
            raise Infeasible(NAME, reason)
        is_violating = _is_violating(support, confidence, params)
        left = np.delete(left, places_to_suppress(level, is_violating, remaining))
        rounds += 1
        if not len(left):
            raise Infeasible(NAME, _nothing_releasable(params, rounds, params.K, 0.0))
        if monotonic() - last_report >= 1:
            last_report = monotonic()
            places = len(sequences.symbols)
            say(f"{NAME}: round {rounds}, {len(left):,} of {places:,} places left")


def _shortest_violations(
    sequences: KnownSequences, cases: SequenceCases, params: TlkcParams
) -> tuple[KnowledgeLevel, Ints, Floats] | None:
    """The shortest knowledge of which some violates, with the support and the confidence of each
    candidate; None where nothing violates.
    """
    for level in knowledge_levels(sequences, params.L):
        support, confidence = support_and_confidence(level, cases)
        if _is_violating(support, confidence, params).any():
            return level, support, confidence
    return None


def _is_violating(support: Ints, confidence: Floats, params: TlkcParams) -> Bools:
    """Which candidates violate: bool, shape (candidates,)."""
    return np.asarray((support < params.K) | (confidence > params.C), np.bool_)


def _nothing_releasable(params: TlkcParams, rounds: int, support: int, confidence: float) -> str:
    """Why no event can be released."""
    if rounds == 0 and support < params.K:
        counted = "cases" if params.unit is None else f"distinct values of '{params.unit}'"
        return (
            f"the log holds fewer than K = {params.K} {counted} with events, "
            "so that no event can be released"
        )
    if confidence > params.C:
        which = "cases" if rounds == 0 else "cases that suppression leaves"
        return (
            f"more than C = {params.C:g} of all {which} hold one value of '{params.attribute}'; "
            "choose a larger C"
        )
    return (
        f"suppression for L = {params.L}, K = {params.K}, C = {params.C:g} leaves no event; "
        "ask for less"
    )


def _suppression_figures(
    sequences: KnownSequences, left: Ints, cases: SequenceCases
) -> dict[str, JsonValue]:
    """What the internal report may tell; measured on the raw log, never public."""
    of_sequence = cases.cases
    if len(cases.cases):
        # One more zero, so that offsets may point behind the last row.
        of_sequence = np.add.reduceat(np.append(cases.cases, 0), cases.offsets[:-1])
    weight = sequences.events_lost * of_sequence[sequences.sequence_of]
    with_events = np.unique(sequences.sequence_of[left])
    return {
        "events": int(weight.sum()),
        "events_kept": int(weight[left].sum()),
        "cases": int(of_sequence.sum()),
        "cases_kept": int(of_sequence[with_events].sum()),
    }


def _suppress_events(log: EventLog, table: pl.DataFrame, params: TlkcParams) -> EventLog:
    """Every case with the events that its sequence keeps; cases without any are left out."""
    if log.cases.height == 0:
        return log
    sequences = sequences_of_cases(log, params)
    row = _decided_rows(sequences, table, params)
    if row.null_count():
        raise MechanismError(NAME, "the log holds a variant that was not decided on")
    kept = table[KEPT].gather(row).explode().drop_nulls().to_numpy()
    if params.precision is not None:
        steps = sequences[STEPS].filter(sequences[STEPS].list.len() > 0).explode()
        times = _times_from_steps(steps, params)
        log = replace(log, events=log.events.with_columns(times))
    remaining = log.keep_events(kept)
    return remaining.keep_cases(np.flatnonzero(np.diff(remaining.offsets) > 0))


def _decided_rows(sequences: pl.DataFrame, table: pl.DataFrame, params: TlkcParams) -> pl.Series:
    """For each case the row of ``table`` that decides on its sequence; null where none does."""
    # Polars joins no columns of lists, but it groups by them.
    no_index = pl.lit(None, pl.UInt32)
    columns = named(*params.sequence_columns, "row", "case")
    decided = table.with_row_index("row").with_columns(no_index.alias("case")).select(columns)
    asked = sequences.with_row_index("case").with_columns(no_index.alias("row")).select(columns)
    row_of_sequence = pl.col("row").drop_nulls().first()
    cases_of_sequence = pl.col("case").drop_nulls()
    both = pl.concat([decided, asked]).group_by(named(*params.sequence_columns))
    matched = both.agg(row_of_sequence, cases_of_sequence)
    by_case = matched.select("row", "case").explode("case").drop_nulls("case")
    return by_case.sort("case")["row"]


def _times_from_steps(steps: pl.Series, params: TlkcParams) -> pl.Series:
    """Steps of the precision as times from the epoch on."""
    assert params.precision is not None  # noqa: S101 - asked only where times are known
    since_epoch = steps * whole_microseconds(params.precision)
    times = since_epoch + whole_microseconds(params.epoch - UNIX_EPOCH)
    return times.cast(TIME_TYPE).alias(TIMESTAMP)
