"""Logs on Spark: what is read, and that it releases what the engine in memory releases."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from cloakwork.engines.batches import collected
from cloakwork.engines.spark import SparkEngine, spark_engine
from cloakwork.engines.spark_rows import SparkSource
from cloakwork.errors import LogError
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.log.io.options import InputOptions
from cloakwork.log.io.reading import read_log
from cloakwork.log.io.request import TableRequest
from cloakwork.log.limits import Limits
from cloakwork.mechanisms.registry import catalogue
from cloakwork.noise import reproducible
from cloakwork.run.all_cases import SourceFigures
from cloakwork.testing.asking_contract import MechanismRuns
from cloakwork.testing.contract import MechanismContract
from cloakwork.testing.contract_logs import BATCH_LOG, assert_same_log
from contracts import test_mechanism_contract
from spark_session import missing, spark_session

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")

LONG = "CLOAKWORK_RUNS" in os.environ
REQUEST = TableRequest(
    InputOptions(), None, frozenset(), ACTIVITY, TIMESTAMP, False, Limits(), "refuse"
)
SAMPLE = {"bound", "attributes/redact", "kanon/pretsa", "variants/threshold", "timestamps/laplace"}
"""What the short form tries: cases that lie together by unit, keys, marks, counts, noise."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with spark_session(tmp_path_factory.mktemp("spark")) as found:
        yield found


@pytest.fixture
def engine(session: Any, tmp_path: Path) -> SparkEngine:
    return spark_engine(session, tmp_path / "storage", batch_events=70)


class ByUnit(SparkEngine):
    """Whatever a step asks for: all cases of a unit lie in one batch."""

    def open(self, source: Any, prepare: Any, unit: str | None, seen: Any) -> Any:
        return super().open(source, prepare, "case:unit", seen)


def flat_log(cases: int = 60) -> pl.DataFrame:
    """A table of cases that take turns in the file, with ties in times and missing values."""
    draw = np.random.default_rng(3)
    rows = 5 * cases
    case = draw.integers(0, cases, rows)
    return pl.DataFrame(
        {
            CASE_ID: [None if i % 97 == 0 else f"case {each}" for i, each in enumerate(case)],
            ACTIVITY: draw.choice(["a", "b", "c"], rows),
            TIMESTAMP: pl.Series(draw.integers(0, 6, rows) * 3_600_000_000).cast(
                pl.Datetime("us", "UTC")
            ),
            "cost": pl.Series(draw.integers(0, 99, rows)).cast(pl.Decimal(18, 2)),
            "weight": draw.random(rows),
            "case:person": [f"person {each % 7}" for each in case],
        }
    )


def in_files(table: pl.DataFrame, folder: Path, files: int = 3) -> Path:
    """The table in files; the first has most rows."""
    folder.mkdir()
    bounds = [0, *(table.height - 10 * np.arange(files - 1, 0, -1)).tolist(), table.height]
    for place in range(files):
        table[bounds[place] : bounds[place + 1]].write_parquet(folder / f"part {place}.parquet")
    return folder


def opened(engine: SparkEngine, source: object, unit: str | None = None) -> EventLog:
    log = engine.open(source, as_it_is, unit, SourceFigures()).log
    return collected(log)


def as_it_is(log: EventLog) -> EventLog:
    return log


def contract_of(name: str) -> type[MechanismRuns]:
    found = [
        each
        for each in vars(test_mechanism_contract).values()
        if isinstance(each, type)
        and issubclass(each, MechanismContract)
        and each is not MechanismContract
        and each.mechanism.name == name
    ]
    return found[0]


def test_parquet_is_read_as_in_memory(engine: SparkEngine, tmp_path: Path) -> None:
    """Rows of several files, without ids, with decimals; the order is that of files and rows."""
    table = flat_log()
    table.write_parquet(tmp_path / "whole.parquet")
    in_memory = read_log(tmp_path / "whole.parquet")
    log = opened(engine, SparkSource(in_files(table, tmp_path / "log"), REQUEST))
    assert_same_log(in_memory, log)


@pytest.mark.parametrize("name", sorted(catalogue()) if LONG else [*sorted(SAMPLE)])
def test_releases_what_memory_releases(engine: SparkEngine, name: str) -> None:
    contract = contract_of(name)()
    by_unit = ByUnit(**vars(engine))
    for params in contract.offers():
        in_memory = contract.run(params, BATCH_LOG, reproducible(1))
        on_spark = contract.run_on(by_unit, params, BATCH_LOG, reproducible(1))
        assert_same_log(in_memory, on_spark)


def test_rows_without_an_order_are_refused(engine: SparkEngine) -> None:
    frame = engine.session.createDataFrame([("1", "a")], f"`{CASE_ID}` string, `{ACTIVITY}` string")
    with pytest.raises(LogError, match="no order, which is part of the control flow"):
        opened(engine, SparkSource(frame, REQUEST))
