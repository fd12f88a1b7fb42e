"""What a report holds, one model an audience: internal (everything) and public (what the statement
says).
"""

from typing import Final, Literal

from pydantic import JsonValue

from cloakwork.base.errors import LedgerError
from cloakwork.base.facts import unit_name
from cloakwork.base.quantities import Frozen
from cloakwork.evaluation.risk_figures import RiskReport
from cloakwork.evaluation.utility import Utility
from cloakwork.ledger.ledger import Ledger
from cloakwork.mechanisms.base import Proof
from cloakwork.plan.model import Plan
from cloakwork.publishing.statement import PrivacyStatement, Statement
from cloakwork.publishing.verify import advisories_of_plan
from cloakwork.report.examined import NOT_EXAMINED, WHEN_WRITTEN, Examination
from cloakwork.report.history import LedgerView, ledger_view
from cloakwork.report.origin import RunOrigin, origin_of
from cloakwork.report.pictures import ReleasedPictures
from cloakwork.report.texts import warning_lines
from cloakwork.report.unprotected import UnprotectedGroup, unprotected_groups
from cloakwork.run.release import Release

INTERNAL_BANNER: Final = "INTERNAL: holds figures from the raw log. Never publish."

REPORT_TYPE: Final = "urn:cloakwork:report:v1"

Audience = Literal["internal", "public"]
Format = Literal["html", "json", "pdf", "dpv", "oscal", "dpia"]


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


class InternalReport(Frozen):
    """Everything known about a release, for those who may see the raw log."""

    warning: Literal["INTERNAL: holds figures from the raw log. Never publish."] = INTERNAL_BANNER
    report: Literal["urn:cloakwork:report:v1"] = REPORT_TYPE
    audience: Literal["internal"] = "internal"
    statement: PrivacyStatement
    plan: Plan
    verdicts: tuple[Finding, ...]
    source: dict[str, JsonValue]
    steps: tuple[StepFigures, ...]
    stages: dict[str, float]
    notes: tuple[str, ...]
    warnings: tuple[str, ...] = ()
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
    writes: tuple[str, ...]
    proof: Proof
    why: str


class PublicReport(Frozen):
    """What everybody may know about a release: its signed statement and its plan."""

    report: Literal["urn:cloakwork:report:v1"] = REPORT_TYPE
    audience: Literal["public"] = "public"
    statement: PrivacyStatement
    files: dict[str, str]
    keyids: tuple[str, ...]
    steps: tuple[PublicStep, ...]
    warnings: tuple[str, ...]
    advisories: tuple[str, ...] = ()
    unprotected: tuple[UnprotectedGroup, ...] = ()
    examination: Examination = NOT_EXAMINED
    pictures: ReleasedPictures | None = None


def internal_report(
    release: Release,
    statement: PrivacyStatement,
    writing: float = 0.0,
    others: int | None = None,
) -> InternalReport:
    """Everything about ``release``; figures from the raw log included. ``writing``: seconds it took
    to write the log. ``others``: as ``other_unbounded_releases`` counts them.
    """
    book = None if release.reservation is None else release.reservation.ledger
    internal = release.internal
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
        utility=Utility.model_validate(dict(internal.utility)) if internal.utility else None,
        unprotected=unprotected_groups(release.plan, statement),
        origin=origin_of(release.plan),
        ledger=ledger_view(book, release.plan, statement.release),
        examination=WHEN_WRITTEN,
    )


def other_unbounded_releases(ledger: Ledger | None, statement: PrivacyStatement) -> int | None:
    """How many other releases of the dataset, of cases or persons that may be in this one too,
    carry no DP guarantee; None where ``ledger`` does not
    know the release, or cannot be read.
    """
    if ledger is None:
        return None
    try:
        records = ledger.history(statement.policy.dataset) if ledger.exists() else ()
    except LedgerError:
        return None
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
    keyids: tuple[str, ...],
    others: int | None = None,
    *,
    examination: Examination = NOT_EXAMINED,
    pictures: ReleasedPictures | None = None,
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
        advisories=tuple(
            f"{finding}: {finding.advisory.says}" for finding in advisories_of_plan(plan)
        ),
        unprotected=unprotected_groups(plan, statement.predicate),
        examination=examination,
        pictures=pictures,
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
