"""l-diversity measured on a log alone (Machanavajjhala et al., ICDE 2006), by code that shares
nothing with the mechanisms.

Distinct: how many different values a group holds. Entropy: exp(H), H being the entropy of the
shares of its values in nats: what that many equally frequent values would come to.
"""

import numpy as np

from cloakwork.checks.values import grouped_values
from cloakwork.errors import GuaranteeBroken
from cloakwork.guarantees import LDiversity
from cloakwork.log.eventlog import EventLog

_TOLERANCE = 1e-9


def least_diversity(log: EventLog, guarantee: LDiversity) -> float | None:
    """The least diversity of values in any group; None where no group has a value. A missing value
    is none.

    Only the values of events that are not inserted count where the log says which are.
    """
    found = grouped_values(log, guarantee.attribute, guarantee.classes)
    found = found.restricted_to(found.has_value & found.kept)
    if len(found.member) == 0:
        return None
    value = found.values.rank("dense").to_numpy().astype(np.int64)[found.member]
    activity = found.activity[found.member]
    # Values of a class are counted activity by activity: pairs of both are the groups.
    class_and_activity = found.group * (found.activity.max() + 1) + activity
    _, group = np.unique(class_and_activity, return_inverse=True)
    values = np.int64(value.max() + 1)
    group_and_value, count = np.unique(group * values + value, return_counts=True)
    group_of_pair = group_and_value // values
    if guarantee.variety == "distinct":
        distinct_values = np.bincount(group_of_pair)
        return float(distinct_values.min())
    # exp(H), where each value adds -p log p to the entropy H of its group.
    share = count / np.bincount(group)[group_of_pair]
    entropy = np.bincount(group_of_pair, -share * np.log(share))
    return float(np.exp(entropy).min())


def is_diverse_enough(diversity: float | None, guarantee: LDiversity) -> bool:
    """Whether the least diversity that was measured is enough; where there is no value, nothing can
    be too alike.
    """
    return diversity is None or diversity >= guarantee.l * (1 - _TOLERANCE)


def check(log: EventLog, guarantee: LDiversity) -> None:
    """Raise ``GuaranteeBroken`` unless every group of ``log`` holds ``guarantee.l`` values; one
    without values holds.
    """
    diversity = least_diversity(log, guarantee)
    if not is_diverse_enough(diversity, guarantee):
        raise GuaranteeBroken(
            guarantee.sentence(), f"some group holds {diversity:.4g} ({guarantee.variety}) values"
        )
