"""A policy to begin with: a shipped one, or the template of a sector, as a file of one's own."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cloakwork.authoring.suggestion import with_questions
from cloakwork.base.errors import PolicyError
from cloakwork.plan.policies import parse_policy
from cloakwork.policy.document import in_quotes
from cloakwork.policy.load import list_templates, shipped, template_text
from cloakwork.policy.semantics import STILL_OPEN

SCHEMA_FILE: Final = "privacy-policy-v1.json"


def template_policy(template: str, out: Path, header: Mapping[str, str | None]) -> str:
    """The text of a policy for ``out``, from the template of a sector; what ``header`` leaves open
    stays the question that the template asks.
    """
    return _with_header(_starter(template_text(template), out), header)


def shipped_policy(name: str, out: Path, header: Mapping[str, str | None]) -> str:
    """The text of a policy for ``out``, from a shipped one; what ``header`` leaves open becomes a
    question. An example's legal basis is nobody else's.
    """
    text = _starter((shipped("policies") / f"{name}.yaml").read_text("utf-8"), out)
    return re.sub(r"(?m)^  legalBasis: .*\n", "", _with_header(text, with_questions(header)))


def sectors() -> tuple[tuple[str, str], ...]:
    """The templates, each with what it says of itself in its first comment."""
    found = []
    for name in list_templates():
        lines = template_text(name).splitlines()
        comments = [line.lstrip("# ").strip() for line in lines if line.startswith("#")]
        # The first comment may be a line for editors.
        said = (line for line in comments if line and not line.startswith("yaml-language"))
        found.append((name, next(said)))
    return tuple(found)


def questions_of(text: str, out: Path) -> int:
    """How many questions the policy holds; raises PolicyError for what is wrong beside them."""
    try:
        parse_policy(text, str(out))
    except PolicyError as error:
        # Open questions are faults of the policy, too: only the others are told.
        wrong = [problem for problem in error.problems if STILL_OPEN not in problem.message]
        if wrong:
            raise PolicyError(wrong) from None
        return len(error.problems)
    return 0


def _starter(text: str, out: Path) -> str:
    """The text named after its file, with the schema expected beside it."""
    schema = r"(?m)^(# yaml-language-server: \$schema=).*$"
    text = re.sub(schema, rf"\g<1>{SCHEMA_FILE}", text, count=1)
    name = re.sub(r"[^a-z0-9._-]+", "-", out.name.split(".")[0].lower()).lstrip("._-")[:100]
    return re.sub(r"(?m)^(  name: )[a-z0-9._-]+", rf"\g<1>{name or 'policy'}", text, count=1)


def _with_header(text: str, header: Mapping[str, str | None]) -> str:
    """``text`` with what was said of it in its lines of metadata, each without its comment."""
    for field, value in header.items():
        if value is not None:
            # What a replacement obeys may stand in the value: backslashes are escaped.
            line = f"  {field}: {in_quotes(value)}".replace("\\", r"\\")
            text = re.sub(rf"(?m)^  {field}: .*$", line, text, count=1)
    return text
