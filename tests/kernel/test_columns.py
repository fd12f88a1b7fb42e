"""What a query sees: cases, by their own labels, and columns where they were granted, value by
value, batch by batch.
"""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloakwork.base.costs import PoissonSampled
from cloakwork.base.facts import Facts, Unit
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.engines.batched import LocalEngine
from cloakwork.engines.measured import measured_cases, measured_log, measured_of
from cloakwork.errors import PlanUnsound
from cloakwork.evaluation.one_mechanism import run_step
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import (
    Cases,
    Clip,
    CustomQuery,
    Entries,
    Kernel,
    Laplace,
    MeasuredBatches,
    NotGranted,
)
from cloakwork.kernel.vectors import Sums, added_up, answered, key_of
from cloakwork.log.limits import ENVIRONMENT
from cloakwork.mechanisms.aggregates import CaseRows, VariantCounts
from cloakwork.mechanisms.registry import Package
from cloakwork.noise import reproducible
from cloakwork.run.steps import GrantedStep
from cloakwork.testing import MechanismContract
from cloakwork.testing.contract_logs import BEGIN, Batches, log_of
from cloakwork.testing.queries import cases_that_differ, queries_collected
from kernel.asking import NOTHING, Open, noise_that_is_none
from kernel.gaps import (
    AGE,
    HOUR,
    LENGTHS,
    ROLE,
    TEXTS,
    MeasuresGaps,
    NoParams,
    ages,
    gaps,
    hours_by_role,
    log_with_values,
    roles,
    rows_of,
    universe,
)
from kernel.small import Silent, batch, kernel_of

VARIANTS = st.lists(st.lists(st.sampled_from("abc"), max_size=4).map(tuple), max_size=6)


def test_arrays_are_read_only():
    """A query cannot change what the next one sees."""
    cases = batch(["ab"])
    for array in (cases.codes, cases.offsets):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@given(VARIANTS)
def test_views_agree(variants):
    """Variants, lengths, and the case and place of every event."""
    cases = batch(variants)
    assert len(cases) == len(variants)
    assert cases.variants() == variants
    assert cases.lengths.tolist() == [len(variant) for variant in variants]
    flat = [(row, place) for row, each in enumerate(variants) for place in range(len(each))]
    assert list(zip(cases.case_of.tolist(), cases.place.tolist(), strict=True)) == flat


@given(VARIANTS, st.permutations("abcd"), st.integers(0, 4))
def test_labels_are_coded_by_the_querys_own_list(variants, labels, known):
    """And not by the alphabet of the batch; those left out are -1, or left away."""
    labels = labels[:known]
    cases, turned = batch(variants), batch(variants, alphabet="dcba")
    place = {label: code for code, label in enumerate(labels)}
    expected = [place.get(label, -1) for variant in variants for label in variant]
    assert cases.coded(labels).tolist() == turned.coded(labels).tolist() == expected
    within = [tuple(label for label in variant if label in place) for variant in variants]
    assert cases.within(labels).variants() == turned.within(labels).variants() == within
    domain = list(dict.fromkeys(variants))[::2]
    among = [domain.index(variant) if variant in domain else -1 for variant in variants]
    assert cases.among(domain).tolist() == among


@given(VARIANTS, st.data())
def test_cases_are_taken_in_any_order(variants, data):
    rows = data.draw(st.lists(st.integers(0, len(variants) - 1))) if variants else []
    taken = batch(variants).take(np.array(rows, np.int64))
    assert taken.variants() == [variants[row] for row in rows]


def test_an_empty_batch_is_a_batch():
    cases = Cases((), np.zeros(0, np.int64), np.zeros(1, np.int64))
    assert len(cases) == 0
    assert cases.variants() == []
    assert len(cases.coded(["a"])) == len(Entries.one_each(cases).case) == 0


def test_one_entry_each():
    """None where the code is negative, key 0 where there is none."""
    cases = batch(["a", "b", "c"])
    coded = Entries.one_each(cases, np.array([4, -1, 2]))
    assert (coded.case.tolist(), coded.code.tolist()) == ([0, 2], [4, 2])
    assert coded.value.tolist() == [1, 1]
    assert Entries.one_each(cases).code.tolist() == [0, 0, 0]
    named = Entries.of_variants(batch(["ab", "", "c"]), 8)
    assert (named.start.tolist(), named.stop.tolist()) == ([0, 2, 2], [2, 2, 3])
    assert named.value.tolist() == [8, 8, 8]


LOG = log_with_values(universe("ab", 2)[::7])
QUERIES = [(gaps, TEXTS, None), (roles, TEXTS, ROLE), (ages, TEXTS, AGE)]
QUERIES += [(hours_by_role, LENGTHS, None)]


@pytest.fixture(scope="module", autouse=True)
def _without_noise():
    with noise_that_is_none():
        yield


def seen(log=LOG, unit=None, seed=1):
    return measured_cases(log, rows_of(unit), reproducible(seed))


def opened(measured, max_cases=1):
    return Kernel(measured, Open({}), Silent(), max_cases)


def sums_of(measured, query, clip, labels):
    """The sums without noise, by key."""
    sums = opened(measured).sum(query, NOTHING, clip, labels=labels)._known()
    codes, texts = sums.at_rows(np.arange(len(sums.keys)))
    return dict(zip(zip(codes.tolist(), texts, strict=True), sums.sums.tolist(), strict=True))


class TestTheToy(MechanismContract):
    """What every mechanism promises, of one that asks about columns."""

    mechanism = MeasuresGaps()
    goals = (DifferentialPrivacy(kind="differential-privacy", epsilon=1, over=(CONTROL_FLOW,)),)


def test_a_step_is_shown_what_its_lineage_names():
    """Variants are counted where that is all; what is not named is not there."""
    toy, unit = MeasuresGaps(), Unit(attribute="case:unit", max_cases=2)
    assert GrantedStep.of(toy, NoParams(), Facts(unit=unit)).asked == rows_of()
    with_unit = granting(toy.granted | {"case:unit"}, unit)
    assert with_unit.asked == CaseRows((AGE, ROLE, TIMESTAMPS), unit.attribute)
    for columns in ({CONTROL_FLOW}, {CONTROL_FLOW, METADATA}, {CONTROL_FLOW, "case:unit"}):
        granted = granting(columns, unit)
        expected = unit.attribute if "case:unit" in columns else None
        assert granted.aggregate == VariantCounts(expected)
    cases = measured_cases(LOG, CaseRows((ROLE,)), reproducible(1)).cases
    assert cases.columns.keys() == {ROLE}
    for name in (AGE, TIMESTAMPS, "case:row", "concept:name"):
        with pytest.raises(NotGranted):
            cases.columns[name]
    with pytest.raises(NotGranted):
        cases.gaps  # noqa: B018


def granting(measures, unit=None, reads=(), **more):
    step = MeasuresGaps().step(NoParams(), Facts())
    lineage = step.lineage.model_copy(
        update={"measures": frozenset(measures), "reads": frozenset(reads)}
    )
    return GrantedStep(
        replace(step, lineage=lineage),
        Package("toy/gaps", None),
        NoParams(),
        unit or Unit(),
        **more,
    )


def test_values_are_no_unit_of_their_own():
    """A sum bounds one case more or less: not another value in a case that is known."""
    with pytest.raises(PlanUnsound, match="takes as known"):
        _ = granting({TIMESTAMPS}, reads={CONTROL_FLOW}).aggregate
    with pytest.raises(PlanUnsound, match="takes as known"):
        _ = granting({TIMESTAMPS, CONTROL_FLOW}, shift=BEGIN - BEGIN).aggregate


def test_a_query_that_asks_for_more_finds_nothing():
    """Silently, and the contract tells which column it was."""

    class AsksForMore(MeasuresGaps):
        granted = frozenset({CONTROL_FLOW, ROLE, AGE})

    released = run_step(AsksForMore(), NoParams(), LOG, reproducible(1))
    assert released.cases.height >= 0
    contract = TestTheToy()
    contract.mechanism = AsksForMore()
    with pytest.raises(AssertionError):
        contract.test_queries_ask_for_what_was_granted()
    few = measured_cases(LOG, CaseRows((AGE, ROLE)), reproducible(1))
    assert sums_of(few, gaps, TEXTS, None) == {}
    with pytest.raises(PlanUnsound, match="not granted"):
        opened(few).select(Entries.one_each, NOTHING, 1, labels=TIMESTAMPS)


def test_columns_are_read_only():
    column = seen().cases.columns[ROLE]
    for array in (column.values, column.is_missing, column.codes, seen().cases.gaps.values):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_values_are_those_of_the_log():
    """Times and gaps in microseconds; texts, and the numbers that these are."""
    none, hour = timedelta(0), timedelta(hours=1)
    case = (("a", none, "x"), ("b", none, "y"), ("a", None, None), ("a", hour, "x"))
    log = log_with_values([(case, "5"), (case[:1], None), ((), "x")])
    shuffled = seen(log).cases
    cases = shuffled.take(np.argsort(-shuffled.lengths))
    assert cases.gaps.is_missing.tolist() == [True, False, True, False, True]
    assert cases.gaps.values.tolist() == [0, 0, 0, HOUR, 0]
    assert cases.times.is_missing.tolist() == [False, False, True, False, False]
    first = [(BEGIN - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)] * 2
    assert cases.times.values[[0, 1, 3]].tolist() == [*first, first[0] + HOUR]
    role, age = cases.columns[ROLE], cases.columns[AGE]
    assert texts(role) == ["x", "y", None, "x", "x"]
    assert texts(age) == ["5", None, "x"]
    assert age.values.tolist() == [5.0, 0.0, 0.0]
    assert age.is_missing.tolist() == [False, True, True]
    assert role.values.dtype == age.values.dtype == np.float64
    # Events that a kernel narrows away take their values with them.
    narrowed = cases.within(["a"])
    assert texts(narrowed.columns[ROLE]) == ["x", None, "x", "x"]
    assert narrowed.gaps.values.tolist() == [0, 0, HOUR, 0]
    assert texts(narrowed.columns[AGE]) == texts(age)


def texts(column):
    return [(*column.alphabet, None)[code] for code in column.codes]


@pytest.mark.parametrize("values", [["1.5", "x", None], ["1.5", "7", None]])
def test_no_value_depends_on_the_type_that_others_give_the_column(values):
    """The same number, whether the log's column is text, decimal or whole."""
    log = log_of([["a"]] * 3)
    numbers = {}
    for kind in (pl.String, pl.Float64, pl.Categorical):
        column = pl.Series(AGE, values, pl.String).cast(kind, strict=False)
        given = replace(log, cases=log.cases.with_columns(column))
        column = measured_cases(given, CaseRows((AGE,)), reproducible(1)).cases.columns[AGE]
        numbers[kind] = sorted(column.values[~column.is_missing].tolist())
        known = {None} if kind == pl.Float64 else set(values)
        assert set(texts(column)) == known
    assert len(set(map(tuple, numbers.values()))) == 1


def test_truth_values_are_text():
    """The same text as beside values that are no truth values."""
    log = log_of([["a"]] * 3)
    for values in ([True, False, None], ["true", "false", None], ["true", "false", "7"]):
        given = replace(log, cases=log.cases.with_columns(pl.Series(AGE, values)))
        column = measured_cases(given, CaseRows((AGE,)), reproducible(1)).cases.columns[AGE]
        assert {"true", "false"} <= set(texts(column))


def test_times_of_attributes_are_microseconds():
    """Since 1970; they are no texts."""
    log = log_of([["a"]] * 2)
    given = replace(log, cases=log.cases.with_columns(pl.Series(AGE, [BEGIN, None])))
    column = measured_cases(given, CaseRows((AGE,)), reproducible(1)).cases.columns[AGE]
    assert column.values[0] == int(BEGIN.timestamp()) * 10**6
    assert column.is_missing.tolist() == [False, True]
    assert (column.codes < 0).all()


@pytest.mark.parametrize("value", [[1], float("nan"), float("inf")])
def test_other_values_are_missing(value):
    log = log_of([["a"]])
    given = replace(log, cases=log.cases.with_columns(pl.Series(AGE, [value])))
    column = measured_cases(given, CaseRows((AGE,)), reproducible(1)).cases.columns[AGE]
    assert column.is_missing.all()
    assert (column.codes < 0).all()


def test_texts_over_the_limit_are_missing(monkeypatch):
    """Silently, and nobody else's changes."""
    monkeypatch.setenv(ENVIRONMENT, "value-size=3")
    log = log_of([["a"]] * 3)
    given = replace(
        log, cases=log.cases.with_columns(pl.Series(AGE, ["123", "1234", "\u00e9\u00e9"]))
    )
    column = measured_cases(given, CaseRows((AGE,)), reproducible(1)).cases.columns[AGE]
    assert Counter(texts(column)) == {"123": 1, None: 2}


def test_a_log_that_lacks_a_column_or_cases():
    for log in (log_of([["a"]]), log_of([[]]), log_of([]), LOG.keep_cases(np.zeros(0, np.int64))):
        measured = seen(log, "case:person")
        assert measured.cases.columns.keys() == {AGE, ROLE, TIMESTAMPS}
        assert len(measured.cases) == measured.owners.units == log.cases.height
        for query, clip, labels in QUERIES:
            assert sums_of(measured, query, clip, labels) == {}


@pytest.mark.parametrize(("query", "clip", "labels"), QUERIES)
def test_batches_change_no_sum(query, clip, labels):
    """Of the kernel: 4 and 12; and of the engine."""
    whole = seen()
    expected = sums_of(whole, query, clip, labels)
    assert expected
    for batches in (4, 12):
        at_once = -(-len(whole.counts) // batches)
        parted = replace(whole, at_once=at_once)
        assert len(list(parted.batches())) == -(-len(whole.counts) // at_once)
        assert sums_of(parted, query, clip, labels) == expected
        in_files = opened_by(LocalEngine(), Batches.random(LOG, batches))
        assert sums_of(in_files, query, clip, labels) == expected


def opened_by(engine, batches):
    """What a kernel answers from, batch by batch."""
    log = engine.open(batches, lambda log: log, None, VariantCounts()).log
    found = measured_log(log, rows_of(), reproducible(2))
    assert isinstance(found, MeasuredBatches)
    return found


def test_a_query_is_shown_no_more_than_a_batch():
    shown = []

    def counts(cases):
        shown.append(len(cases))
        return Entries.one_each(cases)

    parted = replace(seen(), at_once=50)
    assert sums_of(parted, counts, Clip("l1", 1, 1), None) == {(0, ()): LOG.cases.height}
    assert sum(shown) == LOG.cases.height
    assert max(shown) == 50
    # Distinct variants are a batch, however many they are.
    variants = measured_of(VariantCounts().of(LOG), reproducible(1))
    assert next(replace(variants, at_once=1).batches()).cases is variants.cases


def test_sums_of_numbers_are_asked_of_so_many_values_at_once(monkeypatch):
    """Of whole cases, with their own texts; where keys are texts, of all of them."""
    monkeypatch.setattr("cloakwork.kernel.kernel.VALUES_AT_ONCE", 30)
    shown = []

    def counts(cases):
        shown.append(len(cases.codes))
        for column in cases.columns.values():
            assert column.codes.max() < len(column.alphabet) <= len(column.codes)
        return hours_by_role(cases)

    measured = seen()
    found = sums_of(measured, counts, LENGTHS, None)
    assert sum(shown) == LOG.events.height > 100
    assert max(shown) < 30 // len(measured.columns) + measured.cases.lengths.max()
    shown.clear()
    assert (sums_of(measured, counts, LENGTHS, ROLE), len(shown)) == (found, 1)


def test_sums_of_numbers_and_of_labels_are_merged():
    """A number is the same key, whether other keys of its batch have labels or not."""
    numbers = Sums(np.array([2, 5]), np.array([1, 2]))
    labelled = Sums(sorted([key_of(5, ()), key_of(5, ("x",))]), np.array([4, 8]))
    merged = added_up([numbers, labelled])
    assert merged.at(np.array([2, 5])).tolist() == [1, 6]
    assert merged.at_spelled([key_of(5, ("x",))]).tolist() == [8]
    alike = added_up([numbers, Sums(np.array([5, 9]), np.array([10, 20]))])
    assert alike.at(np.array([2, 5, 9])).tolist() == [1, 12, 20]


def test_a_text_is_no_activity_of_the_same_spelling():
    """An answer's labels are those of its column, and of no other."""
    log = log_with_values([((("x", None, "y"),), "a")] * 5)

    def first_label(cases):
        rows = np.arange(len(cases))
        start = cases.offsets[:-1]
        return Entries(rows, np.ones(len(rows), np.int64), None, start, start + 1)

    def read(query, labels):
        asked = opened(seen(log)).sum(query, NOTHING, labels=labels)
        return asked.at_labels([(0, ("x",)), (0, ("y",)), (0, ("a",))]).tolist()

    assert read(first_label, None) == [5, 0, 0]
    assert read(first_label, ROLE) == [0, 5, 0]
    assert read(ages, AGE) == [0, 0, 5]


def test_a_label_is_the_own_value_of_a_case():
    """Neither another case's nor a missing one; each entry that has no such label is none."""

    def of_the_next(cases):
        rows = np.arange(len(cases))
        return Entries(rows, np.ones(len(rows), np.int64), None, rows + 1, rows + 2)

    def of_the_first(cases):
        rows = np.arange(len(cases))
        return Entries(rows, np.ones(len(rows), np.int64), None, rows * 0, rows + 1)

    assert sums_of(seen(), of_the_next, TEXTS, AGE) == {}
    assert sum(sums_of(seen(), of_the_first, TEXTS, AGE).values()) <= 1
    known = LOG.cases[AGE].drop_nulls().value_counts().rows()
    expected = {(0, (text,)): count for text, count in known}
    assert sums_of(seen(), ages, TEXTS, AGE) == expected


def test_a_query_that_fails_on_one_case_costs_that_case_alone():
    """By column, too: the labels of the others are theirs."""

    def fails(cases):
        if (cases.lengths == 0).any():
            raise ValueError("a case without events")
        return ages(cases)

    events = LOG.keep_cases(np.flatnonzero(np.diff(LOG.offsets) > 0))
    assert sums_of(seen(), fails, TEXTS, AGE) == sums_of(seen(events), ages, TEXTS, AGE)


def test_units_own_rows():
    """A sample holds all cases of a unit or none; cases without one are units of their own."""
    units = ["u", "v", None, "u"] * (LOG.cases.height // 4)
    log = LOG.keep_cases(np.arange(len(units)))
    log = replace(log, cases=log.cases.with_columns(pl.Series("case:unit", units)))
    measured = seen(log, "case:unit")
    sizes = np.bincount(measured.owners.unit)
    assert sorted(sizes, reverse=True)[:3] == [len(units) // 2, len(units) // 4, 1]
    event = PoissonSampled(rate=0.5, event=Laplace(4.0).events(TEXTS, 2, None)[0])
    kernel = kernel_of(measured, *[event] * 4, max_cases=2)
    found = kernel.sample_sums(Entries.one_each, Laplace(4.0), 0.5, 4, 1)
    assert (found >= 0).all()


def test_a_custom_question_is_about_variants_as_ever():
    """How many cases follow each, however cases are distinguished."""
    query = CustomQuery("variants", lambda counts: np.array([len(counts)]), 1, 1, "one at most")
    variants = measured_of(VariantCounts().of(LOG), reproducible(1))
    expected = len(variants.counts)
    for measured in (seen(), variants):
        assert opened(measured).custom(query, NOTHING).tolist() == [expected]
        assert measured.by_variant()[0] == variants.by_variant()[0]


def by_texts(cases):
    return Entries.one_each(cases, np.full(len(cases), len(cases.columns[ROLE].alphabet)))


def by_code(cases):
    return Entries.one_each(cases, cases.columns[AGE].codes)


def by_all_gaps(cases):
    found = cases.gaps
    return Entries.one_each(cases, (found.values.sum() > cases.lengths * HOUR).astype(np.int64))


def across_cases(cases):
    """Gaps that no case has: from the last event of the case before."""
    gap = np.diff(cases.times.values, prepend=0)
    return Entries(cases.case_of, np.ones(len(gap), np.int64), (gap > HOUR).astype(np.int64))


@pytest.mark.parametrize("query", [by_texts, by_code, by_all_gaps, across_cases])
def test_the_contract_finds_values_of_other_cases(query):
    """What a query makes of the batch, and not of the case."""
    with queries_collected() as collected:
        opened(seen()).sum(query, NOTHING)
    assert list(cases_that_differ(collected[0]))


@pytest.mark.parametrize(("query", "clip", "labels"), QUERIES)
def test_the_contract_passes_sound_queries(query, clip, labels):
    with queries_collected(disturbed=True) as collected:
        opened(seen()).sum(query, NOTHING, clip, labels=labels)
    assert not list(cases_that_differ(collected[0]))
    assert not collected[0].refused
    assert len(answered(Cases((), np.zeros(0, np.int64), np.zeros(1, np.int64)), query).case) == 0
