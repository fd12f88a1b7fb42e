"""A log in several files: each is read as if all stood in one."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloakwork.errors import LogError
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.log.formats import read_log, write_log
from cloakwork.log.formats.round_trip import FileParts, kinds_of, kinds_together
from cloakwork.log.formats.source import Format
from conftest import runs
from log_equality import assert_same_log
from log_in_parts import LogInParts, as_read_back

FORMATS: tuple[Format, ...] = ("csv", "xes", "parquet")
TEXTS = ("1", "2.5", "true", "TRUE", "False", "2024-01-01T00:00:00+00:00", "x", "007", None)


def a_log(texts: Sequence[str | None], numbers: Sequence[float | None]) -> EventLog:
    """One case for each text, with one event."""
    rows = len(texts)
    return EventLog.from_polars(
        pl.DataFrame(
            {
                CASE_ID: [f"c{row:02d}" for row in range(rows)],
                "case:text": pl.Series(texts, dtype=pl.String),
                ACTIVITY: ["a"] * rows,
                TIMESTAMP: pl.Series([None] * rows, dtype=pl.Datetime("us", "UTC")),
                "text": pl.Series(texts, dtype=pl.String),
                "number": pl.Series(numbers, dtype=pl.Float64),
            }
        )
    )


def written(log: EventLog, part_of_case: Sequence[int], folder: Path, form: Format) -> FileParts:
    """``log`` in as many files as it has parts with a case."""
    parts = LogInParts.of(log, np.array(part_of_case, np.int64), max(part_of_case) + 1).parts
    files = []
    for number, part in enumerate(parts):
        if part.case_count:
            files.append(folder / f"part-{number:05d}.{form}")
            write_log(part, files[-1], form)
    read = partial(read_log, timeless=True)
    found = list(FileParts(tuple(files), read).results(lambda _, batch: kinds_of(batch)))
    return FileParts(tuple(files), read, kinds_together(files, found))


@settings(max_examples=runs(12))
@given(data=st.data())
@pytest.mark.parametrize("form", FORMATS)
def test_files_have_the_types_of_one_file(
    tmp_path_factory: pytest.TempPathFactory, form: Format, data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, 8), "cases")
    of_case = {"min_size": count, "max_size": count}
    among = data.draw(st.sampled_from([TEXTS, TEXTS[2:5], (TEXTS[0], None), (TEXTS[5], None)]))
    texts = data.draw(st.lists(st.sampled_from(among), **of_case), "texts")
    numbers = data.draw(st.lists(st.sampled_from([1.0, 2.5, None]), **of_case), "numbers")
    part_of_case = sorted(data.draw(st.lists(st.integers(0, 3), **of_case), "parts"))
    log = as_read_back(a_log(texts, numbers), form)

    parts = written(log, part_of_case, tmp_path_factory.mktemp("parts"), form)

    whole = tmp_path_factory.mktemp("whole") / f"log.{form}"
    write_log(log, whole, form)
    expected = read_log(whole, timeless=True)
    joined = read_log(parts.files[0].parent, timeless=True)
    names = sorted(expected.columns)
    assert_same_log(_in_order(expected, names), _in_order(joined, names), notes=False)
    for batch in parts.batches():
        assert dict(batch.events.schema) == dict(joined.events.schema)
        assert dict(batch.cases.schema) == dict(joined.cases.schema)


def _in_order(log: EventLog, names: Sequence[str]) -> EventLog:
    """The columns of both tables in this order: XES has them as they first occur."""
    events = log.events.select(name for name in names if name in log.events.columns)
    return EventLog(events, log.cases.select(sorted(log.cases.columns)), log.offsets)


def test_a_column_changes_as_often_as_it_is_read(tmp_path: Path) -> None:
    parts = written(a_log(["x", "y"], [1.0, None]), [0, 1], tmp_path, "csv")

    one_case = parts.with_columns_of(lambda log: log.keep_cases(np.zeros(0, np.int64)))

    assert (parts.case_count, parts.event_count) == (2, 2)
    assert [batch.case_count for batch in parts.batches()] == [1, 1]
    assert [batch.case_count for batch in one_case.batches()] == [0, 0]


def test_tables_of_other_columns_are_no_log(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"two\.csv: its columns are not those of one\.csv: 'extra'"):
        kinds_together(
            [tmp_path / "one.csv", tmp_path / "two.csv"],
            [{("event", "text"): "text"}, {("event", "text"): "text", ("event", "extra"): "empty"}],
        )
