"""Who recognises members in releases of generative models: one command, one table, one plot.

    python benchmarks/generative/membership.py [--log sepsis] [--methods variants/ddpm-published]
                                               [--runs 40] [--fresh] [--table-only]

Each mechanism, proved or published, makes releases of random halves of a real log; shadow models
learn from some of them what a member looks like in the others (``cloakwork risk --membership``).
The plot has the cases that are alone with their variant; the dashed line is the most that the
claim, epsilon 2 and delta 1e-4, allows to any attack. What was measured before is taken from
``membership.json``.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import cell
import numpy as np

from cloakwork.evaluation.membership import attack_membership
from cloakwork.evaluation.risk_figures import MembershipFigures

HERE = Path(__file__).resolve().parent
RESULTS, PLOT = HERE / "membership.json", HERE / "membership.svg"
METHODS = (
    "variants/threshold",
    "variants/ddpm",
    "variants/travag",
    "variants/transformer",
    "variants/ddpm-published",
    "variants/travag-published",
)
EPSILON, DELTA, SEED = 2.0, 1e-4, 1
ALONE = "alone"


def arguments() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--log", default="sepsis")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--fresh", action="store_true", help="forget what is asked for first")
    parser.add_argument("--table-only", action="store_true", help="measure nothing")
    return parser.parse_args()


def attacked(method: str, log: str, runs: int) -> dict[str, Any]:
    """What the attack finds, and how long it took."""
    source = cell.read(log)
    begun = time.perf_counter()
    found = attack_membership(
        method,
        source,
        epsilon=EPSILON,
        delta=DELTA,
        runs=runs,
        seed=SEED,
        options=cell.OPTIONS.get((method, log)),
        **cell.declared(source, cell.histogram(source)),
    )
    return {
        "figures": found.model_dump(mode="json"),
        "seconds": round(time.perf_counter() - begun, 1),
    }


def table(found: dict[str, MembershipFigures]) -> list[str]:
    """One line a method."""
    lines = [f"{'':28}{'runs':>5}{'area, all':>11}{'alone':>7}{'epsilon, at least':>19}  exceeded"]
    for method, each in found.items():
        areas = {group.name: group.area.share for group in each.groups}
        shown = "".join(
            f"{areas[name]:{width}.3f}" if name in areas else " " * width
            for name, width in (("all", 11), (ALONE, 7))
        )
        lines.append(
            f"{method:28}{each.runs:5}{shown}{each.epsilon_at_least:19.2f}  "
            f"{'yes' if each.exceeded else 'no'}"
        )
    return lines


def plot(log: str, found: dict[str, MembershipFigures]) -> None:
    """Members recognised against false alarms: full lines are proved, dotted ones published."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "membership"
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6.4, 5.6), layout="constrained")
    least = 1e-3
    shares = np.geomspace(least, 1, 100)
    axis.plot(shares, shares, color="0.7", linewidth=0.8, label="guessing")
    claimed = next((each.claimed for each in found.values() if each.claimed), None)
    if claimed is not None:
        limits = [claimed.limit(share) for share in shares]
        axis.plot(shares, limits, "k--", linewidth=1, label="the most that the claim allows")
    for method, each in found.items():
        curve = next((group.curve for group in each.groups if group.name == ALONE), ())
        style = ":" if method.endswith("-published") else "-"
        drawn = np.maximum(np.array(curve), least)
        axis.plot(*drawn.T, style, linewidth=1.8, label=method)
    axis.set(
        xscale="log",
        yscale="log",
        xlim=(least, 1),
        ylim=(least, 1.05),
        title=f"{log}: cases that are alone with their variant",
        xlabel="false alarms",
        ylabel="members recognised",
    )
    axis.legend(fontsize="small")
    figure.savefig(PLOT, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Measure what is missing, then show all of the log."""
    asked = arguments()
    known: dict[str, Any] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.is_file() else {}
    for method in asked.methods.split(","):
        place = f"{method} on {asked.log}"
        if asked.table_only or (place in known and not asked.fresh):
            continue
        known[place] = attacked(method, asked.log, asked.runs)
        RESULTS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", "utf-8")
        print(f"{place}: {known[place]['seconds']:,.0f} s", file=sys.stderr)
    places = {method: known.get(f"{method} on {asked.log}") for method in METHODS}
    found = {
        method: MembershipFigures.model_validate(each["figures"])
        for method, each in places.items()
        if each is not None
    }
    print("\n".join(table(found)))
    plot(asked.log, found)
    print(f"plot: {PLOT.name}")


if __name__ == "__main__":
    main()
