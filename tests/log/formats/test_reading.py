"""Tables as people have them, read as their policy says; and what is said where it does not fit."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest

from cloakwork.errors import LogError
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats import InputOptions, detect_input, examine_input, read_log
from cloakwork.log.formats.options import InputFormat
from cloakwork.log.formats.reading import READERS
from cloakwork.log.formats.source import SUFFIXES, TABLES

MORNING, NOON = datetime(2024, 3, 13, 9, tzinfo=UTC), datetime(2024, 3, 14, 12, tzinfo=UTC)
FILES: dict[str, tuple[str, str]] = {
    "german.csv": (
        "latin-1",
        "Vorgangsnr;Schritt;Zeitpunkt;Betrag\r\n"
        "V1;Prüfung;13.03.2024 09:00;1.234,50\r\nV1;Abschluß;14.03.2024 12:00;7,25\r\n",
    ),
    "us.csv": (
        "ascii",
        'Claim ID,Activity,When,Amount\n1,Check,3/13/2024 9:00 AM,"1,234.50"\n'
        "1,Close,3/14/2024 12:00 PM,7.25\n",
    ),
    "epoch.csv": (
        "ascii",
        f"ticket\tevent\tts\n1\tCheck\t{MORNING.timestamp():.0f}000\n"
        f"1\tClose\t{NOON.timestamp():.0f}000\n",
    ),
    "bank.csv": (
        "utf-8-sig",
        'Transaction;Step;Booked at;Note\nT1;"Check";2024-03-13 09:00:00;"two\nlines; ""here"""\n'
        "T1;Close;2024-03-14 12:00:00;\n",
    ),
    "utf16.csv": (
        "utf-16",
        "Fall\tAktivität\tDatum\n1\tPrüfung\t13.03.24 09:00:00\n1\tAbschluß\t14.03.24 12:00:00\n",
    ),
    "pipes.csv": ("ascii", "case|activity|time\n1|Check|2024-03-13 09:00\n1|Close|2024-03-14T12\n"),
}


def written(folder: Path, name: str, text: str | None = None) -> Path:
    """One of ``FILES``, or this text in its encoding."""
    encoding, content = FILES[name]
    path = folder / name
    path.write_bytes((text or content).encode(encoding))
    return path


def refused(path: Path, **options: Any) -> str:
    """What is said of a file, without its path."""
    with pytest.raises(LogError) as refusal:
        read_log(path, options=InputOptions(**options))
    said = str(refusal.value)
    assert "\n" not in said
    return said.removeprefix(str(path))


@pytest.mark.parametrize("name", [name for name in FILES if name != "pipes.csv"])
def test_what_is_detected_reads_the_file(name: str, tmp_path: Path) -> None:
    """Five exports, none of which is read without options."""
    path = written(tmp_path, name)
    with pytest.raises(LogError):
        read_log(path)
    log = read_log(path, options=detect_input(path))
    assert log.events["time:timestamp"].to_list() == [MORNING, NOON]
    assert log.cases.height == 1


def test_letters_and_numbers_of_a_german_export(tmp_path: Path) -> None:
    """Each number by itself has a point then; it stays text where digits would be lost."""
    path = written(tmp_path, "german.csv")
    log = read_log(path, options=detect_input(path))
    assert log.events["concept:name"].to_list() == ["Prüfung", "Abschluß"]
    assert log.events["Betrag"].to_list() == ["1234.50", "7.25"]


def test_values_over_lines_have_their_lines(tmp_path: Path) -> None:
    """Of the fault, not of the row's number."""
    text = FILES["bank.csv"][1].replace("2024-03-14 12:00:00", "soon")
    path = written(tmp_path, "bank.csv", text)
    columns = {"case": "Transaction", "activity": "Step", "timestamp": "Booked at"}
    assert refused(path, columns=columns).startswith(":4: the timestamp 'soon' cannot be read;")


def test_an_ambiguous_day_is_never_chosen(tmp_path: Path) -> None:
    """Neither by the reader nor by who proposes."""
    text = FILES["german.csv"][1].replace("13.03.", "01.03.").replace("14.03.", "02.03.")
    path = written(tmp_path, "german.csv", text)
    found = examine_input(path)
    assert found.options.time_format is None
    both = "'%d.%m.%Y %H:%M' or '%m.%d.%Y %H:%M'"
    assert any("ambiguous" in said and both in said for said in found.questions)
    said = refused(path, columns=found.options.columns, encoding="latin-1")
    assert said.startswith(":2: the timestamp '01.03.2024 09:00' cannot be read; ")
    assert said.endswith(both)


def test_a_fault_in_a_large_table_is_said_at_once(tmp_path: Path) -> None:
    """Who looks for its options once read it again for each line, a line shorter each time."""
    path = tmp_path / "log.csv"
    rows = "1,a,2024-03-01\n" * 300_000
    path.write_text(f"case,activity,timestamp\n1,a\rb,2024-03-01\n{rows}")
    with pytest.raises(LogError, match=r":2: the table cannot be read \(a carriage return"):
        examine_input(path)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, ":2: the file is not in UTF-8; save it as UTF-8, or say encoding: cp1252"),
        ({"encoding": "utf-16"}, ":1: the file is not in utf-16; correct spec.input.encoding"),
        ({"encoding": "cp1252"}, ":1: there is no column for the case id"),
        ({"encoding": "cp1252", "delimiter": "|"}, ":1: there is no column for the case id"),
        ({"sheet": "x"}, ": the log is read as csv, and sheet under spec.input is not for that"),
        (
            {"encoding": "latin-1", "columns": {"case": "Vorgangsnr", "case:k": "Kunde"}},
            ":1: there is no column for the activity",
        ),
        (
            {
                "encoding": "latin-1",
                "time_format": "%m/%d/%Y",
                "columns": {"case": "Vorgangsnr", "activity": "Schritt", "timestamp": "Zeitpunkt"},
            },
            ":2: the timestamp '13.03.2024 09:00' cannot be read as %m/%d/%Y; "
            "say time_format: '%d.%m.%Y %H:%M' under spec.input",
        ),
    ],
)
def test_what_does_not_fit_is_said(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    """With the line, and what to do."""
    assert refused(written(tmp_path, "german.csv"), **options).startswith(said)


def test_a_column_of_persons_becomes_an_attribute_of_cases(tmp_path: Path) -> None:
    """Where a case names one of them, or none; another is refused with its line."""
    text = "case,activity,timestamp,who\n1,a,2024-03-01,P7\n1,b,2024-03-02,\n2,a,2024-03-03,P7\n"
    path = tmp_path / "log.csv"
    path.write_text(text)
    columns = {"case:person": "who"}
    log = read_log(path, columns=columns)
    assert log.cases["case:person"].to_list() == ["P7", "P7"]
    assert "who" not in log.columns
    path.write_text(text + "\n2,c,2024-03-04,P8\n")
    said = refused(path, columns=columns)
    assert said.startswith(":6: column 'who' names two values in one case")
    assert read_log(path, columns=columns, varying=["case:person"]).source.conflicts


def _same(one: EventLog, other: EventLog) -> bool:
    return one.events.equals(other.events) and one.cases.equals(other.cases)


def test_a_delimiter_and_short_names(tmp_path: Path) -> None:
    """``activity`` stands for ``concept:name``."""
    path = written(tmp_path, "pipes.csv", FILES["pipes.csv"][1].replace("T12", ""))
    log = read_log(path, options=InputOptions(delimiter="|"))
    columns = {"case": "case", "activity": "activity", "timestamp": "time"}
    assert _same(log, read_log(path, options=InputOptions(delimiter="|"), columns=columns))
    assert re.match(r":1: .*recognised; say delimiter: '\|'", refused(path))


def test_options_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    """XES names its attributes itself."""
    path = tmp_path / "log.xes"
    path.write_text("<log/>")
    said = refused(path, columns={"case": "x"})
    assert said.startswith(": the log is read as xes, and columns under spec.input is not for that")


def test_beside_a_decimal_comma_points_alone_are_text(tmp_path: Path) -> None:
    """``1.234`` is a code or a thousand: it merges with no other value, and is no number."""
    text = (
        "case;activity;time;code;amount\n"
        "1;a;2024-03-01;1.234;1.234,5\n1;b;2024-03-02;1234;-7,5\n1;c;2024-03-03;12.5;3,5\n"
    )
    path = tmp_path / "codes.csv"
    path.write_text(text)
    columns = {"case": "case", "activity": "activity", "timestamp": "time"}
    options = InputOptions(decimal=",", delimiter=";", columns=columns)
    log = read_log(path, options=options)
    assert log.events["code"].cast(str).to_list() == ["1.234", "1234", "12.5"]
    assert log.events["amount"].to_list() == [1234.5, -7.5, 3.5]


def test_every_format_has_a_reader_and_an_ending():
    """A format that a policy may name is read, and is known by what its files are called; an
    object-centric table by its first line.
    """
    named = set(get_args(InputFormat))
    assert set(READERS) == named == {*SUFFIXES.values(), "ocel-csv"}
    assert named > TABLES
