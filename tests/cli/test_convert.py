"""``cloakwork convert``: any readable log as Parquet, XES or CSV, in bounded memory."""

import json
from pathlib import Path

import polars as pl
import pytest

from cloakwork import EventLog, read_log
from cloakwork.engines import partition
from cloakwork.publishing.publish import convert
from conftest import EXAMPLES
from log_equality import assert_same_log

LOG = EXAMPLES / "hospital.xes.gz"


def by_case(log: EventLog) -> EventLog:
    """Cases in the order of their ids; which file or batch they were in does not matter."""
    order = log.cases["case:concept:name"].cast(pl.String).arg_sort().to_numpy()
    return log.keep_cases(order)


@pytest.mark.parametrize("output", ["parquet", "xes.gz", "csv.gz", "xes", "csv"])
def test_a_log_is_the_same_in_another_format(cloakwork, tmp_path: Path, output: str) -> None:
    out = tmp_path / f"log.{output}"
    said = cloakwork("convert", LOG, out, "--json")
    found = json.loads(said.out)
    assert said.code == 0
    assert (found["format"], found["files"], found["cases"]) == (output, 1, 1040)
    assert_same_log(by_case(read_log(LOG)), by_case(read_log(out)))


def test_a_large_log_becomes_a_folder_of_whole_cases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition, "EVENTS_A_PART", 300)
    out = tmp_path / "parts"
    found = convert(LOG, out, "parquet", part_events=1_000)
    files = sorted(out.iterdir())
    assert found.files == len(files) > 1
    seen = [set(read_log(path).cases["case:concept:name"].cast(pl.String)) for path in files]
    assert sum(map(len, seen)) == len(set.union(*seen)) == found.cases
    assert_same_log(by_case(read_log(LOG)), by_case(read_log(out)))


@pytest.mark.parametrize("name", ["log.xlsx", "logcsv.gz", "log.gz", "log.txt"])
def test_no_file_is_named_for_a_format_that_it_is_not_in(cloakwork, tmp_path: Path, name) -> None:
    """Unless --format says so; a name without an ending is Parquet."""
    said = cloakwork("convert", LOG, tmp_path / name)
    assert (said.code, said.out) == (2, "")
    first, *rest = said.err.splitlines()
    assert "none of .csv, .xes (or .gz of these), .json and .parquet" in first and len(rest) == 1
    assert not list(tmp_path.iterdir())


def test_what_is_said_of_a_converted_log_holds_for_a_release_too(cloakwork, tmp_path: Path) -> None:
    said = cloakwork("convert", LOG, tmp_path / "log", "--quiet")
    assert said.code == 0 and "1 file" in said.out
    assert read_log(tmp_path / "log").case_count == 1040
    assert "made of a raw log, keep it inside; made of a release, it has no stamp" in said.out


def test_nothing_is_overwritten_and_nothing_is_left(cloakwork, tmp_path: Path) -> None:
    taken = tmp_path / "taken.parquet"
    taken.write_bytes(b"mine")
    said = cloakwork("convert", LOG, taken)
    assert (said.code, taken.read_bytes()) == (1, b"mine")
    broken = tmp_path / "broken.csv"
    broken.write_text("case,activity,time\n1,a,never\n")
    said = cloakwork("convert", broken, tmp_path / "out.parquet", "--quiet")
    assert said.code == 1 and len(said.err.strip().splitlines()) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"taken.parquet", "broken.csv"}
