"""t-closeness and l-diversity over the output, for any log and any parameters, by the independent
checkers.
"""

import re
from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from cloakwork.base.facts import Facts, Unit
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.errors import MechanismError
from cloakwork.guarantees import LDiversity, TCloseness
from cloakwork.log.eventlog import ACTIVITY, TIMESTAMP, EventLog
from cloakwork.mechanisms.base import Offer
from cloakwork.mechanisms.kanon.closeness import Closeness
from cloakwork.mechanisms.kanon.value_exchange import Groups, LDiversityGoal
from cloakwork.mechanisms.steps import MapCases
from cloakwork.noise import secret
from cloakwork.testing.contract_logs import assert_is_a_log
from contracts.sample_logs import courses_of
from contracts.value_logs import CLASSES, KINDS, logs_with_values
from guarantees.measuring import measure

Goal = TCloseness | LDiversity
CLOSENESS = Closeness()
TS = st.sampled_from([0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.9])
LS = st.sampled_from([1.5, 2.0, 3.0, 4.0])


@st.composite
def goals(draw: st.DrawFn, attribute: str) -> Goal:
    """A guarantee that is measured."""
    classes = draw(st.sampled_from(CLASSES))
    if draw(st.booleans()):
        scale: Any = draw(st.sampled_from(["rank", "range"]))
        return TCloseness(
            kind="t-closeness", t=draw(TS), attribute=attribute, classes=classes, scale=scale
        )
    variety: Any = draw(st.sampled_from(["distinct", "entropy"]))
    return LDiversity(
        kind="l-diversity", l=draw(LS), attribute=attribute, variety=variety, classes=classes
    )


def released(log: EventLog, goal: Goal, **options: Any) -> EventLog:
    """One run of the mechanism; raises MechanismError where it refuses the log."""
    offer = CLOSENESS.offer(goal, Facts(), options)
    assert isinstance(offer, Offer), offer
    summary = CLOSENESS.step(offer.params, Facts()).summary.of(log)
    decision = CLOSENESS.decide(offer.params, summary, secret())
    action = CLOSENESS.rewrite(offer.params, decision, secret().stream())
    assert isinstance(action, MapCases)
    return action.apply(log)


def column(log: EventLog, attribute: str) -> pl.Series:
    """The values of an attribute of events or cases."""
    return (log.cases if attribute.startswith("case:") else log.events)[attribute]


def by_activity(log: EventLog, attribute: str) -> Counter[Any]:
    """How often each activity has each value; all values of a case attribute count together."""
    topics = (
        [None] * log.cases.height
        if attribute.startswith("case:")
        else log.events[ACTIVITY].to_list()
    )
    return Counter(zip(topics, column(log, attribute).to_list(), strict=True))


def holds(log: EventLog, goal: Goal) -> bool:
    """Whether the independent checker finds the guarantee on ``log``."""
    found = measure(log, goal, Unit())
    assert found is not None
    return found.holds


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("attribute", ["x", "case:x"])
@given(data=st.data())
def test_what_is_released_holds_and_nothing_else_changes(
    kind: str, attribute: str, data: st.DataObject
) -> None:
    """Every activity keeps its values, missing ones included, and sequences stay; or the refusal
    names what does hold.
    """
    log, goal = data.draw(logs_with_values(kind, attribute)), data.draw(goals(attribute))
    try:
        result = released(log, goal)
    except MechanismError as refusal:
        assert not holds(log, goal)
        feasible = float(re.findall(r" is ([0-9.e-]+), since", str(refusal))[0])
        name = "t" if isinstance(goal, TCloseness) else "l"
        assert (feasible > goal.t) if isinstance(goal, TCloseness) else (feasible < goal.l)
        if name == "l" and feasible <= 1:
            return
        goal = type(goal).model_validate({**goal.model_dump(), name: feasible})
        result = released(log, goal)
    assert holds(result, goal)
    assert courses_of(result) == courses_of(log)
    assert by_activity(result, attribute) == by_activity(log, attribute)
    if isinstance(goal, LDiversity):
        assert column(result, attribute).is_null().equals(column(log, attribute).is_null())
    assert result.events.drop(attribute, strict=False).equals(
        log.events.drop(attribute, strict=False)
    )
    assert result.cases.drop(attribute, strict=False).equals(
        log.cases.drop(attribute, strict=False)
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("attribute", ["x", "case:x"])
@given(data=st.data())
def test_suppression_never_refuses(kind: str, attribute: str, data: st.DataObject) -> None:
    """Values of what cannot be protected are left out; no activity has a value that it did not
    have.
    """
    log, goal = data.draw(logs_with_values(kind, attribute)), data.draw(goals(attribute))
    assume(column(log, attribute).dtype != pl.Null)
    suppressed = released(log, goal, infeasible="suppress")
    assert holds(suppressed, goal)
    assert by_activity(suppressed, attribute).keys() - by_activity(log, attribute).keys() <= {
        (activity, None) for activity, _ in by_activity(log, attribute)
    }


@given(data=st.data())
def test_cycle_times(data: st.DataObject) -> None:
    """Every event has a time, in order, from the epoch; every activity keeps its gaps, and those of
    events that had no time are among them.
    """
    log = data.draw(logs_with_values("whole", "gap"))
    hours = log.events["gap"].fill_null(0).clip(0).cast(pl.Int64)
    times = pl.DataFrame({"case": log.case_of, "h": hours}).select(
        pl.col("h").cum_sum().over("case")
    )["h"]
    stamps = pl.lit(0).cast(pl.Datetime("us", "UTC")) + pl.duration(hours=times)
    known = log.events["gap"].is_not_null()
    events = log.events.with_columns(pl.when(known).then(stamps).alias(TIMESTAMP))
    log = EventLog(events, log.cases, log.offsets)
    goal = data.draw(goals(TIMESTAMPS))
    try:
        result = released(log, goal)
    except MechanismError:
        return
    assert holds(result, goal)
    assert_is_a_log(result)
    assert courses_of(result) == courses_of(log)
    assert result.events[TIMESTAMP].null_count() == 0
    first = log.offsets[:-1][np.diff(log.offsets) > 0]
    assert (result.events[TIMESTAMP].gather(first).to_physical() == 0).all()


@given(
    values=st.lists(st.integers(0, 5), min_size=1, max_size=24),
    data=st.data(),
)
def test_dealing_anew_gives_every_cell_as_many_values_as_possible(
    values: list[int], data: st.DataObject
) -> None:
    """Against maximum flow: cells take l different values each, values serve as many cells as they
    have copies.
    """
    cells = data.draw(st.lists(st.integers(0, 4), min_size=len(values), max_size=len(values)))
    codes, cell = (
        np.unique(part, return_inverse=True)[1].astype(np.int64) for part in (values, cells)
    )
    sizes, copies = np.bincount(cell), np.bincount(codes)

    def feasible(variety: int) -> bool:
        graph = np.zeros((2 + len(sizes) + len(copies),) * 2, np.int32)
        graph[0, 2 : 2 + len(sizes)] = np.minimum(sizes, variety)
        graph[2 : 2 + len(sizes), 2 + len(sizes) :] = 1
        graph[2 + len(sizes) :, 1] = copies
        return int(maximum_flow(csr_array(graph), 0, 1).flow_value) == variety * len(sizes)

    goal = LDiversityGoal(2.0, "distinct")
    spread = goal.redistribute_all(codes, cell)
    reached = goal.measure(spread, Groups.of_cells(cell)).min()
    assert reached == max(variety for variety in range(len(values) + 1) if feasible(variety))
