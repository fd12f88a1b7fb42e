"""What ``spec.input`` of a policy for a file may be: proposals to its author, found in the file.

Never used where a release is made: there the policy says how its log is read.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from cloakwork.errors import MissingExtra
from cloakwork.log.io.column_names import common_column
from cloakwork.log.io.csv import split_table
from cloakwork.log.io.encodings import decoded, likely_encoding
from cloakwork.log.io.guess_columns import guess_columns
from cloakwork.log.io.options import TIMESTAMP, Encoding, InputOptions
from cloakwork.log.io.source import LogStream, format_of, shown
from cloakwork.log.io.time_faults import candidate_formats
from cloakwork.log.io.times import parse_times
from cloakwork.log.limits import Limits, current_limits
from cloakwork.log.naming import values_of

_DELIMITERS: Final = (b",", b";", b"\t", b"|")
_USUAL_DELIMITERS: Final = (b",", b";", b"\t")
_SAMPLE: Final = 4 << 20  # bytes
_ENDS: Final[dict[Encoding, bytes]] = {"utf-16-le": b"\n\0", "utf-16-be": b"\0\n"}
_COMMA_NUMBER: Final = r"^-?(?:[0-9]{1,3}(?:\.[0-9]{3})+|[0-9]+),[0-9]+$"
_POINT_NUMBER: Final = r"^-?[0-9]+\.[0-9]+$"


@dataclass(frozen=True, slots=True)
class DetectedInput:
    """Proposed ``options``; ``questions``: what the file leaves open, one sentence each, such as
    whether the day or the month comes first. ``time_formats``: those that all read its times, where
    there are several. Internal, as all of it comes from the log.
    """

    options: InputOptions
    questions: tuple[str, ...] = ()
    time_formats: tuple[str, ...] = ()


def detect_input(path: str | Path) -> InputOptions:
    """The options that a file seems to need, to be confirmed by the policy's author; what cannot
    be told is left out. LogError for what is no readable file.
    """
    return examine_input(path).options


def examine_input(path: str | Path) -> DetectedInput:
    """As ``detect_input``, with what the file leaves open."""
    file = Path(path)
    limits = current_limits()
    match format_of(file):
        case "csv":
            return _examined_csv(file, limits)
        case "excel":
            return _examined_workbook(file, limits)
        case "ocel-json" | "ocel-sqlite":
            return _examined_objects(file)
        case _:
            return DetectedInput(InputOptions())


def _examined_csv(path: Path, limits: Limits) -> DetectedInput:
    with LogStream(path, limits) as stream:
        data = stream.read(_SAMPLE)
        is_whole = len(data) < _SAMPLE
    encoding = likely_encoding(data if is_whole else data[: data.rfind(b"\n") + 1])
    if not is_whole:
        end = _ENDS.get(encoding, b"\n")
        data = data[: data.rfind(end) + len(end)]
        if encoding == "utf-16":
            data = data[: len(data) // 2 * 2]
    text = decoded(path, data, encoding)
    delimiter = _delimiter(text)
    header, table = split_table(path, text, delimiter.decode(), limits, partial=not is_whole)
    found: dict[str, Any] = {}
    questions: list[str] = []
    if encoding != "utf-8":
        found["encoding"] = encoding
    if not encoding.startswith("utf"):
        questions.append(f"the encoding is taken for {encoding}: look at letters such as ä or é")
    if delimiter not in _USUAL_DELIMITERS or delimiter != _by_first_line(text):
        found["delimiter"] = delimiter.decode()
    columns, open_roles = guess_columns(header, table)
    questions += open_roles
    time = columns.get(TIMESTAMP) or common_column(TIMESTAMP, header)
    others = [name for name in table.columns if name != time]
    times, formats = _times(table, time, questions)
    found |= times
    found |= _decimal(table, others)
    if columns:
        found["columns"] = columns
    return DetectedInput(InputOptions(**found), tuple(questions), formats)


def _by_first_line(text: bytes) -> bytes:
    line = text[: text.find(b"\n")] if b"\n" in text else text
    line = re.sub(rb'"[^"]*"', b"", line)
    return max(_USUAL_DELIMITERS, key=line.count)


def _delimiter(text: bytes) -> bytes:
    """The sign that the first line holds most often outside quotes."""
    line = re.sub(rb'"[^"]*"', b"", text[: text.find(b"\n")] if b"\n" in text else text)
    return max(_DELIMITERS, key=line.count)


def _times(
    table: pl.DataFrame, column: str | None, questions: list[str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The format of a column of times, where ISO 8601 does not read it; several that read it."""
    if column is None:
        return {}, ()
    texts = values_of(table, column)
    if texts.dtype != pl.String:
        return {}, ()
    if not (parse_times(texts).values.is_null() & texts.is_not_null()).any():
        return _zone_question(texts, questions), ()
    formats = candidate_formats(texts)
    if not formats:
        name = shown(column)
        questions.append(f"no usual format reads all times in '{name}': say it, as time_format")
        return {}, ()
    if len(formats) > 1:
        listed = " or ".join(f"'{form}'" for form in formats[:4])
        questions.append(f"which number is the day is ambiguous: time_format is {listed}")
        return {}, tuple(formats[:4])
    if not formats[0].startswith("epoch") and "%z" not in formats[0]:
        questions.append("times name no zone and are taken as UTC: say theirs, as time_zone")
    return {"time_format": formats[0]}, ()


def _zone_question(texts: pl.Series, questions: list[str]) -> dict[str, str]:
    if parse_times(texts).zoneless:
        questions.append("times name no zone and are taken as UTC: say theirs, as time_zone")
    return {}


def _decimal(table: pl.DataFrame, names: Iterable[str]) -> dict[str, str]:
    """A decimal comma, where numbers have one and none has a point."""

    def has(pattern: str) -> Callable[[str], bool]:
        def is_of(name: str) -> bool:
            values = values_of(table, name).drop_nulls()
            return bool(len(values)) and bool(values.str.contains(pattern).any())

        return is_of

    given = list(names)
    if any(map(has(_COMMA_NUMBER), given)) and not any(map(has(_POINT_NUMBER), given)):
        return {"decimal": ","}
    return {}


def _examined_workbook(path: Path, limits: Limits) -> DetectedInput:
    try:
        from cloakwork.log.io.excel import first_rows, sheet_names

        sheets = sheet_names(path, limits)
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"{path}: workbooks need fastexcel; pip install 'cloakwork[excel]'"
        ) from error
    if len(sheets) != 1:
        listed = ", ".join(shown(name) for name in sheets[:12])
        question = f"the workbook has several sheets, so say which, as sheet: {listed}"
        return DetectedInput(InputOptions(), (question,))
    header, table = first_rows(path, sheets[0], limits)
    columns, open_roles = guess_columns(header, table)
    questions = [*open_roles]
    time = columns.get(TIMESTAMP) or common_column(TIMESTAMP, header)
    times, formats = _times(table, time, questions)
    found: dict[str, Any] = {**times}
    if columns:
        found["columns"] = columns
    return DetectedInput(InputOptions(**found), tuple(questions), formats)


def _examined_objects(path: Path) -> DetectedInput:
    """An object-centric log has one question: which type becomes the case."""
    from cloakwork.log.io.ocel import object_types

    types = object_types(path)
    if len(types) == 1:
        return DetectedInput(InputOptions(object_type=types[0]))
    listed = ", ".join(shown(name) for name in types[:12])
    return DetectedInput(
        InputOptions(), (f"which object type is the case, as object_type: {listed}",)
    )
