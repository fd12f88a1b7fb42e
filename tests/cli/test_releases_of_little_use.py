"""What ``apply`` says of a release that is of little use: nothing in it, or not what the policy
names.
"""

import json
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import ROOT, Said

LOG = "case:concept:name,concept:name,time:timestamp\n" + "".join(
    f"{number},a,2024-01-01T00:00:00Z\n" for number in range(30)
)


def test_an_empty_release_says_so(
    cloakwork: Callable[..., Said], tmp_path: Path, ledger: str
) -> None:
    """A header alone holds no case, and what comes of it is of no use."""
    log = tmp_path / "log.csv"
    log.write_text(LOG.splitlines()[0] + "\n")
    said = cloakwork(
        "apply",
        ROOT / "policies" / "kanon-control-flow.yaml",
        log,
        "--out",
        tmp_path / "out",
        "--ledger",
        ledger,
    )
    assert said.code == 0, said.err
    assert "the release is EMPTY" in said.out


def test_an_attribute_that_the_log_lacks_is_named(
    cloakwork: Callable[..., Said], tmp_path: Path, ledger: str
) -> None:
    """A misspelt name, which nothing matched, once went by in silence."""
    policy, log = tmp_path / "policy.yaml", tmp_path / "log.csv"
    log.write_text(LOG)
    shipped = (ROOT / "policies" / "kanon-control-flow.yaml").read_text("utf-8")
    changed = shipped.replace('    "*": ', '    "Kode": {treatment: keep}\n    "*": ', 1)
    policy.write_text(changed.replace("\nspec:\n", "\nspec:\n  expose: {Kode: for a test}\n", 1))
    said = cloakwork("apply", policy, log, "--out", tmp_path / "out", "--ledger", ledger)
    assert said.code == 0, said.err
    assert "not in the log, so not released: Kode" in said.out
    assert "exposed: Kode" not in said.out


def test_an_attribute_that_noise_hides_is_not_said_to_be_missing_from_the_log(
    cloakwork: Callable[..., Said],
    tmp_path: Path,
    ledger: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The log has the attribute, with values other than those that are declared. Whether noise
    hides it is chance, so that it did is set here.
    """
    monkeypatch.setattr("cloakwork.report.outcome.absent_attributes", lambda *_: ("department",))
    policy, log = tmp_path / "policy.yaml", ROOT / "examples" / "logs" / "hospital.xes.gz"
    shipped = (ROOT / "policies" / "dp-whole-log.yaml").read_text("utf-8")
    policy.write_text(shipped.replace("domain: [Admissions,", "domain: [Admission] # ["))
    said = cloakwork("apply", policy, log, "--out", tmp_path / "out", "--ledger", ledger)
    assert said.code == 0, said.err
    told = " ".join(said.out.split())
    assert "no value was released: department; noise may have hidden them" in told
    assert "not in the log, so not released" not in told
    assert "note: 100% of the log's values of 'department' are none of its domain" in told
    inside = json.loads((tmp_path / "out" / "internal" / "report.json").read_text("utf-8"))
    unread = next(note for note in inside["notes"] if note.startswith("attributes that were not"))
    assert "diagnosis" in unread and "department" not in unread and "age" not in unread
    public = (tmp_path / "out" / "statement.json").read_text("utf-8")
    assert "none of its domain" not in b64decode(json.loads(public)["payload"]).decode()
