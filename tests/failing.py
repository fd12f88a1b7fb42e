"""The n-th place at which a process touches a file below a folder fails: an open, a read, a write,
an fsync, a rename, an unlink, a commit, whoever makes the call (Python, SQLite, polars).

A library written in C (``failing.c``) stands before the system's calls in a process that was
started with it, and does nothing until it is asked to. ``MemoryError`` is raised where Python
opens, renames, removes or locks such a file, where SQL runs, and where polars collects or writes.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

COMPILER = shutil.which("cc")
KINDS = ("once", "from then on", "memory")
"""What goes wrong: one call, this call and all later ones (a full disk), or no memory is left.
Beside these a signal may be named, which the process sends itself there.
"""


def library(folder: Path) -> dict[str, str]:
    """What to add to the environment of a process that ``fail_at`` is to be called in; nothing
    where there is no compiler.
    """
    if COMPILER is None:
        return {}
    made = folder / "failing.so"
    source = Path(__file__).with_suffix(".c")
    subprocess.run([COMPILER, "-shared", "-fPIC", "-O1", "-o", made, source, "-ldl"], check=True)
    return {"LD_PRELOAD": str(made)}


def first_words(folder: Path, n: int, kind: str, report: Path) -> str:
    """Python that arms a process: the ``n``-th place (from 1) below ``folder`` fails. What failed
    is written to ``report``, which stays empty where there were fewer places.
    """
    here = str(Path(__file__).parent)
    armed = f"failing.fail_at({str(folder)!r}, {n}, {kind!r}, {str(report)!r})"
    # A process of its own does not know the folder of the tests.
    return f"import sys; sys.path.append({here!r}); import failing; {armed}"


def fail_at(folder: str, n: int, kind: str, report: str) -> None:
    """As ``first_words`` says, in this process."""
    if kind == "memory" or kind in signal.Signals.__members__:
        _in_python_at(folder, n, kind, report)
        return
    descriptor = os.open(report, os.O_WRONLY | os.O_CREAT)
    armed = ctypes.CDLL(None).failing_start
    armed(folder.encode(), ctypes.c_long(n), int(kind == "from then on"), descriptor)


def _in_python_at(folder: str, n: int, kind: str, report: str) -> None:
    import polars as pl
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    file = os.open(report, os.O_WRONLY | os.O_CREAT)
    places = 0

    def place(what: str) -> None:
        nonlocal places
        places += 1
        if places == n:
            os.write(file, f"{what}\n".encode())
            if kind == "memory":
                raise MemoryError
            os.kill(os.getpid(), signal.Signals[kind])

    def heard(name: str, given: tuple[Any, ...]) -> None:
        if name.startswith(("open", "os.", "fcntl.", "tempfile.", "shutil.")) and any(
            isinstance(each, str | os.PathLike) and os.fspath(each).startswith(folder)
            for each in given
        ):
            place(f"{name} {given[0]}")
        if name == "fcntl.flock":
            place(name)

    def before(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **named: Any) -> Any:
            place(call.__name__)
            return call(*given, **named)

        return called

    sys.addaudithook(heard)
    event.listen(Engine, "before_cursor_execute", lambda *_: place("execute"))
    event.listen(Engine, "commit", lambda *_: place("commit"))
    for tables, names in (
        (pl.LazyFrame, ("collect",)),
        (pl.DataFrame, ("write_csv", "write_parquet", "join", "sort", "filter")),
    ):
        for name in names:
            setattr(tables, name, before(getattr(tables, name)))
