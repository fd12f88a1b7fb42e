"""The notebooks of examples/notebooks run from top to bottom, and are kept without outputs."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import EXAMPLES, ROOT, in_long_form

FOLDER = ROOT / "examples" / "notebooks"
FROM_A_LOG = "from-a-log-to-a-release.ipynb"
READING = "reading-a-release.ipynb"
WRITING = "writing-a-mechanism.ipynb"


def cells(name: str) -> list[dict[str, Any]]:
    """The cells of a notebook, in order."""
    document = json.loads((FOLDER / name).read_text("utf-8"))
    assert document["nbformat"] == 4
    found: list[dict[str, Any]] = document["cells"]
    return found


@pytest.fixture
def ran(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    few_patients: Path,
    few_looked_for: None,
) -> dict[str, Any]:
    """The namespace of a notebook after all its cells, started in its folder as Jupyter does, on
    few cases of the example log.

    No kernel is needed: the cells use no command of IPython.
    """
    logs = EXAMPLES if in_long_form(True) else few_patients.parent
    for name, there in (
        ("policies", ROOT / "policies"),
        ("tests", ROOT / "tests"),
        ("examples/logs", logs),
    ):
        place = tmp_path / "checkout" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(there)
    folder = tmp_path / "checkout" / "examples" / "notebooks"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.path", list(sys.path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells(request.param)):
        if cell["cell_type"] == "code":
            code = compile("".join(cell["source"]), f"{request.param}, cell {number}", "exec")
            exec(code, namespace)
    assert list(folder.iterdir()) == [], "a notebook leaves nothing in its folder"
    return namespace


def test_all_are_there() -> None:
    """And no other that no test runs."""
    there = {path.name for path in FOLDER.iterdir() if path.suffix == ".ipynb"}
    assert there == {FROM_A_LOG, READING, WRITING}


@pytest.mark.parametrize("name", [FROM_A_LOG, READING, WRITING])
def test_outputs_are_stripped(name: str) -> None:
    """What a cell printed is not kept: it is out of date at the next change, or somebody's data."""
    code = [cell for cell in cells(name) if cell["cell_type"] == "code"]
    assert code
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


@pytest.mark.parametrize("ran", [FROM_A_LOG], indirect=True)
def test_from_a_log_to_a_release(ran: dict[str, Any]) -> None:
    """Nobody is named, the guarantee holds, the budget is charged, pandas gives the log back."""
    assert "org:resource" in ran["identifying"]["name"].to_list()
    assert set(ran["again"].columns) == {"case:concept:name", "concept:name", "time:timestamp"}
    assert all(verdict.holds for verdict in ran["release"].verdicts)
    (summary,) = ran["ledger"].summary()
    assert summary.dataset == "emergency" and len(summary.records) == 1
    assert "Internal" in ran["seen"]._repr_html_()


@pytest.mark.parametrize("ran", [READING], indirect=True)
def test_reading_a_release(ran: dict[str, Any]) -> None:
    """The guarantee holds in the tables, and the noise is what the text says.

    Counts: noise of scale 1 exceeds 40 with probability below 4e-18, and there are under 100.
    """
    assert ran["variants"]["cases"].min() >= 10
    assert ran["off"] == pytest.approx(1, abs=1e-6)
    assert ran["error_at_most"](0.05) == 3
    assert ran["compared"]["off by"].max() <= 40
    assert ran["counts"].height < 100


@pytest.mark.parametrize("ran", in_long_form(WRITING), indirect=True)
def test_writing_a_mechanism(ran: dict[str, Any]) -> None:
    """The toy passes the contract and its audit; the twin without noise is stopped. The page of
    this name tells the same, and runs each time.

    The audit fails a sound claim with probability 1e-9.
    """
    assert len(ran["passed"]) >= 10
    assert all(audit.result.passed for audit in ran["found"])
    assert "its plan does not list" in ran["stopped"]
    sizes = ran["released"].to_polars().group_by("case:concept:name").agg("concept:name")
    assert {count % 5 for count in sizes.group_by("concept:name").len()["len"]} == {0}
