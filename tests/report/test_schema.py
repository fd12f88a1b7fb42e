"""The published schema of reports is that of the models, and reports keep to it."""

import json
from pathlib import Path

import jsonschema
import pytest

from cloakwork.report.model import Audience
from cloakwork.report.render import render
from cloakwork.report.schema import FILE, report_schema, schema_text

SCHEMA = Path(__file__).parents[2] / "schemas" / FILE


def test_the_shipped_schema_is_the_models() -> None:
    assert SCHEMA.read_text("utf-8") == schema_text()


@pytest.mark.parametrize("audience", ["public", "internal"])
def test_reports_keep_to_the_schema(published: Path, audience: Audience) -> None:
    report = json.loads(render(published, audience, "json"))

    validator = jsonschema.Draft202012Validator(report_schema())
    assert [*validator.iter_errors(report)] == []
    assert not validator.is_valid({**report, "audience": "nobody"})
    assert not validator.is_valid({**report, "surprise": 1})
