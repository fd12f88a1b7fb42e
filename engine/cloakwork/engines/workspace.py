"""A private folder for batches of a raw log: gone when nobody needs it any more, and, where a
process was killed, at the next start.
"""

import os
import secrets
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cloakwork.base.errors import OutputError
from cloakwork.base.files import data_home, lock_folder, remove_abandoned

WORK_FOLDER: Final = "CLOAKWORK_WORK"
"""The environment's name for where such folders are made."""

_PREFIX: Final = "work"


def work_home() -> Path:
    """``$CLOAKWORK_WORK``, which must exist, else the folder ``work`` in the user's data folder.

    Raises OutputError: raw rows must not go where nobody meant them to, because a name was
    misspelt or a disk was not mounted.
    """
    chosen = os.environ.get(WORK_FOLDER)
    if not chosen:
        return data_home() / "work"
    folder = Path(chosen)
    if not folder.is_dir():
        raise OutputError(f"{folder}: there is no such folder ({WORK_FOLDER}); make it first")
    return folder


class Workspace:
    """A folder (mode 0700) that is locked while this process lives, and removed with this object.

    Files in it hold rows of the raw log. Raises OutputError where it cannot be made.
    """

    def __init__(self, parent: Path | None = None) -> None:
        home = work_home() if parent is None else parent
        try:
            home.mkdir(parents=True, exist_ok=True, mode=0o700)
            remove_abandoned(home, _PREFIX)
            lock = lock_folder(home, _PREFIX)
            lock.path.chmod(0o700)
        except OSError as error:
            raise OutputError(
                f"{home}: no folder for batches of the log can be made there ({error.strerror}); "
                f"set {WORK_FOLDER} to a folder of your own"
            ) from error
        self.path: Final = lock.path
        self._close = weakref.finalize(self, lock.remove_folder)

    def close(self) -> None:
        """Remove the folder now. Closing twice does nothing."""
        self._close()


def new_paths(workspace: Workspace) -> Callable[[], Path]:
    """What names a new file of the workspace, in any process."""
    folder = workspace.path
    return lambda: folder / f"{secrets.token_hex(12)}.batch"


@contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """Say in one line, as an OutputError, why a file of a workspace cannot be written: most likely
    its disk is full.
    """
    try:
        yield
    except OSError as error:
        # The workspace's own folder is gone when somebody reads of this.
        own = (folder for folder in path.parents if folder.name.startswith(_PREFIX))
        home = next(own, path).parent
        # polars has the reason in its text alone.
        reason = error.strerror or str(error).partition(" (os error")[0]
        raise OutputError(
            f"{home}: batches of the log cannot be written there ({reason}); make room, "
            f"or set {WORK_FOLDER} to a folder on a larger disk"
        ) from error
