"""The confidence bound of TLKC: what partial background knowledge can find out.

It is measured by a chain of joins. A *sequence* is what can be known of a case; a *candidate* is a
subsequence of it that an attacker may know. A table holds every pair of a candidate and a sequence
that it occurs in, with the earliest place at which it ends there. Joined with the places of the
sequence behind that one, it gives all candidates of one event more. What a group of matching
sequences holds is then added up. Which candidates there are follows from the distinct sequences of
all batches, which TLKC leaves few of: so what merges is these, with what their cases hold.

For background ``relative``, released times are taken as they are: the release has rounded them, and
counted them from one origin. What this cannot see: whether the cases of the log are distinct
real ones, which the release's lineage says.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import timedelta
from functools import partial
from typing import Annotated, Any, ClassVar, Final, Literal

import numpy as np
import polars as pl
from pydantic import Field

from cloakwork.base.arrays import Ints, offsets_of, ranges_of
from cloakwork.base.errors import GuaranteeBroken
from cloakwork.base.facts import Unit
from cloakwork.base.frozen import frozen
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.base.naming import named, nulls, values_of
from cloakwork.base.quantities import (
    LONGEST,
    MOST_ROWS,
    SHORTEST,
    Duration,
    Number,
    format_duration,
)
from cloakwork.guarantees.base import (
    CountedGuarantee,
    Direction,
    EvidenceOfView,
    GuaranteeCheck,
    LeastGroup,
    Observation,
    ReleaseOutline,
    require_column,
)
from cloakwork.guarantees.claims import (
    Assumption,
    Background,
    GuaranteeCaveat,
    Intersection,
    KnowsAtMost,
    LeavesOutEvents,
    MeasuredOnRelease,
    NobodyKnows,
    Reason,
    ReleasedAsItIs,
    TimesSinceFirstEvent,
)
from cloakwork.guarantees.classes import (
    CLASS,
    HashKey,
    NumberedRows,
    numbered_rows,
    prefixes_of,
    with_one_zero,
)
from cloakwork.guarantees.flow import Derived, Flow, Underived, unit_assumptions
from cloakwork.guarantees.inserted import without_their_values
from cloakwork.log.eventlog import ACTIVITY, CASE_PREFIX, TIME_TYPE, TIMESTAMP, EventLog, as_lists

MOST_PAIRS: Final = 30_000_000
"""How many pairs of candidate and sequence are held at once: about 3 GB."""
MOST_JOINED: Final = 1_000_000_000
"""How many pairs of candidate and unit are counted, some at a time: a quarter of an hour."""
_SLICE: Final = 1_000_000
"""How many rows a join makes at a time."""


class ConfidenceBound(CountedGuarantee):
    """TLKC: background knowledge of size L matches at least K units and implies no sensitive value
    beyond C.

    Cases without a value count among those that match. ``missing: sensitive`` bounds by C what
    share of them they are, too: where a value is recorded only if something is the case, its
    absence tells as much.
    """

    bounds_values: ClassVar[bool] = True
    stricter_if: ClassVar[Mapping[str, Direction]] = {"L": "more", "K": "more", "C": "less"}
    strictest_word: ClassVar[Mapping[str, str]] = {}

    kind: Literal["confidence-bound"]
    L: Annotated[int, Field(ge=1, le=1000, strict=True)]
    """How many events an attacker may know"""

    K: Annotated[int, Field(ge=2, le=MOST_ROWS, strict=True)]
    """How many units match that knowledge at least"""

    C: Annotated[Number, Field(ge=1e-6, le=1)] = 1.0
    """Most confidence in a sensitive value, as a share of 1; needs attribute"""

    background: Background = "sequence"
    """What is known of those events"""

    precision: Annotated[Duration | None, Field(ge=SHORTEST, le=LONGEST)] = None
    """How precisely times since a case's first event are known; for relative; from 1ms to 36525d"""

    attribute: str | None = None
    """Sensitive attribute that C speaks of"""

    missing: Literal["neutral", "sensitive"] = "neutral"
    """Whether having no value of the attribute is itself something that C bounds"""

    @property
    def over(self) -> tuple[str, ...]:
        """The protected columns."""
        times = (TIMESTAMPS,) if self.background == "relative" else ()
        return (CONTROL_FLOW, *times, *([self.attribute] if self.attribute else []))

    def sentence(self) -> str:
        """Say it to a person."""
        events = "one event" if self.L == 1 else f"up to {self.L} events"
        known = background_in_words(self.background, self.precision)
        tells = ""
        if self.attribute:
            tells = (
                f"; at most {100 * self.C:g}% of these hold the same value of '{self.attribute}'"
            )
        if self.missing == "sensitive":
            tells += f", and at most {100 * self.C:g}% hold none"
        return (
            f"Somebody who knows {events} of a case ({known}) finds no released case that "
            f"fits, or fitting cases of at least {self.K} different units{tells}. "
            f"Events were left out for it: a released activity sequence may be one that no case "
            f"had (TLKC confidence bound, background {self.background})."
        )

    def in_short(self, who: str = "case") -> str:
        """Its line on a screen."""
        known = "one event" if self.L == 1 else f"{self.L} events"
        line = f"whoever knows up to {known} of a case finds no case that fits, or {self.K} units"
        if self.attribute is not None and self.C < 1:
            line += f", of which at most {100 * self.C:g}% share one value of '{self.attribute}'"
        return line

    def derive(self, flow: Flow) -> Derived | Underived:
        """The last step to write what is known was chosen for it; the sensitive attribute is
        released as it came.
        """
        # What may be known is written for this goal; the sensitive attribute stays as it came.
        columns = tuple(sorted({CONTROL_FLOW, TIMESTAMPS} & set(self.over)))
        causes = list(self.why_not_served(flow, columns))
        changing = flow.writer_of(self.attribute) if self.attribute else None
        if changing is not None:
            causes.append(
                f"{changing.mechanism} changes {self.attribute}, "
                "and the confidence is measured in its values as they are"
            )
        if causes:
            return Underived(tuple(causes))
        by = flow.mechanism_writing(CONTROL_FLOW)
        derivation: list[Reason] = [LeavesOutEvents(mechanism=by, columns=columns)]
        if self.precision is not None:
            times = TimesSinceFirstEvent(precision=self.precision, epoch=flow.facts.epoch)
            derivation.append(times)
        if self.attribute is not None:
            derivation.append(ReleasedAsItIs(column=self.attribute))
        derivation.append(MeasuredOnRelease(what="knowledge"))
        # What an attacker is taken to know.
        known = KnowsAtMost(events=self.L, background=self.background, precision=self.precision)
        assumptions: list[Assumption] = [known]
        # The sensitive attribute is what an attacker wants to learn: it counts as unknown.
        may_know = set(self.over) - {self.attribute}
        unknown = flow.released - {CONTROL_FLOW, METADATA} - may_know
        if unknown:
            assumptions.append(NobodyKnows(columns=tuple(sorted(unknown))))
        return Derived(
            derivation=tuple(derivation),
            assumptions=(*assumptions, *unit_assumptions(flow.facts, counted=True)),
            basis="derived and measured",
        )

    def check(self, unit: Unit, *, raw_times: bool = False) -> GuaranteeCheck:
        """The worst knowledge. Whoever recognises inserted events leaves out the values that they
        hold.
        """
        known = SequenceEvidence(self, unit)
        counted = "released cases" if unit.attribute is None else "units"

        def judge(merged: pl.DataFrame) -> Observation:
            worst = worst_knowledge(merged, self, unit)
            if worst is None:
                return Observation(True, "the log holds no case")
            holds = worst.smallest >= self.K and (worst.confidence or 0.0) <= self.C
            seen = f"knowledge of up to {self.L} events fits at least {worst.smallest} {counted}"
            if worst.confidence is not None:
                seen += f", and the largest confidence in a value is {worst.confidence:.1%}"
            return Observation(holds, seen)

        without_values = partial(without_their_values, attribute=self.attribute)
        return GuaranteeCheck(
            known, judge, for_recogniser=lambda _: EvidenceOfView(known, without_values)
        )

    def least_group(self) -> LeastGroup:
        """K units."""
        return LeastGroup("K", self.K, "units")

    def quasi_identifiers(self) -> tuple[str, ...]:
        """None: knowledge is of events alone."""
        return ()

    def caveats(self, release: ReleaseOutline) -> Iterator[GuaranteeCaveat]:
        """It says nothing about other releases."""
        yield Intersection(of="confidence-bound")

    @classmethod
    def default_columns(cls) -> tuple[str, ...]:
        """The control flow: knowledge is of activities at least."""
        return (CONTROL_FLOW,)

    @classmethod
    def columns_as_written(
        cls, written: Mapping[str, Any]
    ) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Times besides, where what is known of events is when they took place."""
        yield from super().columns_as_written(written)
        if written.get("background") == "relative":
            yield ("background",), TIMESTAMPS


def background_in_words(background: Background, precision: timedelta | None) -> str:
    """What somebody knows of some events of a case; ``precision``: of times since its first event,
    for *relative*.
    """
    if background == "relative":
        known_to = format_duration(precision or timedelta())
        since = f", and how long after the case's first event, to {known_to}"
        return f"which activities, in which order{since}"
    more = {"set": "", "multiset": ", and how often", "sequence": ", in which order"}
    return f"which activities{more[background]}"


_COUNTS: Final = ("cases", "alone", "units")
_SCHEMA: Final = pl.Schema(
    {
        "class_1": pl.UInt64(),
        "class_2": pl.UInt64(),
        "activity": pl.List(pl.String()),
        "time": pl.List(pl.Int64()),
        "holds": pl.Boolean(),
        "value": pl.String(),
        "cases": pl.Int64(),
        "alone": pl.Int64(),
        "units": pl.List(pl.UInt64()),
    }
)


@frozen
class SequenceEvidence:
    """What can be known of the cases of a log, and what they hold.

    - One row for each distinct sequence: ``class_1``, ``class_2`` (UInt64, its hash), ``activity``
      (List[String]) and ``time`` (List[Int64], microseconds; null where times are not known).
    - One row for each sequence, where ``holds`` is false, and for each ``value`` (String) besides
      that its cases hold, where it is true; null for none, where that is sensitive, and ``holds``
      is null where the batch lacks the column: ``cases`` and ``alone`` (Int64), how many of these
      cases there are, and how many without a unit; ``units`` (List[UInt64], hashes), of the others.
    """

    guarantee: ConfidenceBound
    unit: Unit
    key: HashKey = field(default_factory=HashKey.drawn)

    def of(self, batch: EventLog) -> pl.DataFrame:
        """The cases of one batch."""
        # Gives every summary the same columns and types, whatever the batch lacks.
        empty = pl.DataFrame(schema=_SCHEMA)
        if batch.cases.height == 0:
            return empty
        known = _known_events(batch, self.guarantee, self.key)
        found = prefixes_of(known.offsets, known.symbols, self.key)
        hashes = dict(zip(CLASS, found.hashes, strict=True))
        cases = pl.DataFrame({"class": found.of_case, "unit": self._units(batch)})
        holders = _value_holders(
            batch,
            self.guarantee.attribute,
            cases,
            missing_is_value=self.guarantee.missing == "sensitive",
        )
        unit = pl.col("unit")
        # Cases without a unit are counted apart: whose they are is not known.
        counts = [
            pl.len().cast(pl.Int64).alias("cases"),
            unit.null_count().cast(pl.Int64).alias("alone"),
            unit.drop_nulls().unique().alias("units"),
        ]
        counted = pl.concat(
            [
                cases.group_by("class").agg(counts).with_columns(holds=False),
                holders.group_by("class", "value", "holds").agg(counts),
            ],
            how="diagonal",
        )
        # One case of each class stands for its sequence.
        distinct, example = np.unique(found.of_case, return_index=True)
        sequences = known.sequences_of(example).with_columns(pl.Series("class", distinct))
        rows = pl.concat([sequences, counted], how="diagonal")
        by_class = [
            pl.Series(name, words[rows["class"].to_numpy()]) for name, words in hashes.items()
        ]
        return pl.concat([empty, rows.with_columns(by_class).drop("class")], how="diagonal")

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """Each sequence once; cases are added up."""
        # Rows of sequences have no counts.
        is_sequence = pl.col("cases").is_null()
        sequences = summaries.filter(is_sequence).unique(CLASS, keep="any")
        counts = [
            pl.col("cases").sum(),
            pl.col("alone").sum(),
            pl.col("units").explode(empty_as_null=False).unique(),
        ]
        counted = summaries.filter(~is_sequence).group_by(*CLASS, "holds", "value").agg(counts)
        return pl.concat([sequences, counted], how="diagonal")

    def _units(self, batch: EventLog) -> pl.Series:
        """The hash of each case's unit; null where it has none, or where cases count."""
        name = self.unit.attribute
        if name is None:
            return nulls(batch.cases.height, pl.UInt64())
        require_column(batch.cases, name, self.guarantee.sentence())
        numbered = numbered_rows(batch.cases, [name], self.key)
        hashes = pl.Series(numbered.hashes[0][numbered.of_row])
        return hashes.set(values_of(batch.cases, name).is_null(), None)


@frozen
class _KnownEvents:
    """What can be known of each case: the rows ``symbols[offsets[i]:offsets[i + 1]]``, by number.

    ``symbols``: numbers ascend with activity and time. ``names``: these of each number.
    """

    symbols: NumberedRows
    names: pl.DataFrame
    offsets: Ints

    def sequences_of(self, cases: Ints) -> pl.DataFrame:
        """What is known of some cases: ``activity`` and ``time``, in lists."""
        lengths = np.diff(self.offsets)[cases]
        known = self.names[self.symbols.of_row[ranges_of(self.offsets[cases], lengths)]]
        offsets = offsets_of(lengths)
        return pl.DataFrame({name: as_lists(known[name], offsets) for name in known.columns})


def _known_events(log: EventLog, guarantee: ConfidenceBound, key: HashKey) -> _KnownEvents:
    is_timed = guarantee.background == "relative"
    for name in [ACTIVITY, TIMESTAMP] if is_timed else [ACTIVITY]:
        require_column(log.events, name, guarantee.sentence())
    names = {"activity": values_of(log.events, ACTIVITY).cast(pl.String)}
    if is_timed:
        names["time"] = values_of(log.events, TIMESTAMP).cast(TIME_TYPE).to_physical()
    events = pl.DataFrame(names)
    symbols = events.unique().sort(named(*events.columns)).with_row_index("number")
    joined = events.join(
        symbols, on=named(*events.columns), how="left", nulls_equal=True, maintain_order="left"
    )
    number = joined["number"].to_numpy().astype(np.int64)
    offsets = log.offsets
    # Where order is not known, symbols are sorted within a case; in a set each stands once.
    if guarantee.background in ("set", "multiset"):
        # One number for a case and a symbol.
        width = max(symbols.height, 1)
        pairs = np.sort(log.case_of * width + number)
        if guarantee.background == "set":
            pairs = pairs[np.diff(pairs, prepend=-1) > 0]
        case, number = np.divmod(pairs, width)
        lengths = np.bincount(case, minlength=log.cases.height)
        offsets = offsets_of(lengths)
    hashes = key.of_rows([key.of_values(symbols[name]) for name in names], symbols.height)
    return _KnownEvents(NumberedRows(number, hashes), symbols.drop("number"), offsets)


def sequence_tables(merged: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """The places of each sequence (``sequence``, ``place``, ``symbol``); its ``cases``, those that
    are ``alone``, and the ``units`` of the others; and the same by ``value`` of those who hold it.
    """
    is_sequence = pl.col("cases").is_null()
    sequences = merged.filter(is_sequence).with_row_index("sequence")
    known = ["activity", "time"]
    # Where times are not known, a symbol is an activity alone.
    if sequences["time"].null_count():
        known = ["activity"]
    place = pl.int_ranges(pl.col("activity").list.len()).alias("place")
    events = sequences.select("sequence", *known, place)
    events = events.explode(*known, "place", empty_as_null=False)
    symbols = events.select(known).unique(maintain_order=True).with_row_index("symbol")
    places = events.join(symbols, on=known, nulls_equal=True).select("sequence", "place", "symbol")
    counted = merged.filter(~is_sequence).join(
        sequences.select("sequence", *CLASS), on=CLASS, how="left"
    )
    cases = counted.filter(pl.col("holds").eq_missing(False))
    holders = counted.filter(pl.col("holds").ne_missing(False))
    if not holders["holds"].any():
        # No batch has the column: nobody holds a value, or lacks one.
        holders = holders.clear()
    held = holders.select("sequence", "value", *_COUNTS)
    return places, cases.select("sequence", *_COUNTS), held


def _value_holders(
    log: EventLog, attribute: str | None, cases: pl.DataFrame, *, missing_is_value: bool
) -> pl.DataFrame:
    """Which cases hold which values: the columns of ``cases``, ``value`` and ``holds``, one row for
    each value of each case.

    ``missing_is_value``: a case without any has one row, whose value is null. ``holds``: True; null
    in all rows where the log lacks the column.
    """
    every_case = np.arange(log.cases.height)
    table = log.events
    case = log.case_of
    if attribute is not None and attribute.startswith(CASE_PREFIX):
        table = log.cases
        case = every_case
    has_column = attribute in table.columns
    rows = pl.DataFrame(schema={"case": pl.Int64, "value": pl.String})
    if attribute is not None and has_column:
        values = with_one_zero(values_of(table, attribute)).cast(pl.String)
        rows = pl.DataFrame({"case": case, "value": values}).drop_nulls()
        # A value counts once for a case, however many of its events hold it.
        if table is log.events:
            rows = rows.unique()
    if attribute is not None and missing_is_value:
        without_any = np.setdiff1d(every_case, rows["case"].to_numpy())
        missing = pl.DataFrame({"case": without_any}).with_columns(value=pl.lit(None, pl.String))
        rows = pl.concat([rows, missing])
    holds = pl.lit(True if has_column else None, pl.Boolean).alias("holds")
    held = cases[rows["case"]].with_columns(holds)
    return pl.concat([held, rows.select("value")], how="horizontal")


@frozen
class WorstKnowledge:
    """The worst that an attacker finds: the fewest units that match some knowledge, and the most
    confidence.

    ``confidence``: the largest share of those who match that holds one value of the attribute; None
    where the guarantee speaks of none. Of cases or, where units own several, of units with a case
    that matches and holds it, whichever is more; there, cases without a unit are left out, or taken
    for one unit each, whichever is more. A missing value is none.
    """

    smallest: int
    confidence: float | None


class _TooManyMatches(Exception):
    """There is more knowledge than can be counted."""


@frozen
class _Candidates:
    """All candidates of one size that occur in some sequence.

    ``rows``: one for each candidate and sequence; the columns ``by`` identify the candidate, beside
    ``sequence`` and ``end``, the earliest place at which the candidate ends there.
    """

    rows: pl.DataFrame
    by: list[str]


def worst_knowledge(
    merged: pl.DataFrame, guarantee: ConfidenceBound, unit: Unit
) -> WorstKnowledge | None:
    """What the worst knowledge of at most ``guarantee.L`` events, none included, finds, of the
    merged ``SequenceEvidence`` of a log; None for a log without cases.

    Counts distinct ``unit``s; a case without one adds none. Time goes with the pairs of candidate
    and sequence, at most (distinct activities)^L for each distinct sequence, times its length;
    memory with the pairs. Raises ``GuaranteeBroken`` when there are more than ``MOST_PAIRS`` pairs:
    nothing is then known about the guarantee.
    """
    if merged.height == 0:
        return None
    places, cases, holders = sequence_tables(merged)
    by_case = {"cases": pl.col("cases").sum()}
    countings = [_Counting(cases.drop("alone", "units"), holders.drop("alone", "units"), by_case)]
    # Where units own several cases, the bounds hold in both ways of counting.
    if unit.attribute:
        units = pl.col("unit").drop_nulls().n_unique().cast(pl.Int64)
        # Without the cases that have no unit, and with each of them as a unit of its own.
        by_unit = {"units": units, "owners": units + pl.col("alone").sum()}
        countings.append(_Counting(_unit_rows(cases), _unit_rows(holders), by_unit))
    smallest = int(cases["cases"].sum())
    confidence = 0.0
    try:
        for candidates in _known_subsequences(places, cases, guarantee.L):
            for counting in countings:
                for fewest, share in counting.of(candidates):
                    smallest = min(smallest, fewest)
                    confidence = max(confidence, share)
    except _TooManyMatches:
        raise GuaranteeBroken(
            guarantee.sentence(),
            "it cannot be measured: "
            f"there is too much knowledge of up to {guarantee.L} events to be counted",
        ) from None
    return WorstKnowledge(smallest, confidence if guarantee.attribute else None)


def _known_subsequences(
    places: pl.DataFrame, cases: pl.DataFrame, longest: int
) -> Iterator[_Candidates]:
    """All candidates of size 0 to ``longest`` that occur; ends early where there is none."""
    # Who knows nothing matches every case, before its first place.
    nothing = cases.select("sequence").unique()
    nothing = nothing.with_columns(nothing=pl.lit(0), end=pl.lit(-1, pl.Int64))
    candidates = _Candidates(nothing, ["nothing"])
    yield candidates
    for size in range(1, longest + 1):
        # Each candidate with one symbol more, in a new column.
        event = f"event {size}"
        found = list[pl.DataFrame]()
        by = [*candidates.by, event]
        for (joined,) in _candidate_slices(candidates, places):
            # The earliest end is enough: what follows a later one follows the earliest, too.
            behind = joined.filter(pl.col("place") > pl.col("end"))
            longer = behind.rename({"symbol": event}).group_by(named(*by, "sequence"))
            found.append(longer.agg(pl.col("place").min().alias("end")))
            if sum(table.height for table in found) > MOST_PAIRS:
                raise _TooManyMatches
        candidates = _Candidates(pl.concat(found), by)
        if not candidates.rows.height:
            return
        yield candidates


def _candidate_slices(
    candidates: _Candidates, *tables: pl.DataFrame
) -> Iterator[tuple[pl.DataFrame, ...]]:
    """``tables`` joined with the candidates by ``sequence``, for some candidates at a time: those
    that make about ``_SLICE`` rows, at least one.

    Raises ``_TooManyMatches`` before joins that take too long.
    """
    sequences = pl.concat([table.select("sequence") for table in tables])
    width = sequences.group_by("sequence").agg(pl.len().cast(pl.Int64).alias("width"))
    by = candidates.by
    rows = candidates.rows.sort(named(*by))
    widths = rows.join(width, on="sequence", how="left", maintain_order="left")["width"]
    rows_made = widths.fill_null(0).cum_sum().to_numpy()
    if rows_made[-1] > MOST_JOINED:
        raise _TooManyMatches
    # All rows of a candidate are in the slice of its first one.
    candidate = rows.select(pl.struct(named(*by)).rle_id()).to_series().to_numpy()
    slice_number = rows_made[np.searchsorted(candidate, candidate)] // _SLICE
    begin = 0
    for end in [*np.flatnonzero(np.diff(slice_number)) + 1, rows.height]:
        yield tuple(rows[begin:end].join(table, on="sequence") for table in tables)
        begin = int(end)


@frozen
class _Counting:
    """A way to count who matches a candidate, and who of these holds one value.

    ``all_rows``, ``holders``: what is counted of each ``sequence``, the latter by ``value``.
    ``counts``: by name, what is counted of these rows; the first is how many match. A unit holds a
    value where a matching case of it does.
    """

    all_rows: pl.DataFrame
    holders: pl.DataFrame
    counts: Mapping[str, pl.Expr]

    def of(self, candidates: _Candidates) -> Iterator[tuple[int, float]]:
        """Of some candidates at a time: the fewest that match one, and the largest share of them
        that holds one value.
        """
        by = candidates.by
        first = next(iter(self.counts))
        counts = [count.alias(name) for name, count in self.counts.items()]
        for matching, holding in _candidate_slices(candidates, self.all_rows, self.holders):
            total = matching.group_by(named(*by)).agg(counts)
            held = holding.group_by(named(*by, "value")).agg(counts)
            both = held.join(total, on=named(*by), suffix=" in all")
            largest = 0.0
            for name in self.counts:
                some = both.filter(named(name).as_expr() > 0)
                # By numpy, which rounds correctly: polars multiplies by a reciprocal here and
                # there, and 3/10 is then above 0.3.
                shares = some[name].to_numpy() / some[f"{name} in all"].to_numpy()
                largest = max(largest, float(shares.max(initial=0.0)))
            yield int(total[first].to_numpy().min()), largest


def _unit_rows(counted: pl.DataFrame) -> pl.DataFrame:
    """A row for each ``unit``, and one, whose unit is null, for the cases that are ``alone``."""
    others = counted.drop("cases", "units").with_columns(unit=pl.lit(None, pl.UInt64))
    units = counted.drop("cases", "alone").explode("units", empty_as_null=False)
    units = units.rename({"units": "unit"}).with_columns(alone=pl.lit(0, pl.Int64))
    return pl.concat([others, units], how="diagonal")
