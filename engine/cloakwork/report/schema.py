"""The JSON Schema of the reports, generated from their models: for programs that read them.

Run ``python -m cloakwork.report.schema`` in a checkout to write it again.
"""

import json
import re
from typing import Any, Final

from pydantic import TypeAdapter

from cloakwork.policy.load import shipped
from cloakwork.publishing.schema import with_bounds
from cloakwork.report.model import REPORT_TYPE, InternalReport, PublicReport

FILE: Final = "report-v1.json"
_PLAN: Final = {"type": "object", "title": "Plan", "description": "The plan, as in plan.json"}
_REFERENCE: Final = re.compile(r'"#/\$defs/([^"]+)"')


def report_schema() -> dict[str, Any]:
    """The schema of both reports as JSON values (draft 2020-12)."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": REPORT_TYPE,
        "title": "Cloakwork report, version 1: public or internal",
    }
    either: TypeAdapter[Any] = TypeAdapter(PublicReport | InternalReport)
    generated = either.json_schema(by_alias=True, mode="serialization")
    # The plan has a schema of its own, so that here it is only named.
    generated["$defs"] = _referenced(generated["$defs"] | {"Plan": _PLAN}, generated["anyOf"])
    return head | {key: with_bounds(value) for key, value in generated.items() if key not in head}


def _referenced(models: dict[str, Any], beginning: Any) -> dict[str, Any]:
    """The models that ``beginning`` refers to, directly or through others."""
    found: dict[str, Any] = {}
    # References are found in the text of the JSON, however deep they stand.
    waiting = _REFERENCE.findall(json.dumps(beginning))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = models[name]
            waiting += _REFERENCE.findall(json.dumps(models[name]))
    return {name: found[name] for name in sorted(found)}


def schema_text() -> str:
    """The schema as it stands in its file."""
    return json.dumps(report_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    (shipped("schemas") / FILE).write_text(schema_text(), encoding="utf-8")
