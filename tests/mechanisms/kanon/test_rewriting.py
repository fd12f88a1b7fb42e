"""Moving cases from variant to variant."""

from collections import Counter

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from cloakwork.engines.memory import MemoryEngine
from cloakwork.errors import MechanismError
from cloakwork.log.eventlog import ACTIVITY, TIMESTAMP, EventLog
from cloakwork.mechanisms.kanon.rewriting import (
    ASSIGNMENT_SCHEMA,
    RANKS,
    SplitCases,
    case_rewriter,
    with_drawn_cases,
)
from cloakwork.noise import Noise, reproducible, secret
from cloakwork.testing.contract_logs import Batches
from contracts.sample_logs import RESOURCE, courses_of, log_of, times_of_cases


def assignment(*rows: tuple[str, str, int]) -> pl.DataFrame:
    """Rows (source, target, cases), one letter an activity."""
    data = [(list(source), list(target), cases) for source, target, cases in rows]
    return pl.DataFrame(data, schema=ASSIGNMENT_SCHEMA, orient="row")


def moved(log: EventLog, table: pl.DataFrame, noise: Noise) -> EventLog:
    """The log after ``table``, where the cases that part are drawn."""
    return applied(with_drawn_cases(table, noise), log)


def applied(table: pl.DataFrame, log: EventLog) -> EventLog:
    return MemoryEngine().rewrite(log, case_rewriter(table, mechanism="kanon/test"))


def rewritten(log: EventLog, *rows: tuple[str, str, int]) -> EventLog:
    return moved(log, assignment(*rows), secret())


def test_cases_that_stay_keep_everything() -> None:
    """The identity assignment gives the log back."""
    log = log_of(["ab", "", "c"])
    released = rewritten(log, ("ab", "ab", 1), ("", "", 1), ("c", "c", 1))
    assert log.events.equals(released.events)
    assert log.cases.equals(released.cases)
    assert log.offsets.tolist() == released.offsets.tolist()


def test_kept_events_keep_their_row_and_inserted_ones_hold_nothing() -> None:
    """Delete b, keep a and d, insert x: only the kept ones have values."""
    log = log_of(["abd", "q"])
    released = rewritten(log, ("abd", "axdx", 1), ("q", "q", 1))
    assert courses_of(released) == [("a", "x", "d", "x"), ("q",)]
    assert released.events[RESOURCE].to_list() == ["r0", None, "r2", None, "r3"]
    assert log.events[TIMESTAMP][0] == released.events[TIMESTAMP][0]
    assert released.events[TIMESTAMP].is_null().to_list() == [False, True, False, True, False]


def test_a_substituted_event_keeps_no_time_and_no_attribute() -> None:
    """Its values were observed for another activity."""
    released = rewritten(log_of(["abc"]), ("abc", "axc", 1))
    assert released.events[RESOURCE].to_list() == ["r0", None, "r2"]
    assert released.events[TIMESTAMP].null_count() == 1


def test_to_and_from_the_empty_case() -> None:
    """All events go; or all are new."""
    released = rewritten(log_of(["ab", ""]), ("ab", "", 1), ("", "ab", 1))
    assert courses_of(released) == [(), ("a", "b")]
    assert released.events[TIMESTAMP].null_count() == 2


def test_cases_of_a_variant_may_part() -> None:
    """As many cases follow each target as the assignment says."""
    log = log_of(["ab"] * 5 + ["a"] * 2)
    released = rewritten(log, ("ab", "ab", 2), ("ab", "a", 2), ("ab", "b", 1), ("a", "a", 2))
    assert Counter({("a", "b"): 2, ("a",): 4, ("b",): 1}) == Counter(courses_of(released))


def test_which_identical_case_moves_is_left_to_chance() -> None:
    """Of 400 variants, each of four identical cases moves about as often: 5 standard deviations."""
    letters = [chr(0x4E00 + place) for place in range(400)]
    staying = [(f"{each}b", f"{each}b", 3) for each in letters]
    moving = [(f"{each}b", each, 1) for each in letters]
    log = log_of([f"{each}b" for each in letters for _ in range(4)])
    released = courses_of(moved(log, assignment(*staying, *moving), reproducible(1)))
    has_moved = np.array([len(course) == 1 for course in released]).reshape(400, 4)
    assert (has_moved.sum(axis=1) == 1).all()
    assert (np.abs(has_moved.sum(axis=0) - 100) < 5 * 75**0.5).all()


def test_batches_of_whole_cases_are_rewritten_alike() -> None:
    """A source with one target needs no view of the whole log."""
    table = assignment(("ab", "a", 5), ("a", "a", 1))
    for rows in (["ab"] * 2, ["ab", "a"]):
        released = applied(table, log_of(rows))
        assert {("a",)} == set(courses_of(released))


def test_an_assignment_that_does_not_fit_is_refused() -> None:
    """Neither an undecided variant passes, nor other cases of a variant that parts than were
    drawn; nor does what parts without a draw.
    """
    with pytest.raises(MechanismError, match="variant that was not decided on"):
        rewritten(log_of(["ab", "z"]), ("ab", "ab", 1))
    table = assignment(("ab", "ab", 1), ("ab", "a", 1))
    with pytest.raises(MechanismError, match="case that was not decided on"):
        applied(table, log_of(["ab"] * 2))
    drawn = with_drawn_cases(table, secret())
    for cases in (1, 3):
        with pytest.raises(MechanismError, match="case that was not decided on"):
            applied(drawn, log_of(["ab"] * cases))


def test_times_play_no_part() -> None:
    """Which events keep their row is the same whatever the times are."""
    log, table = log_of(["abab", "abab"]), assignment(("abab", "ab", 1), ("abab", "abab", 1))
    other = log_of(
        ["abab", "abab"], times=[list(reversed(case)) for case in reversed(times_of_cases(log))]
    )
    one, two = (moved(case, table, reproducible(3)) for case in (log, other))
    assert one.events[RESOURCE].to_list() == two.events[RESOURCE].to_list()


def test_the_type_of_the_activity_column_stays() -> None:
    """Categorical labels come back categorical."""
    log = log_of(["ab", "a"])
    events = log.events.with_columns(pl.col(ACTIVITY).cast(pl.Categorical))
    released = rewritten(EventLog(events, log.cases, log.offsets), ("ab", "a", 1), ("a", "a", 1))
    assert events.schema == released.events.schema


ASSIGNMENT = pl.DataFrame(
    [
        (["a"], ["a"], 3),
        (["b"], ["b"], 2),
        ([], [], 1),
        (["a"], ["b"], 1),
        ([], ["a"], 2),
        (["a"], ["c"], 2),
    ],
    schema=ASSIGNMENT_SCHEMA,
    orient="row",
)


def test_each_case_of_a_split_source_is_drawn_once() -> None:
    """As many as the assignment says; nothing is said of a source with one target."""
    drawn = with_drawn_cases(ASSIGNMENT, reproducible(1))[RANKS].to_list()
    assert [None if ranks is None else len(ranks) for ranks in drawn] == [3, None, 1, 1, 2, 2]
    assert drawn[1] is None
    assert sorted(drawn[0] + drawn[3] + drawn[5]) == list(range(6))
    assert sorted(drawn[2] + drawn[4]) == list(range(3))


def test_ranks_are_of_the_order_of_the_log() -> None:
    """The third case of a variant is that with the third index, in whichever batches they lie."""
    log = log_of(["a", "b", "a", "", "a", "b", "", "a", "", "a", "a"])
    aggregate = SplitCases({("a",): 0, (): 1})
    found = aggregate.merge(aggregate.of(log))
    assert found["number"].to_list() == [0] * 6 + [1] * 3
    assert found["index"].to_list() == [0, 2, 4, 7, 9, 10, 3, 6, 8]
    batches = Batches.of(log, np.array([2, 0, 1, 1, 0, 2, 0, 0, 3, 1, 0]))
    of_batches = pl.concat([aggregate.of(batch) for batch in batches])
    assert_frame_equal(aggregate.merge(of_batches), found)
    ranks = [[1, 2, 5], None, [2], [0], [0, 1], [3, 4]]
    released = applied(ASSIGNMENT.with_columns(pl.Series(RANKS, ranks)), log)
    ends = ["b", "b", "a", "a", "a", "b", "a", "c", "", "c", "a"]
    assert ["".join(course) for course in courses_of(released)] == ends


def test_a_summary_has_the_cases_of_split_variants_alone() -> None:
    """So it grows with them, and not with the log."""
    log = log_of(["a"] + ["b"] * 50)
    assert SplitCases({("a",): 0}).of(log).height == 1
    assert SplitCases({}).of(log).height == 0
