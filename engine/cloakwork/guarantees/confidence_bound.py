"""The confidence bound of TLKC: what partial background knowledge can find out."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.base.quantities import (
    LONGEST,
    MOST_ROWS,
    SHORTEST,
    Duration,
    Number,
    format_duration,
)
from cloakwork.guarantees.base import CountedGuarantee, Direction, LeastGroup
from cloakwork.guarantees.caveats import GuaranteeCaveat, Intersection, ReleaseOutline

Background = Literal["set", "multiset", "sequence", "relative"]
"""What is known of some events of a case: which activities; how often each; in which order; and how
long after the case's first event each took place.
"""


class ConfidenceBound(CountedGuarantee):
    """TLKC: background knowledge of size L matches at least K units and implies no sensitive value
    beyond C.

    Cases without a value count among those that match. ``missing: sensitive`` bounds by C what
    share of them they are, too: where a value is recorded only if something is the case, its
    absence tells as much.
    """

    bounds_values: ClassVar[bool] = True
    stricter_if: ClassVar[Mapping[str, Direction]] = {"L": "more", "K": "more", "C": "less"}
    strictest_word: ClassVar[Mapping[str, str]] = {}

    kind: Literal["confidence-bound"]
    L: Annotated[
        int, Field(ge=1, le=1000, strict=True, description="How many events an attacker may know")
    ]
    K: Annotated[
        int,
        Field(
            ge=2,
            le=MOST_ROWS,
            strict=True,
            description="How many units match that knowledge at least",
        ),
    ]
    C: Annotated[
        Number,
        Field(
            ge=1e-6,
            le=1,
            description="Most confidence in a sensitive value, as a share of 1; needs attribute",
        ),
    ] = 1.0
    background: Annotated[Background, Field(description="What is known of those events")] = (
        "sequence"
    )
    precision: Annotated[
        Duration | None,
        Field(
            ge=SHORTEST,
            le=LONGEST,
            description=(
                "How precisely times since a case's first event are known; for relative; "
                "from 1ms to 36525d"
            ),
        ),
    ] = None
    attribute: Annotated[str | None, Field(description="Sensitive attribute that C speaks of")] = (
        None
    )
    missing: Annotated[
        Literal["neutral", "sensitive"],
        Field(
            description="Whether having no value of the attribute is itself something that C bounds"
        ),
    ] = "neutral"

    @property
    def over(self) -> tuple[str, ...]:
        """The protected columns."""
        times = (TIMESTAMPS,) if self.background == "relative" else ()
        return (CONTROL_FLOW, *times, *([self.attribute] if self.attribute else []))

    def sentence(self) -> str:
        """Say it to a person."""
        events = "one event" if self.L == 1 else f"up to {self.L} events"
        tells = ""
        if self.attribute:
            tells = (
                f"; at most {100 * self.C:g}% of these hold the same value of '{self.attribute}'"
            )
        if self.missing == "sensitive":
            tells += f", and at most {100 * self.C:g}% hold none"
        return (
            f"Somebody who knows {events} of a case ({self.known()}) finds no released case that "
            f"fits, or fitting cases of at least {self.K} different units{tells}. "
            f"Events were left out for it: a released activity sequence may be one that no case "
            f"had (TLKC confidence bound, background {self.background})."
        )

    def known(self) -> str:
        """What is known of the events, in words."""
        return background_in_words(self.background, self.precision)

    def least_group(self) -> LeastGroup:
        """K units."""
        return LeastGroup("K", self.K, "units")

    def quasi_identifiers(self) -> tuple[str, ...]:
        """None: knowledge is of events alone."""
        return ()

    def caveats(self, release: ReleaseOutline) -> Iterator[GuaranteeCaveat]:
        """It says nothing about other releases."""
        yield Intersection(of="confidence-bound")

    @classmethod
    def default_columns(cls) -> tuple[str, ...]:
        """The control flow: knowledge is of activities at least."""
        return (CONTROL_FLOW,)

    @classmethod
    def columns_as_written(
        cls, written: Mapping[str, Any]
    ) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Times besides, where what is known of events is when they took place."""
        yield from super().columns_as_written(written)
        if written.get("background") == "relative":
            yield ("background",), TIMESTAMPS


def background_in_words(background: Background, precision: timedelta | None) -> str:
    """What somebody knows of some events of a case; ``precision``: of times since its first event,
    for *relative*.
    """
    if background == "relative":
        known_to = format_duration(precision or timedelta())
        since = f", and how long after the case's first event, to {known_to}"
        return f"which activities, in which order{since}"
    more = {"set": "", "multiset": ", and how often", "sequence": ", in which order"}
    return f"which activities{more[background]}"
