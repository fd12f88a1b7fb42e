"""A log in parts put together again, and compared with the log that was read whole."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

import log_equality
from cloakwork.engines.partition import partition
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats.reading import open_rows


def in_parts(source: object, folder: Path, parts: int = 3, **options: object) -> EventLog:
    """A log that is read chunk by chunk into so many parts in ``folder``, and put together."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = open_rows(source, **options)  # type: ignore[arg-type]
    parted = partition(rows, folder, b"key of the tests", part_count=parts)
    return put_together([parted.load(place) for place in range(len(parted))])


def put_together(parts: Sequence[EventLog]) -> EventLog:
    """The cases of all parts in the order of ``case_index``. What each says of the file as a whole
    must be the same in all.
    """
    first = parts[0]
    for part in parts:
        assert part.notes == first.notes
        assert part.source.exact == first.source.exact
        assert part.source.conflicts == first.source.conflicts
        assert part.source.repeated == first.source.repeated
    index = np.concatenate([part.index_of_case for part in parts])
    assert len(np.unique(index)) == len(index)
    counts = np.concatenate([np.diff(part.offsets) for part in parts])
    source = replace(
        first.source,
        texts={
            name: pl.concat([part.source.texts[name] for part in parts])
            for name in first.source.texts
        },
        rows={
            name: pl.concat([part.source.rows[name] for part in parts])
            for name in first.source.rows
        },
    )
    log = EventLog(
        pl.concat([part.events for part in parts]),
        pl.concat([part.cases for part in parts]),
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        first.notes,
        source=source,
    )
    return log.keep_cases(np.argsort(index))


def assert_same_log(expected: EventLog, found: EventLog) -> None:
    """Equal events, cases, types, spelling and notes."""
    log_equality.assert_same_log(expected, found)
    assert expected.source.exact == found.source.exact
    assert dict(expected.source.conflicts) == dict(found.source.conflicts)
    assert expected.source.repeated == found.source.repeated
    for of_one, of_other in (
        (expected.source.texts, found.source.texts),
        (expected.source.rows, found.source.rows),
    ):
        assert of_one.keys() == of_other.keys()
        for name, texts in of_one.items():
            assert texts.to_list() == of_other[name].to_list(), name
