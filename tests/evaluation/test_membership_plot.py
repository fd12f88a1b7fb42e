"""The drawing of an attack on membership."""

import math
from xml.etree import ElementTree

import pytest

from cloakwork.evaluation.risk_figures import (
    ClaimedBound,
    MembershipFigures,
    MembershipGroup,
    Share,
)
from cloakwork.report.risk import membership_svg

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
