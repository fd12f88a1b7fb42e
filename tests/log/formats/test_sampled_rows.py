"""Reading a random sample of the cases of a large log: whole cases, each as likely as any other, in
bounded memory.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.stats import chi2

from cloakwork.errors import LogError
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.log.formats import parquet, read_log, row_source, write_log, xes_values
from cloakwork.log.formats.row_source import RawChunk, sampled_chunks
from log.formats.test_streams import FIXTURES, small_chunks
from log_equality import assert_same_log

CASES = 300
LENGTHS = 1 + np.arange(CASES) % 5


def interleaved(lengths: Sequence[int] = tuple(LENGTHS)) -> pl.DataFrame:
    """Cases whose rows lie far apart: first events of all cases, then second ones, and so on."""
    rows = [
        (f"c{case:04}", f"step {place}", place * 100_000 + case)
        for place in range(max(lengths))
        for case, length in enumerate(lengths)
        if place < length
    ]
    table = pl.DataFrame(rows, schema=[CASE_ID, ACTIVITY, TIMESTAMP], orient="row")
    return table.with_columns(pl.from_epoch(TIMESTAMP).dt.replace_time_zone("UTC"))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """More than 200 rows are a large log, and 30 cases a sample of it."""
    monkeypatch.setattr(row_source, "WHOLE", 200)
    monkeypatch.setattr(row_source, "SAMPLED", 30)
    monkeypatch.setattr(row_source, "KEY", 7)
    with small_chunks():
        monkeypatch.setattr(parquet, "LEAST_ROWS", 40)
        monkeypatch.setattr(xes_values, "MOST_ROWS", 40)
        yield


def file_of(folder: Path, form: str) -> Path:
    table = interleaved()
    path = folder / f"log.{form}"
    if form == "xes":
        write_log(EventLog.from_polars(table), path, "xes")
    elif form == "csv":
        table.write_csv(path, datetime_format="%Y-%m-%dT%H:%M:%SZ")
    else:
        table.write_parquet(path)
    return path


@pytest.mark.parametrize("form", ["csv", "parquet", "xes"])
@pytest.mark.usefixtures("small")
def test_sampled_cases_are_whole(tmp_path: Path, form: str) -> None:
    """Each is what it is in the log that is read whole, and the note says how many there are."""
    path = file_of(tmp_path, form)
    whole, found = read_log(path), read_log(path, sampled=True)
    assert found.case_count == 30
    rows = pl.Series(whole.cases[CASE_ID]).search_sorted(found.cases[CASE_ID]).to_numpy()
    assert_same_log(whole.keep_cases(rows.astype(np.int64)), found)
    first, _, about, *_ = found.sample.split(" ", 3)[0], "", found.sample.split("about ")[1]
    assert first == "30"
    # 30 of some 300: the estimate errs by one in the root of 30, here by less than three of these.
    assert 130 < int(about.split(" ")[0]) < 700
    assert found.sample.endswith(f"({LENGTHS.sum():,} events)")


@pytest.mark.usefixtures("small")
def test_a_folder_and_a_pattern_give_the_sample_of_the_file(tmp_path: Path) -> None:
    """So do files whose rows of one case lie apart; other files of the folder are not read."""
    folder = tmp_path / "parts"
    folder.mkdir()
    table = interleaved()
    table.write_parquet(tmp_path / "log.parquet")
    for number, first in enumerate(range(0, table.height, 170)):
        table[first : first + 170].write_parquet(folder / f"part-{number}.parquet")
    one = read_log(tmp_path / "log.parquet", sampled=True)
    assert one.sample
    assert_same_log(one, read_log(folder, sampled=True))
    (folder / "notes.csv").write_text("no log")
    assert_same_log(one, read_log(folder / "part-*.parquet", sampled=True))
    with pytest.raises(LogError, match=r"no file in it is called nothing-\*"):
        read_log(folder / "nothing-*", sampled=True)
    with pytest.raises(LogError, match=r"notes\.csv"):
        read_log(folder)
    # A file that is called like a pattern is that file.
    for name in ("part-*.parquet", "part-[0].parquet"):
        (folder / name).write_bytes((folder / "part-0.parquet").read_bytes())
        assert read_log(folder / name).event_count == 170


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.name)
def test_a_small_log_is_read_as_ever(path: Path) -> None:
    """It is no sample; where it is refused, it is refused."""
    try:
        whole = read_log(path)
    except LogError:
        with pytest.raises(LogError):
            read_log(path, sampled=True)
        return
    found = read_log(path, sampled=True)
    assert found.sample == ""
    assert_same_log(whole, found)


class Counted:
    """Chunks, and how many rows are held when the next one is asked for."""

    def __init__(self, rows: pl.DataFrame, size: int) -> None:
        self.rows, self.size = rows, size

    def chunks(self, *, at_once: bool = False) -> Iterator[RawChunk]:
        assert not at_once
        for first in range(0, self.rows.height, self.size):
            yield RawChunk(self.rows[first : first + self.size], CASE_ID)


def chances(draw: Callable[[], Iterable[str]], runs: int) -> float:
    """How likely counts that are as uneven are, where each case is as likely as any other."""
    times = np.zeros(CASES)
    for _ in range(runs):
        times[[int(name[1:]) for name in draw()]] += 1
    expected = times.sum() / CASES
    # Of k cases out of n, counts vary by 1 - k/n less than independent ones.
    uneven = ((times - expected) ** 2 / expected).sum() / (1 - expected / runs)
    return float(chi2.sf(uneven, CASES - 1))


@pytest.mark.usefixtures("small")
def test_each_case_is_as_likely_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """By 300 keys; a sample of the first cases, and one of rows, are found out."""
    rows = interleaved()
    keys = iter(range(1, 10_000))

    def drawn() -> set[str]:
        monkeypatch.setattr(row_source, "KEY", next(keys))
        chunks, _ = sampled_chunks(Counted(rows, 150))  # type: ignore[arg-type]  # as below
        return {name for chunk in chunks for name in chunk.rows[CASE_ID]}

    def of_rows() -> list[str]:
        mixed = rows[CASE_ID].shuffle(seed=next(keys))
        return mixed.unique(maintain_order=True)[:30].to_list()

    assert chances(drawn, 300) > 0.001
    assert chances(lambda: rows[CASE_ID][:30], 3) < 1e-9
    assert chances(of_rows, 300) < 1e-9


def most_held(rows: pl.DataFrame, size: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """The most rows that are held at a time while a sample is drawn, with the one that came."""
    held: list[int] = []
    cut = row_source._cut

    def watched(chunks: list[RawChunk], most: int) -> tuple[np.uint64, list[RawChunk]]:
        held.append(sum(chunk.rows.height for chunk in chunks))
        return cut(chunks, most)

    monkeypatch.setattr(row_source, "_cut", watched)
    sampled_chunks(Counted(rows, size))  # type: ignore[arg-type]  # it has all that is asked for
    return max(held)


@pytest.mark.parametrize("lengths", [[3] * 4_000, [1] * 3_000 + [90] * 40])
def test_rows_that_are_held_do_not_grow_with_the_log(
    lengths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted, and not by a clock: at most those of a whole log, and a chunk; without a cut in
    between it is all rows.
    """
    monkeypatch.setattr(row_source, "WHOLE", 500)
    monkeypatch.setattr(row_source, "SAMPLED", 100)
    rows = interleaved(lengths)
    assert most_held(rows, 250, monkeypatch) <= 750
    assert most_held(rows, rows.height, monkeypatch) == rows.height


def test_few_long_cases_make_a_smaller_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A case of more rows than are held is refused."""
    monkeypatch.setattr(row_source, "WHOLE", 500)
    monkeypatch.setattr(row_source, "SAMPLED", 100)
    path = tmp_path / "log.parquet"
    interleaved([90] * 40).write_parquet(path)
    found = read_log(path, sampled=True)
    assert found.event_count <= 500
    assert set(np.diff(found.offsets)) == {90}
    interleaved([600, 600]).write_parquet(path)
    with pytest.raises(LogError, match="a case has more than 500 rows"):
        read_log(path, sampled=True)
