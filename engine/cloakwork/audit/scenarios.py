"""Two invented processes, on which the accuracy of releases is foreseen: a usual one and a varied
one.

Both were written by hand, in the likeness of an office that handles applications and of a hospital
ward; neither was fitted to a log. Both are drawn from a seed, so anybody can draw the same cases
again.
"""

import random
from collections.abc import Callable, Mapping
from typing import Final

import polars as pl

from cloakwork.audit.utility import Variant
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog


def usual(draw: random.Random) -> Variant:
    """A sequence with choices, optional steps, a rare loop and rare swaps: few courses hold most
    cases.
    """
    course = ["a", "b"] + ["c"] * (draw.random() < 0.93)
    way = draw.random()
    course += ["d", "e"] if way < 0.6 else ["d"] if way < 0.85 else ["f", "g", "h"]
    course += ["i"] * (draw.random() < 0.85)
    while draw.random() < 0.06:
        course += [draw.choice("jklm"), "i"]
    course += ["n"] * (draw.random() < 0.7)
    if draw.random() < 0.04:
        course.append(draw.choice("opqrstu"))
    if draw.random() < 0.03:
        place = draw.randrange(len(course) - 1)
        course[place], course[place + 1] = course[place + 1], course[place]
    return tuple(course)


def varied(draw: random.Random) -> Variant:
    """Parallel steps in any order, then, for most, a long loop without a rhythm: nearly every case
    goes its own way.
    """
    first, parallel = ["r", "t", "s"], ["l", "c", "k"]
    if draw.random() < 0.3:
        draw.shuffle(first)
    draw.shuffle(parallel)
    parallel += ["i"] * (draw.random() < 0.4) + ["v", "b"] * (draw.random() < 0.8)
    if draw.random() < 0.3:
        draw.shuffle(parallel)
    course = first + parallel
    if draw.random() < 0.75:
        course += [
            "A",
            *(draw.choice("lclcLk") for _ in range(min(60, int(draw.expovariate(0.2))))),
        ]
        course += ["A"] * (draw.random() < 0.1)
        way = draw.random()
        course += ["X"] if way < 0.7 else ["Y"] if way < 0.8 else []
        course += ["R"] * (draw.random() < 0.28)
    return tuple(course)


SCENARIOS: Final[Mapping[str, Callable[[random.Random], Variant]]] = {
    "usual": usual,
    "varied": varied,
}


def log_of(courses: list[Variant]) -> EventLog:
    """One case a course, all at one time."""
    rows = [
        (str(case), label, "2024-01-01T00:00:00Z")
        for case, course in enumerate(courses)
        for label in course
    ]
    return EventLog.from_polars(pl.DataFrame(rows, [CASE_ID, ACTIVITY, TIMESTAMP], orient="row"))


def scenario(name: str, cases: int) -> EventLog:
    """So many cases of ``usual`` or ``varied``, the same every time."""
    draw = random.Random(name)  # noqa: S311 - nothing is hidden by it
    return log_of([SCENARIOS[name](draw) for _ in range(cases)])
