"""Logs that are read by options (``spec.input``): tables as people have them, workbooks,
object-centric logs; and the options, right or wrong, that each is read with.
"""

import io
import random
import tempfile
from pathlib import Path
from typing import Final

from openpyxl import Workbook

from cloakwork.log.formats.options import InputOptions
from log.formats.object_logs import write_json, write_sqlite

_COLUMNS: Final = {"case": "Fall", "activity": "Schritt", "timestamp": "Zeit"}
_HEADER: Final = ["Fall", "Schritt", "Zeit", "Betrag", "Kunde"]
_ROWS: Final = [
    [str(case), step, f"{13 + day}.03.2024 0{day}:30", f"{case}.234,5", f"K{case % 3}"]
    for case in range(6)
    for day, step in enumerate(("Prüfung", "Bescheid", 'Ab"schluß'))
]


def _text(delimiter: str) -> str:
    quoted = [[f'"{cell.replace(chr(34), chr(34) * 2)}"' for cell in row] for row in _ROWS]
    return "".join(delimiter.join(row) + "\r\n" for row in [_HEADER, *quoted])


def with_options() -> tuple[tuple[str, bytes], ...]:
    """Tables that need options."""
    return tuple(
        ("log.csv", _text(delimiter).encode(encoding))
        for delimiter in ";|\t"
        for encoding in ("utf-8", "cp1252", "utf-16", "utf-16-le")
    )


def of_other_formats() -> tuple[tuple[str, bytes], ...]:
    """A workbook and an object-centric log, twice."""
    book, out = Workbook(), io.BytesIO()
    assert book.active is not None
    for row in [_HEADER, *_ROWS]:
        book.active.append(row)
    book.save(out)
    with tempfile.TemporaryDirectory() as folder:
        made = [write_json(Path(folder) / "log.json"), write_sqlite(Path(folder) / "log.sqlite")]
        logs = [(path.name, path.read_bytes()) for path in made]
    return (("log.xlsx", out.getvalue()), *logs, *logs)


def options_of(kind: str, seed: int) -> InputOptions | None:
    """The options that an input is read with; None for those that need none."""
    chance = random.Random(f"options {seed}")
    if kind == "other":
        return chance.choice([_OBJECTS, _OBJECTS, InputOptions.model_validate(_WORKBOOK)])
    if kind != "options":
        return None
    columns = chance.choice([_COLUMNS, _COLUMNS, _COLUMNS | {"case:kunde": "Kunde"}, {}])
    return InputOptions(
        columns=columns,
        delimiter=chance.choice([";", ";", "|", "\t", None]),
        encoding=chance.choice(["utf-8", "cp1252", "utf-16", "utf-16-le", "latin-1", None]),
        time_format=chance.choice(["%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M", "epoch-seconds", None]),
        time_zone=chance.choice(["Europe/Berlin", None]),
        decimal=chance.choice([",", None]),
    )


_OBJECTS: Final = InputOptions(object_type="order")
_WORKBOOK: Final = {"columns": _COLUMNS, "time_format": "%d.%m.%Y %H:%M", "format": "excel"}
