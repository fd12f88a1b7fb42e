"""Choose a mechanism for one goal: candidates, the first that offers, and why the others did not."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from pydantic import BaseModel, JsonValue

from cloakwork.errors import Cause
from cloakwork.facts import Facts
from cloakwork.guarantees import DifferentialPrivacy, Guarantee
from cloakwork.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.mechanisms.base import Mechanism, Refusal
from cloakwork.plan.derive import goal_name
from cloakwork.plan.model import Considered, Step
from cloakwork.policy.model import Mechanisms

Catalogue = Mapping[str, Mechanism[Any]]

PLANNED: Final[Mapping[str, str]] = {
    "local-dp": "attributes/randomised-response and attributes/bounded-laplace",
}
"""Guarantees that the language knows and this version cannot give yet, with the mechanisms that will."""


TREATMENTS: Final = ("bound", "kanon/generalise", "attributes/redact")
"""Steps that the planner adds itself: alone they meet no goal, so they are no candidates for one."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The step chosen for a goal (None if there is none), what else was weighed, and the causes of a refusal."""

    step: Step | None
    considered: tuple[Considered, ...]
    causes: tuple[Cause, ...]


def choose(index: int, goal: Guarantee, facts: Facts, allowed: Mechanisms, catalogue: Catalogue) -> Choice:
    """The first mechanism, preferred ones first, that is allowed, proved and offers to meet the goal.

    One that is only published is taken where the policy accepts unproven mechanisms and prefers it by name or glob.
    """
    name, step = goal_name(goal), None
    considered: list[Considered] = []
    for mechanism in _in_order(allowed, catalogue):
        answer = mechanism.offer(goal, facts, _options(mechanism, allowed))
        if isinstance(answer, Refusal):
            considered.append(
                Considered(goal=name, mechanism=mechanism.name, kind=answer.kind, reason=_with_needs(answer))
            )
        elif not allowed.allows(mechanism.name):
            reason = "could give this, but mechanisms.allow or mechanisms.deny rules it out"
            considered.append(Considered(goal=name, mechanism=mechanism.name, kind="denied", reason=reason))
        elif mechanism.proof != "proved" and not _accepted(mechanism.name, allowed):
            reason = "its guarantee is only published, so it cannot satisfy a policy"
            considered.append(Considered(goal=name, mechanism=mechanism.name, kind="never", reason=reason))
        elif step is not None:
            reason = f"{step.mechanism} comes first; name it under mechanisms.prefer to use it"
            considered.append(Considered(goal=name, mechanism=mechanism.name, kind="other chosen", reason=reason))
        else:
            step = step_of(mechanism, answer.params, facts, why=answer.why, goals=(index,))
    return Choice(step, tuple(considered), () if step else _causes(goal, considered, allowed))


def _accepted(name: str, allowed: Mechanisms) -> bool:
    """Whether the policy lets an unproven mechanism run: it accepts such, and asks for this one."""
    return allowed.accept_unproven and any(fnmatchcase(name, glob) for glob in allowed.prefer)


def _options(mechanism: Mechanism[Any], allowed: Mechanisms) -> dict[str, JsonValue]:
    """What the policy sets for a mechanism; one that hands on to others hands on to allowed ones only."""
    options: dict[str, JsonValue] = dict(allowed.parameters.get(mechanism.name, {}))
    delegates: tuple[str, ...] = getattr(mechanism, "delegates", ())
    if not delegates:
        return options
    asked = options.get("among", [*delegates])
    return options | {
        "among": [name for name in asked if allowed.allows(str(name))] if isinstance(asked, list) else asked
    }


def step_of(
    mechanism: Mechanism[Any], params: BaseModel, facts: Facts, *, why: str, goals: tuple[int, ...] = ()
) -> Step:
    """The plan's entry for a mechanism with its parameters: cost and lineage are the mechanism's own."""
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
    preferred = [name for glob in allowed.prefer for name in catalogue if fnmatchcase(name, glob)]
    yield from (catalogue[name] for name in dict.fromkeys([*preferred, *catalogue]) if name not in TREATMENTS)


def _with_needs(refusal: Refusal) -> str:
    return refusal.reason + (f"; declare {', '.join(refusal.needs)}" if refusal.needs else "")


def _causes(goal: Guarantee, considered: list[Considered], allowed: Mechanisms) -> tuple[Cause, ...]:
    """Why nothing was found: the near misses, what a later version brings, else what each allowed mechanism says."""
    name, missing = goal_name(goal), tuple(_missing(goal))
    close = [item for item in considered if item.kind in ("needs", "misconfigured", "denied", "not_yet")]
    if not missing and all(item.kind == "denied" for item in close):
        close += [item for item in considered if item.kind == "never" and allowed.allows(item.mechanism)]
    said: dict[str, list[str]] = {}
    for item in close:
        said.setdefault(item.reason, []).append(item.mechanism)
    return (
        *(Cause(name, reason, ", ".join(mechanisms)) for reason, mechanisms in said.items()),
        *(Cause(name, why) for why in missing),
    )


def _missing(goal: Guarantee) -> Iterator[str]:
    """What a later version must bring before the goal can be met."""
    if isinstance(goal, DifferentialPrivacy) and goal.neighbours == "unbounded":
        for column in goal.over:
            if column == TIMESTAMPS:
                yield "differentially private timestamps need timestamps/histogram, which this version does not have yet"
            elif column != CONTROL_FLOW:
                yield f"a differentially private '{column}' needs attributes/histogram, which this version does not have yet"
    elif goal.kind in PLANNED:
        yield f"{goal.kind} needs {PLANNED[goal.kind]}, which this version does not have yet"
