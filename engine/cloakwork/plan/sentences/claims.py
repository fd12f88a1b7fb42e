"""A claim, or what is not claimed, in words."""

from cloakwork.base.lineage import CONTROL_FLOW, METADATA
from cloakwork.base.text import listed, quoted
from cloakwork.guarantees import Guarantee, short_description
from cloakwork.guarantees.claims import ConditionedOn
from cloakwork.plan.model import Claim, UnprovenClaim
from cloakwork.plan.sentences.assumptions import assumption_in_words
from cloakwork.plan.sentences.reasons import reason_in_words


def claim_sentence(guarantee: Guarantee, given: ConditionedOn | None) -> str:
    """A claim in plain words: the guarantee, and what it takes as known."""
    return guarantee.sentence() + (f" {_known_sentence(given)}" if given is not None else "")


def _known_sentence(given: ConditionedOn) -> str:
    window = given.window
    declared = (
        ""
        if window is None
        else f", the window from {window.start:%Y-%m-%d} to {window.end:%Y-%m-%d}"
    )
    said = (
        f"Taken as known: the order of events{declared}, and every released column "
        f"that is not computed from noised times alone ({', '.join(given.columns)})."
    )
    if others := possible_time_attributes(given):
        said += f" Whoever can read times off {listed(quoted(others), 'or')} learns those times."
    return said


def possible_time_attributes(given: ConditionedOn) -> tuple[str, ...]:
    """The attributes that a claim takes as known: any of them may tell times, whatever it looks
    like.
    """
    return tuple(column for column in given.columns if column not in (CONTROL_FLOW, METADATA))


def unproven_sentence(item: UnprovenClaim) -> str:
    """What was asked for and is not given."""
    asked = short_description(item.guarantee)
    return (
        f"{asked} was asked for and is NOT guaranteed: "
        f"{item.mechanism} is only published, not proved."
    )


def unproven_cost(item: UnprovenClaim) -> str:
    """The cost that can be derived for what is unproven."""
    if item.cost is None:
        return "derived here: no bound (epsilon infinite)"
    return f"derived here: epsilon {item.cost.epsilon:.6g}, delta {item.cost.delta:.3g}"


def reasons_in_words(claim: Claim) -> tuple[str, ...]:
    """Why a claim holds, one clause each."""
    return tuple(reason_in_words(reason) for reason in claim.derivation)


def assumptions_in_words(claim: Claim) -> tuple[str, ...]:
    """What a claim rests on, one clause each."""
    return tuple(assumption_in_words(assumption) for assumption in claim.assumptions)
