"""Stochastic t-closeness, analytically: no outcome is more than t times as likely, or as unlikely,
given the class.
"""

import math
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from cloakwork.base.exact import drawn_scale
from cloakwork.errors import MechanismError
from cloakwork.log.eventlog import TIMESTAMP
from cloakwork.mechanisms.kanon.randomise import (
    _DRAWS,
    _keep_draws,
    _truthful_draws,
    epsilon_for,
    least_t,
    randomiser_of,
)
from cloakwork.noise import reproducible
from cloakwork.testing import run_mechanism
from contracts.sample_logs import courses_of, log_of
from contracts.value_logs import with_values

Distribution = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
VALUES = tuple("uvwxyz")
STEPS = 20


def response(epsilon: float, size: int = len(VALUES)) -> Distribution:
    """Row x: the probability of each outcome of randomised response from member x, as drawn."""
    kept = _keep_draws(_DRAWS, epsilon, size) / _DRAWS
    return np.full((size, size), (1 - kept) / size) + kept * np.eye(size)


def laplace(epsilon: float, steps: int = STEPS) -> Distribution:
    """Row x: the probability of each outcome of the clamped discrete Laplace noise from x, as
    drawn.
    """
    ratio = math.exp(-1 / drawn_scale(math.nextafter(steps / epsilon * (1 + 1e-12), math.inf)))
    rows = []
    for start in range(steps + 1):
        mass = (1 - ratio) / (1 + ratio) * ratio ** np.abs(np.arange(steps + 1) - start)
        mass[0], mass[-1] = ratio**start / (1 + ratio), ratio ** (steps - start) / (1 + ratio)
        rows.append(mass)
    return np.array(rows)


def response_or_missing(epsilon: float) -> Distribution:
    """Where some values are missing, that is one member more."""
    return response(epsilon, len(VALUES) + 1)


def laplace_or_missing(epsilon: float) -> Distribution:
    """The last row and column are missing: half of epsilon tells whether a value is, half which it
    is.
    """
    truly, numbers = _truthful_draws(_DRAWS, epsilon / 2) / _DRAWS, laplace(epsilon / 2)
    present = np.hstack([truly * numbers, np.full((len(numbers), 1), 1 - truly)])
    return np.vstack([present, np.append((1 - truly) * numbers.mean(axis=0), truly)])


RANDOMISERS = {
    "response": response,
    "laplace": laplace,
    "response or missing": response_or_missing,
    "laplace or missing": laplace_or_missing,
}


def largest_ratio(of: Distribution, sizes: list[int]) -> float:
    """The largest ratio of an outcome's probabilities in a class and in the whole, either way, over
    all pairs of values: one class holds nothing but the first, all others nothing but the second.
    """
    whole, worst = sum(sizes), 1.0
    for size in sizes:
        for one in of:
            for other in of:
                mixed = (size * one + (whole - size) * other) / whole
                worst = max(worst, float((one / mixed).max()), float((mixed / one).max()))
    return worst


@pytest.mark.parametrize("name", RANDOMISERS)
@given(t=st.floats(1.001, 20), sizes=st.lists(st.integers(1, 40), min_size=2, max_size=4))
def test_no_class_stands_out(name: str, t: float, sizes: list[int]) -> None:
    """For every class, the worst values and both directions of the ratio."""
    epsilon = epsilon_for(t, np.array(sizes))
    assert largest_ratio(RANDOMISERS[name](epsilon), sizes) <= t * (1 + 1e-9)


def published(t: float, whole: int, size: int) -> float:
    """The epsilon of the paper, which is off by one."""
    return math.log((t * whole - size) / (whole - size - 1))


@pytest.mark.parametrize("name", ["response", "laplace"])
def test_the_published_formula_is_caught(name: str) -> None:
    """N = 10, |E| = 5, t = 1.5: its epsilon .916 lets an outcome be up to 1.75 times as likely;
    ours is .693.
    """
    of: Callable[[float], Distribution] = RANDOMISERS[name]
    assert epsilon_for(1.5, np.array([5, 5])) == pytest.approx(math.log(2))
    assert published(1.5, 10, 5) == pytest.approx(0.916, abs=1e-3)
    assert largest_ratio(of(math.log(2)), [5, 5]) <= 1.5 + 1e-9
    assert largest_ratio(of(published(1.5, 10, 5)), [5, 5]) == pytest.approx(
        1.75, abs=0.02 if name == "response" else 1e-6
    )


@pytest.mark.parametrize("domain", [True, False], ids=["response", "laplace"])
@pytest.mark.parametrize("missing", [None, False, True], ids=["alone", "beside", "missing"])
def test_what_is_drawn_follows_these_distributions(domain: bool, missing: bool | None) -> None:
    """20,000 draws from one value, alone, or beside as many missing ones, or from these; with a
    fixed seed.
    """
    size, epsilon, value, place = 20_000, 1.2, "v" if domain else 13, 1 if domain else 3
    some_missing = missing is not None
    outcomes: list[object] = [
        *(VALUES if domain else range(10, 11 + STEPS)),
        *[None] * some_missing,
    ]
    name = ("response" if domain else "laplace") + " or missing" * some_missing
    distinct = pl.Series("x", [value, *[None] * some_missing])
    declared = (VALUES, None) if domain else (None, (10.0, 10.0 + STEPS))
    codes = np.repeat(np.arange(len(distinct)), size)
    drawn = randomiser_of(distinct, *declared, 1.0)(codes, epsilon, reproducible(7)).to_list()
    drawn = drawn[-size:] if missing else drawn[:size]
    assert set(drawn) <= set(outcomes)
    expected = RANDOMISERS[name](epsilon)[-1 if missing else place]
    assert chisquare([drawn.count(outcome) for outcome in outcomes], expected * size).pvalue > 1e-3


def test_where_none_or_all_are_missing_nothing_changes() -> None:
    """No class can stand out by it."""
    distinct = pl.Series("x", [13, None])
    for randomise in (
        randomiser_of(distinct, None, (10.0, 30.0), 1.0),
        randomiser_of(distinct, (13, 14), None, 1.0),
    ):
        assert randomise(np.zeros(500, np.int64), 0.1, reproducible(1)).null_count() == 0
        assert randomise(np.ones(500, np.int64), 0.1, reproducible(1)).null_count() == 500


def test_what_was_not_declared_tells_nothing_apart() -> None:
    """It becomes any member of the domain: within e^epsilon of every other row; numbers move to the
    edge.
    """
    randomise = randomiser_of(pl.Series("x", ["undeclared"]), VALUES, None, 1.0)
    drawn = randomise(np.zeros(10_000, np.int64), 0.5, reproducible(3)).to_list()
    assert chisquare([drawn.count(value) for value in VALUES]).pvalue > 1e-3
    uniform = np.full(len(VALUES), 1 / len(VALUES))
    for row in response(0.5):
        assert max((row / uniform).max(), (uniform / row).max()) <= math.exp(0.5)
    outside = randomiser_of(pl.Series("x", [-5.0, 1e300, math.nan]), None, (0.0, 1.0), 0.25)
    assert outside(np.array([0, 1, 2]), math.inf, reproducible(1)).to_list() == [0.0, 1.0, 0.0]


def test_one_class_alone_is_the_whole() -> None:
    """Nothing can stand out, so nothing is randomised."""
    assert math.isinf(epsilon_for(1.1, np.array([9])))
    log = with_values(log_of([["a"]] * 4), "x", ["u", "v", "u", "w"])
    released = run_mechanism(
        "kanon/closeness", log, t=1.1, distance="stochastic", attribute="x", domains={"x": VALUES}
    )
    assert sorted(released.events["x"]) == ["u", "u", "v", "w"]


def test_noise_for_the_least_t_can_be_drawn() -> None:
    """And the scale of any smaller one is beyond what there is."""
    steps = 10**6
    smallest = epsilon_for(least_t(steps), np.array([1, 10**9]))
    assert drawn_scale(steps / smallest) > 0
    with pytest.raises(MechanismError):
        drawn_scale(steps / math.log(1 + 1e-12))


@pytest.mark.parametrize(("kind", "whole"), [("text", False), ("number", True), ("decimal", False)])
def test_a_release_holds_declared_values_only(kind: str, whole: bool) -> None:
    """Values and their type, end to end; which of them are missing is random, since some are."""
    values = {
        "text": ["u", None, "v", "u"],
        "number": [1, None, 5, 9],
        "decimal": [0.5, None, 2.25, 7.0],
    }[kind]
    facts = {"domains": {"case:x": VALUES}} if kind == "text" else {"ranges": {"case:x": (0, 9)}}
    log = with_values(log_of([["a"], ["a"], ["b"], ["b"]]), "case:x", values)
    released = run_mechanism(
        "kanon/closeness", log, t=1.5, distance="stochastic", attribute="case:x", **facts
    )
    assert set(released.cases["case:x"].drop_nulls()) <= (
        set(VALUES) if kind == "text" else set(range(10))
    )
    assert (released.cases["case:x"].dtype == pl.Int64) == whole


def test_cycle_times_stay_below_their_declared_bound() -> None:
    """Every gap is clamped to it, and every case starts at the epoch."""
    from datetime import timedelta

    log, bound = log_of([["a", "b", "c"]] * 6 + [["a", "c"]] * 6), timedelta(hours=2)
    given = {"t": 2, "distance": "stochastic", "attribute": "timestamps", "longest_gap": bound}
    released = run_mechanism("kanon/closeness", log, noise=reproducible(1), **given)
    assert sorted(courses_of(released)) == sorted(courses_of(log))
    gaps = pl.DataFrame({"case": released.case_of, "t": released.events[TIMESTAMP]}).select(
        pl.col("t").diff().over("case")
    )
    assert gaps["t"].drop_nulls().is_between(timedelta(0), bound).all()
    assert gaps["t"].n_unique() > 3
    assert released.events[TIMESTAMP].min().timestamp() == 0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"t": 1.0, "domains": {"x": VALUES}}, "must be above 1"),
        ({"t": 1.5}, "declare|needs"),
        ({"t": 1.5, "ranges": {"x": (0.0, 1.0)}, "step": 0.3}, "whole number of steps"),
        ({"t": 1.5, "ranges": {"x": (0.0, 1.0)}}, "no numbers; declare a domain"),
        ({"t": 1.5, "domains": {"y": VALUES}}, "must be public"),
    ],
)
def test_what_cannot_be_randomised_is_refused(change: dict[str, object], said: str) -> None:
    """In one line that says what to do."""
    log = with_values(log_of([["a"], ["b"]] * 3), "x", list("uvwxyz"))
    with pytest.raises(MechanismError, match=said) as refused:
        run_mechanism("kanon/closeness", log, distance="stochastic", attribute="x", **change)
    assert "\n" not in str(refused.value)


def test_numbers_and_texts_are_not_mixed_up() -> None:
    """A domain of texts does not fit a column of numbers; one of numbers does."""
    log = with_values(log_of([["a"], ["a"], ["a", "b"], ["a", "b"]]), "x", [1, 2, 1, None, 2, None])
    given = {"t": 1.5, "attribute": "x", "distance": "stochastic"}
    assert set(
        run_mechanism("kanon/closeness", log, domains={"x": (1, 2)}, **given)
        .events["x"]
        .drop_nulls()
    ) <= {1, 2}
    with pytest.raises(MechanismError, match="another type"):
        run_mechanism("kanon/closeness", log, domains={"x": ("low", "high")}, **given)
