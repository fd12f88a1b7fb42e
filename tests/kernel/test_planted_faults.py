"""Faults that a mechanism may have, each planted once: it cannot be expressed, is stopped before
anything is drawn, or is caught by the contract that every mechanism runs.
"""

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from types import NoneType
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from numpy.typing import NDArray

from cloakwork.accounting.events import cost
from cloakwork.base.costs import (
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    NonPrivate,
    PoissonSampled,
    PrivacyEvent,
    Repeated,
)
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS, Lineage
from cloakwork.base.quantities import Frozen
from cloakwork.engines.measured import measured_of
from cloakwork.errors import PlanUnsound
from cloakwork.evaluation.one_mechanism import run_step
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import (
    Answer,
    Books,
    Cases,
    Entries,
    Gaussian,
    Growth,
    Kernel,
    Laplace,
    Measured,
    NoisySums,
    Selected,
)
from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.aggregates import VariantCounts
from cloakwork.mechanisms.base import Gives, Mechanism, Offer, Refusal, Theorem
from cloakwork.mechanisms.steps import CASES_FROM_ANSWERS, Measurement, MeasureStep
from cloakwork.noise import reproducible
from cloakwork.testing import MechanismContract
from cloakwork.testing.contract_logs import log_of
from conftest import ROOT

NOISE = DiscreteLaplace(scale=4.0)
LOG = log_of([["a", "b"]] * 30 + [["a"]] * 5 + [["c"]])


def kernel(
    event: PrivacyEvent, log: EventLog = LOG, *, max_cases: int = 1, unit: str | None = None
) -> Kernel:
    """What a step holds that is charged ``event``."""
    noise = reproducible(1)
    seen = measured_of(VariantCounts(unit).of(log), noise)
    return Kernel(seen, Books.of(event), noise, max_cases)


def stopped() -> Any:
    """An answer that the plan does not list."""
    return pytest.raises(PlanUnsound, match="its plan does not list")


# What is stopped before anything is drawn.


def test_half_the_noise() -> None:
    with stopped():
        kernel(NOISE).sum(Entries.one_each, Laplace(2.0), keys=1)
    with stopped():
        kernel(DiscreteGaussian(sigma=4.0)).sum(Entries.one_each, Gaussian(2.0), keys=1)


def test_a_missing_level() -> None:
    """The event lists two levels, and the mechanism asks three."""
    tree = kernel(Repeated(times=2, event=DiscreteGaussian(sigma=4.0))).grow()
    for level in range(3):
        if level == 2:
            with stopped():
                tree.declared(_label_at(level), Gaussian(4.0), 3)
            return
        told = tree.declared(_label_at(level), Gaussian(4.0), 3)
        tree.keep(np.arange(len(told.noisy)))


def test_sensitivity_of_one_for_several_cases_of_a_unit() -> None:
    with stopped():
        kernel(NOISE, max_cases=5).sum(Entries.one_each, Laplace(4.0), keys=1)
    asked = kernel(DiscreteLaplace(scale=4.0, sensitivity=5), max_cases=5)
    asked.sum(Entries.one_each, Laplace(4.0), keys=1)
    assert asked.recorded == DiscreteLaplace(scale=4.0, sensitivity=5)


def test_an_extra_query() -> None:
    asked = kernel(NOISE)
    asked.sum(Entries.one_each, Laplace(4.0), keys=1)
    with stopped():
        asked.sum(Entries.one_each, Laplace(4.0), keys=1)
    assert asked.recorded == NOISE


def test_raw_counts_in_post_processing() -> None:
    """A look at the raw counts fills a slot that costs infinity; answers show noisy sums alone."""
    with stopped():
        kernel(NOISE).raw()
    assert np.isinf(cost(Composed(events=(NOISE, NonPrivate(reason="a look"))), 0.0).epsilon)
    assert _public(NoisySums) == {"at", "at_labels", "read"}
    assert _public(Selected) == {"codes", "labels", "noisy"}
    assert _public(Growth) == {"declared", "occurring", "keep"}
    # Sums without noise have private names; no mechanism of ours reaches for one.
    check = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "SLF001"]
    mechanisms = str(ROOT / "engine" / "cloakwork" / "mechanisms")
    done = subprocess.run([*check, mechanisms], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_column_read_that_lineage_does_not_grant() -> None:
    """Cases have a control flow, and what else was granted; so with units. A query that asks for
    more finds nothing, and the contract tells.
    """
    asked = kernel(Repeated(times=3, event=_sampled()), max_cases=2)
    with pytest.raises(PlanUnsound, match="must be granted"):
        asked.sample_sums(Entries.one_each, Laplace(4.0), 0.5, 3, 1)
    granted = {"alphabet", "codes", "offsets", "columns"}
    # The last one is 1 of every log that is asked about.
    assert Cases.__dataclass_fields__.keys() == {*granted, "worth"}
    with pytest.raises(PlanUnsound, match="which it was not granted"):
        kernel(NOISE).sum(Entries.one_each, Laplace(4.0), labels="org:resource")

    def by_day(cases: Cases) -> Entries:
        return Entries.one_each(cases, cases.times.values % 2)

    # The same seed draws the same noise: of no case an entry is left.
    full, empty = (
        kernel(NOISE, log).sum(by_day, Laplace(4.0), keys=2) for log in (LOG, log_of([]))
    )
    assert (full.at(np.arange(2)) == empty.at(np.arange(2))).all()
    contract = TestAQueryThatIsPure()
    contract.mechanism = CountsVariants(by_day)  # type: ignore[misc]
    with pytest.raises(AssertionError):
        contract.test_queries_ask_for_what_was_granted()
    with pytest.raises(PlanUnsound, match="nothing that it can measure"):
        run_step(MeasuresTimes(), NoParams(), LOG, reproducible(1))


# What cannot be expressed.


def test_clip_left_out() -> None:
    """Whatever a query says of a case, the case moves the sum by the clip at most."""

    def a_thousand(cases: Cases) -> Entries:
        found = Entries.one_each(cases)
        return Entries(found.case, found.value * 1000, found.code)

    one_more = log_of([["a", "b"]] * 31 + [["a"]] * 5 + [["c"]])
    # The same seed draws the same noise: what is left is the difference of the exact sums.
    sums = [
        kernel(NOISE, log).sum(a_thousand, Laplace(4.0), keys=1).at(np.zeros(1, np.int64))
        for log in (LOG, one_more)
    ]
    assert (sums[1] - sums[0]).tolist() == [1]


def test_a_key_taken_from_the_data_outside_select() -> None:
    """A sum is read at keys that the mechanism names, whether they occur or not: it lists none.

    A key that no case has gets noise like any other. Telling which keys occur takes ``select`` or
    ``grow``, whose threshold is charged.
    """
    unknown = [(0, ("nobody", "has", str(each))) for each in range(50)]
    answers = kernel(NOISE).sum(Entries.of_variants, Laplace(4.0))
    assert len(set(answers.at_labels(unknown).tolist())) > 1
    assert not {"__iter__", "__len__", "__getitem__", "__contains__"} & set(dir(answers))
    with stopped():
        kernel(NOISE).select(Entries.of_variants, Laplace(4.0), 10)
    with pytest.raises(PlanUnsound, match="more delta than the plan lists"):
        kernel(NOISE).grow().occurring(_label_at(0), Laplace(4.0), 10)


def test_the_number_of_raw_cases_used_as_a_default() -> None:
    """A kernel tells no number without noise: it has no size, and no attribute that holds one."""
    assert {name for name in vars(kernel(NOISE)) if not name.startswith("_")} == {"randomness"}
    assert not {"__len__", "__iter__", "__getitem__"} & set(dir(Kernel))


def test_only_raw_returns_data() -> None:
    """By their types: no other method or attribute of a kernel returns frames, cases or sums."""
    arrays = (NDArray[np.int64], NDArray[np.float64])
    told = tuple[Answer, ...]
    answers = (NoisySums, Selected, Growth, Kernel, int, NoneType, *arrays, PrivacyEvent, told)
    events = get_args(get_args(PrivacyEvent)[0])
    returned = {
        name: get_type_hints(_function(member))["return"]
        for name, member in vars(Kernel).items()
        if not name.startswith("_")
    }
    tells_data = {
        name
        for name, kind in returned.items()
        if kind not in answers and not set(get_args(kind)) & set(events)
    }
    assert tells_data == {"raw"}
    assert returned["raw"] is Measured


# What the contract of every mechanism catches.


class NoParams(Frozen):
    """Nothing to set."""


class CountsVariants(Mechanism[NoParams]):
    """Asks how many cases follow each of two variants: sound, but for the ``query``."""

    name = "toy/counts"
    summary = "Counts two variants."
    proof = "kernel"
    theorem = Theorem("Noise of scale 4 on disjoint counts.", "a toy")
    gives = (Gives("differential-privacy", CONTROL_FLOW),)
    Params = NoParams

    def __init__(self, query: Callable[[Cases], Entries] | None = None) -> None:
        self.query = query or self.counted

    def offer(self, goal: Any, facts: Facts, options: Any) -> Offer[Any] | Refusal:
        if goal.kind != "differential-privacy" or goal.over != (CONTROL_FLOW,):
            return Refusal("never", "it counts variants")
        if options:
            return Refusal("misconfigured", "it has no options")
        return Offer(NoParams(), "counts variants")

    lineage = CASES_FROM_ANSWERS

    def step(self, params: NoParams, facts: Facts) -> MeasureStep:
        measure = partial(self.measure, params)
        return MeasureStep(lineage=self.lineage, event=NOISE, measure=measure)

    def counted(self, cases: Cases) -> Entries:
        return Entries.one_each(cases, cases.among([("a",), ("a", "b", "c")]))

    def measure(self, params: NoParams, kernel: Kernel) -> Measurement:
        noisy = kernel.sum(self.query, Laplace(4.0), keys=2).at(np.arange(2))
        return Measurement([("a",), ("a", "b", "c")], noisy)


class MeasuresTimes(CountsVariants):
    """Its lineage grants times, and it counts variants."""

    lineage = Lineage(
        measures=frozenset({TIMESTAMPS}),
        writes=frozenset({CONTROL_FLOW, METADATA}),
        generates=True,
    )


class TestAQueryThatIsPure(MechanismContract):
    """The toy passes where its query is as it should be."""

    mechanism = CountsVariants()
    goals = (DifferentialPrivacy(kind="differential-privacy", epsilon=1, over=(CONTROL_FLOW,)),)


def caught(query: Callable[[Cases], Entries]) -> bool:
    """Whether the contract finds fault with the toy that asks ``query``."""
    contract = TestAQueryThatIsPure()
    contract.mechanism = CountsVariants(query)  # type: ignore[misc]
    try:
        contract.test_vectors_of_a_case_follow_from_that_case_alone()
        contract.test_queries_leave_nothing_behind()
    except AssertionError:
        return True
    return False


def test_an_f_that_keeps_state() -> None:
    """A query whose second answer is another one."""
    asked = []

    def counts_its_calls(cases: Cases) -> Entries:
        asked.append(len(cases))
        return Entries.one_each(cases, np.full(len(cases), len(asked) % 2))

    assert not caught(CountsVariants().counted)
    assert caught(counts_its_calls)


def test_an_f_that_closes_over_rows() -> None:
    """A query that compares each case with the first one that it was shown."""

    class Compares(CountsVariants):
        def measure(self, params: NoParams, kernel: Kernel) -> Measurement:
            first: list[tuple[str, ...]] = []

            def compared(cases: Cases) -> Entries:
                if not first:
                    first.extend(cases.variants()[:1])
                return Entries.one_each(cases, cases.among(first))

            self.query = compared
            return super().measure(params, kernel)

    contract = TestAQueryThatIsPure()
    contract.mechanism = Compares()  # type: ignore[misc]
    with pytest.raises(AssertionError):
        contract.test_queries_leave_nothing_behind()


def test_an_f_that_takes_rows_out() -> None:
    """A query that is pure by what it returns, and leaves what it was shown to the mechanism."""
    shown: list[int] = []

    class TakesRowsOut(CountsVariants):
        def counted(self, cases: Cases) -> Entries:
            shown.append(len(cases))
            return super().counted(cases)

        def measure(self, params: NoParams, kernel: Kernel) -> Measurement:
            noisy = super().measure(params, kernel)
            return Measurement(noisy.variants, noisy.cases + shown[-1])

    contract = TestAQueryThatIsPure()
    contract.mechanism = TakesRowsOut()  # type: ignore[misc]
    with pytest.raises(AssertionError):
        contract.test_queries_leave_nothing_behind()


def test_an_f_that_depends_on_the_batch() -> None:
    """The number of cases, the order of their labels, their place in the batch."""

    def counts_cases(cases: Cases) -> Entries:
        return Entries.one_each(cases, np.full(len(cases), len(cases) % 2))

    def by_label(cases: Cases) -> Entries:
        return Entries.one_each(cases, np.minimum(cases.lengths, 1) * (len(cases.alphabet) % 2))

    def by_place(cases: Cases) -> Entries:
        return Entries.one_each(cases, np.arange(len(cases)) % 2)

    assert caught(counts_cases)
    assert caught(by_label)
    assert caught(by_place)


def test_an_f_that_fails_on_a_case() -> None:
    """Its vector is empty, silently, and nobody else's changes: no fault, and nothing told."""

    def fails(cases: Cases) -> Entries:
        if (cases.lengths == 1).any():
            raise ValueError("a case of one event")
        return Entries.one_each(cases)

    assert not caught(fails)


def _public(kind: type) -> set[str]:
    """Public methods and fields of a class."""
    return {name for name in dir(kind) if not name.startswith("_")}


def _function(member: Any) -> Any:
    return member.fget if isinstance(member, property) else member


def _label_at(level: int) -> Callable[[Cases], Entries]:
    """Which of three labels stands at a place of a case."""

    def label(cases: Cases) -> Entries:
        there = (cases.place == level) & (cases.coded("abc") >= 0)
        rows = cases.case_of[there]
        return Entries(rows, np.ones(len(rows), np.int64), cases.coded("abc")[there])

    return label


def _sampled() -> PrivacyEvent:
    return PoissonSampled(rate=0.5, event=DiscreteLaplace(scale=4.0, sensitivity=2))
