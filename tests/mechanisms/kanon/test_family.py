"""Every k-anonymiser of the control flow, on the same logs: no violation, a documented end, an
honest figure.
"""

from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pytest

from cloakwork.base.facts import Facts, Unit
from cloakwork.engines.memory import MemoryEngine
from cloakwork.errors import MechanismError
from cloakwork.guarantees import KAnonymity
from cloakwork.log.eventlog import ACTIVITY, TIMESTAMP, EventLog
from cloakwork.mechanisms.base import Offer, Refusal
from cloakwork.mechanisms.kanon.family import Anonymiser
from cloakwork.mechanisms.registry import catalogue
from cloakwork.noise import secret
from cloakwork.testing.contract_logs import assert_is_a_log
from conftest import runs
from contracts.sample_logs import RESOURCE, log_of
from guarantees.measuring import smallest_group

OWNER = "case:owner"
EVERY = (
    ("kanon/pretsa", {}),
    ("kanon/best-first", {}),
    ("kanon/a-star", {}),
    ("kanon/auto", {}),
    ("kanon/optimal", {}),
    ("kanon/optimal", {"split_cases": False, "gap": 0.0}),
)
RUNS = runs(10)
"""Random logs an algorithm."""


def courses_of(log: EventLog) -> list[str]:
    """The activities of each case, joined."""
    labels = log.events[ACTIVITY].to_list()
    return ["".join(labels[log.offsets[i] : log.offsets[i + 1]]) for i in range(log.cases.height)]


def run(
    name: str, options: dict[str, Any], log: EventLog, goal: KAnonymity
) -> tuple[EventLog, dict[str, Any]]:
    """Offer, summarise, decide, rewrite."""
    mechanism = catalogue()[name]
    assert isinstance(mechanism, Anonymiser)
    own = {"seconds": 5} if "seconds" in mechanism.Params.model_fields else {}
    offer = mechanism.offer(goal, Facts(unit=Unit(attribute=OWNER, max_cases=3)), own | options)
    assert isinstance(offer, Offer), offer
    decision = mechanism.decide(
        offer.params, mechanism.step(offer.params, Facts()).summary.of(log), secret()
    )
    rewrite = mechanism.rewrite(offer.params, decision, secret().stream())
    return MemoryEngine().rewrite(log, rewrite), dict(decision.internal)


def random_log(seed: int) -> EventLog:
    """Few activities, short cases, some of them alike; each owner has up to three cases, and some
    cases have none.
    """
    draw = np.random.default_rng(seed)
    pool = [
        "".join(draw.choice(list("abc"), draw.integers(0, 5))) for _ in range(draw.integers(1, 9))
    ]
    rows = [pool[i] for i in draw.integers(0, len(pool), draw.integers(1, 40))]
    log = log_of([list(row) for row in rows])
    gap = int(draw.choice([2, 7]))
    owners = [f"o{i // 3}" if i % gap else None for i in range(len(rows))]
    return EventLog(
        log.events, log.cases.with_columns(pl.Series(OWNER, owners, pl.String)), log.offsets
    )


def fewest(log: EventLog, goal: KAnonymity) -> int | None:
    """The smallest group, counted in plain Python; a case without an owner adds nothing to a count
    of owners.
    """
    holders: dict[str, set[object]] = {}
    owners = log.cases[OWNER].to_list()
    for case, course in enumerate(courses_of(log)):
        whole = goal.scope == "variants"
        for seen in [course] if whole else [course[:length] for length in range(len(course) + 1)]:
            own = case if goal.count == "cases" else owners[case]
            holders.setdefault(seen, set()).update([] if own is None else [own])
    return min(map(len, holders.values()), default=None)


@pytest.mark.parametrize(("name", "options"), EVERY, ids=str)
def test_no_violation_is_found(name: str, options: dict[str, Any]) -> None:
    """Counted on the released log by the checker, which shares nothing with the algorithms."""
    for seed in range(RUNS):
        draw = np.random.default_rng([seed, 1])
        log, count = (
            random_log(seed),
            "cases" if options.get("split_cases") else str(draw.choice(["cases", "units"])),
        )
        goal = KAnonymity(
            kind="k-anonymity",
            k=int(draw.integers(2, 7)),
            scope=str(draw.choice(["variants", "prefixes"])),
            count=count,
        )
        metric = {"distance": str(draw.choice(["levenshtein", "indel"]))}
        try:
            released, figures = run(name, options | metric, log, goal)
        except MechanismError as refused:
            mass = (
                log.cases.height if count == "cases" else log.cases[OWNER].drop_nulls().n_unique()
            )
            assert "fewer than k" in str(refused)
            assert mass < goal.k
            continue
        smallest = smallest_group(released, goal, Unit(attribute=OWNER))
        assert smallest is None or smallest >= goal.k, (seed, goal)
        assert smallest == fewest(released, goal), (seed, goal)
        assert set(courses_of(released)) <= set(courses_of(log))
        assert_is_a_log(released)
        assert released.cases.equals(log.cases)
        assert figures.get("bound", 0) <= figures["distance"]
        # What is kept keeps its row and its place, what is new has no time.
        is_new = released.events[TIMESTAMP].is_null()
        assert is_new.equals(released.events[RESOURCE].is_null())
        assert is_new.sum() <= figures["distance"]
        kept = released.events.filter(~is_new)
        assert kept.join(log.events, on=log.events.columns, how="semi").height == kept.height
        assert kept[RESOURCE].is_unique().all()


@pytest.mark.parametrize(("name", "options"), EVERY, ids=str)
@pytest.mark.parametrize("scope", ["variants", "prefixes"])
def test_the_documented_ends(name: str, options: dict[str, Any], scope: str) -> None:
    """The same for every algorithm."""

    def released(k: int, rows: list[str]) -> Counter[str]:
        goal = KAnonymity(kind="k-anonymity", k=k, scope=scope)
        return Counter(courses_of(run(name, options, log_of([list(row) for row in rows]), goal)[0]))

    assert released(3, []) == Counter()
    for rows in (["abc"], ["abc", "ab"]):
        with pytest.raises(MechanismError, match="fewer than k = 3"):
            released(3, rows)
    # One variant: unchanged. As many cases as k: everything gathers on one.
    assert released(3, ["abc"] * 5) == {"abc": 5}
    assert released(4, ["ab", "cd", "ef", "ef"]) == {"ef": 4}
    # All unique: each class gathers on one of its members.
    found = released(2, ["aaaa", "aaab", "cccc", "cccd"])
    assert sorted(found.values()) in ([2, 2], [4])
    # Cases without events: a class over variants, and no prefix.
    assert released(4, [""] * 4) == {"": 4}
    ends = {"a": 7}
    if scope == "prefixes":
        ends = {"": 2, "a": 5}
    elif name in ("kanon/optimal", "kanon/auto") and not options:
        # The cases of a variant may part: one of a is enough.
        ends = {"": 3, "a": 4}
    assert released(3, [""] * 2 + ["a"] * 5) == ends


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *(
            ("kanon/optimal", {key: value})
            for key, value in {
                "seconds": 0,
                "gap": -0.1,
                "split_cases": "perhaps",
                "second": 3,
            }.items()
        ),
        *(("kanon/a-star", {key: value}) for key, value in {"seconds": 0, "memory": 0}.items()),
        ("kanon/a-star", {"seconds": "soon"}),
    ],
)
def test_faulty_options_are_refused(name: str, options: dict[str, Any]) -> None:
    """In one line."""
    answer = catalogue()[name].offer(KAnonymity(kind="k-anonymity", k=4), Facts(), options)
    assert isinstance(answer, Refusal)
    assert answer.kind == "misconfigured"
    assert "\n" not in answer.reason


def test_family_is_registered() -> None:
    """What is tried here is what there is."""
    names = {name for name in catalogue() if isinstance(catalogue()[name], Anonymiser)}
    assert names == {name for name, _ in EVERY}
