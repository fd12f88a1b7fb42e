"""A5: t-closeness that one outlier, or what is missing, made true of anything."""

from bisect import bisect_right

from cloakwork.base.facts import Unit
from cloakwork.guarantees import TCloseness
from cloakwork.log.eventlog import EventLog
from cloakwork.testing import run_mechanism
from contracts.sample_logs import courses_of, log_of
from contracts.value_logs import with_values
from guarantees.measuring import measure

AGES = [age for age in range(1, 101) for _ in range(20)]
OUTLIER = with_values(
    log_of([["a"]] * 2000 + [["a", "b"]] * 100 + [["a"]]),
    "case:age",
    [*AGES, *[96, 97, 98, 99, 100] * 20, 20_000],
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
    goal = TCloseness(kind="t-closeness", t=0.05, attribute="case:age")
    assert kolmogorov_smirnov(OUTLIER) > 0.9
    found = measure(OUTLIER, goal, Unit())
    assert found is not None
    assert not found.holds, found.seen


def test_the_mechanism_brings_the_class_close() -> None:
    """Whatever the outlier is: ages move until the class is close by rank, to the bound that the
    definition gives.
    """
    released = run_mechanism("kanon/closeness", OUTLIER, t=0.05, attribute="case:age")
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
    found = measure(hiv, TCloseness(kind="t-closeness", t=0.05, attribute="case:hiv"), Unit())
    assert found is not None
    assert not found.holds, found.seen
    released = run_mechanism("kanon/closeness", hiv, t=0.05, attribute="case:hiv")
    have = [
        sum(
            value is not None
            for value, course in zip(released.cases["case:hiv"], courses_of(released), strict=True)
            if course == who
        )
        for who in (("a",), ("b",))
    ]
    assert abs(have[0] - have[1]) <= 10
