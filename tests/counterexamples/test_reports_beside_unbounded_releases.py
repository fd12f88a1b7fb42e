"""A report of a DP release says what plan and apply say: that other releases of the dataset carry
no DP guarantee, so that no budget bounds what these disclosed.
"""

from pathlib import Path

import cloakwork
from cloakwork.ledger.ledger import Ledger
from cloakwork.report.render import render
from conftest import EXAMPLES, ROOT, hurried

LOG = EXAMPLES / "hospital.xes.gz"


def test_the_report_of_a_dp_release_names_them(ledger: str, tmp_path: Path) -> None:
    """``apply`` warns "1 earlier release of this dataset holds what no DP guarantee covers"; the
    report that the officer signs says that nothing is exposed, and no more.
    """
    kanon = hurried(ROOT / "policies" / "kanon-control-flow.yaml", tmp_path)
    cloakwork.release(kanon, LOG, tmp_path / "first", ledger=ledger)
    private = ROOT / "policies" / "dp-control-flow.yaml"
    second = cloakwork.release(private, LOG, tmp_path / "second", ledger=ledger).folder
    for audience in ("public", "internal"):
        page = render(second, audience, ledger=Ledger(ledger))
        assert "what no DP guarantee covers" in page, audience
