"""The same day from Python."""

from pathlib import Path

import pytest

import cloakwork
from cloakwork.errors import BudgetExceeded, NotApproved, VerificationFailed
from conftest import in_long_form
from walk.steps import PURPOSE, REAL, SHIPPED, WalkedLog, require, with_windows


@pytest.mark.parametrize("log", [SHIPPED, *in_long_form(*REAL)], ids=str)
def test_a_day_in_python(log, tmp_path, monkeypatch):
    require(log)
    walk(log, tmp_path, monkeypatch)


def walk(log: WalkedLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two people with keys of their own, and one recipient."""
    monkeypatch.chdir(tmp_path)
    book = cloakwork.Ledger("ledger.db")
    first, renewed = log.windows
    author, officer, recipient = (tmp_path / name for name in ("author", "officer", "recipient"))

    monkeypatch.setenv("CLOAKWORK_HOME", str(author))
    found = cloakwork.explore(log.path)
    suggested = found.suggest(
        "publish", "control-flow-dp", dataset="walked", owner="DPO", purpose=PURPOSE
    )
    text = with_windows(suggested.text, log.every)
    cloakwork.declare_dataset(book, "walked", owner="DPO", require_approval=True)
    added = cloakwork.Registry(book).add(text, author="A. Author", reason="First version")

    def release(window: str, out: str) -> None:
        policy = cloakwork.load_policy(added.reference, ledger=book)
        cloakwork.release(policy, log.path, out, ledger=book, window=window)

    with pytest.raises(NotApproved):
        release(first, "early")
    _trusted_both_ways(author, officer, monkeypatch)
    monkeypatch.setenv("CLOAKWORK_HOME", str(officer))
    cloakwork.Registry(book).approve(added.reference, approver="B. Officer", reason="Fits")

    monkeypatch.setenv("CLOAKWORK_HOME", str(author))
    compared = cloakwork.compare(
        log.path, added.policy, sweep={"epsilon": [0.5, 1]}, ledger=book, window=first, cases=100
    )
    assert (compared.source, len(compared.settings)) == ("stand-in", 2)
    release(first, "release")
    assert cloakwork.risk(log.path, "release", targets=50).attacks
    assert cloakwork.make_report("release", "internal", "pdf", ledger=book).startswith(b"%PDF")
    cloakwork.pack("release", "release.zip")

    with pytest.raises(BudgetExceeded):
        release(first, "again")
    release(renewed, "renewed")
    (overview,) = cloakwork.datasets(book)
    assert [each.window for each in overview.summary.records] == [first, renewed]
    assert book.verify() is None

    monkeypatch.setenv("CLOAKWORK_HOME", str(recipient))
    with pytest.raises(VerificationFailed):
        cloakwork.verify("release.zip")
    assert cloakwork.verify("release.zip", public_key=author / "signing-key.pub.pem")


def _trusted_both_ways(author: Path, officer: Path, patch: pytest.MonkeyPatch) -> None:
    """Each makes a key, and lets the other's approvals count."""
    from cloakwork.publishing.keys import signing_key, trust

    for home in (author, officer):
        patch.setenv("CLOAKWORK_HOME", str(home))
        signing_key()
    for home, other in ((author, officer), (officer, author)):
        patch.setenv("CLOAKWORK_HOME", str(home))
        trust(other / "signing-key.pub.pem", "colleague", approves=True)
