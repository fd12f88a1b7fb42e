"""Cases move or go until no employee stands out: counted in plain Python on every small log, and on
random ones; and what is refused.
"""

from collections import Counter
from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
import polars as pl
import pytest

from cloakwork.base.facts import Facts, Unit
from cloakwork.engines.memory import MemoryEngine
from cloakwork.errors import GuaranteeBroken, Infeasible, MechanismError
from cloakwork.guarantees import KAnonymity
from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.base import Offer, Refusal
from cloakwork.mechanisms.kanon import employees
from cloakwork.mechanisms.kanon.employees import Employees, EmployeesParams, PerformedCases
from cloakwork.noise import reproducible
from cloakwork.plan.planner import make_plan
from cloakwork.policy.model import Policy
from cloakwork.run.run import Release, Run
from conftest import runs
from contracts.sample_logs import RESOURCE, courses_of, log_of
from guarantees.measuring import require
from plan.conftest import ATTRIBUTES, KANON, policy_of

STAFF = Unit(attribute=RESOURCE, level="event")
Cases = list[list[tuple[str, str | None]]]


def log_with(cases: Cases) -> EventLog:
    """Cases of (activity, who performed it)."""
    log = log_of([[activity for activity, _ in case] for case in cases])
    names = [name for case in cases for _, name in case]
    return replace(log, events=log.events.with_columns(pl.Series(RESOURCE, names, pl.String)))


def run(log: EventLog, k: int, least_cases: int = 0, seed: int = 1) -> EventLog:
    """The release."""
    params = EmployeesParams(k=k, least_cases=max(k, least_cases), attribute=RESOURCE, seconds=1)
    mechanism, noise = Employees(), reproducible(seed)
    step = mechanism.step(params, Facts())
    assert step.summary is not None
    summary = step.summary.merge(step.summary.of(log))
    decision = mechanism.decide(params, summary, noise)
    return MemoryEngine().rewrite(log, mechanism.rewrite(params, decision, noise.stream()))


def require_small_shares(released: EventLog, k: int, least: int) -> None:
    """Counted in plain Python: by sequence and place, of events that were not inserted."""
    courses = courses_of(released)
    assert min(Counter(courses).values(), default=least) >= least
    names = released.events[RESOURCE].to_list()
    performed: dict[tuple[tuple[str, ...], int], Counter[str]] = {}
    for row, course in enumerate(courses):
        for place in range(len(course)):
            event = int(released.offsets[row]) + place
            if released.kept[event] and names[event] is not None:
                performed.setdefault((course, place), Counter())[names[event]] += 1
    for counts in performed.values():
        assert k * max(counts.values()) <= counts.total()


def test_every_small_log() -> None:
    """All logs of four cases of one or two events by two employees or nobody: the release holds, by
    a count in plain Python and by the check, or none was found.
    """
    ways = [[("a", name)] for name in ("Amy", "Ben", None)]
    ways += [[("a", one), ("b", "Amy")] for one in ("Amy", "Ben")]
    kept = 0
    for cases in combinations_with_replacement(ways, 4):
        log = log_with(list(cases))
        try:
            released = run(log, 2)
        except Infeasible:
            continue
        kept += released.cases.height
        require_small_shares(released, 2, 2)
        goal = KAnonymity(kind="k-anonymity", k=2, unit=STAFF)
        require(released, goal)
        assert set(courses_of(released)) <= set(courses_of(log))
    assert kept > 80


def random_log(seed: int) -> EventLog:
    """Few activities, short cases, employees of whom one does most, events without a value."""
    draw = np.random.default_rng(seed)
    pool = ["".join(draw.choice(list("abc"), draw.integers(1, 5))) for _ in range(6)]
    staff = ["Amy", "Amy", "Amy", "Ben", "Eve", "Dan", None]
    rows = [pool[i] for i in draw.integers(0, 6, draw.integers(5, 80))]
    return log_with([[(label, staff[draw.integers(0, 7)]) for label in row] for row in rows])


@pytest.mark.parametrize("seed", range(runs(12)))
def test_random_logs(seed: int) -> None:
    """Each has a release, in which no share is above 1/k, and k cases or more share a sequence."""
    log = random_log(seed)
    k, least = (2, 2) if seed % 2 else (2, 6)
    try:
        released = run(log, k, least, seed)
    except Infeasible:
        return
    require_small_shares(released, k, least)
    # Cases keep what was theirs: names of kept events are those of the case.
    of_case = dict(zip(log.cases["case:concept:name"], range(log.cases.height), strict=True))
    for row, name in enumerate(released.cases["case:concept:name"]):
        source = of_case[name]
        own = log.events[RESOURCE][int(log.offsets[source]) : int(log.offsets[source + 1])]
        here = slice(int(released.offsets[row]), int(released.offsets[row + 1]))
        kept = released.events[RESOURCE][here].filter(pl.Series(released.kept[here]))
        assert Counter(kept.to_list()) <= Counter(own.to_list())


def test_most_of_a_log_stays() -> None:
    """Two hundred cases whose steps four employees share out evenly, and one that does more: what
    is too many goes, and no more.
    """
    staff = ["Amy"] * 110 + ["Ben", "Eve", "Dan"] * 30
    released = run(log_with([[("a", name), ("b", f"n{i % 9}")] for i, name in enumerate(staff)]), 3)
    # Of 90 others at most 45 may be joined: 45 of 135 is a third.
    assert released.cases.height == 135
    require_small_shares(released, 3, 3)


def test_what_does_not_fit_goes_where_it_does() -> None:
    """A sequence that one employee finishes alone joins one without that step."""
    cases: Cases = [[("a", f"n{i % 4}")] for i in range(12)]
    cases += [[("a", f"n{i % 4}"), ("z", "Amy")] for i in range(4)]
    released = run(log_with(cases), 3)
    assert set(courses_of(released)) == {("a",)}
    assert released.cases.height == 16


def test_one_employee_who_does_everything_is_refused_and_told_why() -> None:
    with pytest.raises(Infeasible, match="fewer than 3 of them perform 'a' and 'b'; choose"):
        run(log_with([[("a", "Amy"), ("b", "Ben")]] * 20), 3)
    cases: Cases = [[(label, "Amy")] for label in "abcde" for _ in range(4)]
    with pytest.raises(Infeasible, match="'a', 'b', 'c' and 2 more"):
        run(log_with(cases), 2)
    with pytest.raises(Infeasible, match="no event has a value of"):
        run(log_with([[("a", None)]] * 4), 2)


def test_events_of_nobody_count_neither_for_nor_against() -> None:
    """Steps of a system stay as they are; they make no share smaller."""
    cases: Cases = [[("start", None), ("a", name)] for name in ("Amy", "Ben") * 3]
    assert run(log_with(cases), 2).cases.height == 6
    diluted: Cases = [[("a", "Amy")]] * 3 + [[("a", None)]] * 30
    released = run(log_with(diluted), 2)
    assert released.events[RESOURCE].to_list() == [None] * 30


def test_what_was_inserted_before_nobody_performed() -> None:
    """Its value is copied from an event that somebody else performed."""
    log = log_with([[("a", "Amy"), ("b", "Ben")]])
    before = replace(log, inserted=np.array([False, True]))
    (found,) = PerformedCases(RESOURCE).of(before)["employees"].to_list()
    assert found == ["Amy", None]


def test_an_empty_log_has_an_empty_release() -> None:
    assert run(log_with([]), 2).cases.height == 0


def test_the_check_catches_a_broken_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that leaves nobody out, and one that forgets to ask whether a case fits: the check,
    which shares no code with it, finds both.
    """
    log = log_with([[("a", "Amy")]] * 8 + [[("a", "Ben")]] * 2 + [[("a", "Eve")]] * 2)
    goal = KAnonymity(kind="k-anonymity", k=3, unit=STAFF)
    require(run(log, 3), goal)
    with monkeypatch.context() as patch:
        everybody = lambda performed, k, least: np.ones(len(performed), np.bool_)  # noqa: E731
        patch.setattr(employees, "_without_too_many", everybody)
        with pytest.raises(GuaranteeBroken, match="performed at most 8 of 12 events"):
            require(run(log, 3), goal)
    with monkeypatch.context() as patch:
        patch.setattr(employees, "_fits", lambda counts, performed, k: True)
        with pytest.raises(GuaranteeBroken, match="performed at most 8 of 12 events"):
            require(run(log, 3), goal)


def test_offers() -> None:
    """For k-anonymity of employees over the control flow alone."""
    goal = KAnonymity(kind="k-anonymity", k=3, unit=STAFF)
    answer = Employees().offer(goal, Facts(), {"seconds": 2})
    assert isinstance(answer, Offer)
    assert (answer.params.k, answer.params.least_cases) == (3, 3)
    plain = KAnonymity(kind="k-anonymity", k=3)
    beside = goal.model_copy(update={"over": ("control-flow", "case:Age")})
    for other, options, words in (
        (plain, {}, "shares of employees"),
        (beside, {}, "over control-flow alone"),
        (goal, {"k": 2}, "comes from the guarantee"),
        (goal, {"least_cases": 2}, "at least k, 3"),
        (goal, {"seconds": 0}, "option seconds"),
        (goal, {"sekonds": 1}, "no option 'sekonds'"),
    ):
        refused = Employees().offer(other, Facts(), options)
        assert isinstance(refused, Refusal)
        assert words in refused.reason


def released_by(policy: Policy, log: EventLog) -> Release:
    """A release of the whole plan, with noise of a fixed seed."""
    return Run(plan=make_plan(policy), noise=reproducible(1)).release(log, None)


def test_a_release_counts_and_drops_the_employees() -> None:
    """The check sees them inside the run; the release does not hold them, times included or not."""
    rule = {"role": "identifier", "treatment": "drop"}
    attributes = {**ATTRIBUTES, RESOURCE: rule, "time:timestamp": {"role": "timestamp"}}
    staff = {"attribute": RESOURCE, "level": "event"}
    policy = policy_of(
        attributes=attributes,
        unit=staff,
        guarantees=[{"kind": "k-anonymity", "k": 2}],
        expose={"timestamps": "for a test"},
    )
    names = ["Amy"] * 6 + ["Ben", "Eve", "Dan"] * 2
    log = log_with([[("a", name), ("b", f"n{row % 4}")] for row, name in enumerate(names)])
    log = replace(log, events=log.events.with_columns(department=pl.lit("north")))
    found = released_by(policy, log)
    assert isinstance(found.log, EventLog)
    assert RESOURCE not in found.log.events.columns
    (verdict,) = found.verdicts
    assert f"one '{RESOURCE}' performed at most 6 of 12 events at one place" in verdict.observed
    # Both, with cases that the other step moves.
    both = policy_of(
        attributes=attributes,
        guarantees=[{**KANON, "k": 4}, {"kind": "k-anonymity", "k": 2, "unit": staff}],
        expose={"timestamps": "for a test"},
    )
    short = log_with(
        [[("a", name), *([("b", "n1")] if row % 5 else [])] for row, name in enumerate(names)]
    )
    assert all(each.holds for each in released_by(both, short).verdicts)
    lacking = replace(log, events=log.events.drop(RESOURCE))
    with pytest.raises(MechanismError, match=r"no event has 'org:resource'.*policy lint"):
        released_by(policy, lacking)
    floats = replace(log, events=log.events.with_columns(pl.Series(RESOURCE, [0.5] * 24)))
    with pytest.raises(MechanismError, match="give it as text"):
        released_by(policy, floats)
