"""t-closeness: within a class an attribute is distributed nearly as in the whole release."""

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field, model_validator

from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.base.quantities import Number
from cloakwork.guarantees.base import CountedGuarantee, Direction, LeastGroup
from cloakwork.guarantees.caveats import GuaranteeCaveat, LargeT, RangeScale, ReleaseOutline
from cloakwork.guarantees.fields import Attribute, CaseClasses
from cloakwork.guarantees.phrases import class_text, values_text

VACUOUS_T: Final = 0.5
"""How far a class of continuous values lies from all values at most, about, where they are compared
by rank.
"""


class TCloseness(CountedGuarantee):
    """Within each class the attribute's distribution is within t of its distribution over the whole
    release.

    For an attribute of events both are taken over events of one activity; a missing value is a
    value. ``emd``: the earth mover's distance; any two different values that are no numbers lie 1
    apart, and a missing one 1 from every other; so t is in (0, 1]. Numbers lie ``|F(x) - F(y)|``
    apart (``scale: rank``), F being the share of the released values of the activity that are
    smaller, and half of those that are equal; or ``|x - y| / range`` (``scale: range``), ``range``
    over the whole release: one outlier then brings all other numbers together. ``stochastic``: of
    the two probabilities of any outcome, given the class and given the whole, neither is more than
    t times the other, t > 1; it has no scale.
    """

    bounds_values: ClassVar[bool] = True
    stricter_if: ClassVar[Mapping[str, Direction]] = {"t": "less"}
    strictest_word: ClassVar[Mapping[str, str]] = {}

    kind: Literal["t-closeness"]
    t: Annotated[
        Number,
        Field(
            ge=1e-6, le=1000, description="Largest distance between a class and the whole release"
        ),
    ]
    attribute: Attribute
    distance: Annotated[
        Literal["emd", "stochastic"],
        Field(description="How distance is measured; emd is the earth mover's distance"),
    ] = "emd"
    scale: Annotated[
        Literal["rank", "range"],
        Field(
            description=(
                "How far numbers lie apart for emd: by their ranks, "
                "or as a share of the attribute's range"
            )
        ),
    ] = "rank"
    classes: CaseClasses = "variants"

    @model_validator(mode="after")
    def _scale_is_about_distance(self) -> "TCloseness":
        if self.distance == "stochastic" and self.scale != "rank":
            raise ValueError("distance: stochastic is about probabilities and has no scale")
        return self

    @property
    def over(self) -> tuple[str, ...]:
        """The protected column."""
        return (self.attribute,)

    def sentence(self) -> str:
        """Say it to a person."""
        class_values, all_values = values_text(self.attribute, self.classes)
        if self.distance == "stochastic":
            means = (
                f"{class_values} were randomised so that any outcome is at most {self.t:g} times "
                f"as likely, and at least 1/{self.t:g} times as likely, as among {all_values}"
            )
        else:
            apart = "by their ranks" if self.scale == "rank" else "as a share of their range"
            missing = "" if self.attribute == TIMESTAMPS else ", missing ones included,"
            means = (
                f"{class_values}{missing} are distributed nearly like {all_values}: "
                f"the earth mover's distance is at most {self.t:g}, numbers being compared {apart}"
            )
        return (
            f"Among released cases that {class_text(self.classes)}, {means} "
            f"({self.distance} t-closeness over {self.classes})."
        )

    def least_group(self) -> LeastGroup | None:
        """None: it compares distributions, however many cases there are."""
        return None

    def quasi_identifiers(self) -> tuple[str, ...]:
        """None: classes are formed by activities alone."""
        return ()

    def caveats(self, release: ReleaseOutline) -> Iterator[GuaranteeCaveat]:
        """What it does not rule out for numbers."""
        if self.distance == "stochastic":
            return
        if self.scale == "range":
            yield RangeScale(attribute=self.attribute)
        elif self.t >= VACUOUS_T:
            yield LargeT(attribute=self.attribute, t=self.t)
