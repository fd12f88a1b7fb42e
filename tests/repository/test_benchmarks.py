"""Benchmarks: a cell of private control flow says what was paid, and the page on whole logs has the
figures of the results.
"""

import importlib.util
import json
import sys
from types import ModuleType

import pytest

from conftest import ROOT
from contracts.sample_logs import log_of

FOLDER = ROOT / "benchmarks" / "variants"


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


@pytest.mark.parametrize("mechanism", ["variants/threshold", "planned"])
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


def test_what_fails_is_a_row(cell: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """A refusal has its reason, and does not stop the rows after it."""
    rows = measured(cell, capsys, "variants/none")
    assert [str(row["refused"])[:24] for row in rows] == ["variants/none: there is "] * 2


def test_the_page_has_the_figures_of_the_results(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else put what it prints into docs/evaluation.md:
    python benchmarks/wholelog --table-only --markdown --epsilon 2.
    """
    folder = FOLDER.parent / "wholelog"
    monkeypatch.syspath_prepend(str(folder))
    main = importlib.util.spec_from_file_location("wholelog_main", folder / "__main__.py")
    assert main is not None and main.loader is not None
    module = importlib.util.module_from_spec(main)
    main.loader.exec_module(module)
    monkeypatch.setattr(sys, "argv", ["wholelog", "--table-only", "--markdown", "--epsilon", "2"])
    module.main()
    printed = capsys.readouterr().out.splitlines()
    page = (ROOT / "docs" / "evaluation.md").read_text("utf-8").splitlines()
    assert len(printed) > 20
    assert not [line for line in printed if line not in page]
