"""Times for cases that were made of noisy answers, from noisy histograms of the log's times."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import product
from typing import Any, ClassVar, Final, Generic, TypeVar

import numpy as np
from pydantic import JsonValue

from cloakwork.base.arrays import Floats, Ints, distinct, owners_of, shares_in_rows
from cloakwork.base.facts import Facts, Window
from cloakwork.base.frozen import frozen
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS, Lineage
from cloakwork.kernel import Cases, Gaussian, Kernel, Query, Randomness, Table
from cloakwork.kernel.perturb import Grid
from cloakwork.mechanisms.base import (
    MeetsNoGoal,
    Offer,
    Options,
    PartOfGoal,
    Proof,
    Refusal,
    Theorem,
    no_option,
)
from cloakwork.mechanisms.steps import ColumnValues, Enrichment, EnrichStep, Times
from cloakwork.mechanisms.timestamps.bins import Clock, LogBins
from cloakwork.mechanisms.timestamps.completion import READABLE
from cloakwork.mechanisms.timestamps.drawing import (
    TOLERANCE,
    TURNS_OF_A_PART,
    ManyDraws,
    at_usual_hours,
    distributions,
    last_that_stands_out,
    meet_totals,
    moved_by_weeks,
    start_steps,
    sums_in_cases,
    usual_week,
)
from cloakwork.mechanisms.timestamps.tables import (
    CLASSES,
    CLIPS,
    UNIT_NORM,
    WEEK_PARTS,
    HistogramParams,
    StartTable,
    TableName,
    TimesParams,
    gaps_in,
    hours_of,
    offered_params,
    pairs_of,
    totals_groups,
    totals_in,
    week_codes,
)

P = TypeVar("P", bound=TimesParams)
Found = TypeVar("Found")

BINS: Final = 16
"""Of a log scale, where there are ``CASES`` cases to a sigma; their number grows with the third
root of these (the best width of bins of a histogram).
"""

CASES: Final = 70

FEWEST = 8
MOST = 128

DIFFERS: Final[Mapping[TableName, float]] = {
    "gaps-by-activity": 0.7,
    "gaps-by-pair": 0.8,
    "totals": 0.3,
}
"""By how much a distribution usually differs from the one that it is shrunk to, in standard
deviations of a coin. Numbers here were chosen on synthetic logs.
"""

EVEN: Final = 0.05
"""The part of durations that may be anything, whatever gaps add up to."""

ALIKE: Final = 5.0
"""What all cases' sums of gaps count for beside those of a group's cases, in cases."""

HIDDEN: Final = 4.0
"""Cases to a sigma, about, of which a group's own table of durations tells as much as what the gaps
of its cases add up to.
"""

REACH: Final = 1
"""Bins beyond the longest sum of gaps of a released case that durations may lie in."""

NEVER: Final = 1e-9
"""What is expected of a bin beyond."""

MIXED: Final = 0.4
"""By how much the mass of the table of all gaps usually errs: it grows with the bins that those of
a case are in.
"""

MANY: Final = 1_000
"""Cases to a sigma of the noise on hours from which on half of them count by event."""

PERIODS: Final = 40
"""Of a window, at most; ten times as many of the century in which one is looked for."""

_NO_CODES: Final = np.zeros(0, np.int64)
"""A table that is asked for, of which nothing is read yet."""

_THIRD: Final = float(1 / np.sqrt(3))
"""What a case weighs in each of three parts of a table."""


@frozen
class ModelledTimes:
    """Measures the tables, and draws times from them.

    ``cases``: those that times are drawn for, in the same activities as those that ``kernel``
    asks, or a part of them (``Cases.worth``). ``window``: in which cases start. ``known``: what was
    asked before for another part, and what follows from that. ``randomness``: the part's; None: the
    kernel's.
    """

    params: HistogramParams
    kernel: Kernel
    cases: Cases
    window: Window
    known: dict[str, Any] = field(default_factory=dict, kw_only=True)
    randomness: Randomness | None = field(default=None, kw_only=True)

    @property
    def clock(self) -> Clock:
        """That of the parameters' grid."""
        return Clock.of(Grid(self.params.epoch, self.params.grid), self.params.time_zone)

    @property
    def draws(self) -> ManyDraws:
        """Randomness that hides nothing."""
        return ManyDraws(self.randomness or self.kernel.randomness)

    @property
    def rows(self) -> Ints:
        """The cases that have events."""
        return np.flatnonzero(self.cases.lengths)

    @property
    def firsts(self) -> Ints:
        """The first event of each of these."""
        return self.cases.offsets[:-1][self.rows]

    @property
    def followers(self) -> Ints:
        """The other events."""
        return np.flatnonzero(self.cases.place)

    @property
    def longest(self) -> int:
        """The longest gap, in steps of the grid."""
        return self.clock.grid.steps_in(self.params.longest_in(self.window))

    @property
    def longest_total(self) -> int:
        """The longest duration of a case that is told from longer ones."""
        window = self.clock.grid.steps_in(self.window.end - self.window.start)
        return max(self.longest, window)

    def once(self, name: str, find: Callable[[], Found]) -> Found:
        """What ``find`` found for the first of several parts: the same for all of them."""
        if name not in self.known:
            self.known[name] = find()
        found: Found = self.known[name]
        return found

    def draw_steps(self) -> Ints:
        """A time for each event, in steps of the grid."""
        if self.params.is_window_declared:
            return self.draw_in_window()
        # Undeclared, the window is measured first, since all else lies within it.
        return replace(self, window=self._measured_window()).draw_in_window()

    def _measured_window(self) -> Window:
        """About when the first and the last case start."""
        table = StartTable.within(self.clock, self.window, 10 * PERIODS)
        noisy = self._ask("window", table.period_query, np.arange(table.periods))
        return table.window_of(noisy, self._sigma("window"))

    def draw_in_window(self) -> Ints:
        """The same, where the window is known."""
        drawn, pair = self._draw_gaps()
        gaps = self._meet_totals(drawn, pair)
        starts = self._draw_starts()
        hours = self.once("usual hours", lambda: self._usual_hours(starts, gaps))
        lengths = self.cases.lengths[self.rows]
        return self._as_declared(
            at_usual_hours(
                starts,
                gaps,
                lengths,
                hours,
                self.clock,
                self.draws,
                None if self.cases.worth == 1 else TURNS_OF_A_PART,
            )
        )

    def _as_declared(self, steps: Ints) -> Ints:
        """The times, moved such that cases start in the window and no gap is above the longest."""
        clock = self.clock
        firsts = self.firsts
        followers = self.followers
        longest = self.params.longest_in(self.window) // clock.grid.step
        # Starts as times, all others as gaps: what is moved takes along what comes behind it.
        parts = np.diff(steps, prepend=0)
        parts[firsts] = moved_by_weeks(steps[firsts], *clock.inside(self.window), clock)
        parts[followers] = moved_by_weeks(parts[followers], 0, longest, clock)
        moved = sums_in_cases(parts, self.cases.offsets)
        return np.clip(moved, *clock.inside(READABLE))

    def _ask(
        self,
        name: TableName,
        query: Query,
        codes: Ints,
        spell: Callable[[Ints], Sequence[Sequence[JsonValue]]] | None = None,
    ) -> Floats:
        """Noisy weights of cases at ``codes``; ``spell``: what these stand for."""
        noise = Gaussian(self.params.sigmas[name])
        table = Table(f"times: {name}", spell)
        # Asked once: other parts read more of the same answer.
        sums = self.once(name, lambda: self.kernel.sum(query, noise, CLIPS[name], table=table))
        return sums.at(codes) / UNIT_NORM

    def _spelled(
        self,
        groups: Sequence[tuple[JsonValue, ...]],
        bins: LogBins,
    ) -> Callable[[Ints], list[tuple[JsonValue, ...]]]:
        """Keys as their group, and from how many seconds to less than how many their bin goes."""
        edges = (bins.edges * (self.clock.microseconds / 1e6)).tolist()

        def spell(codes: Ints) -> list[tuple[JsonValue, ...]]:
            group, place = np.divmod(codes, len(bins))
            pairs = zip(group.tolist(), place.tolist(), strict=True)
            return [(*groups[of], *edges[at : at + 2]) for of, at in pairs]

        return spell

    def _sigma(self, name: TableName) -> float:
        """Of the noise on a table, in cases."""
        return self.params.sigmas[name] / UNIT_NORM

    def _bins(self, name: TableName, longest: int) -> LogBins:
        """As many as the number of released cases and the noise allow."""
        cases = len(self.rows) * self.cases.worth
        number = BINS * np.cbrt(cases / self._sigma(name) / CASES)
        return self.once(
            f"bins of {name}", lambda: LogBins.up_to(longest, int(np.clip(number, FEWEST, MOST)))
        )

    def _draw_gaps(self) -> tuple[Ints, Ints]:
        """The gap before each of the ``followers``, and its pair."""
        labels = len(self.cases.alphabet)
        bins = self._bins("gaps", self.longest)
        target = self.cases.codes[self.followers]
        pairs, row = pairs_of(self.cases)
        every = np.arange(labels)
        by_target = np.broadcast_to(every, (labels, labels))
        # Keys are those of all pairs: a part that is drawn later may have others, which then go by
        # their activity.
        of_pairs = np.full(labels * labels, -1)
        of_pairs[pairs] = pairs
        by_pair = of_pairs.reshape(labels, labels)
        # Asked before any of them is read: one pass over a log in batches.
        self._gap_sums("gaps", bins, None, _NO_CODES)
        self._gap_sums("gaps-by-activity", bins, by_target, _NO_CODES)
        self._gap_sums("gaps-by-pair", bins, by_pair, _NO_CODES)
        self._total_sums(_NO_CODES)
        self._ask("starts", self._start_table.query, _NO_CODES)
        # Each table is expected to be as the coarser one before it.
        of_all = self._all_gaps(bins)
        of_target = self._gap_table(
            "gaps-by-activity",
            bins,
            by_target,
            every,
            target,
            np.repeat(of_all, labels, axis=0),
        )
        of_pair = self._gap_table(
            "gaps-by-pair",
            bins,
            by_pair,
            pairs,
            row,
            of_target[pairs % labels],
        )
        return self.draws.spans(of_pair, row, bins), row

    def _all_gaps(self, bins: LogBins) -> Floats:
        """The distribution of all gaps: shape (1, bins)."""
        noisy = self._gap_sums("gaps", bins, None, np.arange(len(bins)))
        # What the released cases weigh there, as a case of the log would.
        _, _, size = distinct(self.cases.case_of[self.followers])
        weight = size / np.sqrt(size) * self.cases.worth
        mass = np.bincount(np.zeros_like(size), weights=weight, minlength=1).astype(np.float64)
        # Far beyond the gaps that stand out, noise alone would make some, each longer than a case.
        sigma = self._sigma("gaps")
        some = self._reached(noisy, sigma)
        found = distributions(noisy[None, :some], sigma, mass, tolerance=MIXED)
        return np.pad(found, [(0, 0), (0, len(bins) - some)])

    def _reached(self, noisy: Floats, sigma: float) -> int:
        """How many bins hold anything. None are left out where the longest gap is declared, or
        cases are made up: there more of what is real was cut off than of noise.
        """
        if self.params.longest_gap is not None or not self.params.is_given_flow:
            return len(noisy)
        return min(last_that_stands_out(noisy, sigma) + REACH + 1, len(noisy))

    def _gap_table(
        self,
        name: TableName,
        bins: LogBins,
        row_of: Ints,
        asked: Ints,
        group: Ints,
        expected: Floats,
    ) -> Floats:
        """The distribution of gaps of each of the groups ``asked``; ``group``: which of them each
        of the ``followers`` has.
        """
        groups = len(expected)
        codes = asked[:, None] * len(bins) + np.arange(len(bins))
        noisy = self._gap_sums(name, bins, row_of, codes)
        # What the released cases weigh in each group, as a case of the log would.
        once, _, _ = distinct(self.cases.case_of[self.followers] * groups + group)
        case, of = np.divmod(once, groups)
        weight = self.cases.worth / np.sqrt(np.bincount(case)[case])
        mass = np.bincount(of, weights=weight, minlength=groups).astype(np.float64)
        return distributions(
            noisy,
            self._sigma(name),
            mass,
            expected,
            DIFFERS[name],
            TOLERANCE,
        )

    def _gap_sums(
        self,
        name: TableName,
        bins: LogBins,
        row_of: Ints | None,
        codes: Ints,
    ) -> Floats:
        """Noisy gaps by no activity, by one or by two."""
        of = {"gaps": 0, "gaps-by-activity": 1}.get(name, 2)
        names = list(product(self.cases.alphabet, repeat=of))
        query = gaps_in(self.clock, bins, row_of)
        return self._ask(name, query, codes, self._spelled(names, bins))

    def _total_sums(self, codes: Ints) -> Floats:
        """Noisy durations by the groups of ``totals_in``."""
        labels = self.cases.alphabet
        bins = self._bins("totals", self.longest_total)
        names: list[tuple[JsonValue, ...]] = [(), *((label,) for label in labels)]
        names += [(label, each) for label in labels for each in range(CLASSES)]
        query = totals_in(self.clock, bins, len(labels))
        return self._ask("totals", query, codes, self._spelled(names, bins))

    def _meet_totals(self, gaps: Ints, pair: Ints) -> Ints:
        """The same gaps, changed so that the durations of cases follow their own table."""
        cases = self.cases
        bins = self._bins("totals", self.longest_total)
        rows = np.flatnonzero(cases.lengths > 1)
        # All groups of the released cases are asked for, table by table.
        last = cases.codes[cases.offsets[1:][rows] - 1]
        groups = totals_groups(last, cases.lengths[rows], len(cases.alphabet))
        found = [distinct(group)[:2] for group in groups]
        codes = np.concatenate([keys for keys, _ in found])[:, None] * len(bins)
        noisy = self._total_sums(codes + np.arange(len(bins)))
        if not len(rows):
            return gaps
        tables = np.split(noisy, np.cumsum([len(keys) for keys, _ in found])[:-1])
        group_of = [row for _, row in found]
        # The durations of a group follow its table, and what its own gaps add up to.
        case = np.searchsorted(rows, cases.case_of[self.followers])
        by_gaps = np.bincount(case, weights=gaps).astype(np.int64)
        shape = self._totals(tables, group_of, bins.place(by_gaps))
        totals = self.draws.spans(shape, group_of[-1], bins)
        met = meet_totals(
            gaps,
            pair,
            case,
            totals,
            group_of[-1],
            self.draws,
        )
        return np.clip(met, 0, self.longest)

    def _totals(
        self,
        tables: list[Floats],
        rows: list[Ints],
        place: Ints,
    ) -> Floats:
        """How durations are distributed in each group of the last of noisy ``tables``, each finer
        than the one before it.

        ``rows``: the group of each case, by table; ``place``: the bin of what its gaps add up to.
        A group is expected to be as the group that it is a part of, and, the more noise hides of
        it, as its own gaps add up, as far as such sums were right for all cases in the table
        before.
        """
        sigma = self._sigma("totals")
        weight = _THIRD * self.cases.worth
        # Far beyond the durations that stand out, noise alone would make some.
        all_bins = tables[0].shape[1]
        bins = self._reached(tables[0][0], sigma)
        tables = [table[:, :bins] for table in tables]
        place = np.minimum(place, bins - 1)

        def shrunk(
            noisy: Floats,
            row: Ints,
            expected: Floats,
        ) -> Floats:
            """Distributions of which ``expected`` is, up to a factor, expected."""
            mass = np.asarray(np.bincount(row) * weight, np.float64)
            usual = shares_in_rows(expected)
            return distributions(
                noisy,
                sigma,
                mass,
                usual,
                DIFFERS["totals"],
            )

        # Nor does any last much longer than what a case's gaps add up to.
        within = np.arange(bins) <= place.max() + REACH
        even = np.where(within, EVEN / within.sum(), NEVER)
        seen = (1 - EVEN) * np.bincount(place, minlength=bins) / len(place) + even
        shape = shrunk(tables[0], rows[0], seen[None, :])
        # Each table is shrunk to the one before, and, where noise hides it, to sums of gaps.
        for noisy, row, above in zip(tables[1:], rows[1:], rows[:-1], strict=True):
            parent = np.zeros(len(noisy), np.int64)
            parent[row] = above
            own = np.zeros(noisy.shape)
            np.add.at(own, (row, place), 1)
            right = shape[above].mean(axis=0) / seen
            sums = (own + ALIKE * seen) * right
            sums /= sums.sum(axis=1, keepdims=True)
            noise = HIDDEN * sigma / (np.bincount(row) * weight)
            hidden = (noise / (1 + noise))[:, None]
            shape = shrunk(noisy, row, hidden * sums + (1 - hidden) * shape[parent])
        return np.pad(shape, [(0, 0), (0, all_bins - bins)])

    @property
    def _start_table(self) -> StartTable:
        return StartTable.within(self.clock, self.window, PERIODS)

    def _draw_starts(self) -> Ints:
        """The start of each case that has events."""
        size = len(self.rows)
        sigma = self._sigma("starts")
        table = self._start_table
        noisy = self._ask("starts", table.query, np.arange(table.cells))
        mass = np.array([size * _THIRD * self.cases.worth])
        trend, weekdays, hours = (
            distributions(cells[None, :], sigma, mass)[0]
            for cells in np.split(noisy, [table.periods, table.periods + 7])
        )
        weights = table.day_weights(trend, weekdays)
        return start_steps(
            weights,
            table.first_day,
            hours,
            self.clock,
            size,
            self.draws,
        )

    def _usual_hours(self, starts: Ints, gaps: Ints) -> Floats:
        """The part of all events in each hour of the week (day, where the clock knows no hours);
        ``starts`` and ``gaps`` are those of released cases.

        Of an event in a long case less is counted, as much as the clip leaves. So cases of usual
        norms count by event, where there are many to a sigma, and each case as much as it can,
        where there are few.
        """
        clock = self.clock
        sizes = 7, clock.hours, clock.slots
        cells = sum(sizes)
        parts = np.repeat(WEEK_PARTS, sizes)
        sigma = self._sigma("hours")
        gap = np.zeros(len(self.cases.codes), np.int64)
        gap[self.followers] = gaps
        lengths = self.cases.lengths[self.rows]
        steps = np.repeat(starts, lengths) + sums_in_cases(gap, self.cases.offsets)
        case = np.tile(owners_of(lengths), 3)
        cell, _, times = distinct(case * cells + week_codes(clock, steps))
        weighed = (times * parts[cell % cells]) ** 2
        norms = np.sqrt(np.append(1.0, np.bincount(cell // cells, weighed)))
        many = min(len(lengths) * self.cases.worth / sigma / MANY, 1.0)
        norm = float(np.quantile(norms, many / 2))
        noisy = self._ask("hours", hours_of(clock, max(1, int(UNIT_NORM / norm))), np.arange(cells))
        days, hours, slots = np.split(noisy / parts, np.cumsum(sizes)[:-1])
        return usual_week(days, hours, slots, sigma / np.array(WEEK_PARTS))


class GivesTimes(MeetsNoGoal[P], Generic[P]):
    """Gives times to cases that a step before made, by noisy answers about the times of the log."""

    serves_parts: ClassVar[bool] = True
    alone: ClassVar[str] = (
        "it gives times to cases that were made of noisy answers: a part of a guarantee over "
        "control flow and timestamps together, and no guarantee by itself"
    )
    proof: ClassVar[Proof] = "proved"

    @staticmethod
    @abstractmethod
    def params_at(part: PartOfGoal, facts: Facts) -> Any:
        """The least noise for ``part``: parameters, or a Refusal."""

    @abstractmethod
    def why(self, params: P) -> str:
        """What it does, for the plan."""

    @abstractmethod
    def model(
        self,
        params: P,
        kernel: Kernel,
        cases: Cases,
    ) -> ModelledTimes:
        """What draws times for ``cases``."""

    def offer_part(
        self,
        part: PartOfGoal,
        facts: Facts,
        options: Options,
    ) -> Offer[P] | Refusal:
        """The times, at its ``mu``; no delta is spent."""
        if part.columns != (TIMESTAMPS,):
            return Refusal("never", f"it writes timestamps only, not {', '.join(part.columns)}")
        if options:
            return no_option(options)
        found = self.params_at(part, facts)
        return found if isinstance(found, Refusal) else Offer(found, self.why(found))

    def step(self, params: P, facts: Facts) -> EnrichStep:
        """Measures order and times of the log, or times where the order is taken as known; reads
        the order of events that is released.
        """
        hidden = {TIMESTAMPS} if params.is_given_flow else {CONTROL_FLOW, TIMESTAMPS}
        return EnrichStep(
            lineage=Lineage(
                measures=frozenset(hidden),
                reads=frozenset({CONTROL_FLOW}),
                writes=frozenset({TIMESTAMPS}),
                enriches=True,
            ),
            event=params.event(),
            enrich=partial(self.enrich, params),
            in_parts=True,
        )

    def enrich(
        self,
        params: P,
        kernel: Kernel,
        cases: Cases,
    ) -> Enrichment:
        """Measure, and draw a time for each event of ``cases``; of other parts, by what was then
        answered.
        """
        if not len(cases.codes):
            return Enrichment({TIMESTAMPS: Times(np.zeros(0, np.int64))})
        # Sorted: labels in another order would be other codes.
        labels = tuple(sorted(cases.alphabet))
        model = self.model(params, kernel.narrowed(labels), cases.within(labels))

        def of_part(part: Cases, randomness: Randomness) -> ColumnValues:
            return _times(replace(model, cases=part.within(labels), randomness=randomness))

        return Enrichment(_times(model), of_part=of_part)


def _times(model: ModelledTimes) -> ColumnValues:
    if not len(model.cases.codes):
        return {TIMESTAMPS: Times(np.zeros(0, np.int64))}
    return {TIMESTAMPS: Times(model.clock.grid.microseconds(model.draw_steps()))}


class TimestampHistogram(GivesTimes[HistogramParams]):
    """Give times to cases that a step before made, by noisy histograms of the times of the log.

    Six tables are measured, of cases without the events whose activity is not released. (1) Gaps
    on a log scale: of all, (2) by the activity that they lead to, (3) by directly-follows pair *of
    the released control flow*; each is shrunk to the one before, so a pair that few cases have
    goes by what is usual of its activity. (4) When cases start: the trend over the window, days of
    the week, hours of the day. (5) Days and hours of the week of all events. (6) How long cases
    take: all, by last activity, and by this and the number of events; these are shrunk to what the
    gaps add up to, and, the more cases a group has, to the one before.

    Without a declared window a table before these finds one, in a century: how many cases start in
    each 13 weeks. Without a declared longest gap it is the length of the window, a year at least.

    Of these, times are drawn: a start and gaps for each case; the longest are then changed so that
    the durations of cases follow (6), the longest case getting the longest duration; cases change
    starts, and gaps become somewhat longer or shorter, so that (5) about holds. Times never descend
    in a case, and lie on the grid; cases start in the window, and no gap is above the longest: what
    has come to lie outside is moved inside, by whole weeks.

    **Sensitivity.** The kernel scales the vector of a case to norm 1 (L2), towards zero, in each
    table: whatever a case looks like, and however long it is, it moves a table by at most 1, a unit
    of m cases by at most m; where the control flow is taken as known, and other times take the
    place of a case's, by the root of 2 times that (``Clip.moved``). In (2) and (3) a case weighs 1
    in each group before, spread over its occurrences there; in (1) and (5) each occurrence weighs
    as much, so that the norm is used up. Gaps beyond the longest count as such, starts outside the
    window count at its edge, events without a time count for nothing.

    **Edge cases.** Empty log, no times at all, one event a case: the tables hold noise alone, and
    times come out that follow from that; nothing released: no times. The clock of a grid of a day
    or more knows no hours.
    """

    name: ClassVar[str] = "timestamps/histogram"
    action: ClassVar[str] = "draw times with noise"
    summary: ClassVar[str] = (
        "Gives times to cases made of noisy answers, by noisy histograms of starts, gaps and "
        "durations."
    )
    theorem: ClassVar[Theorem] = Theorem(
        "For units of at most m cases (unbounded neighbours): each table is a sum of "
        "vectors of cases, whose norm (L2) is at most 1, so one unit moves it by at most m; given "
        "the control flow (bounded neighbours), other times of a unit by at most the root of 2 "
        "times m, since no number is negative; which "
        "cells are read follows from the released control flow and from answers before. Discrete "
        "Gaussian noise on all of them composes adaptively to the event that is charged; what is "
        "drawn from the noisy tables is post-processing.",
        "Canonne, Kamath, Steinke 2020, theorem 14; Dong, Roth, Su 2022, for adaptive composition "
        "by mu squared",
    )
    Params = HistogramParams
    params_at = staticmethod(offered_params)

    def why(self, params: HistogramParams) -> str:
        """And which share of its budget (of mu squared) undeclared facts take."""
        drawn = "draws times from noisy histograms of starts, gaps and durations"
        if params.is_window_declared:
            return drawn
        squares = {name: 1 / sigma**2 for name, sigma in params.sigmas.items()}
        share = squares["window"] / sum(squares.values())
        return f"{drawn}; {share:.0%} of its budget finds the window, which is not declared"

    def model(
        self,
        params: HistogramParams,
        kernel: Kernel,
        cases: Cases,
    ) -> ModelledTimes:
        """All tables."""
        return ModelledTimes(params, kernel, cases, params.window)
