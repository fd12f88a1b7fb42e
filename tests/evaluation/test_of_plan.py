"""What a plan releases of halves of a log, and what it claims."""

from pathlib import Path

import pytest

import cloakwork
from cloakwork.base.facts import Unit
from cloakwork.base.lineage import Lineage
from cloakwork.base.progress import silent
from cloakwork.errors import LogError, MechanismError
from cloakwork.evaluation.membership import attack_by_plan, attacked_plan, log_for
from cloakwork.evaluation.risk_figures import ClaimedBound
from cloakwork.plan.planner import make_plan
from cloakwork.plan.policies import load_policy
from cloakwork.testing.contract_logs import log_of
from conftest import ROOT

LOG = log_of(["ab"] * 40 + ["acb"] * 20)
SHIPPED = ROOT / "policies" / "dp-control-flow.yaml"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A shipped one that leaves little to choose."""
    text = SHIPPED.read_text("utf-8").replace("variants/*", "variants/threshold")
    path = tmp_path / "policy.yaml"
    path.write_text(text, "utf-8")
    return path


def test_a_plan_is_run_up_to_the_step_that_makes_the_cases(policy: Path) -> None:
    """What is added to cases afterwards tells nothing more that the attack looks at."""
    plan = make_plan(load_policy(policy))
    added = plan.steps[-1].model_copy(update={"mechanism": "no/such", "lineage": Lineage()})
    longer = plan.model_copy(update={"steps": (*plan.steps, added)})
    attacked = attacked_plan(longer, 1)
    assert attacked.name == "variants/threshold"
    assert attacked.claimed == ClaimedBound(epsilon=1.0, delta=1e-6)
    assert attacked.unit is None
    assert attacked.release(log_for(plan, LOG)).case_count > 0


def test_units_are_those_of_the_plan(policy: Path) -> None:
    """A person's cases are in or out together."""
    plan = make_plan(load_policy(policy))
    unit = Unit(attribute="case:row", max_cases=2)
    of_persons = plan.model_copy(update={"facts": plan.facts.model_copy(update={"unit": unit})})
    assert attacked_plan(of_persons, 1).unit == "case:row"


def test_the_attack_needs_no_ledger(policy: Path) -> None:
    """Figures beside the plan's claim."""
    plan = make_plan(load_policy(policy))
    found = attack_by_plan(plan, LOG, 20, targets=60, seed=1, reporter=silent)
    assert found.claimed == ClaimedBound(epsilon=1.0, delta=1e-6)
    assert (found.runs, found.judged, found.targets) == (20, 10, 60)


def test_a_plan_that_changes_the_cases_of_the_log_is_refused(policy: Path) -> None:
    """With what to do instead."""
    plan = make_plan(load_policy(policy)).model_copy(update={"steps": ()})
    with pytest.raises(MechanismError, match="makes no cases anew"):
        attacked_plan(plan, 1)


def test_without_a_plan_nothing_is_attacked(policy: Path, tmp_path: Path) -> None:
    """A release's plan goes before a policy's, which does as a file or as it was read."""
    with pytest.raises(LogError, match="no plan says how"):
        cloakwork.risk(LOG, membership=20)
    of_file, of_policy = (
        cloakwork.risk(LOG, policy=each, membership=20, targets=20)
        for each in (policy, load_policy(policy))
    )
    assert of_file == of_policy
    folder = tmp_path / "release"
    folder.mkdir()
    plan = make_plan(load_policy(policy)).model_copy(update={"steps": ()})
    (folder / "plan.json").write_text(plan.model_dump_json(), "utf-8")
    (folder / "log.csv").write_text("case:concept:name,concept:name\n1,a\n", "utf-8")
    with pytest.raises(MechanismError, match="makes no cases anew"):
        cloakwork.risk(LOG, folder, policy=policy, membership=20)
