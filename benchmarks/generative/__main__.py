"""Generative models beside histograms: one command, one table, one plot.

    python benchmarks/generative [--logs sepsis] [--methods variants/ddpm-published]
                                 [--epsilons 2,1] [--runs 5] [--fresh] [--table-only]

Every method runs on the real logs beside this checkout (``../shared/logs``), each log in a process
of its own; ``cell.py`` says what they are told. What was measured before is taken from
``results.json``, unless ``--fresh``. Others' figures come from ``../variants/reference.yaml``.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[2] / "shared" / "logs"
RESULTS, PLOT = HERE / "results.json", HERE / "generative.svg"
REFERENCE = HERE.parent / "variants" / "reference.yaml"
LOGS = ("sepsis", "bpic2012_a", "bpic2013_incidents", "receipt")
UNIFORM = "uniform over the leaked variants"
METHODS = (
    "variants/threshold",
    "variants/adaptive",
    UNIFORM,
    "variants/travag-published",
    "variants/ddpm-published",
)
EPSILONS, DELTA, RUNS = (2.0, 1.0, 0.1), 1e-4, 5
LIMIT = 7200
HEADER = f"""\
delta {DELTA:g}. Relative log similarity, means of the runs, and their deviation. paid eps: what our
accountant derives for a run; infinite where nothing bounds it, whatever is claimed. true-fake:
variants of the release that the source has, and that it has not. s: seconds of one run, by the
clock and by the processor; MiB: the most of any run, with the log and its reader.
"""
COLUMNS = (
    ("log", 19),
    ("epsilon", 8),
    ("method", 33),
    ("paid eps", 9),
    ("similarity", 11),
    ("deviation", 10),
    ("cases", 9),
    ("true-fake", 12),
    ("s", 8),
    ("cpu s", 8),
    ("MiB", 0),
)


def arguments() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(
        prog="python benchmarks/generative", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--logs", default=",".join(LOGS))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--epsilons", default=",".join(map(str, EPSILONS)))
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument(
        "--fresh", action="store_true", help="measure again what was measured before"
    )
    parser.add_argument("--table-only", action="store_true", help="measure nothing")
    return parser.parse_args()


def key(method: str, log: str, epsilon: float, runs: int) -> str:
    """What a cell is filed under."""
    return f"{method}: {log} {epsilon:g} {DELTA:g} {runs}"


def measured(method: str, log: str, epsilons: list[float], runs: int) -> Iterator[dict[str, Any]]:
    """Run one method on one log in a process of its own; one row an epsilon, as it comes."""
    cell = {"method": method, "log": log, "epsilons": epsilons, "delta": DELTA, "runs": runs}
    command = [sys.executable, str(HERE / "cell.py"), json.dumps(cell)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        for line in child.stdout or ():
            yield json.loads(line)
    if child.returncode:
        print(f"{method} on {log}: ended with {child.returncode}", file=sys.stderr)


def reference() -> list[dict[str, Any]]:
    """Others' figures of generative models."""
    rows = yaml.safe_load(REFERENCE.read_text("utf-8"))
    return [row for row in rows if row["mechanism"].startswith(("TraVaG", "DDPM"))]


def rows(known: dict[str, Any], asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Ours first, then the others', for each log and epsilon."""
    theirs = reference()
    for log, epsilon in product(asked.logs.split(","), numbers(asked)):
        for method in asked.methods.split(","):
            if (cell := key(method, log, epsilon, asked.runs)) in known:
                yield {"log": log, "method": method, "by": "us"} | known[cell]
        for row in theirs:
            if (row["log"], row["epsilon"], row["delta"]) == (log, epsilon, DELTA):
                yield row | {"method": row["mechanism"], "by": "others"}


def numbers(asked: argparse.Namespace) -> list[float]:
    """The epsilons as numbers."""
    return [float(text) for text in asked.epsilons.split(",")]


def table(shown: list[dict[str, Any]]) -> Iterator[str]:
    """One line a row."""
    yield " ".join(name.ljust(width) for name, width in COLUMNS)
    for row in shown:
        values = [row["log"], f"{row['epsilon']:g}", row["method"]]
        values += [row["refused"]] if "refused" in row else figures(row)
        padded = zip(values, COLUMNS, strict=False)
        yield " ".join(value.ljust(width) for value, (_, width) in padded).rstrip()


def figures(row: dict[str, Any]) -> list[str]:
    """The columns behind the method."""
    paid = row.get("paid_epsilon")
    runs = row.get("similarities", ())
    deviation = f"{statistics.stdev(runs):.3f}" if len(runs) > 1 else ""
    variants = f"{row['true_variants']:g}-{row['fake_variants']:g}" if "cases" in row else ""
    return [
        "infinite" if paid is None else f"{paid:.4g}",
        text(row, "similarity", ".3f"),
        deviation,
        text(row, "cases", ".0f"),
        variants,
        text(row, "seconds", ".2f"),
        text(row, "cpu_seconds", ".2f"),
        text(row, "mib", ".0f"),
    ]


def text(row: dict[str, Any], name: str, form: str) -> str:
    """A figure, or nothing where there is none."""
    return "" if row.get(name) is None else format(row[name], form)


def plot(shown: list[dict[str, Any]]) -> None:
    """Similarity against epsilon, one panel a log: what is proved as full lines, what is published
    only as dotted ones, the uniform draw in grey, others' figures as rings.
    """
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "generative"
    import matplotlib.pyplot as plt

    usable = [row for row in shown if row.get("similarity") is not None]
    panels = list(dict.fromkeys(row["log"] for row in usable))
    if not panels:
        return
    methods = list(dict.fromkeys(row["method"] for row in usable if row["by"] == "us"))
    colours = dict(zip(methods, mpl.color_sequences["tab10"], strict=False)) | {UNIFORM: "0.6"}
    down = -(-len(panels) // 2)
    figure, axes = plt.subplots(
        down, 2, figsize=(11, 3.8 * down), squeeze=False, layout="constrained"
    )
    for axis, log in zip(axes.flat, panels, strict=False):
        here = [row for row in usable if row["log"] == log]
        for method in dict.fromkeys(row["method"] for row in here):
            points = sorted(
                (row["epsilon"], row["similarity"]) for row in here if row["method"] == method
            )
            form = {"marker": "o", "linestyle": "", "color": "0.3", "markerfacecolor": "none"}
            if method in colours:
                unproved = method == UNIFORM or method.endswith("-published")
                form = {
                    "marker": "o",
                    "markersize": 4,
                    "linestyle": ":" if unproved else "-",
                    "color": colours[method],
                }
            label = method if method in colours else "by others"
            axis.plot(*zip(*points, strict=True), label=label, **form)
        axis.set(xscale="log", title=log, xlabel="epsilon", ylabel="relative log similarity")
    for axis in list(axes.flat)[len(panels) :]:
        axis.set_visible(False)
    labelled = {
        label: handle
        for axis in axes.flat
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        labelled.values(), labelled.keys(), loc="outside lower center", ncols=3, fontsize="small"
    )
    figure.savefig(PLOT, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Measure what is missing, then show everything that was asked for."""
    asked = arguments()
    if not SHARED.is_dir() and not asked.table_only:
        raise SystemExit(
            f"the real logs are not there ({SHARED}); this benchmark has nothing to run on"
        )
    known: dict[str, Any] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.is_file() else {}
    for method, log in product(asked.methods.split(","), asked.logs.split(",")):
        missing = [
            epsilon
            for epsilon in numbers(asked)
            if asked.fresh or key(method, log, epsilon, asked.runs) not in known
        ]
        if asked.table_only or not missing:
            continue
        for row in measured(method, log, missing, asked.runs):
            known[key(method, log, row["epsilon"], asked.runs)] = row
            RESULTS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", "utf-8")
        print(f"{method} on {log}: measured", file=sys.stderr)
    shown = list(rows(known, asked))
    print(HEADER)
    print("\n".join(table(shown)))
    plot(shown)
    print(f"plot: {PLOT.name}")


if __name__ == "__main__":
    main()
