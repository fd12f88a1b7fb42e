"""The verbs of the Python interface, the same as the command line's."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from cloakwork.authoring.advice import lint_input, lint_log, missing_starts
from cloakwork.authoring.registry import (
    details_of,
    notes_on,
    policy_source,
    required_approval,
)
from cloakwork.base.arguments import checked
from cloakwork.base.errors import CloakworkError, LogError, first_line
from cloakwork.base.progress import Reporter, heard_by, silent
from cloakwork.engines.base import Engine
from cloakwork.engines.memory import in_memory
from cloakwork.evaluation.risk_figures import RiskReport
from cloakwork.evaluation.utility import ATTACKED, MOST_ATTACKED, KeptUtility, TimeHints
from cloakwork.ledger.ledger import BudgetForecast, Ledger
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog, rows_left_out
from cloakwork.log.formats import given_log, read_log
from cloakwork.log.formats.source import require_there
from cloakwork.mechanisms.devices import computed_on
from cloakwork.mechanisms.profile import Profile
from cloakwork.plan.budget import require_profile_params, reservation_request
from cloakwork.plan.model import Plan
from cloakwork.plan.planner import make_plan, require_window
from cloakwork.policy.advice import Advice, named_advice
from cloakwork.policy.load import digest
from cloakwork.policy.model import Policy
from cloakwork.publishing.examine import verify as verify_release
from cloakwork.publishing.keys import SigningKey
from cloakwork.publishing.keys import signing_key as find_key
from cloakwork.publishing.opened import opened_release, opened_under
from cloakwork.publishing.publish import Published, check_destination
from cloakwork.publishing.publish import pack as pack_release
from cloakwork.publishing.publish import publish as publish_release
from cloakwork.publishing.verify import Demands, Verification
from cloakwork.report.ledger_text import lowered_lines
from cloakwork.report.model import Audience
from cloakwork.report.model import Format as ReportFormat
from cloakwork.report.render import internal_files, render, render_pdf
from cloakwork.report.risk import read_risk
from cloakwork.report.texts import FOUND, open_window_line, warning_lines
from cloakwork.run.prepare import required_attributes
from cloakwork.run.reading import (
    AttributesLeft,
    choice_for,
    in_form_of,
    read_in_batches,
    read_sample,
    read_under,
    rows_or_log,
)
from cloakwork.run.requirements import require_device
from cloakwork.run.run import (
    EntryDetails,
    Release,
    Run,
    StepRecord,
    Stopwatch,
    measure,
    previewable,
)
from cloakwork.run.search_cache import SearchCache

if TYPE_CHECKING:
    from cloakwork.evaluation.compare import Comparison


# Checked here, too, for ``compare`` calls it for what stands in a list.
@checked
def load_policy(path_or_name: str | Path, *, ledger: Ledger | str | Path | None = None) -> Policy:
    """Read a policy file, a shipped policy by its name, or ``NAME@VERSION`` of the registry in
    ``ledger``; raises PolicyError with every fault found.
    """
    return policy_source(path_or_name, ledger).policy()


def apply(
    plan: Plan,
    log: object,
    *,
    ledger: Ledger | str | Path | None = None,
    reporter: Reporter = silent,
    stopwatch: Stopwatch | None = None,
    columns: dict[str, str] | None = None,
    mining_seconds: float = 0.0,
    folder: Path | None = None,
    require_approval: bool = False,
    engine: str | Engine | None = None,
    device: str = "auto",
) -> Release:
    """Run ``plan`` on ``log`` and charge ``ledger``; the release stays in memory.

    ``log``: as for ``read_log`` (a path, a ``file:`` URL, a table of one row an event), an
    EventLog, or a table of Spark.

    ``ledger``: a Ledger or its URL; by default ``CLOAKWORK_LEDGER``, else ``ledger.db`` in the
    user's data folder. ``columns``: standard name to the log's own, for CSV,
    Parquet, Excel and tables; it goes before ``spec.input.columns``.
    ``mining_seconds``: seconds that mining a process model may take, for the utility figures of the
    internal report (extra ``mining``; 0: none is mined). ``publish`` writes the release to a
    folder; until then the ledger shows it as reserved. ``folder``: which folder that will be, for
    the ledger to tell a run that was killed. What ``preview`` found on the same log is used, and
    what is found is kept, in the user's data folder unless ``CLOAKWORK_NO_CACHE`` is set.
    ``engine``: ``memory``, ``local`` (in batches on disk, for logs that do not fit into memory) or
    ``spark``, or a ``spark_engine``; by default by the size of the log. On Spark ``log`` may be the
    name of a table, ``spark:TABLE``, and ``columns`` name what numbers its rows, ``row``.
    ``device``: where networks are trained: ``cpu``, ``cuda`` (a graphics card) or ``auto``; raises
    MissingDevice, or MissingExtra without torch, before anything is charged.
    """
    # Resolve: whether it is allowed, where networks are trained, and how the log is read.
    plan = in_form_of(plan, log, columns)
    book = Ledger.of(ledger)
    approval = required_approval(
        book, plan.policy, plan.policy_digest, columns=columns, require=require_approval
    )
    require_device(plan, device, reporter)
    watch = stopwatch or Stopwatch()
    stated = plan.policy.spec.input
    starts = None if stated is None else stated.starts
    left = AttributesLeft(required_attributes(plan), starts)
    with watch.stage("read"):
        chosen = choice_for(engine, log, plan, columns, left, reporter)
    if chosen.because is not None:
        reporter(chosen.because)

    entry = EntryDetails(
        folder=folder,
        details=details_of(plan.policy, approval, columns),
        notes=chain(notes_on(plan.policy, approval, columns), left.notes()),
        require=partial(
            required_approval,
            book,
            plan.policy,
            plan.policy_digest,
            columns=columns,
            # What a release is said to rest on must still hold.
            require=require_approval or approval is not None,
        ),
    )
    # Run: the ledger is charged before the first step reads the log.
    run = Run(
        plan=plan,
        engine=chosen.engine,
        reporter=reporter,
        observers=(KeptUtility(plan, reporter, mining_seconds), TimeHints(plan)),
        searches=SearchCache.of_user(),
        watch=watch,
    )
    with computed_on(device), heard_by(reporter):
        return run.release(chosen.source, book, entry)


def release(
    policy: Policy | Plan | str | Path,
    log: object,
    out: str | Path,
    *,
    ledger: Ledger | str | Path | None = None,
    signing_key: SigningKey | str | Path | None = None,
    reporter: Reporter = silent,
    stopwatch: Stopwatch | None = None,
    columns: dict[str, str] | None = None,
    mining_seconds: float = 0.0,
    window: str | None = None,
    require_approval: bool = False,
    engine: str | Engine | None = None,
    device: str = "auto",
) -> Published:
    """Anonymize ``log`` under ``policy`` and write the release to the new folder ``out``: all that
    ``cloakwork apply`` does.

    Checks the destination, the key, the approval and the budget before the log is read; runs the
    plan; records what is about to stand where; writes the folder, whole or not at all; and commits
    the ledger's entry. ``policy``: a policy or its file, ``NAME@VERSION`` of the registry, or a
    plan; ``window``: as for ``make_plan``, and of a plan the one that it was made for; other
    arguments as for ``apply`` and ``publish``. Raises CloakworkError, or one of its kinds; whatever
    fails after the first look at the log is recorded as failed, and stays spent.
    """
    # Resolve: what is released, where to, under whose key, and whether that is allowed.
    book = Ledger.of(ledger)
    if isinstance(policy, Plan):
        require_window(policy, window)
        plan = policy
    elif isinstance(policy, Policy):
        plan = make_plan(policy, window=window)
    else:
        plan = policy_source(policy, book).plan(window=window)
    folder = Path(out)
    check_destination(folder)
    key = _signing_key(signing_key)
    required_approval(
        book, plan.policy, plan.policy_digest, columns=columns, require=require_approval
    )
    outlook = budget(plan, ledger=book)
    for warning in (*warning_lines(plan, outlook.without_dp), *lowered_lines(outlook)):
        reporter(f"warning: {warning}")
    if still_open := open_window_line(plan):
        reporter(f"warning: {still_open}")
    # Run: from here on what fails is recorded as failed, and stays spent.
    made = apply(
        plan,
        log,
        ledger=book,
        reporter=reporter,
        stopwatch=stopwatch,
        columns=columns,
        mining_seconds=mining_seconds,
        folder=folder.resolve(),
        require_approval=require_approval,
        engine=engine,
        device=device,
    )
    # Publish: the folder stands, or nothing does.
    return publish(made, folder, signing_key=key, reporter=reporter)


def budget(plan: Plan, *, ledger: Ledger | str | Path | None = None) -> BudgetForecast:
    """What a release of ``plan`` would mean for its dataset's budget; raises where ``apply`` would
    refuse. Writes nothing.
    """
    book = Ledger.of(ledger)
    return book.check(reservation_request(plan))


def profile(
    policy: Policy,
    log: object,
    *,
    ledger: Ledger | str | Path | None = None,
    reporter: Reporter = silent,
    columns: dict[str, str] | None = None,
    window: str | None = None,
) -> Profile:
    """Measure the DP profile that ``policy`` buys (``spec.profile``), charging ``ledger``;
    arguments as for ``apply``, ``window`` as for ``make_plan``. Raises PlanImpossible, before the
    log is read, where the policy buys none, and NotApproved where it lacks a required approval.
    """
    require_profile_params(policy)
    book = Ledger.of(ledger)
    required_approval(book, policy, digest(policy), columns=columns)
    if not isinstance(log, EventLog):
        reporter(f"reading {log}" if isinstance(log, str | Path) else "reading")
        activity = policy.attribute_with("control-flow")
        timestamp = policy.attribute_with("timestamp")
        # A profile counts variants and times: no other column is read.
        unit = policy.spec.unit.attribute
        needed = {CASE_ID, ACTIVITY, TIMESTAMP, activity, timestamp, unit}
        log = read_under(
            policy,
            log,
            columns=columns,
            keep=needed.__contains__,
            on_excess="drop",
            read=rows_or_log,
        )
    reporter("measuring the profile")
    approved = partial(required_approval, book, policy, digest(policy), columns=columns)
    return measure(policy, log, book, window=window, require=approved)


def preview(
    plan: Plan,
    log: object,
    *,
    reporter: Reporter = silent,
    columns: dict[str, str] | None = None,
) -> tuple[StepRecord, ...]:
    """What ``plan`` would change in ``log``: figures of the raw log, one record a step that has
    some; where no claim rests on noise, one more, ``FOUND``, of who is found in the release.

    Internal: never publish them. Empty, and the log is not read, where the plan's claims leave
    nothing to look at. What a search finds is kept for ``apply``.
    """
    # Nothing is read where nothing may be looked at.
    if not previewable(plan):
        return ()
    chosen = choice_for(None, log, plan, columns, required_attributes(plan), reporter)
    searches = SearchCache.of_user()
    run = Run(plan=plan, engine=chosen.engine, reporter=reporter, searches=searches)
    if isinstance(chosen.source, EventLog):
        for note in (*rows_left_out(chosen.source), *missing_starts(plan.policy, chosen.source)):
            reporter(f"warning: {note}")
    records = run.preview(chosen.source)
    # Whatever was noised may not be looked at before a choice; what is counted may.
    if any(claim.cost is not None for claim in plan.claims):
        return records
    if not isinstance(chosen.source, EventLog) or chosen.source.events.height > MOST_ATTACKED:
        return records
    from cloakwork.evaluation.knowledge import shares_found  # scipy loads where it is used

    source, released = map(in_memory, run.trial(chosen.source))
    found = shares_found(source, released, plan, targets=ATTACKED, reporter=reporter)
    figures: dict[str, JsonValue] = {
        f"linking/{name}": share.model_dump() for name, share in found.items()
    }
    return (*records, StepRecord(FOUND, 0.0, figures))


def advice_on_log(
    policy: Policy, log: Path, *, columns: Mapping[str, str] | None = None
) -> tuple[Advice, ...]:
    """Where ``policy`` and the log at the path ``log`` do not fit together; internal.

    ``columns``: standard name to the log's own. Raises LogError where the log cannot be read, and
    the policy's ``spec.input`` is not why.
    """
    advice = lint_input(policy, log)
    try:
        found = read_under(policy, log, columns=columns or None, read=read_sample)
    except LogError as error:
        if not advice:
            raise
        # What is to be corrected first may not be why.
        unread = Advice(("spec", "input"), f"the log is not read: {first_line(error)}")
        return (*advice, *named_advice("input-of-log", [unread]))
    return (*advice, *lint_log(policy, found))


def publish(
    release: Release,
    out: str | Path,
    *,
    signing_key: SigningKey | str | Path | None = None,
    reporter: Reporter = silent,
) -> Published:
    """Write ``release`` to the folder ``out``, all or nothing, with its signed statement and its
    internal report.

    ``signing_key``: a key, or the path of one (PEM); by default ``CLOAKWORK_SIGNING_KEY``, else
    your own.
    """
    key = _signing_key(signing_key)
    with heard_by(reporter):
        return publish_release(
            release, Path(out), signing_key=key, reporter=reporter, internal=internal_files
        )


def _signing_key(named: SigningKey | str | Path | None) -> SigningKey:
    return named if isinstance(named, SigningKey) else find_key(named)


def verify(
    path: str | Path,
    *,
    public_key: str | Path | None = None,
    expect: Mapping[str, str] | None = None,
) -> Verification:
    """Check a release, a folder or the file that ``pack`` made, and measure again what can be
    measured.

    ``public_key``: the signer's (PEM); by default your own key and those that were trusted here.
    ``expect``: what the release must be, by ``policy`` (NAME@VERSION), ``dataset`` and ``release``.
    Raises VerificationFailed with every mismatch; also where a guarantee was found void since, or
    another release was expected.
    """
    demands = Demands(tuple((expect or {}).items()))
    return verify_release(Path(path), public_key=_path(public_key), demands=demands)


def pack(
    folder: str | Path, out: str | Path, *, public_key: str | Path | None = None
) -> Verification:
    """Put the public parts of the release in ``folder`` into the new ZIP file ``out``, once they
    are verified; arguments and errors as for ``verify``.
    """
    return pack_release(Path(folder), Path(out), public_key=_path(public_key))


def _path(named: str | Path | None) -> Path | None:
    return None if named is None else Path(named)


def risk(
    original: object,
    released: object = None,
    *,
    other: object = None,
    control: object = None,
    columns: dict[str, str] | None = None,
    policy: Policy | str | Path | None = None,
    ledger: Ledger | str | Path | None = None,
    targets: int = 1000,
    seed: int = 1,
    membership: int = 0,
    employees: str | None = None,
    threshold: float | None = None,
    whole: bool = False,
    reporter: Reporter = silent,
) -> RiskReport:
    """Attack ``original``, and a release of it: how often does somebody who knows a little about a
    case find it, or learn more about it?

    ``original``: as for ``read_log``, or a release. ``released``: likewise; what its plan says of
    noise on times is used where it has one. ``other``: a second release of the same log, for the
    linking of both. ``control``: cases of the same process that are not in ``original``, as the
    control group of singling out, linkability and inference. ``original`` and ``control`` are read
    as ``policy`` says, else as the policy of the release's plan; ``columns``, as for ``read_log``,
    go before it. ``policy``: a policy, its file or name, or ``NAME@VERSION`` of the registry in
    ``ledger``. ``targets``: cases that are looked for, of more cases
    so many at random by ``seed``. ``membership``: how many releases of random halves of
    ``original`` to make by the plan of ``released``, else of ``policy``, for an attack on who is in
    the log; 0: none, else at least 20. ``employees``: the attribute of events that names who
    performed them, to bound what is told of these; by default the one that the policy protects.
    ``threshold``: the largest share of cases that may be found, what finds more is marked; by
    default ``assume.risk_threshold`` of the policy. ``whole``: logs of more than a million events
    are read into memory, too; else cases of a random sample of them are looked for in that sample,
    and, by activities and times, in all of the release, batch by batch. Shares lie between 0 and 1,
    bounds hold at 95 %. The figures are internal. Nothing is linked with a release without events,
    and a note says so. Raises LogError for what is no log, and for an ``original`` or ``control``
    without events.
    """
    from cloakwork.evaluation.risk import attack_logs  # scipy loads where it is used

    if targets < 1 or not 0 <= (threshold or 0) <= 1:
        raise CloakworkError(
            f"risk: targets must be at least 1 and threshold a share (got {targets}, {threshold})"
        )
    reporter("reading")
    source = None
    if policy is not None and not isinstance(policy, Policy):
        source = policy_source(policy, ledger)
        policy = source.policy()
    read = read_log if whole else read_sample
    named = (("released", released), ("other", other))
    releases = [
        opened_release(given_log(each, name), policy, columns, read)
        for name, each in named
        if each is not None
    ]
    plan = next((each.plan for each in releases if each.plan is not None), None)
    under = plan.policy if policy is None and plan is not None else policy
    logs = [given_log(original, "original")]
    logs += [] if control is None else [given_log(control, "control")]
    first, *others = (opened_under(each, under, columns, read) for each in logs)
    in_batches = []
    if any(each.log.sample for each in (first, *releases)) and releases:
        in_batches = [
            opened_under(logs[0], under, columns, read_in_batches).log,
            opened_release(released, policy, columns, read_in_batches).log,
        ]
    attacked_plan = releases[0].plan if releases and membership else None
    if membership and attacked_plan is None:
        if policy is None:
            raise LogError(
                "risk",
                "an attack on membership makes releases anew, and no plan says how",
                hint="name a release with its plan, or --policy POLICY",
            )
        attacked_plan = make_plan(policy) if source is None else source.plan()
    if employees is None and under is not None:
        protected = (under.facts().employees, *(goal.employees for goal in under.goals()))
        employees = next((name for name in protected if name is not None), None)
    if threshold is None and under is not None:
        threshold = under.spec.assume.risk_threshold
    found = attack_logs(
        first,
        releases,
        others[0] if others else None,
        membership=None if attacked_plan is None else (attacked_plan, membership),
        targets=targets,
        seed=seed,
        reporter=reporter,
        employees=employees,
        whole=in_batches,
    )
    return found.model_copy(update={"threshold": threshold})


def compare(
    log: object,
    policies: Policy | str | Path | Sequence[Policy | str | Path],
    *,
    sweep: Mapping[str, Iterable[str | int | float]] | Sequence[str] = (),
    ledger: Ledger | str | Path | None = None,
    columns: dict[str, str] | None = None,
    profile: Profile | None = None,
    cases: int | None = None,
    window: str | None = None,
    reporter: Reporter = silent,
) -> "Comparison":
    """What each setting guarantees, costs, and leaves of the log; the ledger notes that settings
    were compared, and is charged nothing.

    ``log``: as for ``apply``; it is not opened where a setting asks for differential privacy of
    whole units or local privacy. None: all run on an invented log, whatever they ask for.
    ``sweep``: values by the name of a guarantee's number, such as ``{"k": [5, 10]}``, or texts such
    as ``"k=5,10"``. ``profile``: one that was bought. ``cases``: how many cases the log has, where
    that is public. ``window``: as for ``make_plan``.
    Raises CloakworkError, or one of its kinds, for what concerns all settings; what concerns one
    is said there.
    """
    import cloakwork.report.comparison  # noqa: F401 - what notebooks show of it
    from cloakwork.evaluation.compare import PublicFacts, compare_settings

    book = Ledger.of(ledger)
    listed = [policies] if isinstance(policies, Policy | str | Path) else policies
    source = None if log is None else given_log(log)
    if isinstance(source, Path):
        require_there(source)
    return compare_settings(
        source,
        [each if isinstance(each, Policy) else load_policy(each, ledger=book) for each in listed],
        PublicFacts(columns, profile, cases, window),
        sweep=sweep,
        ledger=book,
        reporter=reporter,
    )


def make_report(
    folder: str | Path,
    audience: Audience = "public",
    format: ReportFormat = "html",  # noqa: A002 - the option's name
    *,
    public_key: str | Path | None = None,
    ledger: Ledger | str | Path | None = None,
    risk: RiskReport | str | Path | None = None,
) -> bytes:
    """The report of the release in ``folder`` as the content of a file: what ``cloakwork report
    --out`` writes. ``risk``: what ``cloakwork.risk`` found about this release, or the file that
    holds what ``cloakwork risk --json`` printed; for the internal report.

    Raises VerificationFailed unless the release is signed by the key in ``public_key``, else by one
    that is trusted here; OutputError where a file is missing.
    """
    book = Ledger.of(ledger)
    key = _path(public_key)
    found = read_risk(Path(risk)) if isinstance(risk, str | Path) else risk
    if format == "pdf":
        return render_pdf(Path(folder), audience, public_key=key, ledger=book, risk=found)
    text = render(Path(folder), audience, format, public_key=key, ledger=book, risk=found)
    return text.encode()


__all__ = [
    "advice_on_log",
    "apply",
    "budget",
    "check_destination",
    "compare",
    "load_policy",
    "make_plan",
    "make_report",
    "pack",
    "preview",
    "previewable",
    "profile",
    "publish",
    "read_log",
    "release",
    "risk",
    "verify",
]
