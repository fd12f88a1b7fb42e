"""The public report of a release of version 0.1.0: its claims, and what was found false since."""

import json
from pathlib import Path
from typing import Final

from cloakwork.base.errors import OutputError, VerificationFailed
from cloakwork.publishing.dsse import read_envelope, read_json
from cloakwork.publishing.earlier import EarlierStatement, is_earlier
from cloakwork.publishing.folder import STATEMENT_FILE, read_document
from cloakwork.publishing.verify import Verification, verify
from cloakwork.report.html import page
from cloakwork.report.model import Audience, Format

STATUSES: Final = {
    "void": "Void",
    "open": "May be void",
    "weakened": "Weakened",
    "corrected": "Wording only",
}


def is_earlier_release(folder: Path) -> bool:
    """Whether the statement in ``folder`` is one of version 0.1.0; False for whatever else stands
    there.
    """
    try:
        return is_earlier(
            read_json(read_envelope(read_document(folder / STATEMENT_FILE)).content())
        )
    except (VerificationFailed, ValueError):
        return False


def earlier_report(
    folder: Path,
    audience: Audience,
    format: Format,  # noqa: A002
    public_key: Path | None = None,
) -> str:
    """The report as text. Raises VerificationFailed where the release is not what it says,
    OutputError for insiders.

    A release that is authentic is shown though a guarantee of it is void: the report says which.
    """
    if audience == "internal":
        raise OutputError(
            f"{folder}: was made by version 0.1.0; read its internal/report.html as it was "
            "written then"
        )
    if format not in ("html", "json"):
        raise OutputError(
            f"{folder}: was made by version 0.1.0, whose statement {format} cannot be made of; "
            "use --format html or json"
        )
    try:
        found = verify(folder, public_key=public_key)
    except VerificationFailed as failure:
        if not isinstance(failure.found, Verification):
            raise
        found = failure.found
    said = found.statement
    assert isinstance(said, EarlierStatement)  # noqa: S101 - the caller asked is_earlier_release
    if format == "json":
        return json.dumps(_as_json(found, said), indent=2, ensure_ascii=False)
    void = {finding.number for finding in found.void}
    return page("earlier.html", found=found, said=said, void=void, statuses=STATUSES)


def _as_json(found: Verification, said: EarlierStatement) -> dict[str, object]:
    findings = [
        {
            "id": each.advisory.id,
            "status": each.status,
            "concerns": each.kind,
            "says": each.advisory.says,
        }
        for each in found.advisories
    ]
    return {
        "advisories": findings,
        "statement": said.model_dump(mode="json"),
        "checks": list(found.checks),
    }
