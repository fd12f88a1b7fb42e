"""The compliance officer's day in a browser: from an unknown log to a release that verifies, and to
a budget that is used up, by the keyboard alone, in light and in dark.
"""

import os
import re
import shutil
from pathlib import Path

import pytest

if "CLOAKWORK_RUNS" not in os.environ:
    # The terminal tells the same story in the default run; the browser is not even loaded.
    pytest.skip("a browser: CLOAKWORK_RUNS=1", allow_module_level=True)

from axe_selenium_python import Axe
from selenium.webdriver.common.keys import Keys

from cloakwork import verify
from cloakwork.console import work
from cloakwork.console.server import ConsoleServer
from cloakwork.console.visits import ConsoleState, Workplace
from cloakwork.evaluation.compare import RehearsedForm
from cloakwork.plan.policies import load_policy
from cloakwork.publishing.keys import signing_key, trust
from conftest import EXAMPLES, ROOT, SHARED
from console import conftest  # noqa: F401 - skips where the console is not installed
from console.conftest import served
from console.keyboard import Keyboard, keyboard, needs_chromium
from walk.steps import WalkedLog, require

MONTHS = (
    WalkedLog(EXAMPLES / "hospital.csv.gz", "1 month", ("2023-01", "2023-02")),
    WalkedLog(SHARED / "logs" / "sepsis.xes.gz", "1 month", ("2014-01", "2014-02")),
    WalkedLog(SHARED / "logs" / "receipt.xes.gz", "1 month", ("2010-11", "2010-12")),
    WalkedLog(
        SHARED / "logs" / "bpic2020_domestic_declarations.xes.gz", "1 month", ("2018-01", "2018-02")
    ),
    WalkedLog(SHARED / "logs" / "bpic2013_incidents.xes.gz", "1 month", ("2012-04", "2012-05")),
    WalkedLog(SHARED / "logs" / "bpic2015_1.xes.gz", "1 month", ("2012-01", "2012-02")),
)


@pytest.fixture(params=MONTHS, ids=str)
def log(request):
    """The shipped log, and real ones."""
    require(request.param)
    return request.param


@pytest.fixture
def folder(tmp_path, log):
    """A folder with a log, and nothing else."""
    place = tmp_path / "emergency"
    place.mkdir()
    shutil.copy(log.path, place)
    return place


@pytest.fixture
def server(folder):
    """The console of that folder."""
    state = ConsoleState(Workplace.at(folder), str(folder.parent / "ledger.db"))
    with served(ConsoleServer(state, 0, say=lambda _: None)) as found:
        yield found


@pytest.fixture
def officer(tmp_path, monkeypatch):
    """The key of a second person, which counts here."""
    with monkeypatch.context() as patch:
        patch.setenv("CLOAKWORK_HOME", str(tmp_path / "officer"))
        made = signing_key()
        assert made.public_file is not None
        (private,) = [
            path
            for path in (tmp_path / "officer").rglob("*.pem")
            if b"PRIVATE" in path.read_bytes()
        ]
    trust(made.public_file, "Bob Officer", approves=True)
    return private


@needs_chromium
def test_the_whole_day(server, folder, log, officer, monkeypatch):
    """Suggest, edit, lint, add, approve, compare, plan, apply, report, verify, pack; a second
    release that the budget refuses; and the next window.
    """
    first, renewed = log.windows
    with keyboard() as keys:
        keys.driver.get(server.link)
        keys.arrive("Datasets")
        _suggest(keys)
        _edit(keys, folder)
        _lint(keys)
        _add_and_approve(keys, officer, monkeypatch)
        _compare(keys, first)
        _release(keys, "er@0.1.1", first)
        _look_at_the_release(keys)
        _second_release_is_refused(keys, first)
        _release(keys, "er@0.1.1", renewed)
        _see_what_is_left(keys, renewed)
        refused = "/registry/approve - Failed to load resource: the server responded with a status"
        assert [error for error in keys.errors() if refused not in error] == []
    assert verify(folder / "send.zip").statement.policy.version == "0.1.1"
    records = server.state.ledger().history("er")
    assert [(record.window, record.state) for record in records] == [
        (first, "committed"),
        (renewed, "committed"),
    ]
    assert all("approval" in record.details for record in records)


def _suggest(keys: Keyboard) -> None:
    keys.follow("Choose a log")
    keys.arrive("Logs")
    keys.follow("Propose a policy")
    keys.arrive("Propose a policy")
    keys.fill("#out", "er")
    keys.fill("#audience", "everybody")
    keys.fill("#dataset", "er")
    keys.fill("#owner", "Ann Author")
    keys.fill("#purpose", "a study of waiting times")
    # Trying the forms takes minutes on some of these logs.
    keys.go_to("[name=try]")
    keys.press(Keys.SPACE, Keys.ENTER)
    keys.arrive("Proposed")
    assert "time:timestamp" in keys.ask("document.body.innerText")
    keys.follow("Read and change it")
    keys.arrive("er.yaml")


def _edit(keys: Keyboard, folder: Path) -> None:
    """A slip is marked at its line as one types; completion writes a key; saving writes the
    file.
    """
    _caret_to(keys, r"version: 0.1.0$")
    keys.press("x")
    keys.until(lambda: "1 to correct" in keys.ask("document.getElementById('findings').innerText"))
    line = keys.ask("document.querySelector('#numbers .fault').textContent")
    keys.follow(f"line {line}")
    assert keys.ask("document.activeElement.id") == "text"
    keys.press(Keys.END, Keys.BACKSPACE, Keys.BACKSPACE, "1")
    _caret_to(keys, r"total: .*$")
    keys.press(Keys.ENTER, "win")
    keys.chord(Keys.CONTROL, Keys.SPACE)
    keys.until(lambda: keys.ask("document.activeElement.innerText.startsWith('windows')"))
    keys.press(Keys.ENTER)
    keys.press("{by: case-start, every: 1 month}")
    _caret_to(keys, r"total: \{epsilon: 4\.0, delta: 4\.0e-6\}")
    keys.press(Keys.HOME)
    keys.chord(Keys.SHIFT, Keys.END)
    keys.press("    total: {epsilon: 1.5, delta: 1.0e-5}")
    keys.until(lambda: "Valid: er 0.1.1" in keys.ask("document.body.innerText"))
    keys.push("Save")
    keys.until(lambda: "saved" in keys.driver.current_url)
    keys.arrive("er.yaml")
    written = load_policy(folder / "er.yaml")
    assert written.metadata.version == "0.1.1"
    assert written.spec.budget.windows is not None


def _caret_to(keys: Keyboard, pattern: str) -> None:
    """Move the caret to the end of the first line that fits, by the arrow keys."""
    keys.go_to("#text")
    lines = keys.ask("document.getElementById('text').value").split("\n")
    place = next(number for number, line in enumerate(lines) if re.search(pattern, line))
    keys.chord(Keys.CONTROL, Keys.HOME)
    keys.press(Keys.DOWN * place, Keys.END)


def _lint(keys: Keyboard) -> None:
    keys.push("Advice beside this log")
    keys.arrive("Advice")
    assert "Internal." in keys.ask("document.body.innerText")
    keys.follow("Change the policy")
    keys.arrive("er.yaml")


def _add_and_approve(keys: Keyboard, officer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dataset takes approved policies alone; its author's own approval is refused."""
    keys.fill("#author", "Ann Author")
    keys.fill("#reason", "first version")
    keys.press(Keys.ENTER)
    keys.arrive("er@0.1.1")
    assert "none yet" in keys.ask("document.body.innerText")
    keys.fill("#approver", "Ann Author")
    keys.fill("#approve-reason", "it is mine")
    keys.press(Keys.ENTER)
    keys.arrive("Not done")
    assert "an author cannot approve" in keys.ask("document.body.innerText")
    keys.driver.back()
    keys.arrive("er@0.1.1")
    monkeypatch.setenv("CLOAKWORK_SIGNING_KEY", str(officer))
    keys.fill("#approver", "Bob Officer")
    keys.fill("#approve-reason", "checked with the owner")
    keys.press(Keys.ENTER)
    keys.until(lambda: "checked with the owner" in keys.ask("document.body.innerText"))
    monkeypatch.delenv("CLOAKWORK_SIGNING_KEY")
    assert keys.ask("document.querySelector('h1 .tag').innerText") == "approved"
    keys.follow("Datasets")
    keys.arrive("Datasets")
    keys.unfold("Declare a dataset")
    keys.fill("#name", "er")
    keys.fill("#owner", "Emergency ward")
    keys.go_to("[name=require_approval]")
    keys.press(Keys.SPACE)
    keys.push("Declare")
    keys.arrive("er · ")
    assert "only approved policies" in keys.ask("document.body.innerText")


def _compare(keys: Keyboard, window: str) -> None:
    keys.follow("Policies")
    keys.arrive("Policies")
    keys.follow("Compare on a log")
    keys.arrive("Compare settings")
    keys.go_to("[name=policy][value='er@0.1.1']")
    keys.press(Keys.SPACE)
    keys.fill("#window", window)
    keys.press(Keys.ENTER)
    keys.arrive("Settings beside each other")
    text = keys.ask("document.body.innerText")
    assert "stand-in" in text
    assert "refused" not in text


def _release(keys: Keyboard, policy: str, window: str) -> None:
    _plan(keys, policy, window)
    keys.arrive("The plan")
    keys.push("Apply")
    keys.arrive("Released")
    assert "Never publish" in keys.ask("document.body.innerText")


def _plan(keys: Keyboard, policy: str, window: str) -> None:
    keys.follow("Plan")
    keys.arrive("Plan · ")
    keys.fill("#policy", policy)
    keys.fill("#window", window)
    keys.press(Keys.ENTER)


def _look_at_the_release(keys: Keyboard) -> None:
    """The report is a page of its own, in which no script runs; both files verify."""
    keys.follow("Report, verify, pack")
    keys.arrive("release-er-1")
    console = keys.driver.current_window_handle
    keys.follow("For everybody")
    keys.until(lambda: len(keys.driver.window_handles) == 2)
    (report,) = set(keys.driver.window_handles) - {console}
    keys.driver.switch_to.window(report)
    keys.until(lambda: "er 0.1.1" in keys.ask("document.body.innerText"))
    keys.driver.close()
    keys.driver.switch_to.window(console)
    keys.push("Verify")
    keys.arrive("Verification")
    assert "verified, " in keys.ask("document.querySelector('h2').innerText")
    keys.driver.back()
    keys.until(lambda: keys.driver.title.startswith("release-er-1"))
    _attack(keys)
    keys.fill("#out", "send.zip")
    keys.press(Keys.ENTER)
    keys.arrive("Packed")
    keys.follow("Releases")
    keys.arrive("Releases")
    keys.push("Verify send.zip")
    keys.arrive("Verification")
    assert "internal folder" not in keys.ask("document.body.innerText")


def _attack(keys: Keyboard) -> None:
    """The risk in the log, as the release of this window may hold nobody; and the way back."""
    keys.follow("Re-identification risk")
    keys.arrive("Re-identification risk")
    keys.fill("#release", "none")
    keys.fill("#targets", "100")
    keys.push("Attack")
    keys.arrive("What was found")
    assert "Internal." in keys.ask("document.body.innerText")
    keys.follow("Releases")
    keys.arrive("Releases")
    keys.follow("release-er-1")
    keys.until(lambda: keys.driver.title.startswith("release-er-1"))


def _second_release_is_refused(keys: Keyboard, window: str) -> None:
    _plan(keys, "er@0.1.1", window)
    keys.until(lambda: "is exhausted" in keys.ask("document.body.innerText"))
    keys.arrive("Plan er@0.1.1")
    assert f"window {window}" in keys.ask("document.body.innerText")


def _see_what_is_left(keys: Keyboard, window: str) -> None:
    keys.follow("What is left of the budget")
    keys.arrive("er · ")
    text = keys.ask("document.body.innerText")
    assert "epsilon 0.5, delta 9e-06 left" in text
    assert f"Window {window}" in text
    keys.follow("Work")
    keys.arrive("Work")


def _text(keys: Keyboard) -> str:
    return keys.ask("document.getElementById('text').value")


def _no_violations(keys: Keyboard) -> None:
    axe = Axe(keys.driver)
    axe.inject()
    found = axe.run()["violations"]
    assert found == [], [(each["id"], each["nodes"][0]["html"]) for each in found]


@needs_chromium
def test_another_form_is_taken(tmp_path, monkeypatch):
    """From the table of forms into the editor, whose policy says that it was chosen."""
    tried = lambda _, forms, *__: tuple(RehearsedForm(name=each) for each in forms)  # noqa: E731
    monkeypatch.setattr(work, "rehearsed", tried)
    shutil.copy(EXAMPLES / "hospital.csv.gz", tmp_path)
    state = ConsoleState(Workplace.at(tmp_path), str(tmp_path / "ledger.db"))
    with served(ConsoleServer(state, 0, say=lambda _: None)) as server, keyboard() as keys:
        keys.driver.get(server.link)
        keys.arrive("Datasets")
        keys.follow("Logs")
        keys.arrive("Logs")
        keys.follow("Propose a policy")
        keys.arrive("Propose a policy")
        _no_violations(keys)
        keys.fill("#out", "mine")
        keys.press(Keys.ENTER)
        keys.arrive("Proposed")
        _no_violations(keys)
        keys.push("Take whole-log-dp")
        keys.arrive("mine.yaml")
        _no_violations(keys)
        assert "chosen: whole-log-dp" in _text(keys)
        keys.fill("[name^='answer ']", "0..120")
        keys.press(Keys.TAB)
        keys.until(lambda: "range: [0, 120], type: integer" in _text(keys))
        assert keys.errors() == []


@needs_chromium
def test_a_policy_is_edited_as_a_form(tmp_path):
    """Text and form stay equal whichever is changed; a number is measured beside its slider; and a
    plan is saved, opened, compared and applied. Every page without a violation.
    """
    folder = tmp_path / "ward"
    folder.mkdir()
    shutil.copy(EXAMPLES / "hospital.csv.gz", folder)
    shutil.copy(ROOT / "policies" / "dp-control-flow.yaml", folder / "p.yaml")
    state = ConsoleState(Workplace.at(folder), str(tmp_path / "ledger.db"))
    with served(ConsoleServer(state, 0, say=lambda _: None)) as server, keyboard() as keys:
        keys.driver.get(server.link)
        keys.arrive("Datasets")
        keys.follow("Policies")
        keys.arrive("Policies")
        keys.follow("p.yaml")
        keys.arrive("p.yaml")
        _no_violations(keys)
        before = _text(keys)
        # The form writes into the text, and Ctrl+Z takes it back.
        keys.fill("#number-1", "2")
        keys.press(Keys.TAB)
        keys.until(lambda: "epsilon: 2 " in _text(keys))
        assert keys.ask("document.activeElement.id") == "slider-1"
        keys.go_to("#slider-1")
        keys.press(Keys.ARROW_RIGHT * 5)
        number = keys.until(lambda: keys.ask("document.getElementById('number-1').value"))
        keys.until(lambda: f"epsilon: {number} " in _text(keys))
        keys.go_to("#field-3-1")
        keys.press("sens", Keys.TAB)
        keys.until(lambda: "{role: sensitive, treatment: drop}" in _text(keys))
        assert "Valid: dp-control-flow" in keys.ask("document.body.innerText")
        keys.go_to("#text")
        for _ in range(30):
            keys.chord(Keys.CONTROL, "z")
        keys.until(lambda: _text(keys) == before)
        # The text writes into the form.
        _caret_to(keys, r"^ *epsilon: 1")
        keys.press(Keys.HOME)
        keys.chord(Keys.SHIFT, Keys.END)
        keys.press("      epsilon: 4")
        keys.until(lambda: keys.ask("document.getElementById('number-1').value") == "4")
        keys.push("Measure less and more")
        beside = "document.getElementById('beside-1').innerText"
        keys.until(lambda: "Measured at 4" in keys.ask(beside))
        keys.fill("#number-1", "1")
        keys.press(Keys.TAB)
        keys.until(lambda: "Measured at 1" in keys.ask(beside))
        assert "Cases found in one run: " in keys.ask(beside)
        _no_violations(keys)
        keys.push("Save")
        keys.until(lambda: "saved" in keys.driver.current_url)
        assert load_policy(folder / "p.yaml").goals()[0].epsilon == 1
        _plan(keys, "p.yaml", "")
        keys.arrive("The plan")
        _no_violations(keys)
        keys.fill("#plan-out", "mine")
        keys.press(Keys.ENTER)
        keys.until(lambda: "mine.json is saved" in keys.ask("document.body.innerText"))
        _no_violations(keys)
        keys.follow("Compare mine.json")
        keys.arrive("What changed")
        keys.push("Compare")
        keys.until(lambda: "What each gives" in keys.ask("document.body.innerText"))
        _no_violations(keys)
        _plan(keys, "mine.json", "")
        keys.arrive("The plan")
        keys.push("Apply")
        keys.arrive("Released")
        _no_violations(keys)
        assert keys.errors() == []
    assert verify(next(folder.glob("release-*"))).statement.policy.name == "dp-control-flow"
