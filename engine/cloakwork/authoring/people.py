"""Values that look like people: their names, logins and mail addresses."""

import re
import unicodedata
from typing import Final

import polars as pl

from cloakwork.authoring.given_names import GIVEN_NAMES
from cloakwork.policy.attribute_words import STAFF, names_one_of, stems, words_of

SAMPLE: Final = 2_000
"""Distinct values that are looked at."""

MOST_WORDS: Final = 4
"""Words of a name; what has more is a sentence."""

_TITLES: Final = stems("""
    dr prof mr mrs ms herr frau hr fr mw mevr dhr sr sra mme monsieur madame dott sig
""")
_ACCOUNTS: Final = stems("admin sysadmin administrator emp usr sachb mdw")
_WITH_INITIAL: Final = re.compile(
    r"([A-Z]\.\s?)+[A-Z][\w'-]+|[A-Z][\w'-]+,\s([A-Z]\.?\s?)+|[a-z][._][a-z]{3,}\d{0,3}"
)
_LOGIN: Final = re.compile(r"[\w.-]+\\[\w.-]+|[^@\s]+@[^@\s]+\.\w+")
_BREAKS: Final = re.compile(r"[\s,._]+")


def share_like_people(known: pl.Series) -> float:
    """The share of distinct texts that look like people; between 0 and 1."""
    sample = known.head(SAMPLE).to_list()
    return sum(map(looks_like_a_person, sample)) / len(sample) if sample else 0.0


def looks_like_a_person(text: str) -> bool:
    """Whether a value seems to name a person, or somebody's account.

    >>> [looks_like_a_person(text) for text in ("Anna de Vries", "j.smith", "Resource21", "Ward A")]
    [True, True, True, False]
    """
    plain = _plain(text.strip())
    words = [word for word in _BREAKS.split(plain) if word]
    if not 1 <= len(words) <= MOST_WORDS:
        return False
    if _LOGIN.fullmatch(plain) or _WITH_INITIAL.fullmatch(plain):
        return True
    lowered = [word.lower() for word in words]
    if len(words) > 1 and lowered[0] in _TITLES:
        return True
    letters = {part for word in lowered for part in word.split("-")}
    is_worded = all(word.replace("-", "").replace("'", "").isalpha() for word in words)
    return (is_worded and not letters.isdisjoint(GIVEN_NAMES)) or _is_numbered_account(plain)


def _is_numbered_account(text: str) -> bool:
    """``Resource21``, ``user_7``: a member of staff under a number."""
    words = words_of(text)
    is_account = names_one_of(words, STAFF) or not _ACCOUNTS.isdisjoint(words)
    return len(words) == 1 and is_account and text[-1].isdigit()


def _plain(text: str) -> str:
    """The text without accents."""
    letters = unicodedata.normalize("NFKD", text)
    return "".join(letter for letter in letters if not unicodedata.combining(letter))
