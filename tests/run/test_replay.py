"""Steps that are repeated on neighbouring logs with the same answers, and twins that must fail;
each mechanism is on a small log in the contract.
"""

import json
import pickle
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from cloakwork.base.costs import Composed, DiscreteGaussian, DiscreteLaplace, PrivacyEvent
from cloakwork.base.facts import Unit
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, Lineage
from cloakwork.evaluation.one_mechanism import plan_for
from cloakwork.kernel import Clip, Entries, Gaussian, Kernel, Laplace
from cloakwork.kernel.books import Books
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats import read_log
from cloakwork.mechanisms.bound import BoundParams
from cloakwork.mechanisms.registry import Package
from cloakwork.mechanisms.steps import Measurement, MeasureStep
from cloakwork.mechanisms.timestamps import regression
from cloakwork.plan.planner import make_plan
from cloakwork.plan.policies import load_shipped
from cloakwork.run.replay import NotCovered, ReplayedStep, replayed_steps
from cloakwork.run.steps import GrantedStep
from conftest import in_long_form, runs
from contracts.sample_logs import log_of

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "logs"
NEIGHBOURS = 8

ASKING = (
    "variants/markov",
    "attributes/histogram",
    *in_long_form(
        "variants/threshold",
        "variants/adaptive",
        "timestamps/histogram",
        "attributes/regression",
        "variants/libra",
        "variants/sacofa",
        "timestamps/regression",
        "variants/prefix-tree",
        "variants/amun",
        "dfg/laplace",
        "variants/travag",
        "variants/ddpm",
    ),
)
NETWORKS = ("variants/travag", "variants/ddpm")
"""A neighbour takes seconds: they get a fiftieth of the neighbours of others."""


def checked(step: ReplayedStep, number: int = NEIGHBOURS) -> float:
    """The largest part of a charge that is used on so many neighbours."""
    return max(step.replayed_on(log) for _, log in step.neighbours(number, seed=1))


@pytest.mark.parametrize("name", ASKING)
def test_what_is_asked_follows_from_answers(name: str) -> None:
    log = read_log(EXAMPLES / "hospital.xes.gz").slice_cases(0, 60)
    for step in replayed_steps(plan_for(name, log), log, name):
        assert step.charged
        assert checked(step) <= 1 + 1e-12


def test_values_on_a_known_flow() -> None:
    log = read_log(EXAMPLES / "permit.xes.gz").slice_cases(0, 80)
    plan = make_plan(load_shipped("flow-with-drawn-times"))
    (step,) = replayed_steps(plan, log, "timestamps/regression")
    assert 0.5 < checked(step) <= 1 + 1e-12


def found_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of values alone, called once for arguments that are the same to the last bit."""
    found: dict[bytes, bytes] = {}

    def known(*given: Any) -> Any:
        key = pickle.dumps(given)
        if key not in found:
            found[key] = pickle.dumps(function(*given))
        return pickle.loads(found[key])

    return known


def test_what_was_found_is_found_again_for_other_bits() -> None:
    called: list[float] = []
    once = found_once(lambda values: called.append(values[0]))
    for value in (0.0, 0.0, -0.0, 5e-324, 0.0):
        once(np.array([value]))
    assert called == [0.0, 0.0, 5e-324]


@pytest.fixture
def fits_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same answers are fitted for each neighbour: most of the time of a replay."""
    for name in ("of", "likeliest"):
        fit = getattr(regression._Likelihood, name)
        # Of a class method, what it is without its class.
        own = staticmethod(found_once(fit)) if name == "of" else found_once(fit)
        monkeypatch.setattr(regression._Likelihood, name, own)


@pytest.mark.skipif(not in_long_form(True), reason="50 minutes: CLOAKWORK_RUNS=1000")
@pytest.mark.parametrize("file", ["sepsis", "receipt", "bpic2013_open_problems"])
@pytest.mark.parametrize("name", ASKING)
@pytest.mark.usefixtures("fits_are_found_once")
def test_real_logs(name: str, file: str) -> None:
    path = ROOT.parent / "shared" / "logs" / f"{file}.xes.gz"
    if not path.exists():
        pytest.skip(f"shared/logs has no {file}")
    log = read_log(path)
    number = max(NEIGHBOURS, runs(NEIGHBOURS) // (50 if name in NETWORKS else 1))
    begun = time.process_time()
    for step in replayed_steps(plan_for(name, log), log, name):
        used = checked(step, number)
        print(f"{name} {file} {number} neighbours {time.process_time() - begun:.0f} s {used:.2f}")
        assert used <= 1 + 1e-12


# --- twins


ONE_COUNT = DiscreteLaplace(scale=10, sensitivity=1)
TWO_COUNTS = Composed(events=(ONE_COUNT, ONE_COUNT))
NOISE = Laplace(10.0)
FEW = [pl.Series("cost", [1.0, 2.0] * 20 + [3.0])]


def step_of(
    ask: Callable[[Kernel], object], event: PrivacyEvent, column: str | None = None
) -> ReplayedStep:
    """A step that asks so, of twenty cases of one variant and one of another."""
    log: EventLog = log_of(["ab"] * 20 + ["c"])
    measures = {CONTROL_FLOW}
    if column is not None:
        measures.add(column)
        log = replace(log, events=log.events.with_columns(FEW))

    def measure(kernel: Kernel) -> Measurement:
        ask(kernel)
        return Measurement([], np.zeros(0, np.int64))

    lineage = Lineage(
        measures=frozenset(measures), writes=frozenset({CONTROL_FLOW, METADATA}), generates=True
    )
    kind = MeasureStep(event=event, measure=measure, lineage=lineage)
    step = GrantedStep(kind, Package("twin", None), BoundParams(), Unit())
    return ReplayedStep(step, log, None)


def fault_of(step: ReplayedStep, number: int = 40) -> str:
    with pytest.raises(NotCovered) as found:
        step.record()
        checked(step, number)
    return str(found.value)


def test_one_that_is_sound_passes() -> None:
    """All that the twins do beside their fault."""

    def ask(kernel: Kernel) -> None:
        kernel.sum(Entries.one_each, NOISE, keys=1).at(np.array([0]))
        kernel.narrowed(["a", "b"]).sum(Entries.of_variants, NOISE).at_labels([(0, ("a", "b"))])

    step = step_of(ask, TWO_COUNTS)
    step.record()
    assert checked(step, 40) == 1


def test_a_domain_that_is_read_off_the_log() -> None:
    seen: set[str] = set()

    def remembering(cases):
        seen.update(cases.alphabet)
        return Entries.one_each(cases)

    def ask(kernel: Kernel) -> None:
        seen.clear()
        kernel.sum(remembering, NOISE, keys=1).at(np.array([0]))
        kernel.narrowed(sorted(seen)).sum(Entries.one_each, NOISE, keys=1)

    assert "in place of narrowed" in fault_of(step_of(ask, TWO_COUNTS))


def test_keys_that_are_read_off_the_log_last() -> None:
    """Nothing is asked after it, and the keys tell."""
    seen: list[int] = []

    def remembering(cases):
        seen.append(len(cases.alphabet))
        return Entries.one_each(cases)

    def ask(kernel: Kernel) -> None:
        seen.clear()
        kernel.sum(remembering, NOISE).at(np.arange(seen[0]))

    assert "in place of at" in fault_of(step_of(ask, ONE_COUNT))


def test_a_question_that_depends_on_a_raw_count() -> None:
    seen: list[int] = []

    def counting(cases):
        seen.append(len(cases))
        return Entries.one_each(cases)

    def ask(kernel: Kernel) -> None:
        seen.clear()
        kernel.sum(counting, NOISE, keys=1).at(np.array([0]))
        kernel.sum(Entries.one_each, NOISE, keys=1 + seen[0])

    assert "in place of sum" in fault_of(step_of(ask, TWO_COUNTS))


def test_a_value_that_is_no_number() -> None:
    """One that is NaN, or infinite, becomes everybody's by what they are divided by."""

    def shares(cases):
        value = cases.columns["cost"].values[cases.offsets[:-1]]
        return Entries(np.arange(len(cases)), 1000 * value / np.abs(value).max())

    def ask(kernel: Kernel) -> None:
        kernel.sum(shares, Laplace(10_000.0), Clip("l1", 1000, 1000), keys=1).at(np.array([0]))

    event = DiscreteLaplace(scale=10_000, sensitivity=1000)
    assert "of what is charged" in fault_of(step_of(ask, event, column="cost"))


def test_a_budget_that_is_spent_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Books, "record", lambda books, event, *_: books.recorded.append(event))

    def ask(kernel: Kernel) -> None:
        for _ in range(2):
            kernel.sum(Entries.one_each, NOISE, keys=1).at(np.array([0]))

    assert fault_of(step_of(ask, ONE_COUNT)) == "it has 2 answers, and is charged for 1"


def test_a_sensitivity_that_is_one_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clip, "moved", property(lambda clip: clip.most - 1))

    def long(cases):
        return Entries(np.arange(len(cases)), np.full(len(cases), 5000))

    def ask(kernel: Kernel) -> None:
        kernel.sum(long, Gaussian(900.0), Clip("l2", 1000, 1), keys=1).at(np.array([0]))

    event = DiscreteGaussian(sigma=900, sensitivity=999)
    assert "of what is charged" in fault_of(step_of(ask, event))


def test_a_function_that_remembers_the_case_before() -> None:
    def before(cases):
        lengths = np.diff(cases.offsets)
        return Entries.one_each(cases, 4 * lengths + np.roll(lengths, 1))

    def ask(kernel: Kernel) -> None:
        kernel.sum(before, NOISE, keys=16).at(np.arange(16))

    assert "of what is charged" in fault_of(step_of(ask, ONE_COUNT, column="cost"))


def test_at_the_command_line(cloakwork) -> None:
    told = json.loads(cloakwork("audit", "replay", "variants/threshold", "--runs", 3, "--json").out)
    assert told["passed"]
    assert told["used"] == 1
    assert (told["questions"], told["compared"]) == (1, 1)
    # Sums that are sampled are not compared, and nothing is said of them.
    sampled = cloakwork("audit", "replay", "dfg/laplace", "--runs", 2).out
    assert "behind 0 of them were compared" in sampled
    assert "charge" not in sampled
    nothing = cloakwork("audit", "replay", "kanon/optimal", "--policy", "kanon-control-flow")
    assert nothing.code == 1
    assert "asks nothing" in nothing.err
