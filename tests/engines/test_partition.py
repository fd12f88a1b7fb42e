"""A log in parts on disk: whole cases, none in two, and none lost."""

import pickle
from pathlib import Path

import pytest

from cloakwork.engines import partition as partitioning
from cloakwork.engines.partition import partition
from cloakwork.log.eventlog import CASE_ID, EventLog
from cloakwork.log.formats import read_log, write_log
from cloakwork.log.formats.reading import open_rows
from cloakwork.log.formats.row_source import ROW
from log.parts_of_logs import assert_same_log, in_parts, put_together

HOSPITAL = Path(__file__).parents[2] / "examples/logs/hospital.xes.gz"
KEY = b"sixteen bytes or more"


@pytest.fixture(scope="module")
def log() -> EventLog:
    """A shipped log, without the columns that do not matter here."""
    return read_log(HOSPITAL, keep=lambda name: name == "org:group")


@pytest.fixture(params=["xes", "csv", "parquet"])
def path(request: pytest.FixtureRequest, log: EventLog, tmp_path: Path) -> Path:
    """The log in each format that is read chunk by chunk."""
    found = tmp_path / f"log.{request.param}"
    write_log(log, found, request.param)
    return found


def in_folder(folder: Path) -> Path:
    """A folder for parts."""
    folder.mkdir()
    return folder


def test_parts_hold_whole_cases(path: Path, tmp_path: Path) -> None:
    """Whatever the key is; another key parts otherwise."""
    owners = []
    for key in (b"one key of tests", b"another key here"):
        parted = partition(open_rows(path), in_folder(tmp_path / key.hex()), key, part_count=6)
        ids = [set(parted.load(place).cases[CASE_ID]) for place in range(len(parted))]
        assert len(parted) == 6
        assert min(map(len, ids)) > 0
        assert sum(map(len, ids)) == len(set.union(*ids))
        owners.append(ids)
    assert owners[0] != owners[1]


def test_what_is_written_at_once_makes_no_difference(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts of many small pieces are parts of one large piece."""
    expected = read_log(path)
    monkeypatch.setattr(partitioning, "_SORTED_ROWS", 100)
    monkeypatch.setattr(partitioning, "_BUFFERED_CELLS", 4_000)
    assert_same_log(expected, in_parts(path, tmp_path / "parts"))


def test_parts_that_are_too_large_are_parted_again(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However wrong the expected number of rows is, a part holds some ``EVENTS_A_PART`` events."""
    expected = read_log(path)
    monkeypatch.setattr(partitioning, "EVENTS_A_PART", 400)
    monkeypatch.setattr(partitioning, "_BUFFERED_CELLS", 4_000)
    source = open_rows(path)
    monkeypatch.setattr(type(source), "expected_rows", lambda _: 801)
    folder = in_folder(tmp_path / "parts")
    parted = partition(source, folder, KEY)
    assert max(part.events for part in parted.files) <= 800
    assert len(list(folder.iterdir())) == len(parted)
    assert parted.events == expected.events.height
    found = [parted.load(place) for place in range(len(parted))]
    assert_same_log(expected, put_together(found))


def test_parts_are_so_many_that_each_fits(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as the file's size says, and no more than there may be."""
    monkeypatch.setattr(partitioning, "EVENTS_A_PART", 1_000)
    parted = partition(open_rows(path), in_folder(tmp_path / "parts"), KEY)
    assert len(parted) == 8
    monkeypatch.setattr(partitioning, "MOST_PARTS", 3)
    monkeypatch.setattr(partitioning, "_TOO_LARGE", 10)
    assert len(partition(open_rows(path), in_folder(tmp_path / "few"), KEY)) == 3


def test_parts_are_loaded_elsewhere(path: Path, tmp_path: Path) -> None:
    """What says where they are survives being pickled."""
    parted = partition(open_rows(path), in_folder(tmp_path / "parts"), KEY, part_count=2)
    again = pickle.loads(pickle.dumps(parted))
    assert_same_log(parted.load(1), again.load(1))


def test_rows_of_the_ids_that_are_needed(path: Path, tmp_path: Path) -> None:
    """A part's rows can be read in part."""
    parted = partition(open_rows(path), in_folder(tmp_path / "parts"), KEY, part_count=1)
    rows = parted.files[0].read_rows(["1"])
    assert rows.columns == ["1", ROW]
    assert sorted(rows[ROW]) == list(range(parted.events))
