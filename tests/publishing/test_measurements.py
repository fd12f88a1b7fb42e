"""The noisy tables beside a log, and how accurate they say that it is."""

import importlib.util
import json
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cloakwork.api import load_policy, make_plan, read_log, release, verify
from cloakwork.base.errors import VerificationFailed
from cloakwork.base.naming import OTHERS_TABLE, STEPS_TABLE, VARIANTS_TABLE
from cloakwork.evaluation.bounds import figure_bounds
from cloakwork.kernel import ONE, Books, Entries, Kernel, Laplace, Table
from cloakwork.noise import reproducible
from cloakwork.publishing import verify as verifying
from cloakwork.publishing.folder import MEASUREMENTS_FILE, pack_folder, read_measurements
from cloakwork.publishing.publish import Published
from cloakwork.publishing.verify import check_measurements, read_envelope, read_statement
from cloakwork.report.render import render
from cloakwork.run.run import Run
from kernel.asking import Open
from kernel.small import measured

ROOT = Path(__file__).parents[2]
HOSPITAL = ROOT / "examples/logs/hospital.xes.gz"


@pytest.fixture(autouse=True)
def _proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans here come from ``make_plan``, so they are really proved."""
    from publishing.conftest import REAL_PROOF

    monkeypatch.setattr(verifying, "prove", REAL_PROOF)


def published_under(policy: str, folder: Path) -> Published:
    return release(
        load_policy(ROOT / f"policies/{policy}.yaml"),
        HOSPITAL,
        folder / policy,
        ledger=str(folder / "ledger.db"),
    )


@pytest.fixture
def dp(tmp_path: Path, own_home: Path) -> Path:
    return published_under("dp-control-flow", tmp_path).folder


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


def test_no_tables_stand_beside_a_log_that_is_k_anonymous(tmp_path: Path, own_home: Path) -> None:
    made = published_under("flow-with-drawn-times", tmp_path)
    # Its times are drawn from answers, too; they are charged for other times of the same cases.
    assert any(step.answers for step in made.release.internal.steps)
    assert made.release.measurements == ()
    assert not (made.folder / MEASUREMENTS_FILE).exists()
    said = json.loads(render(made.folder, format="json"))["accuracy"]
    assert said["figures"] == []
    assert said["refused"].count("\n") == 0 and "differential privacy" in said["refused"]


def test_verify_refuses_tables_that_no_claim_covers(
    dp: Path, tmp_path: Path, own_home: Path
) -> None:
    plan = make_plan(load_policy(ROOT / "policies/flow-with-drawn-times.yaml"))
    (check,) = check_measurements(dp, statement_of(dp), plan)
    assert not check.holds and "covers" in check.says


def test_a_release_of_a_known_seed_tells_no_tables(own_home: Path) -> None:
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
    """All of 200 runs are in ``benchmarks/accuracy.py``; the twin takes noise for a third."""
    accuracy = benchmark()
    plan = accuracy.planned("dp-control-flow", 4, "variants/markov")
    log = read_log(HOSPITAL)
    held, _ = accuracy.coverage(plan, log, runs=12)
    shares = {kind: [] for kind in ("cases", "activity", "step")}
    for (kind, _), each in held.items():
        shares[kind] += each
    assert all(np.mean(each) >= 0.75 for each in shares.values())

    def of_less_noise(measurements, released):
        return figure_bounds(measurements.with_columns(pl.col("sigma") / 3), released)

    accuracy.figure_bounds = of_less_noise
    held, _ = accuracy.coverage(plan, log, runs=12)
    assert np.mean([each for every in held.values() for each in every]) < 0.7


def test_a_figure_by_hand() -> None:
    """Two variants that are known, and five cases of a third: ("a",) has steps of norm root 2."""
    rows = [
        (VARIANTS_TABLE, ["a", "b"], 40.0, 3.0),
        (OTHERS_TABLE, [0], 5.0, 4.0),
        (STEPS_TABLE, [None, "a"], 5 / np.sqrt(2), 1.0),
        (STEPS_TABLE, ["a", None], 5 / np.sqrt(2), 1.0),
    ]
    table = pl.DataFrame(
        [(name, json.dumps(key), value, sigma) for name, key, value, sigma in rows],
        schema=["table", "key", "value", "sigma"],
        orient="row",
    )
    found = figure_bounds(table, Counter({("a", "b"): 40, ("a",): 5}))
    by_key = {(each.figure, each.key): each for each in found}
    cases = by_key["cases", ()]
    assert (cases.low + cases.high) / 2 == pytest.approx(45)
    assert cases.high - cases.low == pytest.approx(2 * 1.6448536 * 5)
    begin = by_key["step", (None, "a")]
    assert begin.released == 45
    assert (begin.low + begin.high) / 2 == pytest.approx(45)
    # A step of known variants alone has their noise alone.
    ab = by_key["step", ("a", "b")]
    assert (ab.low, ab.high) == pytest.approx((40 - 1.6448536 * 3, 40 + 1.6448536 * 3))


def test_a_report_says_how_accurate_a_release_is_without_the_raw_log(dp: Path) -> None:
    said = json.loads(render(dp, format="json"))["accuracy"]
    assert said["refused"] is None
    (cases,) = [each for each in said["figures"] if each["figure"] == "cases"]
    assert cases["low"] < 1040 * 1.3 and cases["high"] > 1040 * 0.7
    page = render(dp)
    assert "How accurate it is" in page


def test_a_key_that_nobody_knows_is_no_figure(dp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cloakwork.report import model

    strange = pl.DataFrame(
        {"table": [STEPS_TABLE], "key": ['{"a": 1}'], "value": [1.0], "sigma": [1.0]}
    )
    monkeypatch.setattr(model, "read_measurements", lambda file: strange)
    said = json.loads(render(dp, format="json"))["accuracy"]
    assert said["figures"] == [] and said["refused"]
