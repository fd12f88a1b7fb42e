"""What a claim rests on, in words."""

from typing import Final, assert_never

from cloakwork.base.quantities import format_duration
from cloakwork.base.text import listed, quoted, size_text
from cloakwork.guarantees import background_in_words
from cloakwork.guarantees.claims import Assumption, assumptions
from cloakwork.plan.sentences.phrases import event_count, values_held_in

MOST_NAMED: Final = 6
"""Of more attributes their number is said."""


def assumption_in_words(assumption: Assumption) -> str:
    """What a claim rests on, as one clause."""
    match assumption:
        case assumptions.ProtectsOneTime():
            return "what is protected is one time of one event, not a whole case and not a person"
        case assumptions.ProtectsEachCase():
            return (
                "the protected unit is one case; "
                "a person with several cases is protected case by case"
            )
        case assumptions.ProtectsEachUnit(attribute=name, max_cases=most, cases_without=without):
            counts = {"own-unit": "is a unit of its own", "no-unit": "counts as no unit"}[without]
            return (
                f"the protected unit is all cases that share a value of '{name}' "
                f"(at most {most:,} of them kept); a case without '{name}' {counts}; "
                f"that cases have '{name}' at all is taken as known"
            )
        case assumptions.UnitsAtMost(units=units, source=source):
            by = {"declared": "declared", "profile": "by the DP profile, with a margin"}[source]
            return f"the log holds at most {units:,} units ({by})"
        case assumptions.WellFormed():
            return (
                "the file is a well-formed log, every value of its declared type; "
                "a file that is not is refused, whoever is in it"
            )
        case assumptions.WithinLimits(unpacked_size=size, unpack_ratio=ratio, attributes=most):
            return (
                f"the file is within the reader's limits (at most {size_text(size)} unpacked, "
                f"{ratio} times its packed size, {most:,} attributes; whoever made the release "
                "may have raised them); a file that is not is refused, whoever is in it"
            )
        case assumptions.KnownActivities(count=count, source=source):
            known = {"declared": "are public", "profile": "were selected by the DP profile"}[source]
            return f"{count} activities {known}; events of any other are dropped"
        case assumptions.CasesOfWindow(window=window, recorded=recorded):
            taken = f"cases whose first event lies in {window} (UTC) are taken"
            if not recorded:
                return f"{taken}; those without a time are left out"
            return (
                f"{taken}, each known by its id, which stays the same; those without a time, "
                "without an id or released with another window are left out"
            )
        case assumptions.CasesTruncated(events=events):
            return f"cases are cut after {event_count(events)}"
        case assumptions.IndependentPresence():
            return (
                "a guess is bounded where one unit's presence "
                "does not depend on everybody else's data"
            )
        case _:
            return _assumption_of_times_or_knowledge(assumption)


def _assumption_of_times_or_knowledge(
    assumption: assumptions.TimesRounded
    | assumptions.StartsWithin
    | assumptions.GapsAtMost
    | assumptions.KnowsAtMost
    | assumptions.NobodyKnows
    | assumptions.KnowsActivitySequence
    | assumptions.StartsAtEpoch
    | assumptions.ValuesDeclared
    | assumptions.DomainsDeclared,
) -> str:
    """What a claim about times or about known events rests on, as one clause."""
    match assumption:
        case assumptions.TimesRounded(grid=grid, epoch=epoch):
            return f"times are rounded to {format_duration(grid)} and counted from {epoch:%Y-%m-%d}"
        case assumptions.StartsWithin(window=window):
            return (
                f"cases start between {window.start:%Y-%m-%d} "
                f"and {window.end:%Y-%m-%d} (others are moved)"
            )
        case assumptions.GapsAtMost(longest=longest):
            return f"gaps are at most {format_duration(longest)} (longer ones are cut)"
        case assumptions.KnowsAtMost(events=events, background=background, precision=precision):
            known = background_in_words(background, precision)
            return (
                f"nobody knows more than {event_count(events)} of a case, "
                f"and of these no more than {known}"
            )
        case assumptions.NobodyKnows(columns=columns):
            return (
                "nobody knows beforehand, of any case, "
                f"{listed(values_held_in(column) for column in columns)}"
            )
        case assumptions.KnowsActivitySequence():
            return (
                "whoever reads the release knows the activity sequence of a case, "
                "and none of the values"
            )
        case assumptions.StartsAtEpoch(epoch=epoch):
            return (
                f"every case starts at {epoch:%Y-%m-%d}, so when cases took place is not released"
            )
        case assumptions.ValuesDeclared(attribute=name):
            return f"the values that '{name}' may have are declared, not taken from the log"
        case assumptions.DomainsDeclared(attributes=names):
            which = listed(quoted(names))
            if len(names) > MOST_NAMED:
                which = f"{len(names):,} attributes"
            return (
                f"the values that {which} may have are declared, not taken from the log; any other "
                "counts as missing, a number beyond its range as the range's end"
            )
        case _:
            assert_never(assumption)
