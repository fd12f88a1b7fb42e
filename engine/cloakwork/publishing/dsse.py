"""A signed envelope around a JSON document: DSSE v1 (github.com/secure-systems-lab/dsse), Ed25519
signatures. An envelope has one form in bytes, and no other is read.
"""

import base64
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AfterValidator, Field, JsonValue, ValidationError

from cloakwork.base.errors import VerificationFailed
from cloakwork.base.quantities import Frozen
from cloakwork.base.text import first_fault
from cloakwork.publishing.keys import SigningKey

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
"""Of statements about releases."""


def _canonical_base64(text: str) -> str:
    # Several texts decode to the same bytes: unused bits of the last character are not checked.
    with suppress(ValueError):
        if base64.b64encode(base64.b64decode(text, validate=True)).decode() == text:
            return text
    raise ValueError("must be canonical base64")


Base64 = Annotated[str, AfterValidator(_canonical_base64)]


class Signature(Frozen):
    """One signature over the envelope's payload; ``keyid`` only hints at the key, it proves
    nothing.
    """

    keyid: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    sig: Base64


class Envelope(Frozen):
    """A payload in base64 with its signatures."""

    payload_type: Annotated[str, Field(alias="payloadType")]
    payload: Base64
    signatures: Annotated[tuple[Signature, ...], Field(min_length=1)]

    def content(self) -> bytes:
        """The payload's bytes."""
        return base64.b64decode(self.payload)

    def as_file(self) -> bytes:
        """The envelope as the bytes of a file."""
        return canonical(self.model_dump(mode="json", by_alias=True)) + b"\n"


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


def seal(payload: bytes, key: SigningKey, payload_type: str = PAYLOAD_TYPE) -> bytes:
    """Sign ``payload`` and return the envelope as the bytes of a file."""
    signature = key.sign(pre_authentication_encoding(payload, payload_type))
    envelope = Envelope(
        payload_type=payload_type,
        payload=base64.b64encode(payload).decode(),
        signatures=(Signature(keyid=key.keyid, sig=base64.b64encode(signature).decode()),),
    )
    return envelope.as_file()


def read_envelope(
    content: bytes, payload_type: str = PAYLOAD_TYPE, name: str = "statement.json"
) -> Envelope:
    """Parse an envelope without trusting it; ``name``: what errors call the file. Raises
    VerificationFailed on anything that ``seal`` would not write.
    """
    try:
        envelope = Envelope.model_validate(read_json(content))
    except ValidationError as error:
        place, says = first_fault(error)
        raise VerificationFailed([f"{name}: is no signed document: {place}: {says}"]) from error
    except ValueError as error:
        raise VerificationFailed([f"{name}: is not JSON"]) from error
    if envelope.payload_type != payload_type:
        raise VerificationFailed([f"{name}: is not signed as {payload_type}"])
    if envelope.as_file() != content:
        raise VerificationFailed([f"{name}: is not in canonical form"])
    return envelope


def is_signed_by(envelope: Envelope, public: "Ed25519PublicKey", keyid: str) -> bool:
    """Whether the signature that hints at ``keyid`` was made over this payload by the owner of
    ``public``.
    """
    from cryptography.exceptions import InvalidSignature

    message = pre_authentication_encoding(envelope.content(), envelope.payload_type)
    # The hint only chooses which signature to look at; the key decides.
    for signature in envelope.signatures:
        if signature.keyid != keyid:
            continue
        try:
            public.verify(base64.b64decode(signature.sig), message)
        except InvalidSignature:
            return False
        return True
    return False
