"""Values drawn from distributions, and which attributes belong together."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.base.naming import ACTIVITY, TIMESTAMP
from cloakwork.engines.measured import measured_cases
from cloakwork.evaluation.one_mechanism import run_step
from cloakwork.kernel import Cases, Randomness, vectors_of
from cloakwork.kernel.cases import Column, Columns, NotGranted
from cloakwork.mechanisms.aggregates import CaseRows
from cloakwork.mechanisms.attributes.contributions import SPREAD, UNIT_NORM
from cloakwork.mechanisms.attributes.domains import MeasuredAttribute
from cloakwork.mechanisms.attributes.drawing import (
    CLASSES,
    CaseClasses,
    Classes,
    Drawn,
    Edge,
    class_table,
    draw_values,
    first_values,
    forest,
    pairs_of,
    raked,
    with_copies,
    with_pairs,
    with_repeats,
    with_transitions,
)
from cloakwork.mechanisms.attributes.histogram import AttributesRegression
from cloakwork.mechanisms.attributes.tables import ValueShares
from cloakwork.mechanisms.base import PartOfGoal
from cloakwork.noise import reproducible
from cloakwork.testing.contract_logs import log_of
from mechanisms.attributes.enriching import MECHANISM, released_of

SHAPE = np.array([[0.5, 0.3, 0.2], [0.0, 0.0, 1.0]])


def randomness(seed=1):
    return Randomness(reproducible(seed))


def test_as_many_as_the_distribution_says_up_to_one():
    group = np.array([0] * 101 + [1] * 37 + [-1] * 5)
    for seed in range(20):
        drawn = draw_values(ValueShares(np.array([0.9, 1.0]), SHAPE), group, randomness(seed))
        times = np.bincount(drawn.codes[group == 0] + 1, minlength=4)
        expected = np.array([10.1, 45.45, 27.27, 18.18])
        assert (np.abs(times - expected) < 1).all()
        assert (drawn.codes[group == 1] == 2).all()
        assert (drawn.codes[group == -1] == -1).all()
        assert drawn.origin.tolist() == list(range(len(group)))


def test_what_is_rounded_is_right_on_average():
    """A value of less than one event is drawn now and then: 1,000 coins of .25, whose mean is off
    by .083 with probability below 1e-9 (six deviations).
    """
    source = randomness()
    found = ValueShares(np.ones(1), np.array([[0.25, 0.75]]))
    group = np.zeros(1, np.int64)
    ones = [draw_values(found, group, source).codes[0] == 0 for _ in range(1000)]
    assert np.mean(ones) == pytest.approx(0.25, abs=0.083)


def cases_of(lengths):
    return Cases.of([("a",) * length for length in lengths], ("a",))


def test_a_copied_value_is_the_case_s_first():
    cases = cases_of([3, 0, 2, 1])
    codes = np.array([-1, 2, 0, 1, 0, -1])
    found = with_copies(Drawn(codes, np.arange(6)), cases)
    assert found.codes.tolist() == [-1, 2, 2, 1, 1, -1]
    assert found.origin.tolist() == [0, 1, 1, 3, 3, 5]


@pytest.mark.parametrize("rate", [0.0, 0.5, 1.0])
def test_repeats_keep_the_values_of_each_group(rate):
    """And come about as often as they should."""
    cases = cases_of([5] * 400)
    source = randomness()
    group = np.tile([0, 1, 0, 1, 1], 400)
    shares = ValueShares(np.array([1.0, 0.8]), np.array([[0.25] * 4, [0.4, 0.2, 0.2, 0.2]]))
    before = draw_values(shares, group, source)
    after = with_repeats(before, cases, group, rate, source)
    for each in (0, 1):
        was, now = np.sort(before.codes[group == each]), np.sort(after.codes[group == each])
        assert was.tolist() == now.tolist()
    assert ((before.codes < 0) == (after.codes < 0)).all()
    known = np.flatnonzero(after.codes >= 0)
    follows = np.diff(cases.case_of[known]) == 0
    same = (np.diff(after.codes[known]) == 0)[follows].mean()
    chance = 0.25
    assert same == pytest.approx(chance + rate * (1 - chance), abs=0.12)
    # A copy comes from the row before that has a value, or from where that was copied.
    copied = after.origin != np.arange(len(group))
    assert copied.any() == (rate > 0)
    assert (after.codes[copied] == after.codes[after.origin[copied]]).all()
    assert (cases.case_of[copied] == cases.case_of[after.origin[copied]]).all()


LETTERS = tuple("abcdefgh")
FACTS = Facts(
    domains={"x": LETTERS, "y": LETTERS, "case:z": LETTERS}, ranges={"case:w": (0.0, 100.0)}
)
COLUMNS = ("x", "y", "case:z", "case:w")


def test_classes_of_numbers_are_in_their_order_and_of_others_by_frequency():
    numbers = MeasuredAttribute(name="n", domain=tuple(range(10)))
    assert class_table(numbers, np.full(10, 0.1)).tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 0]
    texts = MeasuredAttribute(name="t", domain=LETTERS)
    shares = np.array([0.0, 0.1, 0.05, 0.3, 0.2, 0.15, 0.02, 0.18])
    assert class_table(texts, shares).tolist() == [5, 5, 5, 1, 2, 4, 5, 3, 0]
    few = MeasuredAttribute(name="f", domain=(True, False))
    assert class_table(few, np.zeros(2)).tolist() == [1, 2, 0]
    assert class_table(numbers, np.zeros(10)).max() < CLASSES


def table(strength):
    """Two attributes of five classes each, of 1,000 cases."""
    even = np.full((CLASSES, CLASSES), 1000 / 25)
    even[0] = even[:, 0] = 0
    return strength * np.diag([0.0] + [200.0] * 5) + (1 - strength) * even


def test_a_forest_has_the_pairs_that_stand_out_most_and_no_circle():
    noise = np.random.default_rng(3)
    pairs = [(0, 1), (0, 2), (1, 2), (2, 3)]
    noisy = np.array([table(0.9), table(0.3), table(0.8), table(0.0)])
    edges = forest(pairs, noisy + noise.normal(0, 2, noisy.shape), 2.0, 4)
    assert {frozenset((edge.parent, edge.child)) for edge in edges} == {
        frozenset((0, 1)),
        frozenset((1, 2)),
    }
    assert edges[1].parent in (edges[0].parent, edges[0].child)


@pytest.mark.parametrize("seed", range(20))
def test_noise_alone_is_no_structure(seed):
    noisy = np.random.default_rng(seed).normal(0, 50, (6, CLASSES, CLASSES))
    pairs = [(one, other) for other in range(4) for one in range(other)]
    assert forest(pairs, noisy, 50.0, 4) == []


def test_what_cases_have_already_is_nobodys_child_and_an_attribute_goes_with_one_of_it():
    """Places 2 and 3 are known of each case: two of them would be a circle."""
    pairs = [(0, 1), (0, 2), (0, 3), (1, 2)]
    noisy = np.array([table(0.8), table(0.9), table(0.7), table(0.6)])
    found = forest(pairs, noisy, 0.1, 2)
    assert [(edge.parent, edge.child) for edge in found] == [(2, 0), (0, 1)]


def test_classes_of_cases():
    """Ends, lengths and durations in a few classes; 0 where a case has none of it."""
    cases = Cases.of([("a", "b"), ("a",), (), ("a", "z", "b")], ("a", "b", "z"))
    times = Column.of_times(
        np.array([5, 65, 7, 0, 1, 2]), np.array([False, False, False, True, True, True])
    )
    timed = replace(cases, columns=Columns({TIMESTAMPS: times}))
    found = CaseClasses.of_released(timed, timed=True)
    assert (len(found.ends), len(found.begins)) == (2, 2)
    first, last, lengths, durations = (each.tolist() for each in found.of(timed))
    assert first == [1, 1, 0, 1]
    assert last == [1, 2, 0, 1]
    assert sorted({*lengths} - {0}) == [1, 3, 5] or lengths[1] < lengths[0] < lengths[3]
    assert lengths[2] == 0
    # Of a case whose times are missing nothing is known; of one time, that it takes no time.
    assert durations[0] > durations[1] > 0
    assert durations[2:] == [0, 0]
    # Activities that no released case begins with are one class, and so are those that none has.
    other = replace(timed, alphabet=("new", "b", "z"))
    assert found.of(other)[0].tolist() == [CLASSES - 1, CLASSES - 1, 0, CLASSES - 1]
    with pytest.raises(NotGranted):
        found.of(cases)
    nothing = CaseClasses.of_released(Cases.of([], ()), timed=False)
    assert [each.max() < CLASSES for each in nothing.of(cases)] == [True] * 3


def slow_where_large(cases, seed):
    """A log in which a case takes as many minutes as its amount, and ends by it."""
    random = np.random.default_rng(seed)
    amount = np.minimum(np.exp(random.normal(6, 1, cases)), 9999.0)
    log = log_of([("a", "b", "large" if each > 900 else "small") for each in amount.tolist()])
    place = np.tile(np.arange(3), cases)
    begin = random.integers(0, 10**7, cases)[log.case_of] * 10**6
    minutes = place * amount[log.case_of] / 2 * np.exp(random.normal(0, 0.2, len(place)))
    times = pl.Series(begin + (minutes * 60e6).astype(np.int64)).cast(pl.Datetime("us", "UTC"))
    return replace(
        log,
        events=log.events.with_columns(times.alias(TIMESTAMP)),
        cases=log.cases.with_columns(pl.Series("case:amount", amount)),
    )


@pytest.mark.parametrize("timed", [True, False])
def test_large_amounts_take_longer_in_the_release_as_well(timed):
    """Where times are part of the goal; the broken twin does not measure them."""
    beside = (CONTROL_FLOW, TIMESTAMPS, "case:amount") if timed else ()
    facts = Facts(ranges={"case:amount": (0.0, 10_000.0)})
    mechanism = AttributesRegression()
    part = PartOfGoal(("case:amount",), 0.5, 0.0, beside=beside)
    params = mechanism.offer_part(part, facts, {}).params
    lineage = mechanism.step(params, facts).lineage
    assert (TIMESTAMPS in lineage.measures, TIMESTAMPS in lineage.reads) == (timed, timed)
    released = slow_where_large(2000, 2)
    # That cases end by their amount tells of it, too: the twin is shown cases that all end alike.
    released = replace(
        released,
        cases=released.cases.drop("case:amount"),
        events=released.events.with_columns(pl.lit("b").alias(ACTIVITY)),
    )
    log, noise = slow_where_large(2000, 1), reproducible(5)
    made = run_step(mechanism, params, log, noise, facts, released=released)
    times = made.events[TIMESTAMP].dt.timestamp("us").to_numpy()
    durations = times[made.offsets[1:] - 1] - times[made.offsets[:-1]]
    amount = made.cases["case:amount"].fill_null(0).to_numpy()
    ranks = [np.argsort(np.argsort(each)) for each in (durations, amount)]
    together = np.corrcoef(*ranks)[0, 1]
    assert together > 0.6 if timed else abs(together) < 0.15


def test_tables_are_raked_to_their_margins():
    rows, columns = np.array([10.0, 30.0, 0.0]), np.array([20.0, 15.0, 5.0])
    found = raked(np.eye(3) + 0.1, rows, columns)
    assert found.sum(axis=1) == pytest.approx(rows, abs=0.5)
    assert found.sum(axis=0) == pytest.approx(columns, abs=0.5)
    assert np.isfinite(raked(np.zeros((3, 3)), rows * 0, columns)).all()


def test_values_change_places_within_their_activity_alone():
    """And then go with the parent's."""
    cases = Cases.of([("a", "b")] * 300 + [("b",)] * 100, ("a", "b"))
    random = np.random.default_rng(4)
    x = np.where(cases.codes == 0, random.integers(0, 5, len(cases.codes)), -1)
    y = random.integers(0, 5, len(cases.codes))
    attributes = tuple(MeasuredAttribute(name=name, domain=LETTERS[:5]) for name in "xy")
    every = class_table(attributes[0], np.ones(5))
    classes = Classes(attributes, (every, every))
    edge = Edge(0, 1, table(1.0) + 1e-6)
    drawn = [Drawn(each, np.arange(len(each))) for each in (x, y)]
    found = with_pairs(drawn, [edge], classes, cases, Randomness(reproducible(1)))
    assert found[0].codes.tolist() == x.tolist()
    for label in (0, 1):
        was, now = (np.sort(each[cases.codes == label]) for each in (y, found[1].codes))
        assert was.tolist() == now.tolist()
    first = [first_values(attributes[0], cases, each.codes) for each in found]
    assert (first[0] == first[1])[:300].mean() > 0.8
    assert (y[cases.offsets[:300]] == first[0][:300]).mean() < 0.35


@pytest.mark.parametrize("parent", ["y", "case:y"])
@pytest.mark.parametrize("child", ["x", "case:x"])
def test_values_of_cases_and_of_events_change_places(parent, child):
    """Cases without events, events without a value, and cases with more events than there are
    cases, too.
    """
    cases = Cases.of([(), ("a",) * 9, ("b",), (), ("a", "b")], ("a", "b"))
    names = (parent, child)
    attributes = tuple(MeasuredAttribute(name=name, domain=(True, False)) for name in names)
    every = class_table(attributes[0], np.ones(2))
    drawn = []
    for name in names:
        size = len(cases) if ":" in name else len(cases.codes)
        drawn.append(Drawn(np.arange(size) % 3 - 1, np.arange(size)))
    edge, classes = Edge(0, 1, table(1.0)), Classes(attributes, (every, every))
    found = with_pairs(drawn, [edge], classes, cases, Randomness(reproducible(1)))
    for was, now in zip(drawn, found, strict=True):
        assert np.sort(was.codes).tolist() == np.sort(now.codes).tolist()


def test_values_follow_each_other_as_the_table_says():
    """And none changes its activity."""
    cases = Cases.of([("a", "b", "a", "b", "a")] * 200, ("a", "b"))
    source = Randomness(reproducible(2))
    codes = source.uniform(np.full(1000, 3)) - (source.uniform(np.full(1000, 10)) == 0) * 9
    drawn = Drawn(np.maximum(codes, -1), np.arange(1000))
    turning = np.roll(np.eye(3), 1, axis=1) * 300
    found = with_transitions(drawn, turning, cases, source)
    for label in (0, 1):
        was, now = (np.sort(each.codes[cases.codes == label]) for each in (drawn, found))
        assert was.tolist() == now.tolist()

    def share(codes):
        known = np.flatnonzero(codes >= 0)
        follows = np.diff(cases.case_of[known]) == 0
        return ((codes[known[1:]] - codes[known[:-1]]) % 3 == 1)[follows].mean()

    assert share(drawn.codes) < 0.45
    assert share(found.codes) > 0.75


def log_with_structure(cases=2000):
    """``y`` is ``x``, and ``case:z`` follows neither; ``case:w`` rises with ``x``."""
    log = log_of([("a", "b")] * cases)
    random = np.random.default_rng(9)
    letter = random.integers(0, 4, cases)
    x = [LETTERS[code] for code in np.repeat(letter, 2)]
    z = [LETTERS[code] for code in random.integers(0, 4, cases)]
    w = letter * 25.0 + random.random(cases) * 20 + 1
    events = log.events.with_columns(pl.Series("x", x), pl.Series("y", x))
    return replace(
        log,
        events=events,
        cases=log.cases.with_columns(pl.Series("case:z", z), pl.Series("case:w", w)),
    )


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_what_belongs_together_is_released_together(share):
    """Where it is not counted, attributes are independent."""
    offer = MECHANISM.offer_part(PartOfGoal(COLUMNS, 1.0, 0.0), FACTS, {})
    params = offer.params
    if not share:
        params = params.model_copy(update={"structure_sigma": None})
    log = log_with_structure()
    made = run_step(
        MECHANISM,
        params,
        log,
        reproducible(1),
        FACTS,
        released=released_of([("a", "b")], np.array([2000])),
    )
    first = made.events.gather(made.offsets[:-1])
    same = (first["x"] == first["y"]).mean()
    rising = np.corrcoef([LETTERS.index(x) for x in first["x"]], made.cases["case:w"])[0, 1]
    if share:
        assert same > 0.8
        assert rising > 0.7
    else:
        assert same < 0.4
        assert abs(rising) < 0.2


def test_a_case_has_one_cell_in_each_table():
    """A vector of norm 1 at most, whatever the case holds."""
    attributes = tuple(MeasuredAttribute(name=name, domain=LETTERS) for name in ("x", "y"))
    every = class_table(attributes[0], np.ones(len(LETTERS)))
    classes = Classes(attributes, (every, every))
    cases = measured_cases(log_with_structure(50), CaseRows(("x", "y")), reproducible(1)).cases
    pairs = [(0, 1), (1, 0), (0, 0)]
    found = vectors_of(cases, pairs_of(classes, pairs), SPREAD)
    squares = np.bincount(found.case, weights=found.value.astype(float) ** 2)
    assert (squares <= UNIT_NORM**2).all()
    assert (np.bincount(found.case) == 3).all()
    assert squares.min() > 0.999 * UNIT_NORM**2
