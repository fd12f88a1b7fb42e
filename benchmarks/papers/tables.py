"""Published tables as data: one file a table in ``published/``, one row a figure.

A file says ``paper``, ``table`` and ``runs``; ``logs``: what the paper calls a log, and its
``file`` here, or why it is ``absent``; ``columns`` with ``each``: what the figures of one line
differ by (``measure``, or the name of a parameter). ``published``: a figure; a text, where the
paper has no more than words; null where it has nothing.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

PUBLISHED = Path(__file__).resolve().parent / "published"
TABLES = ("libra-2", "libra-3", "sacofa", "travag", "ddpm", "pretsa-4", "pretsa-5", "pretsa-6")
KEYS = {"paper", "table", "runs", "logs", "rows", "columns", "each", "note", "delta", "rate", "b"}


class TableError(Exception):
    """A file of published figures is not what it should be."""


@dataclass(frozen=True)
class Row:
    """One published figure, and on which log and with which parameters."""

    log: str
    parameters: dict[str, Any]
    measure: str
    published: Any
    beside: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """One table; ``logs``: by the paper's name ``file``, ``absent``, ``small`` and ``unsure``."""

    name: str
    paper: str
    title: str
    runs: int
    logs: dict[str, dict[str, Any]]
    rows: tuple[Row, ...]
    note: str = ""


def read_table(name: str, folder: Path = PUBLISHED) -> Table:
    """The table ``name``; TableError where a figure is missing or a log is unknown."""
    file = folder / f"{name}.yaml"
    said = yaml.safe_load(file.read_text("utf-8"))
    if unknown := said.keys() - KEYS:
        raise TableError(f"{file.name}: nobody reads '{min(unknown)}'")
    if lacking := {"paper", "table", "runs", "logs", "rows"} - said.keys():
        raise TableError(f"{file.name}: there is no '{min(lacking)}'")
    common = {key: said[key] for key in ("delta", "rate", "b") if key in said}
    rows = tuple(row for line in said["rows"] for row in _rows(file.name, said, line, common))
    known = (said["paper"], said["table"], said["runs"], said["logs"])
    return Table(name, *known, rows, said.get("note", ""))


def has_figures(row: dict[str, Any]) -> bool:
    """Whether anything was measured, of ours or of what is taken by itself."""
    return bool(row.get("runs") or row.get("runs_by_choice"))


def _rows(file: str, said: dict[str, Any], line: dict[str, Any], common: dict[str, Any]) -> Any:
    where = f"{file}: {line.get('log')} {line.get('parameters', '')}"
    if line.get("log") not in said["logs"]:
        raise TableError(f"{where}: the log is not among 'logs'")
    if "published" not in line:
        raise TableError(f"{where}: the published figure is missing")
    parameters = common | line.get("parameters", {})
    beside = line.get("beside", {})
    if "columns" not in said:
        yield Row(line["log"], parameters, line["measure"], line["published"], beside)
        return
    columns, each = said["columns"], said.get("each", "measure")
    for figures in (line["published"], *beside.values()):
        if not isinstance(figures, list) or len(figures) != len(columns):
            raise TableError(f"{where}: a published figure is missing of {columns}")
    for place, column in enumerate(columns):
        others = {who: figures[place] for who, figures in beside.items()}
        if each == "measure":
            yield Row(line["log"], parameters, column, line["published"][place], others)
        else:
            varied = parameters | {each: column}
            yield Row(line["log"], varied, line["measure"], line["published"][place], others)
