"""What is shipped can be planned, and begins with what can be planned."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from cloakwork.cli.policy import policy
from cloakwork.plan.planner import make_plan
from cloakwork.plan.policies import load_policy, load_shipped
from cloakwork.policy.load import list_policies


@pytest.mark.parametrize("name", list_policies())
def test_every_shipped_policy_can_be_planned(name: str) -> None:
    read = load_shipped(name)
    plan = make_plan(read)
    assert len(plan.claims) == len(read.spec.guarantees)
    assert {item.column for item in plan.exposed} >= {
        read.column(name) for name in read.spec.expose
    }


def test_what_init_writes_can_be_planned(tmp_path: Path) -> None:
    out = tmp_path / "policy.yaml"
    said = ["--dataset", "visits", "--owner", "somebody", "--purpose", "a study"]
    assert CliRunner().invoke(policy, ["init", "--out", str(out), *said]).exit_code == 0
    assert make_plan(load_policy(out)).claims


def test_shipped_policies_of_one_dataset_agree_on_its_total() -> None:
    """The smallest total ever declared for a dataset binds, so a differing one would surprise."""
    totals: dict[str, set[str]] = {}
    for name in list_policies():
        read = load_shipped(name)
        if read.spec.budget.total is not None:
            totals.setdefault(read.metadata.dataset, set()).add(str(read.spec.budget.total.cost()))
    assert all(len(found) == 1 for found in totals.values())
