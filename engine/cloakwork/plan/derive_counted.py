"""The rules for guarantees that are counted on the release: k-anonymity, t-closeness, l-diversity,
confidence bounds.
"""

from collections.abc import Iterator, Sequence

from cloakwork.facts import Facts
from cloakwork.guarantees import ConfidenceBound, Guarantee, KAnonymity, LDiversity, TCloseness
from cloakwork.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.log.eventlog import CASE_PREFIX
from cloakwork.plan.claims import Assumption, Reason
from cloakwork.plan.claims.assumptions import (
    KnowsActivitySequence,
    KnowsAtMost,
    NobodyKnows,
    StartsAtEpoch,
    ValuesDeclared,
)
from cloakwork.plan.claims.reasons import (
    FollowsFromNoise,
    GivesGroupOneValue,
    LeavesOutEvents,
    MeasuredOnRelease,
    MeasuredWithoutInserted,
    MovesWholeCases,
    ReleasedAsItIs,
    TimesSinceFirstEvent,
    WritesValuesLast,
)
from cloakwork.plan.model import Claim
from cloakwork.plan.premises import Premises, unit_assumptions


def k_anonymity(index: int, goal: KAnonymity, premises: Premises) -> Claim | list[str]:
    """The last step to write each covered column was chosen for the goal, on real cases of the
    source.
    """
    reasons = list(_not_served(index, goal, premises))
    if reasons:
        return reasons
    writer = premises.steps[premises.writer_of(CONTROL_FLOW)]
    also = (
        GivesGroupOneValue(
            mechanism=premises.steps[premises.writer_of(column)].mechanism, column=column
        )
        for column in goal.over
        if column != CONTROL_FLOW
    )
    return Claim(
        guarantee=goal,
        sentence=goal.sentence(),
        basis="derived and measured",
        derivation=(
            MovesWholeCases(mechanism=writer.mechanism),
            *also,
            MeasuredOnRelease(what="groups"),
            *([MeasuredWithoutInserted(what="groups")] if premises.inserts else []),
        ),
        assumptions=unit_assumptions(premises.facts, counted=True) if goal.count == "units" else (),
    )


def confidence_bound(index: int, goal: ConfidenceBound, premises: Premises) -> Claim | list[str]:
    """The last step to write what is known was chosen for the goal; the sensitive attribute leaves
    as it came.
    """
    known = sorted({CONTROL_FLOW, TIMESTAMPS} & set(goal.over))
    reasons = list(_not_served(index, goal, premises, known))
    state = premises.flow.columns.get(goal.attribute) if goal.attribute else None
    if state is not None and state.writer is not None:
        by = premises.steps[state.writer].mechanism
        reasons.append(
            f"{by} changes {goal.attribute}, and the confidence is measured in its values as they are"
        )
    if reasons:
        return reasons
    writer = premises.steps[premises.writer_of(CONTROL_FLOW)]
    return Claim(
        guarantee=goal,
        sentence=goal.sentence(),
        basis="derived and measured",
        derivation=(
            LeavesOutEvents(mechanism=writer.mechanism, columns=tuple(known)),
            *_told(goal, premises.facts),
            MeasuredOnRelease(what="knowledge"),
        ),
        assumptions=(
            *_known_at_most(goal, premises),
            *unit_assumptions(premises.facts, counted=True),
        ),
    )


def _told(goal: ConfidenceBound, facts: Facts) -> Iterator[Reason]:
    """What is released of the columns beside the control flow."""
    if goal.precision is not None:
        yield TimesSinceFirstEvent(precision=goal.precision, epoch=facts.epoch)
    if goal.attribute is not None:
        yield ReleasedAsItIs(column=goal.attribute)


def _known_at_most(goal: ConfidenceBound, premises: Premises) -> Iterator[Assumption]:
    """What an attacker is taken to know."""
    yield KnowsAtMost(events=goal.L, background=goal.background, precision=goal.precision)
    if others := sorted(
        premises.released - {CONTROL_FLOW, METADATA} - (set(goal.over) - {goal.attribute})
    ):
        yield NobodyKnows(columns=tuple(others))


def _not_served(
    index: int, goal: Guarantee, premises: Premises, columns: Sequence[str] | None = None
) -> Iterator[str]:
    """Why the last steps to write what a measured goal covers (or ``columns`` of it) do not make it
    true of real cases.
    """
    for column in goal.over if columns is None else columns:
        state = premises.flow.columns.get(column)
        if state is None or state.writer is None or index not in premises.steps[state.writer].goals:
            by = (
                premises.steps[state.writer].mechanism
                if state and state.writer is not None
                else "no step"
            )
            own = [
                step.mechanism
                for step in premises.steps
                if index in step.goals and column in step.lineage.writes
            ]
            undone = (
                f", and undoes what {own[0]} does for it: ask for one of the two guarantees"
                if own
                else ""
            )
            yield f"{column} is last written by {by}, which does not bring about {goal.kind}{undone}"
        elif premises.steps[state.writer].proof != "proved":
            yield f"{premises.steps[state.writer].mechanism} is only published, not proved"
        elif state.measured:
            by, counted = (
                premises.steps[state.writer].mechanism,
                "k" if goal.kind == "k-anonymity" else goal.kind,
            )
            yield f"{by} runs after a noisy release: {counted} would count released rows, not the cases of the source log"


def values_in_classes(
    index: int, goal: TCloseness | LDiversity, premises: Premises
) -> Claim | list[str]:
    """The last step to write the attribute was chosen for the goal, and the classes are no others
    afterwards.
    """
    reasons = list(_not_served(index, goal, premises))
    if reasons:
        return reasons
    writer = premises.writer_of(goal.attribute)
    courses = premises.flow.columns[CONTROL_FLOW].writer
    if courses is not None and courses > writer:
        return [
            f"{premises.steps[courses].mechanism} changes which cases form a class after {premises.steps[writer].mechanism}"
        ]
    by, promised = (
        premises.steps[writer].mechanism,
        isinstance(goal, TCloseness) and goal.distance == "stochastic",
    )
    checked = FollowsFromNoise(mechanism=by) if promised else MeasuredOnRelease(what="classes")
    dilutes = premises.inserts and not promised and not goal.attribute.startswith(CASE_PREFIX)
    return Claim(
        guarantee=goal,
        sentence=goal.sentence(),
        basis="derived" if promised else "derived and measured",
        derivation=(
            WritesValuesLast(mechanism=by, column=goal.attribute),
            checked,
            *([MeasuredWithoutInserted(what="classes")] if dilutes else []),
        ),
        assumptions=tuple(_of_classes(goal, premises)),
    )


def _of_classes(goal: TCloseness | LDiversity, premises: Premises) -> Iterator[Assumption]:
    """What a claim about classes rests on."""
    yield KnowsActivitySequence()
    if goal.attribute == TIMESTAMPS:
        yield StartsAtEpoch(epoch=premises.facts.epoch)
    elif isinstance(goal, TCloseness) and goal.distance == "stochastic":
        yield ValuesDeclared(attribute=goal.attribute)
