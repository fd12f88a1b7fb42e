"""New files: whole or not at all, and never over another one."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cloakwork.base.errors import OutputError


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
    draft = out.with_name(f".{out.name}.{secrets.token_hex(4)}")
    try:
        yield draft
        os.link(draft, out)
    except FileExistsError:
        raise OutputError(
            f"{out}: exists already, and nothing is overwritten; name a new file"
        ) from None
    except OSError as error:
        raise OutputError(f"{out}: cannot be written ({error.strerror or error})") from error
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()
