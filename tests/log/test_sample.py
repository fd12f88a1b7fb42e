"""A sample of the cases of a log in batches."""

from dataclasses import replace

import numpy as np

from cloakwork.evaluation.utility import sampled_cases
from cloakwork.log.eventlog import CASE_ID, LogHandle
from cloakwork.log.variants import log_of_variants
from log_in_parts import LogInParts

LOG = log_of_variants([("a", "b"), ("c", "d")], np.array([3000, 1000]))


def unnumbered(log: LogInParts) -> LogInParts:
    """As batches of a release are, whose cases have no index any more."""
    return log.with_columns_of(lambda part: replace(part, case_index=None))


def ids(log: LogHandle, most_events: int) -> list[str]:
    """The cases of a sample."""
    return sampled_cases(log, most_events).log.cases[CASE_ID].to_list()


def test_a_small_log_and_one_in_memory_are_taken_whole() -> None:
    """Whatever is asked for of what is in memory anyway."""
    assert sampled_cases(LOG, 10).log is LOG
    sample = sampled_cases(LogInParts.evenly(LOG, 4), 8000)
    assert sample.is_whole and sample.log.events.height == 8000
    assert sampled_cases(LogInParts.evenly(LOG.keep_cases(np.arange(0)), 3), 10).is_whole


def test_a_sample_has_about_as_many_events_of_all_batches() -> None:
    """The same cases however they lie in batches; of each variant about its share."""
    sample = sampled_cases(LogInParts.evenly(LOG, 4), 2000)
    assert not sample.is_whole
    assert str(sample) == f"{sample.log.cases.height:,} of 4,000 cases"
    assert abs(sample.log.cases.height - 1000) < 150  # 5 deviations of 27
    first = sum(label == "a" for label in sample.log.events["concept:name"])
    assert abs(first / sample.log.cases.height - 0.75) < 0.1
    assert set(ids(LogInParts.evenly(LOG, 7), 2000)) == set(ids(LogInParts.evenly(LOG, 4), 2000))
    bare = unnumbered(LogInParts.evenly(LOG, 4))
    assert 800 < len(ids(bare, 2000)) < 1200
    # Every batch has its part, though their rows have the same numbers.
    of_batch = np.array([int(each) % 4 for each in ids(bare, 2000)])
    assert np.bincount(of_batch).min() > 150


def test_a_sample_before_and_after_a_step_holds_the_same_cases() -> None:
    """A case is chosen by its index alone."""
    before = LogInParts.evenly(LOG, 5)
    after = before.with_columns_of(lambda log: replace(log, events=log.events.reverse()))
    assert ids(before, 1000) == ids(after, 1000)


def test_cases_without_events_are_not_all_taken() -> None:
    """Events are not the only thing that takes memory."""
    empty = log_of_variants([()], np.array([2_500_000]))
    sample = sampled_cases(LogInParts((empty,)), 500_000)
    assert 1_900_000 < sample.log.cases.height < 2_100_000
