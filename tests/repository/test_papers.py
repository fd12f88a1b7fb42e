"""Beside the papers: each table's file is whole, a missing figure is found, and a small table runs
on a made log with the keys that are promised.
"""

import json
from pathlib import Path

import polars as pl
import pytest
from benchmarks.papers import __main__ as papers
from benchmarks.papers import measuring
from benchmarks.papers.pictures import draw, drawn_rows
from benchmarks.papers.tables import PUBLISHED, TABLES, TableError, has_figures, read_table

from conftest import ROOT
from contracts.sample_logs import log_of

LOG = log_of(
    [["a", "b", "c"]] * 40 + [["a", "c"]] * 20 + [["a", "b", "b", "c"]] + [["a", "d", "c"]]
)
MEASURED = {"pretsa-4": 5, "pretsa-5": 75, "pretsa-6": 5, "libra-2": 48, "libra-3": 8}
"""How many rows a table has, at least."""


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_whole(name: str) -> None:
    """Every row has its log and its parameters once; every log is a file or says why not."""
    table = read_table(name)
    assert len(table.rows) >= MEASURED.get(name, 50)
    rows = [
        (row.log, json.dumps(row.parameters, sort_keys=True), row.measure) for row in table.rows
    ]
    assert len(set(rows)) == len(rows)
    for log in table.logs.values():
        assert log.keys() <= {"file", "absent", "small", "unsure"}
        assert ("file" in log) != ("absent" in log)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("pretsa-5", "published: [26, 26, 26, 26, 26]", "published: [26, 26, 26, 26]"),
        ("pretsa-6", "published: [2.6, 1.1, 1.1, 1.7, 1.4]", "k: 4"),
        ("libra-2", "PRIPEL: [75, 4644]", "PRIPEL: [75]"),
        ("libra-3", "published: 90, ", ""),
        ("sacofa", "log: Sepsis,", "log: Septic,"),
        ("pretsa-4", "runs: 1", "turns: 1"),
    ],
)
def test_a_missing_figure_is_found(tmp_path: Path, name: str, old: str, new: str) -> None:
    """A table from which a published figure was taken out is refused."""
    text = (PUBLISHED / f"{name}.yaml").read_text("utf-8")
    assert old in text
    (tmp_path / f"{name}.yaml").write_text(text.replace(old, new, 1), "utf-8")
    with pytest.raises(TableError, match=name):
        read_table(name, tmp_path)


def test_a_small_table_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Table 5 on a made log, by the two functions that the processes run: every figure, by hand
    where it is known, beside what the paper printed.
    """
    monkeypatch.setattr(measuring, "read", lambda table, file: LOG)
    given = {"algorithm": "PRETSA*", "k": 4, "t": 1}
    cell = {"table": "pretsa-5", "log": "CoSeLog", "parameters": [given], "runs": 1}
    measuring.main(cell)
    rows = {row["measure"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    # Two cases of two rare variants move by one edit each, and two of four variants are left.
    assert rows["log distance"]["ours"] == 2.0
    assert rows["modified traces"]["ours"] == 2.0
    assert rows["retained variants"]["ours"] == 2.0
    # Of the steps ab, bc, ac, bb, ad and dc the first three are there about as often as before.
    assert rows["DF-representativeness"]["ours"] == 0.5
    assert rows["log distance"]["ours_by_choice"] == 2.0
    assert rows["log distance"]["spread"] == [2.0, 2.0]


def test_rows_have_the_keys_that_are_promised(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without any log each row says so; stored figures stand beside the published ones."""
    monkeypatch.setattr(papers, "found", lambda name: None)
    papers.main(["pretsa-6", "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 25
    for row in rows:
        assert row.keys() >= set(papers.KEYS)
        assert row["published"] is not None
        assert row["ours"] is None
        assert row["note"].startswith("not measured: ")
    papers.main(["pretsa-5", "--json", "--stored"])
    stored = json.loads(capsys.readouterr().out)
    assert len(stored) == 75
    by_hand = [row for row in stored if row["parameters"]["algorithm"] == "PRETSA*"]
    assert {row["ours"] for row in by_hand if row["measure"] == "log distance"} == {26.0}


def test_noise_and_accounting(capsys: pytest.CaptureFixture[str]) -> None:
    """Libra's own form, what the planner takes, and what one edge and ten cost: more."""
    given = {"alpha": 10, "epsilon": 0.37, "delta": 1e-4, "rate": 0.05, "b": 2}
    wanted = ["EMD Freq", "EMD Freq, edge by edge"]
    rows = list(measuring.measured("libra-3", "made", LOG, given, wanted, 1))
    assert [row["runs"] for row in rows] == [1, 1]
    assert all(row["ours"] >= 0 for row in rows)
    assert rows[0]["ours"] <= rows[1]["ours"]
    # Equation 2 by hand: ln(2/3 e^(1/2) + 1/3 e^-1) = .2003.
    assert measuring.libra_noise(given | {"alpha": 2})["scale"] == pytest.approx(4.9924, abs=1e-3)
    one, ten = (measuring.accounted(2.0, 0.05, 1e-4, events) for events in (1, 10))
    assert 0.3 < one < 1.5
    assert ten > 5 * one


def test_a_uniform_draw_has_the_variants_of_the_log() -> None:
    """As many cases, none of another variant."""
    made = measuring.uniform(LOG)()
    assert made.release.cases.height == LOG.cases.height
    assert measuring.true_variants(
        measuring.histogram(LOG), measuring.histogram(made.release)
    ) == frozenset(measuring.histogram(made.release))
    assert isinstance(made.release.events, pl.DataFrame)


def test_why_a_figure_is_missing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal fills an empty place and no other; a log that is not here leaves nothing."""
    monkeypatch.setattr(papers, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(papers, "found", lambda name: name == "sepsis" and tmp_path)
    rows = read_table("ddpm").rows
    here = next(row for row in rows if row.log == "Sepsis")
    away = next(row for row in rows if row.log != "Sepsis")
    refused = [papers.blank(row, "not measured: not ended after 3 s") for row in (here, away)]
    papers.save("ddpm", refused)
    assert list(papers.kept("ddpm").values()) == refused[:1]
    measured = refused[0] | {"ours": 0.5, "runs": 1, "note": ""}
    # Of one side alone: what the paper's accounting refuses, the planner may have.
    by_choice = refused[0] | {"ours_by_choice": 0.7, "runs_by_choice": 1}
    for row, left in ((by_choice, by_choice), (refused[0], by_choice), (measured, measured)):
        papers.save("ddpm", [row])
        assert list(papers.kept("ddpm").values()) == [left]


def test_the_stored_figures_are_of_the_tables() -> None:
    """Every stored row was run or says why not, and has the published figure of its table."""
    stored = json.loads((ROOT / "benchmarks" / "papers" / "results.json").read_text("utf-8"))
    assert stored.keys() <= set(TABLES)
    for name, rows in stored.items():
        printed = {papers.key(papers.blank(row, "")): row for row in read_table(name).rows}
        for row in rows:
            assert has_figures(row) or "not measured: " in row["note"]
            # A fault of the benchmark's own is no reason why a figure is missing.
            assert "Error:" not in row["note"], row["note"]
            where = papers.key(row)
            assert row["published"] == (printed[where].published if where in printed else None)


def test_a_picture_shows_what_is_measured(tmp_path: Path) -> None:
    """Each kind of figure has its mark; the grid's other settings and empty rows are left out."""
    row = papers.blank(read_table("ddpm").rows[0], "")
    told = {"mechanism": "DDPM", "epsilon": 1, "delta": 1e-4}
    figures = {"runs": 3, "ours": 0.8, "spread": [0.7, 0.9], "ours_by_choice": 0.7}
    measured = row | {"parameters": told, "published": 0.9} | figures
    elsewhere = measured | {"parameters": told | {"delta": 1e-6}}
    assert drawn_rows("ddpm", [row, measured, elsewhere]) == [measured]
    assert not draw("ddpm", [row, elsewhere], tmp_path / "none.svg")
    assert not (tmp_path / "none.svg").exists()
    assert draw("ddpm", [measured], tmp_path / "papers" / "one.svg")
    text = (tmp_path / "papers" / "one.svg").read_text("utf-8")
    assert all(word in text for word in ("DDPM published", "DDPM ours", "our own choice"))
    # The same figures make the same file, so that what is committed changes with them alone.
    assert draw("ddpm", [measured], tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_text("utf-8") == text
    assert draw("ddpm", [measured | {"published": None}], tmp_path / "two.svg")
    assert "DDPM published" not in (tmp_path / "two.svg").read_text("utf-8")
