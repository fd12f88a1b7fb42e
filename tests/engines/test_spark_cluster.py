"""A cluster of two executors, processes of their own, of which one is killed in the middle of each
stage: the release is the one without the fault, and no noise is drawn twice.
"""

import os
import secrets
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from cloakwork.api import release, verify
from cloakwork.ledger.ledger import Ledger
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats import read_log
from cloakwork.testing.contract_logs import assert_same_log
from cloakwork_extras.spark.spark import spark_engine
from cloakwork_extras.spark.spark_tasks import ArrowTask, SparkExecutor
from conftest import EXAMPLES, ROOT
from drawn_entropy import entropy_of
from spark_session import missing, spark_session

pytestmark = [
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
    pytest.mark.skipif(
        "CLOAKWORK_RUNS" not in os.environ, reason="executors that are killed: CLOAKWORK_RUNS=1"
    ),
]

LOG = EXAMPLES / "hospital.xes.gz"
CLUSTER = {
    "spark.master": "local-cluster[2,1,1024]",
    "spark.executor.memory": "1g",
    "spark.deploy.maxExecutorRetries": "-1",
    # An executor that is lost counts as a failure of each task that it had.
    "spark.task.maxFailures": "8",
}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)  # executors cannot import it
    with pytest.MonkeyPatch.context() as patch:
        # Executors talk to nothing but this machine's own address.
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("SPARK_LOCAL_HOSTNAME", "localhost")
        with spark_session(tmp_path_factory.mktemp("cluster"), **CLUSTER) as found:
            yield found
    cloudpickle.unregister_pickle_by_value(module)


def kill_executors(monkeypatch: pytest.MonkeyPatch, marks: Path) -> None:
    """In each stage the first task kills the executor that it runs on, when its work is done."""
    marks.mkdir()
    results = SparkExecutor.results

    def with_kills(executor: SparkExecutor, frame: Any, task: ArrowTask) -> list[Path]:
        return results(executor, frame, killing_its_executor(task, marks))

    monkeypatch.setattr(SparkExecutor, "results", with_kills)


def killing_its_executor(task: ArrowTask, marks: Path) -> ArrowTask:
    """``task``; whichever of the stage's tasks is the first to end kills its executor, once."""
    mark = marks / secrets.token_hex(8)

    def attempt(rows: Iterator[Any]) -> Iterator[Any]:
        found = list(task(rows))
        try:
            mark.touch(exist_ok=False)
        except FileExistsError:
            yield from found
            return
        process = os.getpid()
        while b"CoarseGrainedExecutorBackend" not in Path(f"/proc/{process}/cmdline").read_bytes():
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        mark.write_text(str(process))
        os.kill(process, signal.SIGKILL)
        yield from found

    return attempt


def released(policy: str, folder: Path, name: str, log: Any, entropy: str, **how: Any) -> EventLog:
    """What is released; it verifies, and the ledger has one entry of it."""
    ledger = f"sqlite:///{folder / name}.db"
    with entropy_of(entropy):
        made = release(
            ROOT / "policies" / f"{policy}.yaml", log, folder / name, ledger=ledger, **how
        )
    verify(folder / name)
    assert [record.state for record in Ledger(ledger).history()] == ["committed"]
    return read_log(made.log)


@pytest.mark.parametrize("policy", ["dp-per-person", "dp-whole-log", "kanon-dp-timestamps"])
def test_an_executor_killed_in_each_stage_changes_nothing(
    policy: str, session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The release of memory with the same noise; with other noise it is another one."""
    in_memory = released(policy, tmp_path, "memory", LOG, "both")
    kill_executors(monkeypatch, tmp_path / "marks")
    events = read_log(LOG).to_polars().with_row_index("n")
    (tmp_path / "log").mkdir()
    for part in range(4):
        events[part::4].write_parquet(tmp_path / "log" / f"{part}.parquet")
    frame = session.read.parquet(str(tmp_path / "log"))
    engine = spark_engine(session, tmp_path / "storage", batch_events=2_500)
    on_cluster = released(
        policy, tmp_path, "cluster", frame, "both", columns={"row": "n"}, engine=engine
    )
    assert_same_log(in_memory, on_cluster)
    killed = {mark.read_text() for mark in (tmp_path / "marks").iterdir()}
    print(policy, len(killed), "executors killed")
    assert len(killed) > 3
    with_other_noise = released(policy, tmp_path, "other", LOG, "other")
    with pytest.raises(AssertionError):
        assert_same_log(with_other_noise, on_cluster)
