"""Logs: a proposed policy, a plan, a release; and what is refused. Comparisons: what is shown, and
what the ledger notes. Work in the background: its states, its end, and what an end before its time
costs.
"""

import gzip
import html
import re
from threading import Event

from cloakwork.authoring.registry import read_plan
from cloakwork.console import work
from cloakwork.console.guard import REPORT_POLICY
from cloakwork.console.visits import Job, JobProgress, JobResult, Jobs
from cloakwork.errors import OutputError
from cloakwork.evaluation.compare import RehearsedForm
from cloakwork.plan.policies import load_policy
from conftest import ROOT
from console.conftest import LOG, POLICY
from console.test_server import Links


def test_a_log_becomes_a_policy(visitor, folder):
    """The roles are marked as internal, and the file is valid."""
    assert LOG in visitor.get("/logs").text
    asked = {"log": LOG, "out": "mine", "audience": "share", "dataset": "er", "purpose": "a study"}
    page = visitor.result(visitor.send("/suggest", **asked))
    assert "Internal." in page
    assert "case:patient" in page
    assert load_policy(folder / "mine.yaml").metadata.dataset == "er"
    again = visitor.send("/suggest", **asked)
    assert "mine.yaml: exists already" in again.text


def test_another_form_is_a_choice_that_the_policy_records(visitor, folder, monkeypatch):
    """The forms stand beside each other; only the proposal itself is replaced."""
    # How long a rehearsal takes, and what it finds, is told elsewhere.
    tried = lambda _, forms, *__: tuple(RehearsedForm(name=each) for each in forms)  # noqa: E731
    monkeypatch.setattr(work, "rehearsed", tried)
    asked = {"log": LOG, "out": "mine", "audience": "publish", "confirm": "Ann", "try": "1"}
    job = visitor.job(visitor.send("/suggest", **asked))
    page = visitor.get(f"/work/{job.id}").text
    assert "whole-log-dp (proposed)" in page and "% by three times" in page
    assert load_policy(folder / "mine.yaml").metadata.suggested.chosen is None
    assert "no such form" in visitor.send("/suggest/take", job=job.id, form="<b>").text
    sent = visitor.send("/suggest/take", job=job.id, form="control-flow-dp")
    assert sent.headers["location"] == "/policy?file=mine.yaml"
    found = load_policy(folder / "mine.yaml").metadata.suggested
    assert (found.chosen, found.instead_of) == ("control-flow-dp", "whole-log-dp")
    assert found.confirmed_by == "Ann"
    (folder / "mine.yaml").write_text("# by somebody else")
    again = visitor.send("/suggest/take", job=job.id, form="whole-log-dp")
    assert "has changed since it was proposed" in again.text
    assert "not known any more" in visitor.send("/suggest/take", job="99", form="x").text
    # Without budget nothing is written, and nothing can be taken.
    poor = {"name": "poor", "owner": "Ward", "epsilon": "0.5", "delta": "0.000001"}
    assert visitor.send("/dataset/declare", **poor).status_code == 303
    job = visitor.job(visitor.send("/suggest", **asked | {"out": "poor", "dataset": "poor"}))
    assert "is not proposed" in visitor.get(f"/work/{job.id}").text
    refused = visitor.send("/suggest/take", job=job.id, form="whole-log-dp")
    assert refused.status_code == 400 and "left" in refused.text
    assert not (folder / "poor.yaml").exists()


def test_an_audience_that_there_is_not(visitor):
    answer = visitor.send("/suggest", log=LOG, out="mine", audience="nobody")
    assert answer.status_code == 400


def test_a_plan_charges_nothing(visitor):
    page = visitor.result(visitor.send("/plan", policy=POLICY, log=LOG))
    assert "epsilon 4 (delta 0.0001) left, this release 1" in page
    assert "Considered and not chosen" in page
    assert not visitor.state.ledger().exists()


def test_a_refusal_names_its_line(visitor, folder):
    text = (folder / POLICY).read_text("utf-8").replace("epsilon: 1", "epsilon: -1", 1)
    (folder / "bad.yaml").write_text(text)
    job = visitor.job(visitor.send("/plan", policy="bad.yaml", log=LOG))
    assert (job.state, job.exit_code) == ("failed", 3)
    assert re.search(r"bad\.yaml:\d+:\d+: ", job.problem)
    assert "bad.yaml" in visitor.get(f"/work/{job.id}").text


def test_a_release_is_made_and_charged(visitor, folder):
    job = visitor.release("out")
    assert job.state == "done", job.problem
    assert (folder / "out" / "statement.json").is_file()
    page = visitor.get(f"/work/{job.id}").text
    assert "internal, of the raw log" in page
    assert "PUBLIC KEY" in page
    assert "epsilon 3, delta 9.9e-05 left" in visitor.get("/").text
    said = visitor.get(f"/work/{job.id}/progress").json()
    assert said["ended"] is True
    assert any(message.startswith("variants/") for message in said["messages"])


def test_a_policy_that_changed_since_it_was_planned_is_planned_again(visitor, folder):
    page = visitor.result(visitor.send("/plan", policy=POLICY, log=LOG))
    digest = re.search('name="digest" value="([^"]+)"', page)[1]
    text = (folder / POLICY).read_text("utf-8")
    (folder / POLICY).write_text(text.replace("version: 1.0.0", "version: 1.0.1"))
    asked = {"policy": POLICY, "log": LOG, "digest": digest, "out": "out"}
    job = visitor.job(visitor.send("/apply", **asked))
    assert "has changed since it was planned here; plan again" in job.problem
    assert not visitor.state.ledger().history()


def test_a_plan_is_saved_opened_compared_and_applied(visitor, folder, cloakwork):
    """As ``apply PLAN LOG`` does it; what the file says is never believed."""
    page = visitor.result(visitor.send("/plan", policy=POLICY, log=LOG))
    digest = re.search('name="digest" value="([^"]+)"', page)[1]
    asked = {"policy": POLICY, "log": LOG, "digest": digest, "out": "mine"}
    saved = visitor.send("/plan/save", **asked)
    assert saved.headers["location"] == "/plan?policy=mine.json&log=hospital.csv.gz&saved=1"
    assert 'value="mine.json" selected' in visitor.get(saved.headers["location"]).text
    assert "exists already" in visitor.send("/plan/save", **asked).text
    stale = visitor.send("/plan/save", **asked | {"digest": "", "out": "b"}).text
    assert "has changed since it was planned here" in stale
    (folder / "k.yaml").write_text((ROOT / "policies" / "kanon-control-flow.yaml").read_text())
    both = visitor.get("/diff?old=mine.json&new=k.yaml").text
    assert "differential privacy" in both and "at least 10 cases share" in both
    assert visitor.release("out", policy="mine.json").state == "done"
    assert read_plan(folder / "out" / "plan.json") == read_plan(folder / "mine.json")
    more = (folder / "mine.json").read_text().replace('"epsilon": 1.0', '"epsilon": 9.0')
    (folder / "more.json").write_text(more.replace('"made_from"', '"internal"'))
    (folder / POLICY).write_text((folder / POLICY).read_text().replace("1.0.0", "1.0.1"))
    for name, why in (("more.json", "does not follow from"), ("mine.json", "has changed since")):
        job = visitor.job(visitor.send("/plan", policy=name, log=LOG))
        (line,) = job.problem.splitlines()
        assert job.state == "failed" and why in line
        found = cloakwork("apply", folder / name, folder / LOG, "--out", folder / "never")
        assert found.code != 0 and why in found.err.splitlines()[-1]
        assert not (folder / "never").exists()
    assert cloakwork("policy", "diff", folder / "mine.json", folder / POLICY).code == 0
    # A file that a plan names is no policy: nothing of it is shown.
    (folder / "secret.yaml").write_text("apiVersion: cloakwork/v1\nHIDDEN: value\n")
    named = (folder / "mine.json").read_text().replace(f'"{POLICY}"', '"secret.yaml"')
    (folder / "named.json").write_text(named)
    found = cloakwork("plan", folder / "named.json", folder / LOG)
    assert found.code != 0 and "has changed" in found.err and "HIDDEN" not in found.err
    for name, words in (("../mine.json", "is no path inside"), ("no.json", "no such file")):
        assert words in html.unescape(visitor.send("/plan", policy=name, log=LOG).text)


def test_pages_tell_the_truth_of_a_release_that_costs_nothing(visitor, folder, monkeypatch):
    """k-anonymity is paid for from no budget: what is stopped leaves nothing spent."""
    text = (ROOT / "policies" / "kanon-control-flow.yaml").read_text("utf-8")
    (folder / "k.yaml").write_text(text.replace("allow: [kanon/*", "allow: [kanon/best-first"))
    events = gzip.decompress((folder / LOG).read_bytes()).splitlines()[:600]
    (folder / LOG).write_bytes(gzip.compress(b"\n".join(events)))
    planned = visitor.result(visitor.send("/plan", policy="k.yaml", log=LOG))
    assert "charges the ledger" not in planned and "none bounds what it discloses" in planned
    heard = JobProgress.__call__

    def stop(self: JobProgress, message: str) -> None:
        if message.startswith("kanon/") and self._job.title.startswith("Apply"):
            self._job.stop.set()
        heard(self, message)

    with monkeypatch.context() as patch:
        patch.setattr(JobProgress, "__call__", stop)
        job = visitor.release("stopped", policy="k.yaml")
    assert (job.state, job.spends, job.problem) == ("cancelled", False, "nothing was written")
    assert "stays spent" not in visitor.get(f"/work/{job.id}").text
    job = visitor.release("out", policy="k.yaml")
    pages = [visitor.get(page).text for page in ("/", "/dataset?name=hospital-emergency")]
    for page in (visitor.get(f"/work/{job.id}").text, *pages):
        assert "is left of the budget" not in page and "its cost is spent" not in page
    for page in pages:
        assert "1 failed, which cost nothing" in page
        assert "no budget bounds what it discloses" in page


def test_a_budget_that_is_used_up_refuses(visitor, folder):
    """The plan says so already, with the exit code of the command line, and nothing is written."""
    text = (folder / POLICY).read_text("utf-8")
    once = re.sub(r"total: \{.*?\}", "total: {epsilon: 1.5, delta: 0.0001}", text)
    assert once != text
    (folder / POLICY).write_text(once)
    assert visitor.release("first").state == "done"
    job = visitor.job(visitor.send("/plan", policy=POLICY, log=LOG))
    assert (job.state, job.exit_code) == ("failed", 4)
    assert "left are epsilon 0.5" in visitor.get(f"/work/{job.id}").text
    assert len(visitor.state.ledger().history()) == 1


def test_work_is_listed_and_can_be_stopped(visitor):
    job = visitor.job(visitor.send("/plan", policy=POLICY, log=LOG))
    assert f'href="/work/{job.id}"' in visitor.get("/work").text
    assert visitor.send(f"/work/{job.id}/stop").headers["location"] == f"/work/{job.id}"
    assert job.stop.is_set()


def test_a_proposal_reads_the_log_as_the_form_says(visitor):
    """Columns, and what ``suggest --input`` takes."""
    rows = (
        f"p{n % 12};{step};0{1 + n % 9}.03.2024 1{n % 9}:00" for n in range(99) for step in "ab"
    )
    table = visitor.folder / "klinik.csv"
    table.write_text("\n".join(["A;B;C", *rows]), "utf-8")
    asked = {"log": table.name, "out": "klinik", "audience": "share"}
    said = {"case": "A", "activity": "B", "timestamp": "C", "time_format": "%d.%m.%Y %H:%M"}
    page = visitor.result(visitor.send("/suggest", **asked, **said, time_zone="Europe/Berlin"))
    assert "klinik.yaml is written" in page
    read = load_policy(visitor.folder / "klinik.yaml").spec.input
    assert read is not None
    assert (read.columns["concept:name"], read.time_zone) == ("B", "Europe/Berlin")
    assert read.time_format == said["time_format"]
    wrong = visitor.send("/suggest", **asked | {"out": "other"}, other_columns="Age")
    assert "is not case:NAME=COLUMN" in html.unescape(wrong.text)


def test_settings_beside_each_other(visitor):
    """Under differential privacy on a stand-in; charged nothing, and noted."""
    asked = {"policy": POLICY, "log": LOG, "sweep": "epsilon=.5", "cases": "60"}
    job = visitor.job(visitor.send("/compare", **asked))
    assert job.state == "done", job.problem
    page = visitor.get(f"/work/{job.id}").text
    assert not Links(page).inline
    assert "epsilon 0.5" in page
    cells = [html.unescape(each) for each in re.findall(r"<td[^>]*>(.*?)</td>", page)]
    assert any(re.fullmatch(r"[01]\.\d\d.*", cell) for cell in cells), cells
    assert not any("('" in cell for cell in cells), cells
    assert '<a href="/compare"' in visitor.get("/").text
    assert "stand-in" in page
    assert "Internal." not in page
    picture = visitor.get(f"/work/{job.id}/document")
    assert picture.headers["content-security-policy"] == REPORT_POLICY
    ledger = visitor.state.ledger()
    assert len(ledger.events("compared")) == 1
    assert ledger.history() == ()


def test_a_comparison_needs_a_policy(visitor):
    assert "no policy was chosen" in visitor.send("/compare", log=LOG).text


def test_what_is_known_of_a_stand_in(visitor):
    """The number of cases, and a profile of the folder; no page names an option of a command."""
    asked = {"policy": POLICY, "log": LOG, "sweep": "epsilon=.5"}
    shown = visitor.result(visitor.send("/compare", **asked, cases="40"))
    assert "number of cases" not in shown and "--" not in shown
    refusals: tuple[tuple[dict[str, str], str], ...] = (
        ({"cases": "many"}, "must be a whole number above 0, not"),
        ({"cases": "0"}, "must be a whole number above 0"),
        ({"profile": "none.json"}, "there is no such file"),
        ({"profile": POLICY}, "is not a profile of this version"),
    )
    for fields, words in refusals:
        answer = visitor.send("/compare", **asked, **fields)
        assert answer.status_code == 400 and words in answer.text


def test_other_work_has_no_page_of_its_own(visitor):
    job = visitor.job(visitor.send("/plan", policy=POLICY, log=LOG))
    assert "no page came of this work" in visitor.get(f"/work/{job.id}/document").text


def _ended(jobs: Jobs, job: Job) -> Job:
    jobs._threads[job.id].join(60)
    assert job.ended
    return job


def test_what_comes_of_a_job():
    jobs = Jobs()
    job = _ended(jobs, jobs.start("a title", lambda _: JobResult("x.html", {"a": 1})))
    assert (job.state, job.result.content) == ("done", {"a": 1})
    assert jobs.newest_first() == (job,)


def test_an_error_is_kept_with_its_exit_code():
    def work(_: JobProgress) -> JobResult:
        raise OutputError("x: cannot be written")

    jobs = Jobs()
    job = _ended(jobs, jobs.start("x", work))
    assert (job.state, job.problem, job.exit_code) == ("failed", "x: cannot be written", 1)


def test_a_fault_of_ours_is_one_line():
    def work(_: JobProgress) -> JobResult:
        raise ValueError("two\nlines")

    jobs = Jobs()
    job = _ended(jobs, jobs.start("x", work))
    assert job.problem == "internal error: ValueError: two (please report)"


def test_a_job_ends_at_its_next_step_when_it_is_asked_to():
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


def test_more_jobs_wait_for_those_that_run():
    go_on = Event()

    def work(_: JobProgress) -> JobResult:
        go_on.wait(60)
        return JobResult()

    jobs = Jobs()
    started = [jobs.start(str(number), work) for number in range(3)]
    go_on.set()
    assert {_ended(jobs, job).state for job in started} == {"done"}


def test_a_release_that_is_stopped_stays_spent(visitor, monkeypatch):
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
