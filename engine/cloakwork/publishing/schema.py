"""The JSON Schema of the privacy statement, generated from its models: for checks elsewhere.

Run ``python -m cloakwork.publishing.schema`` in a checkout to write it again. It describes the
statement's predicate; the in-toto layer and the envelope around it have public schemas of their
own.
"""

import json
from typing import Any, Final

from cloakwork.policy.load import shipped
from cloakwork.publishing.statement import PREDICATE_TYPE, PrivacyStatement

FILE: Final = "privacy-statement-v2.json"
_BOUNDS: Final = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
}


def statement_schema() -> dict[str, Any]:
    """The schema as JSON values (draft 2020-12)."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": PREDICATE_TYPE,
        "title": "Cloakwork privacy statement, version 2",
    }
    generated = PrivacyStatement.model_json_schema(by_alias=True, mode="serialization")
    return head | {key: with_bounds(value) for key, value in generated.items() if key not in head}


def with_bounds(schema: Any) -> Any:
    """Bounds in JSON Schema's words, where pydantic left its own."""
    if isinstance(schema, list):
        return [with_bounds(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        _BOUNDS.get(key, key) if isinstance(value, int | float) else key: with_bounds(value)
        for key, value in schema.items()
    }


def schema_text() -> str:
    """The schema as it stands in its file."""
    return json.dumps(statement_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    (shipped("schemas") / FILE).write_text(schema_text(), encoding="utf-8")
