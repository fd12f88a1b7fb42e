"""Domains that nobody declared: the values of an attribute that enough cases have, through noise.

A case counts for at most ``MOST_OF_A_CASE`` values of an attribute, as a vector of Euclidean norm 1
over them. A value is told where its noisy sum reaches a threshold which values of one unit alone
pass with the charged delta at most (partition selection: Korolova et al. 2009; Desfontaines et al.
2022).
"""

import re
from statistics import NormalDist
from typing import Final

import numpy as np
from pydantic import JsonValue

from cloakwork.base.arrays import Bools
from cloakwork.base.facts import FoundType
from cloakwork.base.naming import CASE_PREFIX
from cloakwork.kernel import Cases, Clip, Entries, Gaussian, Kernel, Query
from cloakwork.kernel.cases import Column
from cloakwork.mechanisms.attributes.contributions import UNIT_NORM
from cloakwork.mechanisms.attributes.domains import MeasuredAttribute

MOST_OF_A_CASE: Final = 8
"""Different values of an attribute that a case counts for."""

MOST_FOUND: Final = 1000
"""Values of an attribute that are told: the most frequent, by their noisy sums."""

LONGEST: Final = 100
"""Characters; what is longer is no value of a list, but free text, and never told."""

CLIP: Final = Clip("l2", UNIT_NORM, MOST_OF_A_CASE)

_WHOLE: Final = re.compile(r"0|-?[1-9][0-9]{0,14}")


def least_sum(sigma: float, delta: float, max_cases: int) -> int:
    """The least threshold, in grid steps, that spends ``delta`` at most beside noise of
    deviation ``sigma``.
    """
    noise = Gaussian(sigma)
    alone = max_cases * UNIT_NORM
    far = -NormalDist().inv_cdf(min(delta / (max_cases * MOST_OF_A_CASE), 0.5))
    least = alone + 1 + int(far * sigma)
    while noise.selection_delta(least, CLIP, max_cases) > delta:
        least += max(1, int(sigma / 1000))
    return least


def find_values(
    attribute: MeasuredAttribute, kernel: Kernel, sigma: float, least: int
) -> MeasuredAttribute:
    """The attribute with the values that are found as its domain; as it is, where it declares its
    own.
    """
    if attribute.found is None:
        return attribute
    query = _values_of(attribute.name, attribute.found)
    selected = kernel.select(query, Gaussian(sigma), least, CLIP, labels=attribute.name)
    order = np.argsort(-selected.noisy, kind="stable")[:MOST_FOUND]
    texts = sorted(selected.labels[place][0] for place in order.tolist())
    domain: tuple[JsonValue, ...] = tuple(texts)
    if attribute.found == "integer":
        domain = tuple(sorted(map(int, texts)))
    return attribute.model_copy(update={"domain": domain, "found": None})


def _values_of(name: str, type_: FoundType) -> Query:
    """The first different values of each case, all of one weight."""

    def values(cases: Cases) -> Entries:
        column = cases.columns[name]
        every = np.arange(len(cases))
        case_of = every if name.startswith(CASE_PREFIX) else cases.case_of
        rows = np.flatnonzero(_may_be_told(column, type_))
        pairs = case_of[rows] * max(1, len(column.alphabet)) + column.codes[rows]
        _, first = np.unique(pairs, return_index=True)
        rows = np.sort(rows[first])
        case = case_of[rows]
        rank = np.arange(len(rows)) - np.searchsorted(case, case)
        rows, case = rows[rank < MOST_OF_A_CASE], case[rank < MOST_OF_A_CASE]
        times = np.bincount(case, minlength=len(cases))[case]
        value = np.floor(UNIT_NORM / np.sqrt(times)).astype(np.int64)
        return Entries(case, value, None, rows, rows + 1)

    return values


def _may_be_told(column: Column, type_: FoundType) -> Bools:
    """Which values are of this type, and not too long."""
    may_be = [
        0 < len(text) <= LONGEST and (type_ == "text" or bool(_WHOLE.fullmatch(text)))
        for text in column.alphabet
    ]
    # A missing value has the last place.
    return np.array([*may_be, False])[column.codes]
