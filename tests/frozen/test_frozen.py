"""What the engine puts out is what it put out before it was rebuilt."""

import json
from pathlib import Path

import pytest

from conftest import in_long_form
from frozen.cells import MechanismCell, PolicyCell, all_cells, digest
from frozen.regenerate import FILE

pytestmark = pytest.mark.usefixtures("no_figures")

KEPT = json.loads(FILE.read_text("utf-8"))
LONG = {
    "dp-whole-log on receipt.xes.gz",
    "flow-with-drawn-times on permit.xes.gz",
    "flow-with-drawn-times on receipt.xes.gz",
    "kanon-case-dp-timestamps on permit.xes.gz",
    "kanon-case-dp-timestamps on receipt.xes.gz",
    "kanon-control-flow on receipt.xes.gz",
    "kanon-dp-timestamps on receipt.xes.gz",
    "kanon-employees on receipt.xes.gz",
    "kanon-t-closeness on permit.xes.gz",
    "kanon-t-closeness on receipt.xes.gz",
    "kanon-with-generalised-attributes on permit.xes.gz",
    "whole-log-sepsis on sepsis.xes.gz",
}
"""They take one to twelve seconds each, the three with k = 10 on receipt together for one search.
The policies' other logs, the other policies of these logs, and dp-whole-log and whole-log-receipt,
are looked at every time.
"""
CELLS = [cell for cell in all_cells() if cell.name not in LONG or in_long_form(True)]


@pytest.fixture(scope="module")
def searches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one cell searched, another need not."""
    return tmp_path_factory.mktemp("searches")


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_an_output_is_as_it_was(
    cell: PolicyCell | MechanismCell, tmp_path: Path, searches: Path
) -> None:
    """Released rows, plan and statement, or the refusal; ``regenerate.py --dump`` shows texts."""
    found = {part: digest(text) for part, text in cell.texts(tmp_path, searches).items()}
    assert found == KEPT[cell.name]
