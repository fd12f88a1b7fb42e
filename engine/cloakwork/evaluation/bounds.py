"""Shares with confidence bounds, how well scores tell members from others, and how accurate a
release is by what was measured for it.
"""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

import numpy as np
import polars as pl

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.base.naming import LAYERS_TABLE, OTHERS_TABLE, STEPS_TABLE, VARIANTS_TABLE
from cloakwork.base.quantities import Frozen
from cloakwork.evaluation.control_flow import Histogram
from cloakwork.evaluation.risk_figures import Share

NORMAL_95: Final = 1.959963984540054
"""Standard deviations on either side that hold 95 % of a normal distribution."""

NORMAL_999: Final = 3.2905267314919255
"""The same for 99.9 %."""

_POINTS: Final = 200
"""Of a curve that is kept."""


def share_of(chances: Sequence[float], *, census: bool) -> Share:
    """The mean of chances from 0 to 1, with Wilson's score interval at 95 % (Wilson 1927).

    ``census``: nothing was drawn at random, so there is nothing to bound.
    """
    mean = float(np.mean(chances))
    mean = min(1.0, max(0.0, mean))
    middle, half = (mean, 0.0) if census else wilson(mean, len(chances))
    return _bounded(mean, middle, half)


def wilson(
    mean: float,
    number: float,
    normal: float = NORMAL_95,
) -> tuple[float, float]:
    """The middle of Wilson's interval and half its width, ``normal`` standard deviations; a mean of
    chances varies no more than one of outcomes.
    """
    square = normal**2
    middle = (mean * number + square / 2) / (number + square)
    spread = number * mean * (1 - mean) + square / 4
    return middle, normal / (number + square) * math.sqrt(spread)


def excess(attack: Sequence[float], control: Sequence[float]) -> Share:
    """What an attack finds beyond its control: (attack - control) / (1 - control), bounds by
    propagated errors (Giomi et al. 2023, section 3).
    """
    rate, error = wilson(float(np.mean(attack)), len(attack))
    base, base_error = wilson(float(np.mean(control)), len(control))
    value = (rate - base) / (1 - base)
    # Each rate's error times the derivative of the value by that rate (delta method).
    apart = math.hypot(error / (1 - base), base_error * (rate - 1) / (1 - base) ** 2)
    return _bounded(max(0.0, value), value, apart)


def _bounded(share: float, middle: float, half: float) -> Share:
    """An interval that holds the share itself, whatever rounding did."""
    low = min(share, max(0.0, middle - half))
    high = max(share, min(1.0, middle + half))
    return Share(share=share, low=low, high=high)


@dataclass(frozen=True, slots=True)
class JudgedScores:
    """Scores of targets in releases, each release drawn independently of the others: bounds allow
    for what targets of one release have in common.

    ``scores``: float64, shape (releases, targets). ``member``: bool, of the same shape.
    """

    scores: Floats
    member: Bools

    def of_targets(self, chosen: Ints) -> "JudgedScores":
        """Those of some of the targets."""
        return JudgedScores(self.scores[:, chosen], self.member[:, chosen])

    @property
    def can_be_judged(self) -> bool:
        """Whether there are members and others."""
        return bool(self.member.any() and not self.member.all())

    def area(self) -> Share:
        """The area under the curve of true against false positives, at 95 % confidence: of
        clusters of scores (Obuchowski 1997), one cluster a release.
        """
        inside = np.sort(self.scores[self.member])
        outside = np.sort(self.scores[~self.member])
        # For each member which share of the others it is above; for each other, which share of
        # the members is above it. The mean of either is the area.
        above = _share_below(outside, self.scores) * self.member
        below = (1 - _share_below(inside, self.scores)) * ~self.member
        found = float(above.sum() / len(inside))
        # How far the sums of each release are from what the area makes expect there.
        of_members = above.sum(axis=1) - self.member.sum(axis=1) * found
        of_others = below.sum(axis=1) - (~self.member).sum(axis=1) * found
        summed = of_members / len(inside) + of_others / len(outside)
        releases = len(self.scores)
        # Between clusters, with n / (n - 1) as for the variance of any sample (Obuchowski 1997).
        variance = releases / max(1, releases - 1) * float(np.square(summed).sum())
        apart = NORMAL_95 * math.sqrt(variance)
        return _bounded(found, found, apart)

    def threshold(self, at_most: float) -> float:
        """The least score above which at most the share ``at_most`` of the others lies."""
        outside = np.sort(self.scores[~self.member])[::-1]
        # Scores above the one at this place are at most that share of the others.
        return float(outside[min(int(at_most * len(outside)), len(outside) - 1)])

    def rates(self, threshold: float, normal: float = NORMAL_95) -> tuple[Share, Share]:
        """The shares of others and of members that score above ``threshold``; bounds lie
        ``normal`` standard deviations away.
        """
        above = self.scores > threshold
        return _rate(above, ~self.member, normal), _rate(above, self.member, normal)

    def curve(self) -> tuple[tuple[float, float], ...]:
        """Points (false positives, true positives), ascending, some hundred of them, from (0, 0) to
        (1, 1); denser where there are few false positives.
        """
        order = np.argsort(-self.scores.ravel(), kind="stable")
        scores = self.scores.ravel()[order]
        member = self.member.ravel()[order]
        # Equal scores are one point.
        last = np.flatnonzero(np.append(np.diff(scores) != 0, True))
        true = np.cumsum(member)[last] / member.sum()
        false = np.cumsum(~member)[last] / (~member).sum()
        # Of all points those at some shares of false positives, by powers and evenly.
        sought = np.concatenate([np.geomspace(1e-4, 1, _POINTS // 2), np.linspace(0, 1, 51)])
        chosen = np.searchsorted(false, sought, side="right") - 1
        rows = np.unique(chosen[chosen >= 0])
        points = zip(false[rows].tolist(), true[rows].tolist(), strict=True)
        return ((0.0, 0.0), *points)


def _share_below(values: Floats, scores: Floats) -> Floats:
    """Which share of the ascending ``values`` each score is above; equal ones count half."""
    below = np.searchsorted(values, scores) + np.searchsorted(values, scores, side="right")
    shares: Floats = below / (2 * len(values))
    return shares


def _rate(above: Bools, counted: Bools, normal: float) -> Share:
    """The share of the ``counted`` that lie ``above``, with Wilson's bounds for as many
    independent scores as would vary as much from release to release; at least one a release.
    """
    of_release = (above & counted).sum(axis=1)
    sizes = counted.sum(axis=1)
    number, releases = int(sizes.sum()), len(sizes)
    share = float(of_release.sum() / number)
    # The variance of the share, by how far releases are apart.
    squares = float(np.square(of_release - share * sizes).sum())
    variance = releases / max(1, releases - 1) * squares / number**2
    effective = float(releases)
    if variance > 0:
        # As many independent scores as give a binomial share this variance.
        effective = min(float(number), max(effective, share * (1 - share) / variance))
    return _bounded(share, *wilson(share, effective, normal))


# --- how accurate a release is, by its noisy tables alone

NORMAL_90: Final = 1.6448536269514722
"""Standard deviations on either side that hold 90 % of a normal distribution."""

MOST_FIGURES: Final = 12
"""Activities, and steps, that have an interval: the most frequent of the release."""

Variant = tuple[str, ...]
Edge = tuple[str | None, str | None]
"""A directly-follows step; None where cases begin and end."""


class FigureBounds(Frozen):
    """What a release has of a ``figure``, and between which numbers the log's own lies at 90 %.

    ``key``: the activity, or both of a step, None where cases begin and end.
    """

    figure: Literal["cases", "activity", "step"]
    key: tuple[str | None, ...] = ()
    released: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class _Measured:
    """A noisy number with the variance of its noise."""

    value: float = 0.0
    variance: float = 0.0

    def __add__(self, other: "_Measured") -> "_Measured":
        return _Measured(self.value + other.value, self.variance + other.variance)

    def times(self, factor: float) -> "_Measured":
        return _Measured(self.value * factor, self.variance * factor**2)

    def over(self, other: "_Measured") -> "_Measured":
        """The ratio of two independent ones, linearised."""
        ratio = self.value / other.value
        return _Measured(ratio, (self.variance + ratio**2 * other.variance) / other.value**2)

    def scaled(self, factor: "_Measured") -> "_Measured":
        """The product with an independent one, linearised."""
        variance = self.variance * factor.value**2 + max(0.0, self.value) ** 2 * factor.variance
        return _Measured(self.value * factor.value, variance)

    def within(self) -> tuple[float, float]:
        """Bounds at 90 %; counts are not below 0."""
        half = NORMAL_90 * math.sqrt(self.variance)
        return max(0.0, self.value - half), max(0.0, self.value + half)


def figure_bounds(measurements: pl.DataFrame, released: Histogram) -> tuple[FigureBounds, ...]:
    """Intervals of 90 % for the number of cases, and for how often the most frequent activities and
    steps occur, by the noisy tables of a release (``measurements.parquet``): those figures that
    these tables tell.

    ``released``: how many cases of the release follow each variant. Noise on the tables is normal,
    and a figure is a weighted sum of them, so redraws of tables that are perturbed again at their
    noise have this deviation, and none need be drawn (parametric bootstrap; Efron and Tibshirani
    1993, chapter 6). A case's steps are measured as a vector of norm 1; what one unit of that is
    in steps is taken from the release, so the model's error in this ratio is left out, as is what
    the policy leaves out of the log. What coverage comes to is in ``benchmarks/accuracy.py``.
    """
    tables: dict[str, list[tuple[tuple[str | None, ...], _Measured]]] = {}
    for name, key, value, sigma in measurements.iter_rows():
        if name in (VARIANTS_TABLE, OTHERS_TABLE, LAYERS_TABLE, STEPS_TABLE):
            cell = (tuple(json.loads(key)), _Measured(value, sigma**2))
            tables.setdefault(name, []).append(cell)
    return tuple(_bounds_of(tables, released))


def _bounds_of(
    tables: Mapping[str, Sequence[tuple[tuple[str | None, ...], _Measured]]], released: Histogram
) -> Iterator[FigureBounds]:
    variants = [(_variant(key), cell) for key, cell in tables.get(VARIANTS_TABLE, ())]
    others = tables.get(OTHERS_TABLE)
    # Of a log that is cut into layers all cases lie in one.
    parts = [*variants, *others] if others else tables.get(LAYERS_TABLE, ())
    if parts:
        cases = sum((cell for _, cell in parts), _Measured())
        low, high = cases.within()
        yield FigureBounds(figure="cases", released=sum(released.values()), low=low, high=high)
    if STEPS_TABLE not in tables:
        return
    cells = {(key[0], key[1]): cell for key, cell in tables[STEPS_TABLE]}
    # Cases of measured variants are known apart from those that were drawn.
    drawn = Counter(released)
    drawn.subtract({variant: round(cell.value) for variant, cell in variants})
    of_drawn = _StepTable.of(+drawn)
    of_variants = _StepTable.of({variant: 1 for variant, _ in variants})
    of_release = _StepTable.of(released)
    counts = of_release.counted()
    # Norms of drawn cases may differ from real ones: how many cases there are, was measured, too.
    ends = {edge: 0.5 for edge in cells if None in edge}
    (_, number), *_ = others or [((), _Measured())]
    begun = of_drawn.unweighted(ends, _summed(cells, ends))
    scale = number.over(begun) if min(begun.value, number.value) > 0 else _Measured(1.0)
    for kind, key, edges in _figures(counts, cells):
        found = of_drawn.unweighted(edges, _summed(cells, edges)).scaled(scale)
        once = of_variants.of_edges(edges)[0]
        for (_, cell), times in zip(variants, once.tolist(), strict=True):
            found += cell.times(times)
        low, high = found.within()
        seen = float(of_release.of_edges(edges)[0] @ of_release.cases)
        yield FigureBounds(figure=kind, key=key, released=seen, low=low, high=high)


def _summed(cells: Mapping[Edge, _Measured], edges: Mapping[Edge, float]) -> _Measured:
    parts = (cells[edge].times(part) for edge, part in edges.items() if edge in cells)
    return sum(parts, _Measured())


@dataclass(frozen=True, slots=True)
class _StepTable:
    """The steps of variants: ``own``, those of each; ``cases``: float64, how many follow it."""

    own: tuple[Counter[Edge], ...]
    cases: Floats

    @classmethod
    def of(cls, variants: Mapping[Variant, int]) -> "_StepTable":
        own = tuple(Counter(pairwise((None, *each, None)) if each else ()) for each in variants)
        return cls(own, np.array(list(variants.values()), np.float64))

    def counted(self) -> Counter[Edge]:
        """How often each step occurs."""
        found = Counter[Edge]()
        for own, cases in zip(self.own, self.cases.tolist(), strict=True):
            for edge, count in own.items():
                found[edge] += count * int(cases)
        return found

    def of_edges(self, edges: Mapping[Edge, float]) -> tuple[Floats, Floats]:
        """How often any of ``edges`` occurs in a case of each variant, and what that comes to where
        its steps are a vector of norm 1.
        """
        count = np.array(
            [sum(own[edge] * part for edge, part in edges.items()) for own in self.own], np.float64
        )
        norm = [math.sqrt(sum(times**2 for times in own.values())) for own in self.own]
        return count, count / np.maximum(norm, 1.0)

    def unweighted(self, edges: Mapping[Edge, float], measured: _Measured) -> _Measured:
        """How often ``edges`` occur, by what was measured of vectors of norm 1: a unit of that is
        taken to be as many steps as in the drawn cases, give or take what two samples of as many
        cases differ by (linearised).
        """
        count, weight = self.of_edges(edges)
        in_all = float(weight @ self.cases)
        if in_all <= 0:
            return _Measured(0.0, measured.variance)
        ratio = float(count @ self.cases) / in_all
        apart = float((count - ratio * weight) ** 2 @ self.cases) / in_all**2
        value = max(0.0, measured.value)
        return _Measured(measured.value * ratio, measured.variance * ratio**2 + value**2 * apart)


def _figures(
    counts: Mapping[Edge, int], cells: Mapping[Edge, _Measured]
) -> Iterator[tuple[Literal["activity", "step"], tuple[str | None, ...], dict[Edge, float]]]:
    """The figures, each with the parts of steps that add up to it."""
    often = Counter[str]()
    for (first, _), count in counts.items():
        if first is not None:
            often[first] += count
    for activity, _ in often.most_common(MOST_FIGURES):
        # Each event has a step to it and one from it: their mean has less noise than either.
        parts = {edge: 0.5 * edge.count(activity) for edge in cells if activity in edge}
        yield "activity", (activity,), parts
    for edge, _ in Counter(counts).most_common(MOST_FIGURES):
        yield "step", edge, {edge: 1.0}


def _variant(key: Sequence[str | None]) -> Variant:
    return tuple(label for label in key if label is not None)
