"""A session of Spark of the tests' own: two cores of this machine, 1 GB for its JVM."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ATTEMPTS = 2
"""How often Spark runs a task that fails, at most."""


def missing() -> str | None:
    """What Spark needs and is not here; None where nothing is missing."""
    if find_spec("pyspark") is None:
        return "pyspark is not installed (extra: spark)"
    java = Path(os.environ.get("JAVA_HOME", "/nowhere")) / "bin" / "java"
    if not java.exists() and shutil.which("java") is None:
        return "there is no Java (Debian: openjdk-17-jre-headless)"
    return None


@contextmanager
def spark_session(folder: Path, **settings: str) -> Iterator[Any]:
    """A session that ends with the block; its files lie in ``folder``."""
    from pyspark.sql import SparkSession

    own_path = os.pathsep.join(path for path in sys.path if path)
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", "PYSPARK_PYTHON")}
    os.environ |= {"PYTHONPATH": own_path, "PYSPARK_PYTHON": sys.executable}
    builder = SparkSession.builder.master(f"local[2,{ATTEMPTS}]").appName("tests")
    own = {
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # A test is over before it pays to compile anything well, or to look at classes of Spark.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
        "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.executorEnv.POLARS_MAX_THREADS": "1",
        "spark.python.daemon.module": "spark_daemon",
        **settings,
    }
    for name, value in own.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        try:
            yield session
        finally:
            session.stop()
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
