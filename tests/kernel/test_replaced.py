"""Neighbours that have the same cases with other values: what moves, what is charged for it, and
what a kernel does not answer then.
"""

from dataclasses import replace

import numpy as np
import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.costs import Composed, DiscreteGaussian, Repeated
from cloakwork.base.errors import PlanUnsound
from cloakwork.kernel import (
    ONE,
    Books,
    Clip,
    CustomQuery,
    Descent,
    Entries,
    Gaussian,
    Kernel,
)
from cloakwork.kernel.vectors import vectors_of
from kernel.gaps import LENGTHS, gaps, hours_by_role, universe, with_columns
from kernel.small import Silent, batch, entries, measured

NOISE = Gaussian(1e6)
L2, L1, MAX = Clip("l2", 1000, 4), Clip("l1", 8, 8), Clip("max", 3, 4)


def vector(rows, clip):
    """The bounded vector of one case of these values, by key."""
    found = vectors_of(batch(["a"]), lambda cases: entries(rows), clip)
    return dict(zip(found.keys[found.key].tolist(), found.value.tolist(), strict=True))


@pytest.mark.parametrize("clip", [L2, L1, MAX], ids=lambda clip: clip.norm)
@pytest.mark.parametrize("signed", [False, True])
def test_two_vectors_differ_by_no_more_than_is_charged(clip, signed):
    """And by nearly as much: one that is charged by its clip alone would cost too little."""
    clip = replace(clip, signed=signed, replaced=True)
    random = np.random.default_rng(1)
    each = clip.moved * (np.sqrt(clip.moved_cells) if clip.norm == "max" else 1)
    pairs, keys = 3000, 8
    size = random.choice([3, 10, 2000], (pairs, 1, 1))
    value, key = (
        random.integers(-size, size, (pairs, 2, 6)),
        random.integers(0, keys, (pairs, 2, 6)),
    )
    case = np.repeat(np.arange(2 * pairs), 6)
    rows = Entries(case, value.ravel(), key.ravel())
    found = vectors_of(batch(["a"] * 2 * pairs), lambda cases: rows, clip)
    vectors = np.zeros((2 * pairs, keys), np.int64)
    vectors[found.case, found.keys[found.key]] = found.value
    apart = vectors[::2] - vectors[1::2]
    most = float(np.linalg.norm(apart, axis=1).max())
    assert 0.6 * each < most <= each
    assert (apart != 0).sum(axis=1).max() <= clip.moved_cells
    if clip.norm != "max":
        assert most > 1.1 * clip.most


def test_nothing_below_zero_is_left_unless_it_is_charged_for():
    rows = [(0, 1, -300), (0, 2, 400)]
    assert vector(rows, L2) == {1: -300, 2: 400}
    assert vector(rows, replace(L2, replaced=True)) == {2: 400, 1: 0}
    assert vector(rows, replace(L2, replaced=True, signed=True)) == {1: -300, 2: 400}


@pytest.mark.parametrize("query, clip", [(gaps, ONE), (hours_by_role, LENGTHS)])
def test_exhaust_other_values_of_one_case(query, clip):
    """Whatever times, roles and age a case with these activities has, all others move a sum by no
    more than is charged.
    """
    clip = replace(clip, replaced=True)
    events = [each for each in universe("a", 2) if len(each[0]) == 2]
    cases = with_columns(events).cases
    found = vectors_of(cases, query, clip)
    table = np.zeros((len(cases), len(found.keys)), np.int64)
    table[found.case, found.key] = found.value
    distinct = np.unique(table, axis=0)
    apart = distinct[:, None] - distinct[None]
    assert (apart * apart).sum(axis=2).max() <= clip.moved**2
    assert (apart != 0).sum(axis=2).max() <= clip.moved_cells
    assert (apart * apart).sum(axis=2).max() > clip.most**2


@pytest.mark.parametrize("cases", [1, 3])
def test_a_sum_is_charged_for_both_vectors(cases):
    """The event of a table, and that of gradient steps, for units of so many cases."""
    (here,) = NOISE.events(L2, cases, None)
    (there,) = NOISE.events(replace(L2, replaced=True), cases, None)
    norms = [_norm(event) for event in (here, there)]
    assert norms[0] == pytest.approx(cases * 1000, rel=1e-2)
    assert norms[1] == pytest.approx(cases * 1000 * np.sqrt(2), rel=1e-2)
    assert norms[1] >= cases * 1000 * np.sqrt(2)
    assert cost(there, 1e-6).epsilon > cost(here, 1e-6).epsilon


def _norm(event):
    times, one = (event.times, event.event) if isinstance(event, Repeated) else (1, event)
    assert isinstance(one, DiscreteGaussian)
    return float(np.sqrt(times) * one.sensitivity)


def kernel(*events, replaced=True):
    """A kernel for cases whose values are replaced."""
    books = Books.of(Composed(events=events))
    return Kernel(measured(["ab", "b"]), books, Silent(), 2, replaced=replaced)


def test_a_kernel_records_what_replacing_costs():
    """A plan that lists what one unit more or less costs is refused, narrowed or not."""
    cheap, dear = (NOISE.events(clip, 2, None)[0] for clip in (L2, replace(L2, replaced=True)))
    query = lambda found: entries([(row, 0, 1) for row in range(len(found))])  # noqa: E731
    asked = kernel(dear)
    assert asked.sum(query, NOISE, L2).at(np.arange(1)).tolist() == [2]
    assert asked.recorded == dear
    for again in (kernel(cheap), kernel(cheap).narrowed(["a"])):
        with pytest.raises(PlanUnsound, match="does not list"):
            again.sum(query, NOISE, L2)
    kernel(cheap, replaced=False).sum(query, NOISE, L2)


def test_steps_are_charged_for_one_gradient_less_and_one_more():
    descent = Descent(4, 1.0, 1e-3, 1000, NOISE, 2.0)
    gradient = lambda parameters, cases, step: np.ones((len(cases), 3))  # noqa: E731
    once, twice = (Repeated(times=4, event=descent.event(3, cases)) for cases in (2, 4))
    steps = (gradient, np.zeros(3), lambda parameters, mean: parameters - mean, descent)
    asked = kernel(twice)
    asked.steps(*steps)
    with pytest.raises(PlanUnsound, match="does not list"):
        kernel(once).steps(*steps)
    kernel(once, replaced=False).steps(*steps)


QUESTIONS = {
    "a selection of keys": lambda asked: asked.select(gaps, NOISE, 10**9, L2),
    "keys that grow": lambda asked: asked.grow(),
    "sums over samples": lambda asked: asked.sample_sums(gaps, NOISE, 0.5, 2, 3),
    "gradient steps on samples": lambda asked: asked.steps(
        None, np.zeros(3), None, Descent(4, 0.5, 1e-3, 1000, NOISE, 2.0)
    ),
    "a question of its own": lambda asked: asked.custom(
        CustomQuery("cases", lambda counts: counts[:1], 1, 1, "one more"), NOISE
    ),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_what_is_charged_for_presence_is_not_answered(question):
    with pytest.raises(PlanUnsound, match=f"^{question} is charged for a unit more or less"):
        QUESTIONS[question](kernel())
