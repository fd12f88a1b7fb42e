"""D15: a number of a policy is in its range, or refused with line, column and the range; never
anything else.
"""

import random
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from cProfile import Profile
from pathlib import Path
from time import process_time
from typing import Any, Final

import polars as pl
import pytest
import yaml

import cloakwork
from cloakwork.errors import CloakworkError, PlanImpossible, PolicyError
from cloakwork.mechanisms.registry import catalogue
from cloakwork.plan.planner import make_plan
from cloakwork.plan.policies import parse_policy
from cloakwork.policy.model import Policy
from conftest import runs

HEAD: Final = """\
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: numbers, version: 1.0.0, owner: o@x.example, purpose: Tests, dataset: d}
spec:
  attributes:
    "case:concept:name": {role: identifier}
    "concept:name": {role: control-flow}
"""
SLOW: Final = 30.0
"""Seconds that nothing here comes near to on a machine that is not overloaded: the slowest took 4.
"""


K_ANONYMITY: Final = "  guarantees: [{kind: k-anonymity, k: 10}]\n"


def private(parameters: str) -> str:
    """Differential privacy over the control flow, with these parameters."""
    goal = f"kind: differential-privacy, {parameters}, over: [control-flow]"
    return f"  guarantees: [{{{goal}}}]\n"


def refused(spec: str) -> str:
    """What is said about a policy that ends with ``spec``."""
    with pytest.raises(PolicyError) as caught:
        parse_policy(HEAD + spec, "p.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            private("epsilon: 1.0e-308"),
            "p.yaml:8:54: spec.guarantees[0].epsilon must be between 1e-05 and 100 (got 1e-308)",
        ),
        (
            private("epsilon: 1.0e+308"),
            "p.yaml:8:54: spec.guarantees[0].epsilon must be between 1e-05 and 100 (got 1e+308)",
        ),
        (
            private("epsilon: 1, delta: 1.0e-320"),
            "p.yaml:8:64: spec.guarantees[0].delta must be 0, or at least 1e-20 and below 1 "
            "(got 1e-320)",
        ),
        (
            "  guarantees: [{kind: metric-privacy, epsilon: 1, shift: 0s}]\n",
            "p.yaml:8:58: spec.guarantees[0].shift must be between 1ms and 36525d (got '0s')",
        ),
        (
            "  guarantees: [{kind: metric-privacy, epsilon: 1, shift: 5300w}]\n",
            "p.yaml:8:58: spec.guarantees[0].shift must be between 1ms and 36525d (got '5300w')",
        ),
        (
            "  guarantees: [{kind: k-anonymity, k: 1000000000000000000000000000000}]\n",
            "p.yaml:8:39: spec.guarantees[0].k must be between 2 and 1,000,000,000 "
            "(got 1000000000000000000000000000000)",
        ),
        (
            K_ANONYMITY + "  assume: {grid: 400d}\n",
            "p.yaml:9:18: spec.assume.grid must be between 1ms and 366d (got '400d')",
        ),
        (
            K_ANONYMITY + "  assume: {epoch: 0001-01-01T00:00:00Z}\n",
            "p.yaml:9:19: spec.assume.epoch must lie in the years from 1900 to 2199 "
            "(got '0001-01-01T00:00:00Z')",
        ),
        (
            '    "age": {treatment: generalise, bins: [0, 1.0e+300]}\n' + K_ANONYMITY,
            "p.yaml:8:46: spec.attributes.age.bins[1] must be between -9,007,199,254,740,992 "
            "and 9,007,199,254,740,992 (got 1e+300)",
        ),
        (
            K_ANONYMITY + "  mechanisms: {parameters: {kanon/optimal: {seconds: 1.0e+308}}}\n",
            "p.yaml:9:54: spec.mechanisms.parameters['kanon/optimal'].seconds must hold no number "
            "beyond 9,007,199,254,740,992 on either side of 0 (got 1e+308)",
        ),
        (
            K_ANONYMITY + "  budget: {total: {epsilon: 1.0e-308}}\n",
            "p.yaml:9:29: spec.budget.total.epsilon must be between 1e-05 and 10000 (got 1e-308)",
        ),
    ],
)
def test_a_number_out_of_range_is_refused_in_its_place_with_the_range(spec: str, said: str) -> None:
    assert refused(spec) == said


NUMBERS: Final = (
    *(0, -1, 1, 2, 3, 10, 0.1, 0.5, 0.999999),
    *(1e-5, 1e-6, 1e-4, 1e-9, 1e-20, 1e-21, 1e-300, 1e-308, 5e-324),
    *(20, 99.9, 100, 101, 1000, 10_000, 1e6, 10**6, 10**9, 10**12),
    *(2**31, 2**53, 2**53 + 2, 2**63, 10**30, 1e15, 1e308),
    *("1e400", ".inf", True, -(2**53), -1e308),
)
TIMES: Final = (
    *("0s", "0.1ms", "1ms", "1s", "7d", "366d", "367d"),
    *("36525d", "36526d", "99999999999999999999w"),
)
DATES: Final = (
    "0001-01-01T00:00:00Z",
    "1900-01-01T00:00:00Z",
    "2199-12-31T23:59:59Z",
    "9999-12-31T23:59:59Z",
)

COUNTED: Final[dict[str, Any]] = {"kind": "k-anonymity", "k": 10}
HIDING: Final[dict[str, Any]] = {
    "kind": "differential-privacy",
    "epsilon": 1.0,
    "delta": 1e-7,
    "over": ["control-flow"],
}
GOALS: Final[tuple[dict[str, Any], ...]] = (
    HIDING,
    {
        "kind": "differential-privacy",
        "epsilon": 1.0,
        "over": ["timestamps"],
        "neighbours": "bounded",
    },
    {
        "kind": "differential-privacy",
        "guessing_advantage": 0.2,
        "delta": 1e-7,
        "over": ["control-flow"],
    },
    {"kind": "metric-privacy", "epsilon": 1.0, "shift": "1h"},
    COUNTED | {"over": ["control-flow", "age"]},
    {"kind": "t-closeness", "t": 0.3, "attribute": "age"},
    {"kind": "t-closeness", "t": 2, "attribute": "age", "distance": "stochastic"},
    {"kind": "l-diversity", "l": 2, "attribute": "age"},
    {"kind": "confidence-bound", "L": 2, "K": 3, "C": 0.5, "attribute": "age"},
    {"kind": "confidence-bound", "L": 2, "K": 3, "background": "relative", "precision": "1d"},
)


def document(goal: dict[str, Any]) -> dict[str, Any]:
    """A policy that has every kind of number, and one guarantee."""
    read: dict[str, Any] = yaml.safe_load(HEAD)
    times = "timestamps" in str(goal) or goal["kind"] == "metric-privacy" or "precision" in goal
    values = "age" in str(goal)
    read["spec"]["attributes"] |= {
        "time:timestamp": {"role": "timestamp"} | ({} if times else {"treatment": "drop"}),
        "case:patient": {"role": "identifier", "treatment": "drop"},
        "age": ({"role": "sensitive"} if values else {"treatment": "drop", "role": "sensitive"})
        | {"range": [0, 120]},
    }
    with_variants = (
        goal["kind"] in ("t-closeness", "l-diversity", "metric-privacy") or "neighbours" in goal
    )
    read["spec"] |= {
        "unit": {"attribute": "case:patient", "max_cases": 2},
        "guarantees": [deepcopy(goal), *([deepcopy(COUNTED)] if with_variants else [])],
        "budget": {
            "release": {"epsilon": 50, "delta": 1e-4},
            "total": {"epsilon": 100, "delta": 1e-3},
        },
        "profile": {"epsilon": 0.1, "delta": 1e-9, "activities_per_case": 4},
        "assume": {
            "alphabet": ["a", "b", "c"],
            "units_at_most": 1000,
            "longest_case": 20,
            "longest_gap": "30d",
            "window": {"start": "2020-01-01T00:00:00Z", "end": "2021-01-01T00:00:00Z"},
            "epoch": "2000-01-01T00:00:00Z",
            "grid": "1s",
        },
    }
    return read


def numbers_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a document holds numbers, durations and instants."""
    if isinstance(value, dict | list):
        for step, below in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers_in(below, (*path, step))
        return
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number or path[-1] in ("longest_gap", "grid", "shift", "precision", "start", "end", "epoch"):
        yield path


def options_of(name: str) -> list[str]:
    """The options of a mechanism that may be numbers: all names of fields of the models beside
    it.
    """
    models = vars(sys.modules[type(catalogue()[name]).__module__]).values()
    fields = [
        model.model_fields
        for model in models
        if isinstance(model, type) and hasattr(model, "model_fields")
    ]
    return sorted(
        {
            key
            for each in fields
            for key, field in each.items()
            if "int" in str(field) or "float" in str(field)
        }
    )


def changed(source: random.Random) -> dict[str, Any]:
    """A policy with one to three numbers changed, or with an odd option of a mechanism."""
    read = document(source.choice(GOALS))
    for path in source.sample(list(numbers_in(read)), source.choice((1, 1, 2, 3))):
        kinds = (
            DATES
            if path[-1] in ("start", "end", "epoch")
            else TIMES
            if isinstance(_at(read, path), str)
            else NUMBERS
        )
        _at(read, path[:-1])[path[-1]] = source.choice(kinds)
    if source.random() < 0.4:
        name = source.choice([each for each in catalogue() if "/" in each])
        if options := options_of(name):
            read["spec"]["mechanisms"] = {
                "prefer": [name],
                "accept_unproven": True,
                "parameters": {
                    name: {
                        source.choice(options): source.choice(
                            (*NUMBERS, *TIMES, [1, 2], {"a": 1e9})
                        )
                    }
                },
            }
    return read


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def test_any_number_anywhere_ends_in_a_plan_or_in_exit_code_3() -> None:
    source = random.Random(runs(60))  # the same policies each time
    for _ in range(runs(60)):
        text, begun = yaml.safe_dump(changed(source)), process_time()
        try:
            make_plan(parse_policy(text))
        except CloakworkError as error:
            assert error.exit_code == 3, f"{error}\n{text}"
        except Exception as error:  # anything else is the fault that this test is about
            pytest.fail(f"{type(error).__name__}: {error}\n{text}")
        assert process_time() - begun < SLOW, text


def calls_of(work: Callable[[], object]) -> int:
    """How many functions are called, Python's and C's: what a clock would show on a machine without
    any other work.
    """
    profile = Profile()
    profile.runcall(work)
    return sum(entry.callcount for entry in profile.getstats())


def test_attributes_are_planned_in_linear_time() -> None:
    """Eight times as many take about eight times as many steps: where it was quadratic, sixty-four
    times.
    """

    def steps(count: int) -> int:
        read = yaml.safe_load(HEAD)
        names = [f"attribute{i}" for i in range(count)]
        read["spec"]["attributes"] |= {name: {"treatment": "keep"} for name in names}
        read["spec"] |= {
            "guarantees": [COUNTED],
            "expose": dict.fromkeys(names, "everybody may know this"),
        }
        policy = Policy.model_validate(read)

        def planned() -> None:
            plan = make_plan(policy)
            assert all(plan.releases(name) for name in names)

        return calls_of(planned)

    steps(10)  # imports
    assert steps(1600) < 10 * steps(200)


def test_fifty_errors_are_printed_and_the_rest_is_counted() -> None:
    faults = "".join(f"    attribute{i}: {{treatment: kep}}\n" for i in range(1284))
    said = refused(faults + "  guarantees: [{kind: k-anonymity, k: 10}]\n").splitlines()
    assert (len(said), said[-1]) == (51, "... and 1,234 more")


def test_k_above_the_number_of_cases_is_exit_code_3_and_costs_nothing(
    tmp_path: Path, ledger: str
) -> None:
    spec = """\
    "time:timestamp": {role: timestamp}
  guarantees:
    - {kind: k-anonymity, k: 50}
    - {kind: metric-privacy, epsilon: 1, shift: 1h}
"""
    plan = make_plan(parse_policy(HEAD + spec))
    cases = [str(i) for i in range(20)]
    frame = pl.DataFrame(
        {
            "case:concept:name": cases,
            "concept:name": ["a"] * 20,
            "time:timestamp": ["2024-01-01"] * 20,
        }
    )
    log = cloakwork.EventLog.from_polars(frame)
    with pytest.raises(CloakworkError) as caught:
        cloakwork.apply(plan, log, ledger=ledger)
    assert caught.value.exit_code == 3
    assert "k = 50, but the log holds 20 cases" in str(caught.value) and "\n" not in str(
        caught.value
    )
    assert cloakwork.Ledger(ledger).history() == ()


@pytest.fixture
def short_integers() -> Iterator[None]:
    """Python writes out no integer of more than 640 digits, the fewest that can be asked for."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    yield
    sys.set_int_max_str_digits(before)


@pytest.mark.usefixtures("short_integers")
def test_a_lattice_of_more_levels_than_can_be_written_out_is_refused() -> None:
    """Two levels of each attribute: 663 digits."""
    names = [f"quality{i}" for i in range(2_200)]
    read = yaml.safe_load(HEAD)
    read["spec"]["attributes"] |= {name: {"role": "quasi-identifier"} for name in names}
    read["spec"]["guarantees"] = [
        {"kind": "k-anonymity", "k": 10, "over": ["control-flow", *names]}
    ]
    with pytest.raises(PlanImpossible, match="more than 1,000,000,000,000 combinations of levels"):
        make_plan(Policy.model_validate(read))
