"""Publishing: whole or not at all, and nothing of the raw log outside the internal folder."""

import gzip
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cloakwork.api import publish
from cloakwork.base.files import lock_folder
from cloakwork.errors import OutputError
from cloakwork.plan.model import Plan
from cloakwork.publishing import publish as publishing
from cloakwork.publishing import verify as verifying
from cloakwork.publishing.examine import verify
from cloakwork.publishing.keys import SigningKey
from cloakwork.publishing.publish import Published, check_destination
from cloakwork.report.model import INTERNAL_BANNER, InternalReport
from conftest import runs
from forked import forking_server
from publishing.conftest import RAW_FIGURES, RAW_NAME, a_plan, a_policy, a_release

EVERY_FORMAT = ("xes", "xes.gz", "csv", "csv.gz", "parquet")
PREFIX = f".cloakwork-draft-{socket.gethostname()}-"


def test_a_release_is_a_folder_of_public_files_and_an_internal_folder(published: Path) -> None:
    files = sorted(
        str(path.relative_to(published)) for path in published.rglob("*") if path.is_file()
    )
    internal = ["internal/README.txt", "internal/report.html", "internal/report.json"]
    assert files == [*internal, "log.xes", "plan.json", "statement.json"]
    assert [path.name for path in published.parent.iterdir()] == ["release"]


def test_the_internal_folder_is_for_its_owner_alone(published: Path) -> None:
    assert stat.S_IMODE((published / "internal").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (published / "internal").iterdir()} == {
        0o600
    }


def test_internal_files_say_so_first(published: Path) -> None:
    internal = published / "internal"
    assert (internal / "README.txt").read_text().splitlines()[0] == INTERNAL_BANNER
    assert next(iter(InternalReport.model_fields)) == "warning"
    assert (
        f'"warning": "{INTERNAL_BANNER}"' in (internal / "report.json").read_text().splitlines()[1]
    )
    page = (internal / "report.html").read_text()
    assert (
        page.partition("<body>")[2]
        .strip()
        .startswith(f'<header class="banner">{INTERNAL_BANNER}</header>')
    )


def test_the_internal_report_holds_the_figures(published: Path) -> None:
    report = InternalReport.model_validate_json(
        (published / "internal" / "report.json").read_bytes()
    )
    assert report.source["cases"] == RAW_FIGURES[0]
    assert report.steps[0].figures["mean distance"] == RAW_FIGURES[2]


@pytest.mark.parametrize("format_", EVERY_FORMAT)
def test_nothing_of_the_raw_log_stands_outside_the_internal_folder(
    publish_as: Callable[..., Published], format_: str
) -> None:
    folder = publish_as(format_=format_).folder
    words = [RAW_NAME, "ward7", *(str(number).removesuffix(".5") for number in RAW_FIGURES)]
    for path in folder.iterdir():
        if path.is_file():
            assert [word for word in words if word.encode() in readable(path)] == []


def readable(path: Path) -> bytes:
    """What a public file says, unpacked; of the statement what is signed, as a key's random digits
    may be any figure.
    """
    from cloakwork.publishing.keys import read_envelope

    content = path.read_bytes()
    if path.name == "statement.json":
        return read_envelope(content).content()
    return content + (gzip.decompress(content) if path.suffix == ".gz" else b"")


def test_the_plan_reads_back_as_it_was(published: Path) -> None:
    assert Plan.model_validate_json((published / "plan.json").read_bytes()) == a_plan()


def test_it_tells_what_was_published(tmp_path: Path, key: SigningKey) -> None:
    done = publish(a_release("csv"), tmp_path / "out", signing_key=key)
    assert (done.log, done.keyid) == (tmp_path / "out" / "log.csv", key.keyid)
    assert done.statement.stamp == "none"
    assert done.new_public_key == key.public_pem


def test_a_key_may_be_named_by_its_file(tmp_path: Path, key: SigningKey) -> None:
    assert publish(a_release(), tmp_path / "out", signing_key=key.origin).keyid == key.keyid


@pytest.mark.parametrize("report", [[], ["html"], ["json"]])
def test_the_policy_chooses_the_formats_of_the_internal_report(
    tmp_path: Path, key: SigningKey, report: list[str]
) -> None:
    policy = a_policy(output={"format": "xes", "report": report})
    folder = publish(
        a_release(plan=a_plan(policy=policy)), tmp_path / "out", signing_key=key
    ).folder
    found = {path.name for path in (folder / "internal").iterdir()} if report else set()
    assert (folder / "internal").exists() == bool(report)
    assert found == ({f"report.{name}" for name in report} | {"README.txt"} if report else set())


def test_an_empty_folder_becomes_the_release(tmp_path: Path, key: SigningKey) -> None:
    (tmp_path / "out").mkdir()
    assert verify(publish(a_release(), tmp_path / "out", signing_key=key).folder).keyid == key.keyid


def test_missing_parents_are_made(tmp_path: Path, key: SigningKey) -> None:
    assert (publish(a_release(), tmp_path / "a" / "b", signing_key=key).folder / "log.xes").exists()


def test_a_full_folder_is_left_as_it_is(published: Path, key: SigningKey) -> None:
    before = {path: path.stat().st_mtime_ns for path in published.rglob("*")}
    with pytest.raises(OutputError, match="is not empty"):
        publish(a_release(), published, signing_key=key)
    assert {path: path.stat().st_mtime_ns for path in published.rglob("*")} == before


def test_files_and_broken_links_are_no_destination(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name, said in (
        ("file", "is a file"),
        ("link", "leads nowhere"),
        ("file/below", "not a folder"),
    ):
        with pytest.raises(OutputError, match=said):
            check_destination(tmp_path / name)


def test_the_current_folder_cannot_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OutputError, match="inside it"):
        check_destination(Path())


def test_a_parent_that_may_not_be_written_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("cloakwork.base.files.lock_folder", refuse)  # root may write everywhere

    with pytest.raises(OutputError, match="nothing can be written"):
        check_destination(tmp_path / "out")


@pytest.mark.parametrize(
    "fault", [OSError(28, "No space left on device"), KeyboardInterrupt(), RuntimeError("bug")]
)
@pytest.mark.parametrize("place", ["seal", "_sync_to_disk", "_write_internal"])
def test_whatever_fails_nothing_is_left(
    tmp_path: Path,
    key: SigningKey,
    monkeypatch: pytest.MonkeyPatch,
    fault: BaseException,
    place: str,
) -> None:
    def fail(*_: Any) -> None:
        raise fault

    monkeypatch.setattr(publishing, place, fail)

    with pytest.raises(OutputError if isinstance(fault, OSError) else type(fault)) as failed:
        publish(a_release(), tmp_path / "out", signing_key=key)

    assert list(tmp_path.iterdir()) == []
    if isinstance(fault, OSError):
        assert str(failed.value).endswith(
            "the release cannot be written (No space left on device); nothing is left"
        )


def test_a_disk_that_fills_while_the_log_is_written_is_one_line(
    tmp_path: Path, key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_log: object, path: Path, *_: object, **__: object) -> None:
        raise OutputError(f"{path}: cannot be written (No space left on device)")

    monkeypatch.setattr(publishing, "write_log", full)

    with pytest.raises(OutputError) as failed:
        publish(a_release(), tmp_path / "out", signing_key=key)

    assert str(failed.value).startswith(f"{tmp_path / 'out'}: ")
    assert "draft" not in str(failed.value) and "No space left" in str(failed.value)


def test_leftovers_of_dead_processes_go_and_others_stay(tmp_path: Path, key: SigningKey) -> None:
    living = lock_folder(tmp_path, ".cloakwork-draft")
    # A process id proves nothing: it may be in use again by another process.
    gone = tmp_path / f"{PREFIX}{os.getpid()}-ab"
    kept = [
        tmp_path / f".cloakwork-draft-otherhost-{os.getpid()}-ef",
        tmp_path / f"{PREFIX}strange",
    ]
    for folder in (gone, *kept):
        folder.mkdir()
    for folder in (gone, living.path, *kept):
        (folder / "report.json").write_text("figures")

    publish(a_release(), tmp_path / "out", signing_key=key)

    assert not gone.exists()
    assert all(folder.exists() for folder in (living.path, *kept))
    living.release()


AT_ONCE = min(8, runs(4))


def _publish_into(out: str, own_home: str) -> str:
    os.environ["CLOAKWORK_HOME"] = own_home
    verifying.prove = lambda plan: plan.claims  # in a process of its own; the plan is made by hand
    try:
        return publish(a_release(), Path(out)).keyid
    except OutputError as error:
        return str(error)


def test_of_many_processes_one_wins(tmp_path: Path) -> None:
    out, own_home = tmp_path / "out", os.environ["CLOAKWORK_HOME"]
    with forking_server().Pool(AT_ONCE) as pool:
        answers = pool.starmap(_publish_into, [(str(out), own_home)] * AT_ONCE, chunksize=1)
    assert sum(len(answer) == 64 for answer in answers) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert verify_with_proof_aside(out)


def verify_with_proof_aside(folder: Path) -> bool:
    return bool(verify(folder).checks)


def test_public_files_follow_the_umask(tmp_path: Path, key: SigningKey) -> None:
    before = os.umask(0o027)
    try:
        folder = publish(a_release(), tmp_path / "out", signing_key=key).folder
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o750
    assert stat.S_IMODE((folder / "plan.json").stat().st_mode) == 0o640
