"""The noisy tables of a log: the same to the bit in memory and in batches on disk, however many."""

from dataclasses import replace
from itertools import pairwise
from threading import Lock
from unittest.mock import patch

import cloudpickle
import numpy as np
import pytest

from cloakwork.engines.batched import LocalEngine
from cloakwork.engines.measured import ReleasedLog
from cloakwork.engines.memory import MemoryEngine
from cloakwork.kernel import Descent, Kernel, MeasuredBatches
from cloakwork.kernel import kernel as kernel_module
from cloakwork.kernel.gradients import ROUNDING
from cloakwork.kernel.vectors import Sums
from cloakwork.log.variants import CasesOfVariants
from cloakwork.mechanisms.aggregates import VariantCounts
from cloakwork.mechanisms.timestamps.histogram import ModelledTimes
from cloakwork.noise import reproducible
from cloakwork.run import steps as run_steps
from cloakwork.testing.contract_logs import BATCH_LOG, RELEASED, Batches, assert_same_log
from conftest import in_long_form
from contracts import test_mechanism_contract as contracts

PLACES = (1, 12, *in_long_form(4, 60))
TIMES, ATTRIBUTES = contracts.TestTimestampHistogram, contracts.TestAttributesHistogram
GRADIENTS, STEP = contracts.TestTimestampRegression, contracts.TestAttributesRegression
TABLES = [TIMES, ATTRIBUTES, STEP]


class Elsewhere:
    """Sends each task to another process, and is itself at home in this one."""

    def __init__(self):
        self.lock = Lock()

    def run(self, task, places):
        return map(cloudpickle.loads(cloudpickle.dumps(task)), range(places))


def told(runs, params, log, engine):
    """Every answer that a step reads, as it may be published."""
    noise = reproducible(3)
    step = runs.granted(params)
    seen = step.look(log, engine, noise)
    outcome = step.take(seen, noise, released=RELEASED)
    MemoryEngine().rewrite(RELEASED, outcome.rewrite)
    return [
        (answer.table.name, answer.told.codes.tolist(), answer.told.labels, answer.told.noisy)
        for answer in outcome.answers
    ]


def in_files(batches):
    """The log that kernels are asked about, opened in so many batches."""
    return LocalEngine().open(
        Batches.random(BATCH_LOG, batches), lambda log: log, None, VariantCounts()
    )


def differing(runs, batches):
    """Tables that come out otherwise in batches, by name."""
    for params in runs.offers():
        expected = told(runs, params, BATCH_LOG, MemoryEngine())
        found = told(runs, params, in_files(batches).log, LocalEngine())
        assert expected
        for one, other in zip(expected, found, strict=True):
            assert one[:3] == other[:3]
            if not np.array_equal(one[3], other[3]):
                yield one[0]


@pytest.mark.parametrize("batches", PLACES)
@pytest.mark.parametrize("runs", TABLES)
def test_tables_are_the_same_to_the_bit(runs, batches):
    assert list(differing(runs(), batches)) == []


def passes(runs):
    """How often the batches are gone over, at most, by what is offered."""
    found, true = [0], MeasuredBatches.added_up

    def counted(self, *given, **named):
        found[-1] += 1
        return true(self, *given, **named)

    with patch.object(MeasuredBatches, "added_up", counted):
        for params in runs.offers():
            found.append(0)
            told(runs, params, in_files(4).log, LocalEngine())
    return max(found)


def test_tables_that_follow_from_no_answer_are_found_in_one_pass():
    """Of times all but the window before them and the hours behind them; the twin reads each table
    before it asks for the next.
    """
    assert passes(TIMES()) <= 3
    ask = ModelledTimes._ask
    with patch.object(
        ModelledTimes,
        "_ask",
        lambda self, name, query, codes, *more: (
            ask(self, name, query, codes, *more) if codes.size else np.zeros(codes.shape)
        ),
    ):
        assert passes(TIMES()) > 3


def rounded(sums):
    """The broken twin: sums of floats, rounded to the digits of their size at each step."""
    one, other = sums
    found = np.union1d(one.keys, other.keys)
    total = (one.at(found) / 192).astype(np.float16) + (other.at(found) / 192).astype(np.float16)
    return Sums(found, np.rint(total.astype(np.float64) * 192).astype(np.int64))


@pytest.mark.parametrize("runs", [TIMES])
def test_sums_that_depend_on_their_order_are_found(runs):
    with patch.object(kernel_module, "added_up", rounded):
        assert list(differing(runs(), PLACES[1]))


def test_sums_of_gradients_agree_up_to_the_order_of_floats():
    """A gradient's last bits may be others beside other cases, and decide how it is rounded: two
    grid steps a case, of 2**30 that are the clip.
    """
    runs = GRADIENTS()
    for params in runs.offers():
        expected = summed_gradients(runs, params, BATCH_LOG, MemoryEngine())
        for batches in PLACES:
            found = summed_gradients(runs, params, in_files(batches).log, LocalEngine())
            for one, other in zip(expected, found, strict=True):
                assert np.abs(one - other).max() <= ROUNDING * BATCH_LOG.case_count


def summed_gradients(runs, params, log, engine):
    """The exact sum of the gradients of each step, before any noise."""
    found = []
    true, asked = Descent.summed, Kernel.steps

    def noted(*given):
        total = true(*given)
        found[-1] = found[-1] + total
        return total

    def steps(kernel, gradient, parameters, *given, **named):
        found.append(np.zeros(len(parameters), np.int64))
        return asked(kernel, gradient, parameters, *given, **named)

    with patch.object(Descent, "summed", noted), patch.object(Kernel, "steps", steps):
        told(runs, params, log, engine)
    return found


@pytest.mark.parametrize("runs", [TIMES, GRADIENTS, STEP])
def test_released_cases_that_come_in_parts_are_the_same_on_both_engines(runs):
    """Cut into parts of seven: columns are drawn part by part, by the same answers."""
    runs = runs()
    for params in runs.offers():
        with patch.object(run_steps, "CASES_OF_A_PART", 7):
            whole = runs.run(params, BATCH_LOG, reproducible(1))
            parted = runs.run(
                params, BATCH_LOG, reproducible(1), engine=LocalEngine(batch_events=5)
            )
        assert_same_log(whole, parted)
        assert whole.case_count == RELEASED.case_count


def test_the_part_that_asks_knows_where_its_cases_stand():
    """Of a log in memory, too, whose cases are not numbered; and where it is not the first part."""
    last = RELEASED.keep_cases(np.argsort(np.diff(RELEASED.offsets), kind="stable"))
    last = replace(last, case_index=None)
    part = ReleasedLog.of(last, (), 7).fullest()
    assert part.index_of_case[0] > 0
    where = part.index_of_case
    assert np.array_equal(np.diff(part.offsets), np.diff(last.offsets)[where])
    runs = TIMES()
    with patch.object(run_steps, "CASES_OF_A_PART", 7):
        step = runs.granted(next(iter(runs.offers())))
        noise = reproducible(1)
        seen = step.look(BATCH_LOG, MemoryEngine(), noise)
        rewrite = step.take(seen, noise, released=last).rewrite
        assert MemoryEngine().rewrite(last, rewrite).case_count == last.case_count


def test_tasks_of_the_part_that_asks_leave_the_log_where_it_is():
    """A log holds a session of Spark, or processes, which cannot be sent anywhere."""
    released = Batches.random(replace(RELEASED, case_index=None), 3)
    engine = LocalEngine(executor=Elsewhere())
    log = engine.open(released, lambda log: log, None, VariantCounts()).log
    part = ReleasedLog.of(log, (), 7).fullest()
    assert_same_log(ReleasedLog.of(RELEASED, (), 7).fullest(), part)


def test_each_range_of_spread_cases_is_like_all():
    """The same cases, in another order."""
    variants = [("a",), ("b", "c"), (), ("d",)]
    cases = CasesOfVariants.of(variants, np.array([50_000, 30_000, 15_000, 5_000]))
    spread = cases.spread()

    def made(log):
        labels = log.activities.to_list()
        return [tuple(labels[a:b]) for a, b in pairwise(log.offsets)]

    assert sorted(made(spread.made(0, 100_000))) == sorted(made(cases.made(0, 100_000)))
    for first in (0, 10_000, 73_000):
        part = made(spread.made(first, first + 10_000))
        assert made(spread.made(first, first + 7)) == part[:7]
        assert [part.count(each) for each in variants] == pytest.approx(
            [5_000, 3_000, 1_500, 500], abs=30
        )
    assert made(cases.made(0, 100)) == [("a",)] * 100
