"""Ed25519 keys: the one that signs a release, and the public halves that this house trusts."""

import hashlib
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cloakwork.errors import OutputError
from cloakwork.home import home, secret_made_once

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

KEY_VARIABLE: Final = "CLOAKWORK_SIGNING_KEY"
_PEM_HEADER: Final = "-----BEGIN"


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key that signs releases.

    ``origin``: where it came from, in words for a person. ``new``: it was made by this call, so its public half should be
    shown. ``public_file``: where the public half is kept for whoever verifies.
    """

    private: "Ed25519PrivateKey" = field(repr=False)
    origin: str
    public_file: Path
    new: bool = False

    @property
    def keyid(self) -> str:
        """SHA-256 of the raw public key, in hex: the name under which the public half is filed."""
        return keyid_of(self.private.public_key())

    @property
    def public_pem(self) -> str:
        """The public half as PEM text, to be given to whoever verifies."""
        return _public_pem(self.private.public_key())

    def sign(self, message: bytes) -> bytes:
        """The Ed25519 signature of ``message`` (RFC 8032): 64 bytes."""
        return self.private.sign(message)


def signing_key(path: str | Path | None = None) -> SigningKey:
    """The key to sign with: ``path``, else ``$CLOAKWORK_SIGNING_KEY`` (a path or PEM text), else one made once in ``home()``.

    Files the public half under ``home()/trusted/<keyid>.pem``, where ``verify`` looks for it. Safe when many processes
    ask at once. Raises OutputError when the key cannot be read, is encrypted, is not PEM or not Ed25519.
    """
    content, origin, new = _private_pem(str(path) if path else os.environ.get(KEY_VARIABLE) or None)
    private = _load_private(content, origin)
    public = private.public_key()
    trusted = _trusted_file(keyid_of(public))
    _keep(trusted, _public_pem(public))
    if origin == str(_own_key()):
        _keep(_own_key().with_suffix(".pub.pem"), _public_pem(public))
    return SigningKey(private=private, origin=origin, public_file=trusted, new=new)


def trusted_key(keyid: str) -> "Ed25519PublicKey | None":
    """The public key filed under ``keyid`` in ``home()/trusted``; None when there is none.

    Raises OutputError when the file is no Ed25519 public key, or is another key than its name says.
    """
    path = _trusted_file(keyid)
    if not path.exists():
        return None
    public = public_key(path)
    if keyid_of(public) != keyid:
        raise OutputError(f"{path}: is not the key that its name says; remove it")
    return public


def public_key(path: Path) -> "Ed25519PublicKey":
    """Read an Ed25519 public key in PEM (SubjectPublicKeyInfo); raises OutputError when ``path`` holds none."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        public = load_pem_public_key(path.read_bytes())
    except OSError as error:
        raise OutputError(f"{path}: the public key cannot be read ({error.strerror})") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise OutputError(f"{path}: is not a public key in PEM form") from error
    if not isinstance(public, Ed25519PublicKey):
        raise OutputError(f"{path}: is not an Ed25519 public key")
    return public


def keyid_of(public: "Ed25519PublicKey") -> str:
    """SHA-256 of the raw 32-byte public key, in hex."""
    return hashlib.sha256(public.public_bytes_raw()).hexdigest()


def _own_key() -> Path:
    return home() / "signing-key.pem"


def _trusted_file(keyid: str) -> Path:
    return home() / "trusted" / f"{keyid}.pem"


def _private_pem(chosen: str | None) -> tuple[bytes, str, bool]:
    """The private key's PEM, where it came from, and whether it was made just now."""
    if chosen is None:
        return _made_once()
    if _PEM_HEADER in chosen:
        return chosen.encode(), f"${KEY_VARIABLE}", False
    try:
        return Path(chosen).read_bytes(), chosen, False
    except OSError as error:
        raise OutputError(f"{chosen}: the signing key cannot be read ({error.strerror})") from error


def _made_once() -> tuple[bytes, str, bool]:
    drafts: list[bytes] = []

    def make() -> bytes:
        drafts.append(_new_private_pem())
        return drafts[-1]

    content = secret_made_once(_own_key(), make)
    return content, str(_own_key()), content in drafts


def _new_private_pem() -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _load_private(content: bytes, origin: str) -> "Ed25519PrivateKey":
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        private = load_pem_private_key(content, password=None)
    except TypeError as error:
        raise OutputError(f"{origin}: the signing key is encrypted; give an unencrypted PKCS#8 key") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise OutputError(f"{origin}: is not a private key in PEM form (PKCS#8)") from error
    if not isinstance(private, Ed25519PrivateKey):
        raise OutputError(f"{origin}: is not an Ed25519 key; make one with: openssl genpkey -algorithm ed25519")
    return private


def _public_pem(public: "Ed25519PublicKey") -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def _keep(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` unless it stands there already; whole or not at all, whoever else does the same."""
    try:
        if path.exists() and path.read_text() == text:
            return
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w") as file:
            file.write(text)
        Path(draft).replace(path)
    except OSError as error:
        raise OutputError(
            f"{path}: the public key cannot be kept there ({error.strerror}); set CLOAKWORK_HOME"
        ) from error
