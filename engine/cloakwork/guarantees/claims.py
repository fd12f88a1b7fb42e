"""What a plan states beside its steps, as typed records: what a claim rests on, why it holds, what
the guarantees leave open, and why a column is released without protection.

No record holds a sentence. ``plan.sentences`` puts records into words; whoever proves or verifies
compares records alone. Every record is frozen and has a ``kind``, which distinguishes the members
of a union.
"""

from datetime import date
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from cloakwork.base.costs import Cost
from cloakwork.base.facts import ProcessRules, Window
from cloakwork.base.quantities import IF_SAID, Duration, Frozen
from cloakwork.base.records import Prose

Names = tuple[str, ...]

Background = Literal["set", "multiset", "sequence", "relative"]
"""What is known of some events of a case: which activities; how often each; in which order; and how
long after the case's first event each took place.
"""

# What a claim rests on.

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


class ProtectsEachEmployee(Frozen):
    """The claim speaks of all events that one value of ``attribute`` performed.

    ``cases``: in how many cases these are at most, which nothing enforces; None where the claim
    does not rest on it.
    """

    kind: Literal["protects-each-employee"] = "protects-each-employee"
    attribute: str
    cases: Annotated[int | None, Field(ge=1)] = None


class UnitsAtMost(Frozen):
    """An upper bound on the number of units in the log, or of cases where employees are the
    unit.
    """

    kind: Literal["units-at-most"] = "units-at-most"
    units: int
    source: Source
    counted: Annotated[
        Literal["units", "cases"], Field(exclude_if=lambda counted: counted == "units")
    ] = "units"


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


class ReadOffLog(Frozen):
    """What the policy took from the log itself: who confirmed that it is publicly known, and when;
    None while nobody did.
    """

    kind: Literal["read-off-log"] = "read-off-log"
    what: Names
    by: str | None = None
    on: date | None = None


class ChosenByFigures(Frozen):
    """The form of the release was chosen after reading figures of the raw log."""

    kind: Literal["chosen-by-figures"] = "chosen-by-figures"
    chosen: str
    instead_of: str


class KnownActivities(Frozen):
    """So many activities may occur; events of any other are dropped."""

    kind: Literal["known-activities"] = "known-activities"
    count: int
    source: Source


class KnownRules(Frozen):
    """No released case breaks these rules, which are public and were not read off the log."""

    kind: Literal["known-rules"] = "known-rules"
    rules: ProcessRules


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


class LocalTime(Frozen):
    """The zone whose clocks say in which hours of the week events are drawn."""

    kind: Literal["local-time"] = "local-time"
    zone: str


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


class DomainsDeclared(Frozen):
    """The values, or the ranges, that attributes may have are declared; others count as missing, or
    as the range's end.
    """

    kind: Literal["domains-declared"] = "domains-declared"
    attributes: Names


class AskedAgain(Frozen):
    """Functions of ``mechanisms`` of other packages, which nobody has proved to look at each case
    by itself: they are called again, and compared, while they run.
    """

    kind: Literal["asked-again"] = "asked-again"
    mechanisms: Names


Assumption = Annotated[
    ProtectsOneTime
    | ProtectsEachCase
    | ProtectsEachUnit
    | ProtectsEachEmployee
    | UnitsAtMost
    | WellFormed
    | WithinLimits
    | ReadOffLog
    | ChosenByFigures
    | KnownActivities
    | KnownRules
    | CasesTruncated
    | IndependentPresence
    | TimesRounded
    | LocalTime
    | StartsWithin
    | CasesOfWindow
    | GapsAtMost
    | KnowsAtMost
    | NobodyKnows
    | KnowsActivitySequence
    | StartsAtEpoch
    | DomainsDeclared
    | AskedAgain,
    Field(discriminator="kind"),
]


# Why a claim holds, and what it takes as known.


class ConditionedOn(Frozen):
    """What a claim over times or attributes takes as known, beside the order of events.

    ``columns``: every released column that is not computed solely from these, noised,
    ``control-flow`` and ``metadata`` included: attributes by the policy's names in a plan (a glob
    stands for what it matches), by their actual names in a statement. ``window``: when
    cases start, where the noise is scaled to it, or where only such cases are released.
    """

    columns: Names
    window: Window | None = None


class ProfileIsCharged(Frozen):
    """The noisy figures of the DP profile are part of the cost."""

    kind: Literal["profile-is-charged"] = "profile-is-charged"


class ValuesOnlyThroughNoise(Frozen):
    """No raw value reaches a released column but through the noise of ``mechanisms``."""

    kind: Literal["values-only-through-noise"] = "values-only-through-noise"
    mechanisms: Names


class NothingElseObservable(Frozen):
    """Ids, the order of cases and the run itself show nothing of the log."""

    kind: Literal["nothing-else-observable"] = "nothing-else-observable"


Covered = Annotated[Names, IF_SAID]
"""The columns of a claim over values, where it is over others than ``timestamps`` alone."""


class TimesOnlyThroughNoise(Frozen):
    """No step lets a raw time, or value of ``columns``, reach the release but through the noise of
    ``mechanisms``.
    """

    kind: Literal["times-only-through-noise"] = "times-only-through-noise"
    mechanisms: Names
    columns: Covered = ()


class OthersReadNoTimes(Frozen):
    """No step writes another released column from times, or from ``columns``."""

    kind: Literal["others-read-no-times"] = "others-read-no-times"
    columns: Covered = ()


class NoiseCosts(Frozen):
    """What the noise that is drawn costs, by the accountant."""

    kind: Literal["noise-costs"] = "noise-costs"
    cost: Cost


class GroupOfCases(Frozen):
    """The noise protects ``cases`` cases together, those that the events of one value of
    ``attribute`` change; ``cost``: what it costs one case. ``each``: how many changes one of them
    is.
    """

    kind: Literal["group-of-cases"] = "group-of-cases"
    attribute: str
    cases: Annotated[int, Field(ge=1)]
    each: Literal["replaced", "removed-and-added"]
    cost: Cost


class MovesWholeCases(Frozen):
    """``mechanism`` writes the control flow last, out of whole cases of the source."""

    kind: Literal["moves-whole-cases"] = "moves-whole-cases"
    mechanism: str


class LeavesOutEvents(Frozen):
    """``mechanism`` writes ``columns`` last, and only leaves events out of cases of the source."""

    kind: Literal["leaves-out-events"] = "leaves-out-events"
    mechanism: str
    columns: Names


class GivesGroupOneValue(Frozen):
    """``mechanism`` gives the cases of one group one value of ``column``."""

    kind: Literal["makes-alike"] = "makes-alike"
    mechanism: str
    column: str


class TimesSinceFirstEvent(Frozen):
    """Released times say only how long after a case's first event an event took place."""

    kind: Literal["times-since-first-event"] = "times-since-first-event"
    precision: Duration
    epoch: AwareDatetime


class ReleasedAsItIs(Frozen):
    """The sensitive attribute is not changed."""

    kind: Literal["released-as-it-is"] = "released-as-it-is"
    column: str


class WritesValuesLast(Frozen):
    """``mechanism`` writes ``column`` last, and the classes stay as they are afterwards."""

    kind: Literal["writes-values-last"] = "writes-values-last"
    mechanism: str
    column: str


class FollowsFromDraw(Frozen):
    """The claim follows from how ``mechanism`` draws values; one release does not show it."""

    kind: Literal["follows-from-draw"] = "follows-from-draw"
    mechanism: str


class MeasuredOnRelease(Frozen):
    """An independent check measures the released log."""

    kind: Literal["measured-on-release"] = "measured-on-release"
    what: Literal["groups", "knowledge", "classes", "employees"]


class MeasuredWithoutInserted(Frozen):
    """Inside the run the check is repeated for somebody who recognises inserted events; a file does
    not tell them.
    """

    kind: Literal["measured-without-inserted"] = "measured-without-inserted"
    what: Literal["groups", "classes"]


Reason = Annotated[
    ProfileIsCharged
    | ValuesOnlyThroughNoise
    | NothingElseObservable
    | TimesOnlyThroughNoise
    | OthersReadNoTimes
    | NoiseCosts
    | GroupOfCases
    | MovesWholeCases
    | LeavesOutEvents
    | GivesGroupOneValue
    | TimesSinceFirstEvent
    | ReleasedAsItIs
    | WritesValuesLast
    | FollowsFromDraw
    | MeasuredOnRelease
    | MeasuredWithoutInserted,
    Field(discriminator="kind"),
]


# What the guarantees leave open: first what one kind of guarantee says of itself.


class Homogeneity(Frozen):
    """Sensitive attributes are released beside k-anonymity alone."""

    kind: Literal["homogeneity"] = "homogeneity"
    attributes: Names


class Intersection(Frozen):
    """Two releases of one dataset under this kind of guarantee can be intersected."""

    kind: Literal["intersection"] = "intersection"
    of: Literal["k-anonymity", "confidence-bound"]


class CountsCases(Frozen):
    """k counts cases, while one unit may own several."""

    kind: Literal["counts-cases"] = "counts-cases"
    attribute: str


class RangeScale(Frozen):
    """t-closeness compares the numbers of ``attribute`` as a share of their range."""

    kind: Literal["range-scale"] = "range-scale"
    attribute: str


class LargeT(Frozen):
    """``t`` is no less than what numbers compared by rank can be apart."""

    kind: Literal["large-t"] = "large-t"
    attribute: str
    t: float


class MayRevealTimes(Frozen):
    """A claim over times takes ``columns`` as known: whoever can read times off them learns the
    times.
    """

    kind: Literal["may-tell-times"] = "may-tell-times"
    columns: Names


class SingleTimesOnly(Frozen):
    """Metric privacy hides each time by itself, not which case is whose."""

    kind: Literal["single-times-only"] = "single-times-only"


GuaranteeCaveat = (
    Homogeneity
    | Intersection
    | CountsCases
    | RangeScale
    | LargeT
    | MayRevealTimes
    | SingleTimesOnly
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
    kept_apart: Names


class HoldsWindow(Frozen):
    """The release is made of the cases that start in one window of a growing log.

    ``unit_attribute``: what tells persons apart, where they are protected, who may have cases in
    several windows; None where each case is. ``tells_starts``: nothing hides who is in the release.
    """

    kind: Literal["holds-window"] = "holds-window"
    window: str
    unit_attribute: str | None = None
    tells_starts: bool


class NoiseForEmployees(Frozen):
    """Differential privacy of employees: noise is that of ``cases`` cases together, each with
    ``epsilon``.
    """

    kind: Literal["noise-for-employees"] = "noise-for-employees"
    attribute: str
    cases: Annotated[int, Field(ge=1)]
    epsilon: float


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
    columns: Names


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


class StartsFromService(Frozen):
    """When work on an event began is written as its time less its service time."""

    kind: Literal["starts-from-service"] = "starts-from-service"


Caveat = Annotated[
    ReadOffLog
    | ChosenByFigures
    | NoProfileGiven
    | NoTotal
    | SeparateBudgets
    | HoldsWindow
    | NoiseForEmployees
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
    | StartsFromService
    | MayRevealTimes
    | SingleTimesOnly,
    Field(discriminator="kind"),
]


# Why a column is released without protection, and why an attribute is treated as it is.


class PolicyReason(Frozen):
    """The policy names the column under ``expose``, with its own words; they are data of the
    policy.
    """

    kind: Literal["policy"] = "policy"
    reason: str


class OnlyPublished(Frozen):
    """Only the published claim of ``mechanism`` covers the column, and the policy accepts that."""

    kind: Literal["only-published"] = "only-published"
    mechanism: str


class FormOfRelease(Frozen):
    """The number of cases, and which values are missing, show; ``changed_by``: mechanisms that
    change them.
    """

    kind: Literal["form-of-release"] = "form-of-release"
    changed_by: Names = ()


ExposureReason = Annotated[
    PolicyReason | OnlyPublished | FormOfRelease, Field(discriminator="kind")
]

TreatmentReason = Literal[
    "fresh-ids", "covered", "policy", "activities", "undeclared", "unproven", "not-generated"
]
"""Why an attribute is treated as it is: ids are drawn anew; a guarantee covers it; the policy says
so; a log needs activities; nothing names it; only a published claim covers it.
"""
