"""Pages and drawings of what evaluation finds."""

import math
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from cloakwork.evaluation.compare import (
    AttackBound,
    ComparedSetting,
    Comparison,
    FigureSpread,
    SettingFigures,
)
from cloakwork.evaluation.risk_figures import (
    ClaimedBound,
    MembershipFigures,
    MembershipGroup,
    Share,
)
from cloakwork.report.comparison import comparison_html, picture
from cloakwork.report.risk import membership_svg

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
    assert tags.names.count("svg") == 1
    assert not any(name.startswith("on") for name in tags.attributes)
    assert page.count("&lt;script&gt;alert(1)") >= 8
    assert "http" not in re.sub(r"http-equiv", "", page)


def test_only_figures_of_the_log_are_marked_as_internal() -> None:
    """In the first line, and in the title."""
    assert "<title>INTERNAL" in comparison_html(comparison(row(0.5)), "log")
    assert "INTERNAL" not in comparison_html(comparison(row(0.5), internal=False), "log")


def test_bars_are_as_long_as_the_figures() -> None:
    """Twice the similarity, twice the bar; an attack of 1 in 4 is twice as long as 1 in 8."""
    bounds = [AttackBound(kind="guess", attack="a", most=most) for most in (0.25, 0.125)]
    refused = ComparedSetting(policy="p 1.0.0", policy_digest="0", values={}, refused="no")
    found = picture(
        comparison(row(0.8, bounds=(bounds[0],)), refused, row(0.4, bounds=(bounds[1],)))
    )
    first, second = found.rows
    assert first.kept_width == 2 * second.kept_width
    assert first.attack_width == 2 * second.attack_width
    assert (first.attack, second.attack) == ("1 in 4", "1 in 8")
    assert first.low_x < found.kept_x + first.kept_width < first.high_x
    assert first.high_x <= found.kept_end
    assert "attack 1 in 4, activities 0.80" in found.says


SHARE = Share(share=0.5, low=0.4, high=0.6)
GROUP = MembershipGroup(
    name="all", targets=7, area=SHARE, levels=(), curve=((0.0, 0.0), (0.01, 0.1), (1.0, 1.0))
)


def figures(claimed: ClaimedBound | None) -> MembershipFigures:
    """A mechanism whose name is hostile."""
    return MembershipFigures(
        mechanism="<b>'&",
        runs=20,
        judged=10,
        targets=7,
        claimed=claimed,
        epsilon_at_least=0.0,
        groups=(GROUP,),
    )


@pytest.mark.parametrize("claimed", [None, ClaimedBound(epsilon=1.0, basis="published")])
def test_a_line_for_each_group_and_one_for_the_claim(claimed: ClaimedBound | None) -> None:
    """Names are escaped, and nothing lies outside of the picture."""
    drawing = ElementTree.fromstring(membership_svg(figures(claimed)))
    words = "".join(drawing.itertext())
    assert "<b>'&" in words
    assert ("most at epsilon 1, delta 0 (as published)" in words) == (claimed is not None)
    dashed = [each for each in drawing.iter() if each.get("stroke-dasharray")]
    assert len(dashed) == (2 if claimed else 0)
    for path in drawing.iter("{http://www.w3.org/2000/svg}path"):
        for place in path.get("d", "").replace("M", "L").split("L"):
            for number in place.split():
                if number.replace(".", "").isdigit():
                    assert math.isfinite(float(number))
                    assert 0 <= float(number) <= 800
