"""Figures of a release beside its source: by hand, in batches, and in the internal report."""

import sys
import warnings
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

import cloakwork
from cloakwork import load_policy, make_plan
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW
from cloakwork.base.progress import silent
from cloakwork.errors import MechanismError
from cloakwork.evaluation import control_flow, utility
from cloakwork.evaluation import times as audited_times
from cloakwork.evaluation.control_flow import (
    absolute_log_difference,
    directly_follows,
    distances_of_steps,
    histogram,
    relative_log_similarity,
    true_variants,
)
from cloakwork.evaluation.utility import (
    ComparedLogs,
    KeptUtility,
    SeenLog,
    Utility,
    compared,
    compared_columns,
    measured,
    week_clock,
    whole_log_utility,
)
from cloakwork.evaluation.whole_log import WeekClock
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, EventLog
from cloakwork.log.formats import read_log
from cloakwork.noise import reproducible
from cloakwork.plan.model import Plan, Step
from cloakwork.publishing.from_plan import statement_of
from cloakwork.report.html import internal_html, lines
from cloakwork.report.model import internal_report
from cloakwork.run.run import Observer, Run
from cloakwork.testing import run_mechanism
from conftest import EXAMPLES, ROOT, SHARED, hurried, in_long_form
from log_in_parts import LogInParts

VARIANTS = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(tuple)
HISTOGRAMS = st.dictionaries(VARIANTS, st.integers(1, 9), min_size=1, max_size=5)
A, B, C = ("a",), ("a", "b"), ("a", "b", "c")


def dfg_distances(source, release):
    """How far counts of steps are apart, and how far when they are sorted first."""
    return distances_of_steps(directly_follows(source), directly_follows(release))


def levenshtein(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """By the recurrence of the definition."""
    row = list(range(len(other) + 1))
    for i, left in enumerate(one, 1):
        diagonal, row[0] = row[0], i
        for j, right in enumerate(other, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (left != right))
    return row[-1]


def transported(have: list[float], want: list[float], costs: NDArray[np.float64]) -> float:
    """The least cost of moving ``have`` to ``want``, by linear programming."""
    rows, columns = costs.shape
    leaves = np.kron(np.eye(rows), np.ones(columns))
    arrives = np.kron(np.ones(rows), np.eye(columns))
    found = linprog(
        costs.ravel(), A_eq=np.vstack([leaves, arrives]), b_eq=[*have, *want], method="highs"
    )
    assert found.success
    return float(found.fun)


@settings(deadline=None)  # the first example loads the solvers
@given(HISTOGRAMS, HISTOGRAMS)
def test_similarity_is_the_optimum_of_its_linear_program(source, release):
    """Shares, and edit distance over the longer length."""
    costs = np.array(
        [
            [levenshtein(one, other) / max(len(one), len(other)) for other in release]
            for one in source
        ]
    )
    shares = [[cases / sum(side.values()) for cases in side.values()] for side in (source, release)]
    assert 1 - transported(*shares, costs) == pytest.approx(
        relative_log_similarity(source, release), abs=1e-9
    )


@settings(deadline=None)  # the first example loads the solvers
@given(HISTOGRAMS, HISTOGRAMS)
def test_difference_is_the_optimum_of_its_linear_program(source, release):
    """Cases and a buffer of empty ones on the smaller side; nothing is taken out beforehand."""
    sides = [dict(source), dict(release)]
    surplus = sum(source.values()) - sum(release.values())
    sides[int(surplus > 0)][()] = abs(surplus)
    costs = np.array([[float(levenshtein(one, other)) for other in sides[1]] for one in sides[0]])
    expected = transported(*([float(cases) for cases in side.values()] for side in sides), costs)
    assert expected == pytest.approx(absolute_log_difference(source, release), abs=1e-6)


@settings(deadline=None)  # the first example loads the solvers
@given(HISTOGRAMS, HISTOGRAMS)
def test_figures_are_symmetric_and_zero_for_the_same_log(source, release):
    """Distances are distances; and sorting the counts can only bring them closer."""
    for figure in (
        relative_log_similarity,
        absolute_log_difference,
        dfg_distances,
    ):
        assert figure(source, release) == pytest.approx(figure(release, source))
    assert relative_log_similarity(source, source) == pytest.approx(1)
    assert absolute_log_difference(source, source) == 0
    matched, by_size = dfg_distances(source, release)
    assert (matched is None and by_size is None) or by_size <= matched + 1e-9


def test_what_both_logs_share_may_have_to_move():
    """ab, aba, ba: the normalised distance is no metric, and holding the shared variant in place
    costs half as much again.
    """
    source, release = {("a", "b"): 1, ("a", "b", "a"): 1}, {("a", "b", "a"): 1, ("b", "a"): 1}
    assert relative_log_similarity(source, release) == pytest.approx(2 / 3)


def test_empty_logs():
    """An empty release differs by every event of the source; two empty logs are alike."""
    log = {A: 3, C: 2}
    for source, release in ((log, {}), ({}, log)):
        assert relative_log_similarity(source, release) == 0
        assert absolute_log_difference(source, release) == 3 * 1 + 2 * 3
    assert relative_log_similarity({}, {}) == 1
    assert absolute_log_difference({}, {}) == 0
    assert dfg_distances({}, {}) == (None, None)
    assert dfg_distances(log, {}) == (2, 2)


def test_one_variant_each():
    """By hand: ab against abc, one event of three."""
    assert relative_log_similarity({B: 7}, {C: 2}) == pytest.approx(2 / 3)
    assert absolute_log_difference({B: 7}, {C: 2}) == 2 * 1 + 5 * 2
    assert absolute_log_difference({B: 7}, {B: 4}) == 3 * 2


def test_a_measure_of_frequencies_alone_overlooks_which_edge_is_which():
    """The counts of two relations are exchanged: sorted they agree, matched they do not."""
    source, release = {B: 9, ("b", "c"): 1}, {B: 1, ("b", "c"): 9}
    assert directly_follows(source) == {("a", "b"): 9, ("b", "c"): 1}
    assert dfg_distances(source, release) == (8, 0)


def a_log(*variants: list[str | None]) -> EventLog:
    rows = [
        {CASE_ID: str(case), ACTIVITY: label}
        for case, labels in enumerate(variants)
        for label in labels
    ]
    return EventLog.from_polars(
        pl.DataFrame(rows, schema={CASE_ID: pl.String, ACTIVITY: pl.String})
    )


def test_a_histogram_counts_named_events_only():
    """Events without an activity go, and cases that have no other."""
    assert histogram(a_log(["a", "b"], ["a", None, "b"], [None])) == {B: 2}
    assert histogram(EventLog.empty()) == {}


def test_true_and_fake_variants_by_hand():
    """Two of three released variants are true; they are half of the source's."""
    source = a_log(*[["a"]] * 5, *[["b"]] * 3, ["c"], ["d"])
    found = measured(source, a_log(["a"], ["a"], ["b"], ["e"]))
    assert (found.true_variants, found.fake_variants) == (2, 1)
    assert (found.variant_precision, found.variant_recall) == (2 / 3, 1 / 2)
    assert (found.case_precision, found.case_recall) == (3 / 4, 8 / 10)
    assert (found.source_cases, found.released_cases) == (10, 4)


def test_shares_of_nothing_are_missing():
    """An empty release has no precision; that is no error."""
    found = measured(a_log(["a"]), EventLog.empty())
    assert (found.variant_precision, found.case_precision, found.variant_recall) == (None, None, 0)
    assert found.relative_log_similarity == 0


def test_too_many_pairs_are_left_out_with_a_reason(monkeypatch):
    """The cheap figures stay."""
    monkeypatch.setattr(utility, "MOST_PAIRS", 2)
    found = measured(a_log(["a"], ["b"], ["c"]), a_log(["a"]))
    assert (found.relative_log_similarity, found.absolute_log_difference) == (None, None)
    assert [note.partition(":")[0] for note in found.notes[:2]] == [
        "relative log similarity",
        "absolute log difference",
    ]
    assert found.true_variants == 1


def test_a_solver_that_stops_early_is_no_answer(monkeypatch):
    """POT only warns; here it is an error, and in a report a note."""
    generator = np.random.default_rng(0)  # a test's own data, no noise
    source, release = (
        {
            tuple(generator.choice(list("abcdef"), 8)): int(generator.integers(1, 50))
            for _ in range(60)
        }
        for _ in "ab"
    )
    monkeypatch.setattr(control_flow, "_ITERATIONS", 3)
    with (
        pytest.warns(UserWarning, match="numItermax"),
        pytest.raises(MechanismError, match="earth mover's distance was not found"),
    ):
        relative_log_similarity(source, release)


def test_what_python_says_of_pot_is_not_shown(monkeypatch):
    """From 3.12 on it warns where it compiles POT: amid what the first `apply` said."""
    import ot

    class Uncompiled:
        @property
        def emd2(self):
            warnings.warn("invalid escape sequence", SyntaxWarning, stacklevel=2)
            return ot.emd2

    monkeypatch.setitem(sys.modules, "ot", Uncompiled())
    with warnings.catch_warnings(action="error"):
        assert relative_log_similarity({B: 1}, {B: 1}) == 1


@pytest.fixture(scope="module")
def hospital() -> EventLog:
    """The shipped hospital log."""
    return cloakwork.read_log(EXAMPLES / "hospital.xes.gz")


@cache
def planned(policy: str = "kanon-dp-timestamps") -> Plan:
    """The plan of a shipped policy, made once."""
    return make_plan(load_policy(ROOT / "policies" / f"{policy}.yaml"))


@pytest.mark.parametrize("policy", ["kanon-dp-timestamps", "dp-control-flow"])
def test_the_internal_report_shows_utility(hospital, ledger, tmp_path, policy):
    """Each figure under its plain name, and what reading them does to the claims; nothing of it is
    public.
    """
    plan = cloakwork.make_plan(
        cloakwork.load_policy(hurried(ROOT / "policies" / f"{policy}.yaml", tmp_path))
    )
    release = cloakwork.apply(plan, hospital, ledger=ledger)
    statement = statement_of(release.plan, release.release_id, released=(), private=True)
    report = internal_report(release, statement)
    # Of columns that the policy does not release, no figure is in the report.
    without = dict.fromkeys(("times", "whole_log", "flow", "learned", "findable"))
    found = measured(hospital, release.log)
    # Who knows activities is found at most once in k guesses, beside what chance adds.
    by_name = {each.name: each.after for each in report.utility.findable}
    assert "linking/sequence" in by_name
    assert all(share is not None and share.low <= share.share for share in by_name.values())
    assert found.model_copy(update=without) == report.utility.model_copy(update=without)
    page = internal_html(report)
    assert "Relative log similarity" in page
    assert "voids the claims" in page
    assert "Model: fitness" not in page  # a model is mined only when asked for
    assert "similarity" not in statement.model_dump_json()
    if policy == "kanon-dp-timestamps":
        times = release.internal.utility["times"]
        assert 0.3 < times["error_mean"] < 3
        assert times["zeros_released"] < times["zeros_source"]
        assert "Median hours: source, released" in page
        assert "Error of a time, mean" in page
        cloakwork.publish(release, tmp_path / "out")
        for file in (tmp_path / "out").glob("*.*"):
            assert b"error_mean" not in file.read_bytes()


def test_utility_changes_nothing(hospital, ledger):
    """With the same noise the release is the same, measured or not."""
    plan = planned("dp-control-flow")
    book = cloakwork.Ledger(ledger)
    without = Run(plan=plan, noise=reproducible(7)).release(hospital, book)
    seen: list[tuple[EventLog, EventLog]] = []

    class Compares(Observer):
        def finished(self, source: EventLog, released: EventLog) -> dict[str, object]:
            seen.append((source, released))
            return measured(source, released).model_dump(mode="json")

    observed = Run(plan=plan, noise=reproducible(7), observers=(Compares(),))
    with_it = observed.release(hospital, book)
    assert with_it.log.events.equals(without.log.events)
    assert with_it.log.cases.equals(without.log.cases)
    assert without.internal.utility == {}
    assert seen[0][0].cases.height == hospital.cases.height


@pytest.mark.parametrize("fault", [MemoryError("no memory left"), ZeroDivisionError()])
def test_a_failure_to_measure_is_a_note(hospital, ledger, monkeypatch, fault):
    """The release is made and paid for; what went wrong stands in the internal report."""

    def fails(*_: object, **__: object) -> None:
        raise fault

    plan = planned("dp-control-flow")
    broken = utility.Measure("relative log similarity", fails)
    monkeypatch.setattr(utility, "MEASURES", (broken,))
    release = cloakwork.apply(plan, hospital, ledger=ledger)
    report = internal_report(
        release, statement_of(release.plan, release.release_id, released=(), private=True)
    )
    assert report.utility.relative_log_similarity is None
    said = str(fault) or type(fault).__name__
    assert report.utility.notes[0] == f"relative log similarity: {said}"
    assert report.utility.notes[0] in internal_html(report)


def test_who_is_found_alone_is_measured_where_nobody_rewrites_the_control_flow(hospital):
    """And nothing where the policy wants no internal report."""
    plan = planned()
    times_only = without_rewriting(plan)
    spec = plan.policy.spec
    unreported = spec.model_copy(update={"output": spec.output.model_copy(update={"report": ()})})
    without = plan.model_copy(
        update={"policy": plan.policy.model_copy(update={"spec": unreported})}
    )
    found = Utility.model_validate(KeptUtility(times_only, silent).finished(hospital, hospital))
    assert found.source_cases is None
    # Who is found in cases that stay as they are: who knows all of their times finds each.
    by_name = {each.name: each.after for each in found.findable}
    assert by_name["linking/sequence-times"].share > 0.9
    assert KeptUtility(without, silent).finished(hospital, hospital) == {}
    assert KeptUtility(plan, silent).finished(hospital, hospital) != {}


# log, epsilon: relative log similarity, directly-follows distance, cases, true variants of TraVaS
# at delta 1e-4
TRAVAS = {
    ("receipt", 2.0): (0.962, 10, 1316, 17),
    ("receipt", 1.0): (0.956, 12, 1292, 13),
    ("sepsis", 2.0): (0.487, 118, 127, 8),
    ("sepsis", 1.0): (0.455, 119, 108, 5),
    ("bpic2012_a", 1.0): (1.0, 2, 13078, 15),
    ("bpic2013_incidents", 1.0): (0.848, 3031, 5486, 58),
}


@pytest.mark.parametrize(("name", "epsilon"), [*list(TRAVAS)[::2], *in_long_form(*TRAVAS)])
def test_figures_measured_elsewhere_are_met(name, epsilon):
    """TraVaS was run with its authors' code; our threshold mechanism, with fixed noise, lands where
    it does.
    """
    path = SHARED / "logs" / f"{name}.xes.gz"
    if not path.is_file():
        pytest.skip("the folder shared/logs with the real logs is missing beside the repository")
    log = read_log(path, keep=lambda _: False)
    source, figures = histogram(log), []
    for seed in range(3):
        noise = reproducible(seed)
        release = histogram(
            run_mechanism("variants/threshold", log, noise=noise, epsilon=epsilon, delta=1e-4)
        )
        similarity, distance = (
            relative_log_similarity(source, release),
            dfg_distances(source, release)[1],
        )
        figures.append(
            (similarity, distance, sum(release.values()), len(true_variants(source, release)))
        )
        assert release.keys() <= source.keys()
    similarity, distance, cases, true = np.mean(np.array(figures, float), axis=0)
    expected = TRAVAS[name, epsilon]
    assert similarity == pytest.approx(expected[0], abs=0.02)
    assert distance == pytest.approx(expected[1], rel=0.1, abs=1)
    assert cases == pytest.approx(expected[2], rel=0.1)
    assert true == pytest.approx(expected[3], rel=0.2)


SMALL = 1500
"""Events of a sample, where the log has 6,800."""


@pytest.fixture(scope="module")
def later(hospital: EventLog) -> EventLog:
    """Every event some hours later than it was."""
    moved = pl.col("time:timestamp") + pl.duration(hours=hospital.position_of_event)
    return replace(hospital, events=hospital.events.with_columns(moved))


def figures(source: Any, released: Any) -> Mapping[str, object]:
    """As the internal report has them."""
    return KeptUtility(planned(), silent).finished(source, released)


@pytest.fixture(scope="module")
def whole(hospital, later) -> Mapping[str, object]:
    """All figures of the two, measured once."""
    return figures(hospital, later)


@pytest.fixture
def _nobody_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is found, which takes most of the time, is not measured."""
    others = tuple(measure for measure in utility.MEASURES if measure.name != "who is found")
    assert len(others) == len(utility.MEASURES) - 1
    monkeypatch.setattr(utility, "MEASURES", others)


def rounded(value: object) -> object:
    """Nine digits of every number in it."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, Mapping):
        return {key: rounded(each) for key, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list | tuple) else value


def test_a_small_log_has_the_same_figures_in_batches(hospital, later, whole):
    """To the last digit that batches leave alone: sums of floats follow the order of cases."""
    parts = figures(LogInParts.evenly(hospital, 4), LogInParts.evenly(later, 3))
    assert rounded(parts) == rounded(whole)


def test_of_a_large_log_a_sample_is_compared_and_all_cases_are_counted(
    hospital, later, whole, monkeypatch
):
    """The report says so; the figures are close to those of the whole."""
    whole = Utility.model_validate(whole)
    monkeypatch.setattr(utility, "sampled_cases", partial(utility.sampled_cases, most_events=SMALL))
    parts = LogInParts.evenly(hospital, 4), LogInParts.evenly(later, 3)

    found = Utility.model_validate(figures(*parts))
    assert len(found.notes) == 3
    assert "who is found: not measured" in found.notes[2]
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


def test_variants_are_those_of_the_sample_where_there_are_too_many(hospital, monkeypatch):
    """As many may be new in each of the other cases as the sample has once."""
    monkeypatch.setattr(utility, "sampled_cases", partial(utility.sampled_cases, most_events=SMALL))
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


def test_times_before_and_after_a_step_are_compared_batch_by_batch(hospital, later, monkeypatch):
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


def test_what_goes_wrong_is_a_note(hospital):
    """The release is made, and does not depend on it."""
    found = Utility.model_validate(figures(hospital, None))
    assert "utility was not measured" in found.notes[0]
    seen = KeptUtility(planned(), silent)
    seen.stepped(moves_times(), hospital, None)  # type: ignore[arg-type]
    assert seen.times is not None and "times were not compared" in seen.times.notes[0]


def without_rewriting(plan: Plan) -> Plan:
    """The plan without the steps that rewrite the control flow."""
    steps = tuple(step for step in plan.steps if CONTROL_FLOW not in step.lineage.writes)
    return plan.model_copy(update={"steps": steps})


def test_what_the_plan_rewrites_is_compared(hospital):
    """Kept attributes and times where cases are rewritten; never those under other names."""
    log = hospital
    plan = planned("kanon-with-generalised-attributes")
    generalised = [item for item in plan.attributes if item.treatment == "generalise"]
    assert generalised
    assert compared_columns(plan, log) == ((), False)  # it keeps no other, and drops times
    kept = tuple(item.model_copy(update={"treatment": "keep"}) for item in plan.attributes)
    names, _ = compared_columns(plan.model_copy(update={"attributes": kept}), log)
    assert {item.attribute for item in generalised} <= set(names)
    assert compared_columns(planned("kanon-quasi-identifiers"), log) == ((), False)
    assert compared_columns(planned("dp-control-flow"), log) == ((), False)
    assert compared_columns(planned("kanon-dp-timestamps"), log)[1] is True
    assert compared_columns(without_rewriting(planned("kanon-dp-timestamps")), log)[1] is False
    assert whole_log_utility(planned("dp-control-flow"), log, log) is None


def test_days_are_those_of_the_declared_grid():
    """A grid of whole days shows weekdays alone, from the declared beginning of a day."""
    epoch = datetime(2000, 1, 1, 23, tzinfo=UTC)
    assert week_clock(Facts(grid=timedelta(days=1), epoch=epoch)).days_from == epoch
    hourly = Facts(grid=timedelta(hours=1), epoch=epoch, time_zone="Europe/Rome")
    assert week_clock(hourly) == WeekClock(zone="Europe/Rome")


@pytest.mark.usefixtures("_nobody_looked_for")
def test_figures_stand_in_the_report(hospital, whole):
    """Under names that an analyst understands; 0 where nothing was lost, above 0 where times
    moved.
    """
    same = Utility.model_validate(figures(hospital, hospital))
    shown = {line.name: line.value for line in lines(same)}
    assert shown["Case durations"] == shown["Waiting times per step"] == "0"
    assert shown["Hours of the week"] == "0"
    found = Utility.model_validate(whole).whole_log
    assert min(found.case_durations or 0, found.waiting_times or 0, found.hours_of_week or 0) > 0


@pytest.mark.usefixtures("_nobody_looked_for")
def test_the_graph_and_what_is_learned_stand_in_the_report(hospital):
    """Of whatever rewrites the control flow."""
    kept = KeptUtility(planned("dp-control-flow"), silent)
    found = Utility.model_validate(kept.finished(hospital, hospital))
    assert all(step.source == step.released for step in found.flow.steps)
    shown = {line.name: line.value for line in lines(found)}
    assert float(shown["Next activity, learned from the release"]) > 0.7


@pytest.mark.usefixtures("_nobody_looked_for")
def test_a_step_that_changes_times_alone_is_drawn_as_well(hospital):
    """Which activity follows which, durations and hours of both logs; no times where none are
    released; what cannot be drawn is noted.
    """
    of_times = planned().model_copy(update={"steps": planned().steps[-1:]})
    seen = SeenLog.of(hospital)
    drawn = compared(ComparedLogs(seen, seen, of_times))

    assert drawn.learned is None
    assert drawn.flow is not None and drawn.flow.source_share == drawn.flow.released_share
    assert [curve.source == curve.released for curve in drawn.curves] == [True, True]
    timeless = planned("kanon-control-flow").model_copy(update={"steps": ()})
    assert compared(ComparedLogs(seen, seen, timeless)).curves == ()
