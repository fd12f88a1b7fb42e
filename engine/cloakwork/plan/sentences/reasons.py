"""Why a claim holds, in words."""

from typing import Final, assert_never

from cloakwork.base.quantities import format_duration
from cloakwork.base.text import listed
from cloakwork.guarantees.claims import Reason, reasons
from cloakwork.plan.sentences.phrases import column_values


def reason_in_words(reason: Reason) -> str:
    """Why a claim holds, as one clause."""
    match reason:
        case reasons.ProfileIsCharged():
            return (
                "the noisy figures of the DP profile are published with the plan, "
                "and are part of the cost"
            )
        case reasons.ValuesOnlyThroughNoise(mechanisms=names):
            return (
                "no raw value reaches a released column "
                f"except through the noise of {listed(names)}"
            )
        case reasons.NothingElseObservable():
            return (
                "case ids are new and random, cases come in random order, "
                "and no step stops because of what the log holds"
            )
        case reasons.TimesOnlyThroughNoise(mechanisms=names):
            return (
                "no step lets a raw time reach the release "
                f"except through the noise of {listed(names)}"
            )
        case reasons.OthersReadNoTimes():
            return (
                "no step makes another released column from times, "
                "except through the order of events"
            )
        case reasons.NoiseCosts(cost=cost):
            return (
                f"the noise that is drawn costs epsilon {cost.epsilon:.6g}, delta {cost.delta:.3g}"
            )
        case _:
            return _reason_counted_on_release(reason)


def _reason_counted_on_release(
    reason: reasons.MovesWholeCases
    | reasons.LeavesOutEvents
    | reasons.GivesGroupOneValue
    | reasons.TimesSinceFirstEvent
    | reasons.ReleasedAsItIs
    | reasons.WritesValuesLast
    | reasons.FollowsFromNoise
    | reasons.MeasuredOnRelease
    | reasons.MeasuredWithoutInserted,
) -> str:
    """Why a claim holds that is counted on the release, as one clause."""
    match reason:
        case reasons.MovesWholeCases(mechanism=name):
            return (
                f"{name} is the last step to write the control flow, "
                "and uses whole cases of the source log only"
            )
        case reasons.LeavesOutEvents(mechanism=name, columns=columns):
            return (
                f"{name} is the last step to write {listed(columns)}, "
                "and only leaves events out of cases of the source log"
            )
        case reasons.GivesGroupOneValue(mechanism=name, column=column):
            return f"{name} gives all cases of a group the same value of '{column}'"
        case reasons.TimesSinceFirstEvent(precision=precision, epoch=epoch):
            return (
                "released times say how long after the first event of its case "
                "an event took place, "
                f"rounded down to {format_duration(precision)} and counted from {epoch:%Y-%m-%d}"
            )
        case reasons.ReleasedAsItIs(column=column):
            return f"'{column}' is released as it is"
        case reasons.WritesValuesLast(mechanism=name, column=column):
            return (
                f"{name} is the last step to write {column_values(column)}, "
                "and no later step changes the control flow"
            )
        case reasons.FollowsFromNoise(mechanism=name):
            return (
                f"it follows from the noise with which {name} replaces each value; "
                "no single release can show it"
            )
        case reasons.MeasuredOnRelease(what=what):
            return _MEASURED[what]
        case reasons.MeasuredWithoutInserted(what=what):
            return _MEASURED_WITHOUT_INSERTED[what]
        case _:
            assert_never(reason)


_MEASURED: Final = {
    "groups": (
        "an independent check counts the groups on the released log; "
        "a smaller one stops the release"
    ),
    "knowledge": (
        "an independent check counts on the released log who fits each such knowledge; "
        "a violation stops the release"
    ),
    "classes": (
        "an independent check measures every class on the released log; "
        "one that fails stops the release"
    ),
}
_MEASURED_WITHOUT_INSERTED: Final = {
    "groups": (
        "the check was repeated before the release, leaving out inserted events that a missing "
        "attribute, or the precision of a time released as it is, would give away; "
        "a file does not tell which those are"
    ),
    "classes": (
        "the check was repeated before the release without what inserted events hold; "
        "a file does not tell which those are"
    ),
}
