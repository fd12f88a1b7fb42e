"""The published JSON Schemas, by which a document is checked before anything else reads it."""

import json
from functools import lru_cache
from typing import Any, Final

from pydantic import JsonValue

from cloakwork.plan.model import Plan
from cloakwork.policy.load import shipped
from cloakwork.publishing.statement import schema_of, statement_schema

PLAN_SCHEMA: Final = "plan-v2.json"
STATEMENT_SCHEMA: Final = "privacy-statement-v2.json"

Schema = Any
"""A schema that is ready to be asked."""

_LONGEST_PLACE: Final = 200


@lru_cache
def published_schema(file: str) -> Schema:
    """The schema in the file of that name in ``schemas/``."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    any_kind = Draft202012Validator.VALIDATORS["oneOf"]

    # A record names its own kind: only that one is tried, and its fault told.
    def one_kind(asked: Any, kinds: Any, value: Any, schema: Any) -> Any:
        tag = schema.get("discriminator")
        kind = value.get(tag["propertyName"]) if tag and isinstance(value, dict) else None
        if isinstance(kind, str) and kind in tag["mapping"]:
            return asked.descend(value, {"$ref": tag["mapping"][kind]})
        return any_kind(asked, kinds, value, schema)

    content = json.loads((shipped("schemas") / file).read_bytes())
    return extend(Draft202012Validator, {"oneOf": one_kind})(content)


def schema_fault(value: JsonValue, schema: Schema) -> str | None:
    """Where the value does not fit the schema, and by which of its rules; None where it fits."""
    try:
        fault = next(schema.iter_errors(value), None)
    except RecursionError:
        return "nested too deeply"
    return fault and f"{fault.json_path[:_LONGEST_PLACE]} breaks its rule '{fault.validator}'"


def schema_texts() -> dict[str, str]:
    """The schemas of plans and statements as they stand in their files, by name; ``python -m
    cloakwork.publishing.schemas`` in a checkout writes them again.
    """
    of_plans = schema_of(Plan, "urn:cloakwork:plan:v2", "Cloakwork plan, version 2")
    schemas = {PLAN_SCHEMA: of_plans, STATEMENT_SCHEMA: statement_schema()}
    return {
        name: json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        for name, schema in schemas.items()
    }


if __name__ == "__main__":
    for name, text in schema_texts().items():
        (shipped("schemas") / name).write_text(text, encoding="utf-8")
