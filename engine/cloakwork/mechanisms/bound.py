"""Bounds what one unit contributes, before anything else reads the log."""

from functools import partial
from typing import Annotated, ClassVar, Final

import numpy as np
import polars as pl
from pydantic import Field

from cloakwork.base.arrays import place_in_run
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import Lineage
from cloakwork.base.naming import values_of
from cloakwork.base.quantities import Frozen
from cloakwork.log.eventlog import ACTIVITY, EventLog
from cloakwork.mechanisms.base import MeetsNoGoal, Proof, Theorem
from cloakwork.mechanisms.steps import Decision, MapCases, Rewrite, RewriteStep, case_addresses
from cloakwork.noise import Stream


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

    @classmethod
    def of(cls, facts: Facts) -> "BoundParams":
        """What declared facts bound."""
        return cls(
            attribute=facts.unit.attribute,
            max_cases=facts.unit.max_cases,
            alphabet=facts.alphabet,
            longest_case=facts.longest_case,
        )


class BoundContributions(MeetsNoGoal[BoundParams]):
    """Keep at most ``max_cases`` random cases of each unit, declared labels only, and the first
    events of long cases.

    Every cut depends on the unit's own data and fresh randomness alone, so one unit more or less
    changes at most ``max_cases`` cases of the output. Events without a label, and cases left
    without events, go. Never aborts on data.
    """

    name: ClassVar[str] = "bound"
    action: ClassVar[str] = "limit what one unit contributes"
    alone: ClassVar[str] = "it bounds contributions and makes no claim of its own"
    summary: ClassVar[str] = "Bounds how much of the log one protected unit can account for."
    proof: ClassVar[Proof] = "proved"
    theorem: ClassVar[Theorem] = Theorem(
        "One unit more or less in the log changes at most max_cases cases of the output; "
        "the cut of one unit does not depend on another's data.",
        "contribution bounding as a stable transformation (McSherry 2009, section 3; "
        "Wilson et al. 2020, section 4)",
    )
    Params = BoundParams

    def step(self, params: BoundParams, facts: Facts) -> RewriteStep:
        """Cuts cases and events by each unit's own data; no column's values are replaced."""
        return RewriteStep(
            lineage=Lineage(stability=params.max_cases), rewrite=partial(self.rewrite, params)
        )

    def rewrite(
        self,
        params: BoundParams,
        decision: Decision,
        stream: Stream,
    ) -> Rewrite:
        """Cut events, then empty cases, then units, whose cases must lie together."""

        def cut_events(log: EventLog) -> EventLog:
            # Events first: a case may be left without any.
            labels = log.events[ACTIVITY]
            is_declared = labels.is_not_null()
            if params.alphabet is not None:
                is_declared = labels.is_in(list(params.alphabet)).fill_null(False)
            if not is_declared.all():
                log = log.keep_events(is_declared.to_numpy())
            # The first events of each case, counted among those with a declared label.
            longest = params.longest_case
            if longest is not None and (np.diff(log.offsets) > longest).any():
                log = log.keep_events(log.position_of_event < longest)
            has_events = np.diff(log.offsets) > 0
            return log.keep_cases(np.flatnonzero(has_events))

        unit = params.attribute
        if unit is None:
            return MapCases(cut_events, together="case")

        def cut_events_and_cases(log: EventLog) -> EventLog:
            return _sample_cases(
                cut_events(log),
                unit,
                params.max_cases,
                stream,
            )

        return MapCases(cut_events_and_cases, together="unit", unit=unit)


_OWN_UNIT: Final = -1


def _sample_cases(
    log: EventLog,
    attribute: str,
    max_cases: int,
    stream: Stream,
) -> EventLog:
    """A uniformly random subset of at most ``max_cases`` cases of each unit; cases without the
    attribute are their own.
    """
    if attribute not in log.cases.columns:
        return log
    # Random order, by draws at the cases' addresses.
    owners = values_of(log.cases, attribute).cast(pl.String)
    # One integer for each distinct value, ``_OWN_UNIT`` for a missing one.
    unit = owners.rank("dense").cast(pl.Int64).fill_null(_OWN_UNIT).to_numpy()
    shuffled = stream.order(case_addresses(log))
    # Stable, so that the cases of each unit lie side by side in random order.
    by_unit = shuffled[np.argsort(unit[shuffled], kind="stable")]
    unit_in_order = unit[by_unit]
    place_in_unit = place_in_run(unit_in_order)
    stays = (place_in_unit < max_cases) | (unit_in_order == _OWN_UNIT)
    return log.keep_cases(np.sort(by_unit[stays]))
