"""What ``init`` writes can be planned, as all that is shipped can (``tests/golden/plans``)."""

from pathlib import Path

from click.testing import CliRunner

from cloakwork.cli.policy import policy
from cloakwork.plan.planner import make_plan
from cloakwork.plan.policies import load_policy, load_shipped
from cloakwork.policy.load import list_policies


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
