"""All that a small case can contribute to an answer."""

import math
from collections.abc import Iterable, Iterator
from itertools import pairwise, product
from typing import Final

import numpy as np

from cloakwork.base.naming import CASE_PREFIX
from cloakwork.kernel import Cases, Clip
from cloakwork.kernel.vectors import key_of, vectors_of
from cloakwork.testing.queries import Asked
from cloakwork.testing.single_cases import Case, Value, batch_of, cases_apart, name_of

LABELS: Final = 2
"""Of these many of the log's activities, and one that no log has, small cases are made."""

LONGEST: Final = 2
"""Events of a small case."""

MOST_VALUES: Final = 256
"""Combinations of values that are tried with one sequence of activities."""

MOST_CASES: Final = 100
"""Of more small cases than that, every second one is tried, or every third, and so on."""

Contribution = dict[bytes, int]


def contributions_at_fault(asked: Asked) -> Iterator[str]:
    """Where a small case moves the sums that ``asked`` is answered from by more than its clip, or
    by something else beside others than by itself; one line each.
    """
    small = _small_cases(asked.cases, asked.alphabet)
    if asked.clip is None or not small:
        return
    everything = batch_of(small, asked.cases, asked.alphabet)
    among = _contributions(asked, everything, asked.clip)
    for row, case in enumerate(small):
        name = name_of(everything, row)
        (alone,) = _contributions(asked, batch_of([case], asked.cases, asked.alphabet), asked.clip)
        if alone != among[row]:
            yield f"<{name}> contributes something else by itself than beside others"
        if not asked.clip.sampled and not _is_within(alone, asked.clip):
            yield f"<{name}> contributes more than {asked.clip}"


def _contributions(asked: Asked, cases: Cases, clip: Clip) -> list[Contribution]:
    """What each case adds to each sum."""
    vectors = vectors_of(cases, asked.query, clip, asked.labels)
    keys = vectors.keys
    if isinstance(keys, np.ndarray):
        keys = [key_of(key, ()) for key in keys.tolist()]
    found: list[Contribution] = [{} for _ in range(len(cases))]
    entries = zip(
        *(each.tolist() for each in (vectors.case, vectors.key, vectors.value)), strict=True
    )
    for case, key, value in entries:
        found[case][keys[key]] = found[case].get(keys[key], 0) + value
    return found


def _is_within(found: Contribution, clip: Clip) -> bool:
    """By whole numbers: no rounding decides."""
    sizes = [abs(value) for value in found.values()]
    if clip.norm == "l2":
        norm_fits = sum(size * size for size in sizes) <= clip.most**2
    else:
        norm = max(sizes, default=0) if clip.norm == "max" else sum(sizes)
        norm_fits = norm <= clip.most
    return norm_fits and sum(size > 0 for size in sizes) <= clip.cells


def _small_cases(like: Cases, alphabet: tuple[str, ...] | None) -> list[Case]:
    """Cases of few events, of some labels and values that ``like`` has, and of others."""
    known = alphabet if alphabet is not None else tuple(sorted(like.alphabet))
    labels = (*known[:LABELS], "decoy")
    values = {name: _few_values(like, name) for name in like.columns}
    variants = [each for length in range(LONGEST + 1) for each in product(labels, repeat=length)]
    found = [case for variant in variants for case in _cases_of(variant, values)]
    return found[:: -(-len(found) // MOST_CASES)] if found else []


def _cases_of(variant: tuple[str, ...], values: dict[str, list[Value]]) -> Iterator[Case]:
    """A variant with each of the values, by the name of their column; where that is very many, with
    some of them.
    """
    many = {name: 1 if name.startswith(CASE_PREFIX) else len(variant) for name in values}
    choices = [values[name] for name in values for _ in range(many[name])]
    combinations: Iterable[tuple[Value, ...]] = product(*choices)
    if math.prod(map(len, choices)) > MOST_VALUES:
        draw = np.random.default_rng(1)
        places = draw.integers(0, [len(each) for each in choices], (MOST_VALUES, len(choices)))
        combinations = (
            tuple(each[place] for each, place in zip(choices, row, strict=True))
            for row in places.tolist()
        )
    bounds = np.cumsum([0, *many.values()]).tolist()
    for chosen in combinations:
        split = [chosen[start:stop] for start, stop in pairwise(bounds)]
        yield Case(variant, dict(zip(values, split, strict=True)))


def _few_values(like: Cases, name: str) -> list[Value]:
    """Two that the column has, one that is far from all, and none."""
    known = {
        value for case in cases_apart(like) for value in case.columns[name] if value != (None, None)
    }
    first = sorted(known, key=repr)[:2]
    is_time = all(isinstance(number, int) for _, number in known)
    far: Value = (None, 10**15) if is_time else ("decoy", None)
    return [*first, far, (None, None)]
