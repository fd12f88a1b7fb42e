"""Clocks of the world: time zones by IANA names, as the library that reads times knows them."""

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints


def is_zone(name: str) -> bool:
    """Whether it is the IANA name of a time zone."""
    # The library also takes offsets, such as +01:00, which know no summer time.
    if not name[:1].isalpha():
        return False
    try:
        ahead_of_utc(np.zeros(1, np.int64), name)
    except pl.exceptions.PolarsError:
        return False
    return True


def ahead_of_utc(instants: Ints, zone: str) -> Ints:
    """By how much the clocks of ``zone`` are ahead of UTC at ``instants`` (microseconds since 1970,
    inside the calendar): microseconds, int64.
    """
    clocks = pl.Series(instants).cast(pl.Datetime("us", "UTC")).dt.convert_time_zone(zone)
    local = clocks.dt.replace_time_zone(None).to_physical().to_numpy()
    return np.asarray(local - instants, np.int64)
