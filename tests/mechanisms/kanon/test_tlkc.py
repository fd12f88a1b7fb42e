"""TLKC: what it suppresses, its offers, the edges of its domain, twins that the checker must catch,
what somebody may know of a case, and the bound on any log.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloakwork.base.facts import UNIX_EPOCH, Facts, Unit
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.errors import MechanismError
from cloakwork.guarantees import ConfidenceBound, KAnonymity
from cloakwork.guarantees.confidence_bound import WorstKnowledge
from cloakwork.log.eventlog import CASE_ID, TIMESTAMP, EventLog
from cloakwork.mechanisms.base import Offer, Refusal
from cloakwork.mechanisms.kanon import background_knowledge, tlkc
from cloakwork.mechanisms.kanon.background_knowledge import (
    KnowledgeLevel,
    KnownSequences,
    knowledge_levels,
)
from cloakwork.mechanisms.kanon.tlkc import Tlkc, TlkcParams
from cloakwork.mechanisms.steps import Decision, MapCases
from cloakwork.noise import secret
from cloakwork.testing.contract_logs import assert_is_a_log
from conftest import runs
from contracts.sample_logs import BEGIN, RESOURCE, courses_of, log_of, times_of_cases
from guarantees.measuring import require, worst_knowledge

TLKC = Tlkc()

ILLNESS = "case:Illness"


def goal(**more: Any) -> ConfidenceBound:
    """Two known events that three must match."""
    return ConfidenceBound(kind="confidence-bound", **({"L": 2, "K": 3} | more))


def offered(facts: Facts | None = None, **more: Any) -> TlkcParams:
    """What the mechanism offers for the goal."""
    answer = TLKC.offer(goal(**more), facts or Facts(), {})
    assert isinstance(answer, Offer), answer
    return answer.params


def decided(log: EventLog, params: TlkcParams) -> Decision:
    return TLKC.decide(params, TLKC.step(params, Facts()).summary.of(log), secret())


def run(log: EventLog, params: TlkcParams) -> EventLog:
    action = TLKC.rewrite(params, decided(log, params), secret().stream())
    assert isinstance(action, MapCases)
    return action.apply(log)


def released(sequences: list[str], **more: Any) -> Counter[str]:
    """The released variants of a log whose activities are letters, with their cases."""
    return Counter(
        "".join(sequence) for sequence in courses_of(run(log_of(sequences), offered(**more)))
    )


def with_illness(sequences: list[str], illnesses: list[str | None]) -> EventLog:
    log = log_of(sequences)
    return replace(
        log, cases=log.cases.with_columns(pl.Series(ILLNESS, illnesses, dtype=pl.String))
    )


def test_rare_knowledge_goes_and_its_cases_stay() -> None:
    """x is known of one case; nobody else loses an event."""
    assert released(["ab"] * 3 + ["axb"]) == Counter(ab=4)


def test_only_those_who_match_lose_the_event() -> None:
    """Only one case has b before a: it loses one of the two, the others keep both."""
    assert released(["ab"] * 5 + ["ba"]) == Counter(ab=5, b=1)


def test_only_events_that_take_part_go() -> None:
    """Of the a's of one case only the one behind b goes."""
    assert released(["aab"] * 5 + ["aaba"]) == Counter(aab=6)


def test_the_event_that_settles_most_for_least_goes_first() -> None:
    """x is in two pairs that one case alone has, a and b in one each."""
    sequences = ["ab"] * 4 + ["x"] * 4 + ["abx"]
    assert released(sequences) == Counter(ab=5, x=4)


def test_a_case_without_events_leaves_and_everything_is_counted_again() -> None:
    """y goes where it follows x; then only one case has y, which loses it, too, and with it all it
    had.
    """
    log, params = log_of(["xxy"] * 2 + ["y"] + ["xx"] * 3), offered()
    assert Counter(courses_of(run(log, params))) == Counter({("x", "x"): 5})
    figures = {"events": 13, "events_kept": 10, "cases": 6, "cases_kept": 5, "rounds": 2}
    assert decided(log, params).internal == figures


@pytest.mark.parametrize(
    ("background", "expected"),
    [
        ("set", Counter(ab=3, ba=2, aab=1)),
        ("multiset", Counter(ab=4, ba=2)),
        ("sequence", Counter(ab=4, b=2)),
    ],
)
def test_what_is_known_decides_what_goes(background: str, expected: Counter[str]) -> None:
    """A set tells no order and no number; a multiset tells numbers, a sequence order."""
    assert released(["ab"] * 3 + ["ba"] * 2 + ["aab"], background=background) == expected


def test_kept_events_are_the_events_that_were() -> None:
    """With their times and attributes, in their order."""
    log = log_of(["abc"] * 3 + ["axbc"])
    after = run(log, offered())
    assert after.events.equals(log.events.filter(pl.col("concept:name") != "x"))
    assert after.cases.equals(log.cases)


def test_relative_times_are_rounded_and_begin_at_the_epoch() -> None:
    """Each case begins when the policy says; an event that has no time keeps none."""
    hour = timedelta(hours=1)
    late = BEGIN + timedelta(days=40, minutes=50)
    times = [[start, start + 1.9 * hour, None] for start in [BEGIN] * 3 + [late]]
    begin = datetime(2000, 1, 1, 0, 30, tzinfo=UNIX_EPOCH.tzinfo)
    params = offered(Facts(epoch=begin), background="relative", precision=hour)
    after = run(log_of(["abc"] * 4, times), params)
    assert times_of_cases(after) == [[begin, begin + hour, None]] * 4
    assert sorted(TLKC.step(params, Facts()).lineage.writes) == [CONTROL_FLOW, METADATA, TIMESTAMPS]


def test_relative_knowledge_tells_when() -> None:
    """One case has b an hour later than the others; to a day, nobody can tell."""
    times = [[BEGIN, BEGIN + timedelta(hours=hours)] for hours in (1, 1, 1, 2)]
    log = log_of(["ab"] * 4, times)
    hourly = run(log, offered(background="relative", precision="1h"))
    daily = run(log, offered(background="relative", precision="1d"))
    assert Counter(courses_of(hourly)) == Counter({("a", "b"): 3, ("a",): 1})
    assert Counter(courses_of(daily)) == Counter({("a", "b"): 4})


def test_knowledge_that_tells_a_value_goes() -> None:
    """All who have x are ill; a tells nothing, since half of those who have it are."""
    log = with_illness(["ax"] * 3 + ["a"] * 3, ["flu"] * 3 + [None, "cold", None])
    after = run(log, offered(C=0.5, attribute=ILLNESS))
    assert Counter(courses_of(after)) == Counter({("a",): 6})
    assert after.cases[ILLNESS].equals(log.cases[ILLNESS])
    assert worst_knowledge(after, goal(C=0.5, attribute=ILLNESS)) == WorstKnowledge(6, 0.5)


def test_values_of_events_are_bounded_too() -> None:
    """Every resource occurs in one case only: a third of three."""
    assert courses_of(run(log_of(["a"] * 3), offered(C=1 / 3, attribute=RESOURCE))) == [("a",)] * 3
    with pytest.raises(
        MechanismError, match=r"more than C = 0.3 of all cases hold one value of 'org:resource'"
    ):
        run(log_of(["a"] * 3), offered(C=0.3, attribute=RESOURCE))


def test_units_are_counted_where_the_policy_names_them() -> None:
    """Five cases of x belong to two persons; cases without one are none."""
    log = log_of(["ax"] * 5 + ["a"] * 2 + ["y"] * 3 + ["z"] * 4)
    persons = pl.Series(
        "case:P", ["p"] * 4 + ["q", "r", None, None, None, "t", "t", "u", "v", None]
    )
    log = replace(log, cases=log.cases.with_columns(persons))
    params = offered(Facts(unit=Unit(attribute="case:P", max_cases=9)))
    assert Counter(courses_of(run(log, params))) == Counter({("a",): 7, ("z",): 4})
    assert {CONTROL_FLOW, "case:P"} == TLKC.step(params, Facts()).lineage.reads


def test_confidence_counts_persons_and_cases() -> None:
    """Two of three persons are ill, with two of six cases: too much of the persons. Four of six
    cases: of the cases.
    """
    facts = Facts(unit=Unit(attribute="case:P", max_cases=9))
    for persons, illnesses in [
        (list("ppppqr"), [None] * 4 + ["flu"] * 2),
        (list("ppppqr"), ["flu"] * 4 + [None] * 2),
    ]:
        log = with_illness(["a"] * 6, illnesses)
        log = replace(log, cases=log.cases.with_columns(pl.Series("case:P", persons)))
        with pytest.raises(MechanismError, match=r"more than C = 0.5 of all cases hold one value"):
            run(log, offered(facts, C=0.5, attribute=ILLNESS))


def test_edges_of_the_domain() -> None:
    """An empty log, one variant only, K cases, cases without events beside others."""
    assert not released([])
    assert not run(
        log_of([]), offered(background="relative", precision="1d", C=0.5, attribute=ILLNESS)
    ).events.height
    assert released(["ab"] * 9) == Counter(ab=9)
    assert released(["ab"] * 3) == Counter(ab=3)
    assert released(["ab", "bc", "b"]) == Counter(b=3)
    assert released(["ab"] * 3 + [""]) == Counter(ab=3)


@pytest.mark.parametrize(
    ("sequences", "says"),
    [
        (["ab"], "the log holds fewer than K = 3 cases with events"),
        (["ab"] * 2, "the log holds fewer than K = 3 cases with events"),
        ([""] * 5, "the log holds fewer than K = 3 cases with events"),
        (["ab", "cd", "ef", "gh"], "suppression for L = 2, K = 3, C = 1 leaves no event"),
    ],
)
def test_where_nothing_can_be_kept_it_says_so(sequences: list[str], says: str) -> None:
    """In one line, instead of a release without events."""
    with pytest.raises(MechanismError, match=f"kanon/tlkc: {says}"):
        released(sequences)


def test_what_is_missing_is_said() -> None:
    """An attribute that no case has, times that no event has, a variant not decided on."""
    with pytest.raises(MechanismError, match="no case has 'case:Illness'"):
        run(log_of(["a"] * 3), offered(C=0.5, attribute=ILLNESS))
    with pytest.raises(MechanismError, match="no event has 'ward'"):
        run(log_of(["a"] * 3), offered(C=0.5, attribute="ward"))
    log = log_of(["a"] * 3)
    with pytest.raises(MechanismError, match="no timestamps"):
        run(
            replace(log, events=log.events.drop(TIMESTAMP)),
            offered(background="relative", precision="1d"),
        )
    with pytest.raises(MechanismError, match="a variant that was not decided on"):
        tlkc._suppress_events(log_of(["b"]), decided(log, offered()).table, offered())


def test_too_much_knowledge_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line, before memory is short."""
    monkeypatch.setattr(background_knowledge, "MOST_MATCHES", 50)
    with pytest.raises(MechanismError, match=r"too much knowledge of up to L = 5 events"):
        released(["abcdefgh"] * 3, L=5)


def test_nothing_depends_on_the_order_of_cases() -> None:
    """Only the multiset of sequences counts."""
    sequences = ["abc", "abd", "abd", "acd", "b", "bcd", "abcd", "abcd", "ac", "bca"]
    assert released(sequences) == released(sequences[::-1])


def joined_in_one_order(sequences: KnownSequences, longest: int) -> Iterator[KnowledgeLevel]:
    """The published generation of candidates: symbols are joined in ascending order only."""
    for level in knowledge_levels(sequences, longest):
        kept = (np.diff(level.candidates, axis=1) >= 0).all(axis=1)
        stays = kept[level.candidate]
        number = np.cumsum(kept) - 1
        yield KnowledgeLevel(
            level.candidates[kept],
            number[level.candidate[stays]],
            level.sequence[stays],
            level.match_places[stays],
        )


def test_an_incomplete_join_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The published error: one case has b before a, its group of one stays, and the checker sees
    it.
    """
    log, params = log_of(["ab"] * 5 + ["ba"]), offered()
    found = worst_knowledge(run(log, params), goal())
    assert found is not None
    assert found.smallest >= 3
    monkeypatch.setattr(tlkc, "knowledge_levels", joined_in_one_order)
    assert worst_knowledge(run(log, params), goal()) == WorstKnowledge(1, None)


def test_counting_once_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a recount the last case of y stays, alone."""
    log, params = log_of(["xxy"] * 2 + ["y"] + ["xx"] * 3), offered()
    assert worst_knowledge(run(log, params), goal()) == WorstKnowledge(5, None)
    real, rounds = tlkc.knowledge_levels, iter([True, False])
    monkeypatch.setattr(
        tlkc, "knowledge_levels", lambda *given: real(*given) if next(rounds) else iter(())
    )
    assert worst_knowledge(run(log, params), goal()) == WorstKnowledge(1, None)


@pytest.mark.parametrize(
    ("more", "options", "reason"),
    [
        ({}, {"metric": "x"}, "it has no option 'metric'"),
        ({"C": 0.5}, {}, "C = 0.5 says nothing without the sensitive attribute"),
        ({"attribute": ILLNESS}, {}, "C = 1 bounds no confidence in 'case:Illness'"),
        ({"attribute": "concept:name", "C": 0.5}, {}, "is what background knowledge is about"),
        ({"background": "relative"}, {}, "needs a precision"),
        ({"precision": "1d"}, {}, "precision belongs to background: relative"),
    ],
)
def test_what_means_nothing_is_refused(
    more: dict[str, Any], options: dict[str, Any], reason: str
) -> None:
    """In plain words."""
    answer = TLKC.offer(goal(**more), Facts(), options)
    assert isinstance(answer, Refusal)
    assert answer.kind == "misconfigured"
    assert reason in answer.reason


def test_other_guarantees_are_not_its_own() -> None:
    """Complete variants may stay unique."""
    answer = TLKC.offer(KAnonymity(kind="k-anonymity", k=3), Facts(), {})
    assert isinstance(answer, Refusal)
    assert answer.kind == "never"


def test_all_knowledge_is_found_once() -> None:
    """Every subsequence of every sequence, in every order of its symbols; repetitions count."""
    sequences = KnownSequences(
        np.array([0, 1, 0, 1, 0]), np.array([0, 0, 0, 1, 1]), np.ones(5, np.int64)
    )
    levels = list(knowledge_levels(sequences, 3))
    found = [[*map(tuple, level.candidates.tolist())] for level in levels]
    assert found == [[()], [(0,), (1,)], [(0, 0), (0, 1), (1, 0)], [(0, 1, 0)]]
    pairs = [
        sorted(zip(level.candidate.tolist(), level.sequence.tolist(), strict=True))
        for level in levels
    ]
    assert pairs == [
        [(0, 0), (0, 1)],
        [(0, 0), (0, 1), (1, 0), (1, 1)],
        [(0, 0), (1, 0), (2, 0), (2, 1)],
        [(0, 0)],
    ]


PERSON, ILLNESS = "case:Person", "case:Illness"
HOUR = timedelta(hours=1)


@st.composite
def any_logs(draw: st.DrawFn) -> EventLog:
    """Up to 40 cases over five activities, some with a person, an illness and wards, events up to
    three hours apart.
    """
    sequences = draw(st.lists(st.text("abcde", max_size=6), max_size=40))
    gaps = draw(st.randoms(use_true_random=False))
    times = []
    for row, sequence in enumerate(sequences):
        hours = np.cumsum([gaps.choice([0, 0, 1, 3]) for _ in sequence])
        times.append(
            [
                BEGIN + timedelta(days=row, minutes=gaps.randrange(5)) + int(hour) * HOUR
                for hour in hours
            ]
        )
    log = log_of(sequences, [sorted(case) for case in times])
    persons = [gaps.choice(["p", "q", "r", "s", "t", None]) for _ in sequences]
    illnesses = [gaps.choice(["flu", "cold", "gout", None, None, None]) for _ in sequences]
    wards = [gaps.choice(["north", "south", None, None]) for _ in range(log.events.height)]
    cases = log.cases.with_columns(
        pl.Series(PERSON, persons, dtype=pl.String), pl.Series(ILLNESS, illnesses, dtype=pl.String)
    )
    return EventLog(
        log.events.with_columns(ward=pl.Series(wards, dtype=pl.String)), cases, log.offsets
    )


@st.composite
def any_goals(draw: st.DrawFn) -> ConfidenceBound:
    """Any guarantee of the kind that means something."""
    background = draw(st.sampled_from(["set", "multiset", "sequence", "relative"]))
    attribute = draw(st.sampled_from([None, ILLNESS, "ward"]))
    return ConfidenceBound(
        kind="confidence-bound",
        L=draw(st.integers(1, 4)),
        K=draw(st.integers(2, 6)),
        C=draw(st.sampled_from([0.3, 0.5, 0.8])) if attribute else 1.0,
        background=background,
        precision=draw(st.sampled_from([HOUR, 4 * HOUR])) if background == "relative" else None,
        attribute=attribute,
    )


@pytest.mark.parametrize("person", [None, PERSON])
@settings(max_examples=runs(20))
@given(log=any_logs(), goal=any_goals())
def test_releases_keep_the_bound(person: str | None, log: EventLog, goal: ConfidenceBound) -> None:
    """No knowledge finds too few or tells too much; nothing is invented, and what is kept keeps its
    order and values.
    """
    unit = Unit(attribute=person, max_cases=40)
    offer = TLKC.offer(goal, Facts(unit=unit), {})
    assert isinstance(offer, Offer)
    try:
        decision = TLKC.decide(
            offer.params, TLKC.step(offer.params, Facts()).summary.of(log), secret()
        )
    except MechanismError:
        return
    action = TLKC.rewrite(offer.params, decision, secret().stream())
    assert isinstance(action, MapCases)
    released = action.apply(log)

    require(released, goal, unit)
    require(released, goal.model_copy(update={"attribute": None}))
    assert_is_a_log(released)
    assert all(courses_of(released))
    assert set(released.cases[CASE_ID]) <= set(log.cases[CASE_ID])
    kept = log.events[RESOURCE].is_in(released.events[RESOURCE].to_list())
    expected = log.events.filter(kept)
    if goal.background == "relative":
        assert released.events.drop(TIMESTAMP).equals(expected.drop(TIMESTAMP))
    else:
        assert released.events.equals(expected)
    by_sequence = dict[object, set[tuple[bool, ...]]]()
    for row, sequence in enumerate(courses_of(log)):
        mask = tuple(kept[int(log.offsets[row]) : int(log.offsets[row + 1])])
        times = tuple(log.events[TIMESTAMP][int(log.offsets[row]) : int(log.offsets[row + 1])])
        steps = (
            tuple((time - times[0]) // goal.precision for time in times) if goal.precision else ()
        )
        by_sequence.setdefault((sequence, steps), set()).add(mask)
    assert all(len(masks) == 1 for masks in by_sequence.values())
