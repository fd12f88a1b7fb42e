"""Logs are read as their policy says, from files and from tables in memory."""

from pathlib import Path

import pandas as pd
import polars as pl
import pytest

from cloakwork.errors import LogError
from cloakwork.plan.policies import parse_policy
from cloakwork.policy.model import Policy
from cloakwork.run.reading import log_in_memory, read_under

BEGIN = """
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: q, version: 1.0.0, owner: me, purpose: test, dataset: d}
spec:
  guarantees: [{kind: k-anonymity, k: 2, over: [control-flow]}]
  attributes:
    Fall: {role: case-id}
    Schritt: {role: control-flow}
    Zeit: {role: timestamp}
    "case:kunde": {role: identifier}
"""
TEXT = (
    "Fall,Schritt,Zeit,Kunde\n"
    "7,a,02.03.2024 10:00,K1\n7,b,01.03.2024 10:00,K1\n8,a,03.03.2024 10:00,K1\n"
)
INPUT = '  input: {columns: {case:kunde: Kunde}, time_format: "%d.%m.%Y %H:%M"}\n'


def policy(more: str = INPUT) -> Policy:
    """A policy whose roles name the columns."""
    return parse_policy(BEGIN + more)


def table(path: Path, text: str = TEXT) -> Path:
    """A table without standard names."""
    path.write_text(text)
    return path


def test_roles_suffice(tmp_path: Path) -> None:
    """No column is mapped; the attributes keep their names."""
    log = read_under(policy(), table(tmp_path / "log.csv"))
    assert log.cases["case:concept:name"].to_list() == ["7", "8"]
    assert log.cases["case:kunde"].to_list() == ["K1", "K1"]
    assert set(log.events["Schritt"]) == {"a", "b"}
    assert log.events.schema["Zeit"] == pl.Datetime("us", "UTC")
    assert "Fall" not in log.columns


def test_a_column_that_a_role_names_must_be_there(tmp_path: Path) -> None:
    """The nearest name is said."""
    path = table(tmp_path / "log.csv", TEXT.replace("Schritt", "Schrit"))
    with pytest.raises(LogError, match="no column 'Schritt', to which the policy gives the role"):
        read_under(policy(), path)


def test_the_command_line_goes_first(tmp_path: Path) -> None:
    """``--column`` is said for this log, the policy for all."""
    path = table(tmp_path / "log.csv", TEXT.replace("Kunde", "Klant"))
    with pytest.raises(LogError, match="no column 'Kunde' for 'case:kunde'; the columns are"):
        read_under(policy(), path)
    log = read_under(policy(), path, columns={"case:kunde": "Klant"})
    assert log.cases["case:kunde"].to_list() == ["K1", "K1"]


@pytest.mark.parametrize("pandas", [False, True])
def test_tables_in_memory_are_named_alike(pandas: bool) -> None:
    """Times are times there."""
    frame = pl.read_csv(TEXT.encode(), schema_overrides={"Fall": pl.String}).with_columns(
        pl.col("Zeit").str.to_datetime("%d.%m.%Y %H:%M", time_zone="UTC")
    )
    given = pd.DataFrame(frame.to_dict(as_series=False)) if pandas else frame
    log = log_in_memory(policy(), given, None)
    assert log.cases["case:kunde"].to_list() == ["K1", "K1"]
    assert log.events["Schritt"].to_list() == ["b", "a", "a"]
    with pytest.raises(LogError, match="names two values in one case"):
        other = frame.with_columns(pl.Series("Kunde", ["K1", "K2", "K1"]))
        log_in_memory(policy(), other.to_pandas() if pandas else other, None)
    with pytest.raises(LogError, match="path or a table"):
        log_in_memory(policy(), 3, None)


def test_a_unit_that_is_split_may_differ_within_a_case(tmp_path: Path) -> None:
    """As the policy says."""
    path = table(tmp_path / "log.csv", TEXT.replace("02.03.2024 10:00,K1", "02.03.2024 10:00,K2"))
    unit = '  unit: {attribute: "case:kunde", max_cases: 2, on_conflict: split}\n'
    with pytest.raises(LogError, match=":3: column 'Kunde' names two values in one case"):
        read_under(policy(), path)
    log = read_under(policy(INPUT + unit), path)
    assert log.split_by("case:kunde").cases.height == 3
