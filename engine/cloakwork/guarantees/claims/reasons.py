"""Why a claim holds, and what it takes as known, as typed records."""

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from cloakwork.base.costs import Cost
from cloakwork.base.facts import Window
from cloakwork.base.quantities import Duration, Frozen

Names = tuple[str, ...]


class ConditionedOn(Frozen):
    """What a claim over times takes as known, beside the order of events.

    ``columns``: every released column that is not computed solely from noised times,
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


class TimesOnlyThroughNoise(Frozen):
    """No step lets a raw time reach the release but through the noise of ``mechanisms``."""

    kind: Literal["times-only-through-noise"] = "times-only-through-noise"
    mechanisms: Names


class OthersReadNoTimes(Frozen):
    """No step writes another released column from times."""

    kind: Literal["others-read-no-times"] = "others-read-no-times"


class NoiseCosts(Frozen):
    """What the noise that is drawn costs, by the accountant."""

    kind: Literal["noise-costs"] = "noise-costs"
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


class FollowsFromNoise(Frozen):
    """The claim follows from the noise of ``mechanism``; one release does not show it."""

    kind: Literal["follows-from-noise"] = "follows-from-noise"
    mechanism: str


class MeasuredOnRelease(Frozen):
    """An independent check measures the released log."""

    kind: Literal["measured-on-release"] = "measured-on-release"
    what: Literal["groups", "knowledge", "classes"]


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
    | MovesWholeCases
    | LeavesOutEvents
    | GivesGroupOneValue
    | TimesSinceFirstEvent
    | ReleasedAsItIs
    | WritesValuesLast
    | FollowsFromNoise
    | MeasuredOnRelease
    | MeasuredWithoutInserted,
    Field(discriminator="kind"),
]
