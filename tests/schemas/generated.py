"""The files that are generated from the models: the JSON Schemas in ``schemas/``, and every key of
the policy language in tables, for its page.

The engine reads what is shipped, never the models: ``python tests/schemas/regenerate.py`` writes it
anew, and tests compare. A schema knows a document's shape; the engine alone judges meaning.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import TypeAdapter

from cloakwork.guarantees import KINDS
from cloakwork.plan.model import Plan
from cloakwork.policy.load import SCHEMA_FILE, shipped
from cloakwork.policy.model import Policy
from cloakwork.publishing.statement import (
    PLAN_SCHEMA,
    PREDICATE_TYPE,
    STATEMENT_SCHEMA,
    PrivacyStatement,
)
from cloakwork.report.model import REPORT_SCHEMA, REPORT_TYPE, InternalReport, PublicReport

_BOUNDS: Final = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
}
"""What pydantic calls bounds, in JSON Schema's words."""


def schema_texts() -> dict[str, str]:
    """Every schema as it stands in its file, by the file's name."""
    either = TypeAdapter[Any](PublicReport | InternalReport)
    schemas = {
        SCHEMA_FILE: policy_schema(),
        PLAN_SCHEMA: _schema_of(Plan, "urn:cloakwork:plan:v2", "Cloakwork plan, version 2"),
        STATEMENT_SCHEMA: _schema_of(
            PrivacyStatement, PREDICATE_TYPE, "Cloakwork privacy statement, version 2"
        ),
        REPORT_SCHEMA: _schema_of(
            either, REPORT_TYPE, "Cloakwork report, version 1: public or internal"
        ),
    }
    return {
        name: json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        for name, schema in schemas.items()
    }


def _schema_of(model: Any, identity: str, title: str) -> dict[str, Any]:
    """The schema of a model as it is written down (draft 2020-12)."""
    kind = model if isinstance(model, TypeAdapter) else TypeAdapter(model)
    generated = kind.json_schema(by_alias=True, mode="serialization")
    return _with_head(generated, identity, title, _with_bounds)


def _with_head(
    generated: dict[str, Any], identity: str, title: str, clean: Callable[[Any], Any]
) -> dict[str, Any]:
    """The head comes first in the file, and replaces what pydantic generates in its place."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": identity,
        "title": title,
    }
    return head | {key: clean(value) for key, value in generated.items() if key not in head}


def _with_bounds(schema: Any) -> Any:
    """Bounds in JSON Schema's words, where pydantic left its own."""
    if isinstance(schema, list):
        return [_with_bounds(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        _BOUNDS.get(key, key) if isinstance(value, int | float) else key: _with_bounds(value)
        for key, value in schema.items()
    }


# Fields of models that are no part of the language alone, and say nothing to its authors.
_BORROWED: Final = {
    (
        "Unit",
        "attribute",
    ): (
        "Case attribute that tells persons apart, or with level: event the attribute of events "
        "that names employees; each case is its own unit unless given"
    ),
    ("Unit", "max_cases"): "Most cases that one person keeps; the others are left out at random",
    (
        "Unit",
        "on_conflict",
    ): "Where rows of a case name two units: refuse the log, or split every case by unit",
    ("Unit", "level"): (
        "case: a person owns whole cases; event: an employee performs events, in whatever cases"
    ),
    ("Window", "start"): "First instant, with its time zone, such as 2014-01-01T00:00:00Z",
    ("Window", "end"): "Last instant, with its time zone",
}


def policy_schema() -> dict[str, Any]:
    """The schema of the policy language as JSON values (draft 2020-12)."""
    generated = Policy.model_json_schema(by_alias=True, mode="validation")
    for (model, name), description in _BORROWED.items():
        generated["$defs"][model]["properties"][name]["description"] = description
    # A policy's file may name another one for these; its text is put in before it is checked.
    attribute = generated["$defs"]["AttributeRule"]["properties"]
    for name in ("domain", "range"):
        attribute[name]["anyOf"].append({"type": "object", "required": ["file"]})
    return _with_head(
        generated,
        "urn:cloakwork:privacy-policy:v1",
        "Cloakwork privacy policy, version 1",
        _without_noise,
    )


def _without_noise(value: Any) -> Any:
    """Leave out what only disturbs in editors: titles like keys, nulls, line breaks in prose."""
    if isinstance(value, list):
        return [_without_noise(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept: dict[str, Any] = {}
    for key, below in value.items():
        is_title = key == "title" and isinstance(below, str)
        is_empty = key == "default" and not isinstance(below, str | int | float)
        # JSON Schema's name for a bound that pydantic left in its own words.
        name = str(_BOUNDS.get(key, key)) if isinstance(below, int | float) else key
        if not is_title and not is_empty:
            kept[name] = _without_noise(below)
    if isinstance(kept.get("description"), str):
        kept["description"] = " ".join(kept["description"].replace("``", "").split())
    # A key that is optional is left out, not written as null.
    choices = kept.get("anyOf")
    if not isinstance(choices, list) or {"type": "null"} not in choices:
        return kept
    rest = [choice for choice in choices if choice != {"type": "null"}]
    others = {key: below for key, below in kept.items() if key != "anyOf"}
    if len(rest) == 1:
        return {**rest[0], **others}
    return {**others, "anyOf": rest}


PAGE: Final = shipped("policies").parent / "docs" / "policy-language.md"

BEGIN: Final = "<!-- begin of the generated reference -->"
END: Final = "<!-- end of the generated reference -->"

_TITLES: Final[Mapping[str, str]] = {
    "Metadata": "`metadata`",
    "Spec": "`spec`",
    "Unit": "`spec.unit`, where it is not just `case`",
    "AttributeRule": "`spec.attributes`, each entry",
    **{model.__name__: f"`spec.guarantees`, kind `{kind}`" for kind, model in KINDS.items()},
    "Budget": "`spec.budget`",
    "Limit": "`spec.budget.release`, `spec.budget.total.metric`, `spec.budget.total.local`",
    "Total": "`spec.budget.total`",
    "Windows": "`spec.budget.windows`",
    "ProfileShare": "`spec.profile`",
    "Mechanisms": "`spec.mechanisms`",
    "Assume": "`spec.assume`",
    "ProcessRules": "`spec.assume.rules`",
    "Window": "`spec.assume.window`",
    "Output": "`spec.output`",
}


def reference() -> str:
    """The tables, as Markdown."""
    schema = policy_schema()
    tables = [_markdown_table("The document", schema)]
    tables += [_markdown_table(title, schema["$defs"][name]) for name, title in _TITLES.items()]
    return "\n\n".join(tables)


def _markdown_table(title: str, model: Mapping[str, Any]) -> str:
    either = {key for choice in model.get("oneOf", ()) for key in choice["required"]}
    rows = []
    for key, field in model["properties"].items():
        note = "" if key in model.get("required", ()) else " (optional)"
        if key in either:
            note = " (one of the two)"
        rows.append(f"| `{key}`{note} | {_value_text(field)} | {_description_text(field)} |")
    return "\n".join([f"### {title}", "", "| key | value | meaning |", "|---|---|---|", *rows])


def _description_text(field: Mapping[str, Any]) -> str:
    """The sentence that an author reads, with the field's default."""
    without = "which guarantee is meant" if "const" in field else ""
    description = str(field.get("description", without)).replace("|", "\\|")
    default = field.get("default")
    # Before numbers, for to Python a truth value is an int; written as in YAML.
    if isinstance(default, bool):
        default = str(default).lower()
    elif isinstance(default, int | float):
        default = f"{default:g}"
    return description if default in (None, "") else f"{description}. Default: `{default}`"


def _value_text(field: Mapping[str, Any]) -> str:
    """What may stand there, in a few words."""
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_value_text(choice) for choice in field["anyOf"]))
    if "$ref" in field:
        return "a mapping" if field["$ref"].rsplit("/", 1)[-1] in _TITLES else "any value"
    return _type_text(field)


def _type_text(field: Mapping[str, Any]) -> str:
    match field.get("type"):
        case "array":
            # A pair lists its items one by one, and they are alike.
            items = field.get("items") or field["prefixItems"][0]
            if "enum" in items:
                return f"a list: some of {_value_text(items)}"
            if items.get("type") == "array":
                return f"a list of lists: {_type_text(items).partition(': ')[2]}"
            mappings = "oneOf" in items or _value_text(items) == "a mapping"
            kinds = {"string": "text", "number": "numbers", "integer": "whole numbers"}
            default = "mappings" if mappings else "any values"
            return f"a list: {kinds.get(str(items.get('type')), default)}"
        case "object":
            return "a mapping"
        case "boolean":
            return "`true` or `false`"
        case "string":
            if "examples" in field:
                examples = " or ".join(f"`{example}`" for example in field["examples"])
                return f"a duration, such as {examples}"
            is_instant = field.get("format") == "date-time"
            return "an instant with its time zone" if is_instant else "text"
        case _:
            kind = "a whole number" if field.get("type") == "integer" else "a number"
            bounds = []
            for name, words in _BOUNDS_IN_WORDS.items():
                if name in field:
                    bound = field[name]
                    short = not isinstance(bound, int) and bound < 1000
                    bounds.append(words.format(f"{bound:g}" if short else f"{bound:,.0f}"))
            return f"{kind} {', '.join(bounds)}"


_BOUNDS_IN_WORDS: Final = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
}


def with_reference(document: str) -> str:
    """A document whose generated part is as the models have it now."""
    before, _, rest = document.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{reference()}\n\n{END}{rest.partition(END)[2]}"
