"""What is usual in a log, by a sample of its noisy values."""

import numpy as np

from cloakwork.engines.noised import cases_of
from cloakwork.mechanisms.steps import NoisySample
from cloakwork.mechanisms.timestamps.completion import Bounds, UsualValues
from contracts.sample_logs import log_of

NOTHING = np.zeros(0, np.int64)
FREE = Bounds(released=(-(10**12), 10**12))


def test_a_typical_gap_is_a_lower_bound_of_the_median() -> None:
    """Of 16 gaps the one at rank 16 / 2 - 4, from 0; of four the least; below that one step."""
    gaps = np.concatenate([np.arange(100, 116)[::-1], [50, 40, 30, 60], [9, 9, 9]])
    before = np.repeat([0, 2, 4], [16, 4, 3])
    sample = NoisySample(tuple("abcdef"), NOTHING, NOTHING, NOTHING, gaps, before, before + 1)
    cases = cases_of(log_of(["ab", "cd", "ef", "ba", "zb", "az"]))
    typical = UsualValues.of(sample, FREE).typical_gaps(cases)
    assert typical.tolist() == [1, 104, 1, 30, 1, 1, 1, 1, 1, 1, 1, 1]


def test_what_is_usual_lies_in_public_bounds() -> None:
    """Starts and gaps alike."""
    values = np.array([-100, 5, 100])
    zero = np.zeros(3, np.int64)
    sample = NoisySample(("a",), values, values, zero, values, zero, zero)
    usual = UsualValues.of(sample, Bounds((0, 200), start=(0, 50), longest_gap=20))
    assert usual.sample.starts.tolist() == [0, 5, 50]
    assert usual.sample.gaps.tolist() == usual.sample.pair_gaps.tolist() == [-20, 5, 20]


def test_nothing_is_usual_in_an_empty_log() -> None:
    """Gaps of one step, and no activity."""
    sample = NoisySample((), *[NOTHING] * 6)
    cases = cases_of(log_of(["ab"]))
    usual = UsualValues.of(sample, FREE)
    assert usual.typical_gaps(cases).tolist() == [1, 1]
    assert usual.codes_of(cases).tolist() == [-1, -1]
