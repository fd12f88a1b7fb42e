"""Reading a log that no policy describes yet."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cloakwork.errors import LogError
from cloakwork.log.eventlog import EventLog
from cloakwork.log.io.detect import DetectedInput, examine_input
from cloakwork.log.io.reading import read_log


def read_unknown(
    path: Path, columns: Mapping[str, str] | None = None
) -> tuple[EventLog, DetectedInput]:
    """The log at ``path``, and how it was read: as its file seems to need it.

    ``columns``: which column holds what, where the author says it (keys as of ``spec.input``).
    Raises LogError.
    """
    detected = examine_input(path)
    try:
        options = detected.options.with_columns(columns)
    except ValueError as error:
        raise LogError(path, f"the mapping of columns {error}") from None
    return read_log(path, options=options), replace(detected, options=options)
