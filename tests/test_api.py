"""The Python interface: the verbs of the contract, and what stands behind each."""

from pathlib import Path
from typing import Any

import pytest
import yaml

import cloakwork
from cloakwork.errors import CloakworkError, MechanismError, OutputError
from cloakwork.log.eventlog import CASE_ID, EventLog
from cloakwork.noise import reproducible
from cloakwork.plan.policies import parse_policy
from cloakwork.run.run import NOT_PRIVATE, Run
from cloakwork.testing import run_mechanism
from conftest import EXAMPLES, ROOT, hurried

KANON_TIME = ROOT / "policies" / "kanon-dp-timestamps.yaml"


@pytest.fixture(scope="module")
def hospital() -> EventLog:
    """The shipped hospital log."""
    return cloakwork.read_log(EXAMPLES / "hospital.xes.gz")


def test_the_whole_way(hospital: EventLog, tmp_path: Path, ledger: str) -> None:
    """Plan, apply, publish, verify; the log in memory is what the folder holds."""
    policy = cloakwork.load_policy(hurried(KANON_TIME, tmp_path))
    plan = cloakwork.make_plan(policy, policy.facts())
    assert plan.claims == cloakwork.prove(plan)
    release = cloakwork.apply(plan, hospital, ledger=ledger)
    cloakwork.publish(release, tmp_path / "out")
    with pytest.raises(OutputError):  # a release is not overwritten
        cloakwork.publish(release, tmp_path / "out")
    assert cloakwork.verify(tmp_path / "out").checks
    written = cloakwork.read_log(tmp_path / "out" / "log.xes.gz")
    assert release.log.cases[CASE_ID].to_list() == written.cases[CASE_ID].to_list()
    assert release.log.events["time:timestamp"].equals(written.events["time:timestamp"])


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("variants/threshold", {"epsilon": 1.0, "delta": 1e-4}),
        ("kanon/pretsa", {"k": 5, "scope": "prefixes"}),
        ("timestamps/laplace", {"epsilon": 1.0, "shift": "1h", "scope": "event"}),
        (
            "timestamps/laplace",
            {
                "epsilon": 1.0,
                "scope": "case",
                "longest_case": 50,
                "longest_gap": "30d",
                "window": {"start": "2023-01-01T00:00:00Z", "end": "2025-01-01T00:00:00Z"},
            },
        ),
    ],
)
def test_one_mechanism(hospital: EventLog, name: str, params: dict[str, object]) -> None:
    """Any mechanism by name, with what a policy would say; ids are fresh. Noise of scale 1 hides no
    variant of 204 cases.
    """
    result = run_mechanism(name, hospital, **params)
    assert result.cases.height > 0
    assert not set(result.cases[CASE_ID]) & set(hospital.cases[CASE_ID])


def test_one_mechanism_says_what_it_lacks() -> None:
    """A missing bound is named; an unknown mechanism too."""
    with pytest.raises(MechanismError, match=r"assume\.window"):
        run_mechanism("timestamps/laplace", EventLog.empty(), epsilon=1.0)
    with pytest.raises(MechanismError, match="no such mechanism"):
        run_mechanism("variants/nothing", EventLog.empty())


@pytest.mark.parametrize("asked", [{"targets": 0}, {"targets": -1}, {"threshold": 9.0}])
def test_an_attack_on_nobody_is_refused(hospital: EventLog, asked: dict[str, Any]) -> None:
    """Before anything is read."""
    with pytest.raises(CloakworkError, match="targets must be at least 1 and threshold a share"):
        cloakwork.risk(hospital, **asked)


def test_a_fixed_seed_is_not_private(hospital: EventLog, tmp_path: Path, ledger: str) -> None:
    """It repeats where no step stops by the clock, charges no ledger, and its folder does not
    verify.
    """
    document = yaml.safe_load(KANON_TIME.read_text("utf-8"))
    document["spec"].setdefault("mechanisms", {})["prefer"] = ["kanon/pretsa"]
    plan = cloakwork.make_plan(parse_policy(yaml.safe_dump(document)))
    book = cloakwork.Ledger(ledger)
    one, two = (Run(plan=plan, noise=reproducible(7)).release(hospital, book) for _ in range(2))
    assert one.log.events.equals(two.log.events)
    assert (one.release_id, one.private, book.history()) == (NOT_PRIVATE, False, ())
    cloakwork.publish(one, tmp_path / "out")
    with pytest.raises(cloakwork.errors.VerificationFailed, match="NOT PRIVATE"):
        cloakwork.verify(tmp_path / "out")
