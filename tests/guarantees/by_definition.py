"""What the checks measure, as the definitions tell it, case by case in plain Python."""

from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import wasserstein_distance

from cloakwork.guarantees import ConfidenceBound, KAnonymity
from cloakwork.guarantees.confidence_bound import WorstKnowledge
from cloakwork.log.eventlog import EventLog
from contracts.sample_logs import courses_of, times_of_cases

PERSON, ILLNESS = "case:Person", "case:Illness"

Groups = list[tuple[list[Any], list[Any]]]


def plain_groups(log: EventLog, attribute: str, classes: str) -> Groups:
    """Each group of values beside all values of its activity, as the definition tells it, case by
    case.
    """
    members: dict[Any, list[Any]] = defaultdict(list)
    whole: dict[Any, list[Any]] = defaultdict(list)
    for row, sequence in enumerate(courses_of(log)):
        if attribute.startswith("case:"):
            value = log.cases[attribute][row]
            whole[None].append(value)
            ends = [len(sequence)] if classes == "variants" else range(1, len(sequence) + 1)
            for end in ends:
                members[sequence[:end], None].append(value)
            continue
        for step, activity in enumerate(sequence):
            value = log.events[attribute][int(log.offsets[row]) + step]
            whole[activity].append(value)
            members[sequence if classes == "variants" else sequence[: step + 1], activity].append(
                value
            )
    return [(values, whole[activity]) for (_, activity), values in members.items()]


Places = Callable[[Any, list[Any]], float]
"""Where a number lies, given all values of its activity."""


def by_rank(value: Any, whole: list[Any]) -> float:
    """The share of the numbers that are smaller, and half of those that are equal."""
    numbers = [other for other in whole if other is not None]
    return (
        sum(other < value for other in numbers) + sum(other == value for other in numbers) / 2
    ) / len(numbers)


def plain_distance(part: list[Any], whole: list[Any], place: Places) -> tuple[float, float]:
    """The earth mover's distance of two lists of values, None being one, and the bound that is
    measured.

    The first by a linear program over all pairs of different values; the second by moving the
    difference in what is missing, and the other values in proportion.
    """
    values = list(dict.fromkeys([*whole, *part]))
    one, other = ([Counter(side)[value] / len(side) for value in values] for side in (part, whole))
    numeric = all(
        isinstance(value, int | float) and not isinstance(value, bool)
        for value in values
        if value is not None
    )

    def apart(x: Any, y: Any) -> float:
        if x is None or y is None or not numeric:
            return float(x != y)
        return abs(place(x, whole) - place(y, whole))

    from ot import emd2  # takes a second to load

    exact = float(emd2(one, other, np.array([[apart(x, y) for y in values] for x in values])))
    if not numeric:
        return exact, exact
    sides = [[place(value, whole) for value in side if value is not None] for side in (part, whole)]
    shares = [len(there) / len(side) for there, side in zip(sides, (part, whole), strict=True)]
    between = float(wasserstein_distance(*sides)) if all(sides) else 0.0
    return exact, abs(shares[0] - shares[1]) + min(shares) * between


def plainly(log: EventLog, goal: ConfidenceBound, *, persons: bool) -> WorstKnowledge | None:
    """What every single piece of knowledge of at most L events finds."""
    matching: dict[tuple[Any, ...], set[int]] = defaultdict(set)
    times = times_of_cases(log)
    for case, sequence in enumerate(courses_of(log)):
        timed = list(zip(sequence, times[case], strict=True))
        known = {
            "set": sorted(set(sequence)),
            "multiset": sorted(sequence),
            "sequence": sequence,
            "relative": timed,
        }
        for size in range(goal.L + 1):
            for knowledge in combinations(known[goal.background], size):
                matching[knowledge].add(case)
    if not log.cases.height:
        return None
    everybody = range(log.cases.height)
    owner = [log.cases[PERSON][case] or case for case in everybody] if persons else everybody
    named = {case for case in everybody if not persons or log.cases[PERSON][case]}
    smallest = min(len({owner[case] for case in cases & named}) for cases in matching.values())
    confidence = 0.0
    for cases in matching.values():
        for value in set(log.cases[ILLNESS][list(cases)].drop_nulls()):
            holders = {case for case in cases if log.cases[ILLNESS][case] == value}
            confidence = max(confidence, len(holders) / len(cases))
            for some in (set(everybody), named):
                of, among = ({owner[case] for case in which & some} for which in (holders, cases))
                confidence = max(confidence, len(of) / len(among) if among else 0)
    return WorstKnowledge(smallest, confidence if goal.attribute else None)


def plain_smallest(log: EventLog, goal: KAnonymity) -> int | None:
    """The cases, or the different persons, of the smallest class."""
    columns = [name for name in goal.over if name != "control-flow"]
    members: dict[Any, list[int]] = defaultdict(list)
    for case, sequence in enumerate(courses_of(log)):
        rows = range(log.offsets[case], log.offsets[case + 1])
        of_case = tuple(log.cases[name][case] for name in columns if name.startswith("case:"))
        of_events = [
            tuple(log.events[name][row] for name in columns if not name.startswith("case:"))
            for row in rows
        ]
        seen = list(zip(sequence, of_events, strict=True))
        ends = range(len(seen) + 1) if goal.scope == "prefixes" else [len(seen)]
        for end in ends:
            members[of_case, tuple(seen[:end])].append(case)
    if goal.count == "cases":
        return min(map(len, members.values()), default=None)
    persons = [{log.cases[PERSON][case] for case in cases} - {None} for cases in members.values()]
    return min(map(len, persons), default=None)


def plainly_shown(log: EventLog) -> list[bool]:
    """For each event whether somebody who looks for inserted events takes it for one: no other
    event of its activity that is not inserted lacks just the same attributes.
    """
    rows = log.events.rows(named=True)
    patterns = [(row["concept:name"], *(value is None for value in row.values())) for row in rows]
    inserted = log.inserted
    assert inserted is not None
    kept = {pattern for pattern, mark in zip(patterns, inserted, strict=True) if not mark}
    return [
        bool(mark) and pattern not in kept for pattern, mark in zip(patterns, inserted, strict=True)
    ]
