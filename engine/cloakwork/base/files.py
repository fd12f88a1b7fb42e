"""Files of the user's own: where they lie, secrets that are made once, locks that end with the
process that holds them, and new files, whole or not at all and never over another one.
"""

import fcntl
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from socket import gethostname
from typing import Final

from cloakwork.base.errors import OutputError

_DRAFT: Final = ".cloakwork-file"


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
    # Each platform has its own place.
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


def secret_made_once(
    path: Path,
    make: Callable[[], bytes],
    *,
    length: int | None = None,
) -> bytes:
    """The content of ``path``; made on first use, readable by its owner only (0600).

    ``length``: bytes that it must have, where these are always as many; what has another length was
    damaged, and raises OutputError. Safe when many processes ask at once: one of them wins, all
    read the same secret, none reads half of it.
    """
    # What a killed process left may hold the secret, which is never made again.
    with suppress(OSError):
        remove_abandoned(path.parent, _DRAFT)
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # A link replaces no file: of several processes the first one wins.
            with suppress(FileExistsError), _draft_of(path, make(), 0o600) as draft:
                os.link(draft, path)
    except OSError as error:
        raise OutputError(
            f"{path}: the secret cannot be kept there ({error.strerror}); set CLOAKWORK_HOME"
        ) from error
    secret = private_secret(path)
    if length is not None and len(secret) != length:
        raise OutputError(f"{path}: this secret has {len(secret)} bytes, not {length}: delete it")
    return secret


def replace_file(
    path: Path,
    content: bytes,
    *,
    private: bool = True,
) -> None:
    """Write ``path`` whole or not at all, whoever does the same. Raises OSError.

    ``private``: readable by its owner only; else with the mode of the file that stands there, or of
    a new one.
    """
    with _draft_of(path, content, 0o600 if private else 0o666) as draft:
        if not private and path.exists():
            shutil.copymode(path, draft)
        # Replacing a file is one step for its readers.
        draft.replace(path)


@contextmanager
def _draft_of(path: Path, content: bytes, mode: int) -> Iterator[Path]:
    """What is to become ``path``. Raises OSError."""
    with draft_folder(path.parent, _DRAFT) as folder:
        draft = folder / "new"
        make_file(draft, content, mode)
        yield draft


def make_file(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Make a new file; ``mode``, from its first moment on, is narrowed by the umask. Raises
    OSError.
    """
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)


def private_secret(path: Path) -> bytes:
    """The content of a secret that is yours alone; raises OutputError where others may read or
    change it.
    """
    try:
        with path.open("rb") as file:
            # Of the open file, which nobody can exchange between the check and the reading.
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
                fault = f"others may read or change this secret (mode {mode:o})"
                raise OutputError(f"{path}: {fault}; run: chmod 600 {path}")
            return file.read()
    except OSError as error:
        raise OutputError(
            f"{path}: the secret cannot be read ({error.strerror}); set CLOAKWORK_HOME"
        ) from error


@dataclass(slots=True)
class Lock:
    """An open, locked file or folder; the kernel unlocks it when this process ends or ``release``
    is called.
    """

    path: Path
    _handle: int

    def release(self) -> None:
        """Unlock. Releasing twice does nothing."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def remove(self) -> None:
        """Unlock, and remove the file that was made to be locked."""
        # Removed while it is locked, so that nobody locks a file that is about to go.
        if self._handle >= 0:
            remove_if_possible(self.path)
        self.release()

    def remove_folder(self) -> None:
        """Remove the folder with all that is in it, as far as that can be done, and unlock."""
        # What is left the next start removes.
        with suppress(MemoryError):
            shutil.rmtree(self.path, ignore_errors=True)
        self.release()


def remove_if_possible(path: Path) -> None:
    """Remove a file that the next start removes otherwise."""
    # Where an object is cleared away nobody hears of an error.
    with suppress(OSError, MemoryError):
        path.unlink()


def lock_file(path: Path) -> Lock:
    """Make ``path`` and lock it; waits while another process tests the lock. Raises OSError."""
    # Again where somebody took the file away before it was locked.
    while True:
        lock = _locked(path, os.O_RDWR | os.O_CREAT, wait=True)
        if lock is not None:
            return lock


def lock_folder(parent: Path, prefix: str) -> Lock:
    """Make a folder in ``parent`` and lock it; its name is ``prefix``, this host, the number of
    this process and one of its own. Raises OSError.
    """
    # Again where somebody took the folder away before it was locked.
    while True:
        path = parent / f"{prefix}-{gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        path.mkdir()
        with suppress(FileNotFoundError):
            lock = _locked(path, os.O_RDONLY, wait=True)
            if lock is not None:
                return lock


def remove_abandoned(parent: Path, prefix: str) -> int:
    """Remove the folders of ``lock_folder`` whose process on this host is dead; how many there
    were. Raises OSError.
    """
    # Whole names: a host called "node" leaves those of "node-2" alone.
    own_names = re.compile(rf"{re.escape(f'{prefix}-{gethostname()}')}-\d+-[0-9a-f]+")
    removed = 0
    for folder in list(parent.iterdir()):
        if not own_names.fullmatch(folder.name) or folder.is_symlink() or not folder.is_dir():
            continue
        try:
            lock = lock_if_abandoned(folder)
        except OSError:  # of another user
            continue
        if lock is not None:
            lock.remove_folder()
            removed += not folder.exists()
    return removed


@contextmanager
def draft_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """A hidden folder in ``parent`` that is gone afterwards, unless it was renamed; after a kill,
    when the next one is made. Raises OSError.
    """
    # There are parents that may be written to and not listed.
    with suppress(OSError):
        remove_abandoned(parent, prefix)
    lock = lock_folder(parent, prefix)
    try:
        yield lock.path
    finally:
        lock.remove_folder()


def lock_if_abandoned(path: Path) -> Lock | None:
    """The lock of a file or folder that no process holds, to be removed under it; None where one
    does, or it is gone.

    Raises OSError where it cannot be opened.
    """
    try:
        return _locked(path, os.O_RDONLY, wait=False)
    except FileNotFoundError:
        return None


def _locked(
    path: Path,
    flags: int,
    *,
    wait: bool,
) -> Lock | None:
    """``path`` locked; None where another process holds it, or has replaced what was locked."""
    # No link is followed, and no child process keeps the lock.
    handle = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        # Somebody may have replaced the file between opening and locking.
        if os.path.samestat(os.fstat(handle), path.lstat()):
            return Lock(path, handle)
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None


@contextmanager
def output_fault(what: str) -> Iterator[None]:
    """Tell an OSError of the block as an OutputError: what cannot be done, and why."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"{what} ({error.strerror})") from error


def require_new(out: Path) -> None:
    """Raise OutputError where the new file ``out`` cannot be, before anything is computed."""
    if out.is_dir():
        raise OutputError(f"{out}: is a folder; name a file in it")
    if os.path.lexists(out):
        raise OutputError(f"{out}: exists already, and nothing is overwritten; name a new file")
    if not out.parent.is_dir():
        raise OutputError(f"{out}: cannot be written, there is no folder {out.parent}")


@contextmanager
def new_file(out: Path) -> Iterator[Path]:
    """A place beside ``out`` for the block to write to; at its end the file gets its name.

    Raises OutputError where ``out`` exists or cannot be written; then, as after any error of the
    block, there is no file.
    """
    try:
        # Written beside, so that the name appears at once.
        with draft_folder(out.parent, _DRAFT) as folder:
            draft = folder / "new"
            yield draft
            # A link, for to rename would replace a file that came up meanwhile.
            os.link(draft, out)
    except FileExistsError:
        raise OutputError(
            f"{out}: exists already, and nothing is overwritten; name a new file"
        ) from None
    except OSError as error:
        raise OutputError(f"{out}: cannot be written ({error.strerror or error})") from error
