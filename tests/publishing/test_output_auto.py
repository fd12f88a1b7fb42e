"""``output.format: auto``: a log goes out as it came in, and its file says no more than that."""

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import polars as pl
import pytest

import cloakwork.pm4py
from cloakwork.api import load_policy, make_plan, pack, release, risk, verify
from cloakwork.base.errors import LogError, PlanMoved
from cloakwork.ledger.ledger import Ledger
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats import read_log, write_log
from cloakwork.policy.model import LogForm
from cloakwork.publishing import publish
from cloakwork.publishing.publish import Published
from cloakwork.run.reading import in_form_of

HOSTILE = ("=cmd|' /c calc'!A1", "^x$", "*", 'say "no"', "two\nlines", "semi;colon", " blank ")
HEADER = ("Fall", "Schritt", "Zeit", 'Kunde "A"', "secret column", *HOSTILE)
POLICY = """
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: own, version: 1.0.0, owner: dpo@clinic.example, purpose: trials, dataset: own}
spec:
  input: {columns: {case: Fall, "case:customer": 'Kunde "A"', "case:hidden": secret column}}
  attributes:
    "case:concept:name": {role: identifier}
    Schritt: {role: control-flow}
    Zeit: {role: timestamp, treatment: TIMES}
    "case:customer": {treatment: keep}
    "case:hidden": {treatment: drop}
    "*": {treatment: keep}
  guarantees: [{kind: k-anonymity, k: 2, over: [control-flow]}]
  expose: {EXPOSED"case:customer": shown on purpose, "*": shown on purpose}
  output: {format: auto}
"""
PLAIN = """
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: own, version: 1.0.0, owner: dpo@clinic.example, purpose: trials, dataset: own}
spec:
  attributes:
    "concept:name": {role: control-flow}
    "time:timestamp": {role: timestamp, treatment: keep}
    "*": {treatment: drop}
  guarantees: [{kind: k-anonymity, k: 2, over: [control-flow]}]
  expose: {timestamps: shown on purpose}
  output: {format: auto}
"""


def policy_file(folder: Path, times: str = "keep", text: str = POLICY) -> Path:
    """A policy under which the log goes out as it came; ``times``: what becomes of them."""
    exposed = "timestamps: shown on purpose, " if times == "keep" else ""
    file = folder / "policy.yaml"
    file.write_text(text.replace("TIMES", times).replace("EXPOSED", exposed))
    return file


def own_log(folder: Path, delimiter: str = ";", name: str = "own.csv", cases: int = 12) -> Path:
    """Three events a case, under names that are not ours."""
    file = folder / name
    opened: Any = gzip.open if name.endswith(".gz") else open
    with opened(file, "wt", newline="", encoding="utf-8") as out:
        rows = csv.writer(out, delimiter=delimiter)
        rows.writerow(HEADER)
        for case in range(cases):
            for place, step in enumerate(("Prüfung", "Zahlung", "Ende")):
                time = f"2024-03-{case + 1:02}T1{place}:00:00Z"
                of_events = [f"{case}-{place}-{number}" for number in range(len(HOSTILE))]
                rows.writerow([case, step, time, f"k{case % 2}", "raw word", *of_events])
    return file


def released(policy: Path, log: object, folder: Path) -> Published:
    """A release with a ledger of its own, verified."""
    book = Ledger(str(folder / "ledger.db"), notice=lambda _: None)
    made = release(policy, log, folder / "out", ledger=book)
    assert verify(made.folder).checks
    return made


def rows_of(file: Path, delimiter: str) -> list[dict[str, str]]:
    """As somebody without Cloakwork reads it."""
    content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    lines = content.decode().splitlines(keepends=True)
    return list(csv.DictReader(lines, delimiter=delimiter))


@pytest.mark.parametrize(
    ("delimiter", "name"), [(";", "own.csv"), ("\t", "own.csv"), (",", "own.csv.gz")]
)
def test_csv_goes_out_with_its_columns_and_delimiter(
    tmp_path: Path, delimiter: str, name: str
) -> None:
    """Each value stands in its own column, whatever that is called."""
    log = own_log(tmp_path, delimiter, name)
    made = released(policy_file(tmp_path), log, tmp_path)
    assert made.log.name == f"log.{name.removeprefix('own.')}"
    source, out = rows_of(log, delimiter), rows_of(made.log, delimiter)
    assert out[0].keys() == set(HEADER) - {"secret column"}
    kept = ["Schritt", 'Kunde "A"', *HOSTILE]

    def without_ids(rows: list[dict[str, str]]) -> list[tuple[str, ...]]:
        return sorted(tuple(row[column] for column in kept) for row in rows)

    assert without_ids(out) == without_ids(source)
    assert {row["Fall"] for row in out}.isdisjoint(row["Fall"] for row in source)


def test_what_reads_a_release_reads_this_one(tmp_path: Path) -> None:
    log = own_log(tmp_path)
    made = released(policy_file(tmp_path), log, tmp_path)
    packed = tmp_path / "packed.zip"
    pack(made.folder, packed)
    assert verify(packed).checks
    found = risk(log, made.folder, targets=5)
    assert {each.name for each in found.attacks if each.after is not None}
    frame = cloakwork.pm4py.read(made.log)
    assert {"case:concept:name", "concept:name", "time:timestamp", *HOSTILE} < set(frame.columns)
    assert len(frame) == 36
    (says,) = frame.attrs["privacy"]["guarantees"]
    assert "at least 2 released cases" in says


def test_a_sidecar_that_says_nothing_of_columns_is_refused_by_name(tmp_path: Path) -> None:
    made = released(policy_file(tmp_path), own_log(tmp_path), tmp_path)
    for content in ("{}", '{"cloakwork:columns": {}, "dialect": {"delimiter": "ab"}}', "[", "[]"):
        (made.folder / "csv-metadata.json").write_text(content)
        with pytest.raises(LogError, match=r"csv-metadata\.json"):
            cloakwork.pm4py.read(made.log)


def test_nothing_public_names_a_column_that_is_not_released(tmp_path: Path) -> None:
    """Neither do the bytes beside the log tell of its rows."""
    made = released(policy_file(tmp_path, "drop"), own_log(tmp_path), tmp_path)
    public = {each.name: each.read_bytes() for each in made.folder.iterdir() if each.is_file()}
    assert public.keys() == {"log.csv", "plan.json", "statement.json", "csv-metadata.json"}
    beside = json.loads(public["csv-metadata.json"])
    assert beside["dialect"] == {"delimiter": ";"}
    assert beside["cloakwork:columns"] == {
        "case:concept:name": "Fall",
        "concept:name": "Schritt",
        "case:customer": 'Kunde "A"',
    }
    for name, content in public.items():
        assert b"raw word" not in content, name
    # The policy names the hidden column, and so does the plan, which holds the policy.
    assert b"secret column" not in public["log.csv"] + public["csv-metadata.json"]
    assert "secret column" not in str(made.release.plan.form)
    assert rows_of(made.log, ";")[0].keys().isdisjoint({"Zeit", "time:timestamp"})


def test_the_form_does_not_depend_on_the_rows(tmp_path: Path) -> None:
    """One header: whoever is in the log, it goes out alike, also where nobody is."""
    plan = make_plan(load_policy(policy_file(tmp_path)))
    forms = [
        in_form_of(plan, own_log(tmp_path, name=f"{cases}.csv", cases=cases), None).form
        for cases in (0, 1, 12)
    ]
    assert forms[0] == forms[1] == forms[2] is not None


def in_memory(folder: Path) -> EventLog:
    columns = {"case": "Fall", "activity": "Schritt", "timestamp": "Zeit"}
    return read_log(own_log(folder), columns=columns)


@pytest.mark.parametrize("name", ["log.xes", "log.xes.gz", "log.parquet", "log.csv"])
def test_other_formats_go_out_as_they_came(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    family: Any = name.split(".")[1]
    write_log(in_memory(tmp_path), file, family)
    made = released(policy_file(tmp_path, text=PLAIN), file, tmp_path)
    assert made.log.name == name
    assert made.statement.stamp == ("sidecar" if family == "csv" else family)
    assert cloakwork.pm4py.read(made.log).attrs["privacy"]["guarantees"]


def as_table(folder: Path) -> object:
    table = pl.read_csv(own_log(folder), separator=";", infer_schema=False)
    return table.with_columns(pl.col("Zeit").str.to_datetime(time_zone="UTC"))


@pytest.mark.parametrize("given", [in_memory, as_table])
def test_what_is_no_file_of_ours_goes_out_as_by_default(
    tmp_path: Path, given: Callable[[Path], object]
) -> None:
    log = given(tmp_path)
    policy = policy_file(tmp_path, text=PLAIN if given is in_memory else POLICY)
    assert released(policy, log, tmp_path).log.name == "log.xes.gz"


@pytest.mark.parametrize("named", ["", "*.csv"])
def test_a_folder_and_a_pattern_go_out_as_their_files_came(tmp_path: Path, named: str) -> None:
    folder = tmp_path / "months"
    folder.mkdir()
    own_log(folder, name="1.csv")
    made = released(policy_file(tmp_path), folder / named, tmp_path)
    assert made.log.name == "log.csv"
    assert "Schritt" in rows_of(made.log, ";")[0]


def test_parts_have_their_columns_too(tmp_path: Path) -> None:
    def bounds(cases: int, events: int) -> list[int]:
        return [*range(0, cases, 5), cases]

    with patch.object(publish, "part_bounds", bounds):
        made = released(policy_file(tmp_path), own_log(tmp_path), tmp_path)
    assert [each.name for each in sorted(made.log.iterdir())] == [
        f"part-0000{number}.csv" for number in (1, 2, 3)
    ]
    assert len(cloakwork.pm4py.read(made.log)) == 36
    for part in made.log.iterdir():
        assert "Schritt" in rows_of(part, ";")[0]


def test_a_plan_says_how_the_log_is_written_and_is_held_to_it(tmp_path: Path) -> None:
    """A plan for one form is not applied to a log of another, and nothing is recorded."""
    policy = load_policy(policy_file(tmp_path))
    plan = in_form_of(make_plan(policy), own_log(tmp_path), None)
    assert plan.form is not None
    assert plan.form.format == "csv"
    assert type(plan).model_validate_json(plan.model_dump_json(by_alias=True)) == plan
    book = Ledger(str(tmp_path / "ledger.db"), notice=lambda _: None)
    commas = own_log(tmp_path, ",", "commas.csv")
    with pytest.raises(PlanMoved, match="another format, or with other columns"):
        release(plan, commas, tmp_path / "out", ledger=book)
    assert not (tmp_path / "out").exists()
    assert book.history() == ()


def test_other_policies_have_plans_as_before(tmp_path: Path) -> None:
    """No form, in words or bytes, and none counts that somebody put there."""
    policy = policy_file(tmp_path, text=PLAIN.replace("auto", "parquet"))
    plan = in_form_of(make_plan(load_policy(policy)), own_log(tmp_path), None)
    assert '"form"' not in plan.model_dump_json()
    assert plan.output == LogForm(format="parquet")
    forged = plan.model_copy(update={"form": LogForm(format="csv")})
    assert forged.output == LogForm(format="parquet")


def test_a_name_that_no_policy_could_hold_gives_way(tmp_path: Path) -> None:
    """Such a column goes out under the name of its attribute; every other keeps its own."""
    file = tmp_path / "long.csv"
    name = "case:" + "x" * 300
    file.write_text(f"Case ID,activity,time,{name}\n1,a,2024-01-01,v\n2,a,2024-01-01,v\n")
    text = PLAIN.replace(
        '"*": {treatment: drop}',
        '"case:concept:name": {role: identifier}\n    "case:*": {treatment: keep}\n'
        '    "*": {treatment: drop}',
    )
    text = text.replace("timestamps: shown on purpose", 'timestamps: shown, "case:*": shown')
    assert released(policy_file(tmp_path, text=text), file, tmp_path).log.name == "log.csv"
    file.write_text(file.read_text().replace(name, "CASE_" + "x" * 300))
    (tmp_path / "second").mkdir()
    made = released(policy_file(tmp_path, text=text), file, tmp_path / "second")
    assert rows_of(made.log, ",")[0].keys() == {"Case ID", "activity", "time", name}
