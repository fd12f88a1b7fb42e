"""Follow the columns of a log through the steps of a plan: what raw value reaches where, and
through whose noise.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cloakwork.lineage import CONTROL_FLOW, METADATA
from cloakwork.plan.model import Step


@dataclass(frozen=True, slots=True)
class ColumnState:
    """What is known of one column after some steps.

    - ``raw``: source columns whose values reach it without noise.
    - ``measured``: indexes of the steps whose noise it came through.
    - ``writer``: index of the step that wrote it last; None for the source itself.
    - ``unstable``: index of the step after which one case can change it without bound; None if
      there is none.
    """

    raw: frozenset[str]
    measured: frozenset[int] = frozenset()
    writer: int | None = None
    unstable: int | None = None


@dataclass(frozen=True, slots=True)
class Flow:
    """The state of every column that exists after the last step, and the measurements that prove
    nothing.
    """

    columns: Mapping[str, ColumnState]
    void: Mapping[int, str] = field(default_factory=dict)


def trace(steps: Sequence[Step], columns: Iterable[str]) -> Flow:
    """Follow the columns of the source log through ``steps``."""
    flow = Flow(
        {column: ColumnState(frozenset({column})) for column in {*columns, CONTROL_FLOW, METADATA}}
    )
    for index, step in enumerate(steps):
        flow = _after(flow, index, step, steps)
    return flow


def _after(flow: Flow, index: int, step: Step, steps: Sequence[Step]) -> Flow:
    lineage, before = step.lineage, flow.columns
    if _moves_inside_columns(step):
        return Flow({**before, **_filled(before, index, step)}, flow.void)
    measured = [_state(before, column) for column in sorted(lineage.measures)]
    read = [_state(before, column) for column in sorted(lineage.reads)]
    looked_at = read + measured
    read = looked_at if step.proof != "proved" else read  # noise that nobody proved hides nothing
    unstable = next((state.unstable for state in looked_at if state.unstable is not None), None)
    written = ColumnState(
        raw=frozenset().union(*(state.raw for state in read)),
        measured=frozenset().union(
            {index} if lineage.measures else (), *(state.measured for state in looked_at)
        ),
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


def _moves_inside_columns(step: Step) -> bool:
    """Whether a step only fills; one that declares more besides, or is not proved, is followed like
    any other.
    """
    lineage = step.lineage
    alone = lineage.reads <= lineage.writes | {CONTROL_FLOW} and CONTROL_FLOW not in lineage.writes
    return (
        lineage.fills
        and alone
        and not lineage.measures
        and not lineage.generates
        and step.proof == "proved"
    )


def _filled(before: Mapping[str, ColumnState], index: int, step: Step) -> dict[str, ColumnState]:
    """The columns that a step fills: each keeps its own history, and depends on the control flow
    besides.

    Values move inside a column; where to follows from the control flow and fresh randomness. So the
    last step that made a column's values what a guarantee says stays its writer; that the guarantee
    still holds is for the checks to see.
    """
    order = _state(before, CONTROL_FLOW)
    filled = {}
    for column in step.lineage.writes:
        state = _state(before, column)
        filled[column] = replace(
            state,
            raw=state.raw | order.raw,
            measured=state.measured | order.measured,
            unstable=index,
        )
    return filled


def _state(columns: Mapping[str, ColumnState], column: str) -> ColumnState:
    """A column that no step has written and that is not released is the source's own: raw."""
    return columns.get(column, ColumnState(frozenset({column})))
