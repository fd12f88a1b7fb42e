"""Writing a report to a file: whole or not at all, never over another one."""

import os
from pathlib import Path

from cloakwork.base.errors import OutputError
from cloakwork.base.files import new_file, require_new
from cloakwork.publishing.folder import INTERNAL_FOLDER, STATEMENT_FILE


def check_file(out: Path) -> None:
    """Refuse a file that exists, or that would lie among the signed files of a release, before
    anything is computed. Raises OutputError.
    """
    require_new(out)
    place = out.resolve()
    for folder in place.parents:
        if (folder / STATEMENT_FILE).exists() and folder / INTERNAL_FOLDER not in place.parents:
            raise OutputError(
                f"{out}: lies in a release, whose files are signed; name a file outside it"
            )


def write_file(out: Path, content: bytes, *, private: bool) -> None:
    """Write ``content`` to the new file ``out``; ``private``: readable by its owner only. Raises
    OutputError; then there is no file.
    """
    mode = 0o600 if private else 0o666
    with new_file(out) as draft:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
