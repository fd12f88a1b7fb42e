"""The package of examples/mechanism, from its own tests to a verified release."""

import base64
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT, in_long_form
from third_parties.packages import (
    EXAMPLE,
    LOG,
    cloakwork,
    document,
    install_example,
    write_policy,
)

NAME = "example/threshold"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the installed example."""
    return install_example(tmp_path_factory.mktemp("packages") / "site")


@pytest.fixture(scope="module")
def released(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a policy that names the example, and a release made under it."""
    folder = tmp_path_factory.mktemp("released")
    policy = write_policy(folder, allow=["bound", "attributes/*", NAME])
    done = cloakwork(folder, "apply", policy, LOG, "--out", "release", site=site)
    assert done.code == 0, done.err
    return folder


def test_the_module_is_short() -> None:
    """Under 60 lines."""
    assert len((EXAMPLE / "example_threshold.py").read_text("utf-8").splitlines()) < 60


with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(EXAMPLE))
    own = importlib.import_module("test_example_threshold")
# Contract, broken twins and audit, collected here too.
TestExampleThreshold = own.TestExampleThreshold
test_the_kernel_stops_broken_twins = own.test_the_kernel_stops_broken_twins
test_an_audit_finds_nothing = own.test_an_audit_finds_nothing


@pytest.mark.parametrize("site_packages", in_long_form("installed"))
def test_its_own_tests_pass(site: Path, site_packages: str) -> None:
    """As its author runs them, in a process of their own."""
    here = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "engine"), str(site)])}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull]
    tests = ["--rootdir", str(EXAMPLE), str(EXAMPLE / "test_example_threshold.py")]
    done = subprocess.run([*command, *tests], env=here, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "skipped" not in done.stdout


def test_it_is_listed_with_its_package(site: Path, tmp_path: Path) -> None:
    """Beside ours, which have none."""
    listed = document(cloakwork(tmp_path, "mechanisms", "--json", site=site))
    packages = {item["name"]: item["package"] for item in listed}
    assert packages[NAME] == "cloakwork-example 0.1.0"
    assert packages["variants/threshold"] is None


def test_it_is_planned_where_a_policy_names_it(site: Path, released: Path) -> None:
    """The step says whose it is."""
    policy = released / "policy.yaml"
    assert cloakwork(released, "policy", "validate", policy, site=site).code == 0
    plan = document(cloakwork(released, "plan", policy, LOG, "--json", site=site))
    steps = {step["mechanism"]: step for step in plan["steps"]}
    assert "(package cloakwork-example 0.1.0)" in steps[NAME]["why"]
    assert steps[NAME]["proof"] == "kernel"


def test_its_guarantee_is_enforced(site: Path, released: Path) -> None:
    """Plan and list say so in words; the statement holds what was recorded."""
    words = "enforced by the kernel"
    described = cloakwork(released, "mechanisms", NAME, site=site)
    assert words in described.out
    why = cloakwork(released, "plan", released / "policy.yaml", LOG, "--why", site=site)
    assert words in why.out
    envelope = json.loads((released / "release" / "statement.json").read_text("utf-8"))
    (row,) = json.loads(base64.b64decode(envelope["payload"]))["predicate"]["recorded"]
    assert row["mechanism"] == NAME
    assert row["recorded"] == row["planned"]


def test_elsewhere_it_takes_no_part(site: Path, tmp_path: Path) -> None:
    """A policy that does not name it has the same plan whatever is installed."""
    policy = write_policy(tmp_path, allow=["*"])
    plans = [
        document(cloakwork(tmp_path, "plan", policy, LOG, "--json", site=each))
        for each in (site, None)
    ]
    assert plans[0] == plans[1]


def test_its_release_is_verified(site: Path, released: Path) -> None:
    """Every claim is derived again where the package is installed."""
    done = cloakwork(released, "verify", "release", site=site)
    assert done.code == 0, done.out + done.err
    assert "every claim and cost was derived again" in done.out


def test_without_the_package_its_claims_are_the_signers_word(released: Path) -> None:
    """What cannot be derived again is not verified: exit code 5, and the reason."""
    done = cloakwork(released, "verify", "release")
    assert done.code == 5
    said = "its claims cannot be derived again and are the signer's word"
    assert said in done.err
    assert f"mechanism '{NAME}', which is not installed here" in done.err


@pytest.mark.parametrize(
    ("allowed", "said"),
    [
        ("example/treshold", "did you mean 'example/threshold'?"),
        ("example/*", "other packages alone (got 'example/*'), name each in full: " + NAME),
        ("acme/noise", "matches no mechanism (got 'acme/noise'), is its package installed?"),
    ],
)
def test_a_name_that_is_not_there_is_refused(
    site: Path, tmp_path: Path, allowed: str, said: str
) -> None:
    """With its line and column, and what to do."""
    policy = write_policy(tmp_path, allow=["bound", allowed])
    done = cloakwork(tmp_path, "policy", "validate", policy, site=site)
    line = policy.read_text("utf-8").splitlines().index(f"    - {allowed}") + 1
    assert done.code == 3
    assert f"policy.yaml:{line}:7: spec.mechanisms.allow[1]" in done.out + done.err
    assert said in done.out + done.err
