"""The attributes of cases and events that an attacker may know, coded so that logs compare."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.base.naming import values_of
from cloakwork.evaluation.coded import CodedLog
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.plan.model import Plan

MOST_KNOWN: Final = 5
"""Attributes of cases, and of events, that an attacker is taken to know: those with the fewest
values."""

_STANDARD: Final = frozenset({CASE_ID, ACTIVITY, TIMESTAMP})
_IDENTIFYING: Final = 0.9


@dataclass(frozen=True)
class CodedAttributes:
    """Values as numbers; equal values of two logs that were coded together have equal numbers.

    ``of_cases`` and ``of_events``: names. ``cases``: int64, shape (cases, names); ``events``:
    int64, shape (events, names).
    """

    of_cases: tuple[str, ...]
    of_events: tuple[str, ...]
    cases: Ints
    events: Ints


def known_attributes(log: EventLog) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The attributes of cases and of events that an attacker may know: neither constant nor, like
    an identifier, a text that is hardly ever the same twice.
    """
    return _knowable(log.cases), _knowable(log.events)


def _knowable(table: pl.DataFrame) -> tuple[str, ...]:
    distinct: dict[str, int] = {}
    for name in table.columns:
        values = values_of(table, name)
        there = len(values) - values.null_count()
        number = values.n_unique()
        is_text = values.dtype == pl.String
        if name in _STANDARD or number < 2 or (is_text and number > _IDENTIFYING * there):
            continue
        distinct[name] = number
    return tuple(sorted(distinct, key=lambda name: distinct[name])[:MOST_KNOWN])


def code_attributes(
    logs: Sequence[CodedLog], of_cases: Sequence[str], of_events: Sequence[str]
) -> list[CodedAttributes]:
    """The named attributes of ``logs``, which all have them."""
    by_case = [_coded([values_of(each.log.cases, name) for each in logs]) for name in of_cases]
    by_event = [_coded([values_of(each.log.events, name) for each in logs]) for name in of_events]
    return [
        CodedAttributes(
            tuple(of_cases),
            tuple(of_events),
            _table([column[place] for column in by_case], each.cases),
            _table([column[place] for column in by_event], each.log.events.height),
        )
        for place, each in enumerate(logs)
    ]


def _coded(columns: Sequence[pl.Series]) -> list[Ints]:
    texts = [column.cast(pl.String).fill_null("") for column in columns]
    values = pl.concat([text.unique() for text in texts]).unique().sort()
    return [text.cast(pl.Enum(values)).to_physical().cast(pl.Int64).to_numpy() for text in texts]


def _table(columns: Sequence[Ints], rows: int) -> Ints:
    return np.stack(columns, axis=1) if columns else np.zeros((rows, 0), np.int64)


def same_values(before: pl.Series, after: pl.Series) -> bool:
    """Whether the released values are those of the source, not others in their place."""
    known = set(before.cast(pl.String).drop_nulls().unique())
    found = after.cast(pl.String).drop_nulls().unique()
    return not len(found) or sum(value in known for value in found) > len(found) / 2


def kept_attributes(before: EventLog, after: EventLog, plan: Plan | None) -> tuple[str, ...]:
    """The attributes of cases that a release left as they were: by its plan, else those whose
    values are as often there as in the log.
    """
    kept = []
    for name in after.cases.columns:
        if name in _STANDARD or name not in before.cases.columns:
            continue
        old, new = (values_of(log.cases, name).cast(pl.String) for log in (before, after))
        treated = None if plan is None else plan.treated(name)
        if treated is not None:
            is_kept = treated.treatment == "keep" and same_values(old, new)
        else:
            is_kept = old.sort().equals(new.sort())
        if is_kept:
            kept.append(name)
    return tuple(kept)
