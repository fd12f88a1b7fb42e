"""What a check sees of a log in parts is what the definitions say of the whole log, wherever its
cases lie.
"""

import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloakwork.base.facts import Unit
from cloakwork.errors import GuaranteeBroken
from cloakwork.guarantees import (
    ConfidenceBound,
    Guarantee,
    KAnonymity,
    LDiversity,
    MetricPrivacy,
    TCloseness,
)
from cloakwork.guarantees.base import Observation, gathered
from cloakwork.guarantees.classes import GroupedValues
from cloakwork.guarantees.confidence_bound import SequenceEvidence
from cloakwork.guarantees.k_anonymity import ClassSizes
from cloakwork.log.eventlog import Aggregate, EventLog
from cloakwork.log.formats import read_log
from conftest import EXAMPLES, in_long_form, runs
from contracts.sample_logs import BEGIN, log_of
from guarantees.by_definition import (
    ILLNESS,
    PERSON,
    by_rank,
    plain_distance,
    plain_groups,
    plain_smallest,
    plainly,
    plainly_shown,
)
from guarantees.measuring import (
    largest_distance,
    least_diversity,
    measure,
    smallest_group,
    worst_knowledge,
)
from log_in_parts import LogInParts

UNIT = Unit(attribute=PERSON)
SCOPES = ("variants", "prefixes")
PARTS = (1, 4, 9)
FEW = settings(max_examples=runs(6))


@st.composite
def logs(draw: st.DrawFn) -> EventLog:
    """Few activity sequences, persons with several cases, values of events and cases, some of them
    missing; each event an hour after the one before it.
    """
    sequences = draw(st.lists(st.text("ab", max_size=3), min_size=1, max_size=4))
    log = log_of(cases := draw(st.lists(st.sampled_from(sequences), max_size=14)))
    events = log.events.height

    def column(values: list[Any], size: int, kind: Any) -> pl.Series:
        drawn = draw(st.lists(st.sampled_from(values), min_size=size, max_size=size))
        return pl.Series(drawn, dtype=kind)

    hours = log.position_of_event.tolist()
    return replace(
        log,
        events=log.events.with_columns(
            pl.Series("time:timestamp", [BEGIN + timedelta(hours=hour) for hour in hours]).cast(
                log.events.schema["time:timestamp"]
            ),
            column(["x", "y", None], events, pl.String).alias("ward"),
            column([0.0, -0.0, 1.5, 7.0, None], events, pl.Float64).alias("cost"),
        ),
        cases=log.cases.with_columns(
            column(["p", "q", "r", None], len(cases), pl.String).alias(PERSON),
            column(["flu", "cold", None], len(cases), pl.String).alias(ILLNESS),
            column([3, 4, 4, None], len(cases), pl.Int64).alias("case:age"),
        ),
    )


def parted(log: EventLog, data: st.DataObject) -> LogInParts:
    """The log in 1, 4 or 9 parts; cases of one person lie anywhere."""
    count = data.draw(st.sampled_from(PARTS))
    size = log.cases.height
    parts = data.draw(st.lists(st.integers(0, count - 1), min_size=size, max_size=size))
    return LogInParts.of(log, np.array(parts, np.int64), count)


def k_anonymity_over(*others: str, **more: Any) -> KAnonymity:
    """Two cases or units share the control flow, and these columns."""
    return KAnonymity(kind="k-anonymity", k=2, over=("control-flow", *others), **more)


def bound(**more: Any) -> ConfidenceBound:
    """At most half of those who match two events are known to have one illness."""
    return ConfidenceBound(kind="confidence-bound", L=2, K=2, C=0.5, attribute=ILLNESS, **more)


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("count", ["cases", "units"])
@FEW
@given(log=logs(), data=st.data())
def test_k_anonymity(scope: str, count: str, log: EventLog, data: st.DataObject) -> None:
    """Classes and their sizes."""
    others = data.draw(st.sampled_from([(), (ILLNESS, "ward", "cost")]))
    goal = k_anonymity_over(*others, scope=scope, count=count)
    found = smallest_group(parted(log, data), goal, UNIT)
    assert found == plain_smallest(log, goal)


@pytest.mark.parametrize("background", ["set", "multiset", "sequence", "relative"])
@FEW
@given(log=logs(), data=st.data())
def test_confidence_bound(background: Any, log: EventLog, data: st.DataObject) -> None:
    """All knowledge of two events, by case and by person."""
    precision = timedelta(hours=1) if background == "relative" else None
    goal, parts = bound(background=background, precision=precision), parted(log, data)
    assert worst_knowledge(parts, goal) == plainly(log, goal, persons=False)
    assert worst_knowledge(parts, goal, UNIT) == plainly(log, goal, persons=True)


@pytest.mark.parametrize("classes", SCOPES)
@pytest.mark.parametrize("attribute", ["ward", "cost", ILLNESS, "case:age"])
@FEW
@given(log=logs(), data=st.data())
def test_values(classes: Any, attribute: str, log: EventLog, data: st.DataObject) -> None:
    """The farthest group, and the least varied."""
    parts, groups = parted(log, data), plain_groups(log, attribute, classes)
    near = TCloseness(kind="t-closeness", t=1, attribute=attribute, classes=classes)
    varied = LDiversity(kind="l-diversity", l=2, attribute=attribute, classes=classes)
    present = [{value for value in part if value is not None} for part, _ in groups]
    least = min((len(values) for values in present if values), default=None)
    assert least_diversity(parts, varied) == least
    far = largest_distance(parts, near)
    if not any(value is not None for _, every in groups for value in every):
        assert far is None
        return
    distances = [plain_distance(part, every, by_rank)[1] for part, every in groups]
    assert far == pytest.approx(max(distances), abs=1e-9)


@FEW
@given(log=logs(), data=st.data(), by_time=st.booleans())
def test_inserted_events(log: EventLog, data: st.DataObject, by_time: bool) -> None:
    """Once as everybody reads the log, and once for somebody who recognises them."""
    size = log.events.height
    marks = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    marked = replace(log, inserted=np.array(marks, np.bool_))
    parts = parted(marked, data)
    goal = k_anonymity_over()
    sizes = [plain_smallest(log, goal)]
    sizes.append(plain_smallest(marked.keep_events(~np.array(plainly_shown(marked), bool)), goal))
    found = measure(parts, goal, Unit())
    assert found is not None
    assert found.holds == all(size is None or size >= 2 for size in sizes)
    kept_alone = log.events["ward"].set(pl.Series(marks, dtype=pl.Boolean), None)
    of_kept = replace(log, events=log.events.with_columns(kept_alone))
    varied = LDiversity(kind="l-diversity", l=2, attribute="ward")
    least = [least_diversity(each, varied) for each in (log, of_kept)]
    found = measure(parts, varied, Unit())
    assert found is not None
    assert found.holds == all(each is None or each >= 2 for each in least)
    for each in (goal, varied, bound(), TCloseness(kind="t-closeness", t=0.3, attribute="cost")):
        assert measure(parts, each, UNIT, raw_times=by_time) == measure(
            marked, each, UNIT, raw_times=by_time
        )


@cache
def shipped(name: str) -> EventLog:
    """A log of the examples, with a person for every other case or two."""
    log = read_log(EXAMPLES / name)
    persons = pl.Series(PERSON, [f"p{case // 2}" for case in range(log.cases.height)])
    return replace(log, cases=log.cases.with_columns(persons))


@pytest.mark.parametrize(
    ("name", "count"),
    [("hospital.csv.gz", 4), *in_long_form(("permit.xes.gz", 4), ("permit.xes.gz", 60))],
)
def test_shipped_logs(name: str, count: int) -> None:
    """Each kind of guarantee; sizes of classes besides as plain Python counts them."""
    log = shipped(name)
    part_of_case = np.random.default_rng(count).integers(0, count, log.cases.height)
    parts = LogInParts.of(log, part_of_case, count)
    for scope in SCOPES:
        for counted in ("cases", "units"):
            goal = k_anonymity_over(scope=scope, count=counted)
            found = smallest_group(parts, goal, UNIT)
            assert found == plain_smallest(log, goal)
    resource = "org:resource"
    for other in (
        ConfidenceBound(kind="confidence-bound", L=1, K=2, C=0.9, attribute=resource),
        TCloseness(kind="t-closeness", t=0.5, attribute="timestamps"),
        TCloseness(kind="t-closeness", t=0.5, attribute=resource, classes="prefixes"),
        LDiversity(kind="l-diversity", l=2, attribute=resource, variety="entropy"),
    ):
        whole = measure(log, other, UNIT)
        assert whole is not None
        assert "holds no value" not in whole.seen
        assert measure(parts, other, UNIT) == whole


@dataclass(frozen=True)
class ForgetsAPart:
    """The rows of the last part that has any are gone."""

    evidence: Aggregate

    def of(self, batch: EventLog) -> pl.DataFrame:
        return self.evidence.of(batch).with_columns(part=pl.lit(batch.index_of_case.min()))

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        others = summaries.filter(pl.col("part") != pl.col("part").max()).drop("part")
        return self.evidence.merge(others)


@dataclass(frozen=True)
class AddsUpUnits:
    """A unit counts in each part in which it has cases."""

    evidence: Aggregate

    def of(self, batch: EventLog) -> pl.DataFrame:
        return self.evidence.of(batch)

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        units = pl.col("units").explode(empty_as_null=False)
        return summaries.group_by("class_1", "class_2").agg(units)


@dataclass(frozen=True)
class TakesTheLargest:
    """The largest count of a part in place of their sum."""

    evidence: Aggregate

    def of(self, batch: EventLog) -> pl.DataFrame:
        return self.evidence.of(batch)

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        counts = [name for name in ("size", "cases", "count", "kept") if name in summaries.columns]
        others = [name for name in summaries.columns if name not in counts]
        return summaries.group_by(others).agg(pl.col(counts).max())


TWO_PERSONS = log_of(["a"] * 9 + ["b"] * 9)
TWO_PERSONS = replace(
    TWO_PERSONS,
    cases=TWO_PERSONS.cases.with_columns(
        pl.Series(PERSON, ["p", "q", "q"] * 6),
        pl.Series(ILLNESS, (["flu"] * 4 + ["cold"] * 5) + (["flu"] * 2 + ["cold"] * 7)),
    ),
)
"""Two activity sequences of nine cases each; both persons in every three cases in a row."""

TWINS: list[tuple[Guarantee, Unit, Callable[[Aggregate], Any]]] = [
    (k_anonymity_over(), Unit(), ForgetsAPart),
    (k_anonymity_over(), Unit(), TakesTheLargest),
    (k_anonymity_over(count="units"), UNIT, AddsUpUnits),
    (bound(), Unit(), ForgetsAPart),
    (bound(), Unit(), TakesTheLargest),
    (TCloseness(kind="t-closeness", t=1, attribute=ILLNESS), Unit(), ForgetsAPart),
    (TCloseness(kind="t-closeness", t=1, attribute=ILLNESS), Unit(), TakesTheLargest),
    (
        LDiversity(kind="l-diversity", l=1.5, attribute=ILLNESS, variety="entropy"),
        Unit(),
        TakesTheLargest,
    ),
]


@pytest.mark.parametrize(("goal", "unit", "twin"), TWINS)
def test_broken_twins_see_something_else(
    goal: Guarantee, unit: Unit, twin: Callable[[Aggregate], Any]
) -> None:
    """The comparison with the whole log finds each of these faults, over three parts."""
    parts = LogInParts.of(TWO_PERSONS, np.arange(18) % 9 // 4, 3)
    check = goal.check(unit)
    assert check is not None
    whole = measure(TWO_PERSONS, goal, unit)
    assert check.measured_on(parts) == whole
    assert replace(check, evidence=twin(check.evidence)).measured_on(parts) != whole


EVIDENCE: list[Aggregate] = [
    ClassSizes(k_anonymity_over("ward", scope="prefixes"), Unit()),
    ClassSizes(k_anonymity_over(count="units"), UNIT),
    SequenceEvidence(bound(), UNIT),
    GroupedValues("cost", "variants"),
    GroupedValues(ILLNESS, "prefixes"),
]


@pytest.mark.parametrize("evidence", EVIDENCE)
@FEW
@given(log=logs(), data=st.data())
def test_evidence_travels(evidence: Aggregate, log: EventLog, data: st.DataObject) -> None:
    """Another process takes it with the same key; what was merged merges as well; a batch that is
    taken twice gives the same rows.
    """
    elsewhere = pickle.loads(pickle.dumps(evidence))
    batches = parted(log, data).parts
    tables = [elsewhere.of(batch) for batch in batches]
    merged = [evidence.merge(table) for table in tables]
    one_by_one = evidence.merge(pl.concat([evidence.merge(pl.concat(merged[:2])), *merged[2:]]))
    assert rows_of(one_by_one) == rows_of(gathered(LogInParts(batches), evidence))


def rows_of(table: pl.DataFrame) -> list[str]:
    """The rows in an order of their own, lists in theirs."""
    sets = [
        pl.col(name).list.sort()
        for name, kind in table.schema.items()
        if kind == pl.List(pl.UInt64)
    ]
    return sorted(map(repr, table.with_columns(sets).rows()))


def test_each_check_has_a_key_of_its_own() -> None:
    """Nobody can prepare a log whose classes collide."""
    one, other = (ClassSizes(k_anonymity_over(), Unit()).of(TWO_PERSONS) for _ in range(2))
    assert set(one["class_1"]).isdisjoint(other["class_1"])
    assert "text" not in repr(ClassSizes(k_anonymity_over(), Unit()).key)


def test_what_is_needed_and_missing_is_said() -> None:
    """A unit that no case has: the log is not checked without it."""
    parts = LogInParts.evenly(log_of(["ab"] * 6), 4)
    for goal in (k_anonymity_over(count="units"), bound()):
        with pytest.raises(GuaranteeBroken, match="no column 'case:Person'"):
            measure(parts, goal, UNIT)


def test_a_column_that_a_part_lacks_is_missing_there() -> None:
    """Wherever its cases lie: the part's cases are those without a value."""
    whole = replace(
        TWO_PERSONS,
        cases=TWO_PERSONS.cases.with_columns(
            pl.Series(ILLNESS, [None] * 9 + TWO_PERSONS.cases[ILLNESS].to_list()[9:]),
            pl.Series("case:age", [None] * 9 + [4] * 9, dtype=pl.Int64),
        ),
    )
    first, second = LogInParts.of(whole, np.arange(18) // 9, 2).parts
    first = replace(first, cases=first.cases.drop(ILLNESS, "case:age"))
    for goal in (
        k_anonymity_over(ILLNESS),
        bound(missing="sensitive"),
        TCloseness(kind="t-closeness", t=1, attribute="case:age"),
        LDiversity(kind="l-diversity", l=2, attribute=ILLNESS),
    ):
        assert measure(LogInParts((first, second)), goal, Unit()) == measure(whole, goal, Unit())


def test_no_case_and_no_check() -> None:
    """Parts without cases hold; what rests on noise is not measured."""
    parts = LogInParts.evenly(log_of([]), 4)
    assert measure(parts, k_anonymity_over(), UNIT) == Observation(True, "the log holds no case")
    assert measure(parts, bound(), UNIT) == Observation(True, "the log holds no case")
    goal = MetricPrivacy(kind="metric-privacy", epsilon=1, shift=timedelta(hours=1))
    assert goal.check(UNIT) is None
