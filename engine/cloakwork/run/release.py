"""A release: a log for which every claim of its plan holds. It cannot exist otherwise."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from cloakwork.base.costs import PrivacyEvent
from cloakwork.base.notebook_html import listing, paragraph, shown, table
from cloakwork.kernel import Answer
from cloakwork.ledger.ledger import Reservation
from cloakwork.log.eventlog import LogHandle
from cloakwork.plan.model import Claim, Plan
from cloakwork.plan.sentences import exposed_lines, unproven_sentence
from cloakwork.policy.model import describe_version


def tells_measurements(plan: Plan) -> bool:
    """Whether a release of ``plan`` may tell the answers that its log was made of."""
    return plan.bounded and not plan.unproven


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether one claim holds for this release; ``observed`` says what an independent check
    measured, if one could.
    """

    claim: Claim
    holds: bool
    observed: str


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What one step did: its seconds, and figures of the raw log. Internal, never published.

    ``recorded``: the noise really drawn, as the kernel recorded it; None where the step measures
    nothing. ``answers``: what it answered, which is not internal where the plan's claim covers it.
    """

    mechanism: str
    seconds: float
    figures: Mapping[str, JsonValue]
    recorded: PrivacyEvent | None = None
    answers: tuple[Answer, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Internal:
    """Everything measured on the raw log; goes into the internal report only.

    ``source``: name of the log file, counts, what the reader noted. ``stages``: seconds by stage
    (read, steps, write). ``utility``: how much of the control flow is left
    (``cloakwork.evaluation.utility.Utility`` as data); empty where no step rewrites it.
    """

    source: Mapping[str, JsonValue]
    steps: tuple[StepRecord, ...]
    stages: Mapping[str, float]
    notes: tuple[str, ...] = ()
    utility: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Release:
    """An anonymized log with its plan and one verdict for each claim.

    ``release_id``: the ledger's row; ``ledger_entry``: the digest of its reservation there, None
    without a ledger. ``reservation``: what ``publish`` tells the ledger by; the ledger shows it as
    reserved until then. ``private``: False when a fixed seed was used (tests only; stamped NOT
    PRIVATE). Raises ValueError where a claim has no verdict, or one that does not hold, and where
    nothing is claimed at all unless the plan says what is unproven instead.
    """

    log: LogHandle
    plan: Plan
    verdicts: tuple[Verdict, ...]
    release_id: str
    internal: Internal
    private: bool = True
    ledger_entry: str | None = None
    reservation: Reservation | None = field(default=None, repr=False, compare=False)

    @property
    def recorded(self) -> dict[int, PrivacyEvent]:
        """What the kernel recorded of each step that measures, by its place in the plan."""
        records = enumerate(record.recorded for record in self.internal.steps)
        return {place: event for place, event in records if event is not None}

    @property
    def measurements(self) -> tuple[Answer, ...]:
        """The answers that may be told beside the log: those that a claim of differential privacy
        over all that is released is charged for. None where the plan has no such claim, or a seed
        is known.

        Such a claim counts all noise per unit of the release (``derived_at_cost``), whichever goal
        its step serves, so telling answers instead of what was made of them costs nothing (Dwork
        and Roth 2014, proposition 2.1). What is charged for units with the same cases and other
        values is not among them.
        """
        if not (self.private and tells_measurements(self.plan)):
            return ()
        steps = zip(self.plan.steps, self.internal.steps, strict=False)
        covered = (
            record
            for step, record in steps
            if step.currency == "unit" and not step.lineage.is_given_flow
        )
        return tuple(answer for record in covered for answer in record.answers)

    def _repr_html_(self) -> str:
        claims = [
            (verdict.claim.guarantee.kind, verdict.claim.sentence, verdict.observed)
            for verdict in self.verdicts
        ]
        counts = f"{self.log.case_count:,} cases, {self.log.event_count:,} events"
        where = "In memory: publish() writes it to a folder, signed."
        title = f"Release {self.release_id} of {describe_version(self.plan.policy)}"
        unproven = listing("Unproven", map(unproven_sentence, self.plan.unproven))
        return shown(
            title if self.private else f"{title}: NOT PRIVATE, drawn from a fixed seed",
            paragraph(f"{counts}. {where}"),
            unproven,
            table(("guarantee", "says", "checked"), claims),
            listing("Not protected", exposed_lines(self.plan)),
        )

    def __post_init__(self) -> None:
        # By identity: two claims may say the same.
        held = {id(verdict.claim) for verdict in self.verdicts if verdict.holds}
        if any(id(claim) not in held for claim in self.plan.claims):
            raise ValueError("a release exists only where every claim of its plan holds")
        if not self.plan.claims and not self.plan.unproven:
            raise ValueError("a release claims something, or says what is unproven")
