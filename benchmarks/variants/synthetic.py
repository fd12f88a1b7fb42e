"""Synthetic logs on which the constants of variants/markov were chosen, and how it does on them.

    python benchmarks/variants/synthetic.py 5

Prints relative log similarity (means over the runs asked for) beside variants/threshold, at delta 1e-4. Every family is
invented: a sequence with choices, a ward's tangle of parallel steps and loops, short loops over four labels, and a small
set of variants. No figure of a real log went into them or into the constants.
"""

import random
import sys
from collections import Counter
from collections.abc import Callable

import polars as pl

from cloakwork.audit.utility import Variant, histogram, relative_log_similarity
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.testing import run_mechanism


def structured(draw: random.Random) -> Variant:
    """A sequence with choices, optional steps, a rare loop and rare swaps."""
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


def tangled(draw: random.Random) -> Variant:
    """Parallel steps in any order, then, for most, a long loop without a rhythm: nearly every case is its own variant."""
    first, parallel = ["r", "t", "s"], ["l", "c", "k"]
    if draw.random() < 0.3:
        draw.shuffle(first)
    draw.shuffle(parallel)
    parallel += ["i"] * (draw.random() < 0.4) + ["v", "b"] * (draw.random() < 0.8)
    if draw.random() < 0.3:
        draw.shuffle(parallel)
    course = first + parallel
    if draw.random() < 0.75:
        course += ["A", *(draw.choice("lclcLk") for _ in range(min(60, int(draw.expovariate(0.2)))))]
        course += ["A"] * (draw.random() < 0.1)
        way = draw.random()
        course += ["X"] if way < 0.7 else ["Y"] if way < 0.8 else []
        course += ["R"] * (draw.random() < 0.28)
    return tuple(course)


def looping(draw: random.Random) -> Variant:
    """Few labels, short loops, cases that loop more or less."""
    course = ["A", "A"] if draw.random() < 0.75 else ["Q", "A"] if draw.random() < 0.6 else ["A"]
    again = draw.choice([0.15, 0.4, 0.6, 0.8])
    while draw.random() < again and len(course) < 100:
        course += draw.choice(["A", "QA", "AA", "QAA", "U"]) if draw.random() < 0.9 else draw.choice("AQCU")
    return (*course, "C", *(["C"] * (draw.random() < 0.6)))


def few(draw: random.Random) -> Variant:
    """Nine variants."""
    shares = {
        "abz": 40,
        "abc": 15,
        "abcdz": 15,
        "abcdefg": 10,
        "abcdegf": 7,
        "abcdfeg": 5,
        "abcx": 4,
        "abcdx": 3,
        "abcdex": 1,
    }
    return tuple(draw.choices(list(shares), list(shares.values()))[0])


FAMILIES: dict[str, tuple[Callable[[random.Random], Variant], int]] = {
    "structured": (structured, 1400),
    "tangled": (tangled, 1000),
    "looping": (looping, 7500),
    "few": (few, 13000),
}
"""Family to its course of one case, and cases."""


def log_of(courses: list[Variant]) -> EventLog:
    """One case a course, an hour an event."""
    rows = [(str(case), label, f"2024-01-01T{0:02}:00:00Z") for case, course in enumerate(courses) for label in course]
    return EventLog.from_polars(pl.DataFrame(rows, [CASE_ID, ACTIVITY, TIMESTAMP], orient="row"))


def main(runs: int) -> None:
    """One line a family and epsilon."""
    for family, (course, cases) in FAMILIES.items():
        draw = random.Random(family)
        log = log_of([course(draw) for _ in range(cases)])
        source = histogram(log)
        alphabet = tuple(sorted(set().union(*source)))
        for epsilon in (2.0, 1.0, 0.1):
            figures: Counter[str] = Counter()
            for _ in range(runs):
                for name, facts in (("variants/threshold", {}), ("variants/markov", {"alphabet": alphabet})):
                    released = run_mechanism(name, log, epsilon=epsilon, delta=1e-4, **facts)
                    figures[name] += relative_log_similarity(source, histogram(released)) / runs
            print(family, epsilon, *(f"{name} {figure:.3f}" for name, figure in figures.items()), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
