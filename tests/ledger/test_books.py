"""Amounts of a book: what is left of a total, and what a replacement costs."""

import math
from fractions import Fraction

import pytest

from cloakwork.base.costs import Cost
from cloakwork.ledger.books import Amount, for_replacement


@pytest.mark.parametrize(
    ("spent", "total", "left"),
    [
        (Amount(Fraction(1)), 4.0, 3.0),
        (Amount(Fraction(5)), 4.0, 0.0),
        # What has no bound leaves nothing.
        (Amount(None), 4.0, 0.0),
        (Amount(Fraction(1)), math.inf, math.inf),
    ],
)
def test_what_is_left_is_never_more_than_the_rest(spent: Amount, total: float, left: float) -> None:
    """And the share of a divisor, rounded down."""
    assert spent.left_of(Cost(epsilon=total, delta=1e-6)).epsilon == left
    assert spent.left_of(Cost(epsilon=total, delta=1e-6), 2).epsilon == left / 2


def test_a_replacement_is_one_removed_and_one_added() -> None:
    """Twice epsilon; delta (1 + e**epsilon) times, and 1 where that is beyond all measure."""
    assert for_replacement(Amount(Fraction(1))) == Amount(Fraction(2))
    twice = for_replacement(Amount(Fraction(1), Fraction(1, 10**6)))
    assert twice.epsilon == 2
    assert float(twice.delta) == pytest.approx((1 + math.e) * 1e-6, rel=1e-9)
    assert float(twice.delta) >= (1 + math.e) * 1e-6
    assert for_replacement(Amount(None)) == Amount(None)
    beyond = for_replacement(Amount(Fraction(10**6), Fraction(1, 10**6)))
    assert beyond == Amount(Fraction(2 * 10**6), Fraction(1))
