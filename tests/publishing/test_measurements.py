"""The noisy tables beside a log, and how accurate they say that it is."""

import importlib.util
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cloakwork.api import load_policy, make_plan, read_log, release, verify
from cloakwork.base.errors import VerificationFailed
from cloakwork.base.naming import (
    DURATIONS_TABLE,
    OTHERS_TABLE,
    STEPS_TABLE,
    VALUES_TABLE,
    VARIANTS_TABLE,
    WAITS_TABLE,
    WAVES_TABLE,
)
from cloakwork.evaluation.bounds import figure_bounds
from cloakwork.kernel import ONE, Books, Entries, Kernel, Laplace, Table
from cloakwork.log.eventlog import EventLog
from cloakwork.noise import reproducible
from cloakwork.publishing import verify as verifying
from cloakwork.publishing.folder import MEASUREMENTS_FILE, pack_folder, read_measurements
from cloakwork.publishing.keys import read_envelope
from cloakwork.publishing.verify import check_measurements, read_statement
from cloakwork.report.render import render
from cloakwork.run.prepare import prepared_log
from cloakwork.run.run import Run
from conftest import hurried
from kernel.asking import Open
from kernel.small import measured
from made_releases import MadeRelease

pytestmark = pytest.mark.usefixtures("few_turns", "few_looked_for")

ROOT = Path(__file__).parents[2]
HOSPITAL = ROOT / "examples/logs/hospital.xes.gz"


@pytest.fixture(autouse=True)
def _proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans here come from ``make_plan``, so they are really proved."""
    from publishing.conftest import REAL_PROOF

    monkeypatch.setattr(verifying, "prove", REAL_PROOF)


@pytest.fixture
def dp(tmp_path: Path, release_of: Callable[[str], MadeRelease]) -> Path:
    """A release under differential privacy, to be changed."""
    return Path(shutil.copytree(release_of("dp-control-flow").folder, tmp_path / "release"))


def statement_of(folder: Path):
    return read_statement(read_envelope((folder / "statement.json").read_bytes()))


def test_noisy_tables_stand_signed_beside_a_log_that_differential_privacy_covers(dp: Path) -> None:
    assert MEASUREMENTS_FILE in statement_of(dp).digests()
    found = read_measurements(dp / MEASUREMENTS_FILE)
    assert set(found["table"]) >= {VARIANTS_TABLE}
    assert any(MEASUREMENTS_FILE in check for check in verify(dp).checks)
    packed = dp.parent / "sent.zip"
    assert MEASUREMENTS_FILE in pack_folder(dp, packed)
    assert verify(packed).statement == verify(dp).statement


@pytest.mark.parametrize("how", ["changed", "removed", "unsigned"])
def test_tables_that_are_not_the_signed_ones_are_refused(dp: Path, how: str) -> None:
    file = dp / MEASUREMENTS_FILE
    if how == "changed":
        read_measurements(file).with_columns(pl.col("value") + 1).write_parquet(file)
    elif how == "removed":
        file.unlink()
    else:
        (dp / "measurements-2.parquet").write_bytes(file.read_bytes())
    with pytest.raises(VerificationFailed, match="measurements"):
        verify(dp)
    if how == "changed":
        with pytest.raises(VerificationFailed, match="measurements"):
            render(dp)


def test_no_tables_stand_beside_a_log_that_is_k_anonymous(tmp_path: Path) -> None:
    policy = load_policy(hurried(ROOT / "policies/flow-with-drawn-times.yaml", tmp_path, 0.1))
    made = release(policy, HOSPITAL, tmp_path / "out", ledger=str(tmp_path / "ledger.db"))
    # Its times are drawn from answers, too; they are charged for other times of the same cases.
    assert any(step.answers for step in made.release.internal.steps)
    assert made.release.measurements == ()
    assert not (made.folder / MEASUREMENTS_FILE).exists()
    said = json.loads(render(made.folder, format="json"))["accuracy"]
    assert said["figures"] == []
    assert said["refused"].count("\n") == 0 and "differential privacy" in said["refused"]


def test_verify_refuses_tables_that_no_claim_covers(dp: Path) -> None:
    plan = make_plan(load_policy(ROOT / "policies/flow-with-drawn-times.yaml"))
    (check,) = check_measurements(statement_of(dp), plan, lambda: None)
    assert not check.holds and "covers" in check.says


def test_a_release_of_a_known_seed_tells_no_tables() -> None:
    plan = make_plan(load_policy(ROOT / "policies/dp-control-flow.yaml"))
    made = Run(plan=plan, noise=reproducible(1)).release(read_log(HOSPITAL), None)
    assert made.measurements == ()
    assert any(step.answers for step in made.internal.steps)


@pytest.mark.parametrize(
    "table",
    [
        {"table": ["a"], "key": ["[]"], "value": [1.0]},
        {"table": ["a"], "key": ["[]"], "value": [1.0], "sigma": ["1"]},
        {"table": ["a"], "key": ["[]"], "value": [1.0], "sigma": [0.0]},
        {"table": ["a"], "key": ["[]"], "value": [float("nan")], "sigma": [1.0]},
        {"table": ["a"], "key": [None], "value": [1.0], "sigma": [1.0]},
    ],
)
def test_what_is_no_noisy_table_is_refused_in_a_line(tmp_path: Path, table: dict) -> None:
    file = tmp_path / MEASUREMENTS_FILE
    pl.DataFrame(table).cast({"key": pl.String}).write_parquet(file)
    with pytest.raises(VerificationFailed) as told:
        read_measurements(file)
    assert len(told.value.mismatches) == 1
    file.write_bytes(b"PAR1 and no more")
    with pytest.raises(VerificationFailed, match="is no table"):
        read_measurements(file)


# --- what a kernel tells of its answers

LOG = {("a", "b"): 40, ("a",): 3, ("b", "b"): 1}
LOUD = Laplace(2.0)


def kernel_on(seed: int = 1) -> Kernel:
    return Kernel(measured(list(LOG), list(LOG.values())), Open({}), reproducible(seed), 1)


def test_a_selection_tells_only_what_it_selected_with_its_noise() -> None:
    kernel = kernel_on()
    selected = kernel.select(Entries.of_variants, LOUD, 20, table=Table(VARIANTS_TABLE))
    (answer,) = kernel.answers
    assert [tuple(key) for key, _, _ in answer.rows()] == [("a", "b")] == list(selected.labels)
    assert [value for _, value, _ in answer.rows()] == selected.noisy.tolist()
    assert answer.rows()[0][2] == pytest.approx(np.sqrt(8), rel=0.05)


def test_sums_tell_the_keys_that_were_read_and_no_raw_sum() -> None:
    told = set()
    for seed in range(8):
        kernel = kernel_on(seed)
        sums = kernel.sum(Entries.one_each, LOUD, ONE, keys=5)
        assert kernel.answers[0].rows() == []
        read = sums.at(np.array([0, 3]))
        rows = kernel.answers[0].rows()
        assert [key for key, _, _ in rows] == [[0], [3]]
        assert [value for _, value, _ in rows] == read.tolist()
        told.add(rows[0][1])
    # Raw, it would be the same 44 under every seed.
    assert len(told) > 3


def test_narrowed_kernels_and_branches_tell_theirs_with_the_first() -> None:
    kernel = kernel_on()
    kernel.narrowed(("a",)).sum(Entries.one_each, LOUD, keys=1).at(np.zeros(1, np.int64))
    assert [len(answer) for answer in kernel.answers] == [1]


def test_books_that_are_full_leave_no_answer_to_tell() -> None:
    kernel = Kernel(measured(list(LOG), list(LOG.values())), Books({}), reproducible(1), 1)
    with pytest.raises(Exception, match="plan does not list"):
        kernel.sum(Entries.one_each, LOUD, keys=1)
    assert kernel.answers == ()


# --- how accurate it is


def benchmark():
    spec = importlib.util.spec_from_file_location("accuracy", ROOT / "benchmarks/accuracy.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_intervals_hold_the_logs_figures_about_as_often_as_they_say() -> None:
    """More runs where CLOAKWORK_RUNS asks for them; the twin takes noise for half of what it is."""
    accuracy = benchmark()
    plan = accuracy.planned("dp-control-flow", 1, "variants/markov")
    log = prepared_log(read_log(HOSPITAL), plan)
    runs = int(os.environ.get("CLOAKWORK_RUNS", "10"))
    made = list(accuracy.releases(plan, log, runs))

    def least_held(made):
        held, _ = accuracy.coverage(log, made)
        kinds = ("activity", "step")
        return min(
            np.mean([each for key in held if key[0] == kind for each in held[key]])
            for kind in kinds
        )

    assert least_held(made) >= 0.85
    halved = [(tables.with_columns(pl.col("sigma") / 2), log) for tables, log in made]
    assert least_held(halved) < 0.8


def test_a_figure_by_hand() -> None:
    """Two variants that are known, and five cases of a third: ("a",) has steps of norm root 2."""
    rows = [
        (VARIANTS_TABLE, ["a", "b"], 40.0, 3.0),
        (OTHERS_TABLE, [0], 5.0, 4.0),
        (STEPS_TABLE, [None, "a"], 5 / np.sqrt(2), 1.0),
        (STEPS_TABLE, ["a", None], 5 / np.sqrt(2), 1.0),
        (STEPS_TABLE, ["a", "b"], 0.0, 1.0),
    ]
    found = figure_bounds(tables_of(rows), Counter({("a", "b"): 40, ("a",): 5}))
    by_key = {(each.figure, each.key): each for each in found}
    cases = by_key["cases", ()]
    # Told since it passed a threshold at 40: half a normal distribution was added on average.
    added = 3 * np.sqrt(2 / np.pi)
    assert (cases.low + cases.high) / 2 == pytest.approx(45 - added)
    assert cases.high - cases.low == pytest.approx(2 * 1.6448536 * 5)
    begin = by_key["step", (None, "a")]
    assert begin.released == 45
    assert (begin.low + begin.high) / 2 == pytest.approx(45 - added)
    # A step of known variants alone has their noise, and that of no other cases.
    ab = by_key["step", ("a", "b")]
    half = 1.6448536 * np.sqrt(3**2 + 1)
    assert (ab.low, ab.high) == pytest.approx((40 - added - half, 40 - added + half))


def tables_of(rows) -> pl.DataFrame:
    return pl.DataFrame(
        [(name, json.dumps(key), value, sigma) for name, key, value, sigma in rows],
        schema=["table", "key", "value", "sigma"],
        orient="row",
    )


@pytest.mark.parametrize("sigma", [0.01, 100.0])
def test_times_and_values_by_hand(sigma: float) -> None:
    """Of 40 cases of two events 30 take two minutes, at x, and 10 take two hours, at y."""
    log = log_of_two_events([timedelta(minutes=2)] * 30 + [timedelta(hours=2)] * 10)
    seconds = [([0, 60], 0), ([60, 3600], 30), ([3600, 9000], 10)]
    cells = [(DURATIONS_TABLE, key, cases / np.sqrt(3), sigma) for key, cases in seconds]
    cells += [(WAITS_TABLE, key, cases, sigma) for key, cases in seconds]
    for activity in "ab":
        cells += [
            (VALUES_TABLE, ["place", activity, name], cases, sigma)
            for name, cases in (("x", 30), ("y", 10))
        ]
        cells += [
            (VALUES_TABLE, ["cost", activity, *ends], cases, sigma)
            for ends, cases in (((0, 0), 4), ((0, 5), 16), ((5, 10), 20.5))
        ]
    found = figure_bounds(tables_of(cells), Counter(), log)
    by_key = {(each.figure, each.key): (each.low, each.released, each.high) for each in found}
    told = {
        ("duration", ()): (60, 120, 3600),
        ("wait", ()): (60, 120, 3600),
        ("value", ("place", "x")): (0.75, 0.75, 0.75),
        ("value", ("place", "y")): (0.25, 0.25, 0.25),
        ("number", ("cost",)): (5, 4.5, 10),
    }
    unknown = {
        ("duration", ()): (0, 120, 9000),
        ("wait", ()): (0, 120, 9000),
        ("value", ("place", "x")): (0, 0.75, 1),
        ("value", ("place", "y")): (0, 0.25, 1),
        ("number", ("cost",)): (0, 4.5, 10),
    }
    assert by_key.keys() == told.keys()
    for key, expected in (told if sigma < 1 else unknown).items():
        assert by_key[key] == pytest.approx(expected, abs=0.002)


@pytest.mark.parametrize(("sigma", "expected"), [(0.01, (30, 120, 240)), (100.0, (0, 120, 9000))])
def test_durations_by_waves_by_hand(sigma: float, expected: tuple[float, ...]) -> None:
    """The same 40 cases, of whose durations sums of cosines were measured: two minutes lie in the
    bin from 60 to 180 seconds, and what is said is a bin wider on both sides.
    """
    edges = [0, 30, 60, 180, 240, 3600, 8000, 9000]
    base = np.arange(1, 8) / 28
    bins = np.repeat([2, 5], [30, 10])
    rows = []
    # More waves than bins: the last ones tell nothing, whatever they hold.
    for half_waves in range(1, 10):
        wave = np.cos(np.pi * half_waves * (np.arange(7) + 0.5) / 7)
        value = (wave[bins] - base @ wave).sum() if half_waves < 7 else 1e6
        rows.append((WAVES_TABLE, [half_waves, base @ wave, *edges], value, sigma))
    log = log_of_two_events([timedelta(minutes=2)] * 30 + [timedelta(hours=2)] * 10)
    (found,) = figure_bounds(tables_of(rows), Counter(), log)
    assert (found.figure, found.low, found.released, found.high) == ("duration", *expected)


def log_of_two_events(takes: list[timedelta]) -> EventLog:
    start = datetime(2024, 1, 1, tzinfo=UTC)
    rows = [
        (str(number), activity, time, "x" if number < 30 else "y", number % 10)
        for number, took in enumerate(takes)
        for activity, time in (("a", start), ("b", start + took))
    ]
    columns = ["case:concept:name", "concept:name", "time:timestamp", "place", "cost"]
    return EventLog.from_polars(pl.DataFrame(rows, schema=columns, orient="row"))


def test_a_report_says_how_accurate_a_release_is_without_the_raw_log(dp: Path) -> None:
    said = json.loads(render(dp, format="json"))["accuracy"]
    assert said["refused"] is None
    (cases,) = [each for each in said["figures"] if each["figure"] == "cases"]
    assert cases["low"] < 1040 * 1.3 and cases["high"] > 1040 * 0.7
    page = render(dp)
    assert "How accurate it is" in page


@pytest.mark.parametrize(
    ("key", "sigma"),
    [
        ('{"a": 1}', 1.0),
        ("[" * 100_000 + "]" * 100_000, 1.0),
        ('["a"]', 1.0),
        ('[["a"], null]', 1.0),
        ("[9" + "9" * 5000 + ", 1]", 1.0),
        ('["Register", "Triage"]', 1e300),
    ],
)
def test_tables_that_nobody_knows_are_no_figures(
    dp: Path, monkeypatch: pytest.MonkeyPatch, key: str, sigma: float
) -> None:
    from cloakwork.report import model

    for name in (STEPS_TABLE, VALUES_TABLE, WAITS_TABLE):
        table = {"table": [name], "key": [key], "value": [1e300], "sigma": [sigma]}
        strange = pl.DataFrame(table)
        monkeypatch.setattr(model, "read_measurements", lambda file, strange=strange: strange)
        said = json.loads(render(dp, format="json"))["accuracy"]
        assert said["figures"] == [] and said["refused"]
