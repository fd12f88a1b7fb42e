"""Tests lie where the packages lie, and a module's tests are found by its name."""

from pathlib import Path

import pytest

from repository.layout import misplaced


def test_tests_mirror_the_packages() -> None:
    assert not (faults := list(misplaced())), "\n".join(faults)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A package with a module and a package, each with tests, and a promise."""
    for name in (
        "engine/cloakwork/__init__.py",
        "engine/cloakwork/api.py",
        "engine/cloakwork/log/__init__.py",
        "engine/cloakwork/log/_tables.py",
        "engine/cloakwork/log/formats/__init__.py",
        "engine/cloakwork/log/formats/csv.py",
        "tests/test_api.py",
        "tests/log/test_log.py",
        "tests/log/test_io.py",
        "tests/log/test_tables.py",
        "tests/log/helpers.py",
        "tests/log/io/test_csv.py",
        "tests/log/formats/test_writing.py",
        "tests/logs/test_real_logs.py",
    ):
        plant(tmp_path, name)
    return tmp_path


def plant(checkout: Path, name: str) -> None:
    """An empty file of this name."""
    (checkout / name).parent.mkdir(parents=True, exist_ok=True)
    (checkout / name).touch()


FOLDERS = {"logs": "real logs"}
FILES = {"log/io/test_writing.py": "all writers"}


def test_what_lies_in_its_place_is_let_be(checkout: Path) -> None:
    assert not list(misplaced(checkout, FOLDERS, FILES))


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ("tests/log/test_csv.py", "cloakwork/log has no module csv"),
        ("tests/log/io/test_io_csv.py", "cloakwork/log/io has no module io_csv"),
        ("tests/log/csv/test_fields.py", "the engine has no package log/csv"),
        ("tests/reading/test_csv.py", "the engine has no package reading"),
        ("tests/unit/test_api.py", "the engine has no package unit"),
        ("tests/test_reading.py", "cloakwork has no module reading"),
        ("tests/test_cloakwork.py", "cloakwork has no module cloakwork"),
    ],
)
def test_what_lies_elsewhere_is_told(checkout: Path, planted: str, said: str) -> None:
    plant(checkout, planted)
    (fault,) = misplaced(checkout, FOLDERS, FILES)
    assert fault.startswith(f"{planted}: {said}")


@pytest.mark.parametrize(
    ("folders", "files", "said"),
    [
        (FOLDERS | {"fuzz": "gone"}, FILES, "there is no tests/fuzz"),
        (FOLDERS, FILES | {"log/test_gone.py": "gone"}, "there is no tests/log/test_gone.py"),
        (FOLDERS, FILES | {"log/io/test_csv.py": "a module"}, "is named for a module"),
        (FOLDERS | {"log": "a package"}, {}, "log is a package of the engine"),
    ],
)
def test_a_reason_that_nothing_needs_is_told(
    checkout: Path, folders: dict[str, str], files: dict[str, str], said: str
) -> None:
    assert said in "\n".join(misplaced(checkout, folders, files))
