"""A statistical audit of one mechanism, on neighbouring logs chosen by what it declares to give."""

from collections.abc import Mapping
from typing import Any

from cloakwork.base.errors import MechanismError
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.evaluation.dp_audit import CONFIDENCE
from cloakwork.evaluation.pairs import (
    CONTROL_FLOW_FACTS,
    SHIFT,
    TIMES_FACTS,
    VALUE,
    WHOLE_LOG_FACTS,
    Pair,
    PairAudit,
    audit_pair,
    bounded_pairs,
    control_flow_pairs,
    least_released,
    metric_pairs,
    whole_log_pairs,
)
from cloakwork.mechanisms.base import Gives, Mechanism
from cloakwork.mechanisms.registry import catalogue
from cloakwork.testing.runs import Prepared, mechanism_of, prepare

_ON_CONTROL_FLOW = Gives("differential-privacy", CONTROL_FLOW)
_ON_WHOLE_LOGS = Gives("differential-privacy")
_ON_TIMES = (Gives("metric-privacy", TIMESTAMPS), Gives("differential-privacy", TIMESTAMPS))


def auditable() -> tuple[str, ...]:
    """The mechanisms that ``audit_mechanism`` knows pairs for, by what they declare to give:
    differential privacy over the control flow, times or whole logs, or metric privacy of times.
    """
    return tuple(name for name, mechanism in catalogue().items() if _has_pairs(mechanism))


def _has_pairs(mechanism: Mechanism[Any]) -> bool:
    return any(each in (_ON_CONTROL_FLOW, _ON_WHOLE_LOGS, *_ON_TIMES) for each in mechanism.gives)


def audit_mechanism(
    name: str | Mechanism[Any],
    *,
    epsilon: float,
    delta: float,
    runs: int,
    confidence: float = CONFIDENCE,
    options: Mapping[str, Any] | None = None,
) -> tuple[PairAudit, ...]:
    """A statistical audit of the mechanism ``name`` (or of one that is not registered, such as a
    broken twin) at the claim (epsilon, delta), one result a pair of neighbours.

    Control flow, whole logs: unbounded neighbours at (epsilon, delta). Times: metric privacy at
    epsilon, and bounded neighbours. The error ``1 - confidence`` is shared out over all pairs.
    ``options``: the mechanism's own, as under a policy's ``parameters``. Raises MechanismError
    where the mechanism refuses the claim or the options, or makes no such claim.
    """
    found = _claims_to_audit(mechanism_of(name), epsilon, delta, options or {})
    audits = [(pair, prepared, spent) for prepared, pairs, spent in found for pair in pairs]
    each = 1 - (1 - confidence) / len(audits)
    return tuple(
        audit_pair(pair, prepared.runner, runs=runs, claim=epsilon, delta=spent, confidence=each)
        for pair, prepared, spent in audits
    )


def _claims_to_audit(
    mechanism: Mechanism[Any], epsilon: float, delta: float, options: Mapping[str, Any]
) -> list[tuple[Prepared, tuple[Pair, ...], float]]:
    """What to run, on which pairs, and the delta of the claim."""
    if not _has_pairs(mechanism):
        said = "claims no differential privacy, so there is nothing to audit"
        raise MechanismError(mechanism.name, said)
    found: list[tuple[Prepared, tuple[Pair, ...], float]] = []
    if _ON_CONTROL_FLOW in mechanism.gives:
        facts = _declared_values(CONTROL_FLOW_FACTS)
        prepared = prepare(mechanism, options=options, epsilon=epsilon, delta=delta, **facts)
        found.append((prepared, control_flow_pairs(least_released(prepared.runner)), delta))
    if _ON_WHOLE_LOGS in mechanism.gives:
        declared = _declared_values(WHOLE_LOG_FACTS) | {"epsilon": epsilon, "delta": delta}
        over = (CONTROL_FLOW, TIMESTAMPS, VALUE)
        prepared = prepare(mechanism, options=options, over=over, **declared)
        found.append((prepared, whole_log_pairs(), delta))
    if any(each in _ON_TIMES for each in mechanism.gives):
        found += _claims_on_times(mechanism, epsilon, options)
    return found


def _declared_values(facts: Facts) -> dict[str, Any]:
    return {key: getattr(facts, key) for key in facts.model_fields_set}


def _claims_on_times(
    mechanism: Mechanism[Any], epsilon: float, options: Mapping[str, Any]
) -> list[tuple[Prepared, tuple[Pair, ...], float]]:
    """The claims on times that the mechanism gives; with ``options``, those that know them."""
    claims: list[tuple[dict[str, Any], tuple[Pair, ...]]] = [
        ({"shift": SHIFT}, metric_pairs()),
        ({}, bounded_pairs()),
    ]
    facts = _declared_values(TIMES_FACTS)
    found, refused = [], []
    for gives, (goal, pairs) in zip(_ON_TIMES, claims, strict=True):
        if gives not in mechanism.gives:
            continue
        try:
            prepared = prepare(mechanism, options=options, epsilon=epsilon, **goal, **facts)
            found.append((prepared, pairs, 0.0))
        except MechanismError as error:
            refused.append(error)
    if refused and not (found and options):
        raise refused[0]
    return found
