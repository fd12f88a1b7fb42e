"""kanon/closeness on logs small enough to see through: what moves, what is refused, what it makes
of times.
"""

from collections import Counter
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.errors import MechanismError
from cloakwork.guarantees import KAnonymity, LDiversity, TCloseness
from cloakwork.log.eventlog import CASE_ID, TIMESTAMP, EventLog
from cloakwork.mechanisms.base import Offer, Refusal
from cloakwork.mechanisms.kanon.closeness import Closeness
from cloakwork.testing import run_mechanism
from contracts.sample_logs import BEGIN, courses_of, log_of
from contracts.value_logs import with_values
from guarantees.measuring import largest_distance

CLOSENESS = Closeness()

OLD_AND_YOUNG = with_values(
    log_of([["a"]] * 50 + [["a", "b"]] * 50), "case:Age", [20] * 50 + [80] * 50
)


def ages(log: EventLog) -> dict[tuple[str, ...], list[int]]:
    """The ages of the cases of each sequence, ascending."""
    found: dict[tuple[str, ...], list[int]] = {}
    for sequence, age in zip(courses_of(log), log.cases["case:Age"].to_list(), strict=True):
        found.setdefault(sequence, []).append(age)
    return {sequence: sorted(values) for sequence, values in found.items()}


def ages_or_none(log: EventLog) -> dict[tuple[str, ...], list[int | None]]:
    """The ages of the cases of each sequence."""
    found: dict[tuple[str, ...], list[int | None]] = {}
    for sequence, age in zip(courses_of(log), log.cases["case:Age"].to_list(), strict=True):
        found.setdefault(sequence, []).append(age)
    return found


def values_of_cases(log: EventLog, attribute: str) -> list[list[Any]]:
    """The values of each case's events, in order."""
    values = log.events[attribute].to_list()
    return [values[begin:end] for begin, end in pairwise(log.offsets.tolist())]


def test_no_more_values_move_than_closeness_takes() -> None:
    """Two classes of opposite values, whose mid-ranks are .25 and .75, so that each lies .25 from
    the whole: with t = 0.2 a fifth of each class is pooled, and half of that comes back. By their
    range, it is twice as far.
    """
    released = ages(run_mechanism("kanon/closeness", OLD_AND_YOUNG, t=0.2, attribute="case:Age"))
    assert released == ages(
        run_mechanism("kanon/closeness", OLD_AND_YOUNG, t=0.4, attribute="case:Age", scale="range")
    )
    assert released == {("a",): [20] * 45 + [80] * 5, ("a", "b"): [20] * 5 + [80] * 45}


def test_all_values_are_spread_evenly_where_t_is_small() -> None:
    """Every class ends with half of each value."""
    released = ages(run_mechanism("kanon/closeness", OLD_AND_YOUNG, t=1e-6, attribute="case:Age"))
    assert released == {("a",): [20] * 25 + [80] * 25, ("a", "b"): [20] * 25 + [80] * 25}


def test_what_is_close_already_stays() -> None:
    """Not a value moves, whatever else is released."""
    log = with_values(log_of([["a"]] * 6 + [["a", "b"]] * 6), "case:Age", [20, 80] * 6)
    kept = run_mechanism("kanon/closeness", log, t=0.01, attribute="case:Age")
    before, after = (
        part.cases.sort("case:row").select("case:row", "case:Age") for part in (log, kept)
    )
    assert before.equals(after)


def test_prefixes_are_nested() -> None:
    """All begin alike, so the first prefix holds all values; the two longer ones hold one value
    each, until some move.
    """
    log = with_values(log_of([["a", "b"]] * 4 + [["a", "c"]] * 4), "case:Age", [20] * 4 + [80] * 4)
    goal = TCloseness(kind="t-closeness", t=0.1, attribute="case:Age", classes="prefixes")
    assert largest_distance(log, goal) == pytest.approx(0.25)
    released = run_mechanism(
        "kanon/closeness", log, t=0.1, attribute="case:Age", classes="prefixes"
    )
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
        run_mechanism("kanon/closeness", log, t=0.1, attribute="case:Age")
    assert ages(run_mechanism("kanon/closeness", log, t=0.2223, attribute="case:Age"))[("b",)] == [
        20
    ]


def test_infeasible_classes_are_refused_or_suppressed() -> None:
    """A class of one case cannot be varied: l = 2 is refused with the largest l, or its value is
    left out.
    """
    log = with_values(log_of([["a"]] * 4 + [["b"]]), "case:Age", [1, 2, 3, 4, 5])
    with pytest.raises(
        MechanismError,
        match="l = 2 is not reached over variants: the largest l that the exchange reaches is 1",
    ):
        run_mechanism("kanon/closeness", log, l=2, attribute="case:Age")
    suppressed = run_mechanism(
        "kanon/closeness", log, l=2, attribute="case:Age", infeasible="suppress"
    )
    assert ages(suppressed)[("b",)] == [None]
    assert ages(suppressed)[("a",)] == [1, 2, 3, 4]


def test_missing_values_change_places_like_all_others() -> None:
    """All of one class lack a value, none of the other does: half of each does afterwards. Of an
    activity that never has a value none gets one.
    """
    log = with_values(log_of([["a", "b"]] * 20 + [["a"]] * 20), "x", [7, None] * 20 + [None] * 20)
    released = run_mechanism("kanon/closeness", log, t=0.01, attribute="x")
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
    released = run_mechanism("kanon/closeness", log, l=2, attribute="case:Age")
    for sequence, values in ages_or_none(released).items():
        assert len({*values} - {None}) >= 2, sequence
        assert values.count(None) == (2 if sequence == ("a",) else 0)


def test_t_is_met_by_leaving_out_an_activity_as_a_whole() -> None:
    """One class without values would be as far from the others as can be."""
    log = with_values(log_of([["a"]] * 8 + [["b"]]), "case:Age", [20] * 5 + [80] * 4)
    released = run_mechanism(
        "kanon/closeness", log, t=0.1, attribute="case:Age", infeasible="suppress"
    )
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
    released = run_mechanism("kanon/closeness", log, t=0.5, attribute="timestamps", epoch=BEGIN)
    stamps = released.events[TIMESTAMP].to_list()
    assert sorted(stamps[0::3]) == [BEGIN] * 10
    assert sorted(stamps[1::3]) == [BEGIN + timedelta(hours=1)] * 10
    assert sorted(stamps[2::3]) == [BEGIN + timedelta(hours=4)] * 10


def test_without_any_known_gap_all_times_are_the_epoch() -> None:
    """Nothing is known, so nothing is told."""
    log = log_of([["a", "b"]] * 3, [[BEGIN, None]] * 3)
    assert set(
        run_mechanism("kanon/closeness", log, t=0.5, attribute="timestamps", epoch=BEGIN).events[
            TIMESTAMP
        ]
    ) == {BEGIN}


def test_times_beyond_the_calendar_are_refused() -> None:
    """In one line; no time wraps around."""
    long = [[BEGIN + timedelta(days=25_000 * step) for step in range(9)]] * 3
    with pytest.raises(MechanismError, match="beyond 2200"):
        run_mechanism(
            "kanon/closeness", log_of([["a"] * 9] * 3, long), t=0.5, attribute="timestamps"
        )


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
        run_mechanism("kanon/closeness", log, t=0.5, attribute="Age")


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
    released = run_mechanism("kanon/closeness", log, t=0.01, attribute="Age")
    if log.cases.height:
        before, after = (
            part.to_polars().drop(CASE_ID).sort("org:resource") for part in (log, released)
        )
        assert before.equals(after)


@pytest.mark.parametrize(
    ("goal", "options", "kind", "said"),
    [
        (KAnonymity(kind="k-anonymity", k=3), {}, "never", "reveals about values"),
        (
            TCloseness(kind="t-closeness", t=0.1, attribute=CONTROL_FLOW),
            {},
            "never",
            "beside their activity sequence",
        ),
        (
            TCloseness(kind="t-closeness", t=0.1, attribute="Age"),
            {"infeasible": "perhaps"},
            "misconfigured",
            "infeasible:",
        ),
        (
            TCloseness(kind="t-closeness", t=1.5, attribute="Age"),
            {},
            "misconfigured",
            "asks for nothing",
        ),
        (
            TCloseness(kind="t-closeness", t=0.1, attribute="Age"),
            {"k": 3},
            "misconfigured",
            "unknown option k",
        ),
        (
            LDiversity(kind="l-diversity", l=2, attribute=TIMESTAMPS),
            {"infeasible": "suppress"},
            "misconfigured",
            "need one",
        ),
        (
            TCloseness(kind="t-closeness", t=2, attribute=TIMESTAMPS, distance="stochastic"),
            {},
            "needs",
            "public bound",
        ),
    ],
)
def test_refusals(goal: Any, options: dict[str, Any], kind: str, said: str) -> None:
    """With the reason, and what would mend it."""
    answer = CLOSENESS.offer(goal, Facts(), options)
    assert isinstance(answer, Refusal)
    assert (answer.kind, said in answer.reason) == (kind, True), answer.reason


def test_an_offer_says_how() -> None:
    """In the words of the plan."""
    answer = CLOSENESS.offer(
        TCloseness(kind="t-closeness", t=0.1, attribute=TIMESTAMPS), Facts(), {}
    )
    assert isinstance(answer, Offer)
    assert (
        answer.why == "exchanges values of cycle times between classes "
        "until each class lies within 0.1 of all values"
    )


def test_a_distance_that_is_t_but_for_rounding_holds() -> None:
    """1 - 0.7 is a little more than 0.3 in floating point; found among 1,000 random logs."""
    values = [False] * 7 + [True] * 3
    log = with_values(log_of([["a"]] * 6 + [["b"]] + [["a"]] * 3), "case:x", values)
    assert run_mechanism("kanon/closeness", log, t=0.3, attribute="case:x").cases.height == 10
