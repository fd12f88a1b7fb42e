"""Quasi-identifiers become coarser until each combination with a variant has k cases, and
no coarser.
"""

from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloakwork.base.facts import Facts, Unit
from cloakwork.base.lineage import CONTROL_FLOW
from cloakwork.errors import MechanismError
from cloakwork.guarantees import KAnonymity
from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.kanon.generalise import Generalise, GeneraliseParams, QuasiIdentifier
from cloakwork.noise import secret
from conftest import runs
from contracts.sample_logs import log_of
from guarantees.measuring import smallest_group

GENERALISE = Generalise()
AGE = QuasiIdentifier(attribute="case:age", bins=(0, 10, 20, 30, 40))
PLACE = QuasiIdentifier(
    attribute="place", hierarchy={"north": {"coast": ["a", "b"], "hills": ["c"]}, "south": ["d"]}
)


def with_ages(courses: list[str], ages: list[int | None], **more: pl.Series) -> EventLog:
    log = log_of([list(course) for course in courses])
    cases = log.cases.with_columns(pl.Series("case:age", ages, pl.Int64), **more)
    return EventLog(log.events, cases, log.offsets)


def raised(
    log: EventLog, k: int, *attributes: QuasiIdentifier, unit: str | None = None
) -> EventLog:
    params = GeneraliseParams(k=k, attributes=attributes, unit=unit)
    decision = GENERALISE.decide(params, GENERALISE.step(params, Facts()).summary.of(log), secret())
    return GENERALISE.rewrite(params, decision, secret().stream()).apply(log)


def ages(log: EventLog) -> Counter[object]:
    return Counter(log.cases["case:age"].to_list())


def test_levels_of_a_ladder() -> None:
    """Values, intervals, unions of 2 and of 4 intervals, nothing; groups from the leaves up."""
    assert AGE.interval_edges == ((0, 10, 20, 30, 40), (0, 20, 40), (0, 40))
    assert AGE.levels == 5
    assert PLACE.group_depths == (2, 1)
    assert PLACE.levels == 4
    assert (
        QuasiIdentifier(attribute="place", hierarchy=PLACE.hierarchy, raw=False, finest=1).levels
        == 2
    )
    values = pl.Series("place", ["a", "c", "d", "elsewhere", None])
    assert PLACE.at_level(values, 1).to_list() == ["coast", "hills", "south", None, None]
    assert PLACE.at_level(values, 2).to_list() == ["north", "north", "south", None, None]
    assert PLACE.at_level(values, 3).to_list() == [None] * 5


def test_edges_stay_where_intervals_do_not_pair() -> None:
    """Three intervals: pairs from the left, the last one alone."""
    assert QuasiIdentifier(attribute="x", bins=(0, 1, 2, 3)).interval_edges == (
        (0, 1, 2, 3),
        (0, 2, 3),
        (0, 3),
    )


def test_a_variant_keeps_what_its_own_cases_share() -> None:
    """One rare variant does not coarsen the others."""
    log = with_ages(["ab"] * 4 + ["c"] * 4, [5, 5, 7, 7, 1, 11, 21, 31])
    assert ages(raised(log, 2, AGE)) == {"5": 2, "7": 2, "[0, 20)": 2, "[20, 40)": 2}
    assert ages(raised(log, 4, AGE)) == {"[0, 10)": 4, "[0, 40)": 4}


def test_nothing_is_left_where_nothing_else_holds() -> None:
    """A value outside every interval, and a missing one, are groups of their own until all are left
    out.
    """
    log = with_ages(["a"] * 4, [5, 6, 99, None])
    assert ages(raised(log, 2, AGE)) == {"[0, 10)": 2, None: 2}
    assert ages(raised(log, 3, AGE)) == {None: 4}


def test_values_that_need_not_change_keep_their_type() -> None:
    """Whole numbers stay whole numbers."""
    log = with_ages(["a"] * 4, [5, 5, 6, 6])
    assert raised(log, 2, AGE).cases["case:age"].to_list() == [5, 5, 6, 6]


def test_units_are_counted_not_cases() -> None:
    """Three cases of one patient are one; cases without a patient are none."""
    patients = pl.Series(["p", "p", "p", None, None, "q"])
    log = with_ages(["a"] * 6, [5, 5, 5, 5, 6, 6], **{"case:patient": patients})
    assert ages(raised(log, 2, AGE, unit="case:patient")) == {"[0, 10)": 6}


def test_attributes_of_events_are_grouped_as_sequences() -> None:
    """What matters is the sequence of values beside the variant."""
    log = log_of([["x", "y"]] * 4)
    events = log.events.with_columns(pl.Series("place", ["a", "d", "b", "d", "a", "d", "b", "d"]))
    log = EventLog(events, log.cases, log.offsets)
    assert raised(log, 2, PLACE).events["place"].to_list() == ["a", "d", "b", "d"] * 2
    assert raised(log, 3, PLACE).events["place"].to_list() == ["coast", "south"] * 4


def test_what_is_not_k_anonymous_is_refused() -> None:
    """It makes values coarser, and cannot make up for a rare variant."""
    with pytest.raises(MechanismError, match="not 3-anonymous"):
        raised(with_ages(["a", "a"], [1, 1]), 3, AGE)


def test_empty_log_and_missing_attribute() -> None:
    """Nothing to do."""
    assert raised(EventLog.empty(), 3, AGE).cases.height == 0
    assert raised(log_of([["a"]] * 3), 3, AGE).cases.height == 3


@settings(max_examples=runs(40))
@given(
    courses=st.lists(st.sampled_from(["a", "b"]), min_size=6, max_size=24),
    seed=st.integers(0, 2**32 - 1),
    k=st.integers(2, 3),
)
def test_groups_hold_k_and_no_cheaper_node_would(courses: list[str], seed: int, k: int) -> None:
    """Measured by the independent checker; and each variant's node is the first in order of loss
    that holds.
    """
    draw = np.random.default_rng(seed)
    courses = [course for course in courses if courses.count(course) >= k]
    years: list[int | None] = [int(age) for age in draw.integers(0, 45, len(courses))]
    patients = pl.Series("p", [f"p{i}" for i in draw.integers(0, 40, len(courses))], pl.String)
    log = with_ages(courses, years, **{"case:p": patients})
    goal = KAnonymity(kind="k-anonymity", k=k, over=(CONTROL_FLOW, "case:age"))
    result = raised(log, k, AGE)
    smallest = smallest_group(result, goal)
    assert smallest is None or smallest >= k
    for course in set(courses):
        mine = np.array([one == course for one in courses])
        values = log.cases["case:age"].filter(pl.Series(mine))
        held = [
            min(Counter(AGE.at_level(values, level).to_list()).values()) >= k
            for level in range(AGE.levels)
        ]
        levels_used = result.cases["case:age"].filter(pl.Series(mine)).cast(pl.String).to_list()
        wanted = AGE.at_level(values, held.index(True)).cast(pl.String).to_list()
        assert levels_used == wanted


@pytest.mark.parametrize(("k", "unit"), [(2, None), (3, None), (2, "case:p"), (3, "case:p")])
def test_two_attributes_share_the_loss(k: int, unit: str | None) -> None:
    """Every combination of a level of one with a level of the other is weighed."""
    log = log_of([["x"]] * 12)
    cases = log.cases.with_columns(
        pl.Series("case:age", [1, 2, 3, 4, 5, 6] * 2),
        pl.Series("case:p", [f"p{i}" for i in range(12)]),
        pl.Series("case:home", ["a", "b", "c", "d"] * 3),
    )
    home = QuasiIdentifier(attribute="case:home", hierarchy=PLACE.hierarchy)
    result = raised(EventLog(log.events, cases, log.offsets), k, AGE, home, unit=unit)
    goal = KAnonymity(
        kind="k-anonymity",
        k=k,
        over=(CONTROL_FLOW, "case:age", "case:home"),
        count="units" if unit else "cases",
    )
    assert (smallest_group(result, goal, Unit(attribute=unit)) or 0) >= k
