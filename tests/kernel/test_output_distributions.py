"""What mechanisms of few questions release, exactly: under every pair of neighbours that matters,
within (epsilon, delta) in both directions, by the hockey-stick divergence in interval arithmetic.

Each check comes with a twin of half the noise, which must exceed the claim, and with draws of the
mechanism itself, so that the law computed is that of this code.
"""

import itertools
import math
from contextlib import suppress
from fractions import Fraction
from functools import cache

import numpy as np
import polars as pl
import pytest

from cloakwork.base.facts import Facts, Unit
from cloakwork.base.lineage import CONTROL_FLOW
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import Growth, Kernel, NoisySums
from cloakwork.mechanisms.registry import catalogue
from cloakwork.mechanisms.variants.threshold import VariantThreshold, calibrate_threshold
from cloakwork.noise import reproducible
from cloakwork_extras.amun import AmunParams, VariantAmun
from kernel.laws import (
    NEVER,
    LaplaceLaw,
    Masses,
    cells,
    delta_between,
    gaussian_law,
    selected,
    together,
    truncated_law,
)
from kernel.small import kernel_of, measured
from measuring import release

ROUNDING = 1e-12
"""How far the enclosures may be apart: a claim of delta 0 is met up to here."""


def law_of(kind, scale, bound=None):
    if kind == "truncated-geometric":
        return truncated_law(scale, bound)
    return gaussian_law(scale) if kind == "gaussian" else LaplaceLaw(scale)


def assert_private(pairs, epsilon, delta):
    """Every pair of laws is within the claim, in both directions."""
    for name, pair in pairs.items():
        _, most = delta_between(*pair, epsilon)
        assert most <= delta + ROUNDING, (name, most)


def assert_found(pairs, epsilon, delta):
    """Some pair is proved not to be."""
    assert max(delta_between(*pair, epsilon)[0] for pair in pairs.values()) > delta + ROUNDING


def assert_drawn(values, law, cuts):
    """Draws that follow a law: each cut is reached as often as it should be, by six standard
    errors.
    """
    values = np.asarray(values)
    for cut in cuts:
        share = float(law.reaching(cut).b)
        error = math.sqrt(max(share * (1 - share), 1 / len(values)) / len(values))
        assert abs((values >= cut).mean() - share) < 6 * error, cut


def goal(epsilon, delta):
    return DifferentialPrivacy(
        kind="differential-privacy", epsilon=epsilon, delta=delta, over=(CONTROL_FLOW,)
    )


def steps_up(moves, counts):
    """All ways in which some counts may go up by some moves."""
    for moved in moves:
        for before in itertools.product(counts, repeat=len(moved)):
            yield tuple((count, count + move) for count, move in zip(before, moved, strict=True))


# --- variants/threshold ---------------------------------------------------------------------------

KINDS = ("laplace", "truncated-geometric", "gaussian")
THRESHOLDS = [(kind, cases) for kind in KINDS for cases in (1, 2)]


@cache
def threshold_params(kind, cases):
    return calibrate_threshold(1.0, 1e-2, cases, kind)


def threshold_pairs(params, factor=1.0):
    """Laws of the counts that one unit moves: of absent variants, of rare and of frequent ones."""
    law = law_of(params.noise, params.scale * factor, max(1, params.tau - 1))
    moves = {1: [(1,)], 2: [(2,), (1, 1)]}[params.max_cases]
    tau = params.tau
    counts = (0, 1, tau - 1, tau, 2 * tau, 2 * tau + 1)
    return {
        steps: together([selected(law, *step, tau) for step in steps])
        for steps in steps_up(moves, counts)
    }


@pytest.mark.parametrize(("kind", "cases"), THRESHOLDS)
def test_threshold_is_as_private_as_it_says(kind, cases):
    params = threshold_params(kind, cases)
    assert_private(threshold_pairs(params), params.epsilon, params.delta)


@pytest.mark.parametrize(("kind", "cases"), THRESHOLDS)
def test_threshold_with_half_the_noise_is_found(kind, cases):
    params = threshold_params(kind, cases)
    assert_found(threshold_pairs(params, factor=0.5), params.epsilon, params.delta)


@pytest.mark.parametrize("kind", KINDS)
def test_threshold_at_a_lower_tau_is_found(kind):
    """One case less hides too little: tau is the least that does."""
    params = threshold_params(kind, 1)
    if kind == "gaussian":
        # Its tail is bounded from above, not known: two less.
        lower = params.model_copy(update={"tau": params.tau - 2})
        law = law_of(kind, params.scale)
        assert float(law.reaching(lower.tau - 1).a) > params.delta / 2
        return
    law = law_of(kind, params.scale, params.tau - 1)
    assert_found({"alone": selected(law, 0, 1, params.tau - 1)}, params.epsilon, params.delta)


@pytest.mark.parametrize("kind", KINDS)
def test_threshold_draws_this_law(kind):
    """20,000 variants of one count are as many runs."""
    params = threshold_params(kind, 1)
    law = law_of(kind, params.scale, max(1, params.tau - 1))
    count, runs = params.tau + 1, 20_000
    histogram = pl.DataFrame({"variant": [[str(run)] for run in range(runs)], "cases": count})
    histogram = histogram.with_columns(pl.col("cases").cast(pl.Int64))
    released = release(VariantThreshold(), params, histogram, reproducible(1)).table["cases"]
    assert released.min() == params.tau
    shown = np.concatenate([released.to_numpy(), np.zeros(runs - len(released), np.int64)]) - count
    assert_drawn(shown, law, range(params.tau - count, 6))


# --- variants/amun, declared ----------------------------------------------------------------------


def amun_params(variants, cases=2):
    return AmunParams(
        epsilon=1.0, max_cases=cases, advantage=0.25, variants=variants, scale=float(cases)
    )


def amun_pairs(params, factor=1.0):
    """Every variant of the domain gets noise; those are shown whose noisy count is positive."""
    law = LaplaceLaw(params.scale * factor)
    return {
        steps: together([cells(law, *step, 1) for step in steps])
        for steps in steps_up([(2,), (1, 1), (1,)], (0, 1, 2, 5))
    }


def test_amun_is_as_private_as_it_says():
    params = amun_params((("a",), ("b",)))
    assert_private(amun_pairs(params), params.epsilon, 0.0)


def test_amun_with_half_the_noise_is_found():
    params = amun_params((("a",), ("b",)))
    assert_found(amun_pairs(params, factor=0.5), params.epsilon, 0.1)


def test_amun_draws_this_law():
    """Half of the domain is absent: its noise is the same."""
    variants = tuple((str(place),) for place in range(20_000))
    histogram = pl.DataFrame({"variant": [list(each) for each in variants[::2]], "cases": 3})
    histogram = histogram.with_columns(pl.col("cases").cast(pl.Int64))
    released = release(VariantAmun(), amun_params(variants), histogram, reproducible(2)).table
    shown = dict(zip(released["variant"].list.first(), released["cases"], strict=True))
    for count, half in ((3, variants[::2]), (0, variants[1::2])):
        values = np.array([shown.get(label, 0) for (label,) in half]) - count
        assert_drawn(values, LaplaceLaw(2.0), range(1 - count, 8))


# --- dfg/laplace ----------------------------------------------------------------------------------

DFG = Facts(alphabet=("a", "b"), longest_case=2)
DFG_STEPS = [(1, 1, 1), (2, 1), (3,), (1, 1), (1,)]
"""What a case can move that counts for three steps: 'ab', 'aaa', 'aaaa', 'b', one that is cut."""


def dfg_params(facts, delta):
    params = catalogue()["dfg/laplace"].offer(goal(1.0, delta), facts, {"most_steps": 3}).params
    assert params.most_steps == 3
    return params


def dfg_pairs(params, factor=1.0):
    """Every pair of declared activities has noise, and is kept from tau on; without an alphabet,
    those that occur.
    """
    law = LaplaceLaw(params.scale * factor)
    shown = cells if params.alphabet is not None else selected
    return {
        steps: together([shown(law, *step, params.tau) for step in steps])
        for steps in steps_up(DFG_STEPS, (0, 2, params.tau - 1, params.tau + 2))
    }


@pytest.mark.parametrize(("facts", "delta"), [(DFG, 0.0), (Facts(), 1e-2)], ids=["declared", "own"])
def test_dfg_is_as_private_as_it_says(facts, delta):
    params = dfg_params(facts, delta)
    assert_private(dfg_pairs(params), params.epsilon, params.delta)
    assert_found(dfg_pairs(params, factor=0.5), params.epsilon, params.delta)


def test_dfg_draws_this_law(monkeypatch):
    """On each of the nine pairs, whether it occurs or not."""
    params, noisy = dfg_params(DFG, 0.0), []
    monkeypatch.setattr(NoisySums, "at", recorded(NoisySums.at, noisy, is_last=True))
    seen = measured(["ab", "b", "ba"], [4, 3, 2])
    run_often("dfg/laplace", params, DFG, seen, 400)
    # Rows: start, a, b; columns: a, b, end.
    true = {("start", "a"): 4, ("start", "b"): 5, ("a", "b"): 4, ("b", "a"): 2}
    true |= {("a", "end"): 2, ("b", "end"): 7}
    table = [[true.get((row, col), 0) for col in ("a", "b", "end")] for row in ("start", "a", "b")]
    values = np.array(noisy).reshape(-1, 9) - np.array(table).ravel()
    assert len(values) == 400
    assert_drawn(values.ravel(), LaplaceLaw(params.scale), range(-8, 9))


class Enough(Exception):
    """What is drawn later does not matter."""


def recorded(method, into, is_last=False):
    """The same method, its answers written down; with ``is_last`` the run ends with it."""

    def call(*arguments, **named):
        answer = method(*arguments, **named)
        into.append(answer)
        if is_last:
            raise Enough
        return answer

    return call


def run_often(name, params, facts, seen, runs):
    mechanism, noise = catalogue()[name], reproducible(4)
    event = mechanism.step(params, facts).event
    for _ in range(runs):
        kernel = kernel_of(seen, event, noise=noise, max_cases=facts.unit.max_cases)
        with suppress(Enough):
            mechanism.measure(params, kernel)


# --- variants/prefix-tree: two levels -------------------------------------------------------------

TREES = {
    "gaussian": (Facts(alphabet=("a", "b"), longest_case=1), {}, 1e-2),
    "laplace": (Facts(alphabet=("a", "b"), longest_case=1), {"noise": "laplace"}, 0.0),
    "what occurs": (Facts(longest_case=1), {}, 1e-2),
}
"""Trees of cases of one event: the first level is the activity, the second that it is the last."""


@cache
def tree_params(name):
    facts, options, delta = TREES[name]
    params = catalogue()["variants/prefix-tree"].offer(goal(1.0, delta), facts, options).params
    assert params.length == 1
    return params


def tree_laws(params, factor=1.0):
    """The noise and the threshold of both levels."""
    levels = [
        (stage.scale * factor, tau)
        for stage, tau in zip(params.shape, params.thresholds, strict=True)
        for _ in range(stage.levels)
    ]
    return [(law_of(params.noise, scale), tau) for scale, tau in levels]


def tree_pairs(params, factor=1.0):
    """A prefix is told or not; if so, whether it ends there is told or not. Another case of the
    same prefix goes on.
    """
    (first, low), (second, high) = tree_laws(params, factor)
    shown = cells if params.alphabet is not None else selected
    found = {}
    for count, ended in ((0, 0), (low - 1, 0), (low + 1, 2), (3 * low, 3 * low), (high, high - 1)):
        if count < ended:
            continue
        both = shown(first, count, count + 1, low)
        for after in (ended, ended + 1):
            below = shown(second, ended, after, high)
            found[count, ended, after] = tuple(
                one.at(np.arange(1)).or_else(one.at(np.arange(1, len(one))).and_then(other))
                for one, other in zip(both, below, strict=True)
            )
    return found


@pytest.mark.parametrize("name", TREES)
def test_two_levels_of_a_tree_are_as_private_as_it_says(name):
    params = tree_params(name)
    assert_private(tree_pairs(params), params.epsilon, params.delta)
    assert_found(tree_pairs(params, factor=0.5), params.epsilon, params.delta)


@pytest.mark.parametrize("name", TREES)
def test_a_tree_draws_this_law(name, monkeypatch):
    """On every key of both levels."""
    params, levels = tree_params(name), []
    facts = TREES[name][0]
    for asked in ("declared", "occurring"):
        monkeypatch.setattr(Growth, asked, recorded(getattr(Growth, asked), levels))
    count = 20 * max(params.thresholds)
    run_often("variants/prefix-tree", params, facts, measured(["a", "b"], [count, count]), 500)
    for depth, (law, _) in enumerate(tree_laws(params)):
        told = np.concatenate([level.noisy for level in levels[depth::2]])
        near = told[told > count // 2] - count
        assert len(near) == 1000
        reach = math.ceil(2 * params.shape[0].scale)
        assert_drawn(near, law, range(-reach, reach + 1))


# --- variants/adaptive: the look ------------------------------------------------------------------


def look_pairs(scale, cases):
    """Three layers, each with noise; a case moves one of them by one."""
    moves = {1: [(1,)], 2: [(2,), (1, 1)]}[cases]
    law = LaplaceLaw(scale)
    return {
        steps: together([cells(law, *step, NEVER) for step in steps])
        for steps in steps_up(moves, (0, 7))
    }


@pytest.mark.parametrize("cases", [1, 2])
def test_the_look_at_layers_is_as_private_as_it_says(cases):
    """Epsilon is the unit's cases over the scale; of the binary fraction that is drawn."""
    for scale in (20.0, 6.7, 1 / 3):
        epsilon = Fraction(cases) / Fraction(scale)
        assert_private(look_pairs(scale, cases), epsilon, 0.0)
        assert_found(look_pairs(scale / 2, cases), epsilon, 1e-3)


def test_the_look_at_layers_draws_this_law(monkeypatch):
    """Whatever is released then."""
    facts, looks = Facts(unit=Unit(max_cases=1)), []
    params = catalogue()["variants/adaptive"].offer(goal(2.0, 1e-2), facts, {}).params
    monkeypatch.setattr(Kernel, "custom", recorded(Kernel.custom, looks, is_last=True))
    counts = [1, 2, 3 * params.tau, params.tau - 1]
    run_often("variants/adaptive", params, facts, measured(["a", "b", "c", "d"], counts), 300)
    half, tau = params.tau // 2, params.tau
    first, second = sum(min(n, half) for n in counts), sum(min(n, tau) for n in counts)
    values = np.array(looks) - [first, second - first, sum(counts) - second]
    assert values.shape == (300, 3)
    reach = math.ceil(2 * params.scale)
    assert_drawn(values.ravel(), LaplaceLaw(params.scale), range(-reach, reach + 1, 5))


# --- choosing -------------------------------------------------------------------------------------


def test_masses_add_up():
    """The laws are distributions: their enclosures hold 1."""
    for law in (LaplaceLaw(2.3), gaussian_law(1.7), truncated_law(2.0, 6)):
        for tau in (NEVER, -2, 0, 3):
            for masses in cells(law, 1, 3, tau):
                assert isinstance(masses, Masses)
                assert masses.low.sum() <= 1 + 1e-15
                assert masses.high.sum() + masses.beyond >= 1 - 1e-15
                assert masses.high.sum() - masses.low.sum() < 1e-13
