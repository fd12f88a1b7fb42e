"""Release a log on Spark: Parquet files, two cores of this machine.

python examples/spark/release.py OUT
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

import cloakwork

ROOT = Path(__file__).resolve().parents[2]
LOG = ROOT / "examples" / "logs" / "permit.xes.gz"
POLICY = ROOT / "policies" / "kanon-control-flow.yaml"


def write_parquet(folder: Path, files: int = 4) -> None:
    """The shipped log as a lakehouse holds it: one row an event, in several files."""
    events = cloakwork.read_log(LOG).to_polars()
    rows = -(-events.height // files)
    for number in range(files):
        part = events.slice(number * rows, rows)
        part.write_parquet(folder / f"part-{number:05}.parquet")


def main(out: str) -> None:
    """Write the log's files, release them to ``out``, and say what came of it."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    with TemporaryDirectory() as folder:
        write_parquet(Path(folder))
        published = cloakwork.release(str(POLICY), folder, out, engine="spark")
    session.stop()
    log = published.release.log
    print(f"{published.folder}: {log.case_count:,} cases, {log.event_count:,} events")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/spark/release.py OUT")
    main(sys.argv[1])
