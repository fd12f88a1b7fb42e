"""The rules for guarantees that are counted on the release: k-anonymity, t-closeness, l-diversity,
confidence form_assumptions.
"""

from collections.abc import Iterator, Sequence

from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.guarantees import ConfidenceBound, Guarantee, KAnonymity, LDiversity, TCloseness
from cloakwork.guarantees.claims import Assumption, Reason
from cloakwork.guarantees.claims.assumptions import (
    KnowsActivitySequence,
    KnowsAtMost,
    NobodyKnows,
    StartsAtEpoch,
    ValuesDeclared,
)
from cloakwork.guarantees.claims.reasons import (
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
from cloakwork.guarantees.derivation_context import DerivationContext, unit_assumptions
from cloakwork.log.eventlog import CASE_PREFIX
from cloakwork.plan.model import Claim, Step


def derive_k_anonymity(
    index: int, goal: KAnonymity, context: DerivationContext
) -> Claim | list[str]:
    """The last step to write each covered column was chosen for the goal, on real cases of the
    source.
    """
    causes = list(_why_not_served(index, goal, context, goal.over))
    if causes:
        return causes
    others = [column for column in goal.over if column != CONTROL_FLOW]
    in_units = goal.count == "units"
    return Claim(
        guarantee=goal,
        sentence=goal.sentence(),
        basis="derived and measured",
        derivation=(
            MovesWholeCases(mechanism=context.mechanism_writing(CONTROL_FLOW)),
            *(
                GivesGroupOneValue(mechanism=context.mechanism_writing(column), column=column)
                for column in others
            ),
            MeasuredOnRelease(what="groups"),
            *([MeasuredWithoutInserted(what="groups")] if context.inserts else []),
        ),
        assumptions=unit_assumptions(context.facts, counted=True) if in_units else (),
    )


def derive_confidence_bound(
    index: int, goal: ConfidenceBound, context: DerivationContext
) -> Claim | list[str]:
    """The last step to write what is known was chosen for the goal; the sensitive attribute is
    released as it came.
    """
    known = sorted({CONTROL_FLOW, TIMESTAMPS} & set(goal.over))
    causes = list(_why_not_served(index, goal, context, known))
    state = context.flow.columns.get(goal.attribute) if goal.attribute else None
    if state is not None and state.writer is not None:
        by = context.steps[state.writer].mechanism
        causes.append(
            f"{by} changes {goal.attribute}, "
            "and the confidence is measured in its values as they are"
        )
    if causes:
        return causes
    writer = context.mechanism_writing(CONTROL_FLOW)
    return Claim(
        guarantee=goal,
        sentence=goal.sentence(),
        basis="derived and measured",
        derivation=(
            LeavesOutEvents(mechanism=writer, columns=tuple(known)),
            *_released_in_form(goal, context.facts),
            MeasuredOnRelease(what="knowledge"),
        ),
        assumptions=(
            *_knowledge_assumptions(goal, context),
            *unit_assumptions(context.facts, counted=True),
        ),
    )


def _released_in_form(goal: ConfidenceBound, facts: Facts) -> Iterator[Reason]:
    """What is released of the columns beside the control flow."""
    if goal.precision is not None:
        yield TimesSinceFirstEvent(precision=goal.precision, epoch=facts.epoch)
    if goal.attribute is not None:
        yield ReleasedAsItIs(column=goal.attribute)


def _knowledge_assumptions(
    goal: ConfidenceBound, context: DerivationContext
) -> Iterator[Assumption]:
    """What an attacker is taken to know."""
    yield KnowsAtMost(events=goal.L, background=goal.background, precision=goal.precision)
    # The sensitive attribute is what an attacker wants to learn: it counts as unknown.
    known = set(goal.over) - {goal.attribute}
    unknown = context.released - {CONTROL_FLOW, METADATA} - known
    if unknown:
        yield NobodyKnows(columns=tuple(sorted(unknown)))


def derive_values_in_classes(
    index: int, goal: TCloseness | LDiversity, context: DerivationContext
) -> Claim | list[str]:
    """The last step to write the attribute was chosen for the goal, and the classes are no others
    afterwards.
    """
    causes = list(_why_not_served(index, goal, context, goal.over))
    if causes:
        return causes
    writer = context.writer_of(goal.attribute)
    by = context.steps[writer].mechanism
    classes_writer = context.flow.columns[CONTROL_FLOW].writer
    if classes_writer is not None and classes_writer > writer:
        changing = context.steps[classes_writer].mechanism
        return [f"{changing} changes which cases form a class after {by}"]
    if _rests_on_noise(goal):
        checked: tuple[Reason, ...] = (FollowsFromNoise(mechanism=by),)
    else:
        checked = _measured_in_classes(goal, context)
    return Claim(
        guarantee=goal,
        sentence=goal.sentence(),
        basis="derived" if _rests_on_noise(goal) else "derived and measured",
        derivation=(WritesValuesLast(mechanism=by, column=goal.attribute), *checked),
        assumptions=tuple(_class_assumptions(goal, context)),
    )


def _rests_on_noise(goal: TCloseness | LDiversity) -> bool:
    """Whether a goal speaks of output probabilities, which no single release shows."""
    return isinstance(goal, TCloseness) and goal.distance == "stochastic"


def _measured_in_classes(
    goal: TCloseness | LDiversity, context: DerivationContext
) -> tuple[Reason, ...]:
    """How the values of classes are measured, once more where inserted events may dilute them."""
    on_release = MeasuredOnRelease(what="classes")
    if context.inserts and not goal.attribute.startswith(CASE_PREFIX):
        return (on_release, MeasuredWithoutInserted(what="classes"))
    return (on_release,)


def _class_assumptions(
    goal: TCloseness | LDiversity, context: DerivationContext
) -> Iterator[Assumption]:
    """What a claim about classes rests on."""
    yield KnowsActivitySequence()
    if goal.attribute == TIMESTAMPS:
        yield StartsAtEpoch(epoch=context.facts.epoch)
    elif _rests_on_noise(goal):
        yield ValuesDeclared(attribute=goal.attribute)


def _why_not_served(
    index: int, goal: Guarantee, context: DerivationContext, columns: Sequence[str]
) -> Iterator[str]:
    """Why the last steps to write ``columns`` do not make a measured goal true of real cases."""
    for column in columns:
        state = context.flow.columns.get(column)
        writer = None
        if state is not None and state.writer is not None:
            writer = context.steps[state.writer]
        if writer is None or index not in writer.goals:
            yield _last_written_otherwise(index, goal, context, column, writer)
        elif writer.proof == "published":
            yield f"{writer.mechanism} is only published, not proved"
        elif state is not None and state.measured:
            counted = "k" if isinstance(goal, KAnonymity) else goal.kind
            yield (
                f"{writer.mechanism} runs after a noisy release: "
                f"{counted} would count released rows, not the cases of the source log"
            )


def _last_written_otherwise(
    index: int, goal: Guarantee, context: DerivationContext, column: str, writer: Step | None
) -> str:
    """That another step than the goal's writes ``column`` last."""
    by = "no step" if writer is None else writer.mechanism
    cause = f"{column} is last written by {by}, which does not bring about {goal.kind}"
    for step in context.steps:
        if index in step.goals and column in step.lineage.writes:
            return (
                f"{cause}, and undoes what {step.mechanism} does for it: "
                "ask for one of the two guarantees"
            )
    return cause
