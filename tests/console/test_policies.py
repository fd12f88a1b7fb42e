"""The editor: faults at their lines, advice, saving, and what changed. Versions and approvals: four
eyes in the pages, too.
"""

import html
import json
from pathlib import Path

import pytest

from cloakwork.authoring.versions import text_digest
from cloakwork.policy.document import read_document
from cloakwork.publishing.keys import signing_key
from conftest import ROOT
from console.conftest import LOG, POLICY, Visitor


def _text(folder: Path) -> str:
    return (folder / POLICY).read_text("utf-8")


def test_the_list_tells_which_are_valid(visitor, folder):
    (folder / "broken.yaml").write_text("kind: PrivacyPolicy\n")
    page = visitor.get("/policies").text
    assert "dp-control-flow 1.0.0" in page
    assert "3 to correct" in page


def test_a_fault_is_shown_at_its_line(visitor, folder):
    """The same place and words as ``policy validate``."""
    wrong = _text(folder).replace("kind: differential-privacy", "kind: differential-privac")
    line = next(
        number for number, text in enumerate(wrong.splitlines(), 1) if "differential-privac" in text
    )
    page = visitor.send("/policy/check", file=POLICY, text=wrong, digest="").text
    assert f'data-line="{line}"' in page
    assert "did you mean" in page
    assert "differential-privac\n" in page  # what was typed stays in the editor


def test_live_findings_are_a_part_of_a_page(visitor, folder):
    page = visitor.send("/policy/check", file=POLICY, text=_text(folder), live="1").text
    assert "<html" not in page
    assert "Valid: dp-control-flow 1.0.0" in page
    assert "Whom it protects" in page or "What this is" in page


def test_saving_writes_what_was_typed(visitor, folder):
    """Line ends of the web become those of the file."""
    text = _text(folder)
    changed = text.replace("version: 1.0.0", "version: 1.1.0")
    sent = changed.replace("\n", "\r\n")
    answer = visitor.send("/policy/save", file=POLICY, text=sent, digest=text_digest(text))
    assert answer.status_code == 303
    assert _text(folder) == changed
    assert "dp-control-flow 1.1.0" in visitor.get(answer.headers["location"]).text


def _at(*steps: str | int) -> str:
    return json.dumps(list(steps))


def test_the_form_is_a_view_that_writes_into_the_text(visitor, folder):
    """Comments and order stay; a text that it cannot change alone is left as it is, and says so."""
    text = (ROOT / "policies" / "kanon-dp-timestamps.yaml").read_text("utf-8")
    (folder / "k.yaml").write_text(text)
    k, rest = _at("spec", "guarantees", 0, "k"), _at("spec", "attributes", "*", "treatment")
    page = html.unescape(visitor.get("/policy?file=k.yaml").text)
    assert f'name="at {k}" value="10"' in page and "epsilon of metric-privacy" in page
    form = {f"at {k}": "7", f"was {k}": "10", f"at {rest}": "drop", f"was {rest}": "drop"}
    asked = {"file": "k.yaml", "text": text, "digest": text_digest(text)}
    live = html.unescape(visitor.send("/policy/check", live="1", **asked, **form).text)
    assert "<html" not in live and 'value="7" inputmode' in live
    assert "k: 7                     # at least 10 cases" in live
    hostile = (
        ({f"at {k}": "7\n  x: 1"}, "cannot stand there"),
        ({f"at {rest}": "keep, role: sensitive", f"was {rest}": "drop"}, "cannot stand there"),
        ({f"at {_at('metadata', 'name')}": "me"}, "the form showed another text"),
        ({"text": text.replace("k: 10 ", "k: &k 10 ") + "\n  x: *k", **form}, "only its text"),
    )
    for fields, why in hostile:
        page = html.unescape(visitor.send("/policy/save", **asked | fields).text)
        assert "NOT saved" in page and why in page
        assert (folder / "k.yaml").read_text("utf-8") == text
    assert visitor.send("/policy/save", **asked, **form).status_code == 303
    assert (folder / "k.yaml").read_text("utf-8") == text.replace("k: 10 ", "k: 7 ")


@pytest.mark.usefixtures("few_turns", "few_looked_for")
def test_a_number_is_measured_with_less_and_more_of_it(visitor, folder):
    """As it stands in the editor, unsaved; under differential privacy on a stand-in."""
    epsilon = _at("spec", "guarantees", 0, "epsilon")
    asked = {
        "file": POLICY,
        "text": _text(folder),
        "log": LOG,
        "sweep": "differential-privacy.epsilon",
    }
    page = visitor.result(visitor.send("/policy/measure", **asked, **{f"at {epsilon}": "2"}))
    for value in ("0.5", "1", "2", "4", "8"):
        assert f'data-setting="differential-privacy.epsilon {value}"' in page
    assert "A stand-in" in page and "Cases found" in page and "0.0%" in page
    assert len(visitor.state.ledger().events("compared")) == 1
    refused = visitor.send("/policy/measure", **asked | {"sweep": "k"})
    assert "no such number" in refused.text


def test_what_a_proposal_asks_is_answered_in_the_form(visitor, folder):
    """As ``policy answer`` does it: the rule says it, and the guarantee covers it."""
    line = '    "case:age": {role: sensitive, treatment: drop}   # a reason; asked: which ages?'
    text = _text(folder).replace("  attributes:\n", f"  attributes:\n{line}\n")
    asked = {"file": POLICY, "text": text, "digest": ""}
    page = html.unescape(visitor.send("/policy/check", **asked).text)
    assert "case:age: which ages?" in page
    said = {"answer case:age": "0..120"}
    page = html.unescape(visitor.send("/policy/check", **asked, **said).text)
    assert "range: [0, 120], type: integer" in page and "which ages?" not in page


def test_a_file_that_changed_meanwhile_is_not_overwritten(visitor, folder):
    before = _text(folder)
    (folder / POLICY).write_text(before + "# by somebody else\n")
    answer = visitor.send("/policy/save", file=POLICY, text="mine", digest=text_digest(before))
    assert "NOT saved" in answer.text
    assert ">\nmine</textarea>" in answer.text
    assert _text(folder).endswith("# by somebody else\n")


def test_advice_beside_a_log(visitor, folder):
    """An attribute that the log lacks is named, with what it may have been."""
    text = _text(folder).replace("attributes:\n", "attributes:\n    age: {role: sensitive}\n")
    (folder / "more.yaml").write_text(text)
    page = visitor.result(visitor.send("/policy/lint", file="more.yaml", log=LOG))
    assert "Internal." in page
    assert "case:age" in page


def test_what_changed_between_two(visitor, folder):
    looser = _text(folder).replace("epsilon: 1.0", "epsilon: 2.0", 1)
    assert looser != _text(folder)
    (folder / "looser.yaml").write_text(looser)
    page = visitor.get(f"/diff?old={POLICY}&new=looser.yaml").text
    assert "The new policy protects less than the old one" in page
    assert "The two policies say the same" in visitor.get(f"/diff?old={POLICY}&new={POLICY}").text


def test_the_schema_is_that_of_policies(visitor):
    found = visitor.get("/policy/schema").json()
    assert found["title"] == "Cloakwork privacy policy, version 1"


def test_a_policy_from_the_template_of_a_sector(visitor, folder):
    """What was said stands in it; what was not is a question that the editor shows at its line."""
    assert '<option value="hospital">' in visitor.get("/policies").text
    asked = {"template": "hospital", "out": "ward", "owner": 'Ann "<i>" Author'}
    answer = visitor.send("/policy/new", **asked)
    assert answer.headers["location"] == "/policy?file=ward.yaml"
    text = (folder / "ward.yaml").read_text("utf-8")
    assert read_document(text, "ward.yaml").content["metadata"]["owner"] == asked["owner"]
    page = visitor.get("/policy?file=ward.yaml").text
    assert "is still to be filled in" in page and "<i>" not in page
    refusals: tuple[tuple[dict[str, str], str], ...] = (
        ({}, "exists already"),
        ({"out": "../x"}, "is no path inside"),
        ({"out": "b", "template": "../hospital"}, "there is no such template"),
    )
    for changed, words in refusals:
        refused = visitor.send("/policy/new", **(asked | changed))
        assert refused.status_code == 400 and words in refused.text


NAME = "dp-control-flow@1.0.0"


def _approve(visitor: Visitor, person: str) -> str:
    asked = {"of": NAME, "person": person, "reason": "checked <x-mark>"}
    answer = visitor.send("/registry/approve", **asked)
    return answer.text if answer.status_code != 303 else ""


def test_an_author_cannot_approve(visitor):
    """Whatever name is typed: the key tells."""
    answer = visitor.send("/registry/add", file=POLICY, author="Ann", reason="first")
    assert answer.headers["location"] == "/registry/version?of=dp-control-flow%401.0.0"
    assert "an author cannot approve" in _approve(visitor, "Bob")
    assert "not approved" in visitor.get("/registry").text


def test_a_second_person_approves_and_revokes(visitor, tmp_path, monkeypatch):
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


def test_who_and_why_must_be_said(visitor):
    answer = visitor.send("/registry/add", file=POLICY, author=" ")
    assert "nothing was said of who wrote it" in answer.text
    assert not visitor.state.ledger().exists()


def test_a_version_is_planned_and_released(visitor):
    """From the registry's text, whatever became of the file."""
    visitor.send("/registry/add", file=POLICY, author="Ann", reason="first")
    (visitor.folder / POLICY).unlink()
    assert f'<option value="{NAME}">' in visitor.get("/plan").text
    assert visitor.release("out", policy=NAME).state == "done"


def test_a_dataset_that_requires_approval_takes_no_other(visitor):
    declared = visitor.send(
        "/dataset/declare", name="hospital-emergency", owner="Ward", require_approval="1"
    )
    assert declared.status_code == 303
    job = visitor.release("out")
    assert (job.state, job.exit_code) == ("failed", 3)
    assert "is not approved" in job.problem
    assert not (visitor.folder / "out").exists()


def test_a_release_may_ask_for_approval_itself(visitor):
    asked = {"policy": POLICY, "log": "hospital.csv.gz", "out": "out", "require_approval": "1"}
    page = visitor.result(visitor.send("/plan", **asked))
    digest = page.partition('name="digest" value="')[2].partition('"')[0]
    job = visitor.job(visitor.send("/apply", **asked, digest=digest))
    assert "--require-approval was given" in job.problem
