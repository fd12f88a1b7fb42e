"""Known events and the events of a case, matched as well as by trying all ways."""

from datetime import UTC, datetime, timedelta
from itertools import permutations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cloakwork.evaluation.coded import HOUR, CodedLog, code_logs
from cloakwork.evaluation.knowledge import FARTHEST, away_from, least_away
from cloakwork.log.eventlog import EventLog
from cloakwork.testing.contract_logs import log_of

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
MINUTES = st.integers(0, 240)
EVENTS = st.lists(st.tuples(st.sampled_from("aab"), MINUTES), min_size=1, max_size=4)


def _coded(cases: list[list[tuple[str, int]]]) -> CodedLog:
    """Events in the order given, which is not that of their times."""
    times = [[BEGIN + timedelta(minutes=minute) for _, minute in each] for each in cases]
    log = log_of([[label for label, _ in each] for each in cases], times)
    return code_logs(EventLog(log.events, log.cases, log.offsets), log_of([list("ab")]))[0]


def _by_hand(log: CodedLog, case: int, known: list[tuple[int, int]]) -> int:
    """All ways to give each known event one of the case's own, or none."""
    rows = range(int(log.offsets[case]), int(log.offsets[case + 1]))
    found = []
    for chosen in permutations([*rows, *[None] * len(known)], len(known)):
        total = 0
        for (activity, time), row in zip(known, chosen, strict=True):
            if row is None or log.codes[row] != activity:
                total += FARTHEST
            else:
                total += int(away_from(log.clock[row], time, HOUR))
        found.append(total)
    return min(found)


@given(st.lists(EVENTS, min_size=1, max_size=3), st.data())
def test_the_cases_that_fit_best_are_those_of_all_ways(
    cases: list[list[tuple[str, int]]], data: st.DataObject
) -> None:
    log = _coded(cases)
    drawn = data.draw(st.lists(st.tuples(st.sampled_from([0, 1]), MINUTES), min_size=1, max_size=3))
    start = int(BEGIN.timestamp()) * 1_000_000
    asked = [(activity, start + minute * 60_000_000) for activity, minute in drawn]
    known: dict[int, list[int]] = {}
    for activity, time in asked:
        known.setdefault(activity, []).append(time)
    exact = np.array([_by_hand(log, case, asked) for case in range(log.cases)])
    found = least_away(log, known)
    assert found.min() == exact.min()
    assert np.array_equal(found == found.min(), exact == exact.min())
    assert (found <= exact).all()
