"""What a reader makes of a released column: found in parts, the same as if it were found in one."""

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.log.formats import read_log, write_log
from cloakwork.log.formats.round_trip import TypesReadBack
from cloakwork.log.formats.source import Format
from conftest import runs
from log_equality import assert_same_log
from log_in_parts import LogInParts, as_read_back

TEXTS = ("1", "-7", "2.5", "1.0", "1E5", "007", "true", "TRUE", "False", "x", "", None)
TEXTS += ("2024-01-01T00:00:00+00:00", "2024-13-01T00:00:00+00:00", "2024-01-01")
NUMBERS = (0.0, -0.0, 1.5, float("nan"), float("inf"), None)
LARGE = (1, 2**63 + 5, None)
DECIMALS = (Decimal("1.5"), Decimal("1234567890123456.7"), None)
NO_TEXT = (None, "")
TRUTHS = (True, False, None)
FORMATS = ("csv", "xes", "parquet")


def a_log(case_of: Sequence[int], columns: dict[str, pl.Series]) -> EventLog:
    rows = len(case_of)
    start = datetime(2024, 1, 1, tzinfo=UTC)
    frame = pl.DataFrame(
        {
            CASE_ID: [f"c{case}" for case in case_of],
            ACTIVITY: ["a"] * rows,
            TIMESTAMP: [start] * rows,
        }
    )
    return EventLog.from_polars(frame.with_columns(*(s.alias(n) for n, s in columns.items())))


def parted(log: EventLog, output: str, part_of_case: Sequence[int], parts: int) -> list[EventLog]:
    """Each part as it is read back, with the evidence of all parts."""
    types = TypesReadBack(output)
    handle = LogInParts.of(log, np.array(part_of_case, np.int64), parts)
    evidence = types.merge(pl.concat(types.of(part) for part in handle.batches()))
    return [types.read_back(part, evidence) for part in handle.batches()]


@settings(max_examples=runs(25))
@given(data=st.data())
@pytest.mark.parametrize("output", FORMATS)
def test_columns_in_parts_are_those_of_the_whole_log(output: str, data: st.DataObject) -> None:
    cases = data.draw(st.integers(1, 12), "cases")
    rows = data.draw(st.lists(st.integers(0, cases - 1), min_size=1, max_size=25), "case of row")
    kinds: dict[str, tuple[tuple[Any, ...], Any]] = {
        "texts": (data.draw(st.sampled_from([TEXTS, TEXTS[:2], TEXTS[6:9], NO_TEXT])), pl.String),
        "numbers": (NUMBERS, pl.Float64),
        "large": (LARGE, pl.UInt64),
        "decimals": (DECIMALS, pl.Decimal(20, 1)),
        "truths": (TRUTHS, pl.Boolean),
        "case:large": (LARGE, pl.UInt64),
    }
    columns = {
        name: pl.Series(data.draw(st.tuples(*[st.sampled_from(values)] * len(rows))), dtype=dtype)
        for name, (values, dtype) in kinds.items()
    }
    log = a_log(rows, columns)
    parts = data.draw(st.sampled_from([1, 4, 15]), "parts")
    own = st.integers(0, parts - 1)
    height = log.cases.height
    part_of_case = data.draw(st.lists(own, min_size=height, max_size=height), "part of case")

    found = parted(log, output, part_of_case, parts)

    whole = as_read_back(log, output)
    expected = LogInParts.of(whole, np.array(part_of_case, np.int64), parts).parts
    for part, its_own in zip(expected, found, strict=True):
        assert_same_log(part, its_own)


@pytest.mark.parametrize("output", FORMATS)
def test_the_file_says_what_was_foreseen(tmp_path: Path, output: Format) -> None:
    """Each column of texts by itself, so that each kind is inferred once."""
    for number, texts in enumerate(([*TEXTS], ["1", "22"], ["2.5", None], ["TRUE", "FALSE"])):
        log = a_log(range(len(texts)), {"texts": pl.Series(texts, dtype=pl.String)})
        path = tmp_path / f"{number}.{output}"

        write_log(log, path, output)

        foreseen = as_read_back(log, output)
        read = read_log(path)
        assert foreseen.events.schema["texts"] == read.events.schema["texts"]
        assert foreseen.events["texts"].equals(read.events["texts"])
