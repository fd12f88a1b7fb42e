"""Noise on the times of a log and on its values, batch by batch: what a kernel needs of rows, and
what becomes of them. Of a raw time nothing beyond its case is asked, of a raw value nothing beyond
itself.

**Times** take two passes. The first takes a sample of the noisy values of the whole log, by which a
mechanism completes times; the second completes each case. Both draw the same noise, by its
addresses. The sample holds noisy values and activities only, so whatever is made of it is
post-processing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import polars as pl
from pydantic import JsonValue

from cloakwork.base.arrays import Ints
from cloakwork.base.errors import MechanismError
from cloakwork.base.frozen import frozen
from cloakwork.base.naming import CASE_PREFIX, named, values_of
from cloakwork.engines.measured import coded_cases, enriched
from cloakwork.kernel.cases import Cases
from cloakwork.kernel.local import BoundedNoise, Randomising
from cloakwork.kernel.perturb import Perturbing, RawTimes, StartsAndGaps
from cloakwork.log.eventlog import TIME_TYPE, TIMESTAMP, EventLog, places_among, with_attribute
from cloakwork.mechanisms.steps import (
    Completion,
    Draws,
    Enrichment,
    Listed,
    MapCases,
    MapCasesBySummary,
    NoisySample,
    NoisyTimes,
    Numbers,
    PublicValues,
    case_addresses,
    event_addresses,
    places_of_numbers,
)
from cloakwork.noise import Stream

SAMPLED: Final = 10_000
"""Most values of each group that are kept: starts, gaps of an activity, gaps of a pair. Up to so
many it is all of them; beyond, the median of a sample is within 1 % of the ranks of the true one.
"""

_KIND: Final = "kind"
_KINDS: Final = ("start", "gap", "pair")
_BEFORE: Final = "before"
_ACTIVITY: Final = "activity"
_PRIORITY: Final = "priority"
_VALUE: Final = "value"
_GROUP: Final = "group"
_KEYS: Final = named(_KIND, _BEFORE, _ACTIVITY)
_SCHEMA: Final = pl.Schema(
    [
        (_KIND, pl.String()),
        (_BEFORE, pl.String()),
        (_ACTIVITY, pl.String()),
        (_PRIORITY, pl.List(pl.UInt64())),
        (_VALUE, pl.List(pl.Int64())),
    ]
)


@frozen
class SampleOfNoised:
    """The aggregate: of each group the values of lowest random priority, ``SAMPLED`` at most.

    ``noised``: the noisy starts and gaps of a batch. ``stream``: draws the priorities, at the
    events' addresses, so that the same values are kept however the log is parted.
    """

    noised: Callable[[EventLog], StartsAndGaps]
    stream: Stream

    def of(self, batch: EventLog) -> pl.DataFrame:
        """The sample of one batch, one row a group: ``kind``, ``before`` and ``activity`` name it,
        ``priority`` and ``value`` are lists.
        """
        if TIMESTAMP not in batch.events.columns:
            return _SCHEMA.to_frame()
        noised = self.noised(batch)
        cases = cases_of(batch)
        # A pair's gap is measured where both events have a raw time.
        # The first event of a case has no gap, so the row before one is an event of its case.
        of_pair = noised.has_time(batch.events.height)[noised.gap_rows - 1]
        pair_rows = noised.gap_rows[of_pair]
        # Groups as numbers: 0 for starts, one more than its code for an activity, then pairs.
        width = len(cases.alphabet) + 1
        code = cases.codes + 1
        gaps = self._measured(batch, code[noised.gap_rows], noised.gap_rows, noised.gaps)
        pair = code[pair_rows - 1] * width + code[pair_rows]
        starts = self._measured(
            batch, np.zeros(len(noised.starts), np.int64), noised.start_rows, noised.starts
        )
        pairs = self._measured(batch, pair, pair_rows, noised.gaps[of_pair])
        kept = _lowest_priorities(pl.concat([starts, gaps, pairs]))
        return _named_groups(kept, cases.alphabet)

    def _measured(
        self,
        batch: EventLog,
        group: Ints,
        rows: Ints,
        values: Ints,
    ) -> pl.DataFrame:
        priorities, _ = self.stream.words(event_addresses(batch, rows))
        return pl.DataFrame({_GROUP: group, _PRIORITY: priorities, _VALUE: values})

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """The lowest priorities of all batches, in their order; groups by name."""
        groups = summaries.select(_KEYS).unique().sort(_KEYS).with_row_index(_GROUP)
        numbered = summaries.join(groups, on=_KEYS).select(_GROUP, _PRIORITY, _VALUE)
        kept = _lowest_priorities(numbered.explode(_PRIORITY, _VALUE))
        return groups.join(kept, on=_GROUP).sort(_GROUP).drop(_GROUP)


def _named_groups(table: pl.DataFrame, alphabet: tuple[str, ...]) -> pl.DataFrame:
    """A row for each group, by name."""
    width = len(alphabet) + 1
    labels = pl.Series(["", *alphabet], dtype=pl.String)
    before, activity = np.divmod(table[_GROUP].to_numpy(), width)
    kind = (activity > 0).astype(np.int64) + (before > 0)
    return pl.DataFrame(
        {
            _KIND: pl.Series(_KINDS, dtype=pl.String).gather(kind),
            _BEFORE: labels.gather(before),
            _ACTIVITY: labels.gather(activity),
            _PRIORITY: table[_PRIORITY],
            _VALUE: table[_VALUE],
        }
    )


def _lowest_priorities(table: pl.DataFrame) -> pl.DataFrame:
    """Of each group the values of lowest priority, ``SAMPLED`` at most, as lists in its order; the
    lowest of all rows are among the lowest of each batch.

    Priorities have 64 random bits, so that no two of a group are equal.
    """
    # A bottom-k sketch: merging two gives that of both.
    lowest = pl.col(_PRIORITY, _VALUE).sort_by(_PRIORITY).head(SAMPLED)
    return table.group_by(_GROUP).agg(lowest)


def sample_of(table: pl.DataFrame) -> NoisySample:
    """The merged table of ``SampleOfNoised`` as arrays."""
    alphabet = pl.concat([table[_BEFORE], table[_ACTIVITY]]).unique().sort()
    table = table.explode(_PRIORITY, _VALUE).sort(_PRIORITY, _VALUE, _KIND)
    starts, gaps, pairs = (table.filter(pl.col(_KIND) == kind) for kind in _KINDS)
    return NoisySample(
        tuple(alphabet),
        starts[_VALUE].to_numpy(),
        gaps[_VALUE].to_numpy(),
        places_among(gaps[_ACTIVITY], alphabet),
        pairs[_VALUE].to_numpy(),
        places_among(pairs[_BEFORE], alphabet),
        places_among(pairs[_ACTIVITY], alphabet),
    )


def cases_of(log: EventLog) -> Cases:
    """The control flow of a batch; a missing activity is an empty label."""
    return coded_cases(log.activities.fill_null(""), log.offsets)


def noise_on_times(
    perturbing: Perturbing, complete: Callable[[NoisySample], Completion], stream: Stream
) -> MapCasesBySummary:
    """Give every event of a log a time made of noisy ones; without a time column it stays as it is.

    ``complete``: makes of a sample of the log's noisy values what completes each batch. ``stream``:
    for draws beside the noise.
    """
    noised = _NoisedLog(perturbing, complete, stream.part("filled"))
    sample = SampleOfNoised(noised.starts_and_gaps, stream.part("sample"))
    return MapCasesBySummary(sample, noised.mapping)


@frozen
class _NoisedLog:
    """The two passes over a log; both see the same noise."""

    perturbing: Perturbing
    complete: Callable[[NoisySample], Completion]
    stream: Stream

    def starts_and_gaps(self, log: EventLog) -> StartsAndGaps:
        """The noisy starts and gaps of a batch."""
        return self.perturbing.noised(raw_times(log))

    def mapping(self, table: pl.DataFrame) -> MapCases:
        """The second pass; ``table``: the sample that the first one took."""
        # Once, by the whole log's sample.
        completion = self.complete(sample_of(table))
        return MapCases(lambda log: self._completed(log, completion), together="case")

    def _completed(self, log: EventLog, completion: Completion) -> EventLog:
        """A batch with a time for every event."""
        if TIMESTAMP not in log.events.columns:
            return log
        draws = Draws(self.stream, log.offsets, log.index_of_case)
        noisy = NoisyTimes(cases_of(log), self.starts_and_gaps(log), draws)
        steps = np.asarray(completion(noisy))
        if steps.shape != (log.events.height,) or steps.dtype.kind != "i":
            reason = "what completes them returns no whole number for each event"
            raise MechanismError("times", reason)
        times = pl.Series(self.perturbing.declared.grid.microseconds(steps.astype(np.int64)))
        return with_attribute(log, TIMESTAMP, times.cast(TIME_TYPE))


def raw_times(log: EventLog) -> RawTimes:
    """The times of a batch, as the kernel reads them."""
    times = log.microseconds
    rows = np.flatnonzero(times.is_not_null().to_numpy())
    microseconds = times.drop_nulls().to_numpy().astype(np.int64)
    return RawTimes(microseconds, rows, log.offsets, log.index_of_case)


def noise_on_values(randomising: Randomising, public: Mapping[str, PublicValues]) -> MapCases:
    """Put a noisy value in the place of each value of the declared attributes; ``public``: what
    their codes stand for. A log that lacks an attribute has it missing everywhere.
    """
    return MapCases(_NoisedValues(randomising, public).apply, together="case")


@frozen
class _NoisedValues:
    randomising: Randomising
    public: Mapping[str, PublicValues]

    def apply(self, log: EventLog) -> EventLog:
        """One batch."""
        columns = {name: self._released(name, log) for name in self.randomising.declared.noises}
        return enriched(log, Enrichment(columns))

    def _released(self, name: str, log: EventLog) -> Listed | Numbers:
        noise = self.randomising.declared.noises[name]
        public = self.public[name]
        if name.startswith(CASE_PREFIX):
            table = log.cases
            addresses = case_addresses(log)
        else:
            table = log.events
            addresses = event_addresses(log, np.arange(log.events.height))
        codes = np.full(table.height, -1, np.int64)
        if name in table.columns:
            codes = codes_of(values_of(table, name), public)
        noisy = self.randomising.released(name, codes, addresses)
        if not isinstance(noise, BoundedNoise) or public.range is None:
            return Listed(noisy, public.domain or ())
        low, high = public.range
        drawn = np.clip(low + noisy * ((high - low) / noise.steps), low, high)
        if public.integer:
            return Numbers(np.where(noisy < 0, np.nan, np.rint(drawn)), "integer")
        return Numbers(np.where(noisy < 0, np.nan, drawn))


def codes_of(values: pl.Series, public: PublicValues) -> Ints:
    """Each value's code, by the value alone: its place in a domain, or its step in a range; -1
    where it is missing or neither.
    """
    if values.dtype.is_nested() or values.dtype == pl.Null:
        return np.full(len(values), -1, np.int64)
    texts = values.cast(pl.String)
    if public.range is not None:
        low, high = public.range
        numbers = texts.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
        inside = np.clip(np.where(np.isnan(numbers), low, numbers), low, high)
        steps = np.rint((inside - low) / (high - low) * public.steps).astype(np.int64)
        return np.where(np.isnan(numbers), -1, steps)
    # How a float is spelled may follow from the other values: 5 beside a missing one is 5.0.
    places = _Places.of(public.domain or (), with_texts=not values.dtype.is_float())
    distinct = texts.unique().drop_nulls()
    by_text = {text: places.at(text) for text in distinct.to_list()}
    if not by_text:
        return np.full(len(values), -1, np.int64)
    found = texts.replace_strict(by_text, default=-1, return_dtype=pl.Int64)
    return found.fill_null(-1).to_numpy().astype(np.int64)


@frozen
class _Places:
    """Where the values of a domain stand: by their texts, and by the numbers that they are."""

    texts: Mapping[str, int]
    numbers: Mapping[float, int]

    @classmethod
    def of(cls, domain: Sequence[JsonValue], *, with_texts: bool) -> "_Places":
        """Of texts as they are, truth values in small letters, and numbers."""
        texts: dict[str, int] = {}
        for place, value in enumerate(domain):
            if with_texts and isinstance(value, str | bool):
                text = value if isinstance(value, str) else str(value).lower()
                texts.setdefault(text, place)
        return cls(texts, places_of_numbers(domain))

    def at(self, text: str) -> int:
        """The place of a value by its text; -1 where there is none."""
        lower = text.lower()
        found = self.texts.get(lower if lower in ("true", "false") else text, -1)
        if found >= 0:
            return found
        try:
            return self.numbers.get(float(text), -1)
        except ValueError:
            return -1
