"""What a policy says about the attributes of a log."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from cloakwork.base.quantities import Frozen, Value
from cloakwork.policy.fields import Boolean, Quantity, WholeNumber, is_empty
from cloakwork.policy.ranges import RangeEnd, ValueType, coherent_type, number_of_end

Role = Literal[
    "identifier",
    "case-id",
    "control-flow",
    "timestamp",
    "quasi-identifier",
    "sensitive",
    "insensitive",
]
Treatment = Literal["keep", "drop", "pseudonymise", "generalise"]


class AttributeRule(Frozen):
    """What happens to one attribute, or to all that match a glob."""

    role: Annotated[
        Role | None,
        Field(
            description=(
                "What the attribute is; control-flow and timestamp name the log's two main "
                "columns, case-id the column of a table that tells cases apart"
            )
        ),
    ] = None
    treatment: Annotated[
        Treatment | None,
        Field(
            description=(
                "What happens to the values; "
                "without one they are released where a guarantee covers them, else dropped"
            )
        ),
    ] = None
    hierarchy: Annotated[
        dict[str, Value] | None,
        Field(description="Generalisation tree: {group: {subgroup: [value, ...]}}"),
    ] = None
    level: Annotated[
        WholeNumber,
        Field(
            ge=0,
            le=40,
            description=(
                "Depth of the groups to release; 0 is the root, "
                "values that lie higher take their lowest group"
            ),
        ),
    ] = 1
    bins: Annotated[
        tuple[Quantity, ...] | None,
        Field(
            min_length=2, description="Edges of intervals, ascending; values outside are dropped"
        ),
    ] = None
    domain: Annotated[
        tuple[Value, ...] | None,
        Field(min_length=1, description="All values that may occur, declared public"),
    ] = None
    range: Annotated[
        tuple[RangeEnd, ...] | None,
        Field(
            min_length=2,
            max_length=2,
            description="Least and largest number, day or instant that may occur, declared public",
        ),
    ] = None
    type: Annotated[
        ValueType | None,
        Field(
            description=(
                "What the numbers of a range are, integer or number; or what values are that "
                "find_values finds, text or integer"
            ),
            exclude_if=is_empty,
        ),
    ] = None
    find_values: Annotated[
        Boolean,
        Field(
            description=(
                "Where no domain is public: find the values that many cases have, through noise "
                "that the guarantee pays for"
            ),
            exclude_if=is_empty,
        ),
    ] = False
    link: Annotated[
        Boolean,
        Field(description="Give one value the same pseudonym in every release of the dataset"),
    ] = False

    def value_type(self) -> Any:
        """What its values are, of a range or where they are found; None of others."""
        return coherent_type(self.type, self.range, finds=self.find_values)

    @property
    def _may_coarsen(self) -> bool:
        return self.treatment == "generalise" or (
            self.role == "quasi-identifier" and self.treatment in (None, "keep")
        )

    @field_validator("bins")
    @classmethod
    def _ascending(cls, bins: tuple[float, ...] | None) -> tuple[float, ...] | None:
        if bins and list(bins) != sorted(set(bins)):
            raise ValueError("must ascend, without repeating an edge")
        return bins

    @model_validator(mode="after")
    def _coherent(self) -> "AttributeRule":
        if self.role is None and self.treatment is None:
            raise ValueError("needs a role, such as role: insensitive, or a treatment")
        if self.role == "case-id" and self.treatment not in (None, "drop"):
            raise ValueError("treatment must be drop where the role is case-id: cases are renamed")
        if self.treatment == "generalise" and (self.hierarchy is None) == (self.bins is None):
            raise ValueError("treatment generalise needs either a hierarchy or bins")
        if self.hierarchy is not None and self.bins is not None:
            raise ValueError("needs a hierarchy or bins, not both")
        if not self._may_coarsen and not (self.hierarchy is None and self.bins is None):
            name = "bins" if self.hierarchy is None else "hierarchy"
            raise ValueError(
                f"{name} belongs to treatment: generalise, or to role: quasi-identifier"
            )
        if self.range is not None and self.domain is not None:
            raise ValueError("range stands in place of a domain; give one of them")
        type_ = coherent_type(self.type, self.range, finds=self.find_values)
        if self.range is not None and number_of_end(self.range[0]) >= number_of_end(self.range[1]):
            what = {"date": "days", "time": "instants"}.get(str(type_), "numbers")
            raise ValueError(f"range must be two ascending {what}, the least first")
        if self.find_values and (self.domain is not None or self.range is not None):
            raise ValueError("find_values stands in place of a domain or a range; give one of them")
        if self.link and self.treatment != "pseudonymise":
            raise ValueError("link belongs to treatment: pseudonymise")
        if self.treatment in ("pseudonymise", "generalise") and self.role in (
            "control-flow",
            "timestamp",
        ):
            raise ValueError(f"treatment must be keep or drop where the role is {self.role}")
        return self
