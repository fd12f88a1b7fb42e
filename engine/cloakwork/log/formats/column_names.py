"""Which column of a table is which attribute."""

import difflib
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cloakwork.base.errors import LogError
from cloakwork.base.frozen import frozen
from cloakwork.base.naming import ACTIVITY, CASE_ID, CASE_PREFIX, TIMESTAMP
from cloakwork.base.text import shown
from cloakwork.log.formats.options import ROLES, ROW_NUMBER
from cloakwork.log.formats.row_source import ReadRequest

_OTHER_CASE_PREFIX: Final = "CASE_"
_COMMON: Final = {
    CASE_ID: (CASE_ID, "case_id", "caseid", "case id", "case", "case_concept_name", "trace_id"),
    ACTIVITY: (
        ACTIVITY,
        "activity",
        "event",
        "activity_name",
        "event_name",
        "task",
        "concept_name",
    ),
    TIMESTAMP: (
        TIMESTAMP,
        "timestamp",
        "time",
        "complete_time",
        "completetime",
        "complete timestamp",
        "end_time",
        "event_time",
        "datetime",
        "date",
        "time_timestamp",
    ),
}
_ALIKE: Final = 0.7
"""Below, another name is no slip of the pen: ``Patientenname`` is not ``concept:name``."""

MEANING: Final = {CASE_ID: "case id", ACTIVITY: "activity", TIMESTAMP: "timestamp"}


@frozen
class ColumnNames:
    """Which columns of a table are read (``kept``: the file's name -> the full name), and what was
    guessed about them. ``mapped``: attributes of cases whose columns the options name.
    ``row_number``: the column that numbers the rows, which is no attribute; None: they have the
    order of the file.
    """

    kept: dict[str, str]
    notes: tuple[str, ...]
    mapped: frozenset[str] = frozenset()
    row_number: str | None = None

    @property
    def columns(self) -> list[str]:
        """All columns that are read, as the file calls them."""
        return [*self.kept] if self.row_number is None else [*self.kept, self.row_number]


def column_names(
    path: Path,
    header: Sequence[str],
    request: ReadRequest,
) -> ColumnNames:
    """Find what is asked for in ``header``: as the options say, by standard or else common names.

    Where another attribute than the standard one is the activity or the timestamp, the standard one
    need not be there. ``timeless``: a table without a column called ``time:timestamp`` has no
    times. ``LogError`` when one is missing. Columns without a name are left out.
    """
    unnamed = sum(not name.strip() for name in header)
    header = [name for name in header if name.strip()]
    requested = dict(request.written.columns)
    row_number = requested.pop(ROW_NUMBER, None)
    if row_number is not None:
        _require_column(path, ROW_NUMBER, row_number, header)
        header = [name for name in header if name != row_number]
    name_of: dict[str, str] = {}
    notes: list[str] = []
    required = [CASE_ID]
    if request.activity == ACTIVITY or ACTIVITY in requested:
        required.append(ACTIVITY)
    has_times = request.timestamp == TIMESTAMP and not request.timeless
    if has_times or TIMESTAMP in requested or TIMESTAMP in header:
        required.append(TIMESTAMP)
    # Standard attributes first: a column that stands for one is no other attribute.
    # A column that is asked for as something else is no candidate for one that is not asked for.
    free = [name for name in header if name not in requested.values()]
    for standard in required:
        asked = requested.get(standard)
        if asked is not None and asked not in header:
            said = f"there is no column {_in_quotes(asked)}"
            raise _missing_column(path, standard, said, (asked,), header)
        found = asked or common_column(standard, header if standard in header else free)
        if found is None:
            said = f"there is no column for the {MEANING[standard]}"
            raise _missing_column(path, standard, said, _COMMON[standard], header)
        name_of[found] = standard
        if found != standard and asked is None:
            notes.append(f"column '{shown(found)}' was taken as the {MEANING[standard]}")
    for full, name in requested.items():
        if full not in _COMMON:
            _require_column(path, full, name, header)
            name_of[name] = full
    kept: dict[str, str] = {}
    column_of: dict[str, str] = {}
    for name in header:
        full = name_of.get(name) or full_name(name)
        if not ((name in name_of and full in _COMMON) or request.keeps(full)):
            continue
        # Two columns for one attribute: neither may win unseen.
        if full in column_of:
            columns = f"'{shown(column_of[full])}' and '{shown(name)}'"
            raise LogError(
                path,
                f"columns {columns} both stand for '{shown(full)}'",
                hint="remove or rename one of them",
            )
        kept[name], column_of[full] = full, name
    # Another attribute than a standard one may stand for the activity or the time.
    timestamp = None if request.timeless else request.timestamp
    role = "to which the policy gives the role"
    for own, why in (
        (request.activity, f"{role} control-flow"),
        (timestamp, f"{role} timestamp"),
        (request.written.starts, "which spec.input.starts names"),
        (request.written.activity_with, "which spec.input.activity_with names"),
    ):
        if own is not None and own not in _COMMON and own not in column_of:
            said = f"there is no column {_in_quotes(own)}, {why}"
            remedy = "correct the policy, or the file"
            raise _no_column(path, said, own, header, remedy)
    if unnamed:
        notes.append(f"columns without a name, left out: {unnamed}")
    mapped = frozenset(full for full in requested if full not in _COMMON)
    return ColumnNames(kept, tuple(notes), mapped, row_number)


def _require_column(path: Path, full: str, name: str, header: Sequence[str]) -> None:
    if name not in header:
        said = f"there is no column {_in_quotes(name)} for '{shown(full)}'"
        raise _no_column(path, said, name, header, "correct spec.input.columns, or --column")


def _no_column(
    path: Path,
    said: str,
    name: str,
    header: Sequence[str],
    remedy: str,
) -> LogError:
    similar = _similar_name((name,), header)
    guess = "" if similar is None else f"did you mean {_in_quotes(similar)}? "
    said += f"; the columns are {_listing(header)}"
    return LogError(path, said, line=1, hint=guess + remedy)


def common_column(standard: str, header: Sequence[str]) -> str | None:
    """The column that is taken for a standard one without being named; None for none."""
    if standard in header:
        return standard
    # Reversed: of two names that differ in case alone the first one counts.
    lowered = {name.strip().lower(): name for name in reversed(header) if name not in _COMMON}
    return next((lowered[name] for name in _COMMON[standard] if name in lowered), None)


def full_name(name: str) -> str:
    """The attribute name for a column: ``CASE_x`` is another way to write ``case:x``."""
    if name.startswith(_OTHER_CASE_PREFIX):
        return CASE_PREFIX + name.removeprefix(_OTHER_CASE_PREFIX)
    return name


def _missing_column(
    path: Path,
    standard: str,
    message: str,
    expected: Sequence[str],
    header: Sequence[str],
) -> LogError:
    line = 1 if path.suffix.lower() in {".csv", ".gz"} else None
    # Of a text file, an unrecognised separator is the likelier cause.
    remedy = None
    if header and header[0].lower().startswith("sep="):
        remedy = "remove the line 'sep=...'; columns are separated by , or ; or tab"
    elif len(header) == 1 and "|" in header[0]:
        remedy = "say delimiter: '|' under spec.input in the policy"
    if line and remedy:
        said = "the separator of the columns is not recognised"
        return LogError(path, said, line=line, hint=remedy)
    others = [name for name in header if name == standard or name not in _COMMON]
    similar = _similar_name(expected, others)
    advice = "name the column that holds it:"
    if similar:
        advice = f"did you mean {_in_quotes(similar)}? then"
    # Only a name that can be typed belongs in a command.
    is_typed = similar is not None and similar.isprintable() and len(similar) <= 60
    column = similar if is_typed else "COLUMN"
    # The word that the help of --column uses.
    word = next(word for word, full in ROLES.items() if full == standard)
    option = f"--column {shlex.quote(f'{word}={column}')}"
    hint = f"{advice} {option} (in Python: columns={ {standard: column} })"
    said = f"{message}; the columns are {_listing(header)}"
    return LogError(path, said, line=line, hint=hint)


def _listing(header: Sequence[str]) -> str:
    more = ", ..." if len(header) > 12 else ""
    # In quotes only where blanks around a name would not be seen.
    listed = (shown(name) if name == name.strip() else _in_quotes(name) for name in header[:12])
    return ", ".join(listed) + more


def _in_quotes(name: str) -> str:
    """A column's name in quotes, blanks around it included."""
    if name == name.strip():
        return f"'{shown(name)}'"
    return repr(name if len(name) <= 60 else name[:57] + "...")


def _similar_name(expected: Sequence[str], header: Sequence[str]) -> str | None:
    """The name of the header that is most like the first of those expected that any is like."""
    lowered = {name.lower(): name for name in header}
    for name in expected:
        for match in difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=_ALIKE):
            return lowered[match]
    return None


def require_own_names(path: Path, header: Sequence[str]) -> None:
    """Raise ``LogError`` where two columns of a file have one name; empty names are none."""
    repeated = [name for name, count in Counter(header).items() if count > 1 and name.strip()]
    if repeated:
        raise LogError(
            path,
            f"two columns are called '{shown(repeated[0])}'",
            line=1,
            hint="give each column a name of its own",
        )
