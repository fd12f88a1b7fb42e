"""Distances between samples, group by group, and values of two logs as integers that mean the same
in both.

All groups at once, by sorting: no loop over groups, whose number is that of directly-follows pairs
or activities. A group is an integer from 0; a sample is two arrays of one length, the group and the
value of each of its members.
"""

from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Floats, Ints, begins_of
from cloakwork.base.frozen import frozen
from cloakwork.base.naming import values_or_nulls
from cloakwork.log.eventlog import CASE_PREFIX, EventLog

MISSING: Final = -1
"""The code of a value that is missing."""

MOST_NUMBERS: Final = 20
"""Different numbers of the source that stay as they are where no range is declared; more are put
into bins.
"""

_ROUNDING: Final = 1e-12


def total_variation(
    source: tuple[Ints, Ints],
    release: tuple[Ints, Ints],
    groups: int,
    codes: int,
) -> Floats:
    """For each group, half the sum of |share in the source - share in the release| over the codes.

    ``source`` and ``release``: group and code of each member, int64 of one length; codes lie from
    MISSING to ``codes - 1``. Shape (groups,), between 0 and 1; 1 where one side alone has the
    group, NaN where neither has.
    """
    # A cell is a code in a group, for both sides alike.
    keys = [group * (codes + 1) + code + 1 for group, code in (source, release)]
    cells, cell_of = np.unique(np.concatenate(keys), return_inverse=True)
    group_of_cell = cells // (codes + 1)
    shares = []
    sides = np.split(cell_of, [len(keys[0])])
    for (group, _), places in zip((source, release), sides, strict=True):
        sizes = np.bincount(group, minlength=groups)
        counts = np.bincount(places, minlength=len(cells))
        shares.append(counts / np.maximum(sizes[group_of_cell], 1))
    apart = np.abs(shares[0] - shares[1])
    found = 0.5 * np.bincount(group_of_cell, weights=apart, minlength=groups)
    return _where_both(np.minimum(found, 1.0), source[0], release[0], one_alone=1.0)


def wasserstein(
    source: tuple[Ints, Floats],
    release: tuple[Ints, Floats],
    groups: int,
) -> Floats:
    """For each group, the area between the distribution functions of both samples (Wasserstein-1,
    in one dimension; Vallender 1974).

    ``source`` and ``release``: group (int64) and value (float64, finite) of each member. Shape
    (groups,), in the unit of the values; NaN where a side lacks the group.
    """
    group = np.concatenate([source[0], release[0]])
    values = np.concatenate([source[1], release[1]])
    before, after = (np.bincount(side[0], minlength=groups) for side in (source, release))
    is_source = np.arange(len(group)) < len(source[0])
    # The sum of these up to a value is the difference of both distribution functions there.
    weights = np.where(
        is_source,
        1 / np.maximum(before[group], 1),
        -1 / np.maximum(after[group], 1),
    )
    order = np.lexsort((values, group))
    group = group[order]
    values = values[order]
    weights = weights[order]
    # Running sums that begin anew with each group.
    sums = np.cumsum(weights)
    begins = begins_of(group)
    before_group = np.where(begins > 0, sums[begins - 1], 0.0)
    sizes = np.diff(begins, append=len(group))
    difference = np.abs(sums - np.repeat(before_group, sizes))[:-1]
    # Behind the last value of a group comes another group, so no area lies there.
    same = group[1:] == group[:-1]
    # Sums of floats that are 0 in truth; a real difference is at least 1 over both sizes' product.
    difference[difference < _ROUNDING] = 0.0
    areas = np.where(same, difference * np.diff(values), 0.0)
    found = np.bincount(group[:-1], weights=areas, minlength=groups).astype(np.float64)
    return _where_both(found, source[0], release[0], one_alone=np.nan)


def _where_both(
    found: Floats,
    source: Ints,
    release: Ints,
    one_alone: float,
) -> Floats:
    """``found`` for groups that both sides have; ``one_alone`` where one has it, NaN where none."""
    has_source = np.bincount(source, minlength=len(found)) > 0
    has_release = np.bincount(release, minlength=len(found)) > 0
    found = np.where(has_source & has_release, found, one_alone)
    return np.where(has_source | has_release, found, np.nan)


def kolmogorov_smirnov(source: Floats, release: Floats) -> float | None:
    """The largest difference between the distribution functions of two samples, between 0 and 1;
    None where one is empty.
    """
    if not (len(source) and len(release)):
        return None
    # Both functions change at values only, so their largest difference is at one of them.
    places = np.concatenate([source, release])
    shares = [
        np.searchsorted(np.sort(side), places, side="right") / len(side)
        for side in (source, release)
    ]
    return float(np.abs(shares[0] - shares[1]).max())


def weighted_mean(values: Floats, weights: Ints) -> float | None:
    """The mean over the values that are not NaN; None without any weight."""
    known = ~np.isnan(values)
    total = weights[known].sum()
    if not total:
        return None
    return float((values[known] * weights[known]).sum() / total)


def round_edges(least: float, most: float) -> Floats:
    """Edges of 8 to 21 bins of one round width (1, 2, 2.5 or 5 times a power of ten) that cover
    ``least`` to ``most``; two edges where these are the same.
    """
    span = most - least
    if not span > 0:
        return np.array([least, least + 1.0])
    # The narrowest round width that needs at most 20 bins.
    power = 10.0 ** np.floor(np.log10(span / 20))
    widths = power * np.array([1, 2, 2.5, 5, 10, 20])
    # One bin more than span / width may be needed, where the least value lies inside a bin.
    width = widths[np.argmax(span / widths <= 20 + 1e-9)]
    first = np.floor(least / width + 1e-9)
    bins = max(1, int(np.ceil(most / width - 1e-9) - first))
    return np.asarray((first + np.arange(bins + 1)) * width, np.float64)


def bins_of(values: Floats, edges: Floats) -> Ints:
    """The bin of each value, from 0; values beyond the edges are in the outer bins, NaN is MISSING.

    A bin holds its lower edge and not its upper one, but for the last.
    """
    bins = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    return np.where(np.isnan(values), MISSING, bins).astype(np.int64)


def joint_codes(*columns: pl.Series) -> tuple[list[Ints], list[str]]:
    """Texts as places in the sorted list of all that occur, which comes second; null is MISSING."""
    texts = [values.cast(pl.String).alias("") for values in columns]
    labels = pl.concat([text.unique() for text in texts]).drop_nulls().unique().sort()
    places = [text.cast(pl.Enum(labels)).to_physical().cast(pl.Int64) for text in texts]
    return [each.fill_null(MISSING).to_numpy() for each in places], labels.to_list()


@frozen
class CodedAttribute:
    """One attribute of two logs: for each event (or case) of each log its value as int64, from 0 to
    ``values - 1``, or MISSING. ``numbers``: what is known of the numbers of each log, float64.
    """

    name: str
    source: Ints
    release: Ints
    values: int
    numbers: tuple[Floats, Floats] | None = None

    def missing_share(self, side: Ints) -> float | None:
        """The share of a side's values that is missing; None for no values."""
        return float((side == MISSING).mean()) if len(side) else None

    def by_case(self, source: EventLog, release: EventLog) -> tuple[Ints, Ints]:
        """One value for each case of each log; of an attribute of events the first that is not
        missing.
        """
        if self.name.startswith(CASE_PREFIX):
            return self.source, self.release
        return _first_of_cases(self.source, source), _first_of_cases(self.release, release)


def _first_of_cases(codes: Ints, log: EventLog) -> Ints:
    known = np.flatnonzero(codes != MISSING)
    # ``return_index`` gives the first known row of each case.
    cases, first = np.unique(log.case_of[known], return_index=True)
    found = np.full(log.cases.height, MISSING, np.int64)
    found[cases] = codes[known[first]]
    return found


def coded(
    source: EventLog,
    release: EventLog,
    name: str,
    declared: tuple[float, float] | None,
) -> CodedAttribute | str:
    """The attribute ``name`` of both logs as codes, or a note in one sentence why not.

    Numbers and times go into bins of one round width over the ``declared`` range, else over the
    source's range where it has more than MOST_NUMBERS different ones; everything else is text. A
    log without the attribute has it missing everywhere.
    """
    tables = [log.table_of(name) for log in (source, release)]
    if all(name not in table.columns for table in tables):
        return f"'{name}' is in neither log"
    before, after = (values_or_nulls(table, name) for table in tables)
    # Text counts as numbers only where a range, or the other log, says that it holds some.
    if declared is not None or {_kind(before), _kind(after)} == {"text", "numbers"}:
        before = _as_numbers(before)
        after = _as_numbers(after)
    kinds = {_kind(values) for values in (before, after)} - {"none"}
    if kinds == {"text", "truth values"}:
        # What is measured under noise is read as text, and released as what its domain says.
        before, after = (_texts(values).str.to_lowercase() for values in (before, after))
        kinds = {"text"}
    if len(kinds) > 1:
        one, other = sorted(kinds)
        return f"'{name}' holds {one} in one log and {other} in the other: it was not compared"
    if kinds == {"numbers"}:
        return _coded_numbers(name, _numbers(before), _numbers(after), declared)
    codes, labels = joint_codes(_texts(before), _texts(after))
    return CodedAttribute(name, codes[0], codes[1], len(labels))


def _kind(values: pl.Series) -> str:
    if values.null_count() == len(values):
        return "none"
    if values.dtype.is_numeric() or values.dtype.is_temporal():
        return "numbers"
    return "truth values" if values.dtype == pl.Boolean else "text"


def _as_numbers(values: pl.Series) -> pl.Series:
    """Text that is nothing but numbers as these; everything else as it is."""
    if _kind(values) != "text" or values.dtype.is_nested():
        return values
    numbers = values.cast(pl.String).cast(pl.Float64, strict=False)
    return numbers if numbers.null_count() == values.null_count() else values


def _numbers(values: pl.Series) -> Floats:
    """As float64, NaN where missing or infinite; times as microseconds since 1970."""
    if values.dtype.is_temporal():
        values = values.cast(pl.Datetime("us")).to_physical()
    found = values.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
    return np.where(np.isfinite(found), found, np.nan)


def _texts(values: pl.Series) -> pl.Series:
    if not values.dtype.is_nested():
        return values.cast(pl.String)
    # Nested values have no text of their own; their Python form tells them apart.
    plain = [
        value.to_list() if isinstance(value, pl.Series) else value for value in values.to_list()
    ]
    return pl.Series([None if value is None else repr(value) for value in plain], dtype=pl.String)


def _coded_numbers(
    name: str,
    before: Floats,
    after: Floats,
    declared: tuple[float, float] | None,
) -> CodedAttribute:
    known, released = (side[~np.isnan(side)] for side in (before, after))
    if declared is None and len(np.unique(known)) > MOST_NUMBERS:
        declared = float(known.min()), float(known.max())
    if declared is not None:
        edges = round_edges(*declared)
        codes = bins_of(before, edges), bins_of(after, edges)
        return CodedAttribute(name, *codes, len(edges) - 1, (known, released))
    different = np.unique(np.concatenate([known, released]))
    places = [
        np.where(np.isnan(side), MISSING, np.searchsorted(different, side)).astype(np.int64)
        for side in (before, after)
    ]
    return CodedAttribute(name, places[0], places[1], len(different), (known, released))
