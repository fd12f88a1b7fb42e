"""Durations by a table, and by a regression trained under noise, at equal cost: one command.

    python benchmarks/generative/conditional.py [--log sepsis,receipt] [--epsilon 1,2,4]
                                                [--runs 10] [--seed 1] [--fresh] [--table-only]

Each run is a whole release by the log's policy (``benchmarks/wholelog``), with
``timestamps/histogram`` and with ``timestamps/regression``, from the same seed: control flow and,
up to where durations are measured, all noise is the same. Figures as there: ``dur`` case
durations, ``wait`` waiting times per step, ``how`` hours of the week. Printed are median, mean and
standard deviation over the runs, and the ratio of both forms, by pairs of runs: its geometric mean,
and the factor that one standard error of it is. What was measured before is taken from
``conditional.json``.
"""

import argparse
import json
import math
import statistics
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "wholelog"))

import cell  # noqa: E402  the benchmark beside this one has no package

RESULTS = HERE / "conditional.json"
FORMS = ("timestamps/histogram", "timestamps/regression")
MEASURES = ("dur", "wait", "how")
FIGURES = (statistics.median, statistics.mean, statistics.pstdev)
Runs = list[dict[str, float]]


def arguments() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--log", default="sepsis,receipt")
    parser.add_argument("--epsilon", default="1,2,4")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fresh", action="store_true", help="forget what is asked for first")
    parser.add_argument("--table-only", action="store_true", help="measure nothing")
    return parser.parse_args()


def key(log: str, epsilon: float, form: str) -> str:
    """What runs are filed under."""
    return f"{log} {epsilon:g} {form}"


def measured(log: str, epsilon: float, form: str, seeds: range) -> Iterator[dict[str, float]]:
    """The figures of one release a seed."""
    document = cell.policy_of(log)
    document["spec"]["mechanisms"] = {"prefer": [form]}
    policy = cell.asked(document, log, epsilon)
    source = cell.read(log, cell.attributes_of(policy))
    for seed in seeds:
        before, release, figures = cell.made("ours", policy, source, seed)
        if form not in figures["steps"]:
            raise SystemExit(f"{form} was not chosen: {figures['steps']}")
        found = cell.compared(policy, before, release)
        yield {"seed": seed} | {name: round(found[name], 5) for name in MEASURES}


def compared(table: Runs, regression: Runs) -> Iterator[str]:
    """One line a measure."""
    for name in MEASURES:
        sides = [[run[name] for run in runs] for runs in (table, regression)]
        logs = [math.log(ours / theirs) for theirs, ours in zip(*sides, strict=False)]
        error = statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.nan
        shown = "   ".join(" ".join(f"{figure(side):.3f}" for figure in FIGURES) for side in sides)
        yield f"{name:5} {shown}   {math.exp(statistics.mean(logs)):.2f} x/ {math.exp(error):.2f}"


def main() -> None:
    """Measure what is missing, then print all."""
    asked = arguments()
    known: dict[str, Any] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.is_file() else {}
    epsilons = [float(text) for text in asked.epsilon.split(",")]
    print("       table: median mean sd   regression: median mean sd   ratio, factor of its error")
    for log, epsilon in product(asked.log.split(","), epsilons):
        for form in FORMS:
            place = key(log, epsilon, form)
            runs: Runs = [] if asked.fresh and not asked.table_only else known.get(place, [])
            if not asked.table_only:
                for run in measured(
                    log, epsilon, form, range(asked.seed + len(runs), asked.seed + asked.runs)
                ):
                    known[place] = runs = [*runs, run]
                    RESULTS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", "utf-8")
        found = [known.get(key(log, epsilon, form), []) for form in FORMS]
        if all(found):
            print(f"{log}, epsilon {epsilon:g}, {min(map(len, found))} runs")
            print("\n".join(compared(*found)), flush=True)


if __name__ == "__main__":
    main()
