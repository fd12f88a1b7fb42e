"""From noisy histograms to distributions, each shrunk to the shape that is expected of it; and
times for released cases, drawn from distributions of starts, gaps, totals and hours.
"""

import math
from typing import Final

import numpy as np

from cloakwork.base.arrays import (
    Floats,
    Ints,
    grouped,
    offsets_of,
    place_in_run,
    rank_among_equals,
    shares_in_rows,
)
from cloakwork.base.frozen import frozen
from cloakwork.kernel import Randomness
from cloakwork.mechanisms.timestamps.bins import DAY, MONDAY, WEEK, Clock, LogBins

BELIEVED: Final = 2.5
"""Sigmas by which a part must differ from what is expected, at least, to be believed in full; more,
where so many parts are looked at that noise alone would let one differ by as much.
"""

EMPTY: Final = 1.7
"""Sigmas up to which a half is taken for empty, where what is expected does not fit."""

UNKNOWN: Final = 0.5
"""The same of parts of which nothing is expected; noise that hides more leaves them even."""

TOLERANCE: Final = 0.15
"""By how much the mass of a histogram usually differs from what is known of it, as a part of it."""


def distributions(
    noisy: Floats,
    sigma: float,
    mass: Floats,
    expected: Floats | None = None,
    differs: float = UNKNOWN,
    tolerance: float = TOLERANCE,
) -> Floats:
    """Distributions of which ``noisy`` are histograms with Gaussian noise of ``sigma``: shape
    (groups, bins), rows that add up to 1.

    ``mass``: what each row of the histogram adds up to, about. ``expected``: the shape that is
    expected of each, rows that add up to 1; where it has nothing, nothing is found. None: nothing
    is expected. ``differs``: by how much splits in two usually differ from what is expected, in
    standard deviations of a coin. ``tolerance``: by how much ``mass`` usually errs, as a part of
    it.

    Bins are halved again and again. How what lies in an interval is split between its halves is
    estimated by their noisy sums (least squares, given what both hold together), and averaged with
    what is expected by the inverse of their variances. What stands out from it is believed as it
    is; a half that is then hardly told from an empty one is empty. Nothing is lost: what one half
    does not get the other does.
    """
    groups, bins = noisy.shape
    depth = (bins - 1).bit_length()
    shape = np.full((1, bins), 1 / bins) if expected is None else expected
    # As many bins as halving needs; there is no noise in those that are added.
    added = (0, (1 << depth) - bins)
    # About the largest of as many normal numbers as there are parts.
    believed = max(BELIEVED, math.sqrt(2 * math.log(max(1, groups * bins))))
    cells = np.pad(noisy, [(0, 0), added])
    prior = np.pad(np.broadcast_to(shape, noisy.shape), [(0, 0), added])
    real = np.pad(np.ones(bins), added)
    # The mass of each row: its noisy total, averaged with what is known of it.
    spread = (tolerance * mass) ** 2
    weight = spread / (spread + (sigma * np.sqrt(bins)) ** 2)
    total = np.maximum(mass + weight * (noisy.sum(axis=1) - mass), 1e-9)[:, None]
    share = np.ones((groups, 1))
    for level in range(depth):
        intervals = 2 << level
        halves = (groups, intervals, cells.shape[1] // intervals)
        sizes = real.reshape(intervals, -1).sum(axis=1)
        left = _left_part(
            cells.reshape(halves).sum(axis=2),
            prior.reshape(halves).sum(axis=2),
            sigma**2 * sizes,
            total * share,
            None if expected is None else differs,
            believed,
        )
        both = np.stack([share * left, share * (1 - left)], axis=2)
        share = both.reshape(groups, intervals)
    share = share[:, :bins]
    return shares_in_rows(share)


def last_that_stands_out(noisy: Floats, sigma: float) -> int:
    """The last bin from which on some bins next to each other add up to more than noise of
    ``sigma`` alone would; the last one of all where none do. ``noisy``: shape (bins,).
    """
    bins = len(noisy)
    sums = np.concatenate([[0.0], np.cumsum(noisy)])
    # About the largest of as many normal numbers as there are runs of bins that are looked at.
    believed = max(BELIEVED, math.sqrt(2 * math.log(bins * bins.bit_length())))
    found = []
    for width in (1 << level for level in range(bins.bit_length())):
        error = sigma * math.sqrt(width)
        found += np.flatnonzero(sums[width:] - sums[:-width] > believed * error).tolist()
    return max(found, default=bins - 1)


def _left_part(
    found: Floats,
    known: Floats,
    variance: Floats,
    mass: Floats,
    differs: float | None,
    believed: float,
) -> Floats:
    """The part of ``mass`` that falls into the left one of two halves: shape as ``mass``.

    ``found`` and ``known``: noisy sums, with their ``variance``, and expected parts of both halves,
    in turns. ``differs``: as of ``distributions``; None where nothing is expected. ``believed``:
    the sigmas by which a part must differ from what is expected, to be believed in full.
    """
    both = known[:, 0::2] + known[:, 1::2]
    expected = np.where(both > 0, known[:, 0::2] / np.where(both > 0, both, 1), 1.0)
    # Both noisy sums say what the left half has: each is trusted the more, the less it errs.
    usable = np.maximum(mass, 1e-9)
    left = np.maximum(variance[0::2], 1e-9)
    right = np.maximum(variance[1::2], 1e-9)
    trust = right / (left + right)
    by_left = found[:, 0::2] / usable
    by_right = 1 - found[:, 1::2] / usable
    measured = trust * by_left + (1 - trust) * by_right
    error = np.sqrt(left * trust) / usable
    bound = believed * error
    if differs is None:
        is_noise = bound > UNKNOWN
        weight = np.where(is_noise, UNKNOWN**2 / (UNKNOWN**2 + error**2), 1.0)
    else:
        usual = differs**2 * np.maximum(expected * (1 - expected), 0.01)
        is_noise = np.abs(measured - expected) <= bound
        weight = np.where(is_noise, usual / (usual + error**2), 1.0)
    split = np.clip(expected + weight * (measured - expected), 0, 1)
    # What is believed against expectation may still be next to nothing on one side.
    split = np.where(is_noise, split, split * _kept(split / error))
    rest = 1 - split
    split = np.where(is_noise, split, 1 - rest * _kept(rest / error))
    # Where one half is expected to hold nothing at all, it does.
    is_settled = (expected <= 0) | (expected >= 1)
    return np.where(is_settled, expected, split)


def _kept(sigmas: Floats) -> Floats:
    """The part kept so far above 0: nothing up to ``EMPTY``, all from ``BELIEVED`` on."""
    return np.clip((sigmas - EMPTY) / (BELIEVED - EMPTY), 0, 1)


_FINE: Final = 1 << 53

_FLAT: Final = 1e-6
"""A slope below it is none: the formula for the others would divide by it."""

TURNS: Final = 8
"""How often gaps change places, so that they follow totals."""


@frozen
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
        rank = np.empty(len(group), np.int64)
        rank[shuffled] = rank_among_equals(group[shuffled])
        place = rank + self.fractions(len(group))
        return place / np.bincount(group)[group]

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
    places: where they meet the totals, the longest one becomes the longest one that was drawn, and
    so on down. This is done ``TURNS`` times, and what is then missing the longest gaps take.
    """

    # By rank within the group, or the pair.
    ranked_totals = totals[grouped(group, totals)[0]]
    ranked_gaps = gaps[grouped(pair, gaps)[0]]

    def met(found: Ints) -> Floats:
        """Gaps that meet the totals: the longest case gets the largest one."""
        sums = np.bincount(case, found, len(totals)).astype(np.int64)
        target = np.empty(len(totals))
        target[grouped(group, sums)[0]] = ranked_totals
        return with_sums(found, case, target)

    found = gaps
    # Each turn meets the totals, then gives each pair its own gaps back; ties in random order.
    for _ in range(TURNS):
        _, place = np.unique(met(found), return_inverse=True)
        mixed = draws.randomness.permutation(len(gaps))
        found = np.empty_like(gaps)
        found[mixed[grouped(pair[mixed], place[mixed])[0]]] = ranked_gaps
    return np.rint(met(found)).astype(np.int64)


def with_sums(gaps: Ints, case: Ints, sums: Floats) -> Floats:
    """Gaps of which those of each case add up to its one of ``sums``: the longest ones are cut to
    one length, or the longest one is made longer, and all others are as they were.

    Scaled, all gaps of a case would become other ones, down to those of seconds.
    """
    order, _ = grouped(case, gaps)
    ordered, owner = gaps[order].astype(np.float64), case[order]
    size = np.bincount(case, minlength=len(sums))
    rank = place_in_run(owner)
    running = np.concatenate([[0.0], np.cumsum(ordered)])
    before = running[:-1] - running[np.arange(len(owner)) - rank]
    # What the gaps of a case would add up to, if none were longer than each.
    cut = before + (size[owner] - rank) * ordered
    fits = np.bincount(owner, weights=cut <= sums[owner], minlength=len(sums))
    kept = rank < np.minimum(fits, size - 1)[owner]
    held = np.bincount(owner, weights=np.where(kept, ordered, 0.0), minlength=len(sums))
    others = np.bincount(owner, weights=~kept, minlength=len(sums))
    level = (sums - held) / np.maximum(others, 1)
    found = np.empty(len(gaps))
    found[order] = np.where(kept, ordered, np.maximum(level, 0.0)[owner])
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


TURNS_OF_WEEK: Final = 450
"""Of the search, at most; in every third one cases change starts."""

TURNS_OF_A_PART: Final = 60
"""The same where cases come in parts, of which there may be thousands."""

NEAR: Final = 0.002
"""The search ends where no more of the events than this lie in other slots than they should."""

LONGER: Final = 0.3
"""How much longer or shorter a gap may become, as a part of it: about a bin of regressions."""

ALIKE: Final = 0.2
"""How far slots count alike, where little takes place."""


WIDTHS: Final = (0.5, 1.0, 2.0, 4.0)
"""Places over which counts on a circle may be alike."""

HEIGHTS: Final = 4.0 ** np.arange(-2, 7)
"""Variances that counts may have beside that of their noise, in this."""

LEAST: Final = 1e-6
"""A count in place of 0."""


EDGE: Final = 2.5
"""How far singular values must stand out; 2 is where noise alone ends in large tables."""

FAR: Final = 8
"""Slots beyond which a longer gap is chosen no more often."""


def without_noise(counts: Floats, sigma: float) -> Floats:
    """What ``counts`` on a circle (the hours of a day, the days of a week) are about without their
    Gaussian noise of ``sigma``: float64, shape (places,), each above 0.

    They are expected to be a Gaussian process, of the height and the width under which they are
    likeliest (empirical Bayes: Rasmussen and Williams 2006, 5.4.1). On a circle its waves are
    independent.
    """
    place = np.arange(len(counts))
    apart = np.minimum(place, len(counts) - place)
    mean = counts.mean()
    waves = np.fft.fft(counts - mean, norm="ortho")
    squares = np.abs(waves / sigma) ** 2
    alike = [np.fft.fft(np.exp(-((apart / width) ** 2) / 2)).real for width in WIDTHS]
    variances = [1 + height * np.maximum(each, 0) for each in alike for height in HEIGHTS]
    variance = min(variances, key=lambda each: float((np.log(each) + squares / each).sum()))
    found = mean + np.fft.ifft(waves * (1 - 1 / variance), norm="ortho").real
    return np.asarray(np.maximum(found, LEAST))


def usual_week(
    days: Floats,
    hours: Floats,
    slots: Floats,
    sigmas: Floats,
) -> Floats:
    """About how many events are in each slot of a week, by noisy counts of days, of hours, and of
    both together, all of the same events, each with noise of one of ``sigmas``: shape (slots,),
    each above 0.

    Slots tell of days and hours as well, so these are averaged with their sums, by precision. Slots
    are then expected to be as days and hours say. By how much they differ from it is a matrix, of
    which is kept what stands out of noise (Gavish and Donoho 2017, equation 7).
    """
    size = np.array([len(days), len(hours)])
    table = slots.reshape(size)
    part = 1 / (1 + size[::-1] * (sigmas[2] / sigmas[:2]) ** 2)
    noise = sigmas[:2] * np.sqrt(1 - part)
    of_days = without_noise(days + part[0] * (table.sum(axis=1) - days), noise[0])
    of_hours = without_noise(hours + part[1] * (table.sum(axis=0) - hours), noise[1])
    expected = np.outer(of_days, of_hours / of_hours.sum())
    left, values, right = np.linalg.svd(table - expected, full_matrices=False)
    # Singular values of mere noise lie within ``edge`` of the middle, as squares.
    edge = EDGE * sigmas[2] ** 2 * math.sqrt(size.prod())
    squares = np.maximum(values**2 - sigmas[2] ** 2 * size.sum(), edge) ** 2 - edge**2
    kept = np.sqrt(squares) / np.maximum(values, LEAST)
    # Rounded: machines differ in the last digits of a decomposition, and must not in what is drawn.
    found = np.maximum(expected + (left * kept) @ right, LEAST)
    return np.asarray(np.round(found, 6).ravel())


def at_usual_hours(
    starts: Ints,
    gaps: Ints,
    lengths: Ints,
    weights: Floats,
    clock: Clock,
    draws: ManyDraws,
    turns: int | None = None,
) -> Ints:
    """The times of all events, case by case, about as ``weights`` of the slots of a week say:
    int64, steps of the grid.

    ``starts`` and ``lengths``: of each case, which has events; ``gaps``: before each of the other
    events; steps, int64. In turns, two cases each change starts, or each case makes one of its gaps
    somewhat longer or shorter than it was drawn. What brings slots nearer to ``weights`` is kept.
    So starts stay those that were drawn, and gaps about.

    Each change is judged by itself, and all of them together may go too far: of those that help, a
    random part is made, such that the sum of squares is least.
    """
    cases = np.arange(len(lengths))
    case = np.repeat(cases, lengths)
    offsets = offsets_of(lengths)
    drawn = np.zeros(len(case), np.int64)
    drawn[np.diff(case, prepend=-1) == 0] = gaps
    begin, gap = starts, drawn
    # Clocks change twice a year: what they are ahead by is looked up by the day.
    instants = clock.grid.microseconds(begin[case] + sums_in_cases(gap, offsets))
    first, last = int(instants.min() // DAY), int(instants.max() // DAY)
    ahead = clock.ahead(np.arange(first, last + 1) * DAY) - MONDAY

    def slots(begin: Ints, gap: Ints) -> Ints:
        """Those of all events."""
        instants = clock.grid.microseconds(begin[case] + sums_in_cases(gap, offsets))
        day = np.clip(instants // DAY, first, last) - first
        return np.asarray((instants + ahead[day]) % WEEK // clock.slot_width)

    slot = slots(begin, gap)
    intended = weights * (len(case) / weights.sum())
    # Gaps that reach other slots are tried more often than those of seconds.
    reach = np.clip(drawn, 1, FAR * clock.slot_width // clock.microseconds).astype(np.float64)
    reach[offsets[:-1]] = LEAST
    reached = np.cumsum(reach)
    ends = reached[offsets[1:] - 1]
    # What is off counts the more, the less is intended.
    worth = 1 / (intended + ALIKE * len(case) / clock.slots)
    for turn in range(TURNS_OF_WEEK if turns is None else turns):
        excess = np.bincount(slot, minlength=clock.slots) - intended
        if np.abs(excess).sum() <= 2 * NEAR * len(case):
            break
        begins, trial, together = begin, gap, cases
        if turn % 3 == 0:
            # Two by two; of an odd number, the last one is left over.
            one, other = np.split(draws.randomness.permutation(len(cases) // 2 * 2), 2)
            mate = cases.copy()
            mate[one], mate[other] = other, one
            begins = begin[mate]
            together = np.minimum(cases, mate)
        else:
            # A case of one event has its first one chosen, whose gap stays 0.
            part = draws.fractions(len(cases)) * np.diff(ends, prepend=0.0)
            place = np.searchsorted(reached, ends - part)
            chosen = np.clip(place, offsets[:-1], offsets[1:] - 1)
            part = 1 + LONGER * (2 * draws.fractions(len(cases)) - 1)
            trial = gap.copy()
            trial[chosen] = np.rint(drawn[chosen] * part)
        tried = slots(begins, trial)
        # By how much the weighted squares fall, halved: over both cases of two that change.
        moves = tried != slot
        gain = (excess * worth)[slot] - (excess * worth)[tried] - (worth[slot] + worth[tried]) / 2
        better = np.bincount(together[case], gain * moves, len(cases)) > 0
        kept = moves & better[together[case]]
        change = np.bincount(tried[kept], minlength=clock.slots) - np.bincount(
            slot[kept], minlength=clock.slots
        )
        # Along all of these together, squares are least at this part of the way.
        bend = float((worth * change**2).sum())
        part_made = -float((excess * worth * change).sum()) / bend if bend > 0 else 0.0
        made = (better & (draws.fractions(len(cases)) < part_made))[together]
        begin = np.where(made, begins, begin)
        gap = np.where(made[case], trial, gap)
        slot = np.where(made[case], tried, slot)
    return begin[case] + sums_in_cases(gap, offsets)
