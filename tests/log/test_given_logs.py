"""What a caller may hand over as a log: tables of any library, paths, URLs; and what is none."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import cloakwork
from cloakwork.errors import LogError
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats import write_log
from cloakwork.plan.policies import parse_policy

ROWS = pl.DataFrame(
    {
        "case:concept:name": [f"c{case}" for case in range(12) for _ in range(2)],
        "concept:name": ["begin", "end"] * 12,
        "time:timestamp": [
            datetime(2024, 1, 1 + case, hour, tzinfo=UTC) for case in range(12) for hour in (8, 9)
        ],
        "who": [None, "w"] * 12,
    }
)
POLICY = """\
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: given, version: 1.0.0, owner: me@here.example, purpose: Study, dataset: given}
spec:
  attributes:
    "case:concept:name": {role: identifier}
    "concept:name": {role: control-flow}
    "time:timestamp": {role: timestamp, treatment: drop}
    "*": {treatment: drop}
  guarantees:
    - {kind: k-anonymity, k: 3, over: [control-flow], scope: variants}
"""


class Capsules:
    """A table that offers Arrow's stream and nothing else."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self.frame = frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.frame.__arrow_c_stream__(requested_schema)


class Broken:
    """A table that fails when it is read."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise RuntimeError("the connection\nis closed")


def of_duckdb(frame: pl.DataFrame) -> object:
    """A relation of DuckDB, and the connection that it lives on."""
    duckdb = pytest.importorskip("duckdb", reason="the package 'duckdb' is not installed")
    table = frame.to_arrow()
    connection = duckdb.connect()
    connection.register("visits", table)
    return connection.sql("select * from visits")


FORMS: dict[str, Callable[[pl.DataFrame], Any]] = {
    "polars": lambda frame: frame,
    "pandas": pl.DataFrame.to_pandas,
    "pyarrow": pl.DataFrame.to_arrow,
    "record batches": lambda frame: frame.to_arrow().to_reader(),
    "capsules": Capsules,
    "duckdb": of_duckdb,
}


@pytest.mark.parametrize("form", FORMS)
def test_tables_of_any_library_are_one_log(form: str) -> None:
    """Values, types and the order of ties are those of the table; ``columns`` names others."""
    expected = EventLog.from_polars(ROWS)
    found = cloakwork.read_log(FORMS[form](ROWS))
    assert found.to_polars().equals(expected.to_polars())
    renamed = ROWS.rename({"concept:name": "step", "who": "nurse"})
    named = {"activity": "step", "case:who": "nurse"}
    again = cloakwork.read_log(FORMS[form](renamed), columns=named)
    assert again.events["concept:name"].equals(expected.events["concept:name"])
    assert "case:who" in again.cases.columns
    seen = cloakwork.explore(FORMS[form](renamed), columns={"activity": "step"})
    assert (seen.cases, seen.activities, seen.source) == (12, 2, "the log")


@pytest.mark.parametrize("form", ["pyarrow", "capsules", "duckdb"])
def test_a_table_is_released_and_attacked(form: str, ledger: str, no_figures: None) -> None:
    """As its polars table is: the run charges the ledger all the same."""
    plan = cloakwork.make_plan(parse_policy(POLICY))
    made = cloakwork.apply(plan, FORMS[form](ROWS), ledger=ledger)
    assert made.log.cases.height == 12
    assert len(cloakwork.Ledger(ledger).history()) == 1
    attacked = [
        cloakwork.risk(given, made.log, policy=parse_policy(POLICY), targets=5).attacks
        for given in (FORMS[form](ROWS), ROWS)
    ]
    assert attacked[0] == attacked[1]


def test_a_url_of_a_file_is_its_path(tmp_path: Path) -> None:
    """Its percent signs are read; other machines are not asked."""
    path = tmp_path / "my visits.csv"
    write_log(EventLog.from_polars(ROWS), path, "csv")
    assert "%20" in path.as_uri()
    for given in (path, str(path), path.as_uri(), f"FILE://localhost{path.as_uri()[7:]}"):
        assert cloakwork.read_log(given).case_count == 12
        assert cloakwork.explore(given).source == path.name
    assert cloakwork.risk(path.as_uri(), targets=5).attacks
    with pytest.raises(LogError, match="is on another machine; copy the file"):
        cloakwork.read_log("file://elsewhere/visits.csv")


@pytest.mark.parametrize("given", [None, 3, [ROWS], {"a": 1}, b"log.csv", ROWS.lazy()])
def test_what_is_no_log_is_named_with_its_type_and_a_remedy(given: object, ledger: str) -> None:
    """One line: the argument, what came, and what to do; never a TypeError."""
    policy = parse_policy(POLICY)
    plan = cloakwork.make_plan(policy)
    verbs: dict[str, Callable[[], object]] = {
        "log": lambda: cloakwork.read_log(given),
        "log ": lambda: cloakwork.explore(given),
        "log  ": lambda: cloakwork.apply(plan, given, ledger=ledger),
        "log   ": lambda: cloakwork.release(policy, given, "out", ledger=ledger),
        "original": lambda: cloakwork.risk(given),
        "control": lambda: cloakwork.risk(ROWS, control=3 if given is None else given),
        "released": lambda: cloakwork.risk(ROWS, 3 if given is None else given),
    }
    if given is not None:
        verbs["log    "] = lambda: cloakwork.compare(given, policy, ledger=ledger)
    for argument, call in verbs.items():
        with pytest.raises(LogError) as caught:
            call()
        said = str(caught.value)
        assert "\n" not in said
        assert said.startswith(f"{argument.strip()}: must be an EventLog, a path or a table of")
        is_second = given is None and argument in ("control", "released")
        kind = type(3 if is_second else given).__name__
        assert f"(got {kind}); make it a table" in said
    assert cloakwork.Ledger(ledger).history() == ()


def test_what_does_not_count_or_cannot_be_read_is_said() -> None:
    """An option that a table has no use for; a column that is missing, or stands twice; a stream
    that fails.
    """
    with pytest.raises(LogError, match="is in memory already, where keep does not count"):
        cloakwork.read_log(ROWS, keep=str.isalpha)
    with pytest.raises(LogError, match="has no column 'concept:name'"):
        cloakwork.read_log(ROWS.drop("concept:name"))
    with pytest.raises(LogError, match="a Broken that cannot be read by Arrow's stream") as caught:
        cloakwork.read_log(Broken())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("written", ["03/04/2025", "03.04.2025 10:00", "soon"])
def test_a_text_that_leaves_the_day_open_is_no_time(written):
    """A table in memory says as little as a file which number is the day."""
    table = {"case:concept:name": ["1"], "concept:name": ["a"], "time:timestamp": [written]}
    with pytest.raises(LogError, match="holds texts that are no times"):
        cloakwork.read_log(pl.DataFrame(table))


def test_options_may_be_a_mapping(tmp_path):
    """As under spec.input."""
    path = tmp_path / "log.csv"
    path.write_bytes("case;activity;timestamp\n1;Pr\u00fcfung;2024-01-01\n".encode("cp1252"))
    log = cloakwork.read_log(path, options={"encoding": "cp1252", "delimiter": ";"})
    assert log.events["concept:name"].to_list() == ["Pr\u00fcfung"]
