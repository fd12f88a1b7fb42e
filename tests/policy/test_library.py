"""Shipped policies are found by name, in a checkout and in a wheel."""

from pathlib import Path

import pytest

from cloakwork.errors import PolicyError
from cloakwork.plan.policies import load_shipped
from cloakwork.policy import load
from cloakwork.policy.load import list_policies, resolve_policy, shipped


def test_at_least_seven_policies_are_shipped() -> None:
    assert len(list_policies()) >= 7
    assert "kanon-dp-timestamps" in list_policies()


def test_a_checkout_keeps_them_at_its_root() -> None:
    assert (shipped("policies") / "dp-control-flow.yaml").is_file()
    assert (shipped("schemas") / "privacy-policy-v1.json").is_file()


def test_a_wheel_keeps_them_inside_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cloakwork" / "policies").mkdir(parents=True)
    monkeypatch.setattr(load, "_PACKAGE", tmp_path / "cloakwork")
    assert shipped("policies") == tmp_path / "cloakwork" / "policies"


def test_a_shipped_policy_is_loaded_by_name() -> None:
    assert load_shipped("dp-per-person").spec.unit.max_cases == 2


def test_a_misspelt_name_gets_a_suggestion() -> None:
    with pytest.raises(PolicyError, match=r"did you mean 'dp-per-person'\?"):
        load_shipped("dp-per-persn")


def test_a_path_that_exists_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolve_policy("dp-control-flow") == shipped("policies") / "dp-control-flow.yaml"
    Path("dp-control-flow").write_text("mine")
    assert resolve_policy("dp-control-flow") == Path("dp-control-flow")
    assert resolve_policy("policy.yaml") == Path("policy.yaml")
