"""Places of a policy that its author has still to fill in."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cloakwork.policy.document import RefusedValue, Steps
from cloakwork.policy.validation_messages import ShapeError

STILL_OPEN: Final = "is still to be filled in"

HEADER_QUESTIONS: Final = {
    "dataset": "which dataset is it about? every release of the same data names the same",
    "owner": "who answers for this policy?",
    "purpose": "what is the release for?",
}
"""What the header of a policy asks, where nobody said it."""

NO_PURPOSE: Final = "not stated yet"
"""What a suggested policy says of its purpose where nobody said it."""

PURPOSE_ASKED: Final = (
    "metadata.purpose is not stated; Article 5(1)(b) of the GDPR asks for a specified purpose"
)

_UNSTATED: Final = frozenset({NO_PURPOSE, "not stated", "tbd", "todo", "none", "n/a", "unknown"})

_PLACEHOLDER: Final = re.compile(r"\s*<([^<>]*)>\s*")


def placeholder(question: str) -> str:
    """What stands for an answer to ``question``, which holds no ``<`` and no ``>``.

    >>> placeholder("who answers for this policy?")
    '<who answers for this policy?>'
    """
    return f"<{question}>"


def is_unstated(purpose: str) -> bool:
    """Whether the text of a purpose says none.

    >>> is_unstated("Not stated yet"), is_unstated("A study of waiting times")
    (True, False)
    """
    return purpose.strip().rstrip(".").lower() in _UNSTATED


def placeholders_are_filled(content: Mapping[str, Any]) -> Iterator[ShapeError]:
    """A text in angle brackets is a question; texts in lists and in hierarchies are values,
    whatever they are.
    """
    yield from _questions(content, ())


def _questions(content: Any, steps: Steps) -> Iterator[ShapeError]:
    if isinstance(content, Mapping):
        for key, value in content.items():
            if key == "hierarchy":
                continue
            yield from _questions(value, (*steps, key))
    elif isinstance(content, RefusedValue):
        return
    elif isinstance(content, list):
        for index, member in enumerate(content):
            if isinstance(member, Mapping):
                yield from _questions(member, (*steps, index))
    elif isinstance(content, str) and (found := _PLACEHOLDER.fullmatch(content)):
        yield ShapeError(steps, f"{STILL_OPEN}: {found[1].strip()}")
