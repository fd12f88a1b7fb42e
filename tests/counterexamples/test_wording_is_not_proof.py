"""C12: wording is not proof: a corrected word leaves every release as valid as before, and no
foreign word is believed.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cloakwork
from cloakwork import guarantees
from cloakwork.errors import CloakworkError, PlanUnsound
from cloakwork.plan.model import Plan
from cloakwork.plan.planner import make_plan, prove
from cloakwork.plan.policies import load_shipped
from made_releases import MadeRelease


@pytest.fixture
def released(release_of: Callable[[str], MadeRelease], tmp_path: Path) -> Path:
    """A copy of a release of the shipped example, signed with the user's own key."""
    return shutil.copytree(release_of("kanon-dp-timestamps").folder, tmp_path / "out")


def reworded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a later version does that mends the sentences of two kinds of guarantee."""
    for kind in (guarantees.KAnonymity, guarantees.MetricPrivacy):
        before = kind.sentence
        monkeypatch.setattr(
            kind,
            "sentence",
            lambda self, before=before: before(self).replace("released", "published"),
        )


def test_a_corrected_word_leaves_earlier_releases_valid(
    released: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records are compared: statement, plan and stamp still fit, whatever the sentences say now."""
    cloakwork.verify(released)
    reworded(monkeypatch)
    try:
        assert cloakwork.verify(released).checks
    except CloakworkError as error:
        pytest.fail(f"a corrected word voids an earlier release: {error}")


def test_a_corrected_word_leaves_a_written_plan_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that was reviewed yesterday is proved today."""
    written = make_plan(load_shipped("kanon-dp-timestamps")).model_dump_json(by_alias=True)
    reworded(monkeypatch)
    try:
        assert prove(Plan.model_validate_json(written))
    except PlanUnsound as error:
        pytest.fail(f"a corrected word voids a plan: {error}")


def test_no_claim_is_a_sentence() -> None:
    """Derivations, assumptions, exposures and caveats say by a kind what they are, and by
    parameters what they say.
    """
    plan = json.loads(make_plan(load_shipped("kanon-dp-timestamps")).model_dump_json(by_alias=True))
    records = [
        record
        for claim in plan["claims"]
        for record in (*claim["derivation"], *claim["assumptions"])
    ]
    assert records and all(
        isinstance(record, dict) and record["kind"] for record in [*records, *plan["warnings"]]
    )


def test_a_changed_record_is_found() -> None:
    """What is no prose is compared: one parameter of one assumption is enough."""
    plan = json.loads(make_plan(load_shipped("kanon-dp-timestamps")).model_dump_json(by_alias=True))
    assert prove(Plan.model_validate(plan))
    for forge in (_drop_assumption, _drop_given, _drop_reason, _other_exposure):
        forged = json.loads(json.dumps(plan))
        forge(forged)
        with pytest.raises(PlanUnsound):
            prove(Plan.model_validate(forged))


def _drop_assumption(plan: Any) -> None:
    plan["claims"][1]["assumptions"].pop()


def _drop_given(plan: Any) -> None:
    plan["claims"][1]["given"] = None


def _drop_reason(plan: Any) -> None:
    plan["claims"][0]["derivation"].pop()


def _other_exposure(plan: Any) -> None:
    plan["exposed"][0]["why"] = {"kind": "policy", "reason": "nobody minds"}


def test_nothing_signed_speaks_of_premises(released: Path) -> None:
    """A careless rename once put the word for a case's building into signed statements."""
    plan = make_plan(load_shipped("kanon-dp-timestamps")).model_dump_json()
    assert "premises" not in plan + (released / "plan.json").read_text("utf-8")


def test_words_put_into_a_plan_are_not_shown(released: Path) -> None:
    """A report words the records itself: a flattering sentence in a signed plan reaches no
    reader.
    """
    from cloakwork.publishing.keys import seal, signing_key
    from cloakwork.publishing.statement import file_digest

    plan = json.loads((released / "plan.json").read_text("utf-8"))
    plan["steps"][1]["why"] = plan["claims"][0]["sentence"] = "FLATTERY"
    (released / "plan.json").write_text(json.dumps(plan), "utf-8")
    statement = _payload(released)
    for guaranteed in statement["predicate"]["guarantees"]:
        guaranteed["sentence"] = "FLATTERY"
    for subject in statement["subject"]:
        subject["digest"]["sha256"] = file_digest(released / subject["name"])
    canonical = json.dumps(
        statement, sort_keys=True, separators=(",", ":"), ensure_ascii=False
    ).encode()
    (released / "statement.json").write_bytes(seal(canonical, signing_key()))

    from cloakwork.report.render import render

    assert "FLATTERY" not in render(released, "public", "html")


def _payload(folder: Path) -> Any:
    import base64

    return json.loads(
        base64.b64decode(json.loads((folder / "statement.json").read_text("utf-8"))["payload"])
    )
