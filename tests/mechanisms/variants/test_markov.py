"""What variants/markov measures of a case, and the chain that it draws cases from."""

from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloakwork.accounting.events import cost
from cloakwork.errors import MechanismError
from cloakwork.facts import Facts
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.mechanisms.base import Offer, Refusal
from cloakwork.mechanisms.variants.chain import MarkovChain, fit_flow, refine_contexts
from cloakwork.mechanisms.variants.markov import VariantMarkov, _select_activities
from cloakwork.mechanisms.variants.markov_params import MarkovParams, Selection
from cloakwork.mechanisms.variants.transitions import (
    MOST_CELLS,
    UNIT_NORM,
    PaddedVariants,
    transition_masses,
    vector_noise,
)
from cloakwork.noise import reproducible, secret
from cloakwork.privacy_event import DiscreteGaussian, Repeated
from cloakwork.testing import run_mechanism
from conftest import runs
from contracts.sample_logs import courses_of, log_of

LABELS = 4
COURSES = st.lists(
    st.lists(st.integers(1, LABELS), min_size=1, max_size=300), min_size=1, max_size=5
)


def mass_by_hand(variant: list[int], order: int) -> dict[int, float]:
    """One case's vector, before it is rounded down, as long as it has few enough cells."""
    steps = [0, *variant, LABELS + 1]
    counts: Counter[int] = Counter()
    for end in range(order, len(steps)):
        code = 0
        for step in steps[end - order : end + 1]:
            code = code * (LABELS + 2) + step
        counts[code] += 1
    norm = sum(count**2 for count in counts.values()) ** 0.5
    return {code: UNIT_NORM * count / norm for code, count in counts.items()}


@given(COURSES, st.integers(1, 3))
@settings(max_examples=runs(40))
def test_one_case_has_at_most_norm_one_in_at_most_64_cells(
    variants: list[list[int]], order: int
) -> None:
    """Exactly, in integers: that is what the noise is charged for."""
    for variant in variants:
        mass = transition_masses(PaddedVariants.of([variant], np.array([1]), LABELS), order).mass
        assert mass.size <= MOST_CELLS
        assert (mass >= 0).all()
        assert sum(int(step) ** 2 for step in mass) <= UNIT_NORM**2


@given(COURSES, st.integers(1, 3), st.data())
@settings(max_examples=runs(30))
def test_cases_add_up(variants: list[list[int]], order: int, data: st.DataObject) -> None:
    """A table is the sum over its cases, so one case more or less changes it by that case's vector
    alone.
    """
    cases = np.array(
        data.draw(st.lists(st.integers(0, 9), min_size=len(variants), max_size=len(variants))),
        np.int64,
    )
    whole = transition_masses(PaddedVariants.of(variants, cases, LABELS), order)
    parts = [
        transition_masses(PaddedVariants.of([variant], np.array([1]), LABELS), order).mass_of(
            whole.code
        )
        for variant in variants
    ]
    assert whole.mass.tolist() == (np.array(parts) * cases[:, None]).sum(axis=0).tolist()


@pytest.mark.parametrize("order", [1, 2, 3])
def test_transitions_are_those_of_the_variant(order: int) -> None:
    """Against plain counting, to within the rounding."""
    variant = [1, 2, 2, 3, 1, 2, 4, 4, 4]
    by_hand = mass_by_hand(variant, order)
    found = transition_masses(PaddedVariants.of([variant], np.array([1]), LABELS), order)
    assert dict(zip(found.code.tolist(), found.mass.tolist(), strict=True)) == {
        code: pytest.approx(mass, abs=1) for code, mass in by_hand.items()
    }


@pytest.mark.parametrize(("norm", "cells"), [(8192, 1), (8192, 64), (3 * 8192, 192), (5, 3)])
def test_a_vector_is_charged_for_no_less_than_its_norm(norm: int, cells: int) -> None:
    """Cells times the square of what each is charged for covers the square of the norm."""
    event = vector_noise(5000.0, norm, cells)
    assert isinstance(event, Repeated)
    assert isinstance(event.event, DiscreteGaussian)
    assert event.times * event.event.sensitivity**2 >= norm**2


def random_flow() -> np.ndarray:
    """A table of a log's transitions: what comes to a label leaves it."""
    rng = np.random.default_rng(3)
    variants = [rng.integers(1, LABELS + 1, rng.integers(1, 9)).tolist() for _ in range(50)]
    codes = np.arange(LABELS + 1)[:, None] * (LABELS + 2) + np.arange(1, LABELS + 2)
    total = np.zeros((LABELS + 1, LABELS + 1))
    for variant in variants:
        mass = mass_by_hand(variant, 1)
        total += np.vectorize(lambda code, mass=mass: mass.get(code, 0.0))(codes)
    return total


def test_a_flow_is_its_own_fit() -> None:
    """Without a penalty, what is balanced already stays."""
    flow = random_flow()
    assert np.allclose(fit_flow(flow, np.zeros_like(flow), 0.0), flow, atol=1e-2 * flow.max())


def test_a_fit_is_balanced_and_nearer_to_the_truth() -> None:
    """What comes to a label leaves it, nothing is negative, and the noise is less than before."""
    flow = random_flow()
    noisy = flow + np.random.default_rng(4).normal(0, 20_000, flow.shape)
    found = fit_flow(noisy, np.zeros_like(flow), 5_000.0)
    assert (found >= 0).all()
    assert found[0, -1] == 0
    assert np.allclose(found[1:].sum(axis=1), found[:, :-1].sum(axis=0), atol=1e-2 * flow.max())
    assert np.linalg.norm(found - flow) < np.linalg.norm(noisy - flow)


def test_a_heavy_penalty_leaves_what_was_expected() -> None:
    """Where the noise drowns everything, the released variants speak for the others."""
    flow = random_flow()
    assert np.allclose(fit_flow(flow * 0, flow, 1e9), flow, atol=1e-2 * flow.max())


def test_longer_contexts_keep_to_their_parents() -> None:
    """What stands out by less than the penalty is as the parent says; what the parent rules out
    stays out.
    """
    parent = np.array([[30.0, 10.0, 0.0]])
    assert refine_contexts(
        np.array([[16.0, 4.0, 90.0]]), parent, np.array([20.0]), 3.0
    ).tolist() == [[15.0, 5.0, 0.0]]
    assert refine_contexts(
        np.array([[5.0, 15.0, 0.0]]), parent, np.array([20.0]), 3.0
    ).tolist() == [[8.0, 12.0, 0.0]]


def test_a_chain_draws_what_it_expects() -> None:
    """Three quarters go one way; all 400 cases come out as 300 and 100, and the last step is
    END.
    """
    rows = {
        (0,): np.array([1.0, 0.0, 0.0]),
        (1,): np.array([0.0, 3.0, 1.0]),
        (2,): np.array([0.0, 0.0, 1.0]),
    }
    drawn = Counter(MarkovChain.of(rows, 1.0).draw(400, 9, reproducible(1)))
    assert drawn == {(1, 2): 300, (1,): 100}
    sharp = Counter(MarkovChain.of(rows, 2.0).draw(400, 9, reproducible(1)))
    assert sharp == {(1, 2): 360, (1,): 40}


def test_a_chain_knows_the_longest_context() -> None:
    """After START, 1 comes 1; after 1, 1 comes END."""
    rows = {
        (0,): np.array([1.0, 0.0]),
        (1,): np.array([1.0, 1.0]),
        (0, 1): np.array([1.0, 0.0]),
        (1, 1): np.array([0.0, 1.0]),
    }
    assert Counter(MarkovChain.of(rows, 1.0).draw(10, 9, secret())) == {(1, 1): 10}


def test_an_endless_chain_is_cut() -> None:
    """At the declared length; no case at all is drawn where none is wanted."""
    rows = {(0,): np.array([1.0, 0.0]), (1,): np.array([1.0, 0.0])}
    assert MarkovChain.of(rows, 1.0).draw(3, 5, secret()) == [(1,) * 5] * 3
    assert MarkovChain.of(rows, 1.0).draw(0, 5, secret()) == []


def goal(epsilon: float = 1.0, delta: float = 1e-4) -> DifferentialPrivacy:
    return DifferentialPrivacy(
        kind="differential-privacy", epsilon=epsilon, delta=delta, over=("control-flow",)
    )


def test_without_declared_activities_common_ones_are_selected() -> None:
    """And those of frequent variants; no label is released that few cases hold: with this seed
    "own" would come out if every label were taken.
    """
    variants = [
        ["a", *"bcd"[: 1 + case % 3] * (1 + case % 4), *"ab" * (case % 7)] for case in range(1500)
    ]
    log = log_of([*variants, ["own"], ["a", "mine"]])
    released = run_mechanism("variants/markov", log, noise=reproducible(4), epsilon=2.0, delta=1e-4)
    assert {label for variant in courses_of(released) for label in variant} == {"a", "b", "c", "d"}
    few = run_mechanism(
        "variants/markov", log_of([["a"]] * 3), noise=reproducible(1), epsilon=1.0, delta=1e-4
    )
    assert few.cases.height == 0


class Listener:
    """A door without noise that remembers what was counted."""

    def gaussian_counts(self, counts: np.ndarray, sigma: float) -> np.ndarray:
        self.counted = counts
        return counts


@given(st.lists(st.integers(0, 99), min_size=1, max_size=300))
@settings(max_examples=60, deadline=None)
def test_one_case_has_at_most_norm_one_over_activities(steps: list[int]) -> None:
    """In at most 64 of them: what their noise and their threshold are charged for."""
    heard, selection = Listener(), Selection(sigma=1e4, tau=1)
    _select_activities([tuple(map(str, steps))], np.array([1]), selection, heard)
    assert heard.counted.size <= MOST_CELLS
    assert sum(int(mass) ** 2 for mass in heard.counted) <= UNIT_NORM**2


def test_activities_that_are_not_selected_cost_infinity() -> None:
    """Parameters without an alphabet and without a selection are no claim."""
    offer = VariantMarkov().offer(goal(), Facts(), {})
    assert isinstance(offer, Offer)
    bare = offer.params.model_copy(update={"selection": None})
    assert cost(VariantMarkov().event(bare, Facts()), 1e-4).epsilon == np.inf


def test_the_budget_can_be_split_otherwise() -> None:
    """All on the frequent variants lowers their threshold; nonsense is refused."""
    usual = VariantMarkov().offer(goal(), Facts(alphabet=("a",)), {})
    other = VariantMarkov().offer(
        goal(), Facts(alphabet=("a",)), {"shares": [0.9, 0.02, 0.04, 0.02, 0.02]}
    )
    assert isinstance(usual, Offer)
    assert isinstance(other, Offer)
    assert other.params.tau < 0.8 * usual.params.tau
    assert cost(VariantMarkov().event(other.params, Facts()), 1e-4).epsilon == pytest.approx(
        1, rel=0.01
    )
    for wrong in ([1, 1], [1, 1, 1, 1, 0]):
        assert isinstance(
            VariantMarkov().offer(goal(), Facts(alphabet=("a",)), {"shares": wrong}), Refusal
        )


def test_needs_a_delta() -> None:
    """For the frequent variants."""
    refusal = VariantMarkov().offer(goal(delta=0.0), Facts(alphabet=("a",)), {})
    assert isinstance(refusal, Refusal)
    assert refusal.needs == ("guarantees[].delta",)
    with pytest.raises(
        MechanismError, match=r"option sharpness: input should be greater than or equal to 1"
    ):
        run_mechanism(
            "variants/markov", log_of([]), epsilon=1.0, delta=1e-4, alphabet=("a",), sharpness=0.5
        )


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("max_cases", [1, 4])
@pytest.mark.parametrize("alphabet", [("a", "b"), None])
def test_costs_at_most_what_was_asked(
    epsilon: float, max_cases: int, alphabet: tuple[str, ...] | None
) -> None:
    """And nearly all of it where noise is needed at all."""
    from cloakwork.facts import Unit

    facts = Facts(alphabet=alphabet, unit=Unit(attribute="case:p", max_cases=max_cases))
    offer = VariantMarkov().offer(goal(epsilon), facts, {})
    assert isinstance(offer, Offer)
    spent = cost(VariantMarkov().event(offer.params, facts), 1e-4)
    assert spent.epsilon <= epsilon
    assert spent.delta <= 1e-4
    assert epsilon > 20 or spent.epsilon > 0.99 * epsilon


def test_with_little_noise_frequent_variants_and_their_numbers_stay() -> None:
    """At a large epsilon the release is close to the log: variants, shares, and the number of
    cases.
    """
    log = log_of([["a", "b", "c"]] * 600 + [["a", "c"]] * 300 + [["b"]] * 3)
    budget = {"epsilon": 20.0, "delta": 1e-3}
    released = run_mechanism(
        "variants/markov", log, noise=reproducible(1), alphabet=("a", "b", "c"), **budget
    )
    found = Counter(courses_of(released))
    assert found["a", "b", "c"] == pytest.approx(600, abs=20)
    assert found["a", "c"] == pytest.approx(300, abs=20)


def test_others_go_the_ways_of_the_log() -> None:
    """Two thousand cases of variants that are all rare: the drawn cases begin and end as they
    do.
    """
    tails = [
        [label for bit in range(11) for label in ("xy" if number >> bit & 1 else "x")]
        for number in range(2000)
    ]
    log = log_of([["s", *tail, "e"] for tail in tails])
    budget = {"epsilon": 2.0, "delta": 1e-4}
    released = run_mechanism(
        "variants/markov", log, noise=reproducible(1), alphabet=tuple("sxyez"), **budget
    )
    drawn = courses_of(released)
    assert len(drawn) == pytest.approx(2000, abs=150)
    assert sum(variant[0] == "s" and variant[-1] == "e" for variant in drawn) > 0.95 * len(drawn)
    assert not any("yy" in "".join(variant) for variant in drawn)


def test_undeclared_labels_are_no_part_of_it() -> None:
    """A label outside the alphabet goes, and the variants that it told apart are one."""
    table = pl.DataFrame(
        {"variant": [["a", "q"], ["q", "a"], ["a"], ["q"]], "cases": [500, 400, 300, 200]}
    )
    offer = VariantMarkov().offer(goal(5.0, 1e-2), Facts(alphabet=("a",)), {})
    assert isinstance(offer, Offer)
    assert isinstance(offer.params, MarkovParams)
    found = VariantMarkov().decide(offer.params, table, reproducible(1)).table
    counted = dict(
        zip(map(tuple, found["variant"].to_list()), found["cases"].to_list(), strict=True)
    )
    assert counted["a",] == pytest.approx(1200, abs=40)
    assert not any("q" in variant for variant in counted)
