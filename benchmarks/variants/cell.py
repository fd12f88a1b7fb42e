"""One mechanism on one log, in a process of its own, at every (epsilon, delta) that is asked for; prints one line of JSON.

    python benchmarks/variants/cell.py '{"mechanism": "variants/threshold", "log": "receipt", "runs": 5,
                                         "budgets": [[1.0, 1e-4]]}'

Reading the log is not part of the time; the run of the mechanism is. Noise is fresh, so figures differ from run to run.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from cloakwork.audit.utility import (
    Histogram,
    absolute_log_difference,
    dfg_edge_distance,
    dfg_frequency_distance,
    histogram,
    relative_log_similarity,
    true_variants,
)
from cloakwork.errors import MechanismError
from cloakwork.log.eventlog import ACTIVITY, TIMESTAMP, EventLog
from cloakwork.log.io import read_log
from cloakwork.testing import run_mechanism

LOGS = Path(__file__).resolve().parents[3] / "shared" / "logs"
LONGEST = {
    "sepsis": 30,
    "bpic2013_incidents": 13,
    "bpic2012_a": 9,
    "receipt": 20,
    "road_traffic_fines": 15,
    "unrineweginfectie": 10,
}
"""Events a case: what a policy might declare public, for mechanisms that need a length; chosen beforehand, not tuned."""


def run(cell: dict[str, Any]) -> list[dict[str, Any]]:
    """The means over the runs, or why the mechanism refuses, for each budget."""
    log = read_log(LOGS / f"{cell['log']}.xes.gz", keep=lambda column: column in (ACTIVITY, TIMESTAMP))
    source = histogram(log)
    declared = {"alphabet": tuple(sorted(set().union(*source))), "longest_case": LONGEST[cell["log"]]}
    return [at(cell, log, source, declared, epsilon, delta) for epsilon, delta in cell["budgets"]]


def at(
    cell: dict[str, Any], log: EventLog, source: Histogram, declared: dict[str, Any], epsilon: float, delta: float
) -> dict[str, Any]:
    """The figures at one budget; declared facts are given only to a mechanism that does not run without them."""
    budget = {"epsilon": epsilon, "delta": delta}
    try:
        facts: dict[str, Any] = {}
        run_mechanism(cell["mechanism"], EventLog.empty(), **budget)
    except MechanismError:
        facts = declared
    runs = []
    for _ in range(cell["runs"]):
        begun = time.perf_counter()
        try:
            released = run_mechanism(cell["mechanism"], log, **budget, **facts)
        except MechanismError as error:
            return budget | {"refused": str(error)}
        runs.append(figures(source, histogram(released)) | {"seconds": time.perf_counter() - begun})
    return budget | means(runs)


def figures(source: Histogram, release: Histogram) -> dict[str, float | None]:
    """One run's figures; an empty release has no similarity, so that it is left out of the mean, as in the literature."""
    true = len(true_variants(source, release))
    return {
        "similarity": relative_log_similarity(source, release) if release else None,
        "difference": absolute_log_difference(source, release),
        "dfg_emd": dfg_frequency_distance(source, release),
        "dfg_edges": dfg_edge_distance(source, release),
        "cases": sum(release.values()),
        "true_variants": true,
        "fake_variants": len(release) - true,
        "empty": float(not release),
    }


def means(runs: list[dict[str, float | None]]) -> dict[str, float | None]:
    """The mean of each figure over the runs that have it."""
    found: dict[str, float | None] = {}
    for name in runs[0]:
        values = [value for one in runs if (value := one[name]) is not None]
        found[name] = round(float(np.mean(values)), 4) if values else None
    return found


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))))
