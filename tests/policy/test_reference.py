"""What the documentation of the language shows is true."""

import re

from cloakwork.plan.policies import parse_policy
from cloakwork.policy.lint import lint
from cloakwork.policy.load import list_policies
from schemas.generated import PAGE, with_reference

TEXT = PAGE.read_text("utf-8")


def block(language: str) -> str:
    """The first block of code in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)[0]


def test_the_reference_is_the_generated_one() -> None:
    assert with_reference(TEXT) == TEXT, "run tests/schemas/regenerate.py"


def test_the_policy_shown_gets_two_pieces_of_advice() -> None:
    """That it can be planned, ``repository/test_code_blocks.py`` sees."""
    first, second = lint(parse_policy(block("yaml")))
    assert "quasi-identifier" in first.message and "read times off 'case:age'" in second.message


def test_every_shipped_policy_is_mentioned() -> None:
    assert all(f"](../policies/{name}.yaml)" in TEXT for name in list_policies())
