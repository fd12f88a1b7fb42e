"""Does a signed plan say what its statement says, and can its claims be derived again?"""

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Final

from cloakwork.base.costs import Composed, PrivacyEvent, charges_anything
from cloakwork.base.errors import CloakworkError, PlanMoved, PlanUnsound, first_line
from cloakwork.base.records import stated
from cloakwork.kernel import Books
from cloakwork.plan.model import Claim, Plan, Step
from cloakwork.publishing.folder import PLAN_FILE, STATEMENT_FILE, Check
from cloakwork.publishing.from_plan import statement_of
from cloakwork.publishing.log_files import LogFiles
from cloakwork.publishing.statement import PrivacyStatement

_UNPROVABLE: Final = (PlanUnsound, CloakworkError, ValueError, TypeError, LookupError)
"""What is raised while a plan is proved that nobody could have made: unknown steps, parameters,
goals.
"""


def derive_again(log: LogFiles, plan: Plan, predicate: PrivacyStatement) -> Iterator[Check]:
    """The checks that need no look into the log: its format, the statement's records, the proof."""
    yield check_format(log.path, plan.policy.spec.output.format)
    yield from _check_statement(plan, predicate)
    yield from _check_recorded(plan, predicate)
    yield _check_proof(plan)


def check_format(log: Path, planned: str) -> Check:
    """Whether the log's file, or its folder of parts, has the format that its plan names."""
    as_planned = log.name == f"log.{planned}"
    verb = "is in" if as_planned else "is not in"
    return Check(as_planned, f"{log.name}: {verb} the format of the plan")


def _check_statement(plan: Plan, predicate: PrivacyStatement) -> Iterator[Check]:
    """Whether the statement says of the plan what a statement of this plan would say."""
    expected = statement_of(
        plan,
        predicate.release,
        released=predicate.released,
        private=predicate.mark is None,
        ledger_entry=predicate.ledger_entry,
        issued=predicate.issued,
        recorded=_recorded_by_place(plan, predicate),
    )
    # Sentences are not compared: ``stated`` leaves them out.
    different = [
        name
        for name in PrivacyStatement.model_fields
        if stated(getattr(expected, name)) != stated(getattr(predicate, name))
    ]
    for name in different:
        yield Check(False, f"{STATEMENT_FILE}: '{name}' is not what {PLAN_FILE} says")
    if not different:
        yield Check(
            True, f"{PLAN_FILE}: policy, guarantees, exposed columns and budget are the statement's"
        )


def _recorded_by_place(plan: Plan, predicate: PrivacyStatement) -> dict[int, PrivacyEvent]:
    """What the statement says that steps of the plan recorded."""
    return {row.step: row.recorded for row in predicate.recorded if row.step < len(plan.steps)}


def _check_recorded(plan: Plan, predicate: PrivacyStatement) -> Iterator[Check]:
    """Whether each step that measures recorded something, and no more than its plan lists.

    That fewer answers were given than planned is no fault: a mechanism may stop early.
    """
    charged = {place for place, step in enumerate(plan.steps) if charges_anything(step.event)}
    measuring = {place for place in charged if _asks_a_kernel(plan.steps[place])}
    recorded = _recorded_by_place(plan, predicate)
    if not measuring <= recorded.keys() <= charged:
        yield Check(
            False, f"{STATEMENT_FILE}: what was recorded is not of the steps that {PLAN_FILE} lists"
        )
        return
    beyond = [place for place in recorded if not _fits(recorded[place], plan.steps[place].event)]
    for place in beyond:
        name = plan.steps[place].mechanism
        yield Check(
            False, f"{STATEMENT_FILE}: {name} recorded more, or less noise, than its plan lists"
        )
    if recorded and not beyond:
        yield Check(
            True, f"{STATEMENT_FILE}: each measuring step recorded no more than its plan lists"
        )


def _asks_a_kernel(step: Step) -> bool:
    return bool(step.lineage.measures) or charges_anything(step.event)


def _fits(recorded: PrivacyEvent, planned: PrivacyEvent) -> bool:
    """Whether the answers, one after another, fill slots of the planned event."""
    answers = recorded.events if isinstance(recorded, Composed) else (recorded,)
    books = Books.of(planned)
    try:
        for answer in answers:
            books.record(answer)
    except PlanUnsound:
        return False
    return True


def prove_again(plan: Plan) -> tuple[Claim, ...]:
    """Derive a plan's claims from scratch; raises PlanUnsound where they cannot be derived."""
    from cloakwork.plan.prove import prove

    return prove(plan)


def _check_proof(plan: Plan) -> Check:
    try:
        proved = prove_again(plan)
    except PlanMoved as error:
        claims = "its claims cannot be derived again and are the signer's word"
        return Check(False, f"{PLAN_FILE}: {claims}: {first_line(error)}{_engine_hint(plan)}")
    except _UNPROVABLE as error:
        reason = f"{first_line(error)}{_engine_hint(plan)}"
        return Check(False, f"{PLAN_FILE}: its claims cannot be derived again: {reason}")
    if stated(plan.claims) != stated(proved):
        return Check(False, f"{PLAN_FILE}: claims other than can be derived from its steps")
    if not proved:
        return Check(True, f"{PLAN_FILE}: it claims no guarantee; that was derived again")
    return Check(True, f"{PLAN_FILE}: every claim and cost was derived again from the steps")


def _engine_hint(plan: Plan) -> str:
    """What to try where another version made the plan: each version computes its own costs."""
    here = version("cloakwork")
    if plan.engine == here:
        return ""
    return f" (made by Cloakwork {plan.engine}, this is {here}: verify with that version)"
