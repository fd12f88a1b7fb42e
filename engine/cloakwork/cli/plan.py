"""``cloakwork plan``: say what would be done, what it gives, what it costs; ``profile``: buy noisy
figures of a log, for planning to go by; ``apply``: anonymize a log, atomically.
"""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cloakwork.base.errors import NotApproved, OutputError
from cloakwork.base.files import require_new
from cloakwork.cli.options import (
    LOG,
    PATH,
    column_mapping,
    column_option,
    device_option,
    json_option,
    ledger_option,
    mining_option,
    open_ledger,
    policy_first,
    print_json,
    print_lines,
    progress,
    progress_of,
    quiet_option,
    require_order,
    warn_of_revocation,
    window_option,
    write_new,
)
from cloakwork.log.formats.source import require_there
from cloakwork.report.screen import columns as screen_columns
from cloakwork.report.screen import print_sections

if TYPE_CHECKING:
    from cloakwork.mechanisms.profile import Profile
    from cloakwork.run.run import StepRecord


@click.command()
@click.argument("policy", callback=policy_first)
@click.argument("log", type=PATH)
@click.option("--out", type=PATH, help="Write the plan here, for 'cloakwork apply'.")
@click.option("--profile", type=PATH, help="Noisy figures of LOG that 'cloakwork profile' wrote.")
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
@quiet_option
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
    from cloakwork.authoring.registry import policy_source, read_profile, required_approval
    from cloakwork.report.ledger_text import outlook_json
    from cloakwork.report.plan_screen import detail_lines, first_screen
    from cloakwork.run.reading import in_form_of

    # What can be refused without a look at the log is refused first.
    require_order([policy], log)
    mapping = column_mapping(columns, log)
    source = policy_source(policy, ledger)
    warn_of_revocation(source)
    measured = None if profile is None else read_profile(profile)
    made = source.plan(profile=measured, window=window)
    require_there(log)
    made = in_form_of(made, log, mapping or None)
    book = open_ledger(ledger, tell_missing=not quiet)
    outlook = api.budget(made, ledger=book)
    if not quiet:
        try:
            required_approval(book, made.policy, made.policy_digest)
        except NotApproved as error:
            progress(f"note: 'cloakwork apply' refuses this so far: {error}")
    # Figures of the raw log: shown beside the plan, never part of it.
    previewed: tuple[StepRecord, ...] = ()
    if not no_preview:
        with progress_of(made, quiet=quiet) as reporter:
            previewed = api.preview(made, log, reporter=reporter, columns=mapping or None)
    if mapping and not quiet and (no_preview or not api.previewable(made)):
        progress(
            f"note: {log} is not read while planning here, so --column is not checked; "
            "'cloakwork apply' checks it"
        )
    # The file holds the plan alone; figures and the budget are printed beside it.
    if out is not None:
        if (out.parent / "statement.json").exists():
            raise OutputError(
                f"{out}: lies in a release, whose files are signed; name another place"
            )
        write_new(out, source.saved_as(made, out), force=True)
    if as_json:
        # Figures of the raw log stand under a key of their own, apart from what may be published.
        figures = {step.mechanism: dict(step.figures) for step in previewed}
        internal = {"internal": figures} if previewed else {}
        document = made.model_dump(mode="json", by_alias=True)
        print_json(document | {"ledger": outlook_json(outlook)} | internal)
        return
    width = screen_columns()
    # The command to go on with names again what 'apply' needs as well.
    options = [word for pair in columns for word in ("--column", pair)]
    options += ["--ledger", ledger] if ledger is not None else []
    # A plan file holds its window; a policy does not hold a profile.
    options += ["--window", window] if window is not None and out is None else []
    applied = policy if out is None else str(out)
    words = ["cloakwork", "apply", applied, str(log), *options, "--out", "release"]
    following = shlex.join(words)
    # 'apply' has no --profile: what was planned with one has to be written as a plan first.
    if profile is not None and out is None:
        following = "this command with --out plan.json, then apply that plan"
    print_sections(first_screen(made, log.name, previewed, outlook, width, following), width)
    if why or show_all:
        click.echo()
        print_lines(detail_lines(made, previewed, outlook.without_dp, show_all=show_all))
    if out is not None:
        click.echo(f"\nPlan written to {out}")


@click.command()
@click.argument("policy", callback=policy_first)
@click.argument("log", type=LOG)
@click.option("--out", required=True, type=PATH, help="New file that the profile becomes.")
@column_option
@window_option
@ledger_option
@quiet_option
@json_option
def profile(
    policy: str,
    log: Path,
    out: Path,
    columns: tuple[str, ...],
    window: str | None,
    ledger: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Measure noisy figures of LOG for the share of the budget that POLICY sets under spec.profile.

    How many cases there are, how long they are, how many the most frequent variants hold, and,
    where the policy declares none, the activities. The ledger is charged. 'cloakwork plan
    --profile' reads the file; a guarantee of differential privacy made with it covers its cost too.
    """
    from cloakwork import api
    from cloakwork.authoring.registry import policy_source
    from cloakwork.report.failures import noting_remains

    require_order([policy], log)
    read = policy_source(policy, ledger).policy()
    require_there(log)
    # Everything that can refuse does so before the profile is paid for.
    require_new(out)
    # From here on the profile is paid for, whatever becomes of it.
    book = open_ledger(ledger)
    mapping = column_mapping(columns, log) or None
    with noting_remains(book, out), progress_of(quiet=quiet) as reporter:
        made = api.profile(
            read, log, ledger=book, reporter=reporter, columns=mapping, window=window
        )
    text = made.model_dump_json(indent=2)
    try:
        write_new(out, text + "\n", force=True)
    except OutputError as failure:
        failure.beside = {"profile": made.model_dump(mode="json")}
        if not as_json:
            click.echo(text)  # it is paid for: better on the terminal than lost
        raise
    if as_json:
        click.echo(text)
    else:
        print_lines(_profile_lines(made))
        click.echo(f"written to {out}")


def _profile_lines(made: "Profile") -> Iterator[str]:
    found = made.figures
    noise = made.params
    yield f"about {found.cases:,} cases (noise of scale {noise.count_scale:.4g})"
    for share, length in found.lengths.items():
        most = f"{length} events" if length is not None else "more events than the bins reach"
        yield f"  {float(share):.0%} of them have at most {most}"
    for count, held in found.top.items():
        which = f"the {count} most frequent variants hold"
        if count == "1":
            which = "the most frequent variant holds"
        yield f"  {which} about {held:,} (noise of scale {noise.top_scale:.4g})"
    if found.alphabet is not None:
        known = f"{len(found.alphabet):,}"
        yield f"  activities that at least about {noise.tau:,} cases have: {known}"
    yield (
        f"charged: epsilon {noise.epsilon:g}, delta {noise.delta:g}, "
        f"as release {made.release} of the ledger"
    )


@click.command()
@click.argument("policy_or_plan", callback=policy_first)
@click.argument("log")
@click.option(
    "--out", required=True, type=PATH, help="Folder that the release becomes; new, or empty."
)
@ledger_option
@column_option
@window_option
@click.option(
    "--engine",
    type=click.Choice(["memory", "local", "spark", "polars"]),
    help="Where the plan runs: in memory, in batches on disk (local), or on Spark; by default in "
    "memory, and a log of more than 5 million events in batches. polars is memory.",
)
@device_option
@click.option(
    "--signing-key",
    metavar="FILE",
    help="Ed25519 private key (PEM); default: $CLOAKWORK_SIGNING_KEY, else your own.",
)
@mining_option(
    help="For the internal report: mine a process model of the release and try it on LOG, "
    "for so long at most."
)
@click.option(
    "--require-approval", is_flag=True, help="Refuse a policy that the registry does not approve."
)
@quiet_option
@json_option
def apply(
    policy_or_plan: str,
    log: str,
    out: Path,
    ledger: str | None,
    columns: tuple[str, ...],
    window: str | None,
    engine: str | None,
    device: str,
    signing_key: str | None,
    mining_seconds: float,
    require_approval: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Anonymize LOG as POLICY_OR_PLAN says, and write the release to a new folder: whole, or not at
    all.

    POLICY_OR_PLAN: a policy's file, a shipped policy's name, NAME@VERSION of the registry, or a
    plan that 'cloakwork plan --out' wrote.

    LOG: a file, or a folder of files that are one log; on Spark also an address that Spark reads
    (Parquet), or spark:TABLE.
    """
    from cloakwork import api
    from cloakwork.authoring.registry import policy_source
    from cloakwork.report.failures import noting_remains
    from cloakwork.report.outcome import outcome, outcome_json

    require_order([policy_or_plan], log)
    mapping = column_mapping(columns, Path(log))
    source = policy_source(policy_or_plan, ledger)
    # Where an approval is required, the refusal says it.
    if not require_approval:
        warn_of_revocation(source)
    plan = source.plan(window=window)
    # Spark reads addresses and tables that no file of this machine is.
    if engine != "spark":
        require_there(Path(log))
    book = open_ledger(ledger)
    with noting_remains(book, out), progress_of(plan, quiet=quiet) as reporter:
        published = api.release(
            plan,
            log,
            out,
            ledger=book,
            signing_key=signing_key,
            reporter=reporter,
            columns=mapping or None,
            mining_seconds=mining_seconds,
            require_approval=require_approval,
            engine=engine,
            device=device,
        )
    if as_json:
        print_json(outcome_json(published))
        return
    print_sections(outcome(published), screen_columns())
    # A key is made once; whoever verifies needs its public half.
    if published.new_public_key is not None:
        click.echo("A signing key was made for you; give this public half to those who verify:")
        click.echo(published.new_public_key)
