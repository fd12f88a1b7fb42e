"""A policy file becomes a Policy, or a list of faults with line and column, in file order, all at
once.

>>> parse_policy("kind: PrivacyPolicy\\n")
Traceback (most recent call last):
...
cloakwork.errors.PolicyError: policy.yaml:1:1: apiVersion is missing
policy.yaml:1:1: metadata is missing
policy.yaml:1:1: spec is missing
"""

import hashlib
import json
from collections.abc import Collection
from pathlib import Path

from pydantic import ValidationError

from cloakwork.errors import FileProblem, PolicyError
from cloakwork.policy.meaning import contradictions
from cloakwork.policy.model import KNOWN_MECHANISMS, Policy
from cloakwork.policy.syntax import Document, Fault, Steps, dotted, read_document, read_text
from cloakwork.policy.wording import Finding, findings


def load_policy(path: str | Path, *, mechanisms: Collection[str] | None = None) -> Policy:
    """Read a policy file; raises PolicyError with every fault found.

    ``mechanisms`` are the mechanism names that the policy may speak of; all that version 1 knows
    unless given.
    """
    return parse_policy(read_text(Path(path)), str(path), mechanisms=mechanisms)


def parse_policy(
    text: str, path: str = "policy.yaml", *, mechanisms: Collection[str] | None = None
) -> Policy:
    """Read a policy from text; ``path`` is what the errors call it."""
    document = read_document(text, path)
    known = KNOWN_MECHANISMS if mechanisms is None else frozenset(mechanisms)
    found = list(contradictions(document.content, known))
    policy = None
    try:
        policy = Policy.model_validate(document.content)
    except ValidationError as error:
        spoken = {_whole(finding.steps) for finding in found}
        shape = findings(error, document.content)
        found += [finding for finding in shape if not _covered(finding, spoken)]
    faults = [*document.faults, *(_fault(document, finding) for finding in found)]
    if policy is None or faults:
        raise PolicyError(_problems(faults, path) or [FileProblem(path, "is not a policy")])
    return policy


def digest(policy: Policy) -> str:
    """SHA-256 over the canonical JSON of a policy: independent of comments, order of keys and
    formatting.
    """
    return hashlib.sha256(canonical(policy).encode()).hexdigest()


def canonical(policy: Policy) -> str:
    """The policy as JSON with sorted keys and no spaces, defaults written out."""
    content = policy.model_dump(mode="json", by_alias=True)
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _whole(steps: Steps) -> Steps:
    """A list of exposures is judged as a whole: pydantic reads it as a mapping, and names other
    paths.
    """
    return (
        steps[:2]
        if steps[:2] == ("spec", "expose") and len(steps) > 2 and isinstance(steps[2], int)
        else steps
    )


def _covered(finding: Finding, spoken: set[Steps]) -> bool:
    """Whether something better was said already about the same value or its parent."""
    return any(finding.steps[:length] in spoken for length in range(len(finding.steps) + 1))


def _fault(document: Document, finding: Finding) -> Fault:
    where = dotted(finding.steps[:-1] if finding.of_key else finding.steps)
    link = ": " if finding.of_key else "" if finding.message.startswith(":") else " "
    message = f"{where}{link}{finding.message}" if where else finding.message.lstrip(": ")
    return Fault(document.place(finding.steps, of_key=finding.of_key), message, finding.hint)


def _problems(faults: list[Fault], path: str) -> list[FileProblem]:
    """One problem a fault, in file order, none twice."""
    unique = dict.fromkeys(sorted(faults, key=lambda fault: fault.place))
    return [
        FileProblem(path, fault.message, fault.place.line, fault.place.column, fault.hint)
        for fault in unique
    ]
