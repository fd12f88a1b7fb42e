"""A mechanism that is broken ends in one line that names its package, never in a false claim."""

from pathlib import Path

import pytest

from conftest import ROOT
from third_parties.packages import EXAMPLE, cloakwork, document, install, write_policy

NAME = "acme/noise"
LOG = ROOT / "examples" / "logs" / "hospital.csv.gz"
WORKING = (EXAMPLE / "example_threshold.py").read_text("utf-8").replace("example/threshold", NAME)
CLASS = "ExampleThreshold"

FAULTS = {
    "raises while it decides": (
        "        counts = noise.laplace_counts(",
        "        counts = missing_function(",
        "decide failed: NameError: name 'missing_function' is not defined",
    ),
    "returns no decision": (
        "        return Decision(noisy.filter(pl.col(CASES) >= params.tau))",
        "        return noisy",
        "decide returned DataFrame, not Decision",
    ),
    "releases the cases of the log": (
        "return GenerateCases(lambda: cases_of(decision.table))",
        "from cloakwork.mechanisms.base import MapCases; return MapCases(lambda log: log)",
        "makes new cases by its lineage, yet its rewrite maps the cases of the log",
    ),
    "releases a column that nobody judged": (
        "cases_of(decision.table))",
        "(lambda log: type(log)(log.events.with_columns(note=pl.lit('x')), log.cases, log.offsets))"
        "(cases_of(decision.table)))",
        "releases note, which its lineage does not write",
    ),
    "measures for nothing": (
        "        return Composed(events=(noise, EpsilonDelta(epsilon=0.0, delta=delta)))",
        "        return Composed(events=())",
        "measures control-flow and charges nothing for it",
    ),
    "offers what it does not declare": (
        'gives = (Gives("differential-privacy", CONTROL_FLOW),)',
        'gives = (Gives("k-anonymity", CONTROL_FLOW),)',
        "offers differential-privacy, which it does not declare to give",
    ),
    "returns no offer": (
        "        return Offer(params, ",
        "        return (params, ",
        "offer returned tuple, not Offer",
    ),
    "cannot be imported": (
        "import polars as pl",
        "import a_package_that_is_missing",
        "cannot be loaded from acme:ExampleThreshold: ModuleNotFoundError: "
        "No module named 'a_package_that_is_missing'",
    ),
    "declares nothing": (
        "    gives = (",
        "    given = (",
        "declares no gives (tuple)",
    ),
    "has another name": (
        f'name = "{NAME}"',
        'name = "acme/other"',
        "calls itself 'acme/other'; its entry point says 'acme/noise'",
    ),
}


def broken(folder: Path, fault: str) -> Path:
    """The example with one fault, installed."""
    old, new, _ = FAULTS[fault]
    assert old in WORKING
    return install(folder / "site", WORKING.replace(old, new), NAME, CLASS)


@pytest.mark.parametrize("fault", FAULTS)
def test_one_line_names_the_package(tmp_path: Path, fault: str) -> None:
    """No release and no trace of Python."""
    site = broken(tmp_path, fault)
    policy = write_policy(tmp_path, allow=["bound", "attributes/*", NAME])
    done = cloakwork(tmp_path, "apply", policy, LOG, "--out", "release", "--quiet", site=site)
    assert done.returncode == 1
    said = f"{NAME}: (package acme 1.0) {FAULTS[fault][2]}"
    assert said in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "release").exists()


def test_it_stands_in_nobodys_way(tmp_path: Path) -> None:
    """Policies that do not name it are planned, and the other mechanisms are listed."""
    site = broken(tmp_path, "cannot be imported")
    policy = write_policy(tmp_path)
    assert cloakwork(tmp_path, "plan", policy, LOG, site=site).returncode == 0
    listed = cloakwork(tmp_path, "mechanisms", "--json", site=site)
    assert listed.returncode == 0
    assert "variants/threshold" in {item["name"] for item in document(listed)}
    assert "acme/noise: (package acme 1.0) cannot be loaded" in listed.stderr


def test_a_name_of_ours_cannot_be_taken(tmp_path: Path) -> None:
    """Whoever names variants/threshold gets Cloakwork's."""
    site = install(tmp_path / "site", WORKING, "variants/threshold", CLASS)
    done = cloakwork(tmp_path, "mechanisms", site=site)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "(package acme 1.0) takes the name of a mechanism of Cloakwork" in done.stderr


def test_the_audit_finds_a_twin_that_claims_more_than_it_gives(tmp_path: Path) -> None:
    """Noise that is declared and never drawn: no declaration gives it away, the audit does."""
    honest = "noise.laplace_counts(summary[CASES].to_numpy(writable=True), params.scale)"
    assert honest in WORKING
    module = WORKING.replace(honest, "summary[CASES].to_numpy()")
    site = install(tmp_path / "site", module, NAME, CLASS)
    asked = ("--epsilon", "1", "--delta", "0.001", "--runs", "200", "--quiet")
    done = cloakwork(tmp_path, "audit", "dp", NAME, *asked, site=site)
    assert done.returncode == 5, done.stderr
    assert f"{NAME}: audit failed: it does not keep epsilon 1" in done.stderr
