"""What each attribute of a log is, and why, from its name and what the log shows of it.

It proposes; the author of a policy decides. The rules stand in order of caution: the first one that
speaks of an attribute decides.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal

from cloakwork.authoring.figures import Figures
from cloakwork.policy.attribute_rules import Role
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
    """What one attribute seems to be."""
    words = words_of(figures.bare_name)
    for rule in RULES:
        proposal = rule(figures, words)
        if proposal is not None:
            return proposal
    return _remaining(figures)


Words = tuple[str, ...]
Rule = Callable[[Figures, Words], Proposal | None]


def _copies(figures: Figures, words: Words) -> Proposal | None:
    if figures.copies is not None:
        role: Role = "identifier" if figures.copies == "case:concept:name" else "insensitive"
        return Proposal(figures, "copy", role, f"repeats {figures.copies}")
    if figures.follows_activity:
        return Proposal(figures, "copy", "insensitive", "follows from the activity")
    if figures.follows_variant:
        reason = "stands for the whole activity sequence of a case"
        return Proposal(figures, "copy", "identifier", reason)
    return None


def _direct(figures: Figures, words: Words) -> Proposal | None:
    if names_one_of(words, DIRECT):
        return Proposal(
            figures, "identifier", "identifier", "is named like an identifier of persons"
        )
    return None


def _persons(figures: Figures, words: Words) -> Proposal | None:
    is_named = bool(words) and names_one_of(words[-1:], PERSON)
    is_numbered = names_one_of(words, PERSON) and names_one_of(words, NUMBERED | NAMED)
    if figures.distinct > 1 and (is_named or is_numbered):
        reason = "names or numbers the persons that the log is about"
        return Proposal(figures, "identifier", "identifier", reason)
    return None


def _times(figures: Figures, words: Words) -> Proposal | None:
    if figures.type != "time":
        return None
    reason = "holds times, which no protection of time:timestamp reaches"
    return Proposal(figures, "time", "quasi-identifier", reason)


def _staff(figures: Figures, words: Words) -> Proposal | None:
    if not names_one_of(words, STAFF) or figures.type in ("number", "truth value"):
        return None
    if names_one_of(words, WHO):  # the country of a resource is no person
        return None
    reason = "names members of staff, whom a guarantee about cases does not protect"
    return Proposal(figures, "staff", "identifier", reason)


def _people(figures: Figures, words: Words) -> Proposal | None:
    """Values that look like people, whatever the column is called."""
    if figures.like_people < LIKE_PEOPLE or names_one_of(words, WHO):
        return None
    if figures.of_case and names_one_of(words, PERSON):
        reason = "holds what looks like names of the persons that the log is about"
        return Proposal(figures, "identifier", "identifier", reason)
    if figures.alone >= MOSTLY_ALONE:
        reason = "holds what looks like names or logins of people, most in one case only"
        return Proposal(figures, "identifier", "identifier", reason)
    reason = (
        "holds what looks like names or logins of people who work on many cases, whom a guarantee "
        "about cases does not protect"
    )
    return Proposal(figures, "staff", "identifier", reason)


def _numbered(figures: Figures, words: Words) -> Proposal | None:
    if not names_one_of(words, NUMBERED) or figures.type in ("number", "truth value"):
        return None
    if figures.alone >= SOMETIMES_ALONE:
        reason = "numbers or refers to something that few cases share"
        return Proposal(figures, "identifier", "identifier", reason)
    return None


def _unique(figures: Figures, words: Words) -> Proposal | None:
    is_measured = figures.type in ("number", "truth value")
    if is_measured or names_one_of(words, SENSITIVE | WHO):
        return None
    if figures.alone < MOSTLY_ALONE or figures.cases < FEW_CASES:
        return None
    reason = "gives most cases a value that no other case has"
    return Proposal(figures, "identifier", "identifier", reason)


def _free_text(figures: Figures, words: Words) -> Proposal | None:
    if figures.type != "text":
        return None
    in_sentences = figures.in_words >= SENTENCES and figures.distinct > 1
    is_long = figures.longest >= LONG_TEXT and figures.distinct >= MANY_VALUES
    if in_sentences and (is_long or names_one_of(words, FREE_TEXT)):
        reason = "holds text that people write, and so perhaps names"
        return Proposal(figures, "free text", "identifier", reason)
    return None


def _constant(figures: Figures, words: Words) -> Proposal | None:
    if figures.distinct == 0:
        return Proposal(figures, "constant", "insensitive", "has no value")
    if figures.distinct == 1 and figures.filled == 1:
        return Proposal(figures, "constant", "insensitive", "has one value throughout")
    return None


def _sensitive(figures: Figures, words: Words) -> Proposal | None:
    if names_one_of(words, SENSITIVE) or holds_one_of(words, SENSITIVE_INSIDE):
        reason = "is named like something sensitive" + _rare(figures)
        return Proposal(figures, "sensitive", "sensitive", reason)
    return None


def _who(figures: Figures, words: Words) -> Proposal | None:
    if names_one_of(words, WHO):
        reason = "may be known to others of a person or an organisation" + _rare(figures)
        return Proposal(figures, "quasi-identifier", "quasi-identifier", reason)
    return None


def _technical(figures: Figures, words: Words) -> Proposal | None:
    if names_one_of(words, TECHNICAL) and figures.alone < SOMETIMES_ALONE:
        return Proposal(figures, "technical", "insensitive", "says how a system keeps its records")
    return None


def _remaining(figures: Figures) -> Proposal:
    if figures.cases < FEW_CASES:
        reason = "belongs to so few cases that having it singles a case out"
        return Proposal(figures, "quasi-identifier", "quasi-identifier", reason)
    if figures.alone >= SOMETIMES_ALONE:
        reason = "gives some cases a value that no other case has"
        return Proposal(figures, "quasi-identifier", "quasi-identifier", reason)
    if figures.type == "truth value" or figures.least < FEW_CASES:
        reason = "is not known to be harmless" + _rare(figures)
        return Proposal(figures, "sensitive", "sensitive", reason)
    return Proposal(figures, "other", "insensitive", COMMON_ONLY)


def _rare(figures: Figures) -> str:
    return "; some values are rare" if 0 < figures.least < FEW_CASES else ""


RULES: Final[tuple[Rule, ...]] = (
    _copies,
    _direct,
    _persons,
    _times,
    _staff,
    _people,
    _constant,
    _numbered,
    _unique,
    _free_text,
    _sensitive,
    _who,
    _technical,
)
