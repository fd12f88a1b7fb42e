"""From a summary to what a kernel answers from, each case and each unit once; and steps that add
columns to cases which were made of noisy answers.
"""

from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS, Lineage
from cloakwork.engines.batched import LocalEngine
from cloakwork.engines.measured import ColumnsOfCases, measured_of
from cloakwork.engines.measured import enriched as with_columns
from cloakwork.errors import MechanismError, PlanUnsound
from cloakwork.evaluation.one_mechanism import run_step
from cloakwork.kernel import Clip, Entries, Laplace
from cloakwork.log.variants import log_of_variants
from cloakwork.mechanisms.base import Mechanism, Refusal
from cloakwork.mechanisms.steps import Enrichment, EnrichStep, Listed, Numbers, Times
from cloakwork.noise import reproducible
from cloakwork.testing.contract_logs import log_of
from log_equality import assert_same_log
from log_in_parts import LogInParts

SCHEMA = {"variant": pl.List(pl.String), "cases": pl.Int64}
BY_UNIT = {**SCHEMA, "unit": pl.List(pl.String), "cases_of_unit": pl.List(pl.Int64)}

VARIANTS = st.lists(st.sampled_from(["a", "b", "a b", ""]), min_size=1, max_size=2).map(tuple)


def of(rows, schema=SCHEMA, seed=0):
    return measured_of(pl.DataFrame(rows, schema=schema, orient="row"), reproducible(seed))


def counts_of(seen):
    return dict(zip(seen.cases.variants(), seen.counts.tolist(), strict=True))


@given(st.dictionaries(VARIANTS, st.integers(1, 9)))
def test_counts_are_those_of_the_histogram(histogram):
    seen = of([(list(variant), cases) for variant, cases in histogram.items()])
    assert counts_of(seen) == histogram
    assert seen.owners is None
    variants, counts = seen.by_variant()
    assert dict(zip(variants, counts.tolist(), strict=True)) == histogram
    assert variants == sorted(histogram)


def test_the_order_of_cases_is_random():
    """Each of six orders comes: a query that goes by the order of a batch cannot go unnoticed."""
    rows = [([label], 1) for label in "abc"]
    orders = Counter(tuple(of(rows, seed=seed).cases.variants()) for seed in range(120))
    assert len(orders) == 6


@given(st.lists(st.tuples(VARIANTS, st.integers(1, 3), st.sampled_from([None, "u", "v", ""]))))
def test_units_own_their_cases(rows):
    """Cases without a unit are units of their own."""
    by_row = Counter()
    for variant, cases, unit in rows:
        by_row[variant, unit] += cases
    seen = of([(list(v), cases, [unit], [cases]) for (v, unit), cases in by_row.items()], BY_UNIT)
    variants, owners = seen.cases.variants(), seen.owners
    assert counts_of(seen) == sum_by(lambda variant, unit: variant, by_row)
    owned = {}
    for row, unit, cases in zip(owners.row, owners.unit, owners.cases, strict=True):
        owned.setdefault(int(unit), Counter())[variants[row]] += int(cases)
    assert set(owned) == set(range(owners.units))
    expected = [
        (variant,) for (variant, unit), n in by_row.items() if unit is None for _ in range(n)
    ]
    for name in {unit for _, unit in by_row} - {None}:
        own = {variant: n for (variant, unit), n in by_row.items() if unit == name}
        expected.append(tuple(sorted(Counter(own).elements())))
    assert sorted(tuple(sorted(each.elements())) for each in owned.values()) == sorted(expected)


def sum_by(key, counted):
    found = Counter()
    for names, number in counted.items():
        found[key(*names)] += number
    return dict(found)


def test_an_empty_histogram_is_a_log_without_cases():
    for schema in (SCHEMA, BY_UNIT):
        seen = of([], schema)
        assert len(seen.cases) == len(seen.counts) == 0
        assert seen.by_variant()[0] == []
    assert seen.owners.units == 0
    assert len(seen.owners.row) == 0


def test_cases_without_events_are_cases():
    seen = of([([], 4), (["a"], 1)])
    assert counts_of(seen) == {(): 4, ("a",): 1}
    assert seen.counts.dtype == np.int64


HOUR = 3_600_000_000
NOISE, CLIP = Laplace(4.0), Clip("l1", 8, 8)


class NoParams(BaseModel):
    """Nothing to set."""


class MeanGap(Mechanism):
    """All gaps of a release are the noisy mean of the log's, in hours."""

    name, proof = "toy/mean-gap", "proved"
    made = None

    def offer(self, goal, facts, options):
        return Refusal("never", "a toy")

    def step(self, params, facts):
        return EnrichStep(
            lineage=Lineage(
                measures=frozenset({CONTROL_FLOW, TIMESTAMPS}),
                reads=frozenset({CONTROL_FLOW}),
                writes=frozenset({TIMESTAMPS, "cost", "case:kind"}),
                enriches=True,
            ),
            event=NOISE.events(CLIP, facts.unit.max_cases, 2)[0],
            enrich=partial(self.enrich, params),
        )

    def enrich(self, params, kernel, cases):
        def hours(found):
            gaps = found.gaps
            known = np.flatnonzero(~gaps.is_missing)
            value = np.concatenate([gaps.values[known] // HOUR, np.ones(len(known), np.int64)])
            code = np.repeat([0, 1], len(known))
            return Entries(np.tile(found.case_of[known], 2), value, code)

        total, count = kernel.sum(hours, NOISE, CLIP, keys=2).at(np.arange(2))
        times = cases.place * HOUR * max(0, total // max(1, count))
        listed = Listed(np.arange(len(cases)) % 3 - 1, ("a", "b"))
        columns = {TIMESTAMPS: Times(times), "cost": Numbers(np.where(times, 1.5, np.nan))}
        return self.made or Enrichment({**columns, "case:kind": listed})


def enriched(mechanism, released):
    log = log_of([("x", "y")] * 200)
    return run_step(mechanism, NoParams(), log, reproducible(1), Facts(), released=released)


def test_where_a_column_stood_is_forgotten():
    """In XES that follows from which event is the first to have a value."""
    values = Numbers(np.array([1.5, 2.5]))
    columns = []
    for order in (["cost", "load", "kept"], ["load", "kept", "cost"]):
        made = log_of_variants([("q", "r")], np.array([1]))
        made = replace(made, events=made.events.with_columns(pl.lit(1).alias(n) for n in order))
        columns.append(
            with_columns(made, Enrichment({"load": values, "cost": values})).events.columns
        )
    assert columns[0] == columns[1]


def test_columns_are_added_to_the_cases_that_were_made():
    made = log_of_variants([("p",), ("q", "r")], np.array([2, 1]))
    after = enriched(MeanGap(), made)
    assert after.events["concept:name"].to_list() == ["p", "p", "q", "r"]
    assert after.events["time:timestamp"][0] == datetime(1970, 1, 1, tzinfo=UTC)
    assert after.events["time:timestamp"].diff()[3] % timedelta(hours=1) == timedelta(0)
    assert after.events["cost"].to_list()[0] is None
    assert after.cases["case:kind"].to_list() == [None, "a", "b"]


@pytest.mark.parametrize("engine", [None, LocalEngine(batch_events=2)])
def test_cases_that_lie_in_batches_get_the_same_columns(engine):
    """In whatever order they lie there."""
    log, whole = log_of([("x", "y")] * 200), log_of_variants([("p",), ("q", "r")], np.array([5, 6]))
    parts = LogInParts.of(whole, np.array([2, 0, 2, 1, 0, 1, 1, 0, 2, 2, 0]), 4)

    def made(released, engine):
        return run_step(
            MeanGap(), NoParams(), log, reproducible(1), engine=engine, released=released
        )

    assert_same_log(made(parts, engine), made(whole, None))


def test_columns_are_for_the_cases_that_they_were_made_for():
    """A batch of other cases, or of cases with other events, is refused."""
    index, offsets = np.array([3, 5]), np.array([0, 1, 3])
    columns = ColumnsOfCases.of({"cost": Numbers(np.array([1.0, 2.0, 3.0]))}, index, offsets)
    batch = replace(log_of([("p", "q")]), case_index=np.array([5]))
    assert columns.added(batch).events["cost"].to_list() == [2.0, 3.0]
    for other in (replace(batch, case_index=np.array([3])), log_of([("p", "q")])):
        with pytest.raises(ValueError, match="other cases"):
            columns.added(other)


@pytest.mark.parametrize(
    "columns",
    [
        {TIMESTAMPS: Times(np.zeros(4, np.int64))},
        {
            TIMESTAMPS: Times(np.zeros(3, np.int64)),
            "cost": Numbers(np.zeros(4)),
            "case:kind": Listed(np.zeros(3, np.int64), ("a",)),
        },
    ],
)
def test_other_columns_or_rows_are_an_error(columns):
    mechanism = MeanGap()
    mechanism.made = Enrichment(columns)
    with pytest.raises(MechanismError, match="toy/mean-gap"):
        enriched(mechanism, log_of_variants([("p",), ("q", "r")], np.array([2, 1])))


def test_there_must_be_cases():
    with pytest.raises(PlanUnsound):
        enriched(MeanGap(), None)


@pytest.mark.parametrize(
    ("domain", "kind"),
    [
        ((True, False), pl.Boolean),
        ((1, 2), pl.Int64),
        ((1, 2.5), pl.Float64),
        (("1", "x"), pl.String),
        ((), pl.String),
    ],
)
def test_the_type_is_that_of_the_domain(domain, kind):
    mechanism, made = MeanGap(), log_of_variants([("p",)], np.array([1]))
    listed = Listed(np.array([len(domain) - 1]), domain)
    mechanism.made = Enrichment(
        {TIMESTAMPS: Times(np.zeros(1, np.int64)), "cost": listed, "case:kind": listed}
    )
    after = enriched(mechanism, made)
    assert after.events["cost"].dtype == after.cases["case:kind"].dtype == kind
    assert after.events["cost"].to_list() == list(domain[-1:] or [None])


def test_numbers_become_columns_of_their_type() -> None:
    """Whole numbers, days and times; what is missing stays so."""
    values = np.array([19_753.0, np.nan])
    expected = [(19_753, pl.Int64), (date(2024, 1, 31), pl.Date), (19_753.0, pl.Float64)]
    for (value, dtype), kind in zip(expected, ("integer", "date", "number"), strict=True):
        log = with_columns(log_of([["a", "a"]]), Enrichment({"x": Numbers(values, kind)}))
        assert log.events["x"].dtype == dtype
        assert log.events["x"].to_list() == [value, None]
    seconds = Numbers(values * 86_400 + 1, "time")
    found = with_columns(log_of([["a", "a"]]), Enrichment({"x": seconds})).events["x"]
    assert found.to_list() == [datetime(2024, 1, 31, 0, 0, 1, tzinfo=UTC), None]
