"""Logs that no policy describes, from the first command to a release."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cloakwork.authoring.suggestion import read_unknown
from cloakwork.errors import LogError

HEADER = "Schadennummer;Schritt;Zeitpunkt;Versicherungsnehmer;Sachbearbeiter;Betrag"


def table(path: Path, time_format: str, days: int = 28) -> Path:
    """Sixty cases of three steps, in Latin-1, with decimal commas."""
    start = datetime(2024, 1, 1, tzinfo=UTC)
    lines = [
        f"S{case};{step};"
        f"{(start + timedelta(days=case % days, hours=place)).strftime(time_format)};"
        f"V{case // 2};Jörg Größer;{case % 7},50"
        for case in range(60)
        for place, step in enumerate(("gemeldet", "geprüft", "bezahlt"))
    ]
    path.write_bytes("\n".join([HEADER, *lines, ""]).encode("latin-1"))
    return path


def test_three_commands_to_a_release(cloakwork, tmp_path):
    """Without an edit and without a failed one."""
    log, policy = table(tmp_path / "log.csv", "%d.%m.%Y %H:%M"), tmp_path / "policy.yaml"
    said = cloakwork("policy", "suggest", "--quick", log, "--out", policy)
    assert said.code == 0, said.err
    text = policy.read_text("utf-8")
    assert 'case: "Schadennummer"' in text and 'time_format: "%d.%m.%Y %H:%M"' in text
    assert 'unit: {attribute: "case:Versicherungsnehmer", max_cases: 5}' in text
    assert "Größer" not in text and "gemeldet" not in text
    assert cloakwork("plan", policy, log, "--no-preview").code == 0
    applied = cloakwork("apply", policy, log, "--out", tmp_path / "release")
    assert applied.code == 0, applied.err


def test_a_person_of_a_table_becomes_the_unit(cloakwork, tmp_path):
    """As the comment beside ``unit`` says."""
    log, policy = table(tmp_path / "log.csv", "%d.%m.%Y %H:%M"), tmp_path / "policy.yaml"
    assert cloakwork("policy", "suggest", "--quick", log, "--out", policy).code == 0
    text = policy.read_text("utf-8")
    name = "case:Versicherungsnehmer"
    assert f'      "{name}": "Versicherungsnehmer"\n' in text
    text = re.sub(r"(?m)^  unit: case.*$", "", text).replace("  # unit:", "  unit:")
    policy.write_text(text, "utf-8")
    said = cloakwork("plan", policy, log, "--no-preview")
    assert said.code == 0 and name in said.out, said.err


def test_a_column_that_is_one_of_cases_is_read_as_one(cloakwork, tmp_path):
    """One value on every row of each case, to the last row of the file; as an assumption."""
    rows = [
        f"{case},{step},2024-01-0{1 + step} 08:00:00,{case % 3},{case % 4 if step else 9},x"
        for case in range(40)
        for step in range(3)
    ]
    changed = [*rows[:-1], rows[-1].replace(",0,", ",7,")]
    assert rows[-1] != changed[-1]
    found = []
    for number, lines in enumerate((rows, changed)):
        log, policy = tmp_path / f"{number}.csv", tmp_path / f"{number}.yaml"
        log.write_text("\n".join(("case,activity,timestamp,region,ward,source", *lines)), "utf-8")
        said = cloakwork("policy", "suggest", "--quick", log, "--out", policy)
        assert said.code == 0, said.err
        assert cloakwork("plan", policy, log).code == 0
        text = policy.read_text("utf-8")
        found.append('"case:region": "region"' in text)
        assert ("and which are of cases" in text) == ('"case:region"' in text)
        # What differs within a case, and what is the same throughout the log, stay of events.
        assert '"ward": {role' in text and '"source": {role' in text
    assert found == [True, False]


def test_an_attribute_that_tells_the_path_is_found_by_its_values(cloakwork, tmp_path):
    """Whatever it is called; a value that two paths share tells none."""
    paths = ["ab", "abc", "acb", "ac"]
    rows = [
        f"{case},{step},2024-01-0{1 + number} 08:00:00,{case % 8},{case % 3},{case % 8 // 3}"
        for case in range(48)
        for number, step in enumerate(paths[case % 4])
    ]
    log, policy = tmp_path / "log.csv", tmp_path / "p.yaml"
    log.write_text("\n".join(("case,activity,timestamp,kind,colour,size", *rows)), "utf-8")
    assert cloakwork("policy", "suggest", "--quick", log, "--out", policy).code == 0
    told = [line for line in policy.read_text("utf-8").splitlines() if "whole activity" in line]
    assert len(told) == 1 and '"case:kind": {role: identifier' in told[0]
    text = policy.read_text("utf-8")
    for name in ("kind", "colour", "size"):
        rule = f'    "case:{name}": {{role: sensitive, treatment: keep}}'
        text = re.sub(rf'(?m)^    "case:{name}": .*$', rule, text)
    policy.write_text(text, "utf-8")
    said = " ".join(cloakwork("policy", "lint", policy, log).out.split())
    assert said.count("is released and covered by no guarantee, and in this log") == 1
    assert "'case:kind' is released" in said and "stands for the whole activity" in said


def test_a_date_of_two_meanings_is_a_question(cloakwork, tmp_path):
    """Looked at all the same; the author says which number is the day."""
    log = table(tmp_path / "log.csv", "%d/%m/%Y %H:%M", days=12)
    policy = tmp_path / "policy.yaml"
    said = cloakwork("policy", "suggest", "--quick", log, "--out", policy)
    assert said.code == 0 and "a question" in said.out
    refused = cloakwork("policy", "validate", policy)
    assert refused.code == 3 and refused.err.count("still to be filled in") == 1
    text = policy.read_text("utf-8")
    policy.write_text(re.sub('time_format: "<.*>"', 'time_format: "%d/%m/%Y %H:%M"', text), "utf-8")
    assert cloakwork("policy", "lint", policy, log).code == 0
    given = ("--input", "time_format=%d/%m/%Y %H:%M", "--force", "--out", policy)
    assert "a question" not in cloakwork("policy", "suggest", "--quick", log, *given).out
    wrong = cloakwork("policy", "suggest", "--quick", log, *given[2:], "--input", "form=x")
    assert wrong.code == 2 and "the names are format, delimiter" in wrong.err


def test_what_is_said_wrongly_is_one_line(tmp_path):
    """With the key that it is about."""
    log = table(tmp_path / "log.csv", "%d.%m.%Y %H:%M")
    with pytest.raises(LogError, match="encoding") as caught:
        read_unknown(log, said={"encoding": "martian"})
    assert "\n" not in str(caught.value)
    with pytest.raises(LogError, match="person"):
        read_unknown(log, {"person": "Schritt"})
