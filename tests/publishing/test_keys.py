"""Signing keys: where they come from, and what is said when they are none."""

import os
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
    PublicFormat,
)

from cloakwork.base.files import home
from cloakwork.errors import OutputError
from cloakwork.publishing.keys import (
    KnownKeys,
    TrustedKey,
    keyid_of,
    known_keys,
    public_key,
    signing_key,
    trust,
    trusted_key,
    untrust,
    why_trusted,
)
from conftest import runs
from forked import forking_server


def a_pem(encryption: KeySerializationEncryption | None = None) -> str:
    private = Ed25519PrivateKey.generate()
    return private.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption()
    ).decode()


def test_a_key_is_made_once_and_says_that_it_is_new() -> None:
    first, second = signing_key(), signing_key()
    assert (first.new, second.new) == (True, False)
    assert first.keyid == second.keyid


def test_the_own_key_is_for_its_owner_alone() -> None:
    signing_key()
    assert stat.S_IMODE((home() / "signing-key.pem").stat().st_mode) == 0o600


def test_the_public_half_lies_beside_it(tmp_path: Path) -> None:
    key = signing_key()
    assert key.public_file == home() / "signing-key.pub.pem"
    assert keyid_of(public_key(home() / "signing-key.pub.pem")) == key.keyid
    assert why_trusted(key.keyid) == "your own"
    assert not (home() / "trusted").exists()


def test_a_given_key_goes_before_the_variable_and_the_own_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = tmp_path / "given.pem"
    given.write_text(a_pem())
    monkeypatch.setenv("CLOAKWORK_SIGNING_KEY", a_pem())
    assert signing_key(given).keyid != signing_key().keyid
    assert not (home() / "signing-key.pem").exists()


@pytest.mark.parametrize("as_text", [True, False])
def test_the_variable_holds_a_path_or_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_text: bool
) -> None:
    pem, path = a_pem(), tmp_path / "ci.pem"
    path.write_text(pem)
    monkeypatch.setenv("CLOAKWORK_SIGNING_KEY", pem if as_text else str(path))
    assert signing_key().keyid == signing_key(path).keyid


def test_a_key_that_signs_here_is_not_trusted_for_that(tmp_path: Path) -> None:
    path = tmp_path / "given.pem"
    path.write_text(a_pem())
    key = signing_key(path)
    assert key.public_file is None
    assert trusted_key(key.keyid) is None
    assert known_keys() == KnownKeys(None, ())


def test_a_trusted_key_counts_under_its_name_until_it_is_untrusted(tmp_path: Path) -> None:
    path, keyid = a_public_file(tmp_path)
    record = trust(path, "the hospital")
    found = trusted_key(keyid)
    assert found is not None and keyid_of(found) == keyid
    assert why_trusted(keyid) == f"trusted on {record.since:%Y-%m-%d} under the name the hospital"
    untrust("the hospital")
    assert trusted_key(keyid) is None and why_trusted(keyid) == "not trusted here"


def test_a_key_is_untrusted_by_the_first_digits_of_its_id(tmp_path: Path) -> None:
    path, keyid = a_public_file(tmp_path)
    trust(path, "a")
    with pytest.raises(OutputError, match="no such key"):
        untrust(keyid[:7])
    removed = untrust(keyid[:8])
    assert isinstance(removed, TrustedKey) and removed.keyid == keyid


def test_two_keys_cannot_share_a_name(tmp_path: Path) -> None:
    trust(a_public_file(tmp_path)[0], "a")
    with pytest.raises(OutputError, match="under the name 'a'"):
        trust(a_public_file(tmp_path)[0], "a")


@pytest.mark.parametrize("name", ["", "a\nb", "\x1b[31mred", "x" * 101])
def test_what_cannot_be_a_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(OutputError, match="cannot be a name"):
        trust(a_public_file(tmp_path)[0], name)


def test_the_own_key_needs_no_trust_and_cannot_lose_it(tmp_path: Path) -> None:
    own = signing_key()
    assert own.public_file is not None
    with pytest.raises(OutputError, match="your own key"):
        trust(own.public_file, "me")
    with pytest.raises(OutputError, match="your own key"):
        untrust(own.keyid)


def test_what_version_0_1_0_filed_does_not_count_until_it_is_trusted_again(tmp_path: Path) -> None:
    path, keyid = a_public_file(tmp_path)
    (home() / "trusted").mkdir(parents=True)
    old = home() / "trusted" / f"{keyid}.pem"
    old.write_bytes(path.read_bytes())
    assert trusted_key(keyid) is None
    assert known_keys().trusted == ()
    trust(old, "the partner")
    assert trusted_key(keyid) is not None


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o622, 0o601])
def test_an_own_key_that_others_may_read_or_change_is_refused(mode: int) -> None:
    signing_key()
    path = home() / "signing-key.pem"
    path.chmod(mode)
    with pytest.raises(OutputError, match=f"chmod 600 {path}") as refused:
        signing_key()
    assert "\n" not in str(refused.value)


def a_public_file(folder: Path) -> tuple[Path, str]:
    """A new public key in PEM, and its id."""
    public = Ed25519PrivateKey.generate().public_key()
    path = folder / f"{keyid_of(public)[:8]}.pub.pem"
    path.write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return path, keyid_of(public)


def test_a_key_under_another_name_is_not_trusted(tmp_path: Path) -> None:
    path, keyid = a_public_file(tmp_path)
    trust(path, "a")
    filed = home() / "trusted" / f"{keyid}.json"
    filed.rename(filed.with_name(f"{'0' * 64}.json"))
    with pytest.raises(OutputError, match="not the key that its name says"):
        trusted_key("0" * 64)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (a_pem(BestAvailableEncryption(b"secret")), "is encrypted"),
        (
            generate_private_key(SECP256R1())
            .private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            .decode(),
            "not an Ed25519 key",
        ),
        ("garbage", "not a private key in PEM form"),
        ("", "not a private key in PEM form"),
        (
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
            "not a private key in PEM form",
        ),
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


AT_ONCE = min(30, runs(10))


def _ask(own_home: str) -> tuple[str, bool]:
    os.environ["CLOAKWORK_HOME"] = own_home
    key = signing_key()
    return key.keyid, key.new


def test_many_processes_at_once_get_one_key() -> None:
    with forking_server().Pool(AT_ONCE) as pool:
        answers = pool.map(_ask, [str(home())] * AT_ONCE, chunksize=1)
    assert len({keyid for keyid, _ in answers}) == 1
    assert sum(new for _, new in answers) == 1
    assert known_keys().own == answers[0][0]
