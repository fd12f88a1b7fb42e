"""Invented values of attributes, from declared domains, ranges, bins and hierarchies."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.base.facts import RangeType
from cloakwork.base.globs import is_glob
from cloakwork.policy.declared import number_of_end
from cloakwork.policy.model import AttributeRule, Policy

USUAL_VALUES: Final = 10
"""Values of an attribute of which nothing is declared."""

MOST_VALUES: Final = 200
"""Of a declared domain, so many values occur at most."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NO_VALUES: Final = ("control-flow", "timestamp", "identifier")


@dataclass(frozen=True, slots=True)
class InventedAttribute:
    """One attribute: either ``values`` of which each has a share, or numbers from ``low`` to
    ``high``, of ``kind``.
    """

    name: str
    values: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    kind: RangeType = "number"

    def of_cases(self, count: int, draw: np.random.Generator) -> pl.Series:
        """A value for each case."""
        return self._drawn(np.zeros(count, np.int64), 1, np.ones(count, np.bool_), draw)

    def of_events(self, codes: Ints, activities: int, draw: np.random.Generator) -> pl.Series:
        """A value for each event of the activities that have the attribute: of all, or of two. At
        each of them values have likelihoods of their own.
        """
        having = np.full(activities, draw.random() < 0.5)
        having[draw.integers(0, activities, 2)] = True
        return self._drawn(codes, activities, having[codes], draw)

    def _drawn(
        self, groups: Ints, count: int, present: Bools, draw: np.random.Generator
    ) -> pl.Series:
        """``groups``: which table of shares an event or a case draws from, int64, shape (rows,)."""
        if self.values:
            rows = self._drawn_rows(groups, count, draw)
            found = pl.Series(self.name, self.values, strict=False).gather(rows)
        else:
            found = self._numbers(draw.beta(2, 5, count)[groups], len(groups), draw)
        return (
            pl.select(pl.when(pl.Series(present)).then(found).otherwise(None))
            .to_series()
            .alias(self.name)
        )

    def _drawn_rows(self, groups: Ints, count: int, draw: np.random.Generator) -> Ints:
        shares = 1.0 / np.arange(1, len(self.values) + 1)
        edges = np.cumsum(shares / shares.sum())
        ranks = np.minimum(np.searchsorted(edges, draw.random(len(groups))), len(edges) - 1)
        orders = np.array([draw.permutation(len(self.values)) for _ in range(count)])
        return np.asarray(orders[groups, ranks], np.int64)

    def _numbers(self, centres: Floats, count: int, draw: np.random.Generator) -> pl.Series:
        """Numbers about a centre of their group, both as shares of the range."""
        place = np.clip(centres + 0.12 * draw.standard_normal(count), 0.0, 1.0)
        numbers = self.low + (self.high - self.low) * place
        if self.kind == "number":
            return pl.Series(self.name, np.round(numbers, 2))
        numbers = np.floor(numbers).astype(np.int64)
        if self.kind == "integer":
            return pl.Series(self.name, numbers)
        unit = timedelta(days=1) if self.kind == "date" else timedelta(seconds=1)
        dates = pl.Series(self.name, numbers * round(unit.total_seconds()) * 1_000_000)
        return dates.cast(pl.Datetime("us", "UTC"))


def attributes_of(
    policies: Sequence[Policy], units: set[str], assumed: list[str]
) -> tuple[InventedAttribute, ...]:
    """Every attribute that a policy names and may release or group by; what is assumed of one is
    added to ``assumed``.
    """
    rules = dict[str, AttributeRule]()
    for policy in policies:
        for name, rule in policy.spec.attributes.items():
            without_values = rule.role in _NO_VALUES or rule.treatment == "drop"
            if not (is_glob(name) or without_values or name in units) and (
                name not in rules or not _tells(rules[name])
            ):
                rules[name] = rule
    return tuple(_attribute(name, rule, assumed) for name, rule in rules.items())


def _tells(rule: AttributeRule) -> bool:
    return any(each is not None for each in (rule.domain, rule.range, rule.bins, rule.hierarchy))


def _attribute(name: str, rule: AttributeRule, assumed: list[str]) -> InventedAttribute:
    if rule.domain is not None:
        return InventedAttribute(name, rule.domain[:MOST_VALUES])
    if rule.range is not None:
        low, high = map(number_of_end, rule.range)
        return InventedAttribute(name, low=low, high=high, kind=rule.value_type())
    if rule.bins is not None:
        return InventedAttribute(name, low=float(rule.bins[0]), high=float(rule.bins[-1]))
    if rule.hierarchy is not None:
        return InventedAttribute(name, tuple(_leaves(rule.hierarchy))[:MOST_VALUES])
    assumed.append(f"{USUAL_VALUES} values of '{name}': declare its domain or range")
    return InventedAttribute(name, tuple(f"value {row}" for row in range(1, USUAL_VALUES + 1)))


def _leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, Mapping):
        for below in tree.values():
            yield from _leaves(below)
    elif isinstance(tree, list | tuple):
        for below in tree:
            yield from _leaves(below)
    else:
        yield tree
