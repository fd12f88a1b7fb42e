"""The statement in terms of DPV: terms that exist, and never more than the statement says."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.publishing.publish import Published
from cloakwork.publishing.statement import PolicyReference
from cloakwork.report.interchange import dpv_terms
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


def test_a_release_is_described_in_terms_that_exist(published: Path) -> None:
    document = json.loads(render(published, "public", "dpv"))

    found = {term for term in terms_in(document) if term.startswith(("dpv:", "eu-gdpr:"))}
    assert found <= KNOWN
    assert document["@type"] == "dpv:Process"
    assert document["dpv:hasLegalBasis"]["@type"] == ["eu-gdpr:A9-2-j"]
    assert [column["column"] for column in document["cloakwork:exposes"]] == ["metadata"]
    assert document["cloakwork:doesNotProtect"]
    assert all(isinstance(value, str | dict) for value in document["@context"].values())
    assert "@import" not in document["@context"]


def test_neither_anonymity_nor_pseudonymity_is_claimed(published: Path) -> None:
    """Both terms of DPV are defined as states in law."""
    document = json.loads(render(published, "public", "dpv"))

    text = json.dumps([*terms_in(document)])
    assert "nonymisation" not in text and "NonPersonal" not in text


def test_figures_stand_beside_differential_privacy_alone() -> None:
    dp = DifferentialPrivacy(
        kind="differential-privacy", epsilon=2.0, delta=1e-6, over=("control-flow",)
    )
    document = dpv_terms(statement_with(dp))

    measures = {item["@type"]: item for item in document["dpv:hasTechnicalMeasure"]}
    assert measures["dpv:DifferentialPrivacy"]["epsilon"] == 2.0
    assert measures["dpv:DifferentialPrivacy"]["delta"] == 1e-6
    assert all("epsilon" not in item for item in measures.values() if "Diff" not in item["@type"])


def test_a_release_that_protects_nobody_has_no_measure(
    publish_as: Callable[..., Published],
) -> None:
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
def test_articles_are_read_where_the_gdpr_is_named(named: str, terms: list[str]) -> None:
    statement = statement_with(*(claim.guarantee for claim in a_plan().claims))
    policy = PolicyReference.model_validate(
        statement.policy.model_dump(by_alias=True) | {"legalBasis": named}
    )

    document = dpv_terms(statement.model_copy(update={"policy": policy}))

    assert document["dpv:hasLegalBasis"]["@type"] == terms
    assert document["dpv:hasLegalBasis"]["dct:description"] == named
