"""A2: statement and report list what was released by the actual attribute names, and verify holds
the file to them.
"""

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import cloakwork
from cloakwork import EventLog
from cloakwork.errors import VerificationFailed
from cloakwork.plan.planner import make_plan
from cloakwork.plan.policies import parse_policy

POLICY = """
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: p, version: 1.0.0, owner: o, purpose: test, dataset: d}
spec:
  attributes:
    "case:concept:name": {role: identifier}
    "Activity": {role: control-flow}
    "time:timestamp": {role: timestamp, treatment: drop}
    "case:diagnosis": {treatment: pseudonymise}
    "note": {treatment: drop}
    "*": {treatment: keep}
  guarantees: [{kind: k-anonymity, k: 2, over: [control-flow]}]
  expose: {"case:diagnosis": "for a test of names", "*": "for a test of names"}
  output: {format: FORMAT}
"""
FORMATS = ("xes", "xes.gz", "csv", "parquet")


def released(policy: str, folder: Path) -> Path:
    """The release of a log with attributes that the policy matches by a pattern."""
    log = EventLog.from_polars(
        pl.DataFrame(
            {
                "case:concept:name": ["1", "2", "3"],
                "case:diagnosis": ["x", "y", "x"],
                "case:age": ["40", "41", "42"],
                "Activity": ["a"] * 3,
                "time:timestamp": ["2024-01-05T05:00:00Z"] * 3,
                "note": ["private"] * 3,
                "^ward$": ["w", "v", "w"],
                "lacking": pl.Series([None] * 3, dtype=pl.String),
            }
        ),
        activity="Activity",
    )
    log = EventLog(log.events.rename({"concept:name": "Activity"}), log.cases, log.offsets)
    plan = make_plan(parse_policy(policy))
    release = cloakwork.apply(plan, log, ledger=f"sqlite:///{folder / 'ledger.db'}")
    return cloakwork.publish(release, folder / "out").folder


Published = Callable[[str], Path]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The release in each format, made once, beside the home of its key."""

    @cache
    def made_in(format_: str) -> Path:
        folder = tmp_path_factory.mktemp("names")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CLOAKWORK_HOME", str(folder / "home"))
            released(POLICY.replace("FORMAT", format_), folder)
        return folder

    return made_in


@pytest.fixture
def published(made: Callable[[str], Path], own_home: Path, tmp_path: Path) -> Published:
    """A copy of the release in a format, and its key."""

    def copied(format_: str) -> Path:
        shutil.copytree(made(format_) / "home", own_home, dirs_exist_ok=True)
        return Path(shutil.copytree(made(format_) / "out", tmp_path / "out"))

    return copied


def statement_of(folder: Path) -> Any:
    import base64

    return json.loads(
        base64.b64decode(json.loads((folder / "statement.json").read_text("utf-8"))["payload"])
    )


def sign(folder: Path, statement: Any) -> None:
    from cloakwork.publishing.keys import seal, signing_key

    canonical = json.dumps(
        statement, sort_keys=True, separators=(",", ":"), ensure_ascii=False
    ).encode()
    (folder / "statement.json").write_bytes(seal(canonical, signing_key()))


@pytest.mark.parametrize("format_", FORMATS)
def test_the_statement_lists_actual_names(format_: str, published: Published) -> None:
    """Each with its scope, what was done to it, and the rule of the policy that released it."""
    folder = published(format_)
    listed = statement_of(folder)["predicate"].get("released", [])
    found = {item["name"]: (item["scope"], item["treatment"], item["rule"]) for item in listed}
    expected = {
        "case:concept:name": ("case", "replace", "case:concept:name"),
        "case:age": ("case", "keep", "*"),
        "case:diagnosis": ("case", "pseudonymise", "case:diagnosis"),
        "concept:name": ("event", "protect", "Activity"),
        "^ward$": ("event", "keep", "*"),
    }
    found.pop("lacking", None)  # a table names a column without values, XES does not
    assert found == expected
    assert cloakwork.verify(folder).checks


def test_the_report_prints_them(published: Published) -> None:
    """Exposed columns by their actual names, too."""
    from cloakwork.report.render import render

    folder = published("xes")
    page = render(folder, "public", "html")
    assert "case:age" in page and "^ward$" in page and "private" not in page


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("change", ["less", "more", "other"])
def test_a_list_that_is_not_the_files_fails(
    format_: str, change: str, published: Published
) -> None:
    """Whatever the signer lists, the file is looked at: one name less, one more, one under another
    rule.
    """
    folder = published(format_)
    statement = statement_of(folder)
    listed = statement["predicate"].setdefault(
        "released", [{"name": "case:age", "scope": "case", "rule": "*"}]
    )
    place = next(index for index, item in enumerate(listed) if item["name"] == "case:age")
    if change == "less":
        del listed[place]
    elif change == "more":
        listed.append({**listed[place], "name": "case:zone"})
    else:
        listed[place] = {**listed[place], "rule": "case:diagnosis", "treatment": "pseudonymise"}
    sign(folder, statement)
    with pytest.raises(VerificationFailed) as failed:
        cloakwork.verify(folder)
    expected = "case:zone" if change == "more" else "case:age"
    assert any(expected in line for line in failed.value.mismatches), failed.value.mismatches


@pytest.mark.parametrize("format_", FORMATS)
def test_a_column_that_the_plan_drops_fails(format_: str, published: Published) -> None:
    """A log that holds what no rule releases is found, though the signer signs and lists it."""
    from cloakwork.log.formats import read_log, write_log
    from cloakwork.publishing.statement import file_digest

    folder = published(format_)
    path = folder / f"log.{format_}"
    log = read_log(path, timeless=True)
    more = EventLog(
        log.events.with_columns(pl.lit("private").alias("note")), log.cases, log.offsets
    )
    write_log(more, path, format_.split(".", maxsplit=1)[0])  # type: ignore[arg-type]
    statement = statement_of(folder)
    listed = statement["predicate"].setdefault("released", [])
    listed.append({"name": "note", "scope": "event", "treatment": "keep", "rule": "note"})
    for subject in statement["subject"]:
        subject["digest"]["sha256"] = file_digest(folder / subject["name"])
    sign(folder, statement)
    with pytest.raises(VerificationFailed) as failed:
        cloakwork.verify(folder)
    assert any("no rule of the plan releases 'note'" in line for line in failed.value.mismatches)


def test_an_attribute_that_the_log_lacks_is_not_stated(tmp_path: Path) -> None:
    """A misspelt name in the policy once stood in the signed statement as a column of the
    release.
    """
    misspelt = POLICY.replace('    "note"', '    "diagnosiss": {treatment: keep}\n    "note"')
    misspelt = misspelt.replace('expose: {"', 'expose: {"diagnosiss": "for a test of names", "')
    folder = released(misspelt.replace("FORMAT", "csv"), tmp_path)
    predicate = statement_of(folder)["predicate"]
    assert "diagnosiss" not in {item["column"] for item in predicate["exposed"]}
    assert "*" in {item["column"] for item in predicate["exposed"]}
    cloakwork.verify(folder)
