"""What Spark is to read, as a policy says."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from cloakwork.base.errors import CloakworkError, LogError
from cloakwork.engines.workspace import Workspace
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats.options import ROW_NUMBER, InputOptions
from cloakwork.log.formats.reading import asked_of
from cloakwork.log.formats.row_source import ReadRequest
from cloakwork.policy.model import Policy
from cloakwork.run.reading import request_under
from cloakwork_extras.spark.spark import SparkEngine, spark_engine
from cloakwork_extras.spark.spark_rows import (
    TABLE_PREFIX,
    SparkSource,
    label_of,
    require_no_other_file,
)
from cloakwork_extras.spark.spark_tasks import in_one_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class OnSpark:
    """The engine ``spark``, as it is registered under ``cloakwork.engines``."""

    def opened(
        self, engine: object, log: object, policy: Policy, request: ReadRequest
    ) -> tuple[SparkEngine, object]:
        """``engine``, or the engine on the session of a DataFrame, else on the active one, and what
        it opens of ``log``: an event log, a path, a table's name or a DataFrame. CloakworkError for
        another engine.
        """
        if type(log).__module__.startswith("pyspark."):
            frame = cast("DataFrame", log)
            if engine in (None, "spark"):
                engine = spark_engine(frame.sparkSession)
            if isinstance(engine, SparkEngine):
                return engine, _source(policy, frame, request)
        if engine != "spark" and not isinstance(engine, SparkEngine):
            raise CloakworkError(
                f"the log is a {type(log).__name__}, which the engine {engine} does not read; a "
                "DataFrame of Spark needs the engine spark"
            )
        if isinstance(log, EventLog):
            return _started(engine), log
        if not isinstance(log, str | Path):
            raise LogError(
                "log",
                f"must be a DataFrame of Spark, a path, a table's name or an "
                f"EventLog (got {type(log).__name__})",
            )
        source = _source(policy, log, request)  # before Spark starts
        return _started(engine), source

    def in_files(self, table: str) -> Workspace:
        """As of ``RegisteredEngine``."""
        engine = spark_engine()
        # Else Spark writes times by which nobody can tell that they are in UTC.
        engine.session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        try:
            with in_one_line(f"reading {table}"):
                rows = engine.session.table(table.removeprefix(TABLE_PREFIX))
                # Else the raw log goes to the file system that Spark has by default.
                folder = f"file:{engine.workspace.path.absolute()}"
                rows.write.mode("append").parquet(folder)
        except BaseException:
            # Else tasks write on, and make the folder again, for all to read.
            engine.session.stop()
            raise
        return engine.workspace


def _started(engine: object) -> SparkEngine:
    return engine if isinstance(engine, SparkEngine) else spark_engine()


def _source(policy: Policy, location: "str | Path | DataFrame", asked: ReadRequest) -> SparkSource:
    """The log at ``location``, a path, ``spark:TABLE`` or a DataFrame, to be read as ``spec.input``
    and the roles of ``policy`` say, and as ``asked``; errors as of ``read_under``. Its columns may
    name the one that numbers the rows: ``row``.
    """
    given = dict(asked.columns or {})
    label = label_of(location)
    if isinstance(location, str | Path) and not label.startswith(TABLE_PREFIX):
        require_no_other_file(label)  # before Spark starts
    options = policy.spec.input or InputOptions()
    row = given.pop(ROW_NUMBER, options.columns.get(ROW_NUMBER))
    others = {name: column for name, column in options.columns.items() if name != ROW_NUMBER}
    options = options.model_copy(update={"columns": others})
    if options.format is None:
        options = options.model_copy(update={"format": "parquet"})
    under = request_under(policy, columns=given, keep=asked.keep, on_excess=asked.on_excess)
    form, request = asked_of(Path(label), Path(label), replace(under, options=options))
    if form != "parquet":
        raise LogError(
            label,
            f"spec.input says that the log is {form}, and the engine spark reads Parquet and "
            "tables",
            hint="use --engine local",
        )
    return SparkSource(location, request, row)
