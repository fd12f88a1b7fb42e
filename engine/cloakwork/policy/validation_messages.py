"""What is wrong with a policy's shape, in plain words: pydantic's translate_errors, translated."""

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError

from cloakwork.base.quantities import format_duration
from cloakwork.policy.document import (
    RefusedValue,
    ShapeError,
    Steps,
    did_you_mean,
    kind_of,
    shown_value,
    value_at,
)
from cloakwork.policy.model import API_VERSION, Policy


def one_of(words: Iterable[str]) -> str:
    """The choices of an enumeration, as a sentence ends with them."""
    listed = list(words)
    return listed[0] if len(listed) == 1 else f"one of {', '.join(listed)}"


def translate_errors(error: ValidationError, content: Mapping[str, Any]) -> list[ShapeError]:
    """Translate all of pydantic's translate_errors about ``content``."""
    results = []
    for item in error.errors(include_url=False):
        loc = item["loc"]
        # Without pydantic's mark for keys, and without the kind of a guarantee after its index.
        steps = loc[:-1] if loc and loc[-1] == "[key]" else loc
        if steps[:2] == ("spec", "guarantees") and len(steps) > 3:
            steps = steps[:3] + steps[4:]
        # A refused value was reported when it was read.
        if isinstance(value_at(content, steps), RefusedValue):
            continue
        # That a tuple is too short pydantic says as well where its members are invalid.
        given = item["input"]
        repeated = item["type"] == "too_short" and isinstance(given, list | dict)
        if not (repeated and len(given) >= item["ctx"]["min_length"]):
            results.append(_finding(item, steps, content))
    return results


def _finding(item: Mapping[str, Any], steps: Steps, content: Mapping[str, Any]) -> ShapeError:
    kind = item["type"]
    ctx = item.get("ctx", {})
    value = value_at(content, steps)
    match kind:
        case "extra_forbidden":
            finding = _unknown_key(steps, content)
        case "missing":
            finding = ShapeError(
                steps, "is missing" + (" (or guessing_advantage)" if steps[-1] == "epsilon" else "")
            )
        case "literal_error":
            finding = _not_a_choice(steps, value, _quoted(ctx["expected"]))
        case "union_tag_invalid":
            finding = _not_a_choice(
                (*steps, "kind"), value_at(value, ("kind",)), _quoted(ctx["expected_tags"])
            )
        case "union_tag_not_found":
            finding = ShapeError((*steps, "kind"), "is missing; it says which guarantee is meant")
        case "value_error":
            finding = _from_validator(steps, value, str(ctx["error"]))
        case _:
            empty = value in ("", [], {})
            # pydantic names the one bound that was passed; the whole range says more.
            said = _allowed(steps, content) if kind in _LIMITS else None
            finding = ShapeError(
                steps,
                (said or _expectation(item, steps)) + ("" if empty else f" (got {kind_of(value)})"),
            )
    return finding


def _allowed(steps: Steps, content: Mapping[str, Any]) -> str | None:
    """The whole range of numbers or durations that may stand at a path; None without one."""
    # Members of a list have no limits of their own: those of the field that holds it count.
    named = [place for place, step in enumerate(steps) if isinstance(step, str)]
    path = steps[: named[-1] + 1] if named else steps
    for model in models_at(path[:-1], content):
        for name, field in model.model_fields.items():
            if path[-1] in (name, field.alias):
                limits = {}
                for stated in (*_limits_in(field.annotation), *field.metadata):
                    for key in _SIGNS:
                        if hasattr(stated, key):
                            limits[key] = getattr(stated, key)
                if {"ge", "le"} <= limits.keys():
                    low = _limit_text(limits["ge"])
                    high = _limit_text(limits["le"])
                    return f"must be between {low} and {high}"
                words = [
                    f"{phrase} {_limit_text(limits[key])}"
                    for key, phrase in _SIGNS.items()
                    if key in limits
                ]
                return "must be " + " and ".join(words) if words else None
    return None


def _limits_in(annotation: Any) -> list[Any]:
    """What is said beside the types of an annotation, those of inner types first."""
    own = getattr(annotation, "__metadata__", ())
    inner = [limit for argument in get_args(annotation) for limit in _limits_in(argument)]
    stated = (getattr(item, "metadata", None) or [item] for item in own)
    return [*inner, *(limit for limits in stated for limit in limits)]


def _limit_text(limit: Any) -> str:
    if isinstance(limit, timedelta):
        return format_duration(limit)
    return f"{limit:,}" if isinstance(limit, int) else f"{limit:g}"


_SIGNS: Final = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
_LIMITS: Final = ("greater_than_equal", "greater_than", "less_than", "less_than_equal")


def _expectation(item: Mapping[str, Any], steps: Steps) -> str:
    """What must stand at a path: first what is said better there than in general."""
    kind = item["type"]
    ctx = item.get("ctx", {})
    short = kind in ("too_short", "string_too_short")
    if short and steps[:2] == ("spec", "expose"):
        return "must give a reason of at least three characters"
    if short and ctx["min_length"] == 1:
        return "must not be empty"
    if steps == ("spec", "unit"):
        return "must be case or {attribute, max_cases} or {attribute, level: event}"
    if steps[:2] == ("spec", "guarantees") and steps[-1] == "unit":
        return "must be case or {attribute, level: event}"
    if steps[:3] == ("spec", "budget", "shares") and kind in _LIMITS:
        return "must be a weight above 0, at most 1,000,000"
    if kind == "too_short" and steps[-1:] == ("range",):
        return "must list two numbers, the least and the largest"
    if kind.startswith(("tuple_", "list_")) and steps:
        # A place in a list is told by the list's name.
        name = f"{steps[-2]}[]" if isinstance(steps[-1], int) else steps[-1]
        if name in _LISTS:
            return f"must be a list, such as {_LISTS[name]}"
    if kind == "string_pattern_mismatch" and steps and steps[-1] in _PATTERNS:
        return _PATTERNS[str(steps[-1])]
    if kind == "string_type" and steps[-1:] == ("version",):
        return f"{_PATTERNS['version']}, in quotes"
    if kind in _BOUNDS:
        return _BOUNDS[kind].format(**ctx)
    message = str(item["msg"])
    plain = message[0].lower() + message[1:]
    return next((words for family, words in _FAMILIES.items() if kind.startswith(family)), plain)


_BOUNDS: Final = {
    "string_too_short": "must be at least {min_length} characters long",
    "string_too_long": "must be at most {max_length} characters long",
    "string_pattern_mismatch": "must match {pattern}",
    "too_short": "must list at least {min_length}",
}

_PATTERNS: Final = {
    "name": "must be a short name of lower-case letters, digits, dots, hyphens and underscores",
    "version": "must be a version of three numbers such as 1.0.0",
    "dataset": "must be a name of letters, digits, dots, hyphens and underscores, without spaces",
}

_LISTS: Final = {
    "domain": "[low, high]",
    "range": "[0, 100]",
    "bins": "[0, 50, 100]",
    "alphabet": "[Register, Discharge]",
    "starts_with": "[Register]",
    "at_most_once": "[Register, Discharge]",
    "before": "[[Register, Discharge]]",
    "before[]": "[Register, Discharge]",
    "never_together": "[[Discharge, Die]]",
    "never_together[]": "[Discharge, Die]",
}
"""What a list looks like where it holds no names of columns."""

_FAMILIES: Final = {
    "string_": "must be text; put it in quotes",
    "finite_number": "must be a finite number",
    "model_": "must be a mapping",
    "dict_": "must be a mapping",
    "tuple_": "must be a list, such as [control-flow]",
    "list_": "must be a list, such as [control-flow]",
    "int_": "must be a whole number",
    "float_": "must be a number",
    "bool_": "must be true or false",
    "datetime_": "must be an instant such as 2014-01-01T00:00:00Z",
    "timezone_": "must be an instant with its time zone, such as 2014-01-01T00:00:00Z",
    "time_delta_": "must be a duration such as 30s, 15m, 1h or 7d",
}


def _unknown_key(steps: Steps, content: Any) -> ShapeError:
    key = steps[-1]
    models = models_at(steps[:-1], content)
    known = [field.alias or name for model in models for name, field in model.model_fields.items()]
    if any("epsilon" in model.model_fields for model in models):
        known.append("guessing_advantage")
    # A name with a colon straight under spec is most likely an attribute's, such as case:age.
    is_attribute = len(steps) == 2 and steps[0] == "spec" and ":" in str(steps[1])
    hint = "attributes belong under spec.attributes" if is_attribute else None
    return ShapeError(
        steps, f"unknown key {shown_value(key)}{did_you_mean(key, known)}", hint, of_key=True
    )


def _not_a_choice(steps: Steps, value: Any, choices: list[str]) -> ShapeError:
    if steps == ("apiVersion",):
        return ShapeError(
            steps,
            f"must be {API_VERSION}, the version that this engine reads (got {kind_of(value)})",
        )
    if steps[:-1] == ("spec", "budget", "shares"):
        unknown = f"unknown key {shown_value(steps[-1])}{did_you_mean(steps[-1], choices)}"
        return ShapeError(steps, unknown, f"the keys are {', '.join(choices)}", of_key=True)
    guess = did_you_mean(value, choices) if isinstance(value, str) else ""
    return ShapeError(steps, f"must be {one_of(choices)} (got {kind_of(value)}){guess}")


def _from_validator(steps: Steps, value: Any, message: str) -> ShapeError:
    """A validator of ours spoke; a key at the start of its sentence says where the fault is."""
    first = message.split(" ", 1)[0]
    if isinstance(value, dict) and first in value:
        given = value[first]
        says_must = message.split(" ")[1:2] == ["must"]
        got = f" (got {kind_of(given)})" if says_must and not isinstance(given, list | dict) else ""
        return ShapeError((*steps, first), message.split(" ", 1)[1] + got)
    if not message.startswith(("must ", "needs ")):
        return ShapeError(steps, f": {message}")
    got = "" if isinstance(value, list | dict) else f" (got {kind_of(value)})"
    return ShapeError(steps, message + got)


def _quoted(text: str) -> list[str]:
    return re.findall(r"'([^']*)'", text)


def models_at(steps: Steps, content: Any) -> list[type[BaseModel]]:
    """The models that may describe the mapping at a path; a guarantee's ``kind`` narrows them to
    one.
    """
    models: list[type[BaseModel]] = [Policy]
    # A step that is no field, such as a name or an index, stays with the same models.
    for step in steps:
        fields = [
            field
            for model in models
            for name, field in model.model_fields.items()
            if step in (name, field.alias)
        ]
        if fields:
            models = [model for field in fields for model in _models_in(field.annotation)]
    here = value_at(content, steps)
    kind = here.get("kind") if isinstance(here, dict) else None
    of_kind = [
        model
        for model in models
        if "kind" in model.model_fields
        and isinstance(kind, str)
        and kind in get_args(model.model_fields["kind"].annotation)
    ]
    return of_kind or models


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]
