"""What a report holds, one model an audience: internal (everything) and public (what the statement
says); among it who in the log is not protected.
"""

import math
import platform
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from functools import partial
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AwareDatetime, JsonValue, WithJsonSchema

from cloakwork.base.errors import CloakworkError, LedgerError, VerificationFailed
from cloakwork.base.facts import Unit, unit_name
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.base.naming import ACTIVITY, CASE_ID, TIMESTAMP
from cloakwork.base.quantities import Duration, Frozen
from cloakwork.base.text import listed, version_of, words_of
from cloakwork.evaluation.bounds import FigureBounds, figure_bounds
from cloakwork.evaluation.control_flow import FlowGraph, flow_graph, histogram
from cloakwork.evaluation.risk_figures import RiskReport
from cloakwork.evaluation.times import ShareCurve
from cloakwork.evaluation.utility import SeenLog, Utility, week_clock
from cloakwork.guarantees.claims import HoldsWindow
from cloakwork.ledger.account import Account
from cloakwork.ledger.declarations import declaration_of
from cloakwork.ledger.journal import Entry, EventKind
from cloakwork.ledger.ledger import Ledger, forecast_budget
from cloakwork.ledger.records import Record
from cloakwork.plan.budget import ledger_terms
from cloakwork.plan.model import Plan
from cloakwork.policy.attribute_words import NAMED, PERSON, STAFF, WHO, names_one_of
from cloakwork.publishing.examine import verify
from cloakwork.publishing.folder import (
    INTERNAL_FOLDER,
    MEASUREMENTS_FILE,
    STATEMENT_FILE,
    read_measurements,
)
from cloakwork.publishing.statement import (
    PrivacyStatement,
    PublishedCost,
    Statement,
    published_cost,
)
from cloakwork.publishing.verify import Verification, advisories_of_plan, signed_log
from cloakwork.report.outcome import little_left, useless
from cloakwork.report.texts import still_possible, warning_lines
from cloakwork.run.run import Release, tells_measurements

Lines = tuple[str, ...]
"""Sentences or names, one each."""

_STANDARD: Final = frozenset({CASE_ID, ACTIVITY, TIMESTAMP})

GroupKind = Literal["everybody", "several-cases", "other-persons", "staff", "in-values", "groups"]

_TREATMENTS: Final = {
    "keep": "their names are released as they are",
    "pseudonymise": "pseudonyms stand for them, each for one person throughout the release",
    "generalise": "groups stand for them",
    "protect": "values are changed to protect a unit, and not each of these people",
    "replace": "other values stand for them",
}


class UnprotectedGroup(Frozen):
    """People whom no guarantee of the release protects; ``columns``: where they are seen."""

    kind: GroupKind
    who: str
    says: str
    columns: Lines = ()


def unprotected_groups(plan: Plan, statement: PrivacyStatement) -> tuple[UnprotectedGroup, ...]:
    """Everybody whom the statement's guarantees do not protect, the most concerned first."""
    return tuple(_groups(plan, statement))


def _groups(plan: Plan, statement: PrivacyStatement) -> Iterator[UnprotectedGroup]:
    if not statement.guarantees or statement.mark is not None:
        yield UnprotectedGroup(
            kind="everybody", who="Everybody in the log", says="the release guarantees nothing"
        )
        return
    yield from _of_unit(statement.unit, plan)
    unit = statement.unit.attribute
    whom = "one case" if unit is None else f"one '{unit}'"
    for column in statement.released:
        words = words_of(column.name)
        # A word for a person counts only beside one that says that a name is meant.
        is_named = names_one_of(words, STAFF) or (
            names_one_of(words, PERSON) and names_one_of(words, NAMED)
        )
        # What tells of somebody, such as a country, names nobody; the unit is protected.
        if not is_named or names_one_of(words, WHO) or column.name == unit:
            continue
        yield UnprotectedGroup(
            kind="staff",
            who=f"Whoever is named in {column.name}",
            says=(
                f"{_TREATMENTS[column.treatment]}; each guarantee protects {whom}, so how often "
                "one of these people occurs, where, and with whom is not hidden"
            ),
            columns=(column.name,),
        )
    roles = {CONTROL_FLOW, METADATA, TIMESTAMPS} | _STANDARD
    kept = tuple(
        column.name
        for column in statement.released
        if column.treatment == "keep" and column.name not in roles
    )
    if kept:
        yield UnprotectedGroup(
            kind="in-values",
            who="Persons inside values",
            says=(
                f"values of {listed(kept)} are passed on as the source has them: whoever is named "
                "or described in one is told"
            ),
            columns=kept,
        )
    yield UnprotectedGroup(
        kind="groups",
        who="Groups",
        says=(
            "what is true of many at once (a ward, a firm, a family, a day) is what the release "
            "is made to tell; no guarantee about one unit hides it"
        ),
    )


def _of_unit(unit: Unit, plan: Plan) -> Iterator[UnprotectedGroup]:
    if unit.attribute is None:
        yield UnprotectedGroup(
            kind="several-cases",
            who="Persons with several cases",
            says=(
                "each guarantee protects one case by itself; what all cases of one person tell "
                "together is not hidden"
            ),
        )
        return
    if unit.level == "event":
        yield UnprotectedGroup(
            kind="other-persons",
            who="Whomever cases are about, and everybody else",
            says=(
                f"the guarantees protect each '{unit.attribute}' that events name, and others only "
                "where one says so"
            ),
        )
        return
    yield UnprotectedGroup(
        kind="other-persons",
        who=f"Everybody whom '{unit.attribute}' does not name",
        says=f"the guarantees protect each '{unit.attribute}', and nobody else in the log",
    )
    if any(isinstance(caveat, HoldsWindow) for caveat in plan.warnings):
        yield UnprotectedGroup(
            kind="several-cases",
            who=f"Each '{unit.attribute}' with cases in several windows",
            says="the guarantees hold for each window; the costs of all of them add up",
        )


class Examination(Frozen):
    """Whether the release was verified when the report was made, by which key, and what was found.

    ``outcome``: ``verified``; ``failed``, with what does not hold in ``failures``; or
    ``not-examined``, where the released log is not at hand; or ``when-written``, in the report that
    ``apply`` writes: nothing is published that fails. ``keyid`` and ``trusted``: whose key
    signed, and why it counts; None where nothing was verified.
    """

    outcome: Literal["verified", "failed", "not-examined", "when-written"]
    keyid: str | None = None
    trusted: str | None = None
    checks: Lines = ()
    failures: Lines = ()
    left_open: Lines = ()


NOT_EXAMINED: Final = Examination(outcome="not-examined")
WHEN_WRITTEN: Final = Examination(outcome="when-written")


def examined(folder: Path, public_key: Path | None) -> Examination:
    """Verify the release in ``folder`` as ``cloakwork verify`` does; what fails is told, not
    raised.
    """
    # A statement sent alone can be reported on; there is nothing to verify then.
    files = {path.name for path in folder.iterdir()} - {STATEMENT_FILE, INTERNAL_FOLDER}
    if not any(name.startswith("log.") for name in files):
        return NOT_EXAMINED
    try:
        return examination_of(verify(folder, public_key=public_key))
    except VerificationFailed as failure:
        # What was found before it failed is shown beside the failures.
        found = failure.found
        held = examination_of(found) if isinstance(found, Verification) else NOT_EXAMINED
        return held.model_copy(update={"outcome": "failed", "failures": tuple(failure.mismatches)})


def examination_of(found: Verification) -> Examination:
    """What was verified, in lines."""
    return Examination(
        outcome="verified",
        keyid=found.keyid,
        trusted=found.trusted,
        checks=found.checks,
        left_open=found.unverifiable_claims,
    )


_PACKAGES: Final = ("dp-accounting", "highspy", "numpy", "polars", "pydantic", "scipy")
"""What figures, searches and prices of a release depend on."""


class RunOrigin(Frozen):
    """Versions and platform of the run that made a release.

    ``command``: makes another release of the same plan. Its noise, order and ids are others: they
    are drawn anew, on purpose.
    """

    engine: str
    python: str
    platform: str
    packages: dict[str, str]
    command: str


def origin_of(plan: Plan) -> RunOrigin:
    """The origin of a release of ``plan`` that is made in this process."""
    window = plan.facts.release_window
    command = "cloakwork apply plan.json LOG --out NEW_FOLDER"
    packages = {}
    for name in _PACKAGES:
        # A package that is not installed took no part in the run.
        with suppress(PackageNotFoundError):
            packages[name] = version_of(name)
    return RunOrigin(
        engine=f"cloakwork {plan.engine}, in memory",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        platform=platform.platform(),
        packages=packages,
        command=command if window is None else f"{command} --window {window}",
    )


class BookAtRelease(Frozen):
    """One book of the dataset when the release was made: spent before it, by it, what may be spent
    and what was left after it. ``total`` and ``left`` are None where no total is declared.
    """

    book: str
    currency: str
    before: PublishedCost
    release: PublishedCost
    total: PublishedCost | None
    left: PublishedCost | None
    shift: Duration | None = None
    window: str | None = None


class StatedApproval(Frozen):
    """Who approved the policy of a release, when and why, as the ledger's entry says."""

    policy: str
    author: str
    approver: str
    approved_at: AwareDatetime
    reason: str
    author_keyid: str | None = None
    approver_keyid: str | None = None


class LedgerView(Frozen):
    """What the ledger knew of a release: ``earlier`` releases of the dataset, and how many
    comparisons of settings were noted before it.
    """

    books: tuple[BookAtRelease, ...]
    earlier: int
    comparisons: tuple[AwareDatetime, ...] = ()
    approval: StatedApproval | None = None


def ledger_view(ledger: Ledger | None, plan: Plan, release: str) -> LedgerView | None:
    """What ``ledger`` knows of the release with that identity; None where it does not know it, or
    cannot be read.
    """
    if ledger is None:
        return None
    dataset = plan.policy.metadata.dataset
    try:
        records = ledger.history(dataset)
        # Entries come oldest first: those before its own are from before the release.
        place = next((row for row, item in enumerate(records) if item.id == release), None)
        if place is None:
            return None
        return _view(ledger, plan, records[:place], records[place])
    # Without the ledger's part the report is still made.
    except CloakworkError:
        return None


def _view(
    ledger: Ledger,
    plan: Plan,
    before: tuple[Record, ...],
    own: Record,
) -> LedgerView:
    terms = ledger_terms(plan.policy, plan.facts.release_window)
    # The budget as it stood then: of entries from before the release alone.
    declared = declaration_of(_earlier(ledger, "dataset-declared", own), own.dataset, ledger.url)
    account = declared.bind(Account.of(before), own.charges)
    outlook = forecast_budget(before, account, own.charges, own.totals, terms)
    balances = zip(outlook.before, outlook.cost, outlook.after, strict=True)
    return LedgerView(
        books=tuple(
            BookAtRelease(
                book=after.book.name,
                currency=after.currency,
                before=PublishedCost.of(earlier.spent),
                release=PublishedCost.of(cost),
                total=published_cost(after.total),
                left=published_cost(after.left),
                shift=after.shift,
                window=after.window,
            )
            for earlier, cost, after in balances
        ),
        earlier=outlook.earlier,
        comparisons=tuple(
            datetime.fromisoformat(each.at) for each in _earlier(ledger, "compared", own)
        ),
        approval=_approval(own),
    )


def _earlier(ledger: Ledger, kind: EventKind, own: Record) -> list[Entry]:
    """Entries about the dataset from before the release was reserved."""
    entries = ledger.events(kind, dataset=own.dataset)
    return [entry for entry in entries if datetime.fromisoformat(entry.at) <= own.created_at]


def _approval(own: Record) -> StatedApproval | None:
    """The approval that the release's entry names among its details."""
    said: Any = own.details.get("approval")
    if not isinstance(said, dict):
        return None
    # What the entry does not say keeps its default; without a required field it is no approval.
    known = {name: said[name] for name in StatedApproval.model_fields if said.get(name)}
    try:
        return StatedApproval.model_validate(known)
    except ValueError:
        return None


class ReleasedPictures(Frozen):
    """The released log's most frequent steps, how long its cases take and when its events happen;
    nothing of the source: counts and shares of a source are absent or 0.
    """

    flow: FlowGraph
    curves: tuple[ShareCurve, ...]


NO_BOUNDS: Final = (
    "How accurate the release is cannot be said without the raw log: differential privacy does not "
    "cover all of it, or its noisy tables are not there."
)
MOST_SAMPLED: Final = 20_000
UNREADABLE: Final = "Its noisy tables are of a form that this version does not read."
NOTHING_TOLD: Final = "Its noisy tables hold none of the figures that are given an interval."


class ReleasedAccuracy(Frozen):
    """Between which numbers the log's own figures lie, at 90 %, by the noisy tables of the release
    alone; ``refused``: in one line why nothing is said.
    """

    figures: tuple[FigureBounds, ...] = ()
    refused: str | None = None


def released_accuracy(folder: Path, statement: Statement, plan: Plan) -> ReleasedAccuracy | None:
    """Of the release in ``folder``, whose files are the signed ones; None where its log is not
    there, or cannot be read.
    """
    from cloakwork.log.formats import read_log

    file = folder / MEASUREMENTS_FILE
    if MEASUREMENTS_FILE not in statement.digests() or not tells_measurements(plan):
        return ReleasedAccuracy(refused=NO_BOUNDS)
    signed = signed_log(folder, statement)
    if any(each.is_symlink() or not each.is_file() for each in (file, *signed.files)):
        return None
    variants = Counter[Lines]()
    timeless = TIMESTAMPS not in plan.released
    try:
        first, *others = signed.files
        read = partial(read_log, options=plan.output.options)
        log = read(first, timeless=timeless)
        variants += histogram(log)
        for each in others:
            variants += histogram(read(each, timeless=True, keep=_STANDARD.__contains__))
        # Of times and values some cases are enough.
        sample = log.slice_cases(0, min(log.case_count, MOST_SAMPLED))
        grid = plan.facts.grid.total_seconds()
        figures = figure_bounds(read_measurements(file), variants, sample, grid)
    except CloakworkError:
        return None
    # Keys are JSON, and numbers any: what of it another version wrote is not known here.
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError):
        return ReleasedAccuracy(refused=UNREADABLE)
    if not all(math.isfinite(each.high) and math.isfinite(each.low) for each in figures):
        return ReleasedAccuracy(refused=UNREADABLE)
    return ReleasedAccuracy(figures=figures, refused=None if figures else NOTHING_TOLD)


def released_pictures(folder: Path, statement: Statement, plan: Plan) -> ReleasedPictures | None:
    """Pictures of the signed log in ``folder``; None where it is not there, or cannot be read. Of
    several files one is in memory at a time: times are then those of a sample of the cases.
    """
    from cloakwork.evaluation.whole_log import time_curves
    from cloakwork.log.formats import read_log
    from cloakwork.log.formats.round_trip import FileParts

    signed = signed_log(folder, statement)
    # A link could lead to a file that was not signed: nothing is drawn then.
    if any(file.is_symlink() or not file.is_file() for file in signed.files):
        return None
    # Only the three columns that are drawn are read.
    timeless = TIMESTAMPS not in plan.released
    read = partial(read_log, timeless=timeless, keep=_STANDARD.__contains__)
    try:
        files = signed.files
        seen = SeenLog.of(read(files[0]) if len(files) == 1 else FileParts(files, read))
        log = seen.sample.log
        graph = flow_graph(log, log, variants=(seen.variants, seen.variants))
        curves = time_curves(log, log, week_clock(plan.facts))
    except CloakworkError:
        return None
    # The same log stood on both sides; what would be the source's is emptied.
    steps = tuple(
        step.model_copy(update={"source": 0, "source_median": None}) for step in graph.steps
    )
    return ReleasedPictures(
        flow=graph.model_copy(update={"steps": steps, "source_share": None}),
        curves=tuple(curve.model_copy(update={"source": ()}) for curve in curves),
    )


INTERNAL_BANNER: Final = "INTERNAL: holds figures from the raw log. Never publish."

REPORT_TYPE: Final = "urn:cloakwork:report:v1"

Audience = Literal["internal", "public"]
Format = Literal["html", "json", "pdf", "dpv", "oscal", "dpia", "dp-registry"]


class StepFigures(Frozen):
    """What one step did: seconds it took and figures from the raw log."""

    mechanism: str
    seconds: float
    figures: dict[str, JsonValue]


class Finding(Frozen):
    """Whether one claim held, and what an independent check measured."""

    sentence: str
    holds: bool
    observed: str


_PLAN: Final = {"type": "object", "title": "Plan", "description": "The plan, as in plan.json"}


class InternalReport(Frozen):
    """Everything known about a release, for those who may see the raw log; ``shortcomings``: where
    little or nothing of the log is left, as ``apply`` says it.
    """

    warning: Literal["INTERNAL: holds figures from the raw log. Never publish."] = INTERNAL_BANNER
    report: Literal["urn:cloakwork:report:v1"] = REPORT_TYPE
    audience: Literal["internal"] = "internal"
    statement: PrivacyStatement
    # The plan has a schema of its own, so that here it is only named.
    plan: Annotated[Plan, WithJsonSchema(_PLAN)]
    verdicts: tuple[Finding, ...]
    source: dict[str, JsonValue]
    steps: tuple[StepFigures, ...]
    stages: dict[str, float]
    notes: Lines
    warnings: Lines = ()
    shortcomings: Lines = ()
    still_possible: Lines = ()
    utility: Utility | None = None
    unprotected: tuple[UnprotectedGroup, ...] = ()
    origin: RunOrigin | None = None
    ledger: LedgerView | None = None
    examination: Examination = NOT_EXAMINED
    risk: RiskReport | None = None


class PublicStep(Frozen):
    """One step as outsiders may know it: the mechanism, what it writes, and whether its guarantee
    is proved.
    """

    mechanism: str
    writes: Lines
    proof: Literal["proved", "kernel", "published"]
    why: str


class PublicReport(Frozen):
    """What everybody may know about a release: its signed statement and its plan."""

    report: Literal["urn:cloakwork:report:v1"] = REPORT_TYPE
    audience: Literal["public"] = "public"
    statement: PrivacyStatement
    files: dict[str, str]
    keyids: Lines
    steps: tuple[PublicStep, ...]
    warnings: Lines
    still_possible: Lines = ()
    advisories: Lines = ()
    unprotected: tuple[UnprotectedGroup, ...] = ()
    examination: Examination = NOT_EXAMINED
    pictures: ReleasedPictures | None = None
    accuracy: ReleasedAccuracy | None = None


def internal_report(
    release: Release, statement: PrivacyStatement, writing: float = 0.0
) -> InternalReport:
    """Everything about ``release``; figures from the raw log included. ``writing``: seconds it took
    to write the log.
    """
    book = None if release.reservation is None else release.reservation.ledger
    internal = release.internal
    others = other_unbounded_releases(book, statement)
    return InternalReport(
        statement=statement,
        plan=release.plan,
        verdicts=tuple(
            Finding(sentence=verdict.claim.sentence, holds=verdict.holds, observed=verdict.observed)
            for verdict in release.verdicts
        ),
        source=dict(internal.source),
        steps=tuple(
            StepFigures(mechanism=step.mechanism, seconds=step.seconds, figures=dict(step.figures))
            for step in internal.steps
        ),
        stages={**internal.stages, "write": writing},
        notes=internal.notes,
        warnings=warning_lines(release.plan, others, which="other"),
        shortcomings=(*useless(release), *little_left(internal)),
        still_possible=tuple(still_possible(release.plan)),
        utility=Utility.model_validate(dict(internal.utility)) if internal.utility else None,
        unprotected=unprotected_groups(release.plan, statement),
        origin=origin_of(release.plan),
        ledger=ledger_view(book, release.plan, statement.release),
        examination=WHEN_WRITTEN,
    )


def other_unbounded_releases(ledger: Ledger | None, statement: PrivacyStatement) -> int | None:
    """How many other releases of the dataset, of cases or persons that may be in this one too,
    hold what no DP guarantee covers; None where ``ledger`` does not
    know the release, or cannot be read.
    """
    if ledger is None:
        return None
    try:
        records = ledger.history(statement.policy.dataset)
    except LedgerError:
        return None
    # A ledger that does not know this release tells nothing of others.
    if all(record.id != statement.release for record in records):
        return None
    window = None if statement.window is None else statement.window.name
    return sum(
        record.without_dp and record.concerns_same(window, unit_name(statement.unit))
        for record in records
        if record.id != statement.release
    )


def public_report(
    statement: Statement,
    plan: Plan,
    keyids: Lines,
    others: int | None = None,
    *,
    examination: Examination = NOT_EXAMINED,
    pictures: ReleasedPictures | None = None,
    accuracy: ReleasedAccuracy | None = None,
) -> PublicReport:
    """What ``statement`` and ``plan`` say, and what the released log shows; all of it is public.
    ``others``: as ``other_unbounded_releases`` counts them.
    """
    return PublicReport(
        statement=statement.predicate,
        files=statement.digests(),
        keyids=keyids,
        steps=public_steps(plan),
        warnings=warning_lines(plan, others, which="other"),
        still_possible=tuple(still_possible(plan)),
        advisories=tuple(
            f"{finding}: {finding.advisory.says}" for finding in advisories_of_plan(plan)
        ),
        unprotected=unprotected_groups(plan, statement.predicate),
        examination=examination,
        pictures=pictures,
        accuracy=accuracy,
    )


def public_steps(plan: Plan) -> tuple[PublicStep, ...]:
    """The steps of a plan as outsiders may know them."""
    return tuple(
        PublicStep(
            mechanism=step.mechanism,
            writes=tuple(sorted(step.lineage.writes)),
            proof=step.proof,
            why=step.why,
        )
        for step in plan.steps
    )


REPORT_SCHEMA: Final = "report-v1.json"
