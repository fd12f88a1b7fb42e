"""XES (IEEE 1849): events of whole traces, by the fast reader where the file is plain, by the full
parser everywhere else.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import offsets_of
from cloakwork.base.frozen import frozen
from cloakwork.base.naming import (
    ACTIVITY,
    CASE_ID,
    CASE_PREFIX,
    TIME_TYPE,
    TIMESTAMP,
    named,
    nulls,
    values_of,
)
from cloakwork.log.eventlog import EventLog, SourceSpelling, time_order
from cloakwork.log.formats.intervals import as_asked
from cloakwork.log.formats.kinds import TYPES, Kind
from cloakwork.log.formats.row_source import (
    PLACE,
    ROW,
    Columns,
    Findings,
    RawChunk,
    ReadAgain,
    Reader,
    ReadRequest,
    StoredColumn,
    columns_of,
    in_row_order,
)
from cloakwork.log.formats.source import LogStream
from cloakwork.log.formats.xes_fast import Declined, fast_chunks
from cloakwork.log.formats.xes_full import full_chunks
from cloakwork.log.formats.xes_values import (
    Collector,
    Conflicting,
    Evidence,
    IdCollector,
    Irregularities,
    in_order,
    place_in_file,
)

XesReader = Callable[[LogStream, Collector], Iterator[None]]
_STANDARD: Final[dict[str, pl.DataType]] = {
    CASE_ID: pl.String(),
    ACTIVITY: pl.String(),
    TIMESTAMP: TIME_TYPE,
}


class XesSource:
    """XES files, packed by gzip or not, in this order; attributes in ``request.text`` as text
    whatever type they state. ``readers``: each reads what the ones before it decline.
    """

    def __init__(
        self,
        files: Sequence[Path],
        request: ReadRequest,
        readers: tuple[XesReader, ...] = (fast_chunks, full_chunks),
    ) -> None:
        self._files = tuple(files)
        self._request = request
        self._readers = readers
        self._bytes_read = 0
        self._evidence = Evidence()
        self._kinds: Mapping[str, Kind] = dict.fromkeys(request.text, "text")

    def expected_rows(self) -> int:
        """About how many events there are."""
        size = sum(path.stat().st_size for path in self._files)
        return self._evidence.events * max(1, size) // max(1, self._bytes_read)

    def chunks(self, *, at_once: bool = False) -> Iterator[RawChunk]:
        """The events of all files. ``LogError`` for what is no well-formed log; ``ReadAgain`` where
        a file turns out to be written otherwise than the reader reads it.
        """
        self._evidence = Evidence()
        before = 0
        for path in self._files:
            try:
                yield from self._chunks_of(path, before, at_once=at_once)
            except (Declined, Conflicting):
                # No reader is left that could take it.
                if len(self._readers) == 1:
                    raise
                self._readers = self._readers[1:]
                raise ReadAgain from None
            before += path.stat().st_size
        if self._evidence.is_unordered:
            self._kinds = {**self._evidence.settled_kinds(), **self._kinds}
            raise ReadAgain

    def assembler(self) -> "XesAssembler":
        """What makes logs of the rows."""
        evidence = self._evidence
        settled = evidence.settled_kinds()
        columns = []
        zoneless = 0
        for name, attribute in evidence.attributes.items():
            kind = settled[name] if name in settled else next(iter(attribute.kinds))
            # Texts of whole numbers that are read as decimal ones are not given back.
            is_exact = kind == "text" if name in settled else attribute.is_exact
            is_time = name == TIMESTAMP
            columns.append(
                StoredColumn(
                    attribute.number,
                    name,
                    kind,
                    TYPES[kind],
                    is_exact=is_exact and not is_time,
                    has_texts=not is_exact and not is_time,
                )
            )
            zoneless += attribute.zoneless if kind == "date" else 0
        return XesAssembler(
            tuple(columns),
            replace(evidence.irregular, zoneless=zoneless),
            {**settled, **self._kinds},
            self._files,
            replace(self._request, keep=None),
            evidence.conflicts,
        )

    def _chunks_of(
        self,
        path: Path,
        before: int,
        *,
        at_once: bool,
    ) -> Iterator[RawChunk]:
        name = path.name if len(self._files) > 1 else ""
        with LogStream(path, self._request.bounds) as stream:
            collector = Collector(self._evidence, self._kinds, self._request, name)
            for _ in self._readers[0](stream, collector):
                self._bytes_read = before + stream.taken
                if collector.is_full and not at_once:
                    yield from collector.take(is_last=False)
            yield from collector.take(is_last=True)


READER: Final = Reader(XesSource)


@frozen
class XesAssembler:
    """Makes logs of the cases of XES files. ``repeated``: where an id comes again; None: nobody has
    looked for one so far.
    """

    columns: tuple[StoredColumn, ...]
    irregular: Irregularities
    kinds: Mapping[str, Kind]
    files: tuple[Path, ...]
    request: ReadRequest
    conflicts: Mapping[str, str]
    repeated: str | None = None

    @property
    def surveyed(self) -> tuple[str, ...]:
        """Cases alone can repeat an id."""
        return ()

    def findings(self, rows: Columns, cases: pl.DataFrame | None) -> Findings:
        """How many cases have the id of an earlier one."""
        number = next((each.number for each in self.columns if each.name == CASE_ID), None)
        if cases is None or number not in cases.columns:
            return Findings()
        ids = values_of(cases, number).drop_nulls()
        return Findings(repeated_ids=len(ids) - ids.n_unique())

    def settled(self, found: Findings) -> "XesAssembler":
        """Where an id is repeated, the files are read again to name the first place."""
        irregular = replace(self.irregular, repeated_ids=found.repeated_ids)
        repeated = self._first_repetition() if found.repeated_ids else ""
        return replace(self, irregular=irregular, repeated=repeated)

    def log_of(self, rows: Columns, cases: pl.DataFrame | None = None) -> EventLog:
        """The log of whole traces; ``case_index``: where each stands in all files."""
        if self.repeated is None:
            return self.settled(self.findings(rows, cases)).log_of(rows, cases)
        rows = in_row_order(rows)
        if cases is None:
            cases = pl.DataFrame(schema={PLACE: pl.Int64})
        elif not values_of(cases, PLACE).is_sorted():
            cases = cases.sort(named(PLACE))
        texts: Columns = {}
        case_table = self._read(columns_of(cases), cases.height, CASE_PREFIX, texts)
        events = self._read(rows, len(rows[ROW]), "", texts)
        places = cases[PLACE].to_numpy().astype(np.int64)
        # Places ascend, so a search finds the case of each event.
        case_of = np.searchsorted(places, rows[PLACE].to_numpy()).astype(np.int64)
        rows.clear()
        # The order is known before the columns are brought into it, one at a time.
        order = time_order(case_of, events[TIMESTAMP])
        if order is not None:
            case_of = case_of[order]
            for name in events:
                events[name] = in_order(events[name], order)
                if name in texts:
                    texts[name] = in_order(texts[name], order)
        counts = np.bincount(case_of, minlength=len(places))
        exact = frozenset(each.name for each in self.columns if each.is_exact)
        log = EventLog(
            pl.DataFrame(events),
            pl.DataFrame(case_table),
            offsets_of(counts),
            self.irregular.notes(self.kinds),
            source=SourceSpelling(
                exact,
                texts,
                {},
                dict(self.conflicts),
                self.repeated,
            ),
            case_index=places,
        )
        return as_asked(log, self.request)

    def _read(
        self,
        stored: Columns,
        height: int,
        scope: str,
        texts: Columns,
    ) -> Columns:
        """The columns of cases or of events, the standard ones first; the texts of those that do
        not give them back go to ``texts``.
        """
        found: Columns = {}
        for name, kind in _STANDARD.items():
            if name.startswith(CASE_PREFIX) == bool(scope):
                found[name] = nulls(height, kind)
        for column in self.columns:
            if column.name.startswith(CASE_PREFIX) == bool(scope):
                found[column.name], text = column.read(stored, height)
                if text is not None:
                    texts[column.name] = text
        return found

    def _first_repetition(self) -> str:
        """Where a trace first states the id of an earlier one."""
        known = pl.Series(dtype=pl.String)
        for path in self.files:
            collector = IdCollector(self.request)
            with LogStream(path, self.request.bounds) as stream:
                for _ in full_chunks(stream, collector):
                    pass
            ids, lines = collector.last_ids()
            # Whatever is not the first of its kind, in this file or those before.
            ids_so_far = pl.concat([known, ids])
            again = ~ids_so_far.is_first_distinct()[len(known) :]
            if again.any():
                file = path.name if len(self.files) > 1 else ""
                return place_in_file(file, f"line {lines[again.arg_max()]}")
            known = ids_so_far
        return ""
