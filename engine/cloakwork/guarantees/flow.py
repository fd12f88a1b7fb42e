"""What a rule of derivation reads: the steps of a plan as records, and the columns of a log,
followed through them: what raw value reaches where, and through whose noise.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import JsonValue

from cloakwork.base.costs import Composed, Cost, Currency, PrivacyEvent
from cloakwork.base.facts import CASE, Facts, unit_name
from cloakwork.base.frozen import frozen
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, Lineage
from cloakwork.guarantees.claims import (
    Assumption,
    CasesOfWindow,
    CasesTruncated,
    ChosenByFigures,
    ConditionedOn,
    KnownActivities,
    ProtectsEachCase,
    ProtectsEachUnit,
    ReadOffLog,
    Reason,
    UnitsAtMost,
    WellFormed,
    WithinLimits,
)
from cloakwork.log.limits import Limits


@frozen
class FlowStep:
    """What rules read of a step: ``goals`` index the guarantees that it serves, ``proved`` is False
    where its guarantee is only published.
    """

    mechanism: str
    params: Mapping[str, JsonValue]
    goals: tuple[int, ...]
    proved: bool
    event: PrivacyEvent
    currency: Currency
    lineage: Lineage


@frozen
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


Columns = Mapping[str, ColumnState]


@frozen
class Flow:
    """What rules of derivation read.

    ``released``: the columns that are released. ``columns``: the state of every column that exists
    after the last step. ``unproven``: the steps whose noise bounds nothing about the source log, by
    their indexes, each with the reason. ``profiled``: the noise by which some facts were measured;
    it is part of the cost. ``goal``: the index of the guarantee that is derived.
    """

    steps: tuple[FlowStep, ...]
    released: frozenset[str]
    facts: Facts
    columns: Columns
    unproven: Mapping[int, str]
    profiled: PrivacyEvent | None = None
    goal: int = 0

    def events(self, currency: Currency) -> PrivacyEvent:
        """All that is charged to ``currency``, as one event."""
        events = [step.event for step in self.steps if step.currency == currency]
        # The profile's noise protects units and is seen with the release.
        if self.profiled is not None and currency == "unit":
            events = [self.profiled, *events]
        return Composed(events=tuple(events))

    @property
    def inserts(self) -> bool:
        """Whether a step inserts events."""
        return any(step.lineage.inserts for step in self.steps)

    def writer_of(self, column: str) -> FlowStep | None:
        """The step that wrote ``column`` last; None for the source itself, and what is gone."""
        writer = self.columns[column].writer if column in self.columns else None
        return None if writer is None else self.steps[writer]

    def mechanism_writing(self, column: str) -> str:
        """The mechanism of the step that wrote ``column`` last; asked only where one did."""
        writer = self.writer_of(column)
        assert writer is not None  # noqa: S101 - see above
        return writer.mechanism

    def names_of(self, indexes: Iterable[int]) -> tuple[str, ...]:
        """The mechanisms of the steps ``indexes``, in alphabetical order."""
        return tuple(sorted({self.steps[index].mechanism for index in indexes}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """Why a guarantee follows: what a plan's claim says of it beside the guarantee itself.

    ``basis``: *derived* from lineage and privacy events, or *derived and measured* again on the
    released log. ``cost``: what the accountant charges, beside the plain sum of all events
    (``naive``). ``given``: what is taken as known; None where it holds whatever else is released.
    """

    derivation: tuple[Reason, ...]
    assumptions: tuple[Assumption, ...] = ()
    basis: Literal["derived", "derived and measured"] = "derived"
    cost: Cost | None = None
    naive: Cost | None = None
    given: ConditionedOn | None = None


@frozen
class Underived:
    """Why a guarantee does not follow; at least one cause."""

    causes: tuple[str, ...]


def follow_columns(
    steps: Sequence[FlowStep],
    released: Iterable[str],
    facts: Facts,
    profiled: PrivacyEvent | None = None,
) -> Flow:
    """Follow the columns of the source log through ``steps``; ``released``: those that are released
    besides control flow and metadata, which always are.
    """
    everything = frozenset({*released, CONTROL_FLOW, METADATA})
    # Before any step each column holds its own values, raw.
    columns: Columns = {name: ColumnState(frozenset({name})) for name in everything}
    # The columns of the log that new cases, or new columns, were made of, once they are made.
    source: Columns | None = None
    # Those before the first step that leaves the source: what a step that enriches measures.
    measured: Columns | None = None
    unproven: dict[int, str] = {}
    for index, step in enumerate(steps):
        lineage = step.lineage
        if lineage.leaves_source and measured is None:
            measured = columns
        # Values that only move inside their columns leave each its history.
        # What declares more besides, or is not proved, is followed like any other.
        reads_only_what_it_fills = lineage.reads <= lineage.writes | {CONTROL_FLOW}
        keeps_order = CONTROL_FLOW not in lineage.writes
        does_more = lineage.measures or lineage.generates
        fills = lineage.fills and reads_only_what_it_fills and keeps_order
        if fills and step.proved and not does_more:
            columns = {**columns, **_filled_columns(columns, index, lineage)}
            continue
        # Who adds columns to what was made anew measures those of the source.
        measurable = source if lineage.enriches and source is not None else columns
        seen = measured if lineage.enriches and measured is not None else columns
        written = _written_state(columns, seen, index, step)
        # Noise bounds nothing where it is on what one case can change without bound.
        for column in lineage.measures & measurable.keys():
            unstable = measurable[column].unstable
            if unstable is not None:
                unproven[index] = (
                    f"{step.mechanism} measures {column} after {steps[unstable].mechanism} "
                    "changed it: one case more or less can change any number of others there, "
                    "so its noise bounds nothing about the source log"
                )
        if (lineage.generates or lineage.is_given_flow) and source is None:
            source = columns
        # A step that generates makes new cases: only what it writes exists after it.
        kept = {} if lineage.generates else columns
        columns = {**kept, **dict.fromkeys(lineage.writes, written)}
    return Flow(tuple(steps), everything, facts, columns, unproven, profiled)


def _state_of(columns: Columns, column: str) -> ColumnState:
    """A column that no step has written and that is not released is the source's own: raw."""
    return columns.get(column, ColumnState(frozenset({column})))


def _written_state(
    before: Columns,
    measurable: Columns,
    index: int,
    step: FlowStep,
) -> ColumnState:
    """What is known of the columns that a step writes: it may put all that it reads into each."""
    lineage = step.lineage
    measured = [_state_of(measurable, column) for column in sorted(lineage.measures)]
    # What is added to cases has as many values as they have events, whatever else is read.
    shape = {CONTROL_FLOW, METADATA} if lineage.enriches else set()
    read = [_state_of(before, column) for column in sorted(lineage.reads | shape)]
    looked_at = read + measured
    # Noise that nobody proved hides nothing: what it measures reaches the release raw.
    raw_from = read if step.proved else looked_at
    by_own_noise = {index} if lineage.measures else set()
    unstable = next((state.unstable for state in looked_at if state.unstable is not None), None)
    return ColumnState(
        raw=frozenset().union(*(state.raw for state in raw_from)),
        measured=frozenset().union(by_own_noise, *(state.measured for state in looked_at)),
        writer=index,
        unstable=index if lineage.stability is None else unstable,
    )


def _filled_columns(before: Columns, index: int, lineage: Lineage) -> Columns:
    """The columns that a step fills: each keeps its own history, and depends on the control flow
    besides.

    Values move inside a column; where to follows from the control flow and fresh randomness. So the
    last step that made a column's values what a guarantee says stays its writer; that the guarantee
    still holds is for the checks to see.
    """
    order = _state_of(before, CONTROL_FLOW)
    filled = {}
    for column in lineage.writes:
        state = _state_of(before, column)
        filled[column] = replace(
            state,
            raw=state.raw | order.raw,
            measured=state.measured | order.measured,
            unstable=index,
        )
    return filled


def unit_assumptions(facts: Facts, *, counted: bool = False) -> Iterator[Assumption]:
    """Who is protected, and the declared bounds on what one unit contributes.

    ``counted``: the claim says how many units there are, and a case without one adds none.
    """
    if facts.unit.attribute is None:
        yield ProtectsEachCase()
    else:
        yield ProtectsEachUnit(
            attribute=facts.unit.attribute,
            max_cases=facts.unit.max_cases,
            cases_without="no-unit" if counted else "own-unit",
        )
    if facts.units_at_most is not None:
        source = "profile" if "units_at_most" in facts.measured else "declared"
        yield UnitsAtMost(units=facts.units_at_most, source=source)
    yield from form_assumptions(facts)


def suggestion_assumptions(facts: Facts) -> Iterator[ReadOffLog | ChosenByFigures]:
    """What of the policy came from the log, and who answers for it."""
    said = facts.suggested
    if said is None:
        return
    if said.read_off:
        yield ReadOffLog(what=said.read_off, by=said.confirmed_by, on=said.confirmed_on)
    if said.chosen is not None and said.instead_of is not None:
        yield ChosenByFigures(chosen=said.chosen, instead_of=said.instead_of)


def form_assumptions(facts: Facts) -> Iterator[Assumption]:
    """What is taken as known of the log's form."""
    yield WellFormed()
    # The reader's limits on whole files, unless somebody raises them.
    limits = Limits()
    yield WithinLimits(
        unpacked_size=limits.unpacked_size,
        unpack_ratio=limits.unpack_ratio,
        attributes=limits.attributes,
    )
    yield from suggestion_assumptions(facts)
    if facts.alphabet is not None:
        source = "profile" if "alphabet" in facts.measured else "declared"
        yield KnownActivities(count=len(facts.alphabet), source=source)
    if facts.release_window is not None:
        recorded = unit_name(facts.unit) == CASE
        yield CasesOfWindow(window=facts.release_window, recorded=recorded)
    if facts.longest_case is not None:
        yield CasesTruncated(events=facts.longest_case)
