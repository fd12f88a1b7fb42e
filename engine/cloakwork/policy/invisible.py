"""Characters of a policy that nobody sees: two texts that look alike are then read as two."""

import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cloakwork.policy.advice import Advice
from cloakwork.policy.document import Steps
from cloakwork.policy.model import Policy

_LAID_OUT: Final = "\n\t"


def invisible_characters(policy: Policy) -> Iterator[Advice]:
    """Each key and value that holds control characters, or such of Unicode's category Cf."""
    content = policy.model_dump(mode="json", by_alias=True, exclude_unset=True)
    for steps, text in _texts(content, ()):
        hidden = dict.fromkeys(letter for letter in text if _is_invisible(letter))
        if hidden:
            codes = ", ".join(ascii(letter)[1:-1] for letter in hidden)
            message = f"holds {codes}, which nobody sees; remove it unless the log has it there"
            yield Advice(steps, message)


def _is_invisible(letter: str) -> bool:
    kinds = ("Cc", "Cf", "Zl", "Zp")
    return unicodedata.category(letter) in kinds and letter not in _LAID_OUT


def _texts(content: Any, steps: Steps) -> Iterator[tuple[Steps, str]]:
    if isinstance(content, str):
        yield steps, content
    elif isinstance(content, Mapping):
        for key, value in content.items():
            yield (*steps, key), str(key)
            yield from _texts(value, (*steps, key))
    elif isinstance(content, list):
        for index, member in enumerate(content):
            yield from _texts(member, (*steps, index))
