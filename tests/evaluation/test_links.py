"""Which released case is whose, and which cases fit what is known best."""

from datetime import UTC, datetime, timedelta
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloakwork.evaluation.coded import HOUR, CodedLog, code_logs
from cloakwork.evaluation.knowledge import FARTHEST, away_from, least_away
from cloakwork.evaluation.links import Links, Scales
from cloakwork.log.eventlog import EventLog
from cloakwork.testing.contract_logs import log_of

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
CASES = 100


def _linked(scale: float, span: int, seed: int) -> tuple[CodedLog, CodedLog]:
    """A log, and the same cases with Laplace noise of ``scale`` hours on every time, in order
    again; row by row. Starts lie within ``span`` hours.
    """
    draws = np.random.default_rng(seed)
    sequences = [list(draws.choice(["abc", "abcd"])) for _ in range(CASES)]
    before = [
        draws.uniform(0, span) + np.cumsum(draws.exponential(3, len(each))) for each in sequences
    ]
    noise = Scales(scale)
    after = [noise.moved(times, draws) for times in before]
    return code_logs(_log(sequences, before), _log(sequences, after))  # type: ignore[return-value]


def _log(sequences: list[list[str]], hours: list[np.ndarray]) -> EventLog:
    times = [[BEGIN + timedelta(hours=float(hour)) for hour in case] for case in hours]
    return log_of(sequences, times)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("scale", "span"), [(0.1, 2_000), (3.0, 500), (40.0, 100)])
def test_the_best_guess_is_right_as_often_as_claimed(scale: float, span: int, known: bool) -> None:
    """Little noise, some, and so much that hardly anybody is found. Where its scale has to be
    found first, rather more is claimed.
    """
    source, released = _linked(scale, span, 11)
    links = Links(source, released, 1, Scales(scale * HOUR) if known else None)
    links.fit()
    claimed, right = [], []
    for case in range(CASES):
        posterior = links.posterior(case)
        best = int(np.argmax(posterior))
        claimed.append(posterior[best])
        right.append(best == case)
        assert posterior.sum() == pytest.approx(1)
    claim, share = float(np.mean(claimed)), float(np.mean(right))
    assert claim > share - 0.12
    assert claim < share + (0.12 if known else 0.25)


def test_without_times_all_cases_of_a_sequence_are_as_likely() -> None:
    """And a sequence that is no longer there became one that gained cases."""
    source, released = code_logs(
        log_of([list("ab")] * 3 + [list("abc")] + [list("xyz")] * 2),
        log_of([list("xyz")] * 2 + [list("ab")] * 4),
    )
    links = Links(source, released, 1)
    assert links.posterior(0) == pytest.approx([0, 0, 1 / 4, 1 / 4, 1 / 4, 1 / 4])
    assert links.posterior(3) == pytest.approx([0, 0, 1 / 4, 1 / 4, 1 / 4, 1 / 4])
    assert links.posterior(4) == pytest.approx([1 / 2, 1 / 2, 0, 0, 0, 0])


def test_a_case_that_was_left_out_is_nobody() -> None:
    """The sequence is gone, and so is the case."""
    source, released = code_logs(log_of([list("ab")] * 3 + [list("xyz")]), log_of([list("ab")] * 3))
    assert Links(source, released, 1).posterior(3).sum() == 0


def test_values_that_cases_keep_tell_them_apart() -> None:
    """Without times: who has a value that nobody else of the sequence has is known; the others are
    as likely as each other.
    """
    source, released = code_logs(log_of([list("ab")] * 4), log_of([list("ab")] * 4))
    links = Links(source, released, 1)
    links.kept_values = (np.array([[0], [1], [1], [1]]), np.array([[1], [1], [1], [0]]))
    links.fit()
    links.sharpness = 0.0
    assert links.posterior(0) == pytest.approx([0, 0, 0, 1], abs=0.01)
    assert links.posterior(1) == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0], abs=0.01)


def test_links_are_tried_on_sequences_as_the_release_has_them() -> None:
    """Events that a case keeps have the times of the source, others none; a case that the release
    cannot hold is left out.
    """
    hours = [np.array([0.0, 2.0, 4.0]), np.array([1.0, 5.0]), np.array([7.0]), np.array([8.0])]
    source, released = code_logs(
        _log([list("abc"), list("ab"), ["x"], ["x"]], hours),
        _log([list("ac"), list("ab"), ["x"]], [hours[1], hours[1], hours[2]]),
    )
    links = Links(source, released, 1)
    changed, became = links.in_sequences_of_release(source, np.random.default_rng(2))
    assert changed.alphabet == source.alphabet
    for case, row in enumerate(became.tolist()):
        if row < 0:
            assert case in (0, 2, 3)
            continue
        events = changed.events_of(row)
        assert tuple(changed.codes[events].tolist()) in released.sequences
        if case == 0:
            assert changed.clock[events].tolist() == source.clock[[0, 2]].tolist()
        elif case == 1:
            assert changed.clock[events].tolist() == source.clock[3:5].tolist()
    draws = [
        links.in_sequences_of_release(source, np.random.default_rng(seed))[1] for seed in range(60)
    ]
    left_out = np.mean([became < 0 for became in draws], axis=0)
    assert left_out[1] == 0
    assert all(0 < share < 1 for share in left_out[[0, 2, 3]])


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
def test_how_far_cases_are_away_is_the_least_of_all_ways(
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
    assert least_away(log, known).tolist() == exact.tolist()
