"""Locks that end with the process that holds them, however it ends: nothing to clean up, no process
id to mistake.
"""

import fcntl
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


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
        if self._handle >= 0:
            with suppress(FileNotFoundError):
                self.path.unlink()
        self.release()


def lock_file(path: Path) -> Lock:
    """Make ``path`` and lock it; waits while another process tests the lock. Raises OSError."""
    while True:
        lock = _locked(path, os.O_RDWR | os.O_CREAT, wait=True)
        if lock is not None:
            return lock


def lock_folder(path: Path) -> Lock | None:
    """Make the folder ``path`` and lock it; None where somebody took it away in between. Raises
    OSError.
    """
    path.mkdir()
    try:
        return _locked(path, os.O_RDONLY, wait=True)
    except FileNotFoundError:
        return None


def lock_if_abandoned(path: Path) -> Lock | None:
    """The lock of a file or folder that no process holds, to be removed under it; None where one
    does, or it is gone.

    Raises OSError where it cannot be opened.
    """
    try:
        return _locked(path, os.O_RDONLY, wait=False)
    except FileNotFoundError:
        return None


def _locked(path: Path, flags: int, *, wait: bool) -> Lock | None:
    """``path`` locked; None where another process holds it, or has replaced what was locked."""
    handle = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        if os.path.samestat(os.fstat(handle), path.lstat()):
            return Lock(path, handle)
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None
