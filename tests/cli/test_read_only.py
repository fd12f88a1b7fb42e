"""Folders and files that may not be written, or not be read: what only reads goes on, all else ends
in one line and an exit code of the contract; nothing is left, and nothing is spent.

Commands run as somebody who is not root: root may write everywhere. Some of them; all with
``CLOAKWORK_RUNS``.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.test_every_failure import TRACED
from cloakwork.cli import main
from cloakwork.ledger.ledger import Ledger
from conftest import in_long_form
from counterexamples.small import small_log, small_policy

NOBODY = 65534
AS_NOBODY = f"""
import os
if os.getuid() == 0:
    os.setgroups([])
    os.setgid({NOBODY})
    os.setuid({NOBODY})
import tempfile
tempfile.tempdir = {{0!r}}
"""

APPLY = "apply {0}/in/policy.yaml {0}/in/log.csv --out {0}/out/{1} --ledger {0}/books/l.db --quiet"
BOOKS = " --ledger {0}/books/l.db"


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    """A folder that anybody may enter: a policy and a log in it, a release, its ledger and key."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        for part in ("in", "out", "books", "home", "tmp"):
            (folder / part).mkdir()
        patch.setenv("CLOAKWORK_HOME", str(folder / "home"))
        small_policy(folder).rename(folder / "in" / "policy.yaml")
        small_log(folder).rename(folder / "in" / "log.csv")
        assert main(APPLY.format(folder, "done").split()) == 0
        if os.getuid() == 0:
            for path in [folder, *folder.rglob("*")]:
                os.chown(path, NOBODY, NOBODY)
        folder.chmod(0o755)
        yield folder


@pytest.fixture
def place(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLOAKWORK_HOME", str(made / "home"))
    return made


@contextmanager
def shut(place: Path, names: str, *, may_read: bool) -> Iterator[None]:
    """Inside the block nobody may write these, or not even read, nor what lies in such a folder."""
    paths = [path for name in names.split() for path in [*(place / name).rglob("*"), place / name]]
    modes = [path.stat().st_mode for path in paths]
    for path in paths:
        allowed = stat.S_IRUSR | (stat.S_IXUSR if path.is_dir() else 0)
        path.chmod(allowed if may_read else 0)
    try:
        yield
    finally:
        for path, mode in reversed([*zip(paths, modes, strict=True)]):
            path.chmod(mode)


def found_in(place: Path) -> list[str]:
    return sorted(path.relative_to(place).as_posix() for path in place.rglob("*"))


@pytest.mark.parametrize(
    ("names", "words", "codes"),
    [
        ("out", APPLY, {1}),
        ("books", APPLY, {1}),
        ("home", APPLY, {0}),
        ("home out books tmp in", "verify {0}/out/done", {0}),
        ("home out books tmp in", "ledger show" + BOOKS, {0}),
        ("home out books tmp in", "ledger history" + BOOKS, {0}),
        ("home out books tmp in", "ledger verify" + BOOKS, {0}),
        ("home out books tmp in", "ledger checkpoint --out {0}/out/c.json" + BOOKS, {1}),
        *in_long_form(
            ("books/l.db", APPLY, {1}),
            ("home out books", APPLY, {1}),
            ("tmp", APPLY + " --engine local", {0}),
            ("home out books tmp in", "report {0}/out/done --audience public" + BOOKS, {0}),
            ("home out books tmp in", "report {0}/out/done --out {0}/out/r.html" + BOOKS, {1}),
            ("home out books tmp in", "pack {0}/out/done --out {0}/out/done.zip", {1}),
            ("home out books tmp in", "ledger reconcile {0}/out/done" + BOOKS, {0}),
            ("home out books tmp in", "plan {0}/in/policy.yaml {0}/in/log.csv" + BOOKS, {0}),
            ("out", "plan {0}/in/policy.yaml {0}/in/log.csv --out {0}/out/p.json" + BOOKS, {1}),
            ("books", "registry add {0}/in/policy.yaml" + BOOKS, {1}),
            ("books", "dataset declare clinic --owner o" + BOOKS, {1}),
            ("out", "convert {0}/in/log.csv {0}/out/log.parquet --quiet", {1}),
            ("out", "demo {0}/out/demo", {1}),
            ("out", "policy init --template hospital --out {0}/out/p.yaml", {1}),
            ("home", "keys list", {0}),
        ),
    ],
)
def test_what_may_not_be_written(names, words, codes, place, forks):
    """What only reads needs no more than that."""
    before, spent = found_in(place), len(Ledger(str(place / "books" / "l.db")).history())
    with shut(place, names, may_read=True):
        said = forks.run(
            words.format(place, "new").split(), first=AS_NOBODY.format(str(place / "tmp"))
        )
    assert said.code in codes, said
    check_line(said)
    left = {*found_in(place)} - {*before, "home/work"}
    shutil.rmtree(place / "out" / "new", ignore_errors=True)
    assert not (said.code and left)
    assert said.code == 0 or len(Ledger(str(place / "books" / "l.db")).history()) == spent
    assert Ledger(str(place / "books" / "l.db")).verify() is None


def check_line(said) -> None:
    for word in ("Traceback", "internal error", "Exception ignored", "panicked"):
        assert word not in said.err
    is_usage = said.code == 2 and said.err.startswith("Error: Invalid value")
    assert said.code == 0 or len(said.err.splitlines()) == 1 + is_usage, said.err


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("in/log.csv", APPLY),
        ("home", APPLY),
        ("home/signing-key.pem", APPLY),
        ("books/l.db.key", APPLY),
        ("out/done/statement.json", "verify {0}/out/done"),
        ("books", "ledger show" + BOOKS),
        *in_long_form(
            ("in/policy.yaml", APPLY),
            ("in", APPLY),
            ("books", APPLY),
            ("out", APPLY),
            ("out/done", "verify {0}/out/done"),
            ("out/done/internal", "verify {0}/out/done"),
            ("out/done/internal", "report {0}/out/done" + BOOKS),
            ("out/done/log.csv", "pack {0}/out/done --out {0}/tmp/done.zip"),
            ("books", "ledger verify" + BOOKS),
            ("home", "verify {0}/out/done"),
            ("home", "keys list"),
        ),
    ],
)
def test_what_may_not_be_read(names, words, place, forks):
    """Whatever it is, one line names it."""
    before = found_in(place)
    with shut(place, names, may_read=False):
        said = forks.run(
            words.format(place, "new").split(), first=AS_NOBODY.format(str(place / "tmp"))
        )
    assert said.code in (0, 1, 2, 3, 5), said
    check_line(said)
    left = {*found_in(place)} - {*before, "home/work"}
    shutil.rmtree(place / "out" / "new", ignore_errors=True)
    assert not (said.code and left)


def test_an_error_that_nobody_words_is_found(place, forks):
    with shut(place, "out", may_read=True):
        first = AS_NOBODY.format(str(place / "tmp")) + TRACED
        said = forks.run(APPLY.format(place, "new").split(), first=first)
    with pytest.raises(AssertionError):
        check_line(said)
