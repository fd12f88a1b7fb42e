"""Texts as messages show them: names from outside in one line, names in a list, sizes in units,
versions of packages.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pydantic import ValidationError

SIZES: Final = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
"""Bytes in a unit."""


_LETTERS: Final = re.compile(r"[^\W\d_]+")


def shown(name: str) -> str:
    """A name from a file, fit for one line of a message: blanks collapsed, control characters out,
    cut at 60.
    """
    # What comes from a file must not break out of a line.
    collapsed = " ".join(name.split())
    plain = "".join(char for char in collapsed if char.isprintable())
    return plain if len(plain) <= 60 else plain[:57] + "..."


def printable(text: str) -> str:
    """Text of a file that somebody sent, without what a terminal would obey: such letters, and
    those that nobody sees, are shown by their code.

    >>> print(printable("a\u202eb\x1b"))
    a\\u202eb\\x1b
    """
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def tried_on(sample: str) -> str:
    """What figures of a release of a sample alone (``EventLog.sample``) say of a release of all."""
    return (
        f"measured on a random sample of {sample} by itself: in a release of all, noise on counts "
        "weighs less, and each case has more others to hide among"
    )


def folded(name: str) -> str:
    """A name as it is compared: without case, width, or space around it (NFKC, case-folded).

    >>> folded(" Appr") == folded("appr")
    True
    """
    return unicodedata.normalize("NFKC", name).casefold().strip()


def listed(names: Iterable[str], conjunction: str = "and") -> str:
    """Names as people list them, in their order; commas inside a name stay where they are.

    >>> listed(["a", "b", "c"]), listed(["a", "b"], "or"), listed([])
    ('a, b and c', 'a or b', '')
    """
    *others, last = [*names] or [""]
    return f"{', '.join(others)} {conjunction} {last}" if others else last


def counted(count: int, noun: str) -> str:
    """A number with its noun: ``1 case``, ``1,200 cases``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def quoted(names: Iterable[str]) -> tuple[str, ...]:
    """Names in quotation marks."""
    return tuple(f"'{name}'" for name in names)


def words_of(name: str) -> tuple[str, ...]:
    """The words of a name, in lower case, without numbers and signs.

    >>> words_of("case:landRegisterID")
    ('case', 'land', 'register', 'id')
    >>> words_of("DeclarationNumber_3")
    ('declaration', 'number')
    """
    # A capital after a small letter begins a word, as in camelCase.
    before = " " + name
    divided = "".join(
        f" {letter}" if last.islower() and letter.isupper() else letter
        for last, letter in zip(before, name, strict=False)
    )
    return tuple(word.lower() for word in _LETTERS.findall(divided))


def first_fault(error: "ValidationError") -> tuple[str, str]:
    """Where the first fault that a model found lies, as a dotted path, and what it is."""
    fault = error.errors()[0]
    return ".".join(map(str, fault["loc"])), fault["msg"]


def first_names(names: Sequence[str]) -> str:
    """The first twelve of some names from a file."""
    return ", ".join(shown(name) for name in names[:12])


def share_in_words(share: float) -> str:
    """A share as people read it; a small one does not read as none.

    >>> share_in_words(0.254), share_in_words(0.0004), share_in_words(0)
    ('25%', 'less than 1%', '0%')
    """
    return "less than 1%" if 0 < share < 0.005 else f"{share:.0%}"


def size_text(size: int) -> str:
    """A size as people read it, in the largest unit that divides it.

    >>> size_text(16 << 20)
    '16 MiB'
    """
    for unit in ("GiB", "MiB", "KiB"):
        if size % SIZES[unit] == 0:
            return f"{size // SIZES[unit]} {unit}"
    return f"{size:,} bytes"


@cache
def version_of(package: str) -> str:
    """The version of an installed package; raises PackageNotFoundError where it is not installed.

    Asked once a process: the metadata of a package is parsed anew by each call of ``version``.
    """
    return version(package)
