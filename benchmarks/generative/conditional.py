"""Times by tables, and by regressions fitted to noisy sums, at equal cost: one command.

    python benchmarks/generative/conditional.py [--log sepsis,receipt] [--epsilon 1,2,4]
                                                [--runs 10] [--seed 1] [--fresh] [--table-only]

Of each log the policy of ``benchmarks/wholelog`` is planned, with ``timestamps/histogram`` and with
``timestamps/regression``; then the steps up to these are run, so that the noise is that of a whole
release, attributes included. Both give times to the same released control flow, from one seed.
Figures as there: ``dur`` case durations, ``wait`` waiting times per step, ``how`` hours of the
week. Printed are median, mean and standard deviation over the runs, and the ratio of both forms, by
pairs of runs: its geometric mean, and the factor that one standard error of it is. What was
measured before is taken from ``conditional.json``; runs are written down as they are measured.
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
from cloakwork.evaluation.whole_log import compare_whole_logs  # noqa: E402
from cloakwork.mechanisms.registry import catalogue  # noqa: E402
from cloakwork.noise import reproducible  # noqa: E402
from cloakwork.plan.model import Plan  # noqa: E402
from cloakwork.plan.planner import make_plan  # noqa: E402

RESULTS = HERE / "conditional.json"
FORMS = ("timestamps/histogram", "timestamps/regression")
MEASURES = ("dur", "wait", "how")
FIGURES = (statistics.median, statistics.mean, statistics.pstdev)
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
    """The plan of a log's policy that has times by ``form``."""
    document = cell.policy_of(log)
    document["spec"]["mechanisms"] = {"prefer": [form]}
    plan = make_plan(cell.asked(document, log, epsilon))
    if form not in [step.mechanism for step in plan.steps]:
        raise SystemExit(f"{form} was not chosen for {log}")
    return plan


def measured(log: str, epsilon: float, runs: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The same runs with the figures of both forms; those that are there are kept."""
    facts = cell.asked(cell.policy_of(log), log, epsilon).facts()
    source = cell.read(log, [])
    plans = {form: planned(log, epsilon, form) for form in FORMS}
    steps = {form: {step.mechanism: step for step in plans[form].steps} for form in FORMS}

    def made(form: str, name: str, before: Any, seed: int, released: Any = None) -> Any:
        mechanism: Any = catalogue()[name]
        params = mechanism.Params.model_validate(steps[form][name].params)
        return run_step(mechanism, params, before, reproducible(seed), facts, None, released)

    for known in runs:
        found, seed = dict(known), known["seed"]
        bounded = made(FORMS[0], "bound", source, 2 * seed)
        flow = made(FORMS[0], "variants/markov", bounded, 2 * seed)
        for form in set(FORMS) - set(known):
            release = made(form, form, bounded, 2 * seed + 1, flow)
            utility = compare_whole_logs(source, release)
            kept = (utility.case_durations, utility.waiting_times, utility.hours_of_week)
            figures = [round(each or 0.0, 5) for each in kept]
            found[form] = dict(zip(MEASURES, figures, strict=True))
        yield found


def compared(runs: Runs) -> Iterator[str]:
    """One line a measure."""
    for name in MEASURES:
        sides = [[run[form][name] for run in runs] for form in FORMS]
        logs = [math.log(ours / theirs) for theirs, ours in zip(*sides, strict=True)]
        error = statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.nan
        shown = "   ".join(" ".join(f"{each(side):.3f}" for each in FIGURES) for side in sides)
        yield f"{name:5} {shown}   {math.exp(statistics.mean(logs)):.2f} x/ {math.exp(error):.2f}"


def main() -> None:
    """Measure what is missing, then print all."""
    asked = arguments()
    known: dict[str, Runs] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.is_file() else {}
    print("      table: median mean sd   regression: median mean sd   ratio, factor of its error")
    for log, epsilon in product(asked.log.split(","), map(float, asked.epsilon.split(","))):
        place = f"{log} {epsilon:g}"
        runs = [] if asked.fresh and not asked.table_only else known.get(place, [])
        seeds = range(asked.seed, asked.seed + asked.runs)
        begun = {run["seed"]: run for run in runs}
        wanting = [begun.get(seed, {"seed": seed}) for seed in seeds]
        wanting = [run for run in wanting if not asked.table_only and len(run) <= len(FORMS)]
        for run in measured(log, epsilon, wanting) if wanting else ():
            begun[run["seed"]] = run
            known[place] = [begun[seed] for seed in sorted(begun)]
            RESULTS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", "utf-8")
        runs = [run for run in known.get(place, []) if len(run) > len(FORMS)]
        if runs:
            print(f"{log}, epsilon {epsilon:g}, {len(runs)} runs")
            print("\n".join(compared(runs)), flush=True)


if __name__ == "__main__":
    main()
