"""What the guarantees leave open, in words."""

from typing import assert_never

from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.base.text import listed, quoted
from cloakwork.guarantees import VACUOUS_T
from cloakwork.guarantees import caveats as of_guarantees
from cloakwork.guarantees.claims import Caveat, caveats


def caveat_in_words(caveat: Caveat) -> str:
    """What the guarantees leave open."""
    match caveat:
        case caveats.NoProfileGiven():
            return (
                "the policy buys a DP profile, and none was given: "
                "only declared facts are used, and its share stays unspent"
            )
        case caveats.NoTotal():
            return (
                "the policy sets no budget.total: "
                "nothing limits how much all releases of the dataset spend together"
            )
        case caveats.SeparateBudgets(kept_apart=names):
            books = " and ".join(quoted(names))
            return (
                f"the books per {books} are kept apart: "
                "their totals do not add up to one person's risk"
            )
        case caveats.HoldsWindow():
            return _caveat_of_window(caveat)
        case caveats.PreferenceUnused(mechanism=name, reason=reason):
            return f"mechanisms.prefer names {name}, which is not used: {reason}"
        case caveats.RunsUnproven(mechanism=name):
            return (
                f"UNPROVEN: {name} is only published; "
                "this release is for comparison and must not be published"
            )
        case caveats.FlattenedObjects(object_type=name):
            return (
                f"a case is one object of type '{name}', and what m cases share (an event of "
                "several such objects, an object of another type) is protected less: differential "
                "privacy gives it m times epsilon and a larger delta, k-anonymity nothing, since "
                "flattening copies an event into the case of each of its objects"
            )
        case of_guarantees.Homogeneity(attributes=names):
            return (
                "k-anonymity says nothing about values: "
                "a group of indistinguishable cases may share one value of "
                f"{listed(quoted(names))} (homogeneity); "
                "add t-closeness or l-diversity, or drop it"
            )
        case of_guarantees.Intersection(of=kind):
            what = {
                "k-anonymity": "two k-anonymous releases of one dataset",
                "confidence-bound": "two releases of one dataset with a confidence bound",
            }[kind]
            return f"{what} can be intersected; the ledger counts them"
        case of_guarantees.MayRevealTimes(columns=names):
            return (
                f"the claim over timestamps takes {listed(quoted(names))} as known: "
                "whoever can read times off such a column (a date, a day, a counter, "
                "or a pseudonym of any of these) learns the times; drop what may tell them"
            )
        case of_guarantees.SingleTimesOnly():
            return (
                "metric privacy protects single times, not cases: whoever knows when a case "
                "started, or several of its times, can often still tell which released case it is; "
                "'cloakwork risk' measures how often"
            )
        case _:
            return _caveat_of_rows(caveat)


def _caveat_of_window(caveat: caveats.HoldsWindow) -> str:
    """What it means that a release is made of the cases of one window."""
    said = f"only cases whose first event lies in {caveat.window} (UTC) are in the release"
    if caveat.tells_starts:
        said += ": whoever knows that a case is in it knows that it started then"
    if caveat.unit_attribute is None:
        return (
            f"{said}; costs of several windows do not add up for one case, but do for a person "
            "with cases in them"
        )
    return (
        f"{said}; one '{caveat.unit_attribute}' may have cases in several windows, "
        "so the costs of all of them add up"
    )


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
                f"t-closeness compares numbers in '{name}' as a share of their range: one "
                "outlier widens the range and makes the guarantee vacuous; scale: rank does not"
            )
        case of_guarantees.LargeT(attribute=name, t=t):
            return (
                f"t = {t:g} asks nothing of numbers in '{name}': by rank, "
                f"a class lies at most about {VACUOUS_T:g} from the whole; choose t well below"
            )
        case of_guarantees.CountsCases(attribute=name):
            return f"k counts cases, while one unit ('{name}') may own several: use count: units"
        case caveats.FrequenciesKept(attribute=name):
            return (
                f"pseudonyms of '{name}' keep their frequencies: "
                "a value known to be common can be recognised"
            )
        case _:
            assert_never(caveat)
