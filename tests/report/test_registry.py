"""An entry of the registry of DP deployments: what the signed statement says, field by field."""

import shutil
from pathlib import Path

import pytest

from cloakwork.api import make_report
from cloakwork.errors import OutputError, VerificationFailed
from cloakwork.report.render import render
from publishing.conftest import RAW_FIGURES, RAW_NAME, a_policy
from publishing.test_output_auto import own_log, policy_file, released

TIERS = (
    "## Tier 1: the deployment",
    "## Tier 2: differential privacy",
    "## Tier 3: domain, unit, accounting, implementation",
)
FIELDS = (
    *("Data curator", "Intended use", "Data product", "Publication date"),
    *("Flavor", "Privacy loss", "Privacy unit"),
)


def test_an_entry_has_the_fields_of_all_tiers(published: Path) -> None:
    """Those that the statement fills hold its values; the rest is left to a person."""
    entry = render(published, "public", "dp-registry")
    for word in (*TIERS, *(f"| {field} | " for field in FIELDS)):
        assert word in entry, word
    said = a_policy().metadata
    assert f"| Data curator | {said.owner} |" in entry
    assert "### metric-privacy over timestamps" in entry
    assert "| Privacy loss | epsilon 1.0, delta 0.0 |" in entry
    assert "Not protected by it (unprotected quantities):" in entry
    assert entry.count("\n> ...") == 2
    assert "NO ENTRY" not in entry


def test_it_is_of_the_public_statement_alone(published: Path) -> None:
    """The same without the internal folder, of which nothing stands in it; and never internal."""
    entry = render(published, "public", "dp-registry")
    figures = [str(number).removesuffix(".5") for number in RAW_FIGURES]
    assert [word for word in (RAW_NAME, "ward7", *figures) if word in entry] == []
    shutil.rmtree(published / "internal")
    assert render(published, "public", "dp-registry") == entry
    with pytest.raises(OutputError, match="--audience public"):
        render(published, "internal", "dp-registry")


def test_a_release_that_rests_on_no_noise_is_no_entry(tmp_path: Path) -> None:
    made = released(policy_file(tmp_path), own_log(tmp_path), tmp_path)
    entry = make_report(made.folder, format="dp-registry").decode()
    assert "NO ENTRY: this release has no guarantee that rests on noise" in entry
    assert "Privacy loss" not in entry


def test_nothing_is_filled_from_a_forged_statement(published: Path) -> None:
    file = published / "plan.json"
    file.write_bytes(file.read_bytes().replace(b'"epsilon": 1.0', b'"epsilon": 0.1'))
    with pytest.raises(VerificationFailed):
        render(published, "public", "dp-registry")
