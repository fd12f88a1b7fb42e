"""The handle asks what the plan lists, and nothing is drawn of anything else; sums with noise are
drawn once a key, when it is first read.
"""

import numpy as np
import pytest

from cloakwork.base.costs import (
    FREE,
    Composed,
    Cost,
    DiscreteGaussian,
    DiscreteLaplace,
    EpsilonDelta,
    NonPrivate,
    PoissonSampled,
    Repeated,
    TruncatedGeometric,
)
from cloakwork.errors import PlanUnsound
from cloakwork.kernel import (
    ONE,
    Books,
    Clip,
    CustomQuery,
    Entries,
    Gaussian,
    Kernel,
    Laplace,
    NoisySums,
    Truncated,
)
from cloakwork.kernel.noises import selection_event
from cloakwork.kernel.vectors import Sums, key_of
from cloakwork.noise import reproducible
from kernel.small import Silent, batch, case_by_case, kernel_of, measured

LAPLACE = DiscreteLaplace(scale=2.0)
SEEN = measured(["ab", "a", "b"], [40, 30, 5])


def count_all(cases):
    return Entries.one_each(cases)


def by_length(cases):
    return Entries.one_each(cases, cases.lengths)


LARGEST = CustomQuery("largest", lambda counts: counts[-1:], 1, 1, "one count moves by one")
BUDGET = Cost(epsilon=1.0, delta=0.0)

ASKED = {
    "sum": lambda kernel: kernel.sum(by_length, Laplace(2.0)).at(np.arange(3)),
    "select": lambda kernel: kernel.select(Entries.of_variants, Laplace(2.0), 20),
    "grow": lambda kernel: kernel.grow(0.01),
    "level": lambda kernel: kernel.grow().declared(count_all, Laplace(2.0), 1),
    "samples": lambda kernel: kernel.sample_sums(by_length, Laplace(2.0), 0.5, 4, 3),
    "custom": lambda kernel: kernel.custom(LARGEST, Laplace(2.0)),
    "branch": lambda kernel: kernel.branch(DiscreteLaplace(scale=1.0), BUDGET),
    "raw": lambda kernel: kernel.raw(),
}

EVENTS = {
    "sum": LAPLACE,
    "select": Composed(events=(LAPLACE, selection_event(Laplace(2.0).selection_delta(20, ONE, 1)))),
    "grow": EpsilonDelta(epsilon=0.0, delta=0.01),
    "level": LAPLACE,
    "samples": Repeated(times=4, event=PoissonSampled(rate=0.5, event=LAPLACE)),
    "custom": LAPLACE,
    "branch": EpsilonDelta(epsilon=1.0),
    "raw": NonPrivate(reason="the raw counts are looked at"),
}


def seen_by(name):
    if name == "samples":
        return measured(["ab", "a", "b"], [4, 3, 5], owners=([0, 1, 2], [0, 1, 2], [4, 3, 5]))
    return SEEN


@pytest.mark.parametrize("name", ASKED)
def test_what_was_answered_stands_in_the_books(name):
    kernel = kernel_of(seen_by(name), EVENTS[name])
    assert kernel.recorded == FREE
    ASKED[name](kernel)
    assert kernel.recorded == EVENTS[name]


@pytest.mark.parametrize("name", ASKED)
def test_a_question_that_the_plan_does_not_list_is_refused_before_any_draw(name):
    noise = Silent()
    kernel = kernel_of(seen_by(name), noise=noise)
    with pytest.raises(PlanUnsound):
        ASKED[name](kernel)
    assert noise.drawn == []
    assert kernel.recorded == FREE


@pytest.mark.parametrize("name", ASKED)
def test_a_question_is_answered_once(name):
    noise = Silent()
    kernel = kernel_of(seen_by(name), EVENTS[name], noise=noise)
    ASKED[name](kernel)
    drawn = len(noise.drawn)
    with pytest.raises(PlanUnsound):
        ASKED[name](kernel)
    assert len(noise.drawn) == drawn


@pytest.mark.parametrize("name", [name for name in ASKED if name not in {"grow", "raw", "branch"}])
def test_units_of_more_cases_are_charged_for(name):
    """A plan for units of one case does not cover units of two."""
    noise = Silent()
    kernel = kernel_of(seen_by(name), EVENTS[name], noise=noise, max_cases=2)
    with pytest.raises(PlanUnsound):
        ASKED[name](kernel)
    assert noise.drawn == []


def test_a_sum_has_noise_on_every_key():
    noise = Silent()
    sums = kernel_of(SEEN, LAPLACE, noise=noise).sum(by_length, Laplace(2.0), keys=4)
    assert noise.drawn == []
    assert sums.at(np.arange(4)).tolist() == [0, 35, 40, 0]
    assert noise.drawn == [("laplace", 2.0, 4)]


def test_a_sum_clips_every_case():
    """Whatever the query says: 40 cases of a million each count for 40 times the clip."""

    def million(cases):
        return Entries.one_each(cases, cases.lengths - 1)

    def shouting(cases):
        one = million(cases)
        return Entries(one.case, one.value * 10**6, one.code)

    event = DiscreteLaplace(scale=2.0, sensitivity=3)
    sums = kernel_of(SEEN, event).sum(shouting, Laplace(2.0), Clip("l1", 3, 1))
    assert sums.at(np.arange(2)).tolist() == [105, 120]


def test_keys_are_selected_from_their_threshold_on():
    event = EVENTS["select"]
    found = kernel_of(SEEN, event).select(Entries.of_variants, Laplace(2.0), 20)
    assert found.labels == (("a",), ("a", "b"))
    assert found.noisy.tolist() == [30, 40]
    assert found.codes.tolist() == [0, 0]


def test_the_order_of_what_was_selected_is_that_of_the_keys():
    """Not that of the log."""
    for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
        variants = [["ab", "a", "b"][row] for row in order]
        kernel = kernel_of(measured(variants, [90, 90, 90]), EVENTS["select"])
        found = kernel.select(Entries.of_variants, Laplace(2.0), 20)
        assert found.labels == (("a",), ("a", "b"), ("b",))


class Constant(Silent):
    """Noise of one value."""

    def __init__(self, value):
        super().__init__()
        self.value = value

    def laplace_values(self, scale, size):
        return super().laplace_values(scale, size) + self.value


@pytest.mark.parametrize(("noise", "labels"), [(-1, ()), (0, (("a",),)), (10**6, (("a",),))])
def test_a_key_that_no_case_counts_for_is_not_told(noise, labels):
    """Whatever the noise: entries of value 0, or below it, are no cases of a key."""

    def worth(variant):
        yield (0, {"a": 1, "b": 0, "c": -1}[variant[0]], 0, 1)

    seen = measured(["a", "b", "c"], [20, 50, 50])
    kernel = kernel_of(seen, EVENTS["select"], noise=Constant(noise))
    assert kernel.select(case_by_case(worth), Laplace(2.0), 20).labels == labels


@pytest.mark.parametrize("least", [-5, 0, 1])
def test_a_threshold_that_hides_nobody_is_refused(least):
    noise = Silent()
    kernel = kernel_of(SEEN, EVENTS["select"], noise=noise)
    with pytest.raises(PlanUnsound):
        kernel.select(Entries.of_variants, Laplace(2.0), least)
    assert noise.drawn == []


@pytest.mark.parametrize("least", [19, 18])
def test_a_threshold_below_the_planned_one_is_refused(least):
    with pytest.raises(PlanUnsound):
        kernel_of(SEEN, EVENTS["select"]).select(Entries.of_variants, Laplace(2.0), least)


def test_truncated_noise_selects_above_its_bound_only():
    event = TruncatedGeometric(scale=2.0, bound=30)
    found = kernel_of(SEEN, event).select(Entries.of_variants, Truncated(2.0, 30), 31)
    assert found.noisy.tolist() == [40]
    with pytest.raises(PlanUnsound, match="hides no key"):
        kernel_of(SEEN, event).select(Entries.of_variants, Truncated(2.0, 30), 30)


def test_gaussian_noise_is_drawn_where_it_is_planned():
    noise = Silent()
    kernel = kernel_of(SEEN, DiscreteGaussian(sigma=2.0), noise=noise)
    assert kernel.sum(count_all, Gaussian(2.0)).at(np.arange(1)).tolist() == [75]
    assert noise.drawn == [("gaussian", 2.0, 1)]


@pytest.mark.parametrize("drawn", [1.9, 1.0, 0.5])
def test_half_the_noise_is_refused(drawn):
    for ask in (
        lambda kernel: kernel.sum(count_all, Laplace(drawn)),
        lambda kernel: kernel.custom(LARGEST, Laplace(drawn)),
        lambda kernel: kernel.select(Entries.of_variants, Laplace(drawn), 40),
    ):
        with pytest.raises(PlanUnsound):
            ask(kernel_of(SEEN, EVENTS["select"]))


def test_a_failing_query_is_silent_and_costs_what_it_costs():
    """Of each case it fails on; the answer is noise where it fails on all."""

    def fails(cases):
        raise RuntimeError(cases.variants())

    def fails_on_rare(cases):
        if ("b",) in cases.variants():
            raise RuntimeError("b")
        return count_all(cases)

    kernel = kernel_of(SEEN, Repeated(times=2, event=LAPLACE))
    assert kernel.sum(fails, Laplace(2.0)).at(np.arange(1)).tolist() == [0]
    assert kernel.sum(fails_on_rare, Laplace(2.0)).at(np.arange(1)).tolist() == [70]
    assert kernel.recorded == Composed(events=(LAPLACE, LAPLACE))


def test_samples_hold_units_whole():
    """Both cases of a unit or none: their sums are equal in every sample, and differ between
    samples.
    """
    owners = ([0, 1, 0, 1], [0, 0, 1, 2], [1, 1, 1, 1])
    seen = measured(["a", "b"], [2, 2], owners=owners)
    event = Repeated(
        times=400,
        event=PoissonSampled(rate=0.5, event=DiscreteLaplace(scale=2.0, sensitivity=2)),
    )
    noise = Silent()
    kernel = kernel_of(seen, event, noise=noise, max_cases=2)

    def by_label(cases):
        return Entries.one_each(cases, cases.coded(("a", "b")))

    found = kernel.sample_sums(by_label, Laplace(2.0), 0.5, 400, 2)
    assert [(rate, size) for kind, rate, size in noise.drawn if kind == "coins"] == [(0.5, 3)] * 400
    # Unit 0 has a and b, unit 1 has a, unit 2 has b.
    assert {tuple(row) for row in found.tolist()} == {
        (a + both, b + both) for a in (0, 1) for b in (0, 1) for both in (0, 1)
    }


def test_samples_of_units_with_several_cases_need_the_units():
    """Where a unit has one case at most, each case is a unit."""
    kernel = kernel_of(SEEN, EVENTS["samples"])
    assert kernel.sample_sums(by_length, Laplace(2.0), 0.5, 4, 3).sum() > 0
    two = DiscreteLaplace(scale=2.0, sensitivity=2)
    event = Repeated(times=4, event=PoissonSampled(rate=0.5, event=two))
    with pytest.raises(PlanUnsound, match="must be granted"):
        kernel_of(SEEN, event, max_cases=2).sample_sums(by_length, Laplace(2.0), 0.5, 4, 3)


def test_a_lower_rate_fits_and_a_higher_does_not():
    seen = seen_by("samples")
    kernel_of(seen, EVENTS["samples"]).sample_sums(by_length, Laplace(2.0), 0.4, 4, 3)
    with pytest.raises(PlanUnsound):
        kernel_of(seen, EVENTS["samples"]).sample_sums(by_length, Laplace(2.0), 0.6, 4, 3)
    with pytest.raises(PlanUnsound):
        kernel_of(seen, EVENTS["samples"]).sample_sums(by_length, Laplace(2.0), 0.5, 5, 3)


def test_a_custom_question_sees_sorted_counts_alone():
    """No labels, no order of the log."""
    asked = []

    def compute(counts):
        asked.append(counts.tolist())
        return counts[:1]

    query = CustomQuery("least", compute, 1, 1, "")
    assert kernel_of(SEEN, LAPLACE).custom(query, Laplace(2.0)).tolist() == [5]
    assert asked == [[5, 30, 40]]


def test_a_custom_question_that_answers_something_else_is_noise_alone():
    query = CustomQuery("counts", lambda counts: counts, 2, 1, "")
    found = kernel_of(SEEN, LAPLACE, noise=Silent()).custom(query, Laplace(2.0))
    assert found.tolist() == [0, 0]


def test_a_custom_question_is_for_those_who_prove_it():
    query = CustomQuery("cases", lambda counts: counts.sum(keepdims=True), 1, 1, "")
    kernel = Kernel(SEEN, Books.of(LAPLACE), Silent(), 1, is_ours=False)
    with pytest.raises(PlanUnsound, match="asserted, and not enforced"):
        kernel.custom(query, Laplace(2.0))


def test_a_custom_question_is_charged_by_its_sensitivity():
    query = CustomQuery("twice", lambda counts: 2 * counts[-1:], 1, 2, "")
    with pytest.raises(PlanUnsound):
        kernel_of(SEEN, LAPLACE).custom(query, Laplace(2.0))
    event = DiscreteLaplace(scale=2.0, sensitivity=6)
    assert kernel_of(SEEN, event, max_cases=3).custom(query, Laplace(2.0)).tolist() == [80]


def test_a_branch_has_books_of_its_own():
    """It answers what it was charged for, within the budget that fills the slot."""
    kernel = kernel_of(SEEN, EpsilonDelta(epsilon=1.0))
    branch = kernel.branch(DiscreteLaplace(scale=1.0), BUDGET)
    branch.sum(count_all, Laplace(1.0))
    assert branch.recorded == DiscreteLaplace(scale=1.0)
    assert kernel.recorded == EpsilonDelta(epsilon=1.0)
    for asked in (kernel, branch):
        with pytest.raises(PlanUnsound):
            asked.sum(count_all, Laplace(1.0))


@pytest.mark.parametrize(
    ("event", "budget"),
    [
        (DiscreteLaplace(scale=0.99), BUDGET),
        (Repeated(times=2, event=DiscreteLaplace(scale=1.5)), BUDGET),
        (DiscreteGaussian(sigma=1e3), BUDGET),
        (NonPrivate(reason="raw"), BUDGET),
        (EpsilonDelta(epsilon=0.5, delta=1e-9), BUDGET),
        (DiscreteLaplace(scale=1.0), Cost(epsilon=1.1, delta=0.0)),
        (DiscreteLaplace(scale=1.0), Cost(epsilon=1.0, delta=0.1)),
    ],
)
def test_a_branch_keeps_to_its_budget(event, budget):
    """It costs no more than the budget, which fills a slot."""
    kernel = kernel_of(SEEN, EpsilonDelta(epsilon=1.0))
    with pytest.raises(PlanUnsound):
        kernel.branch(event, budget)
    assert kernel.recorded == FREE


def test_branches_are_charged_each():
    kernel = kernel_of(SEEN, EpsilonDelta(epsilon=1.0))
    kernel.branch(DiscreteLaplace(scale=1.0), BUDGET)
    with pytest.raises(PlanUnsound):
        kernel.branch(DiscreteLaplace(scale=1.0), BUDGET)


def test_the_raw_counts_are_there_only_without_a_claim():
    kernel = kernel_of(SEEN, NonPrivate(reason="published"))
    assert kernel.raw() is SEEN
    with pytest.raises(PlanUnsound):
        kernel_of(SEEN, LAPLACE, EpsilonDelta(epsilon=100.0, delta=0.5)).raw()


def test_an_empty_log_has_answers():
    empty = measured([], owners=([], [], []))
    kernel = kernel_of(empty, *EVENTS.values())
    assert kernel.sum(by_length, Laplace(2.0)).at(np.arange(3)).tolist() == [0, 0, 0]
    assert kernel.sample_sums(by_length, Laplace(2.0), 0.5, 4, 3).tolist() == [[0, 0, 0]] * 4
    assert kernel.select(Entries.of_variants, Laplace(2.0), 20).labels == ()
    assert len(batch([])) == 0


def sums_of(keys, sums, noise=None, declared=None):
    return NoisySums(
        Sums(keys, np.array(sums, np.int64)), Laplace(5.0), noise or Silent(), declared
    )


def numbered(noise=None, declared=None):
    """Sums of 30, 10 and 20 at the keys 2, 5 and 7."""
    return sums_of(np.array([2, 5, 7]), [30, 10, 20], noise, declared)


def labelled(noise=None):
    """Sums of 30 and 10 at two keys with labels."""
    return sums_of(sorted([key_of(0, ("a",)), key_of(1, ("a", "b"))]), [30, 10], noise)


def test_every_key_has_noise_and_keeps_it():
    sums = numbered(reproducible(1))
    keys = np.arange(-50, 50)
    first = sums.at(keys)
    assert len(set(first.tolist())) > 10
    assert (sums.at(keys) == first).all()
    assert (sums.at(keys[::-7]) == first[::-7]).all()
    assert (sums.at(np.tile(keys, (2, 1))) == first).all()


def test_noise_is_drawn_when_a_key_is_first_read():
    """As many draws as keys, whether a case has them or not."""
    noise = Silent()
    sums = numbered(noise)
    assert noise.drawn == []
    assert sums.at(np.array([7, 3, 7])).tolist() == [20, 0, 20]
    assert sums.at(np.array([2, 7])).tolist() == [30, 20]
    assert [size for _, _, size in noise.drawn] == [2, 1]
    assert sums.at(np.zeros((0, 3), int)).shape == (0, 3)


def test_keys_with_labels_have_noise_and_keep_it():
    noise = Silent()
    sums = labelled(noise)
    asked = [(1, ("a", "b")), (0, ("b",)), (1, ("a", "b"))]
    assert sums.at_labels(asked).tolist() == [10, 0, 10]
    assert sums.at_labels([(0, ("b",)), (0, ("a",))]).tolist() == [0, 30]
    assert [size for _, _, size in noise.drawn] == [2, 1]
    drawn = labelled(reproducible(2))
    first = drawn.at_labels(asked)
    assert first[0] == first[2]
    assert (drawn.at_labels(asked[::-1]) == first[::-1]).all()
    assert labelled().at(np.array([0, 1])).tolist() == [0, 0]


def test_keys_that_are_not_declared_are_refused():
    sums = numbered(declared=8)
    assert sums.at(np.arange(8)).tolist() == [0, 0, 30, 0, 0, 10, 0, 20]
    for code in (-1, 8):
        with pytest.raises(PlanUnsound, match="outside of the 8"):
            sums.at(np.array([0, code]))
    with pytest.raises(PlanUnsound, match="declared to be numbers"):
        sums.at_labels([(0, ("a",))])


def test_a_number_has_one_place_to_be_read():
    """Else it would have two draws: its mean has less noise than was charged."""
    with pytest.raises(PlanUnsound, match="without labels"):
        numbered().at_labels([(2, ())])
