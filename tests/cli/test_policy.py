"""``cloakwork policy`` as a user types it: formats, waivers and ``--fail-on``. What other tools
read: SARIF that fits its schema, and commands that obey nobody's names.
"""

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from jsonschema import Draft4Validator, FormatChecker

from cloakwork.cli.policy import policy
from cloakwork.errors import PolicyError
from cloakwork.plan.policies import load_policy
from cloakwork.policy.lint import ADVICE_RULES
from cloakwork.policy.load import SCHEMA_FILE, list_policies, schema_text, shipped
from cloakwork.report.policy_findings import CHANGE_RULES, Annotation, github_command, sarif
from conftest import EXAMPLES, Said


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


SAID = ("--dataset", "visits", "--owner", "somebody", "--purpose", "a study")
"""What init would ask otherwise."""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(policy, arguments)


def test_init_writes_a_policy_that_is_valid_and_says_how_to_go_on(here):
    result = run("init", *SAID)
    assert result.exit_code == 0
    assert "cloakwork policy validate policy.yaml" in result.stdout
    text = (here / "policy.yaml").read_text("utf-8")
    assert text.startswith("# yaml-language-server: $schema=privacy-policy-v1.json\n")
    assert load_policy("policy.yaml").metadata.name == "policy"
    assert run("validate", "policy.yaml").stdout == "policy.yaml: ok (policy 1.0.0)\n"


@pytest.mark.parametrize("name", list_policies())
def test_init_begins_with_any_shipped_policy(here, name):
    assert run("init", *SAID, "--from", name, "--out", "Mine & Yours.yaml").exit_code == 0
    assert load_policy("Mine & Yours.yaml").metadata.name == "mine-yours"


def test_suggest_says_at_once_that_its_file_exists(here):
    """Before the log is read."""
    (here / "policy.yaml").write_text("mine")
    (here / "log.csv").write_text("this is no log")
    refused = run("suggest", "log.csv", "--out", "policy.yaml")
    assert refused.exit_code == 2
    assert "policy.yaml exists; --force overwrites it" in refused.stderr
    assert (here / "policy.yaml").read_text() == "mine"
    assert run("suggest", "log.csv", "--out", "policy.yaml", "--force").exit_code == 1


def test_init_never_overwrites_unasked(here):
    (here / "policy.yaml").write_text("mine")
    refused = run("init")
    assert (refused.exit_code, "policy.yaml exists; --force overwrites it" in refused.stderr) == (
        2,
        True,
    )
    assert (here / "policy.yaml").read_text() == "mine"
    assert run("init", *SAID, "--force").exit_code == 0
    assert load_policy("policy.yaml")


def test_init_from_an_unknown_name_is_a_usage_error(here):
    result = run("init", "--from", "dp-control-flw")
    assert result.exit_code == 2
    assert "did you mean 'dp-control-flow'?" in result.stderr
    assert not list(here.iterdir())


def test_validate_prints_one_json_document(here):
    (here / "bad.yaml").write_text("kind: PrivacyPolicy\n")
    result = run("validate", "--json", "dp-control-flow", "bad.yaml")
    assert (result.exit_code, result.stderr) == (3, "")
    good, bad = json.loads(result.stdout)["policies"]
    assert good["valid"] and len(good["digest"]) == 64
    assert [problem["message"] for problem in bad["problems"]] == [
        "apiVersion is missing",
        "metadata is missing",
        "spec is missing",
    ]


def test_explain_says_who_how_and_what_for():
    said = " ".join(run("explain", "dp-per-person").stdout.split())
    for part in (
        "Who is protected",
        "'case:patient'",
        "at most 2, drawn at random",
        "who thought 10 in 100 that a protected",
        "10,000",
    ):
        assert part in said
    document = json.loads(run("explain", "--json", "dp-per-person").stdout)
    assert document["policy"] == "dp-per-person 1.0.0"


def test_lint_places_its_advice(here):
    run("init", *SAID, "--from", "kanon-control-flow")
    assert run("lint", "policy.yaml").stdout == "policy.yaml: nothing to advise\n"
    text = (here / "policy.yaml").read_text()
    (here / "policy.yaml").write_text(text.replace("k: 10", "k: 3"))
    line = next(number for number, said in enumerate(text.splitlines(), 1) if "k: 10" in said)
    assert run("lint", "policy.yaml").stdout.startswith(
        f"policy.yaml:{line}:10: spec.guarantees[0].k: k = 3 is small"
    )
    advice = json.loads(run("lint", "--json", "policy.yaml").stdout)["advice"]
    assert [item["line"] for item in advice] == [line]


def test_schema_goes_to_standard_output_or_to_a_file(here):
    assert run("schema").stdout == schema_text()
    assert run("schema", "--out", "schema.json").exit_code == 0
    assert (here / "schema.json").read_text("utf-8") == schema_text()


def test_editors_find_the_schema_where_a_policy_names_it(here):
    """Also where an older version left one, which is written anew."""
    (here / SCHEMA_FILE).write_text("{}")
    assert run("init", "--out", "mine.yaml").exit_code == 0
    said = run("schema", "--editor")
    assert (said.exit_code, said.stdout) == (0, f"{SCHEMA_FILE}: written\n")
    _, _, named = (here / "mine.yaml").read_text("utf-8").splitlines()[0].partition("$schema=")
    assert (here / named).read_text("utf-8") == schema_text()


def test_list_names_the_shipped_policies():
    lines = run("list").stdout.splitlines()
    assert [line.split()[0] for line in lines if line[:1].strip()] == list_policies()
    assert [
        item["name"] for item in json.loads(run("list", "--json").stdout)["policies"]
    ] == list_policies()


@pytest.mark.parametrize("command", ["explain", "lint"])
def test_an_invalid_policy_is_a_policy_error(here, command):
    (here / "bad.yaml").write_text("[]")
    assert isinstance(run(command, "bad.yaml").exception, PolicyError)


@pytest.fixture
def diff(tmp_path, cloakwork, monkeypatch):
    """Compare a policy (version 1.0.0) with itself after replacements."""
    monkeypatch.chdir(tmp_path)
    text = (shipped("policies") / "kanon-control-flow.yaml").read_text("utf-8")

    def run(*options: str, **replaced: str) -> Said:
        new = text
        for before, after in {"k": "k: 10", "version": "version: 1.0.0"}.items():
            new = new.replace(after, f"{before}: {replaced.get(before, after.split()[1])}", 1)
        Path("old.yaml").write_text(text, "utf-8")
        Path("new.yaml").write_text(new, "utf-8")
        return cloakwork("policy", "diff", "old.yaml", "new.yaml", *options)

    return run


@pytest.mark.parametrize(
    ("fail_on", "k", "version", "code"),
    [
        (("looser",), "5", "2.0.0", 3),
        (("looser",), "12", "1.0.0", 0),
        (("tighter",), "12", "1.1.0", 3),
        (("looser", "other"), "12", "1.1.0", 0),
        (("any",), "12", "1.1.0", 3),
        (("any",), "10", "1.0.1", 0),
        (("version",), "5", "2.0.0", 0),
        (("version",), "5", "1.9.0", 3),
        (("version",), "12", "1.1.0", 0),
        (("version",), "12", "1.0.9", 3),
        ((), "5", "1.0.0", 0),
    ],
)
def test_what_fails(diff, fail_on, k, version, code):
    options = [word for each in fail_on for word in ("--fail-on", each)]
    assert diff(*options, k=k, version=version).code == code


def test_a_version_that_was_not_raised_is_said_in_every_format(diff):
    assert "2.0.0 or later, and the new policy says 1.0.1" in diff(k="5", version="1.0.1").out
    document = json.loads(diff("--json", k="5", version="1.0.1").out)
    assert document["version"] == {
        "old": "1.0.0",
        "new": "1.0.1",
        "bump": "major",
        "at_least": "2.0.0",
        "is_enough": False,
    }
    run = json.loads(diff("--format", "sarif", k="5", version="1.0.1").out)["runs"][0]
    assert [each["ruleId"] for each in run["results"]] == ["other", "looser", "version"]
    github = diff("--format", "github", k="5", version="1.0.1").out.splitlines()
    assert [line.split()[0] for line in github] == ["::notice", "::warning", "::warning"]
    line = next(
        number
        for number, text in enumerate(Path("new.yaml").read_text("utf-8").splitlines(), 1)
        if "version: 1.0.1" in text
    )
    assert f"line={line}," in github[2]


Command = Callable[..., Said]


@pytest.fixture
def lint(tmp_path, cloakwork, monkeypatch):
    """Lint a policy with k = 3 and without '*', which is one warning and one note."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, waivers: Any = ()) -> Said:
        text = (shipped("policies") / "kanon-control-flow.yaml").read_text("utf-8")
        document = yaml.safe_load(text)
        del document["spec"]["attributes"]["*"]
        document["spec"]["guarantees"][0]["k"] = 3
        if waivers:
            document["spec"]["waivers"] = list(waivers)
        Path("p.yaml").write_text(yaml.safe_dump(document), "utf-8")
        return cloakwork("policy", "lint", "p.yaml", *arguments)

    return run


WAIVER = {"rule": "small-k", "reason": "Nobody knows", "by": "Ann", "expires": "9999-12-31"}


@pytest.mark.parametrize(
    ("options", "waivers", "code"),
    [
        ((), (), 0),
        (("--fail-on", "warning"), (), 3),
        (("--fail-on", "warning"), (WAIVER,), 0),
        (("--fail-on", "warning"), (WAIVER | {"expires": "2020-01-01"},), 3),
        (("--fail-on", "warning"), (WAIVER | {"where": "spec.guarantees[0].k"},), 0),
        (("--fail-on", "warning"), (WAIVER | {"where": "spec.guarantees[1].k"},), 3),
        (("--fail-on", "note"), (WAIVER,), 3),
        (("--fail-on", "note"), (WAIVER, WAIVER | {"rule": "undeclared-attributes"}), 0),
    ],
)
@pytest.mark.parametrize("output", ["text", "json", "sarif", "github"])
def test_which_advice_fails(lint, options, waivers, code, output):
    said = lint(*options, "--format", output, waivers=waivers)
    assert (said.code, said.err) == (code, "")
    if output in ("json", "sarif"):
        assert json.loads(said.out)


def test_what_is_waived_is_said(lint):
    waivers = [WAIVER, WAIVER | {"rule": "smal-k"}]
    text = lint(waivers=waivers).out
    assert "spec.guarantees[0].k: waived: small-k, until 9999-12-31, by Ann: Nobody knows" in text
    assert "there is no rule 'smal-k', did you mean 'small-k'?" in text
    document = json.loads(lint("--json", waivers=waivers).out)
    assert [each["rule"] for each in document["waived"]] == ["small-k"]
    assert {each["rule"] for each in document["advice"]} == {
        "undeclared-attributes",
        "waiver-unused",
    }
    results = json.loads(lint("--format", "sarif", waivers=waivers).out)["runs"][0]["results"]
    assert [each["ruleId"] for each in results if "suppressions" in each] == ["small-k"]
    assert "small-k:" not in lint("--format", "github", waivers=waivers).out


def test_the_log_is_asked_only_where_it_is_given(lint):
    """A waiver of what only the log shows is not idle before the log was looked at."""
    waiver = WAIVER | {"rule": "attribute-not-in-log"}
    unused = "the waiver of attribute-not-in-log matches no finding"
    assert unused not in lint(waivers=[waiver]).out
    assert unused in lint(str(EXAMPLES / "hospital.csv.gz"), waivers=[waiver]).out


def test_json_and_another_format_contradict(lint):
    assert lint("--json", "--format", "sarif").code == 2


def test_the_rules_are_listed_for_readers():
    """Their ids are promised: waivers name them."""
    page = (Path(__file__).parents[2] / "docs" / "budgets-and-approvals.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    listed = {row.split("`")[1]: row.split("|")[2].strip() for row in rows}
    assert {name: listed.get(name) for name in ADVICE_RULES} == {
        name: rule.level for name, rule in ADVICE_RULES.items()
    }


LOG = EXAMPLES / "hospital.xes.gz"


def test_a_suggested_policy_is_valid_and_says_what_it_is(cloakwork, tmp_path):
    """Suggest, validate, lint: no edit, no failed command."""
    out = tmp_path / "policy.yaml"
    options = ("--dataset", "emergency", "--owner", "dpo@example.org", "--purpose", "a study")
    said = cloakwork("policy", "suggest", "--quick", LOG, "--out", out, *options)
    assert said.code == 0, said.err
    assert "keep it inside" in said.out and f"cloakwork plan {out} {LOG}" in said.out
    assert cloakwork("policy", "validate", out).code == 0
    lint = cloakwork("policy", "lint", out, LOG)
    assert lint.code == 0 and "did you mean" not in lint.out
    again = cloakwork("policy", "suggest", "--quick", LOG, "--out", out)
    assert again.code == 2 and "--force overwrites it" in again.err


def test_what_is_asked_is_left_out_until_it_is_answered(cloakwork, tmp_path):
    """Valid before and after; nothing is asked without a terminal."""
    out = tmp_path / "policy.yaml"
    quick = ("policy", "suggest", "--quick", LOG, "--out", out)
    document = json.loads(cloakwork(*quick, "--json").out)
    assert document["form"] == "k-anonymity" and document["asked"]
    assert cloakwork("policy", "validate", out).code == 0
    listed = json.loads(cloakwork("policy", "answer", out, "--json").out)["questions"]
    assert {each["name"] for each in listed} == set(document["asked"])
    table = cloakwork("policy", "answer", out)
    assert table.code == 0 and document["asked"][0] in table.out and "Nothing was" in table.out
    answers = tmp_path / "answers.yaml"
    said = "0..9" if listed[0]["question"].startswith("which two") else "[one, other]"
    answers.write_text(f'"{listed[0]["name"]}": {said}\n', "utf-8")
    options = ("--file", answers, "--rest", "drop", "--confirm", "A. Officer", "--json")
    answered = json.loads(cloakwork("policy", "answer", out, *options).out)
    assert (answered["asked"], answered["valid"]) == ([], True)
    assert listed[0]["name"] in load_policy(out).goals()[1].over
    assert load_policy(out).metadata.suggested.confirmed_by == "A. Officer"
    assert "asks nothing" in cloakwork("policy", "answer", out).out
    wrong = cloakwork("policy", "answer", out, "--file", answers)
    assert wrong.code == 3 and wrong.err.count("\n") == 1


@pytest.mark.usefixtures("few_turns", "few_looked_for")
def test_forms_are_tried_beside_each_other(cloakwork, tmp_path):
    """What each keeps and who is found in it; nothing is charged, and a form that the budget cannot
    pay is not proposed.
    """
    log, out = EXAMPLES / "permit.xes.gz", tmp_path / "p.yaml"
    ledger = f"sqlite:///{tmp_path / 'l.db'}"
    options = ("--out", out, "--dataset", "d", "--purpose", "a study", "--ledger", ledger)
    tried = json.loads(cloakwork("policy", "suggest", log, *options, "--json").out)["forms"]
    names = ["k-anonymity", "k-anonymity-noised-times", "whole-log-dp"]
    assert [each["name"] for each in tried] == names
    for each in tried:
        assert each["fault"] is None
        assert 0 < each["similarity"] <= 1
        assert set(each["found"]) == {"sequence", "timed-events-3", "sequence-times"}
        # Of few cases the shares themselves are chance.
        lowest = max(share["low"] for share in each["found"].values())
        # Who knows three times finds the case by noise on single ones.
        assert (lowest < 0.09) == (each["name"] != "k-anonymity-noised-times")
    # That forms were compared is noted, and nothing is released.
    told = json.loads(cloakwork("ledger", "history", "--ledger", ledger, "--json").out)
    assert told["releases"] == []
    (noted,) = told["comparisons"]
    assert [each["name"] for each in noted["policies"]] == ["p", "p", "p"]
    owner = ("--owner", "O", "--total", "epsilon=1,delta=1e-6", "--ledger", ledger)
    assert cloakwork("dataset", "declare", "D", *owner).code == 0
    refused = cloakwork("policy", "suggest", log, *options, "--force")
    assert refused.code == 1
    assert "k-anonymity is not proposed: budget of dataset 'd'" in refused.err
    assert "what would fit is epsilon 1, delta 1e-06" in refused.err
    # To the end of the command that raises the total, however long the line.
    assert "cloakwork dataset declare d --amend" in refused.err


def test_the_next_command_names_the_columns_too(cloakwork, tmp_path):
    """Typed as it is printed, it reads the log as `suggest` did."""
    log, out = tmp_path / "log.csv", tmp_path / "p.yaml"
    log.write_text("Zaak nummer;Stap;Tijd\n1;in;2024-01-01\n", encoding="utf-8")
    names = ("case:concept:name=Zaak nummer", "concept:name=Stap", "time:timestamp=Tijd")
    columns = ["--audience", "publish", *(word for name in names for word in ("--column", name))]
    said = cloakwork("policy", "suggest", "--quick", log, "--out", out, *columns)
    assert said.code == 0, said.err
    line = next(line for line in said.out.splitlines() if "policy lint" in line)
    assert cloakwork(*shlex.split(line)[1:]).code == 0


def test_a_column_without_a_log_is_refused(cloakwork):
    """It would change nothing."""
    said = cloakwork("policy", "lint", "kanon-control-flow", "--column", "concept:name=step")
    assert said.code == 2 and "name one" in said.err


def test_init_takes_what_stands_under_metadata(cloakwork, tmp_path):
    """Whatever characters it holds."""
    out = tmp_path / "policy.yaml"
    options = ("--dataset", "permits", "--owner", 'A "B": #1', "--purpose", "x\\1")
    said = cloakwork("policy", "init", "--out", out, *options)
    assert said.code == 0 and "example" not in said.out, said.err
    metadata = load_policy(out).metadata
    assert (metadata.dataset, metadata.owner, metadata.purpose) == ("permits", 'A "B": #1', "x\\1")


def test_a_file_of_several_logs_is_asked_about_with_the_option(cloakwork, tmp_path, monkeypatch):
    """The option that is printed works as it stands, whatever a sheet is called."""
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("fastexcel", reason="workbooks: pip install 'cloakwork[excel]'")
    monkeypatch.chdir(tmp_path)
    book = openpyxl.Workbook()
    book.active.title = "it's $(x) one"
    book.active.append(["case", "activity", "timestamp"])
    for case in range(12):
        book.active.append([f"{case}", "a", "2024-01-01T00:00:00Z"])
    book.create_sheet("other")
    book.save("two logs.xlsx")
    asked = (
        "policy",
        "suggest",
        "--quick",
        "two logs.xlsx",
        "--out",
        "p.yaml",
        "--purpose",
        "a study",
    )
    for given in ((), ("--input", "sheet=none")):
        said = cloakwork(*asked, *given, "--quiet")
        assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
        option = shlex.split(said.err.partition("; say it, as ")[2].partition(" (in Python")[0])
        assert option == ["--input", "sheet=it's $(x) one"]
    assert cloakwork(*asked, *option, "--quiet").code == 0
    written = Path("p.yaml").read_text("utf-8")
    assert "a study" in written and "it's $(x) one" in written


SCHEMA = Path(__file__).with_name("sarif-schema-2.1.0.json")
"""Of OASIS (2.1.0-rtm.5, as @microsoft/jest-sarif has it)."""

HOSTILE = (
    "x\n::set-env name=PATH::/evil\r\n##[add-path]/evil %0A, [here](https://evil) {0} \x1b[31m"
)


def faults(document: dict[str, Any]) -> list[str]:
    """Where a document is no SARIF 2.1.0."""
    schema = json.loads(SCHEMA.read_text("utf-8"))
    found = Draft4Validator(schema, format_checker=FormatChecker()).iter_errors(document)
    return [f"{list(each.absolute_path)}: {each.message}" for each in found]


def annotation(**fields: Any) -> Annotation:
    """One that says nothing special, but for ``fields``."""
    usual: dict[str, Any] = {
        "rule": "small-k",
        "level": "warning",
        "message": "k = 3 is small",
        "path": Path("policies/p.yaml"),
        "line": 3,
        "column": 7,
        "field": "spec.guarantees[0].k",
    }
    return Annotation(**(usual | fields))


@pytest.mark.parametrize("rules", [ADVICE_RULES, CHANGE_RULES])
def test_sarif_fits_its_schema(rules):
    found = [
        annotation(rule=name, level=rule.level, message=HOSTILE, field=HOSTILE)
        for name, rule in rules.items()
    ]
    found += [
        annotation(rule=next(iter(rules)), **fields)
        for fields in (
            {"path": None},
            {"path": Path("/tmp/a b%/ü:[x].yaml")},
            {"accepted": "the recipient knows nobody"},
        )
    ]
    document = sarif(found, rules)
    assert faults(document) == []
    assert faults(sarif([annotation(rule=next(iter(rules)), line=0)], rules))
    results = document["runs"][0]["results"]
    assert results[-1]["suppressions"][0]["justification"] == "the recipient knows nobody"
    assert "physicalLocation" not in results[-3]["locations"][0]


def test_names_are_no_links_and_no_placeholders():
    (result,) = sarif([annotation(message=HOSTILE)], ADVICE_RULES)["runs"][0]["results"]
    assert r"[here\](https://evil) {{0}}" in result["message"]["text"]


@pytest.mark.parametrize(
    ("name", "uri"),
    [
        ("policies/p.yaml", "policies/p.yaml"),
        ("a b#?%.yaml", "a%20b%23%3F%25.yaml"),
        ("javascript:x.yaml", "javascript%3Ax.yaml"),
        ("ü.yaml", "%C3%BC.yaml"),
    ],
)
def test_a_file_is_a_relative_uri(name, uri):
    (result,) = sarif([annotation(path=Path(name))], ADVICE_RULES)["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == uri
    assert place["region"] == {"startLine": 3, "startColumn": 7}


def test_a_github_command_is_one_line_whatever_the_names():
    """A line of its own, or a comma in a property, would be obeyed."""
    line = github_command(annotation(message=HOSTILE, path=Path("a,line=9::b\n.yaml")))
    assert "\n" not in line and "\r" not in line and "\x1b" not in line
    properties, _, message = line.removeprefix("::warning ").partition("::")
    assert properties == ("file=a%2Cline=9%3A%3Ab%0A.yaml,line=3,col=7,title=cloakwork%3A small-k")
    assert message.startswith("x%0A::set-env name=PATH::/evil%0D%0A##[add-path]/evil %250A, ")


def test_a_note_is_a_notice():
    assert github_command(annotation(level="note", path=None)) == (
        "::notice title=cloakwork%3A small-k::k = 3 is small"
    )


def test_a_policy_that_cannot_be_planned_is_not_proposed(cloakwork, tmp_path):
    """For want of persons, or as the ledger counts another unit: one line says what can be."""
    log, out, ledger = tmp_path / "log.csv", tmp_path / "p.yaml", f"sqlite:///{tmp_path / 'l.db'}"
    rows = [f"{case},a,2024-01-01T00:00:00Z,P{case % 8}" for case in range(40)]
    log.write_text("\n".join(["case,activity,time,patient", *rows]), "utf-8")
    quick = ("policy", "suggest", log, "--out", out, "--quick", "--quiet", "--ledger", ledger)
    few = cloakwork(*quick, "--unit", "patient")
    assert "k = 12, but the log holds 8 different values of 'case:patient'" in few.err
    assert cloakwork(*quick, "--audience", "publish").code == 0
    assert cloakwork("apply", out, log, "--out", tmp_path / "r", "--ledger", ledger).code == 0
    out.unlink()
    unlike = cloakwork(*quick, "--audience", "publish", "--unit", "patient")
    for said, way in ((few, "--take whole-log-dp"), (unlike, "leaving out --unit")):
        assert (said.code, said.err.count("\n"), out.exists()) == (1, 1, False)
        assert said.err.endswith(f"; {way} would fit\n")


def test_a_table_of_spark_keeps_its_name(cloakwork, tmp_path, monkeypatch):
    """Neither the next command nor the dataset is called as the files that are removed."""
    out, work = tmp_path / "p.yaml", tmp_path / "work"
    shutil.copytree(LOG.parent, work, ignore=lambda _, names: {*names} - {LOG.name})
    engine = SimpleNamespace(in_files=lambda _: SimpleNamespace(path=work, close=list))
    monkeypatch.setattr("cloakwork.run.reading.registered_engine", lambda name: engine)
    said = cloakwork("policy", "suggest", "spark:db.visits", "--out", out, "--quick")
    assert f"cloakwork plan {out} spark:db.visits" in said.out and "work" not in said.err
    assert load_policy(out).metadata.dataset == "db.visits"
