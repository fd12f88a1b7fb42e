"""Options that several commands share."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from cloakwork.authoring.registry import is_reference
from cloakwork.authoring.sources import policy_source
from cloakwork.base.errors import CloakworkError, LogError, PlanMoved, PlanUnsound
from cloakwork.cli.progress import progress
from cloakwork.log.formats.options import ROLES, ROW_NUMBER, standard_name
from cloakwork.mechanisms.devices import DEVICES
from cloakwork.mechanisms.profile import Profile
from cloakwork.plan.model import Plan
from cloakwork.plan.policies import load_policy
from cloakwork.plan.prove import replan, require_window

if TYPE_CHECKING:
    from cloakwork.ledger.ledger import Ledger

LEDGER_HELP: Final = (
    "Budget ledger: a database address or a file; default: $CLOAKWORK_LEDGER, "
    "else ledger.db in your data folder."
)
ledger_option = click.option("--ledger", metavar="URL", help=LEDGER_HELP)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document and nothing else."
)
column_option = click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME=COLUMN",
    help="Which column of a table holds what: case=PatientNo, activity=Step, timestamp=At, or "
    "case:NAME=COLUMN for an attribute of cases; row=COLUMN: what numbers the rows.",
)


window_option = click.option(
    "--window",
    metavar="WINDOW",
    help="Of a policy with budget.windows: which window's cases, e.g. 2026-10.",
)

device_option = click.option(
    "--device",
    type=click.Choice(DEVICES),
    default="auto",
    show_default=True,
    help="Where networks are trained, if a step does that: auto takes a graphics card where there "
    "is one.",
)


def column_mapping(pairs: tuple[str, ...], log: Path) -> dict[str, str]:
    """``NAME=COLUMN`` pairs as a mapping from full name to the file's own; only the name of
    ``log`` is looked at.
    """
    if pairs and log.name.lower().endswith((".xes", ".xes.gz")):
        raise click.UsageError("--column is for tables; XES names its attributes itself")
    found: dict[str, str] = {}
    for pair in pairs:
        name, sign, column = pair.partition("=")
        if not (name and sign and column):
            raise click.BadParameter(f"'{pair}' is not NAME=COLUMN", param_hint="--column")
        full = name if name == ROW_NUMBER else standard_name(name)
        if full is None:
            raise click.BadParameter(
                f"'{name}' is none of {', '.join((*ROLES, *ROLES.values()))}, {ROW_NUMBER}, "
                "case:NAME",
                param_hint="--column",
            )
        if column in found.values():
            raise click.BadParameter(f"the column '{column}' is named twice", param_hint="--column")
        found[full] = column
    return found


def open_ledger(url: str | None, *, tell_missing: bool = False) -> "Ledger":
    """The ledger at ``url``, or the usual one; says on standard error what a user may not expect of
    it.

    ``tell_missing``: whether to say that there is none yet, for commands that only look. That one
    is made is always said.
    """
    from cloakwork.ledger.ledger import Ledger

    ledger = Ledger(url, notice=progress)
    if tell_missing and not ledger.exists():
        progress(f"note: there is no ledger at {ledger.url} yet: nothing is spent there")
    return ledger


def require_log(log: Path, *, folders: bool = False) -> None:
    """Raise LogError unless ``log`` is a file or, with ``folders``, a folder; it is not opened."""
    if log.is_dir():
        if folders:
            return
        raise LogError(log, "is a folder; name the log file in it")
    if not log.is_file():
        raise LogError(log, "there is no such file")


def plan_from(source: str, window: str | None = None, ledger: "Ledger | str | None" = None) -> Plan:
    """A plan from a plan file (JSON), or made from a policy file, a shipped policy's name or
    NAME@VERSION of the registry in ``ledger``, for ``window``.
    """
    if Path(source).suffix != ".json" or is_reference(source):
        return policy_source(source, ledger).plan(window=window)
    plan = read_plan(Path(source))
    require_window(plan, window)
    return plan


def read_plan(path: Path) -> Plan:
    """Read a plan that ``cloakwork plan --out`` wrote; refuse it when its policy has moved on
    since.
    """
    from pydantic import ValidationError

    try:
        document = json.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise CloakworkError(f"{path}: cannot be read as a plan: {_first_line(error)}") from error
    if not isinstance(document, dict):
        raise CloakworkError(
            f"{path}: is not a plan; make one with 'cloakwork plan POLICY LOG --out plan.json'"
        )
    made_from = document.pop("made_from", None)
    # 'plan --json' prints figures of the raw log and of the ledger beside the plan.
    for beside in ("internal", "ledger"):
        document.pop(beside, None)
    try:
        plan = Plan.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise CloakworkError(
            f"{path}: is not a plan of this version: {where}: {first['msg']}; plan again"
        ) from error
    _still_the_same(path, made_from, plan)
    try:
        return replan(plan)
    except PlanUnsound as error:
        raise PlanMoved(
            f"{path}: states what does not follow from its policy ({_short(str(error))}); "
            "plan again"
        ) from error


def read_profile(path: Path) -> Profile:
    """Read a profile that ``cloakwork profile`` wrote; raises CloakworkError where it is none."""
    from pydantic import ValidationError

    try:
        return Profile.model_validate_json(path.read_bytes())
    except OSError as error:
        raise CloakworkError(f"{path}: cannot be read as a profile: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise CloakworkError(
            f"{path}: is not a profile of this version: {where}: {first['msg']}"
        ) from error


def _still_the_same(path: Path, made_from: Any, plan: Plan) -> None:
    """Refuse a plan whose policy file says something else by now. A policy that is not there cannot
    have moved.
    """
    from cloakwork.policy.load import digest

    if not isinstance(made_from, str) or not (policy_file := path.parent / made_from).is_file():
        return
    if digest(load_policy(policy_file)) != plan.policy_digest:
        raise PlanMoved(
            f"{path}: the policy {made_from} has changed since this plan was made; plan again"
        )


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:197] + "..."


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
