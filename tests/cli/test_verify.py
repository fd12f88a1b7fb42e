"""``verify`` as a user types it, and what ``verify`` and ``report`` take for a folder."""

import json
from pathlib import Path

import pytest

from cli.typed import typed
from cloakwork.publishing.keys import SigningKey
from publishing.conftest import _taken_as_proved  # noqa: F401 - a fixture


def test_verify_says_what_was_verified(
    published: Path,
    key: SigningKey,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    code, out, err = typed(capsys, "verify", published)

    assert (code, err) == (0, "")
    assert len(out.splitlines()) <= 25
    assert out.startswith(f"{published}: verified")
    for said in (
        "hospital-process-discovery 1.0.0; dataset hospital-2014; protected: each case",
        f"key {key.keyid[:16]}, your own",
        "metric privacy of a value, per 1 h: epsilon 1",
        "metadata: how many cases",
        "the smallest group holds 3 released cases",
        "derived again",
        "that this plan ran on that dataset, with fresh noise",
        "5f0c2a, made ",
        "internal folder: never pass it on",
    ):
        assert said in " ".join(out.split()), said


def test_verify_all_lists_every_check(published: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        "ok  signature: made over this statement by key"
        in typed(capsys, "verify", published, "--all")[1]
    )


def test_verify_as_json_prints_one_document(
    published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = typed(capsys, "verify", published, "--json")

    assert code == 0
    assert json.loads(out)["verified"] is True


def test_a_failed_verification_is_told_on_standard_error(
    published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (published / "plan.json").write_text("{}")
    code, out, err = typed(capsys, "verify", published)

    assert (code, out) == (5, "")
    assert err.strip() == "verification failed: plan.json: is not the file that was signed"


def test_a_failed_verification_as_json(published: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (published / "plan.json").unlink()
    code, out, _ = typed(capsys, "verify", published, "--json")

    assert code == 5
    said = json.loads(out)
    assert (said["verified"], said["mismatches"]) == (False, ["plan.json: is missing"])
    assert said["error"]["kind"] == "VerificationFailed"


def test_verify_with_the_signers_key(
    published: Path, key: SigningKey, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed(capsys, "verify", published, "--public-key", key.public_file)[0] == 0


@pytest.mark.parametrize("command", ["verify", "report"])
def test_what_is_no_folder_is_a_usage_error(
    published: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert typed(capsys, command, published / "nothing")[0] == 2
    assert typed(capsys, command, published / "plan.json")[0] == 2
