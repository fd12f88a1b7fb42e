"""A release in the terms of others: the Data Privacy Vocabulary, and NIST's OSCAL.

DPV (version 2, https://w3id.org/dpv) is written as JSON-LD. Its terms follow from the statement's
records, so they are derived and not signed apart. Only techniques are named: whether a release is
anonymous in law is a finding that a person must make, so neither ``dpv:Anonymisation`` nor
``dpv:Pseudonymisation`` is used, whose definitions state that it is (decision 20). The context
stands in the document: nothing is fetched to read it.

In OSCAL (1.1, Open Security Controls Assessment Language) a release is assessment results: each
guarantee that the policy asks for is an objective, satisfied where the statement derives it, not
satisfied where the policy let an unproven mechanism run in its place. What was checked are
observations; columns that are released without protection are open risks. Identifiers are UUIDs of
version 5 of the release's own, so the same release gives the same document.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.plan.model import Plan
from cloakwork.publishing.statement import PrivacyStatement
from cloakwork.report.model import Examination, UnprotectedGroup

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
    "pseudonymise": ("dpv:HashMessageAuthenticationCode", "values are replaced by keyed hashes"),
    "generalise": ("dpv:DataSanitisationTechnique", "values are replaced by groups of values"),
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
        # The articles of the GDPR that the text names have terms of their own.
        terms = []
        # The law must be named, too: others have an Article 6(1) as well.
        if re.search(r"GDPR|DSGVO|AVG|RGPD|2016/679", policy.legal_basis, re.I):
            for article, paragraph, letter in _ARTICLE.findall(policy.legal_basis):
                term = f"A{article}-{paragraph}-{letter.lower()}"
                # An article for which the vocabulary has no term is left to the text.
                terms += [f"eu-gdpr:{term}"] if term in _KNOWN_ARTICLES else []
        described["dpv:hasLegalBasis"] = {
            "@type": terms or ["dpv:LegalBasis"],
            "dct:description": policy.legal_basis,
        }
    return described


def _measures(statement: PrivacyStatement) -> Iterator[dict[str, Any]]:
    """The techniques that protect the release; none where it protects nobody."""
    if statement.mark is None:
        for number, claim in enumerate(statement.guarantees, 1):
            goal = claim.guarantee
            measure: dict[str, Any] = {
                "@type": "dpv:Deidentification",
                "@id": f"urn:cloakwork:release:{statement.release}#guarantee-{number}",
                "dct:title": goal.kind,
                "dct:description": claim.sentence,
            }
            # Only differential privacy has a term of its own, and figures that mean what they mean
            # there; what is proved of the others is in the description.
            if isinstance(goal, DifferentialPrivacy):
                measure["@type"] = "dpv:DifferentialPrivacy"
                measure |= {"epsilon": goal.epsilon, "delta": goal.delta}
            yield measure
    for treatment, (term, says) in _TREATMENTS.items():
        treated = [each.name for each in statement.released if each.treatment == treatment]
        if treated:
            yield {"@type": term, "attribute": treated, "dct:description": says}
    yield {
        "@type": "dpv:DigitalSignatures",
        "dct:description": "the statement and the released files are signed",
    }


OSCAL_VERSION: Final = "1.1.2"
_NAMESPACE: Final = uuid5(NAMESPACE_URL, "urn:cloakwork:oscal:v1")


def assessment_results(
    statement: PrivacyStatement,
    plan: Plan,
    examination: Examination,
    observed: dict[str, str] | None = None,
) -> dict[str, Any]:
    """The document, as JSON values. ``observed``: what an independent check measured on the
    release, by the sentence of the claim; figures for insiders.
    """
    release = uuid5(_NAMESPACE, statement.release)

    def ids(part: str) -> str:
        return str(uuid5(release, part))

    policy = statement.policy
    metadata = {
        "title": _line(f"Privacy of the release {policy.dataset}"),
        "last-modified": statement.issued.isoformat(),
        "version": policy.version,
        "oscal-version": OSCAL_VERSION,
        "props": [
            _property("policy", f"{policy.name}@{policy.version}"),
            _property("policy-digest", plan.policy_digest),
            _property("owner", policy.owner),
        ],
    }
    imported = {
        "href": "plan.json",
        "remarks": "The plan of the release, not an assessment plan of OSCAL's own form.",
    }
    return {
        "assessment-results": {
            "uuid": ids("document"),
            "metadata": metadata,
            "import-ap": imported,
            "results": [_result(statement, examination, observed or {}, ids)],
        }
    }


def _result(
    statement: PrivacyStatement,
    examination: Examination,
    observed: dict[str, str],
    ids: Callable[[str], str],
) -> dict[str, Any]:
    objectives = _objectives(statement)
    controls = [{"control-id": name} for name, _, _ in objectives]
    # OSCAL knows no empty list of controls.
    selection: dict[str, Any] = {"include-controls": controls} if controls else {"include-all": {}}
    found: dict[str, Any] = {
        "uuid": ids("result"),
        "title": _line(f"Release {statement.release} of {statement.policy.dataset}"),
        "description": _outcome(examination),
        "start": statement.issued.isoformat(),
        "props": [_property("release", statement.release), _property("engine", statement.engine)],
        "reviewed-controls": {
            "control-selections": [
                {"description": "The guarantees that the policy asks for.", **selection}
            ]
        },
        "observations": list(_observations(statement, examination, observed, ids)),
        "risks": [
            {
                "uuid": ids(f"risk {column.column}"),
                "title": _line(
                    f"Released without protection: {', '.join(column.names) or column.column}"
                ),
                "description": column.says,
                "statement": column.reason or column.says,
                "status": "open",
            }
            for column in statement.exposed
        ],
        "findings": [
            {
                "uuid": ids(f"finding {name}"),
                "title": name,
                "description": words,
                "target": {
                    "type": "objective-id",
                    "target-id": name,
                    "status": {"state": "satisfied" if holds else "not-satisfied"},
                },
                "related-observations": [{"observation-uuid": ids(f"observation {name}")}],
            }
            for name, words, holds in objectives
        ],
    }
    # OSCAL knows no empty list.
    return {name: value for name, value in found.items() if value != []}


def _objectives(statement: PrivacyStatement) -> list[tuple[str, str, bool]]:
    """Name, words and whether it is satisfied, of each guarantee that is given or was asked for."""
    holds = statement.mark is None
    given = [
        (f"guarantee-{number}", claim.sentence, holds)
        for number, claim in enumerate(statement.guarantees, 1)
    ]
    missing = [
        (f"unproven-{number}", goal.sentence, False)
        for number, goal in enumerate(statement.unproven, 1)
    ]
    return given + missing


def _observations(
    statement: PrivacyStatement,
    examination: Examination,
    observed: dict[str, str],
    ids: Callable[[str], str],
) -> Iterator[dict[str, Any]]:
    collected = statement.issued.isoformat()
    for number, claim in enumerate(statement.guarantees, 1):
        because = "; ".join(claim.because) or claim.sentence
        measured = observed.get(claim.sentence)
        words = because if measured is None else f"{because}. Measured: {measured}"
        # TEST where the claim was measured on the released log, EXAMINE where it was derived.
        methods = ["EXAMINE", "TEST"] if "measured" in claim.basis else ["EXAMINE"]
        yield _observation(f"guarantee-{number}", words, methods, collected, ids)
    for number, goal in enumerate(statement.unproven, 1):
        words = "; ".join(goal.why) or goal.sentence
        yield _observation(f"unproven-{number}", words, ["EXAMINE"], collected, ids)
    words = " ".join([_outcome(examination), *examination.failures])
    yield _observation("verification", words, ["TEST"], collected, ids)


def _observation(
    name: str, words: str, methods: list[str], collected: str, ids: Callable[[str], str]
) -> dict[str, Any]:
    return {
        "uuid": ids(f"observation {name}"),
        "title": name,
        "description": words,
        "methods": methods,
        "collected": collected,
    }


def _outcome(examination: Examination) -> str:
    return {
        "verified": "The release was verified: signature, files, derivation, measured guarantees.",
        "failed": "The release does NOT keep what its statement says.",
        "when-written": "The release was checked as it was written.",
        "not-examined": "The release was not verified when this was written.",
    }[examination.outcome]


def _property(name: str, value: str) -> dict[str, str]:
    return {"name": name, "ns": "urn:cloakwork:oscal", "value": _line(value)}


def _line(text: str) -> str:
    """One line that is not empty and has no space at its ends, as OSCAL wants it."""
    return " ".join(text.split()) or "-"
