"""Versions and approvals: four eyes in the pages, too."""

from pathlib import Path

import pytest

from cloakwork.publishing.keys import signing_key
from console.conftest import POLICY, Visitor

NAME = "dp-control-flow@1.0.0"


def _approve(visitor: Visitor, person: str) -> str:
    asked = {"of": NAME, "person": person, "reason": "checked <x-mark>"}
    answer = visitor.send("/registry/approve", **asked)
    return answer.text if answer.status_code != 303 else ""


def test_an_author_cannot_approve(visitor: Visitor) -> None:
    """Whatever name is typed: the key tells."""
    answer = visitor.send("/registry/add", file=POLICY, author="Ann", reason="first")
    assert answer.headers["location"] == "/registry/version?of=dp-control-flow%401.0.0"
    assert "an author cannot approve" in _approve(visitor, "Bob")
    assert "not approved" in visitor.get("/registry").text


def test_a_second_person_approves_and_revokes(
    visitor: Visitor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor.send("/registry/add", file=POLICY, author="Ann", reason="first")
    with monkeypatch.context() as patch:
        patch.setenv("CLOAKWORK_HOME", str(tmp_path / "officer"))
        signing_key()
        assert _approve(visitor, "Bob") == ""
    page = visitor.get(f"/registry/version?of={NAME}").text
    assert "checked &lt;x-mark&gt;" in page
    assert "does not count" in page  # the officer's key is not trusted here
    visitor.send("/registry/revoke", of=NAME, person="Ann", reason="the contract ended")
    assert "the contract ended" in visitor.get(f"/registry/version?of={NAME}").text
    assert NAME not in visitor.get("/plan").text


def test_who_and_why_must_be_said(visitor: Visitor) -> None:
    answer = visitor.send("/registry/add", file=POLICY, author=" ")
    assert "nothing was said of who wrote it" in answer.text
    assert not visitor.state.ledger().exists()


def test_a_version_is_planned_and_released(visitor: Visitor) -> None:
    """From the registry's text, whatever became of the file."""
    visitor.send("/registry/add", file=POLICY, author="Ann", reason="first")
    (visitor.folder / POLICY).unlink()
    assert f'<option value="{NAME}">' in visitor.get("/plan").text
    assert visitor.release("out", policy=NAME).state == "done"


def test_a_dataset_that_requires_approval_takes_no_other(visitor: Visitor) -> None:
    declared = visitor.send(
        "/dataset/declare", name="hospital-emergency", owner="Ward", require_approval="1"
    )
    assert declared.status_code == 303
    job = visitor.release("out")
    assert (job.state, job.exit_code) == ("failed", 3)
    assert "is not approved" in job.problem
    assert not (visitor.folder / "out").exists()


def test_a_release_may_ask_for_approval_itself(visitor: Visitor) -> None:
    asked = {"policy": POLICY, "log": "hospital.csv.gz", "out": "out", "require_approval": "1"}
    page = visitor.result(visitor.send("/plan", **asked))
    digest = page.partition('name="digest" value="')[2].partition('"')[0]
    job = visitor.job(visitor.send("/apply", **asked, digest=digest))
    assert "--require-approval was given" in job.problem
