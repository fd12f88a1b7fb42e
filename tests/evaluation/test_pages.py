"""Pages and drawings of what evaluation finds."""

import re
from html.parser import HTMLParser

import pytest

from cloakwork.evaluation.compare import (
    AttackBound,
    ComparedSetting,
    Comparison,
    FigureSpread,
    SettingFigures,
)
from cloakwork.evaluation.risk_figures import (
    Attack,
    ClaimedBound,
    MembershipFigures,
    MembershipGroup,
    RecognisedMembers,
    RiskReport,
    Share,
)
from cloakwork.report.comparison import comparison_html
from cloakwork.report.risk import risk_page

HOSTILE = "<script>alert(1)</script>\"'><svg onload=x>"


def figure(median: float) -> FigureSpread:
    """A figure with a spread of .1 to either side."""
    return FigureSpread(median=median, low=median - 0.1, high=median + 0.1)


def row(similarity: float, **more: object) -> ComparedSetting:
    """A setting with a similarity."""
    figures = SettingFigures(similarity=figure(similarity), cases=figure(0.5))
    return ComparedSetting(policy="p 1.0.0", policy_digest="0", values={}, figures=figures, **more)


def comparison(*rows: ComparedSetting, internal: bool = True, **more: object) -> Comparison:
    """These rows, beside each other."""
    said = {"dataset": "d", "notice": ("what it is",), **more}
    return Comparison(source="log", internal=internal, settings=rows, **said)


class Tags(HTMLParser):
    """The elements of a page, and their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes |= {name for name, _ in attrs}


def test_names_from_outside_are_text() -> None:
    """Log, dataset, attributes, reasons and values."""
    bound = AttackBound(kind="guess", attack=HOSTILE, most=0.1, beside=(HOSTILE,))
    hostile = row(0.5, guarantees=(HOSTILE,), bounds=(bound,), remarks=(HOSTILE,), cost=(HOSTILE,))
    refused = ComparedSetting(
        policy=HOSTILE, policy_digest="0", values={"k": HOSTILE}, refused=HOSTILE
    )
    page = comparison_html(
        comparison(hostile, refused, dataset=HOSTILE, assumed=(HOSTILE,)), HOSTILE
    )
    tags = Tags(page)
    assert "script" not in tags.names
    assert tags.names.count("svg") == 2
    assert not any(name.startswith("on") for name in tags.attributes)
    assert page.count("&lt;script&gt;alert(1)") >= 8
    assert "http" not in re.sub(r"http-equiv", "", page)


def test_only_figures_of_the_log_are_marked_as_internal() -> None:
    """In the first line, and in the title."""
    assert "<title>INTERNAL" in comparison_html(comparison(row(0.5)), "log")
    assert "INTERNAL" not in comparison_html(comparison(row(0.5), internal=False), "log")


def bars(page: str) -> list[tuple[str, float]]:
    """What each bar of a page is called, and how many pixels wide it is."""
    found = re.findall(r'aria-label="([^"]*)">.*?class="share"[^>]*?width="([0-9.]+)"', page, re.S)
    return [(name, float(width)) for name, width in found]


def test_bars_are_as_long_as_the_figures() -> None:
    """Twice the similarity, twice the bar; an attack of 1 in 4 is twice as long as 1 in 8."""
    bounds = [AttackBound(kind="guess", attack="a", most=most) for most in (0.25, 0.125)]
    refused = ComparedSetting(policy="p 1.0.0", policy_digest="0", values={}, refused="no")
    page = comparison_html(
        comparison(row(0.8, bounds=(bounds[0],)), refused, row(0.4, bounds=(bounds[1],))), "log"
    )
    assert bars(page) == [
        ("attack: 1 in 4", 60.0),
        ("activities: 0.80", 192.0),
        ("attack: 1 in 8", 30.0),
        ("activities: 0.40", 96.0),
    ]


SHARE = Share(share=0.01, low=0.005, high=0.02)
LEVEL = RecognisedMembers(at_most=0.01, false_positives=SHARE, true_positives=SHARE)


@pytest.mark.parametrize("claimed", [None, ClaimedBound(epsilon=1.0, basis="published")])
def test_members_recognised_stand_beside_what_the_claim_allows(
    claimed: ClaimedBound | None,
) -> None:
    """A row for each share of false alarms; names are escaped."""
    group = MembershipGroup(name="all", targets=7, area=SHARE, levels=(LEVEL,), curve=())
    members = MembershipFigures(
        mechanism=HOSTILE,
        runs=20,
        judged=10,
        targets=7,
        claimed=claimed,
        epsilon_at_least=0.0,
        groups=(group,),
    )
    found = RiskReport(
        internal="internal",
        cases=7,
        released_cases=None,
        targets=7,
        seed=1,
        attacks=(Attack(name="linking/sequence", knows="its sequence", before=SHARE),),
        membership=members,
        notes=(),
    )
    page = risk_page(found)
    assert "script" not in Tags(page).names
    assert "all targets (7)" in page
    assert ("epsilon 1, delta 0 (as published)" in page) == (claimed is not None)
    # e^1 times a share of 1 %.
    assert ('<td class="number">2.7%</td>' in page) == (claimed is not None)
    assert bars(page) == [("before: 1.0% (0.5% to 2.0%)", 2.4)]
