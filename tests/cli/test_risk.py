"""``cloakwork risk`` as a user types it."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from cloakwork.log.io import read_log, write_log
from cloakwork.report.risk_figures import RiskReport
from conftest import EXAMPLES, Said

Command = Callable[..., Said]
LINES = 25


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Some cases of a shipped log, with an attribute whose name is hostile."""
    log = read_log(EXAMPLES / "hospital.xes.gz")
    kept = log.keep_cases(pl.Series(range(40)).to_numpy())
    values = pl.Series("case:<script>alert(1)</script>", ["a", "b"] * 20)
    path = tmp_path / "small.xes"
    write_log(type(kept)(kept.events, kept.cases.with_columns(values), kept.offsets), path, "xes")
    return path


def test_one_screen_a_document_and_a_page(cloakwork: Command, small: Path, tmp_path: Path) -> None:
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


def test_the_document_is_that_of_the_contract(cloakwork: Command, small: Path) -> None:
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


def test_a_release_is_read_with_its_plan(cloakwork: Command, small: Path, tmp_path: Path) -> None:
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


def test_errors_are_one_line(cloakwork: Command, small: Path, tmp_path: Path) -> None:
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
