"""What ``apply`` ends with: the outcome for the operator, with a warning where little is left. What
``apply`` says of a release that is of little use: nothing in it, or not what the policy names.
"""

import json
from base64 import b64decode
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from cloakwork.evaluation.times import TimeUtility
from cloakwork.evaluation.utility import Utility
from cloakwork.evaluation.whole_log import WholeLogUtility
from cloakwork.ledger.ledger import Ledger
from cloakwork.report.outcome import inside_lines
from cloakwork.run.run import Internal, StepRecord
from conftest import ROOT, Said, hurried
from counterexamples.small import small_log

FIGURES = {
    "distance": 187,
    "cases": 1040,
    "cases_moved": 124,
    "variants_before": 117,
    "variants_after": 31,
}
KEPT = Utility(
    source_cases=1000,
    released_cases=1000,
    source_variants=117,
    true_variants=30,
    fake_variants=1,
    relative_log_similarity=0.98,
    absolute_log_difference=187,
)


def internal(utility: Utility | None) -> Internal:
    """What is known inside of a log of 1,000 cases and 5,000 events."""
    return Internal(
        source={"cases": 1000, "events": 5000},
        steps=(StepRecord("kanon/optimal", 1.0, FIGURES), StepRecord("attributes/redact", 1.0, {})),
        stages={},
        utility={} if utility is None else utility.model_dump(mode="json"),
    )


def said(utility: Utility | None) -> str:
    """The lines of the outcome."""
    return "\n".join(inside_lines(internal(utility)))


def test_the_outcome_tells_what_is_left():
    """Cases, variants, similarity and events, marked as internal first."""
    text = said(KEPT)
    assert text.startswith("internal")
    assert (
        "1,000 cases (the log has 1,000); 31 variants (the log has 117), 1 of them not in" in text
    )
    assert "similarity 0.98 (1 is best); 187 events differ (4% of the log's)" in text
    assert "warning" not in text and "take less than" not in text


def test_how_long_cases_take_stands_beside_the_log():
    """Noise on starts moves times far; an analyst of durations asks for the other figure."""
    times = TimeUtility(duration_source_median=6.1, duration_released_median=24.0)
    text = said(KEPT.model_copy(update={"times": times}))
    assert "half of the cases take less than 24 h (in the log: 6.1 h)" in text


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"released_cases": 120}, "warning: 120 cases were released (12%)"),
        ({"absolute_log_difference": 2000}, "warning: 40% of events were changed"),
        ({"relative_log_similarity": 0.2}, "warning: little is left of the variants"),
    ],
)
def test_little_left_is_said_in_words(changed, line):
    """Each on its own."""
    assert line in said(KEPT.model_copy(update=changed))


@pytest.mark.parametrize(("off", "is_told"), [(0.4, False), (1.1, True)])
def test_durations_that_were_lost_are_said_in_words(off, is_told):
    """Of cases that were made anew, by more than half of the mean."""
    utility = KEPT.model_copy(update={"whole_log": WholeLogUtility(case_durations=off)})
    said = " ".join(inside_lines(internal(utility)))
    assert ("how long cases take is hardly kept" in said) == is_told


@pytest.mark.parametrize(("months", "is_told"), [(None, False), (0.4, False), (0.7, True)])
def test_events_in_other_years_are_said_in_words(months, is_told):
    """Where no window was declared, and few cases could not show one."""
    utility = KEPT.model_copy(update={"whole_log": WholeLogUtility(months=months)})
    assert ("assume.window says in which years" in said(utility)) == is_told
    assert "warning" not in said(utility.model_copy(update={"released_cases": 0}))


@pytest.mark.parametrize(("powers", "is_told"), [(0.5, False), (0.9, True)])
def test_noise_that_drowned_the_waits_is_said_in_words(powers, is_told):
    """Where single times were moved, or all drawn; ``powers``: of ten, by which waits are off."""
    whole = WholeLogUtility(waiting_times=powers)
    for times, helps in ((TimeUtility(), "a smaller shift"), (None, "more cases")):
        utility = KEPT.model_copy(update={"whole_log": whole, "times": times})
        assert (f"off by a factor of 7.94; {helps}" in said(utility)) == is_told


def test_without_a_report_the_steps_tell():
    """Where no figures of utility were asked for, nothing is measured for the screen."""
    text = said(None)
    assert "kanon/optimal: 124 of 1,040 cases, 187 events" in text
    assert "similarity" not in text and "redact" not in text


def test_nothing_known_is_nothing_said():
    """No heading without a line."""
    assert list(inside_lines(replace(internal(None), steps=()))) == []


@pytest.fixture
def applied(cloakwork, tmp_path, ledger):
    """What ``apply`` says of a log under k-anonymity; ``changes``: of the shipped policy."""

    def apply(log: Path, *options: str, **changes: str) -> Said:
        policy = hurried(ROOT / "policies" / "kanon-control-flow.yaml", tmp_path, seconds=0.1)
        document = yaml.safe_load(policy.read_text("utf-8"))
        document["spec"]["attributes"] |= {name: {"treatment": "keep"} for name in changes}
        document["spec"].setdefault("expose", {}).update(changes)
        policy.write_text(yaml.safe_dump(document), "utf-8")
        out = tmp_path / f"out{len(list(tmp_path.iterdir()))}"
        said = cloakwork("apply", policy, log, "--out", out, "--ledger", ledger, *options)
        assert said.code == 0, said.err
        return said

    return apply


def test_the_screen_of_apply(applied, tmp_path):
    """What is public first, then what is not; JSON gains no figure of the raw log."""
    log = small_log(tmp_path)
    done = applied(log, "--quiet")
    assert done.err.count("\n") == 1 and "a new ledger was made" in done.err
    labels = [line[:16].strip() for line in done.out.splitlines() if line[:1].strip()]
    assert labels[:4] == ["Released", "Holds", "Not protected", "Charged"]
    assert labels[4:6] == ["Outcome", "Public"]
    assert "internal, of the raw log" in done.out
    keys = "release release_id log guarantees exposed charges warnings statement signed_by"
    assert set(json.loads(applied(log, "--quiet", "--json").out)) == set(keys.split())


def test_an_empty_release_says_so(applied, tmp_path):
    """A header alone holds no case, and what comes of it is of no use."""
    log = tmp_path / "log.csv"
    log.write_text("case:concept:name,concept:name,time:timestamp\n")
    assert "the release is EMPTY" in applied(log).out


def test_rules_are_named_where_they_may_have_emptied_a_release(cloakwork, tmp_path, ledger):
    """A misspelt beginning leaves out every case, and a larger epsilon would bring none back."""
    text = (ROOT / "policies" / "dp-control-flow.yaml").read_text("utf-8")
    policy = tmp_path / "policy.yaml"
    for rules, is_told in (("", False), ("  assume: {rules: {starts_with: [Regster]}}\n", True)):
        policy.write_text(f"{text}\n{rules}", "utf-8")
        out = tmp_path / f"out-{is_told}"
        said = cloakwork("apply", policy, small_log(tmp_path), "--out", out, "--ledger", ledger)
        assert said.code == 0, said.err
        words = " ".join(said.out.split())
        assert ("cases that break assume.rules were left out" in words) == is_told


def test_an_attribute_that_the_log_lacks_is_named(applied, tmp_path):
    """A misspelt name, which nothing matched, once went by in silence."""
    said = applied(small_log(tmp_path), Kode="for a test")
    assert "not in the log, so not released: Kode" in said.out
    assert "exposed: Kode" not in said.out


@pytest.mark.usefixtures("few_turns", "few_looked_for")
def test_an_attribute_that_noise_hides_is_not_said_to_be_missing_from_the_log(
    cloakwork, tmp_path, ledger, few_patients, monkeypatch
):
    """The log has the attribute, with values other than those that are declared. Whether noise
    hides it is chance, so that it did is set here.
    """
    monkeypatch.setattr("cloakwork.report.outcome.absent_attributes", lambda *_: ("department",))
    policy = tmp_path / "policy.yaml"
    shipped = (ROOT / "policies" / "dp-whole-log.yaml").read_text("utf-8")
    policy.write_text(shipped.replace("domain: [Admissions,", "domain: [Admission] # ["))
    said = cloakwork("apply", policy, few_patients, "--out", tmp_path / "out", "--ledger", ledger)
    assert said.code == 0, said.err
    told = " ".join(said.out.split())
    assert "no value was released: department; noise may have hidden them" in told
    assert "not in the log, so not released" not in told
    assert "note: 100% of the log's values of 'department' are none of its domain" in told
    inside = json.loads((tmp_path / "out" / "internal" / "report.json").read_text("utf-8"))
    unread = next(note for note in inside["notes"] if note.startswith("attributes that were not"))
    assert "diagnosis" in unread and "department" not in unread and "age" not in unread
    public = (tmp_path / "out" / "statement.json").read_text("utf-8")
    assert "none of its domain" not in b64decode(json.loads(public)["payload"]).decode()


@pytest.mark.parametrize(
    ("cases", "warned"), [(0, "the release is EMPTY: 0 cases"), (60, "cases were released (100%)")]
)
def test_the_report_and_the_assessment_say_what_apply_warns_of(
    cloakwork, applied, tmp_path, cases, warned, monkeypatch
):
    """Of a release that is empty, and of one that keeps little; the two said nothing of it."""
    monkeypatch.setattr("cloakwork.report.outcome.FEW_LEFT", 1.1)
    said = applied(small_log(tmp_path, cases=cases))
    assert warned in " ".join(said.out.split())
    (out,) = tmp_path.glob("out*")
    for form in ("json", "html", "dpia"):
        told = cloakwork("report", out, "--audience", "internal", "--format", form)
        assert warned in told.out, form


@pytest.mark.parametrize("values", [None, 0.7])
def test_fewer_attributes_are_advised_where_some_are_drawn(values):
    """Without any, the advice cannot be followed."""
    whole = WholeLogUtility(case_durations=1.1, attributes_per_activity=values)
    told = said(KEPT.model_copy(update={"whole_log": whole}))
    assert "more cases" in told
    assert ("fewer attributes" in told) == (values is not None)


def test_what_the_ledger_counts_is_listed_as_charged(cloakwork, tmp_path, ledger):
    """Also the same noise as metric privacy."""
    shipped = ROOT / "policies" / "kanon-case-dp-timestamps.yaml"
    policy = hurried(shipped, tmp_path, seconds=0.1)
    log = small_log(tmp_path)
    done = cloakwork("apply", policy, log, "--out", tmp_path / "one", "--ledger", ledger)
    assert done.code == 0, done.err
    charged = done.out.partition("Charged")[2].partition("Warning")[0]
    spent = {
        each.currency for each in Ledger(str(ledger)).summary()[0].balances if each.spent.epsilon
    }
    assert spent == {"unit", "metric"}
    assert "differential privacy of each case" in charged and "metric privacy" in charged


def test_a_total_below_the_dataset_s_is_told_before_it_binds(cloakwork, tmp_path, ledger):
    """By the plan, and by apply before anything is charged."""
    shipped = ROOT / "policies" / "kanon-case-dp-timestamps.yaml"
    policy = hurried(shipped, tmp_path, seconds=0.1)
    document = yaml.safe_load(policy.read_text("utf-8"))
    document["spec"]["budget"]["total"]["epsilon"] = 20.0
    policy.write_text(yaml.safe_dump(document), "utf-8")
    log = small_log(tmp_path)
    done = cloakwork("apply", policy, log, "--out", tmp_path / "one", "--ledger", ledger)
    assert done.code == 0 and "below the dataset's" not in done.err, done.err
    document["spec"]["budget"]["total"]["epsilon"] = 10.0
    policy.write_text(yaml.safe_dump(document), "utf-8")
    options = (policy, log, "--ledger", ledger)
    assert "below the dataset's" in " ".join(cloakwork("plan", *options).out.split())
    done = cloakwork("apply", *options, "--out", tmp_path / "two")
    warned, _, rest = done.err.partition("below the dataset's")
    assert "this policy's total" in warned and rest
