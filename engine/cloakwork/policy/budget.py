"""What releases of a dataset may cost."""

from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from cloakwork.base.costs import Cost, epsilon_of_advantage
from cloakwork.base.quantities import (
    LEAST_EPSILON,
    MOST_BUDGET,
    MOST_EPSILON,
    Frozen,
    Number,
    Probability,
)
from cloakwork.policy.fields import ShortName, WholeNumber, is_empty
from cloakwork.policy.windows import Windows


class Limit(Frozen):
    """A budget: epsilon and delta, or the guessing advantage that they come to."""

    epsilon: Annotated[
        Number | None,
        Field(
            ge=LEAST_EPSILON,
            le=MOST_BUDGET,
            description="Differential privacy's epsilon; smaller is more private",
        ),
    ] = None
    delta: Annotated[
        Probability,
        Field(
            ge=0,
            lt=1,
            description=(
                "Probability that may escape the bound of epsilon, "
                "for example 1.0e-6; 0, or at least 1e-20"
            ),
        ),
    ] = 0.0
    guessing_advantage: Annotated[
        Number | None,
        Field(
            gt=0,
            lt=1,
            description="Largest rise of an attacker's probability that somebody is in the log",
        ),
    ] = None

    @model_validator(mode="after")
    def _one_of(self) -> "Limit":
        if (self.epsilon is None) == (self.guessing_advantage is None):
            raise ValueError("needs either epsilon or guessing_advantage")
        self.cost()  # refuses an advantage that leaves no epsilon beside its delta
        return self

    def cost(self) -> Cost:
        """The limit as epsilon and delta."""
        if self.guessing_advantage is not None:
            return Cost(
                epsilon=epsilon_of_advantage(self.guessing_advantage, self.delta), delta=self.delta
            )
        assert self.epsilon is not None  # noqa: S101 - the validator holds
        return Cost(epsilon=self.epsilon, delta=self.delta)


class Total(Limit):
    """What all releases of the dataset together may cost; metric and local privacy may be capped
    separately.
    """

    metric: Annotated[
        Limit | None, Field(description="Separate total for metric privacy per value")
    ] = None
    local: Annotated[
        Limit | None, Field(description="Separate total for local differential privacy per value")
    ] = None


class ProfileShare(Frozen):
    """What a DP profile of the log may cost: a part of what the guarantee of differential privacy
    allows.
    """

    epsilon: Annotated[
        Number,
        Field(ge=LEAST_EPSILON, le=MOST_EPSILON, description="Its part of the guarantee's epsilon"),
    ]
    delta: Annotated[
        Probability,
        Field(
            ge=0,
            lt=1,
            description="Its part of the guarantee's delta; without one no activities are selected",
        ),
    ] = 0.0
    activities_per_case: Annotated[
        WholeNumber,
        Field(
            ge=1,
            le=10_000,
            description="How many activities of a case count when activities are selected",
        ),
    ] = 8


ATTRIBUTES: Final = "attributes"

Weight = Annotated[Number, Field(gt=0, le=1e6)]

PartName = Literal["control-flow", "timestamps", "attributes"]
"""Parts of a log that mechanisms of one guarantee serve; ``attributes``: all that it covers."""


class Budget(Frozen):
    """What one release and all releases of the dataset may cost."""

    release: Annotated[Limit | None, Field(description="Most that one release may cost")] = None
    total: Annotated[
        Total | None, Field(description="Most that all releases of the dataset may cost together")
    ] = None
    books: Annotated[
        dict[ShortName, Limit],
        Field(
            description=(
                "Totals by protected unit (case, or an attribute) that are kept apart from each "
                "other: none counts what releases that protect another unit listed here cost, "
                "and they do not add up to one person's risk"
            ),
            exclude_if=is_empty,
        ),
    ] = {}
    shares: Annotated[
        dict[PartName, Weight],
        Field(
            description=(
                "How a guarantee over control-flow and more columns is shared out: weights of "
                "control-flow, timestamps and attributes, which need not add up to 1; a "
                "part's noise falls with the root of its share"
            ),
            exclude_if=is_empty,
        ),
    ] = {}
    windows: Annotated[
        Windows | None,
        Field(
            description=(
                "For a log that grows: each release is made of the cases that start in one "
                "window, which apply --window names. Where the unit is the case, each window has "
                "the total to itself"
            ),
            exclude_if=is_empty,
        ),
    ] = None
    composition: Annotated[
        Literal["basic", "tight"], Field(description="How releases of the dataset add up")
    ] = "basic"
