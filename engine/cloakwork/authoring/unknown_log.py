"""Reading a log that no policy describes yet."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from cloakwork.errors import LogError
from cloakwork.log.eventlog import EventLog
from cloakwork.log.io.detect import DetectedInput, examine_input
from cloakwork.log.io.options import InputOptions, mapped_columns
from cloakwork.log.io.reading import read_log


def read_unknown(
    path: Path,
    columns: Mapping[str, str] | None = None,
    said: Mapping[str, str] | None = None,
) -> tuple[EventLog, DetectedInput]:
    """The log at ``path``, and how it was read: as its file seems to need it.

    ``columns`` and ``said``: which column holds what, and the other keys of ``spec.input``, where
    the author says it. Raises LogError.
    """
    detected = examine_input(path)
    options = _as_said(path, detected.options, columns, said)
    if detected.time_formats and options.time_format is None:
        # For looking at the attributes either will do; the author says which it is.
        looked = options.model_copy(update={"time_format": detected.time_formats[0]})
        return read_log(path, options=looked), replace(detected, options=options)
    return read_log(path, options=options), replace(detected, options=options, time_formats=())


def _as_said(
    path: Path,
    found: InputOptions,
    columns: Mapping[str, str] | None,
    said: Mapping[str, str] | None,
) -> InputOptions:
    """The options, what the author says in place of what was found."""
    try:
        own = mapped_columns(columns or {})
        others = {
            full: column
            for full, column in found.columns.items()
            if full not in own and column not in own.values()
        }
        kept = found.model_dump(exclude={"columns"})
        return InputOptions(**kept | dict(said or {}), columns={**others, **own})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise LogError(path, f"cannot be read with {name}: {first['msg']}") from None
    except ValueError as error:
        raise LogError(path, f"the mapping of columns {error}") from None
