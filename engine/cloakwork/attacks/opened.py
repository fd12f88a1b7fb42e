"""What is attacked, opened: a log, its file, a release folder or a packed release."""

import zipfile
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from cloakwork.errors import LogError, VerificationFailed
from cloakwork.log.eventlog import EventLog
from cloakwork.log.io import read_log
from cloakwork.log.io.source import format_by_suffix
from cloakwork.plan.model import Plan
from cloakwork.publishing.archive import LOG_NAME, unpacked
from cloakwork.publishing.folder import PLAN_FILE, read_document


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """A log, what to call it, and the plan that came with it, if one did."""

    log: EventLog
    name: str
    plan: Plan | None = None


def opened_log(source: EventLog | str | Path, columns: dict[str, str] | None = None) -> OpenedLog:
    """Read ``source``; raises LogError for what is neither a log nor a release. Signatures are not
    looked at: that is for ``verify``.
    """
    if isinstance(source, EventLog):
        return OpenedLog(source, "log")
    path = Path(source)
    if path.is_dir():
        return _of_folder(path, path)
    if path.is_file() and zipfile.is_zipfile(path) and format_by_suffix(path) is None:
        try:
            with unpacked(path) as folder:
                return _of_folder(folder, path)
        except VerificationFailed as error:
            raise LogError(path, f"is not a packed release ({error})") from error
    if not path.is_file():
        raise LogError(path, "there is no such file or folder")
    return OpenedLog(read_log(path, columns=columns), path.name)


def _of_folder(folder: Path, named: Path) -> OpenedLog:
    logs = sorted(path for path in folder.iterdir() if LOG_NAME.fullmatch(path.name))
    if len(logs) != 1:
        hint = "name a release folder, or the log file itself"
        raise LogError(named, f"holds {len(logs)} logs where a release has one", hint=hint)
    return OpenedLog(read_log(logs[0]), named.name, _plan_in(folder))


def _plan_in(folder: Path) -> Plan | None:
    """The plan; None where there is none that this version can read."""
    try:
        return Plan.model_validate_json(read_document(folder / PLAN_FILE))
    except (VerificationFailed, ValidationError):
        return None
