"""Folders for batches of a raw log: private, and gone when nobody needs them."""

import gc
import socket
import stat
from pathlib import Path

import pytest

from cloakwork.base import files
from cloakwork.base.files import Lock, lock_if_abandoned
from cloakwork.engines.partition import partition
from cloakwork.engines.workspace import Workspace, work_home, writing_to
from cloakwork.errors import OutputError
from cloakwork.log.formats.reading import open_rows
from conftest import EXAMPLES


def test_it_is_the_owners_alone(tmp_path: Path) -> None:
    """Nobody else may look into it."""
    made = Workspace(tmp_path)
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o700
    assert made.path.parent == tmp_path


def test_it_goes_with_its_object(tmp_path: Path) -> None:
    """Closed, or not needed by anybody; closing twice does nothing."""
    closed, forgotten = Workspace(tmp_path), Workspace(tmp_path)
    (closed.path / "1.batch").write_text("rows")
    closed.close()
    closed.close()
    assert list(tmp_path.iterdir()) == [forgotten.path]
    del forgotten
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_goes_at_the_next_start(tmp_path: Path) -> None:
    """No process locks it any more; that of a living process stays, and whatever is not ours."""
    living = Workspace(tmp_path)
    left = living.path.with_name(living.path.name[:-8] + "00000000")
    left.mkdir()
    (left / "1.batch").write_text("rows")
    longer_host = f"work-{socket.gethostname()}-2-1-00000000"
    others = ["work-another.host-1-00000000", "notes", longer_host]
    other = [tmp_path / name for name in others]
    for folder in other:
        folder.mkdir()
    link = living.path.with_name(living.path.name[:-8] + "11111111")
    link.symlink_to(other[1], target_is_directory=True)
    new = Workspace(tmp_path)
    assert not left.exists()
    assert all(path.exists() for path in (living.path, new.path, link, *other))


def test_a_folder_of_somebody_else_keeps_none_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot be opened; what was left goes all the same, whichever comes first."""
    own = Workspace(tmp_path)
    first = own.path
    left = [first.with_name(f"{first.name[:-8]}0000000{number}") for number in range(4)]
    for folder in left:
        folder.mkdir()
    really = lock_if_abandoned

    def lock(folder: Path) -> Lock | None:
        if folder == theirs:
            raise PermissionError(13, "Permission denied")
        return really(folder)

    theirs = next(folder for folder in tmp_path.iterdir() if folder in left)
    monkeypatch.setattr(files, "lock_if_abandoned", lock)
    assert files.remove_abandoned(tmp_path, "work") == 3
    assert theirs.exists()


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    """It says what to set."""
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="CLOAKWORK_WORK") as caught:
        Workspace(tmp_path / "file" / "work")
    assert "\n" not in str(caught.value)


def test_where_it_lies_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the environment; else in the user's data folder."""
    (tmp_path / "fast disk").mkdir()
    monkeypatch.setenv("CLOAKWORK_WORK", str(tmp_path / "fast disk"))
    assert work_home() == tmp_path / "fast disk"
    monkeypatch.delenv("CLOAKWORK_WORK")
    monkeypatch.setenv("CLOAKWORK_HOME", str(tmp_path))
    assert work_home() == tmp_path / "work"


def test_a_chosen_folder_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is not mounted, a misspelt name: no raw rows go there."""
    monkeypatch.setenv("CLOAKWORK_WORK", str(tmp_path / "no disk" / "work"))
    with pytest.raises(OutputError, match=r"no disk/work: there is no such folder .*WORK"):
        Workspace()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    """Wherever it happens: rows that are parted, and batches; it names the folder that stays."""
    space = Workspace(tmp_path)
    log = EXAMPLES / "hospital.xes.gz"
    (space.path / "part-00000.arrows").symlink_to("/dev/full")
    said = rf"^{tmp_path}: batches of the log cannot be written there \(No space left on device"
    with pytest.raises(OutputError, match=said) as caught:
        partition(open_rows(log), space.path, b"k" * 16, part_count=1)
    assert "\n" not in str(caught.value)
    with pytest.raises(OutputError, match=said), writing_to(space.path / "1.batch"):
        Path("/dev/full").write_text("rows")
