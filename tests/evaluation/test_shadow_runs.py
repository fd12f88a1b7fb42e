"""Random halves of a log, and what is read off their releases."""

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from cloakwork.evaluation.membership import SoughtSequences, shadow_runs
from cloakwork.log.eventlog import CASE_ID, EventLog
from cloakwork.testing.contract_logs import log_of


def test_statistics_are_those_of_the_release() -> None:
    """Counts and likelihoods, computed by hand; labels that the log has not are one more symbol."""
    log = log_of(["ab", "ac", "ab", "c"])
    released = log_of(["ab", "ab", "abz"])
    sought = SoughtSequences.of(log, np.arange(4), np.array([0, 3]))
    found = sought.statistics(released)
    # Symbols: a, b, c, another one, START, END.
    steps = Counter({("START", "a"): 3, ("a", "b"): 3, ("b", "END"): 2, ("b", "z"): 1})

    def likelihood(source: str, target: str) -> float:
        leaving = sum(count for (each, _), count in steps.items() if each == source)
        return math.log((steps[source, target] + 0.5) / (leaving + 6 * 0.5))

    def row(sequence: str, count: int) -> list[float]:
        path = ["START", *sequence, "END"]
        pairs = list(pairwise(path))
        mean_count = np.mean([math.log1p(steps[pair]) for pair in pairs])
        return [math.log1p(count), mean_count, np.mean([likelihood(*pair) for pair in pairs])]

    assert found == pytest.approx(np.array([row("ab", 2), row("c", 0)]))


def test_an_empty_release_shows_nothing() -> None:
    log = log_of(["ab", "c"])
    found = SoughtSequences.of(log, np.arange(2), np.arange(2)).statistics(EventLog.empty())
    assert found[:, :2].tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert found[:, 2] == pytest.approx(math.log(1 / 6))


def test_units_are_in_or_out_with_all_their_cases() -> None:
    """Each about half of the time, and what is noted is what the release was made of."""
    log = log_of(["a", "b", "c", "d", "e"])
    unit = np.array([0, 1, 0, 2, 1])
    seen: list[set[str]] = []

    def release(half: EventLog) -> EventLog:
        seen.append(set(half.cases[CASE_ID].to_list()))
        return half

    runs = shadow_runs(log, unit, np.array([0, 1, 2]), release, 200, 1)
    cases = [{"case 0", "case 2"}, {"case 1", "case 4"}, {"case 3"}]
    for run, held in enumerate(seen):
        for target, own in enumerate(cases):
            assert (own <= held) == runs.member[run, target]
            assert (own & held == set()) != runs.member[run, target]
    assert (np.abs(runs.member.mean(axis=0) - 0.5) < 0.2).all()
    # Released as they are: the statistic of a unit is the mean over its cases.
    assert runs.statistics[:, 2, 0] == pytest.approx(math.log(2) * runs.member[:, 2])
