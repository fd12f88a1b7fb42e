"""Differentially private control flow side by side: one command, one table, one plot.

    python benchmarks/variants [--logs receipt,sepsis] [--mechanisms variants/threshold] [--epsilons
    0.1,1]
                               [--deltas 1e-4] [--runs 10] [--fresh] [--table-only]

Every mechanism called ``variants/...`` or ``dfg/...``, and ``planned`` (what the planner chooses
without the log), runs on the real logs beside this checkout (``../shared/logs``), each log in a
process of its own; ``cell.py`` says what all of them are told and what is measured. What was
measured before is taken from ``results.json``, unless ``--fresh``. The figures of others'
mechanisms stand in ``reference.yaml``; those marked claimed do not have the privacy that they
state.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[2] / "shared" / "logs"
RESULTS, PLOT, REFERENCE = HERE / "results.json", HERE / "variants.svg", HERE / "reference.yaml"
LOGS = (
    "sepsis",
    "bpic2013_incidents",
    "bpic2012_a",
    "receipt",
    "road_traffic_fines",
    "unrineweginfectie",
)
EPSILONS, DELTAS, RUNS = (0.1, 0.5, 1.0, 2.0), (1e-6, 1e-4), 10
LIMIT = 3600
HEADER = """\
Declared to every mechanism: the log's activities, its longest case (nothing is cut), its cases
rounded up to two digits. paid eps, paid delta: what our accountant derives for the run, infinite
where nothing bounds it; the published figures in rows marked claimed are their papers'. of: runs
whose similarity and difference were taken. MiB: the most of any run.
"""
COLUMNS = (
    ("log", 19),
    ("epsilon", 8),
    ("delta", 7),
    ("mechanism", 30),
    ("basis", 9),
    ("paid eps", 9),
    ("paid delta", 10),
    ("similarity", 11),
    ("difference", 11),
    ("DFG EMD", 9),
    ("DFG edges", 10),
    ("cases", 9),
    ("true-fake", 12),
    ("empty", 6),
    ("of", 3),
    ("s", 7),
    ("MiB", 0),
)
PLANNED = "planned"


def arguments() -> argparse.Namespace:
    """What is asked for."""
    from cloakwork.mechanisms.registry import catalogue

    ours = [*(name for name in catalogue() if name.startswith(("variants/", "dfg/"))), PLANNED]
    parser = argparse.ArgumentParser(
        prog="python benchmarks/variants", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--logs", default=",".join(LOGS))
    parser.add_argument("--mechanisms", default=",".join(ours))
    parser.add_argument("--epsilons", default=",".join(map(str, EPSILONS)))
    parser.add_argument("--deltas", default=",".join(map(str, DELTAS)))
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument(
        "--fresh", action="store_true", help="measure again what was measured before"
    )
    parser.add_argument("--table-only", action="store_true", help="measure nothing")
    return parser.parse_args()


def key(mechanism: str, log: str, epsilon: float, delta: float, runs: int) -> str:
    """What a cell is filed under."""
    return f"{mechanism} {log} {epsilon:g} {delta:g} {runs}"


def measured(
    mechanism: str, log: str, budgets: list[tuple[float, float]], runs: int
) -> Iterator[dict[str, Any]]:
    """Run one mechanism on one log in a process of its own; what did not end is a row with its
    reason, which is not kept.
    """
    cell = {"mechanism": mechanism, "log": log, "budgets": budgets, "runs": runs}
    command = [sys.executable, str(HERE / "cell.py"), json.dumps(cell)]
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        printed, reason = child.stdout, (child.stderr.strip() or "failed").splitlines()[-1]
    except subprocess.TimeoutExpired as error:
        printed = (error.stdout or b"").decode("utf-8")
        printed, reason = printed[: printed.rfind("\n") + 1], f"not ended after {LIMIT} s"
    found = [json.loads(line) for line in printed.splitlines()]
    yield from found
    for epsilon, delta in budgets[len(found) :]:
        yield {"epsilon": epsilon, "delta": delta, "refused": reason, "failed": True}


def reference() -> list[dict[str, Any]]:
    """Others' figures."""
    return yaml.safe_load(REFERENCE.read_text("utf-8"))


def rows(known: dict[str, Any], asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Ours first, then the others', for each log and budget."""
    theirs, ours = reference(), asked.mechanisms.split(",")
    for log, epsilon, delta in product(asked.logs.split(","), epsilons(asked), deltas(asked)):
        for mechanism in ours:
            if (cell := key(mechanism, log, epsilon, delta, asked.runs)) in known:
                yield {"log": log, "mechanism": mechanism, "basis": "ours"} | known[cell]
        yield from (
            row
            for row in theirs
            if (row["log"], row.get("epsilon"), row.get("delta")) == (log, epsilon, delta)
        )


def epsilons(asked: argparse.Namespace) -> list[float]:
    """As numbers."""
    return [float(text) for text in asked.epsilons.split(",")]


def deltas(asked: argparse.Namespace) -> list[float]:
    """As numbers."""
    return [float(text) for text in asked.deltas.split(",")]


def table(shown: list[dict[str, Any]]) -> Iterator[str]:
    """One line a row."""
    yield " ".join(name.ljust(width) for name, width in COLUMNS)
    for row in shown:
        name = f"{PLANNED}: {row['chosen']}" if "chosen" in row else row["mechanism"]
        values = [row["log"], f"{row['epsilon']:g}", f"{row['delta']:g}", name, row["basis"]]
        if "refused" in row:
            values.append(row["refused"])
        else:
            variants = (
                f"{row['true_variants']:g}-{row['fake_variants']:g}"
                if "true_variants" in row
                else ""
            )
            values += [*cost(row), text(row, "similarity", ".3f"), text(row, "difference", ".0f")]
            values += [
                text(row, "dfg_emd", ".1f"),
                text(row, "dfg_edges", ".1f"),
                text(row, "cases", ".0f"),
                variants,
            ]
            values += [text(row, "empty", ".1f"), text(row, "compared", ".0f")]
            values += [text(row, "seconds", ".2f"), text(row, "mib", ".0f")]
        yield " ".join(
            value.ljust(width) for value, (_, width) in zip(values, COLUMNS, strict=False)
        ).rstrip()


def cost(row: dict[str, Any]) -> tuple[str, str]:
    """What was really paid: derived for ours; theirs as stated where that is sound, else no
    bound.
    """
    if row["basis"] == "sound":
        return f"{row['epsilon']:g}", f"{row['delta']:g}"
    paid = row.get("paid_epsilon")
    return ("infinite", "") if paid is None else (f"{paid:.4g}", f"{row['paid_delta']:g}")


def text(row: dict[str, Any], name: str, form: str) -> str:
    """A figure, or nothing where there is none."""
    return "" if row.get(name) is None else format(row[name], form)


def plot(shown: list[dict[str, Any]]) -> None:
    """Similarity against epsilon at the largest delta, one panel a log: what is proved as lines,
    the planner's choice thick; sound figures of others as diamonds; what is only claimed (ours that
    are published forms too) as grey rings.
    """
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    usable = [row for row in shown if row.get("similarity") is not None]
    usable = [row for row in usable if row["delta"] == max(each["delta"] for each in usable)]
    panels = list(dict.fromkeys(row["log"] for row in usable))
    if not panels:
        return
    proved = list(dict.fromkeys(row["mechanism"] for row in usable if style_of(row) == "proved"))
    colours = dict(zip(proved, mpl.color_sequences["tab10"], strict=False))
    down = -(-len(panels) // 3)
    figure, axes = plt.subplots(
        down, 3, figsize=(14, 3.8 * down), squeeze=False, layout="constrained"
    )
    for axis, log in zip(axes.flat, panels, strict=False):
        here = [row for row in usable if row["log"] == log]
        for name, style in dict.fromkeys((row["mechanism"], style_of(row)) for row in here):
            points = sorted(
                (row["epsilon"], row["similarity"])
                for row in here
                if (row["mechanism"], style_of(row)) == (name, style)
            )
            form = STYLES[style] | ({"color": colours[name]} if style == "proved" else {})
            label = {"proved": name, "planned": "the planner's choice"}.get(
                style, f"{style} by others"
            )
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
        labelled.values(), labelled.keys(), loc="outside lower center", ncols=6, fontsize="small"
    )
    figure.savefig(PLOT, metadata={"Date": None})
    plt.close(figure)


STYLES: dict[str, dict[str, Any]] = {
    "claimed": {
        "marker": "o",
        "markersize": 5,
        "linestyle": "",
        "color": "0.6",
        "markerfacecolor": "none",
        "zorder": 1,
    },
    "sound": {
        "marker": "D",
        "markersize": 6,
        "linestyle": "",
        "color": "black",
        "markerfacecolor": "none",
        "zorder": 4,
    },
    "proved": {"marker": "o", "markersize": 4, "linestyle": "-", "zorder": 2},
    "planned": {
        "marker": "o",
        "markersize": 5,
        "linestyle": "-",
        "linewidth": 3,
        "color": "black",
        "zorder": 3,
    },
}


def style_of(row: dict[str, Any]) -> str:
    """How a row is drawn."""
    if row["basis"] != "ours":
        return str(row["basis"])
    if row["mechanism"].startswith(PLANNED):
        return "planned"
    return "claimed" if row["mechanism"].endswith("-published") else "proved"


def main() -> None:
    """Measure what is missing, then show everything that was asked for."""
    asked = arguments()
    if not SHARED.is_dir() and not asked.table_only:
        raise SystemExit(
            f"the real logs are not there ({SHARED}); this benchmark has nothing to run on"
        )
    known: dict[str, Any] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.is_file() else {}
    for mechanism, log in product(asked.mechanisms.split(","), asked.logs.split(",")):
        budgets = [
            (epsilon, delta)
            for epsilon, delta in product(epsilons(asked), deltas(asked))
            if asked.fresh
            or "failed"
            in known.get(key(mechanism, log, epsilon, delta, asked.runs), {"failed": True})
        ]
        if asked.table_only or not budgets:
            continue
        for row in measured(mechanism, log, budgets, asked.runs):
            known[key(mechanism, log, row["epsilon"], row["delta"], asked.runs)] = row
        print(f"{mechanism} on {log}: measured", file=sys.stderr)
        RESULTS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", "utf-8")
    shown = list(rows(known, asked))
    print(HEADER)
    print("\n".join(table(shown)))
    plot(shown)
    print(f"plot: {PLOT.name}")


if __name__ == "__main__":
    main()
