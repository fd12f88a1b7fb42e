"""l-diversity: each class holds several values of an attribute."""

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from cloakwork.base.quantities import MOST_ROWS, Number
from cloakwork.guarantees.base import CountedGuarantee, Direction, LeastGroup
from cloakwork.guarantees.caveats import GuaranteeCaveat, ReleaseOutline
from cloakwork.guarantees.fields import Attribute, CaseClasses
from cloakwork.guarantees.phrases import class_text, values_text


class LDiversity(CountedGuarantee):
    """Each class holds at least l well-represented values of the attribute, where it holds any.

    ``distinct``: l different values. ``entropy``: exp(entropy of their shares) is at least l.
    """

    bounds_values: ClassVar[bool] = True
    stricter_if: ClassVar[Mapping[str, Direction]] = {"l": "more"}
    strictest_word: ClassVar[Mapping[str, str]] = {"variety": "entropy"}

    kind: Literal["l-diversity"]
    l: Annotated[  # noqa: E741 - the field's standard name
        Number, Field(gt=1, le=MOST_ROWS, description="Fewest values in a class")
    ]
    attribute: Attribute
    variety: Annotated[
        Literal["distinct", "entropy"], Field(description="How values are counted")
    ] = "distinct"
    classes: CaseClasses = "variants"

    @property
    def over(self) -> tuple[str, ...]:
        """The protected column."""
        return (self.attribute,)

    def sentence(self) -> str:
        """Say it to a person."""
        class_values, _ = values_text(self.attribute, self.classes)
        many = f"are at least as varied as {self.l:g} equally frequent ones would be"
        if self.variety == "distinct":
            many = f"are at least {math.ceil(self.l)} different ones"
        return (
            f"Among released cases that {class_text(self.classes)}, {class_values}, where there "
            f"are any, {many} ({self.variety} l-diversity over {self.classes})."
        )

    def least_group(self) -> LeastGroup | None:
        """None: it counts values, not cases."""
        return None

    def quasi_identifiers(self) -> tuple[str, ...]:
        """None: classes are formed by activities alone."""
        return ()

    def caveats(self, release: ReleaseOutline) -> Iterator[GuaranteeCaveat]:
        """None that a plan knows beforehand."""
        return iter(())
