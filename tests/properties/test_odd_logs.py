"""Plans for whole logs on logs that no reader would make: none aborts."""

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import polars as pl
import pytest

from cloakwork import EventLog, make_plan
from cloakwork.log.eventlog import CASE_ID, TIMESTAMP
from conftest import ROOT, runs


@pytest.fixture
def acceptance(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """``benchmarks/wholelog/acceptance.py``, with the odd logs beside it."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "wholelog"))
    names = ("acceptance", "odd_logs")
    for name in names:
        sys.modules.pop(name, None)
    yield importlib.import_module("acceptance")
    for name in names:
        sys.modules.pop(name, None)


def test_odd_logs_are_released(acceptance: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """None aborts a plan for whole logs, which is not proved anew for each."""
    monkeypatch.setattr("cloakwork.run.run.replan", lambda plan, _: plan)
    count = runs(8)
    plans = [make_plan(odd) for odd in acceptance.odd_logs.policies()]
    outcomes = [acceptance.released_oddly(plans[turn % 4], 1 + turn) for turn in range(count)]
    assert not [outcome for outcome in outcomes if outcome.startswith("fault")]
    assert outcomes.count("released") > 0.8 * count


def test_odd_logs_are_odd_and_can_be_read(acceptance: ModuleType) -> None:
    """Empty ones, missing times, lists and names that no file would have are among them."""
    tables = [acceptance.odd_logs.odd_table(np.random.default_rng(seed)) for seed in range(40)]
    for table in tables:
        EventLog.from_polars(table)
    assert any(not table.height for table in tables)
    assert any(table.height and table[TIMESTAMP].null_count() == table.height for table in tables)
    assert any(isinstance(kind, pl.List) for table in tables for kind in table.dtypes)
    assert any((table[CASE_ID].str.contains("\x00")).any() for table in tables)
