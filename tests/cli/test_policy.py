"""``cloakwork policy``, as a user types it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cloakwork.cli.policy import policy
from cloakwork.errors import PolicyError
from cloakwork.plan.policies import load_policy
from cloakwork.policy.load import list_policies
from cloakwork.policy.schema import schema_text


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


SAID = ("--dataset", "visits", "--owner", "somebody", "--purpose", "a study")
"""What init would ask otherwise."""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(policy, arguments)


def test_init_writes_a_policy_that_is_valid_and_says_how_to_go_on(here: Path) -> None:
    result = run("init", *SAID)
    assert result.exit_code == 0
    assert "cloakwork policy validate policy.yaml" in result.stdout
    text = (here / "policy.yaml").read_text("utf-8")
    assert text.startswith("# yaml-language-server: $schema=privacy-policy-v1.json\n")
    assert load_policy("policy.yaml").metadata.name == "policy"
    assert run("validate", "policy.yaml").stdout == "policy.yaml: ok (policy 1.0.0)\n"


@pytest.mark.parametrize("name", list_policies())
def test_init_begins_with_any_shipped_policy(here: Path, name: str) -> None:
    assert run("init", *SAID, "--from", name, "--out", "Mine & Yours.yaml").exit_code == 0
    assert load_policy("Mine & Yours.yaml").metadata.name == "mine-yours"


def test_init_never_overwrites_unasked(here: Path) -> None:
    (here / "policy.yaml").write_text("mine")
    refused = run("init")
    assert (refused.exit_code, "policy.yaml exists; --force overwrites it" in refused.stderr) == (
        2,
        True,
    )
    assert (here / "policy.yaml").read_text() == "mine"
    assert run("init", *SAID, "--force").exit_code == 0
    assert load_policy("policy.yaml")


def test_init_from_an_unknown_name_is_a_usage_error(here: Path) -> None:
    result = run("init", "--from", "dp-control-flw")
    assert result.exit_code == 2
    assert "did you mean 'dp-control-flow'?" in result.stderr
    assert not list(here.iterdir())


def test_validate_sends_what_is_right_and_what_is_wrong_different_ways(here: Path) -> None:
    run("init", *SAID, "--out", "good.yaml")
    (here / "bad.yaml").write_text((here / "good.yaml").read_text().replace("k: 10", "k: 1"))
    result = run("validate", "good.yaml", "bad.yaml", "none.yaml")
    assert result.exit_code == 3
    assert result.stdout == "good.yaml: ok (good 1.0.0)\n"
    first, second = result.stderr.splitlines()
    assert first.startswith("bad.yaml:")
    assert first.endswith("spec.guarantees[0].k must be between 2 and 1,000,000,000 (got 1)")
    assert second == "none.yaml: no such file"


def test_validate_prints_one_json_document(here: Path) -> None:
    (here / "bad.yaml").write_text("kind: PrivacyPolicy\n")
    result = run("validate", "--json", "dp-control-flow", "bad.yaml")
    assert (result.exit_code, result.stderr) == (3, "")
    good, bad = json.loads(result.stdout)["policies"]
    assert good["valid"] and len(good["digest"]) == 64
    assert [problem["message"] for problem in bad["problems"]] == [
        "apiVersion is missing",
        "metadata is missing",
        "spec is missing",
    ]


def test_validate_without_a_policy_is_a_usage_error() -> None:
    assert run("validate").exit_code == 2


def test_explain_says_who_how_and_what_for() -> None:
    said = run("explain", "dp-per-person").stdout
    for part in (
        "Who is protected",
        "'case:patient'",
        "at most 2, drawn at random",
        "percentage points",
        "10,000",
    ):
        assert part in said
    document = json.loads(run("explain", "--json", "dp-per-person").stdout)
    assert document["policy"] == "dp-per-person 1.0.0"


def test_lint_places_its_advice(here: Path) -> None:
    run("init", *SAID, "--from", "kanon-control-flow")
    assert run("lint", "policy.yaml").stdout == "policy.yaml: nothing to advise\n"
    text = (here / "policy.yaml").read_text()
    (here / "policy.yaml").write_text(text.replace("k: 10", "k: 3"))
    line = next(number for number, said in enumerate(text.splitlines(), 1) if "k: 10" in said)
    assert run("lint", "policy.yaml").stdout.startswith(
        f"policy.yaml:{line}:10: spec.guarantees[0].k: k = 3 is small"
    )
    advice = json.loads(run("lint", "--json", "policy.yaml").stdout)["advice"]
    assert [item["line"] for item in advice] == [line]


def test_diff_says_what_was_tightened(here: Path) -> None:
    run("init", *SAID, "--from", "kanon-control-flow", "--out", "policy.yaml")
    (here / "new.yaml").write_text((here / "policy.yaml").read_text().replace("k: 10", "k: 12"))
    assert run("diff", "policy.yaml", "new.yaml").stdout == (
        "tighter  spec.guarantees[k-anonymity over control-flow].k: 10 -> 12\n"
        "The new policy protects at least as well as the old one.\n"
        "This needs a new minor version: 1.1.0 or later, and the new policy says 1.0.0; "
        "raise metadata.version.\n"
    )
    document = json.loads(run("diff", "--json", "new.yaml", "policy.yaml").stdout)
    assert document["verdict"] == "looser"
    assert run("diff", "policy.yaml", "policy.yaml").stdout == "The two policies say the same.\n"


def test_schema_goes_to_standard_output_or_to_a_file(here: Path) -> None:
    assert run("schema").stdout == schema_text()
    assert run("schema", "--out", "schema.json").exit_code == 0
    assert (here / "schema.json").read_text("utf-8") == schema_text()


def test_list_names_the_shipped_policies() -> None:
    lines = run("list").stdout.splitlines()
    assert [line.split()[0] for line in lines if line[:1].strip()] == list_policies()
    assert [
        item["name"] for item in json.loads(run("list", "--json").stdout)["policies"]
    ] == list_policies()


@pytest.mark.parametrize("command", ["explain", "lint"])
def test_an_invalid_policy_is_a_policy_error(here: Path, command: str) -> None:
    (here / "bad.yaml").write_text("[]")
    assert isinstance(run(command, "bad.yaml").exception, PolicyError)
