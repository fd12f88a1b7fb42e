"""Every question that a mechanism asks, over a whole small universe (``privacy.md`` 9).

Sums and selections: all that one unit can contribute, of two cases with up to three events of three
labels each. Keys that grow, and custom questions: all pairs of neighbouring logs of at most two
units (in the long form three), of one case with up to two events of two labels each.
"""

import os
from collections import Counter
from copy import copy
from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest

from cloakwork.kernel import CustomQuery, Kernel
from cloakwork.kernel.vectors import key_of, sampled_sums
from kernel.asking import (
    NOTHING,
    PROFILE,
    UNIVERSE,
    Open,
    noise_that_is_none,
    questions,
    questions_about_columns,
    that_measure,
)
from kernel.gaps import universe, with_columns
from kernel.small import Silent, all_variants, batch, measured, size_of
from kernel.test_growth import at_place, label_at

LONG = "CLOAKWORK_RUNS" in os.environ

SMALL = sorted(all_variants("ab", 2))
MOST = 3 if LONG else 2
LOGS = [log for units in range(MOST + 1) for log in combinations_with_replacement(SMALL, units)]
"""Of at most so many units with one case each."""

NEIGHBOURS = [
    (log, tuple(sorted((*log, case)))) for log in LOGS if len(log) < MOST for case in SMALL
]


def seen(log):
    """What a kernel answers from, of a log as a list of cases."""
    counts = Counter(log)
    return measured(list(counts), list(counts.values()))


def difference(one, other):
    """What two tables of numbers differ by, where they do."""
    return [other.get(key, 0) - one.get(key, 0) for key in one.keys() | other.keys()]


def distinct(asked):
    """Questions, each once: the same function, clip and labels come many times."""
    found = {}
    for each in asked:
        code = getattr(each.query, "__code__", each.query)
        cells = getattr(each.query, "__closure__", None) or ()
        held = tuple(str(cell.cell_contents) for cell in cells)
        found.setdefault((each.how, code, held, str(each.narrowed), each.clip), each)
    return list(found.values())


@pytest.fixture(scope="module", autouse=True)
def _without_noise():
    with noise_that_is_none():
        yield


@pytest.fixture(scope="module", params=[*that_measure(), PROFILE])
def asked(request):
    """The name of a mechanism, and what it asks."""
    return request.param, questions(request.param)


def test_exhaust_every_mechanism_asks(asked):
    """So that what follows is not about nothing."""
    name, questions = asked
    assert questions, name
    known = {"sum", "select", "choose", "sample_sums", "custom", "declared", "occurring", "keep"}
    # A step takes whatever gradient it is given: test_gradients.py exhausts it.
    known.add("steps")
    assert {each.how for each in questions} <= known


def test_exhaust_sums_of_one_unit(asked):
    """Whatever two cases a unit has, they move a sum by at most twice its clip, in its norm; and
    each case finds the same by itself as among all others.
    """
    _, questions = asked
    summed = {"sum", "select", "choose", "sample_sums"}
    for each in distinct(one for one in questions if one.how in summed):
        clip = each.clip
        alone = {case: each.sums(seen([case])) for case in UNIVERSE}
        for vector in alone.values():
            assert len(vector) <= clip.cells
        bound = (2 * clip.most) ** 2 if clip.norm == "l2" else 2 * clip.most
        if clip.sampled:
            # A case draws for itself: what it finds is within the clip, and no more is fixed.
            vectors = each.vectors(each.seen_by(seen(UNIVERSE)))
            for pair in combinations_with_replacement(range(len(UNIVERSE)), 2):
                weight = np.bincount(pair, minlength=len(UNIVERSE))
                moved = sampled_sums(vectors, clip, weight, Silent()).sums
                assert size_of(moved.tolist(), clip.norm) <= bound
            continue
        everything = added([each.sums(seen(UNIVERSE))])
        assert everything == added(alone.values())
        assert_pairs_within(clip, as_rows([added([vector]) for vector in alone.values()]))
        # The whole way, on top of all other cases, for some of the pairs.
        pairs = list(combinations_with_replacement(UNIVERSE, 2))
        for pair in pairs[:: 1 if LONG else 97]:
            with_pair = each.sums(seen([*UNIVERSE, *pair]))
            moved = {k: v for k, v in added(alone[case] for case in pair).items() if v}
            assert added([everything, moved]) == added([with_pair])


GAPS = universe("az", 3) if LONG else sorted({*universe("a", 3), *universe("az", 2)}, key=repr)
"""All cases of up to three events, of up to two where they have two labels, with ties, missing
values, two roles and two ages: some millions of pairs.
"""

WHOLE = with_columns(GAPS)


@pytest.fixture(scope="module")
def asked_of_columns():
    """What the toy asks that is granted times and attributes."""
    return questions_about_columns()


def test_exhaust_questions_about_columns(asked_of_columns):
    """So that what follows is not about nothing."""
    assert [each.how for each in asked_of_columns] == ["sum", "sum", "select", "sum"]


@pytest.mark.parametrize("place", range(4))
def test_exhaust_sums_of_one_unit_with_columns(asked_of_columns, place):
    """Whatever two cases a unit has, by gaps, ties, missing values and texts, they move a sum by at
    most twice its clip; and each case finds the same by itself as in any company.
    """
    each, clip = asked_of_columns[place], asked_of_columns[place].clip
    keys, vectors = table_of(each, np.arange(len(GAPS)))
    column = {key: place for place, key in enumerate(keys)}
    random = np.random.default_rng(1)
    alone, *companies = np.array_split(random.permutation(len(GAPS)), 60)
    for rows in [*alone[:, None], *companies]:
        own, found = table_of(each, rows)
        expected = vectors[rows]
        assert (found == expected[:, [column[key] for key in own]]).all()
        assert np.count_nonzero(found) == np.count_nonzero(expected)
    assert (np.count_nonzero(vectors, axis=1) <= clip.cells).all()
    distinct = np.unique(vectors, axis=0)
    assert_pairs_within(clip, distinct)
    # Cases for which more is found than counts: else clipping was not about anything.
    most = clip.most**2 if clip.norm == "l2" else clip.most
    assert 0.9 * most <= max(size_of(vector, clip.norm) for vector in distinct.tolist()) <= most
    # The whole way, and on top of all other cases for some of the pairs.
    everything = added([dict(zip(keys, vectors.sum(0).tolist(), strict=True))])
    assert added([each.sums(WHOLE)]) == everything
    for pair in random.integers(0, len(GAPS), (12, 2)):
        moved = dict(zip(keys, vectors[pair].sum(0).tolist(), strict=True))
        with_pair = each.sums(with_columns([*GAPS, *(GAPS[row] for row in pair)]))
        assert added([everything, moved]) == added([with_pair])


def as_rows(vectors):
    """Tables of numbers as rows of one array: int64, shape (tables, keys)."""
    column = {key: place for place, key in enumerate({key for each in vectors for key in each})}
    rows = np.zeros((len(vectors), max(1, len(column))), np.int64)
    for row, vector in enumerate(vectors):
        for key, value in vector.items():
            rows[row, column[key]] = value
    return rows


def assert_pairs_within(clip, vectors):
    """Any two of the cases with these vectors, one of them twice too, move a sum by at most twice
    the clip.
    """
    for row in range(len(vectors)):
        moved = np.abs(vectors[row] + vectors[row:])
        if clip.norm == "l2":
            assert (moved * moved).sum(1).max() <= (2 * clip.most) ** 2
        elif clip.norm == "l1":
            assert moved.sum(1).max() <= 2 * clip.most
        else:
            assert moved.max() <= 2 * clip.most
        assert (moved > 0).sum(1).max() <= 2 * clip.cells


def table_of(each, rows):
    """The keys that a question finds in these cases of the universe, and what each case has of
    them: int64, shape (cases, keys).
    """
    found = each.vectors(WHOLE.cases.take(rows))
    values = np.zeros((len(rows), len(found.keys)), np.int64)
    values[found.case, found.key] = found.value
    return [key if isinstance(key, bytes) else key_of(int(key), ()) for key in found.keys], values


def added(vectors):
    """The sum of tables of numbers, without zeros; keys that are numbers, spelled out or not."""
    total = Counter()
    for vector in vectors:
        for key, value in vector.items():
            # A number is the same key, whether other keys of the batch have labels or not.
            is_number = isinstance(key, bytes) and len(key) == 8
            total[int.from_bytes(key, "big", signed=True) if is_number else key] += value
    return {key: value for key, value in total.items() if value}


def test_exhaust_levels(asked):
    """Of keys that grow by what a mechanism asks: one case more changes one count by one."""
    _, questions = asked
    for each in distinct(one for one in questions if one.how in {"declared", "occurring"}):
        levels = {log: each.level(seen(log)) for log in LOGS}
        for one, other in NEIGHBOURS:
            assert size_of(difference(levels[one], levels[other]), "l1") <= 1


def test_exhaust_custom_questions(asked):
    """One case more changes the numbers by no more than declared."""
    _, questions = asked
    for each in questions:
        if each.how == "custom":
            assert not list(faults(each.query)), each.query.name


MOST_CASES = 24 if LONG else 14


def partitions(total, most=None):
    """All ways in which so many cases may be spread over variants, ascending."""
    if total == 0:
        yield ()
    for last in range(min(total, most or total), 0, -1):
        for rest in partitions(total - last, last):
            yield (*rest, last)


def faults(query, most_cases=MOST_CASES):
    """Where a custom question moves by more than it says, fails, or answers twice differently; one
    line each.

    It sees how many cases each variant has, and no more. So beside the small logs, all logs of up
    to ``most_cases`` cases are tried: layers that begin further up are reached.
    """
    answers = {}
    logs = {spread for n in range(most_cases + 1) for spread in partitions(n)}
    for counts in sorted(logs, key=len):
        try:
            first, second = (query.compute(np.array(counts, np.int64)) for _ in range(2))
        except Exception as error:
            yield f"{counts}: {error!r}"
            return
        if np.shape(first) != (query.size,) or not np.array_equal(first, second):
            yield f"{counts}: {first}, then {second}"
            return
        answers[counts] = np.asarray(first, np.int64)
    for counts in logs:
        for more in one_case_more(counts):
            if more in answers:
                moved = np.abs(answers[more] - answers[counts]).sum()
                if moved > query.sensitivity:
                    yield f"{counts} and {more} differ by {moved}, not {query.sensitivity}"


def one_case_more(counts):
    """The counts with one case more, of a variant that is there or of a new one."""
    yield tuple(sorted((*counts, 1)))
    for row in range(len(counts)):
        yield tuple(sorted((*counts[:row], counts[row] + 1, *counts[row + 1 :])))


def layers(counts, lower, upper):
    """Cases up to ``lower`` of their variant, up to ``upper``, and beyond."""
    first, second = np.minimum(counts, lower).sum(), np.minimum(counts, upper).sum()
    return np.array([first, second - first, counts.sum() - second])


def custom(compute, size, sensitivity):
    return CustomQuery("a question", compute, size, sensitivity, "claimed")


SOUND = {
    "cases": custom(lambda counts: np.array([counts.sum()]), 1, 1),
    "variants": custom(lambda counts: np.array([len(counts)]), 1, 1),
    "largest": custom(lambda counts: np.array([counts.max(initial=0)]), 1, 1),
    "two largest": custom(lambda counts: np.array([counts[-2:].sum()]), 1, 1),
    "layers": custom(lambda counts: layers(counts, 2, 5), 3, 1),
    "singles": custom(lambda counts: np.array([(counts == 1).sum()]), 1, 1),
    "by size": custom(lambda counts: np.bincount(np.minimum(counts, 4), minlength=5)[1:], 4, 2),
}

PLANTED = {
    "the number of variants, squared": custom(lambda counts: np.array([len(counts) ** 2]), 1, 1),
    "the median": custom(
        lambda counts: np.array([int(np.median(counts)) if len(counts) else 0]), 1, 1
    ),
    "layers that overlap by one": custom(
        lambda counts: np.add(layers(counts, 2, 5), [0, (counts > 1).sum(), 0]), 3, 1
    ),
    "differences without their sign": custom(
        lambda counts: np.array([np.abs(np.diff(counts)).sum(), counts.sum()]), 2, 2
    ),
    "a histogram of sizes, each move charged once": custom(
        lambda counts: np.bincount(np.minimum(counts, 4), minlength=5)[1:], 4, 1
    ),
    "three sums of the largest, charged as one": custom(
        lambda counts: np.array([counts[-k:].sum() for k in (1, 2, 3)]), 3, 1
    ),
    "the largest of a log that has one": custom(lambda counts: np.array([counts.max()]), 1, 1),
    "as many numbers as variants": custom(lambda counts: counts, 2, 1),
    "a mean that is rounded": custom(
        lambda counts: np.array([round(counts.sum() ** 2 / max(1, len(counts)))]), 1, 1
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_exhaust_passes_sound_questions(name):
    assert not list(faults(SOUND[name]))


@pytest.mark.parametrize("name", PLANTED)
def test_exhaust_finds_a_planted_fault(name):
    assert list(faults(PLANTED[name]))


def test_exhaust_finds_a_question_that_keeps_state():
    calls = []

    def compute(counts):
        calls.append(len(counts))
        return np.array([len(calls)])

    assert list(faults(custom(compute, 1, 1)))


@pytest.mark.parametrize("name", SOUND)
def test_exhaust_custom_questions_of_a_kernel(name):
    """All neighbouring logs, through the kernel: it hands on counts, and no more."""
    query = SOUND[name]

    def answer(log):
        return Kernel(seen(log), Open({}), Silent(), 1).custom(query, NOTHING)

    answers = {log: answer(log) for log in LOGS}
    for one, other in NEIGHBOURS:
        assert np.abs(answers[one] - answers[other]).sum() <= query.sensitivity


class Tree:
    """Keys that grow over one log, by names that hold for any log."""

    def __init__(self, log, is_declared):
        self.is_declared = is_declared
        self.growth = Kernel(seen(log), Open({}), Silent(), 1).grow()
        self.kept = [()]

    def level(self, depth):
        """The counts of the next level, by path."""
        if self.is_declared:
            told = self.growth.declared(at_place(depth), NOTHING, 3)
            names = ["ab."[code] for code in told.extension]
        else:
            told = self.growth.occurring(label_at(depth), NOTHING, 1)
            names = [told.labels[code] if code >= 0 else "." for code in told.extension]
        parents = told.parent.tolist()
        self.paths = [(*self.kept[row], name) for row, name in zip(parents, names, strict=True)]
        return dict(zip(self.paths, told.noisy.tolist(), strict=True))

    def keep(self, chosen):
        """A tree that goes on with these paths, so far as they were told; this one may go on with
        others.
        """
        tree = copy(self)
        tree.growth = copy(self.growth)
        rows = [row for row, path in enumerate(self.paths) if path in chosen]
        tree.kept = [self.paths[row] for row in rows]
        tree.growth.keep(np.array(rows, np.int64))
        return tree


def subsets(paths, whole):
    """All subsets; or none, all, and every other one."""
    if whole:
        return [each for n in range(len(paths) + 1) for each in combinations(paths, n)]
    return [(), tuple(paths), tuple(paths[::2]), tuple(paths[1::2])]


def levels_of(log, is_declared):
    """The counts of three levels, by all that may have been kept before."""
    found, trees = {}, {(): Tree(log, is_declared)}
    for depth in range(3):
        going_on = {}
        for kept, tree in trees.items():
            found[kept] = tree.level(depth)
            if depth == 2:
                continue
            below = [(*path, label) for path in (kept[-1] if kept else [()]) for label in "ab."]
            for chosen in subsets(below, whole=LONG or not kept):
                going_on[*kept, chosen] = tree.keep(chosen)
        trees = going_on
    return found


@pytest.mark.parametrize("is_declared", [True, False], ids=["declared", "occurring"])
def test_exhaust_growth(is_declared):
    """Whatever is kept, one case more changes one count of each level by one."""
    levels = {log: levels_of(log, is_declared) for log in LOGS}
    assert len(levels[()]) >= 1 + 8 + 29
    for one, other in NEIGHBOURS:
        for kept, before in levels[one].items():
            assert size_of(difference(before, levels[other][kept]), "l1") <= 1


def test_exhaust_the_universe_is_whole():
    """As large as was said."""
    assert len(UNIVERSE) == 1 + 3 + 9 + 27
    assert len(LOGS) == (120 if LONG else 36)
    assert len(NEIGHBOURS) == sum(7 for log in LOGS if len(log) < MOST)
    assert len(batch(UNIVERSE)) == 40
    assert len(set(product("ab", repeat=2))) == 4
