"""The envelope: the specification's encoding, and strictness about everything else."""

import base64
import json

import pytest

from cloakwork.errors import VerificationFailed
from cloakwork.publishing.keys import (
    SigningKey,
    canonical,
    is_signed_by,
    pre_authentication_encoding,
    read_envelope,
    read_json,
    seal,
)


def test_the_encoding_is_the_specifications_example() -> None:
    encoded = pre_authentication_encoding(b"hello world", "http://example.com/HelloWorld")
    assert encoded == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


def test_what_was_sealed_is_signed_by_its_key(key: SigningKey) -> None:
    envelope = read_envelope(seal(b'{"a":1}', key))
    assert envelope.content() == b'{"a":1}'
    assert is_signed_by(envelope, key.private.public_key(), key.keyid)


def test_another_payload_is_not(key: SigningKey) -> None:
    sealed = json.loads(seal(b'{"a":1}', key))
    sealed["payload"] = base64.b64encode(b'{"a":2}').decode()
    assert not is_signed_by(
        read_envelope(canonical(sealed) + b"\n"), key.private.public_key(), key.keyid
    )


@pytest.mark.parametrize(
    "change",
    [
        {"payloadType": "text/plain"},
        {"signatures": []},
        {"signatures": [{"keyid": "../../etc/passwd", "sig": ""}]},
        {"note": "unsigned words"},
        {"payload": None},
    ],
)
def test_an_envelope_holds_nothing_but_what_is_signed(
    key: SigningKey, change: dict[str, object]
) -> None:
    sealed = json.loads(seal(b"{}", key)) | change
    with pytest.raises(VerificationFailed, match="signed"):
        read_envelope(canonical(sealed) + b"\n")


def test_an_envelope_is_written_in_one_way(key: SigningKey) -> None:
    """The same envelope in other bytes: blanks, another order, an end that says nothing."""
    sealed = seal(b"{}", key)
    value = json.loads(sealed)
    assert canonical(value) + b"\n" == sealed
    for content in (
        json.dumps(value).encode(),
        canonical(value),
        sealed + b"\n",
        json.dumps(dict(reversed(value.items())), separators=(",", ":")).encode() + b"\n",
        sealed.replace(b"application", b"\\u0061pplication"),
    ):
        assert json.loads(content) == value
        with pytest.raises(VerificationFailed, match="is not in canonical form"):
            read_envelope(content)


@pytest.mark.parametrize("payload", ["e30", "e31=", "e30=\n", "é"])
def test_base64_is_strict(key: SigningKey, payload: str) -> None:
    sealed = json.loads(seal(b"{}", key)) | {"payload": payload}
    with pytest.raises(VerificationFailed, match="base64"):
        read_envelope(canonical(sealed) + b"\n")


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"a": NaN}', '{"a": 1, "a": 2}', "[" * 100_000, "\udcff", '{"a": 1} x', "1" * 5000],
)
def test_json_is_strict(text: str) -> None:
    with pytest.raises(ValueError):
        read_json(text.encode("utf-8", "surrogateescape"))


def test_canonical_json_depends_on_the_value_alone() -> None:
    assert canonical({"b": [1.0, 1e-06], "a": "ü"}) == '{"a":"ü","b":[1.0,1e-06]}'.encode()
