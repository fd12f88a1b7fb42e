"""The files of a log that is kept in several."""

import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from cloakwork.base.errors import LogError
from cloakwork.log.formats.source import SUPPORTED, format_by_suffix

_MOST_FILES = 10_000


def files_of(source: str | Path | Sequence[str | Path]) -> tuple[Path, ...]:
    """The files of a log, in the order in which their rows count: those of a folder by their names,
    several as they are given.

    Of a folder, files that are hidden or called ``_...`` are none of its log, as writers of such
    folders have it (``_SUCCESS``); anything else must be a log. Raises ``LogError``.
    """
    if isinstance(source, str | Path):
        path = Path(source)
        return _files_in(path) if path.is_dir() else (path,)
    files = tuple(Path(each) for each in source)
    if not files:
        raise LogError("log", "no file is given", hint="name at least one")
    return _of_one_format(files)


def _files_in(folder: Path) -> tuple[Path, ...]:
    try:
        with os.scandir(folder) as entries:
            listed = (each.name for each in entries if not each.name.startswith((".", "_")))
            # No further than the limit, and one: a folder may hold millions.
            names = sorted(islice(listed, _MOST_FILES + 1))
    except OSError as error:
        said = f"the folder cannot be read ({error.strerror or error})"
        raise LogError(folder, said, hint="grant read permission on it") from None
    if not names:
        raise LogError(folder, "the folder holds no log", hint="check the path")
    if len(names) > _MOST_FILES:
        said = f"the folder holds more than {_MOST_FILES:,} files, the limit"
        raise LogError(folder, said, hint="write fewer, larger files")
    files = tuple(folder / name for name in names)
    for each in files:
        if not each.is_file() or format_by_suffix(each) is None:
            said = "a folder that is read as one log holds what is none"
            raise LogError(each, said, hint=f"remove it; such a folder holds files in {SUPPORTED}")
    return _of_one_format(files)


def _of_one_format(files: tuple[Path, ...]) -> tuple[Path, ...]:
    first = format_by_suffix(files[0])
    for each in files[1:]:
        form = format_by_suffix(each)
        if form != first:
            said = f"the file is {form or 'of no known format'}, and {files[0].name} is {first}"
            raise LogError(each, said, hint="the files of one log are of one format")
    return files
