"""Times for cases that were made of noisy answers, whose gaps and durations follow regressions on
the activities of a case, and all else tables.

The regressions are multinomial logistic ones over bins of a log scale, fitted to noisy sums of
gradients.

The probability of bin b, given inputs x, is proportional to e^(base[b] + (x W) . curve[b]):
``base`` is what is expected of everything, and W (inputs, outputs) weighs curves over the bins, of
which finer ones are flatter. What is learned goes into few numbers, by which all groups that share
an input differ from others; a table has a cell for each group and bin, and noise in each.

The gradient of the likelihood is a sum over cases of the products of their inputs with what their
curves are above what is expected. It knows the log by these products alone: so one noisy sum, at
any weights, tells all that many gradient steps would, and the weights that it speaks for are found
by post-processing. A second sum, at the weights found, is of shorter gradients, and so of less
noise.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, Final

import numpy as np
from pydantic import Field
from scipy.optimize import minimize

from cloakwork.base.arrays import Floats, Ints, place_in_run, shares_in_rows
from cloakwork.base.costs import Composed, PrivacyEvent
from cloakwork.base.errors import MechanismError
from cloakwork.base.facts import Facts
from cloakwork.base.frozen import frozen
from cloakwork.base.naming import WAVES_TABLE
from cloakwork.base.quantities import Frozen, Number
from cloakwork.kernel import Cases, Descent, Factors, Kernel
from cloakwork.kernel.gradients import Gradient
from cloakwork.kernel.kernel import Table
from cloakwork.mechanisms.base import (
    Offer,
    Options,
    PartOfGoal,
    Refusal,
    Theorem,
)
from cloakwork.mechanisms.timestamps.bins import Clock, LogBins
from cloakwork.mechanisms.timestamps.drawing import ManyDraws, meet_totals
from cloakwork.mechanisms.timestamps.histogram import NEVER, REACH, GivesTimes, ModelledTimes
from cloakwork.mechanisms.timestamps.tables import (
    SHARES,
    HistogramParams,
    KnownTimes,
    TableName,
    TimesParams,
    event_of,
    norm_charged,
    offered_params,
    pairs_of,
)

ACTIVITIES: Final = 32
"""Activities that gaps and durations may depend on; all others are one more."""

PAIRS: Final = 64
"""Directly-follows pairs whose gaps may differ from what their activities say."""

GAP_INPUTS: Final = 1 + 2 * (ACTIVITIES + 1) + PAIRS
"""Of the regression of gaps, by event: 1, its activity, the one before, and the pair."""

GAP_OUTPUTS: Final = 13
"""Curves over the scale of gaps that inputs weigh."""

INPUTS: Final = 2 + 2 * (ACTIVITIES + 1)
"""Of the regression of durations, by case: 1, the length, the last activity, and the activities
there are.
"""

OUTPUTS: Final = 48
"""Curves over the scale of durations that inputs weigh."""

REGRESSION_SHARES: Final[Mapping[TableName, float]] = {
    **{name: share for name, share in SHARES.items() if name != "gaps-by-activity"},
    "gaps": 0.08,
    "gaps-by-pair": 0.28,
    "starts": 0.06,
    "hours": 0.21,
    "totals": 0.37,
}
"""Parts of the budget. ``gaps-by-pair`` and ``totals``: of both regressions."""

GAP_PARTS: Final = (0.3, 0.7)
DURATION_PARTS: Final = (1.0,)
"""Parts of a regression's share that its sums of gradients have, one after another. Where gaps of a
pair are alike, their gradients are much shorter at the weights of the first sum; durations differ
in every group.
"""


class GradientSums(Frozen):
    """Sums of the gradients of all cases, with noise: as many whatever is released, so that the
    plan can charge for them.

    ``multipliers``: of each sum, deviations of the noise to what a unit of ``max_cases`` cases, in
    or out, moves it by. ``inputs`` times ``outputs``: how many numbers a sum has.
    """

    multipliers: Annotated[tuple[Annotated[Number, Field(gt=0)], ...], Field(min_length=1)]
    inputs: Annotated[int, Field(ge=1)]
    outputs: Annotated[int, Field(ge=1)]
    max_cases: Annotated[int, Field(ge=1)] = 1

    @property
    def mu(self) -> float:
        """By how many deviations a unit moves all sums together, as one normal number."""
        return math.sqrt(sum(multiplier**-2 for multiplier in self.multipliers))

    def descent(self, place: int, norm: float) -> Descent:
        """One of the sums, as a gradient step; gradients are clipped to ``norm`` (L2)."""
        return Descent.of(
            times=1,
            rate=1.0,
            norm=norm,
            multiplier=self.multipliers[place],
            denominator=1.0,
            max_cases=self.max_cases,
        )

    def event(self) -> PrivacyEvent:
        """What all sums cost, however long gradients may be."""
        size = self.inputs * self.outputs
        events = [
            self.descent(place, 1.0).event(size, self.max_cases)
            for place in range(len(self.multipliers))
        ]
        return Composed(events=tuple(events))


class RegressionParams(TimesParams):
    """``tables``: those of timestamps/histogram that are measured. In place of the tables of gaps
    by activity and by pair, and of that of durations, there are sums of gradients: ``gaps``,
    ``durations``.
    """

    tables: HistogramParams
    gaps: GradientSums
    durations: GradientSums

    def event(self) -> PrivacyEvent:
        """What all tables and all sums cost."""
        return Composed(events=(self.tables.event(), self.gaps.event(), self.durations.event()))

    @property
    def is_given_flow(self) -> bool:
        """As its tables."""
        return self.tables.replaced


def offered_regression(
    part: PartOfGoal,
    facts: Facts,
) -> RegressionParams | Refusal:
    """The least noise for ``part``."""
    tables = offered_params(part, facts, REGRESSION_SHARES)
    # These two tables give way to sums of gradients, which get their budget.
    kept = {
        name: sigma
        for name, sigma in tables.sigmas.items()
        if name not in ("gaps-by-pair", "totals")
    }
    found = RegressionParams(
        tables=tables.model_copy(update={"sigmas": kept}),
        gaps=_sums_for(
            "gaps-by-pair",
            tables,
            GAP_PARTS,
            GAP_INPUTS,
            GAP_OUTPUTS,
        ),
        durations=_sums_for(
            "totals",
            tables,
            DURATION_PARTS,
            INPUTS,
            OUTPUTS,
        ),
    )
    try:
        found.event()
    except MechanismError as error:
        # Noise that is too coarse to be drawn.
        return Refusal("misconfigured", str(error))
    return found


def _sums_for(
    name: TableName,
    tables: HistogramParams,
    parts: tuple[float, ...],
    inputs: int,
    outputs: int,
) -> GradientSums:
    """Sums that have the share of a table, in whose place they are, in ``parts`` of mu squared."""
    sigma = tables.sigmas[name]
    # The mu that the table would have had.
    charged = event_of(name, sigma, tables.max_cases, tables.replaced)
    mu = norm_charged(charged) / sigma
    return GradientSums(
        multipliers=tuple((1 + 1e-9) / (mu * math.sqrt(part)) for part in parts),
        inputs=inputs,
        outputs=outputs,
        # Other values of a case are one gradient less, and one more.
        max_cases=2 * tables.max_cases if tables.replaced else tables.max_cases,
    )


LONGER: Final = 1.2
"""Gradients are clipped to so many times what is usual of the released cases."""

SEARCHED: Final = 2_000
"""Steps of the search for weights, at most: it costs nothing."""

DIGITS: Final = 3
"""Behind the point of a weight: far less than noise moves it, and far more than the round-off by
which machines differ, so that the same noise draws the same times on all of them.
"""

LEAST_BEND: Final = 1e-3
"""How little the likelihood may bend, in cases, that noise has something to be told from."""

LEAST: Final = 1e-6
"""A share in place of 0, whose logarithm is finite."""

UNLIKE: Final = 0.1
MOST_UNLIKE: Final = 4.0
"""By how much released cases usually have more or less of an input than the log, as a part of it;
and by how many times they are taken to, at most.
"""

RAKED: Final = 50
"""Rounds of raking."""

ALL: Final = 3.0
PRESENT: Final = 0.3
"""What all cases share, and an activity that a case has, weigh as inputs of the regression of
durations, where the last activity weighs 1.
"""

WIDTH: Final = 2.0
"""Bins by which what is expected of durations is smoothed: the deviation of a normal curve."""

ANYTHING: Final = 0.05
"""The part of what is expected that may be any gap, or any duration up to ``REACH`` bins above the
longest.
"""


def cosines_over(bins: int, number: int) -> Floats:
    """Cosines over the bins, the j-th with j half-waves and mean square 1: shape (bins, number);
    zeros from the j-th on where there are so few bins.
    """
    heights = np.where(np.arange(1, number + 1) < bins, np.sqrt(2), 0.0)
    return np.cos(waves_over(bins, number)) * heights


def waves_over(bins: int, number: int) -> Floats:
    """Where in the first ``number`` waves the middle of each bin lies, the j-th with j half-waves
    over all bins: angles, shape (bins, number).
    """
    return np.pi * (np.arange(bins)[:, None] + 0.5) / bins * np.arange(1, number + 1)


def gap_curves(bins: int) -> Floats:
    """Over the bins of gaps: the first bin by itself, which is that of events at one time, and
    cosines, finer ones flatter; shape (bins, ``GAP_OUTPUTS``).
    """
    waves = np.arange(1, GAP_OUTPUTS)
    at_once = np.zeros((bins, 1))
    at_once[0] = 1.0
    return np.hstack([at_once, cosines_over(bins, GAP_OUTPUTS - 1) / np.sqrt(waves)])


def duration_curves(bins: int) -> Floats:
    """Cosines over the bins, the j-th with j half-waves and a height of 1 / j: shape (bins,
    ``OUTPUTS``); zeros from the j-th on where there are so few bins.
    """
    return cosines_over(bins, OUTPUTS) / np.arange(1, OUTPUTS + 1)


def distributions_of(
    base: Floats,
    inputs: Floats,
    weights: Floats,
    curves: Floats,
) -> Floats:
    """The distribution over the bins for each row of ``inputs``: shape (rows, bins)."""
    matrix = weights.reshape(inputs.shape[1], curves.shape[1])
    # How products are summed up differs from machine to machine: what is drawn must not.
    logits = np.round(base + inputs @ matrix @ curves.T, 9)
    # Less the largest, so that no exponential overflows.
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shares_in_rows(odds)


def bends_of_curves(base: Floats, curves: Floats) -> Floats:
    """How curves vary where the bins are as ``base`` (a logarithm) expects: their covariance, shape
    (outputs, outputs).
    """
    expected = np.exp(base - base.max())
    expected /= expected.sum()
    mean = expected @ curves
    return np.asarray((curves * expected[:, None]).T @ curves - np.outer(mean, mean))


def fitted(
    model: "BinRegression",
    kernel: Kernel,
    sums: GradientSums,
    gradient: Gradient,
    inputs: Floats,
    mass: Floats | Ints,
    table: Callable[[float], Table] | None = None,
) -> tuple[Floats, float]:
    """Weights for which noisy ``sums`` of the ``gradient`` speak: float64, shape (inputs,
    outputs); and the deviation of the noise on what curves add up to, in all sums together.

    ``inputs``: of released cases, shape (groups, inputs), and how many there are of each, ``mass``,
    shape (groups,). They are about as many as, and like, those of the log. What the log's curves
    add up to is all that the likelihood knows of it (McCullagh and Nelder 1989, 2.2.4, sufficient
    statistics of the canonical link); each sum tells it anew, weighted by how precise it is.
    ``table``: where the curves of the first input are published, by the size of a grid step.
    """
    base, curves = model.base, model.curves
    weights = np.zeros((sums.inputs, sums.outputs))
    counted = np.asarray(mass, np.float64)
    likelihood = _Likelihood.of(base, curves, inputs, counted)
    answers: list[_Answer] = []
    for place in range(len(sums.multipliers)):
        shape = model.distributions(weights, inputs)
        # How long a gradient usually is: its inputs, and how its curves vary.
        spread = shape @ (curves**2).sum(axis=1) - ((shape @ curves) ** 2).sum(axis=1)
        lengths = np.sqrt(np.maximum(spread, 0.0) * (inputs**2).sum(axis=1))
        norm = LONGER * max(float(lengths @ mass) / max(float(mass.sum()), LEAST), LEAST)
        descent = sums.descent(place, norm)
        noise = descent.noise.sigma * descent.grid
        found = kernel.steps(
            gradient,
            weights.ravel(),
            lambda _, total: total,
            descent,
            table and table(descent.grid),
            sums.outputs,
        )
        answers.append(_Answer(shape @ curves, found.reshape(weights.shape), noise))
        if place:
            counted = mass * _mass_of_log(inputs, mass, answers[0], answers[-1])
            likelihood = _Likelihood.of(base, curves, inputs, counted)
        # What the log's curves add up to: what is expected, and the gradient.
        told = np.zeros_like(weights)
        for answer in answers:
            expected = (inputs * counted[:, None]).T @ answer.expected
            told += (expected + answer.gradient) / answer.noise**2
        precision = sum(answer.noise**-2 for answer in answers)
        deviation = precision**-0.5
        weights = likelihood.likeliest(told / precision, deviation, weights)
    return weights, deviation


@frozen
class _Answer:
    """What is expected of curves in each group, shape (groups, outputs), a noisy gradient there,
    shape (inputs, outputs), and the deviation of its noise.
    """

    expected: Floats
    gradient: Floats
    noise: float


def _mass_of_log(inputs: Floats, mass: Floats | Ints, one: _Answer, other: _Answer) -> Floats:
    """How much of each group the log has, as a part of what released cases have: shape (groups,).

    Between two answers what is expected moves, and of each input the gradient falls by as much as
    the log has of it (least squares, about 1). Groups are raked until their inputs add up to that.
    """
    moved = (inputs * mass[:, None]).T @ (other.expected - one.expected)
    doubt = (one.noise**2 + other.noise**2) / UNLIKE**2
    fell = one.gradient - other.gradient
    shares = ((moved * fell).sum(axis=1) + doubt) / ((moved**2).sum(axis=1) + doubt)
    wanted = np.clip(shares, 1 / MOST_UNLIKE, MOST_UNLIKE) * (mass @ inputs)
    logs = np.zeros(len(inputs))
    for _ in range(RAKED):
        found = (mass * np.exp(logs)) @ inputs
        missing = np.log(np.maximum(wanted, LEAST) / np.maximum(found, LEAST))
        logs += inputs @ missing / np.maximum(inputs.sum(axis=1), LEAST)
    return np.exp(logs)


@frozen
class _Likelihood:
    """Of curves that add up to something, in the directions in which it bends: eigenvectors of
    products of ``inputs``, and of how ``curves`` vary. ``bends``: how far in each, float64, shape
    (inputs, outputs).
    """

    base: Floats
    mass: Floats | Ints
    of_inputs: Floats
    of_curves: Floats
    bends: Floats
    along_inputs: Floats
    along_curves: Floats

    @classmethod
    def of(
        cls,
        base: Floats,
        curves: Floats,
        inputs: Floats,
        mass: Floats | Ints,
    ) -> "_Likelihood":
        bends_in, of_inputs = np.linalg.eigh((inputs * mass[:, None]).T @ inputs)
        bends_out, of_curves = np.linalg.eigh(bends_of_curves(base, curves))
        bends = np.outer(np.maximum(bends_in, 0), np.maximum(bends_out, 0))
        return cls(base, mass, of_inputs, of_curves, bends, inputs @ of_inputs, curves @ of_curves)

    def likeliest(self, moments: Floats, noise: float, start: Floats) -> Floats:
        """The weights under which curves add up to ``moments``, about: those of the largest
        likelihood less a penalty (a ridge regression), which is the larger, the more ``noise``
        there is to what data tell.

        In directions in which the likelihood bends by h, an estimate errs by noise / h, and weights
        usually lie 1 from 0; the penalty of the least mean square error is then about noise^2 / h,
        and 1 for what chance does in as many cases.
        """
        of_inputs, of_curves, mass = self.of_inputs, self.of_curves, self.mass
        along_inputs, along_curves = self.along_inputs, self.along_curves
        penalty = 1 + noise**2 / np.maximum(self.bends, LEAST_BEND)
        # In these directions, and on this scale, the likelihood bends about as much everywhere.
        scale = 1 / np.sqrt(self.bends + penalty)
        target = of_inputs.T @ moments @ of_curves

        def loss(flat: Floats) -> tuple[float, Floats]:
            """Less the penalised likelihood of scaled weights, and its gradient."""
            own = flat.reshape(scale.shape) * scale
            logits = self.base + along_inputs @ own @ along_curves.T
            highest = logits.max(axis=1, keepdims=True)
            odds = np.exp(logits - highest)
            total = odds.sum(axis=1, keepdims=True)
            normalised = mass @ (np.log(total) + highest)[:, 0]
            value = normalised - (target * own).sum() + (penalty * own**2).sum() / 2
            expected = (along_inputs * mass[:, None]).T @ (odds / total @ along_curves)
            slope = (expected - target + penalty * own) * scale
            return float(value), slope.ravel()

        begin = (of_inputs.T @ start @ of_curves) / scale
        options = {"maxiter": SEARCHED, "maxfun": 2 * SEARCHED, "ftol": 0.0, "gtol": 1e-9}
        found = minimize(loss, begin.ravel(), jac=True, method="L-BFGS-B", options=options)
        weights = of_inputs @ (found.x.reshape(scale.shape) * scale) @ of_curves.T
        # No zero with a sign of its own.
        return np.asarray(np.round(weights, DIGITS) + 0.0)


def most_frequent_first(
    case: Ints,
    codes: Ints,
    size: int,
    rows: int,
) -> Ints:
    """The row of each of ``size`` codes: those that most cases have come first; all from ``rows``
    on share that one.
    """
    # A case counts once for each code that it has.
    having = np.unique(case * size + codes) % max(size, 1)
    counts = np.bincount(having, minlength=size)
    found = np.empty(size, np.int64)
    found[np.lexsort((np.arange(size), -counts))] = np.arange(size)
    return np.minimum(found, rows)


@frozen
class BinRegression:
    """``base``: log of what is expected of each of ``bins``. ``row_of``: the row of each activity
    among the inputs, int64, the last one for all that have none of their own.
    """

    clock: Clock
    bins: LogBins
    base: Floats
    curves: Floats
    row_of: Ints

    def distributions(self, weights: Floats, inputs: Floats) -> Floats:
        """The distribution for each row of ``inputs``: shape (rows, bins)."""
        return distributions_of(self.base, inputs, weights, self.curves)


@frozen
class GapRegression(BinRegression):
    """How long the gap before an event is, given its activity and the one before it.

    A table of gaps by directly-follows pair has a row of bins for each pair, and rare pairs drown
    in noise. Here pairs share what their activities have in common, and a pair that many cases have
    differs from that by a few curves.

    ``pairs``: those that have an input of their own, ascending, a first label times the number of
    labels plus a second one each; ``pair_rows``: which. All int64.
    """

    pairs: Ints
    pair_rows: Ints

    @classmethod
    def expecting(
        cls,
        clock: Clock,
        bins: LogBins,
        released: Cases,
        expected: Floats,
    ) -> "GapRegression":
        """Of the activities and pairs that most ``released`` cases have; ``expected``: how gaps are
        distributed, shape (bins,).
        """
        pairs, row = pairs_of(released)
        case = released.case_of[np.flatnonzero(released.place)]
        rows = most_frequent_first(case, row, len(pairs), PAIRS)
        has_input = rows < PAIRS
        return cls(
            clock,
            bins,
            # What noise hid of all gaps together may still show at some of them.
            np.log((1 - ANYTHING) * expected + ANYTHING / len(expected)),
            gap_curves(len(bins)),
            _rows_of_activities(released),
            pairs[has_input],
            rows[has_input],
        )

    def inputs(self, pairs: Ints) -> Floats:
        """What is known of a gap: shape (pairs, ``GAP_INPUTS``). The rarer pairs have no input of
        their own: they go by their activities.
        """
        each = np.arange(len(pairs))
        known = ACTIVITIES + 1
        before, after = np.divmod(pairs, len(self.row_of))
        found = np.zeros((len(pairs), GAP_INPUTS))
        # What all gaps share, both activities, and the pair where it is frequent.
        found[:, 0] = 1.0
        found[each, 1 + self.row_of[after]] = 1.0
        found[each, 1 + known + self.row_of[before]] = 1.0
        has_input = np.flatnonzero(np.isin(pairs, self.pairs))
        row = self.pair_rows[np.searchsorted(self.pairs, pairs[has_input])]
        found[has_input, 1 + 2 * known + row] = 1.0
        return found

    def gradient(
        self,
        weights: Floats,
        cases: Cases,
        step: int,
    ) -> list[Factors]:
        """Of the log-likelihood of each case's gaps, over the root of how many there are; zeros for
        cases of fewer than two known times.

        A place is a pair that the case has: its inputs, and what comes back of all its gaps.
        """
        del step  # Nothing in it is random.
        labels = len(cases.alphabet)
        known = KnownTimes.of(cases, self.clock)
        after = known.follows
        case = known.case[after]
        pair = known.code[after - 1] * labels + known.code[after]
        place = self.bins.place(known.gaps)
        count = np.bincount(case, minlength=len(cases))
        # One row for each pair that a case has.
        once, row = np.unique(case * labels * labels + pair, return_inverse=True)
        case_of, pair_of = np.divmod(once, labels * labels)
        inputs = self.inputs(pair_of)
        expected = self.distributions(weights, inputs) @ self.curves
        back = np.zeros((len(once), GAP_OUTPUTS))
        # What was observed less what is expected, added up over a pair's gaps.
        np.add.at(back, row, self.curves[place] - expected[row])
        # Over the root of how many gaps there are: long cases would else be clipped most.
        back /= np.sqrt(count[case_of])[:, None]
        return [padded(case_of, inputs, back, len(cases))]

    def trained(
        self,
        sums: GradientSums,
        kernel: Kernel,
        released: Cases,
    ) -> Floats:
        """The weights, by all ``sums``; ``released`` cases are about as many as those of the log,
        and like them.
        """
        pairs, row = pairs_of(released)
        # Each gap as its case's gradient weighs it.
        weight = released.worth / np.sqrt(np.maximum(released.lengths - 1, 1))
        case = released.case_of[np.flatnonzero(released.place)]
        mass = np.bincount(row, weights=weight[case])
        return fitted(
            self,
            kernel,
            sums,
            self.gradient,
            self.inputs(pairs),
            mass,
        )[0]


def _rows_of_activities(released: Cases) -> Ints:
    """The row of each label's activity: those that most released cases have come first."""
    labels = len(released.alphabet)
    return most_frequent_first(released.case_of, released.codes, labels, ACTIVITIES)


def padded(
    case: Ints,
    inputs: Floats,
    back: Floats,
    cases: int,
) -> Factors:
    """Rows of both factors, ascending by ``case``, as arrays of shape (cases, places, numbers)."""
    place = place_in_run(case)
    most = int(place.max(initial=0)) + 1
    left = np.zeros((cases, most, inputs.shape[1]))
    right = np.zeros((cases, most, back.shape[1]))
    left[case, place] = inputs
    right[case, place] = back
    return Factors(left, right)


def expected_durations(place: Ints, bins: int) -> Floats:
    """Which durations are expected, where sums of gaps lie in the bins ``place``: a distribution,
    shape (bins,).
    """
    reach = int(4 * WIDTH)
    # A normal curve spreads what was counted over the bins beside it.
    curve = np.exp(-0.5 * (np.arange(-reach, reach + 1) / WIDTH) ** 2)
    counted = np.bincount(place, minlength=bins).astype(np.float64)
    smooth = np.convolve(counted, curve)[reach:-reach]
    within = np.arange(bins) <= place.max() + REACH
    kept = np.where(within, smooth, 0.0)
    shape = (1 - ANYTHING) * kept / kept.sum() + ANYTHING / within.sum()
    found = np.where(within, shape, NEVER)
    return np.asarray(found / found.sum())


@frozen
class DurationRegression(BinRegression):
    """How long cases take, given their activities."""

    @classmethod
    def expecting(
        cls,
        clock: Clock,
        bins: LogBins,
        released: Cases,
        place: Ints,
    ) -> "DurationRegression":
        """Of the activities that most ``released`` cases have; ``place``: the bin of what the gaps
        of each case of two events or more add up to.
        """
        return cls(
            clock,
            bins,
            np.log(expected_durations(place, len(bins))),
            duration_curves(len(bins)),
            _rows_of_activities(released),
        )

    def inputs(self, cases: Cases) -> Floats:
        """What is known of each case without its times: shape (cases, ``INPUTS``); zeros for cases
        of fewer than two events.
        """
        size = len(cases)
        known = ACTIVITIES + 1
        found = np.zeros((size, INPUTS))
        found[:, 0] = ALL
        # From 1/64 to 64 times 8 events, as -2 to 2.
        doublings = np.log2(np.maximum(cases.lengths, 1)) - 3
        found[:, 1] = np.clip(doublings / 2, -2.0, 2.0)
        # The last activity, and the activities there are.
        usable = cases.lengths > 1
        rows = np.flatnonzero(usable)
        last = cases.codes[cases.offsets[1:][rows] - 1]
        found[rows, 2 + self.row_of[last]] = 1.0
        cell = cases.case_of * known + self.row_of[cases.codes]
        occurs = np.bincount(cell, minlength=size * known).reshape(size, known) > 0
        found[:, 2 + known :] = PRESENT * occurs
        found[~usable] = 0.0
        return found

    def gradient(
        self,
        weights: Floats,
        cases: Cases,
        step: int,
    ) -> list[Factors]:
        """Of the log-likelihood of each case's duration, from its first to its last known time;
        zeros for cases of fewer than two of these.
        """
        del step  # Nothing in it is random.
        known = KnownTimes.of(cases, self.clock)
        first, last = known.ends()
        case = known.case[first]
        place = np.zeros(len(cases), np.int64)
        place[case] = self.bins.place(known.steps[last] - known.steps[first])
        is_known = np.zeros(len(cases), np.bool_)
        is_known[case] = True
        inputs = self.inputs(cases)
        expected = self.distributions(weights, inputs) @ self.curves
        back = np.where(is_known[:, None], self.curves[place] - expected, 0.0)
        return [Factors(inputs[:, None, :], back[:, None, :])]

    def trained(
        self,
        sums: GradientSums,
        kernel: Kernel,
        released: Floats,
        worth: float = 1.0,
    ) -> tuple[Floats, float]:
        """The weights and their noise (``fitted``), by all ``sums``; ``released``: the inputs of
        released cases, which are about as many (each ``worth`` so many), and like those of the log.
        """
        inputs, times = np.unique(released, axis=0, return_counts=True)
        mass = np.asarray(times * worth, np.float64)
        return fitted(
            self,
            kernel,
            sums,
            self.gradient,
            inputs,
            mass,
            self._waves,
        )

    def _waves(self, grid: float) -> Table:
        """Of each half-wave over the bins, from the first on: its sum over all cases, each less
        what is expected. Keys are the half-waves, what is expected, and the bins' edges in seconds.
        """
        expected = np.exp(self.base) @ np.cos(waves_over(len(self.bins), OUTPUTS))
        edges = (self.bins.edges * (self.clock.microseconds / 1e6)).tolist()

        def spell(codes: Ints) -> list[tuple[float, ...]]:
            return [(code + 1, float(expected[code]), *edges) for code in codes.tolist()]

        # A curve's height, and the input that all cases share.
        return Table(WAVES_TABLE, spell, lambda codes: ALL * np.sqrt(2) / (codes + 1) / grid)


SMALL_LOG: Final = 50_000
"""Up to so many units, as declared, few weights err less than many cells."""

BINS: Final = 128
"""Of gaps, and of durations."""

DOUBT: Final = 0.3
"""A tail of so many deviations of its noise is halved."""

ALIKE: Final = 8
"""Groups of cases of about the same expected duration, in which the longest case by its gaps gets
the longest duration.
"""


@frozen
class RegressedTimes(ModelledTimes):
    """As ``ModelledTimes``; ``regression``: the parameters of what stands for its tables of gaps by
    pair and of durations.
    """

    regression: RegressionParams

    def _draw_gaps(self) -> tuple[Ints, Ints]:
        """The gap before each of the ``followers``, and its pair."""
        bins = LogBins.up_to(self.longest, BINS)
        pairs, row = pairs_of(self.cases)
        of_all = self._all_gaps(bins)[0]
        if not len(row):
            return row, row

        def trained() -> tuple[GapRegression, Floats]:
            model = GapRegression.expecting(self.clock, bins, self.cases, of_all)
            return model, model.trained(self.regression.gaps, self.kernel, self.cases)

        model, weights = self.once("regression of gaps", trained)
        shape = model.distributions(weights, model.inputs(pairs))
        return self.draws.spans(shape, row, bins), row

    def _meet_totals(self, gaps: Ints, pair: Ints) -> Ints:
        """The same gaps, changed so that the durations of cases follow the regression."""
        cases = self.cases
        rows = np.flatnonzero(cases.lengths > 1)
        if not len(rows):
            return gaps
        bins = LogBins.up_to(self.longest_total, BINS)
        case = np.searchsorted(rows, cases.case_of[self.followers])
        # What gaps add up to in each case, as a bin of durations.
        place = bins.place(np.bincount(case, weights=gaps).astype(np.int64))

        def trained() -> tuple[DurationRegression, Floats, float]:
            model = DurationRegression.expecting(self.clock, bins, cases, place)
            inputs, sums = model.inputs(cases)[rows], self.regression.durations
            return model, *model.trained(sums, self.kernel, inputs, cases.worth)

        model, weights, noise = self.once("regression of durations", trained)
        inputs = model.inputs(cases)[rows]
        shape = model.distributions(weights, inputs)
        shape = with_shrunk_tails(shape, model.curves, noise / cases.worth)
        totals = durations_by_rank(shape, place, bins, self.draws)
        # Each case is a group of its own: its total was drawn for it.
        each = np.arange(len(rows))
        return np.clip(meet_totals(gaps, pair, case, totals, each, self.draws), 0, self.longest)


def with_shrunk_tails(shape: Floats, curves: Floats, noise: float) -> Floats:
    """The distributions in ``shape`` (cases, bins), with less mass in bins far above the median
    where ``noise`` could have made it. ``noise``: the deviation of what ``curves``, shape (bins,
    outputs), add up to over all cases (``fitted``).

    Where n cases lie beyond a bin, and noise moves n by s, n is multiplied by
    n^2 / (n^2 + (DOUBT s)^2), the gain of a Wiener filter at a tenth of the noise's power, and the
    next bins by no more than that.
    """
    beyond = np.triu(np.ones((len(curves), len(curves))))
    # Curves are orthogonal: how much of each makes up the bins from one on.
    parts = beyond @ curves / np.maximum((curves**2).sum(axis=0), LEAST)
    deviation = noise / ALL * np.sqrt((parts**2).sum(axis=1))
    tails = shape @ beyond.T
    cases = tails.sum(axis=0)
    believed = cases**2 / (cases**2 + (DOUBT * deviation) ** 2)
    believed[cases > len(shape) / 2] = 1.0
    tails *= np.minimum.accumulate(believed)
    return shares_in_rows(-np.diff(tails, axis=1, append=0.0))


def durations_by_rank(
    shape: Floats,
    place: Ints,
    bins: LogBins,
    draws: ManyDraws,
) -> Ints:
    """A duration for each case, by its distribution in ``shape`` (cases, bins).

    Among about an ``ALIKE``-th of the cases, those whose expected durations are most alike, the
    quantiles of what is drawn lie evenly, and in the order of those of their sums of gaps (whose
    bins are ``place``): what is drawn follows the distributions closely, and changes gaps little.
    """
    size = len(place)
    each = np.arange(size)
    reached = np.cumsum(shape, axis=1)
    reached /= reached[:, -1:]
    before = np.hstack([np.zeros((size, 1)), reached[:, :-1]])
    # The quantile that a case has by its gaps: somewhere in their bin.
    low = before[each, place]
    high = reached[each, place]
    quantile = low + (high - low) * draws.fractions(size)
    # Ties in random order: else a group would hold neighbours, which have much else in common.
    expected = shape @ np.log1p(bins.edges[:-1])
    by_expected = np.lexsort((draws.randomness.permutation(size), expected))
    group = np.empty(size, np.int64)
    group[by_expected] = each * ALIKE // size
    # In each group the quantiles are made even, in their order.
    order = np.lexsort((quantile, group))
    ordered = group[order]
    even = np.empty(size)
    even[order] = (place_in_run(ordered) + draws.fractions(size)) / np.bincount(ordered)[ordered]
    drawn = np.minimum((reached <= even[:, None]).sum(axis=1), shape.shape[1] - 1)
    width = np.maximum(reached[each, drawn] - before[each, drawn], 1e-300)
    within = np.clip((even - before[each, drawn]) / width, 0.0, 1 - 1e-9)
    return bins.inside(drawn, within)


class TimestampRegression(GivesTimes[RegressionParams]):
    """As timestamps/histogram, with regressions in place of its tables of gaps by activity and
    pair, and of durations.

    A gap is drawn given both activities (``GapRegression``, which starts from the table of all
    gaps), and how long a case takes given its length, its last activity and the activities that it
    has (``DurationRegression``, which starts from what the released gaps add up to): multinomial
    logistic regressions, whose weights follow from noisy sums of the gradients of all cases: two of
    gaps, one of durations. Starts and hours of the week are as of timestamps/histogram.

    **Sensitivity.** Tables as there. The gradient of a case is scaled by the kernel to the clip
    (L2) where it is longer, and rounded to whole grid steps, so a unit of m cases moves a sum by at
    most m times that; where the control flow is taken as known, by twice that. What gradients are
    taken at, and the clip, follow from answers before and from the released control flow.

    **Edge cases.** As of timestamps/histogram. A case with fewer than two known times has no gap
    and no duration, and a gradient of zeros; where no released case has two events, no sum is
    asked for.
    """

    name: ClassVar[str] = "timestamps/regression"
    action: ClassVar[str] = "draw times with noise, gaps and durations by regressions"
    summary: ClassVar[str] = (
        "Gives times to cases made of noisy answers: starts by noisy histograms, gaps and "
        "durations by regressions on the activities of a case, fitted to noisy sums."
    )
    theorem: ClassVar[Theorem] = Theorem(
        "For units of at most m cases (unbounded neighbours): each table, and each sum of the "
        "gradients of all cases, is a sum of vectors of cases whose norm (L2) is at most the clip, "
        "so one unit moves it by at most m times that; given the control flow (bounded "
        "neighbours), other times of a unit move a table by the root of 2 times that at most, and "
        "a sum of gradients by twice it. Weights at which gradients are taken, and clips, follow "
        "from answers before. Discrete Gaussian noise on all of them composes adaptively to the "
        "event that is charged; what is drawn is post-processing.",
        "Canonne, Kamath, Steinke 2020, theorem 14; Abadi et al. 2016, for sums of clipped "
        "gradients; Dong, Roth, Su 2022, for adaptive composition by mu squared",
    )
    Params = RegressionParams
    params_at = staticmethod(offered_regression)

    def offer_part(
        self,
        part: PartOfGoal,
        facts: Facts,
        options: Options,
    ) -> Offer[RegressionParams] | Refusal:
        """The times; tables come first where the policy declares a large log."""
        found = super().offer_part(part, facts, options)
        if isinstance(found, Offer) and (facts.units_at_most or 0) > SMALL_LOG:
            return replace(found, yields=f"tables err less above {SMALL_LOG:,} cases")
        return found

    def why(self, params: RegressionParams) -> str:
        """Without figures."""
        return (
            "draws starts from noisy histograms, and gaps and durations from regressions on the "
            "activities of a case, fitted to noisy sums"
        )

    def model(
        self,
        params: RegressionParams,
        kernel: Kernel,
        cases: Cases,
    ) -> ModelledTimes:
        """Some tables, and both regressions."""
        tables = params.tables
        return RegressedTimes(
            tables,
            kernel,
            cases,
            tables.window,
            params,
        )
