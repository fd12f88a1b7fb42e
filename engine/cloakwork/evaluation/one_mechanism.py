"""One mechanism, run without ledger, plan or files."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from pydantic import ValidationError

from cloakwork.accounting.calibrate import largest_delta
from cloakwork.base.errors import CloakworkError, MechanismError, PlanImpossible
from cloakwork.base.facts import Facts, Unit
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.base.naming import values_of
from cloakwork.base.text import first_fault
from cloakwork.engines.base import Engine
from cloakwork.engines.batches import collected
from cloakwork.engines.memory import MemoryEngine
from cloakwork.guarantees import KINDS, Guarantee
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.mechanisms.base import Gives, Mechanism, Refusal
from cloakwork.mechanisms.bound import BoundParams
from cloakwork.mechanisms.registry import catalogue
from cloakwork.noise import Noise, secret
from cloakwork.plan.model import Plan
from cloakwork.plan.planner import make_plan
from cloakwork.policy.model import API_VERSION, Policy
from cloakwork.run.prepare import SourceFigures
from cloakwork.run.steps import GrantedStep

NO_FACTS: Final = Facts()
"""Each case is a unit of its own, and nothing is declared."""

_BY_NOISE: Final = frozenset({"differential-privacy", "metric-privacy", "local-dp"})


def run_mechanism(
    name: str,
    log: EventLog,
    *,
    noise: Noise | None = None,
    options: Mapping[str, Any] | None = None,
    **params: Any,
) -> EventLog:
    """One run of the mechanism ``name`` on ``log`` with fresh noise; the log it makes, under fresh
    ids.

    ``params`` may be the mechanism's own parameters in full, or what a policy would say:
    ``epsilon`` and ``delta`` (differential privacy over the control flow, or over timestamps if
    the mechanism gives that), ``epsilon`` and ``shift`` (metric privacy), ``k`` and ``scope``
    (k-anonymity), ``t`` or ``l`` and ``attribute`` (t-closeness, l-diversity), ``L``, ``K``, ``C``,
    ``background`` ... (confidence bound), beside declared facts (``longest_case``, ``window``,
    ``longest_gap``, ``grid``, ``max_cases``, ``domains`` ...). ``options``: the mechanism's own, as
    under a policy's ``parameters``; they may also stand among ``params``, but for ``noise``. Raises
    MechanismError where the mechanism refuses.

    >>> log = EventLog.empty()
    >>> run_mechanism("variants/threshold", log, epsilon=1.0, delta=1e-6).cases.height
    0
    """
    return prepare(name, options=options, **params).run(log, noise)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A mechanism with its parameters found, ready to be run as often as wanted; noise is
    calibrated once.
    """

    mechanism: Mechanism[Any]
    params: Any
    facts: Facts

    def run(self, log: EventLog, noise: Noise | None = None) -> EventLog:
        """One run with fresh noise: bound, take the step, fresh ids."""
        source = noise or secret()
        bounded = self._bounded(log, source)
        made = run_step(self.mechanism, self.params, bounded, source, self.facts)
        return MemoryEngine().shuffle(made, source.stream())

    def runner(self, log: EventLog, noise: Noise | None = None) -> Callable[[], EventLog]:
        """What runs the mechanism on ``log`` once, with fresh noise; ids and order are left as the
        mechanism made them.

        Without a unit's attribute nothing before the mechanism's own noise is random, so it is done
        once.
        """
        if self.facts.unit.attribute is not None:
            return lambda: self.run(log, noise)
        engine = MemoryEngine()
        source = noise or secret()
        bounded = self._bounded(log, source)
        step = GrantedStep.of(self.mechanism, self.params, self.facts)
        seen = step.look(bounded, engine, source)
        return lambda: engine.rewrite(bounded, step.take(seen, source).rewrite)

    def _bounded(self, log: EventLog, noise: Noise) -> EventLog:
        """The log with a unit's contribution bounded as the facts say."""
        return run_step(catalogue()["bound"], BoundParams.of(self.facts), log, noise)


def prepare(
    name: str | Mechanism[Any],
    *,
    options: Mapping[str, Any] | None = None,
    **params: Any,
) -> Prepared:
    """The mechanism ``name`` (or one that is not registered), ``params`` and ``options`` as
    ``run_mechanism`` reads them.

    Raises MechanismError where it refuses.
    """
    mechanism = mechanism_of(name)
    # What the parameters declare of the log, and what is left of them.
    fields = Facts.model_fields.keys() - {"unit"}
    declared = {key: value for key, value in params.items() if key in fields}
    unit = Unit(attribute=params.get("unit_attribute"), max_cases=params.get("max_cases", 1))
    facts = Facts(unit=unit, **declared)
    used = fields | {"unit_attribute", "max_cases"}
    rest = {key: value for key, value in params.items() if key not in used}
    found = _find_params(mechanism, facts, params, {**rest, **(options or {})})
    return Prepared(mechanism, found, facts)


def mechanism_of(name: str | Mechanism[Any]) -> Mechanism[Any]:
    """The mechanism called ``name``, or the one handed in; MechanismError if there is none."""
    if not isinstance(name, str):
        return name
    if name not in catalogue():
        known = ", ".join(catalogue())
        raise MechanismError(name, f"there is no such mechanism; there are {known}")
    return catalogue()[name]


def plan_for(
    name: str,
    log: EventLog,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    options: Mapping[str, Any] | None = None,
) -> Plan:
    """A plan with the mechanism ``name`` in it, for differential privacy of the control flow where
    it gives that, else of the whole log. For audits: all that is taken as public is
    read off the log.

    Raises CloakworkError where no plan takes it.
    """
    if not log.case_count:
        raise CloakworkError(f"{name}: the log has no cases, and so no neighbours to look at")
    attributes = _declared_for(log)
    longest = int(np.quantile(np.diff(log.offsets), 0.95))
    assume: dict[str, Any] = {
        "alphabet": sorted(set(log.activities.cast(pl.String))),
        "longest_case": max(1, longest),
        "units_at_most": 2 * log.case_count,
    }
    flow = {CASE_ID: {"role": "identifier"}, ACTIVITY: {"role": "control-flow"}}
    forms = [(flow, [CONTROL_FLOW])]
    times = log.events.get_column(TIMESTAMP, default=pl.Series(dtype=TIME_TYPE)).drop_nulls()
    if len(times):
        days = times.dt.date().cast(pl.String)
        window = {"start": f"{days.min()!s}T00:00:00Z", "end": f"{days.max()!s}T23:59:59Z"}
        assume |= {"window": window, "longest_gap": "90d"}
        whole = flow | {TIMESTAMP: {"role": "timestamp"}} | attributes
        forms.append((whole, [CONTROL_FLOW, TIMESTAMPS, *attributes]))
    for rules, over in forms:
        cost = {"epsilon": epsilon, "delta": min(delta, largest_delta(2 * log.case_count))}
        goal = {"kind": "differential-privacy", **cost, "over": over}
        spec = {
            "unit": "case",
            "attributes": rules | {"*": {"treatment": "drop"}},
            "guarantees": [goal],
            "assume": assume,
            "mechanisms": {"prefer": [name], "parameters": {name: options} if options else {}},
            "budget": {"release": cost},
        }
        header = dict.fromkeys(("name", "owner", "purpose", "dataset"), "audit")
        policy = {"apiVersion": API_VERSION, "kind": "PrivacyPolicy", "spec": spec}
        try:
            made = policy | {"metadata": header | {"version": "1.0.0"}}
            plan = make_plan(Policy.model_validate_json(json.dumps(made)))
        except (PlanImpossible, ValidationError):
            continue
        if any(step.mechanism == name for step in plan.steps):
            return plan
    raise CloakworkError(f"{name}: no plan for differential privacy takes it; name one: --policy")


_VALUES: Final = 12
"""Values of an attribute that an audit declares: the most frequent ones."""


def _declared_for(log: EventLog) -> dict[str, Any]:
    """Rules for the first attributes of events and of cases."""
    rules: dict[str, Any] = {}
    for frame in (log.events, log.cases):
        names = [name for name in frame.columns if name not in (CASE_ID, ACTIVITY, TIMESTAMP)]
        for name in names[:2]:
            values = values_of(frame, name).drop_nulls()
            if values.dtype.is_numeric() and values.n_unique() > 1:
                rules[name] = {"role": "insensitive", "range": [values.min(), values.max()]}
            elif values.dtype == pl.String and len(values):
                usual = values.value_counts(sort=True)[""][:_VALUES].to_list()
                rules[name] = {"role": "insensitive", "domain": usual}
    return rules


def run_step(
    mechanism: Mechanism[Any],
    params: Any,
    log: object,
    noise: Noise,
    facts: Facts = NO_FACTS,
    engine: Engine | None = None,
    released: EventLog | None = None,
) -> EventLog:
    """What a mechanism makes of ``log``, which ``engine`` opens (an event log, where none is named)
    and in which units have been bounded as ``facts`` say;
    ``released``: the cases that one which enriches adds columns to.
    """
    engine = engine or MemoryEngine()
    step = GrantedStep.of(mechanism, params, facts)
    opened = engine.open(log, lambda each: each, facts.unit.attribute, SourceFigures()).log
    outcome = step.take(step.look(opened, engine, noise), noise, released=released)
    return collected(engine.rewrite(opened, outcome.rewrite))


def _find_params(
    mechanism: Mechanism[Any],
    facts: Facts,
    params: dict[str, Any],
    rest: dict[str, Any],
) -> Any:
    """Its parameters as given where complete, else those it offers for the goal they describe."""
    fields = mechanism.Params.model_fields
    required = {key for key, field in fields.items() if field.is_required()}
    try:
        # Complete parameters need no goal, nor do those of a mechanism that gives nothing.
        if not mechanism.gives or required <= params.keys():
            own = {key: value for key, value in params.items() if key in fields}
            return mechanism.Params.model_validate(own)
        goal, options = _describe_goal(mechanism.gives, rest)
    except ValidationError as error:
        where, says = first_fault(error)
        raise MechanismError(mechanism.name, f"{where}: {says}") from error
    answer = mechanism.offer(goal, facts, options)
    if isinstance(answer, Refusal):
        needs = f"; needs {', '.join(answer.needs)}" if answer.needs else ""
        raise MechanismError(mechanism.name, answer.reason + needs)
    return answer.params


def _describe_goal(
    gives: tuple[Gives, ...],
    rest: dict[str, Any],
) -> tuple[Guarantee, dict[str, Any]]:
    """The guarantee that ``rest`` describes, and the options that remain."""
    kind, fixed = _kind_of_goal(gives, rest)
    model: Any = KINDS[kind]
    over_times = kind == "metric-privacy" or fixed.get("over") == (TIMESTAMPS,)
    own: dict[str, Any] = {"kind": kind, **fixed}
    options = {}
    for key, value in rest.items():
        if key in model.model_fields:
            own[key] = value
        elif key != "scope" or not over_times:  # a guarantee over times knows no scope
            options[key] = value
    return model.model_validate(own), options


def _kind_of_goal(gives: tuple[Gives, ...], rest: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The kind that the parameters tell, else the only one given, and what follows from it."""
    kinds = {each.kind for each in gives}
    # Parameters that one kind alone has decide first; what is left goes by noise.
    if kinds == {"confidence-bound"} or {"L", "K"} <= rest.keys():
        return "confidence-bound", {}
    if "t" in rest:
        return "t-closeness", {}
    if "l" in rest:
        return "l-diversity", {}
    if kinds == {"local-dp"}:
        return "local-dp", {}
    if "k" in rest or not kinds & _BY_NOISE:
        return "k-anonymity", {}
    if "shift" in rest:
        return "metric-privacy", {}
    if Gives("differential-privacy", TIMESTAMPS) in gives:
        return "differential-privacy", {"over": (TIMESTAMPS,), "neighbours": "bounded"}
    return "differential-privacy", {"over": (CONTROL_FLOW,)}
