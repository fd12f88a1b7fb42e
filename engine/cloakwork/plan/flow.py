"""Follow the columns of a log through the steps of a plan: what raw value reaches where, and through whose noise."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cloakwork.lineage import CONTROL_FLOW, METADATA
from cloakwork.plan.model import Step


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
