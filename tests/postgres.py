"""A Postgres server of the tests' own, on a socket in a folder of its own."""

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MISSING = "no Postgres server is installed: apt-get install postgresql"


def programs() -> Path | None:
    """The folder of ``initdb`` and ``pg_ctl``; Debian keeps them out of the path."""
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return folders[-1] if folders else None


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """A running server whose files lie in ``folder`` (short: a socket's path has 107 bytes); its
    folder is its address.
    """
    where = programs()
    assert where is not None, MISSING
    data = folder / "data"
    data.mkdir()
    as_whom = {"user": "postgres"} if os.geteuid() == 0 else {}  # the server refuses to run as root
    if as_whom:
        owner = pwd.getpwnam("postgres")
        folder.chmod(0o755)
        for path in (folder, data):
            os.chown(path, owner.pw_uid, owner.pw_gid)

    def run(*command: object) -> None:
        subprocess.run(
            [str(part) for part in command],
            check=True,
            cwd="/",
            stdout=subprocess.DEVNULL,
            **as_whom,
        )

    run(where / "initdb", "--pgdata", data, "--auth", "trust", "--username", "tester", "--no-sync")
    control = (where / "pg_ctl", "--pgdata", data, "--wait")
    run(
        *control,
        "--log",
        folder / "log",
        "--options",
        f"-F -c listen_addresses= -k {folder}",
        "start",
    )
    try:
        yield f"host={folder}&user=tester"
    finally:
        run(*control, "--mode", "immediate", "stop")
