"""What is attacked, opened: a log, its file, a release folder or a packed release."""

import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cloakwork.base.errors import LogError, VerificationFailed
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.log.formats.reading import given_log, read_log
from cloakwork.log.formats.source import format_by_suffix, is_pattern, require_there
from cloakwork.plan.model import Plan
from cloakwork.policy.model import Policy
from cloakwork.publishing.folder import (
    LOG_NAME,
    PLAN_FILE,
    STATEMENT_FILE,
    found_log,
    read_document,
    unpacked,
)
from cloakwork.publishing.keys import read_envelope
from cloakwork.publishing.verify import read_statement
from cloakwork.run.reading import OpenedLog, read_under


def opened_log(
    source: object,
    columns: dict[str, str] | None = None,
    *,
    timeless: bool = False,
    read: Callable[..., Any] = read_log,
) -> OpenedLog:
    """Read ``source``, a release or what ``read_log`` takes; raises LogError for what is neither.
    Signatures are not looked at: that is for ``verify``. ``timeless``: a table without a column of
    times has none. ``read``: as for ``read_under``.
    """
    path = given_log(source)
    if not isinstance(path, Path):
        return OpenedLog(read_log(path, columns=columns), "log")
    # What tells a release's folder of parts from another folder is the statement beside it.
    is_log = LOG_NAME.fullmatch(path.name) and (path.parent / STATEMENT_FILE).exists()
    if path.is_dir() and (is_log or _is_release(path)):
        return _of_folder(path.parent if is_log else path, path, read)
    # By its bytes, as a packed release has whatever name its sender gave it.
    if path.is_file() and zipfile.is_zipfile(path) and format_by_suffix(path) is None:
        try:
            with unpacked(path) as folder:
                return _of_folder(folder, path, read)
        except VerificationFailed as error:
            raise LogError(path, f"is not a packed release ({error})") from error
    require_there(path)
    return OpenedLog(read(path, columns=columns, timeless=timeless), path.name)


def opened_release(
    source: object,
    policy: Policy | None,
    columns: dict[str, str] | None,
    read: Callable[..., Any] = read_log,
) -> OpenedLog:
    """A release, or a log in its place: as it stands, and under ``policy`` where a log file cannot
    be read so.
    """
    try:
        return opened_log(source, timeless=True, read=read)
    except LogError as error:
        if not is_log_file(source):
            raise
        if policy is None:
            raise _naming_policy(error) from error
        return opened_under(source, policy, columns, read)


def opened_under(
    source: object,
    policy: Policy | None,
    columns: dict[str, str] | None,
    read: Callable[..., Any] = read_log,
) -> OpenedLog:
    """A log that is no release, read as ``policy`` says, if there is one; ``columns`` go before
    it.
    """
    path = Path(source) if isinstance(source, str | Path) else None
    if policy is not None and (path is None or is_log_file(path)):
        name = "log" if path is None else path.name
        return OpenedLog(read_under(policy, source, columns=columns, read=read), name)
    try:
        return opened_log(source, columns, read=read)
    except LogError as error:
        if not is_log_file(source):
            raise
        raise _naming_policy(error) from error


def _naming_policy(error: LogError) -> LogError:
    """The same error, which says that a policy may know how the log is read."""
    problem = error.problem
    hint = "name the policy that says how this log is read: --policy POLICY"
    if problem.hint:
        hint = f"{problem.hint}; --policy POLICY names the policy that it is read by"
    return LogError(problem.path, problem.message, line=problem.line, hint=hint)


def is_log_file(source: object) -> bool:
    """Whether a policy may say how this is read; a log and a release stand for themselves."""
    if not isinstance(source, str | Path):
        return False
    path = Path(source)
    if path.is_dir():
        return not _is_release(path)
    is_packed = format_by_suffix(path) is None and zipfile.is_zipfile(path)
    return is_pattern(path) or (path.is_file() and not is_packed)


def _is_release(folder: Path) -> bool:
    return any((folder / name).exists() for name in (STATEMENT_FILE, PLAN_FILE))


def _of_folder(folder: Path, named: Path, read: Callable[..., Any]) -> OpenedLog:
    files = found_log(folder, named)
    # Neither is there where this version cannot read it.
    plan: Plan | None = None
    release: str | None = None
    with suppress(VerificationFailed, ValidationError):
        plan = Plan.model_validate_json(read_document(folder / PLAN_FILE))
    with suppress(VerificationFailed):
        envelope = read_envelope(read_document(folder / STATEMENT_FILE))
        release = read_statement(envelope).predicate.release
    timeless = plan is not None and TIMESTAMPS not in plan.released
    options = None if plan is None else plan.output.options
    log = read(files.path, timeless=timeless, options=options)
    return OpenedLog(log, named.name, plan, release)
