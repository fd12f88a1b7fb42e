"""No case's vector is longer than its clip, whatever a query returns, and none depends on another
case; of a sampled clip each case counts for a few units.
"""

from collections import Counter
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from cloakwork.base.arrays import Ints, distinct, group_sums, grouped
from cloakwork.kernel import ONE, Cases, Clip, Entries, vectors
from cloakwork.kernel.vectors import (
    MOST,
    MOST_CELLS,
    answered,
    key_of,
    parts_of,
    sampled_sums,
    vectors_of,
)
from cloakwork.noise import reproducible
from conftest import runs
from kernel.small import as_dicts, batch, case_by_case, entries, size_of

NORMS = ("l1", "l2", "max")

VALUES = st.integers(-(2**62), 2**62) | st.integers(-5, 5)


def only_case(rows, clip):
    """The vector of one case that a query lists (code, value) for."""
    one = batch([("a",)])
    found = vectors_of(one, lambda _: entries([(0, code, value) for code, value in rows]), clip)
    return as_dicts(one, found)[0]


@st.composite
def clips(draw):
    most = draw(st.integers(1, 40) | st.sampled_from([1000, MOST]))
    return Clip(draw(st.sampled_from(NORMS)), most, draw(st.integers(1, 6)))


@given(st.lists(st.tuples(st.integers(-3, 6), VALUES), max_size=12), clips())
def test_vectors_keep_their_clip(rows, clip):
    """In the norm, in the number of keys, and towards zero in each value."""
    found = only_case(rows, clip)
    bound = clip.most**2 if clip.norm == "l2" else clip.most
    assert size_of(found.values(), clip.norm) <= bound
    assert len(found) <= clip.cells
    for code, value in found.items():
        # An entry is held at the largest size that a value may have.
        total = sum(max(-MOST, min(size, MOST)) for key, size in rows if key == code)
        assert value == 0 or (value > 0) == (total > 0)
        assert abs(value) <= abs(total)


@given(st.lists(st.integers(-9, 9), max_size=6), st.integers(1, 20), st.sampled_from(NORMS))
def test_vectors_within_their_clip_stay_as_they_are(values, most, norm):
    """Nothing is lost where nothing has to be."""
    bound = most**2 if norm == "l2" else most
    rows = list(enumerate(values))
    if size_of(values, norm) <= bound:
        assert only_case(rows, Clip(norm, most, 6)) == dict(rows)


@given(st.lists(st.integers(1, MOST), min_size=1, max_size=5), st.integers(1, 10**6))
def test_a_longer_vector_keeps_its_direction(values, most):
    """Each value is the scaled one rounded down, up to one step for the Euclidean norm."""
    vector = dict(enumerate(values))
    total = sum(values)
    if total > most:
        found = only_case(vector.items(), Clip("l1", most, 5))
        assert found == {code: value * most // total for code, value in vector.items()}
    norm = sum(value**2 for value in values) ** 0.5
    if norm > most:
        found = only_case(vector.items(), Clip("l2", most, 5))
        for code, value in vector.items():
            assert value * most / norm - 2 < found[code] <= value * most / norm


@pytest.mark.parametrize("norm", NORMS)
def test_rounding_is_towards_zero(norm):
    """10,000 entries of .6 are nothing, and not 10,000: rounding to the nearest would raise any
    norm.
    """
    rows = [(0, code, 0.6) for code in range(10_000)]
    rows += [(0, code, -0.6) for code in range(10_000, 12_000)]
    found = vectors_of(batch(["a"]), lambda _: entries(rows), Clip(norm, 60, MOST_CELLS))
    assert not found.value.any()


def test_many_small_values_are_scaled_to_the_clip():
    """6 steps each, to 100 of 10,000 keys: the Euclidean norm is 600, then 60 at most."""
    rows = [(code, 6) for code in range(10_000)]
    found = only_case(rows, Clip("l2", 60, 10_000))
    assert size_of(found.values(), "l2") <= 60**2
    # Each would be .6: rounded to the nearest they would have norm 100.
    assert set(found.values()) == {0}


def test_integers_decide_at_the_edge():
    """Vectors whose scaled floats come out a step too high."""
    for most in (MOST, MOST - 1, 2**23 + 1):
        for values in ([most, 1], [MOST] * 3, [MOST - 7, 3, 3], [most // 2] * 5):
            found = only_case(enumerate(values), Clip("l2", most, 5))
            assert sum(value**2 for value in found.values()) <= most**2


def test_integers_decide_where_floats_are_too_high(monkeypatch):
    """A root that comes out a hundredth too low makes no vector longer than its clip."""
    root = np.sqrt
    monkeypatch.setattr(np, "sqrt", lambda square: root(square) * 0.99)
    for most in (7, 1000, 1 << 16):
        found = only_case(enumerate([MOST, MOST // 3, 5, MOST]), Clip("l2", most, 4))
        assert 0 < size_of(found.values(), "l2") <= most**2


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (np.inf, 5),
        (-np.inf, -5),
        (np.nan, 0),
        (1e300, 5),
        (-1e300, -5),
        (4.999, 4),
        (-4.999, -4),
        (True, 1),
        (np.iinfo(np.int64).min, -5),
    ],
)
def test_values_that_are_no_small_integers(value, kept):
    """They are held in the clip, and what is no number is nothing."""
    assert only_case([(0, value)], Clip("l1", 5, 2)) == {0: kept}


def test_entries_of_one_key_add_up():
    """A query that splits a value over many entries gains nothing."""
    assert only_case([(3, 2)] * 100, Clip("max", 5, 1)) == {3: 5}
    assert only_case([(3, 2), (4, -1), (3, -2)], Clip("l1", 5, 2)) == {3: 0, 4: -1}
    assert only_case([(0, 2**62)] * 8, Clip("l1", 5, 1)) == {0: 5}


def test_the_first_keys_count():
    """In the order in which the query named them, for each case by itself."""
    cases = batch(["a", "a"])
    rows = [(1, 9, 1), (0, 7, 1), (1, 5, 1), (0, 2, 1), (0, 7, 1), (1, 1, 1)]
    found = vectors_of(cases, lambda _: entries(rows), Clip("l1", 9, 2))
    assert as_dicts(cases, found) == [{7: 2, 2: 1}, {9: 1, 5: 1}]


WRONG = {
    "no entries": lambda cases: None,
    "floats for cases": lambda cases: Entries(np.zeros(1), np.ones(1)),
    "floats for keys": lambda cases: Entries(np.zeros(1, int), np.ones(1), np.ones(1)),
    "truth values for keys": lambda cases: Entries(np.zeros(1, int), np.ones(1), np.ones(1, bool)),
    "text for keys": lambda cases: Entries(np.zeros(1, int), np.ones(1), np.array(["a"])),
    "objects for keys": lambda cases: Entries(np.zeros(1, int), [1], np.array([1], object)),
    "columns of two lengths": lambda cases: Entries(np.zeros(1, int), np.ones(2)),
    "two dimensions": lambda cases: Entries(np.zeros((1, 2), int), np.ones((1, 2))),
    "a number alone": lambda cases: Entries(np.int64(0), np.int64(1)),
    "values that are words": lambda cases: Entries(np.zeros(1, int), np.array(["x"])),
    "an error": lambda cases: 1 // 0,
}


@pytest.mark.parametrize("query", WRONG.values(), ids=WRONG.keys())
def test_answers_of_a_wrong_shape_are_empty(query):
    """Silently: that a query failed would tell something of a case."""
    found = vectors_of(batch(["a", "ab"]), query, Clip("l1", 3, 3))
    assert not len(found.case)
    assert not len(found.keys)


def test_a_case_that_a_query_fails_on_has_no_entry():
    """And changes nothing of any other's."""

    def fails_on_b(cases):
        if ("b",) in cases.variants():
            raise RuntimeError("b")
        return Entries.of_variants(cases)

    cases = batch(["a", "b", "aa", "c"])
    found = as_dicts(cases, vectors_of(cases, fails_on_b, Clip("l1", 1, 1)))
    expected = [{key_of(0, tuple(variant)): 1} for variant in ("a", "b", "aa", "c")]
    expected[1] = {}
    assert found == expected


def test_cases_that_are_none_of_the_batch_count_for_nothing():
    rows = [(-1, 0, 1), (2, 0, 1), (10**12, 0, 1), (1, 0, 1)]
    cases = batch(["a", "a"])
    found = as_dicts(cases, vectors_of(cases, lambda _: entries(rows), Clip("l1", 1, 1)))
    assert found == [{}, {0: 1}]


@pytest.mark.parametrize(
    ("start", "stop"),
    [(0, 3), (1, 2), (2, 4), (-2, 2), (0, 10**6), (-(2**62), 2**62)],
)
def test_labels_of_other_cases_are_out_of_reach(start, stop):
    """An entry of the first case whose run leaves it counts for nothing."""
    cases = batch(["x", "pq", "r"])
    row, one = np.zeros(1, np.int64), np.ones(1, np.int64)

    def run_of_others(cases):
        return Entries(row, one, None, row + start, row + stop)

    assert not len(vectors_of(cases, run_of_others, Clip("l1", 1, 1)).case)


@pytest.mark.parametrize(("start", "stop"), [(0, -1), (0, -3), (1, 0), (2, -1), (-1, -2), (9, 9)])
def test_a_run_that_ends_before_it_starts_has_no_labels(start, stop):
    """Such as one to the place before the last: of Python's slices these would be others'."""
    cases = batch(["x", "pq", "r"])

    def query(cases):
        # The second case has labels, so keys of this batch are spelled out.
        case = np.array([0, 1])
        run = np.array([start, 1]), np.array([stop, 3])
        return Entries(case, np.ones(2, np.int64), np.array([7, 8]), *run)

    found = as_dicts(cases, vectors_of(cases, query, Clip("l1", 1, 1)))
    assert found == [{key_of(7, ()): 1}, {key_of(8, ("p", "q")): 1}, {}]


LABELS = st.text(max_size=3) | st.sampled_from(["", "\0", "\0\0", "a", "a\0", "\0\0\0\1a"])
KEYS = st.tuples(st.integers(-(2**63), 2**63 - 1), st.lists(LABELS, max_size=3).map(tuple))


@given(KEYS, KEYS)
def test_no_two_keys_are_spelled_alike(one, other):
    """Labels may hold anything: zeros, what lengths look like, parts of each other."""
    assert (key_of(*one) == key_of(*other)) == (one == other)
    assert parts_of(key_of(*one)) == one


def test_keys_differ_by_how_labels_are_parted():
    """A prefix, a label that is two, an empty label: all their own keys."""
    keys = [(), ("",), ("", ""), ("ab",), ("a", "b"), ("a",), ("a", ""), ("", "a")]
    codes = [0, 1, -1, 256]
    assert len({key_of(code, labels) for code in codes for labels in keys}) == 32


def test_numbers_are_one_kind_of_key():
    """1, 1.0 and True are one key in Python: here only integers are keys, so none of the others
    gets in beside them.
    """
    for wrong in (np.array([1.0]), np.array([True]), np.array([1], np.uint8)):
        one = np.zeros(1, np.int64)
        found = answered(batch(["a"]), lambda _, code=wrong, row=one: Entries(row, row + 1, code))
        assert not len(found.case)
    small = answered(batch(["a"]), lambda _: Entries(*np.array([[0], [1], [1]], np.int8)))
    assert small.code.tolist() == [1]
    assert small.code.dtype == np.int64


def tell_all(variant):
    """Entries of many kinds: numbers, labels, values of either sign, repeated keys."""
    yield (len(variant), 3)
    for place, label in enumerate(variant):
        yield (ord(label), (-2) ** place)
        yield (1, 1, place, place + 1)
        yield (0, 5, 0, place + 1)


@pytest.mark.parametrize("clip", [Clip("l1", 4, 3), Clip("l2", 5, 9), Clip("max", 2, 2)])
def test_order_and_company_do_not_matter(clip):
    """Cases permuted, split, and each alone with an alphabet of its own: the same vectors."""
    variants = ["", "a", "ba", "abc"]
    query = case_by_case(tell_all)

    def found(variants):
        cases = batch(variants)
        vectors = vectors_of(cases, query, clip)
        # A case without labels has number keys where it stands alone.
        spelled = [
            {key if isinstance(key, bytes) else key_of(int(key), ()): value for key, value in each}
            for each in (one.items() for one in as_dicts(cases, vectors))
        ]
        return dict(zip(variants, spelled, strict=True))

    alone = {variant: found([variant])[variant] for variant in variants}
    for order in permutations(variants):
        assert found(order) == alone
    assert found(variants[:2]) | found(variants[2:]) == alone


def test_sums_weigh_each_case():
    cases = batch(["a", "b"])
    vectors = vectors_of(
        cases, lambda _: entries([(0, 4, 1), (1, 4, -1), (1, 2, 1)]), Clip("l1", 2, 2)
    )
    sums = vectors.sums(np.array([10, 3]))
    assert sums.at(np.array([4, 2, 0, 5, -1])).tolist() == [7, 3, 0, 0, 0]
    assert sums.at_spelled([key_of(4, ("a",))]).tolist() == [0]


@pytest.mark.parametrize(("most", "cells"), [(0, 1), (1, 0), (MOST + 1, 1), (1, MOST_CELLS + 1)])
def test_a_clip_has_its_limits(most, cells):
    with pytest.raises(ValueError, match="a clip lies between"):
        Clip("l1", most, cells)


def test_a_query_that_raises_on_the_batch_alone_finds_the_same():
    """Asked case by case, where the batch as a whole fails: in the places of that batch."""

    def one_at_a_time(cases):
        if len(cases) > 1:
            raise ValueError("too many")
        return Entries.of_variants(cases)

    cases = batch(["ab", "", "b"])
    whole = vectors_of(cases, Entries.of_variants, Clip("l1", 1, 1))
    apart = vectors_of(cases, one_at_a_time, Clip("l1", 1, 1))
    assert as_dicts(cases, whole) == as_dicts(cases, apart)


def test_a_case_of_long_labels_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that would take more memory than their file: others keep theirs."""
    monkeypatch.setattr(vectors, "MOST_BYTES", 100)
    cases = Cases.of([("x" * 30,) * 4, ("y",) * 50, ("é" * 10,) * 5, ()], ["x" * 30, "y", "é" * 10])
    found = vectors_of(cases, Entries.of_variants, ONE)
    assert found.case.tolist() == [1, 2, 3]


SIZES = (1, -2, 3)


def drawn(values: list[list[int]], clip: Clip, weight: list[int], seed: int = 1) -> Ints:
    """The sum over cases whose value at key k is ``values[case][k]``."""
    case = np.repeat(np.arange(len(values)), [len(row) for row in values])
    key = np.concatenate([np.arange(len(row)) for row in values]).astype(np.int64)
    found = Entries(case, np.concatenate([[0] * 0, *values]).astype(np.int64), key)
    cases = Cases(("a",), np.zeros(len(values), np.int64), np.arange(len(values) + 1))
    sums = sampled_sums(
        vectors_of(cases, lambda _: found, clip), clip, np.array(weight), reproducible(seed)
    )
    return sums.at(np.arange(4))


@pytest.mark.parametrize("most", [1, 2, 4, 5])
def test_every_set_of_units_is_equally_likely(most: int) -> None:
    """Of 1, 2 and 3 units, by exact counting: without replacement, whether the larger part is kept
    or dropped.
    """
    units = np.repeat([0, 1, 2], np.abs(SIZES))
    clip = Clip("l1", most, most, sampled=True)
    expected = Counter(
        tuple(np.bincount(units[list(kept)], minlength=3) * np.sign(SIZES))
        for kept in combinations(range(6), most)
    )
    # 3,000 cases draw, each into keys of its own.
    case, key = np.repeat(np.arange(3000), 3), np.arange(9000)
    cases = Cases(("a",), np.zeros(3000, np.int64), np.arange(3001))
    found = vectors_of(cases, lambda _: Entries(case, np.tile(SIZES, 3000), key), clip)
    sums = sampled_sums(found, clip, np.ones(3000, np.int64), reproducible(1))
    seen = Counter(map(tuple, sums.at(key).reshape(3000, 3).tolist()))
    assert seen.keys() <= expected.keys()
    total = sum(expected.values())
    share = [expected[outcome] / total for outcome in expected]
    counted = [seen[outcome] for outcome in expected]
    assert chisquare(counted, np.array(share) * 3000).pvalue > 1e-9


@given(
    st.lists(st.lists(st.integers(-9, 9), min_size=1, max_size=4), min_size=1, max_size=4),
    st.integers(1, 12),
    st.data(),
)
@settings(max_examples=runs(60), deadline=None)
def test_a_case_moves_sums_by_the_clip_at_most(
    values: list[list[int]], most: int, data: st.DataObject
) -> None:
    """Its weight times that; never by more than it has; and by all of it where that is within."""
    weight = [data.draw(st.integers(0, 4)) for _ in values]
    for row, times in zip(values, weight, strict=True):
        whole = np.abs(row).sum()
        found = drawn([row], Clip("l1", most, most, sampled=True), [times])
        assert np.abs(found).sum() == times * min(most, whole)
        of_one = drawn([row], Clip("max", 1, most, sampled=True), [times])
        assert np.abs(of_one).sum() == times * min(most, np.count_nonzero(row))
        assert np.abs(of_one).max() <= times


def test_each_case_draws_for_itself() -> None:
    """Ten thousand cases alike, of one unit each, fall on both of two keys: all on one has
    probability 2**-9999.
    """
    found = drawn([[1, 1]], Clip("l1", 1, 1, sampled=True), [10_000])
    assert found.sum() == 10_000
    assert found[:2].min() > 4_000


def test_a_sampled_clip_bounds_what_is_drawn() -> None:
    """Units of an l1 vector need a cell each; for l2, or values above 1, nothing is drawn."""
    for clip in (("l1", 4, 3), ("l2", 4, 4), ("max", 2, 4)):
        with pytest.raises(ValueError, match="units are drawn"):
            Clip(*clip, sampled=True)


NUMBERS = st.integers(0, 5) | st.integers(0, 2**40) | st.integers(0, 2**62)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=40))
def test_rows_are_grouped_as_numpy_groups_them(rows):
    """Numbers that fit into one with their rows, and such as do not."""
    major, minor = np.array(rows, np.int64).reshape(-1, 2).T
    order, begins = grouped(major, minor)
    assert order.tolist() == np.lexsort((minor, major)).tolist()
    pairs = [rows[row] for row in order.tolist()]
    assert [pairs[row] for row in begins.tolist()] == sorted(set(rows))
    found = distinct(major)
    expected = np.unique(major, return_inverse=True, return_counts=True)
    assert [each.tolist() for each in found] == [each.tolist() for each in expected]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-(2**58), 2**58)), max_size=20))
def test_sums_are_exact_beyond_what_floats_hold(rows):
    groups, values = np.array(rows, np.int64).reshape(-1, 2).T
    expected = [sum(value for group, value in rows if group == each) for each in range(4)]
    assert group_sums(groups, values, 4).tolist() == expected
