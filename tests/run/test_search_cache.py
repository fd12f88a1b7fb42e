"""What a search found is used again for the same search only, is private to the user, holds no
noise, and never stops a run: figures of a raw log go after a week, and the cache's secret is one
(decision 10).
"""

import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from time import time
from typing import Any

import polars as pl
import pytest
from pydantic import JsonValue

from cloakwork.base.facts import Facts
from cloakwork.errors import Infeasible
from cloakwork.log.eventlog import CASE_ID, EventLog
from cloakwork.log.formats import read_log
from cloakwork.mechanisms.aggregates import VariantCounts
from cloakwork.mechanisms.kanon.deadline import Deadline
from cloakwork.mechanisms.kanon.family import Anonymiser
from cloakwork.mechanisms.kanon.optimal import Optimal, OptimalParams
from cloakwork.mechanisms.kanon.problem import KAnonymityProblem, Solution
from cloakwork.mechanisms.registry import catalogue
from cloakwork.mechanisms.steps import Decision
from cloakwork.noise import reproducible, secret
from cloakwork.plan.planner import make_plan
from cloakwork.plan.policies import parse_policy
from cloakwork.run import search_cache
from cloakwork.run.run import Run
from cloakwork.run.search_cache import (
    LONGEST_KEPT,
    MOST_ENTRIES,
    REUSED,
    SearchCache,
    decide_with_cache,
)
from cloakwork.testing.contract_logs import log_of
from cloakwork_extras.best_first import BestFirst, BestFirstParams
from cloakwork_extras.pretsa import Pretsa, PretsaParams
from conftest import EXAMPLES, ROOT, Said, hurried

HOSPITAL = EXAMPLES / "hospital.xes.gz"
FAMILY = {"kanon/auto", "kanon/optimal", "kanon/best-first", "kanon/a-star", "kanon/pretsa"}
ROWS = [["a", "b", "c"]] * 8 + [["a", "c"]] * 5 + [["a", "b", "b", "c"]] * 2 + [["a", "d"]]
PARAMS = PretsaParams(k=4)

Searched = list[str]


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> Searched:
    """The name of each algorithm of the family, each time that it is asked to search."""
    calls: Searched = []
    search = Anonymiser.search

    def counted(self: Anonymiser[Any], params: Any, summary: pl.DataFrame) -> Any:
        calls.append(self.name)
        return search(self, params, summary)

    monkeypatch.setattr(Anonymiser, "search", counted)
    return calls


@pytest.fixture
def searches() -> SearchCache:
    """The cache of the test's own home."""
    found = SearchCache.of_user()
    assert found is not None
    return found


def summary_of(log: EventLog) -> pl.DataFrame:
    """The summary that the family decides on."""
    aggregate = VariantCounts()
    return aggregate.merge(aggregate.of(log))


SUMMARY = summary_of(log_of(ROWS))


def decide(
    mechanism: Anonymiser[Any], params: Any, summary: pl.DataFrame, searches: SearchCache | None
) -> Decision:
    """By the cache, if there is one."""
    step = mechanism.step(params, Facts())
    return decide_with_cache(step, mechanism.name, params, summary, secret(), searches)


def decided(
    searches: SearchCache | None, summary: pl.DataFrame = SUMMARY, params: PretsaParams = PARAMS
) -> Mapping[str, JsonValue]:
    """The figures of one decision of ``kanon/pretsa``."""
    return decide(Pretsa(), params, summary, searches).internal


def name_of(searches: SearchCache, summary: pl.DataFrame) -> str:
    """The name of the entry of ``kanon/pretsa``."""
    return searches.name_of("kanon/pretsa", PARAMS, summary)


def entries(searches: SearchCache) -> Iterator[Path]:
    """The files of the cache, its secret apart."""
    yield from sorted(searches.folder.glob("*.search"))


def test_apply_after_plan_does_not_search_again(
    cloakwork: Callable[..., Said], tmp_path: Path, searched: Searched
) -> None:
    """The preview of ``plan`` searches, ``apply`` uses what it found, and releases just that."""
    policy = hurried(ROOT / "policies" / "kanon-control-flow.yaml", tmp_path)
    planned = cloakwork("plan", policy, HOSPITAL, "--json")
    assert planned.code == 0, planned.err
    assert searched == ["kanon/optimal"]
    applied = cloakwork("apply", policy, HOSPITAL, "--out", tmp_path / "out")
    assert applied.code == 0, applied.err
    assert searched == ["kanon/optimal"]
    assert f"kanon/optimal: {REUSED}" in applied.err
    previewed = json.loads(planned.out)["internal"]["kanon/optimal"]
    report = json.loads((tmp_path / "out" / "internal" / "report.json").read_text("utf-8"))
    steps = {step["mechanism"]: step["figures"] for step in report["steps"]}
    assert steps["kanon/optimal"] == previewed | {"search": REUSED}
    for public in ("plan.json", "statement.json"):
        assert REUSED not in (tmp_path / "out" / public).read_text("utf-8")
    assert cloakwork("verify", tmp_path / "out").code == 0


def test_it_can_be_switched_off(
    cloakwork: Callable[..., Said],
    tmp_path: Path,
    searched: Searched,
    monkeypatch: pytest.MonkeyPatch,
    own_home: Path,
) -> None:
    """With CLOAKWORK_NO_CACHE each command searches for itself, ``plan`` once more to tell who
    would be found, and nothing is kept.
    """
    monkeypatch.setenv("CLOAKWORK_NO_CACHE", "1")
    policy = hurried(ROOT / "policies" / "kanon-control-flow.yaml", tmp_path, seconds=0.1)
    assert cloakwork("plan", policy, HOSPITAL).code == 0
    assert cloakwork("apply", policy, HOSPITAL, "--out", tmp_path / "out").code == 0
    assert searched == ["kanon/optimal"] * 3
    assert not (own_home / "search-cache").exists()


def test_python_runs_keep_nothing_unless_told(
    tmp_path: Path, searched: Searched, own_home: Path
) -> None:
    """``execute`` has a cache only if it is handed one; a run with a fixed seed has none."""
    policy = hurried(ROOT / "policies" / "kanon-control-flow.yaml", tmp_path, seconds=0.1)
    plan = make_plan(parse_policy(policy.read_text("utf-8")))
    log = read_log(HOSPITAL)
    for _ in range(2):
        Run(plan=plan, noise=reproducible(1)).release(log, None)
    assert searched == ["kanon/optimal"] * 2
    assert not (own_home / "search-cache").exists()


def test_the_same_search_is_made_once(searches: SearchCache, searched: Searched) -> None:
    """The second decision is the first, and says where it comes from."""
    first, second = decided(searches), decided(searches)
    assert searched == ["kanon/pretsa"]
    assert second == {**first, "search": REUSED}


@pytest.mark.parametrize(
    "other",
    [
        [*ROWS, ["a", "d"]],
        [*ROWS[:-1], ["a", "e"]],
        [*ROWS[:-1], ["ad"]],
        [*ROWS[:-1], []],
    ],
    ids=["one case more", "another label", "labels joined", "no events"],
)
def test_another_log_is_searched(
    searches: SearchCache, searched: Searched, other: list[list[str]]
) -> None:
    """Whatever differs in the summary, the earlier result is not used."""
    decided(searches)
    assert "search" not in decided(searches, summary_of(log_of(other)))
    assert len(searched) == 2


def test_the_order_of_cases_makes_no_other_search(
    searches: SearchCache, searched: Searched
) -> None:
    """It decides nothing: the histogram is the same, and which cases move is drawn afterwards."""
    decided(searches)
    assert decided(searches, summary_of(log_of([ROWS[-1], *ROWS[:-1]])))["search"] == REUSED
    assert len(searched) == 1


@pytest.mark.parametrize(
    "other",
    [
        PretsaParams(k=5),
        PretsaParams(k=4, scope="prefixes"),
        PretsaParams(k=4, distance="indel"),
    ],
)
def test_other_parameters_are_searched(
    searches: SearchCache, searched: Searched, other: PretsaParams
) -> None:
    """Each parameter is part of the name."""
    decided(searches)
    assert "search" not in decided(searches, params=other)
    assert len(searched) == 2


def test_another_algorithm_searches(searches: SearchCache, searched: Searched) -> None:
    """The mechanism is part of the name: equal parameters of two algorithms are two searches."""
    decided(searches)
    decide(Optimal(), OptimalParams(k=4), SUMMARY, searches)
    decide(BestFirst(), BestFirstParams(k=4), SUMMARY, searches)
    assert searched == ["kanon/pretsa", "kanon/optimal", "kanon/best-first"]


@pytest.mark.parametrize("engine", [("0.0.1", "code"), ("0.1.0", "other code")])
def test_another_version_searches(
    searches: SearchCache,
    searched: Searched,
    monkeypatch: pytest.MonkeyPatch,
    engine: tuple[str, str],
) -> None:
    """What another engine found, or the same one before its code was changed, is not used."""
    decided(searches)
    monkeypatch.setattr(search_cache, "_engine", lambda: engine)
    assert "search" not in decided(searches)
    assert len(searched) == 2


def test_the_engine_is_its_version_and_its_code() -> None:
    """Both are there, and stay the same within a process."""
    version, code = search_cache._engine()
    assert version
    assert len(code) == 64
    assert search_cache._engine() == (version, code)


def resealed(searches: SearchCache, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the only entry as somebody could who has the user's secret."""
    (path,) = entries(searches)
    name, content = path.stem, path.read_bytes()
    document = json.loads(content[64:])
    change(document)
    searches.write(name, json.dumps(document).encode())


HOSTILE: dict[str, Callable[[dict[str, Any]], object]] = {
    "all cases stay, below k": lambda d: d.update(target=d["source"]),
    "a case is lost": lambda d: d["cases"].__setitem__(0, d["cases"][0] - 1),
    "a case is invented": lambda d: d["cases"].__setitem__(0, d["cases"][0] + 1),
    "a negative count": lambda d: d["cases"].__setitem__(0, -1),
    "a variant that there is not": lambda d: d["target"].__setitem__(0, 99),
    "a variant before the first": lambda d: d["target"].__setitem__(0, -1),
    "a huge number": lambda d: d["target"].__setitem__(0, 10**30),
    "a float": lambda d: d["cases"].__setitem__(0, float(d["cases"][0])),
    "columns of two lengths": lambda d: d["target"].append(0),
    "a pair twice": lambda d: (
        [d[name].append(d[name][0]) for name in ("source", "target")] and d["cases"].append(1)
    ),
    "a column missing": lambda d: d.pop("cases"),
    "an unknown field": lambda d: d.update(noise=[1, 2, 3]),
    "a bound of text": lambda d: d.update(bound="0"),
    "figures that are none": lambda d: d.update(figures=[1]),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE.keys())
def test_an_entry_that_is_no_answer_is_searched_again(
    searches: SearchCache, searched: Searched, change: Callable[[dict[str, Any]], object]
) -> None:
    """Even under a valid seal an entry is measured before it is used."""
    first = decided(searches)
    resealed(searches, change)
    assert decided(searches) == first
    assert len(searched) == 2


def test_the_parting_of_units_is_no_answer(searches: SearchCache, searched: Searched) -> None:
    """Where units are counted, a variant moves as a whole."""
    params = PretsaParams(k=2, unit="case:unit")
    log = log_of([["a"]] * 6 + [["b"]] * 4)
    units = pl.Series("case:unit", [f"u{i % 3}" for i in range(10)])
    log = EventLog(log.events, log.cases.with_columns(units), log.offsets)
    aggregate = Pretsa().step(params, Facts()).summary
    summary = aggregate.merge(aggregate.of(log))
    first = decided(searches, summary, params)

    def part(document: dict[str, Any]) -> None:
        document.update(source=[0, 0, 1], target=[0, 1, 1], cases=[3, 3, 4])

    resealed(searches, part)
    assert decided(searches, summary, params) == first
    assert len(searched) == 2


DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "cut off": lambda content: content[:-1],
    "a bit turned": lambda content: content[:-1] + bytes([content[-1] ^ 1]),
    "another seal": lambda content: bytes([content[0] ^ 1]) + content[1:],
    "without its seal": lambda content: content[64:],
    "not text": lambda content: bytes(range(256)) * 8,
    "a pickle": lambda content: b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_entry_is_searched_again(
    searches: SearchCache, searched: Searched, damage: Callable[[bytes], bytes]
) -> None:
    """It counts as absent, and the next run has a good one."""
    first = decided(searches)
    (path,) = entries(searches)
    path.write_bytes(damage(path.read_bytes()))
    assert decided(searches) == first
    assert decided(searches) == {**first, "search": REUSED}
    assert len(searched) == 2


def test_entries_cannot_be_exchanged(searches: SearchCache, searched: Searched) -> None:
    """An entry under the name of another one is not authentic, though its seal is the user's."""
    decided(searches)
    (first,) = entries(searches)
    decided(searches, params=PretsaParams(k=5))
    (other,) = (path for path in entries(searches) if path != first)
    other.write_bytes(first.read_bytes())
    assert "search" not in decided(searches, params=PretsaParams(k=5))
    assert len(searched) == 3


def test_a_foreign_entry_is_not_used(
    searches: SearchCache, searched: Searched, tmp_path: Path
) -> None:
    """Who does not have the secret makes no entry, and finds none by its name."""
    decided(searches)
    (path,) = entries(searches)
    foreign = SearchCache(tmp_path, b"\0" * 32)
    decided(foreign)
    (made,) = entries(foreign)
    assert made.name != path.name
    path.write_bytes(made.read_bytes())
    assert "search" not in decided(searches)
    assert len(searched) == 3


@pytest.mark.skipif(os.name != "posix", reason="links and pipes as POSIX has them")
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_file_is_not_read(
    searches: SearchCache, searched: Searched, tmp_path: Path, kind: str
) -> None:
    """A link is not followed, a pipe does not keep a run waiting, a folder stops nothing."""
    first = decided(searches)
    (path,) = entries(searches)
    path.rename(tmp_path / "elsewhere")
    if kind == "link":
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    assert decided(searches) == first
    assert len(searched) == 2


@pytest.mark.skipif(os.name != "posix", reason="modes as POSIX has them")
def test_nobody_else_can_read_it(searches: SearchCache) -> None:
    """Entries and secret are 0600, their folder 0700, whatever the umask says."""
    before = os.umask(0)
    try:
        decided(searches)
    finally:
        os.umask(before)
    files = [*entries(searches), searches.folder / "key"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in files] == [0o600] * 2
    assert stat.S_IMODE(searches.folder.stat().st_mode) == 0o700


@pytest.mark.skipif(os.name != "posix", reason="modes as POSIX has them")
def test_a_secret_that_others_may_read_is_not_used(searches: SearchCache) -> None:
    """Then nothing is kept, and nothing read: runs go on without a cache."""
    (searches.folder / "key").chmod(0o644)
    assert SearchCache.of_user() is None


def test_no_label_and_no_secret_is_written(searches: SearchCache) -> None:
    """An entry names variants by number; neither its name nor its content holds an activity."""
    log = log_of([["HIV test", "discharged"]] * 8 + [["HIV test"]] * 2)
    decided(searches, summary_of(log))
    (path,) = entries(searches)
    assert b"HIV" not in path.read_bytes()
    assert searches.secret not in path.read_bytes()
    assert searches.secret.hex() not in repr(searches)


def test_the_name_is_a_keyed_digest(searches: SearchCache) -> None:
    """Who has another secret cannot tell by the name which log was searched."""
    decided(searches)
    (path,) = entries(searches)
    others = replace(searches, secret=bytes(32))
    assert path.stem == name_of(searches, SUMMARY) != name_of(others, SUMMARY)


def test_entries_are_few(searches: SearchCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest make room, by number and by size; one that is too large is not kept."""
    an_hour_ago = time() - 3600
    for number in range(MOST_ENTRIES + 3):
        searches.write(f"{number:02}", b"x" * 100)
        os.utime(searches.folder / f"{number:02}.search", (an_hour_ago + number,) * 2)
    assert [path.stem for path in entries(searches)] == [
        f"{number:02}" for number in range(3, MOST_ENTRIES + 3)
    ]
    monkeypatch.setattr(search_cache, "MOST_BYTES", 1000)
    searches.write("99", b"x" * 100)
    assert sum(path.stat().st_size for path in entries(searches)) <= 1000
    searches.write("too large", b"x" * 1000)
    assert searches.read("too large") is None


def test_an_old_entry_goes(searches: SearchCache, searched: Searched) -> None:
    """After a week it counts as absent, and the next write takes it away."""
    decided(searches)
    (path,) = entries(searches)
    old = path.stat().st_mtime - LONGEST_KEPT - 60
    os.utime(path, (old, old))
    assert "search" not in decided(searches)
    # A clock that was set back makes no entry last longer.
    os.utime(path, (time() + LONGEST_KEPT + 60,) * 2)
    decided(searches, params=PretsaParams(k=5))
    assert path not in set(entries(searches))
    assert len(searched) == 3


def test_a_folder_that_cannot_be_used_stops_nothing(
    own_home: Path, searched: Searched, monkeypatch: pytest.MonkeyPatch, searches: SearchCache
) -> None:
    """Neither a disk that takes nothing, nor a file where the folder should be."""

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("cloakwork.base.files.lock_folder", full)
    assert "search" not in decided(searches)
    assert "search" not in decided(searches)
    monkeypatch.setenv("CLOAKWORK_HOME", str(own_home / "elsewhere"))
    (own_home / "elsewhere").write_text("a file")
    assert SearchCache.of_user() is None
    assert "search" not in decided(None)
    assert len(searched) == 3


def test_a_refused_log_is_refused_again(searches: SearchCache, searched: Searched) -> None:
    """Fewer cases than k: nothing was found, so nothing is kept."""
    for _ in range(2):
        with pytest.raises(Infeasible):
            decided(searches, summary_of(log_of([["a"]] * 3)))
    assert not list(entries(searches))
    assert len(searched) == 2


def test_which_cases_move_is_drawn_anew(
    searches: SearchCache, searched: Searched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where identical cases part, two decisions by one search choose among them independently.

    One of 12 cases moves: 20 draws agree all by chance once in 12**19 runs.
    """
    log = log_of([["a", "b"]] * 12 + [["a", "c"]] * 3)

    def solve(
        self: Optimal, params: OptimalParams, problem: KAnonymityProblem, deadline: Deadline
    ) -> Solution:
        # One case moves where k = 4 needs one more.
        from cloakwork.mechanisms.kanon.problem import Assignment

        columns = pl.DataFrame({"s": [0, 0, 1], "t": [0, 1, 1], "n": [11, 1, 3]})
        assignment = Assignment(*(columns[name].to_numpy() for name in "stn"))
        return Solution(assignment, None, "made by hand")

    monkeypatch.setattr(Optimal, "solve", solve)
    decisions = [
        decide(Optimal(), OptimalParams(k=4), summary_of(log), searches).table for _ in range(20)
    ]
    assert searched == ["kanon/optimal"]
    moved = {str(table.filter(pl.col("cases") == 1)["ranks"].to_list()) for table in decisions}
    assert len(moved) > 1
    (path,) = entries(searches)
    assert b"ranks" not in path.read_bytes()


def test_only_the_family_is_kept() -> None:
    """Exactly the k-anonymisers of the control flow; nothing that measures, or gives differential
    privacy, can have an entry.
    """
    kept = {name for name in catalogue() if isinstance(catalogue()[name], Anonymiser)}
    assert kept == FAMILY
    for name in kept:
        mechanism = catalogue()[name]
        assert {each.kind for each in mechanism.gives} == {"k-anonymity"}
        assert not mechanism.step(mechanism.Params(k=2), Facts()).lineage.measures


def test_the_name_tells_tables_apart(searches: SearchCache) -> None:
    """Types, missing values, empty lists and the borders between values all show."""
    tables = [
        pl.DataFrame({"v": pl.Series([["a", "b"]], dtype=pl.List(pl.String))}),
        pl.DataFrame({"v": pl.Series([["ab"]], dtype=pl.List(pl.String))}),
        pl.DataFrame({"v": pl.Series([["a"], ["b"]], dtype=pl.List(pl.String))}),
        pl.DataFrame({"v": pl.Series([["a", "b"], []], dtype=pl.List(pl.String))}),
        pl.DataFrame({"v": pl.Series([[], ["a", "b"]], dtype=pl.List(pl.String))}),
        pl.DataFrame({"v": pl.Series([None, ["a", "b"]], dtype=pl.List(pl.String))}),
        pl.DataFrame({"v": pl.Series([["a", "b", None]], dtype=pl.List(pl.String))}),
        pl.DataFrame({"v": pl.Series([["a", "b", ""]], dtype=pl.List(pl.String))}),
        pl.DataFrame({"w": pl.Series([["a", "b"]], dtype=pl.List(pl.String))}),
        pl.DataFrame({"v": pl.Series(["a", "b"])}),
        pl.DataFrame({"v": pl.Series(["a", None])}),
        pl.DataFrame({"v": pl.Series(["a", ""])}),
        pl.DataFrame({"v": pl.Series([1, 2], dtype=pl.Int64)}),
        pl.DataFrame({"v": pl.Series([1, 2], dtype=pl.UInt8)}),
        pl.DataFrame({"v": pl.Series([1, None], dtype=pl.Int64)}),
        pl.DataFrame({"v": pl.Series([1, 0], dtype=pl.Int64)}),
        pl.DataFrame({"v": pl.Series([[1], [2]], dtype=pl.List(pl.Int64))}),
    ]
    assert len({name_of(searches, table) for table in tables}) == len(tables)
    for table in tables:
        parted = pl.concat([table.head(1), table.slice(1)], rechunk=False)
        assert name_of(searches, parted) == name_of(searches, table)


def test_a_release_by_a_kept_search_is_as_any_other(tmp_path: Path, searched: Searched) -> None:
    """Two releases by one search have the same variants, and ids of their own."""
    from cloakwork import api

    policy = hurried(ROOT / "policies" / "kanon-control-flow.yaml", tmp_path, seconds=0.1)
    plan = make_plan(parse_policy(policy.read_text("utf-8")))
    one, other = (api.apply(plan, HOSPITAL, ledger=str(tmp_path / "ledger.db")) for _ in range(2))
    assert searched == ["kanon/optimal"]

    def variants(log: EventLog) -> dict[tuple[str, ...], int]:
        counted = summary_of(log)
        return {tuple(labels): cases for labels, cases in counted.select("variant", "cases").rows()}

    assert variants(one.log) == variants(other.log)
    assert not set(one.log.cases[CASE_ID]) & set(other.log.cases[CASE_ID])


@pytest.mark.skipif(os.name != "posix", reason="users without a home are of POSIX systems")
def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs under any number: ``plan --ledger ...`` ended in an internal
    error (RuntimeError: Could not determine home directory).
    """
    for name in ("HOME", "CLOAKWORK_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)

    def unknown(*_: object) -> object:
        raise KeyError("uid not found")

    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert SearchCache.of_user() is None


@pytest.mark.parametrize("length", [0, 5])
def test_a_secret_that_is_cut_short_is_not_used(own_home: Path, length: int) -> None:
    """An empty file, as a crash may leave, is no key: everybody could name and make entries."""
    key = own_home / "search-cache" / "key"
    key.parent.mkdir(parents=True)
    key.write_bytes(bytes(length))
    key.chmod(0o600)
    found = SearchCache.of_user()
    assert found is None or len(found.secret) == 32


def test_an_old_entry_goes_without_another_search(searches: SearchCache) -> None:
    """Figures of a raw log lie there a week, not until somebody searches again."""
    searches.write("0" * 64, b"{}")
    (path,) = entries(searches)
    old = path.stat().st_mtime - LONGEST_KEPT - 60
    os.utime(path, (old, old))
    again = SearchCache.of_user()
    assert again is not None
    assert again.read("0" * 64) is None
    assert not path.exists()
