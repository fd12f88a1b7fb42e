"""Does a signed plan say what its statement says, and can its claims be derived again?"""

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Final

from cloakwork.errors import CloakworkError, PlanMoved, PlanUnsound, first_line
from cloakwork.plan.model import Claim, Plan
from cloakwork.publishing.folder import PLAN_FILE, STATEMENT_FILE, Check
from cloakwork.publishing.from_plan import statement_of
from cloakwork.publishing.statement import PrivacyStatement
from cloakwork.records import stated

_UNPROVABLE: Final = (PlanUnsound, CloakworkError, ValueError, TypeError, LookupError)
"""What is raised while a plan is proved that nobody could have made: unknown steps, parameters,
goals.
"""


def derive_again(log: Path, plan: Plan, predicate: PrivacyStatement) -> Iterator[Check]:
    """The checks that need no look into the log: its format, the statement's records, the proof."""
    yield check_format(log, plan.policy.spec.output.format)
    yield from _check_statement(plan, predicate)
    yield _check_proof(plan)


def check_format(log: Path, planned: str) -> Check:
    """Whether the file of the log has the format that its plan names."""
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
