"""The picture at the head of the README: drawn by its script, of what the example log holds."""

import importlib.util
import json
import xml.etree.ElementTree as ET
from types import ModuleType
from typing import Any

import pytest

import cloakwork
from repository.checkout import ROOT

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """``docs/picture.py`` as a module."""
    spec = importlib.util.spec_from_file_location("picture", ROOT / "docs" / "picture.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def data(script: ModuleType) -> dict[str, Any]:
    """What the committed picture says that it was made of."""
    text = ET.parse(script.PICTURE).getroot().findtext(f"{SVG}metadata")
    assert text is not None
    found: dict[str, Any] = json.loads(text)
    return found


def test_it_is_what_the_script_draws(script: ModuleType, data: dict[str, Any]) -> None:
    """To the byte, of its own figures; other figures give another picture."""
    drawn = script.PICTURE.read_text("utf-8")
    assert script.picture(data) == drawn
    other = data | {"found": data["found"] | {"linking/sequence": [[0.5, 0.6], None]}}
    assert "50 to 60 %" in script.picture(other) and "50 to 60 %" not in drawn
    assert "not released" in script.picture(other)


def test_what_stands_before_is_the_example_log(script: ModuleType, data: dict[str, Any]) -> None:
    """Sequence by sequence; and each that is released is shared as the policy asks."""
    before, after = ([(list(s), n) for s, n in each] for each in data["variants"])
    assert before == script.variants_of(cloakwork.read_log(script.LOG))
    plan = cloakwork.make_plan(cloakwork.load_policy(data["policy"]))
    (k,) = [goal.k for goal in plan.policy.spec.guarantees if goal.kind == "k-anonymity"]
    assert k == script.K <= min(count for _, count in after)
    assert sum(count for _, count in after) <= sum(count for _, count in before)


def test_the_shares_are_shares(script: ModuleType, data: dict[str, Any]) -> None:
    """Each attack before and after, and less is found afterwards."""
    assert data["found"].keys() == script.ATTACKS.keys()
    for before, after in data["found"].values():
        assert 0 <= after[0] <= after[1] < before[0] <= before[1] <= 1


def test_the_readme_opens_with_it() -> None:
    """Before the first heading of a section, with words for those who do not see it."""
    head = (ROOT / "README.md").read_text("utf-8").partition("\n## ")[0]
    assert "](docs/assets/before-and-after.svg)" in head
