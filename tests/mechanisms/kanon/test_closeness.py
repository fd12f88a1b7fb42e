"""kanon/closeness: on logs small enough to see through, in the mathematics of its exchange, where
one outlier or what is missing made t true of anything, and on any log.
"""

import re
from bisect import bisect_right
from collections import Counter
from datetime import timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow
from scipy.stats import wasserstein_distance

from cloakwork.base.facts import Facts, Unit
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.errors import MechanismError
from cloakwork.guarantees import KAnonymity, LDiversity, TCloseness
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.mechanisms.base import Offer, Refusal
from cloakwork.mechanisms.kanon.closeness import Closeness
from cloakwork.mechanisms.kanon.value_exchange import (
    Groups,
    LDiversityGoal,
    TClosenessGoal,
    exchange_values,
    redistribute,
)
from cloakwork.mechanisms.steps import MapCases
from cloakwork.noise import reproducible, secret
from cloakwork.testing import run_mechanism
from cloakwork.testing.contract_logs import assert_is_a_log
from conftest import runs
from contracts.sample_logs import BEGIN, courses_of, log_of
from contracts.value_logs import CLASSES, KINDS, logs_with_values, with_values
from guarantees.measuring import largest_distance, measure

CLOSENESS = Closeness()

OLD_AND_YOUNG = with_values(
    log_of([["a"]] * 50 + [["a", "b"]] * 50), "case:Age", [20] * 50 + [80] * 50
)


def ages(log: EventLog) -> dict[tuple[str, ...], list[Any]]:
    """The ages of the cases of each sequence, ascending, missing ones last."""
    found: dict[tuple[str, ...], list[Any]] = {}
    for sequence, age in zip(courses_of(log), log.cases["case:Age"].to_list(), strict=True):
        found.setdefault(sequence, []).append(age)
    return {
        sequence: sorted(values, key=lambda age: (age is None, age))
        for sequence, values in found.items()
    }


def close(log: EventLog, attribute: str = "case:Age", **goal: Any) -> EventLog:
    """One run of the mechanism."""
    return run_mechanism("kanon/closeness", log, attribute=attribute, **goal)


def values_of_cases(log: EventLog, attribute: str) -> list[list[Any]]:
    """The values of each case's events, in order."""
    values = log.events[attribute].to_list()
    return [values[begin:end] for begin, end in pairwise(log.offsets.tolist())]


def holds(log: EventLog, goal: TCloseness | LDiversity) -> bool:
    """Whether the independent checker finds the guarantee on ``log``."""
    found = measure(log, goal, Unit())
    assert found is not None
    return found.holds


def within(t: float, attribute: str, **more: Any) -> TCloseness:
    """t-closeness of an attribute."""
    return TCloseness(kind="t-closeness", t=t, attribute=attribute, **more)


def varied(l_: float, attribute: str, **more: Any) -> LDiversity:
    """l-diversity of an attribute."""
    return LDiversity(kind="l-diversity", l=l_, attribute=attribute, **more)


def test_no_more_values_move_than_closeness_takes() -> None:
    """Two classes of opposite values, whose mid-ranks are .25 and .75, so that each lies .25 from
    the whole: with t = 0.2 a fifth of each class is pooled, and half of that comes back. By their
    range, it is twice as far.
    """
    released = ages(close(OLD_AND_YOUNG, t=0.2))
    assert released == ages(close(OLD_AND_YOUNG, t=0.4, scale="range"))
    assert released == {("a",): [20] * 45 + [80] * 5, ("a", "b"): [20] * 5 + [80] * 45}


def test_all_values_are_spread_evenly_where_t_is_small() -> None:
    """Every class ends with half of each value."""
    released = ages(close(OLD_AND_YOUNG, t=1e-6))
    assert released == {("a",): [20] * 25 + [80] * 25, ("a", "b"): [20] * 25 + [80] * 25}


def test_what_is_close_already_stays() -> None:
    """Not a value moves, whatever else is released."""
    log = with_values(log_of([["a"]] * 6 + [["a", "b"]] * 6), "case:Age", [20, 80] * 6)
    kept = close(log, t=0.01)
    before, after = (
        part.cases.sort("case:row").select("case:row", "case:Age") for part in (log, kept)
    )
    assert before.equals(after)


def test_prefixes_are_nested() -> None:
    """All begin alike, so the first prefix holds all values; the two longer ones hold one value
    each, until some move.
    """
    log = with_values(log_of([["a", "b"]] * 4 + [["a", "c"]] * 4), "case:Age", [20] * 4 + [80] * 4)
    goal = within(0.1, "case:Age", classes="prefixes")
    assert largest_distance(log, goal) == pytest.approx(0.25)
    released = close(log, t=0.1, classes="prefixes")
    assert largest_distance(released, goal) == pytest.approx(0)
    assert set(map(tuple, ages(released).values())) == {(20, 20, 80, 80)}


def test_the_refusal_names_the_least_t() -> None:
    """One case is at best half of 4/9 or 5/9 away from nine; rounded up to four digits, and reached
    where it is asked for.
    """
    log = with_values(log_of([["a"]] * 8 + [["b"]]), "case:Age", [20] * 5 + [80] * 4)
    with pytest.raises(
        MechanismError, match=r"the least t that the exchange reaches is 0\.2223, since"
    ):
        close(log, t=0.1)
    assert ages(close(log, t=0.2223))[("b",)] == [20]


def test_infeasible_classes_are_refused_or_suppressed() -> None:
    """A class of one case cannot be varied: l = 2 is refused with the largest l, or its value is
    left out.
    """
    log = with_values(log_of([["a"]] * 4 + [["b"]]), "case:Age", [1, 2, 3, 4, 5])
    with pytest.raises(
        MechanismError,
        match="l = 2 is not reached over variants: the largest l that the exchange reaches is 1",
    ):
        close(log, l=2)
    suppressed = close(log, l=2, infeasible="suppress")
    assert ages(suppressed)[("b",)] == [None]
    assert ages(suppressed)[("a",)] == [1, 2, 3, 4]


def test_missing_values_change_places_like_all_others() -> None:
    """All of one class lack a value, none of the other does: half of each does afterwards. Of an
    activity that never has a value none gets one.
    """
    log = with_values(log_of([["a", "b"]] * 20 + [["a"]] * 20), "x", [7, None] * 20 + [None] * 20)
    released = close(log, "x", t=0.01)
    assert Counter(released.to_polars().select("concept:name", "x").rows()) == Counter(
        {("a", 7): 20, ("a", None): 20, ("b", None): 20}
    )
    of_a = Counter(
        value
        for sequence, values in zip(
            courses_of(released), values_of_cases(released, "x"), strict=True
        )
        for value in values[:1]
        if sequence == ("a",)
    )
    assert of_a == {7: 10, None: 10}


def test_for_diversity_a_missing_value_is_none() -> None:
    """A class whose other values are all missing holds one value; missing ones stay."""
    log = with_values(
        log_of([["a"]] * 4 + [["a", "b"]] * 4), "case:Age", [1, None, 1, None, 2, 2, 3, 3]
    )
    released = close(log, l=2)
    for sequence, values in ages(released).items():
        assert len({*values} - {None}) >= 2, sequence
        assert values.count(None) == (2 if sequence == ("a",) else 0)


def test_t_is_met_by_leaving_out_an_activity_as_a_whole() -> None:
    """One class without values would be as far from the others as can be."""
    log = with_values(log_of([["a"]] * 8 + [["b"]]), "case:Age", [20] * 5 + [80] * 4)
    released = close(log, t=0.1, infeasible="suppress")
    assert released.cases["case:Age"].null_count() == 9


def test_times_are_added_up_from_the_gaps() -> None:
    """An event without a time is given a gap of its activity; cases start at the epoch; the grid
    rounds.
    """
    hours = [0.0, 1.0, 4.0]
    times = [
        [BEGIN + timedelta(days=row, hours=hour, seconds=0.2) for hour in hours] for row in range(9)
    ]
    log = log_of([["a", "b", "c"]] * 10, [*times, [BEGIN, None, BEGIN + timedelta(hours=3)]])
    released = close(log, "timestamps", t=0.5, epoch=BEGIN)
    stamps = released.events[TIMESTAMP].to_list()
    assert sorted(stamps[0::3]) == [BEGIN] * 10
    assert sorted(stamps[1::3]) == [BEGIN + timedelta(hours=1)] * 10
    assert sorted(stamps[2::3]) == [BEGIN + timedelta(hours=4)] * 10


def test_without_any_known_gap_all_times_are_the_epoch() -> None:
    """Nothing is known, so nothing is told."""
    log = log_of([["a", "b"]] * 3, [[BEGIN, None]] * 3)
    assert {*close(log, "timestamps", t=0.5, epoch=BEGIN).events[TIMESTAMP]} == {BEGIN}


def test_times_beyond_the_calendar_are_refused() -> None:
    """In one line; no time wraps around."""
    long = [[BEGIN + timedelta(days=25_000 * step) for step in range(9)]] * 3
    with pytest.raises(MechanismError, match="beyond 2200"):
        close(log_of([["a"] * 9] * 3, long), "timestamps", t=0.5)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (log_of([["a"]] * 3), "no event has 'Age'"),
        (with_values(log_of([["a"]] * 3), "Age", [1.0, float("inf"), 2.0]), "not finite"),
    ],
)
def test_logs_without_usable_values_are_refused(log: EventLog, said: str) -> None:
    """A misspelt attribute would protect nothing, unnoticed."""
    with pytest.raises(MechanismError, match=said):
        close(log, "Age", t=0.5)


@pytest.mark.parametrize(
    "log",
    [
        EventLog.empty(),
        with_values(log_of([["a", "b"]]), "Age", [1, 2]),
        with_values(log_of([["a"]] * 5), "Age", [3, 1, 4, 1, 5]),
        with_values(log_of([["a"], ["b"]]), "Age", [None, None]),
        with_values(log_of([["a"], ["b"], ["a", "b"]]), "Age", [7, 7, 7, 7]),
    ],
    ids=["empty", "one case", "one class", "all missing", "one value"],
)
def test_nothing_to_protect(log: EventLog) -> None:
    """The values stay as they are."""
    released = close(log, "Age", t=0.01)
    if log.cases.height:
        before, after = (
            part.to_polars().drop(CASE_ID).sort("org:resource") for part in (log, released)
        )
        assert before.equals(after)


@pytest.mark.parametrize(
    ("goal", "options", "kind", "said"),
    [
        (KAnonymity(kind="k-anonymity", k=3), {}, "never", "reveals about values"),
        (within(0.1, CONTROL_FLOW), {}, "never", "beside their activity sequence"),
        (within(0.1, "Age"), {"infeasible": "perhaps"}, "misconfigured", "infeasible:"),
        (within(1.5, "Age"), {}, "misconfigured", "asks for nothing"),
        (within(0.1, "Age"), {"k": 3}, "misconfigured", "unknown option k"),
        (varied(2, TIMESTAMPS), {"infeasible": "suppress"}, "misconfigured", "need one"),
        (within(0.9, TIMESTAMPS, distance="stochastic"), {}, "misconfigured", "at least 1"),
        (within(2, "Age", distance="stochastic"), {"step": 1}, "misconfigured", "option step"),
    ],
)
def test_refusals(goal: Any, options: dict[str, Any], kind: str, said: str) -> None:
    """With the reason, and what would mend it."""
    answer = CLOSENESS.offer(goal, Facts(), options)
    assert isinstance(answer, Refusal)
    assert (answer.kind, said in answer.reason) == (kind, True), answer.reason


def test_an_offer_says_how() -> None:
    """In the words of the plan."""
    answer = CLOSENESS.offer(within(0.1, TIMESTAMPS), Facts(), {})
    assert isinstance(answer, Offer)
    assert (
        answer.why == "exchanges values of cycle times between classes "
        "until each class lies within 0.1 of all values"
    )


def test_a_distance_that_is_t_but_for_rounding_holds() -> None:
    """1 - 0.7 is a little more than 0.3 in floating point; found among 1,000 random logs."""
    values = [False] * 7 + [True] * 3
    log = with_values(log_of([["a"]] * 6 + [["b"]] + [["a"]] * 3), "case:x", values)
    assert close(log, "case:x", t=0.3).cases.height == 10


@pytest.mark.parametrize("sizes", [[5] * 40, [10] * 100, [5, 7, 9, 11] * 15 + [1000]])
def test_redistribution_is_even(sizes: list[int]) -> None:
    """Every cell of n values is within 1/n of all values, large ones within a hundredth."""
    cells = np.repeat(np.arange(len(sizes)), sizes)
    codes = np.arange(len(cells))
    spread = redistribute(codes, cells, np.ones(len(cells), np.bool_))
    assert sorted(spread) == sorted(codes)
    for cell, size in enumerate(sizes):
        assert wasserstein_distance(spread[cells == cell], codes) / (len(codes) - 1) <= max(
            1 / size, 0.01
        )


def test_exchange_moves_values_no_farther_than_needed() -> None:
    """Of 1,000 uniform values in 20 cells whose means drift, the mean change stays below what a
    random redistribution makes.
    """
    cells = np.repeat(np.arange(20), 50)
    codes = np.argsort(np.argsort(np.arange(1000) % 50 * 20 + cells * 7))
    positions = np.linspace(0, 1, 1000)
    goal, groups = TClosenessGoal(0.05, positions), Groups.of_cells(cells)
    assert goal.measure(codes, groups).max() > 0.05
    moved = exchange_values(codes, cells, [groups], goal, reproducible(1))
    assert goal.measure(moved, groups).max() <= 0.05
    anywhere = codes[reproducible(2).permutation(1000)]
    assert (
        np.abs(positions[moved] - positions[codes]).mean()
        < 0.1 * np.abs(positions[anywhere] - positions[codes]).mean()
    )


AGES = [age for age in range(1, 101) for _ in range(10)]
OUTLIER = with_values(
    log_of([["a"]] * 1000 + [["a", "b"]] * 50 + [["a"]]),
    "case:age",
    [*AGES, *[96, 97, 98, 99, 100] * 10, 20_000],
)
"""Everybody's ages are spread from 1 to 100; those of one class lie from 96 to 100. One age was
mistyped.
"""


def kolmogorov_smirnov(log: EventLog) -> float:
    """The largest difference of the two distribution functions of age: of those who took a and b,
    and of all.
    """
    ages = log.cases["case:age"].to_list()
    of_all = sorted(ages)
    of_class = sorted(
        age for age, course in zip(ages, courses_of(log), strict=True) if course == ("a", "b")
    )
    return max(
        abs(bisect_right(of_class, age) / len(of_class) - bisect_right(of_all, age) / len(of_all))
        for age in of_all
    )


def test_one_outlier_does_not_make_t_vacuous() -> None:
    """Its worst class has a Kolmogorov-Smirnov distance of .9 from all, and t = .05 was found to
    hold.
    """
    goal = within(0.05, "case:age")
    assert kolmogorov_smirnov(OUTLIER) > 0.9
    assert not holds(OUTLIER, goal)


def test_the_mechanism_brings_the_class_close() -> None:
    """Whatever the outlier is: ages move until the class is close by rank, to the bound that the
    definition gives.
    """
    released = close(OUTLIER, "case:age", t=0.05)
    assert (
        kolmogorov_smirnov(released) < 0.35
    )  # an area of .05 under a difference whose slope is at most 1


def test_what_is_missing_is_a_value() -> None:
    """An attribute that is recorded only when it is true: all of one class have it, and 2 of 100 of
    the other.
    """
    hiv = with_values(
        log_of([["a"]] * 100 + [["b"]] * 100), "case:hiv", ["yes"] * 102 + [None] * 98
    )
    assert not holds(hiv, within(0.05, "case:hiv"))
    released = close(hiv, "case:hiv", t=0.05)
    have = [
        sum(
            value is not None
            for value, course in zip(released.cases["case:hiv"], courses_of(released), strict=True)
            if course == who
        )
        for who in (("a",), ("b",))
    ]
    assert abs(have[0] - have[1]) <= 10


Goal = TCloseness | LDiversity
TS = st.sampled_from([0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.9])
LS = st.sampled_from([1.5, 2.0, 3.0, 4.0])


@st.composite
def goals(draw: st.DrawFn, attribute: str) -> Goal:
    """A guarantee that is measured."""
    classes = draw(st.sampled_from(CLASSES))
    if draw(st.booleans()):
        scale: Any = draw(st.sampled_from(["rank", "range"]))
        return within(draw(TS), attribute, classes=classes, scale=scale)
    variety: Any = draw(st.sampled_from(["distinct", "entropy"]))
    return varied(draw(LS), attribute, variety=variety, classes=classes)


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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("attribute", ["x", "case:x"])
@settings(max_examples=runs(10))
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
@settings(max_examples=runs(10))
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
