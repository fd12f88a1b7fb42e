"""The k-anonymity family side by side: one command, one table, one plot.

    python benchmarks/kanon [--logs receipt,sepsis] [--k 4,8] [--scope variants] [--algorithms
    pretsa,optimal]
                            [--seconds 60] [--whole | --filtered] [--fresh]

Every cell runs in a process of its own (see ``cell.py``) on the real logs beside this checkout
(``../shared/logs``), or in the folders that the environment variable ``CLOAKWORK_LOGS`` names; logs
that are in none of them are left out. Cells that were measured before are taken from
``results.json``, unless ``--fresh``. The reference's figures stand in ``reference.yaml``: distances
to compare with; times were measured elsewhere.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import yaml
from cell import found

HERE = Path(__file__).resolve().parent
RESULTS, PLOT = HERE / "results.json", HERE / "kanon.svg"
KS = (4, 8, 16, 32, 64)
FILTERED = ("receipt", "sepsis", "bpic2013_closed_problems", "road_traffic_fines")
WHOLE = (
    "receipt",
    "sepsis",
    "bpic2013_closed_problems",
    "road_traffic_fines",
    "bpic2013_incidents",
    "bpic2012",
)
ALGORITHMS: dict[str, tuple[str, dict[str, Any]]] = {
    "pretsa": ("kanon/pretsa", {}),
    "best-first": ("kanon/best-first", {}),
    "a-star": ("kanon/a-star", {}),
    "optimal": ("kanon/optimal", {"split_cases": False}),
    "optimal, parting": ("kanon/optimal", {"split_cases": True}),
}
TIMED = ("a-star", "optimal", "optimal, parting")


def arguments() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(
        prog="python benchmarks/kanon", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--logs", default="")
    parser.add_argument("--k", default=",".join(map(str, KS)))
    parser.add_argument("--scope", default="variants,prefixes")
    parser.add_argument(
        "--algorithms", default=";".join(ALGORITHMS), help="separated by semicolons"
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--gap", type=float, default=0.0, help="where kanon/optimal may stop")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--filtered", action="store_true")
    parser.add_argument(
        "--fresh", action="store_true", help="measure again what was measured before"
    )
    parser.add_argument("--table-only", action="store_true", help="measure nothing")
    return parser.parse_args()


def cells(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The cells that are asked for, small ones first."""
    logs = [(name, True) for name in FILTERED] * (not asked.whole) + [
        (name, False) for name in WHOLE
    ] * (not asked.filtered)
    named = asked.logs.split(",") if asked.logs else [*FILTERED, *WHOLE]
    for (log, filtered), scope, k, name in product(
        logs, asked.scope.split(","), map(int, asked.k.split(",")), asked.algorithms.split(";")
    ):
        if log in named:
            algorithm, options = ALGORITHMS[name]
            options = options | ({"seconds": asked.seconds} if name in TIMED else {})
            options = options | ({"gap": asked.gap} if name in TIMED[1:] else {})
            yield {"log": log, "filtered": filtered, "scope": scope, "k": k, "name": name} | {
                "algorithm": algorithm,
                "options": options,
            }


def key(cell: dict[str, Any]) -> str:
    """What a cell is filed under."""
    filtered = "filtered" if cell["filtered"] else "whole"
    return f"{cell['log']} {filtered} {cell['scope']} {cell['k']} {cell['name']}"


def measured(cell: dict[str, Any]) -> dict[str, Any]:
    """Run one cell in a process of its own."""
    limit = cell["options"].get("seconds", 0) + 1800
    command = [sys.executable, str(HERE / "cell.py"), json.dumps(cell)]
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return cell | {"refused": f"not ended after {limit:.0f} s"}
    if child.returncode:
        return cell | {"refused": "failed", "failed": child.stderr.strip().splitlines()[-1]}
    return cell | json.loads(child.stdout.splitlines()[-1])


@cache
def reference() -> list[dict[str, Any]]:
    """The reference implementation's figures, one row a cell; ``seconds``: its most over all k, or
    None.
    """
    file = yaml.safe_load((HERE / "reference.yaml").read_text("utf-8"))
    return [
        figure
        | {
            "log": file["logs"][figure["log"]],
            "k": k,
            "distance": distance,
            "seconds": (figure["seconds"] or [None])[-1],
        }
        for figure in file["figures"]
        for k, distance in figure["distance"].items()
    ]


def theirs(row: dict[str, Any]) -> str:
    """The reference's distances for a cell."""
    preprocessing, log = "filtered" if row["filtered"] else "whole", f"{row['log']}.xes.gz"
    found = [
        f"{item['algorithm']} {item['distance']}"
        for item in reference()
        if (item["log"], item["preprocessing"], item["scope"], item["k"])
        == (log, preprocessing, row["scope"], row["k"])
        and item.get("distance") is not None
    ]
    return ", ".join(found)


COLUMNS = (
    ("log", 28),
    ("scope", 9),
    ("k", 3),
    ("algorithm", 17),
    ("distance", 9),
    ("bound", 8),
    ("gap", 7),
    ("s", 8),
    ("MB", 6),
    ("cases", 7),
    ("variants", 10),
    ("DF", 6),
    ("lost", 6),
    ("time err", 8),
    ("reference", 0),
)


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """One line a cell."""
    yield " ".join(name.ljust(width) for name, width in COLUMNS)
    for row in rows:
        log = f"{row['log']} {'filtered' if row['filtered'] else 'whole'}"
        head = [log, row["scope"], row["k"], row["name"]]
        if "refused" in row:
            yield (
                " ".join(
                    str(value).ljust(width)
                    for value, (_, width) in zip(head, COLUMNS, strict=False)
                )
                + " "
                + row.get("failed", row["refused"])
            )
            continue
        gap = "" if row["gap"] is None else f"{100 * row['gap']:.2f}%"
        values = [
            *head,
            row["distance"],
            row["bound"] if row["bound"] is not None else "",
            gap,
            f"{row['seconds']:.2f}",
        ]
        values += [row["peak_mb"], row["cases_modified"], f"{row['variants']}/{row['of_variants']}"]
        error = row["cycle_time_error"]
        values += [
            f"{row['representative']:.2f}",
            f"{row['lost']:.2f}",
            "" if error is None else f"{error:.2f}",
            theirs(row),
        ]
        yield " ".join(
            str(value).ljust(width) for value, (_, width) in zip(values, COLUMNS, strict=True)
        )


def plot(rows: list[dict[str, Any]]) -> None:
    """Distance above the best proved bound, against time: one panel a log; ours filled, the
    reference's hollow.
    """
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    rows = [row for row in rows if "refused" not in row]
    if not rows:
        return
    panels = list(dict.fromkeys((row["log"], row["filtered"], row["scope"]) for row in rows))
    across = 3
    down = -(-len(panels) // across)
    figure, axes = plt.subplots(
        down, across, figsize=(5 * across, 3.6 * down), squeeze=False, layout="constrained"
    )
    colours = dict(zip(ALGORITHMS, mpl.color_sequences["tab10"], strict=False))
    for axis, (log, filtered, scope) in zip(axes.flat, panels, strict=False):
        mine = [
            row
            for row in rows
            if (row["log"], row["filtered"], row["scope"]) == (log, filtered, scope)
        ]
        bounds = {
            k: max(
                (r["bound"] or 0 for r in mine if r["k"] == k and "parting" not in r["name"]),
                default=0,
            )
            for k in KS
        }
        for name in ALGORITHMS:
            points = [
                (r["seconds"], r["distance"] / bounds[r["k"]], r["k"])
                for r in mine
                if r["name"] == name and bounds[r["k"]]
            ]
            if points:
                axis.scatter(
                    *zip(*[p[:2] for p in points], strict=True),
                    s=18,
                    color=colours[name],
                    label=name,
                )
        for item in reference():
            where = (
                str(item["log"]).removesuffix(".xes.gz"),
                item["preprocessing"] == "filtered",
                item["scope"],
            )
            if (
                where == (log, filtered, scope)
                and item.get("distance")
                and item.get("seconds")
                and bounds.get(item["k"])
            ):
                axis.scatter(
                    item["seconds"],
                    item["distance"] / bounds[item["k"]],
                    s=28,
                    facecolors="none",
                    edgecolors="black",
                )
        axis.set(
            xscale="log",
            yscale="log",
            title=f"{log} {'filtered' if filtered else 'whole'}, {scope}",
            xlabel="seconds",
        )
        axis.set_ylabel("distance / proved bound")
    for axis in list(axes.flat)[len(panels) :]:
        axis.set_visible(False)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6)
    figure.savefig(PLOT)
    plt.close(figure)


def main() -> None:
    """Measure what is missing, then show everything that was asked for."""
    asked = arguments()
    known: dict[str, Any] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.is_file() else {}
    wanted = list(cells(asked))
    missing = (
        {cell["log"] for cell in wanted if found(cell["log"]) is None}
        if not asked.table_only
        else set()
    )
    if missing:
        print(f"not found, so left out: {', '.join(sorted(missing))}", file=sys.stderr)
    for cell in wanted:
        failed = "failed" in known.get(key(cell), {"failed": ""})
        if asked.table_only or cell["log"] in missing or not (failed or asked.fresh):
            continue
        known[key(cell)] = measured(cell)
        print(
            key(cell),
            known[key(cell)].get("distance", known[key(cell)].get("failed")),
            file=sys.stderr,
        )
        RESULTS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", "utf-8")
    rows = [known[key(cell)] for cell in wanted if key(cell) in known]
    print("\n".join(table(rows)))
    plot(rows)
    print(f"plot: {PLOT.name}")


if __name__ == "__main__":
    main()
