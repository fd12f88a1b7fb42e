"""The verbs of the Python interface, the same as the command line's."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import JsonValue

from cloakwork.accounting.ledger import Ledger, Outlook
from cloakwork.execute import Stopwatch, execute, foreseeable, measure, told_apart, wanted
from cloakwork.execute import foresee as foresee_on
from cloakwork.lineage import CONTROL_FLOW
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, CASE_PREFIX, TIMESTAMP, EventLog
from cloakwork.log.io import read_log
from cloakwork.mechanisms.profile import Profile, bought
from cloakwork.plan.budget import terms
from cloakwork.plan.model import Plan
from cloakwork.plan.planner import make_plan
from cloakwork.policy.load import load_policy
from cloakwork.policy.model import Policy, describe_version
from cloakwork.progress import Reporter, silent
from cloakwork.release_model import Release, StepRecord
from cloakwork.report.keys import SigningKey
from cloakwork.report.keys import signing_key as find_key
from cloakwork.report.publish import Published, check_destination
from cloakwork.report.publish import publish as publish_release
from cloakwork.report.verify import Verification
from cloakwork.report.verify import verify as verify_release


def apply(
    plan: Plan,
    log: EventLog | str | Path,
    *,
    ledger: Ledger | str | None = None,
    reporter: Reporter = silent,
    stopwatch: Stopwatch | None = None,
    columns: dict[str, str] | None = None,
    mine: float = 0.0,
    folder: Path | None = None,
) -> Release:
    """Run ``plan`` on ``log`` (an EventLog, or the path of one) and charge ``ledger``; the release stays in memory.

    ``ledger``: a Ledger or its URL; by default ``CLOAKWORK_LEDGER``, else ``ledger.db`` in the user's data folder.
    ``columns``: standard name to the file's own, for CSV and Parquet. ``mine``: seconds that mining a process model may
    take, for the utility figures of the internal report (extra ``mining``; 0: none is mined). ``publish`` writes the
    release to a folder; until then the ledger shows it as reserved. ``folder``: which folder that will be, for the
    ledger to tell a run that was killed.
    """
    book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    watch = stopwatch or Stopwatch()
    if not isinstance(log, EventLog):
        reporter(f"reading {log}")
        with watch.stage("read"):
            log = _read(log, plan, columns)

    def compare(plan: Plan, source: EventLog, released: EventLog) -> Mapping[str, JsonValue]:
        return _utility(plan, source, released, reporter, mine)

    return execute(plan, log, book, reporter=reporter, stopwatch=watch, compare=compare, folder=folder)


def release(
    policy: Policy | Plan | str | Path,
    log: EventLog | str | Path,
    out: str | Path,
    *,
    ledger: Ledger | str | None = None,
    signing_key: SigningKey | str | Path | None = None,
    reporter: Reporter = silent,
    stopwatch: Stopwatch | None = None,
    columns: dict[str, str] | None = None,
    mine: float = 0.0,
) -> Published:
    """Anonymize ``log`` under ``policy`` and write the release to the new folder ``out``: all that ``cloakwork apply`` does.

    Checks the destination, the key and the budget before the log is read; runs the plan; records what is about to stand
    where; writes the folder, whole or not at all; and commits the ledger's entry. ``policy``: a policy or its file, or a
    plan; other arguments as for ``apply`` and ``publish``. Raises CloakworkError, or one of its kinds; whatever fails
    after the first look at the log is recorded as failed, and stays spent.
    """
    plan = (
        policy if isinstance(policy, Plan) else make_plan(policy if isinstance(policy, Policy) else load_policy(policy))
    )
    book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    folder = Path(out)
    check_destination(folder)
    key = signing_key if isinstance(signing_key, SigningKey) else find_key(signing_key)
    budget(plan, ledger=book)
    for warning in plan.warnings:
        reporter(f"warning: {warning}")
    target = folder.resolve()
    made = apply(
        plan,
        log,
        ledger=book,
        reporter=reporter,
        stopwatch=stopwatch,
        columns=columns,
        mine=mine,
        folder=target,
    )
    return publish(made, folder, signing_key=key, reporter=reporter)


def budget(plan: Plan, *, ledger: Ledger | str | None = None) -> Outlook:
    """What a release of ``plan`` would mean for its dataset's budget; raises where ``apply`` would refuse. Writes nothing."""
    book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    meta = plan.policy.metadata
    return book.check(
        meta.dataset,
        charges=plan.charges,
        terms=terms(plan.policy),
        policy=describe_version(plan.policy),
        policy_digest=plan.policy_digest,
    )


def profile(
    policy: Policy,
    log: EventLog | str | Path,
    *,
    ledger: Ledger | str | None = None,
    reporter: Reporter = silent,
    columns: dict[str, str] | None = None,
) -> Profile:
    """Measure the DP profile that ``policy`` buys (``spec.profile``), charging ``ledger``; arguments as for ``apply``.

    Raises PlanImpossible, before the log is read, where the policy buys none.
    """
    bought(policy)
    book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    if not isinstance(log, EventLog):
        reporter(f"reading {log}")
        activity, timestamp = policy.attribute_with("control-flow"), policy.attribute_with("timestamp")
        unit = policy.spec.unit.attribute
        needed = {CASE_ID, ACTIVITY, TIMESTAMP, activity, timestamp, unit}
        text = frozenset(name for name in (unit, activity or ACTIVITY) if name is not None)
        log = read_log(log, columns=columns, keep=needed.__contains__, text=text)
    reporter("measuring the profile")
    return measure(policy, log, book)


def _utility(
    plan: Plan, source: EventLog, released: EventLog, reporter: Reporter, mine: float
) -> Mapping[str, JsonValue]:
    """How much of the control flow is left, for the internal report if there will be one.

    Whatever goes wrong here is noted there: the release is made, paid for, and does not depend on it.
    """
    rewritten = any(CONTROL_FLOW in step.lineage.writes for step in plan.steps)
    if not (rewritten and plan.policy.spec.output.report):
        return {}
    from cloakwork.audit.utility import Utility, measured

    reporter("measuring utility, for the internal report only")
    try:
        figures = measured(source, released, seconds=mine)
    except Exception as error:
        figures = Utility(notes=(f"utility was not measured: {error or type(error).__name__}".partition("\n")[0],))
    return figures.model_dump(mode="json")


def foresee(
    plan: Plan,
    log: EventLog | str | Path,
    *,
    reporter: Reporter = silent,
    columns: dict[str, str] | None = None,
) -> tuple[StepRecord, ...]:
    """What ``plan`` would change in ``log``: figures of the raw log, one record a step that has some.

    Internal: never publish them. Empty, and the log is not read, where the plan's claims leave nothing to look at.
    """
    if not foreseeable(plan):
        return ()
    if not isinstance(log, EventLog):
        reporter(f"reading {log}")
        log = _read(log, plan, columns)
    return foresee_on(plan, log, reporter=reporter)


def _read(path: str | Path, plan: Plan, columns: dict[str, str] | None) -> EventLog:
    """The log without the attributes that the plan does not need; their names go into its notes, which stay inside.

    A reader may ask about a name both as a case's and as an event's attribute, so names are noted without the prefix.
    """
    needed, left = wanted(plan), set[str]()

    def keep(attribute: str) -> bool:
        if needs := needed(attribute):
            return needs
        left.add(attribute.removeprefix(CASE_PREFIX))
        return False

    log = read_log(path, columns=columns, keep=keep, text=told_apart(plan))
    names = sorted(left - {ACTIVITY, TIMESTAMP})
    return replace(log, notes=(*log.notes, f"attributes that were not read: {', '.join(names) or 'none'}"))


def publish(
    release: Release,
    out: str | Path,
    *,
    signing_key: SigningKey | str | Path | None = None,
    reporter: Reporter = silent,
) -> Published:
    """Write ``release`` to the folder ``out``, all or nothing, with its signed statement and its internal report.

    ``signing_key``: a key, or the path of one (PEM); by default ``CLOAKWORK_SIGNING_KEY``, else your own.
    """
    key = signing_key if isinstance(signing_key, SigningKey) else find_key(signing_key)
    return publish_release(release, Path(out), signing_key=key, reporter=reporter)


def verify(folder: str | Path, *, public_key: str | Path | None = None) -> Verification:
    """Check a release folder against its signed statement, and measure again what can be measured.

    ``public_key``: the signer's (PEM); by default a key that signed here before. Raises VerificationFailed with every
    mismatch.
    """
    return verify_release(Path(folder), public_key=None if public_key is None else Path(public_key))


__all__ = [
    "apply",
    "budget",
    "check_destination",
    "load_policy",
    "make_plan",
    "publish",
    "read_log",
    "release",
    "verify",
]
