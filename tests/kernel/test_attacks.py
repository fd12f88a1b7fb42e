"""What an attack on the kernel found: each test failed once."""

import pickle
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from polars.exceptions import PanicException
from pydantic import BaseModel

from cloakwork.base.costs import Composed, DiscreteGaussian, DiscreteLaplace, PrivacyEvent
from cloakwork.base.facts import Unit
from cloakwork.engines.measured import measured_of
from cloakwork.errors import PlanUnsound
from cloakwork.kernel import (
    Books,
    Cases,
    Clip,
    CustomQuery,
    Descent,
    Entries,
    Gaussian,
    Kernel,
    Laplace,
    Perturbation,
    books,
    vectors_of,
)
from cloakwork.kernel.perturb import Grid, OneTime, Perturbing
from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.aggregates import VariantCounts
from cloakwork.mechanisms.registry import Package
from cloakwork.mechanisms.steps import Measurement, MeasureStep
from cloakwork.noise import reproducible
from cloakwork.run.steps import GrantedStep
from cloakwork.testing import prepare
from cloakwork.testing.contract_logs import log_of
from cloakwork_extras.trees.sacofa import measure_steps


class Params(BaseModel):
    """Nothing to set."""


NOISE = DiscreteLaplace(scale=4.0)
LOG = log_of([["a", "b"]] * 30 + [["a"]] * 5)
FIRST = np.zeros(1, np.int64)


def kernel(event: PrivacyEvent = NOISE, log: EventLog = LOG) -> Kernel:
    """What a step holds that is charged ``event``."""
    noise = reproducible(1)
    return Kernel(measured_of(VariantCounts().of(log), noise), Books.of(event), noise, 1)


# Sensitivity.


class _Asked:
    """Hands a query back instead of asking it."""

    def sum(self, query: Any, *_: Any, **__: Any) -> Any:
        return query


@pytest.mark.parametrize("labels", [(1 << 23) - 1, 1 << 23])
def test_steps_of_a_case_do_not_depend_on_how_many_labels_the_log_has(labels: int) -> None:
    """Rows times the square of the labels leave int64: at 2**23 - 1 labels the steps of rows 2**18
    apart are taken for the same, and one label more brings them all back.
    """
    cases = (1 << 18) + 1
    codes = np.zeros(2 * cases, np.int64)
    codes[1::2] = 1
    # Which labels there are does not matter here, but for how many.
    batch = Cases(("",) * labels, codes, np.arange(0, 2 * cases + 1, 2))
    query: Any = measure_steps(_Asked(), Laplace(1.0), 10, None)  # type: ignore[arg-type]
    assert len(query(batch).case) == 3 * cases


@pytest.mark.parametrize("norm", ["L1", "linf"])
def test_a_norm_that_the_kernel_does_not_know_is_refused(norm: Any) -> None:
    """It is clipped as l2 and charged as l1."""
    case = tuple(f"label {place}" for place in range(64))
    cases = Cases.of([case], case)

    def every_event(cases: Cases) -> Entries:
        return Entries(cases.case_of, np.ones(len(cases.codes), np.int64), cases.place)

    with pytest.raises((ValueError, PlanUnsound)):
        moved = np.abs(vectors_of(cases, every_event, Clip(norm, 8, 64)).value).sum()
        charged = Laplace(4.0).events(Clip(norm, 8, 64), 1, 64)
        pytest.fail(f"one case moves the sum by {moved}, and is charged {charged}")


class HalvedNoise(Laplace):
    """It says that it is Laplace noise of its scale, and draws less."""

    def draw(self, noise: Any, size: int) -> Any:
        return super().draw(noise, size) // 2


def test_noise_is_drawn_by_the_kernel_alone() -> None:
    """``events`` and ``draw`` are methods of an object that the mechanism hands over."""
    with pytest.raises((TypeError, PlanUnsound)):
        kernel().sum(Entries.one_each, HalvedNoise(4.0), keys=1)


class LooseClip(Clip):
    """It bounds less than it says to whoever charges for it."""


def test_vectors_are_clipped_by_the_kernel_alone() -> None:
    """A class of the mechanism's own may answer each question otherwise."""
    loose = LooseClip("l1", 1, 1)
    with pytest.raises(PlanUnsound, match="a clip is a Clip"):
        kernel().sum(Entries.one_each, Laplace(4.0), loose, keys=1)
    with pytest.raises(PlanUnsound, match="a clip is a Clip"):
        kernel().select(Entries.one_each, Laplace(4.0), 100, loose)


class FineGrid(Grid):
    """It rounds to other steps than it says."""

    def nearest(self, microseconds: Any) -> Any:
        return microseconds


def test_times_are_rounded_by_the_kernel_alone() -> None:
    """The grid, too, is an object of the mechanism's, and what it rounds to is not what is charged:
    an hour is 60 steps of the event, and 3.6 thousand million of those that get its noise.
    """
    grid = FineGrid(datetime(1970, 1, 1, tzinfo=UTC), timedelta(minutes=1))
    hour = timedelta(hours=1)
    declared = Perturbation(grid, OneTime(hour), "times", start_scale=60.0, gap_scale=60.0)
    with pytest.raises((TypeError, PlanUnsound)):
        Perturbing(declared, Books.of(declared.event(1)), reproducible(1).stream(), 1, hour)


# Data that make the kernel raise, or fill the memory.


def test_a_custom_question_that_fails_on_some_logs_aborts_on_none() -> None:
    """Both ways of failing show that the log is empty, the second one says how many variants it
    has.
    """

    def largest(counts: Any) -> Any:
        return np.array([counts[-1]])

    def last(counts: Any) -> Any:
        return counts[-1:]

    for compute in (largest, last):
        question = CustomQuery("the largest variant", compute, 1, 1, "1-Lipschitz")
        for log in (LOG, log_of([])):
            assert kernel(log=log).custom(question, Laplace(4.0)).shape == (1,)


def test_a_panic_in_a_query_is_an_empty_vector() -> None:
    """What polars, or any other extension by pyo3, panics with is no Exception."""

    def panics(cases: Cases) -> Entries:
        raise PanicException("on a label of one case")

    kernel().sum(panics, Laplace(4.0), keys=1)


def test_no_keys_are_a_question_without_answers() -> None:
    """So many keys as were selected: an empty selection ends the run in a ZeroDivisionError."""
    noise = DiscreteGaussian(sigma=2000.0)
    answers = kernel(noise).sum(Entries.one_each, Gaussian(2000.0), keys=0)
    assert not answers.at(np.zeros(0, np.int64)).size


def test_keys_beyond_the_clip_cost_no_memory() -> None:
    """All prefixes of a case are spelled before the first eight are kept: 2.3 GB for one case of
    20,000 events, 58 GB for one of 100,000. Whether the run survives tells of that case.
    """

    def prefixes(cases: Cases) -> Entries:
        begin = cases.offsets[:-1][cases.case_of]
        ones = np.ones(len(cases.codes), np.int64)
        return Entries(cases.case_of, ones, None, begin, np.arange(len(ones)) + 1)

    def peak(events: int) -> int:
        cases = Cases(("a",), np.zeros(events, np.int64), np.array([0, events]))
        tracemalloc.start()
        assert len(vectors_of(cases, prefixes, Clip("l1", 8, 8)).case) == 8
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    assert peak(3000) < 3 * peak(1500)


# Books.


def test_a_kernel_is_not_copied() -> None:
    """A copy in another process has books of its own; nothing that it draws is recorded."""
    asked = kernel()
    with pytest.raises((TypeError, PlanUnsound, pickle.PicklingError)):
        for _ in range(2):
            other = pickle.loads(pickle.dumps(asked))
            other.sum(Entries.one_each, Laplace(4.0), keys=1)


def test_a_copy_of_an_answer_is_the_same_answer() -> None:
    """Noise is drawn when a key is first read: each copy draws its own, for one charge."""
    answers = kernel().sum(Entries.one_each, Laplace(4.0), keys=1)
    read = {int(copy(answers).at(FIRST)[0]) for _ in range(50)}
    assert len(read) == 1


def test_threads_fill_a_slot_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of them look for an open slot before either has filled it."""
    both_look, fits = threading.Barrier(2), books.fits

    def slow(event: PrivacyEvent, slot: PrivacyEvent) -> bool:
        with suppress(threading.BrokenBarrierError):
            both_look.wait(timeout=0.5)
        return fits(event, slot)

    monkeypatch.setattr(books, "fits", slow)
    asked = kernel()

    def answered(_: int) -> bool:
        try:
            asked.sum(Entries.one_each, Laplace(4.0), keys=1)
        except PlanUnsound:
            return False
        return True

    with ThreadPoolExecutor(2) as threads:
        assert sum(threads.map(answered, range(2))) == 1


def test_nothing_is_answered_once_the_step_is_over() -> None:
    """What is recorded is read when ``measure`` returns: what is asked of the kernel later, as by
    variants that are made when they are needed, is drawn and stands in no statement.
    """
    kept: list[Kernel] = []

    def keep_kernel(kernel: Kernel) -> Measurement:
        kept.append(kernel)
        return Measurement([], np.zeros(0, np.int64))

    noise = reproducible(1)
    seen = measured_of(VariantCounts().of(LOG), noise)
    step = MeasureStep(event=NOISE, measure=keep_kernel)
    _, closed = GrantedStep(step, Package("toy/late", None), Params(), Unit()).measure(seen, noise)
    with pytest.raises(PlanUnsound):
        kept[0].sum(Entries.one_each, Laplace(4.0), keys=1)
    assert kept[0].recorded == closed.recorded


def test_an_answer_takes_the_tightest_slot_that_it_fits() -> None:
    """Else one that fits no other slot is refused, after the budget was reserved."""
    asked = kernel(Composed(events=(NOISE, DiscreteLaplace(scale=8.0))))
    asked.sum(Entries.one_each, Laplace(9.0), keys=1)
    asked.sum(Entries.one_each, Laplace(4.0), keys=1)


def test_markov_runs_with_equal_shares_and_several_cases_a_unit() -> None:
    """The selection of variants takes the slot of the number of cases, which has the same sigma."""
    found = prepare(
        "variants/markov",
        epsilon=20.0,
        delta=1e-3,
        max_cases=2,
        options={"shares": [1, 1, 1, 1, 1, 1]},
    )
    found.run(LOG, reproducible(1))


# What is shown.


def test_an_answer_printed_shows_no_exact_sum() -> None:
    """In a message of progress or of an error, which screens and public reports may hold."""
    answers = kernel().sum(Entries.one_each, Laplace(4.0), keys=1)
    for held in (answers, kernel().grow()):
        # Its class and where it lies in memory, which may hold any digits.
        shown, _, address = repr(held).partition(" at 0x")
        assert shown == f"<{type(held).__module__}.{type(held).__qualname__} object"
        assert address.removesuffix(">").isalnum()


# Gradient steps.


class LooseDescent(Descent):
    """It clips nothing."""

    def clipped(self, gradient: Any, parameters: Any, cases: Cases) -> Any:
        return np.full((len(cases), len(parameters)), 1 << 20)


class HalvedGaussian(Gaussian):
    """It says that it is Gaussian noise of its sigma, and draws less."""

    def draw(self, noise: Any, size: int) -> Any:
        return super().draw(noise, size) // 2


@pytest.mark.parametrize(
    "descent",
    [
        LooseDescent(1, 1.0, 1.0, 8, Gaussian(1e5), 1.0),
        Descent(1, 1.0, 1.0, 8, HalvedGaussian(1e5), 1.0),
    ],
)
def test_gradients_are_clipped_and_noised_by_the_kernel_alone(descent: Descent) -> None:
    """What bounds a step, and its noise, are objects of the mechanism's too."""
    asked = kernel(descent.event(2, 1))
    with pytest.raises(PlanUnsound, match="gradient steps are taken by a Descent"):
        asked.steps(lambda parameters, cases, step: [], np.zeros(2), lambda _, mean: mean, descent)


def test_a_panic_in_a_gradient_or_a_custom_question_is_silent() -> None:
    """As in a query."""

    def panics(*_: Any) -> Any:
        raise PanicException("on a label of one case")

    question = CustomQuery("a panic", panics, 1, 1, "it finds nothing")
    assert kernel().custom(question, Laplace(4.0)).shape == (1,)
    descent = Descent(1, 1.0, 1.0, 8, Gaussian(1e5), 1.0)
    asked = kernel(descent.event(2, 1))
    assert len(asked.steps(panics, np.zeros(2), lambda _, mean: mean, descent)) == 2
