"""The books of a dataset: one for each protected unit, one for metric privacy, and what a charge
counts in each.

A book says what one unit (a case, or a person identified by an attribute) risks by all releases
together. A charge for another unit is converted where that is possible (``privacy.md`` sections 1
and 4):

- from case to person by group privacy, with a *declared* bound on how many cases of the dataset one
  person owns;
- from person to case as a replacement: without one of its cases a person may be represented by
  another, so one case less is one person less and one person more;
- from case to employee as a group of twice as many cases as hold events of one employee, each of
  which changes; from employee to case as it is, since that noise protects single cases as well;
- into the metric book from whatever differential privacy covers timestamps: as it is where the
  control flow is given, as a replacement otherwise.

What cannot be converted is not added up. All of it is exact: rational numbers, rounded up where exp
is involved.
"""

import math
from collections.abc import Mapping
from datetime import timedelta
from fractions import Fraction
from functools import lru_cache
from typing import Final

from cloakwork.base.costs import Charge, Cost, Currency
from cloakwork.base.exact import delta_of_group, exactly, exp_upper, rounded_down, rounded_up
from cloakwork.base.facts import CASE, OF_EVENTS
from cloakwork.base.frozen import frozen

_GRID: Final = 1 << 300
"""Converted deltas are rounded up to multiples of its inverse, so that sums of them stay small
numbers to compute with.
"""


@frozen
class Book:
    """One account of a dataset. ``unit``: whom it is kept for; None for metric privacy, and where
    nobody says.
    """

    currency: Currency
    unit: str | None = None

    @property
    def name(self) -> str:
        """Its name in JSON and policies: a unit's, ``metric``, ``local`` or ``local:case``."""
        if self.currency == "unit":
            return self.unit or "unit"
        if self.unit in (None, "value"):
            return self.currency
        return f"{self.currency}:{self.unit}"

    @property
    def by_window(self) -> bool:
        """Whether each window of a growing log has an account of its own in it."""
        return self.currency != "unit" or self.unit in (CASE, None)


METRIC: Final = Book("metric")


@frozen
class DeclaredTotal:
    """The most that all releases together may cost in one book; for ``metric``, over ``shift``.

    ``apart_from``: the other units that its policy lists under ``budget.books``; it counts nothing
    that was charged for these. Whatever else was charged is converted. ``of_dataset``: whether the
    dataset was declared with it, and not a policy.
    """

    book: Book
    cost: Cost
    shift: timedelta | None = None
    apart_from: tuple[str, ...] = ()
    of_dataset: bool = False


@frozen
class Amount:
    """An exact cost; ``epsilon`` None stands for no bound."""

    epsilon: Fraction | None = Fraction(0)
    delta: Fraction = Fraction(0)

    @classmethod
    def of(cls, cost: Cost) -> "Amount":
        """A cost as people write it."""
        epsilon = None if math.isinf(cost.epsilon) else exactly(cost.epsilon)
        return cls(epsilon, exactly(cost.delta))

    def __add__(self, other: "Amount") -> "Amount":
        """Basic composition."""
        delta = self.delta + other.delta
        if self.epsilon is None or other.epsilon is None:
            return Amount(None, delta)
        return Amount(self.epsilon + other.epsilon, delta)

    def times(self, count: int) -> "Amount":
        """``count`` such costs together."""
        epsilon = None if self.epsilon is None else count * self.epsilon
        return Amount(epsilon, count * self.delta)

    def within(self, total: Cost) -> bool:
        """Whether it is at most ``total``."""
        if self.delta > exactly(total.delta):
            return False
        if math.isinf(total.epsilon):
            return True
        return self.epsilon is not None and self.epsilon <= exactly(total.epsilon)

    def left_of(self, total: Cost, divisor: int = 1) -> Cost:
        """``total`` less this amount, a ``divisor``-th of its epsilon, rounded down and never below
        zero.
        """
        if math.isinf(total.epsilon):
            epsilon = math.inf
        elif self.epsilon is None:
            epsilon = 0.0
        else:
            exact = max(Fraction(0), exactly(total.epsilon) - self.epsilon)
            epsilon = rounded_down(exact / divisor)
        delta = max(Fraction(0), exactly(total.delta) - self.delta)
        return Cost(epsilon=epsilon, delta=rounded_down(delta))

    def as_cost(self) -> Cost:
        """The least floats that read as decimals at least as much."""
        epsilon = math.inf if self.epsilon is None else rounded_up(self.epsilon)
        return Cost(epsilon=epsilon, delta=min(1.0, rounded_up(self.delta)))


NOTHING: Final = Amount()


@lru_cache(maxsize=4096)
def for_group(amount: Amount, size: int) -> Amount:
    """What a guarantee for one costs a group of ``size`` (``delta_of_group``); delta is rounded
    up.
    """
    if size == 1 or amount.epsilon is None:
        return amount
    delta = delta_of_group(amount.epsilon, amount.delta, size)
    return Amount(size * amount.epsilon, _rounded_up_delta(delta))


@lru_cache(maxsize=4096)
def for_replacement(amount: Amount) -> Amount:
    """What adding or removing costs as a replacement, one removed and one added: (2 eps, (1 +
    e**eps) delta).
    """
    if amount.epsilon is None:
        return amount
    if amount.delta == 0:
        return Amount(2 * amount.epsilon)
    factor = exp_upper(amount.epsilon)
    if factor is None:
        return Amount(2 * amount.epsilon, Fraction(1))
    return Amount(2 * amount.epsilon, _rounded_up_delta(amount.delta * (1 + factor)))


def _rounded_up_delta(delta: Fraction) -> Fraction:
    """A delta on the grid, at most 1."""
    # Twice negated, a division that rounds down rounds up.
    cells = -(-delta.numerator * _GRID // delta.denominator)
    return min(Fraction(1), Fraction(cells, _GRID))


def shifts_covering(shift: timedelta | None, charged: timedelta | None) -> int:
    """How many charged shifts cover ``shift``: metric privacy over k shifts costs k times (triangle
    inequality).
    """
    if shift is None or charged is None:
        return 1
    # Twice negated, a division that rounds down rounds up.
    return -(-shift // charged)


def cost_against_total(
    charge: Charge, total: DeclaredTotal, cases: Mapping[str, int]
) -> Amount | None:
    """What ``charge`` counts against ``total``; None where it cannot be converted.

    ``cases``: by unit, the most cases of the dataset that one such unit owns, as declared.
    """
    if total.book.currency == charge.currency == "unit" and charge.unit in total.apart_from:
        return NOTHING
    return cost_in_book(charge, total.book, cases, total.shift)


def cost_in_book(
    charge: Charge, book: Book, cases: Mapping[str, int], shift: timedelta | None = None
) -> Amount | None:
    """What ``charge`` counts in ``book``; None where it cannot be converted. ``shift``: for metric
    privacy.
    """
    # Rows not listed count nothing: differential privacy has no part in books of single values.
    amount = Amount.of(charge.cost)
    match book.currency, charge.currency:
        case "unit", "unit":
            return _for_unit(charge.unit, amount, book.unit, cases)
        case "metric", "metric":
            return amount.times(shifts_covering(shift, charge.shift))
        case "metric", "unit" if charge.times is not None:
            return amount if charge.times == "bounded" else for_replacement(amount)
        case "local", "local":
            # One value is part of one case; how many values a case has is not declared.
            return amount if charge.unit == book.unit or book.unit != CASE else None
    return NOTHING


def _for_unit(
    charged: str | None, amount: Amount, unit: str | None, cases: Mapping[str, int]
) -> Amount | None:
    if charged == unit:
        return amount
    # From a person to a case as a replacement, and from a case to a person as a group.
    # What protects the events of an employee protects several cases together, and so each of them.
    if charged != CASE and not str(charged).startswith(OF_EVENTS):
        if unit not in (CASE, None):
            return None  # two attributes that identify persons, in ways that cannot be compared
        amount = for_replacement(amount)
    if unit in (CASE, None):
        return amount
    if unit not in cases:
        return None
    # Without the events of one employee a case is another one: one removed, and one added.
    changes = 2 if str(unit).startswith(OF_EVENTS) else 1
    return for_group(amount, changes * cases[str(unit)])
