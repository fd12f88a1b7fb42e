"""What is attacked, opened: a log, its file, a release folder or a packed release."""

import zipfile
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from cloakwork.base.errors import LogError, VerificationFailed
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats import read_log
from cloakwork.log.formats.source import format_by_suffix
from cloakwork.plan.model import Plan
from cloakwork.publishing.archive import unpacked
from cloakwork.publishing.dsse import read_envelope
from cloakwork.publishing.folder import (
    LOG_NAME,
    PLAN_FILE,
    STATEMENT_FILE,
    found_log,
    read_document,
)
from cloakwork.publishing.verify import read_statement


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """A log, what to call it, and what came with it, if it is a release: its plan, and its id."""

    log: EventLog
    name: str
    plan: Plan | None = None
    release: str | None = None


def opened_log(
    source: EventLog | str | Path,
    columns: dict[str, str] | None = None,
    *,
    timeless: bool = False,
) -> OpenedLog:
    """Read ``source``; raises LogError for what is neither a log nor a release. Signatures are not
    looked at: that is for ``verify``. ``timeless``: a table without a column of times has none.
    """
    if isinstance(source, EventLog):
        return OpenedLog(source, "log")
    path = Path(source)
    if path.is_dir():
        is_log = LOG_NAME.fullmatch(path.name) and (path.parent / STATEMENT_FILE).exists()
        return _of_folder(path.parent if is_log else path, path)
    if path.is_file() and zipfile.is_zipfile(path) and format_by_suffix(path) is None:
        try:
            with unpacked(path) as folder:
                return _of_folder(folder, path)
        except VerificationFailed as error:
            raise LogError(path, f"is not a packed release ({error})") from error
    if not path.is_file():
        raise LogError(path, "there is no such file or folder")
    return OpenedLog(read_log(path, columns=columns, timeless=timeless), path.name)


def _of_folder(folder: Path, named: Path) -> OpenedLog:
    files = found_log(folder, named)
    plan = _plan_in(folder)
    timeless = plan is not None and TIMESTAMPS not in plan.released
    log = read_log(files.path, timeless=timeless)
    return OpenedLog(log, named.name, plan, _id_in(folder))


def _plan_in(folder: Path) -> Plan | None:
    """The plan; None where there is none that this version can read."""
    try:
        return Plan.model_validate_json(read_document(folder / PLAN_FILE))
    except (VerificationFailed, ValidationError):
        return None


def _id_in(folder: Path) -> str | None:
    """The id that the statement states; None where there is none that this version can read."""
    try:
        envelope = read_envelope(read_document(folder / STATEMENT_FILE))
        return read_statement(envelope).predicate.release
    except VerificationFailed:
        return None
