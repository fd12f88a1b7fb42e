"""Assessment results: the shape that OSCAL 1.1.2 asks for, and nothing that is not found.

NIST's own schema is not among our dependencies; 0039 says with what a document was validated.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cloakwork.plan.model import UnprovenClaim
from cloakwork.publishing.publish import Published
from cloakwork.report.model import Audience
from cloakwork.report.render import render
from publishing.conftest import a_plan

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
TOKEN = r"[A-Za-z_][A-Za-z0-9._-]*"
BOTH: tuple[Audience, ...] = ("public", "internal")


def results_of(folder: Path, audience: Audience = "public") -> dict[str, Any]:
    """The document inside its one outer name."""
    document = json.loads(render(folder, audience, "oscal"))
    assert [*document] == ["assessment-results"]
    found: dict[str, Any] = document["assessment-results"]
    return found


def identifiers(value: Any) -> Iterator[str]:
    """Every ``uuid`` of a document."""
    if isinstance(value, dict):
        if "uuid" in value:
            yield value["uuid"]
        for item in value.values():
            yield from identifiers(item)
    if isinstance(value, list):
        for item in value:
            yield from identifiers(item)


@pytest.mark.parametrize("audience", BOTH)
def test_the_shape_is_that_of_the_standard(published: Path, audience: Audience) -> None:
    found = results_of(published, audience)
    (result,) = found["results"]

    assert {"uuid", "metadata", "import-ap", "results"} == found.keys()
    assert {"title", "last-modified", "version", "oscal-version"} <= found["metadata"].keys()
    assert found["metadata"]["oscal-version"] == "1.1.2"
    assert {"uuid", "title", "description", "start", "reviewed-controls"} <= result.keys()
    names = [*identifiers(found)]
    assert len(names) == len({*names}) and all(re.fullmatch(UUID, name) for name in names)
    assert all(result[part] for part in ("observations", "findings", "risks"))
    for observation in result["observations"]:
        assert {"uuid", "description", "methods", "collected"} <= observation.keys()
        assert {*observation["methods"]} <= {"EXAMINE", "INTERVIEW", "TEST"}
    for finding in result["findings"]:
        assert finding["target"]["type"] == "objective-id"
        assert re.fullmatch(TOKEN, finding["target"]["target-id"])
    observed = {observation["uuid"] for observation in result["observations"]}
    referred = {
        item["observation-uuid"]
        for finding in result["findings"]
        for item in finding["related-observations"]
    }
    assert referred <= observed


def test_the_same_release_gives_the_same_document(published: Path) -> None:
    assert results_of(published) == results_of(published)


def test_figures_of_the_check_are_for_insiders(published: Path) -> None:
    assert "Measured:" in json.dumps(results_of(published, "internal"))
    assert "Measured:" not in json.dumps(results_of(published, "public"))


def test_what_is_unproven_or_private_to_nobody_is_not_satisfied(
    publish_as: Callable[..., Published],
) -> None:
    plan = a_plan()
    goal = UnprovenClaim(
        guarantee=plan.claims[0].guarantee,
        mechanism="variants/x-published",
        published="is 1-DP",
        currency="unit",
        cost=None,
        why=("raw counts are released",),
    )
    unproven = results_of(publish_as(plan=a_plan(unproven=(goal,), claims=())).folder)
    seeded = results_of(publish_as(private=False).folder)

    for found in (unproven, seeded):
        states = [item["target"]["status"]["state"] for item in found["results"][0]["findings"]]
        assert {*states} == {"not-satisfied"}


def test_a_failed_verification_is_an_observation(published: Path) -> None:
    (published / "notes.txt").write_text("not ours")

    (result,) = results_of(published)["results"]

    assert "does NOT keep" in result["description"]
    (seen,) = [item for item in result["observations"] if item["title"] == "verification"]
    assert "notes.txt" in seen["description"]
