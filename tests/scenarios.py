"""Two invented processes, on which the accuracy of releases is predicted: a structured one, whose
few variants hold most cases, and an unstructured one.

Both were written by hand, in the likeness of an office that handles applications and of a hospital
ward; neither was fitted to a log. Both are drawn from a seed, so anybody can draw the same cases
again.
"""

import random
from collections.abc import Callable, Mapping
from typing import Final

import polars as pl

from cloakwork.evaluation.control_flow import Variant
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog


def structured(source: random.Random) -> Variant:
    """A sequence with choices, optional steps, a rare loop and rare swaps: few variants hold most
    cases.
    """
    labels = ["a", "b"] + ["c"] * (source.random() < 0.93)
    choice = source.random()
    if choice < 0.6:
        labels += ["d", "e"]
    elif choice < 0.85:
        labels += ["d"]
    else:
        labels += ["f", "g", "h"]
    labels += ["i"] * (source.random() < 0.85)
    while source.random() < 0.06:
        labels += [source.choice("jklm"), "i"]
    labels += ["n"] * (source.random() < 0.7)
    if source.random() < 0.04:
        labels.append(source.choice("opqrstu"))
    if source.random() < 0.03:
        place = source.randrange(len(labels) - 1)
        labels[place], labels[place + 1] = labels[place + 1], labels[place]
    return tuple(labels)


def unstructured(source: random.Random) -> Variant:
    """Parallel steps in any order, then, for most, a long loop without a rhythm: nearly every case
    is a variant of its own.
    """
    first = ["r", "t", "s"]
    parallel = ["l", "c", "k"]
    if source.random() < 0.3:
        source.shuffle(first)
    source.shuffle(parallel)
    parallel += ["i"] * (source.random() < 0.4) + ["v", "b"] * (source.random() < 0.8)
    if source.random() < 0.3:
        source.shuffle(parallel)
    labels = first + parallel
    if source.random() < 0.75:
        repetitions = min(60, int(source.expovariate(0.2)))
        labels += ["A", *(source.choice("lclcLk") for _ in range(repetitions))]
        labels += ["A"] * (source.random() < 0.1)
        choice = source.random()
        if choice < 0.7:
            labels += ["X"]
        elif choice < 0.8:
            labels += ["Y"]
        labels += ["R"] * (source.random() < 0.28)
    return tuple(labels)


SCENARIOS: Final[Mapping[str, Callable[[random.Random], Variant]]] = {
    "usual": structured,
    "varied": unstructured,
}
"""The processes by the names that predictions give them."""


def log_of(variants: list[Variant]) -> EventLog:
    """One case a variant that is listed, all at one time."""
    rows = [
        (str(case), label, "2024-01-01T00:00:00Z")
        for case, variant in enumerate(variants)
        for label in variant
    ]
    return EventLog.from_polars(pl.DataFrame(rows, [CASE_ID, ACTIVITY, TIMESTAMP], orient="row"))


def scenario(name: str, cases: int) -> EventLog:
    """So many cases of a process of ``SCENARIOS``, the same every time."""
    source = random.Random(name)
    draw_variant = SCENARIOS[name]
    return log_of([draw_variant(source) for _ in range(cases)])
