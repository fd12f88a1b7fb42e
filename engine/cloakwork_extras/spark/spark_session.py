"""A session of Spark: the user's, else one of its own; and its failures as one line each."""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from cloakwork.base.errors import MechanismError, MissingExtra, first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    except PySparkException as error:
        raise MechanismError("spark", f"{what} failed: {_cause(error)}") from None


def _cause(error: Exception) -> str:
    """What went wrong, as far as it can be said without what the log holds."""
    said = str(error)
    if "No module named" in said:
        return (
            "Spark's Python lacks cloakwork or what it needs; install the same version on every "
            "executor"
        )
    condition = getattr(error, "getCondition", getattr(error, "getErrorClass", None))
    name = condition() if condition is not None else None
    if name and "PythonException" not in type(error).__name__:
        return first_line(error)
    kinds = [line for line in said.splitlines() if line and not line.startswith((" ", "\t"))]
    raised = next((line.partition(":")[0] for line in reversed(kinds) if "Error" in line), "")
    kind = raised if raised.replace(".", "").isidentifier() else type(error).__name__
    return f"{kind} on an executor; Spark's own log says more"
