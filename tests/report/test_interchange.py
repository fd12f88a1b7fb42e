"""The statement in terms of DPV: terms that exist, and never more than the statement says.
Assessment results: the shape that OSCAL 1.1.2 asks for, and nothing that is not found. NIST's own
schema is not among our dependencies; 0039 says with what a document was validated.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.plan.model import UnprovenClaim
from cloakwork.publishing.statement import PolicyReference
from cloakwork.report.interchange import dpv_terms
from cloakwork.report.model import Audience
from cloakwork.report.render import render
from publishing.conftest import a_plan
from report.conftest import statement_with

KNOWN = {
    "dpv:Process",
    "dpv:Purpose",
    "dpv:Entity",
    "dpv:LegalBasis",
    "dpv:DifferentialPrivacy",
    "dpv:Deidentification",
    "dpv:DataSanitisationTechnique",
    "dpv:HashMessageAuthenticationCode",
    "dpv:DigitalSignatures",
    "dpv:hasName",
    "dpv:hasPurpose",
    "dpv:hasLegalBasis",
    "dpv:hasResponsibleEntity",
    "dpv:hasTechnicalMeasure",
    "eu-gdpr:A6-1-f",
    "eu-gdpr:A9-2-j",
}
"""The terms of DPV 2.0 and its extension for the GDPR that stand in documents of ours."""


def terms_in(value: Any) -> Iterator[str]:
    """Every name and type of a document that its context gives a prefix of DPV."""
    if isinstance(value, dict):
        yield from (name for name in value if name.startswith(("dpv:", "eu-gdpr:")))
        types = value.get("@type", [])
        yield from [types] if isinstance(types, str) else types
        for item in value.values():
            yield from terms_in(item)
    if isinstance(value, list):
        for item in value:
            yield from terms_in(item)


def test_a_release_is_described_in_terms_that_exist(published):
    document = json.loads(render(published, "public", "dpv"))
    found = {term for term in terms_in(document) if term.startswith(("dpv:", "eu-gdpr:"))}
    assert found <= KNOWN
    assert document["@type"] == "dpv:Process"
    assert document["dpv:hasLegalBasis"]["@type"] == ["eu-gdpr:A9-2-j"]
    assert [column["column"] for column in document["cloakwork:exposes"]] == ["metadata"]
    assert document["cloakwork:doesNotProtect"]
    assert all(isinstance(value, str | dict) for value in document["@context"].values())
    assert "@import" not in document["@context"]


def test_neither_anonymity_nor_pseudonymity_is_claimed(published):
    """Both terms of DPV are defined as states in law."""
    document = json.loads(render(published, "public", "dpv"))
    text = json.dumps([*terms_in(document)])
    assert "nonymisation" not in text and "NonPersonal" not in text


def test_figures_stand_beside_differential_privacy_alone():
    dp = DifferentialPrivacy(
        kind="differential-privacy", epsilon=2.0, delta=1e-6, over=("control-flow",)
    )
    document = dpv_terms(statement_with(dp))
    measures = {item["@type"]: item for item in document["dpv:hasTechnicalMeasure"]}
    assert measures["dpv:DifferentialPrivacy"]["epsilon"] == 2.0
    assert measures["dpv:DifferentialPrivacy"]["delta"] == 1e-6
    assert all("epsilon" not in item for item in measures.values() if "Diff" not in item["@type"])


def test_a_release_that_protects_nobody_has_no_measure(publish_as):
    folder = publish_as(private=False).folder
    document = json.loads(render(folder, "public", "dpv"))
    types = [item["@type"] for item in document["dpv:hasTechnicalMeasure"]]
    assert types == ["dpv:DigitalSignatures"]
    assert document["cloakwork:doesNotProtect"][0]["dct:title"] == "Everybody in the log"


@pytest.mark.parametrize(
    ("named", "terms"),
    [
        ("GDPR Art. 6(1)(f)", ["eu-gdpr:A6-1-f"]),
        ("GDPR Article 6(1)(f), Article 9 (2) (j)", ["eu-gdpr:A6-1-f", "eu-gdpr:A9-2-j"]),
        ("GDPR Art. 6(2)(f)", ["dpv:LegalBasis"]),
        ("GDPR Art. 6(1)(g)", ["dpv:LegalBasis"]),
        ("HIPAA, Art. 6(1)(f)", ["dpv:LegalBasis"]),
        ("our agreement", ["dpv:LegalBasis"]),
    ],
)
def test_articles_are_read_where_the_gdpr_is_named(named, terms):
    statement = statement_with(*(claim.guarantee for claim in a_plan().claims))
    policy = PolicyReference.model_validate(
        statement.policy.model_dump(by_alias=True) | {"legalBasis": named}
    )
    document = dpv_terms(statement.model_copy(update={"policy": policy}))
    assert document["dpv:hasLegalBasis"]["@type"] == terms
    assert document["dpv:hasLegalBasis"]["dct:description"] == named


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
def test_the_shape_is_that_of_the_standard(published, audience):
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


def test_the_same_release_gives_the_same_document(published):
    assert results_of(published) == results_of(published)


def test_figures_of_the_check_are_for_insiders(published):
    assert "Measured:" in json.dumps(results_of(published, "internal"))
    assert "Measured:" not in json.dumps(results_of(published, "public"))


def test_what_is_unproven_or_private_to_nobody_is_not_satisfied(publish_as):
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


def test_a_failed_verification_is_an_observation(published):
    (published / "notes.txt").write_text("not ours")
    (result,) = results_of(published)["results"]
    assert "does NOT keep" in result["description"]
    (seen,) = [item for item in result["observations"] if item["title"] == "verification"]
    assert "notes.txt" in seen["description"]
