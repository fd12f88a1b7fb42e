"""Pairs that are a few edits apart, against all distances."""

import random

import numpy as np
import pytest

from cloakwork.log.sequences import Metric
from cloakwork.mechanisms.kanon import long_tail
from cloakwork.mechanisms.kanon.deadline import Deadline
from cloakwork.mechanisms.kanon.long_tail import find_near_pairs
from cloakwork.mechanisms.kanon.problem import KAnonymityProblem


def some_problem(seed: int, metric: Metric) -> KAnonymityProblem:
    """Sequences of very different lengths, the empty one among them, and many near ones."""
    dice = random.Random(seed)
    texts = {"", chr(0), chr(0x10FFFF)}
    texts |= {"".join(dice.choices("abc", k=dice.randint(0, 9))) for _ in range(60)}
    return KAnonymityProblem.of(sorted(texts), [1] * len(texts), 2, "variants", metric)


@pytest.mark.parametrize("metric", ["levenshtein", "indel"])
@pytest.mark.parametrize("most_hashes", [10_000, 900, 300, 60, 0])
def test_what_is_not_listed_is_at_least_so_far(metric: Metric, most_hashes: int) -> None:
    """Every pair is listed with its distance, or as far apart as is said of its source."""
    listed = 0
    for seed in range(8):
        problem = some_problem(seed, metric)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(long_tail, "_MOST_HASHES", most_hashes)
            near = find_near_pairs(problem, 60, Deadline())
        distance = problem.distances.matrix.astype(np.int64)
        assert np.array_equal(distance[near.source, near.target], near.distance)
        key = near.source * len(distance) + near.target
        assert len(np.unique(key)) == len(key)
        is_listed = np.zeros(distance.shape, bool)
        is_listed[near.source, near.target] = True
        others = ~is_listed & ~np.eye(len(distance), dtype=bool)
        assert (distance >= near.beyond[:, None])[others].all()
        listed += len(key)
    assert (listed > 0) == (most_hashes > 0)


def test_without_time_nothing_is_listed() -> None:
    """Different variants are an edit apart at least: that is known without looking."""
    near = find_near_pairs(some_problem(1, "levenshtein"), 60, Deadline.after(0))
    assert not len(near.source)
    assert (near.beyond == 1).all()
