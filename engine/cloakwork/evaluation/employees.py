"""What a log, and a release of it, tell of employees: the bounds of Fahrenkrog-Petersen et al.,
Optimal Event Log Sanitization for Privacy-Preserving Process Mining, sections 3.2 and 3.3.

Its classes are the events at one place of a complete activity sequence. In the log itself it is
counted whose they are; of a release, which does not say, the paper's bound is taken: all events of
an activity that one employee performed in the log, against those at the place.
"""

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.base.errors import LogError
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.evaluation.risk_figures import DisclosureBounds, EmployeeBounds
from cloakwork.guarantees import TCloseness
from cloakwork.guarantees.classes import GroupedValues
from cloakwork.guarantees.employees import EventShares, performers, shares_of_places
from cloakwork.guarantees.t_closeness import largest_distance
from cloakwork.log.eventlog import TIMESTAMP, EventLog
from cloakwork.log.variants import variants_of


def employee_bounds(log: EventLog, released: EventLog | None, attribute: str) -> EmployeeBounds:
    """The bounds for ``attribute`` of events, which names who performed each. Raises LogError where
    no event of ``log`` has a value of it.
    """
    names = performers(log, attribute)
    if names.null_count() == len(names):
        raise LogError("risk", f"no event of the log has a value of '{attribute}'")
    shares = EventShares(attribute, "variants")
    places = shares_of_places(shares.merge(shares.of(log))).filter(pl.col("known") > 0)
    before = _bounds(places["most"].to_numpy(), places["known"].to_numpy(), log)
    if released is None:
        return EmployeeBounds(attribute=attribute, before=before)
    # The most that one employee performed of each activity: the paper's tau.
    performed = pl.DataFrame({"activity": log.activities, "who": names})
    counts = performed.drop_nulls().group_by("activity", "who").len()
    most = dict(counts.group_by("activity").agg(pl.col("len").max()).iter_rows())
    variants = variants_of(released)
    tau = np.array([most.get(label, 0) for label in variants.alphabet], np.int64)[variants.codes]
    events = np.repeat(variants.counts, np.diff(variants.offsets))
    is_known = tau > 0
    after = _bounds(np.minimum(tau, events)[is_known], events[is_known], released)
    return EmployeeBounds(attribute=attribute, before=before, after=after)


def _bounds(most: Ints, events: Ints, log: EventLog) -> DisclosureBounds:
    """``most``, ``events``: int64, shape (places,); of so many events, at least 1, one employee
    performed so many at most.
    """
    distance = None
    if TIMESTAMP in log.events.columns:
        closeness = TCloseness(kind="t-closeness", t=1.0, attribute=TIMESTAMPS, classes="variants")
        values = GroupedValues(TIMESTAMPS, "variants")
        distance = largest_distance(values.merge(values.of(log)), closeness)
    if not len(most):
        return DisclosureBounds(places=0, most=0, events=0, alone=0, attribute=distance)
    worst = np.lexsort((-events, -most / events))[0]
    return DisclosureBounds(
        places=len(most),
        most=int(most[worst]),
        events=int(events[worst]),
        alone=int((most == events).sum()),
        attribute=distance,
    )
