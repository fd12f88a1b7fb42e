"""A log of cases that follow given variants."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from cloakwork.arrays import Ints
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, EventLog


def log_of_variants(variants: Sequence[tuple[str, ...]], cases: Ints) -> EventLog:
    """``cases[i]`` cases of ``variants[i]``, numbered, without times or attributes; none where the
    number is below 1.
    """
    times = np.maximum(cases, 0)
    labels = pl.Series(variants, dtype=pl.List(pl.String()))
    row = np.repeat(np.arange(len(variants)), times)
    repeated = labels.gather(row)
    lengths = repeated.list.len().to_numpy().astype(np.int64)
    events = repeated.explode(empty_as_null=False).cast(pl.String).alias(ACTIVITY).to_frame()
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    ids = pl.int_range(len(row), eager=True).cast(pl.String).alias(CASE_ID).to_frame()
    return EventLog(events, ids, offsets)
