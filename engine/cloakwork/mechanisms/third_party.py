"""Mechanisms of other packages: loaded when they are used, and watched while they run.

Whatever goes wrong in one is told in one line that names its package. What measures asks a kernel,
which holds it to the event that its plan was charged for. What rewrites measures nothing. Beside
the types of what a mechanism returns, its declarations are held against each other: it offers what
it says that it gives, and releases no column that its lineage does not write.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any, Final, TypeVar, cast, get_args

import polars as pl
from pydantic import BaseModel, JsonValue, TypeAdapter

from cloakwork.base.arrays import Ints
from cloakwork.base.budget import Currency
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS, Lineage
from cloakwork.base.privacy_event import PrivacyEvent, charges_anything
from cloakwork.guarantees import Guarantee
from cloakwork.kernel import Cases, Kernel, Perturbation
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.mechanisms.base import (
    Aggregate,
    Decision,
    Enriches,
    GenerateCases,
    Gives,
    MapCases,
    MapCasesBySummary,
    Measurement,
    Measures,
    Mechanism,
    Offer,
    OffersPart,
    Perturbs,
    Proof,
    Refusal,
    Rewrite,
    Theorem,
)
from cloakwork.mechanisms.noisy_times import Completion, NoisySample, NoisyTimes
from cloakwork.mechanisms.packages import Package, package_of
from cloakwork.mechanisms.prediction import Prediction, Predicts
from cloakwork.mechanisms.values import Enrichment
from cloakwork.noise import Noise, Stream

T = TypeVar("T")

_COLUMN_OF: Final = {ACTIVITY: CONTROL_FLOW, TIMESTAMP: TIMESTAMPS}
"""Lineage's name of a standard column of the events."""

_EVENT: Final[TypeAdapter[PrivacyEvent]] = TypeAdapter(PrivacyEvent)


def load_mechanism(entry: EntryPoint) -> Mechanism[Any]:
    """The mechanism that ``entry`` registers, watched; raises MechanismError where it is unfit."""
    package = package_of(entry)
    with package.errors_attributed(f"cannot be loaded from {entry.value}"):
        mechanism = entry.load()()
    _require_introduction(mechanism, package)
    asks = isinstance(mechanism, Measures | Enriches | Perturbs)
    _require_known_proof(mechanism.proof, package, measures=asks)
    # What our classes declare for all their objects, a watched one has for itself.
    return cast("Mechanism[Any]", _kind_of(mechanism)(mechanism, package))


def _kind_of(mechanism: Any) -> type["Watched"]:
    """How the mechanism is watched."""
    if isinstance(mechanism, Measures):
        return WatchedMeasuring
    if isinstance(mechanism, Enriches):
        return WatchedEnriching
    return WatchedPerturbing if isinstance(mechanism, Perturbs) else WatchedRewriting


def _require_introduction(mechanism: Any, package: Package) -> None:
    """Refuse a class that does not declare what the planner and the reports go by."""
    name = getattr(mechanism, "name", None)
    if name != package.name:
        raise package.package_error(f"calls itself {name!r}; its entry point says '{package.name}'")
    for attribute, kind in (("summary", str), ("theorem", Theorem), ("gives", tuple)):
        if not isinstance(getattr(mechanism, attribute, None), kind):
            raise package.package_error(f"declares no {attribute} ({kind.__name__})")
    if not all(isinstance(each, Gives) for each in mechanism.gives):
        raise package.package_error("declares no gives (tuple of Gives)")
    if getattr(mechanism, "proof", None) not in get_args(Proof):
        known = " or ".join(f"'{each}'" for each in get_args(Proof))
        raise package.package_error(f"declares no proof: {known}")
    params = getattr(mechanism, "Params", None)
    if not (isinstance(params, type) and issubclass(params, BaseModel)):
        raise package.package_error("declares no Params (a pydantic model)")


def _require_known_proof(proof: Proof, package: Package, *, measures: bool) -> None:
    """Refuse a proof that is not known in this way."""
    if measures and proof == "proved":
        said = "measures the log, so what is known of it is what the kernel enforces: its proof is"
        raise package.package_error(f"{said} 'kernel', or 'published'")
    if not measures and proof == "kernel":
        raise package.package_error("has no method measure, so no kernel enforces its guarantee")


class Watched:
    """A mechanism of another package; each method is the mechanism's, and its result is checked."""

    def __init__(self, mechanism: Mechanism[Any], package: Package) -> None:
        # Of any kind: what its methods return is checked.
        self._mechanism: Any = mechanism
        self._package = package
        self.name = mechanism.name
        self.summary = mechanism.summary
        self.proof = mechanism.proof
        self.theorem = mechanism.theorem
        self.gives = mechanism.gives
        self.Params = mechanism.Params
        self.package = package.package
        self.__doc__ = mechanism.__doc__

    def offer(
        self, goal: Guarantee, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[Any] | Refusal:
        """Its offer, for kinds that it declares only; ``why`` then names the package."""
        with self._package.errors_attributed("offer failed"):
            answer = self._mechanism.offer(goal, facts, options)
        offer = self._offered(answer, "offer")
        if isinstance(offer, Offer) and goal.kind not in {each.kind for each in self.gives}:
            raise self._package.package_error(
                f"offers {goal.kind}, which it does not declare to give"
            )
        return offer

    def _offered(self, answer: Any, method: str) -> Offer[Any] | Refusal:
        """The answer of ``method``, an offer with the package's name."""
        if isinstance(answer, Refusal):
            return answer
        offer: Offer[Any] = self._package.require_type(answer, Offer, method)
        self._package.require_type(offer.params, self.Params, method)
        return Offer(offer.params, f"{offer.why} (package {self.package})")

    def event(self, params: Any, facts: Facts) -> PrivacyEvent:
        """Its cost."""
        with self._package.errors_attributed("event failed"):
            event: PrivacyEvent = _EVENT.validate_python(self._mechanism.event(params, facts))
        return event

    def currency(self, params: Any) -> Currency:
        """Its currency."""
        with self._package.errors_attributed("currency failed"):
            currency: Currency = self._mechanism.currency(params)
        if currency not in ("unit", "metric", "local"):
            raise self._package.package_error(f"currency returned {currency!r}")
        return currency

    def lineage(self, params: Any) -> Lineage:
        """Its lineage."""
        with self._package.errors_attributed("lineage failed"):
            lineage = self._mechanism.lineage(params)
        return self._package.require_type(lineage, Lineage, "lineage")

    def facts_after(self, params: Any, facts: Facts) -> Facts:
        """Its facts."""
        with self._package.errors_attributed("facts_after failed"):
            after = self._mechanism.facts_after(params, facts)
        return self._package.require_type(after, Facts, "facts_after")

    def predict(self, params: Any, facts: Facts) -> Prediction | None:
        """Its prediction, if it predicts."""
        if not isinstance(self._mechanism, Predicts):
            return None
        with self._package.errors_attributed("predict failed"):
            predicted = self._mechanism.predict(params, facts)
        if predicted is None:
            return None
        return self._package.require_type(predicted, Prediction, "predict")


class _WatchedAsking(Watched):
    """A mechanism of another package that learns a kernel's answers, and never sees the log."""

    def event(self, params: Any, facts: Facts) -> PrivacyEvent:
        """Its cost: the answers that its kernel will give."""
        event = super().event(params, facts)
        measures = self.lineage(params).measures
        if measures and not charges_anything(event):
            columns = ", ".join(sorted(measures))
            raise self._package.package_error(f"measures {columns} and charges nothing for it")
        return event


class WatchedMeasuring(_WatchedAsking):
    """One that makes cases of a kernel's answers."""

    def lineage(self, params: Any) -> Lineage:
        """Its lineage: the cases that it makes have a control flow and nothing else."""
        lineage = super().lineage(params)
        if not lineage.generates or lineage.writes != {CONTROL_FLOW, METADATA}:
            raise self._package.package_error(
                "has another lineage than what measures has: it makes new cases (generates), "
                f"and writes {CONTROL_FLOW} and {METADATA}"
            )
        return lineage

    def measure(self, params: Any, kernel: Kernel) -> Measurement:
        """What it makes of a kernel's answers."""
        with self._package.errors_attributed("measure failed"):
            found = self._mechanism.measure(params, kernel)
        measurement: Measurement = self._package.require_type(found, Measurement, "measure")
        return measurement


class WatchedEnriching(_WatchedAsking):
    """One that makes columns of cases of a kernel's answers."""

    def offer_part(
        self,
        columns: tuple[str, ...],
        mu: float,
        delta: float,
        facts: Facts,
        options: Mapping[str, JsonValue],
    ) -> Offer[Any] | Refusal:
        """Its offer for a part of a goal, where it serves any; ``why`` then names the package."""
        if not isinstance(self._mechanism, OffersPart):
            return Refusal("never", "it serves no part of a goal")
        with self._package.errors_attributed("offer_part failed"):
            answer = self._mechanism.offer_part(columns, mu, delta, facts, options)
        return self._offered(answer, "offer_part")

    def lineage(self, params: Any) -> Lineage:
        """Its lineage: columns of cases that exist."""
        lineage = super().lineage(params)
        if not lineage.enriches or lineage.generates or CONTROL_FLOW in lineage.writes:
            raise self._package.package_error(
                "has another lineage than what adds columns to cases has: it enriches, makes no "
                f"cases, and does not write {CONTROL_FLOW}"
            )
        return lineage

    def enrich(self, params: Any, kernel: Kernel, cases: Cases) -> Enrichment:
        """What it makes of a kernel's answers."""
        with self._package.errors_attributed("enrich failed"):
            found = self._mechanism.enrich(params, kernel, cases)
        return self._package.require_type(found, Enrichment, "enrich")


class WatchedPerturbing(Watched):
    """A mechanism of another package that adds noise to times."""

    def perturbs(self, params: Any) -> Perturbation:
        """The noise that it declares."""
        with self._package.errors_attributed("perturbs failed"):
            found = self._mechanism.perturbs(params)
        return self._package.require_type(found, Perturbation, "perturbs")

    def completion(self, params: Any, sample: NoisySample) -> Completion:
        """How it completes times, watched."""
        with self._package.errors_attributed("completion failed"):
            completion = self._mechanism.completion(params, sample)

        def times_of(noisy: NoisyTimes) -> Ints:
            with self._package.errors_attributed("completion failed"):
                times: Ints = completion(noisy)
            return times

        return times_of


class WatchedRewriting(Watched):
    """A mechanism of another package that rewrites cases, and measures nothing."""

    def event(self, params: Any, facts: Facts) -> PrivacyEvent:
        """Nothing: what costs something asks a kernel."""
        event = super().event(params, facts)
        lineage = self.lineage(params)
        if lineage.measures or charges_anything(event):
            raise self._package.package_error(
                "measures the log without a kernel: what draws noise for a guarantee has a method "
                "measure(params, kernel) instead of summarise, decide and rewrite"
            )
        if self.summarise(params) is not None and not lineage.reads:
            said = "takes a summary of the log, and its lineage names no column that it looks at"
            raise self._package.package_error(said)
        return event

    def summarise(self, params: Any) -> Aggregate | None:
        """Its aggregate, watched."""
        with self._package.errors_attributed("summarise failed"):
            aggregate = self._mechanism.summarise(params)
        return None if aggregate is None else WatchedAggregate(aggregate, self._package)

    def decide(self, params: Any, summary: pl.DataFrame, noise: Noise) -> Decision:
        """Its decision."""
        with self._package.errors_attributed("decide failed"):
            found = self._mechanism.decide(params, summary, noise)
        decision: Decision = self._package.require_type(found, Decision, "decide")
        self._package.require_type(decision.table, pl.DataFrame, "decide")
        return decision

    def rewrite(self, params: Any, decision: Decision, stream: Stream) -> Rewrite:
        """Its action on cases, watched."""
        with self._package.errors_attributed("rewrite failed"):
            action = self._mechanism.rewrite(params, decision, stream)
        lineage = self.lineage(params)
        if isinstance(action, GenerateCases):
            return self._watched_making(action, lineage)
        self._package.require_type(action, (MapCases, MapCasesBySummary), "rewrite")
        if lineage.generates:
            said = "makes new cases by its lineage, yet its rewrite maps the cases of the log"
            raise self._package.package_error(said)
        if isinstance(action, MapCases):
            return self._watched_mapping(action, lineage)
        mapping = action.mapping
        return MapCasesBySummary(
            WatchedAggregate(action.aggregate, self._package),
            lambda summary: self._mapped_by(mapping, summary, lineage),
        )

    def _mapped_by(
        self, mapping: Callable[[pl.DataFrame], MapCases], summary: pl.DataFrame, lineage: Lineage
    ) -> MapCases:
        with self._package.errors_attributed("rewrite failed"):
            action = mapping(summary)
        mapped = self._package.require_type(action, MapCases, "rewrite")
        return self._watched_mapping(mapped, lineage)

    def _watched_mapping(self, action: MapCases, lineage: Lineage) -> MapCases:
        return MapCases(self._checked_mapping(action.apply, lineage), action.together, action.unit)

    def _watched_making(self, action: GenerateCases, lineage: Lineage) -> GenerateCases:
        def make_and_check(first: int, behind: int) -> EventLog:
            with self._package.errors_attributed("rewrite failed"):
                made = action.make(first, behind)
            released: EventLog = self._package.require_type(made, EventLog, "rewrite")
            self._require_written({*released.events.columns, *released.cases.columns}, lineage)
            return released

        until = action.events_until

        def events_until(case: int) -> int:
            with self._package.errors_attributed("rewrite failed"):
                return 0 if until is None else int(until(case))

        self._package.require_type(action.cases, int, "rewrite")
        return GenerateCases(action.cases, make_and_check, until and events_until)

    def _checked_mapping(
        self, apply: Callable[[EventLog], EventLog], lineage: Lineage
    ) -> Callable[[EventLog], EventLog]:
        def apply_and_check(batch: EventLog) -> EventLog:
            with self._package.errors_attributed("rewrite failed"):
                after = apply(batch)
            released: EventLog = self._package.require_type(after, EventLog, "rewrite")
            columns = {*released.events.columns, *released.cases.columns}
            before = {*batch.events.columns, *batch.cases.columns}
            self._require_written(columns - before, lineage)
            return released

        return apply_and_check

    def _require_written(self, columns: set[str], lineage: Lineage) -> None:
        """A column that no step is known to write would be released unjudged."""
        released = {_COLUMN_OF.get(column, column) for column in columns - {CASE_ID}}
        unknown = sorted(released - lineage.writes)
        if unknown:
            said = f"releases {', '.join(unknown)}, which its lineage does not write"
            raise self._package.package_error(said)


@dataclass(frozen=True, slots=True)
class WatchedAggregate:
    """A summary that another package takes."""

    aggregate: Aggregate
    package: Package

    def of(self, batch: EventLog) -> pl.DataFrame:
        """Its summary of one batch."""
        with self.package.errors_attributed("summarise failed"):
            table = self.aggregate.of(batch)
        return self.package.require_type(table, pl.DataFrame, "summarise")

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """Its summaries, merged."""
        with self.package.errors_attributed("summarise failed"):
            table = self.aggregate.merge(summaries)
        return self.package.require_type(table, pl.DataFrame, "summarise")
