"""What one case adds to counted transitions: at most norm one, by hand and in general."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloakwork.base.arrays import Ints
from cloakwork.base.costs import DiscreteGaussian, Repeated
from cloakwork.kernel import Cases, vector_event, vectors_of
from cloakwork.kernel.vectors import Sums
from cloakwork.mechanisms.variants.markov_params import (
    MOST_CELLS,
    SPREAD,
    UNIT_NORM,
    activities,
    codes_after,
    transitions_of,
    variant,
)
from conftest import runs
from mechanisms.variants.by_hand import LABELS, mass_by_hand

ALPHABET = tuple(str(label) for label in range(1, LABELS + 1))
COURSES = st.lists(
    st.lists(st.integers(1, LABELS), min_size=1, max_size=300), min_size=1, max_size=5
)


def masses(variants: list[list[int]], order: int, cases: Ints | None = None) -> Sums:
    """The sums of the vectors of so many cases of each variant."""
    coded = Cases.of([tuple(map(str, labels)) for labels in variants], ALPHABET)
    weight = np.ones(len(variants), np.int64) if cases is None else cases
    return vectors_of(coded, transitions_of(order), SPREAD).sums(weight)


@given(COURSES, st.integers(1, 3))
@settings(max_examples=runs(40))
def test_one_case_has_at_most_norm_one_in_at_most_64_cells(
    variants: list[list[int]], order: int
) -> None:
    """Exactly, in integers: that is what the noise is charged for."""
    for labels in variants:
        mass = masses([labels], order).sums
        assert np.count_nonzero(mass) <= MOST_CELLS
        assert (mass >= 0).all()
        assert sum(int(step) ** 2 for step in mass) <= UNIT_NORM**2


@given(st.lists(st.integers(0, 99), min_size=1, max_size=300))
@settings(max_examples=runs(40))
def test_one_case_has_at_most_norm_one_over_activities(steps: list[int]) -> None:
    """In at most 64 of them, the first; and nearly norm one: each counts once."""
    cases = Cases.of([tuple(map(str, steps))], [str(label) for label in range(100)])
    mass = vectors_of(cases, activities, SPREAD).sums(np.ones(1, np.int64)).sums
    assert np.count_nonzero(mass) == min(len(set(steps)), MOST_CELLS)
    square = sum(int(each) ** 2 for each in mass)
    assert (UNIT_NORM - 64) ** 2 <= square <= UNIT_NORM**2


@given(COURSES, st.integers(1, 3), st.data())
@settings(max_examples=runs(30))
def test_cases_add_up(variants: list[list[int]], order: int, data: st.DataObject) -> None:
    """A table is the sum over its cases, so one case more or less changes it by that case's vector
    alone.
    """
    cases = np.array(
        data.draw(st.lists(st.integers(0, 9), min_size=len(variants), max_size=len(variants))),
        np.int64,
    )
    whole = masses(variants, order, cases)
    parts = [masses([labels], order).at(whole.keys) for labels in variants]
    assert whole.sums.tolist() == (np.array(parts) * cases[:, None]).sum(axis=0).tolist()


@pytest.mark.parametrize("order", [1, 2, 3])
def test_transitions_are_those_of_the_variant(order: int) -> None:
    """Against plain counting, to within the rounding."""
    labels = [1, 2, 2, 3, 1, 2, 4, 4, 4]
    by_hand = mass_by_hand(labels, order)
    found = masses([labels], order)
    assert dict(zip(found.keys.tolist(), found.sums.tolist(), strict=True)) == {
        code: pytest.approx(mass, abs=1) for code, mass in by_hand.items()
    }


def test_codes_are_numbers_to_the_base() -> None:
    """START 1, then 1, 2 or END, over two labels."""
    assert codes_after([(0, 1)], 2).tolist() == [[4 + 1, 4 + 2, 4 + 3]]
    assert codes_after([(0,), (2,)], 2).tolist() == [[1, 2, 3], [9, 10, 11]]


def test_cases_without_events_count_for_nothing() -> None:
    """Whatever stands before or after them."""
    cases = Cases.of([(), ("1",), (), ("1", "2"), ()], ALPHABET)
    for query in (transitions_of(1), transitions_of(3), variant, activities):
        assert set(query(cases).case.tolist()) <= {1, 3}
    assert not len(transitions_of(2)(Cases.of([(), ()], ALPHABET)).case)


@pytest.mark.parametrize(("norm", "cells"), [(8192, 1), (8192, 64), (3 * 8192, 192), (5, 3)])
def test_a_vector_is_charged_for_no_less_than_its_norm(norm: int, cells: int) -> None:
    """Cells times the square of what each is charged for covers the square of the norm."""
    event = vector_event(5000.0, norm, cells)
    times, one = (event.times, event.event) if isinstance(event, Repeated) else (1, event)
    assert isinstance(one, DiscreteGaussian)
    assert times == cells
    assert times * one.sensitivity**2 >= norm**2
