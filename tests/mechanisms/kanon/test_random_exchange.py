"""Stochastic t-closeness, exactly: no class makes a value more than t times as likely, or unlikely.

On small logs all outcomes of every draw are run through, and their probabilities added up as
fractions; on larger ones the probabilities are computed from how many values each class gives up.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from itertools import pairwise, product
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from cloakwork.base.arrays import Ints
from cloakwork.errors import MechanismError
from cloakwork.log.eventlog import CASE_PREFIX, EventLog
from cloakwork.mechanisms.kanon import random_exchange
from cloakwork.mechanisms.kanon.attribute_values import (
    AttributeValues,
    ClosenessParams,
    attribute_values_of,
)
from cloakwork.mechanisms.kanon.closeness import _randomly_exchanged_codes as exchanged
from cloakwork.mechanisms.kanon.random_exchange import (
    TrackDraws,
    exchange_at_random,
    values_given_up,
)
from cloakwork.noise import reproducible
from cloakwork.testing import run_mechanism
from conftest import in_long_form, runs
from contracts.sample_logs import courses_of, log_of
from contracts.value_logs import CLASSES, KINDS, logs_with_values, with_values

Shares = dict[Any, Fraction]
"""The probability of each value."""
Run = Callable[[AttributeValues, float, Any], Ints]


@dataclass
class OneOutcome:
    """A source of randomness whose draws are the digits of a number: in turn, all that there are.

    ``chosen``: what is drawn; ``among``: out of how many, as found on the way.
    """

    chosen: list[int]
    among: list[int] = field(default_factory=list)

    def _digit(self, among: int) -> int:
        self.among.append(among)
        if len(self.chosen) < len(self.among):
            self.chosen.append(0)
        return self.chosen[len(self.among) - 1]

    def permutation(self, size: int) -> Ints:
        """One of the ``size!`` orders."""
        left, order = list(range(size)), []
        number = self._digit(math.factorial(size))
        for remaining in range(size, 0, -1):
            place, number = number % remaining, number // remaining
            order.append(left.pop(place))
        return np.array(order, np.int64)

    def uniform(self, below: Ints) -> Ints:
        """One number below each."""
        return np.array([self._digit(int(each)) for each in below], np.int64)


def every_outcome(run: Callable[[Any], Ints]) -> Iterator[tuple[Fraction, Ints]]:
    """What ``run`` comes to for every outcome of its draws, and how likely that is."""
    chosen: list[int] = []
    while True:
        noise = OneOutcome(chosen)
        result = run(noise)
        yield Fraction(1, math.prod(noise.among)), result
        # The next number: the last digit that can be raised is.
        while chosen and chosen[-1] + 1 == noise.among[len(chosen) - 1]:
            chosen.pop()
        if not chosen:
            return
        chosen[-1] += 1


def largest_ratio(values: AttributeValues, t: float, run: Run = exchanged) -> Fraction | float:
    """The largest ratio, either way, of a value's probability at a place of a class and of its
    share among the kept values of its activity; with inserted events, and without.
    """
    likely = [dict[int, Fraction]() for _ in values.codes]
    for probability, codes in every_outcome(lambda noise: run(values, t, noise)):
        for row, code in zip(likely, codes.tolist(), strict=True):
            row[code] = row.get(code, Fraction(0)) + probability
    worst: Fraction | float = Fraction(1)
    for rows in values.by_activity:
        kept = rows[values.kept[rows]]
        whole = mean([{code: Fraction(1)} for code in values.codes[kept].tolist()])
        for members in [*classes_among(values, rows), *classes_among(values, kept)]:
            released = mean([likely[row] for row in members])
            for value in whole | released:
                if value not in whole or value not in released:
                    return math.inf
                ratio = released[value] / whole[value]
                worst = max(worst, ratio, 1 / ratio)
    return worst


def classes_among(values: AttributeValues, rows: Ints) -> Iterator[Ints]:
    """Those of ``rows`` that are in each class: a cell, or the cells of a prefix."""
    cells = values.cells[rows]
    if values.class_of_cell is None:
        yield from (rows[cells == cell] for cell in np.unique(cells))
        return
    cell_of, class_of = values.class_of_cell
    for one in np.unique(class_of):
        members = rows[np.isin(cells, cell_of[class_of == one])]
        if len(members):
            yield members


def mean(of: list[Shares]) -> Shares:
    """The probabilities at a place of which each is as likely."""
    summed: Shares = {}
    for shares in of:
        for value, share in shares.items():
            summed[value] = summed.get(value, Fraction(0)) + share / len(of)
    return summed


def read(log: EventLog, attribute: str, classes: str = "variants") -> AttributeValues:
    """What the mechanism sees of a log."""
    params = ClosenessParams.model_validate(
        {"column": attribute, "classes": classes, "aim": "stochastic", "bound": 2, "grid": "1s"}
    )
    values = attribute_values_of(log, params, reproducible(0))
    assert values is not None
    return values


TWO_ACTIVITIES = with_values(log_of(["ab"] * 2 + ["b"] * 2), "x", ["u", "p", "u", "q", "r", "p"])
MISSING = with_values(log_of(["a"] * 2 + ["ab"] * 2), "case:x", [1, None, 1, 1])
UNIQUE = with_values(log_of(["a"] * 2 + ["ab"] * 2), "case:x", [1.5, 2.5, 3.5, 4.5])
PREFIXES = with_values(log_of(["a", "ab", "ac", "ac"]), "case:x", [1, 1, 3, 3])
INSERTED = replace(
    with_values(log_of(["a"] * 2 + ["ab"] * 2), "x", ["u", "v", "w", "z", "w", "z"]),
    inserted=np.array([False, False, True, False, False, False]),
)
FEW = with_values(log_of(["ab", "b", "b"]), "x", ["u", "p", "q", "p"])
SMALL = {
    "activities": (TWO_ACTIVITIES, "x"),
    "few": (FEW, "x"),
    "missing": (MISSING, "case:x"),
    "unique": (UNIQUE, "case:x"),
    "prefixes": (PREFIXES, "case:x"),
    "inserted": (INSERTED, "x"),
}


@pytest.fixture(autouse=True)
def _searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many values are given up follows from the values alone, so it is searched for once."""

    @cache
    def found(codes: bytes, cells: bytes, t: float) -> Ints:
        return values_given_up(np.frombuffer(codes, np.int64), np.frombuffer(cells, np.int64), t)

    monkeypatch.setattr(
        random_exchange,
        "values_given_up",
        lambda codes, cells, t: found(codes.tobytes(), cells.tobytes(), t),
    )


TRIED = [
    *product(["activities", "few", "missing", "unique"], [1.0, 1.6], ["variants"]),
    *product(["prefixes"], [1.0, 1.6], ["prefixes"]),
    ("inserted", 1.6, "variants"),
]


@pytest.mark.parametrize(
    ("name", "t", "classes"), in_long_form(*product(SMALL, [1.0, 1.6, 3.0], CLASSES)) or TRIED
)
def test_no_class_stands_out(name: str, t: float, classes: str) -> None:
    """All outcomes, as fractions; at t = 1 every class releases exactly what the whole does."""
    log, attribute = SMALL[name]
    values = read(log, attribute, classes)
    largest = largest_ratio(values, t)
    assert largest == 1 if t == 1 else largest <= Fraction(t)


def test_something_is_left_in_place() -> None:
    """Else the tests here would hold of a mechanism that keeps nothing, whatever t."""
    assert 1 < largest_ratio(read(TWO_ACTIVITIES, "x"), 3.0) <= 3
    assert 1 < largest_ratio(read(MISSING, "case:x"), 1.6) <= 1.6


def of_all_activities(values: AttributeValues, t: float, noise: Any) -> Ints:
    """Values of every activity in one pool."""
    return exchanged(replace(values, activity=np.zeros_like(values.activity)), t, noise)


def without_missing(values: AttributeValues, t: float, noise: Any) -> Ints:
    """Missing values stay where they are."""
    codes, present = values.codes.copy(), values.codes < len(values.distinct) - 1
    codes[present] = exchanged(values.restricted_to(present), t, noise)
    return codes


def with_inserted_left(values: AttributeValues, t: float, noise: Any) -> Ints:
    """Inserted events keep what they copied."""
    codes = exchanged(values, t, noise)
    codes[~values.kept] = values.codes[~values.kept]
    return codes


@pytest.mark.parametrize(
    ("name", "t", "twin"),
    [
        ("few", 3.0, of_all_activities),
        ("missing", 1.6, without_missing),
        ("inserted", 1.6, with_inserted_left),
    ],
)
def test_a_broken_exchange_is_caught(name: str, t: float, twin: Run) -> None:
    """The pool of another activity; what is missing left out; inserted events left alone."""
    log, attribute = SMALL[name]
    assert largest_ratio(read(log, attribute), t, twin) > t


@pytest.mark.parametrize(("name", "t"), [("missing", 1.6), ("unique", 3.0)])
def test_one_value_more_in_place_is_caught(
    name: str, t: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the bound is as tight as whole numbers of values allow."""
    log, attribute = SMALL[name]
    right = random_exchange.values_given_up
    monkeypatch.setattr(
        random_exchange, "values_given_up", lambda *of: np.maximum(right(*of) - 1, 0)
    )
    assert largest_ratio(read(log, attribute), t) > t


def computed_ratio(codes: list[int], cells: list[int], given: Ints) -> Fraction | float:
    """The largest ratio, either way, by the equation of ``random_exchange``, in fractions."""
    size = {cell: cells.count(cell) for cell in cells}
    share = {cell: Fraction(int(given[cell]), size[cell]) for cell in size}
    pooled, worst = int(given.sum()), Fraction(1)
    for value in set(codes):
        held = dict.fromkeys(size, 0)
        for code, cell in zip(codes, cells, strict=True):
            held[cell] += code == value
        whole = Fraction(codes.count(value), len(codes))
        pool = sum((share[cell] * held[cell] for cell in size), Fraction(0)) / (pooled or 1)
        for cell, times in held.items():
            released = (1 - share[cell]) * Fraction(times, size[cell]) + share[cell] * pool
            ratio = released / whole
            if not ratio:
                return math.inf
            worst = max(worst, ratio, 1 / ratio)
    return worst


@given(
    rows=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), min_size=1, max_size=60),
    t=st.just(1.0) | st.floats(1.0, 30),
)
def test_what_is_given_up_keeps_every_ratio_within_t(rows: list[tuple[int, int]], t: float) -> None:
    """Whatever the values and the classes; where one class is all, nothing is given up."""
    codes = np.array([code for code, _ in rows], np.int64)
    cells = np.unique([cell for _, cell in rows], return_inverse=True)[1].astype(np.int64)
    given_up = values_given_up(codes, cells, t)
    assert ((given_up >= 0) & (given_up <= np.bincount(cells))).all()
    if len(given_up) == 1:
        assert not given_up.any()
        return
    assert computed_ratio(codes.tolist(), cells.tolist(), given_up) <= Fraction(t)


@pytest.mark.parametrize("name", ["missing", "unique"])
def test_the_equation_is_what_comes_out(name: str) -> None:
    """The computed ratio is that of all outcomes."""
    log, attribute = SMALL[name]
    values = read(log, attribute)
    cells = np.unique(values.cells, return_inverse=True)[1].astype(np.int64)
    given_up = values_given_up(values.codes, cells, 3.0)
    computed = computed_ratio(values.codes.tolist(), cells.tolist(), given_up)
    assert computed == largest_ratio(values, 3.0) > 1


def test_a_small_class_does_not_decide_for_all() -> None:
    """200 values that differ, in classes of 160 and four of 10, at t = 2: with one probability for
    all a value could stay with (t - 1) / (N/|E| - 1) = 1 / 19; here 60 % of the large class stay.
    """
    codes = np.arange(200)
    cells = np.repeat([0, 1, 2, 3, 4], [160, 10, 10, 10, 10]).astype(np.int64)
    given_up = values_given_up(codes, cells, 2.0)
    assert given_up[0] <= 64
    assert computed_ratio(codes.tolist(), cells.tolist(), given_up) <= 2


def test_draws_are_as_likely_as_computed() -> None:
    """4,000 runs: how often a class of two releases, at one place, a value that it alone has."""
    codes, cells = np.array([0, 1, 2, 2, 2, 2, 2, 2], np.int64), np.repeat([0, 1], [2, 6])
    given_up, noise = random_exchange.values_given_up(codes, cells, 2.0), reproducible(5)
    tracks = np.arange(8)
    found = [
        exchange_at_random(codes, cells, tracks, 2.0, TrackDraws.of(8, noise))[0]
        for _ in range(4_000)
    ]
    share, pooled = Fraction(int(given_up[0]), 2), int(given_up.sum())
    expected = (1 - share) / 2 + share * (share / pooled)
    assert binomtest(found.count(0), len(found), float(expected)).pvalue > 1e-3


@pytest.mark.parametrize("attribute", ["x", "case:x"])
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=runs(10))
@given(data=st.data(), t=st.floats(1, 10))
def test_every_activity_keeps_its_values(
    kind: str, attribute: str, data: st.DataObject, t: float
) -> None:
    """Exactly those that it had, of the same type, missing ones included; and sequences stay."""
    log = data.draw(logs_with_values(kind, attribute))
    released = run_mechanism(
        "kanon/closeness", log, t=t, distance="stochastic", attribute=attribute
    )
    # Cases without events are left out before.
    assert sorted(courses_of(released)) == sorted(filter(None, courses_of(log)))
    if attribute.startswith(CASE_PREFIX):
        log = replace(log, cases=log.cases.filter(pl.Series(np.diff(log.offsets) > 0)))
    held = [values_by_activity(each, attribute) for each in (log, released)]
    assert held[0].equals(held[1])


def values_by_activity(log: EventLog, attribute: str) -> pl.DataFrame:
    """Each value beside its activity, sorted."""
    if attribute.startswith(CASE_PREFIX):
        return log.cases.select(attribute).sort(attribute)
    return log.events.select("concept:name", attribute).sort("concept:name", attribute)


def test_cycle_times_are_those_of_the_log() -> None:
    """Whole seconds that occur before the same activity, added up from the epoch."""
    log = log_of(["abc"] * 6 + ["ac"] * 6)
    released = run_mechanism(
        "kanon/closeness", log, t=2, distance="stochastic", attribute="timestamps"
    )
    gaps = [
        sorted(
            later[1] - earlier[1]
            for case in courses_with_times(each)
            for earlier, later in pairwise(case)
        )
        for each in (log, released)
    ]
    assert gaps[0] == gaps[1]
    assert min(case[0][1] for case in courses_with_times(released)).timestamp() == 0


def courses_with_times(log: EventLog) -> list[list[tuple[str, Any]]]:
    """The activities and times of each case."""
    rows = log.events.select("concept:name", "time:timestamp").rows()
    return [rows[begin:end] for begin, end in pairwise(log.offsets.tolist())]


def test_one_class_alone_is_the_whole() -> None:
    """Nothing can stand out, so nothing changes places."""
    log = with_values(log_of([["a"]] * 4), "x", ["u", "v", "u", "w"])
    assert exchanged(read(log, "x"), 1.0, reproducible(1)).tolist() == [0, 1, 0, 2]


def test_below_one_there_is_nothing() -> None:
    """In one line that says what t is."""
    log = with_values(log_of([["a"], ["b"]] * 3), "x", list("uvwxyz"))
    with pytest.raises(MechanismError, match="must be at least 1") as refused:
        run_mechanism("kanon/closeness", log, t=0.9, distance="stochastic", attribute="x")
    assert "\n" not in str(refused.value)
