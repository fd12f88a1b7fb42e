"""Times for released cases, drawn from distributions of starts, gaps, totals and hours."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.kernel import Randomness
from cloakwork.mechanisms.timestamps.bins import DAY, Clock, LogBins

_FINE: Final = 1 << 53

TURNS: Final = 8
"""How often gaps change places, so that they follow totals."""


@dataclass(frozen=True, slots=True)
class ManyDraws:
    """ManyDraws for many events at once."""

    randomness: Randomness

    def fractions(self, size: int) -> Floats:
        """Uniform in [0, 1)."""
        return np.asarray(self.randomness.uniform(np.full(size, _FINE)) / _FINE)

    def quantiles(self, group: Ints) -> Floats:
        """For each of many draws in groups a quantile: those of a group of n lie one in each n-th
        of [0, 1), in random order, so that what is drawn follows its distribution closely.
        """
        if not len(group):
            return np.zeros(0)
        shuffled = self.randomness.permutation(len(group))
        order = shuffled[np.argsort(group[shuffled], kind="stable")]
        sizes = np.bincount(group)
        firsts = np.cumsum(sizes) - sizes
        rank = np.empty(len(group), np.int64)
        rank[order] = np.arange(len(group))
        found = group
        return np.asarray((rank - firsts[found] + self.fractions(len(group))) / sizes[found])

    def spans(self, distributions: Floats, group: Ints, bins: LogBins) -> Ints:
        """A span for each draw, by the distribution of its group over ``bins``.

        In a bin the density rises, or falls, to the next ones where these lie on either side of it.
        """
        place = self.places(distributions, group)
        step = np.diff(distributions, axis=1)
        zero = np.zeros((len(distributions), 1))
        before, behind = np.hstack([zero, step]), np.hstack([step, zero])
        less = np.where(np.abs(before) < np.abs(behind), before, behind)
        slope = np.where(before * behind > 0, less, 0.0) / np.maximum(distributions, 1e-300)
        tilt = np.clip(slope, -1.9, 1.9)[group, place]
        even = self.fractions(len(place))
        # Where the integral of 1 + tilt (x - 1/2) from 0 on reaches ``even``.
        steep = np.where(np.abs(tilt) < 1e-6, 1.0, tilt)
        tilted = (steep / 2 - 1 + np.sqrt((1 - steep / 2) ** 2 + 2 * steep * even)) / steep
        return bins.inside(place, np.where(np.abs(tilt) < 1e-6, even, np.clip(tilted, 0, 1)))

    def places(self, distributions: Floats, group: Ints) -> Ints:
        """A bin for each draw, by the distribution of its group."""
        bins = distributions.shape[1]
        bounds = np.cumsum(distributions, axis=1)
        bounds /= np.maximum(bounds[:, -1:], 1e-300)
        # Bounds of row i lie between i and i + 1, so that one search serves all rows.
        flat = (bounds + np.arange(len(bounds))[:, None]).ravel()
        found = np.searchsorted(flat, group + self.quantiles(group), side="right")
        return np.asarray(np.clip(found - group * bins, 0, bins - 1))


def meet_totals(
    gaps: Ints, pair: Ints, case: Ints, totals: Ints, group: Ints, draws: ManyDraws
) -> Ints:
    """Gaps of which those of each case add up to about one of ``totals``.

    ``gaps``: int64, each drawn for its ``pair``, with its ``case``. ``totals``: one for each case,
    drawn for its ``group``. In a group the longest case by its gaps gets the largest total, and so
    on down (coupling by rank). So that the gaps of a pair stay those that were drawn, they change
    places: scaled to the totals, the longest one becomes the longest one that was drawn, and so on
    down. This is done ``TURNS`` times, and what is then missing is scaled.
    """
    found = gaps.astype(np.float64)
    for _ in range(TURNS):
        scaled = _scaled(found, case, totals, group)
        found = by_rank(gaps, pair, scaled, draws).astype(np.float64)
    return np.rint(_scaled(found, case, totals, group)).astype(np.int64)


def by_rank(drawn: Ints, group: Ints, like: Floats | Ints, draws: ManyDraws) -> Ints:
    """What was ``drawn`` for each ``group``, the least where ``like`` is least, and so on; ties in
    random order.
    """
    mixed = draws.randomness.permutation(len(drawn))
    order = mixed[np.lexsort((like[mixed], group[mixed]))]
    found = np.empty_like(drawn)
    found[order] = drawn[np.lexsort((drawn, group))]
    return found


def _scaled(gaps: Floats, case: Ints, totals: Ints, group: Ints) -> Floats:
    """Gaps scaled to the totals, which are coupled to their sums by rank."""
    sums = np.bincount(case, weights=gaps, minlength=len(totals))
    target = np.empty(len(totals))
    target[np.lexsort((sums, group))] = totals[np.lexsort((totals, group))]
    factor = np.where(sums > 0, target / np.where(sums > 0, sums, 1), 1.0)
    return np.asarray(gaps * factor[case])


def start_steps(
    day_weights: Floats, first_day: int, hours: Floats, clock: Clock, size: int, draws: ManyDraws
) -> Ints:
    """Starts of ``size`` cases, in steps of the grid, by the weights of days and of hours."""
    once = np.zeros(size, np.int64)
    day = first_day + draws.places(day_weights[None, :], once)
    within = draws.places(hours[None, :], once) * (DAY // clock.hours)
    spread = DAY // clock.hours if clock.hours > 1 else 0
    inside = np.floor(draws.fractions(size) * spread).astype(np.int64)
    return clock.steps(day * DAY + within + inside)


def at_usual_hours(
    steps: Ints, is_head: Bools, weights: Floats, clock: Clock, draws: ManyDraws
) -> Ints:
    """Times moved so that they follow ``weights`` of the slots of a week; int64.

    Each event of ``is_head`` is moved within its week; others keep their distance from the one
    before them. The map from the hours that events have to those that they should have is monotone
    (optimal transport on a line), so moved events keep their order.
    """
    heads = np.flatnonzero(is_head)
    if not len(heads) or weights.sum() <= 0:
        return steps
    slot_width = DAY // clock.hours
    week = 7 * DAY
    local = clock.local(steps[heads])
    found = np.bincount(clock.slot(steps[heads]), minlength=clock.slots).astype(np.float64)
    intended = weights * (found.sum() / weights.sum())
    cut = int(np.argmin(_around(found, clock.hours) + _around(intended, clock.hours)))
    # Monday 0:00 of the first week, moved to the cut; 1970-01-05 was a Monday.
    origin = 4 * DAY + cut * slot_width
    number, inside = np.divmod(local - origin, week)
    have, want = np.roll(found, -cut), np.roll(intended, -cut)
    if clock.hours == 1:
        # Events of one day go to several, if need be.
        inside = inside + draws.fractions(len(inside)) * slot_width
    edges = np.arange(clock.slots + 1, dtype=np.float64) * slot_width
    reached = np.interp(inside, edges, np.concatenate([[0], np.cumsum(have)]))
    moved = _inverse(reached, np.concatenate([[0], np.cumsum(want)]), edges)
    target = origin + number * week + np.floor(moved).astype(np.int64)
    if clock.hours == 1:
        target -= (target - 4 * DAY) % DAY
    new = clock.steps(target)
    head_of = np.cumsum(is_head) - 1
    return np.asarray(new[head_of] + (steps - steps[heads][head_of]))


def _around(mass: Floats, hours: int) -> Floats:
    """The mass of each slot and its neighbours."""
    reach = 3 if hours > 1 else 0
    return np.asarray(sum(np.roll(mass, shift) for shift in range(-reach, reach + 1)))


def _inverse(reached: Floats, bounds: Floats, edges: Floats) -> Floats:
    """Where the rising ``bounds`` at ``edges`` reach each of ``reached``; slots without mass are
    passed over.
    """
    place = np.clip(np.searchsorted(bounds, reached, side="right") - 1, 0, len(edges) - 2)
    width = bounds[place + 1] - bounds[place]
    part = np.where(width > 0, (reached - bounds[place]) / np.where(width > 0, width, 1), 0)
    return np.asarray(edges[place] + np.clip(part, 0, 0.999999) * (edges[place + 1] - edges[place]))


def in_order(steps: Ints, offsets: Ints) -> Ints:
    """Each time no earlier than those before it in its case."""
    if not len(steps):
        return steps
    case = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    # A distance between cases that no time reaches makes one running maximum serve all.
    low = steps.min()
    apart = int(steps.max() - low) + 1
    if apart * len(offsets) < 1 << 62:
        shift = case * apart
        return np.asarray(np.maximum.accumulate(steps - low + shift) - shift + low)
    found = steps.copy()
    for start, stop in pairwise(offsets.tolist()):
        found[start:stop] = np.maximum.accumulate(found[start:stop])
    return found


def sums_in_cases(values: Ints, offsets: Ints) -> Ints:
    """Running sums that begin anew with each case."""
    sums = np.cumsum(values)
    before = np.concatenate([[0], sums])[offsets[:-1]]
    return np.asarray(sums - np.repeat(before, np.diff(offsets)))


def moved_by_weeks(steps: Ints, least: int, most: int, clock: Clock) -> Ints:
    """Times, or spans, moved to ``least`` to ``most`` by whole weeks, which keeps their hour of the
    week; what is then still outside lies at the edge.
    """
    week = 7 * DAY // clock.microseconds
    if week * clock.microseconds == 7 * DAY:
        steps = steps + -(-np.maximum(least - steps, 0) // week) * week
        steps = steps - -(-np.maximum(steps - most, 0) // week) * week
    return np.clip(steps, least, most)
