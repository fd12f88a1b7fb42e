"""B9: committed means that the folder stands; what a crash left is explained, completed or
closed.
"""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cloakwork.errors import MechanismError
from cloakwork.ledger.ledger import Ledger
from cloakwork.mechanisms.attributes.redact import Redact
from conftest import Said
from counterexamples.small import small_log, small_policy
from counterexamples.test_what_verify_says import POLICY
from forked import Forks

Cloakwork = Callable[..., Said]

KILLED = """
import os, signal
from pathlib import Path

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def killed(real):
    def run(*arguments, **named):
        if {when!r} == "before":
            die()
        real(*arguments, **named)
        die()
    return run

module = __import__({module!r}, fromlist=["x"])
*owner, name = {function!r}.split(".")
place = getattr(module, *owner) if owner else module
setattr(place, name, killed(getattr(place, name)))
"""
"""The process kills itself before or after its first call of a function."""


def killed(forks: Forks, folder: Path, ledger: str, module: str, function: str, when: str) -> None:
    """``apply`` in a process that is killed before or after its first call of ``function``."""
    policy, log = small_policy(folder), small_log(folder)
    words = ["apply", policy, log, "--out", folder / "releases" / "out", "--ledger", ledger]
    said = forks.run(words, first=KILLED.format(module=module, function=function, when=when))
    assert said.code == -signal.SIGKILL, said.err


def test_committed_means_that_a_folder_stood(tmp_path: Path, ledger: str, forks: Forks) -> None:
    """Killed while the release is written: no folder stands, and the ledger does not say
    committed.
    """
    killed(forks, tmp_path, ledger, "cloakwork.publishing.publish", "seal", "before")
    assert not (tmp_path / "releases" / "out").exists()
    assert [record.state for record in Ledger(ledger).history()] != ["committed"]


def test_an_entry_without_a_release_is_explained(
    cloakwork: Cloakwork, tmp_path: Path, ledger: str, forks: Forks
) -> None:
    """``show`` and ``history`` say in plain words what an entry stands for that has no folder."""
    killed(forks, tmp_path, ledger, "cloakwork.publishing.publish", "seal", "before")
    for command in ("show", "history"):
        said = cloakwork("ledger", command, "--ledger", ledger)
        assert "its cost is spent" in " ".join(said.out.replace("│", " ").split()), said.out


def test_reconcile_closes_what_never_stood(
    cloakwork: Cloakwork, tmp_path: Path, ledger: str, forks: Forks
) -> None:
    """The entry is closed as spent, and the draft, which holds figures of the raw log, is gone."""
    killed(forks, tmp_path, ledger, "cloakwork.publishing.publish", "seal", "before")
    assert any(
        path.name.startswith(".cloakwork-draft") for path in (tmp_path / "releases").iterdir()
    )
    done = cloakwork("ledger", "reconcile", tmp_path / "releases", "--ledger", ledger)
    assert done.code == 0, done.err
    assert list((tmp_path / "releases").iterdir()) == []
    (record,) = Ledger(ledger).history()
    assert record.state == "failed"
    assert Ledger(ledger).remaining("clinic")["case"].spent.epsilon == 1.0
    assert not list(tmp_path.glob("*.lock"))


def test_reconcile_completes_what_stands(
    cloakwork: Cloakwork, tmp_path: Path, ledger: str, forks: Forks
) -> None:
    """Killed between the renaming and the last entry: the folder stands, also where it was moved to
    since.
    """
    killed(forks, tmp_path, ledger, "cloakwork.publishing.publish", "_commit_entry", "before")
    (tmp_path / "releases" / "out").rename(tmp_path / "elsewhere")
    assert [record.state for record in Ledger(ledger).history()] == ["publishing"]
    done = cloakwork("ledger", "reconcile", tmp_path / "elsewhere", "--ledger", ledger, "--json")
    assert (done.code, json.loads(done.out)["findings"][0]["outcome"]) == (0, "completed")
    assert [record.state for record in Ledger(ledger).history()] == ["committed"]
    assert cloakwork("verify", tmp_path / "elsewhere").code == 0


def test_a_folder_found_after_closing_completes_the_entry(
    cloakwork: Cloakwork, tmp_path: Path, ledger: str, forks: Forks
) -> None:
    """Closed because it was not found, found later: committed."""
    killed(forks, tmp_path, ledger, "cloakwork.publishing.publish", "_commit_entry", "before")
    (tmp_path / "releases" / "out").rename(tmp_path / "elsewhere")
    cloakwork("ledger", "reconcile", tmp_path / "releases", "--ledger", ledger)
    assert [record.state for record in Ledger(ledger).history()] == ["failed"]
    cloakwork("ledger", "reconcile", tmp_path / "elsewhere", "--ledger", ledger)
    assert [record.state for record in Ledger(ledger).history()] == ["committed"]


def test_a_release_that_the_ledger_does_not_know_is_named(
    cloakwork: Cloakwork, tmp_path: Path, ledger: str
) -> None:
    """Made with another ledger: exit 1, and the folder is named."""
    other = str(tmp_path / "other.db")
    policy, log = small_policy(tmp_path), small_log(tmp_path)
    assert (
        cloakwork(
            "apply", policy, log, "--out", tmp_path / "releases" / "out", "--ledger", other
        ).code
        == 0
    )
    done = cloakwork("ledger", "reconcile", tmp_path / "releases", "--ledger", ledger)
    assert done.code == 1
    assert f"unknown: {tmp_path / 'releases' / 'out'}" in done.out


def test_what_a_live_process_works_on_is_left_alone(
    cloakwork: Cloakwork, tmp_path: Path, ledger: str, forks: Forks
) -> None:
    """An apply in progress holds its entry and its draft; reconcile says so and touches neither."""
    from cloakwork import api
    from cloakwork.api import publish

    seen = dict[str, Any]()
    plan, log = (
        api.make_plan(api.load_policy(small_policy(tmp_path))),
        api.read_log(small_log(tmp_path)),
    )
    out = tmp_path / "releases" / "out"

    def meanwhile(message: str) -> None:
        if message == "writing the internal report":
            seen["said"] = forks.run(["ledger", "reconcile", out.parent, "--ledger", ledger])

    release = api.apply(plan, log, ledger=ledger, folder=out)
    publish(release, out, reporter=meanwhile)
    assert "in progress" in seen["said"].out, seen["said"].err
    assert [record.state for record in Ledger(ledger).history()] == ["committed"]
    assert cloakwork("verify", out).code == 0


def test_in_memory_stays_reserved_until_it_is_published(tmp_path: Path, ledger: str) -> None:
    """``apply`` alone commits nothing; ``publish`` alone records intent and commits, once."""
    from cloakwork import api
    from cloakwork.errors import LedgerError

    plan = api.make_plan(api.load_policy(small_policy(tmp_path)))
    release = api.apply(plan, api.read_log(small_log(tmp_path)), ledger=ledger)
    assert [record.state for record in Ledger(ledger).history()] == ["reserved"]
    done = api.publish(release, tmp_path / "out")
    (record,) = Ledger(ledger).history()
    assert (record.state, record.statement_digest) == ("committed", done.statement_digest)
    with pytest.raises(LedgerError, match="published already"):
        api.publish(release, tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_a_failed_publication_is_recorded(
    cloakwork: Cloakwork, tmp_path: Path, ledger: str
) -> None:
    """What cannot be written leaves no folder, and its entry says failed."""
    from cloakwork import api
    from cloakwork.errors import OutputError

    plan = api.make_plan(api.load_policy(small_policy(tmp_path)))
    release = api.apply(plan, api.read_log(small_log(tmp_path)), ledger=ledger)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OutputError):
        api.publish(release, tmp_path / "file" / "out")
    assert [record.state for record in Ledger(ledger).history()] == ["failed"]
    api.publish(release, tmp_path / "out")  # it is paid for: another folder will do
    assert [record.state for record in Ledger(ledger).history()] == ["committed"]


def test_release_is_what_apply_does(tmp_path: Path, ledger: str) -> None:
    """``cloakwork.release``: check, run, publish, record."""
    done = cloakwork_release()(
        small_policy(tmp_path), small_log(tmp_path), tmp_path / "out", ledger=ledger
    )
    (record,) = Ledger(ledger).history()
    assert (record.state, record.statement_digest) == ("committed", done.statement_digest)
    assert done.folder == tmp_path / "out"
    assert record.place.folder == str(tmp_path / "out")


def cloakwork_release() -> Any:
    """The verb, whatever was imported before."""
    import cloakwork.api
    import cloakwork.run.run

    return cloakwork.release


def test_what_came_to_nothing_is_no_release(
    cloakwork: Cloakwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that failed stays spent, and cannot be held against a later release."""

    def fails(*_: Any) -> None:
        raise MechanismError("attributes/redact", "cannot")

    book, policy = str(tmp_path / "ledger.db"), tmp_path / "kanon.yaml"
    policy.write_text(POLICY.format(name="kanon", version="1.0.0"))
    log = small_log(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(Redact, "rewrite", fails)
        said = cloakwork("apply", policy, log, "--out", tmp_path / "r", "--ledger", book)
    assert said.code == 1, said.err
    shown = cloakwork("ledger", "show", "--ledger", book).out
    assert "0 releases, and 1 failed" in shown
    assert "with what no DP guarantee covers" not in shown


@pytest.mark.parametrize("crashed", [True, False], ids=["crashed", "committed"])
def test_reconcile_does_not_call_a_wreck_whole(
    cloakwork: Cloakwork, tmp_path: Path, ledger: str, forks: Forks, crashed: bool
) -> None:
    """The statement stands, so something was released; plan gone and log overwritten are named, and
    exit is 1.
    """
    if crashed:
        killed(forks, tmp_path, ledger, "cloakwork.publishing.publish", "_commit_entry", "before")
    else:
        policy, log = small_policy(tmp_path), small_log(tmp_path)
        assert (
            cloakwork(
                "apply", policy, log, "--out", tmp_path / "releases" / "out", "--ledger", ledger
            ).code
            == 0
        )
    out = tmp_path / "releases" / "out"
    (out / "plan.json").unlink()
    (out / "log.csv").write_text("tampered\n")
    for _ in range(2):  # looking once does not settle it
        done = cloakwork("ledger", "reconcile", out, "--ledger", ledger)
        assert done.code == 1, done.out
        said = " ".join(done.out.split())
        assert "its statement stands, its files do not" in said and "stands whole" not in said
        assert (
            "plan.json: is missing" in said and "log.csv: is not the file that was signed" in said
        )
    (record,) = Ledger(ledger).history()
    assert record.state == "committed"
    assert Ledger(ledger).remaining("clinic")["case"].spent.epsilon == 1.0
