"""What the guarantees leave open, as typed records.

Those that belong to one kind of guarantee are in ``guarantees.caveats``.
"""

from typing import Annotated, Literal

from pydantic import Field

from cloakwork.base.quantities import Frozen
from cloakwork.base.records import Prose
from cloakwork.guarantees.caveats import (
    CountsCases,
    Homogeneity,
    Intersection,
    LargeT,
    MayRevealTimes,
    RangeScale,
    SingleTimesOnly,
)


class NoProfileGiven(Frozen):
    """The policy buys a DP profile and the plan was made without one."""

    kind: Literal["no-profile-given"] = "no-profile-given"


class NoTotal(Frozen):
    """The policy sets no total for the dataset."""

    kind: Literal["no-total"] = "no-total"


class SeparateBudgets(Frozen):
    """The policy keeps the ledger's books of these units apart."""

    kind: Literal["books-apart"] = "books-apart"
    kept_apart: tuple[str, ...]


class HoldsWindow(Frozen):
    """The release is made of the cases that start in one window of a growing log.

    ``unit_attribute``: what tells persons apart, where they are protected, who may have cases in
    several windows; None where each case is. ``tells_starts``: nothing hides who is in the release.
    """

    kind: Literal["holds-window"] = "holds-window"
    window: str
    unit_attribute: str | None = None
    tells_starts: bool


class PreferenceUnused(Frozen):
    """The policy names a mechanism under ``prefer`` that could not be taken, and why."""

    kind: Literal["preference-unused"] = "preference-unused"
    mechanism: str
    reason: Prose


class RunsUnproven(Frozen):
    """A mechanism that is only published runs."""

    kind: Literal["runs-unproven"] = "runs-unproven"
    mechanism: str


class InsertedEventsCopy(Frozen):
    """Inserted events copy ``columns`` from others, and get times of their own where it names
    timestamps.
    """

    kind: Literal["inserted-events-copy"] = "inserted-events-copy"
    columns: tuple[str, ...]


class FrequenciesKept(Frozen):
    """Pseudonyms keep the frequencies of the values."""

    kind: Literal["frequencies-kept"] = "frequencies-kept"
    attribute: str


class FlattenedObjects(Frozen):
    """Each object of ``object_type`` of an object-centric log is a case; events of several objects
    stand in several cases.
    """

    kind: Literal["flattened-objects"] = "flattened-objects"
    object_type: str


Caveat = Annotated[
    NoProfileGiven
    | NoTotal
    | SeparateBudgets
    | HoldsWindow
    | PreferenceUnused
    | RunsUnproven
    | Homogeneity
    | Intersection
    | InsertedEventsCopy
    | RangeScale
    | LargeT
    | CountsCases
    | FrequenciesKept
    | FlattenedObjects
    | MayRevealTimes
    | SingleTimesOnly,
    Field(discriminator="kind"),
]
