"""What ``apply`` says of a release that is of little use: nothing in it, or not what the policy
names.
"""

from collections.abc import Callable
from pathlib import Path

from conftest import ROOT, Said

LOG = "case:concept:name,concept:name,time:timestamp\n" + "".join(
    f"{number},a,2024-01-01T00:00:00Z\n" for number in range(30)
)

OF_FEW = """
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: few, version: 1.0.0, owner: o, purpose: a test, dataset: few}
spec:
  attributes:
    "case:concept:name": {role: identifier}
    "concept:name": {role: control-flow}
    "*": {treatment: drop}
  guarantees:
    - {kind: differential-privacy, epsilon: 0.01, delta: 1.0e-12, over: [control-flow]}
  mechanisms: {allow: [bound, "attributes/*", variants/threshold]}
"""
"""Thirty cases pass the threshold with a probability below 1e-10: one does with delta, and each
more adds at most e**epsilon times as much.
"""


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


def test_what_noise_has_hidden_is_not_said_to_lack_in_the_log(
    cloakwork: Callable[..., Said], tmp_path: Path, ledger: str
) -> None:
    """Where noise leaves nothing, the screen once said that the log has no activities."""
    policy, log = tmp_path / "policy.yaml", tmp_path / "log.csv"
    log.write_text(LOG)
    policy.write_text(OF_FEW)
    said = cloakwork("apply", policy, log, "--out", tmp_path / "out", "--ledger", ledger)
    assert said.code == 0, said.err
    assert "the release is EMPTY" in said.out
    assert "not in the log, so" not in said.out
