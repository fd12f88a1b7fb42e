"""All attacks on small logs, beside an oracle that counts by hand."""

import math
from collections import Counter
from datetime import UTC, datetime, timedelta
from inspect import unwrap
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cloakwork
from cloakwork.api import risk
from cloakwork.errors import LogError
from cloakwork.evaluation.coded import code_attributes, code_logs
from cloakwork.evaluation.knowledge import Target, who_is_found
from cloakwork.evaluation.risk import linking_releases
from cloakwork.log.eventlog import EventLog
from cloakwork.publishing.folder import pack_folder
from cloakwork.publishing.opened import opened_log
from cloakwork.testing.contract_logs import log_of

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)


def logs_of(letters: str, steps: int) -> st.SearchStrategy[list[tuple[list[str], int, list[int]]]]:
    """Sequences of ``letters``, whose steps take up to so many times 20 minutes."""
    cases = st.tuples(
        st.lists(st.sampled_from(letters), min_size=1, max_size=4),
        st.integers(0, 6 * steps),
        st.lists(st.integers(0, steps), min_size=4, max_size=4),
    )
    return st.lists(cases, min_size=1, max_size=8)


small_logs = logs_of("abc", 5)
repeating_logs = logs_of("aab", 1)
"""Often several events of an activity in one hour."""


def _log(cases: list[tuple[list[str], int, list[int]]]) -> EventLog:
    """Starts and steps in hours of ten minutes, so that some are in one hour."""
    times = []
    for labels, start, steps in cases:
        hours = start + np.cumsum(steps[: len(labels)]) - steps[0]
        times.append([BEGIN + timedelta(minutes=20 * int(hour)) for hour in hours])
    log = log_of([labels for labels, _, _ in cases], times)
    return EventLog(log.events, log.cases.select("case:concept:name"), log.offsets)


def _is_subsequence(known: list[str], labels: list[str]) -> bool:
    rest = iter(labels)
    return all(label in rest for label in known)


class _Oracle:
    """Every case compared with every other, from the definitions."""

    def __init__(self, log: EventLog) -> None:
        table = log.to_polars().partition_by("case:concept:name", maintain_order=True)
        self.labels = [list(each["concept:name"]) for each in table]
        self.times = [list(each["time:timestamp"]) for each in table]
        self.log = log

    def sizes(self, name: str, positions: list[list[int]]) -> list[int]:
        """How many cases fit what is known of each."""
        return [
            sum(
                self._fits(name, target, other, positions[target])
                for other in range(len(self.labels))
            )
            for target in range(len(self.labels))
        ]

    def _fits(self, name: str, target: int, other: int, places: list[int]) -> bool:
        mine, theirs = self.labels[target], self.labels[other]
        known = [mine[place] for place in places]
        hours = [self.times[target][place].replace(minute=0) for place in places]
        first = self.times[target][0], self.times[other][0]
        match name.partition("-")[0]:
            case "events":
                return not Counter(known) - Counter(theirs)
            case "order":
                return _is_subsequence(known, theirs)
            case "prefix":
                return mine[:3] == theirs[: len(mine[:3])]
            case "activities":
                return set(mine) == set(theirs)
            case "start":
                return first[0].replace(minute=0) == first[1].replace(minute=0)
            case "timed":
                there = [
                    (label, time.replace(minute=0))
                    for label, time in zip(theirs, self.times[other], strict=True)
                ]
                asked = list(zip(known, hours, strict=True))
                return any(asked == list(each) for each in permutations(there, len(asked)))
            case _:
                same = mine == theirs
                return same and (name == "sequence" or self.times[target] == self.times[other])


@given(small_logs)
def test_the_log_itself_is_attacked_as_well_as_by_brute_force(
    cases: list[tuple[list[str], int, list[int]]],
) -> None:
    """Whoever the oracle finds alone is found alone, and guesses are right as often."""
    as_by_hand(
        _log(cases),
        ("events-1", 1),
        ("events-3", 3),
        ("order-2", 2),
        ("prefix-3", 0),
        ("activities", 0),
        ("sequence", 0),
        ("start-hour", 0),
        ("timed-events-2", 2),
        ("sequence-times", 0),
    )


@given(repeating_logs)
def test_two_known_events_are_two_events_of_a_case(
    cases: list[tuple[list[str], int, list[int]]],
) -> None:
    """Somebody who knows two events of one activity in one hour finds who has two of them."""
    as_by_hand(_log(cases), ("timed-events-2", 2), ("timed-events-3", 3))


def as_by_hand(log: EventLog, *kinds: tuple[str, int]) -> None:
    """Uniqueness and linking are the oracle's; of each kind, how many events are known."""
    oracle, found = _Oracle(log), risk(log, seed=3)
    (coded,) = code_logs(log)
    for name, number in kinds:
        rows = range(log.cases.height)
        (nothing,) = code_attributes([coded], (), ())
        places = [Target(coded, row, 3, nothing).points(number).tolist() for row in rows]
        sizes = oracle.sizes(name, places)
        alone = found.attack(f"uniqueness/{name}").before
        right = found.attack(f"linking/{name}").before
        assert alone.share == pytest.approx(np.mean([size == 1 for size in sizes])), name
        assert right.share == pytest.approx(np.mean([1 / size for size in sizes])), name


def test_three_random_events_are_found_no_less_than_the_mean_over_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The events that are known are drawn without favour: over many seeds, the mean over all
    choices of three.
    """
    monkeypatch.setattr("cloakwork.evaluation.risk.ATTACKS", (who_is_found,))
    sequences = [list("abcd"), list("abce"), list("bcde"), list("abcd")]
    log = log_of(sequences)
    exact = []
    for labels in sequences:
        for known in combinations(labels, 3):
            exact.append(sum(not Counter(known) - Counter(other) for other in sequences) == 1)
    shares = []
    for seed in range(60):
        found = risk(log, seed=seed).attack("uniqueness/events-3").before
        shares.append(found.share)
    assert np.mean(shares) == pytest.approx(np.mean(exact), abs=0.1)


def test_a_release_that_changes_nothing_protects_nobody() -> None:
    """New ids and another order alone: what is found before is found after."""
    draws = np.random.default_rng(5)
    cases = [
        (list(draws.choice(list("abc"), 3)), int(draws.integers(500)), [0, 1, 2, 1])
        for _ in range(60)
    ]
    log = _log(cases)
    found = risk(log, log.keep_cases(draws.permutation(60)))
    for attack in found.attacks:
        if attack.name.startswith("linking/") and "-attributes" not in attack.name:
            assert attack.after.share == pytest.approx(attack.before.share, abs=0.05), attack.name


def test_what_finds_more_than_may_be_found_is_marked() -> None:
    """By the threshold that is given; without one, and before a release, nothing is."""
    draws = np.random.default_rng(5)
    log = _log([(list(draws.choice(list("abc"), 3)), int(n), [0, 1, 2, 1]) for n in range(40)])
    twin = log.keep_cases(draws.permutation(40))
    found = risk(log, twin, threshold=0.5)
    marked = {each.name for each in found.above}
    assert "linking/sequence-times" in marked
    assert "linking/events-1" not in marked
    assert all(name.startswith("linking/") for name in marked)
    assert not found.model_copy(update={"threshold": 1.0}).above
    assert not found.model_copy(update={"threshold": None}).above
    assert not risk(log, threshold=0.01).above


def test_the_most_unusual_cases_are_looked_at_apart() -> None:
    """Two of forty, each alone with its sequence: found where all others are not."""
    cases = [(list("abc"), hour, [0, 1, 2, 1]) for hour in range(38)]
    odd = [(list("cab"), 50, [0, 1, 2, 1]), (list("bca"), 60, [0, 1, 2, 1])]
    log = _log([*cases, *odd])
    found = risk(log, log.keep_cases(np.random.default_rng(1).permutation(40)))
    assert found.attack("unusual/sequence").after.share == pytest.approx(1, abs=0.02)
    assert found.attack("linking/sequence").after.share < 0.15


def test_a_release_of_other_cases_gives_away_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times that have nothing to do with the log's: where no plan tells how they came about, the
    bounds hold that the resemblance is chance.
    """
    monkeypatch.setattr("cloakwork.evaluation.risk.ATTACKS", (who_is_found,))
    draws = np.random.default_rng(6)

    def drawn() -> EventLog:
        starts = draws.integers(0, 20_000, 50)
        steps = draws.integers(0, 2_000, (50, 4))
        return _log([(list("abc"), int(s), list(g)) for s, g in zip(starts, steps, strict=True)])

    found = risk(drawn(), drawn())
    after = found.attack("linking/sequence-times").after
    assert after.low < 0.05


def test_two_releases_are_linked_as_far_as_each_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two copies of one log are linked, as every case is alone with its times; the first and a log
    of other times are not.
    """
    monkeypatch.setattr("cloakwork.evaluation.risk.ATTACKS", (linking_releases,))
    draws = np.random.default_rng(7)
    cases = [(list("ab"), 40 * row, [0, 1 + row % 7, 0, 0]) for row in range(30)]
    log = _log(cases)
    others = _log([(labels, int(draws.integers(9_000)), steps) for labels, _, steps in cases])
    same = risk(log, log, other=log.keep_cases(draws.permutation(30))).attack("linking-releases")
    different = risk(log, log, other=others).attack("linking-releases")
    assert same.after.share > 0.95
    assert different.after.share < 0.5


ABC = [list("abc")] * 5 + [list("ab")] * 3 + [list("xyz"), list("b")]
ODD = {
    "one case": [list("abc")],
    "one event": [["a"]],
    "one activity": [["a"] * length for length in range(1, 6)],
    "all the same": [list("ab")] * 12,
    "a huge case": [["a", "b"] * 500, list("ab"), list("ba")],
    "other activities": [list("pqr")] * 4,
    "some cases": ABC[:2],
}


def _valued(log: EventLog, missing: bool) -> EventLog:
    """Attributes of each kind, some without a value, some infinite."""
    cases, events = log.cases.height, log.events.height
    there = ["x", "y", None] if not missing else [None]
    numbers = [1.0, None, math.inf, math.nan] if not missing else [None]
    return EventLog(
        log.events.with_columns(pl.Series("size", (numbers * events)[:events], pl.Float64)),
        log.cases.with_columns(
            pl.Series("case:kind", (there * cases)[:cases], pl.String),
            pl.Series("case:size", (numbers * cases)[:cases], pl.Float64),
        ),
        log.offsets,
    )


def _odd_logs() -> dict[str, EventLog]:
    found = {
        name: _log([(labels, 5 * row, [0, 1, 2, 0] * 250) for row, labels in enumerate(each)])
        for name, each in ODD.items()
    }
    plain = _log([(labels, 9 * row, [0, 3, 1, 0]) for row, labels in enumerate(ABC)])
    untimed = EventLog(plain.events.drop("time:timestamp"), plain.cases, plain.offsets)
    return found | {
        "plain": plain,
        "no times": untimed,
        "values": _valued(plain, missing=False),
        "no values": _valued(plain, missing=True),
    }


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", [*ODD, "no times", "values", "no values"])
def test_odd_logs_have_shares_and_bounds(name: str) -> None:
    """As a log, as a release, with a second release and with a control group: no fault, no warning,
    and each share lies between its bounds, from 0 to 1.
    """
    logs = _odd_logs()
    odd, plain, values = logs[name], logs["plain"], logs["values"]
    for found in (
        risk(odd, odd, control=plain),
        risk(plain, odd, other=values, control=odd),
    ):
        shares = [share for each in found.attacks for share in (each.before, each.after) if share]
        assert shares
        assert all(0 <= each.low <= each.share <= each.high <= 1 for each in shares)


def test_nobody_is_in_a_release_that_is_made_up(tmp_path: Path) -> None:
    """By its plan: uniqueness there is nobody's, and a guess is no better than the control's, which
    without times is the same one.
    """
    plan = cloakwork.make_plan(cloakwork.load_policy("dp-control-flow"))
    (tmp_path / "plan.json").write_text(plan.model_dump_json(), "utf-8")
    (tmp_path / "log.csv").write_text(SMALL, "utf-8")
    found = risk(_log([(list("ab"), 9 * row, [0, 1, 0, 0]) for row in range(20)]), tmp_path)
    assert any("made up, nobody's is in it" in note for note in found.notes)
    for attack in found.attacks:
        if attack.name.startswith("uniqueness/"):
            assert attack.after is None
        if attack.name.startswith("linking/"):
            assert attack.control == "the log's cases at other times (after the release only)"
            assert attack.after.low == 0


def test_the_same_seed_gives_the_same_figures() -> None:
    log = log_of([list("abc"), list("ab"), list("ca")] * 4)
    assert risk(log, log, seed=4) == risk(log, log, seed=4)
    # Public functions check their arguments first.
    assert unwrap(cloakwork.risk) is risk


def test_what_is_no_log_is_refused(tmp_path: Path) -> None:
    log = log_of([list("ab")])
    empty = tmp_path / "empty.csv"
    empty.write_text("case:concept:name,concept:name,time:timestamp\n")
    with pytest.raises(LogError, match=r"^log: has no events"):
        risk(EventLog.empty())
    with pytest.raises(LogError, match=r"empty\.csv: has no events"):
        risk(empty)
    with pytest.raises(LogError, match=r"empty\.csv: has no events"):
        risk(log, control=empty)
    with pytest.raises(LogError, match="no such file"):
        risk("nowhere.xes")


def test_nothing_is_linked_with_a_release_without_events() -> None:
    """As the release, or as the second one; what is found before stays."""
    log, empty = log_of([list("abc"), list("ab")] * 3), EventLog.empty()
    for found in (risk(log, empty), risk(log, empty, other=log)):
        assert found.notes == ("nothing can be linked with log, as it holds no events",)
        assert found.attacks == risk(log).attacks
        assert found.released_cases is None
    second = risk(log, log, other=empty)
    assert any("holds no events" in note for note in second.notes)
    assert second.attacks == risk(log, log).attacks


SMALL = "case:concept:name,concept:name\n1,a\n1,b\n2,b\n"


def test_a_release_without_times_is_opened_in_each_form(tmp_path: Path) -> None:
    folder, packed = tmp_path / "release", tmp_path / "release.zip"
    folder.mkdir()
    plan = cloakwork.make_plan(cloakwork.load_policy("dp-control-flow"))
    (folder / "plan.json").write_text(plan.model_dump_json(), "utf-8")
    (folder / "statement.json").write_text("{}", "utf-8")
    (folder / "log.csv").write_text(SMALL, "utf-8")
    pack_folder(folder, packed)
    for source in (folder, packed):
        opened = opened_log(source)
        assert opened.log.events["concept:name"].to_list() == ["a", "b", "b"]
        assert opened.log.events["time:timestamp"].null_count() == 3
        assert opened.plan == plan
    alone = cloakwork.risk(log_of([list("ab"), ["b"]] * 5), folder / "log.csv").attack(
        "linking/sequence"
    )
    assert alone.after is not None
