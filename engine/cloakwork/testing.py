"""For audits, and for people who write a mechanism of their own: run one mechanism without ledger, plan or files."""

from typing import Any

import polars as pl
from pydantic import ValidationError

from cloakwork.engines.embedded import Embedded
from cloakwork.errors import MechanismError
from cloakwork.execute import fresh
from cloakwork.facts import Facts, Unit
from cloakwork.guarantees import (
    ConfidenceBound,
    DifferentialPrivacy,
    Guarantee,
    KAnonymity,
    LDiversity,
    MetricPrivacy,
    TCloseness,
)
from cloakwork.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.base import Mechanism, Refusal
from cloakwork.mechanisms.bound import BoundParams
from cloakwork.mechanisms.registry import catalogue
from cloakwork.mechanisms.variants.directly_follows import DirectlyFollows
from cloakwork.noise import Noise, secret
from cloakwork.plan.choose import TREATMENTS


def run_mechanism(name: str, log: EventLog, *, noise: Noise | None = None, **params: Any) -> EventLog:
    """One run of the mechanism ``name`` on ``log`` with fresh noise; the log it makes, under fresh ids.

    ``params`` may be the mechanism's own parameters in full, or what a policy would say: ``epsilon`` and ``delta``
    (differential privacy over the control flow, or over timestamps for ``timestamps/*``), ``epsilon`` and ``shift``
    (metric privacy), ``k`` and ``scope`` (k-anonymity), ``t`` or ``l`` and ``attribute`` (t-closeness, l-diversity),
    ``L``, ``K``, ``C``, ``background`` ... (confidence bound), beside declared facts (``longest_case``, ``window``,
    ``longest_gap``, ``grid``, ``max_cases``, ``domains`` ...). Raises MechanismError where the mechanism refuses.

    >>> log = EventLog.empty()
    >>> run_mechanism("variants/threshold", log, epsilon=1.0, delta=1e-6).cases.height
    0
    """
    if name not in catalogue():
        raise MechanismError(name, f"there is no such mechanism; there are {', '.join(catalogue())}")
    mechanism, source = catalogue()[name], noise or secret()
    facts, rest = _facts(params)
    chosen = _params(mechanism, facts, params, rest)
    bounds = BoundParams(
        attribute=facts.unit.attribute,
        max_cases=facts.unit.max_cases,
        alphabet=facts.alphabet,
        longest_case=facts.longest_case,
    )
    prepared = _run(catalogue()["bound"], bounds, log, source)
    return fresh(_run(mechanism, chosen, prepared, source), source)


def _run(mechanism: Mechanism[Any], params: Any, log: EventLog, noise: Noise) -> EventLog:
    engine = Embedded()
    decision = mechanism.decide(params, engine.summarise(log, mechanism.summarise(params)), noise)
    return engine.rewrite(log, mechanism.rewrite(params, decision, noise))


def _facts(params: dict[str, Any]) -> tuple[Facts, dict[str, Any]]:
    """The declared facts among ``params``, and what is left."""
    declared = {key: value for key, value in params.items() if key in Facts.model_fields and key != "unit"}
    unit = Unit(attribute=params.get("unit_attribute"), max_cases=params.get("max_cases", 1))
    rest = {
        key: value
        for key, value in params.items()
        if key not in declared and key not in ("unit_attribute", "max_cases")
    }
    return Facts(unit=unit, **declared), rest


def _params(mechanism: Mechanism[Any], facts: Facts, params: dict[str, Any], rest: dict[str, Any]) -> Any:
    """The mechanism's parameters: as given when they are complete, else those it offers for the goal they describe."""
    fields = mechanism.Params.model_fields
    required = {key for key, field in fields.items() if field.is_required()}
    try:
        if mechanism.name in TREATMENTS or required <= params.keys():
            return mechanism.Params.model_validate({key: value for key, value in params.items() if key in fields})
        goal, options = _goal(mechanism.name, rest)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise MechanismError(mechanism.name, f"{where}: {first['msg']}") from error
    answer = mechanism.offer(goal, facts, options)
    if isinstance(answer, Refusal):
        raise MechanismError(
            mechanism.name, answer.reason + (f"; needs {', '.join(answer.needs)}" if answer.needs else "")
        )
    return answer.params


def _goal(name: str, rest: dict[str, Any]) -> tuple[Guarantee, dict[str, Any]]:
    """The guarantee that ``rest`` describes, and the options that remain."""
    if name == "kanon/tlkc" or {"L", "K"} <= rest.keys():
        return _of(ConfidenceBound, {"kind": "confidence-bound"}, rest)
    if "t" in rest:
        return _of(TCloseness, {"kind": "t-closeness"}, rest)
    if "l" in rest:
        return _of(LDiversity, {"kind": "l-diversity"}, rest)
    if "k" in rest or name.startswith("kanon/"):
        return _of(KAnonymity, {"kind": "k-anonymity"}, rest)
    if "shift" in rest:
        return _of(
            MetricPrivacy, {"kind": "metric-privacy"}, {key: value for key, value in rest.items() if key != "scope"}
        )
    if name.startswith("timestamps/"):
        fixed = {"kind": "differential-privacy", "over": (TIMESTAMPS,), "neighbours": "bounded"}
        return _of(DifferentialPrivacy, fixed, {key: value for key, value in rest.items() if key != "scope"})
    return _of(DifferentialPrivacy, {"kind": "differential-privacy", "over": (CONTROL_FLOW,)}, rest)


def _of(kind: type[Any], fixed: dict[str, Any], rest: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    own = {key: value for key, value in rest.items() if key in kind.model_fields}
    return kind.model_validate(fixed | own), {key: value for key, value in rest.items() if key not in own}


def directly_follows_graph(
    log: EventLog,
    epsilon: float,
    alphabet: tuple[str, ...],
    most_steps: int,
    *,
    unit_attribute: str | None = None,
    max_cases: int = 1,
    noise: Noise | None = None,
) -> pl.DataFrame:
    """dfg/laplace: a directly-follows graph that is epsilon-DP for units of at most ``max_cases`` cases.

    One row a pair of labels of the public ``alphabet``: ``source`` (null: the case begins), ``target`` (null: it ends) and
    ``count`` (may be negative). Each case counts for at most ``most_steps`` of its steps. Not a release: no policy names
    it, and no ledger records it. Raises MechanismError where the arguments allow no noise.

    >>> directly_follows_graph(EventLog.empty(), 1.0, ("a", "b"), 4).columns
    ['source', 'target', 'count']
    """
    source = noise or secret()
    graph = DirectlyFollows.for_epsilon(epsilon, alphabet, most_steps, max_cases)
    bounds = BoundParams(attribute=unit_attribute, max_cases=max_cases, alphabet=graph.alphabet)
    return graph.measure(_run(catalogue()["bound"], bounds, log, source), source)
