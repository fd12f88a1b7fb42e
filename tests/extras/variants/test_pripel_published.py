"""``variants/pripel-published``: what its paper has, in a plan that accepts it, and no claim:
sequences matched with the cases of a log, and local noise on what these have.
"""

import math
from typing import Any

import numpy as np
import polars as pl
import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.evaluation.one_mechanism import run_step
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import Cases, Column, Columns, Randomness
from cloakwork.log.eventlog import TIMESTAMP, EventLog
from cloakwork.mechanisms.base import Offer, Refusal
from cloakwork.mechanisms.steps import Listed, Numbers
from cloakwork.noise import reproducible
from cloakwork.plan.choose import choose_mechanism
from cloakwork.plan.model import Plan
from cloakwork.plan.planner import make_plan
from cloakwork.policy.model import Mechanisms
from cloakwork.run.run import Run
from cloakwork.testing.contract_logs import RESOURCE, log_of
from cloakwork_extras.pripel import (
    PripelPublished,
    bounded_laplace,
    matched_cases,
    matched_events,
    times_as_published,
    values_as_published,
)
from plan.conftest import policy_of

NAME = "variants/pripel-published"
OVER = ("control-flow", "timestamps", RESOURCE, "case:row")
LOG = log_of([["a", "b"]] * 40 + [["a", "c", "b"]] * 20)


def goal(**fields: Any) -> DifferentialPrivacy:
    told = {"kind": "differential-privacy", "epsilon": 2.0, "delta": 1e-6, "over": OVER}
    return DifferentialPrivacy.model_validate(told | fields)


def planned(**mechanisms: Any) -> Plan:
    policy = policy_of(
        attributes={
            "case:concept:name": {"role": "identifier"},
            "concept:name": {"role": "control-flow"},
            "time:timestamp": {"role": "timestamp"},
            RESOURCE: {"role": "sensitive", "domain": ["r0", "r1"]},
            "case:row": {"role": "sensitive", "range": [0, 59]},
            "*": {"treatment": "drop"},
        },
        guarantees=[goal().model_dump(mode="json")],
        mechanisms=mechanisms,
    )
    return make_plan(policy)


ACCEPTED = {"prefer": [NAME], "accept_unproven": True}


def released(log: EventLog, **options: Any) -> EventLog:
    plan = planned(**ACCEPTED, parameters={NAME: options})
    return Run(plan=plan, noise=reproducible(1)).release(log, None).log


def test_it_has_no_bound_and_says_why() -> None:
    offer = PripelPublished().offer(goal(), Facts(), {})
    assert isinstance(offer, Offer)
    event = PripelPublished().step(offer.params, Facts()).event
    assert cost(event, 1e-6).epsilon == math.inf
    lineage = PripelPublished().step(offer.params, Facts()).lineage
    assert not lineage.measures
    assert {*OVER} <= lineage.reads


@pytest.mark.parametrize(
    "fields", [{"over": ("control-flow",)}, {"over": ("timestamps",), "neighbours": "bounded"}]
)
def test_it_serves_whole_logs_alone(fields: dict[str, Any]) -> None:
    answer = PripelPublished().offer(goal(**fields), Facts(), {})
    assert isinstance(answer, Refusal)
    assert answer.kind == "never"


def test_a_plan_that_accepts_it_claims_nothing_and_shows_both_figures() -> None:
    plan = planned(**ACCEPTED)
    assert NAME in [step.mechanism for step in plan.steps]
    assert not plan.claims
    (unproven,) = plan.unproven
    assert "epsilon-local" in unproven.published
    assert unproven.cost is None
    assert "which real case is matched" in unproven.why[0]
    assert {*OVER} <= {item.column for item in plan.exposed}


@pytest.mark.parametrize(
    "mechanisms",
    [{}, {"prefer": [NAME]}, {"accept_unproven": True}, {"allow": [NAME], "prefer": ["*"]}],
)
def test_it_is_never_taken_unasked(mechanisms: dict[str, Any]) -> None:
    allowed = Mechanisms.model_validate(mechanisms)
    found = choose_mechanism(0, goal(), Facts(), allowed, {NAME: PripelPublished()})
    assert not found.steps
    # What is registered is weighed only where it is named in full.
    named = NAME in (*allowed.allow, *allowed.prefer)
    assert len(found.considered) == named
    assert all("only published, so it cannot satisfy" in item.reason for item in found.considered)


def test_cases_have_times_and_values_of_real_ones() -> None:
    """At an epsilon of 100 next to nothing is changed: cases come back as they are."""
    offer = PripelPublished().offer(
        goal(epsilon=100.0), Facts(ranges={"case:row": (0, 59)}), {"threshold": 2, "length": 4}
    )
    assert isinstance(offer, Offer)
    log = run_step(PripelPublished(), offer.params, LOG, reproducible(1))
    assert sorted(log.events[RESOURCE]) == sorted(LOG.events[RESOURCE])
    first = log.events[RESOURCE].gather(log.offsets[:-1])
    row_of = dict(zip(LOG.events[RESOURCE].gather(LOG.offsets[:-1]), range(60), strict=True))
    rows = [row_of[resource] for resource in first]
    assert np.abs(log.cases["case:row"].to_numpy() - rows).max() < 10
    hours = (log.events[TIMESTAMP].diff().dt.total_seconds() / 3600).to_numpy()
    follows = np.diff(log.case_of, prepend=-1) == 0
    assert np.abs(hours[follows] - 1).max() < 0.5


@pytest.mark.parametrize(
    "log",
    [
        log_of([]),
        log_of([["a"]] * 50, [[None]] * 50),
        log_of([["a"] * 30]),
    ],
    ids=["empty", "no times", "one long case"],
)
def test_every_log_gives_a_release(log: EventLog) -> None:
    found = released(log, threshold=1, length=5)
    assert found.events[TIMESTAMP].null_count() == 0
    assert found.events[TIMESTAMP].dtype == pl.Datetime("us", "UTC")


def random() -> Randomness:
    return Randomness(reproducible(1))


LABELS = ("a", "b", "c", "d")


def cases(*sequences: str) -> Cases:
    return Cases.of([tuple(sequence) for sequence in sequences], LABELS)


def test_equal_sequences_first_then_the_nearest_that_is_left() -> None:
    source = cases("abc", "abc", "dd", "abd")
    made = cases("abc", "abcc", "abc", "ddd")
    found = matched_cases(made, source, random()).tolist()
    assert sorted(found[0:3:2]) == [0, 1]
    assert (found[1], found[3]) == (3, 2)


def test_each_case_is_taken_once_and_what_is_left_over_has_none() -> None:
    source, made = cases("ab", "ab"), cases("ab", "abc", "abd", "ab", "ab")
    found = matched_cases(made, source, random())
    assert sorted(found.tolist()) == [-1, -1, -1, 0, 1]
    assert matched_cases(cases(), source, random()).tolist() == []
    assert matched_cases(cases("a"), cases(), random()).tolist() == [-1]


def test_events_take_the_first_of_their_activity_that_is_left_else_any() -> None:
    source, made = cases("abab", "ccd"), cases("aabc", "dd")
    found = matched_events(made, source, np.array([0, -1]), random()).tolist()
    assert found[:3] == [0, 2, 1]
    assert found[3] in (4, 5)
    assert found[4:] == [6, 6]


def test_many_cases_end() -> None:
    """1,000 sequences of their own against 1,000 others: no case is left, none is taken twice."""
    rng = np.random.default_rng(1)
    old, new = (
        cases(*("".join(rng.choice(LABELS, size)) for size in rng.integers(5, 20, 1000)))
        for _ in range(2)
    )
    found = matched_cases(new, old, random())
    assert sorted(found.tolist()) == list(range(1000))


RUNS = 40_000
ROWS = np.zeros(RUNS, np.int64)
EVERY = np.arange(2)


def texts(codes: list[int], alphabet: tuple[str, ...]) -> Column:
    missing = np.array(codes) < 0
    return Column(np.zeros(len(codes)), missing, np.array(codes), alphabet)


@pytest.mark.parametrize(
    ("alphabet", "kept"),
    [
        (("false", "true"), math.e**2 / (math.e**2 + 1)),
        (("x", "y", "z"), math.e / (math.e + 2)),
    ],
)
def test_values_stay_as_often_as_published(alphabet: tuple[str, ...], kept: float) -> None:
    """Randomised response of truth values at epsilon, the exponential mechanism of others."""
    column = texts([1, -1], alphabet)
    found = values_as_published(column, ROWS, 2.0, random(), is_number=False)
    assert isinstance(found, Listed)
    assert abs((found.codes == 1).mean() - kept) < 0.01
    assert set(found.codes) == set(range(len(alphabet)))
    assert found.domain == ((False, True) if alphabet[0] == "false" else alphabet)
    missing = values_as_published(column, ROWS + 1, 2.0, random(), is_number=False)
    assert isinstance(missing, Listed)
    assert (missing.codes == -1).all()


def test_numbers_have_the_density_of_laplace_noise_inside_the_range() -> None:
    """Of 0 in [0, 10] at epsilon 2: how many lie below 5, by hand."""
    noisy = bounded_laplace(np.zeros(RUNS), 0.0, 10.0, 2.0, random())
    assert noisy.min() >= 0
    assert noisy.max() <= 10
    share = (1 - math.exp(-1)) / (1 - math.exp(-2))
    assert abs((noisy < 5).mean() - share) < 0.01


@pytest.mark.parametrize("epsilon", [1e-5, 1.0, 100.0])
@pytest.mark.parametrize("edges", [(0.0, 0.0), (-1e308, 1e308), (3.0, 3.0 + 1e-300)])
def test_every_range_and_epsilon_gives_numbers_inside(
    epsilon: float, edges: tuple[float, float]
) -> None:
    low, high = edges
    noisy = bounded_laplace(np.array([low, high]), low, high, epsilon, random())
    assert ((noisy >= low) & (noisy <= high)).all()


def test_missing_numbers_stay_and_a_column_without_values_is_empty() -> None:
    column = Column(np.array([4.0, 0.0]), np.array([False, True]), np.array([-1, -1]))
    found = values_as_published(column, EVERY, 1.0, random(), is_number=True)
    assert isinstance(found, Numbers)
    assert found.values[0] == 4.0
    assert np.isnan(found.values[1])
    empty = Column(np.zeros(2), np.array([True, True]), np.array([-1, -1]))
    listed = values_as_published(empty, EVERY, 1.0, random(), is_number=False)
    assert isinstance(listed, Listed)
    assert (listed.codes.tolist(), listed.domain) == ([-1, -1], ())
    numbers = values_as_published(empty, EVERY, 1.0, random(), is_number=True)
    assert isinstance(numbers, Numbers)
    assert np.isnan(numbers.values).all()


@pytest.mark.parametrize("known", [True, False])
def test_times_never_descend_and_none_is_missing(known: bool) -> None:
    """Also of gaps of thousands of years, one after another, and without any time."""
    stamps = np.array([0, 5, 3 * 10**17, 7, 8, 10], np.int64)
    times = Column.of_times(
        stamps, np.array([False, True, False, False, False, False]) | (not known)
    )
    source = Cases(("a",), np.zeros(6, np.int64), np.array([0, 3, 6]), Columns({TIMESTAMPS: times}))
    made = Cases(("a",), np.zeros(200, np.int64), np.array([0, 100, 200]))
    event = np.tile(np.array([0, 2]), 100)
    found = times_as_published(source, made, EVERY, event, 1.0, random()).microseconds
    steps = np.diff(found.reshape(2, 100))
    assert (steps >= 0).all()
    assert steps.any() == known
