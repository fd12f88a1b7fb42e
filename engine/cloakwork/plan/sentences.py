"""Puts what a plan states into words; nothing else does.

The kinds of guarantee supply their own sentence (``guarantees``); the policy supplies its reasons,
and a mechanism the description of its own step. Everything else that a plan, a statement or a
report says is written here, from records alone, so that correcting a word changes no claim.
``tests/golden/sentences.txt`` holds every sentence.
"""

from collections.abc import Iterable
from typing import assert_never

from cloakwork.guarantees import (
    VACUOUS_T,
    Guarantee,
    background_in_words,
    short_description,
)
from cloakwork.guarantees import caveats as of_guarantees
from cloakwork.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.log.limits import size_text
from cloakwork.plan.claims import (
    Assumption,
    Caveat,
    ConditionedOn,
    ExposureReason,
    Reason,
    TreatmentReason,
    assumptions,
    caveats,
    exposures,
    reasons,
)
from cloakwork.plan.model import Claim, Unproven
from cloakwork.quantities import format_duration


def claim_sentence(guarantee: Guarantee, given: ConditionedOn | None) -> str:
    """A claim in plain words: the guarantee, and what it takes as known."""
    return guarantee.sentence() + (f" {_known(given)}" if given is not None else "")


def _known(given: ConditionedOn) -> str:
    window = given.window
    declared = (
        ""
        if window is None
        else f", the window from {window.start:%Y-%m-%d} to {window.end:%Y-%m-%d}"
    )
    said = (
        f"Taken as known: the order of events{declared}, and every released column that is not computed from "
        f"noised times alone ({', '.join(given.columns)})."
    )
    if others := possible_clocks(given):
        said += f" Whoever can read times off {_either(others)} learns those times."
    return said


def possible_clocks(given: ConditionedOn) -> tuple[str, ...]:
    """The attributes that a claim takes as known: any of them may tell times, whatever it looks
    like.
    """
    return tuple(column for column in given.columns if column not in (CONTROL_FLOW, METADATA))


def unproven_sentence(item: Unproven) -> str:
    """What was asked for and is not given."""
    asked = short_description(item.guarantee)
    return f"{asked} was asked for and is NOT guaranteed: {item.mechanism} is only published, not proved."


def unproven_cost(item: Unproven) -> str:
    """The cost that can be derived for what is unproven."""
    if item.cost is None:
        return "derived here: no bound (epsilon infinite)"
    return f"derived here: epsilon {item.cost.epsilon:.6g}, delta {item.cost.delta:.3g}"


def because(claim: Claim) -> tuple[str, ...]:
    """Why a claim holds, one clause each."""
    return tuple(reason_in_words(reason) for reason in claim.derivation)


def assuming(claim: Claim) -> tuple[str, ...]:
    """What a claim rests on, one clause each."""
    return tuple(assumption_in_words(assumption) for assumption in claim.assumptions)


def reason_in_words(reason: Reason) -> str:
    """Why a claim holds, as one clause."""
    match reason:
        case reasons.ProfileIsCharged():
            return "the noisy figures of the DP profile are published with the plan, and are part of the cost"
        case reasons.ValuesOnlyThroughNoise(mechanisms=names):
            return (
                f"no raw value reaches a released column except through the noise of {_all(names)}"
            )
        case reasons.NothingElseObservable():
            return (
                "case ids are new and random, cases come in random order, and no step stops because of what the log "
                "holds"
            )
        case reasons.TimesOnlyThroughNoise(mechanisms=names):
            return f"no step lets a raw time reach the release except through the noise of {_all(names)}"
        case reasons.OthersReadNoTimes():
            return "no step makes another released column from times, except through the order of events"
        case reasons.NoiseCosts(cost=cost):
            return (
                f"the noise that is drawn costs epsilon {cost.epsilon:.6g}, delta {cost.delta:.3g}"
            )
        case _:
            return _counted_reason(reason)


def _counted_reason(
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
            return f"{name} is the last step to write the control flow, and uses whole cases of the source log only"
        case reasons.LeavesOutEvents(mechanism=name, columns=columns):
            return (
                f"{name} is the last step to write {_all(columns)}, and only leaves events out of cases of the source "
                "log"
            )
        case reasons.GivesGroupOneValue(mechanism=name, column=column):
            return f"{name} gives all cases of a group the same value of '{column}'"
        case reasons.TimesSinceFirstEvent(precision=precision, epoch=epoch):
            return (
                f"released times say how long after the first event of its case an event took place, rounded down to "
                f"{format_duration(precision)} and counted from {epoch:%Y-%m-%d}"
            )
        case reasons.ReleasedAsItIs(column=column):
            return f"'{column}' is released as it is"
        case reasons.WritesValuesLast(mechanism=name, column=column):
            return f"{name} is the last step to write {_values(column)}, and no later step changes the control flow"
        case reasons.FollowsFromNoise(mechanism=name):
            return f"it follows from the noise with which {name} replaces each value; no single release can show it"
        case reasons.MeasuredOnRelease(what=what):
            return {
                "groups": "an independent check counts the groups on the released log; a smaller one stops the release",
                "knowledge": "an independent check counts on the released log who fits each such knowledge; a "
                "violation stops the release",
                "classes": "an independent check measures every class on the released log; one that fails stops the "
                "release",
            }[what]
        case reasons.MeasuredWithoutInserted(what=what):
            return {
                "groups": "the check was repeated before the release without the inserted events that show by what they "
                "lack, or by the precision of times released as they are; a file does not tell which those are",
                "classes": "the check was repeated before the release without what inserted events hold; a file does not "
                "tell which those are",
            }[what]
        case _:
            assert_never(reason)


def assumption_in_words(assumption: Assumption) -> str:
    """What a claim rests on, as one clause."""
    match assumption:
        case assumptions.ProtectsOneTime():
            return "what is protected is one time of one event, not a whole case and not a person"
        case assumptions.ProtectsEachCase():
            return "the protected unit is one case; a person with several cases is protected case by case"
        case assumptions.ProtectsEachUnit(attribute=name, max_cases=most, cases_without=without):
            counts = {"own-unit": "is a unit of its own", "no-unit": "counts as no unit"}[without]
            return (
                f"the protected unit is all cases that share a value of '{name}' (at most {most:,} of them kept); a "
                f"case without '{name}' {counts}; that cases have '{name}' at all is taken as known"
            )
        case assumptions.UnitsAtMost(units=units, source=source):
            by = {"declared": "declared", "profile": "by the DP profile, with a margin"}[source]
            return f"the log holds at most {units:,} units ({by})"
        case assumptions.WellFormed():
            return (
                "the file is a well-formed log, every value of its declared type; a file that is not is refused, "
                "whoever is in it"
            )
        case assumptions.WithinLimits(unpacked_size=size, unpack_ratio=ratio, attributes=most):
            return (
                f"the file is within the reader's limits (at most {size_text(size)} unpacked, {ratio} times its "
                f"packed size, {most:,} attributes; whoever made the release may have raised them); a file that is "
                "not is refused, whoever is in it"
            )
        case assumptions.KnownActivities(count=count, source=source):
            known = {"declared": "are public", "profile": "were selected by the DP profile"}[source]
            return f"{count} activities {known}; events of any other are dropped"
        case assumptions.CasesTruncated(events=events):
            return f"cases are cut after {_events(events)}"
        case assumptions.IndependentPresence():
            return "a guess is bounded where one unit's presence does not depend on everybody else's data"
        case _:
            return _other_assumption(assumption)


def _other_assumption(
    assumption: assumptions.TimesRounded
    | assumptions.StartsWithin
    | assumptions.GapsAtMost
    | assumptions.KnowsAtMost
    | assumptions.NobodyKnows
    | assumptions.KnowsActivitySequence
    | assumptions.StartsAtEpoch
    | assumptions.ValuesDeclared,
) -> str:
    """What a claim about times or about known events rests on, as one clause."""
    match assumption:
        case assumptions.TimesRounded(grid=grid, epoch=epoch):
            return f"times are rounded to {format_duration(grid)} and counted from {epoch:%Y-%m-%d}"
        case assumptions.StartsWithin(window=window):
            return f"cases start between {window.start:%Y-%m-%d} and {window.end:%Y-%m-%d} (others are moved)"
        case assumptions.GapsAtMost(longest=longest):
            return f"gaps are at most {format_duration(longest)} (longer ones are cut)"
        case assumptions.KnowsAtMost(events=events, background=background, precision=precision):
            known = background_in_words(background, precision)
            return f"nobody knows more than {_events(events)} of a case, and of these no more than {known}"
        case assumptions.NobodyKnows(columns=columns):
            return f"nobody knows beforehand, of any case, {_all(_held_in(column) for column in columns)}"
        case assumptions.KnowsActivitySequence():
            return "whoever reads the release knows the activity sequence of a case, and none of the values"
        case assumptions.StartsAtEpoch(epoch=epoch):
            return (
                f"every case starts at {epoch:%Y-%m-%d}, so when cases took place is not released"
            )
        case assumptions.ValuesDeclared(attribute=name):
            return f"the values that '{name}' may have are declared, not taken from the log"
        case _:
            assert_never(assumption)


def exposure_in_words(why: ExposureReason) -> str:
    """Why a column is released without protection."""
    match why:
        case exposures.PolicyReason(reason=reason):
            return reason
        case exposures.OnlyPublished(mechanism=name):
            return f"UNPROVEN: accepted by the policy (accept_unproven); {name} is only published"
        case exposures.FormOfRelease(changed_by=names):
            shown = "how many cases there are, and which values are missing, show as in the source after bounding"
            change = "changes" if len(names) == 1 else "change"
            return f"released with the log: {shown}" + (
                f", except for what {_all(names)} {change}" if names else ""
            )
        case _:
            assert_never(why)


def column_in_words(column: str, treatment: str = "keep", names: Iterable[str] = ()) -> str:
    """What a column that was treated so tells whoever reads the released log; ``names``: the actual
    attributes.
    """
    standard = {
        CONTROL_FLOW: "which activities happened in each case, in which order, and how often each variant occurs",
        TIMESTAMPS: "when each event happened",
        METADATA: "how many cases and events there are, which values are missing, and which rows belong together",
    }
    if column in standard:
        return standard[column]
    each = _all(_quoted(names)) or f"'{column}'"
    treated = {
        "generalise": f"which of the policy's groups each value of {each} falls into",
        "pseudonymise": f"which rows share a value of {each} and how often each occurs, under another name",
    }
    return treated.get(treatment, f"the true values of {each}")


def treatment_in_words(why: TreatmentReason, mechanism: str | None = None) -> str:
    """Why an attribute is treated as it is; ``mechanism``: whose published claim alone covers it."""
    match why:
        case "fresh-ids":
            return "releases carry fresh random case ids"
        case "covered":
            return "a guarantee covers it"
        case "policy":
            return "the policy says so"
        case "activities":
            return "a log without activities is none"
        case "undeclared":
            return "no guarantee covers it and the policy names no treatment"
        case "unproven":
            return f"UNPROVEN: only the published claim of {mechanism} covers it"
        case _:
            assert_never(why)


def caveat_in_words(caveat: Caveat) -> str:
    """What the guarantees leave open."""
    match caveat:
        case caveats.NoProfileGiven():
            return (
                "the policy buys a DP profile, and none was given: only declared facts are used, and its share stays "
                "unspent"
            )
        case caveats.NoTotal():
            return "the policy sets no budget.total: nothing limits how much all releases of the dataset spend together"
        case caveats.SeparateBudgets(kept_apart=names):
            listed = " and ".join(f"'{name}'" for name in names)
            return f"the books per {listed} are kept apart: their totals do not add up to one person's risk"
        case caveats.RunsUnproven(mechanism=name):
            return f"UNPROVEN: {name} is only published; this release is for comparison and must not be published"
        case of_guarantees.Homogeneity(attributes=names):
            return (
                f"k-anonymity says nothing about values: a group of indistinguishable cases may share one value of "
                f"{_all(_quoted(names))} (homogeneity); add t-closeness or l-diversity, or drop it"
            )
        case of_guarantees.Intersection(of=kind):
            what = {
                "k-anonymity": "two k-anonymous releases of one dataset",
                "confidence-bound": "two releases of one dataset with a confidence bound",
            }[kind]
            return f"{what} can be intersected; the ledger counts them"
        case of_guarantees.MayRevealTimes(columns=names):
            return (
                f"the claim over timestamps takes {_all(_quoted(names))} as known: whoever can read times off such a column "
                "(a date, a day, a counter, or a pseudonym of any of these) learns the times; drop what may tell them"
            )
        case of_guarantees.SingleTimesOnly():
            return (
                "metric privacy hides each time by itself: whoever knows when a case started, or several of its times, can "
                "often still tell which released case it is"
            )
        case _:
            return _caveat_of_rows(caveat)


def _caveat_of_inserted(columns: tuple[str, ...]) -> str:
    """What may show that an event was inserted."""
    said = "events that k-anonymisation inserts"
    copied = [name for name in columns if name != TIMESTAMPS]
    parts = []
    if copied:
        parts.append(
            f"{said} copy {_all(_quoted(copied))} from other events: a value that numbers or identifies events, is the "
            "same throughout a case or is recorded only at some place of a case, say at the first event of an activity, "
            "can show which those are; drop such a column"
        )
    if TIMESTAMPS in columns:
        parts.append(
            f"{'such events' if copied else said} get times drawn between those of their neighbours, as precise as other "
            "events of the activity: durations or times that no such event has can show which those are"
        )
    return "; ".join(parts)


def _caveat_of_rows(
    caveat: caveats.InsertedEventsCopy
    | of_guarantees.RangeScale
    | of_guarantees.LargeT
    | of_guarantees.CountsCases
    | caveats.FrequenciesKept,
) -> str:
    """What single events, cases or values of the release still show."""
    match caveat:
        case caveats.InsertedEventsCopy(columns=names):
            return _caveat_of_inserted(names)
        case of_guarantees.RangeScale(attribute=name):
            return (
                f"t-closeness compares numbers in '{name}' as a share of their range: one outlier widens the range and makes "
                "the guarantee vacuous; scale: rank does not"
            )
        case of_guarantees.LargeT(attribute=name, t=t):
            return (
                f"t = {t:g} asks nothing of numbers in '{name}': by rank, a class lies at most about {VACUOUS_T:g} from the "
                "whole; choose t well below"
            )
        case of_guarantees.CountsCases(attribute=name):
            return f"k counts cases, while one unit ('{name}') may own several: use count: units"
        case caveats.FrequenciesKept(attribute=name):
            return f"pseudonyms of '{name}' keep their frequencies: a value known to be common can be recognised"
        case _:
            assert_never(caveat)


def _values(column: str) -> str:
    return "cycle times" if column == TIMESTAMPS else f"'{column}'"


def _held_in(column: str) -> str:
    return "the times of its events" if column == TIMESTAMPS else f"the values of '{column}'"


def _events(count: int) -> str:
    return "one event" if count == 1 else f"{count:,} events"


def _quoted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"'{name}'" for name in names)


def _all(names: Iterable[str]) -> str:
    """Names as people list them: ``a, b and c``."""
    return " and ".join(", ".join(names).rsplit(", ", 1))


def _either(names: Iterable[str]) -> str:
    """Names as a choice: ``a, b or c``."""
    return " or ".join(", ".join(_quoted(names)).rsplit(", ", 1))
