"""Counterexamples that once made a printed claim false: each stays refused, or stays harmless."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cloakwork.api import apply, publish, verify
from cloakwork.errors import (
    MechanismError,
    PlanImpossible,
    PlanUnsound,
    PolicyError,
    VerificationFailed,
)
from cloakwork.ledger.ledger import Ledger
from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.attributes.redact import Redact
from cloakwork.noise import reproducible
from cloakwork.plan.model import Plan
from cloakwork.plan.planner import make_plan, prove
from cloakwork.plan.policies import load_shipped, parse_policy
from cloakwork.run.run import Run
from made_releases import MadeRelease

PERSON = """
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: p, version: 1.0.0, owner: o, purpose: test, dataset: d}
spec:
  unit: {attribute: "case:patient", max_cases: 1}
  attributes:
    "case:concept:name": {role: identifier}
    "case:patient": {role: identifier, treatment: drop}
    "ACTIVITY": {role: control-flow}
  guarantees: [{kind: differential-privacy, epsilon: 5.0, delta: 1.0e-6, over: [control-flow]}]
"""
TIMES = """
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: p, version: 1.0.0, owner: o, purpose: test, dataset: d}
spec:
  attributes:
    "case:concept:name": {role: identifier}
    "concept:name": {role: control-flow}
    "time:timestamp": {role: timestamp}
    "started": {role: insensitive, treatment: keep}
  guarantees:
    - {kind: k-anonymity, k: 2, over: [control-flow]}
    - {kind: metric-privacy, epsilon: 1.0, shift: 1h, over: [timestamps]}
  expose: {started: "for a test"}
"""


def edited(plan: Plan, mechanism: str, **changes: Any) -> Plan:
    """The plan with one step changed by hand, as consistently as an attacker can: params, then
    everything else.
    """
    steps = tuple(
        step.model_copy(
            update={"params": step.params | changes.get("params", {}), **changes.get("step", {})}
        )
        if step.mechanism == mechanism
        else step
        for step in plan.steps
    )
    return plan.model_copy(update={"steps": steps})


@pytest.mark.parametrize(
    "edit",
    [
        lambda plan: edited(
            plan,
            "timestamps/laplace",
            params={"shift": "1s", "start_scale": 2.0},
            step={"goals": ()},
        ),
        lambda plan: edited(plan, "bound", params={"max_cases": 10**6}),
        lambda plan: plan.model_copy(update={"steps": plan.steps[1:]}),
        lambda plan: plan.model_copy(update={"steps": plan.steps[:-1]}),
        lambda plan: plan.model_copy(update={"steps": plan.steps[::-1]}),
        lambda plan: edited(plan, "kanon/optimal", params={"k": 2}),
        lambda plan: plan.model_copy(update={"warnings": ()}),
        lambda plan: plan.model_copy(update={"considered": ()}),
    ],
)
def test_no_edited_plan_is_proved(edit: Callable[[Plan], Plan]) -> None:
    """A plan is what its policy implies, step by step."""
    plan = make_plan(load_shipped("kanon-dp-timestamps"))
    assert plan.claims == prove(plan)
    with pytest.raises(PlanUnsound):
        prove(edit(plan))


def released_cases(folder: Path, name: str, text: str, ledger: str) -> EventLog:
    """The release of a log under the policy for persons."""
    path = folder / name
    path.write_text(text, "utf-8")
    activity = "code" if name.endswith(".csv") else "concept:name"
    return apply(
        make_plan(parse_policy(PERSON.replace("ACTIVITY", activity))), path, ledger=ledger
    ).log


def xes_of(patients: list[str]) -> str:
    """A case of one event for each patient attribute."""
    event = '<event><string key="concept:name" value="a"/></event>'
    traces = "".join(
        f'<trace><string key="concept:name" value="c{place}"/>{patient}{event}</trace>'
        for place, patient in enumerate(patients)
    )
    return f'<?xml version="1.0" encoding="UTF-8"?><log xes.version="1.0">{traces}</log>'


def test_one_units_type_does_not_merge_the_others(tmp_path: Path, ledger: str) -> None:
    """Ids beyond what a float can tell apart stay apart when one case states a fraction: taken for
    one person, they would leave one case. Noise of a case or two takes 50 of 200 away in one run of
    e**200 at most.
    """
    ids = [f'<int key="patient" value="{2**60 + i}"/>' for i in range(200)]
    for name, extra in (("a.xes", []), ("b.xes", ['<float key="patient" value="1.5"/>'])):
        assert released_cases(tmp_path, name, xes_of([*ids, *extra]), ledger).cases.height > 150


def test_one_cases_label_does_not_respell_the_others(tmp_path: Path, ledger: str) -> None:
    """Activities are texts, whatever they look like; the one case may show, with probability at
    most delta.
    """
    rows = [f"{i},{i},7" for i in range(200)]
    head = "case:concept:name,case:patient,code,time:timestamp,concept:name\n"
    for name, extra in (("a.csv", []), ("b.csv", ["x,x,7.5"])):
        text = head + "".join(f"{row},2024-01-01T00:00:00Z,z\n" for row in [*rows, *extra])
        assert {"7"} == set(released_cases(tmp_path, name, text, ledger).events["concept:name"]) - {
            "7.5"
        }


def test_a_second_measurement_of_times_is_refused() -> None:
    """Times without a raw value copy noised ones, so a second claim over them would not hold."""
    policy = re.sub(r".*started.*\n", "", TIMES)
    window = "{start: 2020-01-01T00:00:00Z, end: 2021-01-01T00:00:00Z}"
    goal = "kind: differential-privacy, epsilon: 0.5, over: [timestamps], neighbours: bounded"
    policy = policy.replace(
        "  guarantees:\n",
        f"  assume: {{longest_case: 5, longest_gap: 1d, window: {window}}}\n"
        "  guarantees:\n"
        f"    - {{{goal}}}\n",
    )
    with pytest.raises(PlanImpossible):
        make_plan(parse_policy(policy))


@pytest.mark.parametrize(
    "started", [[1_700_000_000, 1_700_000_060], ["2024-01-01T05:00:00Z", "n/a"], ["05:12", None]]
)
def test_the_claim_over_times_names_attributes_that_may_tell_times(
    started: list[Any], ledger: str
) -> None:
    """Under a claim over timestamps no other attribute may give them away."""
    log = EventLog.from_polars(
        pl.DataFrame(
            {
                "case:concept:name": ["1", "2"],
                "concept:name": ["a", "a"],
                "time:timestamp": ["2024-01-01T05:00:00Z"] * 2,
                "started": started,
            }
        )
    )
    release = apply(make_plan(parse_policy(TIMES)), log, ledger=ledger)
    (claim,) = [claim for claim in release.plan.claims if claim.given is not None]
    assert claim.given is not None and "started" in claim.given.columns
    assert any("'started' looks like times" in note for note in release.internal.notes)


def test_k_anonymity_leaves_without_a_dp_bound(release_of: Callable[[str], MadeRelease]) -> None:
    """Noise on times does not bound what the control flow gives away, and the ledger says so."""
    (record,) = Ledger(release_of("kanon-dp-timestamps").ledger).history()
    assert record.without_dp


def test_a_private_run_needs_a_ledger() -> None:
    """Nobody releases without charging."""
    with pytest.raises(MechanismError, match="ledger"):
        Run(plan=make_plan(load_shipped("kanon-control-flow"))).release(EventLog.empty(), None)


def test_a_release_without_a_ledger_entry_does_not_verify(tmp_path: Path) -> None:
    """Nor one with a fixed seed."""
    release = Run(
        plan=make_plan(load_shipped("kanon-control-flow")), noise=reproducible(1)
    ).release(EventLog.empty(), None)
    publish(release, tmp_path / "out")
    with pytest.raises(VerificationFailed):
        verify(tmp_path / "out")


def test_a_failed_run_stays_spent(ledger: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error after the reservation hands nothing back."""

    def fails(*_: Any) -> None:
        raise MechanismError("attributes/redact", "cannot")

    plan = make_plan(load_shipped("kanon-control-flow"))
    cases = [str(number) for number in range(20)]
    log = EventLog.from_polars(pl.DataFrame({"case:concept:name": cases, "concept:name": "a"}))
    monkeypatch.setattr(Redact, "rewrite", fails)
    with pytest.raises(MechanismError):
        apply(plan, log, ledger=ledger)
    assert [record.state for record in Ledger(ledger).history()] == ["failed"]


@pytest.mark.parametrize(
    "attribute",
    [
        '"control-flow": {role: sensitive, treatment: keep}',
        '"timestamps": {treatment: keep}',
        '"case:x": {role: control-flow}',
        '"*": {role: timestamp}',
    ],
)
def test_attributes_cannot_pose_as_columns(attribute: str) -> None:
    """A column's name is no attribute's, and its role belongs to one event attribute by name."""
    with pytest.raises(PolicyError):
        parse_policy(PERSON.replace('    "ACTIVITY"', f'    {attribute}\n    "concept:name"'))


def test_a_time_attribute_without_times_is_refused_in_one_line(ledger: str) -> None:
    """Texts under the role timestamp stop the run before anything is charged."""
    policy = re.sub(r".*started.*\n", "", TIMES).replace('"time:timestamp"', '"when"')
    log = EventLog.from_polars(
        pl.DataFrame(
            {"case:concept:name": ["1", "2"], "concept:name": ["a", "a"], "when": ["noon", "night"]}
        )
    )
    with pytest.raises(MechanismError, match="does not hold times"):
        apply(make_plan(parse_policy(policy)), log, ledger=ledger)
    assert Ledger(ledger).history() == ()
