"""Figures of a release whose log lies in batches: counts of all cases, the rest of a sample."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl
import pytest

from cloakwork import load_policy, make_plan, read_log
from cloakwork.base.progress import silent
from cloakwork.evaluation import times as audited_times
from cloakwork.evaluation import utility
from cloakwork.evaluation.utility import KeptUtility, SeenLog, Utility
from cloakwork.log import sample
from cloakwork.log.eventlog import EventLog
from cloakwork.plan.model import Plan, Step
from conftest import EXAMPLES, ROOT
from log_in_parts import LogInParts

SMALL = 1500
"""Events of a sample, where the log has 6,800."""


@pytest.fixture(scope="module")
def hospital() -> EventLog:
    """A shipped log."""
    return read_log(EXAMPLES / "hospital.xes.gz")


@pytest.fixture(scope="module")
def later(hospital: EventLog) -> EventLog:
    """Every event some hours later than it was."""
    moved = pl.col("time:timestamp") + pl.duration(hours=hospital.position_of_event)
    return replace(hospital, events=hospital.events.with_columns(moved))


def planned(policy: str = "kanon-dp-timestamps") -> Plan:
    """The plan of a shipped policy."""
    return make_plan(load_policy(ROOT / "policies" / f"{policy}.yaml"))


def figures(source: Any, released: Any) -> Mapping[str, object]:
    """As the internal report has them."""
    return KeptUtility(planned(), silent).finished(source, released)


def rounded(value: object) -> object:
    """Nine digits of every number in it."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, Mapping):
        return {key: rounded(each) for key, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list | tuple) else value


def test_a_small_log_has_the_same_figures_in_batches(hospital: EventLog, later: EventLog) -> None:
    """To the last digit that batches leave alone: sums of floats follow the order of cases."""
    whole = figures(hospital, later)
    parts = figures(LogInParts.evenly(hospital, 4), LogInParts.evenly(later, 3))
    assert rounded(parts) == rounded(whole)


def test_of_a_large_log_a_sample_is_compared_and_all_cases_are_counted(
    hospital: EventLog, later: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report says so; the figures are close to those of the whole."""
    whole = Utility.model_validate(figures(hospital, later))
    monkeypatch.setattr(utility, "sampled_cases", partial(sample.sampled_cases, most_events=SMALL))
    parts = LogInParts.evenly(hospital, 4), LogInParts.evenly(later, 3)

    found = Utility.model_validate(figures(*parts))

    assert len(found.notes) == 2
    assert "of the source times and attributes are those of a random sample of" in found.notes[0]
    assert found.source_cases == whole.source_cases
    assert found.relative_log_similarity == whole.relative_log_similarity == 1.0
    assert found.flow is not None and whole.flow is not None
    counted = [(step.first, step.second, step.source, step.released) for step in found.flow.steps]
    assert counted == [
        (each.first, each.second, each.source, each.released) for each in whole.flow.steps
    ]
    assert found.whole_log is not None and whole.whole_log is not None
    durations = found.whole_log.case_durations, whole.whole_log.case_durations
    assert durations[0] == pytest.approx(durations[1], rel=0.5)


def test_variants_are_those_of_the_sample_where_there_are_too_many(
    hospital: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many may be new in each of the other cases as the sample has once."""
    monkeypatch.setattr(utility, "sampled_cases", partial(sample.sampled_cases, most_events=SMALL))
    seen = SeenLog.of(LogInParts.evenly(hospital, 4))
    assert seen.counts_all and sum(seen.variants.values()) == hospital.cases.height
    monkeypatch.setattr(utility, "MOST_VARIANTS", 10)
    seen = SeenLog.of(LogInParts.evenly(hospital, 4))
    assert not seen.counts_all
    assert sum(seen.variants.values()) == seen.sample.log.cases.height < hospital.cases.height
    assert "of the source all figures are those" in utility.sample_notes(seen, seen)[0]


def moves_times() -> Step:
    """The step of a plan that changes times alone."""
    (step,) = [step for step in planned().steps if step.mechanism.startswith("timestamps/")]
    return step


def test_times_before_and_after_a_step_are_compared_batch_by_batch(
    hospital: EventLog, later: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many batches as it takes; of a log that has no more, all of them."""
    one, several, few = (KeptUtility(planned(), silent) for _ in range(3))
    parts = LogInParts.evenly(hospital, 4), LogInParts.evenly(later, 4)
    one.stepped(moves_times(), hospital, later)
    several.stepped(moves_times(), *parts)
    monkeypatch.setattr(audited_times, "MOST_EVENTS", 10)
    few.stepped(moves_times(), *parts)

    assert one.times is not None and several.times is not None and few.times is not None
    assert several.times.events == one.times.events
    assert several.times.error_median == one.times.error_median
    assert not several.times.notes
    assert few.times.events == parts[0].parts[0].events.height
    assert few.times.notes == ("times were compared on a sample of 260 of 1,040 cases",)


def test_what_goes_wrong_is_a_note(hospital: EventLog) -> None:
    """The release is made, and does not depend on it."""
    found = Utility.model_validate(figures(hospital, None))
    assert "utility was not measured" in found.notes[0]
    seen = KeptUtility(planned(), silent)
    seen.stepped(moves_times(), hospital, None)  # type: ignore[arg-type]
    assert seen.times is not None and "times were not compared" in seen.times.notes[0]
