"""The drawing of an audit's results."""

import math
from xml.etree import ElementTree

from cloakwork.evaluation.dp_audit import AuditResult
from cloakwork.evaluation.pairs import PairAudit
from cloakwork.report.risk import audit_svg


def test_a_bound_of_nothing_is_drawn() -> None:
    result = AuditResult(-math.inf, 1.0, 0.0, True, "no event", "neither way", (0, 0), 10, 0.9)
    drawing = audit_svg("a < b", 1.0, [PairAudit("a & b", "f", result)])
    assert "nothing seen" in "".join(ElementTree.fromstring(drawing).itertext())
