"""Which columns of a file were taken as case, activity and time: what the author of a policy has to
check first.
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from pydantic import ValidationError

from cloakwork.base.errors import LogError
from cloakwork.base.naming import ACTIVITY, CASE_ID, CASE_PREFIX, TIMESTAMP, values_of
from cloakwork.base.text import first_fault, first_names, shown
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats.detect import DetectedInput, examine_input
from cloakwork.log.formats.options import ROLES, InputOptions, mapped_columns
from cloakwork.log.formats.reading import read_log
from cloakwork.log.formats.source import TABLES, format_of

LONGEST_EXAMPLE: Final = 60  # characters


def read_unknown(
    path: Path,
    columns: Mapping[str, str] | None = None,
    said: Mapping[str, str] | None = None,
    options: InputOptions | None = None,
) -> tuple[EventLog, DetectedInput]:
    """The log at ``path``, and how it was read: as its file seems to need it.

    ``columns`` and ``said``: which column holds what, and the other keys of ``spec.input``, where
    the author says it; or both as ``options``. A column of a table with one value on all rows of
    every case is read as an attribute of cases. Raises LogError, also where it is open which column
    or which part of the file is meant.
    """
    # What the author says goes before what the file seems to be.
    detected = examine_input(path, _as_said(path, options or InputOptions(), columns, said))
    _refuse_open(path, detected)
    looked = detected.options
    if detected.time_formats:
        # For looking at the attributes either will do; the author says which it is.
        looked = looked.model_copy(update={"time_format": detected.time_formats[0]})
    try:
        log = read_log(path, options=looked)
        if (looked.format or format_of(path)) not in TABLES or not (names := _same_in_cases(log)):
            return log, detected
        columns = {**looked.columns, **{CASE_PREFIX + name: name for name in names}}
        options = detected.options.model_copy(update={"columns": columns})
        looked = looked.model_copy(update={"columns": columns})
        return read_log(path, options=looked), replace(detected, options=options)
    except LogError as error:
        problem = error.problem
        hint = error.problem.hint
        if hint is None or "spec.input" not in hint:
            raise
        # Who reads it has no policy yet: the remedy is an option of the command.
        hint = re.sub(r" ?under spec\.input( in the policy)?", " as --input NAME=VALUE", hint)
        hint = hint.replace("spec.input.columns, or --column", "--column")
        hint = hint.replace("spec.input.", "--input ")
        raise LogError(problem.path, problem.message, line=problem.line, hint=hint) from None


def _same_in_cases(log: EventLog) -> list[str]:
    """The attributes of events that have one value in each case, and several in the log."""
    # A case's events stand together.
    is_inside = np.diff(log.case_of, prepend=-1) == 0
    changes = log.events.select(pl.all().ne_missing(pl.all().shift()))
    inside = changes.filter(is_inside).sum()
    return [
        name
        for name in changes.columns
        if is_inside.any()
        and name not in (ACTIVITY, TIMESTAMP)
        and CASE_PREFIX + name not in log.cases.columns
        # The first value of all changes from none.
        and values_of(changes, name).sum() > 1
        and not values_of(inside, name).item()
    ]


def _as_said(
    path: Path,
    options: InputOptions,
    columns: Mapping[str, str] | None,
    said: Mapping[str, str] | None,
) -> InputOptions:
    try:
        own = mapped_columns(columns or {})
        kept = options.model_dump(exclude={"columns"})
        return InputOptions(**kept | dict(said or {}), columns=options.columns | own)
    except ValidationError as error:
        name, says = first_fault(error)
        raise LogError(path, f"cannot be read with {name}: {says}") from None
    except ValueError as error:
        raise LogError(path, f"the mapping of columns {error}") from None


def _refuse_open(path: Path, detected: DetectedInput) -> None:
    """Refuse a file that cannot be read before its author says more, and say how."""
    for answer in detected.unanswered:
        value = next(iter(answer.candidates), "COLUMN")
        # The name goes into a command: neither a long one, nor one that a terminal would obey.
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


def named_unit(path: Path, unit: str | None) -> tuple[str | None, dict[str, str]]:
    """The attribute of cases that the author names as the protected unit, and the column that is
    to be read as it, where the file is a table.
    """
    if unit is None:
        return None, {}
    full = unit if unit.startswith(CASE_PREFIX) else CASE_PREFIX + unit
    is_column = full != unit and format_of(path) in TABLES
    return full, {full: unit} if is_column else {}


def require_unit(path: Path, log: EventLog, attribute: str | None) -> None:
    """Refuse a log without the attribute of cases that is to be the unit."""
    if attribute is None or attribute in log.cases.columns:
        return
    own = [name for name in log.cases.columns if name != CASE_ID]
    listed = first_names(own) or "none"
    raise LogError(
        path,
        f"the cases have no attribute '{shown(attribute)}'; they have {listed}",
        hint="name one of these as --unit",
    )


_IN_WORDS: Final = {"case": "the case", "activity": "the activity", "timestamp": "the event time"}


def taken_columns(detected: DetectedInput, *, has_times: bool = True) -> dict[str, str]:
    """By the words case, activity and timestamp what each is read from: a column of a table, else
    the standard attribute, or the type of objects that become cases.
    """
    found = {role: detected.taken.get(full, full) for role, full in ROLES.items()}
    if detected.options.object_type is not None:
        found["case"] = detected.options.object_type
    if not has_times:
        del found["timestamp"]
    return found


def taken_in_words(detected: DetectedInput, *, has_times: bool = True) -> str:
    """The same as one line.

    >>> taken_in_words(DetectedInput(InputOptions(), taken={"case:concept:name": "Fall"}))
    "Taken as the case: 'Fall'; the activity: 'concept:name'; the event time: 'time:timestamp'"
    """
    found = taken_columns(detected, has_times=has_times)
    takings = [f"{_IN_WORDS[role]}: '{shown(name)}'" for role, name in found.items()]
    if detected.options.object_type is not None:
        # The case stands first.
        takings[0] = f"the case: each object of type '{shown(found['case'])}'"
    return f"Taken as {'; '.join(takings)}"
