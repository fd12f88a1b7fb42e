"""Reading in one pass: whatever the parts, they are what ``read_log`` reads."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from cloakwork.errors import LogError
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats import (
    csv_records,
    parquet,
    read_log,
    source,
    xes_fast,
    xes_full,
    xes_values,
)
from cloakwork.log.formats.options import InputOptions
from cloakwork.log.formats.reading import open_rows
from cloakwork.log.limits import current_limits
from conftest import runs
from fuzz.inputs import options_of
from fuzz.mutations import mutated
from log.parts_of_logs import assert_same_log, in_parts

ROOT = Path(__file__).parents[3]
FIXTURES = sorted(
    path
    for folder in ("edge", "broken")
    for path in (ROOT / "tests/logs" / folder).iterdir()
    if path.suffix != ".yaml"
)
SHIPPED = sorted((ROOT / "examples/logs").glob("*.gz"))

HEAD = "case:concept:name,concept:name,time:timestamp"
DAY = "2024-01-01T00:00:00Z"


@contextmanager
def small_chunks() -> Iterator[None]:
    """Files are read in chunks of a few rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_records, "BLOCK", 90)
        patch.setattr(parquet, "CELLS", 1)
        patch.setattr(parquet, "LEAST_ROWS", 3)
        patch.setattr(xes_values, "MOST_ROWS", 2)
        patch.setattr(xes_fast, "CHUNK", 700)
        patch.setattr(xes_full, "_CHUNK", 200)
        yield


def in_small_parts(source: object, folder: Path, **options: object) -> EventLog:
    """The log, read in chunks of a few rows, divided among three parts and put together."""
    with small_chunks():
        return in_parts(source, folder, **options)


def assert_read_alike(path: Path, folder: Path, **options: object) -> None:
    """Read at once and read chunk by chunk in parts, the file gives one log, or one error."""
    try:
        expected = read_log(path, **options)  # type: ignore[arg-type]
    except LogError as error:
        with pytest.raises(LogError) as refused:
            in_small_parts(path, folder / "parts", **options)
        assert str(refused.value) == str(error)
        return
    assert_same_log(expected, in_small_parts(path, folder / "parts", **options))


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.name)
def test_odd_and_broken_files_read_alike(path: Path, tmp_path: Path) -> None:
    """Where chunks end makes no difference."""
    assert_read_alike(path, tmp_path)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_logs_read_alike(path: Path, tmp_path: Path) -> None:
    """The shipped logs, with all their attributes, in chunks as large as they are."""
    assert_same_log(read_log(path), in_parts(path, tmp_path, 5))


@pytest.mark.parametrize("kind", ["xes", "csv", "parquet", "options"])
def test_mutated_files_read_alike(kind: str, tmp_path: Path) -> None:
    """What the fuzzer writes; of two faults either may be told."""
    for seed in range(runs(12)):
        name, content = mutated(kind, seed)
        path, folder = tmp_path / name, tmp_path / str(seed)
        path.write_bytes(content)
        options = options_of(kind, seed)
        try:
            expected = read_log(path, options=options)
        except LogError:
            with pytest.raises(LogError):
                in_small_parts(path, folder, options=options)
            continue
        assert_same_log(expected, in_small_parts(path, folder, options=options))


TABLES = {
    "ties": [f"{case},{step},{DAY}" for step in "abc" for case in "xyxz"],
    "no case id": [f",a,{DAY}", f"x,b,{DAY}", f",c,{DAY}", f"y,d,{DAY}"],
    "no activity, no time": [f"x,,{DAY}", "x,b,", f"y,,{DAY}"],
    "times without a zone": ["x,a,2024-01-01 10:00", f"y,b,{DAY}", "x,c,2024-01-02 10:00:00.5"],
    "line breaks and quotes": [
        f'x,"{"a" * 40}\nb",{DAY}',
        f'y,"says ""{"no" * 30}""\n\n",{DAY}',
        f'z,5" pipe,{DAY}',
        f'x,"c,\nd",{DAY}',
        f"y,e,{DAY}",
    ],
    "empty lines": ["", f"x,a,{DAY}", "", "", f"y,b,{DAY}", ""],
    "a mark at a row's beginning": [f"x,a,{DAY}", f"\ufeffy,b,{DAY}", f"\ufeffz,c,{DAY}"] * 4,
}
"""Rows of the three standard columns."""

COLUMNS = {
    "numbers, then none": [*map(str, range(40)), "x"],
    "none, then numbers": ["x", *map(str, range(40))],
    "numbers with gaps": ["1", "", "2", "", "", "30"] * 4,
    "decimals": ["1.5", "2.25", "-3.5"] * 9,
    "decimals and numbers": ["1.5"] * 9 + ["2"] * 9,
    "truth": ["true", "false", ""] * 8,
    "truth in capitals": ["TRUE", "FALSE", "TRUE"] * 8,
    "truth in two spellings": ["true"] * 10 + ["TRUE"] * 9,
    "times": ["2024-01-01T00:00:00+01:00"] * 20,
    "times, then text": ["2024-01-01T00:00:00+01:00"] * 12 + ["late"],
    "codes": ["007", "1e5", "+49", "1_000", "401.90"] * 4,
    "nothing": [""] * 12,
    "large numbers": ["9223372036854775807"] * 5 + ["9223372036854775808"],
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_read_alike(name: str, tmp_path: Path) -> None:
    """Rows that are odd in one way."""
    path = tmp_path / "log.csv"
    path.write_text("\n".join([HEAD, *TABLES[name]]) + "\n", encoding="utf-8")
    assert_read_alike(path, tmp_path)


@pytest.mark.parametrize("scope", ["", "case:"])
@pytest.mark.parametrize("name", COLUMNS)
def test_types_come_of_all_rows(name: str, scope: str, tmp_path: Path) -> None:
    """A column has the type that all its values allow, wherever they stand; attributes of cases
    conflict, and are missing on first rows.
    """
    rows = [f"{place % 7},a,{DAY},{value}" for place, value in enumerate(COLUMNS[name])]
    path = tmp_path / "log.csv"
    path.write_text("\n".join([f"{HEAD},{scope}n", *rows]), encoding="utf-8")
    assert_read_alike(path, tmp_path)


@pytest.mark.parametrize("values", [["1,5", "2,25", "3"], ["1,5", "1.234", "2,5"], ["1.234,5"]])
def test_decimal_commas(values: list[str], tmp_path: Path) -> None:
    """A decimal comma, and what speaks against it in a late row."""
    rows = [f"{place % 3};a;{DAY};{value}" for place, value in enumerate(values * 6)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join([HEAD.replace(",", ";") + ";n", *rows]), encoding="utf-8")
    assert_read_alike(path, tmp_path, options=InputOptions(decimal=","))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "latin-1", "cp1252"])
def test_encodings(encoding: str, tmp_path: Path) -> None:
    """Characters of several bytes on the borders of chunks."""
    rows = [f"ä{place % 3},prüfen é{place},{DAY}" for place in range(30)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join([HEAD, *rows]), encoding=encoding)
    options = InputOptions(encoding=encoding)  # type: ignore[arg-type]
    assert_read_alike(path, tmp_path, options=options)


@pytest.mark.parametrize(
    "rows",
    [
        ["x,a,yesterday"],
        ["x,a"],
        ['x,"a'],
        ['x,"a" b,'],
        ["x,a\rb,"],
    ],
)
def test_late_faults_have_their_line(rows: list[str], tmp_path: Path) -> None:
    """A fault behind many chunks is told with the line that it has in the file."""
    good = [f'{place % 3},"a\nb",{DAY}' for place in range(40)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join([HEAD, *good, *rows, *good]), encoding="utf-8")
    with pytest.raises(LogError) as whole:
        read_log(path)
    with pytest.raises(LogError) as parted:
        in_small_parts(path, tmp_path / "parts")
    assert str(whole.value).partition(" ")[0].count(":") == 2
    assert str(whole.value).partition(" ")[0] == str(parted.value).partition(" ")[0]


def test_a_column_of_cases_that_differs_is_refused_on_its_line(tmp_path: Path) -> None:
    """As ``read_log`` does it, though the case is whole only in its part."""
    rows = [f"{place % 9},a,{DAY},{place % 9}" for place in range(40)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join([HEAD + ",who", *rows, f"4,a,{DAY},8", *rows]), encoding="utf-8")
    assert_read_alike(path, tmp_path, columns={"case:who": "who"})


def test_parquet_types(tmp_path: Path) -> None:
    """Types of which a column's values decide, late in the file."""
    rows = 40
    frame = pl.DataFrame(
        {
            "case:concept:name": [place % 7 for place in range(rows)],
            "concept:name": ["a", "b"] * (rows // 2),
            "time:timestamp": pl.datetime_range(
                pl.datetime(2024, 1, 1), pl.datetime(2024, 2, 9), "1d", eager=True
            ),
            "wide": pl.Series([2**63] * 2 + [1] * (rows - 2), dtype=pl.UInt64),
            "narrow": pl.Series([1] * rows, dtype=pl.UInt64),
            "price": pl.Series(["1.50"] * rows).cast(pl.Decimal(10, 2)),
            "exact": pl.Series(["1.50"] * 39 + ["1234567890123456.50"]).cast(pl.Decimal(30, 2)),
            "case:sort": pl.Series(["x", "y"] * (rows // 2), dtype=pl.Categorical),
            "list": [[1]] * rows,
            "nothing": [None] * rows,
            "small": pl.Series([1.5] * rows, dtype=pl.Float32),
            "day": pl.Series([19_000] * rows).cast(pl.Date),
        }
    )
    path = tmp_path / "log.parquet"
    frame.write_parquet(path)
    assert_read_alike(path, tmp_path)
    folder = tmp_path / "folder"
    folder.mkdir()
    for place in range(0, rows, 10):
        frame.slice(place, 10).write_parquet(folder / f"part-{place:02}.parquet")
    found = in_small_parts(folder, tmp_path / "of folder")
    assert_same_log(read_log(path), found)
    assert_same_log(read_log(path), read_log(folder))


XES_TRACES = {
    "types that differ between traces": [
        '<trace><string key="concept:name" value="{n}"/><int key="v" value="{n}"/>'
        '<event><string key="concept:name" value="a"/>'
        '<int key="n" value="1"/><int key="m" value="0{n}"/></event></trace>',
        '<trace><float key="v" value="1.5"/><string key="concept:name" value="{n}"/>'
        '<event><string key="concept:name" value="a"/>'
        '<float key="n" value="2.5"/><string key="m" value="x"/></event></trace>',
    ],
    "types that differ within an event": [
        '<trace><string key="concept:name" value="{n}"/><event>'
        '<string key="concept:name" value="a"/>'
        '<float key="f" value="2.5"/><int key="f" value="3"/></event><event>'
        '<int key="f" value="4"/><float key="f" value="1.5"/></event></trace>',
    ],
    "traces without events": [
        '<trace><string key="concept:name" value="{n}"/></trace>',
        '<trace><string key="concept:name" value="{n}"/>'
        '<event><date key="time:timestamp" value="2024-01-01T00:00:00"/></event></trace>',
    ],
    "traces without an id": [
        '<trace><event><string key="concept:name" value="a"/></event></trace>'
    ],
    "values stated again": [
        '<trace><string key="concept:name" value="{n}"/><event>'
        '<string key="concept:name" value="a"/><string key="concept:name" value="b"/>'
        '<date key="time:timestamp" value="2024-01-01T00:00:00Z"/>'
        '<date key="time:timestamp" value="2024-01-02T00:00:00Z"/></event></trace>'
    ],
    "written otherwise from here on": [
        '<trace><string key="concept:name" value="{n}"/><event>'
        '<string key="concept:name" value="a"/></event></trace>'
        "<!-- {n} -->",
    ],
    "a case of two values": [
        '<trace><string key="concept:name" value="{n}"/><string key="w" value="1"/>'
        '<string key="w" value="2"/><event><string key="concept:name" value="a"/></event></trace>\n'
    ],
}


@pytest.mark.parametrize("name", XES_TRACES)
def test_traces_read_alike(name: str, tmp_path: Path) -> None:
    """Traces that are odd in one way, behind plain ones."""
    plain = (
        '<trace><string key="concept:name" value="p{n}"/><event>'
        '<string key="concept:name" value="a"/><boolean key="b" value="true"/>'
        '<date key="time:timestamp" value="2024-01-01T00:00:00Z"/></event></trace>\n'
    )
    kinds = [*[plain] * 30, *XES_TRACES[name] * 10]
    traces = "".join(trace.replace("{n}", str(place)) for place, trace in enumerate(kinds))
    path = tmp_path / "log.xes"
    path.write_text(f"<log>{traces}</log>", encoding="utf-8")
    assert_read_alike(path, tmp_path)


def test_an_id_that_comes_again(tmp_path: Path) -> None:
    """Cases of one id meet in one part, and the line of the second is told; over several files with
    the file.
    """
    trace = (
        '<trace><string key="concept:name" value="{}"/><event>'
        '<string key="concept:name" value="a"/></event></trace>\n'
    )
    path = tmp_path / "log.xes"
    traces = [trace.format(place) for place in (*range(20), 3, *range(30, 40))]
    path.write_text(f"<log>{''.join(traces)}</log>", encoding="utf-8")
    assert_read_alike(path, tmp_path)
    folder = tmp_path / "folder"
    folder.mkdir()
    for number, some in enumerate((traces[:15], traces[15:])):
        (folder / f"{number}.xes").write_text(f"<log>{''.join(some)}</log>", encoding="utf-8")
    assert read_log(folder).source.repeated == "1.xes line 6"
    assert_read_alike(folder, tmp_path / "of folder")


def test_files_of_a_folder_are_one_log(tmp_path: Path) -> None:
    """By their names, whatever the order of their columns; hidden files are none of it."""
    folder = tmp_path / "log"
    folder.mkdir()
    (folder / "b.csv").write_text(f"{HEAD},n\n1,later,{DAY},x\n2,a,{DAY},2\n")
    head = "n,concept:name,time:timestamp,case:concept:name"
    (folder / "a.csv").write_text(f"{head}\n1,first,{DAY},1\n")
    (folder / "_SUCCESS").write_text("")
    (folder / ".a.csv.crc").write_text("")
    log = read_log(folder)
    assert log.events["concept:name"].to_list() == ["first", "later", "a"]
    assert log.events["n"].to_list() == ["1", "x", "2"]
    assert_same_log(log, in_small_parts(folder, tmp_path / "parts"))


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "the folder holds no log"),
        ({"a.csv": HEAD, "b.xes": "<log/>"}, "the file is xes, and a.csv is csv"),
        ({"a.csv": HEAD, "b.txt": "hello"}, "holds what is none"),
        ({"a.csv": HEAD, "b.csv": HEAD + ",n"}, "only one of the two has 'n'"),
        ({"a.json": "{}", "b.json": "{}"}, "a log of several files is XES, CSV or Parquet"),
    ],
)
def test_folders_that_are_no_log(files: dict[str, str], said: str, tmp_path: Path) -> None:
    """Each is refused in one line that names the file."""
    folder = tmp_path / "log"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text + "\n")
    with pytest.raises(LogError, match=said):
        read_log(folder)


def test_a_folder_of_too_many_files_is_not_listed_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may hold millions, and is refused by the first that is too many."""
    for number in range(5):
        (tmp_path / f"{number}.csv").write_text(f"{HEAD}\n1,a,{DAY}\n")
    monkeypatch.setattr(source, "_MOST_FILES", 5)
    assert len(source.files_of(tmp_path)) == 5
    monkeypatch.setattr(source, "_MOST_FILES", 3)
    with pytest.raises(LogError, match="holds more than 3 files, the limit"):
        read_log(tmp_path)


def test_a_type_that_differs_between_files_is_refused(tmp_path: Path) -> None:
    """Parquet says types: two files of one log agree on them, but for columns without a value."""
    frame = pl.DataFrame(
        {"case": ["1"], "activity": ["a"], "timestamp": [DAY], "n": [1]},
    )
    other = frame.with_columns(pl.lit("x").alias("n"))
    frame.with_columns(pl.lit(None).alias("n")).write_parquet(tmp_path / "a.parquet")
    frame.write_parquet(tmp_path / "b.parquet")
    assert read_log(tmp_path).events["n"].to_list() == [None, 1]
    other.write_parquet(tmp_path / "c.parquet")
    with pytest.raises(LogError, match=r"column 'n' holds String, and Int64 in a\.parquet"):
        read_log(tmp_path)


def test_rows_are_counted_from_the_beginning_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """About as many as there are, once a first part was read: by that an engine is chosen."""
    monkeypatch.setattr(csv_records, "BLOCK", 20_000)
    path = tmp_path / "log.csv"
    lines = [f"case {row % 977},a {row % 13},2024-03-01T10:00:00Z" for row in range(20_000)]
    path.write_text("\n".join(["case,activity,time", *lines]))
    columns = {"case": "case", "activity": "activity", "timestamp": "time"}
    rows = open_rows(path, columns=columns)
    chunks = rows.chunks()
    next(chunks)
    assert 0.6 * 20_000 < rows.expected_rows() < 1.7 * 20_000
    assert sum(chunk.rows.height for chunk in rows.chunks()) == rows.expected_rows() == 20_000


def test_texts_behind_a_dictionary_are_cut_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few bytes of Parquet can stand for any number of long texts."""
    monkeypatch.setattr(parquet, "_SLICE_BYTES", 10_000)
    path = tmp_path / "log.parquet"
    frame = pl.DataFrame(
        {"case:concept:name": ["1"] * 500, "concept:name": ["a" * 1_000] * 500}
    ).with_columns(pl.lit(datetime(2024, 3, 1, tzinfo=UTC)).alias("time:timestamp"))
    frame.write_parquet(path)
    heights = [chunk.rows.height for chunk in open_rows(path).chunks()]
    assert max(heights) <= 11
    assert sum(heights) == 500
    few = replace(current_limits(), unpacked_size=400_000)
    with pytest.raises(LogError, match="its texts take more than"):
        list(open_rows(path, limits=few).chunks())
