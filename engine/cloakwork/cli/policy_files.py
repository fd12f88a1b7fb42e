"""Files that policy commands write."""

from pathlib import Path

import click

from cloakwork.base.errors import OutputError


def write_new(out: Path, text: str, *, force: bool) -> None:
    """Write ``text``; a file that exists is overwritten only by ``force``."""
    try:
        with out.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise click.UsageError(f"{out} exists; --force overwrites it") from None
    except OSError as error:
        raise OutputError(f"{out}: cannot be written: {error.strerror}") from error
