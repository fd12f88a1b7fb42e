"""Writes anew what is generated from the models: ``python tests/schemas/regenerate.py``, with
engine/ on PYTHONPATH.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from cloakwork.policy.load import shipped
from schemas.generated import PAGE, schema_texts, with_reference


def write() -> None:
    """Write the schemas and the tables of the page."""
    for name, text in schema_texts().items():
        (shipped("schemas") / name).write_text(text, "utf-8")
    PAGE.write_text(with_reference(PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    write()
