"""A mechanism that is broken ends in one line that names its package, never in a false claim."""

from pathlib import Path

import pytest

from conftest import ROOT
from third_parties.packages import EXAMPLE, cloakwork, document, install, own_process, write_policy

NAME = "acme/noise"
LOG = ROOT / "examples" / "logs" / "hospital.csv.gz"
WORKING = (EXAMPLE / "example_threshold.py").read_text("utf-8").replace("example/threshold", NAME)
CLASS = "ExampleThreshold"

SELECT = "found = kernel.select(Entries.of_variants, Laplace(params.scale), params.tau)"
RETURN = "return Measurement(found.labels, found.noisy)"
EVENT = "event = Composed(events=(noise, EpsilonDelta(epsilon=0.0, delta=passed)))"
STEP = "return MeasureStep(event=event, measure=lambda kernel: self.measure(params, kernel))"
NOT_LISTED = "a step asked for what its plan does not list"
LINEAGE = """
        from cloakwork.base.lineage import METADATA, Lineage

        written = {CONTROL_FLOW, METADATA, "note"}
        lineage = Lineage(measures={CONTROL_FLOW}, writes=written, generates=True)
        ask = lambda kernel: self.measure(params, kernel)
        return MeasureStep(lineage=lineage, event=event, measure=ask)
"""
REWRITING = """
        from cloakwork.base.lineage import Lineage
        from cloakwork.mechanisms.steps import RewriteStep

        lineage = Lineage(measures={CONTROL_FLOW}, writes={CONTROL_FLOW}, generates=True)
        return RewriteStep(lineage=lineage, rewrite=lambda decision, stream: None)
"""

FAULTS = {
    "raises while it measures": (
        SELECT,
        "found = missing_function(kernel)",
        "measure failed: NameError: name 'missing_function' is not defined",
    ),
    "returns no measurement": (
        RETURN,
        "return found",
        "measure returned Selected, not Measurement",
    ),
    "says that it releases a column that no answer holds": (
        f"        {STEP}\n",
        LINEAGE,
        "it made other columns than its lineage writes",
    ),
    "measures for nothing": (
        EVENT,
        "event = Composed(events=())",
        "it measures control-flow and charges nothing for it",
    ),
    "charges epsilon 0 and delta 0": (
        EVENT,
        "event = EpsilonDelta(epsilon=0.0, delta=0.0)",
        "it measures control-flow and charges nothing for it",
    ),
    "asserts a proof of its own": (
        'proof = "kernel"',
        'proof = "proved"',
        "measures the log, so what is known of it is what the kernel enforces: its proof is "
        "'kernel', or 'published'",
    ),
    "measures without a kernel": (
        f"        {STEP}\n",
        REWRITING,
        "a step that rewrites measures nothing: what draws noise for a guarantee asks a kernel, "
        "in a MeasureStep",
    ),
    "claims a kernel that it does not ask": (
        f"        {STEP}\n",
        REWRITING.replace("measures={CONTROL_FLOW}, ", ""),
        "asks no kernel that would enforce its guarantee",
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
        "from pydantic import BaseModel, ConfigDict",
        "import a_package_that_is_missing",
        "cannot be loaded from acme:ExampleThreshold: ModuleNotFoundError: "
        "No module named 'a_package_that_is_missing'",
    ),
    "declares nothing": (
        '    summary = "Releases noisy counts of variants that reach a threshold."',
        "",
        "declares no summary (str)",
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


STOPPED = {
    "half the noise": (SELECT, SELECT.replace("params.scale", "params.scale / 2")),
    "a lower threshold": (SELECT, SELECT.replace("params.tau", "params.tau - 1")),
    "an extra query": (SELECT, f"{SELECT}; kernel.sum(Entries.one_each, Laplace(9.0), keys=1)"),
    "a raw look": (RETURN, "return Measurement(*kernel.raw().by_variant())"),
}
"""What is written otherwise than its event says."""


@pytest.mark.parametrize("fault", STOPPED)
def test_what_is_not_planned_is_not_answered(tmp_path: Path, fault: str) -> None:
    """The kernel refuses it, whatever the declarations say; there is no release."""
    old, new = STOPPED[fault]
    assert old in WORKING
    site = install(tmp_path / "site", WORKING.replace(old, new), NAME, CLASS)
    policy = write_policy(tmp_path, allow=["bound", "attributes/*", NAME])
    done = cloakwork(tmp_path, "apply", policy, LOG, "--out", "release", "--quiet", site=site)
    assert done.returncode == 1, done.stdout
    assert NOT_LISTED in done.stderr
    assert not (tmp_path / "release").exists()


def test_the_audit_finds_a_twin_that_draws_too_little(tmp_path: Path) -> None:
    """Code that changes the kernel under way is hostile, not wrong: no check here stands against
    it, but an audit does.
    """
    drawn = (
        "import cloakwork.kernel as k; k.Laplace.draw = lambda *a: a[1].laplace_values(0.01, a[2])"
    )
    module = WORKING.replace(SELECT, f"{drawn}; {SELECT}")
    site = install(tmp_path / "site", module, NAME, CLASS)
    asked = ("--epsilon", "1", "--delta", "0.001", "--runs", "200", "--quiet")
    done = own_process(tmp_path, "audit", "dp", NAME, *asked, site=site)
    assert done.returncode == 5, done.stderr
    assert f"{NAME}: audit failed: it does not keep epsilon 1" in done.stderr
