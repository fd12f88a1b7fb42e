"""What a case contributes to the tables of attributes."""

from dataclasses import replace
from itertools import product

import numpy as np
import polars as pl
import pytest

from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.engines.measured import measured_cases
from cloakwork.kernel import vectors_of
from cloakwork.mechanisms.aggregates import CaseRows
from cloakwork.mechanisms.attributes.contributions import (
    NORMS,
    SIDE_WEIGHT,
    SPREAD,
    UNIT_NORM,
    WHOLE,
    TableLayout,
    best_norm,
    norms_of,
    tables_of,
)
from cloakwork.mechanisms.attributes.domains import MeasuredAttribute
from cloakwork.mechanisms.attributes.drawing import CaseClasses, Classes, class_table, pairs_of
from cloakwork.noise import reproducible
from cloakwork.testing.contract_logs import log_of

ROLE = MeasuredAttribute(name="role", domain=("x", "y"))
CODE = MeasuredAttribute(name="code", domain=tuple(range(50)))
AGE = MeasuredAttribute(name="case:age", domain=(1, 2, 3))
LAYOUT = TableLayout((ROLE, CODE, AGE), ("a", "b"))


def cases_of(rows):
    """Cases of events (label, role, code), with an age each."""
    log = log_of([[label for label, _, _ in events] for events, _ in rows])
    role = pl.Series("role", [role for events, _ in rows for _, role, _ in events], pl.String)
    code = pl.Series("code", [code for events, _ in rows for _, _, code in events], pl.Int64)
    age = pl.Series("case:age", [age for _, age in rows], pl.Int64)
    log = replace(
        log, events=log.events.with_columns(role, code), cases=log.cases.with_columns(age)
    )
    names = tuple(sorted([TIMESTAMPS, *(each.name for each in LAYOUT.attributes)]))
    return measured_cases(log, CaseRows(names), reproducible(1)).cases


def sums_of(cases, norm=16.0):
    sums = vectors_of(cases, tables_of(LAYOUT, norm), SPREAD).sums(np.ones(len(cases), np.int64))
    found = zip(sums.keys.tolist(), sums.sums.tolist(), strict=True)
    return {code: value * norm / UNIT_NORM for code, value in found if value}


def test_no_two_tables_share_a_key():
    places = range(3)
    tables = (LAYOUT.totals, LAYOUT.values, LAYOUT.follows)
    begins = [LAYOUT.masses, *(table(place) for table in tables for place in places)]
    # Of code it is not counted which value follows which.
    sizes = [3, 2, 2, 1, 4, 100, 3, 4, 0]
    assert np.diff(begins).tolist() == sizes
    assert begins[0] == 2 * 3


def test_a_case_weighs_the_root_of_its_events_in_each_group():
    """Spread over the activity's events, those without a value among them."""
    events = (("a", "x", None), ("a", "y", 7), ("a", None, None), ("a", "x", None), ("c", "x", 1))
    found = sums_of(cases_of([(events, 2)]))
    role, code, age = map(LAYOUT.values, range(3))
    weights = [LAYOUT.weight(place) for place in range(3)]
    expected = {
        role: 1.0 * weights[0],
        role + 1: 0.5 * weights[0],
        code + 7: 0.5 * weights[1],
        age + 1: 1.0 * weights[2],
        LAYOUT.totals(1): 0.5 * SIDE_WEIGHT,
        LAYOUT.masses: 2 * SIDE_WEIGHT,
        LAYOUT.masses + 2: SIDE_WEIGHT,
        # Of role there are x, y, x and x; of code 7 and 1, which are not the same.
        0: SIDE_WEIGHT * 2 / 3,
        1: SIDE_WEIGHT / 3,
        LAYOUT.follows(0): SIDE_WEIGHT / 3,
        LAYOUT.follows(0) + 1: SIDE_WEIGHT / 3,
        LAYOUT.follows(0) + 2: SIDE_WEIGHT / 3,
        2: SIDE_WEIGHT,
    }
    assert found == pytest.approx(expected, abs=1e-3)


def test_a_unit_moves_all_tables_by_the_clip_at_most():
    """Whatever it holds, and however small the norm."""
    random = np.random.default_rng(5)
    rows = []
    for length in (0, 1, 2, 30, 500):
        for _ in range(6):
            label = random.choice(["a", "b", "c"], length)
            role = random.choice(["x", "y", "z"], length)
            code = random.integers(0, 60, length)
            events = tuple(zip(label.tolist(), role.tolist(), code.tolist(), strict=True))
            rows.append((events, int(random.integers(0, 5))))
    cases = cases_of(rows)
    for norm in (0.01, 1.0, 4.0):
        vectors = vectors_of(cases, tables_of(LAYOUT, norm), SPREAD)
        squares = np.bincount(vectors.case, vectors.value.astype(float) ** 2)
        assert squares.max() <= UNIT_NORM**2
    # The broken twin is what the query itself says: without the clip, more than 1.
    entries = tables_of(LAYOUT, 0.01)(cases)
    assert entries.value.max() > UNIT_NORM


def test_norms_are_those_of_the_vectors():
    rows = [((("a", "x", 1), ("b", "y", 2)), 1), ((), None), ((("a", None, None),), None)]
    cases = cases_of(rows)
    found = norms_of(LAYOUT)(cases)
    exact = []
    for row in range(len(cases)):
        one = cases.take(np.array([row]))
        sums = vectors_of(one, tables_of(LAYOUT, 64.0), SPREAD).sums(np.ones(1, np.int64))
        exact.append(float(np.sqrt((sums.sums.astype(float) ** 2).sum())) * 64 / UNIT_NORM)
    expected = np.clip(np.ceil(2 * np.log2(exact) - 1e-6), 0, NORMS - 1)
    assert found.code.tolist() == expected.tolist()
    assert (found.value == UNIT_NORM).all()
    bounded = vectors_of(cases, norms_of(LAYOUT), WHOLE)
    assert bounded.value.tolist() == [UNIT_NORM] * len(rows)


EVENTS = [(label, role, code) for label in "abz" for role, code in (("x", 1), ("?", 2), (None, 1))]
UNIVERSE = [
    (events, age)
    for length in range(4)
    for events in product(EVENTS, repeat=length)
    for age in (1, None)
]
"""All cases of up to three events: three labels, of which one is released by nobody; values of the
domain, outside of it, missing, and ties.
"""

EVERY = tuple(class_table(each, np.ones(each.size)) for each in LAYOUT.attributes)
RELEASED = CaseClasses(
    ("a", "b"), (np.array([1, 2, 5]), np.array([2, 1, 5])), (np.array([1.5, 2.5]), np.array([1e6]))
)
BESIDE = Classes(LAYOUT.attributes, EVERY, RELEASED)
QUERIES = {
    "norms": (norms_of(LAYOUT), WHOLE),
    "tables, clipped": (tables_of(LAYOUT, 0.5), SPREAD),
    "tables": (tables_of(LAYOUT, 8.0), SPREAD),
    "pairs beside cases": (pairs_of(BESIDE, BESIDE.pairs()), SPREAD),
    "pairs": (pairs_of(Classes(LAYOUT.attributes, EVERY), [(0, 1), (0, 2), (1, 2)]), SPREAD),
}


@pytest.mark.parametrize("name", QUERIES)
def test_exhaust_all_that_a_unit_of_two_cases_can_contribute(name):
    """At most twice the clip, in its norm; each case by itself finds what it does among all."""
    query, clip = QUERIES[name]
    cases = cases_of(UNIVERSE)
    vectors = vectors_of(cases, query, clip)
    matrix = np.zeros((len(cases), len(vectors.keys)))
    matrix[vectors.case, vectors.key] = vectors.value
    products = matrix @ matrix.T
    alone = np.diag(products)
    moved = alone[:, None] + alone + 2 * products
    assert moved.max() <= (2 * clip.most) ** 2
    assert alone.max() > (0.3 * clip.most) ** 2
    for row in range(0, len(cases), 97):
        one = vectors_of(cases.take(np.array([row])), query, clip)
        found = dict(zip(np.array(one.keys)[one.key].tolist(), one.value.tolist(), strict=True))
        kept = np.flatnonzero(matrix[row])
        among = dict(zip(np.array(vectors.keys)[kept].tolist(), matrix[row][kept], strict=True))
        assert found == among


SIZES = np.array([1.0, 2.0, 16.0])
TIMES = np.array([500.0, 400.0, 100.0])


@pytest.mark.parametrize(("sigma", "norm"), [(1e-6, 16.0), (1e3, 1.0)])
def test_little_noise_clips_nothing_and_much_clips_all(sigma: float, norm: float) -> None:
    """Where noise is all that counts, the smallest norm keeps most of each case for it."""
    assert best_norm(SIZES, TIMES, sigma) == norm


def test_between_both_the_norm_falls_as_noise_grows() -> None:
    """Step by step."""
    found = [best_norm(SIZES, TIMES, sigma) for sigma in (0.01, 0.1, 1.0, 10.0)]
    assert found == sorted(found, reverse=True)
    assert len(set(found)) > 1
