"""Times for cases that were made of noisy answers: by tables, and by regressions."""

from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloakwork.base.facts import Facts, Unit, Window
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.engines.measured import released_cases
from cloakwork.errors import PlanUnsound
from cloakwork.evaluation.one_mechanism import run_step
from cloakwork.kernel import Clip, Entries
from cloakwork.log.eventlog import TIMESTAMP, EventLog
from cloakwork.log.variants import log_of_variants
from cloakwork.mechanisms.base import Offer, PartOfGoal
from cloakwork.mechanisms.timestamps import histogram as modelled_times
from cloakwork.mechanisms.timestamps.histogram import ModelledTimes, TimestampHistogram
from cloakwork.mechanisms.timestamps.regression import TimestampRegression
from cloakwork.mechanisms.timestamps.tables import norm_charged
from cloakwork.noise import reproducible
from cloakwork.testing.contract_logs import (
    EVERY_GOAL,
    LOGS,
    assert_is_a_log,
    log_of,
)
from cloakwork.testing.queries import queries_collected

MECHANISM, REGRESSION = TimestampHistogram(), TimestampRegression()
ROME = timezone(timedelta(hours=1))
FACTS = Facts(
    window=Window(start=datetime(2019, 12, 1, tzinfo=UTC), end=datetime(2020, 12, 1, tzinfo=UTC)),
    longest_gap=timedelta(days=100),
)
DAYS = Facts(
    window=FACTS.window,
    longest_gap=timedelta(days=1000),
    grid=timedelta(days=1),
    epoch=datetime(2000, 1, 1, tzinfo=ROME),
)
MADE = log_of_variants(
    [("a", "b", "c"), ("a",), ("a", "c", "c", "d"), ("z", "y")], np.array([30, 4, 8, 2])
)
MISSING = log_of([["a", "b", "c"]] * 9, [[None] * 3] * 9)
SOME = log_of(
    [["a", "b", "c"]] * 9,
    [
        [datetime(2020, 1, day + 1, tzinfo=UTC), None, datetime(9000, 1, 1, tzinfo=UTC)]
        for day in range(9)
    ],
)
EQUAL = log_of([["a", "b", "c"]] * 9, [[datetime(1950, 1, 1, tzinfo=UTC)] * 3] * 9)
SOURCES = {
    "empty": LOGS["empty"],
    "no times": MISSING,
    "some times": SOME,
    "one time": EQUAL,
    "ordinary": LOGS["ordinary"],
}


def params(facts=FACTS, mu=0.5, mechanism=MECHANISM):
    found = mechanism.offer_part(PartOfGoal((TIMESTAMPS,), mu, 0.0), facts, {})
    assert isinstance(found, Offer), found
    return found.params


def release(log, facts=FACTS, mu=0.5, seed=1, made=MADE, mechanism=MECHANISM):
    chosen = params(facts, mu, mechanism)
    return run_step(mechanism, chosen, log, reproducible(seed), facts, released=made)


@pytest.mark.parametrize("mechanism", [MECHANISM, REGRESSION], ids=["histogram", "regression"])
def test_it_is_a_part_of_a_goal_and_none_by_itself(mechanism):
    """It writes times alone."""
    assert mechanism.serves_parts
    assert not mechanism.gives
    for goal in EVERY_GOAL:
        assert mechanism.offer(goal, FACTS, {}).kind == "never"
    both = PartOfGoal((TIMESTAMPS, "org:resource"), 0.5, 0.0)
    assert mechanism.offer_part(both, FACTS, {}).kind == "never"


@pytest.mark.usefixtures("few_turns")
@pytest.mark.parametrize(
    ("facts", "made"),
    [
        (FACTS, MADE),
        (DAYS, MADE),
        (Facts(), MADE),
        (DAYS, LOGS["cases without events"]),
        (Facts(), LOGS["empty"]),
    ],
    ids=["seconds", "days", "undeclared", "without events", "empty"],
)
@pytest.mark.parametrize("name", SOURCES)
def test_every_log_gives_times_in_order(name, facts, made):
    """No null, nothing descends, on the grid, order and number of events as they were."""
    after = release(SOURCES[name], facts, made=made)
    assert_is_a_log(after)
    assert after.events["concept:name"].equals(made.events["concept:name"])
    assert after.offsets.tolist() == made.offsets.tolist()
    times = after.events[TIMESTAMP]
    assert times.null_count() == 0
    epoch = facts.epoch.astimezone(UTC)
    assert all((time - epoch) % facts.grid == timedelta(0) for time in times.to_list())


INSTANTS = st.one_of(
    st.none(),
    st.integers(0, 500).map(lambda day: datetime(2019, 11, 1, tzinfo=UTC) + 1.1 * timedelta(day)),
    st.just(datetime(9000, 1, 1, tzinfo=UTC)),
)
SPANS = st.sampled_from([timedelta(days=days) for days in (0.001, 0.2, 9, 36525)])


@st.composite
def declared_facts(draw):
    start = datetime(2020, 1, 1, tzinfo=draw(st.sampled_from([UTC, ROME])))
    width = draw(st.sampled_from([timedelta(minutes=9), timedelta(days=3), timedelta(days=200)]))
    return Facts(
        window=Window(start=start, end=start + width),
        longest_gap=draw(SPANS),
        grid=draw(st.sampled_from([timedelta(seconds=1), timedelta(minutes=7), timedelta(days=1)])),
        epoch=draw(st.sampled_from([datetime(1970, 1, 1, tzinfo=UTC), DAYS.epoch])),
    )


def strays(after, facts):
    """What a release holds that its facts exclude: cases that start outside of the window (but for
    one step, where no step of the grid lies in it), gaps above the longest, times out of order.
    """
    found = []
    for start, stop in pairwise(after.offsets.tolist()):
        times = after.events[TIMESTAMP][start:stop].to_list()
        if times and not facts.window.start <= times[0] <= facts.window.end:
            late = times[0] - facts.window.start
            is_first = timedelta(0) <= late < facts.grid
            found += [] if is_first and facts.window.end < times[0] else [times[0]]
        gaps = [b - a for a, b in pairwise(times)]
        found += [gap for gap in gaps if not timedelta(0) <= gap <= facts.longest_gap]
    return found


@pytest.mark.usefixtures("few_turns")
@given(
    cases=st.lists(st.lists(st.tuples(st.sampled_from("abc"), INSTANTS), max_size=4), max_size=6),
    facts=declared_facts(),
    mu=st.sampled_from([0.02, 0.5, 50.0]),
    seed=st.integers(0, 99),
)
def test_what_is_declared_holds_of_whatever_is_released(cases, facts, mu, seed):
    """Starts in the window, no gap above the longest, none that is negative: for any log and any
    noise.
    """
    source = log_of([[a for a, _ in case] for case in cases], [[t for _, t in c] for c in cases])
    after = release(source, facts, mu, seed)
    assert after.events[TIMESTAMP].null_count() == 0
    assert not strays(after, facts)


def test_times_that_are_not_moved_into_what_is_declared_are_found(monkeypatch):
    """The counterpart of the test above."""
    wednesday = datetime(2020, 1, 8, tzinfo=UTC)
    window = Window(start=wednesday, end=wednesday + timedelta(days=2))
    facts = replace_facts(window=window, longest_gap=timedelta(days=9))
    assert not strays(release(office(500), facts, 0.05), facts)
    monkeypatch.setattr(ModelledTimes, "_as_declared", lambda self, steps: steps)
    assert strays(release(office(500), facts, 0.05), facts)


def test_times_are_readable():
    """A century of gaps ends before readers that count nanoseconds in 64 bits do."""
    made = log_of_variants([("a", "b") * 40], np.array([30]))
    facts = Facts(longest_gap=timedelta(days=36525))
    times = release(LOGS["ordinary"], facts, 0.02, made=made).events[TIMESTAMP]
    assert times.max() <= datetime(2262, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("mu", [0.25, 60.0])
def test_a_window_that_nobody_declared_is_found(mu):
    """Cases start in 20 weeks from January 2020 on: no released case starts half a year from it,
    and few in another period of 13 weeks.
    """
    after = release(office(2000), Facts(), mu)
    starts = after.events[TIMESTAMP].gather(after.offsets[:-1])
    assert starts.min() > datetime(2019, 6, 1, tzinfo=UTC)
    assert starts.max() < datetime(2021, 1, 1, tzinfo=UTC)
    likely = datetime(2019, 12, 1, tzinfo=UTC), datetime(2020, 7, 1, tzinfo=UTC)
    assert starts.is_between(*likely).mean() > 0.5
    gaps = after.events[TIMESTAMP].diff().drop_nulls()
    assert gaps.max() < timedelta(days=600)


def test_measuring_the_window_takes_its_share():
    """A twentieth of what the others get: their noise grows by the root of 1.05."""
    known, unknown = params(FACTS).sigmas, params(replace_facts(window=None)).sigmas
    assert "window" not in known
    assert set(unknown) - {"window"} == set(known)
    for name, sigma in known.items():
        assert unknown[name] == pytest.approx(sigma * 1.05**0.5, rel=1e-3)


def test_a_window_that_is_read_off_the_log_is_found(monkeypatch):
    """The counterpart whose window follows from how many events it sees, whatever the noise."""

    def measured(self):
        seen = [0]

        def telling(cases):
            seen.append(len(cases.codes))
            return Entries.one_each(cases)

        self._ask("window", telling, np.zeros(1, np.int64))
        start = datetime(2000, 1, 1, tzinfo=UTC) + timedelta(days=sum(seen))
        return Window(start=start, end=start + timedelta(days=30))

    assert disturbed_alike(LOGS["ordinary"], Facts())
    monkeypatch.setattr(ModelledTimes, "_measured_window", measured)
    assert not disturbed_alike(LOGS["ordinary"], Facts())


def replace_facts(**changes):
    return FACTS.model_copy(update=changes)


@pytest.mark.parametrize("m", [1, 5, 60])
@pytest.mark.parametrize("mu", [0.01, 0.25, 3.0])
def test_the_cost_is_the_mu_that_was_asked_for(mu, m):
    """Squares of the tables' ratios add up to it, and to hardly less."""
    facts = replace_facts(unit=Unit(attribute="case:who", max_cases=m))
    event = MECHANISM.step(params(facts, mu), facts).event
    sigmas = params(facts, mu).sigmas
    square = sum(
        (norm_charged(one) / sigma) ** 2
        for one, sigma in zip(event.events, sigmas.values(), strict=True)
    )
    assert 0.999 * mu**2 <= square <= mu**2
    whole = params(replace_facts(unit=Unit()), mu).sigmas
    assert all(sigmas[name] >= m * whole[name] * 0.999 for name in sigmas)


def disturbed_alike(log, facts=FACTS):
    """Whether a release is the same where queries are called on decoys, too."""
    plain = release(log, facts)
    with queries_collected(disturbed=True):
        return plain.events.equals(release(log, facts).events)


def test_pairs_of_the_log_instead_of_released_ones_are_found(monkeypatch):
    """The counterpart whose query tells which pairs occur, to read as many cells as these need."""
    honest = ModelledTimes._ask

    def ask(self, name, query, codes, *more):
        pairs = self.known.setdefault(f"pairs of {name}", set())

        def telling(cases):
            labels = cases.codes.tolist()
            pairs.update(pairwise(labels))
            return query(cases)

        noisy = honest(self, name, telling, codes, *more)
        noisy.flat[len(pairs) :] = 0
        return noisy

    monkeypatch.setattr(ModelledTimes, "_ask", ask)
    assert not disturbed_alike(LOGS["ordinary"])


def test_a_clip_that_is_left_out_is_refused(monkeypatch):
    """And so are raw counts, and a question that is asked twice."""
    clips = dict.fromkeys(modelled_times.CLIPS, Clip("l2", 1 << 24, 1 << 10))
    with monkeypatch.context() as patched:
        patched.setattr(modelled_times, "CLIPS", clips)
        with pytest.raises(PlanUnsound):
            release(LOGS["ordinary"])

    def raw(self, name, query, codes, *more):
        return self.kernel.raw()

    with monkeypatch.context() as patched:
        patched.setattr(ModelledTimes, "_ask", raw)
        with pytest.raises(PlanUnsound):
            release(LOGS["ordinary"])
    honest = ModelledTimes._ask

    def twice(self, *asked):
        first = honest(self, *asked)
        self.known.clear()
        return (first + honest(self, *asked)) / 2

    monkeypatch.setattr(ModelledTimes, "_ask", twice)
    with pytest.raises(PlanUnsound):
        release(LOGS["ordinary"])


def office(cases: int) -> EventLog:
    """Cases that begin on a Monday at nine; b follows a after some ten minutes, c after two days, d
    after twenty.
    """
    draw = np.random.default_rng(5)
    monday = datetime(2020, 1, 6, 9, tzinfo=UTC)
    sequences, times = [], []
    for case in range(cases):
        start = monday + timedelta(weeks=case % 20, minutes=float(draw.integers(50)))
        late = start + timedelta(minutes=float(draw.integers(8, 13)))
        end = late + timedelta(days=20 if case % 4 == 0 else 2)
        sequences.append(["a", "b", "d" if case % 4 == 0 else "c"])
        times.append([start, late, end])
    return log_of(sequences, times)


def test_times_look_like_those_of_the_log():
    """With hardly any noise: starts, gaps by pair, durations, hours."""
    source = office(2000)
    after = release(source, mu=60.0, made=source)
    table = after.events.with_columns(
        gap=pl.col(TIMESTAMP).diff(), before=pl.col("concept:name").shift()
    )
    for before, label, least, most in (
        ("a", "b", timedelta(minutes=6), timedelta(minutes=16)),
        ("b", "c", timedelta(days=1.3), timedelta(days=2.7)),
        ("b", "d", timedelta(days=15), timedelta(days=25)),
    ):
        found = table.filter(pl.col("concept:name") == label, pl.col("before") == before)["gap"]
        assert least < found.median() < most, (label, found.median())
    starts = after.events.filter(pl.col("concept:name") == "a")[TIMESTAMP]
    assert (starts.dt.weekday() == 1).mean() > 0.95
    assert (starts.dt.hour() == 9).mean() > 0.95


def test_days_are_those_of_the_clock():
    """Where the grid is a day that begins at 23:00 UTC, weekdays are kept."""
    source = log_of(
        [["a", "b"]] * 2000,
        [
            [
                datetime(2020, 1, 5, 23, tzinfo=UTC) + timedelta(weeks=case % 20),
                datetime(2020, 1, 9, 23, tzinfo=UTC) + timedelta(weeks=case % 20),
            ]
            for case in range(2000)
        ],
    )
    after = release(source, DAYS, mu=60.0, made=source)
    times = after.events[TIMESTAMP]
    assert set(times.dt.hour().to_list()) == {23}
    # Of Monday and Friday in Rome.
    weekdays = (times + timedelta(hours=1)).dt.weekday()
    assert weekdays.is_in([1, 5]).mean() > 0.95


def test_released_labels_alone_are_counted():
    """Events whose activity is not released are passed over: the gap from a to c is the whole."""
    source = office(2000)
    made = log_of_variants([("a", "c")], np.array([500]))
    after = release(source, mu=60.0, made=made)
    gaps = after.events.select(pl.col(TIMESTAMP).diff())[TIMESTAMP][1::2]
    assert timedelta(days=1.3) < gaps.median() < timedelta(days=2.7)


def test_an_event_without_a_time_counts_for_nothing():
    """Nor does what the code would see in its place."""
    entries = []

    def ask(self, name, query, codes, *more):
        entries.append((name, query))
        return np.zeros(codes.shape)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ModelledTimes, "_ask", ask)
        release(MISSING)
    cases = released_cases(MISSING, [CONTROL_FLOW, TIMESTAMPS])
    for _, query in entries:
        found: Entries = query(cases.within(("a", "b", "c", "d", "y", "z")))
        assert not len(found.case)


# Times whose durations follow a regression.


TWO_WAYS = log_of_variants([("a", "b"), ("a", "c"), ("a",)], np.array([150, 150, 4]))


def two_ways():
    """Cases that end in b take ten minutes, those that end in c forty days."""
    start = datetime(2020, 3, 2, 9, tzinfo=UTC)
    spans = [timedelta(minutes=10)] * 150 + [timedelta(days=40)] * 150
    variants = [["a", "b"]] * 150 + [["a", "c"]] * 150
    return log_of(variants, [[start, start + span] for span in spans])


def hours(log):
    """From the first to the last time of each case of two events: by its last activity."""
    times = log.events[TIMESTAMP].dt.timestamp("us").to_numpy() / 3.6e9
    last = log.offsets[1:][np.diff(log.offsets) > 1] - 1
    labels = log.events["concept:name"].cast(pl.String).to_numpy()[last]
    return {label: (times[last] - times[last - 1])[labels == label] for label in ("b", "c")}


def test_durations_follow_the_last_activity():
    """As they do in the log, at a moderate mu."""
    found = hours(release(two_ways(), made=TWO_WAYS, mechanism=REGRESSION))
    assert np.median(found["b"]) < 24
    assert 24 * 20 < np.median(found["c"]) < 24 * 80


@pytest.mark.parametrize(
    ("facts", "made"),
    [
        (DAYS.model_copy(update={"longest_gap": timedelta(days=2)}), TWO_WAYS),
        (Facts(unit=Unit(attribute="case:who", max_cases=2)), TWO_WAYS),
        (FACTS, log_of_variants([("a",)], np.array([5]))),
    ],
    ids=["two bins", "units", "no durations"],
)
def test_few_bins_undeclared_facts_and_units(facts, made):
    """A grid so coarse that there are two bins; units of two cases, whose owners no step needs;
    released cases of one event, so that no step is taken.
    """
    after = release(two_ways(), facts, made=made, mechanism=REGRESSION)
    assert after.events[TIMESTAMP].null_count() == 0
    assert (np.concatenate([*hours(after).values()]) >= 0).all()
