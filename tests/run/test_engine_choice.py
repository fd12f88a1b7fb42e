"""Which engine works on a log."""

from pathlib import Path

import pytest

import cloakwork
from cloakwork.engines.batched import LocalEngine
from cloakwork.engines.memory import MemoryEngine
from cloakwork.errors import CloakworkError, Infeasible
from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.registry import catalogue
from cloakwork.plan.model import Plan
from cloakwork.run import reading, requirements
from cloakwork.run.prepare import required_attributes
from cloakwork.run.reading import Choice, choice_for

ROOT = Path(__file__).parents[2]
LOG = ROOT / "examples" / "logs" / "hospital.csv.gz"


def plan_of(name: str) -> Plan:
    return cloakwork.make_plan(cloakwork.load_policy(ROOT / "policies" / f"{name}.yaml"))


def choice(name: str | None, plan: Plan, log: object = LOG) -> Choice:
    return choice_for(name, log, plan, None, required_attributes(plan), lambda _: None)


def test_a_small_log_is_worked_on_in_memory() -> None:
    """And nothing is said of it."""
    chosen = choice(None, plan_of("dp-control-flow"))
    assert isinstance(chosen.engine, MemoryEngine)
    assert isinstance(chosen.source, EventLog)
    assert chosen.because is None


@pytest.mark.parametrize("name", ["hospital.csv.gz", "hospital.xes.gz"])
def test_a_large_one_in_batches_and_that_is_said(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what its file seems to hold."""
    monkeypatch.setattr(reading, "IN_MEMORY", 1_000)
    monkeypatch.setattr(reading, "SMALL_FILE", 0)
    chosen = choice(None, plan_of("dp-control-flow"), LOG.with_name(name))
    assert isinstance(chosen.engine, LocalEngine)
    assert chosen.because is not None
    assert "in batches on disk" in chosen.because


def test_a_step_that_needs_all_cases_keeps_it_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless an engine is named."""
    monkeypatch.setattr(reading, "IN_MEMORY", 1_000)
    monkeypatch.setattr(reading, "SMALL_FILE", 0)
    plan = plan_of("kanon-quasi-identifiers")
    assert requirements.needs_all_cases(plan, catalogue()).keys() == {"kanon/fill"}
    assert isinstance(choice(None, plan).engine, MemoryEngine)
    assert isinstance(choice("local", plan).engine, LocalEngine)


def test_too_many_cases_at_once_are_refused_before_a_charge(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One line with what to do; the ledger has no entry."""
    monkeypatch.setattr(requirements, "AT_ONCE", 1_000)
    ledger = cloakwork.Ledger(str(tmp_path / "ledger.db"), notice=lambda _: None)
    policy = ROOT / "policies" / "kanon-quasi-identifiers.yaml"
    with pytest.raises(Infeasible, match=r"kanon/fill.*--engine memory") as caught:
        cloakwork.release(policy, LOG, tmp_path / "out", ledger=ledger, engine="local")
    assert "\n" not in str(caught.value)
    assert ledger.history() == ()


def test_names_of_engines() -> None:
    """polars is memory; another one is one line that lists them."""
    plan = plan_of("dp-control-flow")
    assert isinstance(choice("polars", plan).engine, MemoryEngine)
    log = cloakwork.read_log(LOG)
    assert isinstance(choice("local", plan, log).engine, LocalEngine)
    with pytest.raises(CloakworkError, match="'spakr'; there are memory, local, spark"):
        choice("spakr", plan)


@pytest.mark.parametrize("text", ["0", "-1", "two", "1e3", "10000"])
def test_a_number_of_processes_that_is_none(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line."""
    monkeypatch.setenv("CLOAKWORK_PROCESSES", text)
    with pytest.raises(CloakworkError, match="CLOAKWORK_PROCESSES"):
        choice("local", plan_of("dp-control-flow"))


def test_a_release_in_batches_from_end_to_end(tmp_path: Path) -> None:
    """Read, charged, published, verified; nothing is left of the batches."""
    ledger = cloakwork.Ledger(str(tmp_path / "ledger.db"), notice=lambda _: None)
    policy = ROOT / "policies" / "dp-control-flow.yaml"
    made = cloakwork.release(policy, LOG, tmp_path / "out", ledger=ledger, engine="local")
    assert cloakwork.verify(made.folder)
    assert [entry.state for entry in ledger.history()] == ["committed"]
