"""Signing keys: where they come from, and what is said when they are none."""

import multiprocessing
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from cloakwork.errors import OutputError
from cloakwork.home import home
from cloakwork.report.keys import keyid_of, public_key, signing_key, trusted_key


def a_pem(encryption: KeySerializationEncryption | None = None) -> str:
    private = Ed25519PrivateKey.generate()
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption()).decode()


def test_a_key_is_made_once_and_says_that_it_is_new() -> None:
    first, second = signing_key(), signing_key()

    assert (first.new, second.new) == (True, False)
    assert first.keyid == second.keyid


def test_the_own_key_is_for_its_owner_alone() -> None:
    signing_key()

    assert stat.S_IMODE((home() / "signing-key.pem").stat().st_mode) == 0o600


def test_the_public_half_lies_beside_it_and_among_the_trusted() -> None:
    key = signing_key()

    for path in (home() / "signing-key.pub.pem", home() / "trusted" / f"{key.keyid}.pem"):
        assert keyid_of(public_key(path)) == key.keyid
        assert path.read_text() == key.public_pem


def test_a_given_key_goes_before_the_variable_and_the_own_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = tmp_path / "given.pem"
    given.write_text(a_pem())
    monkeypatch.setenv("CLOAKWORK_SIGNING_KEY", a_pem())

    assert signing_key(given).keyid != signing_key().keyid
    assert not (home() / "signing-key.pem").exists()


@pytest.mark.parametrize("as_text", [True, False])
def test_the_variable_holds_a_path_or_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_text: bool) -> None:
    pem, path = a_pem(), tmp_path / "ci.pem"
    path.write_text(pem)
    monkeypatch.setenv("CLOAKWORK_SIGNING_KEY", pem if as_text else str(path))

    assert signing_key().keyid == signing_key(path).keyid


def test_every_key_used_is_trusted_here_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "given.pem"
    path.write_text(a_pem())
    key = signing_key(path)

    found = trusted_key(key.keyid)

    assert found is not None and keyid_of(found) == key.keyid


def test_a_key_under_another_name_is_not_trusted() -> None:
    key = signing_key()
    key.public_file.rename(key.public_file.with_name(f"{'0' * 64}.pem"))

    with pytest.raises(OutputError, match="not the key that its name says"):
        trusted_key("0" * 64)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (a_pem(BestAvailableEncryption(b"secret")), "is encrypted"),
        (
            generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
            "not an Ed25519 key",
        ),
        ("garbage", "not a private key in PEM form"),
        ("", "not a private key in PEM form"),
        ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "not a private key in PEM form"),
    ],
)
def test_what_is_no_key_is_refused_in_one_line(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "wrong.pem"
    path.write_text(content)

    with pytest.raises(OutputError, match=said) as refused:
        signing_key(path)

    assert "\n" not in str(refused.value)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("name", ["missing.pem", "."])
def test_an_unreadable_key_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(OutputError, match="cannot be read"):
        signing_key(tmp_path / name)


def test_key_text_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOAKWORK_SIGNING_KEY", a_pem()[:-30])

    with pytest.raises(OutputError) as refused:
        signing_key()

    assert "BEGIN" not in str(refused.value)


def _ask(_: int) -> tuple[str, bool]:
    key = signing_key()
    return key.keyid, key.new


def test_thirty_processes_at_once_get_one_key() -> None:
    with multiprocessing.get_context("spawn").Pool(30) as pool:
        answers = pool.map(_ask, range(30), chunksize=1)

    assert len({keyid for keyid, _ in answers}) == 1
    assert sum(new for _, new in answers) == 1
    assert sorted(path.name for path in (home() / "trusted").iterdir()) == [f"{answers[0][0]}.pem"]
