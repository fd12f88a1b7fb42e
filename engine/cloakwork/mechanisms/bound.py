"""BoundContributions what one unit contributes, before anything else reads the log."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field, JsonValue

from cloakwork.facts import Facts
from cloakwork.guarantees import Guarantee
from cloakwork.lineage import Lineage
from cloakwork.log.eventlog import ACTIVITY, EventLog
from cloakwork.log.naming import values_of
from cloakwork.mechanisms.addresses import case_addresses
from cloakwork.mechanisms.base import (
    Decision,
    MapCases,
    Offer,
    Proof,
    Refusal,
    Rewrite,
    Theorem,
    WithoutDecision,
)
from cloakwork.noise import Stream
from cloakwork.quantities import Frozen


class BoundParams(Frozen):
    """``attribute``: the case attribute that names the unit (None: the case itself), of which
    ``max_cases`` stay.

    ``alphabet``: labels that may occur; ``longest_case``: events that a case may have. None leaves
    them unbounded.
    """

    attribute: str | None = None
    max_cases: Annotated[int, Field(ge=1)] = 1
    alphabet: tuple[str, ...] | None = None
    longest_case: Annotated[int, Field(ge=1)] | None = None


class BoundContributions(WithoutDecision):
    """Keep at most ``max_cases`` random cases of each unit, declared labels only, and the first
    events of long cases.

    Every cut depends on the unit's own data and fresh randomness alone, so one unit more or less
    changes at most ``max_cases`` cases of the output. Events without a label, and cases left
    without events, go. Never aborts on data.
    """

    name: ClassVar[str] = "bound"
    summary: ClassVar[str] = "Bounds how much of the log one protected unit can account for."
    proof: ClassVar[Proof] = "proved"
    theorem: ClassVar[Theorem] = Theorem(
        "One unit more or less in the log changes at most max_cases cases of the output; "
        "the cut of one unit does not depend on another's data.",
        "contribution bounding as a stable transformation (McSherry 2009, section 3; "
        "Wilson et al. 2020, section 4)",
    )
    Params = BoundParams

    def offer(
        self, goal: Guarantee, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[BoundParams] | Refusal:
        """It makes no claim of its own; the planner always runs it first."""
        return Refusal("never", "it bounds contributions and makes no claim of its own")

    def lineage(self, params: BoundParams) -> Lineage:
        """Cuts cases and events by each unit's own data; no column's values are replaced."""
        return Lineage(stability=params.max_cases)

    def rewrite(self, params: BoundParams, decision: Decision, stream: Stream) -> Rewrite:
        """Cut events, then empty cases, then units, whose cases must lie together."""

        def cut_events(log: EventLog) -> EventLog:
            shorter = _first_events(_declared_labels(log, params.alphabet), params.longest_case)
            return shorter.keep_cases(np.flatnonzero(np.diff(shorter.offsets) > 0))

        unit = params.attribute
        if unit is None:
            return MapCases(cut_events, together="case")

        def cut(log: EventLog) -> EventLog:
            return _sample_cases(cut_events(log), unit, params.max_cases, stream)

        return MapCases(cut, together="unit", unit=unit)


def _declared_labels(log: EventLog, alphabet: tuple[str, ...] | None) -> EventLog:
    labels = log.events[ACTIVITY]
    kept = (
        labels.is_not_null() if alphabet is None else labels.is_in(list(alphabet)).fill_null(False)
    )
    return log if kept.all() else log.keep_events(kept.to_numpy())


def _first_events(log: EventLog, longest: int | None) -> EventLog:
    if longest is None or (np.diff(log.offsets) <= longest).all():
        return log
    place = np.arange(log.events.height) - log.offsets[log.case_of]
    return log.keep_events(place < longest)


_OWN_UNIT: Final = -1


def _sample_cases(log: EventLog, attribute: str, max_cases: int, stream: Stream) -> EventLog:
    """A uniformly random subset of at most ``max_cases`` cases of each unit; cases without the
    attribute are their own.
    """
    if attribute not in log.cases.columns:
        return log
    unit = _unit_codes(values_of(log.cases, attribute))
    shuffled = stream.order(case_addresses(log))
    by_unit = shuffled[np.argsort(unit[shuffled], kind="stable")]
    units = unit[by_unit]
    starts = (
        np.flatnonzero(np.concatenate([[True], units[1:] != units[:-1]]))
        if len(units)
        else np.zeros(0, np.int64)
    )
    rank = np.arange(len(units)) - np.repeat(starts, np.diff(np.append(starts, len(units))))
    return log.keep_cases(np.sort(by_unit[(rank < max_cases) | (units == _OWN_UNIT)]))


def _unit_codes(values: pl.Series) -> NDArray[np.int64]:
    """One integer for each distinct value, ``_OWN_UNIT`` for a missing one."""
    ranks = values.cast(pl.String).rank("dense").cast(pl.Int64).fill_null(_OWN_UNIT)
    return ranks.to_numpy()
