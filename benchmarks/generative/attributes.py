"""Attributes by noisy tables, and by a gradient step from them, at equal cost: one command.

    python benchmarks/generative/attributes.py [--log sepsis,receipt] [--epsilon 1,2,4]
                                               [--runs 10] [--seed 1] [--fresh] [--table-only]

Of each log the policy of ``benchmarks/wholelog`` is planned, with ``attributes/histogram`` and with
``attributes/regression``; then the steps that make cases are run, so that the noise is that of a
whole release, times included. Both give attributes to the same released control flow, from one
seed. Figures as there: ``attr`` attributes of events per activity, ``attr0`` over all events,
``cattr`` attributes of cases, ``tv2`` two attributes together, ``num`` numbers; 0 is best. Printed
are mean and standard deviation over the runs, and the ratio of both forms, by pairs of runs: its
geometric mean, and the factor that one standard error of it is. What was measured before is taken
from ``attributes.json``; runs are written down as they are measured.
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

import cell  # noqa: E402  the benchmark beside this one is no package

from cloakwork.evaluation.one_mechanism import run_step  # noqa: E402
from cloakwork.evaluation.whole_log import WholeLogUtility, compare_whole_logs  # noqa: E402
from cloakwork.mechanisms.registry import catalogue  # noqa: E402
from cloakwork.noise import reproducible  # noqa: E402
from cloakwork.plan.model import Plan  # noqa: E402
from cloakwork.plan.planner import make_plan  # noqa: E402

RESULTS = HERE / "attributes.json"
FORMS = ("attributes/histogram", "attributes/regression")
MEASURES = ("attr", "attr0", "cattr", "tv2", "num")
Runs = list[dict[str, Any]]


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


def planned(log: str, epsilon: float, form: str) -> Plan:
    """The plan of a log's policy that has attributes by ``form``."""
    document = cell.policy_of(log)
    document["spec"]["mechanisms"] = {"prefer": [form]}
    plan = make_plan(cell.asked(document, log, epsilon))
    if form not in [step.mechanism for step in plan.steps]:
        raise SystemExit(f"{form} was not chosen for {log}")
    return plan


def figures(found: WholeLogUtility) -> dict[str, float | None]:
    """The measures, under their short names."""
    kept = (
        found.attributes_per_activity,
        found.attributes_over_all,
        found.case_attributes,
        found.two_way_tables,
        found.numbers,
    )
    rounded = [None if figure is None else round(figure, 5) for figure in kept]
    return dict(zip(MEASURES, rounded, strict=True))


def measured(log: str, epsilon: float, seeds: range) -> Iterator[dict[str, Any]]:
    """The figures of both forms, a seed each."""
    policy = cell.asked(cell.policy_of(log), log, epsilon)
    facts, names = policy.facts(), cell.attributes_of(policy)
    source = cell.read(log, names)
    plans = {form: planned(log, epsilon, form) for form in FORMS}
    steps = {form: {step.mechanism: step for step in plans[form].steps} for form in FORMS}

    def made(form: str, name: str, before: Any, seed: int, released: Any = None) -> Any:
        mechanism: Any = catalogue()[name]
        params = mechanism.Params.model_validate(steps[form][name].params)
        return run_step(mechanism, params, before, reproducible(seed), facts, None, released)

    for seed in seeds:
        found: dict[str, Any] = {"seed": seed}
        bounded = made(FORMS[0], "bound", source, 2 * seed)
        flow = made(FORMS[0], "variants/markov", bounded, 2 * seed)
        for form in FORMS:
            release = made(form, form, bounded, 2 * seed + 1, flow)
            utility = compare_whole_logs(
                source, release, times=False, attributes=names, ranges=facts.ranges
            )
            found[form] = figures(utility)
        yield found


def compared(runs: Runs) -> Iterator[str]:
    """One line a measure that the log has."""
    for name in MEASURES:
        sides = [[run[form][name] for run in runs] for form in FORMS]
        if None in sides[0] or None in sides[1]:
            continue
        logs = [math.log(ours / theirs) for theirs, ours in zip(*sides, strict=True)]
        error = statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.nan
        shown = "   ".join(
            f"{statistics.mean(side):.4f} ({statistics.pstdev(side):.4f})" for side in sides
        )
        yield f"{name:5} {shown}   {math.exp(statistics.mean(logs)):.2f} x/ {math.exp(error):.2f}"


def main() -> None:
    """Measure what is missing, then print all."""
    asked = arguments()
    known: dict[str, Runs] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.is_file() else {}
    print("      table: mean (sd)   regression: mean (sd)   ratio, factor of its error")
    for log, epsilon in product(asked.log.split(","), map(float, asked.epsilon.split(","))):
        place = f"{log} {epsilon:g}"
        runs = [] if asked.fresh and not asked.table_only else known.get(place, [])
        missing = 0 if asked.table_only else max(asked.runs - len(runs), 0)
        first = asked.seed + len(runs)
        for run in measured(log, epsilon, range(first, first + missing)):
            known[place] = runs = [*runs, run]
            RESULTS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", "utf-8")
        if runs:
            print(f"{log}, epsilon {epsilon:g}, {len(runs)} runs")
            print("\n".join(compared(runs)), flush=True)


if __name__ == "__main__":
    main()
