"""Which cases of a variant that is split follow which target, and where they stand."""

import numpy as np
import polars as pl
from polars.testing import assert_frame_equal

from cloakwork.engines.batches import in_batches
from cloakwork.mechanisms.kanon.rewriting import (
    ASSIGNMENT_SCHEMA,
    RANKS,
    RowsOfCases,
    SplitCases,
    with_drawn_cases,
)
from cloakwork.noise import reproducible
from contracts.sample_logs import log_of

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
    batches = in_batches(log, np.array([2, 0, 1, 1, 0, 2, 0, 0, 2, 1, 0]), 4)
    of_batches = pl.concat([aggregate.of(batch) for batch in batches])
    assert_frame_equal(aggregate.merge(of_batches), found)
    ranks = [[1, 2, 5], None, [2], [0], [0, 1], [3, 4]]
    rows = RowsOfCases.of(ASSIGNMENT.with_columns(pl.Series(RANKS, ranks)), found)
    assert rows is not None
    asked = [10, 0, 2, 9, 4, 7, 8, 3, 6]
    of_cases = rows.of_cases(np.array(asked))
    assert of_cases is not None
    assert of_cases.tolist() == [0, 3, 0, 5, 0, 5, 2, 4, 4]
    assert rows.of_cases(np.array([1])) is None


def test_a_summary_has_the_cases_of_split_variants_alone() -> None:
    """So it grows with them, and not with the log."""
    log = log_of(["a"] + ["b"] * 50)
    assert SplitCases({("a",): 0}).of(log).height == 1
    assert SplitCases({}).of(log).height == 0
