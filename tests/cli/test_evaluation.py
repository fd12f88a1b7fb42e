"""``cloakwork audit``, ``compare`` and ``risk`` as a user types them; every error is one line."""

import json
from pathlib import Path

import polars as pl
import pytest
from openpyxl import Workbook

from cloakwork.evaluation.compare import (
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
from conftest import EXAMPLES, ROOT, hurried
from counterexamples.small import small_log
from evaluation.counterparts import _counterparts, _seeded  # noqa: F401 - fixtures

HOSPITAL = EXAMPLES / "hospital.xes.gz"


def test_the_command_exits_with_5_where_the_claim_is_exceeded(cloakwork):
    """A published mechanism that releases raw counts."""
    said = cloakwork("audit", "dp", "variants/raw", "--runs", "100", "--json", "--quiet")
    assert said.code == 5
    document = json.loads(said.out)
    assert document["proof"] == "published" and not document["passed"]
    assert max(pair["epsilon_at_least"] for pair in document["pairs"]) > 1
    assert "audit failed" in said.err


def test_options_reach_the_mechanism(cloakwork):
    """As JSON or as a word; ``noised`` belongs to one of the two claims about times, so that one is
    audited.
    """
    asked = ("audit", "dp", "timestamps/laplace", "--runs", "10", "--quiet", "--json")
    said = cloakwork(*asked, "--option", "noised=times")
    assert said.code == 0, said.err
    document = json.loads(said.out)
    assert document["options"] == {"noised": "times"} and len(document["pairs"]) == 1


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ("variants/nothing", 2, "there is no mechanism"),
        ("variants/threshold --runs 5", 2, "5 is not in the range"),
        ("variants/threshold --epsilon nan", 2, "epsilon must be between 1e-05 and 100"),
        ("variants/threshold --delta 0", 1, "needs a delta above 0"),
        ("variants/threshold --option noise", 2, "is not NAME=VALUE"),
        ("variants/threshold --option noise=pink", 1, "option noise"),
        ("timestamps/laplace --option noise=pink", 1, "unknown option"),
        ("kanon/pretsa", 1, "claims no differential privacy"),
    ],
)
def test_errors_are_one_line(cloakwork, arguments, code, words):
    said = cloakwork("audit", "dp", *arguments.split(), "--quiet")
    lines = said.err.strip().splitlines()
    assert said.code == code
    assert any(words in line for line in lines)
    assert code == 2 or len(lines) == 1


def test_a_log_compared_with_itself_has_lost_nothing(cloakwork, tmp_path):
    """Each figure by its plain name, behind the word that they are internal; or one document."""
    asked = ("audit", "utility", HOSPITAL, HOSPITAL, "--quiet")
    shown = cloakwork(*asked)
    assert shown.code == 0
    first, *lines = shown.out.splitlines()
    assert first == "Raw log: internal, never publish"
    figures = {line[:54].strip(): line[54:].strip() for line in lines}
    assert figures["Relative log similarity"] == "1 (1 is best)"
    assert figures["Case durations"] == figures["Two attributes together"] == "0 (share, 0 is best)"
    assert "Next activity, learned from the release" in figures
    document = json.loads(cloakwork(*asked, "--json").out)
    found = Utility.model_validate(document)
    assert found.flow is not None
    assert found.learned is not None
    assert document["whole_log"]["at_activities"] == []
    missing = cloakwork("audit", "utility", HOSPITAL, tmp_path / "none.xes")
    assert missing.code == 1
    assert missing.err == f"{tmp_path / 'none.xes'}: there is no such file or folder\n"


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
        "compare", "kanon-control-flow", log_file(tmp_path), "--sweep", "k=2,3,50", *COLUMNS,
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
        "compare", "kanon-control-flow", log_file(tmp_path), "--sweep", "k=2", *COLUMNS,
        "--ledger", ledger, "--json",
    )  # fmt: skip
    document = json.loads(said.out)
    assert document["format"] == "cloakwork/comparison/v1"
    assert 0 < document["settings"][0]["figures"]["similarity"]["median"] <= 1


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("dp-control-flow", "none.xes"), 1, "none.xes: there is no such file"),
        (("log.csv",), 2, "POLICY"),
        (("policy.yaml", "dp-control-flow"), 2, "the policy comes first, then the log"),
        (("log.csv", "no-such-policy"), 2, "log.csv is a log, and the policy comes first"),
        (("no-such-policy", "log.csv"), 3, "no-such-policy"),
        (("log.csv", "dp-control-flow"), 2, "log.csv is a log, and the policy comes first"),
        (("dp-control-flow", "log.csv", "--sweep", "k=5"), 1, "has 'k'"),
        (("dp-control-flow", "log.csv", "--html", "none/page.html"), 1, "there is no folder none"),
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


def test_a_log_without_a_policy_is_told_in_the_same_line(cloakwork, tmp_path):
    for command in (("plan",), ("apply", "--out", tmp_path / "release")):
        said = cloakwork(*command, "log.csv")
        assert said.code == 2
        assert "log.csv is a log, and the policy comes first, then the log" in said.err


@pytest.mark.parametrize(
    "command",
    [
        ("plan",), ("apply", "--out", "release"), ("profile", "--out", "p.json"), ("compare",),
        ("policy", "lint"), ("policy", "validate"), ("policy", "explain"), ("policy", "diff"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["log.csv", "log.txt", "log.yaml", "log"])
@pytest.mark.parametrize("row", ["Anna Petrova,biopsy,2024-01-05", "Anna Petrova: biopsy"])
def test_a_log_in_the_place_of_a_policy_is_never_shown(
    command, name, row, cloakwork, tmp_path, ledger, monkeypatch
):
    """Whatever the log is called; where its name tells, the order stands in one line."""
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(f"case,activity,time\n{row}\n" if "," in row else f"{row}\n", "utf-8")
    beside = () if command in (("policy", "validate"), ("policy", "explain")) else ("no-file.csv",)
    said = cloakwork(*command, name, *beside, "--ledger", ledger)
    assert said.code in (2, 3)
    assert "Petrova" not in said.out + said.err
    assert "biopsy" not in said.out + said.err
    if name == "log.csv" and command[0] != "policy":
        assert "log.csv is a log, and the policy comes first, then the log" in said.err
        assert len(said.err.strip().splitlines()) <= 2


def test_a_release_in_the_place_of_its_log_is_told(cloakwork, tmp_path):
    """With the order as it should be."""
    log = log_file(tmp_path)
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "statement.json").write_text("{}", "utf-8")
    for command in (("risk",), ("audit", "utility")):
        said = cloakwork(*command, tmp_path / "made", log)
        assert said.code == 2
        assert f"then the release: cloakwork {' '.join(command)} LOG DIR" in said.err


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


RISK = ("--quiet", "--json", "--targets", "10")


@pytest.fixture
def small(tmp_path):
    """Some cases of a shipped log, with an attribute whose name is hostile."""
    kept = read_log(HOSPITAL).keep_cases(pl.Series(range(12)).to_numpy())
    values = pl.Series("case:<script>alert(1)</script>", ["a", "b"] * 6)
    path = tmp_path / "small.xes"
    write_log(type(kept)(kept.events, kept.cases.with_columns(values), kept.offsets), path, "xes")
    return path


def policy_like(name: str, file: Path, *changes: tuple[str, str]) -> Path:
    """A shipped policy with other words in it."""
    text = (ROOT / "policies" / f"{name}.yaml").read_text("utf-8")
    for before, after in changes:
        text = text.replace(before, after)
    file.write_text(text, "utf-8")
    return file


def test_one_screen_and_a_page(cloakwork, small, tmp_path):
    """Before and after; what is internal says so first; names of the log are escaped."""
    page = tmp_path / "risk.html"
    said = cloakwork("risk", small, small, "--quiet", "--html", page)
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert len(lines) <= 25
    assert lines[0].startswith("Internal, of the raw log: never publish these figures")
    assert any(line.startswith("its sequence, and the time of every event") for line in lines)
    text = page.read_text("utf-8")
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "<svg" in text
    again = cloakwork("risk", small, "--quiet", "--html", page)
    assert again.code == 1
    assert again.err == f"{page}: exists already, and nothing is overwritten; name a new file\n"


def test_a_release_is_read_with_its_plan(cloakwork, small, tmp_path, ledger):
    """A folder and the packed file: what the plan says of noise is known, so nothing is estimated
    of it, and both have the same figures. The document is that of the contract:
    ``attacks[].{name, knows, before, after: {share, low, high}}``, shares from 0 to 1.
    """
    folder, packed = tmp_path / "release", tmp_path / "release.zip"
    changes = (("k: 10", "k: 3"), ("kanon/*", "kanon/pretsa"))
    policy = policy_like("kanon-dp-timestamps", tmp_path / "policy.yaml", *changes)
    assert cloakwork("apply", policy, small, "--out", folder, "--ledger", ledger).code == 0
    assert cloakwork("pack", folder, "--out", packed).code == 0
    said = [cloakwork("risk", small, each, *RISK) for each in (folder, packed)]
    assert said[0].out == said[1].out
    document = json.loads(said[0].out)
    RiskReport.model_validate(document)
    assert not any("estimated" in note for note in document["notes"])
    names = [attack["name"] for attack in document["attacks"]]
    assert len(names) == len(set(names))
    for attack in document["attacks"]:
        assert {"name", "knows", "before", "after"} <= attack.keys()
        for share in filter(None, (attack["before"], attack["after"])):
            assert 0 <= share["low"] <= share["share"] <= share["high"] <= 1, attack
    log_alone = cloakwork("risk", small, folder / "log.xes.gz", *RISK).out
    assert any("estimated" in note for note in json.loads(log_alone)["notes"])
    # The document of the release goes into its report; that of a log file is refused.
    right, wrong = tmp_path / "right.json", tmp_path / "wrong.json"
    right.write_text(said[0].out, "utf-8")
    wrong.write_text(log_alone, "utf-8")
    asked = ("report", folder, "--audience", "internal", "--format", "dpia", "--risk")
    assert "| 3 of its activities |" in cloakwork(*asked, right).out
    refused = cloakwork(*asked, wrong)
    assert (refused.code, refused.out, refused.err.count("\n")) == (1, "", 1)
    assert "does not say which release was attacked" in refused.err


def test_the_original_is_read_as_its_policy_says(cloakwork, tmp_path, ledger):
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
    ledger = ("--ledger", ledger)
    assert cloakwork("apply", policy, table, "--out", folder, *ledger).code == 0
    by_plan = cloakwork("risk", table, folder, *RISK)
    assert (by_plan.code, by_plan.err) == (0, "")
    left = cloakwork("audit", "utility", table, folder, "--quiet")
    assert (left.code, left.err) == (0, "")
    of_logs = cloakwork("audit", "utility", table, HOSPITAL, "--quiet")
    assert of_logs.code == 1 and "--column" in of_logs.err
    assert "--policy" not in of_logs.err  # there is no such option
    assert json.loads(by_plan.out)["cases"] == json.loads(by_plan.out)["released_cases"] == 12

    alone = cloakwork("risk", table, "--quiet")
    assert alone.code == 1
    assert alone.err.startswith(f"{table}:")
    assert "--policy POLICY" in alone.err
    assert alone.err.count("\n") == 1
    named = cloakwork("risk", table, *RISK, "--policy", policy)
    assert json.loads(named.out)["cases"] == 12
    beside = cloakwork("risk", table, table, *RISK[1:], "--policy", policy)
    assert "looking for cases of the log in the release: 0 of 10\n" in beside.err
    assert json.loads(beside.out)["released_cases"] == 12
    assert cloakwork("registry", "add", policy, "--reason", "first", *ledger).code == 0
    version = cloakwork("risk", table, *RISK, "--policy", "clinic@1.0.0", *ledger)
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
    said = cloakwork("risk", book, *RISK, "--policy", policy)
    assert json.loads(said.out)["cases"] == 12


def test_errors_of_risk_are_one_line(cloakwork, small, tmp_path):
    missing, empty = tmp_path / "none.xes", tmp_path / "empty"
    empty.mkdir()
    for asked, words in (
        ([missing], f"{missing}: there is no such file or folder\n"),
        ([small, missing], f"{missing}: there is no such file or folder\n"),
        ([small, empty], f"{empty}: the folder holds no log; "),
        ([small, "--membership", "20"], "risk: an attack on membership makes releases anew"),
    ):
        said = cloakwork("risk", *asked, "--quiet")
        assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
        assert said.err.startswith(words)
    assert cloakwork("risk", small, "--other", small).code == 2


def test_membership_by_the_plan_of_a_policy(cloakwork, small, tmp_path):
    """On the page, as a table, and on the screen, beside the claim."""
    page = tmp_path / "m.html"
    changes = ("variants/*", "variants/threshold")
    policy = policy_like("dp-control-flow", tmp_path / "p.yaml", changes)
    asked = ("risk", small, "--policy", policy, "--targets", "10", "--membership", "20")
    said = cloakwork(*asked, "--html", page)
    assert said.code == 0
    assert "Membership by 10 releases of variants/threshold" in said.out
    assert "attacking membership" in said.err
    assert "Is the case in the log?" in page.read_text("utf-8")


def test_another_log_than_the_release_was_made_from_is_named_so(cloakwork, tmp_path, ledger):
    """It was told to be saved as UTF-8, or compared in silence; figures have their units."""
    policy = hurried(ROOT / "policies" / "kanon-control-flow.yaml", tmp_path, seconds=0.1)
    log, out = small_log(tmp_path), tmp_path / "out"
    assert cloakwork("apply", policy, log, "--out", out, "--ledger", ledger).code == 0
    log.write_text(log.read_text("utf-8").replace(",a,", ",x,").replace(",b,", ",y,"), "utf-8")
    said = " ".join(cloakwork("audit", "utility", log, out, "--quiet").out.split())
    assert "the source has none of the release's activities" in said
    assert "Cases released 60 (cases)" in said and "Fake variants 1 (variants, 0 is best)" in said
    log.write_bytes(log.read_text("utf-8").replace(",x,", ",ä,").encode("cp1252"))
    said = cloakwork("audit", "utility", log, out, "--quiet").err
    assert f"read as the policy of {out} says); name the log that it was made from" in said
    assert "save it as" not in said
