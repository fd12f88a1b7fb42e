"""Keys that grow: one key a case and level, followed only where it was kept, each told once."""

import numpy as np
import pytest

from cloakwork.base.costs import DiscreteLaplace, Repeated
from cloakwork.errors import PlanUnsound
from cloakwork.kernel import Cases, Entries, Gaussian, Laplace, Truncated
from cloakwork.kernel.noises import selection_event
from cloakwork.noise import reproducible
from kernel.small import Silent, batch, kernel_of, measured

NOISE = Laplace(2.0)
LEVEL = DiscreteLaplace(scale=2.0)
LABELS = ("a", "b")


def at_place(place):
    """Each case's label at this place, by the labels' order; the case's end as the last number."""

    def query(cases):
        codes = np.full(len(cases), -1)
        here = cases.place == place
        codes[cases.case_of[here]] = cases.coded(LABELS)[here]
        codes[cases.lengths == place] = len(LABELS)
        return Entries.one_each(cases, codes)

    return query


def label_at(place):
    """The same as labels that occur: an entry without a run at the case's end."""

    def query(cases):
        rows = np.flatnonzero(cases.lengths >= place)
        start = cases.offsets[:-1][rows] + place
        stop = np.minimum(start + 1, cases.offsets[1:][rows])
        return Entries(rows, np.ones(len(rows), np.int64), None, start, stop)

    return query


def growth(variants, counts=None, levels=3, delta=0.0, noise=None, max_cases=1):
    events = [Repeated(times=levels, event=DiscreteLaplace(scale=2.0, sensitivity=max_cases))]
    if delta:
        events.append(selection_event(delta))
    kernel = kernel_of(
        measured(variants, counts), *events, noise=noise or Silent(), max_cases=max_cases
    )
    return kernel.grow(delta)


def told(level):
    """Noisy counts by parent and extension."""
    return {
        (int(parent), int(extension) if not level.labels else label_of(level, extension)): int(n)
        for parent, extension, n in zip(level.parent, level.extension, level.noisy, strict=True)
    }


def label_of(level, extension):
    return level.labels[extension] if extension >= 0 else None


def test_every_extension_of_what_was_kept_is_counted():
    tree = growth(["ab", "aa", "b", "zb"], [5, 3, 2, 9])
    level = tree.declared(at_place(0), NOISE, 3)
    assert told(level) == {(0, 0): 8, (0, 1): 2, (0, 2): 0}
    tree.keep(np.array([0, 1]))
    level = tree.declared(at_place(1), NOISE, 3)
    assert told(level) == {(0, 0): 3, (0, 1): 5, (0, 2): 0, (1, 0): 0, (1, 1): 0, (1, 2): 2}
    # What was not kept is followed no further.
    tree.keep(np.array([5]))
    level = tree.declared(at_place(1), NOISE, 3)
    assert told(level) == {(0, 0): 0, (0, 1): 0, (0, 2): 2}


def test_what_occurs_is_counted_by_its_labels():
    tree = growth(["ab", "aa", "b", "", "zb"], [50, 30, 20, 40, 19], delta=1e-3)
    level = tree.occurring(label_at(0), NOISE, 20)
    assert level.labels == ("a", "b")
    assert told(level) == {(0, None): 40, (0, "a"): 80, (0, "b"): 20}
    tree.keep(np.array([1]))
    assert told(tree.occurring(label_at(1), NOISE, 20)) == {(0, "a"): 30, (0, "b"): 50}


def test_labels_that_are_not_told_are_not_shown():
    """Neither by name nor by their number."""
    for hidden in (["z"], ["0"], []):
        tree = growth(["a", "b", *hidden], [50, 60, 3][: 2 + len(hidden)], delta=1e-3)
        level = tree.occurring(label_at(0), NOISE, 20)
        assert (level.labels, level.extension.tolist()) == (("a", "b"), [0, 1])


def test_counts_do_not_depend_on_the_order_of_cases():
    variants = ["ab", "b", "aa"]
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        tree = growth([variants[row] for row in order], [[5, 2, 3][row] for row in order])
        assert tree.declared(at_place(0), NOISE, 3).noisy.tolist() == [8, 2, 0]
        tree.keep(np.array([0]))
        assert tree.declared(at_place(1), NOISE, 3).noisy.tolist() == [3, 5, 0]


def test_every_level_is_charged_before_it_is_told():
    noise = Silent()
    tree = growth(["ab"], levels=1, noise=noise)
    tree.declared(at_place(0), NOISE, 3)
    tree.keep(np.array([0]))
    drawn = list(noise.drawn)
    for ask in (
        lambda: tree.declared(at_place(1), NOISE, 3),
        lambda: tree.declared(at_place(1), Laplace(1.0), 3),
        lambda: tree.declared(at_place(1), Gaussian(2.0), 3),
    ):
        with pytest.raises(PlanUnsound):
            ask()
    assert noise.drawn == drawn


def test_a_threshold_may_not_spend_more_than_was_charged():
    """The chance of one unit's key alone; a kernel of units with many cases asks for more."""
    delta = NOISE.selection_delta(20, clip=growth_clip(), cases=2)
    tree = growth(["a"], delta=delta, max_cases=2)
    tree.occurring(label_at(0), NOISE, 20)
    for least, cases in ((19, 2), (20, 3)):
        with pytest.raises(PlanUnsound, match="more delta"):
            growth(["a"], delta=delta, max_cases=cases).occurring(label_at(0), NOISE, least)
    for wrong in (growth(["a"]), growth(["a"], delta=0.0)):
        with pytest.raises(PlanUnsound, match="more delta"):
            wrong.occurring(label_at(0), NOISE, 1000)


def growth_clip():
    from cloakwork.kernel import ONE

    return ONE


def test_a_threshold_under_the_bound_of_truncated_noise_is_refused():
    tree = growth(["a"], delta=0.1)
    with pytest.raises(PlanUnsound, match="more delta"):
        tree.occurring(label_at(0), Truncated(2.0, 30), 30)


@pytest.mark.parametrize("first", ["declared", "occurring"])
@pytest.mark.parametrize("second", ["declared", "occurring"])
def test_a_level_is_told_once(first, second):
    """Told twice, a key of one unit alone would have two chances, and only one is charged."""
    tree = growth(["a"], delta=0.01)
    ask = {
        "declared": lambda: tree.declared(at_place(0), NOISE, 3),
        "occurring": lambda: tree.occurring(label_at(0), NOISE, 20),
    }
    ask[first]()
    with pytest.raises(PlanUnsound, match="told once"):
        ask[second]()
    tree.keep(np.zeros(0, np.int64))
    ask[second]()


def test_keys_are_kept_once_a_level():
    tree = growth(["a"])
    with pytest.raises(PlanUnsound, match="kept once a level"):
        tree.keep(np.array([0]))
    tree.declared(at_place(0), NOISE, 3)
    tree.keep(np.array([0]))
    with pytest.raises(PlanUnsound, match="kept once a level"):
        tree.keep(np.array([0]))


@pytest.mark.parametrize("among", [[0, 0], [1, 0], [-1], [3], [0, 1, 3], [0, 1, 1]])
def test_an_extension_is_asked_for_once(among):
    """Twice would be two draws for one count; one too large, another key's count."""
    tree = growth(["ab", "b"])
    with pytest.raises(PlanUnsound, match="ascending order"):
        tree.declared(at_place(0), NOISE, 3, np.array(among))


def test_some_extensions_may_be_asked_for():
    tree = growth(["ab", "b"], [4, 2])
    level = tree.declared(at_place(0), NOISE, 3, np.array([1, 2]))
    assert told(level) == {(0, 1): 2, (0, 2): 0}
    tree.keep(np.array([0, 1]))
    assert told(tree.declared(at_place(1), NOISE, 3, np.array([2]))) == {(0, 2): 2, (1, 2): 0}
    tree.keep(np.zeros(0, np.int64))
    level = tree.declared(at_place(1), NOISE, 3)
    assert told(level) == {}


def test_a_case_has_one_extension_and_no_other():
    """The first of several; a number outside is none; values and further labels count for
    nothing.
    """

    def query(cases):
        return Entries(
            np.array([0, 0, 1, 2, 3]), np.array([-7, 1, 900, 1, 1]), np.array([1, 0, 0, -1, 3])
        )

    tree = growth(["a", "b", "aa", "bb"], [3, 5, 7, 9])
    assert told(tree.declared(query, NOISE, 3)) == {(0, 0): 5, (0, 1): 3, (0, 2): 0}

    def runs(cases):
        rows = np.arange(len(cases))
        return Entries(
            rows, np.ones(len(cases), np.int64), None, cases.offsets[:-1], cases.offsets[1:]
        )

    tree = growth(["ab", "ba"], [30, 50], delta=0.01)
    assert told(tree.occurring(runs, NOISE, 20)) == {(0, "a"): 30, (0, "b"): 50}


def test_a_case_that_a_query_fails_on_has_no_key():
    def fails_on_b(cases):
        if ("b",) in cases.variants():
            raise ValueError("b")
        return at_place(0)(cases)

    tree = growth(["a", "b", "ab"], [3, 5, 7])
    assert told(tree.declared(fails_on_b, NOISE, 3)) == {(0, 0): 10, (0, 1): 0, (0, 2): 0}


def test_an_empty_log_has_declared_keys_only():
    empty = measured([])
    assert isinstance(empty.cases, Cases)
    kernel = kernel_of(empty, Repeated(times=2, event=LEVEL), selection_event(0.01))
    tree = kernel.grow(0.01)
    assert tree.declared(at_place(0), NOISE, 3).noisy.tolist() == [0, 0, 0]
    tree.keep(np.array([0]))
    assert not len(tree.occurring(label_at(1), NOISE, 20).noisy)


def test_every_declared_key_has_noise_of_its_own():
    tree = growth(["a"], [100], noise=reproducible(1))
    level = tree.declared(at_place(0), NOISE, 3)
    drawn = level.noisy - [100, 0, 0]
    assert len({each for _ in range(3) for each in drawn.tolist()}) > 1
    assert batch(["a"]).alphabet == ("a",)
