"""What once ended in an internal error, in a panic on the terminal or in a puzzling line: damaged
ledgers, forged profiles, halves of characters, marks that nobody sees, times with a fixed offset.
"""

import json
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, redirect_stderr
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
import yaml

from cloakwork.cli import main
from cloakwork.errors import LogError
from cloakwork.ledger.ledger import Ledger
from cloakwork.log import variants
from cloakwork.log.formats import read_log
from cloakwork.log.variants import EditDistances
from counterexamples.small import small_log, small_policy
from ledger.test_ledger import reserve, unit
from log.formats.object_logs import write_json

ROWS = [(f"c{case}", label) for case in range(30) for label in "ab"]
HEADER = "case:concept:name,concept:name,time:timestamp\n"
CSV = HEADER + "".join(f"{case},{label},2024-01-01T00:00:00Z\n" for case, label in ROWS)


@contextmanager
def all_that_is_printed() -> Iterator[Callable[[], str]]:
    """What Python and libraries in other languages print on standard error."""
    kept = os.dup(2)
    with tempfile.TemporaryFile("w+") as file:
        os.dup2(file.fileno(), 2)
        try:
            with redirect_stderr(file):
                yield lambda: (file.flush(), file.seek(0), file.read())[2]
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def said_by(*words: object) -> tuple[int, str]:
    """The exit code of a command, and all that it prints on standard error."""
    with all_that_is_printed() as printed:
        code = main([str(word) for word in words])
        return code, printed()


def one_line(*words: object) -> str:
    """What a command that fails says."""
    code, said = said_by(*words)
    assert (code, said.count("\n")) == (1, 1), said
    assert "internal error" not in said
    return said


# --- ledgers


@pytest.mark.parametrize("value", [None, "", 5, b"\xff\x00"])
@pytest.mark.parametrize("command", ["show", "verify", "history"])
def test_a_damaged_layout_is_told(ledger, value, command):
    """Whatever stands in the place of its number."""
    reserve(Ledger(ledger, notice=lambda _: None), unit(0.1))
    with closing(sqlite3.connect(ledger.removeprefix("sqlite:///"))) as database, database:
        database.execute("DROP TABLE cloakwork_ledger_version")
        database.execute("CREATE TABLE cloakwork_ledger_version (version_num)")
        database.execute("INSERT INTO cloakwork_ledger_version VALUES (?)", [value])
    assert "has the layout" in one_line("ledger", command, "--ledger", ledger)


def test_a_field_that_is_gone_is_an_altered_entry(ledger):
    """Pages that were overwritten with others hold fields of any type."""
    book = Ledger(ledger, notice=lambda _: None)
    reserve(book, unit(0.1))
    with closing(sqlite3.connect(ledger.removeprefix("sqlite:///"))) as database, database:
        database.execute("PRAGMA writable_schema=ON")
        database.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '')")
    with closing(sqlite3.connect(ledger.removeprefix("sqlite:///"))) as database, database:
        database.execute("UPDATE cloakwork_ledger SET dataset = NULL, at = x'ff'")
    assert str(book.verify()) == "entry 1: was altered"
    for command in (("dataset", "list"), ("ledger", "show"), ("registry", "list")):
        code, said = said_by(*command, "--ledger", ledger)
        assert "internal error" not in said, (code, said)


def test_a_damaged_name_in_the_schema_is_told(ledger):
    """Text of a ledger that is no UTF-8."""
    reserve(Ledger(ledger, notice=lambda _: None), unit(0.1))
    file = Path(ledger.removeprefix("sqlite:///"))
    content = file.read_bytes()
    assert b"cloakwork_windows" in content
    file.write_bytes(content.replace(b"cloakwork_windows", b"cloakwork_wi\xff\xfe\xeds"))
    for command in (("ledger", "show"), ("ledger", "verify"), ("dataset", "list")):
        code, said = said_by(*command, "--ledger", ledger)
        assert code == 0 or said.count("\n") == 1, said
        assert "internal error" not in said


@pytest.mark.parametrize("address", ["::::", " ", "...", "sqlite:/// ", "--"])
def test_an_address_that_names_no_file_begins_no_ledger(tmp_path, monkeypatch, address):
    """Such a ledger nobody finds again."""
    monkeypatch.chdir(tmp_path)
    said = one_line("ledger", "show", f"--ledger={address}")
    assert "names no file" in said
    monkeypatch.setenv("CLOAKWORK_LEDGER", address)
    assert "names no file" in one_line("ledger", "show")
    assert list(tmp_path.iterdir()) == []


def test_a_public_key_that_is_no_text_is_told(tmp_path):
    """It is no PEM."""
    key = tmp_path / "key.pem"
    key.write_bytes(b"\xff\xfe\x00")
    (tmp_path / "release").mkdir()
    assert "is not a public key" in one_line("keys", "trust", key, "--name", "ann")


# --- profiles


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A policy that buys a profile, and one."""
    folder = tmp_path_factory.mktemp("profile")
    document = yaml.safe_load(small_policy(folder).read_text("utf-8"))
    document["spec"]["profile"] = {"epsilon": 0.1}
    policy, out = folder / "policy.yaml", folder / "profile.json"
    policy.write_text(yaml.safe_dump(document), "utf-8")
    ledger = f"--ledger={folder / 'ledger.db'}"
    assert main(["profile", str(policy), str(small_log(folder)), "--out", str(out), ledger]) == 0
    return policy, json.loads(out.read_text("utf-8"))


@pytest.mark.parametrize(
    ("part", "name", "value", "code"),
    [
        ("params", "delta", 1.0, 1),
        ("params", "count_scale", 1e308, 1),
        ("figures", "lengths", {"0.5": 0, "0.95": 0}, 1),
        ("figures", "lengths", {"0.95": -1}, 1),
        ("figures", "lengths", {"0.95": 10**18}, 0),
        ("figures", "top", {}, 0),
        ("figures", "cases", 10**18, 3),
        ("figures", "cases", -(10**18), 0),
    ],
)
def test_a_forged_profile_ends_in_a_line_or_in_a_plan(profiled, tmp_path, part, name, value, code):
    """And soon."""
    policy, profile = profiled
    forged = tmp_path / "forged.json"
    forged.write_text(json.dumps(profile | {part: profile[part] | {name: value}}), "utf-8")
    log, ledger = policy.parent / "c-log.csv", policy.parent / "ledger.db"
    words = ("plan", policy, log, "--profile", forged, "--ledger", ledger, "--no-preview")
    found, said = said_by(*words, "--quiet")
    assert found == code, said
    assert said.count("\n") == (code != 0), said
    assert "internal error" not in said


# --- logs


@pytest.mark.parametrize(
    "place",
    [("events", 0, "id"), ("events", 0, "type"), ("events", 0, "time"), ("objects", 0, "id")],
)
@pytest.mark.parametrize("spelt", ["a\ud800", "raw"])
def test_half_of_a_character_is_no_text(tmp_path, place, spelt):
    """JSON can spell it, and its bytes can be written."""
    file = write_json(tmp_path / "log.json")
    document = json.loads(file.read_text("utf-8"))
    document[place[0]][place[1]][place[2]] = "a\ud800"
    text = json.dumps(document, ensure_ascii=spelt != "raw")
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(LogError, match="is no readable JSON") as refused:
        read_log(file)
    assert "\n" not in str(refused.value)


def test_other_characters_that_are_spelt_out_are_read(tmp_path):
    """Two halves are one character."""
    file = write_json(tmp_path / "log.json")
    text = file.read_text("utf-8")
    document = json.loads(text)
    document["events"][0]["type"] = "\U0001f600"
    file.write_text(json.dumps(document), "utf-8")
    assert "\\ud83d" in file.read_text("utf-8")
    with pytest.raises(LogError, match="which one becomes the case"):
        read_log(file)


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        (b"\xef\xbb\xbf\xef\xbb\xbf" + CSV.encode(), "utf-8"),
        (CSV.encode("utf-16-le"), "utf-16-le"),
        (CSV.encode("utf-16-be"), "utf-16-be"),
        (CSV.replace("concept:name,time", "concept\0:name,time").encode(), "utf-8"),
    ],
)
def test_what_is_not_seen_in_a_header_is_told(tmp_path, content, encoding):
    """Rather than that columns are missing which are there for all that one sees."""
    file = tmp_path / "log.csv"
    file.write_bytes(content)
    with pytest.raises(LogError, match="byte-order mark or a NUL") as refused:
        read_log(file)
    assert str(refused.value).endswith(f"it looks like encoding: {encoding}")


@pytest.mark.parametrize(
    "content", ["\ufeff\ufeff<log/>", '<log><string key="a" value="\0"/></log>']
)
def test_xml_says_what_it_cannot_hold(tmp_path, content):
    """A NUL, and a second mark."""
    file = tmp_path / "log.xes"
    file.write_text(content, "utf-8")
    with pytest.raises(LogError, match=r"holds no NUL .* one byte-order mark at most"):
        read_log(file)


def test_ids_that_read_alike_are_told(cloakwork, tmp_path):
    """By a note on the log: a person spelt two ways pays twice. A blank inside is seen."""
    file, person = (
        tmp_path / "log.csv",
        ("Jos\u00e9", "Jose\u0301", "Jos\u00e9\u200b", "Jos \u00e9"),
    )
    file.write_text(
        HEADER + "".join(f"{name}{n},a,2024-01-01T00:00:00Z\n" for n in range(9) for name in person)
    )
    plain = tmp_path / "plain.csv"
    plain.write_text(CSV)
    said = "18 values of 'case:concept:name' differ from others only in Unicode form"
    assert any(note.startswith(said) for note in read_log(file).notes)
    assert not read_log(plain).notes


def test_lint_and_suggest_tell_of_them(cloakwork, tmp_path):
    """In a line that names the column."""
    file = tmp_path / "log.csv"
    names = [f"{name}{number}" for number in range(9) for name in ("\u00e9", "e\u0301")]
    file.write_text(HEADER + "".join(f"{name},a,2024-01-01T00:00:00Z\n" for name in names))
    linted = cloakwork("policy", "lint", small_policy(tmp_path), file)
    assert "9 values of 'case:concept:name'" in linted.out and "[names-read-alike]" in linted.out
    suggested = cloakwork("policy", "suggest", file, "--out", tmp_path / "new.yaml")
    assert "9 values of 'case:concept:name'" in suggested.out + suggested.err


@pytest.mark.parametrize("zone", ["+05:30", "-03:00"])
def test_times_with_a_fixed_offset_are_read_in_silence(tmp_path, zone):
    """As pandas and Arrow write them: polars once printed a panic while the format was told."""
    file = tmp_path / "log.parquet"
    times = pa.array([datetime(2024, 1, 1)] * len(ROWS), pa.timestamp("us", tz=zone))
    cases, labels = zip(*ROWS, strict=True)
    columns = {"case:concept:name": cases, "concept:name": labels, "time:timestamp": times}
    pa.parquet.write_table(pa.table(columns), file)
    code, said = said_by("policy", "lint", small_policy(tmp_path), file)
    assert (code, said) == (0, "")
    moment = read_log(file).events["time:timestamp"][0]
    assert moment.isoformat() == "2024-01-01T00:00:00+00:00"


def test_a_damaged_table_prints_no_panic(tmp_path):
    """Wherever a byte is wrong."""
    good, file = tmp_path / "good.parquet", tmp_path / "log.parquet"
    cases, labels = zip(*ROWS, strict=True)
    columns = {"case:concept:name": cases, "concept:name": labels}
    pl.DataFrame(columns | {"time:timestamp": [datetime(2024, 1, 1)] * len(ROWS)}).write_parquet(
        good
    )
    content, policy, refused = good.read_bytes(), small_policy(tmp_path), 0
    for place in range(4, len(content), len(content) // 25):
        damaged = bytearray(content)
        damaged[place] ^= 0xFF
        file.write_bytes(damaged)
        code, said = said_by("policy", "lint", policy, file)
        assert "panicked" not in said and "internal error" not in said, (place, said)
        assert code == 0 or said.count("\n") == 1, (place, said)
        refused += code != 0
    assert refused


def test_a_very_long_case_is_not_compared_with_itself(monkeypatch):
    """Which takes half a minute for a million events, and hears no signal."""
    monkeypatch.setattr(variants, "MOST_EVENTS", 4)
    texts, rows = ("abcdef", "abc", "acf", "abcdef"), np.arange(4)
    long = EditDistances(texts)
    asked = []
    real = EditDistances.pairs

    def pairs(self, sources, targets):
        asked.extend(zip(sources.tolist(), targets.tolist(), strict=True))
        return real(self, sources, targets)

    monkeypatch.setattr(EditDistances, "pairs", pairs)
    found = long.between(rows, rows)
    assert all(source != target for source, target in asked) and len(asked) == 12
    monkeypatch.setattr(variants, "MOST_EVENTS", 100)
    assert found.tolist() == EditDistances(texts).between(rows, rows).tolist()


def test_an_object_centric_log_in_xml_is_not_read_as_an_empty_one(tmp_path):
    """Its root is called as that of XES, and it holds no trace: whatever its name, nothing is read
    before somebody says which objects are cases.
    """
    text = (
        '<?xml version="1.0"?>\n<log>\n<object-types><object-type name="order"/></object-types>\n'
        '<events><event id="e" type="pay" time="2024-01-01T00:00:00Z"/></events>\n</log>\n'
    )
    for name, said in (
        (
            "orders.xml",
            r"orders\.xml: this is an object-centric log; its object types are order; say",
        ),
        ("orders.xes", r"orders\.xes:3: this is an object-centric log, and no XES"),
    ):
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(LogError, match=said):
            read_log(path)
