"""The files of the internal report."""

from cloakwork.publishing.statement import PrivacyStatement
from cloakwork.report.html import internal_html
from cloakwork.report.model import INTERNAL_BANNER, internal_report, other_unbounded_releases
from cloakwork.run.release import Release


def internal_files(
    release: Release, statement: PrivacyStatement, writing: float
) -> dict[str, bytes]:
    """The report in the formats that the policy asks for, by file name; none where it asks for
    none.

    ``writing``: seconds that writing the log took.
    """
    formats = release.plan.policy.spec.output.report
    if not formats:
        return {}
    ledger = None if release.reservation is None else release.reservation.ledger
    others = other_unbounded_releases(ledger, statement)
    report = internal_report(release, statement, writing, others)
    banner = f"{INTERNAL_BANNER}\nRemove this folder before the release is passed on.\n"
    files = {"README.txt": banner.encode()}
    if "json" in formats:
        files["report.json"] = report.model_dump_json(by_alias=True, indent=2).encode() + b"\n"
    if "html" in formats:
        files["report.html"] = internal_html(report, others).encode()
    return files
