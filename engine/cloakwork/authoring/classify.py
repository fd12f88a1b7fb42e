"""What each attribute of a log is, and why, from its name and what the log shows of it.

It proposes; the author of a policy decides.
"""

from dataclasses import dataclass, replace
from typing import Final, Literal

from cloakwork.authoring.figures import Figures
from cloakwork.policy.attribute_words import (
    DIRECT,
    FREE_TEXT,
    NAMED,
    NUMBERED,
    PERSON,
    SENSITIVE,
    SENSITIVE_INSIDE,
    STAFF,
    TECHNICAL,
    WHO,
    holds_one_of,
    names_one_of,
    words_of,
)
from cloakwork.policy.model import Role

Nature = Literal[
    "copy",
    "identifier",
    "staff",
    "time",
    "free text",
    "constant",
    "technical",
    "quasi-identifier",
    "sensitive",
    "other",
]

_NATURE_OF: Final[dict[Role, Nature]] = {
    "identifier": "identifier",
    "quasi-identifier": "quasi-identifier",
    "sensitive": "sensitive",
    "insensitive": "other",
}

MOSTLY_ALONE: Final = 0.5
"""Share of the cases with a value that no other case has, from which on values identify cases."""

SOMETIMES_ALONE: Final = 0.05
"""The same share, from which on a numbered thing identifies cases, and values single cases out."""

FEW_CASES: Final = 10
"""Cases; a value that fewer have is rare."""

SENTENCES: Final = 0.3
"""Share of the values that are sentences, from which on a text of many values is free."""

LIKE_PEOPLE: Final = 0.3
"""Share of the values that look like people, from which on a column holds people."""

COMMON_ONLY: Final = "has common values only; nothing else is known of it"

MANY_VALUES: Final = 30
LONG_TEXT: Final = 100  # characters


@dataclass(frozen=True, slots=True)
class Proposal:
    """What an attribute seems to be.

    ``reason``: in words, without a figure or a value of the log.
    """

    figures: Figures
    nature: Nature
    role: Role
    reason: str

    @property
    def name(self) -> str:
        """The attribute."""
        return self.figures.name

    def with_role(self, role: Role) -> "Proposal":
        """What the author of a policy says that it is."""
        return replace(self, nature=_NATURE_OF[role], role=role, reason="was said to be so")

    @property
    def may_be_released(self) -> bool:
        """Whether an analyst may want it, under a guarantee that covers it."""
        return self.nature in ("technical", "quasi-identifier", "sensitive", "other")


def classify(figures: Figures) -> Proposal:
    """What one attribute seems to be. The rules stand in order of caution: the first one that
    speaks of the attribute decides.
    """
    words = words_of(figures.bare_name)
    is_measured = figures.type in ("number", "truth value")
    rare = "; some values are rare" if 0 < figures.least < FEW_CASES else ""

    def named(kinds: frozenset[str]) -> bool:
        return names_one_of(words, kinds)

    def proposal(nature: Nature, role: Role, reason: str) -> Proposal:
        return Proposal(figures, nature, role, reason)

    # What the log says elsewhere, or what tells the whole case.
    if figures.copies is not None:
        of_case: Role = "identifier" if figures.copies == "case:concept:name" else "insensitive"
        return proposal("copy", of_case, f"repeats {figures.copies}")
    if figures.follows_activity:
        return proposal("copy", "insensitive", "follows from the activity")
    if figures.follows_variant:
        return proposal("copy", "identifier", "stands for the whole activity sequence of a case")

    # Persons by the attribute's name.
    if named(DIRECT):
        reason = "is named like an identifier of persons"
        return proposal("identifier", "identifier", reason)
    # The last word says what it is: a patient, but not a patient's age.
    is_person = bool(words) and names_one_of(words[-1:], PERSON)
    is_numbered_person = named(PERSON) and named(NUMBERED | NAMED)
    if figures.distinct > 1 and (is_person or is_numbered_person):
        reason = "names or numbers the persons that the log is about"
        return proposal("identifier", "identifier", reason)
    if figures.type == "time":
        reason = "holds times, which no protection of time:timestamp reaches"
        return proposal("time", "quasi-identifier", reason)
    # The country of a resource is no person.
    if named(STAFF) and not is_measured and not named(WHO):
        reason = "names members of staff, whom a guarantee about cases does not protect"
        return proposal("staff", "identifier", reason)

    # Persons by the values, whatever the attribute is called.
    if figures.like_people >= LIKE_PEOPLE and not named(WHO):
        if figures.of_case and named(PERSON):
            reason = "holds what looks like names of the persons that the log is about"
            return proposal("identifier", "identifier", reason)
        if figures.alone >= MOSTLY_ALONE:
            reason = "holds what looks like names or logins of people, most in one case only"
            return proposal("identifier", "identifier", reason)
        reason = (
            "holds what looks like names or logins of people who work on many cases, whom a "
            "guarantee about cases does not protect"
        )
        return proposal("staff", "identifier", reason)

    # Values that tell nothing.
    if figures.distinct == 0:
        return proposal("constant", "insensitive", "has no value")
    if figures.distinct == 1 and figures.filled == 1:
        return proposal("constant", "insensitive", "has one value throughout")

    # Values that single cases out.
    if named(NUMBERED) and not is_measured and figures.alone >= SOMETIMES_ALONE:
        reason = "numbers or refers to something that few cases share"
        return proposal("identifier", "identifier", reason)
    # Among few cases most values are alone by chance.
    is_unique = figures.alone >= MOSTLY_ALONE and figures.cases >= FEW_CASES
    if is_unique and not is_measured and not named(SENSITIVE | WHO):
        reason = "gives most cases a value that no other case has"
        return proposal("identifier", "identifier", reason)
    if figures.type == "text" and figures.in_words >= SENTENCES and figures.distinct > 1:
        is_long = figures.longest >= LONG_TEXT and figures.distinct >= MANY_VALUES
        if is_long or named(FREE_TEXT):
            reason = "holds text that people write, and so perhaps names"
            return proposal("free text", "identifier", reason)

    # What others know of somebody, or must not learn, by the attribute's name.
    if named(SENSITIVE) or holds_one_of(words, SENSITIVE_INSIDE):
        return proposal("sensitive", "sensitive", "is named like something sensitive" + rare)
    if named(WHO):
        reason = "may be known to others of a person or an organisation" + rare
        return proposal("quasi-identifier", "quasi-identifier", reason)
    if named(TECHNICAL) and figures.alone < SOMETIMES_ALONE:
        return proposal("technical", "insensitive", "says how a system keeps its records")

    # Nothing is known of it: what its values show.
    if figures.cases < FEW_CASES:
        reason = "belongs to so few cases that having it singles a case out"
        return proposal("quasi-identifier", "quasi-identifier", reason)
    if figures.alone >= SOMETIMES_ALONE:
        reason = "gives some cases a value that no other case has"
        return proposal("quasi-identifier", "quasi-identifier", reason)
    if figures.type == "truth value" or figures.least < FEW_CASES:
        return proposal("sensitive", "sensitive", "is not known to be harmless" + rare)
    return proposal("other", "insensitive", COMMON_ONLY)
