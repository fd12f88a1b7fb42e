"""Classes of cases, and which attribute values each of them has: what is measured of k-anonymity,
t-closeness, l-diversity and the confidence bound on a log alone, by code that shares nothing with
the mechanisms.

Cases of one class agree event by event. Classes are numbered inside a batch, and known by their
hashes over all batches. A class is all cases of one complete variant (``variants``), or all cases
with one prefix (``prefixes``). For an attribute of events, the values of a class are taken activity
by activity; with ``prefixes``, at the last event of the prefix. For an attribute of cases
(``case:...``), a class has one value a case. The attribute of times, ``timestamps``, stands for
cycle times: the time since the case's previous event, which its first event does not have. A log
without the column has no values.

**Hashes** are keyed, and two batches of a log, and two processes, agree in them: they tell classes
apart without holding their events. Texts are hashed by BLAKE2b, under a secret key. Rows are
polynomials over the hashes of their columns modulo p = 2^61 - 1, and sequences over the hashes of
their symbols, each taken twice at secret random points (Carter and Wegman, JCSS 1979;
Dietzfelbinger et al., STACS 1992). Two different sequences of different hashes have one hash with
probability at most (d / p)^2, where d is the sum of the events of the longer one, its columns, and
8: for a million classes of up to 10,000 events below 1e-17 that any two have; two texts have one
with probability 2^-122, unless BLAKE2b is broken. That holds for every log that does not depend on
the key, which is drawn anew for each check. What a collision would do: two classes count as one, of
the size of both.
"""

import secrets
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal

import numpy as np
import polars as pl
from pydantic import Field

from cloakwork.base.arrays import Bools, Ints, Words
from cloakwork.base.facts import Unit
from cloakwork.base.frozen import frozen
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.base.naming import named, nulls, values_of
from cloakwork.guarantees.base import (
    CountedGuarantee,
    EvidenceOfView,
    GuaranteeCheck,
    LeastGroup,
    Observation,
    as_everybody_sees,
)
from cloakwork.guarantees.claims import (
    Assumption,
    FollowsFromDraw,
    KnowsActivitySequence,
    MeasuredOnRelease,
    MeasuredWithoutInserted,
    Reason,
    StartsAtEpoch,
    WritesValuesLast,
)
from cloakwork.guarantees.flow import Derived, Flow, Underived
from cloakwork.log.eventlog import ACTIVITY, CASE_PREFIX, TIMESTAMP, EventLog

PRIME: Final = 2**61 - 1
_P: Final = np.uint64(PRIME)
_LOW_32: Final = np.uint64(2**32 - 1)
_LOW_29: Final = np.uint64(2**29 - 1)
_3, _29, _32, _61 = (np.uint64(bits) for bits in (3, 29, 32, 61))

Points = tuple[int, int]
"""Where both polynomials are evaluated."""


@dataclass(frozen=True, slots=True, repr=False)
class HashKey:
    """The secrets of one check: a key of 32 bytes for texts, and points. Hashes are uint64, shape
    (2, n), each below the prime.
    """

    text: bytes
    row: Points
    sequence: Points

    @classmethod
    def drawn(cls) -> "HashKey":
        """A key from the operating system's entropy."""
        points = [(secrets.randbelow(PRIME), secrets.randbelow(PRIME)) for _ in range(2)]
        return cls(secrets.token_bytes(32), *points)

    def of_values(self, values: pl.Series) -> Words:
        """The hash of each value by its text, times by their number; 0 for a missing one.

        0.0 and -0.0 have one hash.
        """
        texts = _texts(values)
        digests = [
            blake2b(text.encode("utf-8", "surrogatepass"), key=self.text, digest_size=16).digest()
            for text in texts.fill_null("").to_list()
        ]
        words = np.frombuffer(b"".join(digests), "<u8").reshape(-1, 2).T
        return np.where(texts.is_null().to_numpy(), np.uint64(0), words % _P)

    def of_rows(self, columns: list[Words], rows: int) -> Words:
        """The hash of each of ``rows`` rows by those of its values, column by column."""
        # Begun with 1, so that missing values at the front, which are 0, count.
        hashes = np.ones((2, rows), np.uint64)
        for column in columns:
            hashes = _times_plus(hashes, self.row, column)
        return hashes

    def longer(self, sequences: Words, symbols: Words) -> Words:
        """The hash of each sequence with one symbol more; that of none is 1."""
        return _times_plus(sequences, self.sequence, symbols)


def with_one_zero(values: pl.Series) -> pl.Series:
    """``values`` with 0.0 in place of -0.0: one value with two spellings."""
    if not values.dtype.is_float():
        return values
    # polars takes adding zero for nothing.
    return values.set((values == 0).fill_null(False), 0.0)


def _texts(values: pl.Series) -> pl.Series:
    values = with_one_zero(values)
    if values.dtype.is_temporal():
        values = values.to_physical()
    return values.cast(pl.String)


def _times_plus(hashes: Words, points: Points, added: Words) -> Words:
    """``hashes * points + added`` modulo the prime; all are below it."""
    result = np.empty_like(hashes)
    for row, point in enumerate(points):
        terms = added if added.ndim == 1 else added[row]
        numbers = _product(hashes[row], point) + terms
        # 2^61 is 1 modulo the prime, so the high bits are added to the low ones.
        reduced = (numbers & _P) + (numbers >> _61)
        result[row] = np.where(reduced >= _P, reduced - _P, reduced)
    return result


def _product(factor: Words, point: int) -> Words:
    """A number below 2^62 that is ``factor * point`` modulo the prime, in halves of 32 bits.

    With a = a1 2^32 + a0 and b likewise: a1 b1 2^64 = 8 a1 b1, and the middle term m 2^32 is
    (m >> 29) + (m mod 2^29) 2^32, as 2^61 is 1.
    """
    high = np.uint64(point >> 32)
    low = np.uint64(point & (2**32 - 1))
    factor_high = factor >> _32
    factor_low = factor & _LOW_32
    middle = factor_high * low + factor_low * high
    lowest = factor_low * low
    result = (factor_high * high) << _3
    result += middle >> _29
    result += (middle & _LOW_29) << _32
    result += (lowest & _P) + (lowest >> _61)
    return (result & _P) + (result >> _61)


Attribute = Annotated[str, Field(description="Attribute that is protected, by name")]
CaseClasses = Annotated[
    Literal["variants", "prefixes"], Field(description="Which cases form a class")
]

CLASS: Final = ("class_1", "class_2")
"""The columns that tell classes apart: their hashes."""
GROUP: Final = ("activity", *CLASS)
"""The columns that tell groups of values apart."""


@frozen
class NumberedRows:
    """Rows by what they agree in: ``of_row`` (int64, dense) and ``hashes`` of the numbers."""

    of_row: Ints
    hashes: Words


@frozen
class Prefixes:
    """What cases agree in before their first event, and up to and with each of their events.

    ``at_start``: int64, shape (cases,); ``of_event``: int64, shape (events,): numbers of classes,
    equal for cases that agree so far; ``of_case``: those in which cases end. ``hashes``: uint64,
    shape (2, classes).
    """

    at_start: Ints
    of_event: Ints
    of_case: Ints
    hashes: Words


def numbered_rows(frame: pl.DataFrame, columns: Sequence[str], key: HashKey) -> NumberedRows:
    """The rows of ``frame`` by what they hold in ``columns``; a column that it lacks is missing in
    all rows. A missing value is a value of its own.
    """
    present = [name for name in columns if name in frame.columns]
    # Numbered names, as two of the columns may be the same.
    rows = pl.DataFrame([values_of(frame, name).alias(str(i)) for i, name in enumerate(present)])
    if present:
        distinct = rows.unique(maintain_order=True)
        numbers = distinct.with_row_index("number")
        joined = rows.join(
            numbers, on=named(*rows.columns), how="left", nulls_equal=True, maintain_order="left"
        )
        of_row = joined["number"].to_numpy().astype(np.int64)
    else:
        distinct = rows
        of_row = np.zeros(frame.height, np.int64)
    count = distinct.height if present else 1
    known = iter(distinct.get_columns())
    # A column that the frame lacks is hashed as missing, so that all batches agree.
    missing = np.zeros((2, count), np.uint64)
    hashes = [key.of_values(next(known)) if name in present else missing for name in columns]
    return NumberedRows(of_row, key.of_rows(hashes, count))


def prefixes_of(
    offsets: Ints, symbols: NumberedRows, key: HashKey, start: NumberedRows | None = None
) -> Prefixes:
    """The classes of cases whose events are ``symbols[offsets[i]:offsets[i + 1]]``; ``start``: what
    cases agree in before the first of them.

    Cases are followed event by event: those of one class stay in one where their next events agree.
    """
    lengths = np.diff(offsets)
    # Unless ``start`` parts them, all cases begin in one class.
    if start is None:
        start = NumberedRows(np.zeros(len(lengths), np.int64), np.ones((2, 1), np.uint64))
    width = symbols.hashes.shape[1]
    of_event = np.zeros(len(symbols.of_row), np.int64)
    cases = np.arange(len(lengths))
    class_ = start.of_row
    first_number = 0
    # What cases agree in at the start is hashed like a first symbol.
    level = key.longer(np.ones_like(start.hashes), start.hashes)
    hashes = [level]
    length = 0
    while True:
        # Cases that have ended drop out; the others part by class and next symbol together.
        goes_on = lengths[cases] > length
        if not goes_on.all():
            cases = cases[goes_on]
            class_ = class_[goes_on]
        if not len(cases):
            break
        events = offsets[cases] + length
        pairs, class_ = np.unique(class_ * width + symbols.of_row[events], return_inverse=True)
        before, symbol = np.divmod(pairs, width)
        # Numbers go on from one length to the next, so that each stands for one prefix.
        first_number += level.shape[1]
        level = key.longer(level[:, before], symbols.hashes[:, symbol])
        hashes.append(level)
        of_event[events] = first_number + class_
        length += 1
    # A case without events ends where it starts.
    of_case = start.of_row.copy()
    has_events = lengths > 0
    of_case[has_events] = of_event[offsets[1:][has_events] - 1]
    return Prefixes(start.of_row, of_event, of_case, np.concatenate(hashes, axis=1))


@frozen
class GroupedValues:
    """How often each value of an attribute stands in each group, and in the log as a whole.

    One row for each group and value:

    - ``activity``, ``class_1``, ``class_2``: UInt64; hashes of the activity that a group is of (0
      for an attribute of cases), and of its class;
    - ``value``: null where there is none; numbers as the log has them (times as their number), or
      anything else as String;
    - ``count``, ``kept``: Int64; how many there are, and how many not of inserted events.

    Each value stands in one group, but for values of cases under ``prefixes``, which stand in one
    for every prefix of the case. So there each value has a row of its own besides, where the class
    is null: how many cases hold it. Memory goes with the pairs of a group and a value.
    """

    attribute: str
    classes: Literal["variants", "prefixes"]
    key: HashKey = field(default_factory=HashKey.drawn)

    def of(self, batch: EventLog) -> pl.DataFrame:
        """Count the values of one batch."""
        column = _compared_values(batch, self.attribute)
        if self.attribute.startswith(CASE_PREFIX):
            return self._of_cases(batch, column)
        activities = activities_of(batch, self.key)
        found = prefixes_of(batch.offsets, activities, self.key)
        class_ = found.of_event
        if self.classes == "variants":
            class_ = found.of_case[batch.case_of]
        # One number for a class and an activity together.
        width = activities.hashes.shape[1]
        rows = pl.DataFrame(
            {"group": class_ * width + activities.of_row, "value": column, "kept": batch.kept}
        )
        # The first event of a case has no cycle time.
        if self.attribute == TIMESTAMPS:
            rows = rows.filter(pl.Series(_has_predecessor(batch)))
        counted = _counted(rows)
        classes, activity = np.divmod(counted["group"].to_numpy(), width)
        return _table(counted, activities.hashes[0][activity], found.hashes[:, classes])

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """Counts of one value in one group are added up."""
        by = named(*GROUP, "value")
        return summaries.group_by(by).agg(pl.col("count").sum(), pl.col("kept").sum())

    def _of_cases(self, batch: EventLog, values: pl.Series) -> pl.DataFrame:
        """The values of an attribute of cases, which are compared with one another all together."""
        found = prefixes_of(batch.offsets, activities_of(batch, self.key), self.key)
        by_case = _all_kept(found.of_case, values)
        if self.classes == "variants":
            return _of_no_activity(_counted(by_case), found.hashes)
        # A case is in one class for each of its events.
        by_prefix = _all_kept(found.of_event, values.gather(batch.case_of))
        # So its values stand in many groups, and are counted once more to be compared with.
        every_case = _counted(by_case.with_columns(group=pl.lit(0, pl.Int64)))
        reference = _of_no_activity(every_case, found.hashes)
        no_class = [pl.lit(None, pl.UInt64).alias(name) for name in GROUP[1:]]
        return pl.concat(
            [_of_no_activity(_counted(by_prefix), found.hashes), reference.with_columns(no_class)]
        )


def _all_kept(group: Ints, values: pl.Series) -> pl.DataFrame:
    rows = pl.DataFrame({"group": pl.Series(group, dtype=pl.Int64), "value": values})
    return rows.with_columns(kept=pl.lit(True))


def _counted(rows: pl.DataFrame) -> pl.DataFrame:
    counts = [
        pl.len().cast(pl.Int64).alias("count"),
        pl.col("kept").sum().cast(pl.Int64).alias("kept"),
    ]
    return rows.group_by("group", "value").agg(counts)


def _of_no_activity(counted: pl.DataFrame, hashes: Words) -> pl.DataFrame:
    nothing = np.zeros(counted.height, np.uint64)
    return _table(counted, nothing, hashes[:, counted["group"].to_numpy()])


def _table(counted: pl.DataFrame, activity: Words, class_: Words) -> pl.DataFrame:
    columns = zip(GROUP, (activity, *class_), strict=True)
    hashes = [pl.Series(name, words, pl.UInt64) for name, words in columns]
    return pl.DataFrame([*hashes, counted["value"], counted["count"], counted["kept"]])


def activities_of(log: EventLog, key: HashKey) -> NumberedRows:
    """The activities of the events; a missing one is an empty text."""
    labels = log.activities.fill_null("")
    return numbered_rows(pl.DataFrame({ACTIVITY: labels}), [ACTIVITY], key)


def _has_predecessor(log: EventLog) -> Bools:
    """The events that are not the first of their case: bool, shape (events,)."""
    case = log.case_of
    return np.concatenate([[False], case[1:] == case[:-1]])[: len(case)]


def _compared_values(log: EventLog, attribute: str) -> pl.Series:
    """One value an event, or a case: numbers as they are, times as their number, everything else
    (truth values, too) as String; nothing where the log has no such column.
    """
    if attribute == TIMESTAMPS:
        # Microseconds since the previous event of the case; null where either has no time.
        if TIMESTAMP not in log.events.columns:
            return nulls(log.events.height, pl.Int64())
        # From one case to the next a difference means nothing.
        gaps = log.microseconds.diff()
        return gaps.set(pl.Series(~_has_predecessor(log)), None)
    table = log.table_of(attribute)
    if attribute not in table.columns:
        return pl.Series([None] * table.height, dtype=pl.Null)
    values = values_of(table, attribute)
    if values.dtype.is_numeric() or values.dtype == pl.Null:
        return values
    if values.dtype.is_temporal():
        return values.to_physical()
    return values.cast(pl.String)


class ValuesInClasses(CountedGuarantee):
    """A guarantee about the values of one attribute in each class of cases."""

    bounds_values: ClassVar[bool] = True

    if TYPE_CHECKING:  # fields of the kinds, each in its own order

        @property
        def attribute(self) -> str:
            """The protected attribute."""

        @property
        def classes(self) -> Literal["variants", "prefixes"]:
            """Which cases form a class."""

    @property
    def over(self) -> tuple[str, ...]:
        """The protected column."""
        return (self.attribute,)

    def rests_on_draws(self) -> bool:
        """Whether it speaks of output probabilities, which no single release shows."""
        return False

    @abstractmethod
    def judged(self, merged: pl.DataFrame) -> Observation:
        """What the merged ``GroupedValues`` of a log show."""

    def derive(self, flow: Flow) -> Derived | Underived:
        """The last step to write the attribute was chosen for it, and the classes are no others
        afterwards.
        """
        attribute = self.attribute
        by_draws = self.rests_on_draws()
        causes = tuple(self.why_not_served(flow, (attribute,)))
        if causes:
            return Underived(causes)
        by = flow.mechanism_writing(attribute)
        written = flow.columns[attribute].writer
        classes_written = flow.columns[CONTROL_FLOW].writer
        # Whoever changes cases after the values were written forms other classes.
        if written is not None and classes_written is not None and classes_written > written:
            changing = flow.mechanism_writing(CONTROL_FLOW)
            return Underived((f"{changing} changes which cases form a class after {by}",))
        derivation: list[Reason] = [WritesValuesLast(mechanism=by, column=attribute)]
        assumptions: list[Assumption] = [KnowsActivitySequence()]
        if attribute == TIMESTAMPS:
            assumptions.append(StartsAtEpoch(epoch=flow.facts.epoch))
        if by_draws:
            derivation.append(FollowsFromDraw(mechanism=by))
        else:
            derivation.append(MeasuredOnRelease(what="classes"))
            # Inserted events may dilute the values of a class.
            if flow.inserts and not attribute.startswith(CASE_PREFIX):
                derivation.append(MeasuredWithoutInserted(what="classes"))
        return Derived(
            derivation=tuple(derivation),
            assumptions=tuple(assumptions),
            basis="derived" if by_draws else "derived and measured",
        )

    def check(self, unit: Unit, *, raw_times: bool = False) -> GuaranteeCheck | None:
        """What ``judged`` says. Whoever recognises inserted events leaves out the values that they
        hold.
        """
        if self.rests_on_draws():
            return None
        values = GroupedValues(self.attribute, self.classes)
        public = EvidenceOfView(values, as_everybody_sees)
        return GuaranteeCheck(public, self.judged, for_recogniser=lambda _: values)

    def least_group(self) -> LeastGroup | None:
        """None: it is about values, however many cases there are."""
        return None

    def quasi_identifiers(self) -> tuple[str, ...]:
        """None: classes are formed by activities alone."""
        return ()


def class_text(classes: str) -> str:
    """Which released cases form a class, in plain words."""
    if classes == "variants":
        return "have the same complete activity sequence"
    return "begin with the same events"


def values_text(attribute: str, classes: str) -> tuple[str, str]:
    """The values that a class holds, in plain words, and all values that they are compared with."""
    if attribute.startswith("case:"):
        return f"the values of '{attribute}'", "those of all released cases"
    what = "times since the event before" if attribute == TIMESTAMPS else f"values of '{attribute}'"
    where = "at the last of these events" if classes == "prefixes" else "at each activity"
    return f"the {what} {where}", "those at all released events of that activity"


def class_in_short(classes: str) -> str:
    """The same on a screen."""
    return "activity sequence" if classes == "variants" else "beginning of an activity sequence"
