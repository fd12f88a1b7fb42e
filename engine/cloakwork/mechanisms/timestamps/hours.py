"""Cases at usual hours of the week, by local search."""

import math
from typing import Final

import numpy as np

from cloakwork.base.arrays import Floats, Ints, offsets_of
from cloakwork.mechanisms.timestamps.bins import DAY, MONDAY, WEEK, Clock
from cloakwork.mechanisms.timestamps.drawing import ManyDraws, sums_in_cases

TURNS: Final = 450
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
    for turn in range(TURNS if turns is None else turns):
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
