"""Small logs whose events or cases have a value beside their activity sequence."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import polars as pl
from hypothesis import strategies as st

from cloakwork.log.eventlog import CASE_PREFIX, EventLog
from contracts.sample_logs import log_of

CLASSES: Final = ("variants", "prefixes")
KINDS: Final[dict[str, st.SearchStrategy[Any]]] = {
    "whole": st.integers(-3, 9),
    "decimal": st.floats(-2, 50, width=32),
    "text": st.sampled_from(["flu", "fracture", "burn", "colic"]),
    "truth": st.booleans(),
}
"""Values of each kind that attributes have."""


def with_values(log: EventLog, attribute: str, values: Sequence[Any]) -> EventLog:
    """``log`` with one more attribute: one value an event, or a case where its name says so."""
    column = pl.Series(attribute, values, strict=True)
    if attribute.startswith(CASE_PREFIX):
        return replace(log, cases=log.cases.with_columns(column))
    return replace(log, events=log.events.with_columns(column))


@st.composite
def logs_with_values(draw: st.DrawFn, kind: str, attribute: str, most: int = 30) -> EventLog:
    """A log of few sequences, so that they form classes; some values are missing."""
    sequences = draw(st.lists(st.text("abc", max_size=4), min_size=1, max_size=4))
    log = log_of(draw(st.lists(st.sampled_from(sequences), max_size=most)))
    size = log.cases.height if attribute.startswith(CASE_PREFIX) else log.events.height
    value = st.none() | KINDS[kind] if draw(st.booleans()) else KINDS[kind]
    return with_values(log, attribute, draw(st.lists(value, min_size=size, max_size=size)))
