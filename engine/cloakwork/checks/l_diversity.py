"""l-diversity measured on a log alone (Machanavajjhala et al., ICDE 2006), by code that shares
nothing with the mechanisms.

Distinct: how many different values a group holds. Entropy: exp(H), H being the entropy of the
shares of its values in nats: what that many equally frequent values would come to.
"""

import numpy as np

from cloakwork.checks.values import grouped
from cloakwork.errors import GuaranteeBroken
from cloakwork.guarantees import LDiversity
from cloakwork.log.eventlog import EventLog

_TOLERANCE = 1e-9


def least_variety(log: EventLog, guarantee: LDiversity) -> float | None:
    """The least variety of values in any group; None where no group has a value. A missing value is
    none.

    Only the values of events that are not inserted count where the log says which are.
    """
    found = grouped(log, guarantee.attribute, guarantee.classes)
    found = found.only(found.present & found.kept)
    if len(found.member) == 0:
        return None
    value = found.values.rank("dense").to_numpy().astype(np.int64)[found.member]
    width = np.int64(value.max() + 1)
    topic_and_group = found.group * (found.topic.max() + 1) + found.topic[found.member]
    group = np.unique(topic_and_group, return_inverse=True)[1].astype(np.int64)
    cells, count = np.unique(group * width + value, return_counts=True)
    if guarantee.variety == "distinct":
        return float(np.bincount(cells // width).min())
    share = count / np.bincount(group)[cells // width]
    return float(np.exp(np.bincount(cells // width, -share * np.log(share))).min())


def holds(variety: float | None, guarantee: LDiversity) -> bool:
    """Whether the least variety that was measured is enough; where there is no value, nothing can
    be too alike.
    """
    return variety is None or variety >= guarantee.l * (1 - _TOLERANCE)


def check(log: EventLog, guarantee: LDiversity) -> None:
    """Raise ``GuaranteeBroken`` unless every group of ``log`` holds ``guarantee.l`` values; one
    without values holds.
    """
    variety = least_variety(log, guarantee)
    if not holds(variety, guarantee):
        raise GuaranteeBroken(
            guarantee.sentence(), f"some group holds {variety:.4g} ({guarantee.variety}) values"
        )
