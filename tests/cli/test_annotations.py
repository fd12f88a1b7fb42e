"""What other tools read: SARIF that fits its schema, and commands that obey nobody's names."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft4Validator, FormatChecker

from cloakwork.policy.advice import ADVICE_RULES
from cloakwork.report.policy_findings import CHANGE_RULES, Annotation, github_command, sarif

SCHEMA = Path(__file__).with_name("sarif-schema-2.1.0.json")
"""Of OASIS (2.1.0-rtm.5, as @microsoft/jest-sarif has it)."""

HOSTILE = (
    "x\n::set-env name=PATH::/evil\r\n##[add-path]/evil %0A, [here](https://evil) {0} \x1b[31m"
)


def faults(document: dict[str, Any]) -> list[str]:
    """Where a document is no SARIF 2.1.0."""
    schema = json.loads(SCHEMA.read_text("utf-8"))
    found = Draft4Validator(schema, format_checker=FormatChecker()).iter_errors(document)
    return [f"{list(each.absolute_path)}: {each.message}" for each in found]


def annotation(**fields: Any) -> Annotation:
    """One that says nothing special, but for ``fields``."""
    usual: dict[str, Any] = {
        "rule": "small-k",
        "level": "warning",
        "message": "k = 3 is small",
        "path": Path("policies/p.yaml"),
        "line": 3,
        "column": 7,
        "field": "spec.guarantees[0].k",
    }
    return Annotation(**(usual | fields))


@pytest.mark.parametrize("rules", [ADVICE_RULES, CHANGE_RULES])
def test_sarif_fits_its_schema(rules: Any) -> None:
    found = [
        annotation(rule=name, level=rule.level, message=HOSTILE, field=HOSTILE)
        for name, rule in rules.items()
    ]
    found += [
        annotation(rule=next(iter(rules)), **fields)
        for fields in (
            {"path": None},
            {"path": Path("/tmp/a b%/ü:[x].yaml")},
            {"accepted": "the recipient knows nobody"},
        )
    ]
    document = sarif(found, rules)
    assert faults(document) == []
    assert faults(sarif([annotation(rule=next(iter(rules)), line=0)], rules))
    results = document["runs"][0]["results"]
    assert results[-1]["suppressions"][0]["justification"] == "the recipient knows nobody"
    assert "physicalLocation" not in results[-3]["locations"][0]


def test_names_are_no_links_and_no_placeholders() -> None:
    (result,) = sarif([annotation(message=HOSTILE)], ADVICE_RULES)["runs"][0]["results"]
    assert r"[here\](https://evil) {{0}}" in result["message"]["text"]


@pytest.mark.parametrize(
    ("name", "uri"),
    [
        ("policies/p.yaml", "policies/p.yaml"),
        ("a b#?%.yaml", "a%20b%23%3F%25.yaml"),
        ("javascript:x.yaml", "javascript%3Ax.yaml"),
        ("ü.yaml", "%C3%BC.yaml"),
    ],
)
def test_a_file_is_a_relative_uri(name: str, uri: str) -> None:
    (result,) = sarif([annotation(path=Path(name))], ADVICE_RULES)["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == uri
    assert place["region"] == {"startLine": 3, "startColumn": 7}


def test_a_github_command_is_one_line_whatever_the_names() -> None:
    """A line of its own, or a comma in a property, would be obeyed."""
    line = github_command(annotation(message=HOSTILE, path=Path("a,line=9::b\n.yaml")))
    assert "\n" not in line and "\r" not in line and "\x1b" not in line
    properties, _, message = line.removeprefix("::warning ").partition("::")
    assert properties == ("file=a%2Cline=9%3A%3Ab%0A.yaml,line=3,col=7,title=cloakwork%3A small-k")
    assert message.startswith("x%0A::set-env name=PATH::/evil%0D%0A##[add-path]/evil %250A, ")


def test_a_note_is_a_notice() -> None:
    assert github_command(annotation(level="note", path=None)) == (
        "::notice title=cloakwork%3A small-k::k = 3 is small"
    )
