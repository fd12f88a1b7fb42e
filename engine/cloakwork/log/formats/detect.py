"""What ``spec.input`` of a policy for a file may be: proposals to its author, found in the file.

Never used where a release is made: there the policy says how its log is read.
"""

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final

import polars as pl

from cloakwork.base.errors import UnsaidInput
from cloakwork.base.frozen import frozen
from cloakwork.base.naming import values_of
from cloakwork.base.text import shown
from cloakwork.log.formats.apart import any_zone, parquet_rows
from cloakwork.log.formats.csv import csv_tables
from cloakwork.log.formats.csv_records import SEPARATORS, CsvBlocks
from cloakwork.log.formats.guess_columns import OpenAnswer, guess_columns
from cloakwork.log.formats.options import TIMESTAMP, InputOptions
from cloakwork.log.formats.source import LogStream, files_of, format_of, likely_encoding
from cloakwork.log.formats.written_times import candidate_formats
from cloakwork.log.limits import Limits, current_limits
from cloakwork.log.times import parse_times

_DELIMITERS: Final = SEPARATORS + "|"
_SAMPLE: Final = 4 << 20  # bytes
_FIRST_ROWS: Final = 10_000
_NO_ZONE: Final = "times name no zone and are taken as UTC: say theirs, as spec.input.time_zone"
_COMMA_NUMBER: Final = r"^-?(?:[0-9]{1,3}(?:\.[0-9]{3})+|[0-9]+),[0-9]+$"
_POINT_NUMBER: Final = r"^-?[0-9]+\.[0-9]+$"


NOTHING_STATED: Final = InputOptions()


@frozen
class DetectedInput:
    """Proposed ``options``; ``questions``: what is to be checked, one sentence each, such as
    whether the day or the month comes first. ``time_formats``: those that all read its times, where
    there are several. ``taken``: the columns of the case, the activity and the timestamp.
    ``unanswered``: what has to be said before the file can be read. Internal, as all of it comes
    from the log.
    """

    options: InputOptions
    questions: tuple[str, ...] = ()
    time_formats: tuple[str, ...] = ()
    taken: Mapping[str, str] = field(default_factory=dict)
    unanswered: tuple[OpenAnswer, ...] = ()


def detect_input(path: str | Path, stated: InputOptions = NOTHING_STATED) -> InputOptions:
    """The options that a file seems to need, to be confirmed by the policy's author; what cannot
    be told is left out. ``stated``: what the author says, which stands. LogError for what is no
    readable file, or lacks the sheet that is stated.
    """
    return examine_input(path, stated).options


def examine_input(path: str | Path, stated: InputOptions = NOTHING_STATED) -> DetectedInput:
    """As ``detect_input``, with what the file leaves open."""
    try:
        return _examined(files_of(path)[0], stated)
    except UnsaidInput as unsaid:
        answer = OpenAnswer(unsaid.option, unsaid.problem.message, unsaid.choices)
        return DetectedInput(stated, unanswered=(answer,))


def _examined(file: Path, stated: InputOptions) -> DetectedInput:
    from cloakwork.log.formats.ocel import READ, chosen_type

    limits = current_limits()
    match stated.format or format_of(file):
        case "csv":
            return _examined_csv(file, limits, stated)
        case "excel":
            from cloakwork.log.formats.excel import first_rows

            return _examined_table(first_rows(file, stated.sheet, limits), stated, {}, [])
        case "ocel-json" | "ocel-sqlite" | "ocel-xml" | "ocel-csv" as form:
            # One question: which type becomes the case.
            if stated.object_type is None:
                types = tuple(READ[form](file, limits).object_types)
                chosen = chosen_type(file, types, types[0] if len(types) == 1 else None)
                stated = stated.model_copy(update={"object_type": chosen})
            return DetectedInput(stated)
        case "parquet":
            try:
                with any_zone():
                    places = range(len(pl.read_parquet_schema(file)))
                    height = pl.scan_parquet(file, glob=False).select(pl.len()).collect().item()
                begin = parquet_rows(file, places, min(height, _FIRST_ROWS), _FIRST_ROWS)
                table = next(begin, pl.DataFrame())
            except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError):
                return DetectedInput(stated)  # what is wrong with it, its reader says
            return _examined_table(table, stated, {}, [])
        case _:
            return DetectedInput(stated)


def _examined_csv(path: Path, limits: Limits, stated: InputOptions) -> DetectedInput:
    with LogStream(path, limits) as stream:
        sample = stream.read(_SAMPLE)
    # A sample may end inside a line, so it is judged by its whole lines.
    whole_lines = sample if len(sample) < _SAMPLE else sample[: sample.rfind(b"\n") + 1]
    encoding = stated.encoding or likely_encoding(whole_lines)
    written = InputOptions(encoding=encoding, delimiter=stated.delimiter)
    with LogStream(path, limits) as stream:
        blocks = CsvBlocks(stream, written, _DELIMITERS, _SAMPLE)
        _, tables = csv_tables(blocks)
        _, table = next(tables)
    found: dict[str, Any] = {}
    questions: list[str] = []
    if encoding != "utf-8":
        found["encoding"] = encoding
    if not encoding.startswith("utf") and stated.encoding is None:
        questions.append(f"the encoding is taken for {encoding}: look at letters such as ä or é")
    # Proposed only where readers would not find it by themselves.
    if blocks.separator not in SEPARATORS:
        found["delimiter"] = blocks.separator
    return _examined_table(table, stated, found, questions, has_texts=True)


def _examined_table(
    table: pl.DataFrame,
    stated: InputOptions,
    found: dict[str, Any],
    questions: list[str],
    *,
    has_texts: bool = False,
) -> DetectedInput:
    """What its columns hold and how their times are written, beside what was ``found`` so far;
    ``has_texts``: numbers are texts too.
    """
    # Columns without a name begin with a NUL.
    header = [name for name in table.columns if not name.startswith("\0")]
    guessed = guess_columns(header, table, stated.columns)
    questions += guessed.questions
    time = guessed.taken.get(TIMESTAMP)
    unanswered = [*guessed.unanswered]
    times, formats = _times(table, time, questions, unanswered, stated)
    found |= times
    numbers = [values_of(table, name) for name in table.columns if name != time]

    def any_holds(pattern: str) -> bool:
        return any(values.str.contains(pattern).any() for values in numbers)

    # A decimal comma, where numbers have one and none has a point.
    if has_texts and any_holds(_COMMA_NUMBER) and not any_holds(_POINT_NUMBER):
        found["decimal"] = ","
    columns = {
        full: column
        for full, column in guessed.to_name.items()
        if column not in stated.columns.values()
    }
    said = stated.model_dump(exclude={"columns"}, exclude_none=True)
    options = InputOptions(**found | said, columns=columns | stated.columns)
    return DetectedInput(options, tuple(questions), formats, guessed.taken, tuple(unanswered))


def _times(
    table: pl.DataFrame,
    column: str | None,
    questions: list[str],
    unanswered: list[OpenAnswer],
    stated: InputOptions,
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The format of a column of times, where ISO 8601 does not read it; several that read it."""
    if column is None or column not in table.columns:
        return {}, ()
    texts = values_of(table, column)
    asks_zone = stated.time_zone is None
    # Times of a workbook, and of Parquet that says no zone.
    if asks_zone and texts.dtype.is_temporal() and not getattr(texts.dtype, "time_zone", None):
        questions.append(_NO_ZONE)
    if texts.dtype != pl.String or stated.time_format is not None:
        return {}, ()
    read = parse_times(texts)
    # ISO 8601 reads all of them, so no format is needed.
    if read.values.null_count() == texts.null_count():
        if read.zoneless and asks_zone:
            questions.append(_NO_ZONE)
        return {}, ()
    formats = candidate_formats(texts)
    if not formats:
        question = f"no usual format reads all times in '{shown(column)}'"
        unanswered.append(OpenAnswer("time_format", question, ("%d.%m.%Y %H:%M",)))
        return {}, ()
    if len(formats) > 1:
        listed = " or ".join(f"'{form}'" for form in formats[:4])
        questions.append(f"which number is the day is ambiguous: time_format is {listed}")
        return {}, tuple(formats[:4])
    if not formats[0].startswith("epoch") and "%z" not in formats[0] and asks_zone:
        questions.append(_NO_ZONE)
    return {"time_format": formats[0]}, ()
