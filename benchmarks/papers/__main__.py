"""Every published table beside ours: one command, one row a figure.

    python -m benchmarks.papers [TABLE] [--json] [--quick] [--runs N] [--logs NAME,...]
                                [--seconds N] [--save] [--stored] [--pictures FOLDER]

TABLE is one of libra-2, libra-3, sacofa, travag, ddpm, pretsa-4, pretsa-5, pretsa-6; all of them
without it. A row has the published figure (``published/``), ours with the paper's parameters, and
what the engine takes by itself for the same guarantee, with runs, spread and seconds; a log that
is not here has a row that says so. Real logs are looked for beside this checkout
(``../shared/logs``) and in the folders that ``CLOAKWORK_LOGS`` names.

``--quick``: small logs, three runs at most, and of a grid the usual settings. ``--seconds``: what a
log of a table may take. ``--save`` keeps what was measured in ``results.json``; ``--stored`` prints
what is kept there, and measures nothing. ``--pictures`` draws what is printed, one picture a table
(``docs/assets/papers`` has those of what is kept).
"""

import argparse
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.kanon.cell import found
from benchmarks.papers.pictures import draw
from benchmarks.papers.tables import TABLES, Row, Table, has_figures, read_table

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).resolve().parent / "results.json"
KEYS = ("log", "parameters", "measure", "published", "ours", "ours_by_choice")
KEYS += ("runs", "spread", "seconds")
"""What every row has in JSON; ``spread_by_choice`` and so on, ``beside`` and ``note`` beside it."""

QUICK_EPSILONS, QUICK_DELTAS = (0.1, 1, 2), (1e-4,)


def arguments(given: list[str]) -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers", description=__doc__.splitlines()[0]
    )
    parser.add_argument("table", nargs="?", choices=TABLES, metavar="TABLE")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--runs", type=int)
    parser.add_argument("--logs", default="", help="as the paper calls them, or their files")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--stored", action="store_true")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER")
    asked = parser.parse_args(given)
    if asked.runs is not None and asked.runs < 1:
        parser.error("--runs: at least 1")
    return asked


def chosen(table: Table, asked: argparse.Namespace) -> list[Row]:
    """The rows that are asked for."""
    named = {name.strip() for name in asked.logs.split(",") if name.strip()}
    rows = []
    for row in table.rows:
        log = table.logs[row.log]
        if named and not named & {row.log, log.get("file", row.log)}:
            continue
        if asked.quick and not (log.get("small") or "absent" in log):
            continue
        if asked.quick and "absent" not in log and not usual(table, row):
            continue
        rows.append(row)
    return rows


def usual(table: Table, row: Row) -> bool:
    """Whether a setting of a grid is among the usual ones."""
    if table.name not in ("travag", "ddpm"):
        return True
    given = row.parameters
    return given["epsilon"] in QUICK_EPSILONS and given["delta"] in QUICK_DELTAS


def key(row: dict[str, Any]) -> str:
    """What a row is filed under."""
    return json.dumps([row["log"], row["parameters"], row["measure"]], sort_keys=True)


def rows_of(table: Table, asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The rows of a table: those of absent logs first, then log by log as they are measured."""
    wanted = chosen(table, asked)
    stored = kept(table.name) if asked.stored else {}
    for name in dict.fromkeys(row.log for row in wanted):
        rows, log = [row for row in wanted if row.log == name], table.logs[name]
        reason = log.get("absent")
        if reason is None and found(log["file"]) is None:
            reason = f"there is no {log['file']}.xes.gz"
        if reason is not None and not any(each["log"] == name for each in stored.values()):
            for row in rows:
                yield blank(row, f"not measured: {reason}")
        elif asked.stored:
            # A published figure is that of the table, whatever is stored.
            yield from stored_rows(rows, stored)
        else:
            yield from measured(table, name, rows, asked)


def blank(row: Row, note: str) -> dict[str, Any]:
    """A row without our figures."""
    shown = {"log": row.log, "parameters": row.parameters, "measure": row.measure}
    shown |= {"published": row.published, "ours": None, "ours_by_choice": None, "runs": 0}
    return shown | {"spread": None, "seconds": None, "beside": row.beside, "note": note}


def stored_rows(rows: list[Row], stored: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What results.json has of these rows and of those that were measured beside them."""
    published = {key(blank(row, "")): row for row in rows}
    found = [stored[where] for where in published if where in stored]
    yield from found
    if len(found) < len(published):
        first = next(row for where, row in published.items() if where not in stored)
        missing = len(published) - len(found)
        yield blank(first, f"not measured yet: {missing} rows of this log, such as this one")
    claimed = {json.dumps(row.parameters, sort_keys=True) for row in rows}
    for where, figures in stored.items():
        given = dict(figures["parameters"])
        given["epsilon"] = given.pop("claimed", given.get("epsilon"))
        same = {json.dumps(each, sort_keys=True) for each in (given, figures["parameters"])}
        if where not in published and figures["log"] == rows[0].log and same & claimed:
            yield figures


def measured(
    table: Table, name: str, rows: list[Row], asked: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """The figures of one log, in a process of its own that ends when its seconds are over."""
    runs = asked.runs or (min(3, table.runs) if asked.quick else table.runs)
    parameters: list[dict[str, Any]] = []
    for row in rows:
        if row.parameters not in parameters:
            parameters.append(row.parameters)
    cell = {"table": table.name, "log": name, "parameters": parameters, "runs": runs}
    by_key = {key(blank(row, "")): row for row in rows}
    said = [*filter(None, [table.logs[name].get("unsure")])]
    command = [sys.executable, "-m", "benchmarks.papers.measuring", json.dumps(cell)]
    begun = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        over = threading.Timer(asked.seconds, child.kill)
        over.daemon = True
        over.start()
        for line in child.stdout or ():
            row = json.loads(line)
            printed = by_key.pop(key(row), None)
            row["published"] = printed.published if printed else None
            row["beside"] = printed.beside if printed else {}
            row["note"] = "; ".join([*said, *filter(None, [row["note"]])])
            progress(f"{table.name} {name} {row['parameters']} {row['measure']}: {row['ours']}")
            yield row
        over.cancel()
    reason = f"ended with {child.returncode}"
    if time.monotonic() - begun >= asked.seconds:
        reason = f"not ended after {asked.seconds:g} s"
    for row in by_key.values():
        yield blank(row, "; ".join([*said, f"not measured: {reason}"]))


def progress(text: str) -> None:
    """One line, as it goes."""
    print(text, file=sys.stderr, flush=True)


def kept(table: str) -> dict[str, Any]:
    """What results.json has of a table, by key."""
    if not RESULTS.is_file():
        return {}
    return {key(row): row for row in json.loads(RESULTS.read_text("utf-8")).get(table, [])}


def save(table: str, rows: list[dict[str, Any]]) -> None:
    """Put measured rows in the place of older ones; of what was not measured keep why, unless
    there are figures. A log that is not here leaves nothing.
    """
    known = json.loads(RESULTS.read_text("utf-8")) if RESULTS.is_file() else {}
    merged = {key(row): row for row in known.get(table, [])}
    here = {name for name, log in read_table(table).logs.items() if found(log.get("file", ""))}
    for row in rows:
        old = merged.get(key(row), {})
        if row["log"] in here and (has_figures(row) or not has_figures(old)):
            merged[key(row)] = row
    known[table] = [merged[each] for each in sorted(merged)]
    RESULTS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", "utf-8")


def shown(value: Any) -> str:
    """A figure, a text, or a dash."""
    if value is None:
        return "-"
    return f"{value:,.4g}" if isinstance(value, float) else f"{value}"


def line(row: dict[str, Any]) -> str:
    """One row for people."""
    parameters = " ".join(f"{name} {value}" for name, value in row["parameters"].items())
    figures = [shown(row[name]) for name in ("published", "ours", "ours_by_choice")]
    spread = (
        "" if not row["spread"] else f"({shown(row['spread'][0])} to {shown(row['spread'][1])})"
    )
    head = f"{row['log']:<16} {parameters:<58} {row['measure']:<28}"
    tail = f"{figures[0]:>12} {figures[1]:>12} {spread:<22} {figures[2]:>12}"
    return f"{head} {tail} {row['runs']:>4} {shown(row['seconds']):>8}  {row['note']}".rstrip()


HEAD = (
    f"{'log':<16} {'parameters':<58} {'measure':<28} {'published':>12} {'ours':>12} {'spread':<22} "
    f"{'by choice':>12} {'runs':>4} {'s a run':>8}  note"
)


def main(given: list[str]) -> None:
    """Table by table."""
    asked = arguments(given)
    all_rows = []
    for name in [asked.table] if asked.table else TABLES:
        table = read_table(name)
        if not asked.json:
            head = [f"{table.name}: {table.title}", table.paper, *filter(None, [table.note]), HEAD]
            print("\n".join(head), flush=True)
        rows = []
        for row in rows_of(table, asked):
            rows.append(row)
            if not asked.json:
                print(line(row), flush=True)
        if asked.save:
            save(name, rows)
        if asked.pictures is not None:
            file = asked.pictures / f"{name}.svg"
            drawn = draw(name, rows, file)
            progress(f"{file}" if drawn else f"{name}: nothing is measured, and nothing drawn")
        all_rows += [{"table": name} | row for row in rows]
    if asked.json:
        print(json.dumps(all_rows, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
