"""Reading a sheet of a workbook (.xlsx): a cell is what the workbook says that it is.

A date is a date and a text stays text, whatever it looks like: ``007`` in a text cell is never a
number. Each cell is read a second time as characters, by itself, for attributes that tell cases,
units or activities apart.
"""

import lzma
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from cloakwork.base.errors import LogError, MissingExtra, UnsaidInput, first_line
from cloakwork.base.naming import TIMESTAMP, values_of
from cloakwork.base.text import first_names, shown
from cloakwork.log.formats.apart import require_workbook
from cloakwork.log.formats.column_names import column_names, require_own_names
from cloakwork.log.formats.row_source import Reader, ReadRequest
from cloakwork.log.formats.source import require_bytes
from cloakwork.log.formats.tables import FileTable, TableSource
from cloakwork.log.limits import Limits, refuse_columns, refuse_unpacked

if TYPE_CHECKING:
    from fastexcel import ExcelReader

_BLOCK: Final = 1 << 20
_FIRST_ROWS: Final = 10_000
_LEADING_ROWS: Final = 1_000
_BROKEN: Final = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    OverflowError,
    lzma.LZMAError,
    RuntimeError,
    ValueError,
)
"""What zipfile raises for damage, encryption and ways to pack that it does not know."""

_AGAIN: Final = "save the workbook again as .xlsx, without a password"


def excel_rows(files: Sequence[Path], request: ReadRequest) -> TableSource:
    """The rows of one sheet of a workbook: its first row names the columns, each further one is an
    event.

    Raises MissingExtra without fastexcel, ``LogError`` for what is no such workbook or is over a
    limit.
    """
    (path,) = files
    with _opened(path, request.bounds) as book:
        return _rows_of_sheet(path, book, request)


@contextmanager
def _opened(path: Path, limits: Limits) -> "Iterator[ExcelReader]":
    """A workbook; raises as ``excel_rows`` also for what libraries say while it is read."""
    try:
        import fastexcel
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"{path}: workbooks need fastexcel; pip install 'cloakwork[excel]', "
            "or save the sheet as CSV"
        ) from error
    require_bytes(path)
    # Unpacked once to be counted, before a library takes all of it into memory.
    _refuse_size(path, limits)
    try:
        # In a process apart first: some damage ends the process that meets it.
        require_workbook(path)
        yield fastexcel.read_excel(path)
    except (fastexcel.FastExcelError, pl.exceptions.PolarsError, ValueError, OSError) as error:
        raise LogError(
            path, f"this is no readable workbook ({first_line(error)})", hint=_AGAIN
        ) from None


READER: Final = Reader(
    excel_rows, ("columns", "time_format", "time_zone", "sheet"), of_several=False
)


def first_rows(path: Path, asked: str | None, limits: Limits) -> pl.DataFrame:
    """The first rows of the sheet as the workbook types them; columns without a name have one that
    begins with a NUL. Errors as of ``excel_rows``.
    """
    with _opened(path, limits) as book:
        sheet = _chosen_sheet(path, book.sheet_names, asked)
        header, _, line = _header(path, book, sheet, limits)
        read = book.load_sheet(sheet, header_row=None, skip_rows=line, n_rows=_FIRST_ROWS)
        table = read.to_polars()
    table.columns = [name if name.strip() else f"\0{place}" for place, name in enumerate(header)]
    return table


def _refuse_size(path: Path, limits: Limits) -> None:
    """A workbook is a zip file; a few bytes of it can stand for any number."""
    unpacked = 0
    packed = max(1, path.stat().st_size)
    try:
        with zipfile.ZipFile(path) as archive:
            # Counted as it unpacks, since the sizes that a zip file states may be forged.
            for part in archive.infolist():
                with archive.open(part) as content:
                    while block := content.read(_BLOCK):
                        unpacked += len(block)
                        refuse_unpacked(path, unpacked, packed, limits, "the workbook unpacks to")
    except _BROKEN as error:
        said = f"this is no readable workbook ({first_line(error)})"
        raise LogError(path, said, hint=_AGAIN) from None


def _rows_of_sheet(path: Path, book: "ExcelReader", request: ReadRequest) -> TableSource:
    """As ``excel_rows``, with the libraries' own errors."""
    sheet = _chosen_sheet(path, book.sheet_names, request.written.sheet)
    header, absolute, first_line_number = _header(path, book, sheet, request.bounds)
    names = column_names(path, header, request)
    if names.row_number is not None:
        said = "the rows of a workbook have the order of the sheet"
        raise LogError(path, said, hint="do not name a column for row, or export the sheet as CSV")
    places = [place for place, name in enumerate(header) if name in names.kept]
    kept = [header[place] for place in places]
    used = [absolute[place] for place in places]
    # Every cell twice: as the workbook types it, and as characters.
    read = partial(
        book.load_sheet, sheet, header_row=None, skip_rows=first_line_number, use_columns=used
    )
    typed = read(schema_sample_rows=None).to_polars()
    spelt = read(dtypes="string").to_polars()
    typed.columns = spelt.columns = kept

    texts: dict[str, pl.Series] = {}
    columns: dict[str, pl.Series] = {}
    for name in kept:
        values = values_of(typed, name)
        full = names.kept[name]
        is_time = full in (TIMESTAMP, request.timestamp)
        # What tells cases or activities apart is taken as characters; dates stay dates.
        if full in request.spelt and not (is_time and values.dtype.is_temporal()):
            values = values_of(spelt, name)
        columns[name] = values
        if values.dtype != pl.String:
            texts[name] = values_of(spelt, name)
    table = FileTable(
        path, pl.DataFrame(columns), lambda row: first_line_number + 1 + row, texts=texts
    )
    return TableSource(table, names, request)


def _chosen_sheet(path: Path, names: list[str], asked: str | None) -> str:
    """The sheet that the options name, or the only one; ``LogError`` where that is none."""
    if asked is None and len(names) == 1:
        return names[0]
    if asked in names:
        return asked
    listed = first_names(names)
    if asked is None:
        said = f"the workbook has {len(names)} sheets: {listed}"
        hint = "say which: sheet under spec.input in the policy"
    else:
        said = f"the workbook has no sheet '{shown(asked)}'; it has {listed}"
        hint = "correct spec.input.sheet"
    raise UnsaidInput(path, said, hint=hint, option="sheet", choices=names)


def _header(
    path: Path, book: "ExcelReader", sheet: str, limits: Limits
) -> tuple[list[str], list[int], int]:
    """The cells of the first row that has any, as texts, empty for an empty one; where in the sheet
    each column stands (from 0); and the row's number (from 1).
    """
    # Blank rows come along, so that the number of the first other one is known.
    for most in (_LEADING_ROWS, None):
        read = book.load_sheet(sheet, header_row=None, skip_rows=0, n_rows=most, dtypes="string")
        rows = read.to_polars()
        is_held = rows.select(pl.any_horizontal(pl.all().is_not_null())).to_series()
        if is_held.any():
            break
    else:
        raise LogError(path, f"the sheet '{shown(sheet)}' is empty", hint="name another sheet")
    refuse_columns(path, "the sheet", rows.width, limits, line=1)
    first = int(is_held.arg_max() or 0)
    header = [str(cell or "") for cell in rows.row(first)]
    require_own_names(path, header)
    absolute = [column.absolute_index for column in read.selected_columns]
    return header, absolute, first + 1
