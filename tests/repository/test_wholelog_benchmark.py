"""The benchmark of whole logs: every baseline gives a log with times and values, its figures, and a
row of the table, on a made-up log.
"""

import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl
import pytest

from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.plan.planner import make_plan
from cloakwork.plan.policies import load_policy
from cloakwork.policy.model import Policy
from conftest import ROOT

FOLDER = ROOT / "benchmarks" / "wholelog"
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
FIGURES = ("dur", "wait", "how", "attr", "attr0", "cattr", "tv2", "rls")


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """``cell.py``, with the modules beside it."""
    monkeypatch.syspath_prepend(str(FOLDER))
    names = ("cell", "baselines", "flat", "pripel", "columns")
    for name in names:
        sys.modules.pop(name, None)
    yield importlib.import_module("cell")
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def acceptance(cell: ModuleType) -> Iterator[ModuleType]:
    """``acceptance.py``, with the odd logs beside it."""
    for name in ("acceptance", "odd_logs"):
        sys.modules.pop(name, None)
    yield importlib.import_module("acceptance")
    for name in ("acceptance", "odd_logs"):
        sys.modules.pop(name, None)


@pytest.fixture
def policy() -> Policy:
    """Two attributes of a domain and a range, one of cases and one of events."""
    return Policy.model_validate(
        {
            "apiVersion": "cloakwork/v1",
            "kind": "PrivacyPolicy",
            "metadata": {
                "name": "made-up",
                "version": "1.0.0",
                "owner": "o",
                "purpose": "p",
                "dataset": "d",
            },
            "spec": {
                "unit": "case",
                "attributes": {
                    ACTIVITY: {"role": "control-flow"},
                    TIMESTAMP: {"role": "timestamp"},
                    "case:sum": {"role": "sensitive", "range": [0, 100]},
                    "colour": {"role": "sensitive", "domain": ["red", "blue"]},
                    "*": {"treatment": "drop"},
                },
                "guarantees": [
                    {
                        "kind": "differential-privacy",
                        "epsilon": 2.0,
                        "delta": 1e-5,
                        "over": ["control-flow", "timestamps", "case:sum", "colour"],
                    }
                ],
                "assume": {
                    "alphabet": ["a", "b", "c"],
                    "units_at_most": 1000,
                    "longest_case": 4,
                    "longest_gap": "10d",
                    "window": {"start": "2024-01-01T00:00:00Z", "end": "2024-07-01T00:00:00Z"},
                },
                "budget": {"total": {"epsilon": 2.0, "delta": 1e-5}},
                "output": {"format": "xes.gz"},
            },
        }
    )


@pytest.fixture
def log() -> EventLog:
    """300 cases of two variants; gaps of hours, one value in seven missing."""
    rng = np.random.default_rng(1)
    variants = ["abc" if case % 3 else "ac" for case in range(300)]
    case = np.repeat(np.arange(300), [len(labels) for labels in variants])
    hours = case * 12 + np.arange(len(case)) % 3 + rng.random(len(case))
    colours = np.where(np.arange(len(case)) % 2, "red", "blue").astype(object)
    colours[::7] = None
    return EventLog.from_polars(
        pl.DataFrame(
            {
                CASE_ID: case.astype(str),
                ACTIVITY: [label for labels in variants for label in labels],
                TIMESTAMP: [BEGIN + timedelta(hours=float(hour)) for hour in np.sort(hours)],
                "colour": pl.Series(colours.tolist(), dtype=pl.String),
                "case:sum": (case % 90).astype(np.float64),
            }
        )
    )


def test_every_baseline_has_all_figures(cell: ModuleType, policy: Policy, log: EventLog) -> None:
    """Times in order, values of the domain, and the same figures again from the same seed."""
    for method in cell.baselines.METHODS:
        asked: dict[str, Any] = {"method": method, "seed": 5, "log": "made-up"}
        first, _ = cell.one_run(asked, policy, log, 0, cell.histogram(log), similar=True)
        again, _ = cell.one_run(asked, policy, log, 0, cell.histogram(log), similar=True)
        assert "refused" not in first, first
        assert {name: first[name] for name in FIGURES} == {name: again[name] for name in FIGURES}
        assert min(first[name] for name in FIGURES) >= 0
        assert first["null_times"] == first["out_of_order"] == 0
        assert not first["notes"]


def test_what_has_no_noise_is_nearer_than_what_has(
    cell: ModuleType, policy: Policy, log: EventLog
) -> None:
    """Cases drawn anew are nearer in every measure than values under local privacy."""
    figures = []
    for method in ("drawn anew", "PRIPEL, split per case"):
        asked: dict[str, Any] = {"method": method, "seed": 5, "log": "made-up"}
        figures.append(cell.one_run(asked, policy, log, 0, {}, similar=False)[0])
    near, far = figures
    for name in ("dur", "wait", "attr", "cattr", "tv2"):
        assert near[name] < far[name], name


def test_what_is_refused_is_a_row(cell: ModuleType, policy: Policy, log: EventLog) -> None:
    """With its reason, in one line."""
    found, _ = cell.one_run({"method": "none", "seed": 1}, policy, log, 0, {}, similar=True)
    assert found["refused"] == "KeyError: 'none'"


def test_policies_are_valid_and_take_another_epsilon(cell: ModuleType) -> None:
    """Those beside the benchmark; their delta is the largest that they may ask."""
    for path in (FOLDER / "policies").glob("*.yaml"):
        load_policy(path)
        policy = cell.asked(cell.policy_of(path.stem), path.stem, 0.5)
        goal: Any = policy.spec.guarantees[0]
        assert (goal.epsilon, goal.delta) == (0.5, cell.DELTAS[path.stem])
        assert goal.delta < 1 / (10 * policy.facts().units_at_most)


def test_marks_say_which_bar_is_reached(cell: ModuleType) -> None:
    """Similarity from below, everything else from above; without a mark at another epsilon."""
    main = importlib.util.spec_from_file_location("wholelog_main", FOLDER / "__main__.py")
    module = importlib.util.module_from_spec(main)
    main.loader.exec_module(module)
    row = {"log": "sepsis", "method": "ours", "epsilon": 2.0}
    for name, value, expected in [
        ("rls", 0.76, "*"),
        ("rls", 0.71, "+"),
        ("rls", 0.69, "!"),
        ("dur", 0.2, "*"),
        ("dur", 0.5, "+"),
        ("dur", 0.95, "!"),
        ("tv2", 0.9, ""),
    ]:
        assert module.mark(row | {name: value}, name) == expected
    assert module.mark(row | {"epsilon": 1.0, "rls": 0.1}, "rls") == ""
    run = dict.fromkeys((*FIGURES, "num"), 0.5) | {"cases": 3, "events": 9, "seconds": 1.0}
    runs = [run | {"null_times": bad, "out_of_order": 0, "mib": 80} for bad in (0, 2)]
    table = list(module.table([module.row_of("sepsis", 2.0, "ours", runs)]))
    assert table[1].split() == [
        *["sepsis", "2", "ours", "0.5!", "0.5+", "0.5+", "0.5!", "0.5!"],
        *["0.5", "0.5", "0.5", "0.5", "3", "9", "1", "2", "1.0", "80"],
    ]
    assert "must" in table[2]


@pytest.mark.skipif("CLOAKWORK_RUNS" not in os.environ, reason="minutes: CLOAKWORK_RUNS=1")
def test_odd_logs_are_released(acceptance: ModuleType) -> None:
    """None of 500 aborts a plan for whole logs."""
    plans = [make_plan(odd) for odd in acceptance.odd_logs.policies()]
    outcomes = [acceptance.released_oddly(plans[turn % 4], 1 + turn) for turn in range(500)]
    assert not [outcome for outcome in outcomes if outcome.startswith("fault")]
    assert outcomes.count("released") > 400


def test_odd_logs_are_odd_and_can_be_read(acceptance: ModuleType) -> None:
    """Empty ones, missing times, lists and names that no file would have are among them."""
    tables = [acceptance.odd_logs.odd_table(np.random.default_rng(seed)) for seed in range(40)]
    for table in tables:
        EventLog.from_polars(table)
    assert any(not table.height for table in tables)
    assert any(table.height and table[TIMESTAMP].null_count() == table.height for table in tables)
    assert any(isinstance(kind, pl.List) for table in tables for kind in table.dtypes)
    assert any((table[CASE_ID].str.contains("\x00")).any() for table in tables)


def test_the_page_has_the_figures_of_the_results(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else put what it prints into docs/evaluation.md:
    python benchmarks/wholelog --table-only --markdown --epsilon 2.
    """
    module = main_module(monkeypatch)
    monkeypatch.setattr(sys, "argv", ["wholelog", "--table-only", "--markdown", "--epsilon", "2"])
    module.main()
    printed = capsys.readouterr().out.splitlines()
    page = (ROOT / "docs" / "evaluation.md").read_text("utf-8").splitlines()
    assert len(printed) > 20
    assert not [line for line in printed if line not in page]


def main_module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """``__main__.py`` of the benchmark."""
    monkeypatch.syspath_prepend(str(FOLDER))
    main = importlib.util.spec_from_file_location("wholelog_main", FOLDER / "__main__.py")
    module = importlib.util.module_from_spec(main)
    main.loader.exec_module(module)
    return module


def test_what_was_interrupted_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """``--fresh`` forgets what is asked for before it measures, and nothing else; each cell is kept
    when it is measured.
    """
    module = main_module(monkeypatch)
    kept = tmp_path / "results.json"
    kept.write_text(json.dumps({"sepsis 1 halves": [], "receipt - halves": [{}]}), "utf-8")
    monkeypatch.setattr(module, "RESULTS", kept)
    # It measures nothing here, so that it needs no real logs.
    monkeypatch.setattr(module, "SHARED", tmp_path)
    done: list[str] = []

    def measured(log: str, epsilon: float | None, method: str, runs: int, seed: int) -> list[Any]:
        if len(done) == 1:
            raise KeyboardInterrupt
        done.append(module.key(log, epsilon, method))
        return [{"refused": "made up"}] * runs

    monkeypatch.setattr(module, "measured", measured)
    asked = ["wholelog", "--log", "sepsis,receipt", "--method", "halves", "--runs", "1"]
    monkeypatch.setattr(sys, "argv", [*asked, "--fresh"])
    with pytest.raises(KeyboardInterrupt):
        module.main()
    assert done == ["sepsis - halves"]
    assert json.loads(kept.read_text("utf-8")).keys() == {"sepsis 1 halves", "sepsis - halves"}
    done.clear()
    monkeypatch.setattr(sys, "argv", asked)
    module.main()
    assert done == ["receipt - halves"]
