"""The shapes of mechanisms: those that rewrite cases, and those that measure a log.

A mechanism without a differential-privacy claim summarises, decides and rewrites. ``summarise``
names a mergeable aggregate over whole cases; ``decide`` turns the small summary into a decision;
``rewrite`` maps whole cases to whole cases given the decision, or makes cases from the decision
alone. Only ``summarise`` and ``rewrite`` touch rows.

Both do so batch by batch. What is released does not depend on how the cases were parted: a summary
is sorted, and a rewrite decides nothing and draws from a keyed stream alone, whose draws depend on
a case's index in the whole log. ``tests/contracts`` holds every mechanism to it.

A mechanism that measures holds a kernel instead of data (``cloakwork.kernel``): it asks, and makes
what is released of noisy answers: cases, or, one that enriches, columns of cases that were made
before. One that perturbs says which noise each value gets, and makes
what is released of noisy values.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar, runtime_checkable

import polars as pl
from pydantic import BaseModel, JsonValue

from cloakwork.base.arrays import Ints
from cloakwork.base.budget import Currency
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, Lineage
from cloakwork.base.privacy_event import FREE, PrivacyEvent
from cloakwork.guarantees import Guarantee
from cloakwork.kernel import Cases, Kernel, Perturbation
from cloakwork.log.eventlog import EventLog
from cloakwork.log.handle import LogHandle
from cloakwork.mechanisms.noisy_times import Completion, NoisySample
from cloakwork.mechanisms.values import ColumnValues, Enrichment
from cloakwork.noise import Noise, Stream

P = TypeVar("P", bound=BaseModel)

Proof = Literal["proved", "kernel", "published"]
"""``proved``: the code meets the theorem's conditions; a kernel holds what measures to its event
besides. ``kernel``: the guarantee follows from the slots of the event, which the kernel enforces
whatever the code does. ``published``: the paper's claim alone; never satisfies a policy.
"""


@dataclass(frozen=True, slots=True)
class Theorem:
    """What a mechanism gives, and where that is shown."""

    statement: str
    source: str


@dataclass(frozen=True, slots=True)
class Offer(Generic[P]):
    """A mechanism can meet a goal with these parameters; ``why`` says how, in plain words."""

    params: P
    why: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a mechanism was not chosen for a goal; ends up in the plan.

    ``never``: it gives another kind of guarantee. ``not_yet``: this version lacks it. ``needs``:
    the policy must declare something first (``needs`` names what). ``misconfigured``: the options
    or the budget rule it out.
    """

    kind: Literal["never", "not_yet", "needs", "misconfigured"]
    reason: str
    needs: tuple[str, ...] = ()


class Aggregate(Protocol):
    """A summary of a log that can be taken batch by batch."""

    def of(self, batch: EventLog) -> pl.DataFrame:
        """Summarise one batch of whole cases."""
        ...

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """Combine the rows of several batches' summaries into one summary, in an order that does
        not depend on theirs: sorted. Summaries that were merged can be merged again.
        """
        ...


@dataclass(frozen=True, slots=True)
class Decision:
    """What a mechanism decided: a small table, and figures from the raw log for the internal report
    only.
    """

    table: pl.DataFrame
    internal: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a mechanism made of noisy answers: how many cases follow which variants.

    ``variants``: activity sequences, each once. ``cases``: int64, shape (variants,); none is
    released of a variant whose number is below 1. ``internal``: figures for the internal report.
    ``columns``: as of ``Enrichment``, of the cases variant by variant, where the mechanism gives
    them values as well.
    """

    variants: Sequence[tuple[str, ...]]
    cases: Ints
    internal: Mapping[str, JsonValue] = field(default_factory=dict)
    columns: ColumnValues = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Gives:
    """A kind of guarantee that a mechanism may offer, such as ``k-anonymity``.

    ``column``: what the guarantee is about where the kind does not say it: ``control-flow``,
    ``timestamps``, or None for whichever attribute the goal names.
    """

    kind: str
    column: str | None = None


Together = Literal["case", "unit", "log"]
"""What a batch must hold as a whole: each of its cases, all cases of each of their units, or the
log.
"""


@dataclass(frozen=True, slots=True)
class MapCases:
    """Rewrite whole cases to whole cases, batch by batch.

    ``together``: what must lie in one batch; ``log``, the safe choice, where nothing is said.
    ``unit``: for ``unit``, the case attribute that names it; cases without one are their own.

    ``apply`` keeps ``EventLog.case_index`` of the cases that it returns (as ``keep_cases``,
    ``keep_events`` and ``dataclasses.replace`` do), and may drop cases, but make none.
    """

    apply: Callable[[EventLog], EventLog]
    together: Together = "log"
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class GenerateCases:
    """Make cases from the decision alone; the rows of the source log are never looked at again.

    ``cases``: how many. ``make``: those from one number on, before another, the same ones in
    whatever ranges it is asked for them; so no more than one range is in memory at a time.
    ``events_until``: how many events so many of the first cases have; None where that is not known.
    """

    cases: int
    make: Callable[[int, int], EventLog]
    events_until: Callable[[int], int] | None = None


@dataclass(frozen=True, slots=True)
class EnrichCases:
    """Give columns to ``cases`` that a step before made, whatever log it was measured on.

    ``apply`` adds the columns of a batch of them. It holds those of all cases, so that an engine
    calls it in its own process, rather than send it to others.
    """

    cases: LogHandle
    apply: Callable[[EventLog], EventLog]


@dataclass(frozen=True, slots=True)
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


class Mechanism(Protocol[P]):
    """A privacy mechanism, which beside this ``Rewrites``, ``Measures``, ``Enriches`` or
    ``Perturbs``; third parties register theirs under the entry-point group
    ``cloakwork.mechanisms``.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    proof: ClassVar[Proof]
    theorem: ClassVar[Theorem]
    gives: ClassVar[tuple[Gives, ...]]
    """What it may offer. A mechanism that gives nothing is a treatment: it meets no goal alone."""
    Params: type[P]

    def offer(
        self, goal: Guarantee, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[P] | Refusal:
        """Meet ``goal`` given the declared ``facts`` and the policy's ``options`` for this
        mechanism, or say why not.
        """
        ...

    def event(self, params: P, facts: Facts) -> PrivacyEvent:
        """What one run costs, naming the noise actually drawn."""
        ...

    def currency(self, params: P) -> Currency:
        """Which budget the cost is charged to."""
        ...

    def lineage(self, params: P) -> Lineage:
        """Which columns are read, measured and written."""
        ...

    def facts_after(self, params: P, facts: Facts) -> Facts:
        """What may be known publicly once the step has run."""
        ...


@runtime_checkable
class Rewrites(Protocol):
    """A mechanism that sees the log, and measures nothing of it."""

    def summarise(self, params: Any) -> Aggregate | None:
        """The aggregate that ``decide`` needs; None when it needs nothing from the log."""
        ...

    def decide(self, params: Any, summary: pl.DataFrame, noise: Noise) -> Decision:
        """Turn the summary into a decision."""
        ...

    def rewrite(self, params: Any, decision: Decision, stream: Stream) -> Rewrite:
        """Turn the decision into an action on cases, which draws from ``stream`` alone."""
        ...


@runtime_checkable
class Measures(Protocol):
    """A mechanism that measures the log, and never sees it."""

    def measure(self, params: Any, kernel: Kernel) -> Measurement:
        """Ask ``kernel``, and make of its answers what is released.

        What it may ask is what its ``event`` lists; the columns that answers come from are those
        that its ``lineage`` measures.
        """
        ...


@runtime_checkable
class Enriches(Protocol):
    """A mechanism that gives values to cases that were made without them, and never sees the log
    from which these were made.
    """

    def enrich(self, params: Any, kernel: Kernel, cases: Cases) -> Enrichment:
        """Ask ``kernel`` about the log, and make of its answers the columns of ``cases``.

        ``cases``: what is released so far, as far as the ``lineage`` reads it. It was made of noisy
        answers too, so that a question may follow from it.
        """
        ...


@runtime_checkable
class OffersPart(Protocol):
    """A mechanism that can serve some columns of a goal over more of them, with Gaussian noise."""

    def offer_part(
        self,
        columns: tuple[str, ...],
        mu: float,
        delta: float,
        facts: Facts,
        options: Mapping[str, JsonValue],
    ) -> Offer[Any] | Refusal:
        """Measure ``columns`` with noise that tells no more of one unit than a normal number of
        deviation 1 that the unit moves by ``mu`` (Dong, Roth and Su 2022, definition 2.6), but for
        a probability of ``delta`` that thresholds may spend; or say why not.
        """
        ...


@runtime_checkable
class Perturbs(Protocol):
    """A mechanism that adds noise to each time of a log, and never sees one without."""

    def perturbs(self, params: Any) -> Perturbation:
        """The noise, which its ``event`` charges for."""
        ...

    def completion(self, params: Any, sample: NoisySample) -> Completion:
        """What makes a time for every event of a batch; ``sample``: of the whole log's noisy
        values.
        """
        ...


F = TypeVar("F", bound=BaseModel)


@runtime_checkable
class Searches(Protocol[F]):
    """A mechanism whose ``decide`` is a long search and what follows from it.

    ``search`` is handed no noise, so what it finds holds none, and may serve again for the same
    parameters and the same summary, whose columns are text, whole numbers or lists of them.
    ``decide`` is ``decide_by`` with what ``search`` finds.
    """

    name: ClassVar[str]
    Found: type[F]
    """What a search finds, as data that survives JSON."""

    def search(self, params: Any, summary: pl.DataFrame) -> F:
        """The search; nothing is drawn in it that a release must not repeat."""
        ...

    def decide_by(self, params: Any, summary: pl.DataFrame, found: F, noise: Noise) -> Decision:
        """Turn what was found into a decision, with noise of its own; raises ValueError where it is
        no answer for ``summary``, wherever it comes from.
        """
        ...


class WithoutCost:
    """What steps without a differential-privacy claim share: they measure nothing, so they cost
    nothing.
    """

    def event(self, params: BaseModel, facts: Facts) -> PrivacyEvent:
        """Free: nothing is measured."""
        return FREE

    def currency(self, params: BaseModel) -> Currency:
        """Of a cost of nothing."""
        return "unit"

    def facts_after(self, params: BaseModel, facts: Facts) -> Facts:
        """No more is public than before."""
        return facts


class MeasuresVariants:
    """A step that measures the control flow and makes all cases of noisy answers: what it declares
    beside its cost.
    """

    def currency(self, params: BaseModel) -> Currency:
        """Unit-level differential privacy."""
        return "unit"

    def lineage(self, params: BaseModel) -> Lineage:
        """Measures the control flow; whatever is released is made from the answers."""
        return Lineage(
            measures=frozenset({CONTROL_FLOW}),
            writes=frozenset({CONTROL_FLOW, METADATA}),
            generates=True,
        )

    def facts_after(self, params: BaseModel, facts: Facts) -> Facts:
        """Nothing more is public than before, as planning goes."""
        return facts


class WithoutDecision(WithoutCost):
    """A costless step that has nothing to decide: it treats each case by itself."""

    def summarise(self, params: BaseModel) -> None:
        """It needs no summary."""

    def decide(self, params: BaseModel, summary: pl.DataFrame, noise: Noise) -> Decision:
        """Nothing to decide."""
        return Decision(summary)
