"""Whose events are at a place of a class: the check against a count in plain Python, on every small
log, and three broken twins of it.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations_with_replacement
from typing import Final

import numpy as np
import polars as pl
import pytest

from cloakwork.base.facts import Facts, Unit
from cloakwork.guarantees import KAnonymity, employees
from cloakwork.guarantees.employees import Scope, performers
from cloakwork.log.eventlog import EventLog
from contracts.sample_logs import RESOURCE, log_of
from guarantees.measuring import measure

STAFF: Final = Unit(attribute=RESOURCE, level="event")
Event = tuple[str, str | None, bool]
"""Activity, who performed it, whether it was inserted."""


def goal(k: int, scope: Scope = "variants") -> KAnonymity:
    """k-anonymity of employees."""
    return KAnonymity(kind="k-anonymity", k=k, scope=scope, unit=STAFF)


def log_with(cases: list[tuple[Event, ...]]) -> EventLog:
    """These cases."""
    log = log_of([[activity for activity, _, _ in case] for case in cases])
    events = [event for case in cases for event in case]
    names = pl.Series(RESOURCE, [name for _, name, _ in events], pl.String)
    inserted = np.array([new for _, _, new in events], np.bool_)
    return replace(log, events=log.events.with_columns(names), inserted=inserted)


def holds(
    cases: list[tuple[Event, ...]],
    k: int,
    scope: Scope,
    counts: Callable[[Event], bool] = lambda event: event[1] is not None and not event[2],
) -> bool:
    """By definition: k cases in each class, and at each place nobody with more than 1/k of the
    events that ``counts`` lets count.
    """
    groups: dict[tuple[object, ...], list[Event]] = {}
    for case in cases:
        course = tuple(activity for activity, _, _ in case)
        for place, event in enumerate(case):
            shared = course if scope == "variants" else course[: place + 1]
            groups.setdefault((shared, place), []).append(event)
    for events in groups.values():
        known = Counter(name for event in events if counts(event) for name in [event[1]])
        if len(events) < k or any(k * most > known.total() for most in known.values()):
            return False
    return True


def small_logs() -> Iterator[list[tuple[Event, ...]]]:
    """All logs of three cases of one activity or two, by two employees or nobody, kept or inserted,
    some of the cases of two events; and of four cases of one event.
    """
    events = [
        ("a", "Amy", False),
        ("a", "Ben", False),
        ("a", None, False),
        ("a", "Amy", True),
        ("b", "Ben", False),
    ]
    short = [(event,) for event in events]
    longer = [(("a", "Amy", False), event) for event in events[1:]]
    for cases in combinations_with_replacement(short + longer, 3):
        yield list(cases)
    for cases in combinations_with_replacement(short[:4], 4):
        yield list(cases)


@pytest.mark.parametrize("scope", ["variants", "prefixes"])
def test_every_small_log_is_judged_by_definition(scope: Scope) -> None:
    """With and without knowledge of what was inserted: the kept events alone count."""
    judged = 0
    for cases in small_logs():
        check = goal(2, scope).check(Unit())
        assert check is not None
        evidence = check.evidence
        found = check.judge(evidence.merge(evidence.of(log_with(cases))))
        assert found.holds == holds(cases, 2, scope), cases
        judged += found.holds
    assert judged > 10


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("inserted events count", lambda event: event[1] is not None),
        ("nobody is an employee", lambda event: not event[2]),
        ("inserted events dilute", lambda event: event[1] is not None or event[2]),
    ],
)
def test_broken_counts_are_found(name: str, counts: Callable[[Event], bool]) -> None:
    """Each of these counts passes a log, or refuses one, that the check does not."""
    differing = [
        cases
        for cases in small_logs()
        if holds(cases, 2, "variants") != holds(cases, 2, "variants", counts)
    ]
    assert differing, name


def test_shares_of_batches_add_up() -> None:
    """Two batches, in which nobody stands out alone, and somebody does in both together."""
    first = log_with([(("a", "Amy", False),), (("a", "Ben", False),)])
    second = log_with([(("a", "Amy", False),), (("a", "Eve", False),), (("a", "Eve", False),)])
    check = goal(2).check(Unit())
    assert check is not None
    of, merge = check.evidence.of, check.evidence.merge
    assert check.judge(merge(of(first))).holds
    assert check.judge(merge(of(second))).holds is False
    both = check.judge(merge(pl.concat([of(first), of(second)])))
    assert both.holds
    assert "at most 2 of 5 events" in both.seen


def test_a_log_without_the_attribute_is_no_evidence() -> None:
    """A misspelt name would let everything pass."""
    from cloakwork.errors import GuaranteeBroken

    log = log_of(["a", "a"])
    with pytest.raises(GuaranteeBroken, match="no column 'org:staff'"):
        unit = Unit(attribute="org:staff", level="event")
        measure(log, KAnonymity(kind="k-anonymity", k=2, unit=unit))


def test_blank_values_and_nan_name_nobody_and_spellings_tell_apart() -> None:
    """Whatever type the values have."""
    log = log_of(["abcdefg"])

    def said(values: pl.Series) -> list[str | None]:
        events = log.events.with_columns(values.alias(RESOURCE))
        return performers(replace(log, events=events), RESOURCE).to_list()

    texts = pl.Series(["Amy", "", "  ", "NaN", None, "amy", "Amy "])
    assert said(texts) == ["Amy", None, None, None, None, "amy", "Amy "]
    assert said(pl.Series([1, 2, None, 1, 0, 7, 7]))[:4] == ["1", "2", None, "1"]
    assert said(pl.Series([1.0, float("nan"), None, 1.5, 0, 1, 1]))[1:4] == [None, None, "1.5"]
    assert said(pl.Series([True, False, None] + [True] * 4))[:3] == ["true", "false", None]
    assert performers(log_of(["ab"]), "no:such").to_list() == [None, None]


def test_what_is_not_released_gives_no_inserted_event_away() -> None:
    """Inserted events lack a name that kept ones have; nobody sees it. What they visibly lack takes
    them away, and then their class is too small.
    """
    kept = [(("a", name, False),) for name in ("Amy", "Ben")]
    log = log_with([*kept, (("a", None, True),)])
    # With three: three cases, of which two were performed by two.
    assert measure(log, goal(2)).holds
    shows = log.events.with_columns(org=pl.Series(["x", "x", None]))
    two = replace(log, events=shows)
    assert measure(two, goal(2)).holds
    cases = KAnonymity(kind="k-anonymity", k=3)
    assert not measure(two, cases).holds


def test_its_unit_is_case_or_employees() -> None:
    """Persons with several cases are the unit of the whole policy."""
    assert KAnonymity(kind="k-anonymity", k=2, unit="case").employees is None
    assert goal(2).employees == RESOURCE
    with pytest.raises(ValueError, match="the unit of the whole policy"):
        KAnonymity(kind="k-anonymity", k=2, unit={"attribute": "case:patient"})
    with pytest.raises(ValueError, match="belongs to an attribute of events"):
        Unit(attribute="case:patient", level="event")
    with pytest.raises(ValueError, match=r"assume\.cases_per_employee"):
        Unit(attribute=RESOURCE, level="event", max_cases=2)
    assert Facts(employees=RESOURCE).protected == STAFF
    assert str(STAFF) == "'org:resource' of events"


def test_the_places_of_a_variant_do_not_make_up_for_each_other() -> None:
    """Amy did all first steps, Ben all second ones: half each, and each is certain."""
    case = (("a", "Amy", False), ("a", "Ben", False))
    assert not measure(log_with([case, case]), goal(2)).holds
    turned = (("a", "Ben", False), ("a", "Amy", False))
    assert measure(log_with([case, turned]), goal(2)).holds
    assert employees.PLACE[-1] == "place"
