"""``cloakwork plan``: say what would be done, what it gives, what it costs."""

import json
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cloakwork.base.errors import NotApproved, OutputError
from cloakwork.cli.options import (
    column_mapping,
    column_option,
    json_option,
    ledger_option,
    open_ledger,
    read_profile,
    require_log,
    window_option,
)
from cloakwork.cli.progress import progress, progress_of
from cloakwork.report.ledger_json import outlook_json
from cloakwork.report.screen import columns as screen_columns
from cloakwork.report.screen import print_sections

if TYPE_CHECKING:
    from cloakwork.authoring.sources import PolicySource
    from cloakwork.ledger.ledger import Ledger
    from cloakwork.plan.model import Plan
    from cloakwork.run.release import StepRecord


@click.command()
@click.argument("policy")
@click.argument("log", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write the plan here, for 'cloakwork apply'.",
)
@click.option(
    "--profile",
    type=click.Path(path_type=Path),
    help="Noisy figures of LOG that 'cloakwork profile' wrote.",
)
@column_option
@window_option
@ledger_option
@click.option(
    "--no-preview",
    is_flag=True,
    help="Do not read LOG at all: leave out what the plan would change in it.",
)
@click.option("--why", is_flag=True, help="Show the reasons as well: derivations, assumptions.")
@click.option(
    "--all", "show_all", is_flag=True, help="Show the reasons, alternatives and parameters."
)
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
@json_option
def plan(
    policy: str,
    log: Path,
    out: Path | None,
    profile: Path | None,
    columns: tuple[str, ...],
    window: str | None,
    ledger: str | None,
    no_preview: bool,
    why: bool,
    show_all: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Say what would be done with LOG under POLICY, what that gives, and what it costs.

    The plan itself follows from the policy alone. Where k-anonymity is asked for, its steps are
    also tried out on LOG, to tell how much they would change: these figures come from the raw log,
    are never part of the plan, and are not to be published. What differential privacy protects is
    never read here.
    """
    from cloakwork import api
    from cloakwork.authoring.sources import policy_source
    from cloakwork.report.plan_details import print_details
    from cloakwork.report.plan_screen import first_screen
    from cloakwork.run.run import previewable

    mapping = column_mapping(columns, log)
    source = policy_source(policy, ledger)
    measured = None if profile is None else read_profile(profile)
    made = source.plan(profile=measured, window=window)
    require_log(log, folders=True)
    book = open_ledger(ledger, tell_missing=not quiet)
    outlook = api.budget(made, ledger=book)
    if not quiet:
        _note_missing_approval(made, book)
    previewed: tuple[StepRecord, ...] = ()
    if not no_preview:
        with progress_of(made, quiet=quiet) as reporter:
            previewed = api.preview(made, log, reporter=reporter, columns=mapping or None)
    if mapping and not quiet and (no_preview or not previewable(made)):
        progress(
            f"note: {log} is not read while planning here, so --column is not checked; "
            "'cloakwork apply' checks it"
        )
    document = made.model_dump(mode="json", by_alias=True)
    if out is not None:
        _write(out, document | _made_from(source, out))
    if as_json:
        figures = {step.mechanism: dict(step.figures) for step in previewed}
        internal = {"internal": figures} if previewed else {}
        budget = {"ledger": outlook_json(outlook)}
        click.echo(json.dumps(document | budget | internal, indent=2, ensure_ascii=False))
        return
    width = screen_columns()
    if profile is not None and out is None:
        following = "this command with --out plan.json, then apply that plan"
    else:
        applied = policy if out is None else str(out)
        following = _next_command(applied, log, columns, ledger, window if out is None else None)
    print_sections(first_screen(made, log.name, previewed, outlook, width, following), width)
    if why or show_all:
        click.echo()
        print_details(made, previewed, show_all=show_all, earlier_without_bound=outlook.without_dp)
    if out is not None:
        click.echo(f"\nPlan written to {out}")


def _note_missing_approval(made: "Plan", ledger: "Ledger") -> None:
    """Say on standard error where ``apply`` would refuse the policy."""
    from cloakwork.authoring.requirement import required_approval

    try:
        required_approval(ledger, made.policy, made.policy_digest)
    except NotApproved as error:
        progress(f"note: 'cloakwork apply' refuses this so far: {error}")


def _next_command(
    source: str, log: Path, columns: tuple[str, ...], ledger: str | None, window: str | None
) -> str:
    """The command that carries the plan out; ``source``: a policy or a plan file."""
    options = [word for pair in columns for word in ("--column", pair)]
    if ledger is not None:
        options += ["--ledger", ledger]
    if window is not None:
        options += ["--window", window]
    return shlex.join(["cloakwork", "apply", source, str(log), *options, "--out", "release"])


def _made_from(source: "PolicySource", out: Path) -> dict[str, str]:
    """The policy's file as the plan names it; a version of the registry cannot change."""
    return {} if source.path is None else {"made_from": os.path.relpath(source.path, out.parent)}


def _write(out: Path, document: dict[str, Any]) -> None:
    try:
        if (out.parent / "statement.json").exists():
            raise OutputError(
                f"{out}: lies in a release, whose files are signed; name another place"
            )
        out.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")
    except OSError as error:
        raise OutputError(f"{out}: cannot be written: {error.strerror}") from error
