"""Reading a log that no policy describes yet."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from cloakwork.errors import LogError
from cloakwork.log.eventlog import EventLog
from cloakwork.log.io.detect import DetectedInput, examine_input
from cloakwork.log.io.options import InputOptions, mapped_columns
from cloakwork.log.io.reading import read_log

LONGEST_EXAMPLE: Final = 60  # characters


def read_unknown(
    path: Path,
    columns: Mapping[str, str] | None = None,
    said: Mapping[str, str] | None = None,
    options: InputOptions | None = None,
) -> tuple[EventLog, DetectedInput]:
    """The log at ``path``, and how it was read: as its file seems to need it.

    ``columns`` and ``said``: which column holds what, and the other keys of ``spec.input``, where
    the author says it; or both as ``options``. Raises LogError, also where it is open which column
    or which part of the file is meant.
    """
    detected = examine_input(path, _as_said(path, options or InputOptions(), columns, said))
    _refuse_open(path, detected)
    looked = detected.options
    if detected.time_formats:
        # For looking at the attributes either will do; the author says which it is.
        looked = looked.model_copy(update={"time_format": detected.time_formats[0]})
    return read_log(path, options=looked), detected


def _as_said(
    path: Path,
    options: InputOptions,
    columns: Mapping[str, str] | None,
    said: Mapping[str, str] | None,
) -> InputOptions:
    """What the author says."""
    try:
        own = mapped_columns(columns or {})
        kept = options.model_dump(exclude={"columns"})
        return InputOptions(**kept | dict(said or {}), columns=options.columns | own)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise LogError(path, f"cannot be read with {name}: {first['msg']}") from None
    except ValueError as error:
        raise LogError(path, f"the mapping of columns {error}") from None


def _refuse_open(path: Path, detected: DetectedInput) -> None:
    """Refuse a file that cannot be read before its author says more, and say how."""
    for answer in detected.unanswered:
        value = next(iter(answer.candidates), "COLUMN")
        if not value.isprintable() or len(value) > LONGEST_EXAMPLE:
            value = "COLUMN" if answer.is_column else "VALUE"
        option = "--column" if answer.is_column else "--input"
        said = f"{answer.name}={value}"
        options = f"{answer.name}={value!r}"
        in_python = f"options=InputOptions({options})"
        if answer.is_column:
            in_python = f"columns={ {answer.name: value} }"
        hint = f"say it, as {option} {shlex.quote(said)} (in Python: {in_python})"
        raise LogError(path, answer.question, hint=hint)
