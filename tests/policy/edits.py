"""Shipped policies with changes."""

from collections.abc import Callable
from typing import Any

import yaml

from cloakwork.plan.policies import parse_policy
from cloakwork.policy import Policy
from cloakwork.policy.load import shipped

Edit = Callable[[dict[str, Any]], object]


def edited(name: str, *edits: Edit) -> Policy:
    """A shipped policy with changes to its spec."""
    content = yaml.safe_load((shipped("policies") / f"{name}.yaml").read_text("utf-8"))
    for edit in edits:
        edit(content["spec"])
    return parse_policy(yaml.safe_dump(content))


def goal(**fields: object) -> Edit:
    """Change fields of the first guarantee."""
    return lambda spec: spec["guarantees"][0].update(fields)


def rule(name: str, **fields: object) -> Edit:
    """Declare an attribute."""
    return lambda spec: spec["attributes"].update({name: fields})


def put(key: str, value: object) -> Edit:
    """Set a key of the spec."""
    return lambda spec: spec.update({key: value})
