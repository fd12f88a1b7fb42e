"""Many at once: the ledger never shows less spent than what was released.

``CLOAKWORK_AT_ONCE`` sets how many start together (6 by default; a multiple of three). For kills
see ``test_kills.py``.
"""

import os
from pathlib import Path

import pytest
import yaml

from cloakwork.cli import main
from cloakwork.ledger.ledger import Ledger
from conftest import EXAMPLES, ROOT

HOSPITAL = EXAMPLES / "hospital.xes.gz"
POLICY = ROOT / "policies" / "dp-control-flow.yaml"
AT_ONCE = int(os.environ.get("CLOAKWORK_AT_ONCE", "99" if "CLOAKWORK_RUNS" in os.environ else "6"))


def budget_for(releases: int, folder: Path) -> Path:
    """The shipped policy with a total that covers so many releases of epsilon 1, delta 1e-6, and
    one mechanism.
    """
    document = yaml.safe_load(POLICY.read_text("utf-8"))
    document["spec"]["budget"] = {"total": {"epsilon": float(releases), "delta": releases * 1e-6}}
    document["spec"]["mechanisms"] = {"allow": ["variants/threshold", "attributes/*", "bound"]}
    policy = folder / "policy.yaml"
    policy.write_text(yaml.safe_dump(document), "utf-8")
    return policy


@pytest.fixture
def planned(tmp_path):
    """A plan of ``budget_for`` so many releases: planning once leaves the processes the part that
    is raced for.
    """

    def plan(releases: int) -> Path:
        made = tmp_path / "plan.json"
        assert (
            main(["plan", str(budget_for(releases, tmp_path)), str(HOSPITAL), "--out", str(made)])
            == 0
        )
        return made

    return plan


def test_many_at_once_spend_what_a_third_may(tmp_path, ledger, planned, forks):
    """Concurrent releases on one fresh ledger with budget for a third of them: these succeed, the
    others exit 4.
    """
    enough = AT_ONCE // 3
    plan = planned(enough)
    running = [
        forks.start(["apply", plan, HOSPITAL, "--out", tmp_path / f"out{i}", "--ledger", ledger])
        for i in range(AT_ONCE)
    ]
    codes = sorted(fork.end() for fork in running)
    assert codes == [0] * enough + [4] * (AT_ONCE - enough)
    assert sum((tmp_path / f"out{i}").is_dir() for i in range(AT_ONCE)) == enough
    assert len(Ledger(ledger).history()) == enough
    assert Ledger(ledger).verify() is None
