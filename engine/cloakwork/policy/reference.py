"""Every key of the policy language in tables, for the documentation.

Run ``python -m cloakwork.policy.reference`` in a checkout to write them into
``docs/policy-language.md`` again.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

from cloakwork.policy.library import shipped
from cloakwork.policy.schema import policy_schema

BEGIN: Final = "<!-- begin of the generated reference -->"
END: Final = "<!-- end of the generated reference -->"

_TITLES: Final[Mapping[str, str]] = {
    "Metadata": "`metadata`",
    "Spec": "`spec`",
    "Unit": "`spec.unit`, where it is not just `case`",
    "AttributeRule": "`spec.attributes`, each entry",
    "KAnonymity": "`spec.guarantees`, kind `k-anonymity`",
    "TCloseness": "`spec.guarantees`, kind `t-closeness`",
    "LDiversity": "`spec.guarantees`, kind `l-diversity`",
    "ConfidenceBound": "`spec.guarantees`, kind `confidence-bound`",
    "DifferentialPrivacy": "`spec.guarantees`, kind `differential-privacy`",
    "MetricPrivacy": "`spec.guarantees`, kind `metric-privacy`",
    "LocalDP": "`spec.guarantees`, kind `local-dp`",
    "Exposure": "`spec.expose`, each entry, where it is a list",
    "Budget": "`spec.budget`",
    "Limit": "`spec.budget.release`, `spec.budget.total.metric`, `spec.budget.total.local`",
    "Total": "`spec.budget.total`",
    "Windows": "`spec.budget.windows`",
    "ProfileShare": "`spec.profile`",
    "Mechanisms": "`spec.mechanisms`",
    "Assume": "`spec.assume`",
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
        note = _optional_note(key, model.get("required", ()), either)
        rows.append(f"| `{key}`{note} | {_value_text(field)} | {_description_text(field)} |")
    return "\n".join([f"### {title}", "", "| key | value | meaning |", "|---|---|---|", *rows])


def _optional_note(key: str, required: Collection[str], either: Collection[str]) -> str:
    if key in either:
        return " (one of the two)"
    return "" if key in required else " (optional)"


def _description_text(field: Mapping[str, Any]) -> str:
    """The sentence that an author reads, with the field's default."""
    without = "which guarantee is meant" if "const" in field else ""
    description = str(field.get("description", without)).replace("|", "\\|")
    default = field.get("default")
    if isinstance(default, bool):
        default = str(default).lower()
    elif _is_number(default):
        default = f"{default:g}"
    return description if default in (None, "") else f"{description}. Default: `{default}`"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


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
            return f"a list: {_items_text(field['items'])}"
        case "object":
            return "a mapping"
        case "boolean":
            return "`true` or `false`"
        case "string":
            return _string_text(field)
        case _:
            kind = "a whole number" if field.get("type") == "integer" else "a number"
            return f"{kind} {_bounds_text(field)}"


def _items_text(items: Mapping[str, Any]) -> str:
    if "enum" in items:
        return "some of " + _value_text(items)
    kinds = {"string": "text", "number": "numbers", "integer": "whole numbers"}
    mappings = "oneOf" in items or _value_text(items) == "a mapping"
    return kinds.get(str(items.get("type")), "mappings" if mappings else "any values")


def _string_text(field: Mapping[str, Any]) -> str:
    if "examples" in field:
        return "a duration, such as " + " or ".join(f"`{example}`" for example in field["examples"])
    return "an instant with its time zone" if field.get("format") == "date-time" else "text"


def _bounds_text(field: Mapping[str, Any]) -> str:
    words = {
        "minimum": "at least {}",
        "exclusiveMinimum": "above {}",
        "maximum": "at most {}",
        "exclusiveMaximum": "below {}",
    }
    present = [name for name in words if name in field]
    return ", ".join(words[name].format(_number_text(field[name])) for name in present)


def _number_text(value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


def with_reference(document: str) -> str:
    """A document whose generated part is as the models have it now."""
    before, _, rest = document.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{reference()}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    page = shipped("policies").parent / "docs" / "policy-language.md"
    page.write_text(with_reference(page.read_text("utf-8")), "utf-8")
