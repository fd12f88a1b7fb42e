"""SaCoFa: what rules are broken by which extension, how steps are counted, and what is kept of both
kinds.

Without a seed it runs at an epsilon of 20 or more only: noise (a scale or sigma under 0.5; of
steps, 1.5) then changes no outcome here but for 1e-11. Where the noise does not matter it is
Laplace's, which is calibrated twenty times as fast.
"""

import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.costs import (
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    NonPrivate,
    Repeated,
)
from cloakwork.base.facts import Facts
from cloakwork.errors import PlanUnsound
from cloakwork.kernel import Laplace, Randomness
from cloakwork.noise import reproducible, secret
from cloakwork_extras.trees.sacofa import (
    BehaviouralRules,
    ExtensionSelector,
    MeasuredSteps,
    Sacofa,
    measure_steps,
)
from cloakwork_extras.trees.tree import END, Candidates
from extras.variants.tried import FACTS, PLENTY, ROWS_OF_ODD_LOGS, Tried, histogram
from measuring import kernel_on

SACOFA = Tried(Sacofa())
NEVER = [["b", "never follows", "a"]]
A, B, C = range(3)


def candidates(paths, noisy=None):
    """Every extension of some paths over a, b, c, the END last."""
    paths = np.array(paths, np.int64).reshape(len(paths), -1)
    parent = np.repeat(np.arange(len(paths)), 4)
    symbol = np.tile([A, B, C, END], len(paths))
    counts = np.array(noisy or [0] * len(parent))
    return Candidates(paths, parent, symbol, counts, paths.shape[1], ("a", "b", "c"))


@pytest.mark.parametrize(
    ("rule", "path", "broken"),
    [
        (("b", "never follows", "a"), (A, C), [0, 1, 0, 0]),
        (("b", "never follows", "a"), (C, C), [0, 0, 0, 0]),
        (("a", "never precedes", "b"), (A, C), [0, 1, 0, 0]),
        (("b", "never directly follows", "a"), (A, C), [0, 0, 0, 0]),
        (("b", "never directly follows", "a"), (C, A), [0, 1, 0, 0]),
        (("a", "always precedes", "b"), (C, C), [0, 1, 0, 0]),
        (("a", "always precedes", "b"), (A, C), [0, 0, 0, 0]),
        (("b", "always follows", "a"), (A, C), [0, 0, 0, 1]),
        (("b", "always follows", "a"), (A, B), [0, 0, 0, 0]),
        (("b", "always follows", "a"), (A, B, A), [0, 0, 0, 1]),
        (("a", "always precedes", "b"), (), [0, 1, 0, 0]),
    ],
)
def test_extensions_that_break_a_rule(rule, path, broken):
    found = BehaviouralRules.from_rules([rule]).count_violations(candidates([path]))
    assert found.tolist() == broken


def test_broken_rules_add_up():
    rules = [
        ("b", "never follows", "a"),
        ("b", "never directly follows", "a"),
        ("c", "always precedes", "b"),
    ]
    found = BehaviouralRules.from_rules(rules).count_violations(candidates([(A,), (C,)]))
    assert found.tolist() == [0, 3, 0, 0, 0, 0, 0, 0]


QUIET = 2.0**-7
"""The scale of noise that is not drawn but for e**-128."""


def steps(rows, length, alphabet):
    """The counts of steps, with noise that is none to speak of."""
    event = Repeated(times=length + 1, event=DiscreteLaplace(scale=QUIET))
    kernel = kernel_on(histogram(rows), event, secret())
    return measure_steps(kernel, Laplace(QUIET), length, alphabet)


def taken(rows, length):
    """The steps that some case takes, by their codes (3: the start before, the END after), and how
    many do.
    """
    counts = steps(rows, length, ("a", "b", "c")).at(np.arange(16)).reshape(4, 4)
    return {(int(a), int(b)): int(counts[a, b]) for a, b in np.argwhere(counts)}


def test_steps_are_counted_once_a_case_and_at_most_one_more_than_events():
    rows = {("a", "b", "a", "b"): 10, ("c",): 3}
    expected = {(3, A): 10, (A, B): 10, (B, A): 10, (B, 3): 10, (3, C): 3, (C, 3): 3}
    assert taken(rows, 4) == expected
    assert set(taken(rows, 2)) == {(3, A), (A, B), (3, C), (C, 3)}
    for length in range(1, 6):
        one = taken({("a", "c", "b", "c", "a"): 1}, length)
        assert set(one.values()) == {1}
        assert len(one) <= length + 1


def test_steps_by_their_labels_are_those_by_their_codes():
    rows = {("a", "b", "a", "b"): 10, ("c",): 3}
    counts = steps(rows, 4, None)
    begins, goes_on, ends = range(3)
    keys = [(begins, ("a",)), (goes_on, ("a", "b")), (goes_on, ("b", "a")), (ends, ("b",))]
    absent = [(begins, ("b",)), (goes_on, ("b", "c")), (ends, ("a",))]
    assert counts.at_labels([*keys, *absent]).tolist() == [10] * 4 + [0] * 3


def test_steps_pass_over_what_is_not_declared():
    assert set(taken({("a", "x", "b"): 1, ("x",): 1}, 4)) == {(3, A), (A, B), (B, 3)}
    assert taken({}, 4) == {}


@pytest.mark.parametrize("declared", [True, False])
def test_rules_by_steps_forbid_all_others(declared):
    counts = steps({("a", "b"): 5}, 4, ("a", "b", "c") if declared else None)
    book = MeasuredSteps(counts, 3, declared=declared)
    # Without declared activities nothing ends before it begins: no such candidate is told.
    first = candidates([()])
    first = first if declared else replace(first, parent=first.parent[:3], symbol=first.symbol[:3])
    assert book.count_violations(first).tolist() == [0, 1, 1, 1][: len(first.symbol)]
    assert book.count_violations(candidates([(A,)])).tolist() == [1, 0, 1, 1]


@pytest.mark.parametrize(("harmful", "expected"), [(50, {("a", "b"): 130}), (1, None)])
def test_rules_as_stated_ask_more_of_what_breaks_them(harmful, expected):
    rows = {("a", "b"): 100, ("b", "a"): 30}
    options = {"rules": [["b", "never precedes", "a"]], "threshold": 1}
    params = SACOFA.offered(**PLENTY, **options, harmful_threshold=harmful)
    assert SACOFA.released(rows, params) == (expected or rows)


def test_measured_rules_without_noise_to_speak_of_give_the_log_back():
    rows = {("a", "b"): 100, ("b", "a", "c"): 30, ("c",): 4}
    assert SACOFA.released(rows, SACOFA.offered(**PLENTY)) == rows


@pytest.mark.parametrize(("score", "share"), [("bounded-count", 0.731), ("binary", 0.5)])
def test_so_many_harmful_ones_are_kept_and_those_that_break_less_likelier(score, share):
    """Weights exp(-1) and exp(-2): e / (1 + e) is .731; 400 draws have a deviation of .025."""
    params = SACOFA.offered(
        rules=NEVER, harmful_threshold=1, most_harmful=1, threshold=1, score=score
    )
    book = BehaviouralRules.from_rules(
        [
            ("b", "never follows", "a"),
            ("c", "never follows", "a"),
            ("c", "never directly follows", "a"),
        ]
    )
    chosen = {B: 0, C: 0}
    for seed in range(400):
        select = ExtensionSelector(params, book, Randomness(reproducible(seed)))
        (kept,) = np.flatnonzero(select(candidates([(A,)], [-5, 9, 9, -5])))
        chosen[int(kept)] += 1
    assert abs(chosen[B] / 400 - share) < 0.11


def test_the_steps_are_charged_beside_the_levels():
    params = SACOFA.offered(share=0.2)
    scale = params.shape[0].scale
    event = SACOFA.event(params)
    assert isinstance(event, Composed)
    assert [part.times for part in event.events if isinstance(part, Repeated)] == [5, 5]
    assert params.steps.scale == pytest.approx(2 * scale)
    assert event.events[1] == Repeated(
        times=5, event=DiscreteGaussian(sigma=params.steps.scale, sensitivity=1)
    )
    assert 0.99 < cost(event, 1e-3).epsilon <= 1.0
    stated = SACOFA.offered(rules=NEVER)
    assert stated.shape[0].scale < scale


@pytest.mark.parametrize(
    ("facts", "options", "words"),
    [
        (Facts(), {"threshold": 3, "noise": "laplace"}, "would give single cases away"),
        (Facts(), {"harmful_threshold": 3, "noise": "laplace"}, "would give single cases away"),
        (FACTS, {"rules_from": "r-1"}, "state the rules"),
        (FACTS, {"rules": [["x", "never follows", "a"]]}, "'x' is not among"),
        (FACTS, {"rules": [["a", "sometimes follows", "b"]]}, "a relation being always follows"),
        (FACTS, {"rules": []}, "rules"),
        (FACTS, {"rules": "release"}, "must be 'measured' or a list"),
        (FACTS, {"share": 1}, "share"),
    ],
)
def test_refusals_say_why(facts, options, words):
    SACOFA.refused(facts, 1e-3, options, words)


def test_without_declared_activities_a_delta_is_needed():
    assert SACOFA.asked(Facts(), delta=0.0).needs == ("assume.alphabet",)


@pytest.mark.parametrize(
    "options", [{"noise": "laplace"}, {"rules": NEVER}, {"split": "geometric"}]
)
def test_without_declared_activities_thresholds_hide_single_cases_within_the_budget(options):
    params = SACOFA.offered(Facts(), delta=1e-4, **options)
    event = SACOFA.event(params, Facts())
    assert 0.99 < cost(event, 1e-4).epsilon <= 1.0
    own = event.events[-1]
    assert 0 < own.delta <= 1e-5
    for asked in ("harmless", "harmful"):
        lower = params.model_copy(update={asked: tuple(tau - 8 for tau in params.harmless)})
        assert SACOFA.event(lower, Facts()).events[-1].delta > own.delta
    assert all(
        harmful > harmless
        for harmful, harmless in zip(params.harmful, params.harmless, strict=True)
    )


def test_thresholds_that_follow_the_candidates_have_no_price_without_declared_activities():
    params = SACOFA.offered(Facts(), noise="laplace").model_copy(update={"harmful": None})
    event = SACOFA.event(params, Facts())
    assert isinstance(event.events[-1], NonPrivate)
    assert cost(event, 1e-3).epsilon == math.inf
    with pytest.raises(PlanUnsound, match="hide nobody"):
        SACOFA.released({("a",): 900}, params)


def test_without_declared_activities_only_what_occurs_is_released():
    rows = {("a", "b"): 900, ("b", "a"): 30, ("z",): 1}
    params = SACOFA.offered(Facts(longest_case=3), epsilon=100.0, noise="laplace")
    assert set(SACOFA.released(rows, params)) == {("a", "b"), ("b", "a")}


@pytest.mark.parametrize("rules", ["measured", [["1", "never follows", "2"]]])
def test_many_activities_are_no_reason_to_stop(rules):
    """Nothing is as large as the square of how many labels a log happens to hold: that would be 16
    million numbers, 128 MB; 20 are used.

    A single case reaches the threshold of one level by chance of 6e-6, and would have to on all
    three: 1e-12 for 4,000 of them.
    """
    rows = {(str(number), "a"): 1 for number in range(4_000)} | {("a", "b"): 500}
    params = SACOFA.offered(Facts(longest_case=2), epsilon=20.0, rules=rules, noise="laplace")
    tracemalloc.start()
    found = SACOFA.released(rows, params)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert set(found) == {("a", "b")}
    assert most < 60_000_000


def test_rules_may_name_what_does_not_occur():
    """Whether it occurs decides nothing: b never comes without x, in a log with an x as in one
    without.
    """
    rules = [["x", "always precedes", "b"]]
    options = {"rules": rules, "harmful_threshold": 500, "noise": "laplace"}
    params = SACOFA.offered(Facts(longest_case=3), epsilon=20.0, **options)
    rows = {("a", "b"): 300, ("a",): 300}
    for log in (rows, {**rows, ("x",): 1}):
        assert set(SACOFA.released(log, params, reproducible(1))) == {("a",)}


def test_rules_of_an_earlier_release_are_stated_with_its_id():
    offer = SACOFA.asked(rules=NEVER, rules_from="2026-03 release")
    assert "as release 2026-03 release shows them" in offer.why
    assert offer.params.steps is None


@pytest.mark.parametrize("rows", ROWS_OF_ODD_LOGS)
def test_nothing_aborts_on_data(rows):
    declared, undeclared = (
        SACOFA.offered(facts, epsilon=0.1, noise="laplace") for facts in (FACTS, Facts())
    )
    for seed in range(5):
        found = SACOFA.released(rows, declared, reproducible(seed))
        assert all(1 <= len(variant) <= 4 for variant in found)
        assert SACOFA.released(rows, undeclared, reproducible(seed)) == {}
