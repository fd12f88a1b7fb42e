"""l-diversity: each class holds several values of an attribute (Machanavajjhala et al., ICDE 2006).

Distinct: how many different values a group holds. Entropy: exp(H), H being the entropy of the
shares of its values in nats: what that many equally frequent values would come to.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Final, Literal

import numpy as np
import polars as pl
from pydantic import Field

from cloakwork.base.quantities import MOST_ROWS, Number
from cloakwork.guarantees.base import Direction, Observation, ReleaseOutline
from cloakwork.guarantees.claims import GuaranteeCaveat
from cloakwork.guarantees.classes import (
    GROUP,
    Attribute,
    CaseClasses,
    ValuesInClasses,
    class_in_short,
    class_text,
    values_text,
)

_TOLERANCE: Final = 1e-9
"""What floating-point sums may be off by, as a share."""


class LDiversity(ValuesInClasses):
    """Each class holds at least l well-represented values of the attribute, where it holds any.

    ``distinct``: l different values. ``entropy``: exp(entropy of their shares) is at least l.
    """

    stricter_if: ClassVar[Mapping[str, Direction]] = {"l": "more"}
    strictest_word: ClassVar[Mapping[str, str]] = {"variety": "entropy"}

    kind: Literal["l-diversity"]
    l: Annotated[  # noqa: E741 - the field's standard name
        Number, Field(gt=1, le=MOST_ROWS, description="Fewest values in a class")
    ]
    attribute: Attribute
    variety: Literal["distinct", "entropy"] = "distinct"
    """How values are counted"""

    classes: CaseClasses = "variants"

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

    def in_short(self, who: str = "case") -> str:
        """Its line on a screen."""
        least = math.ceil(self.l) if self.variety == "distinct" else f"{self.l:g}"
        varied = "different" if self.variety == "distinct" else "equally frequent"
        return (
            f"cases of one {class_in_short(self.classes)} with values of '{self.attribute}' hold "
            f"as many as {least} {varied} ones, or more"
        )

    def judged(self, merged: pl.DataFrame) -> Observation:
        """The least diversity."""
        least = least_diversity(merged, self)
        if least is None:
            return Observation(True, f"the log holds no value of '{self.attribute}'")
        counted = "different values" if self.variety == "distinct" else "values, by their entropy"
        seen = f"the least varied group holds {least:.4g} {counted}"
        return Observation(least >= self.l * (1 - _TOLERANCE), seen)

    def caveats(self, release: ReleaseOutline) -> Iterator[GuaranteeCaveat]:
        """None that a plan knows beforehand."""
        return iter(())


def least_diversity(counts: pl.DataFrame, guarantee: LDiversity) -> float | None:
    """The least diversity of values in any group, of the merged ``GroupedValues`` of a log; None
    where no group has a value. A missing value is none.

    Only the values of events that are not inserted count where the log says which are.
    """
    found = counts.filter(
        pl.col("class_1").is_not_null(), pl.col("value").is_not_null(), pl.col("kept") > 0
    )
    if not found.height:
        return None
    found = found.sort(*GROUP, "value")
    # Rows of one group follow one another, one for each value.
    group = found.select(pl.struct(GROUP).rle_id()).to_series().to_numpy().astype(np.int64)
    count = found["kept"].to_numpy()
    if guarantee.variety == "distinct":
        distinct_values = np.bincount(group)
        return float(distinct_values.min())
    # exp(H), where each value adds -p log p to the entropy H of its group.
    share = count / np.bincount(group, count)[group]
    entropy = np.bincount(group, -share * np.log(share))
    return float(np.exp(entropy).min())
