"""Functions of other packages are called again while they run: where they find something else in a
case, the kernel answers nothing.
"""

from collections import Counter

import numpy as np
import pytest

from cloakwork.base.costs import Composed, DiscreteLaplace, EpsilonDelta
from cloakwork.errors import PlanUnsound
from cloakwork.kernel import ONE, Books, Descent, Entries, Factors, Kernel, Laplace
from cloakwork.noise import reproducible
from kernel.small import measured

LAPLACE = DiscreteLaplace(scale=2.0)
SELECTED = Laplace(2.0).selection_delta(1, ONE, 1)
SEEN = measured(["ab", "a", "b", "abc", "ba", "bb"], [40, 30, 5, 4, 4, 3])
DESCENT = Descent.of(times=3, rate=1.0, norm=1.0, multiplier=2.0, denominator=1.0)


def kernel_of(event, *, is_ours=False):
    return Kernel(SEEN, Books.of(event), reproducible(1), 1, is_ours=is_ours)


def lengths(cases):
    return Entries.one_each(cases, cases.lengths)


def remembering():
    """The second time it is asked of a case, it finds it elsewhere."""
    seen = Counter()

    def query(cases):
        found = [seen[variant] for variant in cases.variants()]
        seen.update(cases.variants())
        return Entries.one_each(cases, np.array(found, np.int64))

    return query


def by_place(cases):
    """Where a case stands in its batch."""
    return Entries.one_each(cases, np.arange(len(cases)))


def by_size(cases):
    """How many cases there are."""
    return Entries(np.arange(len(cases)), np.full(len(cases), len(cases)))


def odd_one_out(cases):
    """Another key where the batch before it was another."""
    return Entries.one_each(cases, cases.lengths - cases.lengths.min())


ASKING = {
    "sum": lambda kernel, query: kernel.sum(query, Laplace(2.0)).at(np.arange(4)),
    "select": lambda kernel, query: kernel.select(query, Laplace(2.0), 1),
    "grow": lambda kernel, query: kernel.grow().declared(query, Laplace(2.0), 6),
}


@pytest.mark.parametrize("way", ASKING)
@pytest.mark.parametrize("query", [remembering(), by_place, by_size, odd_one_out])
def test_what_goes_by_other_cases_is_not_answered(way, query):
    if query is by_size and way == "grow":
        pytest.skip("a level counts cases, whatever the value of an entry")
    with pytest.raises(PlanUnsound, match="in another order and batch"):
        for _ in range(9):
            # Which cases come first is drawn.
            ASKING[way](kernel_of(EVENTS[way]), query)


EVENTS = {
    "sum": LAPLACE,
    "select": Composed(events=(LAPLACE, EpsilonDelta(epsilon=0.0, delta=SELECTED))),
    "grow": LAPLACE,
}


@pytest.mark.parametrize("way", ["sum", "grow"])
def test_what_goes_by_each_case_alone_is_answered_as_ever(way):
    """Variants have runs of labels, which begin elsewhere in another batch."""
    ASKING[way](kernel_of(LAPLACE), lengths)
    kernel = kernel_of(LAPLACE)
    found = kernel.sum(Entries.of_variants, Laplace(2.0)).at_labels([(0, ("a", "b"))])
    assert abs(int(found[0]) - 40) < 40


def test_what_fails_on_a_batch_is_asked_case_by_case_both_times():
    def failing(cases):
        if "abc" in {"".join(each) for each in cases.variants()}:
            raise ValueError
        return lengths(cases)

    ASKING["sum"](kernel_of(LAPLACE), failing)


def test_ours_are_asked_once():
    """What is proved of them holds; it would cost time alone."""
    asked = []

    def query(cases):
        asked.append(len(cases))
        return lengths(cases)

    ASKING["sum"](kernel_of(LAPLACE, is_ours=True), query)
    assert asked == [len(SEEN.cases)]


def steps_of(gradient):
    kernel = kernel_of(Composed(events=(DESCENT.event(4, 1),) * 3))
    return kernel.steps(gradient, np.zeros(4), lambda before, mean: before + mean, DESCENT)


def by_length(parameters, cases, step):
    return np.eye(4)[np.minimum(cases.lengths, 3)] / 3


def test_gradients_are_asked_again_as_well():
    steps_of(by_length)


def test_last_bits_of_factors_may_differ():
    def gradient(parameters, cases, step):
        left = by_length(parameters, cases, step)[:, None, :]
        return [Factors(left * (1 + len(cases) * 1e-12), np.ones((len(cases), 1, 1)))]

    steps_of(gradient)


@pytest.mark.parametrize("fault", ["mean", "memory"])
def test_a_gradient_that_goes_by_other_cases_is_not_answered(fault):
    seen = Counter()

    def gradient(parameters, cases, step):
        found = by_length(parameters, cases, step)
        if fault == "mean":
            return found - found.mean(axis=0)
        seen.update(cases.variants())
        return found / np.array([[seen[each]] for each in cases.variants()])

    with pytest.raises(PlanUnsound, match="in another order and batch"):
        steps_of(gradient)
