"""Releases of several parts: written, signed, verified, packed, and read as one log."""

import base64
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli.typed import typed
from cloakwork.api import publish
from cloakwork.base import progress
from cloakwork.errors import LogError, OutputError, VerificationFailed
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, EventLog
from cloakwork.log.formats import read_log, write_log
from cloakwork.publishing import folder as folder_of_release
from cloakwork.publishing import publish as writing
from cloakwork.publishing import verify as verifying
from cloakwork.publishing.examine import verify
from cloakwork.publishing.folder import names_of_log, part_name
from cloakwork.publishing.keys import SigningKey
from cloakwork.publishing.opened import opened_log
from cloakwork.publishing.publish import PartWriter, pack, write_parts
from cloakwork.publishing.reconcile import _read_statement
from cloakwork.report.render import render
from log_in_parts import LogInParts
from publishing.conftest import VARIANTS, MadeByHand, a_log, a_release, envelope_of, resign

EVERY_FORMAT = ("xes", "xes.gz", "csv", "csv.gz", "parquet")
MANY = VARIANTS * 15
"""90 cases: some for each of 60 parts."""
LONG = "CLOAKWORK_RUNS" in os.environ
OF_MANY = EVERY_FORMAT if LONG else ("xes.gz", "parquet")
"""Formats that are tried in many parts: more than ten, so that their names sort."""
NUMBER_OF_MANY = 60 if LONG else 12


@pytest.fixture(scope="module")
def four_parts_once(made_by_hand: MadeByHand, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release in four parts, of which the first two hold two cases each."""
    log = LogInParts.evenly(a_log(), 4)
    folder = tmp_path_factory.mktemp("four") / "release"
    _, home = made_by_hand("xes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLOAKWORK_HOME", str(home))
        patch.setattr(verifying, "prove", lambda plan: plan.claims)
        return publish(a_release("csv", log=log), folder).folder


@pytest.fixture
def four_parts(four_parts_once: Path, tmp_path: Path, key: SigningKey) -> Path:
    """The same for each test."""
    return Path(shutil.copytree(four_parts_once, tmp_path / "release"))


def mismatches(folder: Path) -> tuple[str, ...]:
    with pytest.raises(VerificationFailed) as failed:
        verify(folder)
    return failed.value.mismatches


def variants_by_case(log: EventLog) -> list[tuple[str, ...]]:
    """The activities of each case under its id, sorted: what does not depend on parts."""
    table = log.to_polars().group_by(CASE_ID).all().sort(CASE_ID)
    return [(name, *done) for name, done in table.select(CASE_ID, ACTIVITY).rows()]


@pytest.mark.parametrize(
    ("parts", "format_"),
    [(parts, each) for parts in (1, 4) for each in EVERY_FORMAT]
    + [(NUMBER_OF_MANY, each) for each in OF_MANY],
)
def test_a_release_in_parts_holds_what_one_file_would(
    tmp_path: Path, key: SigningKey, format_: str, parts: int
) -> None:
    log = a_log(MANY)
    handle = LogInParts.evenly(log, parts)

    published = publish(a_release(format_, log=handle), tmp_path / "out", signing_key=key)

    name = f"log.{format_}"
    files = [name] if parts == 1 else [part_name(format_, n) for n in range(1, parts + 1)]
    assert published.log == tmp_path / "out" / name
    assert {*_signed(published.folder)} == {*files, "plan.json"}
    assert all((published.folder / file).is_file() for file in files)
    checks = verify(published.folder).checks
    assert any("the smallest group holds 45 released cases" in check for check in checks)
    read = opened_log(published.folder).log
    assert variants_by_case(read) == variants_by_case(log)
    assert [note for note in read.notes if "left out" in note] == []


def _signed(folder: Path) -> dict[str, str]:
    statement = json.loads(base64.b64decode(envelope_of(folder)["payload"]))
    return {each["name"]: each["digest"]["sha256"] for each in statement["subject"]}


def test_batches_without_cases_become_no_parts(tmp_path: Path, key: SigningKey) -> None:
    parts = np.array([7, 7, 7, 3, 3, 3])
    log = LogInParts.of(a_log(), parts, 9)
    folder = publish(a_release("csv", log=log), tmp_path / "out", signing_key=key).folder
    names = [f"part-0000{number}.csv" for number in (1, 2)]
    assert sorted(path.name for path in (folder / "log.csv").iterdir()) == names
    assert verify(folder).checks


@pytest.mark.parametrize("format_", EVERY_FORMAT)
def test_an_empty_release_is_one_file_with_its_columns(
    tmp_path: Path, key: SigningKey, format_: str
) -> None:
    nothing = a_log().keep_cases(np.zeros(0, np.int64))
    published = publish(
        a_release(format_, log=LogInParts((nothing, nothing))), tmp_path / "out", signing_key=key
    )
    assert published.log.is_file()
    assert verify(published.folder).checks


def _remove(folder: Path) -> None:
    (folder / "log.csv" / "part-00003.csv").unlink()


def _remove_all(folder: Path) -> None:
    shutil.rmtree(folder / "log.csv")


def _add(folder: Path) -> None:
    parts = folder / "log.csv"
    shutil.copy(parts / "part-00004.csv", parts / "part-00005.csv")


def _add_hidden(folder: Path) -> None:
    (folder / "log.csv" / ".notes").write_text("raw")


def _add_folder(folder: Path) -> None:
    (folder / "log.csv" / "more").mkdir()


def _swap(folder: Path) -> None:
    parts = folder / "log.csv"
    (parts / "part-00001.csv").rename(parts / "kept")
    (parts / "part-00002.csv").rename(parts / "part-00001.csv")
    (parts / "kept").rename(parts / "part-00002.csv")


def _empty(folder: Path) -> None:
    (folder / "log.csv" / "part-00002.csv").write_text("")


def _link(folder: Path) -> None:
    part = folder / "log.csv" / "part-00002.csv"
    part.rename(folder.parent / "elsewhere.csv")
    part.symlink_to(folder.parent / "elsewhere.csv")


def _link_all(folder: Path) -> None:
    (folder / "log.csv").rename(folder.parent / "elsewhere")
    (folder / "log.csv").symlink_to(folder.parent / "elsewhere")


def _device(folder: Path) -> None:
    part = folder / "log.csv" / "part-00002.csv"
    part.unlink()
    os.mkfifo(part)


def _one_file(folder: Path) -> None:
    content = (folder / "log.csv" / "part-00001.csv").read_bytes()
    shutil.rmtree(folder / "log.csv")
    (folder / "log.csv").write_bytes(content)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_remove, "log.csv/part-00003.csv: is missing"),
        (_remove_all, "log.csv: is missing"),
        (_add, "'log.csv/part-00005.csv': does not belong to the release; remove it"),
        (_add_hidden, "'log.csv/.notes': does not belong to the release; remove it"),
        (_add_folder, "'log.csv/more': does not belong to the release; remove it"),
        (_swap, "log.csv/part-00001.csv: is not the file that was signed"),
        (_empty, "log.csv/part-00002.csv: is not the file that was signed"),
        (_link, "log.csv/part-00002.csv: is not a plain file"),
        (_link_all, "log.csv: is not a folder of parts"),
        (_device, "log.csv/part-00002.csv: is not a plain file"),
        (_one_file, "log.csv: is not a folder of parts"),
    ],
)
def test_whatever_becomes_of_a_part_is_found(
    four_parts: Path, change: Callable[[Path], None], said: str, tmp_path: Path
) -> None:
    change(four_parts)
    assert mismatches(four_parts)[0] == said
    with pytest.raises((VerificationFailed, OutputError)):
        pack(four_parts, tmp_path / "release.zip")
    assert not (tmp_path / "release.zip").exists()


def test_a_folder_that_holds_more_than_any_release_is_not_listed(
    four_parts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody may send a folder of millions of files: one line says so, and not one for each."""
    for number in range(20):
        (four_parts / "log.csv" / f"more-{number}").write_text("")
    monkeypatch.setattr(folder_of_release, "_MOST_ENTRIES", 10)
    (said,) = mismatches(four_parts)
    assert said == "'log.csv': holds more than 10 entries, and so is no release"
    monkeypatch.setattr(folder_of_release, "MOST_PARTS", 10)
    with pytest.raises(LogError, match="nor a folder of parts"):
        opened_log(four_parts)


@pytest.mark.parametrize(
    "name",
    [
        "log.csv/../log.csv",
        "log.csv/part-00001.csv/",
        "log.csv/part-1.csv",
        "log.csv/part-00009.csv",
        "log.csv/part-00001.xes",
        "log.xes/part-00001.csv",
        "../log.csv/part-00001.csv",
        "/log.csv/part-00001.csv",
        "log.csv",
        "log.csv/part-00002.csv",
    ],
)
def test_a_statement_signs_parts_by_their_own_names_alone(
    four_parts: Path, key: SigningKey, name: str
) -> None:
    def rename(statement: dict[str, Any]) -> None:
        statement["subject"][0]["name"] = name

    resign(four_parts, key, rename)

    said = mismatches(four_parts)[0]
    assert "must sign one log and plan.json" in said or "signs a file twice" in said


def test_a_case_in_two_parts_is_found_whoever_signed_it(four_parts: Path, key: SigningKey) -> None:
    """A part that stands there twice doubles every group of cases."""
    parts = four_parts / "log.csv"
    shutil.copy(parts / "part-00001.csv", parts / "part-00003.csv")
    resign(four_parts, key)
    said = "log.csv: a case id stands in part-00001.csv and part-00003.csv"
    assert said in mismatches(four_parts)


def test_parts_of_other_columns_are_no_log(four_parts: Path, key: SigningKey) -> None:
    part = four_parts / "log.csv" / "part-00002.csv"
    rows = part.read_text().splitlines()
    part.write_text("\n".join(f"{row},{'extra' if row is rows[0] else 1}" for row in rows) + "\n")
    resign(four_parts, key)
    assert any("its columns are not those of part-00001.csv" in s for s in mismatches(four_parts))


def test_a_column_more_in_each_part_is_found_whoever_signed_it(
    four_parts: Path, key: SigningKey
) -> None:
    for part in (four_parts / "log.csv").iterdir():
        head, *rows = part.read_text().splitlines()
        part.write_text("\n".join([f"{head},name", *(f"{row},Ann" for row in rows)]) + "\n")
    resign(four_parts, key)
    said = "log.csv: it holds 'name', and no rule of the plan releases 'name'"
    assert said in mismatches(four_parts)


def test_parts_in_another_order_are_another_release(four_parts: Path, key: SigningKey) -> None:
    """To whoever signs them it is one: the order of cases is random."""
    _swap(four_parts)
    assert "log.csv/part-00001.csv: is not the file that was signed" in mismatches(four_parts)
    resign(four_parts, key)
    assert verify(four_parts).checks


def test_too_small_a_group_is_found_across_parts(tmp_path: Path, key: SigningKey) -> None:
    log = LogInParts.evenly(a_log([*VARIANTS, ["leave"]]), 4)
    with pytest.raises(VerificationFailed, match="the smallest group holds 1 released cases"):
        publish(a_release("xes", log=log), tmp_path / "out", signing_key=key)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("format_", ["xes", "parquet"])
def test_each_part_has_the_stamp(tmp_path: Path, key: SigningKey, format_: str) -> None:
    log = LogInParts.evenly(a_log(), 3)
    folder = publish(a_release(format_, log=log), tmp_path / "out", signing_key=key).folder
    bare = folder / part_name(format_, 2)
    write_log(read_log(bare), bare, "xes" if format_ == "xes" else "parquet")
    resign(folder, key)
    without = f"{part_name(format_, 2)}: stamp: cloakwork:"
    assert any(said.startswith(without) for said in mismatches(folder))


def test_a_packed_release_has_its_parts(four_parts: Path, tmp_path: Path) -> None:
    packed, again = tmp_path / "release.zip", tmp_path / "again.zip"
    pack(four_parts, packed)
    pack(four_parts, again)
    assert packed.read_bytes() == again.read_bytes()
    assert verify(packed).checks == verify(four_parts).checks
    assert variants_by_case(opened_log(packed).log) == variants_by_case(a_log())


def test_a_report_names_the_parts_and_draws_all_of_them(four_parts: Path) -> None:
    page = str(render(four_parts, audience="public", format="html"))
    assert "log.csv (4 parts)" in page
    assert "SHA-256 of log.csv/part-00004.csv" in page


def test_the_ledger_compares_every_part(four_parts: Path) -> None:
    stated = _read_statement(four_parts)
    assert not isinstance(stated, str)
    assert stated.differences(four_parts) == ()
    _empty(four_parts)
    assert stated.differences(four_parts) == (
        "log.csv/part-00002.csv: is not the file that was signed",
    )


def test_a_task_that_runs_again_writes_the_same_file(tmp_path: Path) -> None:
    write = PartWriter(tmp_path, "xes.gz", ())
    first = write(4, a_log())
    content = write.place_of(4).read_bytes()
    assert write(4, a_log()) == first
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [content]


def test_what_an_attempt_left_behind_is_no_part(tmp_path: Path) -> None:
    class Interrupted(LogInParts):
        def results(self, task: Any) -> Any:
            task(1, a_log())
            (task.folder / "attempt-0.csv").write_text("half a fi")
            return super().results(task)

    digests = write_parts(Interrupted.evenly(a_log(), 2), tmp_path, "csv", ())

    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.relative_to(tmp_path).as_posix() for path in files} == digests.keys()


def test_more_parts_than_a_release_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "MOST_PARTS", 3)
    with pytest.raises(OutputError, match="4 parts are more than a release may have"):
        write_parts(LogInParts.evenly(a_log(), 4), tmp_path, "csv", ())


def test_names_of_several_logs_are_those_of_none() -> None:
    assert names_of_log(["log.csv", "log.xes"]) is None
    assert names_of_log(["log.csv", part_name("csv", 1), part_name("csv", 2)]) is None
    assert names_of_log([part_name("csv", 1)]) is None
    assert names_of_log([part_name("csv", 1), part_name("xes", 2)]) is None
    assert names_of_log([part_name("csv", 2), part_name("csv", 1)]) == (
        "log.csv/part-00001.csv",
        "log.csv/part-00002.csv",
    )


@pytest.mark.parametrize("change", [_remove, _add_hidden, _link])
def test_only_a_complete_folder_of_parts_is_opened(
    four_parts: Path, change: Callable[[Path], None]
) -> None:
    change(four_parts)
    with pytest.raises(LogError, match="neither a plain file nor a folder of parts"):
        opened_log(four_parts)


def test_a_packed_release_may_be_larger_than_two_gigabytes(
    four_parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python then writes sizes and places into records of their own, as here from 200 bytes on."""
    monkeypatch.setattr("zipfile.ZIP64_LIMIT", 200)
    pack(four_parts, tmp_path / "release.zip")
    assert verify(tmp_path / "release.zip").checks == verify(four_parts).checks


def test_verify_says_how_far_it_is(
    four_parts: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On standard error, where reading parts takes long; beside one JSON document nothing."""
    monkeypatch.setattr(progress, "SILENT_FOR", 0.0)
    code, _, said = typed(capsys, "verify", four_parts)
    assert code == 0
    assert said.splitlines() == [f"reading part {number} of 4" for number in range(1, 5)]
    assert typed(capsys, "verify", four_parts, "--json")[2] == ""
