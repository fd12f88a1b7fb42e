"""Phrases that the sentences of several kinds share."""

import math
from typing import Final

from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.base.text import listed

MOST_NAMED: Final = 6
"""Of more attributes their number is said."""


def listed_briefly(columns: tuple[str, ...]) -> str:
    """Columns as people list them; of many attributes, their number.

    >>> listed_briefly(("control-flow", "timestamps", *map(str, range(9))))
    'control-flow, timestamps and 9 attributes'
    """
    columns = tuple(dict.fromkeys(columns))
    attributes = [name for name in columns if name not in (CONTROL_FLOW, TIMESTAMPS, METADATA)]
    if len(attributes) <= MOST_NAMED:
        return listed(columns)
    others = tuple(name for name in columns if name not in attributes)
    return listed((*others, f"{len(attributes):,} attributes"))


def indefinite_article(phrase: str) -> str:
    """``a`` or ``an``, as the first letter of ``phrase`` asks."""
    return "an" if phrase[0] in "aeiou" else "a"


def rounded_up(figure: float) -> float:
    """A figure that something is at most, rounded up to three digits."""
    step = 10.0 ** (math.floor(math.log10(figure)) - 2)
    return math.ceil(round(figure / step, 9)) * step


LARGEST_WRITTEN_OUT = 20
"""From this epsilon on e^epsilon tells more than its digits would."""


def factor_text(epsilon: float) -> str:
    """The factor by which a probability may change."""
    if epsilon < LARGEST_WRITTEN_OUT:
        return f"a factor {rounded_up(math.exp(epsilon)):.4g} (epsilon = {epsilon:g})"
    return f"a factor e^{epsilon:g}"


def class_text(classes: str) -> str:
    """Which released cases form a class, in plain words."""
    if classes == "variants":
        return "have the same complete activity sequence"
    return "begin with the same events"


def values_text(attribute: str, classes: str) -> tuple[str, str]:
    """The values that a class holds, in plain words, and all values that they are compared with."""
    if attribute.startswith("case:"):
        return f"the values of '{attribute}'", "those of all released cases"
    what = "times since the event before" if attribute == TIMESTAMPS else f"values of '{attribute}'"
    where = "at the last of these events" if classes == "prefixes" else "at each activity"
    return f"the {what} {where}", "those at all released events of that activity"
