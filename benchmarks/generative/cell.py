"""One method on one log at every epsilon asked for, in a process of its own; prints a line of JSON
for each.

    python benchmarks/generative/cell.py '{"method": "variants/ddpm-published", "log": "sepsis",
                                           "epsilons": [2, 1], "delta": 1e-4, "runs": 5}'

A method is the name of a mechanism, with its own parameters but for those of ``OPTIONS``, or
``UNIFORM``: as many cases as the source has, each of a variant drawn with equal chances among the
source's, which is all that a leaked domain gives away. Every mechanism is told the same facts: the
log's activities, its longest case, its cases rounded up to two digits. Noise is fresh.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cloakwork.accounting.events import cost
from cloakwork.base.facts import Facts
from cloakwork.errors import CloakworkError
from cloakwork.evaluation.control_flow import (
    Histogram,
    histogram,
    relative_log_similarity,
    true_variants,
)
from cloakwork.evaluation.utility import MOST_PAIRS
from cloakwork.log.eventlog import EventLog
from cloakwork.noise import secret
from cloakwork.testing import prepare

# The checkout, wherever this is run from.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.variants.cell import declared, peak, read

UNIFORM = "uniform over the leaked variants"
OPTIONS: dict[tuple[str, str], dict[str, Any]] = {
    ("variants/ddpm-published", "sepsis"): {"epochs": 3, "steps": 20},
    ("variants/ddpm-published", "bpic2013_incidents"): {"epochs": 3, "steps": 20},
    ("variants/travag-published", "bpic2012_a"): {"epochs": 5, "adversarial_epochs": 5},
}
"""By method and log, what a mechanism is told beside its defaults. The published forms: so that a
run on two busy cores takes a few minutes (a denoiser over 846 variants has nine million weights).
"""


def at(cell: dict[str, Any], log: EventLog, source: Histogram, epsilon: float) -> dict[str, Any]:
    """The figures at one epsilon, or why there are none."""
    known = {"epsilon": epsilon, "delta": cell["delta"]}
    try:
        draw, paid = drawn_by(cell["method"], cell["log"], log, source, known)
        return known | paid | repeated(draw, source, cell["runs"])
    except CloakworkError as error:
        return known | {"refused": str(error).splitlines()[0]}


def drawn_by(
    method: str, name: str, log: EventLog, source: Histogram, budget: dict[str, float]
) -> tuple[Callable[[], Histogram], dict[str, float | None]]:
    """What makes one release, and what the accountant derives for it: None where nothing bounds
    it.
    """
    if method == UNIFORM:
        return lambda: uniform(source), {"paid_epsilon": None, "paid_delta": None}
    facts, options = declared(log, source), OPTIONS.get((method, name), {})
    prepared = prepare(method, options=options, **budget, **facts)
    spent = cost(prepared.mechanism.step(prepared.params, Facts(**facts)).event, budget["delta"])
    if spent.epsilon == float("inf"):
        paid = {"paid_epsilon": None, "paid_delta": None}
    else:
        paid = {"paid_epsilon": round(spent.epsilon, 6), "paid_delta": spent.delta}
    return lambda: histogram(prepared.run(log)), paid


def uniform(source: Histogram) -> Histogram:
    """As many cases, each of any variant."""
    variants, cases = sorted(source), sum(source.values())
    drawn = secret().uniform(np.full(cases, len(variants), np.int64))
    counts = np.bincount(drawn, minlength=len(variants)).tolist()
    return {variant: count for variant, count in zip(variants, counts, strict=True) if count}


def repeated(draw: Callable[[], Histogram], source: Histogram, runs: int) -> dict[str, Any]:
    """The mean of each figure over the runs, every run's similarity, and the most memory."""
    found: list[dict[str, float]] = []
    similarities = []
    for _ in range(runs):
        begun, used = time.perf_counter(), time.process_time()
        release = draw()
        true = len(true_variants(source, release))
        found.append(
            {
                "seconds": time.perf_counter() - begun,
                "cpu_seconds": time.process_time() - used,
                "cases": sum(release.values()),
                "true_variants": true,
                "fake_variants": len(release) - true,
            }
        )
        if release and len(source) * len(release) <= MOST_PAIRS:
            similarities.append(round(relative_log_similarity(source, release), 4))
    means = {name: round(float(np.mean([one[name] for one in found])), 3) for name in found[0]}
    similarity = round(float(np.mean(similarities)), 4) if similarities else None
    return {
        "similarity": similarity,
        "similarities": similarities,
        **means,
        "mib": round(peak() or 0),
    }


def main(cell: dict[str, Any]) -> None:
    """One line an epsilon, as soon as it is measured."""
    log = read(cell["log"])
    source = histogram(log)
    for epsilon in cell["epsilons"]:
        print(json.dumps(at(cell, log, source, epsilon)), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
