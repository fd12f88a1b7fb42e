"""A policy file becomes a Policy, or a list of faults with line and column, in file order, all at
once. And where the policies and schemas lie that come with Cloakwork.

>>> parse_policy("kind: PrivacyPolicy\\n", "policy.yaml", NO_MECHANISMS)
Traceback (most recent call last):
...
cloakwork.base.errors.PolicyError: policy.yaml:1:1: apiVersion is missing
policy.yaml:1:1: metadata is missing
policy.yaml:1:1: spec is missing
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from pydantic import ValidationError

from cloakwork.base.errors import Cause, FileProblem, PolicyError
from cloakwork.policy.document import (
    Document,
    Fault,
    ShapeError,
    Steps,
    did_you_mean,
    dotted_path,
    read_document,
    read_text,
)
from cloakwork.policy.model import Policy
from cloakwork.policy.semantics import Vocabulary, semantic_faults
from cloakwork.policy.validation_messages import translate_errors


def load_policy(path: str | Path, vocabulary: Vocabulary) -> Policy:
    """Read a policy file; raises PolicyError with every fault found."""
    return parse_policy(read_text(Path(path)), str(path), vocabulary)


def parse_policy(text: str, path: str, vocabulary: Vocabulary) -> Policy:
    """Read a policy from text; ``path`` is what the errors call it, ``vocabulary`` what it may say
    of mechanisms. Raises PolicyError with every fault found.
    """
    document = read_document(text, path)
    # Faults of meaning first: where both speak of one value, they say it better than pydantic.
    found = list(semantic_faults(document.content, vocabulary))
    policy = None
    try:
        policy = Policy.model_validate(document.content)
    except ValidationError as error:
        reported = {_as_whole_list(finding.steps) for finding in found}
        for finding in translate_errors(error, document.content):
            # Unless something better was said already about the same value or its parent.
            parents = (finding.steps[:length] for length in range(len(finding.steps) + 1))
            if reported.isdisjoint(parents):
                found.append(finding)
    faults = [*document.faults, *(_placed_fault(document, finding) for finding in found)]
    if policy is None or faults:
        # In file order, none twice.
        problems = [
            FileProblem(path, fault.message, fault.place.line, fault.place.column, fault.hint)
            for fault in dict.fromkeys(sorted(faults, key=lambda fault: fault.place))
        ]
        raise PolicyError(problems or [FileProblem(path, "is not a policy")])
    return policy


def placed_causes(causes: Iterable[Cause], text: str, path: str) -> list[Cause]:
    """The causes of a refusal, each that says where with its line and column in the policy's text;
    ``path`` is what errors call it.
    """
    document = read_document(text, path)
    placed = []
    for cause in causes:
        if cause.where:
            line, column = document.place(cause.where)
            placed.append(replace(cause, path=path, line=line, column=column))
        else:
            placed.append(cause)
    return placed


def digest(policy: Policy) -> str:
    """SHA-256 over the canonical JSON of a policy: independent of comments, order of keys and
    formatting.
    """
    return hashlib.sha256(canonical(policy).encode()).hexdigest()


def canonical(policy: Policy) -> str:
    """The policy as JSON with sorted keys and no spaces, defaults written out."""
    content = policy.model_dump(mode="json", by_alias=True)
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _as_whole_list(steps: Steps) -> Steps:
    """The path of the whole list: pydantic reads a list of exposures as a mapping."""
    in_list = steps[:2] == ("spec", "expose") and len(steps) > 2 and isinstance(steps[2], int)
    return steps[:2] if in_list else steps


def _placed_fault(document: Document, finding: ShapeError) -> Fault:
    """A fault with its position in the file; the message begins with the path."""
    where = dotted_path(finding.steps[:-1] if finding.of_key else finding.steps)
    link = " "
    if finding.of_key:
        link = ": "
    elif finding.message.startswith(":"):
        link = ""
    message = f"{where}{link}{finding.message}"
    if not where:
        message = finding.message.lstrip(": ")
    place = document.place(finding.steps, of_key=finding.of_key)
    return Fault(place, message, finding.hint)


_PACKAGE: Final = Path(__file__).resolve().parent.parent


def shipped(kind: Literal["policies", "schemas"]) -> Path:
    """The folder that holds what is shipped.

    In a wheel it lies inside the package, in a checkout at the root of the repository.
    """
    inside = _PACKAGE / kind
    return inside if inside.is_dir() else _PACKAGE.parent.parent / kind


def list_policies() -> list[str]:
    """Names of the shipped policies, in alphabetical order."""
    return sorted(path.stem for path in shipped("policies").glob("*.yaml"))


def list_templates() -> list[str]:
    """Names of the templates, one a sector, in alphabetical order: policies with open questions."""
    return sorted(path.stem for path in (shipped("policies") / "templates").glob("*.yaml"))


def template_text(name: str) -> str:
    """A template by its name, as it stands in its file."""
    return (shipped("policies") / "templates" / f"{name}.yaml").read_text("utf-8")


def resolve_policy(name_or_path: str | Path) -> Path:
    """Where a policy lies: a path that exists, or a plain word that is a shipped policy's name."""
    path = Path(name_or_path)
    name = str(name_or_path)
    looks_like_a_name = not path.suffix and path.name == name
    # A file that exists comes before a shipped policy of the same name.
    if looks_like_a_name and not path.exists():
        return shipped_path(name)
    return path


def shipped_path(name: str) -> Path:
    """Where the shipped policy of this name lies; raises PolicyError where there is none."""
    known = list_policies()
    if name not in known:
        message = f"no policy of this name is shipped{did_you_mean(name, known)}"
        hint = "'cloakwork policy list' shows them"
        raise PolicyError([FileProblem(name, message, hint=hint)])
    return shipped("policies") / f"{name}.yaml"
