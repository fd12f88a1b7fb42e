"""Cases that are made range by range."""

import numpy as np
import pytest

from cloakwork.engines.batched import LocalEngine
from cloakwork.engines.batches import case_ranges
from cloakwork.engines.memory import MemoryEngine
from cloakwork.errors import MechanismError
from cloakwork.log.eventlog import CASE_ID, EventLog
from cloakwork.log.variants import CasesOfVariants
from cloakwork.mechanisms.steps import GenerateCases
from cloakwork.run.prepare import SourceFigures
from contracts.sample_logs import log_of

MADE = CasesOfVariants.of([("a",), ("b", "c", "d"), ()], np.array([5, 4, 3]))
"""Cases of 1, then of 3, then of no events."""


def ranges(most_events: int, *, known: bool = True) -> list[tuple[int, int]]:
    """Of ``MADE``."""
    until = MADE.events_until if known else None
    return list(case_ranges(GenerateCases(MADE.case_count, MADE.made, until), most_events))


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (100, [(0, 12)]),
        (7, [(0, 5), (5, 7), (7, 12)]),
        (3, [(0, 3), (3, 5), (5, 6), (6, 7), (7, 8), (8, 11), (11, 12)]),
        (1, [(case, case + 1) for case in range(12)]),
    ],
)
def test_ranges_have_so_many_events_at_most(most: int, expected: list[tuple[int, int]]) -> None:
    """Or one case; of cases without events no more than of events."""
    assert ranges(most) == expected


def test_where_events_are_not_known_cases_have_ten() -> None:
    """And no cases are no ranges."""
    assert ranges(40, known=False) == [(0, 4), (4, 8), (8, 12)]
    assert ranges(5, known=False) == [(case, case + 1) for case in range(12)]
    assert list(case_ranges(GenerateCases(0, MADE.made), 5)) == []


@pytest.mark.parametrize("engine", [MemoryEngine(), LocalEngine(batch_events=4)])
def test_an_engine_makes_all_of_them_and_numbers_them(engine: MemoryEngine | LocalEngine) -> None:
    """In their order, whatever log was there before; also none."""
    before = engine.open(log_of([["x"]]), lambda log: log, None, SourceFigures()).log
    for variants in (MADE, CasesOfVariants.of([], np.zeros(0, np.int64))):
        action = GenerateCases(variants.case_count, variants.made, variants.events_until)
        after = engine.rewrite(before, action)
        batches = list(after.batches())
        index = np.concatenate([batch.index_of_case for batch in batches])
        assert index.tolist() == list(range(variants.case_count))
        ids = [each for batch in batches for each in batch.cases[CASE_ID].to_list()]
        assert ids == list(map(str, index))
        assert after.event_count == variants.event_count


def test_a_rewrite_that_makes_other_cases_is_an_error() -> None:
    """Fewer than it promised."""
    action = GenerateCases(3, lambda first, behind: EventLog.empty())
    with pytest.raises(MechanismError, match="made 0 cases where 3 were asked for"):
        MemoryEngine().rewrite(EventLog.empty(), action)
