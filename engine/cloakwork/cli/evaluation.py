"""``cloakwork compare``, ``audit`` and ``risk``: settings beside each other, whether a mechanism
keeps its claim, what a release keeps of its source, and what somebody who knows a little finds.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from cloakwork.base.errors import CloakworkError, LogError
from cloakwork.base.progress import Reporter, heard_by
from cloakwork.base.quantities import LEAST_DELTA, LEAST_EPSILON, MOST_EPSILON
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
    print_json,
    print_lines,
    progress_of,
    quiet_option,
    require_order,
    require_source_first,
    window_option,
)
from cloakwork.log.formats.source import require_there
from cloakwork.mechanisms.devices import computed_on
from cloakwork.report.screen import columns as screen_columns

if TYPE_CHECKING:
    from cloakwork.evaluation.dp_audit import CanaryAudit
    from cloakwork.evaluation.pairs import PairAudit
    from cloakwork.plan.model import Plan

EXCEEDED: Final = 5


@click.command()
@click.argument("policies", nargs=-1, required=True, metavar="POLICY...")
@click.argument("log", type=LOG)
@click.option(
    "--sweep",
    "sweeps",
    multiple=True,
    metavar="NAME=VALUES",
    help="Values of a guarantee's number, e.g. k=5,10,20 or epsilon=.5,1,2; several options give "
    "every combination.",
)
@click.option(
    "--cases",
    type=click.IntRange(min=1),
    help="How many cases LOG has, where that is public: for a stand-in.",
)
@click.option(
    "--profile",
    type=PATH,
    help="Noisy figures of LOG that 'cloakwork profile' wrote: for a stand-in.",
)
@click.option("--html", type=PATH, help="Write the comparison here as a page, too.")
@column_option
@window_option
@ledger_option
@device_option
@click.option("--all", "show_all", is_flag=True, help="Show everything that is taken for granted.")
@quiet_option
@json_option
def compare(
    policies: tuple[str, ...],
    log: Path,
    sweeps: tuple[str, ...],
    cases: int | None,
    profile: Path | None,
    html: Path | None,
    columns: tuple[str, ...],
    window: str | None,
    ledger: str | None,
    device: str,
    show_all: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Compare settings of each POLICY: what they guarantee, and what they leave of LOG.

    Nothing is released or charged; the ledger notes that settings were compared. Where one of them
    asks for differential privacy of whole units, or for local privacy, all are tried on a stand-in,
    a log invented from what the policies declare, and LOG is not opened: choosing by noisy runs of
    LOG would void the guarantee. Otherwise they are tried on LOG, with invented times where noise
    is to protect these; such figures are internal.
    """
    from cloakwork import api
    from cloakwork.authoring.registry import read_profile
    from cloakwork.report.comparison import comparison_html, print_comparison
    from cloakwork.report.render import check_file, write_file

    require_order(policies, log)
    mapping = column_mapping(columns, log) or None
    book = open_ledger(ledger)
    read = [api.load_policy(each, ledger=book) for each in policies]
    paid_for = None if profile is None else read_profile(profile)
    require_there(log)
    # A page that cannot be written is told before minutes are spent.
    if html is not None:
        check_file(html)
    training = computed_on(device)
    with progress_of(quiet=quiet) as reporter, training:
        found = api.compare(
            log,
            read,
            sweep=sweeps,
            ledger=book,
            columns=mapping,
            profile=paid_for,
            cases=cases,
            window=window,
            reporter=reporter,
        )
    if html is not None:
        # The page may hold figures of the raw log: it is readable by its owner alone.
        write_file(html, comparison_html(found, log.name).encode(), private=True)
    if as_json:
        click.echo(found.model_dump_json(indent=2))
        return
    print_comparison(found, log.name, screen_columns(), show_all=show_all)
    if html is not None:
        click.echo(f"\nPage written to {html}")


@click.group()
def audit() -> None:
    """Test a mechanism's claim by running it many times, or compare a release with its source."""


@audit.command(short_help="Compare RELEASE with SOURCE: how much of the log is left.")
@click.argument("source", type=LOG)
@click.argument("release", type=PATH)
@column_option
@mining_option(
    help="Mine a process model of RELEASE and try it on SOURCE, for this long at most, and say "
    "which cases look ordinary (extra: mining)."
)
@quiet_option
@json_option
def utility(
    source: Path,
    release: Path,
    columns: tuple[str, ...],
    mining_seconds: float,
    quiet: bool,
    as_json: bool,
) -> None:
    """Compare RELEASE, a release folder, a packed release or a log, with the log SOURCE, which it
    was made from: how much is left.

    The figures of the internal report, without a plan; times and attributes as distributions.
    SOURCE is read as the policy of RELEASE says; --column goes before it. Of more than a million
    events times and attributes are those of a random sample, and a note says so. They read the raw
    log: never publish them, and choose no release by them.
    """
    from cloakwork.evaluation.utility import measured
    from cloakwork.publishing.opened import opened_log, opened_under
    from cloakwork.report.comparison import utility_lines
    from cloakwork.run.reading import read_in_batches

    require_source_first(source, release)
    require_there(source)
    # A release that is not there is told before the source is read.
    require_there(release)
    mapping = column_mapping(columns, source)
    with progress_of(quiet=quiet) as reporter:
        reporter("reading both logs")
        after = opened_log(release, read=read_in_batches)
        if after.plan is None:
            before = opened_log(source, mapping, read=read_in_batches)
        else:
            try:
                before = opened_under(source, after.plan.policy, mapping, read_in_batches)
            except LogError as error:
                raise LogError(
                    source,
                    f"{error.problem.message} (read as the policy of {release} says)",
                    hint="name the log that it was made from; --column goes before its policy",
                ) from error
        reporter("comparing them")
        found = measured(before.log, after.log, seconds=mining_seconds)
    if as_json:
        click.echo(found.model_dump_json(indent=2))
    else:
        print_lines(utility_lines(found, screen_columns()))


@audit.command(short_help="Audit the differential privacy of MECHANISM.")
@click.argument("mechanism")
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="The claim to test.")
@click.option(
    "--delta",
    type=float,
    default=1e-3,
    show_default=True,
    help="The claim's delta; times have none. Small ones cannot be told from 0 by few runs.",
)
@click.option(
    "--runs",
    type=click.IntRange(min=10),
    default=1000,
    show_default=True,
    help="Runs on each log of each pair; canaries are asked as often, or ten times as often.",
)
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the mechanism, as under a policy's parameters; VALUE is JSON or a word.",
)
@click.option("--log", type=PATH, help="The log that a canary is in; by default a made-up one.")
@click.option("--policy", help="A canary of its plan alone; by default of a plan made for the log.")
@column_option
@device_option
@quiet_option
@json_option
@click.pass_context
def dp(
    context: click.Context,
    mechanism: str,
    epsilon: float,
    delta: float,
    runs: int,
    options: tuple[str, ...],
    log: Path | None,
    policy: str | None,
    columns: tuple[str, ...],
    device: str,
    quiet: bool,
    as_json: bool,
) -> None:
    """Audit the differential privacy of MECHANISM: how large must epsilon be, given what it puts
    out on the worst neighbouring logs that we can name, and how well its noisy answers tell a log
    with a case more (a canary) from the log without it?

    Nothing is released or charged. Exit code 5: the claim is exceeded. An audit that passes proves
    nothing; how many runs see what, is in the documentation (audit).
    """
    from cloakwork.evaluation.dp_audit import audit_steps
    from cloakwork.evaluation.one_mechanism import plan_for
    from cloakwork.evaluation.pairs import audit_mechanism, auditable, canary_log
    from cloakwork.mechanisms.registry import catalogue
    from cloakwork.plan.sentences import proof_in_words
    from cloakwork.report.risk import audit_json, audit_lines, canary_lines

    if mechanism not in catalogue():
        raise click.UsageError(
            f"there is no mechanism '{mechanism}'; to audit there are {', '.join(auditable())}"
        )
    # Numbers that no audit can test are refused before the first of many runs.
    if not (LEAST_EPSILON <= epsilon <= MOST_EPSILON and (delta == 0 or LEAST_DELTA <= delta < 1)):
        raise click.UsageError(
            f"epsilon must be between {LEAST_EPSILON:g} and {MOST_EPSILON:g}, "
            f"delta 0, or at least {LEAST_DELTA:g} and below 1"
        )
    chosen = _options(options)
    training = computed_on(device)
    found: tuple[PairAudit, ...] = ()
    canaries: list[CanaryAudit] = []
    unseen = None
    with progress_of(quiet=quiet) as reporter, heard_by(reporter), training:
        source, made = _log_and_plan(log, policy, columns, reporter)
        # What serves a part of a goal alone claims nothing by itself.
        if made is None and catalogue()[mechanism].gives:
            found = audit_mechanism(
                mechanism, epsilon=epsilon, delta=delta, runs=runs, options=chosen
            )
        try:
            source = source or canary_log()
            plan = made or plan_for(mechanism, source, epsilon, delta, chosen)
            canaries = audit_steps(plan, source, mechanism, runs)
        except CloakworkError as error:
            if not found:
                raise
            unseen = str(error)
    # One pair that exceeds the claim is enough: the claim is about all.
    passed = all(item.result.passed for item in found) and all(each.passed for each in canaries)
    proof = catalogue()[mechanism].proof
    if as_json:
        claim = {"mechanism": mechanism, "options": chosen, "proof": proof, "epsilon": epsilon}
        pairs = [audit_json(item) for item in found]
        told = {"canaries": [asdict(each) for each in canaries], "no_canaries": unseen}
        print_json(claim | {"runs": runs, "passed": passed, "pairs": pairs} | told)
    else:
        click.echo(f"{mechanism} ({proof_in_words(proof)})")
        print_lines(audit_lines(found, screen_columns()))
        print_lines(canary_lines(canaries, unseen, screen_columns()))
    if not passed:
        known = "; only its paper claims so" if proof == "published" else ""
        click.echo(
            f"{mechanism}: audit failed: it does not keep epsilon {epsilon:g}{known}", err=True
        )
        context.exit(EXCEEDED)


def _log_and_plan(
    log: Path | None, policy: str | None, columns: tuple[str, ...], reporter: Reporter
) -> "tuple[Any, Plan | None]":
    """What an audit is about: the log as the policy reads it, and the plan; None where none is
    named.
    """
    from cloakwork.authoring.registry import policy_source
    from cloakwork.publishing.opened import opened_under

    made = None if policy is None else policy_source(policy).plan()
    if log is None:
        return None, made
    require_there(log)
    reporter(f"reading {log}")
    under = None if made is None else made.policy
    return opened_under(log, under, column_mapping(columns, log)).log, made


@audit.command(short_help="Audit what MECHANISM asks of neighbouring logs.")
@click.argument("mechanism")
@click.option("--log", type=PATH, help="The log that it is asked about; by default a made-up one.")
@click.option("--policy", help="Audit the step of its plan; by default of a plan made for the log.")
@column_option
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Random neighbours of the log.",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@quiet_option
@json_option
@click.pass_context
def replay(
    context: click.Context,
    mechanism: str,
    log: Path | None,
    policy: str | None,
    columns: tuple[str, ...],
    runs: int,
    seed: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """Record what MECHANISM asks of a log, and repeat it on neighbouring logs, which get the same
    answers.

    The next question must then be the same one, and what is behind it must move by no more than is
    charged. Exit code 5: it is not so. An audit that passes proves nothing. Nothing is released or
    charged; what is printed may come from the raw log: keep it inside.
    """
    from cloakwork.evaluation.one_mechanism import plan_for
    from cloakwork.evaluation.pairs import whole_log_pairs
    from cloakwork.mechanisms.registry import catalogue
    from cloakwork.run.replay import NotCovered, replayed_steps

    if mechanism not in catalogue():
        raise click.UsageError(f"there is no mechanism '{mechanism}'")
    with progress_of(quiet=quiet or as_json) as reporter:
        source, made = _log_and_plan(log, policy, columns, reporter)
        source = source or whole_log_pairs()[0].a
        plan = made or plan_for(mechanism, source)
        reporter("making a trial release")
        found = replayed_steps(plan, source, mechanism)
        faults: list[dict[str, str]] = []
        used = 0.0
        for step in found:
            for number, (what, neighbour) in enumerate(step.neighbours(runs, seed), start=1):
                reporter(f"neighbour {number} of {runs}")
                try:
                    used = max(used, step.replayed_on(neighbour))
                except NotCovered as fault:
                    faults.append({"neighbour": what, "fault": str(fault)})
    questions = sum(step.charged for step in found)
    compared = sum(step.compared for step in found)
    if as_json:
        told = {"mechanism": mechanism, "runs": runs, "questions": questions, "used": used}
        print_json(told | {"compared": compared, "passed": not faults, "faults": faults})
    else:
        click.echo(
            f"{mechanism}: {questions:,} questions on {runs:,} neighbours of the log; the sums "
            f"behind {compared:,} of them were compared"
        )
        if compared:
            click.echo(f"they moved by {100 * used:.0f} % of what is charged at most")
        for each in faults[:5]:
            click.echo(f"  {each['neighbour']}: {each['fault']}")
        if not faults:
            within = ", and what was compared within the charge" if compared else ""
            click.echo(f"audit passed: the same questions{within}; no proof")
    if faults:
        click.echo(f"{mechanism}: audit failed on {len(faults):,} neighbours", err=True)
        context.exit(EXCEEDED)


def _options(pairs: tuple[str, ...]) -> dict[str, Any]:
    """``NAME=VALUE`` pairs; a value that is no JSON is a text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not (name and sign and value) or name in found:
            raise click.BadParameter(
                f"'{pair}' is not NAME=VALUE, each name once", param_hint="--option"
            )
        # Brackets that are nested too deep end in a RecursionError: such a value is a text, too.
        try:
            found[name] = json.loads(value)
        except (ValueError, RecursionError):
            found[name] = value
    return found


@click.command(short_help="Attack a log, and a release of it.")
@click.argument("original", type=LOG)
@click.argument("release", type=PATH, required=False)
@click.option("--other", type=PATH, help="A second release of ORIGINAL: link RELEASE with it.")
@click.option(
    "--control",
    type=PATH,
    help="Cases of the same process that are not in ORIGINAL: the control group of singling out, "
    "linkability and inference.",
)
@click.option(
    "--policy",
    metavar="POLICY",
    help="How ORIGINAL is read: a file, a shipped policy or NAME@VERSION; by default the policy of "
    "RELEASE.",
)
@column_option
@click.option(
    "--targets",
    type=click.IntRange(min=10),
    default=1000,
    show_default=True,
    help="Cases that are looked for; of more cases, so many at random.",
)
@click.option(
    "--membership",
    type=click.IntRange(min=20),
    metavar="RUNS",
    help="Attack who is in ORIGINAL, too: by RUNS releases of random halves of it, made by the "
    "plan of RELEASE, else of --policy.",
)
@click.option(
    "--employees",
    metavar="ATTRIBUTE",
    help="Bound what is told of employees, whom this attribute of events names, such as "
    "org:resource; by default those that the policy protects.",
)
@click.option(
    "--threshold",
    type=click.FloatRange(min=0, max=1, min_open=True),
    metavar="SHARE",
    help="The largest share of cases that may be found, such as .09: what finds more is marked; by "
    "default assume.risk_threshold of the policy.",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@click.option(
    "--whole",
    is_flag=True,
    help="Read logs of more than a million events into memory, too, for all attacks.",
)
@click.option("--html", type=PATH, help="Write all attacks, with drawings, to this file.")
@click.option("--all", "show_all", is_flag=True, help="Show every attack.")
@quiet_option
@ledger_option
@json_option
def risk(
    original: Path,
    release: Path | None,
    other: Path | None,
    control: Path | None,
    policy: str | None,
    columns: tuple[str, ...],
    targets: int,
    membership: int | None,
    employees: str | None,
    threshold: float | None,
    seed: int,
    whole: bool,
    html: Path | None,
    show_all: bool,
    quiet: bool,
    ledger: str | None,
    as_json: bool,
) -> None:
    """Attack the log ORIGINAL, and RELEASE of it: a release folder, a packed release, or a log.

    How often is a case found, or more learned about it, by somebody who knows some of its events,
    when it started, or some attributes? Before and after, with bounds at 95 %. ORIGINAL is read as
    the policy of RELEASE says, or --policy; --column goes before it. Of more than a million events
    a random sample of the cases is attacked by itself, and up to 100 are linked with all of RELEASE
    by activities and times; notes say so. The figures read the raw log: never publish them.
    """
    # Options that need another one are refused before anything is read.
    if other is not None and release is None:
        raise click.UsageError("--other names a second release: name the first, RELEASE, too")
    require_source_first(original, release)
    require_there(original)
    mapping = column_mapping(columns, original)
    from cloakwork.api import risk as assess
    from cloakwork.report.render import check_file, write_file
    from cloakwork.report.risk import risk_page, risk_screen

    # A page that cannot be written is told before the attacks begin.
    if html is not None:
        check_file(html)
    with progress_of(quiet=quiet) as reporter, heard_by(reporter):
        found = assess(
            original,
            release,
            other=other,
            control=control,
            columns=mapping,
            policy=policy,
            ledger=ledger,
            targets=targets,
            seed=seed,
            membership=membership or 0,
            employees=employees,
            threshold=threshold,
            whole=whole,
            reporter=reporter,
        )
    if html is not None:
        # Figures of the raw log: the page is readable by its owner alone.
        write_file(html, risk_page(found).encode(), private=True)
    if as_json:
        click.echo(found.model_dump_json(indent=2))
    else:
        print_lines(risk_screen(found, screen_columns(), show_all=show_all))
