"""Spark itself: a session (the user's, else one of its own), its failures as one line each, and
tasks that it runs, by the DataFrame API alone: the same on classic Spark and Spark Connect.

A task holds the keys of noise, so it goes to the executors sealed: encrypted (AES-256-GCM) in a
file of the workspace, under a key that is drawn for it and used once. What Spark itself carries,
and may write to disk, is the file's name and that key; the file is removed when the task is done.
"""

import os
import pickle
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import version
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import cloudpickle
import polars as pl

from cloakwork.base.errors import CloakworkError, MechanismError, MissingExtra, first_line
from cloakwork.base.frozen import frozen
from cloakwork.engines.batch_files import private_file
from cloakwork.engines.batched import keyed_hash
from cloakwork.engines.workspace import WORK_FOLDER, writing_to

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


LEAST_VERSION: Final = (3, 5)
"""Of Spark: rows of files have numbers, and Spark Connect has ``mapInArrow``, from here on."""

_NO_JAVA: Final = (
    "Spark did not start, most likely for want of Java 17 (Debian: openjdk-17-jre-headless; set "
    "JAVA_HOME); or name a Spark Connect server: SPARK_REMOTE=sc://HOST"
)


def usable_session(session: "SparkSession | None" = None) -> "SparkSession":
    """``session``, else the active one, else a new one as the environment and Spark's own
    configuration say. MissingExtra without pyspark, MechanismError where Spark does not start or is
    too old.
    """
    _require_pyspark()
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        found = session or SparkSession.getActiveSession() or _new_session()
        version = found.version
    except PySparkException as error:
        if "JAVA_GATEWAY_EXITED" in str(error):
            raise MechanismError("spark", _NO_JAVA) from None
        raise MechanismError("spark", f"no session: {first_line(error)}") from None
    except FileNotFoundError:  # of the program java, or of Spark itself
        raise MechanismError("spark", _NO_JAVA) from None
    numbers = tuple(int(number) for number in version.split(".")[:2])
    if numbers < LEAST_VERSION:
        raise MechanismError("spark", f"the session is of Spark {version}; 3.5 or later is needed")
    return found


def _require_pyspark() -> None:
    try:
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError:
        raise MissingExtra(
            "the engine spark needs pyspark and pyarrow: pip install 'cloakwork[spark]'"
        ) from None


def _new_session() -> "SparkSession":
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("cloakwork")
    # Else a Spark of this machine starts whatever is called python3, which need not have cloakwork.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "SPARK_REMOTE" not in os.environ:
        builder = builder.config("spark.ui.showConsoleProgress", "false")
    with without_warnings():
        return builder.getOrCreate()


def is_local(session: "SparkSession") -> bool:
    """Whether all of Spark runs on this machine, in the driver's own process."""
    return not is_connect(session) and str(session.sparkContext.master).startswith("local")


def is_connect(session: "SparkSession") -> bool:
    """Whether the session speaks to a server over Spark Connect."""
    return ".connect." in type(session).__module__


@contextmanager
def without_warnings() -> Iterator[None]:
    """Without Spark's warning about a pandas that nothing here uses."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        yield


@contextmanager
def in_one_line(what: str) -> Iterator[None]:
    """Raise MechanismError where Spark fails at ``what``: the cause, and never rows of the log."""
    from pyspark.errors import PySparkException

    try:
        with without_warnings():
            yield
            return
    except PySparkException as error:
        said = _cause(error)
    except _gone() as error:
        # Its message may be all of a JVM's, and quote the log.
        said = f"a process of Spark ended ({type(error).__name__}); Spark's own log says more"
    raise MechanismError("spark", f"{' '.join(what.split())} failed: {said}")


def _gone() -> tuple[type[Exception], ...]:
    """What is raised where a JVM, or what it runs tasks in, is not there any more."""
    with suppress(ImportError):  # Spark Connect may do without it
        from py4j.protocol import Py4JError

        return Py4JError, ConnectionError
    return (ConnectionError,)


def _cause(error: Exception) -> str:
    """What went wrong, as far as it can be said without what the log holds."""
    from pyspark.errors import AnalysisException

    # Other messages may hold rows of the log: only their kinds are handed on.
    said = str(error)
    if "No module named" in said:
        return (
            "Spark's Python lacks cloakwork or what it needs; install the same version on every "
            "executor"
        )
    # Raised before any row is read.
    if isinstance(error, AnalysisException):
        return first_line(error)
    kinds = [line for line in said.splitlines() if line and not line.startswith((" ", "\t"))]
    raised = next((line.partition(":")[0] for line in reversed(kinds) if "Error" in line), "")
    kind = raised if raised.replace(".", "").isidentifier() else type(error).__name__
    return f"{kind} on an executor; Spark's own log says more"


R = TypeVar("R")

ArrowTask = Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]

_RESULTS: Final = "place long, result binary"
_ONLY_NONCE: Final = bytes(12)  # a key seals one task


@frozen
class SparkExecutor:
    """Runs one task of Spark for each place; ``folder``: a private one that the driver and all
    executors see.
    """

    session: "SparkSession"
    folder: Path

    @in_one_line("a task")
    def run(self, task: Callable[[int], R], places: int) -> Iterator[R]:
        """As ``Executor.run``."""

        def each_place(rows: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
            for batch in rows:
                for place in batch.column(0).to_pylist():
                    yield outcome(place, partial(task, place), folder)

        folder = self.folder
        frame = self.session.range(0, places, 1, places)
        found = self.results(frame, each_place)
        # A lost result would be a batch that nobody misses: the release would lack its cases.
        if len(found) < places:
            raise MechanismError("spark", "a batch has no result; this is a bug of Spark")
        return map(result_in, found)

    def results(self, frame: "DataFrame", task: ArrowTask) -> list[Path]:
        """Of what ``task``, which makes rows by ``outcome``, makes of the rows of ``frame``: the
        files of the results, by place. Of a task that ran twice Spark hands on one attempt's rows.

        Raises what the task of the first place raised, where it is a CloakworkError, which Spark
        does not try again; MechanismError where Spark fails.
        """
        # The task is sealed: it holds what Spark must not show in its plans and logs.
        with sealed(task, self.folder) as function, in_one_line("a task"):
            rows = frame.mapInArrow(function, _RESULTS).collect()
        found = [(row["place"], pickle.loads(row["result"])) for row in rows]  # noqa: S301 - ours
        # Places in order, so that what is raised does not depend on which task ended first.
        found.sort(key=itemgetter(0))
        for _, result in found:
            if isinstance(result, RaisedByTask):
                raise result.error
        # Two results of one place would count its cases twice.
        if len({place for place, _ in found}) < len(found):
            raise MechanismError("spark", "a batch has two results; this is a bug of Spark")
        return [result for _, result in found]


def outcome(place: int, task: Callable[[], object], folder: Path) -> "pa.RecordBatch":
    """One row: the place, and a file in ``folder`` of what ``task`` returns, or the CloakworkError
    that it raises. So the driver reads one result at a time: each may have something of each case
    of a batch.
    """
    import pyarrow as pa

    # Of each attempt of a task its own.
    path = folder / f"{os.urandom(12).hex()}.result"
    result: object = path
    try:
        content = cloudpickle.dumps(task())
        with writing_to(path), private_file(path) as file:
            file.write(content)
    except CloakworkError as error:
        result = RaisedByTask(error)
    columns = [pa.array([place], pa.int64()), pa.array([cloudpickle.dumps(result)], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, ["place", "result"])


def result_in(file: Path) -> Any:
    """The result that ``outcome`` wrote, once: the file is removed."""
    content = file.read_bytes()
    file.unlink()
    return pickle.loads(content)  # noqa: S301 - ours


@frozen
class RaisedByTask:
    """An error on its way to the driver."""

    error: CloakworkError


class sealed:  # noqa: N801 - used as a function, in ``with``
    """A function for Spark that does what ``task`` does, while the block lasts."""

    def __init__(self, task: ArrowTask, folder: Path) -> None:
        self._task, self._path = task, folder / f"{os.urandom(12).hex()}.task"

    def __enter__(self) -> ArrowTask:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        # A fresh key for each task, so one fixed nonce is never used twice with it.
        key = AESGCM.generate_key(256)
        content = AESGCM(key).encrypt(_ONLY_NONCE, cloudpickle.dumps(self._task), None)
        self._path.write_bytes(content)
        opens = SealedTask(self._path, key, Surroundings.here())

        def cloakwork_task(rows: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
            yield from opens.task()(rows)

        return cloakwork_task

    def __exit__(self, *_: object) -> None:
        self._path.unlink(missing_ok=True)


@frozen
class Surroundings:
    """What must be alike on driver and executors, lest they do different things to one log."""

    cloakwork: str
    polars: str
    hashes: tuple[int, ...]

    @classmethod
    def here(cls) -> "Surroundings":
        """Those of this process."""
        texts = pl.Series(["", "a case", "ä" * 100])
        hashes = tuple(keyed_hash(texts, 1).tolist())
        return cls(version("cloakwork"), pl.__version__, hashes)


@frozen
class SealedTask:
    """A task in a file that only ``key`` opens."""

    path: Path
    key: bytes
    made_in: Surroundings

    def __repr__(self) -> str:
        return "SealedTask()"  # the key must not get into a traceback

    def task(self) -> ArrowTask:
        """The task, in a process like the one that made it."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        here = Surroundings.here()
        # Other versions hash and read otherwise: cases would land in other places.
        if here != self.made_in:
            return _refusing(f"the driver has {self.made_in}, an executor {here}")
        try:
            content = self.path.read_bytes()
        except OSError:
            return _refusing(
                "an executor does not see the folder for batches of the raw log, or may not read "
                f"it; name one that all share ({WORK_FOLDER}, or storage= in Python)"
            )
        found: ArrowTask = pickle.loads(  # noqa: S301 - only who has the key can have written it
            AESGCM(self.key).decrypt(_ONLY_NONCE, content, None)
        )
        return found


def _refusing(why: str) -> ArrowTask:
    """A task that says why there is none."""

    def refuse() -> None:
        raise MechanismError("spark", why)

    def task(rows: Iterable["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        yield outcome(0, refuse, Path())

    return task
