"""What the driver needs on a cluster of Spark: ``cloakwork apply`` with two executors in processes
of their own, and the most memory that the driver's two processes (Python, and the JVM with a heap
of 640 MB at most) and the executors hold; and the bytes that Spark shuffles.

    python benchmarks/scale/spark_driver.py LOG [LOG ...] [--policy NAME] [--master MASTER]

Each LOG is a Parquet file or a folder of such files, as ``generate.py`` makes them. With
``--master local[2]`` one JVM does everything, which is faster: for the bytes alone. Needs Java and
the extra ``spark``. One line of JSON a log.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from cell import EVERY, tree_of  # noqa: E402 - beside this script

SETTINGS = {
    "spark.driver.memory": "640m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "1g",
    "spark.executorEnv.POLARS_MAX_THREADS": "1",
    "spark.sql.shuffle.partitions": "8",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def resident(process: int) -> int:
    """Bytes; 0 where the process has gone."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * 4096
    except OSError:
        return 0


def is_executor(process: int) -> bool:
    """Whether it is a JVM of an executor."""
    try:
        return b"CoarseGrainedExecutorBackend" in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False


def is_java(process: int) -> bool:
    """Whether it is a JVM."""
    try:
        return Path(f"/proc/{process}/exe").resolve().name == "java"
    except OSError:
        return False


def look(root: int, most: dict[str, int]) -> None:
    """Keep the most that each part holds."""
    processes = tree_of(root)
    below = {each for one in processes if is_executor(one) for each in tree_of(one)}
    driver = [one for one in processes if one not in below]
    found = {
        "driver_python_mb": resident(root),
        "driver_jvm_mb": sum(resident(one) for one in driver if is_java(one)),
        "executors_mb": sum(resident(one) for one in below),
    }
    for name, held in found.items():
        most[name] = max(most.get(name, 0), held)


def shuffled(folder: Path) -> int:
    """Bytes that tasks wrote for others to read, by Spark's event log."""
    total = 0
    for path in folder.rglob("events_*"):
        for line in path.read_text("utf-8").splitlines():
            event = json.loads(line)
            if event["Event"] == "SparkListenerTaskEnd":
                written = (event.get("Task Metrics") or {}).get("Shuffle Write Metrics") or {}
                total += written.get("Shuffle Bytes Written", 0)
    return total


def measured(log: Path, policy: Path, master: str) -> dict[str, float]:
    """The figures of one release."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("CLOAKWORK_SCALE")) as name:
        folder = Path(name)
        (folder / "work").mkdir()
        text = policy.read_text("utf-8").replace("report: [json]", "report: []")
        (folder / "policy.yaml").write_text(text, "utf-8")
        (folder / "events").mkdir()
        settings = SETTINGS | {
            "spark.local.dir": str(folder / "local"),
            "spark.eventLog.dir": (folder / "events").as_uri(),
        }
        options = " ".join(f"--conf {key}={value}" for key, value in settings.items())
        environment = os.environ | {
            "CLOAKWORK_HOME": name,
            "CLOAKWORK_WORK": str(folder / "work"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_HOSTNAME": "localhost",
            "PYSPARK_SUBMIT_ARGS": f"--master {master} {options} pyspark-shell",
            # Executors find the package as this process does.
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        command = [sys.executable, "-m", "cloakwork", "apply", str(folder / "policy.yaml")]
        command += [str(log.resolve()), "--out", str(folder / "out"), "--engine", "spark"]
        command += ["--quiet", "--json"]
        begun, most = time.monotonic(), dict[str, int]()
        with (folder / "errors").open("w+b") as errors:
            child = subprocess.Popen(
                command, env=environment, cwd=name, stdout=subprocess.DEVNULL, stderr=errors
            )
            ended = threading.Event()

            def watch() -> None:
                while not ended.wait(EVERY):
                    look(child.pid, most)

            thread = threading.Thread(target=watch)
            thread.start()
            status = child.wait()
            ended.set()
            thread.join()
            if status:
                errors.seek(0)
                raise SystemExit(errors.read().decode(errors="replace")[-2000:])
        figures = {part: round(held / 1e6) for part, held in most.items()}
        figures["shuffled_bytes"] = shuffled(folder / "events")
        return figures | {"wall_s": round(time.monotonic() - begun)}


def main() -> None:
    """One log after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOG")
    parser.add_argument("--policy", default="dp-whole-log")
    parser.add_argument("--master", default="local-cluster[2,1,1024]")
    asked = parser.parse_args()
    for log in asked.logs:
        figures = measured(log, HERE / "policies" / f"{asked.policy}.yaml", asked.master)
        print(json.dumps({"log": log.name, "policy": asked.policy} | figures), flush=True)


if __name__ == "__main__":
    main()
