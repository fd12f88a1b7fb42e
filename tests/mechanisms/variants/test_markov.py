"""``variants/markov``: which activities it selects, what it costs, and what it releases."""

import random
from collections import Counter

import numpy as np
import polars as pl
import pytest

from cloakwork.accounting.events import cost
from cloakwork.accounting.leaf_events import leaves_of
from cloakwork.base.costs import Composed, DiscreteLaplace
from cloakwork.base.facts import Facts
from cloakwork.engines.measured import measured_of
from cloakwork.errors import MechanismError, PlanUnsound
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import Books, Cases, Entries, Kernel, Laplace
from cloakwork.mechanisms.base import Offer, Refusal
from cloakwork.mechanisms.variants.markov import VariantMarkov
from cloakwork.mechanisms.variants.markov_params import MarkovParams
from cloakwork.noise import reproducible
from cloakwork.testing import run_mechanism
from contracts.sample_logs import courses_of, log_of
from measuring import release


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


def test_activities_that_are_not_selected_cost_infinity() -> None:
    """Parameters without an alphabet and without a selection are no claim."""
    offer = VariantMarkov().offer(goal(), Facts(), {})
    assert isinstance(offer, Offer)
    bare = offer.params.model_copy(update={"selection": None})
    assert cost(VariantMarkov().step(bare, Facts()).event, 1e-4).epsilon == np.inf
    with pytest.raises(PlanUnsound, match="asked for what its plan does not list"):
        release(VariantMarkov(), bare, ROWS, reproducible(1))


ROWS = pl.DataFrame({"variant": [["a", "b"], ["b"]], "cases": [40, 3]})


@pytest.mark.parametrize("facts", [Facts(alphabet=("a", "b")), Facts()])
def test_what_is_asked_is_what_the_event_lists(facts: Facts) -> None:
    """To the last answer: a mechanism that asked less would be charged for noise that it does not
    draw.
    """
    offer = VariantMarkov().offer(goal(20.0, 1e-2), facts, {})
    assert isinstance(offer, Offer)
    variants = [[*(row % 20 * "a"), "b", *(row // 20 * "ba"), "b"] for row in range(800)]
    rows = pl.DataFrame({"variant": variants, "cases": 1})
    recorded = release(VariantMarkov(), offer.params, rows, reproducible(1)).recorded
    spent, charged = (
        Counter(type(leaf) for leaf, times in leaves_of(event) for _ in range(times))
        for event in (recorded, VariantMarkov().step(offer.params, facts).event)
    )
    assert spent == charged


def test_the_budget_can_be_split_otherwise() -> None:
    """All on the frequent variants lowers their threshold; nonsense is refused."""
    usual = VariantMarkov().offer(goal(), Facts(alphabet=("a",)), {})
    other = VariantMarkov().offer(
        goal(), Facts(alphabet=("a",)), {"shares": [0.9, 0.02, 0.01, 0.03, 0.02, 0.02]}
    )
    assert isinstance(usual, Offer)
    assert isinstance(other, Offer)
    assert other.params.tau < 0.8 * usual.params.tau
    assert cost(VariantMarkov().step(other.params, Facts()).event, 1e-4).epsilon == pytest.approx(
        1, rel=0.01
    )
    for wrong in ([1, 1], [1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0]):
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
    from cloakwork.base.facts import Unit

    facts = Facts(alphabet=alphabet, unit=Unit(attribute="case:p", max_cases=max_cases))
    offer = VariantMarkov().offer(goal(epsilon), facts, {})
    assert isinstance(offer, Offer)
    spent = cost(VariantMarkov().step(offer.params, facts).event, 1e-4)
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


def test_drawn_cases_are_as_long_as_those_of_the_log() -> None:
    """Loops of 12 steps on average, which a chain alone would make half as long again: transitions
    count by case, and frequent steps come out more frequent. Nearly every case has its own variant.
    """
    draw = random.Random(1)
    variants = [
        ["s", *draw.choices("xyz", (6, 1, 1), k=1 + int(draw.expovariate(1 / 12)))]
        for _ in range(3000)
    ]
    noise = reproducible(1)
    for budget in ({"epsilon": 0.5, "delta": 1e-4}, {"epsilon": 4.0, "delta": 1e-4}):
        released = run_mechanism(
            "variants/markov", log_of(variants), noise=noise, alphabet=tuple("sxyz"), **budget
        )
        events = sum(map(len, courses_of(released)))
        assert events == pytest.approx(sum(map(len, variants)), rel=0.08)


def test_undeclared_labels_are_no_part_of_it() -> None:
    """A label outside the alphabet goes, and the variants that it told apart are one."""
    table = pl.DataFrame(
        {"variant": [["a", "q"], ["q", "a"], ["a"], ["q"]], "cases": [500, 400, 300, 200]}
    )
    offer = VariantMarkov().offer(goal(5.0, 1e-2), Facts(alphabet=("a",)), {})
    assert isinstance(offer, Offer)
    assert isinstance(offer.params, MarkovParams)
    found = release(VariantMarkov(), offer.params, table, reproducible(1)).table
    counted = dict(
        zip(map(tuple, found["variant"].to_list()), found["cases"].to_list(), strict=True)
    )
    assert counted["a",] == pytest.approx(1200, abs=40)
    assert not any("q" in variant for variant in counted)


@pytest.mark.parametrize("owned", [False, True])
def test_a_narrowed_kernel_counts_the_other_cases_for_the_same_books(owned: bool) -> None:
    """Cases of released variants are out, labels outside of the alphabet too; whose cases they are
    stays, so a sample holds them; and what the one kernel has asked the other cannot ask again.
    Noise of 2**-7 is 0 but once in e**128 draws.
    """
    rows = {"variant": [["a", "b"], ["a", "x", "b"], ["x"], ["b"]], "cases": [5, 4, 3, 2]}
    if owned:
        rows["unit"] = [["p"], ["q"], ["p"], ["q"]]
        rows["cases_of_unit"] = [[each] for each in (5, 4, 3, 2)]
    one = DiscreteLaplace(scale=2.0**-7, sensitivity=5)
    books = Books.of(Composed(events=(one, one)))
    kernel = Kernel(
        measured_of(pl.DataFrame(rows), reproducible(1)), books, reproducible(1), max_cases=5
    )
    others = kernel.narrowed(("b", "a"), without=[("a", "b")])

    def coded(cases: Cases) -> Entries:
        assert cases.alphabet == ("b", "a")
        return Entries.one_each(cases, np.minimum(cases.lengths, 2))

    found = others.sum(coded, Laplace(2.0**-7), keys=3).at(np.arange(3))
    assert found.tolist() == [3, 2, 4]
    if owned:
        assert others.sample_sums(coded, Laplace(2.0**-7), 1, 1, 3).tolist() == [[3, 2, 4]]
    else:
        kernel.sum(coded_all, Laplace(2.0**-7), keys=1)
    with pytest.raises(PlanUnsound, match="does not list"):
        kernel.sum(coded_all, Laplace(2.0**-7), keys=1)


def coded_all(cases: Cases) -> Entries:
    return Entries.one_each(cases)
