"""What ``cloakwork risk --json`` printed, for the report of the release that it attacked."""

from pathlib import Path
from typing import Final

from pydantic import ValidationError

from cloakwork.base.errors import OutputError
from cloakwork.evaluation.risk_figures import RiskReport
from cloakwork.report.model import Audience, Format

WITH_RISK: Final[tuple[Format, ...]] = ("html", "pdf", "json", "dpia")
"""The formats that hold the figures of an attack."""

_LARGEST: Final = 64 * 2**20
"""Bytes: an attack is a few hundred of them."""
_AGAIN: Final = "write it with: cloakwork risk LOG DIR --json > FILE"


def read_risk(path: Path) -> RiskReport:
    """The document in ``path``; raises OutputError where it is none."""
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except OSError as error:
        raise OutputError(f"{path}: cannot be read ({error.strerror})") from error
    if len(content) > _LARGEST:
        raise OutputError(f"{path}: is too large for what cloakwork risk prints")
    try:
        return RiskReport.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = " ".join(".".join(str(part) for part in first["loc"]).split())
        fault = f"{place}: {first['msg']}" if place else first["msg"]
        raise OutputError(
            f"{path}: is not what cloakwork risk --json prints ({fault}); {_AGAIN}"
        ) from error


def require_internal(audience: Audience, format_: Format) -> None:
    """Raise OutputError where a report for this audience, or of this format, holds no figures of
    an attack.
    """
    if audience != "internal":
        raise OutputError(
            "figures of an attack are read off the raw log: use --risk with --audience internal"
        )
    if format_ not in WITH_RISK:
        raise OutputError(
            f"{format_} holds no figures of an attack: use --risk with --format "
            f"{', '.join(WITH_RISK[:-1])} or {WITH_RISK[-1]}"
        )


def require_of_release(risk: RiskReport, release: str) -> None:
    """Raise OutputError unless the attacked release states the id ``release``."""
    if risk.release == release:
        return
    if risk.release is None:
        what = "does not say which release was attacked: name the release's folder, no log file"
    else:
        what = f"is of the release {risk.release}, and this one is {release}"
    raise OutputError(f"the risk document {what}; {_AGAIN}")
