"""TLKC: whoever knows a few events of a case finds many cases that match, and learns no sensitive
value for sure.
"""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Annotated, ClassVar, Final, Literal

import numpy as np
import polars as pl
from pydantic import AwareDatetime, Field, JsonValue

from cloakwork.base.arrays import Ints, offsets_of, owners_of
from cloakwork.base.errors import Infeasible, MechanismError
from cloakwork.base.facts import UNIX_EPOCH, Facts
from cloakwork.base.frozen import frozen
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS, Lineage
from cloakwork.base.naming import CASE_PREFIX, named, values_of
from cloakwork.base.progress import Pace
from cloakwork.base.quantities import Duration, Frozen, Number
from cloakwork.guarantees import Background, ConfidenceBound, Guarantee
from cloakwork.log.eventlog import (
    ACTIVITY,
    TIME_TYPE,
    TIMESTAMP,
    EventLog,
    as_lists,
    with_attribute,
)
from cloakwork.mechanisms.aggregates import CASES, UNIT, VARIANT, case_texts
from cloakwork.mechanisms.base import (
    Gives,
    Mechanism,
    Offer,
    Options,
    Proof,
    Refusal,
    Theorem,
    no_option,
)
from cloakwork.mechanisms.kanon.background_knowledge import (
    KnownSequences,
    SequenceCases,
    TooManyMatches,
    knowledge_levels,
    places_to_suppress,
    support_and_confidence,
)
from cloakwork.mechanisms.steps import Decision, MapCases, Rewrite, RewriteStep
from cloakwork.noise import Noise, Stream

NAME: Final = "kanon/tlkc"
STEPS: Final = "steps"
VALUES: Final = "values"
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


class TlkcParams(Frozen):
    """What the policy's guarantee says, and two declared facts; there are no options.

    ``L``, ``K``, ``C``, ``background``, ``precision``, ``attribute``, ``missing``: as in
    ``ConfidenceBound``. ``unit``: the case attribute whose distinct values K counts (None: cases).
    ``epoch``: when every released case begins, for background ``relative``.
    """

    L: Annotated[int, Field(ge=1)]
    K: Annotated[int, Field(ge=2)]
    C: Annotated[Number, Field(gt=0, le=1)]
    background: Background
    precision: Duration | None
    attribute: str | None
    missing: Literal["neutral", "sensitive"] = "neutral"
    unit: str | None
    epoch: AwareDatetime

    @property
    def sequence_columns(self) -> list[str]:
        """The columns of a summary in which sequences differ."""
        return [VARIANT] if self.precision is None else [VARIANT, STEPS]


@frozen
class SequenceCounts:
    """How many cases follow each sequence, by unit and sensitive values where these are needed.

    A summary has the columns ``variant`` (List[String], activities in order); with a precision
    ``steps`` (List[Int64], the time of each event since the first of its case, in whole precisions
    rounded down; null where it has none); with a unit ``unit`` (String, null where a case has
    none); with an attribute ``values`` (List[String], the distinct values that the case or any of
    its events holds, sorted); ``cases`` (Int64, at least 1). One row for each combination.
    """

    params: TlkcParams

    def of(self, batch: EventLog) -> pl.DataFrame:
        """Count the sequences of one batch; raises ``MechanismError`` where it lacks a column that
        is needed.
        """
        rows = _sequences_of_cases(batch, self.params)
        unit = self.params.unit
        attribute = self.params.attribute
        if unit is not None:
            rows = rows.with_columns(case_texts(batch, unit).alias(UNIT))
        if attribute is not None:
            values = _values_of_cases(batch, attribute)
            if self.params.missing == "sensitive":
                # A case without any has one more value, the empty text; all others begin with an
                # equals sign, so none of them is empty.
                marked = values.list.eval(pl.lit("=") + pl.element())
                missing = pl.Series([[""]], dtype=pl.List(pl.String))
                values = marked.zip_with(
                    values.list.len() > 0, missing.new_from_index(0, len(values))
                )
            rows = rows.with_columns(values.alias(VALUES))
        return self.merge(rows.with_columns(pl.lit(1, pl.Int64).alias(CASES)))

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """Add up the rows that several batches have for the same combination."""
        by = [name for name in summaries.columns if name != CASES]
        return summaries.group_by(named(*by)).agg(pl.col(CASES).sum()).sort(named(*by))


def _sequences_of_cases(log: EventLog, params: TlkcParams) -> pl.DataFrame:
    """The sequence of each case, one row a case: ``variant`` and, with a precision, ``steps``."""
    columns = {VARIANT: as_lists(log.activities, log.offsets)}
    if params.precision is not None:
        if TIMESTAMP not in log.events.columns:
            raise MechanismError(NAME, "the log has no timestamps, and the guarantee is about them")
        time = log.microseconds.alias("time")
        since_start = pl.col("time") - pl.col("time").min().over("case")
        events = pl.DataFrame({"case": log.case_of, "time": time})
        columns[STEPS] = as_lists(
            events.select(since_start // _microseconds(params.precision)).to_series(),
            log.offsets,
        )
    return pl.DataFrame(columns)


def _values_of_cases(log: EventLog, attribute: str) -> pl.Series:
    """For each case the distinct values it holds, sorted: List[String]; a missing value is none."""
    table = log.events
    offsets = log.offsets
    owner = "event"
    if attribute.startswith(CASE_PREFIX):
        table = log.cases
        offsets = np.arange(log.cases.height + 1)
        owner = "case"
    if attribute not in table.columns:
        if log.cases.height:
            reason = f"no {owner} has '{attribute}', of which the guarantee speaks"
            raise MechanismError(NAME, reason)
        return pl.Series([], dtype=pl.List(pl.String))
    values = values_of(table, attribute)
    if values.dtype.is_float():
        # -0.0 and 0.0 are one value with two spellings.
        zero = pl.zeros(len(values), values.dtype, eager=True)
        values = values.zip_with(values.fill_null(1) != 0, zero)
    return as_lists(values.cast(pl.String), offsets).list.drop_nulls().list.unique().list.sort()


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
        self,
        goal: Guarantee,
        facts: Facts,
        options: Options,
    ) -> Offer[TlkcParams] | Refusal:
        """Meet a confidence bound, counted in units where the policy names one."""
        if not isinstance(goal, ConfidenceBound):
            return Refusal("never", OTHER_KINDS.get(goal.kind, f"it gives no {goal.kind}"))
        if options:
            return no_option(options)
        fault = _meaningless_request(goal)
        if fault is not None:
            return Refusal("misconfigured", fault)
        stated = goal.model_dump(exclude={"kind"})
        params = TlkcParams(**stated, unit=facts.unit.attribute, epoch=facts.epoch)
        events = "one event" if params.L == 1 else f"up to {params.L} events"
        counted = "cases" if params.unit is None else f"different values of '{params.unit}'"
        why = (
            f"leaves events out until what is known of {events} fits no case, "
            f"or at least {params.K} {counted}"
        )
        if params.attribute is not None:
            why += f", of which at most {100 * params.C:g}% hold the same '{params.attribute}'"
        return Offer(params, why)

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

    def decide(
        self,
        params: TlkcParams,
        summary: pl.DataFrame,
        noise: Noise,
    ) -> Decision:
        """Say which events of each sequence stay: the columns of ``params.sequence_columns`` and
        ``kept`` (List[Boolean]).

        Raises ``Infeasible`` when the log holds something and nothing of it can be kept,
        ``MechanismError`` when it is too large.
        """
        keys = named(*params.sequence_columns)
        details = [name for name in summary.columns if name not in params.sequence_columns]
        grouped = summary.group_by(keys, maintain_order=True).agg(named(*details))
        lengths = grouped[VARIANT].list.len().to_numpy().astype(np.int64)
        # Symbols are numbered by activity, then time, so that nothing depends on the order of
        # sequences. An empty sequence would explode to a null.
        events = grouped.filter(lengths > 0).select(keys).explode(keys)
        symbol = events.select(pl.struct(keys).rank("dense") - 1).to_series().to_numpy()
        sequences, place = _known_sequences(
            owners_of(lengths),
            symbol.astype(np.int64),
            params.background,
        )
        cases = _sequence_cases(grouped, details)
        try:
            left, rounds = _suppress_until_bounded(sequences, cases, params)
        except TooManyMatches:
            raise MechanismError(
                self.name,
                f"there is too much knowledge of up to L = {params.L} events to be counted; "
                "ask for a smaller L",
            ) from None
        is_kept = np.zeros(len(sequences.symbols), np.bool_)
        is_kept[left] = True
        kept = as_lists(pl.Series(is_kept[place]), offsets_of(lengths))
        # What the internal report may tell; measured on the raw log, never public.
        of_sequence = np.add.reduceat(cases.cases, cases.offsets[:-1])
        weight = sequences.events_lost * of_sequence[sequences.sequence_of]
        with_events = np.unique(sequences.sequence_of[left])
        figures: dict[str, JsonValue] = {
            "events": int(weight.sum()),
            "events_kept": int(weight[left].sum()),
            "cases": int(of_sequence.sum()),
            "cases_kept": int(of_sequence[with_events].sum()),
            "rounds": rounds,
        }
        return Decision(grouped.select(keys).with_columns(kept.alias(KEPT)), figures)

    def rewrite(
        self,
        params: TlkcParams,
        decision: Decision,
        stream: Stream,
    ) -> Rewrite:
        """Suppress what is decided for the sequence of each case."""
        table = decision.table
        return MapCases(lambda log: _suppress_events(log, table, params), together="case")


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
    if name is not None and goal.missing == "sensitive" and not name.startswith(CASE_PREFIX):
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
    sequences: KnownSequences,
    cases: SequenceCases,
    params: TlkcParams,
) -> tuple[Ints, int]:
    """The places that stay (int64, ascending), and in how many rounds others were suppressed."""
    left = np.arange(len(sequences.symbols))
    if len(cases.cases) and not len(left):
        raise Infeasible(NAME, _nothing_releasable(params, 0, 0, 0.0))
    rounds = 0
    progress = Pace()
    while True:
        remaining = sequences.restricted_to(left)
        # The shortest knowledge of which some violates.
        for level in knowledge_levels(remaining, params.L):
            support, confidence = support_and_confidence(level, cases)
            is_violating = (support < params.K) | (confidence > params.C)
            if is_violating.any():
                break
        else:
            return left, rounds
        if level.candidates.shape[1] == 0:
            # Whoever knows nothing matches all cases: suppressing events does not help.
            of_all = int(support[0]), float(confidence[0])
            raise Infeasible(NAME, _nothing_releasable(params, rounds, *of_all))
        left = np.delete(left, places_to_suppress(level, is_violating, remaining))
        rounds += 1
        if not len(left):
            raise Infeasible(
                NAME,
                _nothing_releasable(
                    params,
                    rounds,
                    params.K,
                    0.0,
                ),
            )
        places = len(sequences.symbols)
        progress.report(f"{NAME}: round {rounds}, {len(left):,} of {places:,} places left")


def _nothing_releasable(
    params: TlkcParams,
    rounds: int,
    support: int,
    confidence: float,
) -> str:
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


def _known_sequences(
    sequence: Ints,
    symbol: Ints,
    background: Background,
) -> tuple[KnownSequences, Ints]:
    """The sequences as an attacker knows them, and for each event its place in them.

    ``sequence``, ``symbol``: int64, of the events of all sequences end to end; symbols are equal
    for events that an attacker knows equally. A multiset of activities is the sorted sequence; a
    set is the sorted sequence of distinct activities.
    """
    symbols = int(symbol.max(initial=0)) + 1
    pair = sequence * symbols + symbol
    if background == "set":
        # All events of one activity are known, and suppressed, together.
        distinct, place, count = np.unique(pair, return_inverse=True, return_counts=True)
        sequence, symbol = np.divmod(distinct, symbols)
        return KnownSequences(symbol, sequence, count.astype(np.int64)), place
    order = np.arange(len(pair))
    if background == "multiset":
        order = np.argsort(pair, kind="stable")
    place = np.argsort(order)
    one_event_each = np.ones(len(pair), np.int64)
    return KnownSequences(symbol[order], sequence[order], one_event_each), place


def _sequence_cases(grouped: pl.DataFrame, details: Sequence[str]) -> SequenceCases:
    """Which cases follow each sequence: a row of ``grouped`` is a sequence, whose columns
    ``details`` list the cases, units and values.
    """
    row_counts = grouped[CASES].list.len().to_numpy().astype(np.int64)
    rows = grouped.select(named(*details)).explode(named(*details))
    sequence = owners_of(row_counts)
    unit: Ints | None = None
    units = 0
    if UNIT in rows.columns:
        # A unit is counted once, however many cases it has; without one, each case is a row.
        no_unit = rows[UNIT].is_null().to_numpy()
        copies = np.where(no_unit, rows[CASES].to_numpy(), 1)
        repeated = owners_of(copies)
        one_case = pl.when(pl.col(UNIT).is_null()).then(1).otherwise(pl.col(CASES))
        rows = rows[repeated].with_columns(one_case.alias(CASES))
        sequence = sequence[repeated]
        no_unit = no_unit[repeated]
        rank = rows[UNIT].rank("dense").fill_null(0).to_numpy().astype(np.int64)
        units = int(rank.max(initial=0))
        # Whoever has none gets a number of its own, behind those of all units.
        unit = np.where(no_unit, units + np.arange(len(rank)), rank - 1)
    values = pl.Series([[]] * rows.height, dtype=pl.List(pl.String))
    if VALUES in rows.columns:
        values = rows[VALUES]
    # An empty list explodes to a null.
    value = values.explode().drop_nulls().rank("dense").to_numpy().astype(np.int64)
    return SequenceCases(
        offsets=offsets_of(np.bincount(sequence, minlength=len(row_counts))),
        cases=rows[CASES].to_numpy().astype(np.int64),
        unit=unit,
        value_offsets=offsets_of(values.list.len().to_numpy()),
        value=value,
        units=units,
    )


def _suppress_events(log: EventLog, table: pl.DataFrame, params: TlkcParams) -> EventLog:
    """Every case with the events that its sequence keeps; cases without any are left out."""
    if log.cases.height == 0:
        return log
    sequences = _sequences_of_cases(log, params)
    keys = [named(column).as_expr() for column in params.sequence_columns]
    decided = sequences.join(
        table,
        on=keys,
        how="left",
        maintain_order="left",
    )[KEPT]
    if decided.null_count():
        raise MechanismError(NAME, "the log holds a variant that was not decided on")
    if params.precision is not None:
        steps = sequences[STEPS].filter(sequences[STEPS].list.len() > 0).explode()
        since_epoch = steps * _microseconds(params.precision)
        times = since_epoch + _microseconds(params.epoch - UNIX_EPOCH)
        log = with_attribute(log, TIMESTAMP, times.cast(TIME_TYPE))
    remaining = log.keep_events(decided.explode().drop_nulls().to_numpy())
    return remaining.keep_cases(np.flatnonzero(np.diff(remaining.offsets) > 0))


def _microseconds(length: timedelta) -> int:
    """A length of time in microseconds, rounded down."""
    return length // timedelta(microseconds=1)
