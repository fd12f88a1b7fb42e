"""What a claim rests on, as typed records."""

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from cloakwork.base.facts import Window
from cloakwork.base.quantities import Duration, Frozen
from cloakwork.guarantees import Background

Names = tuple[str, ...]

Source = Literal["declared", "profile"]
"""Where a figure comes from that the claim rests on: the policy declares it, or a DP profile
measured it.
"""


class ProtectsOneTime(Frozen):
    """The claim speaks of one time of one event."""

    kind: Literal["protects-one-time"] = "protects-one-time"


class ProtectsEachCase(Frozen):
    """The claim speaks of one case."""

    kind: Literal["protects-each-case"] = "protects-each-case"


class ProtectsEachUnit(Frozen):
    """The claim speaks of all kept cases that share a value of ``attribute``.

    ``cases_without`` the attribute: each is a unit of its own, or none where units are counted.
    """

    kind: Literal["protects-each-unit"] = "protects-each-unit"
    attribute: str
    max_cases: Annotated[int, Field(ge=1)]
    cases_without: Literal["own-unit", "no-unit"] = "own-unit"


class UnitsAtMost(Frozen):
    """An upper bound on the number of units in the log."""

    kind: Literal["units-at-most"] = "units-at-most"
    units: int
    source: Source


class WellFormed(Frozen):
    """The claim speaks of well-formed logs."""

    kind: Literal["well-formed"] = "well-formed"


class WithinLimits(Frozen):
    """The claim speaks of files within the reader's limits: bytes unpacked, their ratio to packed
    ones, attributes.
    """

    kind: Literal["within-limits"] = "within-limits"
    unpacked_size: Annotated[int, Field(ge=1)]
    unpack_ratio: Annotated[int, Field(ge=1)]
    attributes: Annotated[int, Field(ge=1)]


class KnownActivities(Frozen):
    """So many activities may occur; events of any other are dropped."""

    kind: Literal["known-activities"] = "known-activities"
    count: int
    source: Source


class CasesTruncated(Frozen):
    """Cases are cut after so many events."""

    kind: Literal["cases-cut"] = "cases-cut"
    events: int


class IndependentPresence(Frozen):
    """The guessing advantage needs a prior under which one unit's presence tells nothing of the
    others.
    """

    kind: Literal["independent-presence"] = "independent-presence"


class TimesRounded(Frozen):
    """The grid on which times lie before noise, and where counting begins."""

    kind: Literal["times-rounded"] = "times-rounded"
    grid: Duration
    epoch: AwareDatetime


class StartsWithin(Frozen):
    """Case starts outside the declared window are moved into it."""

    kind: Literal["starts-within"] = "starts-within"
    window: Window


class CasesOfWindow(Frozen):
    """The cases that start in one window of the log are taken; ``recorded``: each with one window
    alone, for good.
    """

    kind: Literal["cases-of-window"] = "cases-of-window"
    window: str
    recorded: bool


class GapsAtMost(Frozen):
    """Longer gaps between two events of a case are cut."""

    kind: Literal["gaps-at-most"] = "gaps-at-most"
    longest: Duration


class KnowsAtMost(Frozen):
    """How much of a case an attacker is taken to know."""

    kind: Literal["knows-at-most"] = "knows-at-most"
    events: int
    background: Background
    precision: Duration | None = None


class NobodyKnows(Frozen):
    """Columns that an attacker is taken not to know beforehand."""

    kind: Literal["nobody-knows"] = "nobody-knows"
    columns: Names


class KnowsActivitySequence(Frozen):
    """An attacker is taken to know the activity sequence of a case, and none of the values."""

    kind: Literal["knows-activity-sequence"] = "knows-activity-sequence"


class StartsAtEpoch(Frozen):
    """Every case is released as starting at one fixed time."""

    kind: Literal["starts-at-epoch"] = "starts-at-epoch"
    epoch: AwareDatetime


class ValuesDeclared(Frozen):
    """The values that an attribute may have are declared."""

    kind: Literal["values-declared"] = "values-declared"
    attribute: str


class DomainsDeclared(Frozen):
    """The values, or the ranges, that attributes may have are declared; others count as missing, or
    as the range's end.
    """

    kind: Literal["domains-declared"] = "domains-declared"
    attributes: Names


Assumption = Annotated[
    ProtectsOneTime
    | ProtectsEachCase
    | ProtectsEachUnit
    | UnitsAtMost
    | WellFormed
    | WithinLimits
    | KnownActivities
    | CasesTruncated
    | IndependentPresence
    | TimesRounded
    | StartsWithin
    | CasesOfWindow
    | GapsAtMost
    | KnowsAtMost
    | NobodyKnows
    | KnowsActivitySequence
    | StartsAtEpoch
    | ValuesDeclared
    | DomainsDeclared,
    Field(discriminator="kind"),
]
