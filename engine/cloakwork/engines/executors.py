"""Where the tasks of a batched log run: in this process, or in others that are sent a task and
places, and answer with a result for each.
"""

import os
import pickle
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO, Any, Final, Protocol, TypeVar, cast

from cloakwork.base.errors import MechanismError
from cloakwork.base.frozen import frozen

R = TypeVar("R")

_WORKER: Final = "from cloakwork.engines.executors import main; main()"


class Executor(Protocol):
    """Runs one task for each of some places."""

    def run(self, task: Callable[[int], R], places: int) -> Iterator[R]:
        """What ``task`` returns for each place from 0, in their order.

        It may run in other processes, so that what it needs and returns can be pickled, and more
        than once for a place: of each place exactly one result counts.
        """
        ...


@frozen
class InThisProcess:
    """One after the other."""

    def run(self, task: Callable[[int], R], places: int) -> Iterator[R]:
        """As ``Executor.run``."""
        return map(task, range(places))


class Processes:
    """Several processes, started when they are first needed, that end with this one.

    Each takes every n-th place: a task is sent to each process once, and the results of its places
    come one by one.
    """

    def __init__(self, count: int) -> None:
        self._count: Final = count
        self._workers: list[subprocess.Popen[bytes]] = []

    def run(self, task: Callable[[int], R], places: int) -> Iterator[R]:
        """As ``Executor.run``. Raises what a task raises, once all processes are at rest."""
        import cloudpickle

        if places < 2:
            return map(task, range(places))
        # Once for all places.
        payload = cloudpickle.dumps(task)
        workers = self._running()
        for number, worker in enumerate(workers):
            own = range(number, places, len(workers))
            try:
                write_message(cast(IO[bytes], worker.stdin), (payload, list(own)))
            except BrokenPipeError:
                raise _gone() from None
        return self._results(workers, places)

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers:
            _end(worker)
        self._workers = []

    def _results(self, workers: list["subprocess.Popen[bytes]"], places: int) -> Iterator[Any]:
        try:
            for place in range(places):
                worker = workers[place % len(workers)]
                found = read_message(cast(IO[bytes], worker.stdout))
                if found is None:
                    raise _gone()
                state, result = found
                if state == FAILED:
                    raise result
                yield result
        except BaseException:
            # What the others still do is for nothing.
            self.close()
            raise

    def _running(self) -> list["subprocess.Popen[bytes]"]:
        if any(worker.poll() is not None for worker in self._workers):
            self.close()
        if not self._workers:
            self._workers = [_started() for _ in range(self._count)]
            for worker in self._workers:
                weakref.finalize(self, _end, worker)
        return self._workers


def _started() -> "subprocess.Popen[bytes]":
    # One thread each: there are as many processes as cores are to be used.
    environment = {**os.environ, "POLARS_MAX_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-P", "-c", _WORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )


def _end(worker: "subprocess.Popen[bytes]") -> None:
    worker.kill()
    worker.wait()


def _gone() -> MechanismError:
    return MechanismError(
        "local",
        "a process that worked on batches of the log has ended, killed or out of memory; "
        "use fewer processes (CLOAKWORK_PROCESSES) or a machine with more memory",
    )


DONE: Final = "done"
FAILED: Final = "failed"


def write_message(stream: IO[bytes], content: object) -> None:
    """Send one object. Both ends are ours: what is unpickled is trusted."""
    import cloudpickle

    # Pickled whole before any of it is sent.
    stream.write(cloudpickle.dumps(content))
    stream.flush()


def read_message(stream: IO[bytes]) -> Any:
    """The next object, which says itself where it ends; None where the other end is gone."""
    try:
        return pickle.load(stream)  # noqa: S301 - see above
    except (EOFError, pickle.UnpicklingError):  # gone before, or while it wrote
        return None


def main() -> None:
    """Work until the other end is gone."""
    # Ctrl-C is for the process that started this one, which then ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = sys.stdout.buffer
    # Whatever prints must not get between the answers.
    sys.stdout = sys.stderr
    with suppress(BrokenPipeError):  # nobody waits for an answer any more
        while (asked := read_message(sys.stdin.buffer)) is not None:
            payload, places = asked
            task = pickle.loads(payload)  # noqa: S301 - from the process that started this one
            for place in places:
                try:
                    answer = (DONE, task(place))
                except Exception as error:
                    answer = (FAILED, error)
                write_message(answers, answer)
                # Nobody asks for what comes behind a failure.
                if answer[0] == FAILED:
                    break
    # Nothing is left to be sent, and a broken pipe to be flushed would be said.
    os._exit(0)
