"""``cloakwork audit dp`` as a user types it; every error is one line."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from cloakwork.cli import cloakwork_command, main
from evaluation.counterparts import _counterparts, _seeded  # noqa: F401 - fixtures


def test_the_command_exits_with_5_where_the_claim_is_exceeded(tmp_path: Path) -> None:
    """A published mechanism that releases raw counts; the drawing is well-formed and says it."""
    arguments = [
        "audit",
        "dp",
        "variants/raw",
        "--runs",
        "100",
        "--json",
        "--quiet",
        "--out",
        str(tmp_path / "a.svg"),
    ]
    result = CliRunner().invoke(cloakwork_command, arguments)
    assert result.exit_code == 5
    document = json.loads(result.stdout)
    assert document["proof"] == "published" and not document["passed"]
    assert max(pair["epsilon_at_least"] for pair in document["pairs"]) > 1
    assert "audit failed" in result.stderr
    assert "claimed 1" in "".join(ElementTree.parse(tmp_path / "a.svg").getroot().itertext())


def test_options_reach_the_mechanism() -> None:
    """As JSON or as a word; ``noised`` belongs to one of the two claims about times, so that one is
    audited.
    """
    arguments = [
        "audit",
        "dp",
        "timestamps/laplace",
        "--runs",
        "10",
        "--quiet",
        "--json",
        "--option",
        "noised=times",
    ]
    result = CliRunner().invoke(cloakwork_command, arguments)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["options"] == {"noised": "times"} and len(document["pairs"]) == 1


def test_the_command_says_what_it_saw() -> None:
    result = CliRunner().invoke(
        cloakwork_command, ["audit", "dp", "variants/threshold", "--runs", "50", "--quiet"]
    )
    said = " ".join(result.stdout.split())
    assert result.exit_code == 0 and said.count("within the claim of 1") == 5


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["variants/nothing"], 2, "there is no mechanism"),
        (["variants/threshold", "--runs", "5"], 2, "5 is not in the range"),
        (["variants/threshold", "--epsilon", "nan"], 2, "epsilon must be between 1e-05 and 100"),
        (["variants/threshold", "--delta", "0"], 1, "needs a delta above 0"),
        (["variants/threshold", "--option", "noise"], 2, "is not NAME=VALUE"),
        (["variants/threshold", "--option", "noise=pink"], 1, "option noise"),
        (["timestamps/laplace", "--option", "noise=pink"], 1, "unknown option"),
        (["kanon/pretsa"], 1, "claims no differential privacy"),
        (["variants/threshold", "--runs", "10", "--out", "/nowhere/a.svg"], 1, "cannot be written"),
    ],
)
def test_errors_are_one_line(
    arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "dp", *arguments, "--quiet"]) == code
    lines = capsys.readouterr().err.strip().splitlines()
    assert any(said in line for line in lines)
    assert code == 2 or len(lines) == 1
