"""The JSON Schema of the policy language, generated from its models: for editors and for checks
elsewhere.

Run ``python -m cloakwork.policy.schema`` in a checkout to write it again. The schema knows the
language's shape; the engine alone judges meaning.
"""

import json
from typing import Any, Final

from cloakwork.policy.library import shipped
from cloakwork.policy.model import Policy

FILE: Final = "privacy-policy-v1.json"


_BOUNDS: Final = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
}
_BORROWED: Final = {
    (
        "Unit",
        "attribute",
    ): "Case attribute that tells persons apart; each case is its own unit unless given",
    ("Unit", "max_cases"): "Most cases that one person keeps; the others are left out at random",
    (
        "Unit",
        "on_conflict",
    ): "Where rows of a case name two units: refuse the log, or split every case by unit",
    ("Window", "start"): "First instant, with its time zone, such as 2014-01-01T00:00:00Z",
    ("Window", "end"): "Last instant, with its time zone",
}


def policy_schema() -> dict[str, Any]:
    """The schema as JSON values (draft 2020-12)."""
    generated = Policy.model_json_schema(by_alias=True, mode="validation")
    for (model, name), description in _BORROWED.items():
        generated["$defs"][model]["properties"][name]["description"] = description
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:cloakwork:privacy-policy:v1",
        "title": "Cloakwork privacy policy, version 1",
    }
    return head | {
        key: _without_noise(value) for key, value in generated.items() if key not in head
    }


def schema_text() -> str:
    """The schema as it stands in its file."""
    return json.dumps(policy_schema(), indent=2, ensure_ascii=False) + "\n"


def _without_noise(value: Any) -> Any:
    """Leave out what editors would only show as noise: titles that repeat the key, nulls, line
    breaks in prose.
    """
    if isinstance(value, list):
        return [_without_noise(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept: dict[str, Any] = {}
    for key, below in value.items():
        if not _is_noise(key, below):
            kept[_bound_name(key, below)] = _without_noise(below)
    if isinstance(kept.get("description"), str):
        kept["description"] = " ".join(kept["description"].replace("``", "").split())
    return _without_null(kept)


def _is_noise(key: str, value: Any) -> bool:
    if key == "title":
        return isinstance(value, str)
    return key == "default" and not isinstance(value, str | int | float)


def _bound_name(key: str, value: Any) -> str:
    """JSON Schema's name for a bound that pydantic left in its own words."""
    return _BOUNDS.get(key, key) if isinstance(value, int | float) else key


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A key that is optional is left out, not written as null."""
    choices = schema.get("anyOf")
    if not isinstance(choices, list) or {"type": "null"} not in choices:
        return schema
    rest = [choice for choice in choices if choice != {"type": "null"}]
    others = {key: below for key, below in schema.items() if key != "anyOf"}
    if len(rest) == 1:
        return {**rest[0], **others}
    return {**others, "anyOf": rest}


def write_schema() -> None:
    """Write the schema where the checkout keeps it."""
    (shipped("schemas") / FILE).write_text(schema_text(), encoding="utf-8")


if __name__ == "__main__":
    write_schema()
