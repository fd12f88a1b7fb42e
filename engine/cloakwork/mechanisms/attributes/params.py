"""The parameters of attributes/histogram: what is measured, and with how much noise; and how values
that nobody declared are found.

A case counts for at most ``MOST_OF_A_CASE`` values of an attribute, as a vector of Euclidean norm 1
over them. A value is told where its noisy sum reaches a threshold which values of one unit alone
pass with the charged delta at most (partition selection: Korolova et al. 2009; Desfontaines et al.
2022).
"""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Annotated, Final

import numpy as np
from pydantic import BaseModel, Field, JsonValue, model_validator

from cloakwork.base.costs import Composed, DiscreteGaussian, PrivacyEvent, Repeated
from cloakwork.base.facts import FoundType
from cloakwork.base.naming import CASE_PREFIX
from cloakwork.base.quantities import Frozen, Number
from cloakwork.kernel import Cases, Clip, Entries, Gaussian, Kernel, Query, Table
from cloakwork.kernel.noises import selection_event
from cloakwork.mechanisms.attributes.contributions import MOVED, SPREAD, UNIT_NORM, WHOLE
from cloakwork.mechanisms.attributes.domains import MeasuredAttribute
from cloakwork.mechanisms.base import PartOfGoal

MOST_OF_A_CASE: Final = 8
"""Different values of an attribute that a case counts for."""

MOST_FOUND: Final = 1000
"""Values of an attribute that are told: the most frequent, by their noisy sums."""

LONGEST: Final = 100
"""Characters; what is longer is no value of a list, but free text, and never told."""

CLIP: Final = Clip("l2", UNIT_NORM, MOST_OF_A_CASE)

_WHOLE: Final = re.compile(r"0|-?[1-9][0-9]{0,14}")


def least_sum(
    sigma: float,
    delta: float,
    max_cases: int,
) -> int:
    """The least threshold, in grid steps, that spends ``delta`` at most beside noise of
    deviation ``sigma``.
    """
    noise = Gaussian(sigma)
    alone = max_cases * UNIT_NORM
    # From a normal estimate upwards: the proved tail is evaluated only near the answer.
    far = -NormalDist().inv_cdf(min(delta / (max_cases * MOST_OF_A_CASE), 0.5))
    least = alone + 1 + int(far * sigma)
    while noise.selection_delta(least, CLIP, max_cases) > delta:
        least += max(1, int(sigma / 1000))
    return least


def find_values(
    attribute: MeasuredAttribute,
    kernel: Kernel,
    sigma: float,
    least: int,
) -> MeasuredAttribute:
    """The attribute with the values that are found as its domain; as it is, where it declares its
    own.
    """
    if attribute.found is None:
        return attribute
    query = _values_of(attribute.name, attribute.found)
    selected = kernel.select(
        query,
        Gaussian(sigma),
        least,
        CLIP,
        labels=attribute.name,
        table=Table(f"values found of {attribute.name}"),
    )
    # The most frequent by noisy sums; sorted afterwards, so that their order shows nothing.
    order = np.argsort(-selected.noisy, kind="stable")[:MOST_FOUND]
    texts = sorted(selected.labels[place][0] for place in order.tolist())
    domain: tuple[JsonValue, ...] = tuple(texts)
    if attribute.found == "integer":
        domain = tuple(sorted(map(int, texts)))
    return attribute.model_copy(update={"domain": domain, "found": None})


def _values_of(name: str, type_: FoundType) -> Query:
    """The first different values of each case, all of one weight."""

    def values(cases: Cases) -> Entries:
        column = cases.columns[name]
        every = np.arange(len(cases))
        case_of = every if name.startswith(CASE_PREFIX) else cases.case_of
        may_be_told = [
            0 < len(text) <= LONGEST and (type_ == "text" or bool(_WHOLE.fullmatch(text)))
            for text in column.alphabet
        ]
        # A missing value has the last place.
        rows = np.flatnonzero(np.array([*may_be_told, False])[column.codes])
        pairs = case_of[rows] * max(1, len(column.alphabet)) + column.codes[rows]
        # Each value of a case once, at its first event; then the first few of these.
        _, first = np.unique(pairs, return_index=True)
        rows = np.sort(rows[first])
        case = case_of[rows]
        rank = np.arange(len(rows)) - np.searchsorted(case, case)
        rows, case = rows[rank < MOST_OF_A_CASE], case[rank < MOST_OF_A_CASE]
        # A case of k values counts for 1/sqrt(k) at each: a vector of norm 1, rounded down.
        times = np.bincount(case, minlength=len(cases))[case]
        value = np.floor(UNIT_NORM / np.sqrt(times)).astype(np.int64)
        return Entries(
            case,
            value,
            None,
            rows,
            rows + 1,
        )

    return values


NORMS_SHARE: Final = 0.03
"""The part of mu squared that finds the norm which most cases lie within."""

STRUCTURE_SHARE: Final = 0.1
"""The part of mu squared for tables of two attributes, where there are several."""

SELECTION_SHARE: Final = 0.2
"""The part of what both leave that finds values, where some attributes declare none."""

START_SHARE: Final = 0.3
"""Of what tables of values have, the part that they keep where a gradient step follows."""

_MOST_ASIDE: Final = 0.9
"""What both leave is for the tables of values."""

_LEAST_SIGMA: Final = 1024.0

_BELOW: Final = 1 - 2e-12
"""So that rounding does not exceed mu in all."""


class AttributesHistogramOptions(BaseModel):
    """``norms_share``, ``structure_share``, ``selection_share``: see ``NORMS_SHARE``,
    ``STRUCTURE_SHARE`` and ``SELECTION_SHARE``; without a ``structure_share`` (0), attributes are
    drawn independently of each other.
    """

    model_config = {"extra": "forbid", "frozen": True}
    norms_share: Annotated[float, Field(ge=0.001, le=0.5, allow_inf_nan=False)] = NORMS_SHARE
    structure_share: Annotated[float, Field(ge=0, le=0.5, allow_inf_nan=False)] = STRUCTURE_SHARE
    selection_share: Annotated[float, Field(ge=0.001, le=0.5, allow_inf_nan=False)] = (
        SELECTION_SHARE
    )

    @model_validator(mode="after")
    def _tables_have_a_share(self) -> "AttributesHistogramOptions":
        if self.norms_share + self.structure_share > _MOST_ASIDE:
            raise ValueError(f"norms_share and structure_share are at most {_MOST_ASIDE} together")
        return self

    @property
    def tables_share(self) -> float:
        """What tables of values keep of their part, where a gradient step follows (below 1)."""
        return 1.0


class AttributesRegressionOptions(AttributesHistogramOptions):
    """``start_share``: the part of what tables of values have that they keep; the rest is for the
    gradient step.
    """

    start_share: Annotated[float, Field(ge=0.05, le=0.95, allow_inf_nan=False)] = START_SHARE

    @property
    def tables_share(self) -> float:
        """What tables of values keep of their part."""
        return self.start_share


class ValueSelection(Frozen):
    """How values are found: ``sigma`` and ``least`` (the threshold), both in grid steps."""

    sigma: Annotated[Number, Field(gt=0)]
    least: Annotated[int, Field(ge=1)]


class AttributesHistogramParams(Frozen):
    """``attributes``: what is measured, in this order. ``norms_sigma``, ``sigma``,
    ``structure_sigma``: of the discrete Gaussian noise on the classes of norms, on the tables, and
    on those of two attributes (None: there are none), in grid steps, ``UNIT_NORM`` to a case.
    ``max_cases``: cases of a unit. ``replaced``: what moves the answers is not a unit more or less,
    but other values of one. ``selection``: for each attribute whose values are found.
    ``step_sigma``: of attributes/regression, on the gradient step that follows the tables.
    ``timed``: whether durations are measured, and released cases have times already.
    """

    attributes: tuple[MeasuredAttribute, ...]
    max_cases: Annotated[int, Field(ge=1)] = 1
    replaced: Annotated[bool, Field(exclude_if=lambda replaced: not replaced)] = False
    norms_sigma: Annotated[Number, Field(gt=0)]
    sigma: Annotated[Number, Field(gt=0)]
    structure_sigma: Annotated[Number, Field(gt=0)] | None = None
    selection: Annotated[ValueSelection | None, Field(exclude_if=lambda found: not found)] = None

    step_sigma: Annotated[
        Annotated[Number, Field(gt=0)] | None, Field(exclude_if=lambda sigma: sigma is None)
    ] = None

    timed: Annotated[bool, Field(exclude_if=lambda timed: not timed)] = False

    @property
    def values_sigma(self) -> float:
        """Noise that would tell as much of values as the tables and the step together."""
        if self.step_sigma is None:
            return self.sigma
        return 1 / math.hypot(1 / self.sigma, 1 / self.step_sigma)

    @property
    def finds(self) -> int:
        """Of how many attributes values are found."""
        return sum(attribute.found is not None for attribute in self.attributes)


def calibrated(
    attributes: Sequence[MeasuredAttribute],
    max_cases: int,
    part: PartOfGoal,
    options: AttributesHistogramOptions,
) -> AttributesHistogramParams:
    """Noise that tells no more than the ``mu`` of the part, in all, but for its ``delta`` (above 0)
    where values are found.
    """

    def sigma_of(share: float, clip: Clip) -> float:
        """The least noise on an answer with this part of the budget."""
        mu = part.mu * math.sqrt(share)
        return _sigma(mu, replace(clip, replaced=part.replaced), max_cases)

    found = sum(attribute.found is not None for attribute in attributes)
    # The budget is in mu squared, which adds up over Gaussian answers; shares are parts of it.
    of_pairs = options.structure_share
    of_both = 1 - options.norms_share - of_pairs
    of_selection = of_both * options.selection_share if found else 0.0
    of_tables = of_both - of_selection
    selection = None
    if found:
        sigma = sigma_of(of_selection / found, CLIP)
        # Slightly less than its part, so that rounding does not exceed delta in all.
        least = least_sum(sigma, part.delta / found * (1 - 1e-9), max_cases)
        selection = ValueSelection(sigma=sigma, least=least)
    structure = None
    if of_pairs:
        structure = sigma_of(of_pairs, SPREAD)
    start = options.tables_share
    step = None
    if start < 1:
        step = sigma_of(of_tables * (1 - start) * _BELOW, MOVED)
    return AttributesHistogramParams(
        attributes=tuple(attributes),
        max_cases=max_cases,
        replaced=part.replaced,
        norms_sigma=sigma_of(options.norms_share, WHOLE),
        sigma=sigma_of(of_tables * start * _BELOW, SPREAD),
        structure_sigma=structure,
        selection=selection,
        step_sigma=step,
    )


def answers_event(params: AttributesHistogramParams) -> PrivacyEvent:
    """The answers, in their order."""
    m = params.max_cases
    events: list[PrivacyEvent] = []

    def answer(sigma: float, clip: Clip) -> PrivacyEvent:
        clip = replace(clip, replaced=params.replaced)
        return Gaussian(sigma).events(clip, m, None)[0]

    if params.selection is not None:
        noise = Gaussian(params.selection.sigma)
        leak = selection_event(noise.selection_delta(params.selection.least, CLIP, m))
        events += [answer(params.selection.sigma, CLIP), leak] * params.finds
    events.append(answer(params.norms_sigma, WHOLE))
    events.append(answer(params.sigma, SPREAD))
    if params.step_sigma is not None:
        events.append(answer(params.step_sigma, MOVED))
    if params.structure_sigma is not None:
        events.append(answer(params.structure_sigma, SPREAD))
    return Composed(events=tuple(events))


def _sigma(
    mu: float,
    clip: Clip,
    max_cases: int,
) -> float:
    """The least noise on an answer of ``clip`` that tells no more than ``mu``."""
    event = Gaussian(_LEAST_SIGMA).events(clip, max_cases, None)[0]
    # The squared norm that the answer is charged for, in grid steps.
    times = 1
    one = event
    if isinstance(event, Repeated):
        times = event.times
        one = event.event
    if not isinstance(one, DiscreteGaussian):
        raise TypeError(f"no Gaussian noise: {event!r}")
    moves = times * one.sensitivity * one.sensitivity
    # Rounded up by more than the root can err.
    return max(math.sqrt(moves) / mu * (1 + 1e-12), _LEAST_SIGMA)
