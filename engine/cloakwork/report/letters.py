"""Characters of texts from outside that a page may show."""

import unicodedata
from typing import Final

_JOINERS: Final = frozenset("\u200c\u200d")
"""Without them words of some languages are spelt wrong."""
_LAST_LETTER: Final = 0x530
_SIGNS: Final = frozenset("–—‘’“”…→≤≥·•")


def without_controls(text: str) -> str:
    """The text; characters that are not seen, or turn the line round, by their number.

    >>> without_controls("a\\u202eb")
    'a[U+202E]b'
    """
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return "".join(letter if _is_shown(letter) else _by_number(letter) for letter in text)


def with_common_letters(text: str) -> str:
    """The text; characters beyond Latin, Greek and Cyrillic by their number, some signs apart."""
    return "".join(
        letter if ord(letter) < _LAST_LETTER or letter in _SIGNS else _by_number(letter)
        for letter in without_controls(text)
    )


def _is_shown(letter: str) -> bool:
    return letter == "\n" or letter in _JOINERS or unicodedata.category(letter)[0] != "C"


def _by_number(letter: str) -> str:
    return f"[U+{ord(letter):04X}]"
