"""``cloakwork compare`` as people type it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cloakwork.evaluation.comparison_model import (
    AttackBound,
    ComparedSetting,
    Comparison,
    FigureSpread,
    SettingFigures,
)
from cloakwork.evaluation.sweeping import MOST_SETTINGS
from cloakwork.report.comparison import MOST_LINES, print_comparison
from conftest import Said

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
def test_the_first_screen_has_at_most_25_lines(
    width: int, count: int, refused: int, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_what_a_terminal_would_obey_is_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_a_sweep_on_a_table_prints_a_row_a_setting_and_writes_a_page(
    cloakwork: Command, tmp_path: Path, ledger: str
) -> None:
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


def test_json_is_one_document(cloakwork: Command, tmp_path: Path, ledger: str) -> None:
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
    arguments: tuple[str, ...],
    code: int,
    says: str,
    cloakwork: Command,
    tmp_path: Path,
    ledger: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
