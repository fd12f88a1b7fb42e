"""Advice where a policy and a log do not fit together."""

import numpy as np
import polars as pl

from authoring.sample_logs import rich_log
from cloakwork.authoring import lint_log, policy_text, suggest
from cloakwork.authoring.attributes import waits_of
from cloakwork.authoring.suggestion import PolicyHeader
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, EventLog
from cloakwork.log.formats import write_log
from cloakwork.plan.policies import parse_policy

HEADER = PolicyHeader("test", "data", "somebody", "a test")
BEGIN = """
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: q, version: 1.0.0, owner: me, purpose: test, dataset: d}
spec:
  guarantees: [{kind: k-anonymity, k: 10, over: [control-flow]}]
  attributes:
    "case:concept:name": {role: identifier}
    "concept:name": {role: control-flow}
"""


def said(rules: str) -> dict[str, str]:
    """The advice on a policy with these rules, by the attribute that it is about."""
    found = lint_log(parse_policy(BEGIN + rules), rich_log())
    return {str(advice.steps[-1]): advice.message for advice in found}


def test_an_attribute_that_the_log_lacks_is_named():
    """``age`` was ``case:age``, and nobody saw."""
    found = said("    age: {treatment: drop}\n    orgresource: {treatment: drop}\n")
    assert found == {
        "age": "the log has no attribute 'age', did you mean 'case:age'?",
        "orgresource": "the log has no attribute 'orgresource', did you mean 'org:resource'?",
    }


def test_starts_that_the_log_lacks_are_named():
    """``service_time`` alone was, which no file has before it is read."""
    assert said("  input: {starts: orgresource}\n") == {
        "starts": "the log has no starts in 'orgresource', did you mean 'org:resource'?"
    }


def test_an_activity_of_a_rule_that_the_log_lacks_is_named():
    """A misspelt one in ``starts_with`` leaves out every case of the log."""
    right = sorted(rich_log().events[ACTIVITY].unique())[0]
    assume = f"  assume: {{rules: {{starts_with: [{right}, {right}x], at_most_once: [{right}]}}}}\n"
    assert said(assume) == {"rules": f"the log has no activity '{right}x', did you mean '{right}'?"}


def test_rows_without_a_case_are_told():
    """A column that is empty in most rows loses most of the log."""
    rows = pl.DataFrame({CASE_ID: ["1", None, None], ACTIVITY: ["a", "b", "c"]})
    (told,) = (
        advice.message
        for advice in lint_log(parse_policy(BEGIN), EventLog.from_polars(rows))
        if advice.rule == "rows-left-out"
    )
    assert told == "2 events without a case were left out; used: 1"


def test_noise_that_drowns_the_waits_is_told():
    """An hour on one time beside the log's own waits; a minute leaves most of them."""
    noise = """
    "time:timestamp": {role: timestamp}
  guarantees:
    - {kind: k-anonymity, k: 10, over: [control-flow], scope: variants}
    - {kind: metric-privacy, epsilon: 1, shift: %s, over: [timestamps]}
"""
    policy = BEGIN.replace("  guarantees: [{kind: k-anonymity, k: 10, over: [control-flow]}]\n", "")
    log = rich_log()
    median = float(np.median(waits_of(log)))
    for share, is_told in ((2.0, True), (0.2, False)):
        shift = f"{round(share * median * 3600)}s"
        found = lint_log(parse_policy(policy + noise % shift), log)
        told = [advice.message for advice in found if advice.rule == "noise-beside-waits"]
        assert len(told) == is_told, (shift, told)
    assert not len(waits_of(EventLog.from_polars(pl.DataFrame({CASE_ID: ["1"], ACTIVITY: ["a"]}))))


def test_employees_in_more_cases_than_declared_are_told():
    """The bound is an assumption of the claim, and nothing enforces it."""
    events = rich_log().events.with_columns(case=rich_log().case_of)
    cases = events.group_by("org:resource").agg(pl.col("case").n_unique())["case"]
    declared = """
    "org:resource": {role: identifier, treatment: drop}
  unit: {attribute: "org:resource", level: event}
  assume: {cases_per_employee: %d}
"""
    most = cases.max()
    (message,) = said(declared % (most - 1)).values()
    busy = (cases == most).sum()
    assert message.startswith(f"{busy} of {len(cases)} 'org:resource' take part in more than")
    assert not said(declared % most)


def test_a_column_that_is_taken_is_not_proposed():
    """Whoever named it meant something else."""
    found = said('    age: {treatment: drop}\n    "case:age": {treatment: drop}\n')
    assert "case:age" not in found["age"]


def test_odd_names_are_no_globs():
    """A name with brackets or blanks is read as it stands."""
    rules = '    "[case]:age": {treatment: drop}\n    " kind": {treatment: keep}\n'
    found = said(rules)
    assert found["[case]:age"].endswith("did you mean 'case:age'?")
    assert found[" kind"].endswith("did you mean 'kind'?")


def test_what_a_glob_releases_is_named():
    """Nobody has decided about it."""
    found = said('    "lifecycle*": {treatment: keep}\n    "*": {treatment: drop}\n')
    assert found == {
        "lifecycle*": (
            "it releases 'lifecycle:transition' of the log, which nobody named; give it a rule"
        )
    }


def test_what_singles_people_out_is_named():
    """Where no guarantee covers it."""
    found = said('    "case:code": {treatment: keep}\n    kind: {treatment: keep}\n')
    assert set(found) == {"case:code"}
    assert "gives most cases a value that no other case has" in found["case:code"]


def test_a_suggested_policy_fits_its_log():
    """Nothing to advise."""
    policy = parse_policy(policy_text(suggest(rich_log(), HEADER)))
    assert lint_log(policy, rich_log()) == ()


def test_a_misspelt_column_is_said_beside_other_advice(cloakwork, tmp_path):
    """How times are written was said alone, and the column at the next try."""
    log, policy = tmp_path / "log.csv", tmp_path / "policy.yaml"
    log.write_text("case,activity,timestamp,begin\n1,a,31.12.2024 10:00,x\n", "utf-8")
    columns = "{case: case, activity: activity, timestamp: timestamp}"
    policy.write_text(f"{BEGIN}  input: {{starts: bgin, columns: {columns}}}\n", "utf-8")
    said = cloakwork("policy", "lint", policy, log).out
    assert "seems to need '%d.%m.%Y %H:%M'" in said
    assert "there is no column 'bgin', which spec.input.starts names" in said


def test_a_plan_says_which_starts_the_log_lacks(cloakwork, tmp_path):
    """Of XES, where a name that no event has is no fault; ``lint`` alone said it."""
    log, policy = tmp_path / "log.xes", tmp_path / "policy.yaml"
    write_log(rich_log(), log, "xes")
    policy.write_text(f"{BEGIN}  input: {{starts: bgin}}\n", "utf-8")
    assert "warning: the log has no starts in 'bgin'" in cloakwork("plan", policy, log).err
