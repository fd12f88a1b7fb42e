"""What a log itself says of its values, for policies that claim no noise.

Where noise is claimed, nothing of this is looked up: a domain read off the log publishes the one
patient with a rare code.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import numpy as np
import polars as pl

from cloakwork.authoring.attributes import Proposal
from cloakwork.base.naming import values_of
from cloakwork.log.eventlog import TIMESTAMP, EventLog

MOST_VALUES: Final = 30
"""Values of a domain that is proposed; what has more is better grouped by hand."""

LONGEST_VALUE: Final = 100  # characters

BANDS: Final = 5
"""Intervals that are proposed for a number, about."""

_STEPS: Final = (1, 2, 5, 10)
_UNITS: Final = (timedelta(days=1), timedelta(hours=1), timedelta(minutes=1))


@dataclass(frozen=True, slots=True)
class ReadOff:
    """Proposals that hold values of the log.

    - ``domains``: by attribute, the values that enough cases have, in alphabetical order.
    - ``bands``: by attribute, edges of intervals that hold all of its numbers, ascending.
    - ``longest_case``: events, rounded up; None for a log without events.
    - ``longest_gap``: between two events of a case, rounded up; None without times.
    """

    domains: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    bands: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    longest_case: int | None = None
    longest_gap: timedelta | None = None


def read_off(log: EventLog, proposals: Iterable[Proposal], least_cases: int) -> ReadOff:
    """Domains, bands, longest case and gap of ``log``.

    Values that fewer than ``least_cases`` cases have are in no domain, and numbers are rounded
    outwards, so that no single case stands in a proposal.
    """
    domains: dict[str, tuple[str, ...]] = {}
    bands: dict[str, tuple[float, ...]] = {}
    for proposal in proposals:
        name, type_ = proposal.name, proposal.figures.type
        if not proposal.may_be_released:
            continue
        if type_ == "text":
            values, cases = _column(log, proposal)
            pairs = pl.DataFrame({"value": values.cast(pl.String), "case": cases}).drop_nulls()
            # A case counts once for a value, however often it has it.
            counts = pairs.unique().group_by("value").len()
            found = counts.filter(pl.col("len") >= least_cases)["value"]
            is_short = not (found.str.len_chars() > LONGEST_VALUE).any()
            if 0 < len(found) <= MOST_VALUES and is_short:
                domains[name] = tuple(sorted(found))
        elif type_ in ("number", "whole number"):
            edges = _bands(log, proposal)
            bands |= {name: edges} if edges else {}
    # Offsets say where each case begins among the events: their differences are the lengths.
    lengths = np.diff(log.offsets)
    longest = int(lengths.max()) if len(lengths) else 0
    return ReadOff(
        domains,
        bands,
        longest_case=round(rounded_up(longest)) or None,
        longest_gap=_longest_gap(log),
    )


def _column(log: EventLog, proposal: Proposal) -> tuple[pl.Series, pl.Series]:
    """The values of an attribute, and the case of each."""
    if proposal.figures.of_case:
        return values_of(log.cases, proposal.name), pl.Series(np.arange(log.cases.height))
    return values_of(log.events, proposal.name), pl.Series(log.case_of)


def _bands(log: EventLog, proposal: Proposal) -> tuple[float, ...]:
    """Round edges: the first at or below the least number, the last above the largest."""
    numbers = _column(log, proposal)[0].cast(pl.Float64, strict=False).drop_nulls()
    numbers = numbers.filter(numbers.is_finite())
    if numbers.is_empty():
        return ()
    least, largest = float(numbers.min()), float(numbers.max())  # type: ignore[arg-type]
    # Round edges tell neither the least nor the largest number.
    width = rounded_up((largest - least) / BANDS)
    # One number throughout, or a range beyond all bounds: nothing is proposed.
    if not 0 < width < math.inf:
        return ()
    first, last = math.floor(least / width), math.floor(largest / width) + 1
    # Twelve digits, so that 3 * 0.1 is written 0.3.
    return tuple(float(f"{place * width:.12g}") for place in range(first, last + 1))


def _longest_gap(log: EventLog) -> timedelta | None:
    if TIMESTAMP not in log.events.columns or not log.events.height:
        return None
    times = log.events[TIMESTAMP].cast(pl.Datetime("us")).cast(pl.Int64)
    gaps = pl.DataFrame({"case": log.case_of, "time": times}).drop_nulls()
    longest = gaps.select(pl.col("time").diff().over("case").max()).item()
    if not longest:
        return None
    found = timedelta(microseconds=longest)
    # In the largest unit that it fills, so that rounding hides the case.
    unit = next((unit for unit in _UNITS if found >= unit), timedelta(seconds=1))
    return round(rounded_up(found / unit)) * unit


def rounded_up(number: float) -> float:
    """The least of 1, 2, 5, 10, 20, 50, ... (and of .5, .2, .1, ...) that is no less; 0 for what is
    not positive.

    >>> rounded_up(185), rounded_up(0.31), rounded_up(0)
    (200.0, 0.5, 0.0)
    """
    if not 0 < number < math.inf:
        return 0.0
    power = 10.0 ** math.floor(math.log10(number))
    # Rounded, so that 2.0000000001 counts as 2.
    leading = round(number / power, 9)
    return float(f"{next(step for step in _STEPS if step >= leading) * power:.12g}")
