"""A sentence changes only when somebody has read the change."""

import re

from cloakwork.guarantees import Guarantee
from cloakwork.guarantees.claims import Assumption, Caveat, ExposureReason, Reason
from golden.sentences import filled, members, text

BANNED = r"courses? of ev|carried by|premises|wanted|tells no time"


def test_they_are_plain_words():
    """No metaphors of our own, no leftovers of a rename."""
    assert not re.findall(BANNED, text())


def test_no_sentence_holds_a_record():
    """A record that reaches a text by accident shows by its brackets."""
    assert not re.findall(r"kind=|\w+\(\w+=|None|<\w+ object", text())


def test_every_kind_of_record_has_a_sentence():
    """A field that ``SAMPLES`` does not know would leave its record out."""
    for union in (Guarantee, Reason, Assumption, ExposureReason, Caveat):
        for model in members(union):
            assert any(True for _ in filled(model)), (
                f"{model.__name__}: add its fields to SAMPLES or OWN"
            )
