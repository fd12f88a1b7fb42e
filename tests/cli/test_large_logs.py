"""Commands on a large log: a file, a folder and a pattern are one log to all of them, and what is
measured on a sample of its cases says so, on the screen and in JSON.
"""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cloakwork.evaluation import risk
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP
from cloakwork.log.formats import row_source
from cloakwork.run import reading
from conftest import EXAMPLES

KANON = "kanon-control-flow"
SAMPLE = "40 of about "
RARE = "Rare step"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One log in four files of Parquet, whose cases overlap, beside a file that is none."""
    from cloakwork.log.formats import read_log

    log = read_log(EXAMPLES / "hospital.xes.gz").slice_cases(0, 400)
    events = log.events.select(ACTIVITY, TIMESTAMP, "org:resource").with_columns(
        pl.Series(CASE_ID, log.cases[CASE_ID].gather(log.case_of))
    )
    # One activity that a sample of 40 of 400 cases hardly has: in one case.
    names = events[ACTIVITY].scatter([0], [RARE])
    events = events.with_columns(names).sort(TIMESTAMP, maintain_order=True)
    made = tmp_path_factory.mktemp("large") / "parts"
    made.mkdir()
    for number, first in enumerate(range(0, events.height, 1_000)):
        events[first : first + 1_000].write_parquet(made / f"part-{number}.parquet")
    events.write_parquet(made.parent / "log.parquet")
    return made


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than 500 events are a large log."""
    for module in (row_source, reading):
        monkeypatch.setattr(module, "WHOLE", 500)
    monkeypatch.setattr(row_source, "SAMPLED", 40)
    monkeypatch.setattr(row_source, "KEY", 11)


def ways(folder: Path) -> list[Path]:
    """The same log as a file, a folder, a pattern."""
    return [folder.parent / "log.parquet", folder, folder / "part-*.parquet"]


def alike(cloakwork: Any, folder: Path, *words: Any) -> dict[str, Any]:
    """What a command says of the log as JSON, which is the same whichever way it is named; LOG
    stands for it.
    """
    found = []
    for log in ways(folder):
        said = cloakwork(*(log if word == "LOG" else word for word in words))
        assert said.code == 0, said.err
        text = said.out
        # The longer name first: the pattern begins with the folder.
        for each in reversed(ways(folder)):
            text = text.replace(str(each), "LOG").replace(each.name, "LOG")
        found.append(json.loads(text))
    assert found[0] == found[1] == found[2]
    document: dict[str, Any] = found[0]
    return document


@pytest.mark.usefixtures("large")
def test_lint_says_so_and_leaves_out_what_takes_all_cases(cloakwork, folder, tmp_path):
    """An activity that only the other cases have is not said to be missing."""
    policy = tmp_path / "p.yaml"
    text = (Path(__file__).parents[2] / "policies" / f"{KANON}.yaml").read_text("utf-8")
    rules = f"  assume:\n    rules: {{starts_with: [{RARE}]}}\n  guarantees:"
    policy.write_text(text.replace("  guarantees:", rules, 1), "utf-8")
    found = alike(cloakwork, folder, "policy", "lint", policy, "LOG", "--json")["advice"]
    (sampled,) = [each for each in found if each["rule"] == "sampled-log"]
    assert SAMPLE in sampled["message"] and sampled["level"] == "note"
    assert "activity-not-in-log" not in {each["rule"] for each in found}
    assert SAMPLE in cloakwork("policy", "lint", policy, folder).out


def test_lint_of_a_log_that_is_whole_looks_for_activities(cloakwork, folder, tmp_path):
    policy = tmp_path / "p.yaml"
    text = (Path(__file__).parents[2] / "policies" / f"{KANON}.yaml").read_text("utf-8")
    rules = "  assume:\n    rules: {starts_with: [No step]}\n  guarantees:"
    policy.write_text(text.replace("  guarantees:", rules, 1), "utf-8")
    found = alike(cloakwork, folder, "policy", "lint", policy, "LOG", "--json")["advice"]
    rules_seen = {each["rule"] for each in found}
    assert "activity-not-in-log" in rules_seen and "sampled-log" not in rules_seen


@pytest.mark.usefixtures("large")
def test_suggest_says_what_it_looked_at(cloakwork, folder, tmp_path, ledger):
    asked = ("--dataset", "d", "--quick", "--force", "--ledger", ledger, "--quiet")
    out = tmp_path / "p.yaml"
    found = alike(cloakwork, folder, "policy", "suggest", "LOG", "--out", out, *asked, "--json")
    assert found["sample"].startswith(SAMPLE)
    said = cloakwork("policy", "suggest", folder, "--out", out, *asked)
    assert "measured on a random sample of" in " ".join(said.out.split())
    # Nothing of the log's size gets into the policy.
    assert "sample" not in out.read_text("utf-8")


@pytest.mark.usefixtures("large")
def test_compare_says_what_it_ran_on(cloakwork, folder, ledger):
    asked = (KANON, "LOG", "--sweep", "k=2,5", "--ledger", ledger, "--quiet")
    found = alike(cloakwork, folder, "compare", *asked, "--json")
    assert any(SAMPLE in line for line in found["notice"])
    said = cloakwork("compare", KANON, folder, "--ledger", ledger, "--quiet")
    assert SAMPLE in " ".join(said.out.split())


def release_of(cloakwork: Any, policy: str, folder: Path, tmp_path: Path, ledger: str) -> Path:
    out = tmp_path / "release"
    made = cloakwork("apply", policy, folder, "--out", out, "--ledger", ledger, "--quiet")
    assert made.code == 0, made.err
    return out


@pytest.mark.usefixtures("large")
def test_risk_links_no_sample_where_no_plan_says_how_times_were_moved(
    cloakwork, folder, ledger, tmp_path
):
    """Whom one finds in a part of a release says nothing of the whole: there is a note in place of
    a figure, and --whole has the figure.
    """
    asked = ("--targets", "20", "--quiet", "--json")
    alone = alike(cloakwork, folder, "risk", "LOG", *asked)
    assert alone["cases"] == 40 and SAMPLE in alone["notes"][0]
    assert "no more are found" in alone["notes"][0]
    out = release_of(cloakwork, KANON, folder, tmp_path, ledger)
    found = alike(cloakwork, folder, "risk", "LOG", out, "--employees", "org:resource", *asked)
    assert {each["after"] is None for each in found["attacks"]} == {True}
    assert found["released_cases"] is None and "employees" not in found
    assert "nothing is linked with release" in found["notes"][2] and "--whole" in found["notes"][2]
    assert "employees are not bounded" in found["notes"][3]
    whole = alike(cloakwork, folder, "risk", "LOG", out, "--whole", *asked)
    assert whole["cases"] == 400 and any(each["after"] for each in whole["attacks"])
    # A log that is small beside a release that is not is linked as little.
    small = folder / "part-0.parquet"
    few = tmp_path / "few.parquet"
    pl.read_parquet(small)[:300].write_parquet(few)
    document = json.loads(cloakwork("risk", few, out, *asked).out)
    assert {each["after"] is None for each in document["attacks"]} == {True}


@pytest.mark.usefixtures("large")
def test_risk_looks_for_a_sample_in_all_of_a_release(
    cloakwork, folder, ledger, tmp_path, monkeypatch
):
    """A file, a folder and a pattern; how many cases are looked for is said, and limited."""
    out = release_of(cloakwork, "kanon-dp-timestamps", folder, tmp_path, ledger)
    asked = ("--quiet", "--json", "--targets")
    found = alike(cloakwork, folder, "risk", "LOG", out, *asked, "20")
    assert (found["cases"], found["targets"]) == (40, 20)
    assert found["released_cases"] > 200
    said = "up to 100 cases of the sample are looked for in all of release"
    assert any(note.startswith(said) for note in found["notes"])
    after = {each["name"]: each["after"] for each in found["attacks"]}
    linked = {name for name, share in after.items() if name.startswith("linking/") and share}
    assert {"linking/sequence", "linking/sequence-times", "linking/start-day"} <= linked
    assert after["singling-out"] is after["linkability"] is None
    # The whole log has the same cases among others: what is found lies within its bounds.
    whole = json.loads(cloakwork("risk", folder, out, "--whole", *asked, "400").out)
    for each in whole["attacks"]:
        if each["name"] in linked and after[each["name"]]:
            share = after[each["name"]]
            assert share["low"] <= each["after"]["high"] and each["after"]["low"] <= share["high"]
    screen = cloakwork("risk", folder, out, "--quiet", "--targets", "20", "--all").out
    assert "40 cases, 20 at random looked for" in screen
    assert "of the sample are looked for in all of" in " ".join(screen.split())
    monkeypatch.setattr(risk, "MOST_IN_BATCHES", 5)
    few = json.loads(cloakwork("risk", folder, out, *asked, "20").out)
    assert few["targets"] == 5


def test_utility_counts_all_cases_in_batches(cloakwork, folder, ledger, tmp_path, monkeypatch):
    """Figures of variants are those of all cases, large or not."""
    out = tmp_path / "release"
    made = cloakwork("apply", KANON, folder, "--out", out, "--ledger", ledger, "--quiet")
    assert made.code == 0, made.err
    in_memory = alike(cloakwork, folder, "audit", "utility", "LOG", out, "--quiet", "--json")
    for module in (row_source, reading):
        monkeypatch.setattr(module, "WHOLE", 500)
    from cloakwork.engines import batched

    opened: list[object] = []
    original = batched.LocalEngine.open

    def noted(*arguments: Any) -> Any:
        opened.append(arguments[1])
        return original(*arguments)

    monkeypatch.setattr(batched.LocalEngine, "open", noted)
    in_batches = alike(cloakwork, folder, "audit", "utility", "LOG", out, "--quiet", "--json")
    assert in_batches == in_memory
    # The log each time; how many events a small file of text has, nobody looks beforehand.
    assert len(opened) == 3


def test_apply_takes_a_pattern(cloakwork, folder, ledger, tmp_path):
    """Only the files that fit are read."""
    asked = ("--ledger", ledger, "--quiet", "--json")
    said = cloakwork(
        "apply", KANON, folder / "part-[0]*.parquet", "--out", tmp_path / "none", *asked
    )
    # Brackets are no signs of a pattern, as they stand in many names.
    assert said.code == 1 and "no file in it is called part-[0]*.parquet" in said.out
    assert not (tmp_path / "none").exists()
    said = cloakwork("apply", KANON, folder / "part-?.parquet", "--out", tmp_path / "r", *asked)
    assert said.code == 0, said.out
    said = cloakwork("plan", KANON, folder / "no-*.parquet", *asked)
    assert said.code == 1 and "no file in it is called no-*.parquet" in said.out
