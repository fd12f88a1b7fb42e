"""Follow the columns of a log through the steps of a plan: what raw value reaches where, and
through whose noise.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cloakwork.base.lineage import CONTROL_FLOW, METADATA
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
    """The state of every column that exists after the last step.

    ``unproven_measurements``: the steps whose noise bounds nothing about the source log, by their
    indexes, each with the reason. ``source``: the columns of the log that new cases were made of,
    once they are made.
    """

    columns: Mapping[str, ColumnState]
    unproven_measurements: Mapping[int, str] = field(default_factory=dict)
    source: Mapping[str, ColumnState] | None = None


def trace_columns(steps: Sequence[Step], columns: Iterable[str]) -> Flow:
    """Follow the columns of the source log through ``steps``."""
    sources = {*columns, CONTROL_FLOW, METADATA}
    flow = Flow({column: ColumnState(frozenset({column})) for column in sources})
    for index, step in enumerate(steps):
        flow = _flow_after(flow, index, step, steps)
    return flow


def _flow_after(flow: Flow, index: int, step: Step, steps: Sequence[Step]) -> Flow:
    """The state of all columns once ``step`` has run."""
    before = flow.columns
    if _moves_inside_columns(step):
        filled = _filled_columns(before, index, step)
        return replace(flow, columns={**before, **filled})
    measurable = flow.source if step.lineage.enriches and flow.source else before
    written = _written_state(before, measurable, index, step)
    # A step that generates makes new cases: only what it writes exists after it.
    kept = {} if step.lineage.generates else dict(before)
    unbounded = _unbounded_measurement(measurable, index, step, steps)
    unproven = {**flow.unproven_measurements, **unbounded}
    source = before if step.lineage.generates and flow.source is None else flow.source
    return Flow({**kept, **dict.fromkeys(step.lineage.writes, written)}, unproven, source)


def _written_state(
    before: Mapping[str, ColumnState],
    measurable: Mapping[str, ColumnState],
    index: int,
    step: Step,
) -> ColumnState:
    """What is known of the columns that a step writes: it may put all that it reads into each.

    ``measurable``: the columns that it measures, which are those of the source where cases have
    been made anew.
    """
    lineage = step.lineage
    measured = [_state_of(measurable, column) for column in sorted(lineage.measures)]
    # What is added to cases has as many values as they have events, whatever else is read.
    shape = {CONTROL_FLOW, METADATA} if lineage.enriches else set()
    read = [_state_of(before, column) for column in sorted(lineage.reads | shape)]
    looked_at = read + measured
    # Noise that nobody proved hides nothing: what it measures reaches the release raw.
    raw_from = looked_at if step.proof == "published" else read
    by_own_noise = {index} if lineage.measures else set()
    unstable = next((state.unstable for state in looked_at if state.unstable is not None), None)
    return ColumnState(
        raw=frozenset().union(*(state.raw for state in raw_from)),
        measured=frozenset().union(by_own_noise, *(state.measured for state in looked_at)),
        writer=index,
        unstable=index if lineage.stability is None else unstable,
    )


def _unbounded_measurement(
    before: Mapping[str, ColumnState], index: int, step: Step, steps: Sequence[Step]
) -> dict[int, str]:
    """Why a step's noise bounds nothing: it measures what one case can change without bound."""
    reasons = {}
    for column in step.lineage.measures & before.keys():
        unstable_step = before[column].unstable
        if unstable_step is not None:
            reasons[index] = (
                f"{step.mechanism} measures {column} after {steps[unstable_step].mechanism} "
                "changed it: one case more or less can change any number of others there, "
                "so its noise bounds nothing about the source log"
            )
    return reasons


def _moves_inside_columns(step: Step) -> bool:
    """Whether a step only fills; one that declares more besides, or is not proved, is followed like
    any other.
    """
    lineage = step.lineage
    reads_only_what_it_fills = lineage.reads <= lineage.writes | {CONTROL_FLOW}
    keeps_order = CONTROL_FLOW not in lineage.writes
    does_more = lineage.measures or lineage.generates
    proved = step.proof != "published"
    return lineage.fills and reads_only_what_it_fills and keeps_order and proved and not does_more


def _filled_columns(
    before: Mapping[str, ColumnState], index: int, step: Step
) -> dict[str, ColumnState]:
    """The columns that a step fills: each keeps its own history, and depends on the control flow
    besides.

    Values move inside a column; where to follows from the control flow and fresh randomness. So the
    last step that made a column's values what a guarantee says stays its writer; that the guarantee
    still holds is for the checks to see.
    """
    order = _state_of(before, CONTROL_FLOW)
    filled = {}
    for column in step.lineage.writes:
        state = _state_of(before, column)
        filled[column] = replace(
            state,
            raw=state.raw | order.raw,
            measured=state.measured | order.measured,
            unstable=index,
        )
    return filled


def _state_of(columns: Mapping[str, ColumnState], column: str) -> ColumnState:
    """A column that no step has written and that is not released is the source's own: raw."""
    return columns.get(column, ColumnState(frozenset({column})))
