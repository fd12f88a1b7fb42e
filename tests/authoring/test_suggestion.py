"""What a suggestion says of itself where nobody said it. The file that a suggestion becomes."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authoring.sample_logs import NATURES, rich_log
from cloakwork.authoring import policy_text, suggest
from cloakwork.authoring.answers import answered, asked_in, with_answers
from cloakwork.authoring.attributes import waits_of
from cloakwork.authoring.suggestion import (
    AUDIENCES,
    GOALS,
    NO_PURPOSE,
    THRESHOLD,
    PolicyHeader,
    SuggestionRequest,
    forms_beside,
    header_of,
)
from cloakwork.base.costs import Charge, Cost
from cloakwork.base.progress import silent
from cloakwork.base.quantities import parse_duration
from cloakwork.cli.policy_init import _forms_table
from cloakwork.errors import LogError, PolicyError
from cloakwork.evaluation.compare import RehearsedForm, release_fault
from cloakwork.ledger.account import BudgetTerms
from cloakwork.ledger.datasets import declare_dataset
from cloakwork.ledger.ledger import Ledger, ReservationRequest
from cloakwork.log.eventlog import TIMESTAMP, EventLog
from cloakwork.plan.budget import reservation_request
from cloakwork.plan.planner import make_plan
from cloakwork.plan.policies import parse_policy
from cloakwork.plan.sentences import assumption_in_words, caveat_in_words
from conftest import runs


def test_names_of_files_become_names_of_policies():
    """In the letters that a policy allows."""
    header = header_of(
        Path("Mühle & Söhne.xes.gz"), Path("..yaml"), dataset=None, owner="me", purpose=None
    )
    assert header.dataset == "m-hle-s-hne"
    assert (header.name, header.owner, header.purpose) == ("log", "me", NO_PURPOSE)


HEADER = PolicyHeader("test", "data", "somebody", "a test")
RICH = rich_log()


@pytest.mark.parametrize("audience", AUDIENCES)
@pytest.mark.parametrize("goal", GOALS)
def test_every_suggestion_plans(goal, audience):
    """As it is written, without an edit."""
    found = suggest(RICH, HEADER, audience, goal)
    policy = parse_policy(policy_text(found))
    released = {name for name, rule in policy.spec.attributes.items() if rule.treatment != "drop"}
    identifiers = {
        name for name in NATURES if NATURES[name] in ("identifier", "staff", "free text")
    }
    assert released.isdisjoint(identifiers)
    # Other audiences have other numbers; to find the noise of counts takes seconds.
    if runs(0) or (audience == "share" and goal != "control-flow-dp"):
        assert make_plan(policy).claims


@pytest.mark.parametrize("goal", GOALS)
def test_no_value_of_the_log_stands_in_it(goal):
    """Neither a value nor how many there are."""
    text = policy_text(suggest(RICH, HEADER, "share", goal))
    values = {
        str(value)
        for name in RICH.columns
        for value in (RICH.cases if name.startswith("case:") else RICH.events)[name].to_list()
    }
    written = set(re.findall(r"[^\s\"',:\[\]{}<>]+", text))
    # "a" and the like are words of English, and what a truth value may be is no secret.
    assert {value for value in values & written if len(value) > 1} <= {"true", "false", "complete"}


@settings(max_examples=runs(12))
@given(st.lists(st.text(max_size=20), unique=True, max_size=5))
def test_any_name_is_kept_exactly(names):
    """A name is text, whatever characters it holds; what a policy cannot name, ``"*"`` drops."""
    taken = {"case:concept:name", "concept:name", "time:timestamp"}
    names = [name for name in names if name not in taken and not name.startswith("case:")]
    columns = {"case:concept:name": ["1", "2"], "concept:name": ["a", "a"]}
    frame = pl.DataFrame(columns | {name: ["x", "y"] for name in names})
    found = suggest(EventLog.from_polars(frame), HEADER)
    policy = parse_policy(policy_text(found))
    named = set(policy.spec.attributes) - taken - {"*"}
    assert named == set(names) - set(found.unnamed)
    assert all("*" in name or "?" in name or not name for name in found.unnamed)
    for name in found.unnamed:
        rule = policy.rule(name)
        assert rule is not None and rule.treatment == "drop"


def test_a_log_without_times_gets_no_guarantee_about_them():
    """Nor a column for them."""
    text = policy_text(replace(suggest(RICH, HEADER), has_times=False, times="none"))
    assert "time:timestamp" not in text.replace("protection of time:timestamp", "")
    make_plan(parse_policy(text))


def test_tables_are_asked_for_where_the_release_shows_a_large_log():
    """A k-anonymous release shows how many cases there are; one of drawn cases does not. The policy
    says that this was read off the log.
    """
    cases = 50_001
    table = {"case:concept:name": [f"c{case}" for case in range(cases)], "concept:name": "a"}
    times = pl.repeat(datetime(2024, 1, 1, tzinfo=UTC), cases, eager=True)
    large = EventLog.from_polars(pl.DataFrame(table).with_columns(times.alias(TIMESTAMP)))
    for goal, is_asked in (("k-anonymity", True), ("whole-log-dp", False)):
        read = parse_policy(policy_text(suggest(large, HEADER, goal=goal)))
        suggested = read.metadata.suggested
        is_said = suggested is not None and "more than 50,000 cases" in str(suggested.read_off)
        assert is_said == is_asked
        plan = make_plan(read)
        taken = "histogram" if is_asked else "regression"
        assert f"timestamps/{taken}" in [step.mechanism for step in plan.steps]


def test_a_person_of_several_cases_is_asked_about():
    """The unit is for the author to say."""
    found = suggest(RICH, HEADER)
    assert found.persons == ("case:mail", "case:customer")
    assert '# unit: {attribute: "case:customer", max_cases: 5}' in policy_text(found)


def test_the_form_follows_from_the_audience_alone():
    """For recipients outside no more than 1/12 is found, below .09; no log decides it."""
    small = EventLog.from_polars(pl.DataFrame({"case:concept:name": ["c1"], "concept:name": ["a"]}))
    for audience in AUDIENCES:
        forms = {suggest(log, HEADER, audience).goal for log in (RICH, small)}
        assert len(forms) == 1
        goals = parse_policy(policy_text(suggest(RICH, HEADER, audience))).goals()
        k = [goal.k for goal in goals if goal.kind == "k-anonymity"]
        noise = [goal for goal in goals if goal.kind == "differential-privacy"]
        assert len(noise) == 1
        assert "timestamps" in noise[0].over
        if audience != "publish":
            assert 1 / k[0] <= THRESHOLD[audience]


def test_another_form_taken_after_figures_is_said():
    """In the policy, so in its plan and in its claims."""
    proposed = suggest(RICH, HEADER, "share")
    taken = proposed.taking("whole-log-dp")
    assert (taken.form, taken.instead_of) == ("whole-log-dp", "k-anonymity")
    plan = make_plan(parse_policy(policy_text(taken)))
    said = "after reading figures of the raw log"
    assert any(said in line for line in map(caveat_in_words, plan.warnings))
    assert any(said in line for line in map(assumption_in_words, plan.claims[0].assumptions))
    again = proposed.taking("k-anonymity-noised-times")
    assert (again.goal, again.times) == ("k-anonymity", "noised")


def test_noise_on_single_times_goes_by_the_logs_own_waits():
    """A sixth of the median wait at most, said to be read off the log; slower logs get more."""
    noised = suggest(RICH, HEADER, "share", "k-anonymity", times="noised")
    median = timedelta(hours=float(np.median(waits_of(RICH))))
    assert "how far noise moves a time" in noised.read_off
    assert parse_duration(noised.shift) <= max(median / 6, timedelta(minutes=1))
    start = pl.col(TIMESTAMP).min()
    slow = RICH.events.with_columns(start + 50 * (pl.col(TIMESTAMP) - start))
    slower = suggest(replace(RICH, events=slow), HEADER, "share", "k-anonymity", times="noised")
    assert timedelta(0) < parse_duration(noised.shift) < parse_duration(slower.shift)
    assert f"shift: {slower.shift} " in policy_text(replace(slower, log=None))
    assert noised.follows_from_answers
    assert not suggest(RICH, HEADER, "share", "whole-log-dp").follows_from_answers
    assert "how far noise moves a time" not in replace(noised, times="drawn").read_off


def test_what_was_read_off_the_log_is_confirmed_by_somebody():
    """Until then it stands among the warnings."""
    found = suggest(RICH, HEADER, "share")
    open_ = make_plan(parse_policy(policy_text(found)))
    assert any("nobody confirmed" in line for line in map(caveat_in_words, open_.warnings))
    confirmed = make_plan(parse_policy(policy_text(replace(found, confirmed_by="A. Officer"))))
    assert not any("read off" in line for line in map(caveat_in_words, confirmed.warnings))
    noised = confirmed.claims[-1].assumptions
    assert any("as A. Officer confirmed on" in line for line in map(assumption_in_words, noised))


NUMBERS = EventLog.from_polars(
    pl.DataFrame(
        {
            "case:concept:name": [f"c{n}" for n in range(40)],
            "concept:name": ["a"] * 40,
            "count": [n % 3 for n in range(40)],
            "share": [n % 3 / 2 + 0.25 for n in range(40)],
            "Gebühr": ["x", "y"] * 20,
        }
    )
)


def test_what_is_whole_stays_whole_and_a_domain_may_be_found():
    """Numbers without decimals would be released with some, unless their type is said."""
    text = policy_text(suggest(NUMBERS, HEADER, "share", "whole-log-dp"))
    assert [each.name for each in asked_in(text)] == ["count", "share", "Gebühr"]
    said = {"count": "0..2", "share": {"range": [0.0, 2.0]}, "Gebühr": "found"}
    made, policy = answered(text, "p.yaml", said, base=Path(), confirmed_by="me")
    assert policy.spec.attributes["count"].type == "integer"
    assert policy.spec.attributes["share"].type is None
    assert policy.spec.attributes["Gebühr"].find_values
    assert set(policy.goals()[0].over) == {"control-flow", *said}
    assert not asked_in(made)
    # All that people said in comments is still there.
    assert made.count("#") == text.count("#")


@pytest.mark.parametrize(
    ("answers", "fault"),
    [
        ({"Gebuehr": ["x"]}, "nothing is asked about 'Gebuehr'"),
        ({"Gebühr": []}, "is no answer"),
        ({"Gebühr": "none.csv:code"}, "none.csv: no such file"),
        ({"count": {"range": [3, 1]}}, "range"),
    ],
)
def test_an_answer_that_is_none(answers, fault, tmp_path):
    """One line, and no file."""
    text = policy_text(suggest(NUMBERS, HEADER, "share", "whole-log-dp"))
    with pytest.raises(PolicyError, match=fault):
        answered(text, "p.yaml", answers, base=tmp_path, confirmed_by=None)


def test_values_of_a_code_list(tmp_path):
    """Each once, whatever characters it holds."""
    (tmp_path / "codes.csv").write_text('code,means\n"a, b",one\nÄ,two\nÄ,three\n', "utf-8")
    text = policy_text(suggest(NUMBERS, HEADER, "share", "whole-log-dp"))
    said = {"Gebühr": {"file": "codes.csv", "column": "code"}, "count": "drop"}
    made, policy = answered(text, "p.yaml", said, base=tmp_path, confirmed_by=None)
    assert policy.spec.attributes["Gebühr"].domain == ("a, b", "Ä")
    assert policy.spec.attributes["count"].treatment == "drop"
    assert [each.name for each in asked_in(made)] == ["share"]


@pytest.mark.parametrize("audience", AUDIENCES)
def test_k_anonymity_first_leaves_room_for_noise_on_the_control_flow(audience):
    """A dataset's total can never be raised: without delta it would refuse DP for good."""
    log = EventLog.from_polars(pl.DataFrame({"case:concept:name": ["c1"], "concept:name": ["a"]}))
    first = parse_policy(policy_text(suggest(log, HEADER, audience, "k-anonymity"))).spec.budget
    then = parse_policy(policy_text(suggest(log, HEADER, audience, "control-flow-dp"))).spec
    goal = then.guarantees[0]
    assert first.total.delta >= goal.delta
    assert first.total.epsilon >= goal.epsilon


def test_a_person_in_rows_is_told():
    """Only a case attribute can be a unit: a table has one where the column is called so."""
    log = EventLog.from_polars(
        pl.DataFrame(
            {
                "case:concept:name": [f"c{n}" for n in range(40)],
                "concept:name": ["a"] * 40,
                "requester": [f"u{n % 9}" for n in range(40)],
            }
        )
    )
    found = suggest(log, HEADER, "share")
    assert found.persons_of_events == ("requester",) and not found.persons


@pytest.mark.parametrize("name", ["*", "^k.*$"])
def test_a_table_may_have_columns_named_like_patterns(tmp_path, name):
    """One that stays the same in each case becomes an attribute of cases; another does not."""
    rows = [(case, place) for case in range(40) for place in range(2)]
    lines = [f"{case},a,2024-01-0{1 + place},{case % 3},{place}" for case, place in rows]
    log = tmp_path / "log.csv"
    log.write_text("\n".join([f"case,activity,time,kind,{name}", *lines]), "utf-8")
    header = dict.fromkeys(("dataset", "owner", "purpose"))
    found = SuggestionRequest(log=log, out=tmp_path / "p.yaml", header=header).suggestion(print)
    assert "case:kind" in [each.name for each in found.proposals]
    assert f"case:{name}" not in found.unnamed


def requested(folder: Path, text: str) -> SuggestionRequest:
    """A request with the answers of a file."""
    path = folder / "answers.yaml"
    path.write_text(text, "utf-8")
    request = SuggestionRequest(
        log=folder / "log.csv",
        out=folder / "p.yaml",
        header=dict.fromkeys(("dataset", "owner", "purpose")),
    )
    (folder / "log.csv").write_text(
        "case,activity,time,kind\n"
        + "".join(f"{case},a,2024-01-0{1 + case % 9},{case % 2}\n" for case in range(40)),
        "utf-8",
    )
    return with_answers(request, path)


@pytest.mark.parametrize(
    ("answers", "k", "threshold", "epsilon"),
    [
        ("recipients: share", 12, 0.09, 2.0),
        ("recipients: internal", 5, 0.2, 4.0),
        ("contract: false", 20, 0.05, 2.0),
        ("knowledge: records", 20, 0.05, 2.0),
        ("harm: grave", 20, 0.05, 1.0),
        ("{recipients: internal, harm: grave}", 20, 0.05, 2.0),
    ],
)
def test_answers_decide_how_strictly_is_protected(answers, k, threshold, epsilon, tmp_path):
    """Each with its reason beside it."""
    found = requested(tmp_path, answers).suggestion(silent)
    read = parse_policy(found.text)
    flow, times = read.spec.guarantees
    assert (flow.k, times.epsilon) == (k, epsilon)
    assert read.spec.assume.risk_threshold == threshold
    for reason in found.circumstances.reasons:
        assert found.text.count(f"; {reason}") == 2


def test_answers_become_the_policy(tmp_path):
    """Purpose, recipients, and values; public activities without times are control flow alone."""
    found = requested(
        tmp_path, "who: 'a \"lab\" # 2'\npurpose: waits\nvalues: {kind: '0, 1'}\n"
    ).suggestion(silent)
    read = parse_policy(found.text)
    assert read.spec.assume.recipients == 'a "lab" # 2'
    assert read.metadata.purpose == "waits"
    asked = [each.name for each in requested(tmp_path, "harm: some").suggestion(silent).asked]
    without = requested(tmp_path, "values: {kind: drop}\n").suggestion(silent)
    assert [each.name for each in without.asked] == [each for each in asked if each != "kind"]
    assert "kind" in asked and parse_policy(without.text).rule("kind").treatment == "drop"
    flow = requested(tmp_path, "times: none\npublic: [a, b]\n").suggestion(silent)
    assert flow.form == "control-flow-dp"
    assert parse_policy(flow.text).spec.assume.alphabet == ("a", "b")


@pytest.mark.parametrize(
    ("answers", "fault"),
    [
        ("recipient: share", ":1:12: recipient is no question, did you mean 'recipients'"),
        ("purpose: x\nharm: huge", ":2:7: harm is one of little, some, grave"),
        ("contract: maybe", "contract is true or false"),
        ("purpose: [x]", "purpose is a text"),
        ("values: [x]", "values maps attributes"),
        ("values: {kind: {}}", "'kind': {} is no answer"),
        ("public: {x: y}", "public is a list"),
        ("public: none.csv:code", "none.csv: no such file"),
        ("- x", "holds no answers"),
        ("a: &a [*a]", "answers.yaml"),
        ("purpose: !!python/object:os.system x", "answers.yaml"),
        ("", "holds no answers"),
    ],
)
def test_answers_that_are_none(answers, fault, tmp_path):
    """One line."""
    with pytest.raises(PolicyError, match=re.escape(fault)) as caught:
        requested(tmp_path, answers)
    assert len(caught.value.problems) == 1


def test_values_of_no_attribute_are_refused(tmp_path):
    """And the nearest name is said."""
    with pytest.raises(LogError, match=r"no attribute 'kinds', .*'kind'"):
        requested(tmp_path, "values: {kinds: [x]}").suggestion(silent)


EDITED = """\
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata:
  name: p
  version: 0.1.0
  owner: me
  purpose: test
  dataset: d
  suggested:
      read_off:
        - roles
      confirmed_by: somebody else
      confirmed_on: 2026-01-01
spec:
  unit: case
  attributes:
    concept:name: {role: control-flow}
    'it''s': {treatment: drop, role: sensitive}   # mine; asked: which values are there?
    age:   { role: quasi-identifier , treatment: drop }
    wide:
      role: sensitive
      treatment: drop   # asked: which?
    other: {role: sensitive, "treatment": drop}
  guarantees:
    - over: [ control-flow ]   # all
      kind: differential-privacy
      epsilon: 2.0
      delta: 1.0e-6
  budget:
    total: {epsilon: 2.0, delta: 1.0e-6}
"""


def test_lines_that_were_edited_by_hand_are_answered_for():
    """Whatever order and spaces they have; the question may be gone."""
    assert [each.name for each in asked_in(EDITED)] == ["it's"]
    said = {"it's": "x, y", "age": "0..120", "wide": "2..9", "other": ["x"]}
    made, policy = answered(EDITED, "p.yaml", said, base=Path(), confirmed_by="me")
    assert policy.spec.attributes["it's"].domain == ("x", "y")
    assert policy.spec.attributes["age"].range == (0, 120)
    assert policy.spec.attributes["wide"].value_type() == "integer"
    assert set(policy.goals()[0].over) == {"control-flow", *said}
    assert policy.metadata.suggested.confirmed_by == "me"
    assert "somebody else" not in made and "  # all" in made


@pytest.mark.parametrize(
    ("said", "change", "fault"),
    [
        ({"concept:name": ["x"]}, ("", ""), "p.yaml:17:5: nothing is asked about 'concept:name'"),
        ({"ag": ["x"]}, ("", ""), "nothing is asked about 'ag', did you mean 'age'"),
        (
            {"age": "0..9"},
            ("[ control-flow ]   # all", "\n        - control-flow"),
            "p.yaml:.*over is written so that only its text can be changed",
        ),
        ({"age": "0..9"}, ("differential-privacy", "k-anonymity"), "p.yaml:25"),
        ({"age": "0..9"}, ("  guarantees:", "  guarantees: 5\n  g:"), "p.yaml:24"),
    ],
)
def test_what_cannot_be_answered_for_is_named_with_its_place(said, change, fault):
    """Nothing is written."""
    text = EDITED.replace(*change) if change[0] else EDITED
    with pytest.raises(PolicyError, match=fault):
        answered(text, "p.yaml", said, base=Path(), confirmed_by=None)


ONE_LINE = EDITED.replace(
    """  guarantees:
    - over: [ control-flow ]   # all
      kind: differential-privacy
      epsilon: 2.0
      delta: 1.0e-6
""",
    """  guarantees: [{kind: differential-privacy, epsilon: 2.0, delta: 1.0e-6, neighbours: bounded,
    over: [timestamps]}, {kind: k-anonymity, k: 5, over: [control-flow], scope: variants}]
""",
)


def test_the_guarantee_under_noise_is_widened_and_no_other():
    """Wherever lists stand, also in comments; found by an attacker."""
    for text in (ONE_LINE, EDITED.replace("# all", "# was over: [timestamps]")):
        _, policy = answered(text, "p.yaml", {"age": "0..9"}, base=Path(), confirmed_by=None)
        for goal in policy.goals():
            assert ("age" in goal.over) == (goal.kind == "differential-privacy")


@pytest.mark.parametrize(
    ("said", "change"),
    [
        ({"age": [None]}, ("", "")),
        ({"age": [["x"]]}, ("", "")),
        ({"it's": "0..lots"}, ("which values are there?", "which two numbers can it not leave?")),
        ({"it's": "x"}, ("role: sensitive}   # mine", "role: identifier}   # mine")),
    ],
)
def test_nothing_else_is_changed_by_an_answer(said, change):
    """What cannot be answered alone is refused."""
    text = EDITED.replace(*change)
    with pytest.raises(PolicyError):
        answered(text, "p.yaml", said, base=Path(), confirmed_by=None)


def test_a_name_that_reads_like_a_question_stays(tmp_path):
    """What is left out is said in the comment alone."""
    text = EDITED.replace("'it''s'", '"case:x; asked: y"')
    said = {"case:x; asked: y": "drop"}
    made, policy = answered(text, "p.yaml", said, base=Path(), confirmed_by=None)
    assert "case:x; asked: y" in policy.spec.attributes and not asked_in(made)
    listed = EDITED.replace("[ control-flow ]", '[ control-flow, "case:u]i" ]').replace(
        "    age:", '    "case:u]i": {role: sensitive, domain: [a]}\n    age:'
    )
    _, policy = answered(listed, "p.yaml", {"age": "0..9"}, base=Path(), confirmed_by=None)
    assert set(policy.goals()[0].over) == {"control-flow", "case:u]i", "age"}


@pytest.mark.parametrize(("spent", "times", "left"), [(1.0, "drawn", 1), (3.5, "none", 0)])
def test_the_total_is_what_the_ledger_holds(spent, times, left, tmp_path):
    """So that neither this policy binds the dataset lower, nor says more than is left of it."""
    book = Ledger(str(tmp_path / "ledger.db"))
    fresh = suggest(RICH, HEADER, "share", "whole-log-dp", times=times)
    assert policy_text(fresh.known_to(book)) == policy_text(fresh)
    charges = (Charge(currency="unit", unit="case", cost=Cost(epsilon=spent, delta=1e-6)),)
    terms = BudgetTerms(totals={"unit": Cost(epsilon=4.0, delta=4e-6)})
    book.reserve(ReservationRequest(dataset="data", policy="p", charges=charges, terms=terms))
    text = policy_text(fresh.known_to(book))
    total = parse_policy(text).spec.budget.total
    assert total is not None and total.cost() == Cost(epsilon=4.0, delta=4e-6)
    assert f"# {left} more like this one" in text and f"# {left} more" not in policy_text(fresh)


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("times", ["drawn", "noised", "none"])
def test_what_is_proposed_under_the_dataset_s_total_can_be_paid(goal, times, tmp_path):
    """Whatever the total, and whatever is spent of it: a proposal is refused for its price, or the
    policy that is written plans and fits.
    """
    outcomes = set()
    proposed = suggest(RICH, HEADER, "share", goal, times=times)
    for number, (total, spent) in enumerate([(0.5, 0.1), (2.0, 1.0), (2.5, 0.5), (9.0, 3.0)]):
        book = Ledger(str(tmp_path / f"{number}.db"))
        shift = parse_duration(proposed.shift)
        charges = (
            Charge(currency="unit", unit="case", cost=Cost(epsilon=spent, delta=1e-7)),
            Charge(currency="metric", cost=Cost(epsilon=spent), shift=shift),
        )
        terms = BudgetTerms(
            totals=dict.fromkeys(("unit", "metric"), Cost(epsilon=total, delta=1e-5))
        )
        book.reserve(ReservationRequest(dataset="data", policy="p", charges=charges, terms=terms))
        found = proposed.known_to(book)
        fault = release_fault(forms_beside(found)[found.form], RICH, book)
        outcomes.add(fault is None)
        if fault is None:
            policy = parse_policy(policy_text(found))
            book.check(reservation_request(make_plan(policy)))
            said = policy.spec.budget.total
            # Metric privacy has books of its own.
            assert said is not None and (times == "noised" or said.cost().epsilon == total)
    priced = (goal, times) != ("k-anonymity", "none")
    assert outcomes == ({True, False} if priced else {True})


def test_a_total_below_the_price_is_no_reason_to_propose(tmp_path):
    """The forms are tried under totals of their own: else no plan would ask for what is lacking."""
    book = Ledger(str(tmp_path / "ledger.db"))
    declare_dataset(book, "data", owner="O", totals={"unit": Cost(epsilon=0.5, delta=1e-6)})
    found = suggest(RICH, HEADER, "share", "whole-log-dp").known_to(book)
    said = release_fault(forms_beside(found)[found.form], RICH, book)
    assert said is not None and "what would fit is epsilon 0.5" in said


@pytest.mark.parametrize(("off", "is_said"), [(0.5, False), (0.51, True)])
def test_durations_that_are_hardly_kept_are_said_to_be(off, is_said):
    """Of twenty cases no noise of this kind leaves any."""
    found = suggest(RICH, HEADER)
    table = "\n".join(_forms_table(found, [RehearsedForm(name=found.form, durations=off)]))
    assert ("hardly kept" in table) == is_said
