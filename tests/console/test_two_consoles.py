"""Two consoles on one folder and one ledger, at the same time: one budget, and one answer."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier

import pytest

from cloakwork.console.visits import Job
from cloakwork.ledger.ledger import Ledger
from cloakwork.publishing.examine import verify
from console.conftest import LOG, POLICY, Visitor


@pytest.fixture
def both(folder: Path) -> Iterator[list[Visitor]]:
    """Each with its session and its jobs; they know nothing of each other."""
    visitors = [Visitor(folder).enter(), Visitor(folder).enter()]
    yield visitors
    for visitor in visitors:
        visitor.state.jobs.stop_all(60)


@contextmanager
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Both ask for their budget at the same moment, once each."""
    barrier, reserve, asked = Barrier(2, timeout=60), Ledger.reserve, set()

    def together(ledger, request):
        if id(ledger) not in asked:
            asked.add(id(ledger))
            barrier.wait()
        return reserve(ledger, request)

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "reserve", together)
        yield


def released(both: list[Visitor], outs: list[str]) -> list[Job]:
    """Each has planned; then each applies, into its folder."""
    asked = {"policy": POLICY, "log": LOG}
    digests = []
    for visitor in both:
        page = visitor.result(visitor.send("/plan", **asked))
        found = re.search('name="digest" value="([^"]+)"', page)
        assert found is not None
        digests.append(found[1])
    answers = [
        visitor.send("/apply", **asked, digest=digest, out=out)
        for visitor, digest, out in zip(both, digests, outs, strict=True)
    ]
    return [visitor.job(answer) for visitor, answer in zip(both, answers, strict=True)]


def test_budget_for_one_is_given_to_one(
    both: list[Visitor], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (folder / POLICY).read_text("utf-8")
    only_one = text.replace("total: {epsilon: 4.0", "total: {epsilon: 1.0")
    assert only_one != text
    (folder / POLICY).write_text(only_one, "utf-8")
    with at_once(monkeypatch):
        jobs = released(both, ["one", "two"])
    assert sorted(job.state for job in jobs) == ["done", "failed"]
    (refused,) = (job for job in jobs if job.state == "failed")
    assert refused.exit_code == 4
    standing = [name for name in ("one", "two") if (folder / name).exists()]
    assert len(standing) == 1 and verify(folder / standing[0]).checks
    check_ledger(folder, ["committed"])


def test_a_ledger_that_refuses_nothing_is_found(
    both: list[Visitor], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloakwork.ledger.ledger.require_fit", lambda *_: None)
    with pytest.raises(AssertionError, match="'done', 'done'"):
        test_budget_for_one_is_given_to_one(both, folder, monkeypatch)


def test_one_folder_is_given_to_one(
    both: list[Visitor], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who comes second is told, and what was charged stays so."""
    with at_once(monkeypatch):
        jobs = released(both, ["same", "same"])
    assert sorted(job.state for job in jobs) == ["done", "failed"]
    (refused,) = (job for job in jobs if job.state == "failed")
    assert refused.exit_code == 1 and "internal error" not in refused.problem
    assert verify(folder / "same").checks
    check_ledger(folder, ["committed", "failed"])


def test_both_see_what_either_did(both: list[Visitor], folder: Path) -> None:
    """Also who began before the ledger was made."""
    one, other = both
    assert "There is no ledger yet" in other.get("/").text
    assert one.release("out").state == "done"
    assert "epsilon 3, delta 9.9e-05 left" in other.get("/").text
    assert other.release("again").state == "done"
    assert "epsilon 2, delta 9.8e-05 left" in one.get("/").text
    check_ledger(folder, ["committed", "committed"])


def check_ledger(folder: Path, states: list[str]) -> None:
    ledger = Ledger(str(folder / "ledger.db"))
    assert ledger.verify() is None
    assert sorted(record.state for record in ledger.history()) == states
    assert not [*folder.rglob("*.lock"), *folder.rglob(".cloakwork-*")]
