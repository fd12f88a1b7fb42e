"""Work that takes a while, in threads of the console: its progress can be followed, and it goes on
when the page is closed.
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Event, Lock, Semaphore, Thread
from typing import Any, Final, Literal

from cloakwork.base.errors import CloakworkError, first_line
from cloakwork.report.failures import notes_of

JobState = Literal["waiting", "running", "done", "failed", "cancelled"]

AT_ONCE: Final = 2
"""Jobs that run at a time: each may hold a log in memory."""

MOST_MESSAGES: Final = 200
MOST_JOBS: Final = 50
"""Jobs that are remembered, the newest."""

ENDED: Final = ("done", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class JobResult:
    """The template that shows what came of a job, and what it shows; ``document``: a page of its
    own that says more.
    """

    template: str = ""
    content: Mapping[str, Any] = field(default_factory=dict)
    document: str = ""


@dataclass(slots=True)
class Job:
    """One piece of work.

    ``title``: in a few words. ``spends``: whether what it does is charged, so that an end before
    its time may have cost. ``worded``: makes messages as the pages say them. ``problem``: the lines
    of its error. ``detail``: how far a stage is.
    """

    id: str
    title: str
    spends: bool
    begun: datetime
    worded: Callable[[str], str] = str
    state: JobState = "waiting"
    messages: list[str] = field(default_factory=list)
    detail: str = ""
    problem: str = ""
    exit_code: int = 0
    result: JobResult = field(default_factory=JobResult)
    stop: Event = field(default_factory=Event)

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.state in ENDED


class JobProgress:
    """Hears how far a job is, and ends it where its end was asked for.

    The job ends as if it were interrupted at a terminal: a release that was paid for is recorded as
    failed, and stays spent.
    """

    def __init__(self, job: Job) -> None:
        self._job = job

    def __call__(self, message: str) -> None:
        """A stage begins, or there is something to know."""
        self._stop_if_asked()
        message = self._job.worded(message)
        if message not in self._job.messages and len(self._job.messages) < MOST_MESSAGES:
            self._job.messages.append(message)
        self._job.detail = ""

    def detail(self, message: str) -> None:
        """How far the stage is."""
        self._stop_if_asked()
        self._job.detail = self._job.worded(message)

    def _stop_if_asked(self) -> None:
        if self._job.stop.is_set():
            raise KeyboardInterrupt


class Jobs:
    """All jobs since the console was started."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._threads: dict[str, Thread] = {}
        self._numbers = itertools.count(1)
        self._lock, self._running = Lock(), Semaphore(AT_ONCE)

    def start(
        self,
        title: str,
        work: Callable[[JobProgress], JobResult],
        *,
        spends: bool = False,
        worded: Callable[[str], str] = str,
    ) -> Job:
        """Begin ``work`` in a thread of its own, as soon as fewer than ``AT_ONCE`` others run."""
        with self._lock:
            job = Job(str(next(self._numbers)), title, spends, datetime.now(UTC), worded)
            self._jobs[job.id] = job
            self._forget_oldest()
            thread = Thread(target=self._run, args=(job, work), daemon=True, name=f"job {job.id}")
            self._threads[job.id] = thread
        thread.start()
        return job

    def get(self, number: str) -> Job | None:
        """The job of this number, if it is remembered."""
        return self._jobs.get(number)

    def newest_first(self) -> tuple[Job, ...]:
        """All that are remembered."""
        return tuple(reversed(self._jobs.values()))

    def stop_all(self, seconds: float) -> None:
        """Ask every job to end, and wait for each so long."""
        for job in self._jobs.values():
            job.stop.set()
        for thread in self._threads.values():
            thread.join(seconds)

    def _forget_oldest(self) -> None:
        ended = [number for number, job in self._jobs.items() if job.ended]
        for number in ended[: max(0, len(self._jobs) - MOST_JOBS)]:
            del self._jobs[number], self._threads[number]

    def _run(self, job: Job, work: Callable[[JobProgress], JobResult]) -> None:
        progress = JobProgress(job)
        with self._running:
            try:
                job.state = "running"
                progress("begun")
                job.result = work(progress)
                job.state = "done"
            except KeyboardInterrupt as error:
                job.problem, job.exit_code = job.worded(notes_of(error)), 130
                job.state = "cancelled"
            except CloakworkError as error:
                job.problem = job.worded(str(error) + notes_of(error))
                job.exit_code = error.exit_code
                job.state = "failed"
            except Exception as error:
                what = f"internal error: {type(error).__name__}: {first_line(error)}"
                job.problem, job.exit_code = f"{what} (please report)", 1
                job.state = "failed"
