"""Text in a YAML file."""

import yaml
from hypothesis import given
from hypothesis import strategies as st

from cloakwork.policy.document import in_quotes


@given(st.text())
def test_any_text_is_read_as_itself(text: str) -> None:
    """On one line, beside a comment."""
    written = in_quotes(text)
    assert "\n" not in written
    assert yaml.safe_load(f"key: {written}   # a comment") == {"key": text}
