"""What every kind of guarantee says of itself: nothing else needs to know which kinds exist.

There are two families: guarantees that are counted on a release, and guarantees that rest on noise.
A kind that leaves out a part cannot be defined: the import fails, and names what is missing.

And what a check sees of a log, batch by batch, and what it concludes from all of it.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

import polars as pl
from pydantic import Field

from cloakwork.base.costs import Cost, Currency
from cloakwork.base.errors import GuaranteeBroken
from cloakwork.base.facts import Unit
from cloakwork.base.frozen import frozen
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.base.quantities import LEAST_EPSILON, MOST_EPSILON, Described, Number, Probability
from cloakwork.base.text import listed
from cloakwork.guarantees.claims import GuaranteeCaveat
from cloakwork.guarantees.flow import Derived, Flow, FlowStep, Underived
from cloakwork.log.eventlog import Aggregate, Change, EventLog, LogHandle, merged


@frozen
class Observation:
    """Whether a log keeps a guarantee, and what was seen, as the end of a sentence."""

    holds: bool
    seen: str


@frozen
class EvidenceOfView:
    """The evidence of what ``view`` makes of each batch."""

    evidence: Aggregate
    view: Change

    def of(self, batch: EventLog) -> pl.DataFrame:
        """Of what somebody sees of the batch."""
        return self.evidence.of(self.view(batch))

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """As the evidence does."""
        return self.evidence.merge(summaries)


def as_everybody_sees(batch: EventLog) -> EventLog:
    """The batch without the knowledge which events were inserted."""
    return replace(batch, inserted=None)


@frozen
class GuaranteeCheck:
    """The check of one guarantee: on the log as everybody reads it, by ``evidence``, and for
    somebody who recognises inserted events.

    ``judge``: what the merged evidence shows; raises ``GuaranteeBroken`` where it cannot be
    measured. ``marks``: the evidence of what tells inserted events from others, where it takes the
    whole log; ``for_recogniser``: from that, merged (an empty table where there is none), the
    evidence of what somebody sees who recognises them, which ``judge`` judges as well. None where
    marks do not matter.
    """

    evidence: Aggregate
    judge: Callable[[pl.DataFrame], Observation]
    marks: Aggregate | None = None
    for_recogniser: Callable[[pl.DataFrame], Aggregate] | None = None

    def measured_on(self, log: LogHandle) -> Observation:
        """What the check sees on ``log``, of which one batch at a time is in memory."""
        merged, has_inserted_events = _taken(log, self.evidence)
        public = self.judge(merged)
        if not public.holds or not has_inserted_events or self.for_recogniser is None:
            return public
        # The whole log comes first: which inserted events show follows from all kept ones.
        marks = pl.DataFrame() if self.marks is None else gathered(log, self.marks)
        recognised = self.judge(gathered(log, self.for_recogniser(marks)))
        if recognised.holds:
            return public
        return Observation(False, f"{recognised.seen}, once inserted events are recognised")


def gathered(log: LogHandle, evidence: Aggregate) -> pl.DataFrame:
    """The evidence of all batches, merged."""
    return _taken(log, evidence)[0]


def _taken(log: LogHandle, evidence: Aggregate) -> tuple[pl.DataFrame, bool]:
    """The merged evidence, and whether there are inserted events."""
    has_inserted: list[bool] = []

    def tables() -> Iterator[pl.DataFrame]:
        for table, inserted in log.results(partial(_look, evidence)):
            has_inserted.append(inserted)
            yield table

    return merged(evidence, tables()), any(has_inserted)


def _look(evidence: Aggregate, index: int, batch: EventLog) -> tuple[pl.DataFrame, bool]:
    """The evidence of a batch, and whether it has inserted events."""
    has_inserted_events = batch.inserted is not None and bool(batch.inserted.any())
    return evidence.of(batch), has_inserted_events


def require_column(frame: pl.DataFrame, name: str, guarantee: str) -> None:
    """Raise ``GuaranteeBroken`` where ``frame`` lacks a column; ``guarantee``: in its words."""
    if name not in frame.columns:
        raise GuaranteeBroken(guarantee, f"the log has no column '{name}' to count by")


Direction = Literal["more", "less"]


# Fields that several kinds share, each with the sentence that an author reads.

Columns = Annotated[
    tuple[str, ...],
    Field(
        min_length=1,
        description=(
            "Columns that are covered: control-flow, timestamps, metadata or attributes by name"
        ),
    ),
]
Epsilon = Annotated[
    Number,
    Field(
        ge=LEAST_EPSILON,
        le=MOST_EPSILON,
        description="How much one may learn at most; smaller is more private",
    ),
]
Delta = Annotated[
    Probability,
    Field(
        ge=0,
        lt=1,
        description=(
            "Probability that may escape the bound of epsilon, for example 1.0e-6; "
            "0, or at least 1e-20"
        ),
    ),
]


@frozen
class LeastGroup:
    """How many released cases, or how many units, share at least what a guarantee speaks of.

    ``symbol``: what the policy calls the number, such as ``k``.
    """

    symbol: str
    least: int
    counts: Literal["cases", "units"]


@frozen
class GuaranteePrice:
    """What a guarantee may cost at most, in its currency.

    ``shift``: for metric privacy, how far one value may move for that cost. ``per``: for local
    differential privacy, whether the cost is that of a value or of a case.
    """

    currency: Currency
    cost: Cost
    shift: timedelta | None = None
    per: Literal["value", "case"] | None = None


@frozen
class ReleaseOutline:
    """What a kind needs to know of a release in order to say what it leaves open.

    ``unit_attribute``: the attribute that identifies units of privacy; None where each case is one.
    ``sensitive``: released sensitive attributes whose values no guarantee bounds.
    ``beside_times``: released columns other than control flow, times and form.
    """

    unit_attribute: str | None = None
    sensitive: tuple[str, ...] = ()
    beside_times: tuple[str, ...] = ()


class PrivacyGuarantee(Described, ABC):
    """What a policy may ask for and a release may claim.

    ``currency``: what pays for it; None where it is counted on the release and costs nothing.
    ``bounds_values``: whether it bounds what a group of cases tells about an attribute's values.
    ``stricter_if``: for each number that says how strong it is, whether more or less is stricter.
    ``strictest_word``: the same for its words, each with the strictest choice.
    """

    currency: ClassVar[Currency | None]
    bounds_values: ClassVar[bool]
    stricter_if: ClassVar[Mapping[str, Direction]]
    strictest_word: ClassVar[Mapping[str, str]]

    if TYPE_CHECKING:  # fields in some kinds, computed in others: pydantic must not see them here

        @property
        def kind(self) -> str:
            """The name that a policy gives it."""

        @property
        def over(self) -> tuple[str, ...]:
            """The columns that it covers."""

    @property
    def employees(self) -> str | None:
        """The attribute of events that names whom it protects; None where that is cases or persons,
        of which the policy says who.
        """
        return None

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        """Raise TypeError for a kind that leaves out a part; the two families are no kinds."""
        super().__pydantic_init_subclass__(**options)
        # The two families have no kind of their own.
        if "kind" not in cls.model_fields:
            return
        declared = ("currency", "bounds_values", "stricter_if", "strictest_word", "over")
        # What a family says for all of its kinds counts as well.
        known = {*cls.model_fields, *(name for each in cls.__mro__ for name in vars(each))}
        missing = {*cls.__abstractmethods__, *(name for name in declared if name not in known)}
        if missing:
            raise TypeError(f"the guarantee {cls.__name__} leaves out {', '.join(sorted(missing))}")

    @abstractmethod
    def sentence(self) -> str:
        """Say it to a person."""

    @abstractmethod
    def in_short(self, who: str = "case") -> str:
        """Its line on a screen: shorter, and claims no more. ``who``: what a protected unit is
        called.
        """

    @abstractmethod
    def derive(self, flow: Flow) -> Derived | Underived:
        """Why it follows from the steps of ``flow``, or why not; no step states a claim itself.

        The rules are those of ``docs/guarantees.md``.
        """

    @abstractmethod
    def check(self, unit: Unit, *, raw_times: bool = False) -> GuaranteeCheck | None:
        """How it is measured on a log alone, by code that shares nothing with the mechanisms; None
        where no single release shows it.

        ``raw_times``: times are released as they are, so that inserted events may show by the
        precision of theirs.
        """

    @abstractmethod
    def compared_logs(self) -> str | None:
        """Which two logs an attacker can hardly distinguish, in words; None where none are
        compared.
        """

    @abstractmethod
    def price(self) -> GuaranteePrice | None:
        """What it may cost at most; None where it costs nothing."""

    @abstractmethod
    def least_group(self) -> LeastGroup | None:
        """How many cases or units share what it speaks of; None where it counts none."""

    @abstractmethod
    def quasi_identifiers(self) -> tuple[str, ...]:
        """The attributes by whose written values it groups cases."""

    @abstractmethod
    def hides_presence(self) -> bool:
        """Whether it hides if a unit is in the source log at all."""

    def hides_attribute_names(self) -> bool:
        """Whether the names of a log's attributes are data that it must hide: where it hides if a
        unit is there, since one case may be the only one with some attribute.
        """
        return self.hides_presence()

    @abstractmethod
    def takes_columns_as_known(self) -> bool:
        """Whether it holds given all that is released beside the columns that it covers."""

    @abstractmethod
    def caveats(self, release: ReleaseOutline) -> Iterator[GuaranteeCaveat]:
        """What it leaves open on such a release."""

    def cited(self) -> str:
        """It as people cite it: ``k-anonymity over control-flow``."""
        return f"{self.kind} over {', '.join(self.over)}"

    @classmethod
    def default_columns(cls) -> tuple[str, ...]:
        """The columns that it covers where a policy names none."""
        over = cls.model_fields.get("over")
        return () if over is None or over.is_required() else tuple(over.default)

    @classmethod
    def columns_as_written(
        cls, written: Mapping[str, Any]
    ) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """The columns and attributes that ``written``, an entry of a policy, covers.

        Each comes with its place in the entry. Nothing about the entry's shape is taken for
        granted.
        """
        over = written.get("over")
        listed = over if isinstance(over, list) else cls.default_columns()
        for position, name in enumerate(listed):
            if isinstance(name, str):
                yield ("over", position), name
        if isinstance(written.get("attribute"), str):
            yield ("attribute",), written["attribute"]


class CountedGuarantee(PrivacyGuarantee):
    """A guarantee that is counted on the released log: it costs nothing and compares no logs."""

    currency: ClassVar[Currency | None] = None

    def compared_logs(self) -> str | None:
        """None: it speaks of one release."""
        return None

    def price(self) -> GuaranteePrice | None:
        """None: it draws on no budget."""
        return None

    def hides_presence(self) -> bool:
        """No."""
        return False

    def takes_columns_as_known(self) -> bool:
        """No: it speaks of its own columns alone."""
        return False

    def why_not_served(self, flow: Flow, columns: Sequence[str]) -> Iterator[str]:
        """Why the last steps to write ``columns`` do not make it true of real cases."""
        for column in columns:
            writer = flow.writer_of(column)
            if writer is None or flow.goal not in writer.goals:
                yield self._last_written_otherwise(flow, column, writer)
            elif not writer.proved:
                yield f"{writer.mechanism} is only published, not proved"
            elif flow.columns[column].measured:
                group = self.least_group()
                counted = "k" if group is not None and group.symbol == "k" else self.kind
                yield (
                    f"{writer.mechanism} runs after a noisy release: "
                    f"{counted} would count released rows, not the cases of the source log"
                )

    def _last_written_otherwise(self, flow: Flow, column: str, writer: FlowStep | None) -> str:
        """That another step than its own writes ``column`` last."""
        by = "no step" if writer is None else writer.mechanism
        cause = f"{column} is last written by {by}, which does not bring about {self.kind}"
        # A step for it that another one overwrote: two guarantees are in each other's way.
        for step in flow.steps:
            if flow.goal in step.goals and column in step.lineage.writes:
                return (
                    f"{cause}, and undoes what {step.mechanism} does for it: "
                    "ask for one of the two guarantees"
                )
        return cause


class NoiseGuarantee(PrivacyGuarantee):
    """A guarantee that rests on noise: it bounds probabilities and draws on the budget."""

    bounds_values: ClassVar[bool] = False

    if TYPE_CHECKING:

        @property
        def epsilon(self) -> float:
            """How much one may learn at most."""

    @abstractmethod
    def price(self) -> GuaranteePrice:
        """What it may cost at most."""

    def check(self, unit: Unit, *, raw_times: bool = False) -> GuaranteeCheck | None:
        """None: it speaks of probabilities, and a release is one outcome."""
        return None

    def least_group(self) -> LeastGroup | None:
        """None: it counts no groups."""
        return None

    def quasi_identifiers(self) -> tuple[str, ...]:
        """None: it groups no cases."""
        return ()


# Phrases that the sentences of several kinds share.

MOST_NAMED: Final = 6
"""Of more attributes their number is said."""


def listed_briefly(columns: tuple[str, ...]) -> str:
    """Columns as people list them; of many attributes, their number.

    >>> listed_briefly(("control-flow", "timestamps", *map(str, range(9))))
    'control-flow, timestamps and 9 attributes'
    """
    columns = tuple(dict.fromkeys(columns))
    attributes = [name for name in columns if name not in (CONTROL_FLOW, TIMESTAMPS, METADATA)]
    if len(attributes) <= MOST_NAMED:
        return listed(columns)
    others = tuple(name for name in columns if name not in attributes)
    return listed((*others, f"{len(attributes):,} attributes"))


def rounded_up(figure: float) -> float:
    """A figure that something is at most, rounded up to three digits."""
    # The unit of the third digit.
    step = 10.0 ** (math.floor(math.log10(figure)) - 2)
    # Rounded first, lest floating point put a whole quotient just above itself.
    return math.ceil(round(figure / step, 9)) * step


LARGEST_WRITTEN_OUT: Final = 20
"""From this epsilon on e^epsilon tells more than its digits would."""


def factor_text(epsilon: float) -> str:
    """The factor by which a probability may change."""
    if epsilon < LARGEST_WRITTEN_OUT:
        return f"a factor {rounded_up(math.exp(epsilon)):.4g} (epsilon = {epsilon:g})"
    return f"a factor e^{epsilon:g}"


def times_text(epsilon: float) -> str:
    """By how much an outcome may be likelier, in short: ``2.72 times``."""
    if epsilon < LARGEST_WRITTEN_OUT:
        return f"{rounded_up(math.exp(epsilon)):.4g} times"
    return f"e^{epsilon:g} times"
