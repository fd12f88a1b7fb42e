"""The first screen of ``plan``: short, complete, and true at this moment. The commands that make
and use a DP profile, as a user types them.
"""

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from cloakwork.api import budget, load_policy, make_plan
from cloakwork.cli import cloakwork_command, main
from cloakwork.ledger.ledger import BudgetForecast
from cloakwork.log.formats import write_log
from cloakwork.plan.model import Plan
from cloakwork.policy.model import Policy
from cloakwork.report.plan_screen import MOST_LINES, change_line, first_screen, little_is_left
from cloakwork.report.screen import ScreenSection, fitted
from cloakwork.report.texts import guarantee_line, step_line, warning_lines
from cloakwork.run.run import StepRecord
from conftest import EXAMPLES, ROOT, SHARED
from contracts.sample_logs import log_of
from counterexamples.small import small_log
from run.profiles import LOG, buying

POLICIES = sorted((ROOT / "policies").glob("*.yaml"))

CONTRACT = sorted((SHARED / "contract" / "policies").glob("[dk]*.yaml"))
"""Those that this version can meet; without the folder the shipped ones are tested alone."""

HOSPITAL = EXAMPLES / "hospital.xes.gz"


@cache
def plan_of(policy: str | Path) -> Plan:
    """The plan of a policy, made once for all tests."""
    return make_plan(load_policy(policy))


NO_EARLIER = BudgetForecast(before=(), cost=(), after=(), earlier=0, without_dp=0)
"""What the ledger says of a dataset without a release, apart from its budgets."""

FIGURES = {
    "distance": 299,
    "cases": 1434,
    "cases_moved": 220,
    "variants_before": 116,
    "variants_after": 29,
    "gap": 0.012,
}


@pytest.mark.parametrize("policy", POLICIES + CONTRACT, ids=lambda path: path.stem)
def test_every_policy_fits_the_screen(cloakwork, monkeypatch, policy, ledger):
    """At most 25 lines of 80 columns, all guarantees among them."""
    # The screens of shipped policies stand among the golden texts.
    file = ROOT / "tests" / "golden" / "plans" / f"{policy.stem}.txt"
    if policy in POLICIES:
        shown = file.read_text("utf-8")
    else:
        monkeypatch.setenv("COLUMNS", "80")
        shown = cloakwork("plan", policy, HOSPITAL, "--no-preview", "--ledger", ledger).out
    lines = shown.splitlines()
    assert 0 < len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= 80
    text = " ".join(shown.split())
    for claim in plan_of(policy).claims:
        assert f"{claim.guarantee.kind}: " in text


@pytest.mark.parametrize("policy", POLICIES, ids=lambda path: path.stem)
def test_a_preview_and_earlier_releases_fit_as_well(policy):
    """The longest screen of each policy: with figures of two steps, and all warnings."""
    records = [StepRecord(name, 1.0, FIGURES) for name in ("kanon/optimal", "kanon/generalise")]
    plan = plan_of(policy)
    outlook = replace(NO_EARLIER, without_dp=12)
    sections = first_screen(plan, "hospital.xes.gz", records, outlook, 80, "cloakwork apply")
    assert sum(len(section.lines(80)) for section in sections) <= MOST_LINES
    assert "internal, never publish" in " ".join(
        line.strip() for section in sections for line in section.lines(80)
    )


def test_two_releases_can_be_intersected_one_cannot():
    """The warning stands from the second release on that no budget bounds."""
    plan = plan_of("kanon-control-flow")
    assert any(caveat.kind == "intersection" for caveat in plan.warnings)
    assert not any("intersect" in line for line in warning_lines(plan, 0))
    assert any("1 earlier release" in line for line in warning_lines(plan, 1))
    assert any("intersect" in line for line in warning_lines(plan, 2))
    assert any("intersect" in line for line in warning_lines(plan, None)), "unknown: it may be so"


def test_the_ledger_tells_whether_there_was_one(cloakwork, tmp_path, ledger):
    """Before the first release and before the second."""
    log = small_log(tmp_path)
    plan = ("plan", "kanon-control-flow", log, "--no-preview", "--ledger", ledger)
    assert "intersect" not in cloakwork(*plan).out
    asked = ("apply", "kanon-control-flow", log, "--out", tmp_path / "out", "--ledger", ledger)
    made = cloakwork(*asked)
    assert made.code == 0 and "intersect" not in made.out + made.err
    told = " ".join(cloakwork(*plan).out.split())
    assert "1 earlier release of this dataset holds what no DP guarantee covers" in told


def test_reasons_and_alternatives_are_one_flag_away(cloakwork, tmp_path):
    """``--why`` adds derivations, ``--all`` what was not chosen and the parameters as well."""
    plan = ("plan", "kanon-dp-timestamps", HOSPITAL, "--no-preview", "--quiet")
    ledger = ("--ledger", tmp_path / "ledger.db")
    short, why, everything = (
        cloakwork(*plan, *ledger, *option).out for option in ((), ("--why",), ("--all",))
    )
    assert why.startswith(short) and everything.startswith(short)
    assert "because" in why and "because" not in short
    assert "Considered and not chosen" in everything and "Considered" not in why
    assert "with k 10" in everything and "with k 10" not in why
    assert "grid steps" not in short and "1 h" in short


def policy_with(**changes: object) -> Policy:
    """The shipped policy for differential privacy with other values under ``spec``."""
    document = load_policy("dp-control-flow").model_dump(
        mode="json", by_alias=True, exclude_unset=True
    )
    document["spec"] |= changes
    return Policy.model_validate(document)


def test_little_is_foretold_from_the_policy_alone():
    """A small epsilon leaves most activities out; the shipped policies leave enough."""
    goal = {
        "kind": "differential-privacy",
        "epsilon": 0.05,
        "delta": 1e-6,
        "over": ["control-flow"],
    }
    said = list(little_is_left(make_plan(policy_with(guarantees=[goal]))))
    assert any("fewer than about" in line for line in said), said
    for policy in POLICIES:
        assert not list(little_is_left(plan_of(policy))), policy


def test_a_large_k_is_told_by_lint():
    """Of 100 units 30 make 3 groups."""
    from cloakwork.policy.lint import little_left

    goal = {"kind": "k-anonymity", "k": 30, "over": ["control-flow"]}
    (advice,) = little_left(policy_with(guarantees=[goal], assume={"units_at_most": 100}))
    assert "at most 3 groups of 30" in advice.message


def test_what_a_step_changes_is_one_line():
    """Figures that are known read well, others stand as they are."""
    assert change_line(FIGURES) == (
        "220 of 1,434 cases, 299 events, within 1.2% of the least possible; 116 variants become 29"
    )
    assert ", and 443 cases left out; " in change_line({**FIGURES, "cases_left_out": 443})
    assert change_line({"some_rows": 1200, "share": 0.25}) == "some rows 1,200, share 0.25"


def test_a_screen_gives_way_where_it_is_longest():
    """Entries are hidden from the end, and how many is said with the option that shows them."""
    few = ScreenSection("Few", ("one",))
    many = ScreenSection("Many", tuple(f"entry {number}" for number in range(9)), "--all")
    shown = [line for section in fitted([few, many], 6, 80) for line in section.lines(80)]
    assert len(shown) == 6
    assert shown[-1].strip() == "and 5 more (--all)"
    assert fitted([few], 0, 80) == (few,), "what may not give way stays"


def test_what_is_of_no_use_when_cut_gives_way_last():
    """A price ends with what is left: its beginning alone says nothing."""
    price = ScreenSection("Price", ("word " * 40,), most_lines=3, legible_lines=3)
    steps = ScreenSection("Steps", ("word " * 40,), most_lines=3)
    kept = [section.most_lines for section in fitted([price, steps], 4, 80)]
    assert kept == [3, 1]
    assert sum(len(section.lines(80)) for section in fitted([price, steps], 3, 80)) == 3


def test_the_price_is_whole_beside_figures_of_the_log(tmp_path):
    """The longest of the shipped screens, previewed and with an earlier release."""
    plan = plan_of("kanon-dp-timestamps")
    previewed = [StepRecord(mechanism="kanon/optimal", seconds=0, figures=FIGURES)]
    outlook = replace(budget(plan, ledger=str(tmp_path / "ledger.db")), without_dp=1)
    sections = first_screen(plan, "hospital.xes.gz", previewed, outlook, 80, "cloakwork apply")
    lines = [line for section in sections for line in section.lines(80)]
    assert len(lines) <= MOST_LINES
    assert "then 3 left" in " ".join(" ".join(lines).split())


@pytest.mark.parametrize("policy", POLICIES, ids=lambda path: path.stem)
def test_a_plain_line_keeps_the_strength_of_the_guarantee(policy):
    """Every number that makes the guarantee strong or weak is in the line."""
    plan = plan_of(policy)
    for claim in plan.claims:
        line = guarantee_line(claim, plan.facts.unit)
        for name in ("k", "t", "l", "epsilon", "K", "L"):
            strength = getattr(claim.guarantee, name, None)
            if strength is not None:
                assert f"{strength:g}" in line, (name, line)


@pytest.mark.parametrize("options", [("--column", "concept:name=b"), ("--ledger", "l.db")])
def test_what_comes_next_keeps_the_options(cloakwork, tmp_path, monkeypatch, options):
    """The command that is shown to be copied names columns and ledger, too."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    Path("l.csv").write_text("a;b;c\n1;x;2024-01-01\n", "utf-8")
    said = cloakwork("plan", "dp-control-flow", "l.csv", *options, "--no-preview", "--quiet")
    assert said.code == 0, said.err
    shown = f"cloakwork apply dp-control-flow l.csv {' '.join(options)} --out release"
    assert shown in said.out


@pytest.mark.parametrize("policy", POLICIES, ids=lambda path: path.stem)
def test_steps_speak_of_durations(policy):
    """Noise on times is told in units of time, never in steps of the grid."""
    reasons = [step.why for step in plan_of(policy).steps]
    assert not [why for why in reasons if "grid" in why]


def test_the_scale_of_noise_is_a_duration():
    """Epsilon 1 for a shift of 1 h takes noise of scale 1 h."""
    plan = plan_of(ROOT / "policies" / "kanon-dp-timestamps.yaml")
    assert "adds noise of scale 1 h to each time" in [step.why for step in plan.steps]


def test_columns_that_nothing_checks_are_told(cloakwork, tmp_path):
    """Under differential privacy the log is not read, so a wrong ``--column`` shows with apply."""
    log = EXAMPLES / "hospital.csv.gz"
    policy = ROOT / "policies" / "dp-control-flow.yaml"
    ledger = tmp_path / "ledger.db"
    said = cloakwork("plan", policy, log, "--column", "concept:name=step", "--ledger", ledger)
    assert said.code == 0
    assert "is not read while planning here, so --column is not checked" in said.err
    said = cloakwork("plan", policy, HOSPITAL, "--column", "concept:name=step")
    assert said.code == 2
    assert "XES names its attributes itself" in said.err


def test_generalisation_is_told_in_rounded_shares():
    """By attribute, the shares of its levels; not raw figures."""
    figures = {
        "case:age as it is": 0.0,
        "case:age coarser": 1.0,
        "case:age left out": 0.0,
        "ward as it is": 0.783654,
        "ward coarser": 0.2,
        "ward left out": 0.016346,
    }
    assert change_line(figures) == (
        "case:age: 100% coarser; ward: 78.4% as it is, 20% coarser, 1.63% left out"
    )


LOCAL = """
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: local, version: 1.0.0, owner: me, purpose: test, dataset: d}
spec:
  attributes:
    "concept:name": {role: control-flow}
    "time:timestamp": {role: timestamp}
    department: {role: sensitive, domain: [a, b]}
    "case:diagnosis": {role: sensitive, domain: [c, d]}
    cost: {role: sensitive, range: [0, 100]}
    "case:age": {role: quasi-identifier, range: [0, 120]}
    room: {role: insensitive, treatment: keep}
    "case:sex": {role: insensitive, treatment: keep}
    "*": {treatment: drop}
  guarantees:
    - {kind: k-anonymity, k: 10, over: [control-flow], scope: variants}
    - {kind: local-dp, epsilon: 1.0, over: [department], per: value}
    - {kind: local-dp, epsilon: 1.0, over: ["case:diagnosis"], per: value}
    - {kind: local-dp, epsilon: 2.0, over: [cost], per: value}
    - {kind: local-dp, epsilon: 1.0, over: ["case:age"], per: case}
    - {kind: metric-privacy, epsilon: 1.0, shift: 1h, over: [timestamps]}
  expose: {room: "a plan hangs there", "case:sex": "it is said there"}
"""


def test_no_guarantee_and_no_exposed_column_is_hidden(cloakwork, tmp_path, monkeypatch):
    """Local noise of one strength is one line; its steps say what they change."""
    monkeypatch.setenv("COLUMNS", "80")
    policy = tmp_path / "local.yaml"
    policy.write_text(LOCAL, "utf-8")
    said = cloakwork("plan", policy, HOSPITAL, "--no-preview", "--quiet")
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert len(lines) <= MOST_LINES
    text = " ".join(said.out.split())
    assert "local-dp: each value of department and case:diagnosis is" in text
    assert text.count("local-dp: ") == 3 and "metric-privacy: " in text
    assert re.search(r"k-anonymity: at least \d+ cases share", text)
    assert "room: a plan" in text and "case:sex: it is" in text
    steps = list(map(step_line, plan_of(policy).steps))
    assert "randomise department (attributes/randomised-response)" in steps
    assert "add noise to cost (attributes/bounded-laplace)" in steps


def test_a_policy_that_buys_none_is_refused_before_the_log_is_read(tmp_path, monkeypatch, capsys):
    """As any other policy that cannot be met: exit code 3, one line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(
        buying(profile=None).model_dump_json(by_alias=True, exclude_unset=True)
    )
    (tmp_path / "log.csv").write_text("no log at all")
    assert main(["profile", "p.yaml", "log.csv", "--out", "profile.json", "--quiet"]) == 3
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "profile: the policy sets no spec.profile" in line
    assert not (tmp_path / "profile.json").exists() and not (tmp_path / "cloakwork.db").exists()


def test_the_commands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLOAKWORK_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CLOAKWORK_LEDGER", raising=False)
    text = buying(output={"format": "csv"}).model_dump_json(by_alias=True, exclude_unset=True)
    (tmp_path / "p.yaml").write_text(text)
    write_log(LOG, tmp_path / "log.csv", "csv")
    runs = (
        (["profile", "p.yaml", "log.csv", "--out", "profile.json"], "charged: epsilon 0.2"),
        (
            ["plan", "p.yaml", "log.csv", "--profile", "profile.json", "--out", "plan.json"],
            "facts that come from it",
        ),
        (["apply", "plan.json", "log.csv", "--out", "out"], "epsilon 0.8"),
        (["verify", "out"], "every claim and cost was derived again"),
    )
    for arguments, said in runs:
        result = CliRunner().invoke(cloakwork_command, arguments)
        shown = " ".join(result.stdout.split())
        assert result.exit_code == 0 and said in shown, result.output
    assert (
        json.loads((tmp_path / "out" / "plan.json").read_text())["profile"]["figures"]["cases"] > 0
    )


def test_errors_of_the_commands_are_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(buying().model_dump_json(by_alias=True, exclude_unset=True))
    write_log(log_of([["a"]]), tmp_path / "log.csv", "csv")
    (tmp_path / "there.json").write_text("{}")
    for arguments, said in (
        (["profile", "p.yaml", "log.csv", "--out", "there.json"], "exists"),
        (["profile", "p.yaml", "log.csv", "--out", "no/where.json"], "no folder"),
        (["profile", "p.yaml", "none.csv", "--out", "new.json"], "no such file"),
        (["plan", "p.yaml", "log.csv", "--profile", "there.json"], "is not a profile"),
        (["plan", "p.yaml", "log.csv", "--profile", "none.json"], "cannot be read as a profile"),
    ):
        assert main(arguments) != 0
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert said in line
