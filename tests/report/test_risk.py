"""What an attack on membership found, in sentences. Figures of an attack in the internal report: of
this release, checked, and nowhere else.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import cloakwork
from cloakwork.errors import OutputError
from cloakwork.evaluation.risk_figures import (
    Attack,
    ClaimedBound,
    MembershipFigures,
    MembershipGroup,
    RecognisedMembers,
    RiskReport,
    Share,
)
from cloakwork.plan.planner import make_plan
from cloakwork.plan.policies import load_shipped
from cloakwork.publishing.keys import read_envelope
from cloakwork.publishing.verify import read_statement
from cloakwork.report.render import render, render_pdf
from cloakwork.report.risk import membership_lines, read_risk
from cloakwork.report.texts import still_possible


def share(value: float) -> Share:
    """With bounds a tenth of it away."""
    return Share(share=value, low=0.9 * value, high=1.1 * value)


def figures(claimed: ClaimedBound | None, shown: float = 0.0) -> MembershipFigures:
    """One group that can be judged at two levels, one at none."""
    levels = tuple(
        RecognisedMembers(at_most=level, false_positives=share(level), true_positives=share(0.2))
        for level in (0.01, 0.1)
    )
    area = share(0.6)
    return MembershipFigures(
        mechanism="variants/some",
        runs=40,
        judged=20,
        targets=9,
        claimed=claimed,
        epsilon_at_least=shown,
        groups=(
            MembershipGroup(name="all", targets=9, area=area, levels=levels, curve=()),
            MembershipGroup(name="alone", targets=2, area=area, levels=(), curve=()),
        ),
    )


@pytest.mark.parametrize(
    ("basis", "allowed"),
    [
        ("derived", "epsilon 1 allows 2.7%"),
        ("published", "the published epsilon 1 would allow 2.7%"),
    ],
)
def test_beside_what_is_claimed(basis, allowed):
    first, second = membership_lines(figures(ClaimedBound(epsilon=1.0, basis=basis)))
    assert first == (
        "Membership by 20 releases of variants/some, all targets: 20.0% of members recognised "
        f"(18.0% to 22.0%) at 1.0% false alarms, where {allowed}; area 0.600 (guessing: .5)."
    )
    assert second.endswith(
        "alone with their sequence: area 0.600 (guessing: .5), too few to say more."
    )


def test_what_exceeds_the_claim_is_said_first():
    lines = membership_lines(figures(ClaimedBound(epsilon=1.0), 2.5))
    assert lines[0] == (
        "The attack on membership EXCEEDS the claim of epsilon 1: epsilon is at least 2.50."
    )
    assert len(lines) == 3


def test_without_a_claim():
    """Nothing is compared with anything."""
    first, _ = membership_lines(figures(None, 2.5))
    assert "allow" not in first


HOSTILE = "<script>alert(1)</script> | [x](y)"


MEMBERSHIP = MembershipFigures(
    mechanism=HOSTILE,
    runs=40,
    judged=20,
    targets=5,
    claimed=ClaimedBound(epsilon=1.0),
    epsilon_at_least=2.5,
    groups=(
        MembershipGroup(
            name="all",
            targets=5,
            area=Share(share=0.75, low=0.5, high=1.0),
            levels=(),
            curve=((0.5, 0.5), (1.0, 1.0)),
        ),
    ),
)


def _found(folder: Path, **changes: Any) -> RiskReport:
    statement = read_statement(read_envelope((folder / "statement.json").read_bytes()))
    attacks = (
        Attack(
            name="linking/sequence",
            knows="its whole sequence",
            before=Share(share=0.5, low=0.41, high=0.62),
            after=Share(share=0.25, low=0.125, high=0.375),
        ),
        Attack(name="linking/case-attributes", knows=HOSTILE, before=None),
        Attack(name="uniqueness/sequence", knows="not on one screen", before=None),
    )
    fields: dict[str, Any] = {
        "internal": "internal",
        "release": statement.predicate.release,
        "cases": 6,
        "released_cases": 6,
        "targets": 5,
        "seed": 1,
        "attacks": attacks,
        "membership": MEMBERSHIP,
        "notes": (),
    }
    return RiskReport(**(fields | changes))


def _squeezed(text: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", text).split())


@pytest.mark.parametrize("format_", ["html", "dpia"])
def test_before_and_after_stand_in_report_and_assessment(published, format_):
    """With their bounds; what a person must judge stays blank; names from outside are escaped."""
    found = _found(published)
    page = render(published, "internal", format_, risk=found)
    before, after = "50.0% (41.0% to 62.0%)", "25.0% (12.5% to 37.5%)"
    assert before in page and after in page
    assert "<script>" not in page and "not on one screen" not in page
    assert "EXCEEDS the claim of epsilon 1: epsilon is at least 2.50" in _squeezed(page)
    assert "area 0.750" in page
    assert "cloakwork risk LOG DIR" not in page
    if format_ == "html":
        assert "Re-identification risk" in page
        assert "5 of 6 cases" in _squeezed(page)
    else:
        row = next(line for line in page.splitlines() if line.startswith("| its whole sequence"))
        assert row == f"| its whole sequence | {before} | {after} |  |  |"
        assert r"\| \[x\](y)" in page
    without = render(published, "internal", format_)
    assert before not in without and "cloakwork risk LOG DIR" in without


def test_the_document_is_part_of_the_report_as_data(published):
    found = _found(published)
    document = json.loads(render(published, "internal", "json", risk=found))
    assert RiskReport.model_validate(document["risk"]) == found
    assert json.loads(render(published, "internal", "json"))["risk"] is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"release": "another"}, "is of the release another, and this one is "),
        ({"release": None}, "does not say which release was attacked: name the release's folder"),
    ],
)
def test_figures_of_another_release_are_refused(published, changes, words):
    found = _found(published, **changes)
    with pytest.raises(OutputError, match=re.escape(words)) as refused:
        render(published, "internal", "dpia", risk=found)
    assert "\n" not in str(refused.value)


def test_figures_of_another_log_are_told(published):
    """By how many cases it has: a risk of nothing may be that of a log that was mistaken."""
    source = json.loads(render(published, "internal", "json"))["source"]["cases"]
    for cases, told in ((source, False), (source + 1, True)):
        found = _found(published, cases=cases, targets=1)
        page = render(published, "internal", "dpia", risk=found)
        assert ("if it is another log" in page) is told


def test_figures_of_the_raw_log_are_for_insiders(published):
    found = _found(published)
    with pytest.raises(OutputError, match="use --risk with --audience internal"):
        render(published, "public", "html", risk=found)
    with pytest.raises(OutputError, match="use --risk with --audience internal"):
        render_pdf(published, "public", risk=found)
    with pytest.raises(OutputError, match="use --risk with --format html, pdf, json or dpia"):
        render(published, "internal", "oscal", risk=found)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff{",
        b"[]",
        b'{"format": "cloakwork/risk/v2"}',
        b'{"a\\nb\\u001b[31m": 1}',
        "half",
        "share above its bounds",
    ],
)
def test_what_is_no_document_is_one_line(published, tmp_path, content):
    whole = _found(published).model_dump_json()
    if content == "half":
        content = whole[: len(whole) // 2]
    elif content == "share above its bounds":
        content = whole.replace('"high":0.375', '"high":0.2')
        assert content != whole
    file = tmp_path / "risk.json"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(OutputError, match=r"is not what cloakwork risk --json prints") as refused:
        read_risk(file)
    assert "\n" not in str(refused.value)


def test_in_python_and_from_a_file(published, tmp_path):
    found = _found(published)
    file = tmp_path / "risk.json"
    file.write_text(found.model_dump_json(indent=2))
    assert read_risk(file) == found
    given = [cloakwork.make_report(published, "internal", "dpia", risk=r) for r in (found, file)]
    assert given[0] == given[1] and b"25.0% (12.5% to 37.5%)" in given[0]


@pytest.mark.parametrize(
    ("policy", "said", "unsaid"),
    [
        ("kanon-control-flow", "picked out once in 10 guesses at most", "noise hides"),
        (
            "kanon-dp-timestamps",
            "noise hides each time by itself, not the case",
            "as far as epsilon",
        ),
        ("dp-whole-log", "noise hides those of a whole case", "picked out"),
        ("dp-control-flow", "no times are released", "noise hides"),
    ],
)
def test_what_somebody_can_still_do_follows_from_the_plan(
    policy: str, said: str, unsaid: str
) -> None:
    """A time that is noised by itself is never said to hide the case."""
    lines = " ".join(still_possible(make_plan(load_shipped(policy))))
    assert said in lines
    assert unsaid not in lines
