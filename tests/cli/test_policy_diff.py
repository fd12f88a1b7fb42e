"""``cloakwork policy diff`` with formats and ``--fail-on``."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cloakwork.policy.load import shipped
from conftest import Said


@pytest.fixture
def diff(
    tmp_path: Path, cloakwork: Callable[..., Said], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Said]:
    """Compare a policy (version 1.0.0) with itself after replacements."""
    monkeypatch.chdir(tmp_path)
    text = (shipped("policies") / "kanon-control-flow.yaml").read_text("utf-8")

    def run(*options: str, **replaced: str) -> Said:
        new = text
        for before, after in {"k": "k: 10", "version": "version: 1.0.0"}.items():
            new = new.replace(after, f"{before}: {replaced.get(before, after.split()[1])}", 1)
        Path("old.yaml").write_text(text, "utf-8")
        Path("new.yaml").write_text(new, "utf-8")
        return cloakwork("policy", "diff", "old.yaml", "new.yaml", *options)

    return run


@pytest.mark.parametrize(
    ("fail_on", "k", "version", "code"),
    [
        (("looser",), "5", "2.0.0", 3),
        (("looser",), "12", "1.0.0", 0),
        (("tighter",), "12", "1.1.0", 3),
        (("looser", "other"), "12", "1.1.0", 0),
        (("any",), "12", "1.1.0", 3),
        (("any",), "10", "1.0.1", 0),
        (("version",), "5", "2.0.0", 0),
        (("version",), "5", "1.9.0", 3),
        (("version",), "12", "1.1.0", 0),
        (("version",), "12", "1.0.9", 3),
        ((), "5", "1.0.0", 0),
    ],
)
def test_what_fails(
    diff: Callable[..., Said], fail_on: tuple[str, ...], k: str, version: str, code: int
) -> None:
    options = [word for each in fail_on for word in ("--fail-on", each)]
    assert diff(*options, k=k, version=version).code == code


def test_a_version_that_was_not_raised_is_said_in_every_format(diff: Callable[..., Said]) -> None:
    assert "2.0.0 or later, and the new policy says 1.0.1" in diff(k="5", version="1.0.1").out
    document = json.loads(diff("--json", k="5", version="1.0.1").out)
    assert document["version"] == {
        "old": "1.0.0",
        "new": "1.0.1",
        "bump": "major",
        "at_least": "2.0.0",
        "is_enough": False,
    }
    run = json.loads(diff("--format", "sarif", k="5", version="1.0.1").out)["runs"][0]
    assert [each["ruleId"] for each in run["results"]] == ["other", "looser", "version"]
    github = diff("--format", "github", k="5", version="1.0.1").out.splitlines()
    assert [line.split()[0] for line in github] == ["::notice", "::warning", "::warning"]
    line = next(
        number
        for number, text in enumerate(Path("new.yaml").read_text("utf-8").splitlines(), 1)
        if "version: 1.0.1" in text
    )
    assert f"line={line}," in github[2]
