"""Derive what a sequence of steps guarantees, from lineage and privacy events alone. No step states a claim itself.

The rules are those of ``docs/guarantees.md``; each is one function here. A goal that cannot be derived yields causes.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from cloakwork.accounting.events import cost, naive
from cloakwork.budget import Currency
from cloakwork.errors import Cause
from cloakwork.facts import Facts
from cloakwork.guarantees import (
    ConfidenceBound,
    DifferentialPrivacy,
    Guarantee,
    KAnonymity,
    LDiversity,
    MetricPrivacy,
    TCloseness,
)
from cloakwork.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.mechanisms.profile import Profile
from cloakwork.plan.model import Claim, Step, Unproven
from cloakwork.privacy_event import Composed, NonPrivate, PoissonSampled, PrivacyEvent, Repeated
from cloakwork.quantities import format_duration


@dataclass(frozen=True, slots=True)
class ColumnState:
    """What is known of one column after some steps.

    - ``raw``: source columns whose values reach it without noise.
    - ``measured``: indexes of the steps whose noise it came through.
    - ``writer``: index of the step that wrote it last; None for the source itself.
    - ``unstable``: index of the step after which one case can change it without bound; None if there is none.
    """

    raw: frozenset[str]
    measured: frozenset[int] = frozenset()
    writer: int | None = None
    unstable: int | None = None


@dataclass(frozen=True, slots=True)
class Flow:
    """The state of every column that exists after the last step, and the measurements that prove nothing."""

    columns: Mapping[str, ColumnState]
    void: Mapping[int, str] = field(default_factory=dict)


def trace(steps: Sequence[Step], columns: Iterable[str]) -> Flow:
    """Follow the columns of the source log through ``steps``."""
    flow = Flow({column: ColumnState(frozenset({column})) for column in {*columns, CONTROL_FLOW, METADATA}})
    for index, step in enumerate(steps):
        flow = _after(flow, index, step, steps)
    return flow


def _after(flow: Flow, index: int, step: Step, steps: Sequence[Step]) -> Flow:
    lineage, before = step.lineage, flow.columns
    measured = [_state(before, column) for column in sorted(lineage.measures)]
    read = [_state(before, column) for column in sorted(lineage.reads)]
    looked_at = read + measured
    read = looked_at if step.proof != "proved" else read  # noise that nobody proved hides nothing
    unstable = next((state.unstable for state in looked_at if state.unstable is not None), None)
    written = ColumnState(
        raw=frozenset().union(*(state.raw for state in read)),
        measured=frozenset().union({index} if lineage.measures else (), *(state.measured for state in looked_at)),
        writer=index,
        unstable=index if lineage.stability is None else unstable,
    )
    void = dict(flow.void)
    for column in lineage.measures & before.keys():
        if (culprit := before[column].unstable) is not None:
            void[index] = (
                f"{step.mechanism} measures {column} after {steps[culprit].mechanism} changed it: one case more or less "
                f"can change any number of others there, so its noise bounds nothing about the source log"
            )
    kept = {} if lineage.generates else dict(before)
    return Flow({**kept, **dict.fromkeys(lineage.writes, written)}, void)


def _state(columns: Mapping[str, ColumnState], column: str) -> ColumnState:
    """A column that no step has written and that is not released is the source's own: raw."""
    return columns.get(column, ColumnState(frozenset({column})))


@dataclass(frozen=True, slots=True)
class Derivation:
    """The claims that follow from the steps, the goals that stay unproven, and the causes why others do not follow."""

    claims: tuple[Claim, ...]
    causes: tuple[Cause, ...]
    unproven: tuple[Unproven, ...] = ()


def derive(
    goals: Sequence[Guarantee],
    steps: Sequence[Step],
    released: Iterable[str],
    facts: Facts,
    *,
    accept_unproven: bool = False,
    profile: Profile | None = None,
) -> Derivation:
    """Derive each goal, or say why it does not follow.

    ``goals``: guarantees over columns (not attribute names). ``released``: the columns that leave the house, besides
    ``control-flow`` and ``metadata``, which always do. ``accept_unproven``: a goal whose step is only published becomes an
    entry under ``unproven`` instead of a cause; it is never a claim. ``profile``: what some of the facts were measured
    by; it is published with the plan, so its noise is part of what a claim of differential privacy costs.
    """
    leaving = frozenset(released) | {CONTROL_FLOW, METADATA}
    case = _Case(tuple(steps), trace(steps, leaving), leaving, facts, profile)
    unproven = {index: step for step in steps for index in step.goals if step.proof != "proved" and accept_unproven}
    results = [_derived(index, goal, case) for index, goal in enumerate(goals) if index not in unproven]
    return Derivation(
        tuple(result for result in results if isinstance(result, Claim)),
        tuple(cause for result in results if not isinstance(result, Claim) for cause in result),
        tuple(_unproven(goals[index], step) for index, step in sorted(unproven.items())),
    )


def _unproven(goal: Guarantee, step: Step) -> Unproven:
    """What is known of a goal that a published mechanism serves: its claim, what we derive, and what breaks."""
    spent = cost(step.event, goal.delta if isinstance(goal, DifferentialPrivacy) else 0.0)
    broken = tuple(_reasons_of(step.event))
    return Unproven(
        guarantee=goal,
        mechanism=step.mechanism,
        published=step.published or step.why,
        currency=step.currency,
        cost=None if math.isinf(spent.epsilon) else spent,
        why=broken or ("nobody has proved it here, whatever the noise that it draws would cost",),
    )


def _reasons_of(event: PrivacyEvent) -> Iterator[str]:
    """Why parts of an event have no bound."""
    match event:
        case NonPrivate(reason=reason):
            yield reason
        case Composed(events=events):
            for each in events:
                yield from _reasons_of(each)
        case Repeated(event=inner) | PoissonSampled(event=inner):
            yield from _reasons_of(inner)


@dataclass(frozen=True, slots=True)
class _Case:
    steps: tuple[Step, ...]
    flow: Flow
    released: frozenset[str]
    facts: Facts
    profile: Profile | None = None

    def events(self, currency: Currency) -> PrivacyEvent:
        before = [self.profile.params.event()] if self.profile is not None and currency == "unit" else []
        return Composed(events=(*before, *(step.event for step in self.steps if step.currency == currency)))


def _derived(index: int, goal: Guarantee, case: _Case) -> Claim | list[Cause]:
    name = goal_name(goal)
    if isinstance(goal, KAnonymity):
        outcome = _k_anonymity(index, goal, case)
    elif isinstance(goal, ConfidenceBound):
        outcome = _confidence_bound(index, goal, case)
    elif isinstance(goal, TCloseness | LDiversity):
        outcome = _values_in_classes(index, goal, case)
    elif isinstance(goal, DifferentialPrivacy) and goal.neighbours == "unbounded":
        outcome = _unconditional(goal, case)
    elif isinstance(goal, DifferentialPrivacy | MetricPrivacy):
        outcome = _conditional(goal, case)
    else:
        outcome = [f"this version derives no {goal.kind}"]
    return outcome if isinstance(outcome, Claim) else [Cause(name, reason) for reason in outcome]


def goal_name(goal: Guarantee) -> str:
    """A goal as people cite it: ``differential-privacy over control-flow``."""
    return f"{goal.kind} over {', '.join(goal.over)}"


def _k_anonymity(index: int, goal: KAnonymity, case: _Case) -> Claim | list[str]:
    """The last step to write each covered column was chosen for the goal, on real cases of the source."""
    reasons = list(_not_served(index, goal, case))
    if reasons:
        return reasons
    writer = case.steps[_writer_of(CONTROL_FLOW, case)]
    also = [
        f"{_names({_writer_of(column, case)}, case)} makes groups of one course of events alike in {column}"
        for column in goal.over
        if column != CONTROL_FLOW
    ]
    return Claim(
        guarantee=goal,
        sentence=goal.sentence(),
        basis="derived and measured",
        derivation=(
            f"{writer.mechanism} is the last step to write the control flow, and moves whole cases of the source log only",
            *also,
            "an independent check counts the groups on the released log; a smaller one stops the release",
        ),
        assumptions=_unit_assumptions(case.facts) if goal.count == "units" else (),
    )


def _confidence_bound(index: int, goal: ConfidenceBound, case: _Case) -> Claim | list[str]:
    """The last step to write what is known was chosen for the goal; the sensitive attribute leaves as it came."""
    known = sorted({CONTROL_FLOW, TIMESTAMPS} & set(goal.over))
    reasons = list(_not_served(index, goal, case, known))
    state = case.flow.columns.get(goal.attribute) if goal.attribute else None
    if state is not None and state.writer is not None:
        by = case.steps[state.writer].mechanism
        reasons.append(f"{by} changes {goal.attribute}, and the confidence is measured in its values as they are")
    if reasons:
        return reasons
    writer = case.steps[_writer_of(CONTROL_FLOW, case)]
    return Claim(
        guarantee=goal,
        sentence=goal.sentence(),
        basis="derived and measured",
        derivation=(
            f"{writer.mechanism} is the last step to write {_and(known)}, and takes events out of cases of the source log only",
            *_told(goal, case.facts),
            "an independent check counts who fits all such knowledge on the released log; a violation stops the release",
        ),
        assumptions=(*_known_at_most(goal, case), *_unit_assumptions(case.facts)),
    )


def _told(goal: ConfidenceBound, facts: Facts) -> Iterator[str]:
    """What is released of the columns beside the control flow."""
    if goal.precision is not None:
        rounded = f"rounded down to {format_duration(goal.precision)} and counted from {facts.epoch:%Y-%m-%d}"
        yield f"released times are those since the first event of each case, {rounded}"
    if goal.attribute is not None:
        yield f"{goal.attribute} is released as it is"


def _known_at_most(goal: ConfidenceBound, case: _Case) -> Iterator[str]:
    """What an attacker is taken to know."""
    events = "one event" if goal.L == 1 else f"{goal.L} events"
    yield f"nobody knows more than {events} of a case, and of these no more than {goal.known()}"
    if others := sorted(case.released - {CONTROL_FLOW, METADATA} - (set(goal.over) - {goal.attribute})):
        yield f"nobody knows the {_and(others)} of a case beforehand"


def _not_served(index: int, goal: Guarantee, case: _Case, columns: Sequence[str] | None = None) -> Iterator[str]:
    """Why the last steps to write what a measured goal covers (or ``columns`` of it) do not make it true of real cases."""
    for column in goal.over if columns is None else columns:
        state = case.flow.columns.get(column)
        if state is None or state.writer is None or index not in case.steps[state.writer].goals:
            by = case.steps[state.writer].mechanism if state and state.writer is not None else "no step"
            own = [step.mechanism for step in case.steps if index in step.goals and column in step.lineage.writes]
            undone = f", and undoes what {own[0]} does for it: ask for one of the two guarantees" if own else ""
            yield f"{column} is last written by {by}, which does not bring about {goal.kind}{undone}"
        elif case.steps[state.writer].proof != "proved":
            yield f"{case.steps[state.writer].mechanism} is only published, not proved"
        elif state.measured:
            by, counted = case.steps[state.writer].mechanism, "k" if goal.kind == "k-anonymity" else goal.kind
            yield f"{by} runs after a noisy release: {counted} would count released rows, not the cases of the source log"


def _values_in_classes(index: int, goal: TCloseness | LDiversity, case: _Case) -> Claim | list[str]:
    """The last step to write the attribute was chosen for the goal, and the classes are no others afterwards."""
    reasons = list(_not_served(index, goal, case))
    if reasons:
        return reasons
    writer = _writer_of(goal.attribute, case)
    courses = case.flow.columns[CONTROL_FLOW].writer
    if courses is not None and courses > writer:
        return [
            f"{case.steps[courses].mechanism} changes which cases form a class after {case.steps[writer].mechanism}"
        ]
    by, promised = case.steps[writer].mechanism, isinstance(goal, TCloseness) and goal.distance == "stochastic"
    what = "cycle times" if goal.attribute == TIMESTAMPS else f"'{goal.attribute}'"
    checked = (
        f"it follows from the noise with which {by} replaces each value, and cannot be seen on one release"
        if promised
        else "an independent check measures every class on the released log; one that fails stops the release"
    )
    return Claim(
        guarantee=goal,
        sentence=goal.sentence(),
        basis="derived" if promised else "derived and measured",
        derivation=(
            f"{by} is the last step to write {what}, and no step changes the control flow after it",
            checked,
        ),
        assumptions=tuple(_of_classes(goal, case)),
    )


def _of_classes(goal: TCloseness | LDiversity, case: _Case) -> Iterator[str]:
    """What a claim about classes rests on."""
    yield "whoever reads the release knows which course of events somebody took, and none of the values"
    if goal.attribute == TIMESTAMPS:
        yield f"every case starts at {case.facts.epoch:%Y-%m-%d}, so when cases took place is not released"
    elif isinstance(goal, TCloseness) and goal.distance == "stochastic":
        yield f"the values that '{goal.attribute}' may have are declared, not taken from the log"


def _writer_of(column: str, case: _Case) -> int:
    writer = case.flow.columns[column].writer
    assert writer is not None  # noqa: S101 - asked only of columns that a step wrote
    return writer


def _unconditional(goal: DifferentialPrivacy, case: _Case) -> Claim | list[str]:
    """No raw value reaches any released column except through charged noise (rules 1 to 3)."""
    columns, reasons = case.flow.columns, []
    for column in goal.over:
        if column not in columns:
            reasons.append(f"{column} does not exist in the release: a step makes new cases without it")
        elif columns[column].raw:
            reasons.append(f"raw {_and(columns[column].raw)} would reach the released {column} without noise")
    for column in sorted(case.released - set(goal.over)):
        if column not in columns:
            reasons.append(f"{column} cannot be released beside it: a step makes new cases without it; drop it")
        elif columns[column].raw:
            reasons.append(f"{column} would be released raw beside it, and can give the protected columns away")
    used = frozenset().union(*(columns[column].measured for column in goal.over if column in columns))
    reasons += _unproved(used, case) + _overspent(goal.epsilon, goal.delta, "unit", case)
    if reasons:
        return reasons
    profiled = ("the noisy figures of the DP profile are published with the plan, and part of the cost",)
    claim = _priced(
        goal,
        goal.delta,
        "unit",
        case,
        derivation=(
            *(profiled if case.profile is not None else ()),
            f"no raw value reaches a released column except through the noise of {_names(used, case)}",
            "ids are fresh and random, cases come in random order, and no step stops because of what the log holds",
        ),
    )
    independent = "a guess is bounded where one unit's presence does not depend on everybody else's data"
    return claim.model_copy(update={"assumptions": (*claim.assumptions, independent)})


def _conditional(goal: DifferentialPrivacy | MetricPrivacy, case: _Case) -> Claim | list[str]:
    """Raw times reach nothing but through charged noise; the control flow is taken as given (rule 4)."""
    columns, reasons = case.flow.columns, []
    if goal.over != (TIMESTAMPS,):
        return [f"this version derives {goal.kind} over timestamps only"]
    if TIMESTAMPS not in columns or TIMESTAMPS not in case.released:
        return ["no timestamps are released"]
    state = columns[TIMESTAMPS]
    if TIMESTAMPS in state.raw or not state.measured:
        reasons.append("raw timestamps would reach the released ones without noise")
    for column in sorted(case.released - {TIMESTAMPS}):
        if column in columns and TIMESTAMPS in columns[column].raw:
            writer = columns[column].writer
            by = case.steps[writer].mechanism if writer is not None else "the source"
            reasons.append(f"{by} reads timestamps otherwise than through the order of events, and writes {column}")
    currency: Currency = "metric" if isinstance(goal, MetricPrivacy) else "unit"
    delta = 0.0 if isinstance(goal, MetricPrivacy) else goal.delta
    reasons += _unproved(state.measured, case) + _overspent(goal.epsilon, delta, currency, case)
    if reasons:
        return reasons
    given = tuple(sorted(state.raw))
    claim = _priced(
        goal,
        delta,
        currency,
        case,
        derivation=(
            f"raw times reach the release only through the noise of {_names(state.measured, case)}",
            f"everything else that is released depends on {_and(given) or 'noise'} and on the order of events, not on times",
        ),
    )
    others = sorted(case.released - {TIMESTAMPS, CONTROL_FLOW, METADATA})
    claim = _given(claim, given, case.facts)
    if not others:
        return claim
    timeless = f"the values of {_and(others)} tell no times (what looks like one stops the run)"
    return claim.model_copy(update={"assumptions": (*claim.assumptions, timeless)})


def _given(claim: Claim, given: tuple[str, ...], facts: Facts) -> Claim:
    """The claim with what it is conditional on, in its assumptions too."""
    declared = [f"times are rounded to {format_duration(facts.grid)} and counted from {facts.epoch:%Y-%m-%d}"]
    if facts.window is not None and claim.currency == "unit":
        declared.append(
            f"cases start between {facts.window.start:%Y-%m-%d} and {facts.window.end:%Y-%m-%d} (others are moved)"
        )
    if facts.longest_gap is not None and claim.currency == "unit":
        declared.append(f"gaps are at most {format_duration(facts.longest_gap)} (longer ones are cut)")
    return claim.model_copy(update={"given": given, "assumptions": (*claim.assumptions, *declared)})


def _priced(
    goal: DifferentialPrivacy | MetricPrivacy,
    delta: float,
    currency: Currency,
    case: _Case,
    *,
    derivation: tuple[str, ...],
) -> Claim:
    events = case.events(currency)
    spent = cost(events, delta)
    return Claim(
        guarantee=goal,
        sentence=goal.sentence(),
        basis="derived",
        currency=currency,
        cost=spent,
        naive=naive(events),
        derivation=(
            *derivation,
            f"the noise actually drawn costs epsilon {spent.epsilon:.6g}, delta {spent.delta:.3g}",
        ),
        assumptions=_VALUE + _bounds(case.facts) if currency == "metric" else _unit_assumptions(case.facts),
    )


_VALUE: Final = ("protected is one time of one event: not a case, and not a person",)


def _unproved(used: Iterable[int], case: _Case) -> list[str]:
    published = [
        f"{case.steps[i].mechanism} is only published, not proved"
        for i in sorted(used)
        if case.steps[i].proof != "proved"
    ]
    return published + [reason for i, reason in case.flow.void.items() if i in set(used)]


def _overspent(epsilon: float, delta: float, currency: Currency, case: _Case) -> list[str]:
    spent = cost(case.events(currency), delta)
    if spent.epsilon <= epsilon and spent.delta <= delta:
        return []
    return [f"the steps cost epsilon {spent.epsilon:.6g}, delta {spent.delta:.3g}: more than {epsilon:g}, {delta:g}"]


def _unit_assumptions(facts: Facts) -> tuple[str, ...]:
    unit = facts.unit
    if unit.attribute is None:
        stated = ["the protected unit is one case; a person with several cases is protected case by case"]
    else:
        stated = [f"the protected unit is {unit}; a case without '{unit.attribute}' is a unit of its own"]
        stated.append(f"that the log's cases have '{unit.attribute}' at all is taken as known")
    if facts.units_at_most is not None:
        source = "by the DP profile, with a margin" if "units_at_most" in facts.measured else "declared"
        stated.append(f"the log holds at most {facts.units_at_most:,} units ({source})")
    return (*stated, *_bounds(facts))


def _bounds(facts: Facts) -> tuple[str, ...]:
    stated = [
        "the file is a well-formed log, every value of its declared type; one that is not is refused, whoever is in it"
    ]
    if facts.alphabet is not None:
        known = "were selected by the DP profile" if "alphabet" in facts.measured else "are public"
        stated.append(f"{len(facts.alphabet)} activities {known}; events of any other are dropped")
    if facts.longest_case is not None:
        stated.append(f"cases are cut after {facts.longest_case} events")
    return tuple(stated)


def _names(indexes: Iterable[int], case: _Case) -> str:
    return _and(case.steps[index].mechanism for index in sorted(indexes))


def _and(names: Iterable[str]) -> str:
    return " and ".join(sorted(names))
