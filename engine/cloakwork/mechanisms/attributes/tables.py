"""The noisy tables of attributes, and the distributions that they say: post-processing, which costs
nothing; and a gradient step from the tables, which asks once more.

What does not stand out of its noise is not believed. How counts are spread is learnt from all of
them, and each is then what it is expected to be (empirical Bayes); a group (the events of an
activity) is taken to be like the groups that it shares values with, and like all groups of its
attribute, where its own counts say nothing else.

The tables are a multinomial logistic regression of an attribute's values on the activity, with an
input for each activity. The gradient of a case's log-likelihood is, at each value, how often the
case has it less how often the tables expect it: zero on average where they are right, and shorter
than what the case adds to the tables wherever some value is usual. A shorter vector is clipped to
a smaller norm, so the same budget buys less noise. As values are shares, one step is Newton's.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from cloakwork.base.arrays import Floats, Ints, distinct, ranges_of, shares_in_rows
from cloakwork.base.frozen import frozen
from cloakwork.kernel import Cases, Entries, Gaussian, Kernel, NoisySums, Query, Table
from cloakwork.mechanisms.attributes.contributions import (
    MOVED,
    SIDE_WEIGHT,
    UNIT_NORM,
    Contributions,
    TableLayout,
    add_values,
    best_norm,
    counted_rows,
    followed,
    in_steps,
    spread_over_events,
)

GRID: Final = 60
"""Sizes that a count may have, beside next to none."""

STEPS: Final = 60
"""Of expectation and maximisation."""

LARGEST_RATIO: Final = 128.0
"""A count is at most so many times what was expected of it."""

_MOST_ROWS: Final = 20_000
"""Counts that the spread is learnt from, and that are looked at together."""

_NONE: Final = 1e-3
"""Next to none, in deviations of the noise, or as a share of what was expected."""


def expected_counts(counts: Floats, sigma: float) -> Floats:
    """What each of ``counts`` is expected to be without its noise, of deviation ``sigma`` (above
    0): above 0, of the same shape.

    Their spread is the one under which they are likeliest (Kiefer and Wolfowitz 1956), which loses
    little where most counts are none (Jiang and Zhang 2009).
    """
    largest = max(float(counts.max(initial=0.0)), sigma)
    sizes = np.concatenate([[_NONE * sigma], np.geomspace(sigma / 8, largest, GRID)])
    return _means(counts, np.ones_like(counts), sizes, sigma)


def expected_beside(
    counts: Floats,
    guess: Floats,
    sigma: float,
) -> Floats:
    """The same, where ``guess`` (above 0) says what they should be like: estimated is how many
    times that they are.
    """
    ratios = np.geomspace(1 / LARGEST_RATIO, LARGEST_RATIO, GRID)
    return _means(counts, guess, np.concatenate([[_NONE], ratios]), sigma) * guess


def _means(
    counts: Floats,
    unit: Floats,
    sizes: Floats,
    sigma: float,
) -> Floats:
    """The posterior mean of each count's size, in units of ``unit``; sizes are those of a grid."""
    flat = counts.ravel()
    scale = unit.ravel()
    if not len(flat):
        return counts

    def likelihood(part: slice) -> Floats:
        """Of each count (row) under each size (column), up to a factor a row."""
        apart = flat[part, None] - scale[part, None] * sizes
        square = (apart / sigma) ** 2
        # Less the least square of its row, so that no row underflows to nothing.
        least = square.min(axis=1, keepdims=True)
        return np.asarray(np.exp((least - square) / 2), np.float64)

    # Which sizes there are, learnt from some of the counts (expectation and maximisation).
    some = likelihood(slice(None, None, -(-len(flat) // _MOST_ROWS)))
    weight = np.full(len(sizes), 1 / len(sizes))
    for _ in range(STEPS):
        weight = _posterior(some, weight).mean(axis=0)
    # Then each count's posterior mean, so many rows at a time.
    found = np.empty(len(flat))
    for begin in range(0, len(flat), _MOST_ROWS):
        part = slice(begin, begin + _MOST_ROWS)
        found[part] = _posterior(likelihood(part), weight) @ sizes
    return found.reshape(counts.shape)


def _posterior(likelihood: Floats, weight: Floats) -> Floats:
    # No weight reaches zero, so each row has some.
    posterior = likelihood * np.maximum(weight, 1e-12)
    return shares_in_rows(posterior)


PLAUSIBLE: Final = 2.5
"""Within how many deviations a share is taken to be none, or all."""

ROUNDS: Final = 3
"""How often groups learn from those before them: values travel so many steps further."""

STANDS_OUT: Final = 3.0
"""How many deviations of its noise a count must lie above nothing, to be believed."""

CONSTANT: Final = 0.95
"""An attribute that keeps its value so often is taken to keep it always."""

_LEAST: Final = 1e-9


@frozen
class Counted:
    """Noisy counts of one attribute, float64, in cases.

    ``values``: shape (groups, values), with noise of deviation ``sigma``. ``totals``: what each
    group's values add up to, shape (groups,), with noise of deviation ``total_sigma``; ``mass``:
    how many cases have the group, with noise of deviation ``mass_sigma``. ``changed``, ``same``: in
    how many cases a value that follows another is another, or the same, one of several counting for
    its share, with noise of deviations ``changed_sigma`` and ``mass_sigma``.
    """

    values: Floats
    sigma: float
    totals: Floats
    total_sigma: float
    mass: Floats
    mass_sigma: float
    changed: float = 0.0
    same: float = 0.0
    changed_sigma: float = 1.0

    @property
    def kept(self) -> float:
        """The share of values that are the one before in their case: 1 where noise does not show
        that the attribute ever changes there, 0 where it hides that it stays.
        """
        both = self.changed + self.same
        if self.changed < max(STANDS_OUT * self.changed_sigma, (1 - CONSTANT) * both):
            return 1.0
        return self.same / both if self.same > STANDS_OUT * self.mass_sigma else 0.0

    @property
    def present(self) -> Floats:
        """The share of each group that has a value: none or all, where that is plausible; where
        both are, the share over all groups.
        """
        totals = self.totals
        mass = np.maximum(self.mass, 0.0)
        if not self.values.shape[1]:
            return np.zeros(len(totals))
        overall = float(np.clip(totals.sum() / max(mass.sum(), _LEAST), 0.0, 1.0))
        some = totals > PLAUSIBLE * self.total_sigma
        apart = np.hypot(self.total_sigma, self.mass_sigma)
        all_of_them = mass - totals < PLAUSIBLE * apart
        share = np.clip(totals / np.maximum(mass, _LEAST), 0.0, 1.0)
        share = np.where(all_of_them, 1.0, share)
        return np.where(some, share, np.where(all_of_them, overall, 0.0))


@frozen
class ValueShares:
    """The values of one attribute by group: ``present``, the share that has one, shape (groups,);
    ``shape``: how often each of these is, shape (groups, values), rows that add up to 1.
    """

    present: Floats
    shape: Floats


def fitted(counted: Counted, passed_on: Floats) -> ValueShares:
    """What the counts say, with the noise taken out as far as it can be.

    ``passed_on``: for each group (row) the share of its values that are known to be those of each
    group (column), shape (groups, groups), rows that add up to 1 at most: of activities that come
    before it. What else a group is expected to be like are all groups together.
    """
    present = counted.present
    used = (present > 0) & (counted.totals > 0)
    # Over all groups that are used; even, where there are none.
    size = counted.values.shape[1]
    everywhere = np.full(size, 1 / max(size, 1))
    if used.any() and size:
        counts = counted.values[used].sum(axis=0)
        expected = expected_counts(counts, counted.sigma * float(np.sqrt(used.sum())))
        everywhere = expected / expected.sum()
    shape = np.tile(everywhere, (len(present), 1))
    if used.sum() > 1 and len(everywhere):
        parents = shape
        known = np.where(used, passed_on, 0.0)
        rest = 1 - known.sum(axis=1, keepdims=True)
        # Groups learn from what others became in the round before.
        for _ in range(1 + ROUNDS * bool(known.any())):
            guess = np.maximum(counted.totals[used, None] * parents[used], _LEAST)
            found = expected_beside(counted.values[used], guess, counted.sigma)
            # Groups that are not used are what was expected of them.
            shape = parents.copy()
            shape[used] = shares_in_rows(found)
            parents = known @ shape + rest * everywhere
    return ValueShares(present, shape)


def independent(table: Floats) -> Floats:
    """A table of the same margins without any structure."""
    rows = np.maximum(table.sum(axis=1), 0)
    columns = np.maximum(table.sum(axis=0), 0)
    return np.outer(rows, columns) / max(float(rows.sum()), 1e-9)


class NoisyTables:
    """The noisy tables, in cases; ``step``: cases in a grid step.

    ``answers``: the tables, each time with the deviation of their noise in grid steps; several are
    averaged, weighted by how precise they are.
    """

    def __init__(
        self,
        layout: TableLayout,
        answers: Sequence[tuple[NoisySums, float]],
        step: float,
    ) -> None:
        # Answers are averaged by precision, which adds up.
        weighted = [(sums, 1 / sigma**2) for sums, sigma in answers]
        precision = sum(weight for _, weight in weighted)
        self.layout = layout
        self._step = step
        self._parts = [(sums, weight / precision) for sums, weight in weighted]
        self._sigma = step / math.sqrt(precision)
        self._side_sigma = self._sigma / SIDE_WEIGHT

    def _at(
        self,
        begin: int,
        count: int,
        weight: float = SIDE_WEIGHT,
    ) -> Floats:
        """The counts from the key ``begin`` on, of what goes in with this weight."""
        codes: Ints = begin + np.arange(count)
        found = np.zeros(count)
        for sums, part in self._parts:
            found += sums.at(codes) * part
        return found * (self._step / weight)

    def counted(self, place: int) -> Counted:
        """The counts of one attribute."""
        layout = self.layout
        side = self._side_sigma
        attribute = layout.attributes[place]
        groups = layout.groups(place)
        weight = layout.weight(place)
        values = self._at(layout.values(place), groups * attribute.size, weight)
        values = values.reshape(groups, attribute.size)
        sigma = self._sigma / weight
        # Each group's total: what its values add up to, and its own count if any, weighted by how
        # precise they are.
        totals: Floats = values.sum(axis=1)
        variance = sigma**2 * max(attribute.size, 1)
        if layout.counts_totals(place):
            alone = self._at(layout.totals(place), groups)
            trust = side**2 / (variance + side**2)
            totals = trust * totals + (1 - trust) * alone
            variance = 1 / (1 / variance + 1 / side**2)
        # Behind the activities' masses stands that of all cases.
        first = layout.masses + (len(layout.labels) if attribute.is_of_cases else 0)
        changed, same = self._at(2 * place, 2).tolist()
        return Counted(
            values=values,
            sigma=sigma,
            totals=totals,
            total_sigma=float(np.sqrt(variance)),
            mass=self._at(first, groups),
            mass_sigma=side,
            changed=changed,
            same=same,
            changed_sigma=side,
        )

    def masses(self) -> tuple[Floats, float]:
        """How many cases have each activity, and last how many there are: shape (labels + 1,); and
        the deviation of their noise.
        """
        return self._at(self.layout.masses, len(self.layout.labels) + 1), self._side_sigma

    def share_counted(self, released: Cases) -> float:
        """What the tables count a case for, about: clipping leaves less than 1 of one. Released
        cases are about as many as the log's, and have the same activities. 1 where noise hides it.
        """
        label, share = spread_over_events(released, self.layout.labels)
        known = label >= 0
        counts = np.bincount(label[known], share[known], minlength=len(self.layout.labels))
        real = np.append(counts, len(released)) * released.worth
        noisy, sigma = self.masses()
        # The noisy counts along the real ones (least squares).
        length = float(np.sqrt(real @ real))
        along = float(noisy @ real) / max(length, 1.0)
        if along < STANDS_OUT * sigma:
            return 1.0
        return max(along / length, LEAST_SCALE)

    def followed(self, place: int) -> Floats:
        """How often each value (row) is followed by each, of an attribute of few."""
        size = self.layout.attributes[place].size
        return self._at(self.layout.follows(place), size**2).reshape(size, size)

    def transitions(self, place: int) -> Floats | None:
        """The same with the noise taken out; None where it is not counted, or noise hides it."""
        attribute = self.layout.attributes[place]
        sigma = self._side_sigma
        if attribute.is_of_cases or not self.layout.counts_follows(place):
            return None
        counts = self.followed(place)
        if counts.sum() < STANDS_OUT * sigma * max(attribute.size, 1):
            return None
        return expected_beside(counts, np.maximum(independent(counts), 1e-6), sigma)


CENTRED: Final = 0.01
"""Shares below this are not taken off: they make gradients no shorter to speak of, and there may be
many.
"""

LEAST_NORM: Final = 0.5
"""No gradient is expected to be shorter, in cases, even where each value is as good as certain."""

AROUND: Final = (0.75, 1.0, 1.25)
"""How long gradients are, in parts of what is expected of a case."""

DEARER: Final = 3.0
"""What noise costs in a step beside uneven weights, as a multiple of that in tables."""

LEAST_SCALE: Final = 0.01
"""The tables are taken to count each case for this at least."""


@frozen
class GradientStep:
    """``expected``: of each attribute how often each value is, of all cases with the activity,
    shape (groups, values), 0 where that is below ``CENTRED``; ``norm``: what gradients are clipped
    to, in cases; ``scale``: what the tables' clip leaves of a case, over what the gradient's leaves
    of one.
    """

    layout: TableLayout
    expected: tuple[Floats, ...]
    norm: float
    scale: float

    @classmethod
    def starting_at(
        cls,
        shares: Sequence[ValueShares],
        tables: NoisyTables,
        released: Cases,
        sigma: float,
    ) -> "GradientStep":
        """At ``shares``, what ``tables`` say; how long gradients are follows from the ``released``
        cases. ``sigma``: of the step's noise, in grid steps.
        """
        layout = tables.layout
        every = [each.present[:, None] * each.shape for each in shares]
        expected = tuple(np.where(each >= CENTRED, each, 0.0) for each in every)
        # Mean squares: a share less its square where it is taken off, and the share where not.
        squares = [
            (each - usual**2).sum(axis=1) for each, usual in zip(every, expected, strict=True)
        ]
        lengths = _expected_lengths(layout, squares, released)
        if not len(lengths):
            return cls(layout, expected, LEAST_NORM, 1.0)
        # Each case comes once for each of these parts, so noise counts so often, too.
        norms = np.maximum(np.outer(AROUND, lengths).ravel(), LEAST_NORM)
        noise = sigma / UNIT_NORM * len(AROUND)
        best = best_norm(norms, np.ones(len(norms)), noise * DEARER)
        # Not below the median of expected norms, nor above the largest.
        norm = min(max(best, float(np.median(norms))), float(norms.max()))
        left = float(np.minimum(1.0, norm / norms).mean())
        return cls(layout, expected, norm, tables.share_counted(released) / left)

    def taken(
        self,
        kernel: Kernel,
        counted: Sequence[Counted],
        sigma: float,
    ) -> list[Counted]:
        """The counts, with what the step's answer says of them; ``sigma``: of its noise, in grid
        steps.
        """
        answer = kernel.sum(
            self.gradients(), Gaussian(sigma), MOVED, table=Table("gradient of values")
        )
        corrected = []
        for place, known in enumerate(counted):
            groups, size = known.values.shape
            codes = self.layout.values(place) + np.arange(groups * size)
            # Back from clipped grid steps to cases, as the tables count them.
            grain = self.norm * self.scale / (UNIT_NORM * self.layout.weight(place))
            moved = answer.at(codes).reshape(groups, size) * grain
            values = np.maximum(known.mass, 0.0)[:, None] * self.expected[place] + moved
            noise = sigma * grain
            # What was expected and the answer's correction, averaged with what was counted.
            found, deviation = _averaged(known.values, known.sigma, values, noise)
            # A total is a sum of as many noisy values.
            totals, total_sigma = _averaged(
                known.totals,
                known.total_sigma,
                values.sum(axis=1),
                noise * float(np.sqrt(max(size, 1))),
            )
            # The same of how often values change.
            grain *= self.layout.weight(place) / SIDE_WEIGHT
            counts = np.asarray(answer.at(np.array([2 * place])) * grain, np.float64)
            changed, changed_sigma = _averaged(
                np.array(known.changed), known.changed_sigma, counts, sigma * grain
            )
            corrected.append(
                replace(
                    known,
                    changed=float(changed[0]),
                    changed_sigma=changed_sigma,
                    values=found,
                    sigma=deviation,
                    totals=totals,
                    total_sigma=total_sigma,
                )
            )
        return corrected

    def gradients(self) -> Query:
        """The gradient of each case, at the keys of the tables' values and of their changes."""

        def gradients(cases: Cases) -> Entries:
            own = Contributions()
            usual = Contributions()
            label, share = spread_over_events(cases, self.layout.labels)
            of_events = _having(cases, label, share, len(self.layout.labels))
            for place, attribute in enumerate(self.layout.attributes):
                column = cases.columns[attribute.name]
                codes = attribute.codes(column)
                # How often the case has each value.
                counted = counted_rows(cases, attribute, label, share)
                add_values(
                    own,
                    self.layout,
                    place,
                    *counted,
                    codes,
                )
                # Less how often the tables expect it.
                having, groups, expects = counted if attribute.is_of_cases else of_events
                often, cell, expected = _usual_values(self.expected[place], groups)
                key = self.layout.values(place) + cell
                weight = -self.layout.weight(place) * expected * np.repeat(expects, often)
                usual.append((np.repeat(having, often), key, weight))
                if attribute.is_of_cases:
                    continue
                # Beside the gradient, how often the value changes within the case.
                exact = attribute.exact(column, codes)
                before, after, part = followed(cases.case_of, codes)
                changed = exact[before] != exact[after]
                after = after[changed]
                key = np.full(len(after), 2 * place)
                own.append((cases.case_of[after], key, SIDE_WEIGHT * part[changed]))
            # Of too many keys, those that the case has are kept.
            return in_steps(own + usual, UNIT_NORM / self.norm)

        return gradients


def _having(
    cases: Cases,
    label: Ints,
    share: Floats,
    labels: int,
) -> tuple[Ints, Ints, Floats]:
    """Each case and each activity that it has, once, both int64, ascending by case; and what its
    events of the activity count for together. ``label``, ``share``: as of ``spread_over_events``.
    """
    known = label >= 0
    once, place, _ = distinct(cases.case_of[known] * labels + label[known])
    weight = np.asarray(np.bincount(place, share[known], len(once)), np.float64)
    return once // max(labels, 1), once % max(labels, 1), weight


def _usual_values(expected: Floats, group: Ints) -> tuple[Ints, Ints, Floats]:
    """For each entry of ``group`` how many values are usual there; and of these, entry by entry,
    the cell of the table, and the share.
    """
    groups, size = expected.shape
    cells = np.flatnonzero(expected.ravel() > 0)
    # Cells stand group by group: ``times`` of each, from ``first`` on.
    times = np.bincount(cells // max(size, 1), minlength=groups)
    first = np.cumsum(times) - times
    place = ranges_of(first[group], times[group])
    return times[group], cells[place], expected.ravel()[cells][place]


def _averaged(
    one: Floats,
    one_sigma: float,
    other: Floats,
    other_sigma: float,
) -> tuple[Floats, float]:
    """Two answers to the same question, weighted by how precise they are; and its deviation."""
    precision = one_sigma**-2
    other_precision = other_sigma**-2
    both = precision + other_precision
    return (one * precision + other * other_precision) / both, both**-0.5


def _expected_lengths(
    layout: TableLayout,
    squares: Sequence[Floats],
    released: Cases,
) -> Floats:
    """How long the gradient of each of the ``released`` cases would be, about: shape (cases,).
    ``squares``: of each attribute the mean square of what is in a group, shape (groups,).
    """
    labels = len(layout.labels)
    of_events = np.zeros(labels)
    of_cases = 0.0
    for place, attribute in enumerate(layout.attributes):
        square = layout.weight(place) ** 2 * squares[place]
        if attribute.is_of_cases:
            of_cases += float(square[0])
        else:
            of_events += square
    case, label, weight = _having(
        released, *spread_over_events(released, layout.labels), len(layout.labels)
    )
    found = np.bincount(case, of_events[label] * weight, minlength=len(released))
    return np.asarray(np.sqrt(found + of_cases), np.float64)
