"""``cloakwork policy lint`` with waivers, formats and ``--fail-on``."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from cloakwork.policy.advice import ADVICE_RULES
from cloakwork.policy.load import shipped
from conftest import EXAMPLES, Said

Command = Callable[..., Said]


@pytest.fixture
def lint(
    tmp_path: Path, cloakwork: Command, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Said]:
    """Lint a policy with k = 3 and without '*', which is one warning and one note."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, waivers: Any = ()) -> Said:
        text = (shipped("policies") / "kanon-control-flow.yaml").read_text("utf-8")
        document = yaml.safe_load(text)
        del document["spec"]["attributes"]["*"]
        document["spec"]["guarantees"][0]["k"] = 3
        if waivers:
            document["spec"]["waivers"] = list(waivers)
        Path("p.yaml").write_text(yaml.safe_dump(document), "utf-8")
        return cloakwork("policy", "lint", "p.yaml", *arguments)

    return run


WAIVER = {"rule": "small-k", "reason": "Nobody knows", "by": "Ann", "expires": "9999-12-31"}


@pytest.mark.parametrize(
    ("options", "waivers", "code"),
    [
        ((), (), 0),
        (("--fail-on", "warning"), (), 3),
        (("--fail-on", "warning"), (WAIVER,), 0),
        (("--fail-on", "warning"), (WAIVER | {"expires": "2020-01-01"},), 3),
        (("--fail-on", "warning"), (WAIVER | {"where": "spec.guarantees[0].k"},), 0),
        (("--fail-on", "warning"), (WAIVER | {"where": "spec.guarantees[1].k"},), 3),
        (("--fail-on", "note"), (WAIVER,), 3),
        (("--fail-on", "note"), (WAIVER, WAIVER | {"rule": "undeclared-attributes"}), 0),
    ],
)
@pytest.mark.parametrize("output", ["text", "json", "sarif", "github"])
def test_what_fails(
    lint: Callable[..., Said], options: Any, waivers: Any, code: int, output: str
) -> None:
    said = lint(*options, "--format", output, waivers=waivers)
    assert (said.code, said.err) == (code, "")
    if output in ("json", "sarif"):
        assert json.loads(said.out)


def test_what_is_waived_is_said(lint: Callable[..., Said]) -> None:
    waivers = [WAIVER, WAIVER | {"rule": "smal-k"}]
    text = lint(waivers=waivers).out
    assert "spec.guarantees[0].k: waived: small-k, until 9999-12-31, by Ann: Nobody knows" in text
    assert "there is no rule 'smal-k', did you mean 'small-k'?" in text
    document = json.loads(lint("--json", waivers=waivers).out)
    assert [each["rule"] for each in document["waived"]] == ["small-k"]
    assert {each["rule"] for each in document["advice"]} == {
        "undeclared-attributes",
        "waiver-unused",
    }
    results = json.loads(lint("--format", "sarif", waivers=waivers).out)["runs"][0]["results"]
    assert [each["ruleId"] for each in results if "suppressions" in each] == ["small-k"]
    assert "small-k:" not in lint("--format", "github", waivers=waivers).out


def test_the_log_is_asked_only_where_it_is_given(lint: Callable[..., Said]) -> None:
    """A waiver of what only the log shows is not idle before the log was looked at."""
    waiver = WAIVER | {"rule": "attribute-not-in-log"}
    unused = "the waiver of attribute-not-in-log matches no finding"
    assert unused not in lint(waivers=[waiver]).out
    assert unused in lint(str(EXAMPLES / "hospital.csv.gz"), waivers=[waiver]).out


def test_json_and_another_format_contradict(lint: Callable[..., Said]) -> None:
    assert lint("--json", "--format", "sarif").code == 2


def test_the_rules_are_listed_for_readers() -> None:
    """Their ids are promised: waivers name them."""
    page = (Path(__file__).parents[2] / "docs" / "approvals.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    listed = {row.split("`")[1]: row.split("|")[2].strip() for row in rows}
    assert {name: listed.get(name) for name in ADVICE_RULES} == {
        name: rule.level for name, rule in ADVICE_RULES.items()
    }
