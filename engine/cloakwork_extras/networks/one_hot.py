"""What mechanisms share that train networks on variants of a finite set, a place each."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Final, Literal

import numpy as np
from pydantic import JsonValue

from cloakwork.base.arrays import Floats, Ints
from cloakwork.base.costs import Composed, PrivacyEvent
from cloakwork.base.errors import MechanismError
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, Lineage
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import Cases, Descent, Entries, Kernel, Laplace
from cloakwork.mechanisms.base import Offer, Refusal
from cloakwork.mechanisms.steps import Measurement
from cloakwork.mechanisms.variants.drawing import MOST_CASES, in_whole
from cloakwork.mechanisms.variants.family import VariantRelease
from cloakwork.mechanisms.variants.threshold import select_variants
from cloakwork_extras.networks.devices import TrainsNetwork
from cloakwork_extras.networks.one_hot_params import (
    LearningRates,
    OneHotOptions,
    OneHotParams,
    domain_event,
    expected_cases,
    training_event,
    with_noise,
    without_noise,
)

LEAST_COUNT: Final = 0.5
"""A noisy count below it says no more than it."""


@dataclass(frozen=True, slots=True)
class Domain:
    """The variants that a network knows, and what is known of them before it is trained.

    ``shares``: float64, above 0, of the cases, adding up to 1; ``cases``: how many there are, by
    noisy counts, 0 or more.
    """

    variants: tuple[tuple[str, ...], ...]
    shares: Floats
    cases: int

    @property
    def size(self) -> int:
        """How many variants there are."""
        return len(self.variants)

    def places(self, cases: Cases) -> Ints:
        """The place of each case's variant; -1 of a case that follows none of them."""
        return cases.among(self.variants)


class OneHotRelease(TrainsNetwork, VariantRelease[OneHotParams]):
    """Release as many cases of each variant as a trained network generates on average.

    Cases that follow no variant of the domain count for nothing. Where there are no cases by the
    noisy counts, or one variant at most, no network is trained.
    """

    Params = OneHotParams
    needs_delta: ClassVar[bool] = True
    Options: type[OneHotOptions]
    learning_rates: ClassVar[LearningRates]

    @abstractmethod
    def sizes(self, params: OneHotParams) -> tuple[int, ...]:
        """How many weights each phase of training has."""

    @abstractmethod
    def learned_shares(self, params: OneHotParams, domain: Domain, kernel: Kernel) -> Floats:
        """The share of each variant among the cases that the trained network generates: float64,
        shape (domain.size,), at least 0, adding up to 1.
        """

    def meet(
        self, goal: DifferentialPrivacy, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[OneHotParams] | Refusal:
        """The variants first, and the least noise on gradients with what that leaves."""
        chosen = self.Options.model_validate(options)
        try:
            params = self._offered(goal, facts, chosen)
        except MechanismError as error:
            return Refusal("misconfigured", str(error))
        found = f"{params.width:,} variants that the policy declares public"
        if params.selection is not None:
            found = f"the variants that reach {params.selection.tau} cases by noisy count"
        return Offer(
            params,
            f"trains networks on {found}, with noise of {params.multiplier:.3g} gradients of a "
            f"case on each of {len(self.sizes(params)) * params.steps:,} sums of gradients",
        )

    def event(self, params: OneHotParams, facts: Facts) -> PrivacyEvent:
        """The variants or their number of cases, and every step of every phase."""
        del facts
        return Composed(events=(domain_event(params), training_event(params, self.sizes(params))))

    def lineage(self, params: OneHotParams) -> Lineage:
        """Measures which unit follows which variants; every case of the release is generated."""
        owner = frozenset() if params.unit is None else frozenset({params.unit})
        return Lineage(
            measures=frozenset({CONTROL_FLOW}) | owner,
            writes=frozenset({CONTROL_FLOW, METADATA}),
            generates=True,
        )

    def measure(self, params: OneHotParams, kernel: Kernel) -> Measurement:
        """Find the variants, train, and release what the network generates on average."""
        domain = domain_of(params, kernel)
        shares = domain.shares
        if domain.size > 1 and domain.cases > 0:
            shares = self.learned_shares(params, domain, kernel)
        figures: dict[str, JsonValue] = {"variants of the domain": domain.size}
        return Measurement(domain.variants, cases_of(shares, domain.cases), figures)

    def training_seconds(
        self, params: OneHotParams, facts: Facts, device: Literal["cpu", "cuda"] = "cpu"
    ) -> float | None:
        """About how long training takes: what a step was measured to take for so many weights,
        and so many cases as are declared, each with a number for every place.
        """
        if device != "cpu":
            return None
        distinct = expected_cases(facts) * params.rate
        if params.domain is not None:
            distinct = min(distinct, 2 * params.width)
        weights = sum(self.sizes(params))
        cells = distinct * params.width * len(self.sizes(params))
        a_step = SECONDS_A_STEP + SECONDS_A_WEIGHT * weights + SECONDS_A_CELL * cells
        return params.steps * a_step

    def _offered(
        self, goal: DifferentialPrivacy, facts: Facts, options: OneHotOptions
    ) -> OneHotParams:
        params = without_noise(goal, facts, options, self.learning_rates)
        return _calibrated(params, self.sizes(params))


SECONDS_A_STEP: Final = 0.01
SECONDS_A_WEIGHT: Final = 1e-6
SECONDS_A_CELL: Final = 4e-8
"""Measured on one core, for 20, 500 and 1,500 variants."""


@lru_cache(maxsize=64)
def _calibrated(params: OneHotParams, sizes: tuple[int, ...]) -> OneHotParams:
    return with_noise(params, sizes)


def domain_of(params: OneHotParams, kernel: Kernel) -> Domain:
    """The declared variants, and how many cases follow one of them by a noisy count; or those that
    are selected, with their noisy counts.
    """
    if params.domain is not None:
        return _declared_domain(params, params.domain, kernel)
    assert params.selection is not None  # noqa: S101 - it stands where no domain is declared
    found = select_variants(params.selection, kernel)
    # The most frequent ones, where there are more than the network has places for.
    kept = np.sort(np.argsort(-found.noisy, kind="stable")[: params.width])
    counts = np.maximum(found.noisy[kept].astype(np.float64), LEAST_COUNT)
    variants = tuple(found.labels[place] for place in kept.tolist())
    shares = counts / counts.sum() if len(counts) else counts
    return Domain(variants, shares, _as_cases(counts.sum()))


def _declared_domain(
    params: OneHotParams, declared: tuple[tuple[str, ...], ...], kernel: Kernel
) -> Domain:
    assert params.count_scale is not None  # noqa: S101 - a declared domain comes with its scale

    def is_inside(cases: Cases) -> Entries:
        return Entries.one_each(cases, np.minimum(cases.among(declared), 0))

    counted = kernel.sum(is_inside, Laplace(params.count_scale), keys=1)
    cases = _as_cases(float(counted.at(np.zeros(1, np.int64))[0]))
    return Domain(declared, np.full(len(declared), 1 / len(declared)), cases)


def _as_cases(noisy: float) -> int:
    return round(min(max(0.0, noisy), MOST_CASES))


def cases_of(shares: Floats, cases: int) -> Ints:
    """Whole numbers of cases by share: int64, adding up to ``cases``."""
    if not len(shares):
        return np.zeros(0, np.int64)
    return in_whole(shares * cases, cases)


def descent_of(params: OneHotParams, domain: Domain) -> Descent:
    """The steps of one phase; their means are over the noisy number of cases."""
    return Descent.of(
        times=params.steps,
        rate=params.rate,
        norm=params.norm,
        multiplier=params.multiplier,
        denominator=max(1, domain.cases) * params.rate,
        max_cases=params.max_cases,
    )


def padded(values: Floats, width: int, padding: float) -> Floats:
    """``values`` and ``padding`` up to ``width`` numbers: float64."""
    found = np.full(width, padding)
    found[: len(values)] = values
    return found


Shape = tuple[int, int]
"""Inputs and outputs of a matrix of weights."""


def weights_of(sizes: tuple[Shape, ...]) -> int:
    """How many weights there are in matrices of ``sizes``."""
    return sum(inputs * outputs for inputs, outputs in sizes)
