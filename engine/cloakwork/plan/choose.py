"""Choose a mechanism for one goal: candidates, the first that offers, and why the others did not."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, JsonValue

from cloakwork.errors import Cause
from cloakwork.facts import Facts
from cloakwork.guarantees import Guarantee
from cloakwork.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.mechanisms.base import Mechanism, Offer, Prediction, Predicts, Refusal
from cloakwork.plan.derive import goal_name
from cloakwork.plan.model import Considered, Kind, Step
from cloakwork.policy.globs import matches
from cloakwork.policy.model import Mechanisms

Catalogue = Mapping[str, Mechanism[Any]]

PLANNED: Final[Mapping[str, str]] = {
    "local-dp": "attributes/randomised-response and attributes/bounded-laplace",
}
"""Guarantees that the language knows and this version cannot give yet, with the mechanisms that
will.
"""


TREATMENTS: Final = ("bound", "kanon/generalise", "kanon/fill", "attributes/redact")
"""Steps that the planner adds itself: alone they meet no goal, so they are no candidates for one.
"""


@dataclass(frozen=True, slots=True)
class Choice:
    """The step chosen for a goal (None if there is none), what else was weighed, and the causes of
    a refusal.
    """

    step: Step | None
    considered: tuple[Considered, ...]
    causes: tuple[Cause, ...]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A mechanism that offers to meet the goal and may; ``turn``: which glob under ``prefer`` names
    it, or one more.
    """

    mechanism: Mechanism[Any]
    offer: Offer[Any]
    predicted: Prediction | None
    turn: int


def choose(
    index: int, goal: Guarantee, facts: Facts, allowed: Mechanisms, catalogue: Catalogue
) -> Choice:
    """The first mechanism that is allowed, proved and offers to meet the goal, preferred ones
    first.

    Of those that one glob names, and of those that none does, the one that is predicted to be most
    accurate comes first; the catalogue's order decides between equals (``ALIKE``) and among those
    that cannot tell. One that is only published is taken where the policy accepts unproven
    mechanisms and ``prefer`` has its very name: a glob might mean others.
    """
    name = goal_name(goal)
    considered: list[Considered] = []
    candidates: list[_Candidate] = []
    for mechanism in _in_order(allowed, catalogue):
        found = _asked(mechanism, goal, facts, allowed)
        if isinstance(found, _Candidate):
            candidates.append(found)
        else:
            kind, reason = found
            considered.append(
                Considered(goal=name, mechanism=mechanism.name, kind=kind, reason=reason)
            )
    ranked = _ranked(candidates)
    considered += [
        Considered(
            goal=name,
            mechanism=other.mechanism.name,
            kind="other chosen",
            reason=_outdone(other, ranked[0]),
        )
        for other in ranked[1:]
    ]
    if not ranked:
        return Choice(None, tuple(considered), _causes(goal, considered, allowed))
    first = ranked[0]
    step = step_of(first.mechanism, first.offer.params, facts, why=first.offer.why, goals=(index,))
    if first.predicted is not None:
        step = step.model_copy(update={"predicted": str(first.predicted)})
    return Choice(step, tuple(considered), ())


def _asked(
    mechanism: Mechanism[Any], goal: Guarantee, facts: Facts, allowed: Mechanisms
) -> _Candidate | tuple[Kind, str]:
    """A mechanism's offer, or what kind of refusal it meets and why."""
    answer = mechanism.offer(goal, facts, _options(mechanism, allowed))
    turn = next(
        (at for at, glob in enumerate(allowed.prefer) if matches(glob, mechanism.name)),
        len(allowed.prefer),
    )
    if isinstance(answer, Refusal):
        return answer.kind, _with_needs(answer)
    if mechanism.proof != "proved" and not (
        allowed.accept_unproven and mechanism.name in allowed.prefer
    ):
        return "never", "its guarantee is only published, so it cannot satisfy a policy"
    if not allowed.allows(mechanism.name):
        return "denied", "could give this, but mechanisms.allow or mechanisms.deny rules it out"
    return _Candidate(mechanism, answer, _prediction(mechanism, answer.params, facts), turn)


def _prediction(mechanism: Mechanism[Any], params: Any, facts: Facts) -> Prediction | None:
    return mechanism.predict(params, facts) if isinstance(mechanism, Predicts) else None


ALIKE: Final = 0.01
"""Predictions that differ by no more are equal: they come from a few runs."""


def _ranked(candidates: list[_Candidate]) -> list[_Candidate]:
    """As ``prefer`` names them; of those that take their turn together, by what is predicted; who
    cannot tell comes last.
    """
    best: dict[int, float] = {}
    for each in candidates:
        if each.predicted is not None:
            best[each.turn] = max(best.get(each.turn, 0.0), each.predicted.expected)

    def place(each: _Candidate) -> tuple[int, float]:
        if each.predicted is None:
            return each.turn, 1.0
        behind = best[each.turn] - each.predicted.expected
        return each.turn, -best[each.turn] if behind <= ALIKE else -each.predicted.expected

    return sorted(candidates, key=place)


def _outdone(other: _Candidate, chosen: _Candidate) -> str:
    """Why a mechanism was not chosen although it could be."""
    reason = f"{chosen.mechanism.name} comes first; name it under mechanisms.prefer to use it"
    return reason + (f"; predicted: {other.predicted}" if other.predicted else "")


def _options(mechanism: Mechanism[Any], allowed: Mechanisms) -> dict[str, JsonValue]:
    """What the policy sets for a mechanism; one that hands on to others hands on to allowed ones
    only.
    """
    options: dict[str, JsonValue] = dict(allowed.parameters.get(mechanism.name, {}))
    delegates: tuple[str, ...] = getattr(mechanism, "delegates", ())
    if not delegates:
        return options
    asked = options.get("among", [*delegates])
    return options | {
        "among": [name for name in asked if allowed.allows(str(name))]
        if isinstance(asked, list)
        else asked
    }


def step_of(
    mechanism: Mechanism[Any],
    params: BaseModel,
    facts: Facts,
    *,
    why: str,
    goals: tuple[int, ...] = (),
) -> Step:
    """The plan's entry for a mechanism with its parameters: cost and lineage are the mechanism's
    own.
    """
    return Step(
        mechanism=mechanism.name,
        params=params.model_dump(mode="json", by_alias=True),
        why=why,
        goals=goals,
        proof=mechanism.proof,
        event=mechanism.event(params, facts),
        currency=mechanism.currency(params),
        lineage=mechanism.lineage(params),
        published=None
        if mechanism.proof == "proved"
        else f"{mechanism.theorem.statement} ({mechanism.theorem.source})",
    )


def _in_order(allowed: Mechanisms, catalogue: Catalogue) -> Iterator[Mechanism[Any]]:
    """The mechanisms that make claims, those that ``prefer`` names first and in its order."""
    preferred = [name for glob in allowed.prefer for name in catalogue if matches(glob, name)]
    yield from (
        catalogue[name]
        for name in dict.fromkeys([*preferred, *catalogue])
        if name not in TREATMENTS
    )


def _with_needs(refusal: Refusal) -> str:
    return refusal.reason + (f"; declare {', '.join(refusal.needs)}" if refusal.needs else "")


def _causes(
    goal: Guarantee, considered: list[Considered], allowed: Mechanisms
) -> tuple[Cause, ...]:
    """Why nothing was found: the near misses, what a later version brings, else what each allowed
    mechanism says.
    """
    name, missing = goal_name(goal), tuple(_missing(goal))
    near = ("needs", "misconfigured", "not_yet")
    close = [
        item
        for item in considered
        if item.kind == "denied" or (item.kind in near and allowed.allows(item.mechanism))
    ]
    if not missing and all(item.kind == "denied" for item in close):
        close += [
            item for item in considered if item.kind == "never" and allowed.allows(item.mechanism)
        ]
    said: dict[str, list[str]] = {}
    for item in close:
        said.setdefault(item.reason, []).append(item.mechanism)
    return (
        *(Cause(name, reason, ", ".join(mechanisms)) for reason, mechanisms in said.items()),
        *(Cause(name, why) for why in missing),
    )


def _missing(goal: Guarantee) -> Iterator[str]:
    """What a later version must bring before the goal can be met."""
    if goal.hides_presence():
        for column in goal.over:
            if column == TIMESTAMPS:
                yield "differentially private timestamps need timestamps/histogram, which this version does not have yet"
            elif column != CONTROL_FLOW:
                yield f"a differentially private '{column}' needs attributes/histogram, which this version does not have yet"
    elif goal.kind in PLANNED:
        yield f"{goal.kind} needs {PLANNED[goal.kind]}, which this version does not have yet"
