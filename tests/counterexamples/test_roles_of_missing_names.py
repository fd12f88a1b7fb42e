"""D15: roles on names that the log does not have, and on other names than the standard ones, end in
one clear line.
"""

from pathlib import Path

import polars as pl
import pytest
import yaml

import cloakwork
from cloakwork.errors import CloakworkError

META = {
    "name": "roles",
    "version": "1.0.0",
    "owner": "o@o.org",
    "purpose": "test",
    "dataset": "roles",
}
FRAME = pl.DataFrame(
    {
        "case:concept:name": ["1", "2"],
        "concept:name": ["a", "b"],
        "lifecycle": ["x", "x"],
        "time:timestamp": ["2024-01-01T00:00:00Z"] * 2,
    }
)
K2 = {"kind": "k-anonymity", "k": 2, "over": ["control-flow"]}
METRIC = {"kind": "metric-privacy", "epsilon": 1.0, "shift": "1h", "over": ["timestamps"]}


def applied(
    folder: Path, attributes: dict[str, object], guarantees: list[dict[str, object]]
) -> cloakwork.EventLog:
    file = folder / "policy.yaml"
    attributes = {"case:concept:name": {"role": "identifier"}, **attributes}
    spec = {"attributes": attributes, "guarantees": guarantees}
    document = {
        "apiVersion": "cloakwork/v1",
        "kind": "PrivacyPolicy",
        "metadata": META,
        "spec": spec,
    }
    file.write_text(yaml.safe_dump(document), "utf-8")
    policy = cloakwork.load_policy(file)
    plan = cloakwork.make_plan(policy, policy.facts())
    log = cloakwork.EventLog.from_polars(FRAME)
    return cloakwork.apply(plan, log, ledger=f"sqlite:///{folder / 'ledger.db'}").log


def test_both_roles_misnamed(tmp_path: Path) -> None:
    """No event has either attribute: one line says so, and names one."""
    roles = {"activty": {"role": "control-flow"}, "timestmp": {"role": "timestamp"}}
    with pytest.raises(CloakworkError, match="no event has 'activty'") as caught:
        applied(tmp_path, roles, [K2, METRIC])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("goal", [{**K2, "over": ["control-flow", "concept:name"]}, K2])
def test_a_renamed_activity_beside_the_standard_name(
    goal: dict[str, object], tmp_path: Path
) -> None:
    """The release calls its activity ``concept:name``: another attribute cannot have that name."""
    roles = {
        "lifecycle": {"role": "control-flow"},
        "concept:name": {"role": "quasi-identifier", "treatment": "keep"},
    }
    with pytest.raises(
        CloakworkError, match="release of 'concept:name': 'lifecycle' has the role control-flow"
    ):
        applied(tmp_path, roles, [goal])


def test_a_renamed_activity_alone(tmp_path: Path) -> None:
    """It is released under the standard name."""
    released = applied(tmp_path, {"lifecycle": {"role": "control-flow"}}, [K2])
    assert released.events["concept:name"].to_list() == ["x", "x"]
