"""``compare``: what it may look at, what it says, and what the ledger keeps of it."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import cloakwork
from cloakwork.api import compare, load_policy
from cloakwork.base.costs import guessing_advantage
from cloakwork.errors import CloakworkError, LogError
from cloakwork.evaluation.compare import Comparison
from cloakwork.ledger.ledger import Ledger
from cloakwork.log.eventlog import TIMESTAMP, EventLog
from cloakwork.mechanisms.registry import catalogue
from cloakwork.testing.contract_logs import log_of
from policy.edits import edited, put

SEQUENCES = [["a", "b", "c"]] * 30 + [["a", "c"]] * 12 + [["a", "b", "b", "c"]] * 5 + [["c"]]
PATIENTS = log_of(SEQUENCES)


PRIVATE = load_policy("dp-control-flow")

PLANNED_WITH = (
    "bound",
    "variants/threshold",
    "variants/markov",
    "kanon/optimal",
    "timestamps/laplace",
    "timestamps/histogram",
    "attributes/redact",
    "attributes/histogram",
)
"""Mechanisms that planning weighs here: to weigh all takes most of the time."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few mechanisms, one run of each invented process, and a short search for k."""
    known = catalogue()
    few = {name: known[name] for name in PLANNED_WITH}
    monkeypatch.setattr("cloakwork.plan.planner.all_mechanisms", lambda: few)
    monkeypatch.setattr("cloakwork.run.run.all_mechanisms", lambda: few)
    monkeypatch.setattr("cloakwork.evaluation.compare.RUNS_OF_STAND_IN", 1)
    monkeypatch.setattr("cloakwork.evaluation.compare._SEARCH_SECONDS", 0.05)


def poisoned(folder: Path) -> Path:
    """A file that no reader can read as a log."""
    path = folder / "log.xes.gz"
    path.write_bytes(b"this is no log")
    return path


@pytest.mark.parametrize("policy", ["dp-control-flow", "dp-per-person", "dp-whole-log"])
def test_under_differential_privacy_of_units_the_log_is_not_opened(
    policy: str, tmp_path: Path, ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even a file that is no log matters, and no reader is called."""

    def must_not_be_called(*_: object, **__: object) -> EventLog:
        raise AssertionError("the raw log was opened")

    monkeypatch.setattr("cloakwork.evaluation.compare.read_under", must_not_be_called)
    found = compare(poisoned(tmp_path), policy, ledger=ledger, cases=60)
    assert found.source == "stand-in"
    assert not found.internal
    assert "was not opened" in found.notice[0]
    (row,) = found.settings
    assert row.refused is None
    assert row.figures.similarity is not None
    assert row.runs == 2


def test_one_setting_of_that_kind_keeps_all_of_them_from_the_log(
    tmp_path: Path, ledger: str
) -> None:
    """Who looks at k-anonymity on the log and then chooses differential privacy has chosen by the
    raw log.
    """
    policies = ["kanon-control-flow", PRIVATE]
    found = compare(poisoned(tmp_path), policies, sweep={"k": [5]}, ledger=ledger, cases=60)
    assert found.source == "stand-in"
    assert all(row.figures is not None for row in found.settings)


def test_what_is_found_on_a_stand_in_does_not_depend_on_the_log(ledger: str) -> None:
    """Two logs that have nothing in common give the same comparison."""
    found = [compare(log, PRIVATE, ledger=ledger, cases=60) for log in (PATIENTS, EventLog.empty())]
    assert found[0] == found[1]


def with_times(log: EventLog, times: pl.Series) -> EventLog:
    """The same events at other times."""
    return EventLog(log.events.with_columns(times.alias(TIMESTAMP)), log.cases, log.offsets)


@pytest.mark.parametrize("policy", ["kanon-dp-timestamps", "kanon-case-dp-timestamps"])
def test_under_noise_on_times_nothing_depends_on_the_times_of_the_log(
    policy: str, ledger: str
) -> None:
    """The order of events is all that counts; a log stretched over years gives the same figures."""
    days = pl.Series(np.arange(PATIENTS.events.height) * 3)
    later = PATIENTS.events[TIMESTAMP] + pl.select(pl.duration(days=days)).to_series()
    first = compare(PATIENTS, policy, ledger=ledger)
    second = compare(with_times(PATIENTS, later), policy, ledger=ledger)
    assert first.source == "log-with-invented-times"
    assert first.settings[0].figures is not None
    assert first == second


def test_their_control_flow_is_that_of_the_log(ledger: str) -> None:
    """Beside noise on times the similarity is what k-anonymity alone leaves."""
    alone, beside = (
        compare(PATIENTS, policy, sweep={"k": [5]}, ledger=ledger).settings[0].figures
        for policy in ("kanon-control-flow", "kanon-dp-timestamps")
    )
    assert alone.similarity == beside.similarity
    assert alone.durations is None
    assert beside.durations is not None


def test_the_similarity_is_the_report_s(ledger: str) -> None:
    """Of the release that is then made, the internal report has the same figure."""
    found = compare(PATIENTS, "kanon-control-flow", sweep="k=5", ledger=ledger)
    figures = found.settings[0].figures
    assert found.source == "log"
    assert found.internal
    policy = load_policy("kanon-control-flow")
    goal = policy.spec.guarantees[0].model_copy(update={"k": 5})
    spec = policy.spec.model_copy(update={"guarantees": (goal,)})
    policy = policy.model_copy(update={"spec": spec})
    made = cloakwork.apply(cloakwork.make_plan(policy), PATIENTS, ledger=ledger)
    reported = made.internal.utility["relative_log_similarity"]
    assert figures.similarity.median == pytest.approx(reported, abs=1e-9)
    assert figures.similarity.median < 1.0


def test_a_smaller_epsilon_leaves_less(ledger: str) -> None:
    """By far enough that no noise hides it: at 0.01 next to nothing is left of 60 cases."""
    found = compare(PATIENTS, PRIVATE, sweep={"epsilon": [0.01, 4]}, ledger=ledger, cases=200)
    weak, strong = (row.figures for row in found.settings)
    assert weak.similarity.median < strong.similarity.median
    assert strong.similarity.low <= strong.similarity.median <= strong.similarity.high


def test_bounds_and_costs_are_those_of_the_guarantees(ledger: str) -> None:
    """They come from the plan, not from a log."""
    policies = ["kanon-dp-timestamps", PRIVATE]
    rows = compare(PATIENTS, policies, ledger=ledger, cases=60).settings
    (guess,), (presence,) = (row.bounds for row in rows)
    assert (guess.kind, guess.most) == ("guess", 1 / 10)
    assert guess.beside == ("timestamps",)  # noise hides single times, not cases
    assert (presence.kind, presence.beside) == ("presence", ())
    assert presence.most == guessing_advantage(1.0, 1e-6)
    assert [row.cost for row in rows] == [("metric epsilon 1",), ("epsilon 1, delta 1e-06",)]
    assert rows[0].guarantees == ("k 10", "metric epsilon 1, shift 1h of times")


def test_a_setting_that_cannot_be_says_why_and_others_stay(ledger: str) -> None:
    """More cases than there are, and more budget than the dataset has."""
    found = compare(PATIENTS, "kanon-control-flow", sweep="k=5,5000", ledger=ledger)
    possible, impossible = found.settings
    assert possible.refused is None
    assert impossible.figures is None
    assert impossible.refused is not None
    assert "k = 5,000, but the log holds 48 cases" in impossible.refused
    found = compare(PATIENTS, PRIVATE, sweep="epsilon=9", ledger=ledger, cases=60)
    assert found.settings[0].refused is not None
    assert "budget.total allows 4" in found.settings[0].refused


def test_what_the_budget_no_longer_covers_is_said(ledger: str) -> None:
    """Three of four are spent: epsilon 2 is compared, and its row says that it is too much."""
    plan = cloakwork.make_plan(PRIVATE)
    for _ in range(3):
        cloakwork.apply(plan, PATIENTS, ledger=ledger)
    found = compare(PATIENTS, PRIVATE, sweep="epsilon=1,2", ledger=ledger, cases=60)
    enough, too_much = found.settings
    assert enough.remarks == ()
    assert "is exhausted" in too_much.remarks[0]
    assert too_much.figures is not None


def test_the_ledger_notes_the_comparison_and_no_figure_of_the_log(ledger: str) -> None:
    """Policies by name and digest, settings, and what they were tried on; nothing is charged."""
    found = compare(PATIENTS, "kanon-control-flow", sweep="k=5,48", ledger=ledger)
    book = Ledger(ledger)
    (entry,) = book.events("compared")
    assert entry.dataset == found.dataset == "hospital-emergency"
    digest = cloakwork.make_plan(load_policy("kanon-control-flow")).policy_digest
    assert entry.fields() == {
        "policies": [{"name": "kanon-control-flow", "version": "1.0.0", "digest": digest}],
        "settings": [
            {"policy": "kanon-control-flow 1.0.0", "values": {"k": value}} for value in (5, 48)
        ],
        "measured_on": "log",
    }
    assert book.history() == ()
    assert book.verify() is None


def test_it_is_noted_before_the_log_is_read(tmp_path: Path, ledger: str) -> None:
    """A comparison that fails on the way may have shown something."""
    with pytest.raises(LogError):
        compare(poisoned(tmp_path), "kanon-control-flow", ledger=ledger)
    assert len(Ledger(ledger).events("compared")) == 1


def test_what_concerns_all_settings_is_refused_before_anything_is_done(
    tmp_path: Path, ledger: str
) -> None:
    """No file, no policy, policies of two datasets: the ledger stays as it was."""
    other = PRIVATE
    meta = other.metadata.model_copy(update={"dataset": "another"})
    other = other.model_copy(update={"metadata": meta})
    with pytest.raises(CloakworkError, match="one log is of one dataset"):
        compare(PATIENTS, ["kanon-control-flow", other], ledger=ledger)
    with pytest.raises(LogError, match="there is no such file"):
        compare(tmp_path / "none.xes", PRIVATE, ledger=ledger)
    with pytest.raises(CloakworkError, match="needs a policy"):
        compare(PATIENTS, [], ledger=ledger)
    assert Ledger(ledger).events("compared") == ()


def test_tables_of_pandas_and_polars_are_logs(ledger: str) -> None:
    """As for ``apply``, with the names of their columns."""
    frame = PATIENTS.to_polars()
    whole = compare(PATIENTS, "kanon-control-flow", sweep="k=5", ledger=ledger)
    for table in (frame, PATIENTS.to_pandas()):
        assert compare(table, "kanon-control-flow", sweep="k=5", ledger=ledger) == whole


def test_a_comparison_survives_json(ledger: str) -> None:
    """What ``--json`` prints can be read back."""
    found = compare(PATIENTS, PRIVATE, ledger=ledger, cases=60)
    assert Comparison.model_validate_json(found.model_dump_json()) == found


def test_a_window_of_invented_starts_is_said_to_be_one(ledger: str) -> None:
    """Where the log's own times are not looked at; a window without cases has no similarity."""
    monthly = put("budget", {"windows": {"by": "case-start", "every": "1 month"}})
    timed = edited("kanon-dp-timestamps", monthly)
    found = compare(PATIENTS, timed, window="1999-01", ledger=ledger)
    assert found.source == "log-with-invented-times"
    assert "Cases of window 1999-01 are drawn by invented starts" in found.notice[-1]
    figures = found.settings[0].figures
    assert (figures.similarity, figures.cases) == (None, None)
    whole = compare(PATIENTS, "kanon-dp-timestamps", ledger=ledger)
    assert not any("invented starts" in line for line in whole.notice)
