"""One call for notebooks: pm4py's tables in and out, under a guarantee that the ledger charges."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import cloakwork
from cloakwork import errors
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats import write_log
from cloakwork.pm4py import anonymize, read

STEPS = ("Register", "Examine", "Discharge")
FRAME = pd.DataFrame(
    [
        {
            "case:concept:name": f"PATIENT-{case}",
            "concept:name": step,
            "time:timestamp": pd.Timestamp("2024-01-01", tz="UTC") + pd.Timedelta(case, "h"),
            "who": f"Nurse {case % 7}",
            "case:ward": "AB"[case % 2],
        }
        for case in range(300)
        for step in (STEPS if case % 3 else (*STEPS, "Call"))
    ]
)
PUBLIC = {
    "window": {"start": "2024-01-01T00:00:00Z", "end": "2024-06-01T00:00:00Z"},
    "longest_gap": "10d",
    "units_at_most": 1000,
    "alphabet": [*STEPS, "Call"],
}
WARD = {"case:ward": {"role": "sensitive", "domain": ["A", "B"]}}

pytestmark = pytest.mark.usefixtures("no_figures", "few_turns")


def test_variants_under_differential_privacy(ledger: str) -> None:
    """New case ids, noisy counts, no other column; charged, and refused when the total is spent."""
    total = {"epsilon": 3, "delta": 1e-5}
    found = anonymize(FRAME, "dp", epsilon=2, dataset="visits", total=total, ledger=ledger)
    assert list(found.columns) == ["case:concept:name", "concept:name", "time:timestamp"]
    assert set(found["concept:name"]) <= {*STEPS, "Call"} and len(found)
    assert not set(found["case:concept:name"]) & set(FRAME["case:concept:name"])
    assert found["time:timestamp"].is_monotonic_increasing
    assert found["time:timestamp"].dt.year.eq(1970).all()
    said = found.attrs["privacy"]
    assert "epsilon = 2" in said["guarantees"][0]
    assert (said["exposed"], said["cost"]) == ([], ["epsilon 2, delta 1e-06"])
    assert said["times"].startswith("made up")
    (record,) = cloakwork.Ledger(ledger).history("visits")
    assert record.id == said["release"]
    assert record.charges[0].cost.epsilon == pytest.approx(2, rel=1e-3)
    # What is left does not pay for a second one, and nothing of the log is looked at.
    with pytest.raises(errors.BudgetExceeded):
        anonymize(FRAME, "dp", epsilon=2, dataset="visits", ledger=ledger)
    assert len(cloakwork.Ledger(ledger).history()) == 1


def test_times_and_attributes_are_drawn(ledger: str) -> None:
    """Where what is public says so; one claim over all that is released."""
    asked = {"assume": PUBLIC, "attributes": WARD, "dataset": "visits", "ledger": ledger}
    found = anonymize(FRAME, epsilon=4, **asked)
    assert {"time:timestamp", "case:ward"} < set(found.columns)
    assert "who" not in found.columns
    assert set(found["case:ward"].dropna()) <= {"A", "B"}
    said = found.attrs["privacy"]
    assert "times" not in said
    assert all(
        name in said["guarantees"][0] for name in ("control-flow", "timestamps", "case:ward")
    )


def test_k_anonymous_sequences(ledger: str) -> None:
    """What is exposed is said; a second release is warned of; both stand in the ledger."""
    asked = {"dataset": "visits", "ledger": ledger}
    found = anonymize(FRAME, "k-anonymity", k=5, **asked)
    variants = found.groupby("case:concept:name")["concept:name"].agg(tuple)
    assert variants.value_counts().min() >= 5
    assert found.attrs["privacy"]["exposed"]
    again = anonymize(FRAME, "k-anonymity", k=5, **asked).attrs["privacy"]
    assert len(again["warnings"]) > len(found.attrs["privacy"]["warnings"])
    assert len(cloakwork.Ledger(ledger).history("visits")) == 2


def test_an_empty_release_says_so(ledger: str) -> None:
    """As the commands do."""
    found = anonymize(FRAME, epsilon=1e-4, dataset="visits", ledger=ledger)
    assert not len(found)
    assert any("the release is EMPTY" in said for said in found.attrs["privacy"]["warnings"])


@pytest.mark.parametrize(
    ("asked", "kind", "says"),
    [
        ({}, errors.CloakworkError, "'dp' with epsilon=, or 'k-anonymity' with k= "),
        ({"guarantee": "k-anonymity", "epsilon": 1}, errors.CloakworkError, "k=None"),
        ({"epsilon": 1, "k": 5}, errors.CloakworkError, "epsilon=1, k=5"),
        ({"guarantee": "travas", "epsilon": 1}, errors.CloakworkError, "got 'travas'"),
        ({"epsilon": "2"}, errors.CloakworkError, "epsilon must be float or None (got '2')"),
        ({"epsilon": -1}, errors.PolicyError, "epsilon must be between 1e-05 and 100"),
        ({"epsilon": 1, "dataset": 7}, errors.CloakworkError, "dataset must be str (got int)"),
        ({"epsilon": 1, "frame": 3}, errors.LogError, "log: must be"),
        ({"epsilon": 1, "attributes": {"age": {}}}, errors.LogError, "has no attribute 'age'"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_charged(
    asked: dict, kind: type[Exception], says: str, ledger: str
) -> None:
    """In a line a fault."""
    with pytest.raises(kind) as caught:
        anonymize(**{"frame": FRAME, "dataset": "visits", "ledger": ledger} | asked)
    assert says in str(caught.value)
    assert cloakwork.Ledger(ledger).history() == ()


def test_what_a_file_declares_is_read_with_it(release_of, tmp_path: Path) -> None:
    """Of a release its guarantees, in the words of its file; of a raw log nothing."""
    made = release_of("kanon-dp-timestamps")
    file = next(made.folder.glob("log.*"))
    found = read(file)
    said = found.attrs["privacy"]
    assert len(said["guarantees"]) == 2
    assert said["declared"]["privacy:anonymizations/privacy:anonymizer1/privacy:operation type"]
    assert said["verified"] is False
    assert len(found) == cloakwork.read_log(file).event_count
    for form in ("xes", "parquet", "csv"):
        raw = tmp_path / f"raw.{form}"
        write_log(EventLog.from_pandas(FRAME), raw, form)
        privacy = read(raw).attrs["privacy"]
        assert privacy == {"verified": False, "guarantees": [], "declared": {}}


def test_pm4py_reads_the_table_and_is_not_loaded_for_it(ledger: str) -> None:
    """Its discovery takes what comes out; its own numbers of rows are no attributes."""
    script = "import sys, cloakwork.pm4py; sys.exit('pm4py' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
    pm4py = pytest.importorskip("pm4py", reason="pm4py is not installed (extra: mining)")
    given = pm4py.format_dataframe(FRAME.copy())
    found = anonymize(given, epsilon=3, dataset="visits", ledger=ledger)
    graph, starts, _ = pm4py.discover_dfg(found)
    assert set(starts) == {"Register"} and ("Examine", "Discharge") in graph
