"""Times for released cases, drawn from distributions of starts, gaps, totals and hours."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.kernel import Randomness
from cloakwork.mechanisms.timestamps.bins import DAY, MONDAY, WEEK, Clock, LogBins

_FINE: Final = 1 << 53

_FLAT: Final = 1e-6
"""A slope below it is none: the formula for the others would divide by it."""

TURNS: Final = 8
"""How often gaps change places, so that they follow totals."""


@dataclass(frozen=True, slots=True)
class ManyDraws:
    """Draws for many events at once."""

    randomness: Randomness

    def fractions(self, size: int) -> Floats:
        """Uniform in [0, 1)."""
        return self.randomness.uniform(np.full(size, _FINE)) / _FINE

    def quantiles(self, group: Ints) -> Floats:
        """For each of many draws in groups a quantile: those of a group of n lie one in each n-th
        of [0, 1), in random order, so that what is drawn follows its distribution closely.
        """
        if not len(group):
            return np.zeros(0)
        # Random ranks within each group.
        shuffled = self.randomness.permutation(len(group))
        order = shuffled[np.argsort(group[shuffled], kind="stable")]
        rank = np.empty(len(group), np.int64)
        rank[order] = np.arange(len(group))
        sizes = np.bincount(group)
        firsts = np.cumsum(sizes) - sizes
        place = rank - firsts[group] + self.fractions(len(group))
        return place / sizes[group]

    def spans(
        self,
        distributions: Floats,
        group: Ints,
        bins: LogBins,
    ) -> Ints:
        """A span for each draw, by the distribution of its group over ``bins``.

        In a bin the density rises, or falls, to the next ones where these lie on either side of it.
        """
        place = self.places(distributions, group)
        # The slope at each bin: the smaller step to its neighbours, if both go the same way.
        step = np.diff(distributions, axis=1)
        zero = np.zeros((len(distributions), 1))
        before = np.hstack([zero, step])
        behind = np.hstack([step, zero])
        smaller = np.where(np.abs(before) < np.abs(behind), before, behind)
        slope = np.where(before * behind > 0, smaller, 0.0) / np.maximum(distributions, 1e-300)
        tilt = np.clip(slope, -1.9, 1.9)[group, place]
        even = self.fractions(len(place))
        # Where the integral of 1 + tilt (x - 1/2) from 0 on reaches ``even``.
        is_flat = np.abs(tilt) < _FLAT
        steep = np.where(is_flat, 1.0, tilt)
        root = np.sqrt((1 - steep / 2) ** 2 + 2 * steep * even)
        tilted = (steep / 2 - 1 + root) / steep
        return bins.inside(place, np.where(is_flat, even, np.clip(tilted, 0, 1)))

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
    gaps: Ints,
    pair: Ints,
    case: Ints,
    totals: Ints,
    group: Ints,
    draws: ManyDraws,
) -> Ints:
    """Gaps of which those of each case add up to about one of ``totals``.

    ``gaps``: int64, each drawn for its ``pair``, with its ``case``. ``totals``: one for each case,
    drawn for its ``group``. In a group the longest case by its gaps gets the largest total, and so
    on down (coupling by rank). So that the gaps of a pair stay those that were drawn, they change
    places: scaled to the totals, the longest one becomes the longest one that was drawn, and so on
    down. This is done ``TURNS`` times, and what is then missing is scaled.
    """

    def scaled(found: Floats) -> Floats:
        """Gaps scaled to the totals, which are coupled to their sums by rank."""
        sums = np.bincount(case, weights=found, minlength=len(totals))
        target = np.empty(len(totals))
        # By rank within the group: the longest case gets the largest total.
        target[np.lexsort((sums, group))] = totals[np.lexsort((totals, group))]
        factor = np.where(sums > 0, target / np.where(sums > 0, sums, 1), 1.0)
        return found * factor[case]

    found = gaps.astype(np.float64)
    # Each turn scales to the totals, then gives each pair its own gaps back, by rank.
    for _ in range(TURNS):
        found = by_rank(gaps, pair, scaled(found), draws).astype(np.float64)
    return np.rint(scaled(found)).astype(np.int64)


def by_rank(
    drawn: Ints,
    group: Ints,
    like: Floats | Ints,
    draws: ManyDraws,
) -> Ints:
    """What was ``drawn`` for each ``group``, the least where ``like`` is least, and so on; ties in
    random order.
    """
    # A random order first: sorting is stable, so ties are broken by it.
    mixed = draws.randomness.permutation(len(drawn))
    order = mixed[np.lexsort((like[mixed], group[mixed]))]
    found = np.empty_like(drawn)
    found[order] = drawn[np.lexsort((drawn, group))]
    return found


def start_steps(
    day_weights: Floats,
    first_day: int,
    hours: Floats,
    clock: Clock,
    size: int,
    draws: ManyDraws,
) -> Ints:
    """Starts of ``size`` cases, in steps of the grid, by the weights of days and of hours."""
    once = np.zeros(size, np.int64)
    day = first_day + draws.places(day_weights[None, :], once)
    hour = draws.places(hours[None, :], once)
    # A clock that knows no hours has cases start at midnight.
    spread = clock.slot_width if clock.hours > 1 else 0
    inside = np.floor(draws.fractions(size) * spread).astype(np.int64)
    return clock.steps(day * DAY + hour * clock.slot_width + inside)


def at_usual_hours(
    steps: Ints,
    is_head: Bools,
    weights: Floats,
    clock: Clock,
    draws: ManyDraws,
) -> Ints:
    """Times moved so that they follow ``weights`` of the slots of a week; int64.

    Each event of ``is_head`` is moved within its week; others keep their distance from the one
    before them. The map from the hours that events have to those that they should have is monotone
    (optimal transport on a line), so moved events keep their order.
    """
    heads = np.flatnonzero(is_head)
    if not len(heads) or weights.sum() <= 0:
        return steps
    width = clock.slot_width
    found = np.bincount(clock.slot(steps[heads]), minlength=clock.slots).astype(np.float64)
    intended = weights * (found.sum() / weights.sum())
    # The week is cut where least takes place, so that the line loses little of the circle.
    cut = int(np.argmin(_around(found, clock.hours) + _around(intended, clock.hours)))
    origin = MONDAY + cut * width
    week, inside = np.divmod(clock.local(steps[heads]) - origin, WEEK)
    if clock.hours == 1:
        # Events of one day go to several, if need be.
        inside = inside + draws.fractions(len(inside)) * width
    # From the mass before each event to the place before which as much is intended.
    edges = np.arange(clock.slots + 1, dtype=np.float64) * width
    have = np.concatenate([[0], np.cumsum(np.roll(found, -cut))])
    want = np.concatenate([[0], np.cumsum(np.roll(intended, -cut))])
    moved = _inverse(np.interp(inside, edges, have), want, edges)
    target = origin + week * WEEK + np.floor(moved).astype(np.int64)
    # A clock of days knows no hours: back to the beginning of the day.
    if clock.hours == 1:
        target -= (target - MONDAY) % DAY
    new = clock.steps(target)
    head_of = np.cumsum(is_head) - 1
    return np.asarray(new[head_of] + (steps - steps[heads][head_of]))


def _around(mass: Floats, hours: int) -> Floats:
    """The mass of each slot and its neighbours."""
    reach = 3 if hours > 1 else 0
    return np.asarray(sum(np.roll(mass, shift) for shift in range(-reach, reach + 1)))


def _inverse(
    reached: Floats,
    bounds: Floats,
    edges: Floats,
) -> Floats:
    """Where rising ``bounds`` at ``edges`` reach each value; empty slots are passed over."""
    place = np.searchsorted(bounds, reached, side="right") - 1
    place = np.clip(place, 0, len(edges) - 2)
    width = bounds[place + 1] - bounds[place]
    part = np.where(width > 0, (reached - bounds[place]) / np.where(width > 0, width, 1), 0)
    inside = np.clip(part, 0, 0.999999)
    return edges[place] + inside * (edges[place + 1] - edges[place])


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
    # Case by case, where that would overflow.
    found = steps.copy()
    for start, stop in pairwise(offsets.tolist()):
        found[start:stop] = np.maximum.accumulate(found[start:stop])
    return found


def sums_in_cases(values: Ints, offsets: Ints) -> Ints:
    """Running sums that begin anew with each case."""
    sums = np.cumsum(values)
    before = np.concatenate([[0], sums])[offsets[:-1]]
    return np.asarray(sums - np.repeat(before, np.diff(offsets)))


def moved_by_weeks(
    steps: Ints,
    least: int,
    most: int,
    clock: Clock,
) -> Ints:
    """Times, or spans, moved to ``least`` to ``most`` by whole weeks, which keeps their hour of the
    week; what is then still outside lies at the edge.
    """
    week = WEEK // clock.microseconds
    # Only where a week is a whole number of steps.
    if week * clock.microseconds == WEEK:
        steps = steps + -(-np.maximum(least - steps, 0) // week) * week
        steps = steps - -(-np.maximum(steps - most, 0) // week) * week
    return np.clip(steps, least, most)
