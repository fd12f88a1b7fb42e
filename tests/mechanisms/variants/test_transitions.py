"""What one case adds to counted transitions: at most norm one, by hand and in general."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloakwork.mechanisms.variants.transitions import (
    MOST_CELLS,
    UNIT_NORM,
    PaddedVariants,
    transition_masses,
    vector_noise,
)
from cloakwork.privacy_event import DiscreteGaussian, Repeated
from conftest import runs
from mechanisms.variants.by_hand import LABELS, mass_by_hand

COURSES = st.lists(
    st.lists(st.integers(1, LABELS), min_size=1, max_size=300), min_size=1, max_size=5
)


@given(COURSES, st.integers(1, 3))
@settings(max_examples=runs(40))
def test_one_case_has_at_most_norm_one_in_at_most_64_cells(
    variants: list[list[int]], order: int
) -> None:
    """Exactly, in integers: that is what the noise is charged for."""
    for variant in variants:
        mass = transition_masses(
            PaddedVariants.from_codes([variant], np.array([1]), LABELS), order
        ).mass
        assert mass.size <= MOST_CELLS
        assert (mass >= 0).all()
        assert sum(int(step) ** 2 for step in mass) <= UNIT_NORM**2


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
    whole = transition_masses(PaddedVariants.from_codes(variants, cases, LABELS), order)
    parts = [
        transition_masses(
            PaddedVariants.from_codes([variant], np.array([1]), LABELS), order
        ).mass_of(whole.code)
        for variant in variants
    ]
    assert whole.mass.tolist() == (np.array(parts) * cases[:, None]).sum(axis=0).tolist()


@pytest.mark.parametrize("order", [1, 2, 3])
def test_transitions_are_those_of_the_variant(order: int) -> None:
    """Against plain counting, to within the rounding."""
    variant = [1, 2, 2, 3, 1, 2, 4, 4, 4]
    by_hand = mass_by_hand(variant, order)
    found = transition_masses(PaddedVariants.from_codes([variant], np.array([1]), LABELS), order)
    assert dict(zip(found.code.tolist(), found.mass.tolist(), strict=True)) == {
        code: pytest.approx(mass, abs=1) for code, mass in by_hand.items()
    }


@pytest.mark.parametrize(("norm", "cells"), [(8192, 1), (8192, 64), (3 * 8192, 192), (5, 3)])
def test_a_vector_is_charged_for_no_less_than_its_norm(norm: int, cells: int) -> None:
    """Cells times the square of what each is charged for covers the square of the norm."""
    event = vector_noise(5000.0, norm, cells)
    assert isinstance(event, Repeated)
    assert isinstance(event.event, DiscreteGaussian)
    assert event.times * event.event.sensitivity**2 >= norm**2
