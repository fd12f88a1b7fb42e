"""One mechanism on one log, in a process of its own, at every (epsilon, delta) asked for; prints a
line of JSON for each.

    python benchmarks/variants/cell.py '{"mechanism": "variants/threshold", "log": "receipt",
    "runs": 10,
                                         "budgets": [[1.0, 1e-4]]}'

Every mechanism is given the same declared facts, and uses those that it can: ``alphabet`` (the
log's labels), ``longest_case`` (the events of the log's longest case: nothing is cut) and
``units_at_most`` (the log's cases, rounded up to two digits). On a real log these are the policy's
to declare; here they are read off it, for all alike. The published trees are given the length N and
threshold P of the reference figures besides, since over whole cases they may not end.

Finding the noise and reading the log are not part of the seconds; the run is. The peak of memory is
the process's, the log in it. Noise is fresh, so figures differ from run to run. The earth mover's
distances (similarity, difference) are taken of as many runs as ``COMPARING`` seconds allow, one at
least (``compared``), and of none above ``MOST_PAIRS`` pairs of variants.

``planned`` is no mechanism: it is what the planner chooses for a plain policy with this budget and
these facts, without the log, and with its own parameters. Its limit on delta, 1/(10 units), is left
out, so that it has a row at every delta.
"""

import json
import math
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from cloakwork.accounting.events import cost
from cloakwork.base.facts import Facts
from cloakwork.errors import CloakworkError
from cloakwork.evaluation.control_flow import (
    Histogram,
    absolute_log_difference,
    directly_follows,
    distances_of_steps,
    histogram,
    relative_log_similarity,
    true_variants,
)
from cloakwork.evaluation.utility import MOST_PAIRS
from cloakwork.log.eventlog import ACTIVITY, TIMESTAMP, EventLog
from cloakwork.log.formats import read_log
from cloakwork.plan.budget import check_deltas
from cloakwork.plan.passes import PASSES
from cloakwork.plan.planner import make_plan
from cloakwork.policy.model import Policy
from cloakwork.testing import Prepared, prepare

LOGS = Path(__file__).resolve().parents[3] / "shared" / "logs"
COMPARING = 8.0
PUBLISHED = {
    "sepsis": (30, 4, 20),
    "bpic2013_incidents": (13, 4, 40),
    "bpic2012_a": (9, 2, 20),
    "receipt": (10, 3, 25),
    "road_traffic_fines": (10, 2, 20),
    "unrineweginfectie": (10, 2, 20),
}
"""N, and P at epsilon 1 and at 0.1, for the published trees: those of the reference figures, some
inferred from how many true and fake variants these show; the last log has none.
"""


def read(name: str) -> EventLog:
    """A real log, its activities and times only."""
    return read_log(LOGS / f"{name}.xes.gz", keep=lambda column: column in (ACTIVITY, TIMESTAMP))


def declared(log: EventLog, source: Histogram) -> dict[str, Any]:
    """The facts that every mechanism is given."""
    unit = 10 ** max(0, len(str(log.cases.height)) - 2)
    return {
        "alphabet": tuple(sorted(set().union(*source))),
        "longest_case": int(np.diff(log.offsets).max()),
        "units_at_most": -(-log.cases.height // unit) * unit,
    }


def at(
    cell: dict[str, Any], log: EventLog, source: Histogram, epsilon: float, delta: float
) -> dict[str, Any]:
    """The figures at one budget, or why there are none."""
    budget, facts = {"epsilon": epsilon, "delta": delta}, declared(log, source)
    try:
        prepared, chosen = made(cell, budget, facts)
        found = means(repeated(prepared, log, source, cell["runs"]))
    except CloakworkError as error:
        return budget | {"refused": str(error).splitlines()[0]}
    except Exception as error:
        return budget | {
            "refused": f"{type(error).__name__}: {error}".splitlines()[0],
            "failed": True,
        }
    return budget | chosen | paid(prepared, facts, delta) | found


def made(
    cell: dict[str, Any], budget: dict[str, float], facts: dict[str, Any]
) -> tuple[Prepared, dict[str, str]]:
    """The mechanism with its parameters, and which it is where the planner has chosen."""
    name: str = cell["mechanism"]
    if name != "planned":
        tree = re.fullmatch(r"variants/(prefix-tree|sacofa)-published", name)
        options = as_published(cell["log"], tree[1], budget["epsilon"]) if tree else {}
        return prepare(name, options=options, **budget, **facts), {}
    goal = {"kind": "differential-privacy", "over": ["control-flow"], **budget}
    policy = Policy.model_validate(
        {
            "apiVersion": "cloakwork/v1",
            "kind": "PrivacyPolicy",
            "metadata": {
                "name": "plain",
                "version": "1.0.0",
                "owner": "o",
                "purpose": "p",
                "dataset": cell["log"],
            },
            "spec": {
                "unit": "case",
                "attributes": {
                    "concept:name": {"role": "control-flow"},
                    "*": {"treatment": "drop"},
                },
                "guarantees": [goal],
                "assume": facts | {"alphabet": list(facts["alphabet"])},
            },
        }
    )
    plan = make_plan(policy, passes=tuple(each for each in PASSES if each is not check_deltas))
    step = next(step for step in plan.steps if step.goals)
    return prepare(step.mechanism, **(facts | step.params)), {"chosen": step.mechanism}


def as_published(log: str, tree: str, epsilon: float) -> dict[str, int]:
    """Options of a published tree: between the two P that are known, P grows with 1/epsilon, and
    below 1 of it only.
    """
    length, at_one, at_a_tenth = PUBLISHED[log]
    threshold = at_a_tenth if epsilon <= 0.1 else math.ceil(at_one / min(1.0, epsilon))
    return {"length": length, "threshold": threshold} | (
        {"harmless_threshold": threshold} if tree == "sacofa" else {}
    )


def paid(prepared: Prepared, facts: dict[str, Any], delta: float) -> dict[str, Any]:
    """What the accountant derives for a run; epsilon is None where nothing bounds it."""
    spent = cost(prepared.mechanism.step(prepared.params, Facts(**facts)).event, delta)
    bounded = spent.epsilon < float("inf")
    return {
        "paid_epsilon": round(spent.epsilon, 6) if bounded else None,
        "paid_delta": spent.delta if bounded else None,
    }


def repeated(
    prepared: Prepared, log: EventLog, source: Histogram, runs: int
) -> list[dict[str, float | None]]:
    """Each run's figures."""
    found: list[dict[str, float | None]] = []
    comparing = 0.0
    for turn in range(runs):
        forget_peak()
        begun = time.perf_counter()
        release = histogram(prepared.run(log))
        own = {"seconds": time.perf_counter() - begun, "mib": peak()} | counted(source, release)
        begun = time.perf_counter()
        if turn == 0 or comparing < COMPARING:
            own |= compared(source, release)
        comparing += time.perf_counter() - begun
        found.append(own)
    return found


def counted(source: Histogram, release: Histogram) -> dict[str, float | None]:
    """Figures that cost little."""
    true = len(true_variants(source, release))
    edges, frequencies = distances_of_steps(*map(directly_follows, (source, release)))
    return {
        "dfg_emd": frequencies,
        "dfg_edges": edges,
        "cases": sum(release.values()),
        "true_variants": true,
        "fake_variants": len(release) - true,
        "empty": float(not release),
    }


def compared(source: Histogram, release: Histogram) -> dict[str, float | None]:
    """Earth mover's distances; an empty release has no similarity, so it is left out of the mean,
    as in the literature.
    """
    if len(source) * len(release) > MOST_PAIRS:
        return {}
    return {
        "similarity": relative_log_similarity(source, release) if release else None,
        "difference": absolute_log_difference(source, release),
    }


def means(runs: list[dict[str, float | None]]) -> dict[str, float | None]:
    """The mean of each figure over the runs that have it; of memory the most."""
    found: dict[str, float | None] = {"compared": sum("difference" in one for one in runs)}
    for name in dict.fromkeys(name for one in runs for name in one):
        values = [value for one in runs if (value := one.get(name)) is not None]
        found[name] = (
            round(float(max(values) if name == "mib" else np.mean(values)), 4) if values else None
        )
    return found


def forget_peak() -> None:
    """Let the process's peak of memory begin anew (Linux; elsewhere it is that of the whole
    process).
    """
    switch = Path("/proc/self/clear_refs")
    if switch.exists():
        switch.write_text("5", "ascii")


def peak() -> float | None:
    """The peak of the process's memory in MiB; None where the system does not say."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    return int(re.search(r"VmHWM:\s+(\d+)", status.read_text("ascii"))[1]) / 1024


def main(cell: dict[str, Any]) -> None:
    """One line a budget, as soon as it is measured."""
    log = read(cell["log"])
    source = histogram(log)
    for epsilon, delta in cell["budgets"]:
        print(json.dumps(at(cell, log, source, epsilon, delta)), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
