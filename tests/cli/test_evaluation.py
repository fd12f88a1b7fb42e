"""``cloakwork audit dp`` as a user types it; every error is one line.

``cloakwork audit utility`` as a user types it.

``cloakwork compare`` as people type it.

``cloakwork risk`` as a user types it.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest
from click.testing import CliRunner
from openpyxl import Workbook

from cloakwork.cli import cloakwork_command, main
from cloakwork.evaluation.comparison_model import (
    AttackBound,
    ComparedSetting,
    Comparison,
    FigureSpread,
    SettingFigures,
)
from cloakwork.evaluation.risk_figures import RiskReport
from cloakwork.evaluation.sweeping import MOST_SETTINGS
from cloakwork.evaluation.utility import Utility
from cloakwork.log.formats import read_log, write_log
from cloakwork.report.comparison import MOST_LINES, print_comparison
from conftest import EXAMPLES, Said
from evaluation.counterparts import _counterparts, _seeded  # noqa: F401 - fixtures


def test_the_command_exits_with_5_where_the_claim_is_exceeded(tmp_path):
    """A published mechanism that releases raw counts; the drawing is well-formed and says it."""
    arguments = [
        "audit",
        "dp",
        "variants/raw",
        "--runs",
        "100",
        "--json",
        "--quiet",
        "--out",
        str(tmp_path / "a.svg"),
    ]
    result = CliRunner().invoke(cloakwork_command, arguments)
    assert result.exit_code == 5
    document = json.loads(result.stdout)
    assert document["proof"] == "published" and not document["passed"]
    assert max(pair["epsilon_at_least"] for pair in document["pairs"]) > 1
    assert "audit failed" in result.stderr
    assert "claimed 1" in "".join(ElementTree.parse(tmp_path / "a.svg").getroot().itertext())


def test_options_reach_the_mechanism():
    """As JSON or as a word; ``noised`` belongs to one of the two claims about times, so that one is
    audited.
    """
    arguments = [
        "audit",
        "dp",
        "timestamps/laplace",
        "--runs",
        "10",
        "--quiet",
        "--json",
        "--option",
        "noised=times",
    ]
    result = CliRunner().invoke(cloakwork_command, arguments)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["options"] == {"noised": "times"} and len(document["pairs"]) == 1


def test_the_command_says_what_it_saw():
    result = CliRunner().invoke(
        cloakwork_command, ["audit", "dp", "variants/threshold", "--runs", "50", "--quiet"]
    )
    said = " ".join(result.stdout.split())
    assert result.exit_code == 0 and said.count("within the claim of 1") == 5


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["variants/nothing"], 2, "there is no mechanism"),
        (["variants/threshold", "--runs", "5"], 2, "5 is not in the range"),
        (["variants/threshold", "--epsilon", "nan"], 2, "epsilon must be between 1e-05 and 100"),
        (["variants/threshold", "--delta", "0"], 1, "needs a delta above 0"),
        (["variants/threshold", "--option", "noise"], 2, "is not NAME=VALUE"),
        (["variants/threshold", "--option", "noise=pink"], 1, "option noise"),
        (["timestamps/laplace", "--option", "noise=pink"], 1, "unknown option"),
        (["kanon/pretsa"], 1, "claims no differential privacy"),
        (["variants/threshold", "--runs", "10", "--out", "/nowhere/a.svg"], 1, "cannot be written"),
    ],
)
def test_errors_are_one_line(arguments, code, said, capsys):
    assert main(["audit", "dp", *arguments, "--quiet"]) == code
    lines = capsys.readouterr().err.strip().splitlines()
    assert any(said in line for line in lines)
    assert code == 2 or len(lines) == 1


HOSPITAL = str(EXAMPLES / "hospital.xes.gz")


def test_a_log_compared_with_itself_has_lost_nothing():
    """Each figure by its plain name, behind the word that they are internal; or one document."""
    asked = ["audit", "utility", HOSPITAL, HOSPITAL, "--quiet"]
    shown = CliRunner().invoke(cloakwork_command, asked)
    assert shown.exit_code == 0
    first, *lines = shown.stdout.splitlines()
    assert first == "Raw log: internal, never publish"
    figures = {line[:54].strip(): line[54:].strip() for line in lines}
    assert figures["Relative log similarity"] == "1"
    assert figures["Case durations"] == figures["Two attributes together"] == "0"
    assert "Next activity, learned from the release" in figures
    document = json.loads(CliRunner().invoke(cloakwork_command, [*asked, "--json"]).stdout)
    found = Utility.model_validate(document)
    assert found.flow is not None
    assert found.learned is not None
    assert document["whole_log"]["at_activities"] == []


def test_a_missing_log_is_one_line(tmp_path, capsys):
    assert main(["audit", "utility", HOSPITAL, str(tmp_path / "none.xes")]) == 1
    said = capsys.readouterr().err
    assert said == f"{tmp_path / 'none.xes'}: there is no such file or folder\n"


Command = Callable[..., Said]

SPREAD = FigureSpread(median=0.123, low=0.01, high=1.0)


def settings(count: int, *, refused: int = 0) -> tuple[ComparedSetting, ...]:
    """Rows with every figure, of long names; the last ``refused`` of them cannot be."""
    figures = SettingFigures(
        similarity=SPREAD, cases=SPREAD, events=SPREAD, durations=SPREAD, attributes=SPREAD
    )
    bound = AttackBound(kind="guess", attack="guessing", most=1e-4, beside=("timestamps",))
    whole = ComparedSetting(
        policy="a-policy-of-a-long-name 10.10.10",
        policy_digest="0",
        values={"metric-privacy.epsilon": 0.125},
        guarantees=("k 10", "metric epsilon 0.125, shift 1h of times"),
        bounds=(bound,),
        cost=("metric epsilon 0.125",),
        figures=figures,
        remarks=("budget of dataset 'd' is exhausted: this release costs more than is left",),
    )
    none = whole.model_copy(update={"figures": None, "refused": "no such release " * 30})
    return (whole,) * (count - refused) + (none,) * refused


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize(
    ("count", "refused"), [(1, 0), (3, 1), (9, 9), (MOST_SETTINGS, 0), (MOST_SETTINGS, 12)]
)
def test_the_first_screen_has_at_most_25_lines(width, count, refused, capsys):
    """However many settings there are; no line is wider than the screen, and every row is there."""
    found = Comparison(
        dataset="d",
        source="stand-in",
        internal=False,
        notice=("It is an invented log, made of declared facts. " * 5,),
        assumed=tuple(f"fact {number} is supposed: declare it" for number in range(9)),
        settings=settings(count, refused=refused),
    )
    print_comparison(found, "log.xes.gz", width)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= width
    assert sum("cannot be:" in line for line in lines) == refused
    shown = [line for line in lines if "0.125" in line and ".12 .01-1.00" in line]
    assert len(shown) == count - refused


def test_what_a_terminal_would_obey_is_not_printed(capsys):
    """Escape sequences in names stay text."""
    (row,) = settings(1)
    row = row.model_copy(update={"values": {"k": "\x1b[31mred"}, "policy": "\x1b[2J 1.0.0"})
    found = Comparison(
        dataset="\x1b]0;title",
        source="log",
        internal=True,
        notice=("as it is",),
        settings=(row, row.model_copy(update={"figures": None, "refused": "\x1b[1m"})),
    )
    print_comparison(found, "\x1b[3m.xes", 80, show_all=True)
    assert "\x1b" not in capsys.readouterr().out


def log_file(folder: Path) -> Path:
    """Twelve cases in two variants, as CSV."""
    rows = ["case,step,when"]
    for case in range(12):
        labels = ["a", "b", "c"] if case % 4 else ["a", "c"]
        rows += [
            f"{case},{step},2024-01-{case + 1:02}T0{at}:00:00Z" for at, step in enumerate(labels)
        ]
    path = folder / "log.csv"
    path.write_text("\n".join(rows) + "\n", "utf-8")
    return path


COLUMNS = (
    *("--column", "case:concept:name=case"),
    *("--column", "concept:name=step"),
    *("--column", "time:timestamp=when"),
)


def test_a_sweep_on_a_table_prints_a_row_a_setting_and_writes_a_page(cloakwork, tmp_path, ledger):
    """And the ledger's history tells of it."""
    page = tmp_path / "page.html"
    said = cloakwork(
        "compare", log_file(tmp_path), "kanon-control-flow", "--sweep", "k=2,3,50", *COLUMNS,
        "--ledger", ledger, "--html", page,
    )  # fmt: skip
    assert said.code == 0
    assert "INTERNAL, not to be published: the log itself" in said.out
    rows = [line for line in said.out.splitlines() if line.startswith("k ")]
    assert [row.split()[:2] for row in rows] == [["k", "2"], ["k", "3"], ["k", "50"]]
    assert "cannot be: k-anonymity over control-flow" in rows[2]
    assert "INTERNAL" in page.read_text("utf-8")
    assert [path.name for path in tmp_path.iterdir() if "draft" in path.name] == []
    history = cloakwork("ledger", "history", "--ledger", ledger)
    assert "1 comparison of settings, which cost nothing" in history.out
    assert "measured  on the log" in history.out
    document = json.loads(cloakwork("ledger", "history", "--ledger", ledger, "--json").out)
    assert document["releases"] == []
    assert [each["values"] for each in document["comparisons"][0]["settings"]] == [
        {"k": 2}, {"k": 3}, {"k": 50},
    ]  # fmt: skip


def test_json_is_one_document(cloakwork, tmp_path, ledger):
    """With the format's name, and shares from 0 to 1."""
    said = cloakwork(
        "compare", log_file(tmp_path), "kanon-control-flow", "--sweep", "k=2", *COLUMNS,
        "--ledger", ledger, "--json",
    )  # fmt: skip
    document = json.loads(said.out)
    assert document["format"] == "cloakwork/comparison/v1"
    assert 0 < document["settings"][0]["figures"]["similarity"]["median"] <= 1


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("none.xes", "dp-control-flow"), 1, "none.xes: there is no such file"),
        (("log.csv",), 2, "POLICY"),
        (("policy.yaml", "log.csv"), 2, "the log comes first"),
        (("log.csv", "no-such-policy"), 3, "no-such-policy"),
        (("log.csv", "dp-control-flow", "--sweep", "k=5"), 1, "has 'k'"),
        (("log.csv", "dp-control-flow", "--html", "none/page.html"), 1, "there is no folder none"),
    ],
)
def test_errors_are_one_line_and_leave_nothing_behind(
    arguments, code, says, cloakwork, tmp_path, ledger, monkeypatch
):
    """Also in the ledger: it is made by a comparison alone."""
    log_file(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    said = cloakwork("compare", *arguments, "--ledger", ledger)
    assert said.code == code
    assert says in said.err
    assert "Traceback" not in said.err
    assert said.out == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == before


LINES = 25
_CLINIC = """\
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata:
  name: clinic
  version: 1.0.0
  owner: somebody@example.org
  purpose: waiting times
  dataset: clinic
spec:
  input:
    columns: {case: Patient, activity: Schritt, timestamp: Zeit}
    delimiter: ";"
    time_format: "%d.%m.%Y %H:%M"
  attributes:
    "case:concept:name": {role: identifier}
    "concept:name": {role: control-flow}
    "*": {treatment: drop}
  guarantees:
    - {kind: k-anonymity, k: 5, over: [control-flow], scope: variants}
  mechanisms:
    allow: [kanon/*, attributes/*, bound]
"""


@pytest.fixture
def small(tmp_path):
    """Some cases of a shipped log, with an attribute whose name is hostile."""
    log = read_log(EXAMPLES / "hospital.xes.gz")
    kept = log.keep_cases(pl.Series(range(40)).to_numpy())
    values = pl.Series("case:<script>alert(1)</script>", ["a", "b"] * 20)
    path = tmp_path / "small.xes"
    write_log(type(kept)(kept.events, kept.cases.with_columns(values), kept.offsets), path, "xes")
    return path


def test_one_screen_a_document_and_a_page(cloakwork, small, tmp_path):
    """Before and after; what is internal says so first; names of the log are escaped."""
    page = tmp_path / "risk.html"
    said = cloakwork("risk", small, small, "--quiet", "--html", page)
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert len(lines) <= LINES
    assert lines[0].startswith("Internal, of the raw log: never publish these figures")
    assert any(line.startswith("its sequence, and the time of every event") for line in lines)
    text = page.read_text("utf-8")
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "<svg" in text
    again = cloakwork("risk", small, "--quiet", "--html", page)
    assert again.code == 1
    assert again.err == f"{page}: exists already, and nothing is overwritten; name a new file\n"


def test_the_document_is_that_of_the_contract(cloakwork, small):
    """``attacks[].{name, knows, before, after: {share, low, high}}``, shares from 0 to 1."""
    said = cloakwork("risk", small, small, "--quiet", "--json")
    document = json.loads(said.out)
    RiskReport.model_validate(document)
    names = [attack["name"] for attack in document["attacks"]]
    assert len(names) == len(set(names))
    for attack in document["attacks"]:
        assert {"name", "knows", "before", "after"} <= attack.keys()
        for share in (attack["before"], attack["after"]):
            if share is not None:
                assert 0 <= share["low"] <= share["share"] <= share["high"] <= 1, attack
    alone = json.loads(cloakwork("risk", small, "--quiet", "--json").out)
    assert all(attack["after"] is None for attack in alone["attacks"])


def test_a_release_is_read_with_its_plan(cloakwork, small, tmp_path):
    """A folder and the packed file: what the plan says of noise is known, so nothing is estimated
    of it, and both have the same figures.
    """
    folder, packed = tmp_path / "release", tmp_path / "release.zip"
    ledger = f"sqlite:///{tmp_path / 'ledger.db'}"
    policy = tmp_path / "policy.yaml"
    shipped = (EXAMPLES.parents[1] / "policies" / "kanon-dp-timestamps.yaml").read_text("utf-8")
    policy.write_text(shipped.replace("k: 10", "k: 3").replace("kanon/*", "kanon/pretsa"), "utf-8")
    assert cloakwork("apply", policy, small, "--out", folder, "--ledger", ledger).code == 0
    assert cloakwork("pack", folder, "--out", packed).code == 0
    few = ("--quiet", "--json", "--targets", "10")
    said = [cloakwork("risk", small, each, *few) for each in (folder, packed)]
    assert said[0].out == said[1].out
    document = json.loads(said[0].out)
    assert not any("estimated" in note for note in document["notes"])
    log_alone = cloakwork("risk", small, folder / "log.xes.gz", *few).out
    assert any("estimated" in note for note in json.loads(log_alone)["notes"])
    _reports(cloakwork, folder, said[0].out, log_alone)


def _reports(cloakwork: Command, folder: Path, of_release: str, of_log: str) -> None:
    """The document of the release goes into its report; that of a log file is refused."""
    right, wrong = folder.parent / "right.json", folder.parent / "wrong.json"
    right.write_text(of_release, "utf-8")
    wrong.write_text(of_log, "utf-8")
    asked = ("report", folder, "--audience", "internal", "--format", "dpia", "--risk")
    assert "| 3 of its activities |" in cloakwork(*asked, right).out
    refused = cloakwork(*asked, wrong)
    assert (refused.code, refused.out, refused.err.count("\n")) == (1, "", 1)
    assert "does not say which release was attacked" in refused.err


def test_the_original_is_read_as_its_policy_says(cloakwork, tmp_path):
    """Columns, a decimal comma and dates that only the policy explains; a workbook, too."""
    table, folder = tmp_path / "klinik.csv", tmp_path / "release"
    rows = [
        (f"p{case}", step, f"0{1 + case % 9}.03.2024 1{place}:00")
        for case in range(12)
        for place, step in enumerate(("Aufnahme", "Labor", "Entlassung"))
    ]
    text = "\n".join(["Patient;Schritt;Zeit", *(";".join(row) for row in rows)])
    table.write_text(text, "utf-8")
    policy = tmp_path / "policy.yaml"
    policy.write_text(_CLINIC, "utf-8")
    ledger = ("--ledger", f"sqlite:///{tmp_path / 'ledger.db'}")
    assert cloakwork("apply", policy, table, "--out", folder, *ledger).code == 0
    few = ("--quiet", "--json", "--targets", "10")
    by_plan = cloakwork("risk", table, folder, *few)
    assert (by_plan.code, by_plan.err) == (0, "")
    assert json.loads(by_plan.out)["cases"] == json.loads(by_plan.out)["released_cases"] == 12

    alone = cloakwork("risk", table, "--quiet")
    assert alone.code == 1
    assert alone.err.startswith(f"{table}:")
    assert "--policy POLICY" in alone.err
    assert alone.err.count("\n") == 1
    named = cloakwork("risk", table, *few, "--policy", policy)
    assert json.loads(named.out)["cases"] == 12
    beside = cloakwork("risk", table, table, *few, "--policy", policy)
    assert json.loads(beside.out)["released_cases"] == 12
    assert cloakwork("registry", "add", policy, "--reason", "first", *ledger).code == 0
    version = cloakwork("risk", table, *few, "--policy", "clinic@1.0.0", *ledger)
    assert version.out == named.out
    assert cloakwork("risk", table, "--policy", "nowhere.yaml").code == 3

    book = tmp_path / "klinik.xlsx"
    workbook = Workbook()
    sheet = workbook.active
    assert sheet is not None
    for row in (("Patient", "Schritt", "Zeit"), *rows):
        sheet.append(row)
    workbook.save(book)
    policy.write_text(_CLINIC.replace('    delimiter: ";"\n', ""), "utf-8")
    said = cloakwork("risk", book, *few, "--policy", policy)
    assert json.loads(said.out)["cases"] == 12


def test_errors_of_risk_are_one_line(cloakwork, small, tmp_path):
    missing, empty = tmp_path / "none.xes", tmp_path / "empty"
    empty.mkdir()
    for asked, code, words in (
        (["risk", missing], 1, f"{missing}: there is no such file\n"),
        (["risk", small, missing], 1, f"{missing}: there is no such file or folder\n"),
        (["risk", small, empty], 1, f"{empty}: holds 0 logs where a release has one; "),
    ):
        arguments: list[str | os.PathLike[str]] = [*asked, "--quiet"]
        said = cloakwork(*arguments)
        assert said.code == code
        assert said.err.startswith(words)
        assert said.err.count("\n") == 1
        assert not said.out
    assert cloakwork("risk", small, "--other", small).code == 2


def test_membership_by_the_plan_of_a_policy(cloakwork, small, tmp_path):
    """In the document, on the page, as a drawing, and on the screen, beside the claim."""
    policy, drawing, page = (tmp_path / name for name in ("p.yaml", "m.svg", "m.html"))
    shipped = (EXAMPLES.parents[1] / "policies" / "dp-control-flow.yaml").read_text("utf-8")
    policy.write_text(shipped.replace("variants/*", "variants/threshold"), "utf-8")
    asked = ("risk", small, "--policy", policy, "--targets", "10", "--membership", "20")
    said = cloakwork(*asked, "--plot", drawing, "--html", page)
    assert said.code == 0
    assert "Membership by 10 releases of variants/threshold" in said.out
    assert "attacking membership" in said.err
    assert drawing.read_text("utf-8").startswith("<svg")
    assert "Is the case in the log?" in page.read_text("utf-8")
    document = RiskReport.model_validate_json(cloakwork(*asked, "--quiet", "--json").out)
    assert document.membership is not None
    assert document.membership.runs == 20


def test_what_membership_needs(cloakwork, small, tmp_path):
    """A plan, and the attack for its drawing."""
    said = cloakwork("risk", small, "--membership", "20", "--quiet")
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert "--policy POLICY" in said.err
    assert cloakwork("risk", small, "--plot", tmp_path / "m.svg").code == 2
