"""Logs that are private as a whole, side by side: one command, one table, one plot.

    python benchmarks/wholelog [--log receipt,sepsis] [--epsilon 1,2] [--runs 5] [--seed 1]
                               [--method "ours;flat marginals"] [--fresh] [--json] [--table-only]
                               [--markdown]

Every method runs on the real logs beside this checkout (``../shared/logs``), each cell in a process
of its own; ``cell.py`` says what is measured, ``baselines.py`` what the others are. What was
measured before is taken from ``results.json``; ``--fresh`` forgets what is asked for, and measures
it again. Each cell is written down when it is measured: what was interrupted goes on with the same
command without ``--fresh``. Policies: those of
``../shared/contract``, and of other logs those in ``policies``; epsilon and delta are set. A figure
is the median of the runs that have it.
"""

import argparse
import json
import secrets
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import yaml
from baselines import METHODS
from cell import DELTAS, SHARED

HERE = Path(__file__).resolve().parent
RESULTS, PLOT, BARS = HERE / "results.json", HERE / "wholelog.svg", HERE / "bars.yaml"
LOGS = ("sepsis", "receipt", "bpic2020_domestic_declarations", "road_traffic_fines", "bpic2012")
EPSILONS, RUNS, LIMIT = (0.5, 1.0, 2.0, 4.0), 5, 3600
Cell = tuple[str, float | None, str]
"""Log, epsilon and method."""
OURS = "ours"
WITHOUT_EPSILON = ("drawn anew", "halves", "k = 10, raw values")
"""Methods that have no epsilon: measured once a log."""
BARRED_AT = 2.0
HEADER = """\
dur: case durations; wait: waiting times per step; how: hours of the week (fines: weekdays); attr:
attributes per activity; attr0: over all events, those without the attribute too; cattr: of cases;
tv2: two-way tables; num: numbers, whatever the bins (docs/evaluation.md). rls: relative log
similarity, 1 is best; of all others 0. At epsilon 2 of ours: * reaches the aim, + what must be
reached, ! neither. bad: runs with a missing time or an event out of order. s: planning and
releasing; MiB: the most of any run.
"""
MEASURES = ("rls", "dur", "wait", "how", "attr", "attr0", "cattr", "tv2", "num")
COLUMNS = (
    ("log", 31),
    ("epsilon", 8),
    ("method", 23),
    *((name, 9) for name in MEASURES),
    ("cases", 8),
    ("events", 8),
    ("bad", 4),
    ("of", 3),
    ("s", 7),
    ("MiB", 0),
)


def arguments() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(
        prog="python benchmarks/wholelog", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--log", default=",".join(LOGS))
    parser.add_argument("--epsilon", default=",".join(map(str, EPSILONS)))
    parser.add_argument("--method", default=";".join([OURS, *METHODS]), help="by semicolons")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--seed", type=int, help="of the first run; else a new one")
    parser.add_argument("--fresh", action="store_true", help="forget what is asked for first")
    parser.add_argument("--json", action="store_true", help="every run, as JSON")
    parser.add_argument("--markdown", action="store_true", help="as the documentation has it")
    parser.add_argument("--table-only", action="store_true", help="measure nothing")
    return parser.parse_args()


def cells(asked: argparse.Namespace) -> Iterator[Cell]:
    """Log, epsilon and method of each cell that is asked for."""
    epsilons = [float(text) for text in asked.epsilon.split(",")]
    for log, method in product(asked.log.split(","), asked.method.split(";")):
        if method in WITHOUT_EPSILON:
            yield log, None, method
        else:
            yield from ((log, epsilon, method) for epsilon in epsilons)


def key(log: str, epsilon: float | None, method: str) -> str:
    """What a cell is filed under."""
    return f"{log} {'-' if epsilon is None else format(epsilon, 'g')} {method}"


def keys_of(wanted: list[Cell]) -> set[str]:
    """What cells are filed under."""
    return {key(*cell) for cell in wanted}


def write(known: dict[str, Any]) -> None:
    """Keep what is measured."""
    RESULTS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", "utf-8")


def lacks(known: dict[str, Any], cell: Cell, asked: argparse.Namespace) -> bool:
    """Whether runs of a cell are still to be measured."""
    kept = known.get(key(*cell), [{"failed": True}])
    return len(kept) < asked.runs or any("failed" in run for run in kept)


def measured(
    log: str, epsilon: float | None, method: str, runs: int, seed: int
) -> list[dict[str, Any]]:
    """The runs of one cell, in a process of its own; a last one with the reason where it failed."""
    cell = {"log": log, "epsilon": epsilon or 1.0, "method": method, "runs": runs, "seed": seed}
    command = [sys.executable, str(HERE / "cell.py"), json.dumps(cell)]
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        printed, reason = child.stdout, (child.stderr.strip() or "failed").splitlines()[-1]
    except subprocess.TimeoutExpired as error:
        printed = (error.stdout or b"").decode("utf-8")
        printed, reason = printed[: printed.rfind("\n") + 1], f"not ended after {LIMIT} s"
    found = [json.loads(line) for line in printed.splitlines()]
    if not found or (len(found) < runs and "refused" not in found[-1]):
        found.append({"refused": reason, "failed": True})
    return found


def bars() -> dict[str, dict[str, tuple[float, float]]]:
    """For each log and measure what must be reached, and what is aimed at."""
    return dict(yaml.safe_load(BARS.read_text("utf-8")))


def row_of(log: str, epsilon: float | None, method: str, runs: list[Any]) -> dict[str, Any]:
    """One line of the table: medians."""
    row: dict[str, Any] = {"log": log, "epsilon": epsilon, "method": method}
    usable = [run for run in runs if "refused" not in run]
    if len(usable) < len(runs):
        row["refused"] = runs[-1]["refused"]
    for name in (*MEASURES, "cases", "events", "seconds"):
        values = [run[name] for run in usable if run.get(name) is not None]
        row[name] = statistics.median(values) if values else None
    row["bad"] = sum(bool(run["null_times"] or run["out_of_order"]) for run in usable)
    row["of"] = len(usable)
    row["mib"] = max((run["mib"] for run in usable if run["mib"]), default=None)
    return row


def mark(row: dict[str, Any], name: str) -> str:
    """Whether a figure of ours reaches its bar."""
    bar = bars().get(row["log"], {}).get(name)
    if bar is None or row["method"] != OURS or row["epsilon"] != BARRED_AT or row[name] is None:
        return ""
    sign = -1 if name == "rls" else 1
    must, aim = (sign * row[name] <= sign * value for value in bar)
    if aim:
        return "*"
    return "+" if must else "!"


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """One line a row, and the bars below the rows of a log."""
    yield line([name for name, _ in COLUMNS])
    for place, row in enumerate(rows):
        epsilon = "" if row["epsilon"] is None else f"{row['epsilon']:g}"
        head = [row["log"], epsilon, row["method"]]
        if not row["of"]:
            yield line([*head, row["refused"]])
        else:
            figures = [figure(row, name) + mark(row, name) for name in MEASURES]
            rest = [f"{row['cases']:.0f}", f"{row['events']:.0f}", str(row["bad"]), str(row["of"])]
            yield line([*head, *figures, *rest, f"{row['seconds']:.1f}", str(row["mib"])])
        is_last = place + 1 == len(rows) or rows[place + 1]["log"] != row["log"]
        if is_last and row["log"] in bars():
            for which, name in enumerate(("must", "aim")):
                bar = {measure: pair[which] for measure, pair in bars()[row["log"]].items()}
                figures = [f"{bar[measure]:g}" if measure in bar else "" for measure in MEASURES]
                yield line([row["log"], f"{BARRED_AT:g}", name, *figures])


def markdown(rows: list[dict[str, Any]]) -> Iterator[str]:
    """The figures alone, as a table of a page."""
    shown = MEASURES[:5]
    yield f"| log | epsilon | method | {' | '.join(shown)} |"
    yield "|---" * (3 + len(shown)) + "|"
    for row in (each for each in rows if each["of"]):
        epsilon = "" if row["epsilon"] is None else f"{row['epsilon']:g}"
        figures = " | ".join(rounded(row[name]) for name in shown)
        yield f"| {row['log']} | {epsilon} | {row['method']} | {figures} |"


def rounded(value: float | None) -> str:
    """Three places, or a whole number from 10 on."""
    if value is None:
        return ""
    return f"{value:.3f}" if value < 10 else f"{value:.0f}"


def figure(row: dict[str, Any], name: str) -> str:
    """Three digits, or nothing where there is no figure."""
    return "" if row[name] is None else f"{row[name]:.3g}"


def line(values: list[str]) -> str:
    """Values in their columns."""
    padded = [value.ljust(width) for value, (_, width) in zip(values, COLUMNS, strict=False)]
    return " ".join(padded).rstrip()


def plot(rows: list[dict[str, Any]]) -> None:
    """A row of panels a measure, a column a log: figures against epsilon; what must be reached and
    the aim as dashed lines, what has no epsilon as dotted ones.
    """
    logs = list(dict.fromkeys(row["log"] for row in rows if row["of"]))
    if not logs:
        return
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.fonttype"] = "none"
    import matplotlib.pyplot as plt

    shown, methods = MEASURES[:5], list(dict.fromkeys(row["method"] for row in rows))
    colours = dict(zip(methods, mpl.color_sequences["tab10"], strict=False))
    size = (3.2 * len(logs) + 1, 2.5 * len(shown) + 1)
    figure, axes = plt.subplots(
        len(shown), len(logs), figsize=size, squeeze=False, layout="constrained"
    )
    for (down, measure), (across, log) in product(enumerate(shown), enumerate(logs)):
        axis = axes[down][across]
        here = [row for row in rows if row["log"] == log and row[measure] is not None]
        for method in methods:
            draw(axis, [row for row in here if row["method"] == method], measure, colours[method])
        for value in bars().get(log, {}).get(measure, ()):
            axis.axhline(value, color="0.6", linestyle="--", linewidth=0.8)
        axis.set(xscale="log", xlabel="epsilon", ylabel=measure)
        if measure != "rls":
            axis.set(yscale="log")
        axis.minorticks_off()
        axis.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        if down == 0:
            axis.set_title(log, fontsize="small")
    labelled = {
        label: handle
        for axis in axes.flat
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(labelled.values(), labelled.keys(), loc="outside lower center", ncols=4)
    figure.savefig(PLOT, metadata={"Date": None})
    plt.close(figure)


def draw(axis: Any, rows: list[dict[str, Any]], measure: str, colour: Any) -> None:
    """One method in one panel."""
    for row in rows:
        if row["epsilon"] is None:
            axis.axhline(row[measure], color=colour, linestyle=":", label=row["method"])
    points = sorted((row["epsilon"], row[measure]) for row in rows if row["epsilon"] is not None)
    if points:
        width = 2.5 if rows[0]["method"] == OURS else 1
        label = rows[0]["method"]
        axis.plot(*zip(*points, strict=True), "o-", color=colour, linewidth=width, label=label)


def main() -> None:
    """Measure what is missing, then show everything that was asked for."""
    asked = arguments()
    if not SHARED.is_dir() and not asked.table_only:
        raise SystemExit(
            f"the real logs are not there ({SHARED}); this benchmark has nothing to run on"
        )
    seed = secrets.randbits(31) if asked.seed is None else asked.seed
    known: dict[str, Any] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.is_file() else {}
    wanted = list(cells(asked))
    if asked.fresh and not asked.table_only:
        known = {name: runs for name, runs in known.items() if name not in keys_of(wanted)}
        write(known)
    missing = [] if asked.table_only else [cell for cell in wanted if lacks(known, cell, asked)]
    for place, cell in enumerate(missing, start=1):
        begun = time.perf_counter()
        known[key(*cell)] = measured(*cell, asked.runs, seed)
        took = f"{time.perf_counter() - begun:.0f} s"
        print(f"{place} of {len(missing)}: {key(*cell)}: {took}", file=sys.stderr, flush=True)
        write(known)
    found = [(*cell, known[key(*cell)]) for cell in wanted if key(*cell) in known]
    if asked.json:
        print(json.dumps([row_of(*cell) | {"runs": cell[3]} for cell in found], indent=1))
        return
    rows = [row_of(*cell) for cell in found]
    if asked.markdown:
        print("\n".join(markdown(rows)))
        return
    deltas = ", ".join(f"{log} {delta:g}" for log, delta in DELTAS.items())
    print(f"{HEADER}delta: {deltas}; seed of what was measured now: {seed}\n")
    print("\n".join(table(rows)))
    plot(rows)
    print(f"plot: {PLOT.name}")


if __name__ == "__main__":
    main()
