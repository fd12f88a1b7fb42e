"""``accept_unproven``: a published mechanism may run, is stamped everywhere, and satisfies
nothing.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cloakwork.base.costs import Cost, DiscreteLaplace
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, Lineage
from cloakwork.cli import cloakwork_command
from cloakwork.errors import PlanImpossible, PlanUnsound
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.guarantees.flow import follow_columns
from cloakwork.ledger.ledger import Ledger
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats import read_annotations, write_log
from cloakwork.mechanisms import registry
from cloakwork.plan.model import Plan, Step
from cloakwork.plan.planner import flow_step, make_plan, prove, replan
from cloakwork.plan.sentences import caveat_in_words, unproven_sentence
from cloakwork.run.run import Internal, Release, Run, previewable
from contracts.sample_logs import log_of
from plan.conftest import DP, policy_of

NAME = "variants/fake-published"
ACCEPTING = {"accept_unproven": True, "prefer": [NAME]}
LOG = log_of([["a", "b"]] * 3 + [["a", "c"]])


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    homes = {**registry.OURS, NAME: "plan.fake_published:FakePublished"}
    monkeypatch.setattr(registry, "OURS", homes)
    monkeypatch.setenv("CLOAKWORK_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CLOAKWORK_SIGNING_KEY", raising=False)
    registry.catalogue.cache_clear()
    yield
    registry.catalogue.cache_clear()


def a_plan(**mechanisms: Any) -> Plan:
    return make_plan(policy_of(mechanisms=ACCEPTING | mechanisms))


def test_what_it_cannot_make_is_not_listed_as_released() -> None:
    """New cases have activities alone: an age that the policy keeps is told as dropped."""
    policy = policy_of(
        mechanisms=ACCEPTING,
        attributes={
            "concept:name": {"role": "control-flow"},
            "case:age": {"treatment": "keep"},
            "*": {"treatment": "drop"},
        },
        expose={"case:age": "For comparison inside the office only"},
    )
    plan = make_plan(policy)
    age = plan.treated("case:age")
    assert age is not None
    assert (age.treatment, age.why, age.mechanism) == ("drop", "not-generated", NAME)
    assert {item.column for item in plan.exposed} == {CONTROL_FLOW, METADATA}
    assert "case:age" not in plan.released
    assert replan(plan) == plan


def test_it_runs_in_place_of_a_guarantee_and_never_as_one() -> None:
    plan = a_plan()
    (item,) = plan.unproven
    assert plan.claims == () and plan.charges == ()
    assert (item.mechanism, item.cost, item.why) == (NAME, None, ("raw counts are released",))
    assert item.published == "is epsilon-DP (Nobody 1999)"
    assert {CONTROL_FLOW, METADATA} <= {exposed.column for exposed in plan.exposed}
    assert all(treated.why != "covered" for treated in plan.attributes)
    assert caveat_in_words(plan.warnings[0]).startswith("UNPROVEN")


@pytest.mark.parametrize(
    "mechanisms",
    [
        {"prefer": [NAME]},
        {"accept_unproven": True},
        {"accept_unproven": True, "prefer": ["variants/*", "*-published"]},
    ],
)
def test_without_acceptance_and_preference_nothing_changes(mechanisms: dict[str, Any]) -> None:
    plan = make_plan(policy_of(mechanisms=mechanisms))
    assert [step.mechanism for step in plan.steps if step.goals] == ["variants/adaptive"]
    assert plan.unproven == () and len(plan.claims) == 1
    assert any(
        item.mechanism == NAME and "only published" in item.reason for item in plan.considered
    )


def test_a_proved_mechanism_that_is_preferred_more_comes_first() -> None:
    assert a_plan(prefer=["variants/threshold", NAME]).unproven == ()


def test_alone_it_is_refused_unless_accepted() -> None:
    with pytest.raises(PlanImpossible, match="only published"):
        make_plan(policy_of(mechanisms={"allow": ["bound", "attributes/*", NAME]}))


def test_a_bound_that_is_asked_for_beside_it_is_not_derived() -> None:
    """What it costs counts against every other claim of differential privacy."""
    goals = [
        DP,
        {
            "kind": "differential-privacy",
            "epsilon": 1.0,
            "over": ["timestamps"],
            "neighbours": "bounded",
        },
    ]
    with pytest.raises(PlanImpossible):
        make_plan(policy_of(guarantees=goals, mechanisms=ACCEPTING))


def test_what_an_unproven_step_measures_is_raw() -> None:
    """Its noise hides nothing: a claim of another step that rests on it must fail."""
    lineage = Lineage(measures=frozenset({"timestamps"}), writes=frozenset({"Age"}))
    noise = DiscreteLaplace(scale=1.0)
    fields = {
        "mechanism": "x",
        "params": {},
        "why": "w",
        "event": noise,
        "currency": "unit",
        "lineage": lineage,
    }
    for proof, raw in (("proved", frozenset()), ("published", frozenset({"timestamps"}))):
        step = Step.model_validate(fields | {"proof": proof})
        assert (
            follow_columns([flow_step(step)], ["timestamps", "Age"], Facts()).columns["Age"].raw
            == raw
        )


def test_prove_recomputes_it() -> None:
    plan = a_plan()
    assert prove(plan) == ()
    weaker = plan.unproven[0].model_copy(update={"cost": Cost(epsilon=0.1)})
    claimed = make_plan(policy_of()).claims
    for forged in ({"unproven": ()}, {"unproven": (weaker,)}, {"claims": claimed}, {"exposed": ()}):
        with pytest.raises(PlanUnsound):
            prove(plan.model_copy(update=forged))
    assert prove(Plan.model_validate_json(plan.model_dump_json(by_alias=True))) == ()


def test_words_that_somebody_put_into_a_plan_are_not_believed() -> None:
    """They change no claim, so they are not compared; what is shown is what the mechanism itself
    says.
    """
    plan = a_plan()
    flattering = plan.unproven[0].model_copy(
        update={"published": "is 0.1-DP", "why": ("it is fine",)}
    )
    assert replan(plan.model_copy(update={"unproven": (flattering,)})).unproven == plan.unproven


def test_nothing_of_the_log_is_previewed() -> None:
    assert previewable(a_plan()) == ()


def test_the_ledger_records_it_as_unbounded(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    release = Run(plan=a_plan()).release(LOG, ledger)
    (record,) = ledger.history("d")
    assert release.verdicts == () and release.log.cases.height == 4
    assert record.without_dp and [charge.currency for charge in record.charges] == ["none"]
    assert record.note.startswith("UNPROVEN")


def test_a_release_that_claims_nothing_says_what_is_unproven() -> None:
    plan = a_plan().model_copy(update={"unproven": ()})
    with pytest.raises(ValueError, match="claims something"):
        Release(EventLog.empty(), plan, (), "r", Internal({}, (), {}))


def test_every_command_says_so_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan, apply, verify, report, statement and stamp."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CLOAKWORK_LEDGER", raising=False)
    policy = policy_of(mechanisms=ACCEPTING, output={"format": "xes"})
    (tmp_path / "p.yaml").write_text(policy.model_dump_json(by_alias=True, exclude_unset=True))
    write_log(LOG, tmp_path / "log.xes", "xes")

    def run(*arguments: str, first: str) -> str:
        # The name of the made-up mechanism is none that policy files may speak of.
        monkeypatch.setattr(
            "cloakwork.plan.policies.KNOWN_MECHANISMS", frozenset(registry.catalogue())
        )
        result = CliRunner().invoke(cloakwork_command, arguments)
        assert result.exit_code == 0, result.output
        assert first in result.stdout
        return result.stdout

    planned = run("plan", "p.yaml", "log.xes", first="UNPROVEN")
    assert (
        planned.index("UNPROVEN") < planned.index("Not protected")
        and "no bound (epsilon infinite)" in planned
    )
    assert run("apply", "p.yaml", "log.xes", "--out", "out", first="UNPROVEN").startswith(
        "UNPROVEN"
    )
    verified = run("verify", "out", first="it guarantees nothing")
    assert verified.startswith("UNPROVEN") and "holds:" not in verified
    assert json.loads(run("verify", "out", "--json", first="UNPROVEN".lower()))["unproven"]
    page = run("report", "out", first="UNPROVEN: not guaranteed")
    assert page.index("UNPROVEN") < page.index("What is guaranteed")
    stamp = read_annotations(tmp_path / "out" / "log.xes")
    assert stamp[0].key == "cloakwork:UNPROVEN", [item.key for item in stamp]


def test_the_sentence_names_what_was_asked() -> None:
    goal = DifferentialPrivacy.model_validate(DP)
    assert f"epsilon {goal.epsilon:g}" in unproven_sentence(a_plan().unproven[0])


def test_what_is_only_published_is_never_said_to_be_able() -> None:
    """Also where the policy's lists leave it out: that is not what stands in the way."""
    plan = make_plan(
        policy_of(mechanisms={"allow": ["variants/threshold", "bound", "attributes/*"]})
    )
    said = {item.mechanism: item for item in plan.considered}
    published = {name: item for name, item in said.items() if name.endswith("-published")}
    assert {item.kind for item in published.values()} == {"never"}
    assert all("only published" in item.reason for item in published.values())
