"""A signed envelope around a JSON document: DSSE v1 (github.com/secure-systems-lab/dsse), Ed25519
signatures.
"""

import base64
import binascii
import json
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field, JsonValue, ValidationError

from cloakwork.base.errors import VerificationFailed
from cloakwork.base.quantities import Frozen
from cloakwork.base.text import first_fault
from cloakwork.publishing.keys import SigningKey

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"


class Signature(Frozen):
    """One signature over the envelope's payload; ``keyid`` only hints at the key, it proves
    nothing.
    """

    keyid: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    sig: str


class Envelope(Frozen):
    """A payload in base64 with its signatures."""

    payload_type: Annotated[Literal["application/vnd.in-toto+json"], Field(alias="payloadType")] = (
        PAYLOAD_TYPE
    )
    payload: str
    signatures: Annotated[tuple[Signature, ...], Field(min_length=1)]

    def content(self) -> bytes:
        """The payload's bytes; raises VerificationFailed where it is not strict base64."""
        return _bytes_of(self.payload)


def canonical(value: JsonValue) -> bytes:
    """One JSON value as bytes that depend on the value alone: sorted keys, no spaces, UTF-8,
    shortest floats.

    Raises ValueError on infinite numbers, which JSON does not know.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def read_json(content: bytes) -> JsonValue:
    """Parse JSON strictly; raises ValueError on anything else, on a repeated key, and on numbers
    JSON does not know.
    """

    def keys_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        # A dict keeps the last of equal keys, and would hide what others read.
        values = dict(pairs)
        if len(values) != len(pairs):
            raise ValueError("a key stands twice")
        return values

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is not JSON")

    try:
        value: JsonValue = json.loads(content, object_pairs_hook=keys_once, parse_constant=refuse)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def pre_authentication_encoding(payload: bytes, payload_type: str = PAYLOAD_TYPE) -> bytes:
    """What is signed, PAE of the DSSE specification: lengths in decimal, so that type and payload
    cannot be mixed up.
    """
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def seal(payload: bytes, key: SigningKey) -> bytes:
    """Sign ``payload`` and return the envelope as the bytes of a file."""
    signature = key.sign(pre_authentication_encoding(payload))
    envelope = Envelope(
        payload=base64.b64encode(payload).decode(),
        signatures=(Signature(keyid=key.keyid, sig=base64.b64encode(signature).decode()),),
    )
    return canonical(envelope.model_dump(mode="json", by_alias=True)) + b"\n"


def read_envelope(content: bytes) -> Envelope:
    """Parse an envelope without trusting it; raises VerificationFailed on anything that is none."""
    try:
        return Envelope.model_validate(read_json(content))
    except ValidationError as error:
        place, says = first_fault(error)
        raise VerificationFailed(
            [f"statement.json: is not a signed statement: {place}: {says}"]
        ) from error
    except ValueError as error:
        raise VerificationFailed(["statement.json: is not JSON"]) from error


def is_signed_by(envelope: Envelope, public: "Ed25519PublicKey", keyid: str) -> bool:
    """Whether the signature that hints at ``keyid`` was made over this payload by the owner of
    ``public``.
    """
    from cryptography.exceptions import InvalidSignature

    message = pre_authentication_encoding(envelope.content())
    # The hint only chooses which signature to look at; the key decides.
    for signature in envelope.signatures:
        if signature.keyid != keyid:
            continue
        try:
            public.verify(_bytes_of(signature.sig), message)
        except InvalidSignature:
            return False
        return True
    return False


def _bytes_of(text: str) -> bytes:
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise VerificationFailed(
            ["statement.json: payload and signature must be base64"]
        ) from error
    # Several texts decode to the same bytes: unused bits of the last character are not checked.
    if base64.b64encode(content).decode() != text:
        raise VerificationFailed(["statement.json: payload and signature must be canonical base64"])
    return content
