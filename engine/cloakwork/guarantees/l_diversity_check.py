"""l-diversity measured on a log alone (Machanavajjhala et al., ICDE 2006), by code that shares
nothing with the mechanisms.

Distinct: how many different values a group holds. Entropy: exp(H), H being the entropy of the
shares of its values in nats: what that many equally frequent values would come to.
"""

import numpy as np
import polars as pl

from cloakwork.base.errors import GuaranteeBroken
from cloakwork.guarantees import LDiversity
from cloakwork.guarantees.checked_values import GROUP, GroupedValues
from cloakwork.guarantees.evidence import gathered
from cloakwork.log.handle import LogHandle

_TOLERANCE = 1e-9


def least_diversity(log: LogHandle, guarantee: LDiversity) -> float | None:
    """The least diversity of values in any group; None where no group has a value. A missing value
    is none.

    Only the values of events that are not inserted count where the log says which are.
    """
    values = GroupedValues(guarantee.attribute, guarantee.classes)
    return least_in(gathered(log, values), guarantee)


def least_in(counts: pl.DataFrame, guarantee: LDiversity) -> float | None:
    """``least_diversity``, of the merged ``GroupedValues`` of a log."""
    found = counts.filter(
        pl.col("class_1").is_not_null(), pl.col("value").is_not_null(), pl.col("kept") > 0
    )
    if not found.height:
        return None
    found = found.sort(*GROUP, "value")
    # Rows of one group follow one another, one for each value.
    group = found.select(pl.struct(GROUP).rle_id()).to_series().to_numpy().astype(np.int64)
    count = found["kept"].to_numpy()
    if guarantee.variety == "distinct":
        distinct_values = np.bincount(group)
        return float(distinct_values.min())
    # exp(H), where each value adds -p log p to the entropy H of its group.
    share = count / np.bincount(group, count)[group]
    entropy = np.bincount(group, -share * np.log(share))
    return float(np.exp(entropy).min())


def is_diverse_enough(diversity: float | None, guarantee: LDiversity) -> bool:
    """Whether the least diversity that was measured is enough; where there is no value, nothing can
    be too alike.
    """
    return diversity is None or diversity >= guarantee.l * (1 - _TOLERANCE)


def check(log: LogHandle, guarantee: LDiversity) -> None:
    """Raise ``GuaranteeBroken`` unless every group of ``log`` holds ``guarantee.l`` values; one
    without values holds.
    """
    diversity = least_diversity(log, guarantee)
    if not is_diverse_enough(diversity, guarantee):
        raise GuaranteeBroken(
            guarantee.sentence(), f"some group holds {diversity:.4g} ({guarantee.variety}) values"
        )
