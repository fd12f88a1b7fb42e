"""What a step does to a log: the five kinds that there are, and what they hand to an engine.

A mechanism says by ``Mechanism.step`` which kind of step it takes. A kind holds what may be known
of the step beforehand (which columns it touches, what it costs) beside the functions that take it.
What contradicts itself cannot be put together: each kind refuses it.

- ``RewriteStep``: sees rows, and costs nothing. ``summary`` is a mergeable aggregate over whole
  cases; ``decide`` turns the small summary into a decision; ``rewrite`` maps whole cases to whole
  cases given the decision, or makes cases from the decision alone.
- ``MeasureStep``: asks a kernel, and makes cases of noisy answers.
- ``EnrichStep``: asks a kernel, and makes columns of cases that a step before made.
- ``NoiseOnTimesStep``: says which noise each time gets, and what is made of noisy times.
- ``NoiseOnValuesStep``: says which noise each value gets.

All run batch by batch. What is released does not depend on how the cases were parted: a summary is
sorted, and a rewrite decides nothing and draws from a keyed stream alone, whose draws depend on a
case's index in the whole log. ``tests/contracts`` holds every mechanism to it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, Literal, TypeVar

import numpy as np
import polars as pl
from pydantic import BaseModel, JsonValue

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.base.costs import FREE, Currency, PrivacyEvent, charges_anything
from cloakwork.base.facts import ProcessRules, RangeType
from cloakwork.base.frozen import frozen
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS, Lineage
from cloakwork.kernel import Kernel, Perturbation, Randomness
from cloakwork.kernel.cases import Cases
from cloakwork.kernel.local import Randomisation
from cloakwork.kernel.perturb import StartsAndGaps, addresses_of
from cloakwork.log.eventlog import Aggregate, Change, EventLog, LogHandle
from cloakwork.noise import Addresses, Noise, Stream


def case_addresses(log: EventLog) -> Addresses:
    """The address of each case, by its index in the whole log."""
    return Addresses.of_cases(log.index_of_case)


def event_addresses(log: EventLog, rows: Ints) -> Addresses:
    """The address of each of the events at ``rows`` (int64): its case, and its position there."""
    return Addresses(log.index_of_case[log.case_of[rows]], log.position_of_event[rows])


Figures = Mapping[str, JsonValue]
"""What is said of a step, or of a log, to those inside: figures by name."""


@frozen
class Listed:
    """Values of a column that come from a list: ``codes``, int64, the place of each in ``domain``,
    -1 where a value is missing. The type of the column is that of the domain.
    """

    codes: Ints
    domain: tuple[JsonValue, ...]

    def taken(self, rows: Bools | Ints) -> "Listed":
        """Those at ``rows``."""
        return replace(self, codes=self.codes[rows])


@frozen
class Numbers:
    """Values of a column that are numbers: float64; NaN where one is missing. ``type``: what the
    column holds. Whole numbers are at most 2**53; dates are days since 1970, times seconds.
    """

    values: Floats
    type: RangeType = "number"

    def taken(self, rows: Bools | Ints) -> "Numbers":
        """Those at ``rows``."""
        return replace(self, values=self.values[rows])


@frozen
class Times:
    """Times of events: int64, microseconds since 1970; in each case they do not descend."""

    microseconds: Ints

    def taken(self, rows: Bools | Ints) -> "Times":
        """Those at ``rows``."""
        return replace(self, microseconds=self.microseconds[rows])


ColumnValues = Mapping[str, Listed | Numbers | Times]
"""Values by the name of their column."""


@frozen
class Enrichment:
    """What a mechanism made of noisy answers for cases: columns by their names in a lineage, with a
    value for each event, or for each case where the name begins with ``case:``.

    ``of_part``: where there are more cases than those that it was made for, the columns of some
    others, by the same answers.
    """

    columns: ColumnValues
    internal: Figures = field(default_factory=dict)
    of_part: Callable[[Cases, Randomness], ColumnValues] | None = None


@frozen
class PublicValues:
    """What the codes of an attribute stand for: the places in ``domain``, or so many equal
    ``steps`` from the least to the largest number of ``range``, rounded where they are of type
    ``integer``.
    """

    domain: tuple[JsonValue, ...] | None = None
    range: tuple[float, float] | None = None
    steps: int = 0
    integer: bool = False


@frozen
class Draws:
    """Randomness for what is made of noisy times: the same for a case in any batch.

    Nothing of the noise can be told from it: both come of keys of their own.
    """

    _stream: Stream
    _offsets: Ints
    _index: Ints

    def part(self, name: str) -> "Draws":
        """Draws for one purpose, independent of all others."""
        return replace(self, _stream=self._stream.part(name))

    def of_cases(self, below: Ints, cases: Ints) -> Ints:
        """For each of ``cases`` a uniform integer in [0, ``below``): int64."""
        return self._stream.uniform(below, Addresses.of_cases(self._index[cases]))

    def of_events(self, below: Ints, rows: Ints) -> Ints:
        """For each of the events at ``rows`` a uniform integer in [0, ``below``): int64."""
        return self._stream.uniform(below, addresses_of(rows, self._offsets, self._index))


@frozen
class NoisyTimes:
    """What a mechanism sees of a batch of cases: their control flow, and noisy times."""

    cases: Cases
    noised: StartsAndGaps
    draws: Draws


@frozen
class NoisySample:
    """Some noisy values of the whole log, drawn at random; activities are places in ``alphabet``.

    ``starts``; ``gaps`` with each one's ``activity``; and the gaps of directly-follows pairs
    (``pair_gaps``) whose events both have a time, with the activities ``before`` and ``after`` of
    each: all int64.
    """

    alphabet: tuple[str, ...]
    starts: Ints
    gaps: Ints
    activity: Ints
    pair_gaps: Ints
    before: Ints
    after: Ints


Completion = Callable[[NoisyTimes], Ints]
"""A time for every event of a batch, in steps of the grid: int64, shape (events,)."""


class ContradictingStep(ValueError):
    """A step that says of itself what cannot be true together."""


@frozen
class Decision:
    """What a mechanism decided: a small table, and figures from the raw log for the internal report
    only.
    """

    table: pl.DataFrame
    internal: Figures = field(default_factory=dict)


@frozen
class Measurement:
    """What a mechanism made of noisy answers: how many cases follow which variants.

    ``variants``: activity sequences, each once. ``cases``: int64, shape (variants,); none is
    released of a variant whose number is below 1. ``internal``: figures for the internal report.
    ``columns``: as of ``Enrichment``, of the cases variant by variant, where the mechanism gives
    them values as well.
    """

    variants: Sequence[tuple[str, ...]]
    cases: Ints
    internal: Figures = field(default_factory=dict)
    columns: ColumnValues = field(default_factory=dict)

    def keeping(self, rules: ProcessRules | None) -> "Measurement":
        """Without the cases of variants that break a rule. Post-processing: rules are public."""
        if rules is None:
            return self
        keeps = np.array([rules.keeps(variant) for variant in self.variants], np.bool_)
        kept = [variant for variant, is_kept in zip(self.variants, keeps, strict=True) if is_kept]
        cases = np.maximum(self.cases, 0)
        lengths = np.array([len(variant) for variant in self.variants], np.int64)
        columns = {
            name: column.taken(
                np.repeat(keeps, cases if name.startswith("case:") else cases * lengths)
            )
            for name, column in self.columns.items()
        }
        dropped = int(cases[~keeps].sum())
        figures = {**self.internal, "cases dropped, which break assume.rules (noisy)": dropped}
        return Measurement(kept, self.cases[keeps], figures, columns)


Together = Literal["case", "unit", "log"]
"""What a batch must hold as a whole: each of its cases, all cases of each of their units, or the
log.
"""


@frozen
class MapCases:
    """Rewrite whole cases to whole cases, batch by batch.

    ``together``: what must lie in one batch; ``log``, the safe choice, where nothing is said.
    ``unit``: for ``unit``, the case attribute that names it; cases without one are their own.

    ``apply`` keeps ``EventLog.case_index`` of the cases that it returns (as ``keep_cases``,
    ``keep_events`` and ``dataclasses.replace`` do), and may drop cases, but make none.
    """

    apply: Change
    together: Together = "log"
    unit: str | None = None


@frozen
class GenerateCases:
    """Make cases from the decision alone; the rows of the source log are never looked at again.

    ``cases``: how many. ``make``: those from one number on, before another, the same ones in
    whatever ranges it is asked for them; so no more than one range is in memory at a time.
    ``events_until``: how many events so many of the first cases have; None where that is not known.
    """

    cases: int
    make: Callable[[int, int], EventLog]
    events_until: Callable[[int], int] | None = None


@frozen
class EnrichCases:
    """Give columns to ``cases`` that a step before made, whatever log it was measured on.

    ``apply`` adds the columns of a part of them: of ``size`` cases, by their index, all in one
    batch. It reads answers, so that an engine calls it in its own process, part after part.
    """

    cases: LogHandle
    size: int
    apply: Change


@frozen
class MapCasesBySummary:
    """Rewrite in two passes: ``aggregate`` is taken over all batches, and ``mapping`` makes of the
    merged table what maps the cases.

    For what a rewrite needs of the whole log, such as noised values that events without one draw
    from. Noise that both passes need is drawn at the same addresses of the stream: it is the same
    noise.
    """

    aggregate: Aggregate
    mapping: Callable[[pl.DataFrame], MapCases]


Rewrite = MapCases | MapCasesBySummary | GenerateCases | EnrichCases


F = TypeVar("F", bound=BaseModel)


@frozen
class Search(Generic[F]):
    """A long search, and what follows from it.

    ``find`` is handed no noise, so what it finds holds none, and may serve again for the same
    parameters and the same summary, whose columns are text, whole numbers or lists of them.
    ``Found``: what it finds, as data that survives JSON. ``decide_by`` turns that into a decision,
    with noise of its own; it raises ValueError where it is no answer for the summary, wherever it
    comes from.
    """

    Found: type[F]
    find: Callable[[pl.DataFrame], F]
    decide_by: Callable[[pl.DataFrame, F, Noise], Decision]


def nothing_to_decide(summary: pl.DataFrame, noise: Noise) -> Decision:
    """The decision of a step that treats each case by itself."""
    return Decision(summary)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteStep:
    """A step that sees the log, measures nothing of it, and costs nothing.

    ``summary``: the aggregate that ``decide`` needs; None where it needs nothing from the log.
    ``search``: where ``decide`` is a long search and what follows from it, these two apart.
    """

    lineage: Lineage
    rewrite: Callable[[Decision, Stream], Rewrite]
    summary: Aggregate | None = None
    decide: Callable[[pl.DataFrame, Noise], Decision] = nothing_to_decide
    search: Search[Any] | None = None
    event: PrivacyEvent = field(default=FREE, init=False)
    currency: Currency = field(default="unit", init=False)

    def __post_init__(self) -> None:
        if self.lineage.measures:
            raise ContradictingStep(
                "a step that rewrites measures nothing: what draws noise for a guarantee asks a "
                "kernel, in a MeasureStep"
            )
        if self.lineage.enriches:
            raise ContradictingStep("a step that rewrites adds no columns to cases of another log")
        # What is decided may depend on what was summarised.
        if self.summary is not None and not self.lineage.reads:
            raise ContradictingStep(
                "it takes a summary of the log, and its lineage names no column that it looks at"
            )


CASES_FROM_ANSWERS: Final = Lineage(
    measures=frozenset({CONTROL_FLOW}),
    writes=frozenset({CONTROL_FLOW, METADATA}),
    generates=True,
)
"""Measures the control flow; every case of the release is made from the noisy answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureStep:
    """A step that measures the log without seeing it, and makes all cases of the answers.

    ``measure`` asks the kernel what ``event`` lists, of the columns that ``lineage`` measures.
    """

    event: PrivacyEvent
    measure: Callable[[Kernel], Measurement]
    lineage: Lineage = CASES_FROM_ANSWERS
    currency: Currency = field(default="unit", init=False)

    def __post_init__(self) -> None:
        _require_charge(self.lineage, self.event)
        if not self.lineage.generates or not {CONTROL_FLOW, METADATA} <= self.lineage.writes:
            raise ContradictingStep(
                "a step that measures makes new cases (generates), and writes "
                f"{CONTROL_FLOW} and {METADATA}"
            )


CASES_OF_A_PART: Final = 1 << 15
"""Released cases whose columns are made at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnrichStep:
    """A step that gives values to cases that were made without them, and never sees the log from
    which these were made.

    ``enrich`` asks the kernel about that log, and makes of its answers the columns of the cases,
    which it is handed as far as ``lineage`` reads them. They were made of noisy answers too, so
    that a question may follow from them. ``in_parts``: of more cases than ``CASES_OF_A_PART`` it is
    handed so many, and says what gives columns to the others (``Enrichment.of_part``).
    """

    lineage: Lineage
    event: PrivacyEvent
    enrich: Callable[[Kernel, Cases], Enrichment]
    in_parts: bool = False
    currency: Currency = field(default="unit", init=False)

    def __post_init__(self) -> None:
        _require_charge(self.lineage, self.event)
        # The cases are those of a step before.
        writes_flow = CONTROL_FLOW in self.lineage.writes
        if not self.lineage.enriches or self.lineage.generates or writes_flow:
            raise ContradictingStep(
                "a step that adds columns to cases enriches, makes no cases, and does not write "
                f"{CONTROL_FLOW}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseOnTimesStep:
    """A step that adds noise to each time of a log, and never sees one without.

    ``noise``: what ``event`` charges for. ``complete``: makes, by a sample of the whole log's noisy
    values, what gives a time to every event of a batch.
    """

    lineage: Lineage
    event: PrivacyEvent
    currency: Currency
    noise: Perturbation
    complete: Callable[[NoisySample], Completion]

    def __post_init__(self) -> None:
        _require_type(self.noise, Perturbation, "noise")
        _require_charge(self.lineage, self.event)
        if TIMESTAMPS not in self.lineage.measures or CONTROL_FLOW not in self.lineage.reads:
            raise ContradictingStep(
                "a step that puts noise on times measures them, and reads the order of events"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseOnValuesStep:
    """A step that puts a noisy value in the place of each value, and never sees one.

    ``noise``: on each attribute, what ``event`` charges for; ``values``: what the codes of each
    attribute stand for.
    """

    lineage: Lineage
    event: PrivacyEvent
    noise: Randomisation
    values: Mapping[str, PublicValues]
    currency: Currency = field(default="local", init=False)

    def __post_init__(self) -> None:
        _require_type(self.noise, Randomisation, "noise")
        _require_charge(self.lineage, self.event)
        # A value that is not randomised would be released as it is.
        names = frozenset(self.noise.noises)
        if self.lineage.reads or names != self.lineage.measures or names != self.lineage.writes:
            raise ContradictingStep(
                "it randomises other values than its lineage measures and writes"
            )


StepKind = RewriteStep | MeasureStep | EnrichStep | NoiseOnTimesStep | NoiseOnValuesStep


def _require_charge(lineage: Lineage, event: PrivacyEvent) -> None:
    """Whatever is measured is charged for."""
    if lineage.measures and not charges_anything(event):
        columns = ", ".join(sorted(lineage.measures))
        raise ContradictingStep(f"it measures {columns} and charges nothing for it")


def _require_type(
    value: object,
    kind: type,
    what: str,
) -> None:
    if not isinstance(value, kind):
        raise ContradictingStep(f"its {what} is no {kind.__name__}")


def places_of_numbers(domain: Sequence[JsonValue]) -> dict[float, int]:
    """The place of each number among the values of a domain, which may be texts.

    Of several that are the same number (7, "007") it is that of the one which is spelled as short
    as can be, and none where none is: so what is known as a number alone stands for the value that
    its text would, whether a table holds whole numbers or, for one missing value, others.
    """
    found: dict[float, list[int]] = {}
    for place, value in enumerate(domain):
        number = _number(value)
        if math.isfinite(number):
            found.setdefault(number, []).append(place)
    places: dict[float, int] = {}
    for number, candidates in found.items():
        # Whole ones without a point.
        shortest = str(int(number)) if number.is_integer() else str(number)
        spelled = [place for place in candidates if str(domain[place]) == shortest]
        if spelled:
            # 5 and "5": a text is found first.
            places[number] = min(spelled, key=lambda place: not isinstance(domain[place], str))
        elif len(candidates) == 1:
            places[number] = candidates[0]
    return places


def _number(value: JsonValue) -> float:
    """The number that a value of a domain is, or whose text it is; NaN for others."""
    # A truth value is no number, though Python counts it as 1 or 0.
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan
