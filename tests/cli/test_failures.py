"""What people are told where something is missing, or ends halfway: in plain words, with the
remedy.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cloakwork import cli
from cloakwork.errors import LedgerError, LogError, MechanismError, OutputError
from cloakwork.ledger.ledger import Ledger
from cloakwork.log.formats import read_log
from cloakwork.publishing import publish
from conftest import ROOT, hurried
from counterexamples.small import small_log, small_policy

SPENT = "its cost stays spent (cloakwork ledger show)"
Told = Callable[..., tuple[int, str]]


@pytest.fixture
def told(tmp_path, monkeypatch, capsys):
    """Run a command with a home and a ledger of its own; the exit code, and the last line on
    standard error.
    """
    monkeypatch.setenv("CLOAKWORK_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CLOAKWORK_LEDGER", raising=False)

    def run(*arguments: object) -> tuple[int, str]:
        code = cli.main([str(argument) for argument in arguments])
        return code, capsys.readouterr().err.rstrip().rpartition("\n")[2]

    return run


def apply(told: Told, out: Path, *, is_charged: bool = True) -> tuple[int, str]:
    """A small log, under differential privacy or k-anonymity."""
    policy = small_policy(out.parent)
    if not is_charged:
        policy = hurried(ROOT / "policies" / "kanon-control-flow.yaml", out.parent, seconds=0.1)
    return told("apply", policy, small_log(out.parent), "--out", out, "--quiet")


def csv(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(text)
    return path


def test_a_missing_column_names_the_option(tmp_path):
    """Both ways to say which column it is; no standard column is proposed for another."""
    path = csv(tmp_path, "Fall,concept:name,time:timestamp\n1,a,2024-01-01\n")
    with pytest.raises(LogError) as caught:
        read_log(path)
    assert str(caught.value).endswith(
        "name the column that holds it: --column case=COLUMN "
        "(in Python: columns={'case:concept:name': 'COLUMN'})"
    )


def test_blanks_around_a_columns_name_are_visible_and_the_remedy_works(tmp_path):
    """What is proposed is what the file says, blank included."""
    path = csv(tmp_path, " Fall,concept:name,time:timestamp\n1,a,2024-01-01\n")
    with pytest.raises(LogError) as caught:
        read_log(path, columns={"case:concept:name": "Fall"})
    said = str(caught.value)
    assert (
        "there is no column 'Fall'; the columns are ' Fall', concept:name, time:timestamp;" in said
    )
    assert "did you mean ' Fall'? then --column 'case= Fall'" in said
    assert read_log(path, columns={"case:concept:name": " Fall"}).cases.height == 1


@pytest.mark.parametrize(
    "text", ["case|activity|time\n1|a|2\n", "sep=;\ncase;activity\n1;a\n", "sep=|\na|b\n"]
)
def test_an_unknown_separator_is_told(tmp_path, text):
    """Rather than that columns are missing."""
    with pytest.raises(
        LogError,
        match=r"log\.csv:1: the separator of the columns is not recognised; "
        r"(.* , or ; or tab|say delimiter: )",
    ):
        read_log(csv(tmp_path, text))


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("cloakwork.api.choice_for", "nothing was written"),
        ("cloakwork.publishing.publish._write_internal", f"nothing was written; {SPENT}"),
        (
            "cloakwork.publishing.publish._commit_entry",
            f"the release stands complete in its folder; {SPENT}",
        ),
    ],
)
def test_an_interruption_says_what_stays(told, tmp_path, monkeypatch, place, words):
    """Before the reservation nothing is spent; after it the cost stays spent; a release that stands
    is not called unwritten.
    """
    monkeypatch.setattr(place, interrupt)
    out = tmp_path / "out"
    assert apply(told, out) == (130, f"cloakwork: interrupted; {words}")
    assert out.exists() == ("stands" in words)
    assert told("ledger", "reconcile", tmp_path)[0] == 0


@pytest.mark.parametrize("is_charged", [True, False])
def test_a_failure_after_the_reservation_says_what_stays_spent(
    told, tmp_path, monkeypatch, is_charged
):
    """As for the loser of two runs that aim at one folder; not where no budget was asked for."""
    out = tmp_path / "out"
    write = publish.write_parts

    def overtaken(*arguments: object) -> dict[str, str]:
        out.mkdir()
        (out / "other").write_text("")
        return write(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(publish, "write_parts", overtaken)
    code, said = apply(told, out, is_charged=is_charged)
    assert code == 1
    assert said.startswith(f"{out}: ")
    assert said.endswith(f"; {SPENT}") == is_charged


def test_a_refusal_before_the_reservation_says_nothing_of_cost(told, tmp_path):
    """Nothing was reserved, so nothing is spent."""
    (tmp_path / "out").write_text("")
    code, said = apply(told, tmp_path / "out")
    assert code == 1
    assert SPENT not in said


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyboardInterrupt(), "interrupted"),
        (OutputError("full"), "the release could not be written"),
        (MechanismError("kanon/optimal", "no"), "a step refused the log"),
        (ZeroDivisionError(), "an internal error, ZeroDivisionError"),
    ],
)
def test_the_ledger_tells_failures_in_plain_words(
    told, tmp_path, monkeypatch, capsys, error, words
):
    """The entry keeps the kind of error; what is shown are words."""

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("cloakwork.run.run.Run.take_step", fail)
    apply(told, tmp_path / "out")
    capsys.readouterr()
    assert cli.main(["ledger", "show"]) == 0
    assert f"no release came of it ({words})" in " ".join(capsys.readouterr().out.split())
    assert Ledger().history()[0].failure == type(error).__name__


@pytest.mark.parametrize("address", ["postgresql://host/name", "postgresql+psycopg://host/name"])
def test_a_missing_driver_is_told_with_its_remedy(monkeypatch, address):
    """One line, and what to install."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(LedgerError) as caught:
        Ledger(address).history()
    assert str(caught.value).endswith(
        "needs the package psycopg, which cannot be loaded; pip install 'psycopg[binary]'"
    )
    assert "\n" not in str(caught.value)


def test_a_report_is_made_of_a_folder(told, tmp_path, capsys):
    """A packed release is to be unpacked; without its internal part there is no internal report."""
    out, packed = tmp_path / "out", tmp_path / "out.zip"
    assert apply(told, out)[0] == 0
    assert told("pack", out, "--out", packed)[0] == 0
    assert cli.main(["report", str(packed)]) == 2
    assert "unpack the file first" in capsys.readouterr().err
    for path in (out / "internal").iterdir():
        path.unlink()
    (out / "internal").rmdir()
    code, said = told("report", out, "--audience", "internal")
    assert code == 1
    assert "it stays with whoever made the release" in said
