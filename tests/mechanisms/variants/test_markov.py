"""variants/markov: which activities it selects, its cost, what one case adds, what is released."""

import random
import re
from collections import Counter
from itertools import product

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from cloakwork.accounting.events import cost
from cloakwork.accounting.leaf_events import leaves_of
from cloakwork.base.arrays import Ints
from cloakwork.base.costs import Composed, DiscreteGaussian, DiscreteLaplace, Repeated
from cloakwork.base.facts import Facts, Unit
from cloakwork.base.records import BY_CHANCE
from cloakwork.engines.measured import measured_of
from cloakwork.errors import PlanUnsound
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.kernel import Books, Cases, Entries, Kernel, Laplace, vector_event, vectors_of
from cloakwork.kernel.vectors import Sums
from cloakwork.mechanisms.base import Offer, PartOfGoal
from cloakwork.mechanisms.variants.markov import (
    MOST_CELLS,
    SHARES,
    SHARES_OF_FEW,
    SPREAD,
    UNIT_NORM,
    MarkovParams,
    VariantMarkov,
    activities,
    codes_after,
    transitions_of,
    variant,
)
from cloakwork.noise import reproducible
from cloakwork.testing import run_mechanism
from conftest import in_long_form, runs
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
    part = PartOfGoal(("control-flow",), 4.0, 5e-3)
    offer = VariantMarkov().offer_part(part, facts, {})
    assert isinstance(offer, Offer)
    variants = [[*(row % 20 * "a"), "b", *(row // 20 * "ba"), "b"] for row in range(800)]
    rows = pl.DataFrame({"variant": variants, "cases": 1})
    recorded = release(VariantMarkov(), offer.params, rows, reproducible(1)).recorded
    spent, charged = (
        Counter(type(leaf) for leaf, times in leaves_of(event) for _ in range(times))
        for event in (recorded, VariantMarkov().step(offer.params, facts).event)
    )
    assert spent == charged


@pytest.mark.usefixtures("few_turns")
@pytest.mark.parametrize(
    ("mu", "cases"),
    in_long_form(*product([3e-4, 3e-3, 0.03], [0, 1, 300])) or [(3e-4, 0), (3e-3, 1), (0.03, 300)],
)
def test_in_a_whole_log_with_declared_activities_no_release_is_empty(mu: float, cases: int) -> None:
    """However little there is to spend; and nothing is made of anything but declared labels."""
    offer = part_of(mu, Facts(alphabet=tuple("abcd")))
    rows = pl.DataFrame(
        {"variant": [list("abc")] * cases, "cases": [1] * cases}, schema=ROWS.schema
    )
    for seed in range(6):
        found = release(VariantMarkov(), offer.params, rows, reproducible(seed))
        assert found.table["cases"].sum() > 0
        assert {label for variant in found.table["variant"] for label in variant} <= set("abcd")


@pytest.mark.usefixtures("few_turns")
def test_a_chain_of_noise_alone_is_not_drawn_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is the release then taken for one that follows the log."""
    offer = part_of(3e-4, Facts(alphabet=tuple("abcdefghijklmn"), longest_case=12))
    none = pl.DataFrame(schema=ROWS.schema)

    def by_chance() -> int:
        found = [release(VariantMarkov(), offer.params, none, reproducible(n)) for n in range(12)]
        return sum(bool(each.internal.get(BY_CHANCE)) for each in found)

    assert by_chance() >= 10
    monkeypatch.setattr("cloakwork.mechanisms.variants.markov.LEAST_START", 0.0)
    assert by_chance() <= 7


def part_of(mu: float, facts: Facts, **options: JsonValue) -> Offer[MarkovParams]:
    offer = VariantMarkov().offer_part(PartOfGoal(("control-flow",), mu, 1e-6), facts, options)
    assert isinstance(offer, Offer)
    return offer


def test_where_few_variants_would_be_released_more_is_spent_on_steps() -> None:
    """By the noise and the cases of a unit, which are public; what the policy sets goes first."""

    def on_frequent(offer: Offer[MarkovParams]) -> float:
        squares = [1 / sigma**2 for sigma in offer.params.sigmas]
        return squares[0] / sum(squares)

    facts = Facts(alphabet=("a", "b"))
    several = facts.model_copy(update={"unit": Unit(attribute="case:owner", max_cases=5)})
    assert on_frequent(part_of(0.16, facts)) == pytest.approx(SHARES[0])
    assert on_frequent(part_of(0.14, facts)) == pytest.approx(SHARES_OF_FEW[0])
    assert on_frequent(part_of(0.16, several)) == pytest.approx(SHARES_OF_FEW[0])
    assert on_frequent(part_of(0.14, facts, shares=[*SHARES])) == pytest.approx(SHARES[0])


def test_the_plan_of_a_whole_log_says_how_little_shows() -> None:
    """From declared facts alone, and only where it is little."""
    facts = Facts(alphabet=("a", "b"), units_at_most=5000)
    assert "so much noise" not in part_of(0.2, facts).why
    few = part_of(0.1, facts).why
    assert re.search(r"a variant needs about 1\d\d cases to be released, so more is spent", few)
    assert "LITTLE" not in few
    little = part_of(0.001, facts).why
    assert "of 5,000 cases hardly a step shows then, and the release says LITTLE more" in little
    undeclared = part_of(0.1, Facts()).why
    assert "the release may be empty: declare assume.alphabet" in undeclared


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
    for budget in ({"epsilon": 0.5, "delta": 1e-4}, *in_long_form({"epsilon": 4.0, "delta": 1e-4})):
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
    part = PartOfGoal(("control-flow",), 1.5, 5e-3)
    offer = VariantMarkov().offer_part(part, Facts(alphabet=("a",)), {})
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


# What one case adds to counted transitions.


LABELS = 4


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


ALPHABET = tuple(str(label) for label in range(1, LABELS + 1))
COURSES = st.lists(
    st.lists(st.integers(1, LABELS), min_size=1, max_size=300), min_size=1, max_size=5
)


def masses(variants: list[list[int]], order: int, cases: Ints | None = None) -> Sums:
    """The sums of the vectors of so many cases of each variant."""
    coded = Cases.of([tuple(map(str, labels)) for labels in variants], ALPHABET)
    weight = np.ones(len(variants), np.int64) if cases is None else cases
    return vectors_of(coded, transitions_of(order), SPREAD).sums(weight)


@given(COURSES, st.integers(1, 3))
@settings(max_examples=runs(40))
def test_one_case_has_at_most_norm_one_in_at_most_64_cells(
    variants: list[list[int]], order: int
) -> None:
    """Exactly, in integers: that is what the noise is charged for."""
    for labels in variants:
        mass = masses([labels], order).sums
        assert np.count_nonzero(mass) <= MOST_CELLS
        assert (mass >= 0).all()
        assert sum(int(step) ** 2 for step in mass) <= UNIT_NORM**2


@given(st.lists(st.integers(0, 99), min_size=1, max_size=300))
@settings(max_examples=runs(40))
def test_one_case_has_at_most_norm_one_over_activities(steps: list[int]) -> None:
    """In at most 64 of them, the first; and nearly norm one: each counts once."""
    cases = Cases.of([tuple(map(str, steps))], [str(label) for label in range(100)])
    mass = vectors_of(cases, activities, SPREAD).sums(np.ones(1, np.int64)).sums
    assert np.count_nonzero(mass) == min(len(set(steps)), MOST_CELLS)
    square = sum(int(each) ** 2 for each in mass)
    assert (UNIT_NORM - 64) ** 2 <= square <= UNIT_NORM**2


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
    whole = masses(variants, order, cases)
    parts = [masses([labels], order).at(whole.keys) for labels in variants]
    assert whole.sums.tolist() == (np.array(parts) * cases[:, None]).sum(axis=0).tolist()


@pytest.mark.parametrize("order", [1, 2, 3])
def test_transitions_are_those_of_the_variant(order: int) -> None:
    """Against plain counting, to within the rounding."""
    labels = [1, 2, 2, 3, 1, 2, 4, 4, 4]
    by_hand = mass_by_hand(labels, order)
    found = masses([labels], order)
    assert dict(zip(found.keys.tolist(), found.sums.tolist(), strict=True)) == {
        code: pytest.approx(mass, abs=1) for code, mass in by_hand.items()
    }


def test_codes_are_numbers_to_the_base() -> None:
    """START 1, then 1, 2 or END, over two labels."""
    assert codes_after([(0, 1)], 2).tolist() == [[4 + 1, 4 + 2, 4 + 3]]
    assert codes_after([(0,), (2,)], 2).tolist() == [[1, 2, 3], [9, 10, 11]]


def test_cases_without_events_count_for_nothing() -> None:
    """Whatever stands before or after them."""
    cases = Cases.of([(), ("1",), (), ("1", "2"), ()], ALPHABET)
    for query in (transitions_of(1), transitions_of(3), variant, activities):
        assert set(query(cases).case.tolist()) <= {1, 3}
    assert not len(transitions_of(2)(Cases.of([(), ()], ALPHABET)).case)


@pytest.mark.parametrize(("norm", "cells"), [(8192, 1), (8192, 64), (3 * 8192, 192), (5, 3)])
def test_a_vector_is_charged_for_no_less_than_its_norm(norm: int, cells: int) -> None:
    """Cells times the square of what each is charged for covers the square of the norm."""
    event = vector_event(5000.0, norm, cells)
    times, one = (event.times, event.event) if isinstance(event, Repeated) else (1, event)
    assert isinstance(one, DiscreteGaussian)
    assert times == cells
    assert times * one.sensitivity**2 >= norm**2
