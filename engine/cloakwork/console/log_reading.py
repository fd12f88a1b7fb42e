"""The fields of a form that say how a log is read, as ``spec.input`` does."""

from typing import Final

from cloakwork.console.visits import Visit
from cloakwork.console.workplace import OutsideFolder

_COLUMNS: Final = (
    ("case", "Column of the case", ""),
    ("activity", "Column of the activity", ""),
    ("timestamp", "Column of the time", ""),
)
_OTHER_COLUMNS: Final = "other_columns"
_OPTIONS: Final = (
    ("time_format", "Time format", "such as %d.%m.%Y %H:%M or epoch-seconds"),
    ("time_zone", "Time zone", "of times that name none, such as Europe/Berlin"),
    ("sheet", "Sheet", "of a workbook"),
    ("object_type", "Object type", "of an object-centric log: its objects become the cases"),
    ("delimiter", "Delimiter", "of a CSV file, such as ; or tab"),
    ("decimal", "Decimal mark", ". or ,"),
    ("encoding", "Encoding", "of a CSV file, such as cp1252"),
    ("format", "Format", "where the name of the file does not say it, such as csv"),
)
READING: Final = (
    *_COLUMNS,
    (_OTHER_COLUMNS, "Columns of the whole case", "case:NAME=COLUMN, divided by semicolons"),
    *_OPTIONS,
)
"""Each field: its name, its label, and a note."""


def reading_sent(visit: Visit) -> tuple[dict[str, str], dict[str, str]]:
    """Which column holds what, and the other keys of ``spec.input``: what the form says."""
    columns = {name: visit.sent(name) for name, _, _ in _COLUMNS if visit.sent(name)}
    for pair in filter(None, map(str.strip, visit.sent(_OTHER_COLUMNS).split(";"))):
        name, sign, column = pair.partition("=")
        if not (sign and name.strip() and column.strip()):
            raise OutsideFolder(f"columns of the whole case: {pair!r} is not case:NAME=COLUMN")
        columns[name.strip()] = column.strip()
    said = {name: visit.sent(name) for name, _, _ in _OPTIONS if visit.sent(name)}
    return columns, said
