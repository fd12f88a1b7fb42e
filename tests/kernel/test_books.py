"""An answer fills a slot that costs no less, each slot once, and before anything is drawn."""

import itertools

import numpy as np
import pytest

from cloakwork.base.costs import (
    FREE,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    EpsilonDelta,
    NonPrivate,
    PoissonSampled,
    Repeated,
    TruncatedGeometric,
)
from cloakwork.errors import PlanUnsound
from cloakwork.kernel import Books
from cloakwork.kernel.books import composed, fits, part_moved, repeated
from kernel.laws import NEVER, LaplaceLaw, cells, delta_between, gaussian_law, truncated_law

LAPLACE = DiscreteLaplace(scale=2.0, sensitivity=3)
GAUSSIAN = DiscreteGaussian(sigma=2.0, sensitivity=3)
TRUNCATED = TruncatedGeometric(scale=2.0, bound=9, sensitivity=3)
CHANCE = EpsilonDelta(epsilon=0.5, delta=0.01)
SAMPLED = PoissonSampled(rate=0.25, event=LAPLACE)
RAW = NonPrivate(reason="raw")

SLOTS = (LAPLACE, GAUSSIAN, TRUNCATED, CHANCE, SAMPLED, RAW)

FITTING = {
    LAPLACE: [{"scale": 2.5}, {"sensitivity": 2}, {"scale": 9.0, "sensitivity": 1}],
    GAUSSIAN: [{"sensitivity": 2}, {"sensitivity": 1}],
    TRUNCATED: [{"bound": 10}, {"sensitivity": 2}],
    CHANCE: [{"epsilon": 0.4}, {"delta": 0.0}, {"epsilon": 0.0}],
    SAMPLED: [{"rate": 0.2}, {"event": DiscreteLaplace(scale=3.0, sensitivity=3)}],
    RAW: [{"reason": "other words"}],
}
"""Changes that make an event cost no more."""

BREAKING = {
    LAPLACE: [{"scale": 1.9}, {"sensitivity": 4}, {"scale": 9.0, "sensitivity": 4}],
    # More noise too: see below.
    GAUSSIAN: [{"sigma": 1.9}, {"sigma": 2.1}, {"sensitivity": 4}],
    TRUNCATED: [{"bound": 8}, {"scale": 1.9}, {"scale": 2.1}, {"sensitivity": 4}],
    CHANCE: [{"epsilon": 0.6}, {"delta": 0.02}, {"epsilon": 0.0, "delta": 0.02}],
    SAMPLED: [
        {"rate": 0.3},
        {"event": DiscreteLaplace(scale=1.0, sensitivity=3)},
        {"event": GAUSSIAN},
        {"event": Repeated(times=2, event=LAPLACE)},
    ],
}


def changed(table):
    for slot, changes in table.items():
        yield from ((slot, slot.model_copy(update=change)) for change in changes)


@pytest.mark.parametrize("slot", SLOTS)
def test_what_the_plan_lists_is_answered_once(slot):
    books = Books.of(slot)
    books.record(slot)
    assert composed(books.recorded) == slot
    with pytest.raises(PlanUnsound, match="its plan does not list"):
        books.record(slot)


@pytest.mark.parametrize(("slot", "event"), [*changed(FITTING)])
def test_what_costs_no_more_is_answered(slot, event):
    """And the books say what was really drawn."""
    books = Books.of(slot)
    books.record(event)
    assert books.recorded == [event]
    with pytest.raises(PlanUnsound):
        books.record(event)


@pytest.mark.parametrize(("slot", "event"), [*changed(BREAKING)])
def test_what_costs_more_is_refused(slot, event):
    """In every direction; and the slot stays open for what fits."""
    books = Books.of(slot)
    with pytest.raises(PlanUnsound):
        books.record(event)
    assert books.recorded == []
    books.record(slot)


@pytest.mark.parametrize(("one", "other"), [*itertools.permutations(SLOTS, 2)])
def test_kinds_do_not_stand_for_each_other(one, other):
    with pytest.raises(PlanUnsound):
        Books.of(one).record(other)


def test_slots_are_counted():
    """A repeated event is so many slots; several answers of a part of them, one by one."""
    books = Books.of(Composed(events=(Repeated(times=3, event=LAPLACE), LAPLACE, CHANCE)))
    books.record(Repeated(times=2, event=LAPLACE))
    books.record(Composed(events=(LAPLACE, CHANCE)))
    books.record(LAPLACE)
    for event in (LAPLACE, CHANCE, Repeated(times=2, event=LAPLACE)):
        with pytest.raises(PlanUnsound):
            books.record(event)


def test_a_composition_is_answered_whole_or_not_at_all():
    books = Books.of(LAPLACE)
    with pytest.raises(PlanUnsound):
        books.record(Composed(events=(LAPLACE, CHANCE)))
    with pytest.raises(PlanUnsound):
        books.record(Repeated(times=2, event=LAPLACE))
    books.record(LAPLACE)


def test_the_slot_that_says_the_same_is_filled_first():
    """So that a cheap answer does not use up a costly slot."""
    costly = DiscreteLaplace(scale=1.0, sensitivity=3)
    books = Books.of(Composed(events=(costly, LAPLACE)))
    books.record(LAPLACE)
    books.record(costly)


def test_the_first_form_that_fits_is_recorded():
    books = Books.of(LAPLACE)
    books.record(GAUSSIAN, LAPLACE, CHANCE)
    assert books.recorded == [LAPLACE]
    with pytest.raises(PlanUnsound, match="DiscreteGaussian"):
        books.record(GAUSSIAN, LAPLACE)


def test_a_plan_without_cost_lists_nothing():
    for event in SLOTS:
        with pytest.raises(PlanUnsound):
            Books.of(FREE).record(event)


def test_samples_of_several_measurements_are_matched_part_by_part():
    both = Composed(events=(LAPLACE, GAUSSIAN))
    slot = PoissonSampled(rate=0.5, event=both)
    Books.of(slot).record(PoissonSampled(rate=0.5, event=LAPLACE))
    Books.of(slot).record(PoissonSampled(rate=0.4, event=both))
    with pytest.raises(PlanUnsound):
        Books.of(slot).record(PoissonSampled(rate=0.5, event=Repeated(times=2, event=LAPLACE)))
    with pytest.raises(PlanUnsound):
        # What is not sampled is not what was listed.
        Books.of(slot).record(LAPLACE)


def test_repeating_once_is_the_event():
    assert repeated(1, LAPLACE) == LAPLACE
    assert repeated(2, LAPLACE) == Repeated(times=2, event=LAPLACE)


def both_laws(event):
    """What one answer of this cost shows, at worst, under two neighbouring logs."""
    match event:
        case DiscreteLaplace(scale=scale, sensitivity=moved):
            return cells(LaplaceLaw(scale), 0, moved, NEVER)
        case DiscreteGaussian(sigma=sigma, sensitivity=moved):
            return cells(gaussian_law(sigma), 0, moved, NEVER)
        case TruncatedGeometric(scale=scale, bound=bound, sensitivity=moved):
            return cells(truncated_law(scale, bound), 0, moved, NEVER)
    raise AssertionError(event)


SMALL = {
    "laplace": [
        DiscreteLaplace(scale=scale, sensitivity=moved)
        for scale in (0.3, 0.5, 1.0, 1.1, 3.0)
        for moved in (1, 2, 3)
    ],
    "gaussian": [
        DiscreteGaussian(sigma=sigma, sensitivity=moved)
        for sigma in (0.4, 0.5, 0.6, 1.0, 2.0)
        for moved in (1, 2, 3)
    ],
    "truncated": [
        TruncatedGeometric(scale=scale, bound=bound, sensitivity=moved)
        for scale in (0.5, 1.5)
        for bound in (3, 4, 6)
        for moved in (1, 2, 3)
    ],
}
EPSILONS = (0.0, 0.3, 1.0, 1.9, 2.1, 4.0)


@pytest.mark.parametrize("kind", SMALL)
def test_an_answer_that_fits_is_dominated(kind):
    """At every epsilon, by the exact distributions: so in every composition."""
    laws = {event: both_laws(event) for event in SMALL[kind]}
    deltas = {
        event: np.array([delta_between(*pair, epsilon) for epsilon in EPSILONS])
        for event, pair in laws.items()
    }
    for event, slot in itertools.permutations(laws, 2):
        if fits(event, slot):
            assert (deltas[event][:, 0] <= deltas[slot][:, 1]).all(), (event, slot)


def test_more_gaussian_noise_may_cost_more():
    """Why a Gaussian answer fits its own sigma alone: at epsilon 2, delta rises by half from sigma
    .5 to .6.
    """
    finer, coarser = (DiscreteGaussian(sigma=sigma) for sigma in (0.5, 0.6))
    assert not fits(coarser, finer)
    _, most = delta_between(*both_laws(finer), 2.0)
    least, _ = delta_between(*both_laws(coarser), 2.0)
    assert least > 1.4 * most


def test_sums_of_many_keys_use_all_of_their_charge_and_no_less():
    """Of four keys each moved by the sensitivity: a Gaussian is charged by the norm, else by the
    sum.
    """
    moved = np.full(4, 3.0)
    for noise in (GAUSSIAN, LAPLACE, TRUNCATED):
        assert part_moved(Repeated(times=4, event=noise), moved) == pytest.approx(1)
        assert part_moved(noise, moved[:1]) == pytest.approx(1)
    assert part_moved(Repeated(times=4, event=GAUSSIAN), 2 * moved) == pytest.approx(2)
