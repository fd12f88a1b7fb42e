"""The statement in the terms of the Data Privacy Vocabulary (DPV 2, https://w3id.org/dpv), as
JSON-LD.

The terms follow from the statement's records, so they are derived and not signed apart. Only
techniques are named: whether a release is anonymous in law is a finding that a person must make, so
neither ``dpv:Anonymisation`` nor ``dpv:Pseudonymisation`` is used, whose definitions state that it
is (0039). The context stands in the document: nothing is fetched to read it.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.publishing.statement import PrivacyStatement, StatedGuarantee
from cloakwork.report.unprotected import UnprotectedGroup

TERMS: Final = "urn:cloakwork:terms:v1#"
_CONTEXT: Final[dict[str, Any]] = {
    "dpv": "https://w3id.org/dpv#",
    "eu-gdpr": "https://w3id.org/dpv/legal/eu/gdpr#",
    "dct": "http://purl.org/dc/terms/",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "cloakwork": TERMS,
    "epsilon": {"@id": "cloakwork:epsilon", "@type": "xsd:double"},
    "delta": {"@id": "cloakwork:delta", "@type": "xsd:double"},
    "column": "cloakwork:column",
    "attribute": "cloakwork:attribute",
}
_TREATMENTS: Final = {
    "pseudonymise": (
        "dpv:HashMessageAuthenticationCode",
        "values are replaced by keyed hashes",
    ),
    "generalise": (
        "dpv:DataSanitisationTechnique",
        "values are replaced by groups of values",
    ),
}
_ARTICLE: Final = re.compile(r"\bArt(?:icle|ikel|\.)?\s*(6|9)\s*\(([12])\)\s*\(([a-j])\)", re.I)
_KNOWN_ARTICLES: Final = frozenset(
    [f"A6-1-{letter}" for letter in "abcdef"] + [f"A9-2-{letter}" for letter in "abcdefghij"]
)


def dpv_terms(
    statement: PrivacyStatement, unprotected: tuple[UnprotectedGroup, ...] = ()
) -> dict[str, Any]:
    """The statement as JSON-LD: a process with its purpose, who answers for it, its legal basis as
    far as the policy names an article of the GDPR, and the technical measures that its guarantees
    and treatments are.
    """
    policy = statement.policy
    described: dict[str, Any] = {
        "@context": _CONTEXT,
        "@id": f"urn:cloakwork:release:{statement.release}",
        "@type": "dpv:Process",
        "dct:title": f"Release of event log {policy.dataset}",
        "dct:created": {"@type": "xsd:dateTime", "@value": statement.issued.isoformat()},
        "dct:creator": f"Cloakwork {statement.engine}",
        "dpv:hasPurpose": {"@type": "dpv:Purpose", "dct:description": policy.purpose},
        "dpv:hasResponsibleEntity": {"@type": "dpv:Entity", "dpv:hasName": policy.owner},
        "dpv:hasTechnicalMeasure": list(_measures(statement)),
        "cloakwork:exposes": [
            {
                "column": column.column,
                "attribute": list(column.names),
                "dct:description": column.says,
            }
            for column in statement.exposed
        ],
        "cloakwork:doesNotProtect": [
            {"dct:title": group.who, "dct:description": group.says} for group in unprotected
        ],
    }
    if policy.legal_basis is not None:
        described["dpv:hasLegalBasis"] = {
            "@type": [*_articles(policy.legal_basis)] or ["dpv:LegalBasis"],
            "dct:description": policy.legal_basis,
        }
    return described


def _articles(legal_basis: str) -> Iterator[str]:
    """The terms for the articles of the GDPR that a text names."""
    if not re.search(r"GDPR|DSGVO|AVG|RGPD|2016/679", legal_basis, re.I):
        return
    for article, paragraph, letter in _ARTICLE.findall(legal_basis):
        term = f"A{article}-{paragraph}-{letter.lower()}"
        if term in _KNOWN_ARTICLES:
            yield f"eu-gdpr:{term}"


def _measures(statement: PrivacyStatement) -> Iterator[dict[str, Any]]:
    """The techniques that protect the release; none where it protects nobody."""
    if statement.mark is None:
        for number, claim in enumerate(statement.guarantees, 1):
            yield _measure(claim, f"urn:cloakwork:release:{statement.release}#guarantee-{number}")
    for treatment, (term, says) in _TREATMENTS.items():
        treated = [each.name for each in statement.released if each.treatment == treatment]
        if treated:
            yield {"@type": term, "attribute": treated, "dct:description": says}
    yield {
        "@type": "dpv:DigitalSignatures",
        "dct:description": "the statement and the released files are signed",
    }


def _measure(claim: StatedGuarantee, name: str) -> dict[str, Any]:
    """A guarantee as a technique. Only differential privacy has a term of its own, and figures that
    mean what they mean there; what is proved of the others is in the description.
    """
    described = {"@id": name, "dct:title": claim.guarantee.kind, "dct:description": claim.sentence}
    goal = claim.guarantee
    if isinstance(goal, DifferentialPrivacy):
        figures = {"epsilon": goal.epsilon, "delta": goal.delta}
        return {"@type": "dpv:DifferentialPrivacy", **described, **figures}
    return {"@type": "dpv:Deidentification", **described}
