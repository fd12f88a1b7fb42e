"""Shares with confidence bounds, how well scores tell members from others, and how accurate a
release is by what was measured for it.
"""

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, Literal

import numpy as np
import polars as pl
from pydantic import JsonValue

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.base.frozen import frozen
from cloakwork.base.naming import (
    ACTIVITY,
    DURATIONS_TABLE,
    LAYERS_TABLE,
    OTHERS_TABLE,
    STEPS_TABLE,
    TIMESTAMP,
    VALUES_TABLE,
    VARIANTS_TABLE,
    WAITS_TABLE,
    WAVES_TABLE,
    values_of,
)
from cloakwork.base.quantities import Frozen
from cloakwork.evaluation.control_flow import Histogram
from cloakwork.evaluation.risk_figures import Share
from cloakwork.evaluation.whole_log import Timed
from cloakwork.log.eventlog import EventLog

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
    mean = min(1.0, max(0.0, float(np.mean(chances))))
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
    propagated errors (Giomi et al. 2023, section 3). Of an attack that finds less than its control
    they are those of one that finds as much: no few targets show that nobody is found.
    """
    rate, error = wilson(float(np.mean(attack)), len(attack))
    base, base_error = wilson(float(np.mean(control)), len(control))
    value = max(0.0, (rate - base) / (1 - base))
    # Each rate's error times the derivative of the value by that rate (delta method).
    apart = math.hypot(error / (1 - base), base_error * (rate - 1) / (1 - base) ** 2)
    return _bounded(value, value, apart)


def _bounded(share: float, middle: float, half: float) -> Share:
    """An interval that holds the share itself, whatever rounding did."""
    low = min(share, max(0.0, middle - half))
    high = max(share, min(1.0, middle + half))
    return Share(share=share, low=low, high=high)


@frozen
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
        return _bounded(found, found, NORMAL_95 * math.sqrt(variance))

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
    number = int(sizes.sum())
    releases = len(sizes)
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

MOST_VALUES: Final = 5
"""The same of each attribute."""

MODEL_ERROR: Final = 0.5
"""By how much what a case weighs usually differs between release and log, in deviations of what
cases of the release differ by: .2 to .5 on eight logs (``benchmarks/accuracy.py``).
"""

LARGEST: Final = 1e100
"""Numbers of tables that are read: squares and sums of them stay finite."""

Key = tuple[JsonValue, ...]
Figure = Literal["cases", "activity", "step", "duration", "wait", "value", "number"]


class FigureBounds(Frozen):
    """What a release has of a ``figure``, and between which numbers the log's own lies at 90 %: how
    often an ``activity`` or a ``step`` occurs; the median ``duration`` of cases of two events or
    more, and ``wait`` between two events, in seconds; the share of a ``value`` in those that an
    attribute has; the median ``number``.

    ``key``: the activity, or both of a step, None where cases begin and end; the attribute, and the
    value.
    """

    figure: Figure
    key: tuple[JsonValue, ...] = ()
    released: float
    low: float
    high: float


@frozen
class _Measured:
    """A noisy number with the variance of its noise."""

    value: float
    variance: float

    def within(self) -> tuple[float, float]:
        """Bounds at 90 %; counts are not below 0."""
        half = NORMAL_90 * math.sqrt(self.variance)
        return max(0.0, self.value - half), max(0.0, self.value + half)


@frozen
class _NoisyTable:
    """Noisy numbers, ``value`` with deviations ``sigma``, by ``keys``."""

    keys: tuple[Key, ...]
    value: Floats
    sigma: Floats

    @classmethod
    def of(cls, measurements: pl.DataFrame, name: str) -> "_NoisyTable":
        """That of a name; raises ValueError for keys that are no lists of texts and numbers, and
        numbers that are none of cases.
        """
        rows = measurements.filter(pl.col("table") == name)
        keys = tuple(tuple(json.loads(key)) for key in rows["key"])
        if any(isinstance(part, list | dict) for key in keys for part in key):
            raise ValueError("a key holds what is neither a text nor a number")
        value = rows["value"].to_numpy()
        sigma = rows["sigma"].to_numpy()
        if max(np.abs(value).max(initial=0), sigma.max(initial=0)) > LARGEST:
            raise ValueError("a number is larger than any count")
        return cls(keys, value, sigma)

    def chosen(self, places: Sequence[int]) -> "_NoisyTable":
        """Some of the rows."""
        keys = tuple(self.keys[place] for place in places)
        return _NoisyTable(keys, self.value[places], self.sigma[places])

    def unselected(self) -> "_NoisyTable":
        """Less what noise added, on average, to numbers that are told since they pass a threshold,
        about their least: the mean of a normal cut off there.
        """
        from scipy.special import ndtr  # scipy loads where it is used

        if not self.keys:
            return self
        above = (self.value - self.value.min()) / self.sigma
        added = self.sigma * np.exp(-(above**2) / 2) / (math.sqrt(2 * math.pi) * ndtr(above))
        return _NoisyTable(self.keys, self.value - added, self.sigma)

    def total(self, part: Floats) -> _Measured:
        """The sum, of each key so much."""
        return _Measured(float(part @ self.value), float(part**2 @ self.sigma**2))


@frozen
class _Entries:
    """What released cases have at the keys of a table: in ``row`` at ``key`` (both int64) ``count``
    of them, which ``weight`` (float64) was measured of; one row a case, or a variant.
    """

    rows: int
    row: Ints
    key: Ints
    count: Floats
    weight: Floats

    def counted(self, part: Floats) -> Floats:
        """How many each row has: shape (rows,)."""
        return _summed(self.row, self.count * part[self.key], self.rows)

    def total(self, table: _NoisyTable, part: Floats, cases: Floats | None = None) -> _Measured:
        """How many the log has, by what was measured: a unit of it is taken to be as many as in the
        released ``cases`` (of each row; None: one), give or take what two samples of as many differ
        by, and the model's error (linearised).
        """
        count = self.counted(part)
        weight = _summed(self.row, self.weight * part[self.key], self.rows)
        times = np.ones(self.rows) if cases is None else cases
        measured = table.total(part)
        in_all = float(weight @ times)
        if in_all <= 0:
            return _Measured(0.0, measured.variance)
        ratio = float(count @ times) / in_all
        apart = float((count - ratio * weight) ** 2 @ times) / in_all**2
        each = np.divide(count, weight, out=np.zeros_like(count), where=weight > 0)
        spread = float((each - ratio) ** 2 * weight @ times) / in_all
        error = max(0.0, measured.value) ** 2 * (apart + MODEL_ERROR**2 * spread)
        return _Measured(measured.value * ratio, measured.variance * ratio**2 + error)


def figure_bounds(
    measurements: pl.DataFrame,
    released: Histogram,
    sample: EventLog | None = None,
    grid: float = 0.0,
) -> tuple[FigureBounds, ...]:
    """Intervals of 90 % for the log's own figures, by the noisy tables of a release
    (``measurements.parquet``): those figures that these tables tell. The log is meant with the
    activities that the release has, others left out.

    ``released``: how many cases of the release follow each variant; ``sample``: cases of it with
    all else, times on a ``grid`` of so many seconds. Noise on the tables is normal, and a figure
    is a weighted sum of them, so redraws of tables that are perturbed again at their noise have
    this deviation, and none need be drawn (parametric bootstrap; Efron and Tibshirani 1993,
    chapter 6). What a case contributes was measured as a vector of norm 1; what one unit of that
    is, is taken from the release with ``MODEL_ERROR``. Raises ValueError for tables of another
    form. What coverage comes to is in ``benchmarks/accuracy.py``.
    """
    found = list(_of_flow(measurements, released))
    if sample is not None and TIMESTAMP in sample.events.columns:
        # Both ends of a span were put on the grid, to the nearest point: it moved by less than one.
        found += (
            span.model_copy(update={"low": max(0.0, span.low - grid), "high": span.high + grid})
            for span in _of_times(measurements, sample)
        )
    if sample is not None:
        found += _of_values(measurements, sample)
    return tuple(found)


def _of_flow(measurements: pl.DataFrame, released: Histogram) -> Iterator[FigureBounds]:
    names = (VARIANTS_TABLE, OTHERS_TABLE, LAYERS_TABLE, STEPS_TABLE)
    known, others, layers, steps = (_NoisyTable.of(measurements, name) for name in names)
    counted = np.rint(known.value)
    known = known.unselected()
    # Of a log that is cut into layers all cases lie in one.
    if others.keys or layers.keys:
        parts = (known, others) if others.keys else (layers,)
        value = sum(float(part.value.sum()) for part in parts)
        variance = sum(float(part.sigma @ part.sigma) for part in parts)
        yield _told("cases", sum(released.values()), _Measured(value, variance).within())
    if not steps.keys:
        return
    variants = dict.fromkeys([*(tuple(map(str, key)) for key in known.keys), *released])
    own = [Counter(pairwise((None, *each, None)) if each else ()) for each in variants]
    place = {key: number for number, key in enumerate(steps.keys)}
    entries = [
        (row, place[edge], count, count / math.sqrt(sum(times**2 for times in each.values())))
        for row, each in enumerate(own)
        for edge, count in each.items()
        if edge in place
    ]
    row, key, count, weight = np.array(entries, np.float64).reshape(-1, 4).T
    table = _Entries(len(own), row.astype(np.int64), key.astype(np.int64), count, weight)
    cases = np.array([released.get(each, 0) for each in variants], np.float64)
    # Cases of measured variants are known apart from those that were drawn.
    drawn = cases.copy()
    drawn[: len(known.keys)] -= counted
    drawn = np.maximum(drawn, 0.0)
    often = table.count * cases[table.row]
    for kind, named, part in _flow_figures(steps, _summed(table.key, often, len(place))):
        once = table.counted(part)
        rest = table.total(steps, part, drawn)
        certain = known.total(once[: len(known.keys)])
        both = _Measured(rest.value + certain.value, rest.variance + certain.variance)
        yield _told(kind, float(once @ cases), both.within(), named)


def _flow_figures(steps: _NoisyTable, often: Floats) -> Iterator[tuple[Figure, Key, Floats]]:
    """The figures of steps that occur ``often`` in the release, each with the part that every step
    has in it.
    """
    counts = Counter[JsonValue]()
    for (first, _), count in zip(steps.keys, often.tolist(), strict=True):
        if first is not None and count:
            counts[first] += count
    for activity, _ in counts.most_common(MOST_FIGURES):
        # Each event has a step to it and one from it: their mean has less noise than either.
        yield "activity", (activity,), np.array([key.count(activity) / 2 for key in steps.keys])
    for place in np.argsort(-often, kind="stable")[:MOST_FIGURES].tolist():
        if often[place]:
            yield "step", steps.keys[place], np.eye(1, len(often), place)[0]


def _of_times(measurements: pl.DataFrame, sample: EventLog) -> Iterator[FigureBounds]:
    places, waits = Timed(sample).gaps()
    case = sample.case_of[places]
    several = np.unique(case)
    durations = _summed(case, waits, sample.case_count)[several]
    # A case counts in three tables of durations alike.
    yield from _of_spans("duration", DURATIONS_TABLE, measurements, several, durations, 3**-0.5)
    waves = _NoisyTable.of(measurements, WAVES_TABLE)
    if waves.keys and len(durations):
        within = _median_by_waves(waves, len(durations))
        yield _told("duration", float(np.median(durations)), within)
    yield from _of_spans("wait", WAITS_TABLE, measurements, case, waits, 1.0)


def _of_spans(
    figure: Figure, name: str, measurements: pl.DataFrame, case: Ints, seconds: Floats, norm: float
) -> Iterator[FigureBounds]:
    """``seconds`` of each ``case``, whose vector in the table has this norm."""
    table = _NoisyTable.of(measurements, name)
    # Of all cases; other rows are of an activity.
    table = table.chosen([place for place, key in enumerate(table.keys) if len(key) == 2])
    if not table.keys or not len(seconds):
        return
    bounds, kind = _bins_of(table, 0)
    # What a case has in a bin is one entry.
    code = case * len(bounds) + _place(seconds, bounds)
    once, times = np.unique(code, return_counts=True)
    row, place = np.divmod(once, len(bounds))
    count = times.astype(np.float64)
    weight = norm * count / np.sqrt(_summed(row, count**2, int(row.max()) + 1))[row]
    entries = _Entries(int(row.max()) + 1, row, np.argsort(kind)[place], count, weight)
    yield _told(figure, float(np.median(seconds)), _median(table, entries, kind, bounds))


def _of_values(measurements: pl.DataFrame, sample: EventLog) -> Iterator[FigureBounds]:
    every = _NoisyTable.of(measurements, VALUES_TABLE)
    by_name: dict[JsonValue, list[int]] = {}
    for place, key in enumerate(every.keys):
        # The attribute, the activity, and the value, or both ends of its bin.
        if len(key) in (3, 4) and key[0] in sample.columns:
            by_name.setdefault(key[0], []).append(place)
    for name, places in by_name.items():
        yield from _of_attribute(str(name), every.chosen(places), sample)


def _of_attribute(name: str, table: _NoisyTable, sample: EventLog) -> Iterator[FigureBounds]:
    is_of_cases = name in sample.cases.columns
    values = values_of(sample.cases if is_of_cases else sample.events, name)
    case = np.arange(sample.case_count) if is_of_cases else sample.case_of
    activity = sample.events[ACTIVITY].cast(pl.String)
    group = pl.Series([None] * len(case), dtype=pl.String) if is_of_cases else activity
    is_binned = len(table.keys[0]) == 4
    kinds = {
        name: number for number, name in enumerate(dict.fromkeys(key[2] for key in table.keys))
    }
    if not is_binned:
        kind = np.array([kinds[key[2]] for key in table.keys])
        own = np.array([kinds.get(value, -1) for value in values.to_list()])
    elif values.dtype.is_numeric():
        bounds, kind = _bins_of(table, 2)
        own = _place(values.fill_null(0).to_numpy(), bounds)
    else:
        # Released in other words than it was measured in.
        return
    cells = zip(table.keys, kind.tolist(), strict=True)
    place_of = {(key[1], of): place for place, (key, of) in enumerate(cells)}
    place = np.array([place_of.get(each, -1) for each in zip(group, own.tolist(), strict=True)])
    # An event weighs the less, the more of its activity the case has, and the more events at all:
    # where a vector was clipped is not known, so that every one is taken to be.
    alike = pl.DataFrame({"case": case, "group": group}).select(pl.len().over("case", "group"))
    weight = (alike.to_series().to_numpy() * np.diff(sample.offsets)[case]) ** -0.5
    known = np.flatnonzero((place >= 0) & values.is_not_null().to_numpy())
    if not len(known):
        return
    row = case[known]
    at = place[known]
    entries = _Entries(sample.case_count, row, at, np.ones(len(known)), weight[known])
    if is_binned:
        median = float(np.median(values.to_numpy()[known]))
        yield _told("number", median, _median(table, entries, kind, bounds), (name,))
        return
    often = np.bincount(kind[at], minlength=len(kinds))
    names = list(kinds)
    for of in np.argsort(-often, kind="stable")[:MOST_VALUES].tolist():
        if often[of]:
            seen = float(often[of]) / len(known)
            yield _told("value", seen, _share(table, entries, kind == of), (name, names[of]))


def _told(
    figure: Figure, released: float, within: tuple[float, float], key: Key = ()
) -> FigureBounds:
    low, high = within
    return FigureBounds(figure=figure, key=key, released=released, low=low, high=high)


def _summed(place: Ints, weight: Floats, size: int) -> Floats:
    """The sum of weights at each place: shape (size,)."""
    return np.bincount(place, weight, size).astype(np.float64)


def _bins_of(table: _NoisyTable, place: int) -> tuple[Floats, Ints]:
    """The distinct bins that keys name at ``place`` and behind, ascending: where each begins and
    ends, shape (bins, 2); and which of them each key has.
    """
    ends = np.array([key[place : place + 2] for key in table.keys], np.float64)
    bounds, kind = np.unique(ends, axis=0, return_inverse=True)
    return bounds, kind.reshape(-1)


def _place(numbers: Floats, bounds: Floats) -> Ints:
    """The bin of each number; those outside count at the edge. One that begins and ends at a number
    holds that alone.
    """
    begins, ends = bounds.T
    behind = np.where(ends > begins, ends, np.nextafter(ends, np.inf))
    return np.minimum(np.searchsorted(behind, numbers, side="right"), len(bounds) - 1)


def _halves(table: _NoisyTable, entries: _Entries, part: Bools) -> tuple[_Measured, _Measured]:
    """What keys of ``part`` come to, and all others."""
    chosen = part.astype(np.float64)
    return entries.total(table, chosen), entries.total(table, 1 - chosen)


def _share(table: _NoisyTable, entries: _Entries, part: Bools) -> tuple[float, float]:
    """Bounds of the share that keys of ``part`` have, linearised."""
    own, rest = _halves(table, entries, part)
    in_all = own.value + rest.value
    if in_all <= 0:
        return 0.0, 1.0
    share = min(1.0, max(0.0, own.value / in_all))
    variance = ((1 - share) ** 2 * own.variance + share**2 * rest.variance) / in_all**2
    low, high = _Measured(share, variance).within()
    return min(low, 1.0), min(high, 1.0)


def _median(
    table: _NoisyTable, entries: _Entries, kind: Ints, bounds: Floats
) -> tuple[float, float]:
    """Between which of ``bounds`` the median lies, in whole bins."""
    halves = [_halves(table, entries, kind <= last) for last in range(len(bounds) - 1)]
    more = np.array([below.value - above.value for below, above in halves])
    variance = np.array([below.variance + above.variance for below, above in halves])
    low, high = _undecided(more, variance)
    return float(bounds[low, 0]), float(bounds[high, 1])


def _undecided(more: Floats, variance: Floats) -> tuple[int, int]:
    """The first and the last bin that may hold the median: where noise does not say that more lies
    on one side of it than on the other (an interval by inverted tests). ``more``: by how much more
    lies up to each bin, but the last, than behind it.
    """
    apart = NORMAL_90 * np.sqrt(variance)
    low = int(np.argmin(np.append(more < -apart, False)))
    # From the end on.
    high = len(more) - int(np.argmin(np.append(more[::-1] > apart[::-1], False)))
    return low, high


def _median_by_waves(waves: _NoisyTable, cases: int) -> tuple[float, float]:
    """Between which durations the median of about so many ``cases`` lies, by the sums of cosines
    over bins (``timestamps/regression``): they add up to how many cases are in each.
    """
    known = np.array(waves.keys, np.float64)
    bins = known.shape[1] - 3
    # Finer waves than there are bins tell nothing.
    half_waves, expected = known[: bins - 1, :2].T
    wave = np.cos(np.pi * (np.arange(bins)[:, None] + 0.5) / bins * half_waves)
    # Bins up to one less those behind it, of every wave and of what is constant.
    sign = 2 * np.tri(bins - 1, bins) - 1
    part = 2 / bins * sign @ wave
    sums = waves.value[: bins - 1] + cases * expected
    more = part @ sums + cases * sign.mean(axis=1)
    low, high = _undecided(more, part**2 @ waves.sigma[: bins - 1] ** 2)
    return float(known[0, 2 + max(low - 1, 0)]), float(known[0, 3 + min(high + 1, bins - 1)])
