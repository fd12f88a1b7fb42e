"""The published schema is what the models say, and accepts what the engine accepts."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from cloakwork.policy.load import SCHEMA_FILE, list_policies, shipped
from schemas.generated import policy_schema, schema_texts

HERE = Path(__file__).parent
CONTRACT = HERE.parents[2] / "shared" / "contract" / "policies"
VALIDATOR = Draft202012Validator(json.loads((shipped("schemas") / SCHEMA_FILE).read_text("utf-8")))


def content(path: Path) -> Any:
    """A file's values as an editor reads them."""
    return yaml.safe_load(path.read_text("utf-8"))


def base() -> Any:
    """A valid policy's values."""
    return content(shipped("policies") / "dp-control-flow.yaml")


def test_the_schemas_in_the_repository_are_the_generated_ones() -> None:
    """Of policies, plans, statements and reports; and no other lies there."""
    found = {path.name: path.read_text("utf-8") for path in shipped("schemas").glob("*.json")}
    assert found == schema_texts(), "run tests/schemas/regenerate.py"


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(policy_schema())
    assert policy_schema()["$id"] == "urn:cloakwork:privacy-policy:v1"


@pytest.mark.parametrize("name", list_policies())
def test_the_schema_accepts_every_shipped_policy(name: str) -> None:
    VALIDATOR.validate(content(shipped("policies") / f"{name}.yaml"))


@pytest.mark.skipif(not CONTRACT.is_dir(), reason="no ../shared/contract beside this checkout")
def test_the_schema_accepts_every_contract_policy() -> None:
    for path in sorted(CONTRACT.rglob("*.yaml")):
        VALIDATOR.validate(content(path))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("expose", {"diagnosis": "Agreed by contract"}),
        ("unit", "case"),
        ("unit", {"attribute": "case:patient", "max_cases": 3}),
    ],
)
def test_the_schema_accepts_both_forms(key: str, value: object) -> None:
    values = base()
    values["spec"][key] = value
    VALIDATOR.validate(values)


@pytest.mark.parametrize(
    ("steps", "value"),
    [
        (("apiVersion",), "cloakwork/v2"),
        (("metadata", "version"), "1.0"),
        (("spec", "unit"), "person"),
        (("spec", "guarantees"), []),
        (("spec", "guarantees", 0, "epsilon"), 0),
        (("spec", "guarantees", 0, "epsilom"), 1),
        (("spec", "guarantees", 0, "guessing_advantage"), 0.1),
        (("spec", "budget", "total", "delta"), 1),
        (("spec", "output", "format"), "xml"),
        (("spec", "colour"), "blue"),
    ],
)
def test_the_schema_refuses_what_the_engine_refuses(steps: tuple[Any, ...], value: object) -> None:
    values = base()
    place = values
    for step in steps[:-1]:
        place = place[step]
    place[steps[-1]] = value
    assert not VALIDATOR.is_valid(values)


def test_every_shipped_policy_names_a_schema_that_is_there() -> None:
    for name in list_policies():
        path = shipped("policies") / f"{name}.yaml"
        first = path.read_text("utf-8").splitlines()[0]
        assert first.startswith("# yaml-language-server: $schema=")
        named = (path.parent / first.partition("$schema=")[2]).resolve()
        assert json.loads(named.read_text("utf-8"))["title"] == policy_schema()["title"]


def test_every_key_has_a_description() -> None:
    """Editors show something for every key but the discriminator of guarantees."""
    bare = [
        f"{name}.{key}"
        for name, model in policy_schema()["$defs"].items()
        for key, field in model.get("properties", {}).items()
        if "description" not in field and key != "kind"
    ]
    assert bare == []
