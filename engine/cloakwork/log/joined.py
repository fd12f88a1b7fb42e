"""Batches of a log end to end."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from cloakwork.log.eventlog import EventLog


def joined_batches(batches: Sequence[EventLog]) -> EventLog:
    """The batches end to end. What their source said is gone: the steps of a run do not ask."""
    heights = [batch.events.height for batch in batches]
    first_rows = np.cumsum([0, *heights])
    # The last offset of a batch is the first of the next one; that of the last batch stays.
    offsets = [
        batch.offsets[:-1] + first_row
        for batch, first_row in zip(batches, first_rows[:-1], strict=True)
    ]
    inserted = None
    if any(batch.inserted is not None for batch in batches):
        inserted = np.concatenate([~batch.kept for batch in batches])
    return EventLog(
        events=pl.concat([batch.events for batch in batches]),
        cases=pl.concat([batch.cases for batch in batches]),
        offsets=np.concatenate([*offsets, first_rows[-1:]]).astype(np.int64),
        notes=batches[0].notes,
        inserted=inserted,
        case_index=np.concatenate([batch.index_of_case for batch in batches]),
    )
