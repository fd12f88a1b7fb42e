"""Names of attributes as words."""

import pytest

from cloakwork.base.text import words_of
from cloakwork.policy.attribute_words import NUMBERED, SENSITIVE, STAFF, names_one_of


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("org:resource", ("org", "resource")),
        ("landRegisterID", ("land", "register", "id")),
        ("REG_DATE", ("reg", "date")),
        ("dec_id_12", ("dec", "id")),
        ("Geschäftspartner-Nr.", ("geschäftspartner", "nr")),
        ("", ()),
        ("***", ()),
    ],
)
def test_names_are_divided(name: str, words: tuple[str, ...]) -> None:
    """At capitals, signs and numbers."""
    assert words_of(name) == words


def test_short_stems_are_whole_words() -> None:
    """``no`` is a number, ``note`` is none."""
    assert names_one_of(("no",), NUMBERED)
    assert not names_one_of(("note",), NUMBERED)
    assert names_one_of(("diagnosecode",), SENSITIVE)
    assert not names_one_of(("factor",), STAFF)
