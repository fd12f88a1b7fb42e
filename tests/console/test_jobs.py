"""Work in the background: its states, its end, and what an end before its time costs."""

from threading import Event

import pytest

from cloakwork.console.visits import Job, JobProgress, JobResult, Jobs
from cloakwork.errors import OutputError
from console.conftest import Visitor


def _ended(jobs: Jobs, job: Job) -> Job:
    jobs._threads[job.id].join(60)
    assert job.ended
    return job


def test_what_comes_of_a_job() -> None:
    jobs = Jobs()
    job = _ended(jobs, jobs.start("a title", lambda _: JobResult("x.html", {"a": 1})))
    assert (job.state, job.result.content) == ("done", {"a": 1})
    assert jobs.newest_first() == (job,)


def test_an_error_is_kept_with_its_exit_code() -> None:
    def work(_: JobProgress) -> JobResult:
        raise OutputError("x: cannot be written")

    jobs = Jobs()
    job = _ended(jobs, jobs.start("x", work))
    assert (job.state, job.problem, job.exit_code) == ("failed", "x: cannot be written", 1)


def test_a_fault_of_ours_is_one_line() -> None:
    def work(_: JobProgress) -> JobResult:
        raise ValueError("two\nlines")

    jobs = Jobs()
    job = _ended(jobs, jobs.start("x", work))
    assert job.problem == "internal error: ValueError: two (please report)"


def test_a_job_ends_at_its_next_step_when_it_is_asked_to() -> None:
    begun = Event()

    def work(progress: JobProgress) -> JobResult:
        begun.set()
        while True:
            progress.detail("on and on")

    jobs = Jobs()
    job = jobs.start("x", work)
    assert begun.wait(60)
    job.stop.set()
    assert _ended(jobs, job).state == "cancelled"


def test_more_jobs_wait_for_those_that_run() -> None:
    go_on = Event()

    def work(_: JobProgress) -> JobResult:
        go_on.wait(60)
        return JobResult()

    jobs = Jobs()
    started = [jobs.start(str(number), work) for number in range(3)]
    go_on.set()
    assert {_ended(jobs, job).state for job in started} == {"done"}


def test_a_release_that_is_stopped_stays_spent(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped once noise is being drawn: no folder, and the ledger says that it failed."""
    heard = JobProgress.__call__

    def stop_at_noise(self: JobProgress, message: str) -> None:
        if message.startswith("variants/"):
            self._job.stop.set()
        heard(self, message)

    monkeypatch.setattr(JobProgress, "__call__", stop_at_noise)
    job = visitor.release("stopped")
    assert job.state == "cancelled"
    assert "its cost stays spent" in job.problem
    assert not (visitor.folder / "stopped").exists()
    (record,) = visitor.state.ledger().history()
    assert record.state == "failed"
    page = visitor.get("/").text
    assert "1 failed, whose cost stays spent" in page
    assert "epsilon 1, delta 1e-06 spent" in page
