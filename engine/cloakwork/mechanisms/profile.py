"""A DP profile: noisy figures of a log that planning may read as facts, paid for from the dataset's
budget.

What planning may know of a log beside declared facts, it must pay for (``privacy.md`` 3.7). A
profile holds

- the number of cases;
- how many cases are of which length, by public bins, and from these the quantiles;
- how many cases the 1, 10 and 100 most frequent variants hold;
- the alphabet, where the policy declares none and the profile has a delta: the activities that
  enough cases hold.

**Theorem.** Let a unit own at most m cases, of each of which at most M activities count, drawn at
random. One unit more or less changes the number of cases by at most m, the histogram of lengths by
m in L1, each sum of the k largest variant counts by m (it is 1-Lipschitz in L1), so three of them
by 3 m in L1, and the numbers of cases by activity by m M in L1. Discrete Laplace noise of scale
(that bound) * s / w makes a group of weight w w/s-DP; epsilons add (basic composition; Dwork and
Roth 2014, theorem 3.16). Of the activities only those present are counted, and one is told when its
noisy count reaches tau, with m Pr[m + DLap >= tau] <= delta / M: a unit alone holds at most m M
activities, so one of these is told with probability at most delta (partition selection as in
``variants/threshold``; Desfontaines et al. 2022).

An empty log gives noise. It never aborts on data.
"""

import math
from typing import Annotated, Final, Literal

import numpy as np
from pydantic import Field

from cloakwork.accounting.calibrate import (
    partition_threshold,
    smallest_scale,
    threshold_delta,
)
from cloakwork.base.arrays import Ints
from cloakwork.base.costs import Composed, Cost, DiscreteLaplace, EpsilonDelta, PrivacyEvent
from cloakwork.base.exact import drawn_scale, exactly, rounded_down, rounded_up
from cloakwork.base.facts import Facts, Unit
from cloakwork.base.quantities import IF_SAID, Frozen, Number
from cloakwork.kernel import Cases, Clip, CustomQuery, Entries, Kernel, Laplace
from cloakwork.kernel.vectors import MOST_CELLS

PROFILE_FORMAT: Final = "cloakwork/profile/v1"

EDGES: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
"""Upper ends of the public bins of lengths, in events; one bin more holds what is longer."""

TOP: Final = (1, 10, 100)
HEAD: Final = 10
"""Of these, the number of variants by whose share mechanisms are chosen."""

QUANTILES: Final = (0.5, 0.9, 0.95, 0.99)
LONGEST_AT: Final = 0.95
"""The quantile of lengths that stands in for an undeclared ``longest_case``: about one case of
twenty is cut. Noise of 21 bins hides what lies further out.
"""

SELECTION: Final = 3
"""How many times the epsilon of each other group the selection of activities gets: an activity that
is not selected is lost to the release.
"""

SURE: Final = 1e-3
"""The noisy number of cases is raised so far that the true one is larger with at most this
probability.
"""

Scale = Annotated[Number, Field(gt=0, le=2**53)]


class ProfileParams(Frozen):
    """What is measured and through which noise; scales in cases. ``tau`` and ``selection_scale``
    are None where no alphabet is selected.
    """

    unit: Unit
    epsilon: Annotated[Number, Field(gt=0)]
    delta: Annotated[Number, Field(ge=0, lt=1)]
    activities_per_case: Annotated[int, Field(ge=1)]
    count_scale: Scale
    length_scale: Scale
    top_scale: Scale
    selection_scale: Scale | None = None
    tau: Annotated[int, Field(ge=1)] | None = None

    def event(self) -> PrivacyEvent:
        """The noise actually drawn."""
        m = self.unit.max_cases
        per_case = self.activities_per_case
        events: list[PrivacyEvent] = [
            DiscreteLaplace(scale=self.count_scale, sensitivity=m),
            DiscreteLaplace(scale=self.length_scale, sensitivity=m),
            DiscreteLaplace(scale=self.top_scale, sensitivity=m * len(TOP)),
        ]
        if self.selection_scale is not None and self.tau is not None:
            one = threshold_delta(self.selection_scale, self.tau, m)
            # Added up over the m M activities that a unit alone may hold, and rounded up.
            leak = min(1.0, rounded_up(per_case * exactly(one)))
            events.append(DiscreteLaplace(scale=self.selection_scale, sensitivity=m * per_case))
            events.append(EpsilonDelta(epsilon=0.0, delta=leak))
        return Composed(events=tuple(events))


class ProfileFigures(Frozen):
    """The noisy figures. ``lengths``: quantile to length in events, None where it lies beyond the
    bins; ``top``: how many cases the so many most frequent variants hold; ``alphabet``: None where
    it was not selected.
    """

    cases: int
    lengths: dict[str, Annotated[int, Field(ge=1)] | None]
    top: dict[str, int]
    alphabet: tuple[str, ...] | None = None


class Profile(Frozen):
    """A profile as a file: figures, the noise they came through, and the ledger's release that paid
    for them.
    """

    format: Literal["cloakwork/profile/v1"] = PROFILE_FORMAT
    engine: str
    dataset: str
    window: Annotated[
        str | None,
        Field(description="Of a growing log: on the cases of which window it was measured"),
        IF_SAID,
    ] = None
    release: Annotated[str, Field(description="Identity of the profile's release in the ledger")]
    ledger_entry: str
    params: ProfileParams
    figures: ProfileFigures

    def cost(self) -> Cost:
        """What was charged for it."""
        return Cost(epsilon=self.params.epsilon, delta=self.params.delta)

    def facts(self, declared: Facts) -> Facts:
        """The declared facts, and what the profile adds where nothing is declared."""
        # By so much the noise falls short of the true number with a probability of at most SURE.
        margin = math.ceil(self.params.count_scale * math.log(1 / SURE))
        measured = {
            "alphabet": self.figures.alphabet or None,
            "longest_case": self.figures.lengths.get(str(LONGEST_AT)),
            "units_at_most": max(1, self.figures.cases + margin),
        }
        added = {
            name: value
            for name, value in measured.items()
            if value is not None and getattr(declared, name) is None
        }
        # Both figures are noisy: their quotient may exceed 1.
        head_share = min(1.0, self.figures.top.get(str(HEAD), 0) / max(1, self.figures.cases))
        return declared.model_copy(
            update={**added, "measured": tuple(sorted(added)), "head_share": head_share}
        )


def params_within(
    unit: Unit, allowed: Cost, activities_per_case: int, *, selects_alphabet: bool
) -> ProfileParams:
    """The noise for a profile that costs what is ``allowed``: its delta is spent only where an
    alphabet is selected.
    """
    m = unit.max_cases
    # Sensitivity and weight of the number of cases, the lengths, and the largest variants.
    groups = [(m, 1), (m, 1), (m * len(TOP), 1)]
    if selects_alphabet:
        groups.append((m * activities_per_case, SELECTION))

    def scales_of_groups(scale: float) -> list[float]:
        return [drawn_scale(sensitivity * scale / weight) for sensitivity, weight in groups]

    def drawn_noise(scale: float) -> PrivacyEvent:
        events = [
            DiscreteLaplace(scale=scale_of_group, sensitivity=sensitivity)
            for scale_of_group, (sensitivity, _) in zip(
                scales_of_groups(scale), groups, strict=True
            )
        ]
        return Composed(events=tuple(events))

    # One factor for all groups, so that each gets the part of epsilon that its weight says.
    scales = scales_of_groups(smallest_scale(drawn_noise, Cost(epsilon=allowed.epsilon)))
    delta = 0.0
    selection_scale = None
    tau = None
    if selects_alphabet:
        delta = allowed.delta
        selection_scale = scales[3]
        # Rounded down, so that all activities together spend no more than delta.
        delta_of_activity = rounded_down(exactly(delta) / activities_per_case)
        tau = partition_threshold(selection_scale, delta_of_activity, m)
    return ProfileParams(
        unit=unit,
        epsilon=allowed.epsilon,
        delta=delta,
        activities_per_case=activities_per_case,
        count_scale=scales[0],
        length_scale=scales[1],
        top_scale=scales[2],
        selection_scale=selection_scale,
        tau=tau,
    )


def measure_profile(params: ProfileParams, kernel: Kernel) -> ProfileFigures:
    """The noisy figures of a log that has been bounded: units hold at most ``max_cases`` cases,
    none is empty.
    """
    noisy_cases = kernel.sum(Entries.one_each, Laplace(params.count_scale), keys=1)
    bins = len(EDGES) + 1
    noisy_binned = kernel.sum(_bin_of_length, Laplace(params.length_scale), keys=bins)
    noisy_top = kernel.custom(LARGEST_VARIANTS, Laplace(params.top_scale))
    # Noise is drawn where an answer is read, and in this order.
    cases = max(0, int(noisy_cases.at(np.zeros(1, np.int64))[0]))
    lengths = _length_quantiles(noisy_binned.at(np.arange(bins)))
    alphabet = None
    if params.selection_scale is not None and params.tau is not None:
        # Of each case a random few of its activities count.
        few = Clip("max", 1, min(params.activities_per_case, MOST_CELLS), sampled=True)
        selected = kernel.select(_activities, Laplace(params.selection_scale), params.tau, few)
        alphabet = tuple(sorted(label for (label,) in selected.labels))
    return ProfileFigures(
        cases=cases,
        lengths=lengths,
        top={str(most): max(0, int(held)) for most, held in zip(TOP, noisy_top, strict=True)},
        alphabet=alphabet,
    )


def _bin_of_length(cases: Cases) -> Entries:
    """Each case in the bin of its length: the first edge that is not below it is the bin's end."""
    return Entries.one_each(cases, np.searchsorted(EDGES, cases.lengths))


def _held_by_largest(counts: Ints) -> Ints:
    """How many cases the most frequent variants hold, of counts that ascend."""
    largest_first = counts[::-1]
    return np.array([largest_first[:most].sum() for most in TOP], np.int64)


LARGEST_VARIANTS: Final = CustomQuery(
    name="cases of the most frequent variants",
    compute=_held_by_largest,
    size=len(TOP),
    sensitivity=len(TOP),
    because="The sum of the k largest of several numbers is the largest sum of any k of them. One "
    "case more or less changes one number by one, hence each such sum by one at most, and so the "
    "largest: each of the figures moves by one at most.",
)


def _length_quantiles(binned: Ints) -> dict[str, int | None]:
    """The least bin's end up to which a share of the noisy cases lies; negative counts stay, as
    they balance the others.
    """
    cases_up_to = np.cumsum(binned)
    total = cases_up_to[-1]
    ends: list[int | None] = [*EDGES, None]
    quantiles: dict[str, int | None] = dict.fromkeys(map(str, QUANTILES))
    if total <= 0:
        return quantiles
    for share in QUANTILES:
        # The first bin that reaches the share: ``argmax`` of truth values finds the first true one.
        quantiles[str(share)] = ends[int(np.argmax(cases_up_to >= share * total))]
    return quantiles


def _activities(cases: Cases) -> Entries:
    """Each activity of each case once: the key is its label."""
    pairs = cases.case_of * max(1, len(cases.alphabet)) + cases.codes
    _, first = np.unique(pairs, return_index=True)
    ones = np.ones(len(first), np.int64)
    return Entries(cases.case_of[first], ones, None, first, first + 1)
