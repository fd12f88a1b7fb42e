"""Which columns of a file were taken as case, activity and time: what the author of a policy has to
check first.
"""

from collections.abc import Mapping
from typing import Final

from cloakwork.base.text import shown
from cloakwork.log.formats.options import ROLES, InputOptions

_IN_WORDS: Final = {"case": "the case", "activity": "the activity", "timestamp": "the event time"}


def taken_columns(
    taken: Mapping[str, str], options: InputOptions, *, has_times: bool = True
) -> dict[str, str]:
    """By the words case, activity and timestamp what each is read from: a column of a table, else
    the standard attribute, or the type of objects that become cases.
    """
    found = {role: taken.get(full, full) for role, full in ROLES.items()}
    if options.object_type is not None:
        found["case"] = options.object_type
    if not has_times:
        del found["timestamp"]
    return found


def taken_in_words(
    taken: Mapping[str, str], options: InputOptions, *, has_times: bool = True
) -> str:
    """The same as one line.

    >>> taken_in_words({"case:concept:name": "Fall"}, InputOptions())
    "Taken as the case: 'Fall'; the activity: 'concept:name'; the event time: 'time:timestamp'"
    """
    found = taken_columns(taken, options, has_times=has_times)
    takings = [f"{_IN_WORDS[role]}: '{shown(name)}'" for role, name in found.items()]
    if options.object_type is not None:
        takings[0] = f"the case: each object of type '{shown(found['case'])}'"
    return f"Taken as {'; '.join(takings)}"


def is_read_from(taken: Mapping[str, str], full: str) -> str:
    """The end of a comment that names the column of a standard attribute; empty for none."""
    if full not in taken or taken[full] == full:
        return ""
    return f", from the column '{shown(taken[full])}'"
