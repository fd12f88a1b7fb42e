"""Fields that several kinds of guarantee share, each with the sentence that an author reads."""

from typing import Annotated, Literal

from pydantic import Field

from cloakwork.base.quantities import LEAST_EPSILON, MOST_EPSILON, Number, Probability

Columns = Annotated[
    tuple[str, ...],
    Field(
        min_length=1,
        description=(
            "Columns that are covered: control-flow, timestamps, metadata or attributes by name"
        ),
    ),
]
Epsilon = Annotated[
    Number,
    Field(
        ge=LEAST_EPSILON,
        le=MOST_EPSILON,
        description="How much one may learn at most; smaller is more private",
    ),
]
Delta = Annotated[
    Probability,
    Field(
        ge=0,
        lt=1,
        description=(
            "Probability that may escape the bound of epsilon, for example 1.0e-6; "
            "0, or at least 1e-20"
        ),
    ),
]
Attribute = Annotated[str, Field(description="Attribute that is protected, by name")]
CaseClasses = Annotated[
    Literal["variants", "prefixes"], Field(description="Which cases form a class")
]
