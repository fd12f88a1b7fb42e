"""Ed25519 keys: the one that signs a release, and the public halves of others whose signatures
count here.

Your own key counts because it is yours. Any other counts only once somebody said so (``trust``),
under a name: that a key was used for signing here says nothing about whose it is.

What is signed is an envelope around a JSON document: DSSE v1 (github.com/secure-systems-lab/dsse).
It has one form in bytes, and no other is read.
"""

import base64
import hashlib
import json
import os
import re
from contextlib import suppress
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AfterValidator, AwareDatetime, Field, JsonValue, ValidationError

from cloakwork.base.errors import OutputError, VerificationFailed
from cloakwork.base.files import home, output_fault, private_secret, replace_file, secret_made_once
from cloakwork.base.frozen import frozen
from cloakwork.base.quantities import IF_SAID, Frozen
from cloakwork.base.text import first_fault

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

KEY_VARIABLE: Final = "CLOAKWORK_SIGNING_KEY"
_SHORTEST_ID: Final = 8


class TrustedKey(Frozen):
    """A public key (PEM) that was trusted here, under a name, since a day (UTC); ``approves``:
    whether its approvals of policies count, too.
    """

    keyid: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    name: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$")]
    since: AwareDatetime
    public_key: str
    approves: Annotated[bool, IF_SAID] = False


@frozen
class KnownKeys:
    """Whose signatures count here.

    ``own``: keyid of the key that was made here, if one was. ``trusted``: the others, by name.
    """

    own: str | None
    trusted: tuple[TrustedKey, ...]


@frozen
class SigningKey:
    """A private key that signs releases.

    ``origin``: where it came from, in words for a person. ``new``: it was made by this call, so its
    public half should be shown. ``public_file``: where the public half is kept for whoever
    verifies; None where the key is not your own.
    """

    private: "Ed25519PrivateKey" = field(repr=False)
    origin: str
    public_file: Path | None = None
    new: bool = False

    @property
    def keyid(self) -> str:
        """SHA-256 of the raw public key, in hex: the name under which the public half is filed."""
        return keyid_of(self.private.public_key())

    @property
    def public_pem(self) -> str:
        """The public half as PEM text, to be given to whoever verifies."""
        return _pem_of(self.private.public_key())

    def sign(self, message: bytes) -> str:
        """The Ed25519 signature of ``message`` (RFC 8032), in base64."""
        return base64.b64encode(self.private.sign(message)).decode()


def signing_key(path: str | Path | None = None) -> SigningKey:
    """The key to sign with: ``path``, else ``$CLOAKWORK_SIGNING_KEY`` (a path or PEM text), else
    one made once in ``home()``.

    Nothing becomes trusted by it. Safe when many processes ask at once. Raises OutputError when the
    key cannot be read, is encrypted, is not PEM or not Ed25519, and when others may read your own.
    """
    chosen = str(path) if path else os.environ.get(KEY_VARIABLE)
    own = str(_own_key_file())
    origin = chosen or own
    new = False
    if not chosen:
        content, new = _own_private_pem()
    elif "-----BEGIN" in chosen:
        content = chosen.encode()
        origin = f"${KEY_VARIABLE}"
    else:
        with output_fault(f"{chosen}: the signing key cannot be read"):
            content = Path(chosen).read_bytes()
    private = _load_private(content, origin)
    if origin != own:
        return SigningKey(private=private, origin=origin)
    # Whoever verifies is given the public half.
    public_file = _own_key_file().with_suffix(".pub.pem")
    _write_once(public_file, _pem_of(private.public_key()))
    return SigningKey(private=private, origin=origin, public_file=public_file, new=new)


def signature_of(text: bytes, *, path: str | Path | None = None) -> dict[str, str]:
    """The signature of a text by ``signing_key``, with its ``keyid``, as JSON values."""
    key = signing_key(path)
    return {"keyid": key.keyid, "sig": key.sign(text)}


def signed_by(text: bytes, signature: object) -> str:
    """Whose signature it is, in words, or why it does not count here."""
    match signature:
        case {"keyid": str(keyid), "sig": str(sig)} if re.fullmatch("[0-9a-f]{64}", keyid):
            who = f"key {keyid[:16]}, {why_trusted(keyid)}"
        case _:
            return "no signature"
    public = trusted_key(keyid)
    if public is not None and not is_signature(sig, text, public):
        return f"key {keyid[:16]}, whose signature does not fit"
    return who


def is_signature(sig: str, message: bytes, public: "Ed25519PublicKey") -> bool:
    """Whether ``sig``, in base64, is the owner's of ``public`` over ``message``."""
    from cryptography.exceptions import InvalidSignature

    try:
        public.verify(base64.b64decode(sig, validate=True), message)
    except (InvalidSignature, ValueError):
        return False
    return True


def trusted_key(keyid: str) -> "Ed25519PublicKey | None":
    """The public key of that id: your own, or one that was trusted here; None when it is neither.

    Raises OutputError when a file holds no Ed25519 public key, or another one than its name says.
    """
    if _is_own(keyid):
        return _own_public_key()
    record = _trusted(keyid)
    if record is None:
        return None
    return _parse_public_key(record.public_key.encode(), _trusted_file(keyid))


def why_trusted(keyid: str) -> str:
    """Why signatures of the key ``keyid`` count, as the end of a sentence; "not trusted here" where
    they do not.
    """
    if _is_own(keyid):
        return "your own"
    record = _trusted(keyid)
    if record is None:
        return "not trusted here"
    return f"trusted on {record.since:%Y-%m-%d} under the name {record.name}"


def known_keys() -> KnownKeys:
    """Every key that counts here."""
    own = _own_public_key()
    folder = home() / "trusted"
    with output_fault(f"{folder}: cannot be looked into"):
        found = list(folder.iterdir()) if folder.is_dir() else []
    # Files that are written just now begin with a dot.
    files = [path for path in found if path.suffix == ".json" and not path.name.startswith(".")]
    trusted = sorted(map(_read_trusted, files), key=lambda each: (each.name, each.keyid))
    return KnownKeys(None if own is None else keyid_of(own), tuple(trusted))


def may_approve(keyid: str) -> bool:
    """Whether approvals of policies by the key ``keyid`` count: your own, or one that was trusted
    here to approve.
    """
    if _is_own(keyid):
        return True
    record = _trusted(keyid)
    return record is not None and record.approves


def trust(
    path: Path,
    name: str,
    *,
    approves: bool = False,
) -> TrustedKey:
    """Let signatures of the public key in ``path`` (PEM) count from now on, under ``name``;
    ``approves``: those under approvals of policies as well.

    Raises OutputError when ``path`` holds no such key, or the name is taken by another key or
    cannot be one.
    """
    public = public_key(path)
    keyid = keyid_of(public)
    known = known_keys()
    # A name stands for one key, and your own needs none.
    if keyid == known.own:
        raise OutputError(f"{path}: is your own key, whose signatures count anyway")
    if any(each.name == name and each.keyid != keyid for each in known.trusted):
        taken = f"another key is trusted under the name {name!a}"
        raise OutputError(f"{taken}; choose another name, or untrust that one")
    try:
        record = TrustedKey(
            keyid=keyid,
            name=name,
            since=datetime.now(UTC).replace(microsecond=0),
            public_key=_pem_of(public),
            approves=approves,
        )
    except ValidationError as error:
        raise OutputError(
            f"{name!a} cannot be a name: one line of at most 100 characters"
        ) from error
    _write_once(_trusted_file(keyid), record.model_dump_json(indent=2) + "\n")
    return record


def untrust(which: str) -> TrustedKey:
    """No longer let signatures of a key count: by name, or by the first 8 or more digits of its id.

    Returns what was removed. Raises OutputError when no such key is trusted, or several are.
    """
    known = known_keys()
    if known.own is not None and len(which) >= _SHORTEST_ID and known.own.startswith(which):
        raise OutputError(
            f"{which}: is your own key; it counts as long as it is in {_own_key_file().parent}"
        )
    # A name goes before the digits of an id.
    meant = [each for each in known.trusted if each.name == which]
    if not meant and len(which) >= _SHORTEST_ID:
        meant = [each for each in known.trusted if each.keyid.startswith(which)]
    if len(meant) != 1:
        what = "several keys fit; give more digits" if meant else "no such key is trusted here"
        raise OutputError(f"{which!a}: {what}; see: cloakwork keys list")
    path = _trusted_file(meant[0].keyid)
    with output_fault(f"{path}: cannot be removed"):
        path.unlink()
    return meant[0]


def public_key(path: Path) -> "Ed25519PublicKey":
    """Read an Ed25519 public key in PEM (SubjectPublicKeyInfo); raises OutputError when ``path``
    holds none.
    """
    with output_fault(f"{path}: the public key cannot be read"):
        content = path.read_bytes()
    return _parse_public_key(content, path)


def _parse_public_key(content: bytes, path: Path) -> "Ed25519PublicKey":
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        public = load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise OutputError(f"{path}: is not a public key in PEM form") from error
    if not isinstance(public, Ed25519PublicKey):
        raise OutputError(f"{path}: is not an Ed25519 public key")
    return public


def keyid_of(public: "Ed25519PublicKey") -> str:
    """SHA-256 of the raw 32-byte public key, in hex."""
    return hashlib.sha256(public.public_bytes_raw()).hexdigest()


def _own_key_file() -> Path:
    return home() / "signing-key.pem"


def _own_public_key() -> "Ed25519PublicKey | None":
    """The public half of the key that was made here: from the private one, since a public file
    proves nothing.
    """
    if not _own_key_file().exists():
        return None
    return _load_private(private_secret(_own_key_file()), str(_own_key_file())).public_key()


def _trusted_file(keyid: str) -> Path:
    return home() / "trusted" / f"{keyid}.json"


def _is_own(keyid: str) -> bool:
    own = _own_public_key()
    return own is not None and keyid_of(own) == keyid


def _trusted(keyid: str) -> TrustedKey | None:
    path = _trusted_file(keyid)
    return _read_trusted(path) if path.exists() else None


def _read_trusted(path: Path) -> TrustedKey:
    """A file under ``trusted/``; raises OutputError when it is none, or holds another key than its
    name says.
    """
    try:
        with output_fault(f"{path}: cannot be read"):
            record = TrustedKey.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise OutputError(
            f"{path}: is no trusted key as this version writes them; remove it"
        ) from error
    # The id is computed from the key itself: no record passes under another's name.
    keyid = keyid_of(_parse_public_key(record.public_key.encode(), path))
    if keyid != path.stem or record.keyid != path.stem:
        raise OutputError(f"{path}: is not the key that its name says; remove it")
    return record


def _own_private_pem() -> tuple[bytes, bool]:
    """The private key that is made once in ``home()``, and whether it was made just now."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    # Of several processes that make one, the first one's stays: then ours is only a draft.
    drafts: list[bytes] = []

    def make() -> bytes:
        made = Ed25519PrivateKey.generate()
        drafts.append(made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return drafts[-1]

    content = secret_made_once(_own_key_file(), make)
    return content, content in drafts


def _load_private(content: bytes, origin: str) -> "Ed25519PrivateKey":
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        private = load_pem_private_key(content, password=None)
    except TypeError as error:
        raise OutputError(
            f"{origin}: the signing key is encrypted; give an unencrypted PKCS#8 key"
        ) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise OutputError(f"{origin}: is not a private key in PEM form (PKCS#8)") from error
    if not isinstance(private, Ed25519PrivateKey):
        raise OutputError(
            f"{origin}: is not an Ed25519 key; make one with: openssl genpkey -algorithm ed25519"
        )
    return private


def _pem_of(public: "Ed25519PublicKey") -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def _write_once(path: Path, text: str) -> None:
    """Write ``text`` unless it stands there already: whole or not at all, whoever does the same."""
    try:
        if path.exists() and path.read_text() == text:
            return
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(path, text.encode())
    except OSError as error:
        raise OutputError(
            f"{path}: the public key cannot be kept there ({error.strerror}); set CLOAKWORK_HOME"
        ) from error


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
    sig: Annotated[Base64, Field(max_length=88)]  # 64 bytes


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
    sig = key.sign(pre_authentication_encoding(payload, payload_type))
    envelope = Envelope(
        payload_type=payload_type,
        payload=base64.b64encode(payload).decode(),
        signatures=(Signature(keyid=key.keyid, sig=sig),),
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
    message = pre_authentication_encoding(envelope.content(), envelope.payload_type)
    # The hint only chooses which signature to look at; the key decides.
    hinted = (each.sig for each in envelope.signatures if each.keyid == keyid)
    sig = next(hinted, None)
    return sig is not None and is_signature(sig, message, public)
