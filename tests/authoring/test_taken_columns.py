"""What a proposal says of the columns that it took, and what its author may say in their place."""

import json
from datetime import datetime
from pathlib import Path

import polars as pl
import pytest

from cloakwork.authoring import explore
from cloakwork.authoring.advice import lint_input
from cloakwork.authoring.suggestion import read_unknown, told_by_options
from cloakwork.errors import LogError
from cloakwork.log.formats import InputOptions, read_log
from cloakwork.plan.policies import load_policy
from log.formats.test_excel import workbook

HEADER = "Fallnummer;Patientenname;Geburtsdatum;Zeitpunkt;{activity};Hauptdiagnose"
STEPS = ("aufgenommen", "untersucht", "entlassen")


def table(path: Path, activity: str = "Maßnahme") -> Path:
    """Forty cases of twenty patients."""
    lines = [
        f"F{case};Ito, Anna {case // 2};{13 + case % 9}.12.195{case % 10};"
        f"{10 + case % 18}.03.2024 0{place}:15;{step};D{case % 2}"
        for case in range(40)
        for place, step in enumerate(STEPS)
    ]
    path.write_text("\n".join([HEADER.format(activity=activity), *lines, ""]), "utf-8")
    return path


def test_the_columns_stand_first(cloakwork, tmp_path):
    """On the screen, in the document, in the file and in Python."""
    log, out = table(tmp_path / "log.csv"), tmp_path / "p.yaml"
    taken = {"case": "Fallnummer", "activity": "Maßnahme", "timestamp": "Zeitpunkt"}
    said = cloakwork("policy", "suggest", "--quick", log, "--out", out)
    first = said.out.replace("\n  ", " ").splitlines()[1]
    assert said.code == 0 and all(f"'{name}'" in first for name in taken.values()), said.err
    assert "# when an event happened, from the column 'Zeitpunkt'" in out.read_text("utf-8")
    document = cloakwork("policy", "suggest", "--quick", log, "--out", out, "--force", "--json")
    assert json.loads(document.out)["columns"] == taken
    found = explore(log)
    assert found.taken == taken and "Maßnahme" in found._repr_html_()
    assert len(repr(found)) < 200 and "40 cases" in repr(found)
    nature = {each.name: each.nature for each in found.proposals}
    assert nature["case:Hauptdiagnose"] == "sensitive"


def test_what_is_said_is_no_longer_open(tmp_path):
    """And the rest is still detected."""
    log = table(tmp_path / "log.csv", "Was geschah")
    _, detected = read_unknown(log, {"activity": "Was geschah"}, {"time_zone": "Europe/Berlin"})
    assert detected.questions == () and detected.options.time_format == "%d.%m.%Y %H:%M"
    _, other = read_unknown(log, {"timestamp": "Geburtsdatum", "activity": "Was geschah"})
    assert other.options.time_format == "%d.%m.%Y"


def test_a_remedy_is_one_that_the_author_has(tmp_path):
    """No policy is there yet, and a column of names is no activity."""
    path = tmp_path / "log.csv"
    path.write_text("Fall;Patientenname;Zeit\n1;Ito;2024-01-01\n1;Roy;2024-01-02\n", "utf-8")
    with pytest.raises(
        LogError, match="hold the activity; say it, as --column activity="
    ) as caught:
        read_unknown(path)
    assert "=Patientenname" not in str(caught.value) and "spec.input" not in str(caught.value)
    with pytest.raises(LogError, match="--input") as refused:
        read_unknown(table(path), said={"time_format": "%d.%m.%Y"})
    assert "spec.input" not in str(refused.value)
    path.write_bytes(table(path).read_text("utf-8").encode("cp1252"))
    with pytest.raises(LogError, match=r"say --input encoding=cp1252$"), told_by_options():
        read_log(path)


def test_lint_goes_by_the_column_of_the_policy(cloakwork, tmp_path):
    """Whichever it is, its own times decide; one that reads it draws no advice."""
    log, out = table(tmp_path / "log.csv"), tmp_path / "p.yaml"
    for column in ("Zeitpunkt", "Geburtsdatum"):
        said = ("--column", f"timestamp={column}", "--force", "--quiet")
        assert cloakwork("policy", "suggest", "--quick", log, "--out", out, *said).code == 0
        assert lint_input(load_policy(out), log) == ()
        assert "purpose-not-stated" in cloakwork("policy", "lint", out).out
    text = out.read_text("utf-8").replace('"Geburtsdatum"', '"Zeitpunkt"', 1)
    out.write_text(text, "utf-8")
    (advice,) = lint_input(load_policy(out), log)
    assert advice.message == "is '%d.%m.%Y', and this log seems to need '%d.%m.%Y %H:%M'"


def test_a_person_is_the_unit(cloakwork, tmp_path):
    """As an option, and the policy plans."""
    log, out = table(tmp_path / "log.csv"), tmp_path / "p.yaml"
    said = cloakwork(
        "policy", "suggest", "--quick", log, "--out", out, "--unit", "Patientenname", "--quiet"
    )
    assert said.code == 0, said.err
    unit = load_policy(out).spec.unit
    assert (unit.attribute, unit.max_cases) == ("case:Patientenname", 5)
    plan = cloakwork("plan", out, log, "--no-preview")
    assert plan.code == 0 and "different units" in plan.out.replace("\n                ", " ")
    assert "metadata.purpose is not stated" in plan.out
    wrong = cloakwork(
        "policy", "suggest", "--quick", log, "--out", out, "--force", "--unit", "case:age"
    )
    assert wrong.code == 1 and "have no attribute 'case:age'" in wrong.err


def test_a_log_in_memory_keeps_how_it_was_read(tmp_path):
    """So that its policy reads the file."""
    log = table(tmp_path / "log.csv")
    options = read_unknown(log)[1].options
    found = explore(read_log(log, options=options), options=options).suggest(purpose="a study")
    assert found.detected.options == options and 'timestamp: "Zeitpunkt"' in found.text
    read = explore(log, options=InputOptions(time_zone="Europe/Berlin"))
    assert read.suggest().detected.options.time_zone == "Europe/Berlin"


@pytest.mark.parametrize("suffix", ["csv", "parquet", "xlsx"])
def test_what_times_without_a_zone_mean_is_asked_of_every_table(cloakwork, tmp_path, suffix):
    """Of CSV alone it was; that few cases keep little of drawn times was said after trials."""
    rows = {"case": list(range(40)), "activity": ["a"] * 40, "time": [datetime(2024, 1, 1)] * 40}
    log, table = tmp_path / f"log.{suffix}", pl.DataFrame(rows)
    if suffix == "csv":
        table.write_csv(log)
    elif suffix == "parquet":
        table.with_columns(pl.col("time").cast(pl.Datetime("ms"))).write_parquet(log)
    else:
        workbook(log, Log=[[*rows], *map(list, table.rows())])
    said = cloakwork("policy", "suggest", "--quick", log, "--out", tmp_path / "p.yaml")
    words = " ".join(said.out.split())
    assert said.code == 0 and words.count("times name no zone") == 1, said.err
    assert "of fewer than 100 cases drawn times keep little: --times none" in words
