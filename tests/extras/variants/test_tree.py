"""The tree of noisy counts that several mechanisms grow: its stages, its shares, its tails, and
what becomes of faults in it.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloakwork.base.costs import Composed, EpsilonDelta
from cloakwork.base.facts import Facts
from cloakwork.errors import PlanUnsound
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import ONE, Entries, Kernel, Laplace, Randomness
from cloakwork.mechanisms.base import Offer
from cloakwork.mechanisms.steps import Measurement
from cloakwork.noise import reproducible, secret
from cloakwork_extras.trees.prefix_tree import NoisyTree, PrefixTree
from cloakwork_extras.trees.sacofa import Sacofa
from cloakwork_extras.trees.tree import (
    Stage,
    Tree,
    TreeGrowth,
    TreeLevel,
    consistent_variants,
    cost_of,
    grow_tree,
    least_tail_value,
    level_stages,
    tail_probability,
)
from conftest import runs
from extras.variants.tried import histogram
from measuring import kernel_on, release


def test_shares_are_whole_and_on_average_exact():
    """The mean of 600 counts, each 4 or 5, is off by 0.15 with a probability below 1e-11
    (Hoeffding).
    """
    none = np.empty(0, np.int64)
    first = TreeLevel(np.array([0, 0]), np.array([0, 1]), np.array([6, 4]), none, none)
    second = TreeLevel(
        np.array([0]), np.array([1]), np.array([5]), np.array([0, 1]), np.array([10, 3])
    )
    third = TreeLevel(none, none, none, np.array([0]), np.array([2]))
    randomness = Randomness(secret())

    def shared(levels, most_cases):
        tree = Tree(levels, ("a", "b"))
        variants, cases = consistent_variants(tree, most_cases, randomness)
        return dict(zip(variants, cases.tolist(), strict=True))

    for _ in range(600):
        # Six begin with a: four end there, two go on to b; the noisy counts below a are 10 and 5.
        table = shared((first, second, third), None)
        assert table == {("a",): 4, ("a", "b"): 2, ("b",): 4}
    third_left_out = [shared((first, second), 7) for _ in range(600)]
    assert {sum(table.values()) for table in third_left_out} == {7}
    mean = np.mean([table["a",] for table in third_left_out])
    assert abs(mean - 4.2) < 0.15


@pytest.mark.parametrize(
    ("noise", "scale"), [("gaussian", 0.6), ("gaussian", 20.0), ("laplace", 0.6), ("laplace", 20.0)]
)
def test_tails_are_bounded_from_above(noise, scale):
    x = np.arange(-2_000, 2_001)
    mass = np.exp(-(x**2) / (2 * scale**2)) if noise == "gaussian" else np.exp(-np.abs(x) / scale)
    mass /= mass.sum()
    for at_least in (1, 2, 5, 30, 90):
        exact = mass[x >= at_least].sum()
        assert (
            exact * (1 - 1e-9)
            <= tail_probability(scale, at_least, noise)
            <= max(1e-300, exact * 1.5 + 0.3 / scale**2) + exact
        )
    for probability in (0.5, 0.1, 1e-5):
        least = least_tail_value(scale, probability, noise)
        assert mass[x >= least].sum() <= probability
        assert least == 1 or tail_probability(scale, least - 1, noise) > probability


def test_stages_cover_all_levels_with_less_and_less_noise():
    assert level_stages(7, "uniform") == (Stage(levels=7, scale=1.0),)
    found = level_stages(7, "geometric")
    assert [stage.levels for stage in found] == [2, 2, 2, 1]
    assert [round(a.scale / b.scale, 6) for a, b in pairwise(found)] == [round(2 ** (1 / 3), 6)] * 3


QUIET = 2.0**-7
"""The scale of noise that is not drawn but for e**-128."""

ROWS = st.dictionaries(
    st.lists(st.sampled_from("abcx"), max_size=5).map(tuple), st.integers(1, 9), max_size=8
)


def counted_by_hand(
    rows: dict[tuple[str, ...], int], length: int, least: int, declared: Sequence[str] | None
) -> list[tuple[dict[tuple[str, ...], int], dict[tuple[str, ...], int]]]:
    """Of each level the prefixes that at least so many cases begin with, and the ENDs; below those
    kept.
    """
    cases = [
        ([label for label in variant if declared is None or label in declared], count)
        for variant, count in rows.items()
    ]
    levels = []
    kept = {()}
    for depth in range(length + 1):
        prefixes: Counter[tuple[str, ...]] = Counter()
        ends: Counter[tuple[str, ...]] = Counter()
        for variant, count in cases:
            if tuple(variant[:depth]) in kept and len(variant) > depth < length:
                prefixes[tuple(variant[: depth + 1])] += count
            if tuple(variant) in kept and len(variant) == depth > 0:
                ends[tuple(variant)] += count
        found = [{key: n for key, n in each.items() if n >= least} for each in (prefixes, ends)]
        levels.append((found[0], found[1]))
        kept = set(found[0])
        if not kept:
            break
    return levels


@given(ROWS, st.integers(1, 5), st.integers(2, 12), st.booleans())
@settings(max_examples=runs(40))
def test_a_tree_without_noise_to_speak_of_is_that_of_a_count_by_hand(
    rows: dict[tuple[str, ...], int], length: int, least: int, declared: bool
) -> None:
    """Over declared activities, where x is none, and where none are declared."""
    shape = (Stage(levels=length + 1, scale=QUIET),)
    alphabet = ("c", "a", "b") if declared else None
    delta = Laplace(QUIET).selection_delta(least, ONE, 1)
    growth = TreeGrowth(shape, "laplace", 100, alphabet, (least,), 0.0 if declared else delta)
    hidden = EpsilonDelta(epsilon=0.0, delta=delta)
    event = Composed(events=(cost_of(shape, "laplace", 1), hidden))
    kernel = kernel_on(histogram(rows), event, secret())
    tree = grow_tree(kernel, growth, lambda found: found.noisy >= least)
    paths: list[tuple[str, ...]] = [()]
    levels = []
    for level in tree.levels:
        symbols = [tree.labels[code] for code in level.symbol]
        below = [(*paths[row], label) for row, label in zip(level.parent, symbols, strict=True)]
        ended = [paths[row] for row in level.leaf_parent]
        prefixes = dict(zip(below, level.noisy.tolist(), strict=True))
        levels.append((prefixes, dict(zip(ended, level.leaf_noisy.tolist(), strict=True))))
        paths = below
    assert levels == counted_by_hand(rows, length, least, alphabet)


LOG = histogram({("a", "b", "a"): 900, ("a",): 700})
DECLARED, UNDECLARED = Facts(alphabet=("a", "b"), longest_case=2), Facts(longest_case=2)
Params = Any


def faulty(mechanism: type[Any], measure: Callable[[Params, Kernel], Measurement]) -> Any:
    """The mechanism, planned and charged as it is, but measuring like this."""
    overridden = {"measure": lambda self, params, kernel: measure(params, kernel)}
    return type("Faulty", (mechanism,), overridden)()


def run(mechanism: Any, facts: Facts, **options: object) -> object:
    """What it releases with what it offers."""
    goal = DifferentialPrivacy(
        kind="differential-privacy", epsilon=1.0, delta=1e-3, over=("control-flow",)
    )
    offer = mechanism.offer(goal, facts, options)
    assert isinstance(offer, Offer)
    return release(mechanism, offer.params, LOG, reproducible(1)).table


def changed(mechanism: type[Any], fault: Callable[[NoisyTree], dict[str, object]]) -> Any:
    """The mechanism, which measures as if its parameters were others than the plan's."""

    def measure(params: Params, kernel: Kernel) -> Measurement:
        return mechanism().measure(params.model_copy(update=fault(params)), kernel)

    return faulty(mechanism, measure)


def half_on_one_level(params: NoisyTree) -> dict[str, object]:
    """The second level's noise is half of what it should be."""
    (stage,) = params.shape
    parts = ((1, 1.0), (1, 0.5), (stage.levels - 2, 1.0))
    shape = tuple(Stage(levels=levels, scale=stage.scale * part) for levels, part in parts)
    return {"shape": shape, **for_each_stage(params, 3)}


def one_level_more(params: NoisyTree) -> dict[str, object]:
    """Cases are followed for one event more than planned."""
    (stage,) = params.shape
    return {"shape": (Stage(levels=stage.levels + 1, scale=stage.scale),)}


def for_each_stage(params: NoisyTree, stages: int) -> dict[str, tuple[int, ...]]:
    """The thresholds, where one stage has become several."""
    names = ("thresholds", "harmless", "harmful")
    found = {name: getattr(params, name, None) for name in names}
    return {name: value * stages for name, value in found.items() if value is not None}


BOTH = pytest.mark.parametrize("mechanism", [PrefixTree, Sacofa])
EITHER = pytest.mark.parametrize("facts", [DECLARED, UNDECLARED], ids=["declared", "undeclared"])


@BOTH
@EITHER
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("fault", [half_on_one_level, one_level_more])
def test_noise_that_is_not_charged_is_refused(
    mechanism: type[Any], facts: Facts, noise: str, fault: Callable[[NoisyTree], dict[str, object]]
) -> None:
    """The plan lists so many levels, each with so much noise."""
    options = {"noise": noise, "threshold": 1} if facts is DECLARED else {"noise": noise}
    if mechanism is Sacofa:
        # What is public is not measured: no other answer's place in the plan is left.
        options |= {"rules": [["b", "always follows", "a"]]}
    assert run(mechanism(), facts, **options) is not None
    with pytest.raises(PlanUnsound, match="what its plan does not list"):
        run(changed(mechanism, fault), facts, **options)


@BOTH
def test_a_lower_threshold_than_charged_is_refused(mechanism: type[Any]) -> None:
    """Whether the tree says that it spends more on its thresholds, or does not."""

    def lower(params: NoisyTree) -> dict[str, object]:
        named = for_each_stage(params, 1)
        return {name: tuple(tau - 1 for tau in value) for name, value in named.items()}

    with pytest.raises(PlanUnsound, match="what its plan does not list"):
        run(changed(mechanism, lower), UNDECLARED)

    def measure(params: Params, kernel: Kernel) -> Measurement:
        growth = params.growth()
        least = tuple(tau - 1 for tau in growth.least)
        broken = replace(growth, least=least)
        grow_tree(kernel, broken, lambda found: np.full(len(found.noisy), True))
        raise AssertionError

    with pytest.raises(PlanUnsound, match="spends more delta"):
        run(faulty(mechanism, measure), UNDECLARED)


def raw_labels(params: Params, kernel: Kernel) -> object:
    """Look at the log."""
    return kernel.raw().cases.alphabet


def selected_labels(params: Params, kernel: Kernel) -> object:
    """Ask for what occurs, beside the tree."""
    return kernel.select(Entries.of_variants, Laplace(params.shape[0].scale), 1)


def labels_without_threshold(params: Params, kernel: Kernel) -> object:
    """Ask for a level, whatever a label's count is."""
    growth = kernel.grow()
    return growth.occurring(Entries.of_variants, params.growth().noise_of_level(0), 1)


@BOTH
@pytest.mark.parametrize("fault", [raw_labels, selected_labels, labels_without_threshold])
def test_labels_of_the_log_are_told_from_their_threshold_on_only(
    mechanism: type[Any], fault: Callable[[Params, Kernel], object]
) -> None:
    """There is no other way to them."""

    def measure(params: Params, kernel: Kernel) -> Measurement:
        fault(params, kernel)
        raise AssertionError

    with pytest.raises(PlanUnsound):
        run(faulty(mechanism, measure), UNDECLARED)


@BOTH
def test_a_level_asked_for_again_is_refused(mechanism: type[Any]) -> None:
    """A prefix of one unit alone would have a second chance to be told."""

    def measure(params: Params, kernel: Kernel) -> Measurement:
        growth = params.growth()
        growing = kernel.grow(growth.delta)
        for _ in range(2):
            growing.occurring(Entries.of_variants, growth.noise_of_level(0), growth.least[0])
        raise AssertionError

    with pytest.raises(PlanUnsound, match="a level is told once"):
        run(faulty(mechanism, measure), UNDECLARED)
