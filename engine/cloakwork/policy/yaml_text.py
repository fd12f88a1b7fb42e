"""Text as it stands in a YAML file."""

from typing import Final

import yaml

LONGEST_LINE: Final = 1_000_000
"""Characters; longer than any text of a policy, so that none is folded."""


def in_quotes(text: str) -> str:
    """``text`` so that YAML reads it as itself, whatever characters it holds, on one line.

    >>> print(in_quotes('a "name": #1'))
    "a \\"name\\": #1"
    >>> print(in_quotes("Gebühr €"), in_quotes("turned\\u202e"))
    "Gebühr €" "turned\\u202E"
    """
    # What is not printable (control characters, marks that turn the direction) stays escaped.
    is_plain = text.isprintable()
    quoted = yaml.safe_dump(text, default_style='"', width=LONGEST_LINE, allow_unicode=is_plain)
    return str(quoted).strip()
