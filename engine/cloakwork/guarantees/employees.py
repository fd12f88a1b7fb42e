"""k-anonymity of employees, measured on a log: which share of the events at one place of a class of
cases one of them performed.

The classes are those of Fahrenkrog-Petersen et al., Optimal Event Log Sanitization for
Privacy-Preserving Process Mining (section 3): an activity after what came before it in its case.
Where n events are at one place, and the most that one employee performed of them is m, nobody can
tell whose one of these is with more probability than m/n (identity disclosure), and where m < n,
nobody for certain that somebody's events are in the log (membership disclosure). The paper bounds m
by all events of an activity that one employee performed; here m is counted in the class itself.
Over complete variants a place is one of these; shares of at most 1/k at each of them are so in any
union, hence at each beginning that variants share, and for an activity wherever it stands.

Inserted events count for nobody, and not at all: they must not dilute a share.
"""

from dataclasses import field, replace
from typing import Final, Literal

import numpy as np
import polars as pl

from cloakwork.base.frozen import frozen
from cloakwork.base.naming import values_or_nulls
from cloakwork.guarantees.base import (
    EvidenceOfView,
    GuaranteeCheck,
    Observation,
    require_column,
)
from cloakwork.guarantees.classes import CLASS, HashKey, activities_of, numbered_rows, prefixes_of
from cloakwork.guarantees.inserted import KeptEvents, WithoutVisibleInsertions
from cloakwork.log.eventlog import EventLog

Scope = Literal["variants", "prefixes"]

PLACE: Final = (*CLASS, "place")


def performers(log: EventLog, attribute: str) -> pl.Series:
    """Who performed each event: String, shape (events,); null where nobody did, that is, where the
    value is missing, blank, or no number. Two spellings are two employees.
    """
    texts = values_or_nulls(log.events, attribute).cast(pl.String)
    is_nobody = texts.str.strip_chars().str.to_lowercase().is_in(["", "nan"])
    return texts.set(is_nobody.fill_null(False), None)


@frozen
class EventShares:
    """Who performed how many events at each place of the classes of a log.

    One row for each place and employee: ``class_1``, ``class_2`` (UInt64, hash of the class),
    ``place`` (Int64, from 0; of a prefix, its last event), ``employee`` (UInt64, hash; null for
    nobody), ``events`` (Int64, inserted ones included), ``kept`` (Int64, without these).
    """

    attribute: str
    scope: Scope
    key: HashKey = field(default_factory=HashKey.drawn)

    def of(self, batch: EventLog) -> pl.DataFrame:
        """Those of one batch."""
        if batch.events.height:
            require_column(batch.events, self.attribute, "k-anonymity of employees")
        found = prefixes_of(batch.offsets, activities_of(batch, self.key), self.key)
        is_of_variant = self.scope == "variants"
        class_ = found.of_case[batch.case_of] if is_of_variant else found.of_event
        names = performers(batch, self.attribute)
        numbered = numbered_rows(pl.DataFrame({"employee": names}), ["employee"], self.key)
        hashes = pl.Series(numbered.hashes[0][numbered.of_row])
        rows = pl.DataFrame(
            {
                CLASS[0]: found.hashes[0][class_],
                CLASS[1]: found.hashes[1][class_],
                "place": batch.position_of_event,
                "employee": pl.select(pl.when(names.is_not_null()).then(hashes)).to_series(),
                "events": np.ones(batch.events.height, np.int64),
                "kept": batch.kept.astype(np.int64),
            }
        )
        return self.merge(rows)

    def merge(self, summaries: pl.DataFrame) -> pl.DataFrame:
        """Events of one employee at one place are added up."""
        counts = pl.col("events").sum(), pl.col("kept").sum()
        return summaries.group_by(*PLACE, "employee").agg(counts)


def shares_of_places(merged: pl.DataFrame) -> pl.DataFrame:
    """The merged ``EventShares`` by place: ``cases`` (Int64, that have an event there), ``known``
    (Int64, kept events that somebody performed) and ``most`` (Int64, of one employee).
    """
    is_somebody = pl.col("employee").is_not_null()
    return merged.group_by(*PLACE).agg(
        pl.col("events").sum().alias("cases"),
        pl.col("kept").filter(is_somebody).sum().alias("known"),
        pl.col("kept").filter(is_somebody).max().fill_null(0).alias("most"),
    )


@frozen
class NeverMissing:
    """A log in which no event lacks ``attribute``, blank where nobody performed it: what is not
    released shows nothing about inserted events.
    """

    attribute: str

    def __call__(self, batch: EventLog) -> EventLog:
        """The batch so."""
        names = performers(batch, self.attribute).fill_null("")
        return replace(batch, events=batch.events.with_columns(names.alias(self.attribute)))


def check_of_employees(
    k: int, scope: Scope, attribute: str, *, raw_times: bool = False
) -> GuaranteeCheck:
    """k cases at least in each class, and nobody with more than 1/k of the events of a place."""
    shares = EventShares(attribute, scope)

    def judge(merged: pl.DataFrame) -> Observation:
        if merged.height == 0:
            return Observation(True, "the log holds no case")
        places = shares_of_places(merged)
        cases, most, known = (places[name].to_numpy() for name in ("cases", "most", "known"))
        holds = bool((cases >= k).all() and (k * most <= known).all())
        seen = f"the smallest group holds {cases.min()} released cases"
        performed = np.flatnonzero(most)
        if not len(performed):
            return Observation(holds, f"{seen}, and nobody performed any of the events")
        worst = performed[np.argmax(most[performed] / known[performed])]
        return Observation(
            holds,
            f"{seen}, and one '{attribute}' performed at most {most[worst]} of {known[worst]} "
            "events at one place of a group",
        )

    never_missing = NeverMissing(attribute)
    return GuaranteeCheck(
        shares,
        judge,
        marks=EvidenceOfView(KeptEvents(raw_times), never_missing),
        for_recogniser=lambda kept: EvidenceOfView(
            EvidenceOfView(shares, WithoutVisibleInsertions(kept, raw_times)), never_missing
        ),
    )
