"""k-anonymity: whatever is released of the covered columns is shared by at least k cases."""

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.base.quantities import MOST_ROWS
from cloakwork.base.text import listed
from cloakwork.guarantees.base import CountedGuarantee, Direction, LeastGroup
from cloakwork.guarantees.caveats import (
    CountsCases,
    GuaranteeCaveat,
    Homogeneity,
    Intersection,
    ReleaseOutline,
)
from cloakwork.guarantees.fields import Columns
from cloakwork.guarantees.phrases import indefinite_article


class KAnonymity(CountedGuarantee):
    """Every released combination of ``over`` is shared by at least k cases made from distinct
    source cases (or units).
    """

    bounds_values: ClassVar[bool] = False
    stricter_if: ClassVar[Mapping[str, Direction]] = {"k": "more"}
    # Whoever shares a complete sequence shares each of its beginnings; not the other way round:
    # a complete sequence may be the beginning of many longer ones and be followed by one case.
    strictest_word: ClassVar[Mapping[str, str]] = {"scope": "variants", "count": "units"}

    kind: Literal["k-anonymity"]
    k: Annotated[
        int,
        Field(
            ge=2,
            le=MOST_ROWS,
            strict=True,
            description="How many cases or units share what is released",
        ),
    ]
    over: Columns = (CONTROL_FLOW,)
    scope: Annotated[
        Literal["variants", "prefixes"],
        Field(
            description="What is shared: complete activity sequences, or, which is weaker, "
            "beginnings of them"
        ),
    ] = "variants"
    count: Annotated[
        Literal["cases", "units"], Field(description="What k counts: cases, or units of privacy")
    ] = "cases"

    def sentence(self) -> str:
        """Say it to a person."""
        what = "complete activity sequence"
        if self.scope == "prefixes":
            what = "beginning of an activity sequence"
        others = tuple(column for column in self.over if column != CONTROL_FLOW)
        if others:
            what = f"combination of {indefinite_article(what)} {what} with {listed(others)}"
        different = "case" if self.count == "cases" else "unit"
        return (
            f"Every released {what} is shared by at least {self.k} released cases, "
            f"each made from a different {different} of the source log; "
            f"some may have been changed to fit ({self.k}-anonymity over "
            f"{listed(self.over)}, counted over {self.scope})."
        )

    def least_group(self) -> LeastGroup:
        """k cases or units."""
        return LeastGroup("k", self.k, self.count)

    def quasi_identifiers(self) -> tuple[str, ...]:
        """The attributes among ``over``."""
        columns = (CONTROL_FLOW, TIMESTAMPS, METADATA)
        return tuple(name for name in self.over if name not in columns)

    def caveats(self, release: ReleaseOutline) -> Iterator[GuaranteeCaveat]:
        """It says nothing about values, about other releases, or about units where cases count."""
        if release.sensitive:
            yield Homogeneity(attributes=release.sensitive)
        yield Intersection(of="k-anonymity")
        if self.count == "cases" and release.unit_attribute is not None:
            yield CountsCases(attribute=release.unit_attribute)
