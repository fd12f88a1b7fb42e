"""Puts what a plan states into words; nothing else does.

The kinds of guarantee supply their own sentence (``guarantees``); the policy supplies its reasons,
and a mechanism the description of its own step. Everything else that a plan, a statement or a
report says is written here, from records alone, so that correcting a word changes no claim.
``tests/golden/sentences.txt`` holds every sentence.
"""

from collections.abc import Iterable
from typing import Final, assert_never

from cloakwork.base.costs import cost_text
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.base.notebook_html import html_of, listing, paragraph, shown, table
from cloakwork.base.quantities import format_duration
from cloakwork.base.text import counted, listed, quoted, size_text
from cloakwork.guarantees import (
    VACUOUS_T,
    Guarantee,
    background_in_words,
    claims,
    short_description,
)
from cloakwork.guarantees.claims import (
    Assumption,
    Caveat,
    ConditionedOn,
    ExposureReason,
    Reason,
    TreatmentReason,
)
from cloakwork.mechanisms.base import Prediction, Proof
from cloakwork.mechanisms.registry import catalogue
from cloakwork.plan.model import Claim, Plan, Step, UnprovenClaim
from cloakwork.policy.model import describe_version


def claim_sentence(guarantee: Guarantee, given: ConditionedOn | None) -> str:
    """A claim in plain words: the guarantee, and what it takes as known."""
    said = guarantee.sentence()
    if given is None:
        return said
    declared = ""
    if given.window is not None:
        start = given.window.start
        end = given.window.end
        declared = f", the window from {start:%Y-%m-%d} to {end:%Y-%m-%d}"
    over_times = set(guarantee.over) <= {TIMESTAMPS}
    noised = "noised times" if over_times else "what is drawn through noise"
    said += (
        f" Taken as known: the order of events{declared}, and every released column "
        f"that is not computed from {noised} alone ({', '.join(given.columns)})."
    )
    if (others := possible_time_attributes(given)) and TIMESTAMPS in guarantee.over:
        said += f" Whoever can read times off {listed(quoted(others), 'or')} learns those times."
    return said


def possible_time_attributes(given: ConditionedOn) -> tuple[str, ...]:
    """The attributes that a claim takes as known: any of them may tell times, whatever it looks
    like.
    """
    return tuple(column for column in given.columns if column not in (CONTROL_FLOW, METADATA))


def unproven_sentence(item: UnprovenClaim) -> str:
    """What was asked for and is not given."""
    asked = short_description(item.guarantee)
    return (
        f"{asked} was asked for and is NOT guaranteed: "
        f"{item.mechanism} is only published, not proved."
    )


def unproven_cost(item: UnprovenClaim) -> str:
    """The cost that can be derived for what is unproven."""
    if item.cost is None:
        return "derived here: no bound (epsilon infinite)"
    return f"derived here: epsilon {item.cost.epsilon:.6g}, delta {item.cost.delta:.3g}"


def reasons_in_words(claim: Claim) -> tuple[str, ...]:
    """Why a claim holds, one clause each."""
    return tuple(reason_in_words(reason) for reason in claim.derivation)


def assumptions_in_words(claim: Claim) -> tuple[str, ...]:
    """What a claim rests on, one clause each."""
    return tuple(assumption_in_words(assumption) for assumption in claim.assumptions)


def reason_in_words(reason: Reason) -> str:
    """Why a claim holds, as one clause."""
    # ``assert_never`` lets mypy refuse a kind of reason that has no words here.
    match reason:
        case claims.ProfileIsCharged():
            return (
                "the noisy figures of the DP profile are published with the plan, "
                "and are part of the cost"
            )
        case claims.ValuesOnlyThroughNoise(mechanisms=names):
            return (
                "no raw value reaches a released column "
                f"except through the noise of {listed(names)}"
            )
        case claims.NothingElseObservable():
            return (
                "case ids are new and random, cases come in random order, "
                "and no step stops because of what the log holds"
            )
        case claims.TimesOnlyThroughNoise(mechanisms=names, columns=covered):
            value = f"raw value of {listed(quoted(covered))}" if covered else "raw time"
            return (
                f"no step lets a {value} reach the release "
                f"except through the noise of {listed(names)}"
            )
        case claims.OthersReadNoTimes(columns=covered):
            return (
                f"no step makes another released column from {listed(covered) or 'times'}, "
                "except through the order of events"
            )
        case claims.NoiseCosts(cost=cost):
            return (
                f"the noise that is drawn costs epsilon {cost.epsilon:.6g}, delta {cost.delta:.3g}"
            )
        case claims.GroupOfCases(attribute=name, cases=count, each=each, cost=cost):
            changed = "one case replaced"
            if each == "removed-and-added":
                changed = "one case removed and one added"
            return (
                f"each case that holds events of one '{name}' changes with them, {changed}: so the "
                f"noise protects {counted(count, 'case')} together, and each single case with "
                f"epsilon {cost.epsilon:.6g}, delta {cost.delta:.3g}"
            )
        case claims.MovesWholeCases(mechanism=name):
            return (
                f"{name} is the last step to write the control flow, "
                "and uses whole cases of the source log only"
            )
        case claims.LeavesOutEvents(mechanism=name, columns=columns):
            return (
                f"{name} is the last step to write {listed(columns)}, "
                "and only leaves events out of cases of the source log"
            )
        case claims.GivesGroupOneValue(mechanism=name, column=column):
            return f"{name} gives all cases of a group the same value of '{column}'"
        case claims.TimesSinceFirstEvent(precision=precision, epoch=epoch):
            return (
                "released times say how long after the first event of its case "
                "an event took place, "
                f"rounded down to {format_duration(precision)} and counted from {epoch:%Y-%m-%d}"
            )
        case claims.ReleasedAsItIs(column=column):
            return f"'{column}' is released as it is"
        case claims.WritesValuesLast(mechanism=name, column=column):
            return (
                f"{name} is the last step to write {column_values(column)}, "
                "and no later step changes the control flow"
            )
        case claims.FollowsFromDraw(mechanism=name):
            return (
                f"it follows from the probabilities with which {name} lets values change places; "
                "no single release can show it"
            )
        case claims.MeasuredOnRelease(what=what):
            return _MEASURED[what]
        case claims.MeasuredWithoutInserted(what=what):
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
    "employees": (
        "it counts as well, before the attribute is dropped, how many of the events at each place "
        "of a group one employee performed, inserted events left out; a larger share than 1/k "
        "stops the release"
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


MOST_NAMED: Final = 6
"""Of more attributes their number is said."""


def suggestion_text(said: claims.ReadOffLog | claims.ChosenByFigures) -> str:
    """What of a policy came from the log, and who answers for it."""
    if isinstance(said, claims.ChosenByFigures):
        return (
            f"the form of this release, {said.chosen}, was chosen in place of {said.instead_of} "
            "after reading figures of the raw log: no claim accounts for that choice"
        )
    what = f"read off the log by 'cloakwork policy suggest': {listed(said.what)}"
    if said.by is None:
        return f"{what}; nobody confirmed that this is publicly known (policy answer --confirm)"
    return f"{what}; publicly known, as {said.by} confirmed on {said.on:%Y-%m-%d}"


def assumption_in_words(assumption: Assumption) -> str:
    """What a claim rests on, as one clause."""
    match assumption:
        case claims.ProtectsOneTime():
            return "what is protected is one time of one event, not a whole case and not a person"
        case claims.ProtectsEachCase():
            return (
                "the protected unit is one case; "
                "a person with several cases is protected case by case"
            )
        case claims.ProtectsEachUnit(attribute=name, max_cases=most, cases_without=without):
            counts = {"own-unit": "is a unit of its own", "no-unit": "counts as no unit"}[without]
            return (
                f"the protected unit is all cases that share a value of '{name}' "
                f"(at most {most:,} of them kept); a case without '{name}' {counts}; "
                "a file in which a case names two is refused, whoever is in it, unless the policy "
                f"splits cases by it; that cases have '{name}' at all is taken as known"
            )
        case claims.ProtectsEachEmployee(attribute=name, cases=None):
            return (
                f"the protected unit is all events that one '{name}' performed; values are "
                f"distinguished by their spelling, an event without '{name}' (missing, blank, or "
                "no number) was performed by nobody, and counts neither for nor against"
            )
        case claims.ProtectsEachEmployee(attribute=name, cases=most):
            return (
                f"the protected unit is all events that one '{name}' performed; that they lie in "
                f"at most {most:,} cases is declared, and not enforced: for whoever took part in "
                "more, epsilon and delta are larger"
            )
        case claims.UnitsAtMost(units=units, source=source, counted=what):
            by = {"declared": "declared", "profile": "by the DP profile, with a margin"}[source]
            return f"the log holds at most {units:,} {what} ({by})"
        case claims.WellFormed():
            return (
                "the file is a well-formed log, every value of its declared type, and its case ids "
                "do not resemble those released as another dataset, by samples of keyed hashes; "
                "else it is refused, whoever is in it"
            )
        case claims.WithinLimits(unpacked_size=size, unpack_ratio=ratio, attributes=most):
            return (
                f"the file is within the reader's limits (at most {size_text(size)} unpacked, "
                f"{ratio} times its packed size, {most:,} attributes; whoever made the release "
                "may have raised them); a file that is not is refused, whoever is in it"
            )
        case claims.ReadOffLog() | claims.ChosenByFigures():
            return suggestion_text(assumption)
        case claims.KnownActivities(count=count, source=source):
            known = {"declared": "are public", "profile": "were selected by the DP profile"}[source]
            return f"{count} activities {known}; events of any other are dropped"
        case claims.KnownRules(rules=rules):
            return (
                f"it is public, and not read off the log, that {listed(rules.in_words())}; no "
                "drawn case breaks this"
            )
        case claims.CasesOfWindow(window=window, recorded=recorded):
            taken = f"cases whose first event lies in {window} (UTC) are taken"
            if not recorded:
                return f"{taken}; those without a time are left out"
            return (
                f"{taken}, each known by its id, which stays the same; those without a time, "
                "without an id or released with another window are left out"
            )
        case claims.CasesTruncated(events=events):
            return f"cases are cut after {event_count(events)}"
        case claims.IndependentPresence():
            return (
                "a guess is bounded where one unit's presence "
                "does not depend on everybody else's data"
            )
        case claims.TimesRounded(grid=grid, epoch=epoch):
            return f"times are rounded to {format_duration(grid)} and counted from {epoch:%Y-%m-%d}"
        case claims.LocalTime(zone=zone):
            return f"hours of the week are those of clocks in {zone}"
        case claims.StartsWithin(window=window):
            return (
                f"cases start between {window.start:%Y-%m-%d} "
                f"and {window.end:%Y-%m-%d} (others are moved)"
            )
        case claims.GapsAtMost(longest=longest):
            return f"gaps are at most {format_duration(longest)} (longer ones are cut)"
        case claims.KnowsAtMost(events=events, background=background, precision=precision):
            known = background_in_words(background, precision)
            return (
                f"nobody knows more than {event_count(events)} of a case, "
                f"and of these no more than {known}"
            )
        case claims.NobodyKnows(columns=columns):
            return (
                "nobody knows beforehand, of any case, "
                f"{listed(values_held_in(column) for column in columns)}"
            )
        case claims.KnowsActivitySequence():
            return (
                "whoever reads the release knows the activity sequence of a case, "
                "and none of the values"
            )
        case claims.StartsAtEpoch(epoch=epoch):
            return (
                f"every case starts at {epoch:%Y-%m-%d}, so when cases took place is not released"
            )
        case claims.DomainsDeclared(attributes=names):
            which = listed(quoted(names))
            if len(names) > MOST_NAMED:
                which = f"{len(names):,} attributes"
            return (
                f"the values that {which} may have are declared, not taken from the log; any other "
                "counts as missing, a number beyond its range as the range's end"
            )
        case claims.AskedAgain(mechanisms=mechanisms):
            return (
                f"what functions of {listed(mechanisms)} find in a case follows from that case "
                "alone: they are called again about a random part of the cases, in another order "
                "and batch, and nothing is released where they differ; what they keep elsewhere, "
                "as in files, is not checked"
            )
        case _:
            assert_never(assumption)


def caveat_in_words(caveat: Caveat) -> str:
    """What the guarantees leave open."""
    match caveat:
        case claims.NoProfileGiven():
            return (
                "the policy buys a DP profile, and none was given: "
                "only declared facts are used, and its share stays unspent"
            )
        case claims.NoTotal():
            return (
                "the policy sets no budget.total: "
                "nothing limits how much all releases of the dataset spend together"
            )
        case claims.SeparateBudgets(kept_apart=names):
            books = " and ".join(quoted(names))
            return (
                f"the books per {books} are kept apart: "
                "their totals do not add up to one person's risk"
            )
        case claims.HoldsWindow(window=window, tells_starts=tells, unit_attribute=unit):
            said = f"only cases whose first event lies in {window} (UTC) are in the release"
            if tells:
                said += ": whoever knows that a case is in it knows that it started then"
            if unit is None:
                return (
                    f"{said}; costs of several windows do not add up for one case, "
                    "but do for a person with cases in them"
                )
            return (
                f"{said}; one '{unit}' may have cases in several windows, "
                "so the costs of all of them add up"
            )
        case claims.NoiseForEmployees(attribute=name, cases=count, epsilon=epsilon):
            return (
                f"protecting all events of one '{name}' costs noise for "
                f"{counted(count, 'case')} together: as if one case had epsilon {epsilon:.3g}"
            )
        case claims.ReadOffLog() | claims.ChosenByFigures():
            return suggestion_text(caveat)
        case claims.PreferenceUnused(mechanism=name, reason=reason):
            return f"mechanisms.prefer names {name}, which is not used: {reason}"
        case claims.RunsUnproven(mechanism=name):
            return (
                f"UNPROVEN: {name} is only published; "
                "this release is for comparison and must not be published"
            )
        case claims.FlattenedObjects(object_type=name):
            return (
                f"a case is one object of type '{name}', and what m cases share (an event of "
                "several such objects, an object of another type) is protected less: differential "
                "privacy gives it m times epsilon and a larger delta, k-anonymity nothing, since "
                "flattening copies an event into the case of each of its objects"
            )
        case claims.StartsFromService():
            return (
                "start_timestamp is time:timestamp less service_time, and nothing protects it "
                "beyond what protects these two"
            )
        case claims.Homogeneity(attributes=names):
            return (
                "k-anonymity says nothing about values: "
                "a group of indistinguishable cases may share one value of "
                f"{listed(quoted(names))} (homogeneity); "
                "add t-closeness or l-diversity, or drop it"
            )
        case claims.Intersection(of=kind):
            what = {
                "k-anonymity": "two k-anonymous releases of one dataset",
                "confidence-bound": "two releases of one dataset with a confidence bound",
            }[kind]
            return f"{what} can be intersected; the ledger counts them"
        case claims.MayRevealTimes(columns=names):
            return (
                f"the claim over timestamps takes {listed(quoted(names))} as known: "
                "whoever can read times off such a column (a date, a day, a counter, "
                "or a pseudonym of any of these) learns the times; drop what may tell them"
            )
        case claims.SingleTimesOnly():
            return (
                "metric privacy protects single times, not cases: whoever knows when a case "
                "started, or several of its times, can often still tell which released case it is; "
                "'cloakwork risk' measures how often"
            )
        case claims.InsertedEventsCopy(columns=names):
            return _caveat_of_inserted(names)
        case claims.RangeScale(attribute=name):
            return (
                f"t-closeness compares numbers in '{name}' as a share of their range: one "
                "outlier widens the range and makes the guarantee vacuous; scale: rank does not"
            )
        case claims.LargeT(attribute=name, t=t):
            return (
                f"t = {t:g} asks nothing of numbers in '{name}': by rank, "
                f"a class lies at most about {VACUOUS_T:g} from the whole; choose t well below"
            )
        case claims.CountsCases(attribute=name):
            return f"k counts cases, while one unit ('{name}') may own several: use count: units"
        case claims.FrequenciesKept(attribute=name):
            return (
                f"pseudonyms of '{name}' keep their frequencies: "
                "a value known to be common can be recognised"
            )
        case _:
            assert_never(caveat)


def _caveat_of_inserted(columns: tuple[str, ...]) -> str:
    """What may show that an event was inserted."""
    inserted = "events that k-anonymisation inserts"
    copied = [name for name in columns if name != TIMESTAMPS]
    clauses = []
    if copied:
        clauses.append(
            f"{inserted} copy {listed(quoted(copied))} from other events: "
            "a value that numbers or identifies events, "
            "is the same throughout a case or is recorded only at some place of a case, "
            "say at the first event of an activity, can show which those are; drop such a column"
        )
    if TIMESTAMPS in columns:
        subject = "such events" if copied else inserted
        clauses.append(
            f"{subject} get times drawn between those "
            "of their neighbours, as precise as other events of the activity: "
            "durations or times that no such event has can show which those are"
        )
    return "; ".join(clauses)


def exposure_in_words(why: ExposureReason) -> str:
    """Why a column is released without protection."""
    match why:
        case claims.PolicyReason(reason=reason):
            return reason
        case claims.OnlyPublished(mechanism=name):
            return f"UNPROVEN: {name} is only published; the policy accepts it (accept_unproven)"
        case claims.FormOfRelease(changed_by=names):
            shown = (
                "how many cases there are, and which values are missing, "
                "show as in the source after bounding"
            )
            change = "changes" if len(names) == 1 else "change"
            return f"released with the log: {shown}" + (
                f", except for what {listed(names)} {change}" if names else ""
            )
        case _:
            assert_never(why)


def column_in_words(column: str, treatment: str = "keep", names: Iterable[str] = ()) -> str:
    """What a column that was treated so tells whoever reads the released log; ``names``: the actual
    attributes.
    """
    standard = {
        CONTROL_FLOW: (
            "which activities happened in each case, in which order, "
            "and how often each variant occurs"
        ),
        TIMESTAMPS: "when each event happened",
        METADATA: (
            "how many cases and events there are, which values are missing, "
            "and which rows belong together"
        ),
    }
    # The log's own columns read the same, however they are treated.
    if column in standard:
        return standard[column]
    each = listed(quoted(names)) or f"'{column}'"
    treated = {
        "generalise": f"which of the policy's groups each value of {each} falls into",
        "pseudonymise": (
            f"which rows share a value of {each} and how often each occurs, under another name"
        ),
    }
    return treated.get(treatment, f"the true values of {each}")


def treatment_in_words(why: TreatmentReason, mechanism: str | None = None) -> str:
    """Why an attribute is treated as it is.

    ``mechanism``: whose published claim alone covers it, or which makes cases without it.
    """
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
        case "not-generated":
            return f"{mechanism} makes new cases, which have no such attribute"
        case _:
            assert_never(why)


_IN_WORDS: Final[dict[Proof, str]] = {
    "proved": "proved",
    "kernel": "enforced by the kernel",
    "published": "published",
}


def proof_in_words(proof: Proof) -> str:
    """One phrase, as it stands beside a mechanism's name."""
    return _IN_WORDS[proof]


def enforced_sentence() -> str:
    """What ``proof: kernel`` means."""
    return (
        "enforced by the kernel: the log is seen only through answers that are bounded, noised and "
        "counted against the planned cost, whatever the mechanism's code does"
    )


def column_values(column: str) -> str:
    """What a column holds, as classes compare it: times count from the event before."""
    return "cycle times" if column == TIMESTAMPS else f"'{column}'"


def values_held_in(column: str) -> str:
    """What somebody may know of a column."""
    return "the times of its events" if column == TIMESTAMPS else f"the values of '{column}'"


def event_count(count: int) -> str:
    """So many events."""
    return "one event" if count == 1 else f"{count:,} events"


@html_of.register
def plan_html(plan: Plan) -> str:
    """What happens, what it protects, what it does not, what it costs; what is unproven first."""
    claims = [(claim.guarantee.kind, claim.sentence) for claim in plan.claims]
    costs = [
        f"{charge.currency}: {cost_text(charge.cost, digits=6)}"
        for charge in plan.charges
        if charge.currency != "none"
    ]
    return shown(
        f"Plan of {describe_version(plan.policy)}, dataset {plan.policy.metadata.dataset}",
        listing("Unproven", map(unproven_sentence, plan.unproven)),
        table(("guarantee", "says"), claims) or paragraph("Nothing is guaranteed."),
        listing("Not protected", exposed_lines(plan)),
        table(("step", "why"), [(step.mechanism, step.why) for step in plan.steps]),
        listing("Cost", costs or ["nothing is charged to a budget"]),
        listing("Warnings", map(caveat_in_words, plan.warnings)),
    )


def exposed_lines(plan: Plan) -> list[str]:
    """Each column that is released without protection, and why."""
    return [
        column_in_words(METADATA) if item.column == METADATA else f"{item.column}: {item.reason}"
        for item in plan.exposed
    ]


def action_of(step: Step) -> str:
    """What a step does, in a few words; empty where its mechanism is not known here, or says
    nothing.
    """
    mechanism = catalogue().get(step.mechanism)
    if mechanism is None:
        return ""
    named = step.params.get("attributes")
    attributes = [
        str(each["name"])
        for each in (named if isinstance(named, list) else [])
        if isinstance(each, dict) and "name" in each
    ]
    # Commas, and an "and" before the last, as in a sentence.
    listed = " and ".join(", ".join(attributes).rsplit(", ", 1))
    return mechanism.action.replace("{attributes}", listed)


def prediction_of(step: Step, facts: Facts) -> Prediction | None:
    """What a simulation tells of a step; None where there is none."""
    mechanism = catalogue().get(step.mechanism)
    if step.predicted is None or mechanism is None:
        return None
    # A plan holds the prediction in words; its figures are computed anew.
    return mechanism.predict(mechanism.Params.model_validate(step.params), facts)
