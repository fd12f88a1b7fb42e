"""The user's folders for configuration and for data, and secrets that are made once."""

import os
import stat
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from cloakwork.base.errors import OutputError


def home() -> Path:
    """``$CLOAKWORK_HOME``, else ``$XDG_CONFIG_HOME/cloakwork``, else ``~/.config/cloakwork``; it
    need not exist.
    """
    if chosen := os.environ.get("CLOAKWORK_HOME"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CONFIG_HOME") or _user_home() / ".config") / "cloakwork"


def data_home() -> Path:
    """``$CLOAKWORK_HOME``, else the platform's folder for a user's data; it need not exist.

    ``~/Library/Application Support/cloakwork`` on macOS, ``%LOCALAPPDATA%\\cloakwork`` on Windows,
    elsewhere ``$XDG_DATA_HOME/cloakwork``, by default ``~/.local/share/cloakwork``.
    """
    if chosen := os.environ.get("CLOAKWORK_HOME"):
        return Path(chosen)
    if sys.platform == "darwin":
        return _user_home() / "Library" / "Application Support" / "cloakwork"
    variable = "LOCALAPPDATA" if sys.platform == "win32" else "XDG_DATA_HOME"
    platform_folder = os.environ.get(variable)
    return Path(platform_folder or _user_home() / ".local" / "share") / "cloakwork"


def _user_home() -> Path:
    try:
        return Path.home()
    except RuntimeError as error:
        raise OutputError("you have no home directory; set CLOAKWORK_HOME") from error


def secret_made_once(path: Path, make: Callable[[], bytes], *, length: int | None = None) -> bytes:
    """The content of ``path``; made on first use, readable by its owner only (0600).

    ``length``: bytes that it must have, where these are always as many; what has another length was
    damaged, and raises OutputError. Safe when many processes ask at once: one of them wins, all
    read the same secret, none reads half of it.
    """
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # mkstemp gives the mode 0600 from the start.
            handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(make())
                with suppress(FileExistsError):
                    os.link(draft, path)
            finally:
                Path(draft).unlink()
    except OSError as error:
        raise OutputError(
            f"{path}: the secret cannot be kept there ({error.strerror}); set CLOAKWORK_HOME"
        ) from error
    secret = private_secret(path)
    if length is not None and len(secret) != length:
        raise OutputError(f"{path}: this secret has {len(secret)} bytes, not {length}: delete it")
    return secret


def private_secret(path: Path) -> bytes:
    """The content of a secret that is yours alone; raises OutputError where others may read or
    change it.
    """
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
                fault = f"others may read or change this secret (mode {mode:o})"
                raise OutputError(f"{path}: {fault}; run: chmod 600 {path}")
            return file.read()
    except OSError as error:
        raise OutputError(
            f"{path}: the secret cannot be read ({error.strerror}); set CLOAKWORK_HOME"
        ) from error
