"""Writing a report to a file: whole or not at all, never over another one."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from cloakwork.errors import OutputError
from cloakwork.publishing.folder import INTERNAL_FOLDER


def check_file(out: Path, folder: Path) -> None:
    """Refuse a file that exists, or that would lie among the signed files of the release in
    ``folder``, before anything is computed. Raises OutputError.
    """
    if out.exists() or out.is_symlink():
        raise OutputError(f"{out}: exists already, and nothing is overwritten; name a new file")
    inside = folder.resolve() in out.resolve().parents
    if inside and (folder / INTERNAL_FOLDER).resolve() not in out.resolve().parents:
        raise OutputError(f"{out}: lies in the release itself; name a file outside it")


def write_file(out: Path, content: bytes, *, private: bool) -> None:
    """Write ``content`` to the new file ``out``; ``private``: readable by its owner only. Raises
    OutputError; then there is no file.
    """
    draft = out.with_name(f".{out.name}.{secrets.token_hex(4)}")
    mode = 0o600 if private else 0o666
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
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
