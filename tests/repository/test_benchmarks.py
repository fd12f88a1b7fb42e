"""The benchmark of private control flow: every kind of cell gives the figures that the table
prints, on a made-up log.
"""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from contracts.sample_logs import log_of

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "variants"


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """``cell.py`` over a log of 113 cases in place of a real one, however long a comparison takes:
    beside other work it may take more than ``COMPARING`` seconds.
    """
    spec = importlib.util.spec_from_file_location("variants_cell", FOLDER / "cell.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    log = log_of([["a", "b", "c"]] * 80 + [["a", "c"]] * 30 + [["a", "b", "b", "c"]] * 3)
    monkeypatch.setattr(module, "read", lambda name: log)
    monkeypatch.setattr(module, "COMPARING", float("inf"))
    return module


def measured(
    cell: ModuleType, capsys: pytest.CaptureFixture[str], mechanism: str
) -> list[dict[str, object]]:
    """The rows of a cell at two budgets."""
    cell.main(
        {"mechanism": mechanism, "log": "receipt", "runs": 2, "budgets": [[1.0, 1e-4], [0.5, 1e-6]]}
    )
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("mechanism", ["variants/threshold", "dfg/laplace", "planned"])
def test_a_cell_says_what_was_paid(
    cell: ModuleType, capsys: pytest.CaptureFixture[str], mechanism: str
) -> None:
    """At most what was asked for, and close to it; the planner's choice has its name."""
    for row in measured(cell, capsys, mechanism):
        assert "refused" not in row
        assert 0.98 * row["epsilon"] < row["paid_epsilon"] <= row["epsilon"]
        assert row["paid_delta"] <= row["delta"]
        assert (mechanism == "planned") == ("chosen" in row)
        assert row["compared"] == 2
        assert {"similarity", "difference", "dfg_edges", "seconds", "mib", "cases"} <= row.keys()


def test_at_least_one_run_is_compared(
    cell: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a comparison takes longer than all may."""
    monkeypatch.setattr(cell, "COMPARING", 0.0)
    assert [row["compared"] for row in measured(cell, capsys, "variants/threshold")] == [1, 1]


def test_a_published_form_has_no_bound(
    cell: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its cost is infinite, whatever it claims; noise of scale 2 leaves 80 cases of a variant, but
    for e**-30.
    """
    for row in measured(cell, capsys, "variants/sacofa-published"):
        assert row["paid_epsilon"] is None
        assert row["cases"] > 0


def test_every_mechanism_is_told_the_same(cell: ModuleType) -> None:
    """The log's activities, its longest case, and its cases rounded up to two digits."""
    log = cell.read("receipt")
    facts = cell.declared(log, cell.histogram(log))
    assert facts == {"alphabet": ("a", "b", "c"), "longest_case": 4, "units_at_most": 120}


def test_what_fails_is_a_row(cell: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """A refusal and a fault have their reason, and do not stop the rows after them."""
    rows = measured(cell, capsys, "variants/none")
    assert [str(row["refused"])[:24] for row in rows] == ["variants/none: there is "] * 2
