"""All pages: that they are there, ask nobody else for anything, and escape what they show. The
server: where it listens, what it says, and how it ends.
"""

import shutil
import socket
import sys
import webbrowser
from html.parser import HTMLParser
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote

import pytest

from cloakwork.cli import main
from cloakwork.console import datasets
from cloakwork.console.server import LOOPBACK, SHOWN, ConsoleServer
from cloakwork.console.visits import ConsoleState, Workplace, page_templates
from cloakwork.errors import OutputError
from cloakwork.ledger.ledger import ReservationRequest
from console.conftest import LOG, POLICY, Visitor, served

HOSTILE = "<x-mark onclick=alert(1)>\"'&{{7*7}}\u202eevil"
"""A name that would be an element, end an attribute, be a template, or turn the writing."""


class Links(HTMLParser):
    """Collects what a page refers to, its elements, and what would run in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.urls: list[str] = []
        self.elements: set[str] = set()
        self.inline: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """One element."""
        self.elements.add(tag)
        given = dict(attrs)
        for name, value in given.items():
            if name in ("href", "src", "action", "formaction", "data", "poster", "srcset"):
                self.urls.append(value or "")
            if name.startswith("on") or name == "style":
                self.inline.append(f"{tag} {name}")
        if tag == "style" or (tag == "script" and "src" not in given):
            self.inline.append(tag)


def addresses(folder: str = "release", policy: str = POLICY) -> list[str]:
    """Every page, about something that is there."""
    about = {
        "/dataset": "?name=" + quote("hospital-emergency"),
        "/policy": f"?file={quote(policy)}",
        "/release": f"?folder={quote(folder)}",
        "/diff": f"?old={quote(policy)}&new={quote(policy)}",
        "/registry/version": "?of=dp-control-flow@1.0.0",
        "/suggest": f"?log={quote(LOG)}",
    }
    beside = ("/policy/schema", *(path for path in SHOWN if "{job}" in path))
    apart = ("/release/report", "/packed")
    return [path + about.get(path, "") for path in SHOWN if path not in (*beside, *apart)]


def test_every_page_asks_only_the_console_and_runs_nothing_inline(visitor):
    """No address of another host, no inline script or style: the content policy forbids both."""
    assert visitor.release("release").state == "done"
    assert visitor.send("/registry/add", file=POLICY, author="Ann").status_code == 303
    jobs = [f"/work/{job.id}" for job in visitor.state.jobs.newest_first()]
    for path in [*addresses(), *jobs]:
        answer = visitor.get(path)
        assert answer.status_code == 200, (path, answer.text)
        page = Links(answer.text)
        assert page.urls, path
        outside = [url for url in page.urls if not url.startswith(("/", "#")) or url[:2] == "//"]
        assert not outside, path
        assert not page.inline, path


def test_names_from_outside_are_shown_and_nothing_else(folder):
    """Names of files, of a dataset, an owner and attributes are text in every page."""
    text = (folder / POLICY).read_text("utf-8")
    quoted = HOSTILE.replace('"', '\\"').replace("\u202e", "\\u202e")
    for field in ("owner", "purpose"):
        lines = text.splitlines()
        text = "\n".join(
            f'  {field}: "{quoted}"' if line.startswith(f"  {field}:") else line for line in lines
        )
    named = f"{HOSTILE}.yaml"
    (folder / named).write_text(text, "utf-8")
    (folder / f"{HOSTILE}.csv").write_text(
        f'case:concept:name,concept:name,time:timestamp,"{HOSTILE.replace(chr(34), "")}"\n'
        "a,b,2024-01-01T00:00:00Z,1\n"
    )
    visitor = Visitor(folder).enter()
    visitor.state.ledger().reserve(
        ReservationRequest(dataset=HOSTILE, policy=HOSTILE, charges=(), note=HOSTILE)
    )
    job = visitor.release("release-x-mark", policy=named)
    assert job.state == "done", job.problem
    plain = HOSTILE.replace("\u202e", "")
    added = visitor.send("/registry/add", file=named, author=plain, reason=plain)
    assert added.status_code == 303, added.text
    shutil.copytree(folder / "release-x-mark", folder / f"{HOSTILE}-release")
    visitor.result(
        visitor.send("/suggest", log=f"{HOSTILE}.csv", out="suggested", audience="share")
    )
    visitor.result(visitor.send("/release/verify", folder=f"{HOSTILE}-release"))
    jobs = [f"/work/{job.id}" for job in visitor.state.jobs.newest_first()]
    hostile = f"/dataset?name={quote(HOSTILE)}"
    pages = addresses(f"{HOSTILE}-release", named)
    missing = f"/policy?file={quote('missing' + HOSTILE + '.yaml')}"
    seen = 0
    for path in [*(each for each in pages if "/dataset?" not in each), hostile, *jobs, missing]:
        answer = visitor.get(path)
        found = Links(answer.text)
        assert "x-mark" not in found.elements, path
        assert not found.inline, path
        assert not [url for url in found.urls if not url.startswith(("/", "#"))], path
        assert "&49" not in answer.text, path
        seen += "&lt;x-mark" in answer.text
    assert seen >= 12


def test_what_turns_the_writing_is_not_shown():
    """It stays in the value that a form sends back, where nobody reads it."""
    text = page_templates().from_string("<p>{{ name|shown }}</p>").render(name=HOSTILE)
    assert "\u202e" not in text
    assert "\\u202eevil" in text


def test_a_fault_of_ours_is_one_line(visitor, monkeypatch, capsys):
    """The traceback goes to the terminal, not into the page."""

    def fail(*_: object) -> None:
        raise ValueError("two\nlines <x-mark>")

    monkeypatch.setattr(datasets, "altered", fail)
    answer = visitor.get("/")
    assert answer.status_code == 400
    assert "internal error: ValueError: two lines &lt;x-mark&gt; (please report)" in answer.text
    assert "Traceback" not in answer.text
    assert "Traceback" in capsys.readouterr().err


def test_there_is_no_such_page(visitor):
    for path in ("/nothing", "/work/99", "/static/../guard.py", "/static/%2e%2e/guard.py"):
        answer = visitor.get(path)
        assert answer.status_code in (400, 404), path
        assert "import" not in answer.text


def _server(folder: Path, said: list[str], port: int = 0) -> ConsoleServer:
    return ConsoleServer(ConsoleState(Workplace.at(folder), None), port, say=said.append)


def _answer(port: int, path: str, cookie: str = "") -> tuple[int, str, str]:
    connection = HTTPConnection(LOOPBACK, port, timeout=60)
    connection.request("GET", path, headers={"cookie": cookie} if cookie else {})
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text, response.getheader("set-cookie", "")


def test_the_link_opens_the_console_on_loopback_alone(tmp_path):
    said: list[str] = []
    with served(_server(tmp_path, said)) as server:
        path = server.link.removeprefix(f"http://127.0.0.1:{server.port}")
        assert _answer(server.port, "/")[0] == 403
        status, _, cookie = _answer(server.port, path)
        assert status == 200
        assert _answer(server.port, "/", cookie.partition(";")[0])[0] == 403
        below = f"{server.sessions.folder}/"
        status, page, _ = _answer(server.port, below, cookie.partition(";")[0])
        assert status == 200
        assert "Nothing is released yet" in page
        assert server._socket.getsockname()[0] == "127.0.0.1"
    assert said[0].endswith(path)


def test_a_port_that_is_taken_is_said(tmp_path):
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OutputError, match=f"port {port}: cannot be used"):
            _server(tmp_path, [], port)


def test_a_browser_is_opened_unless_it_is_not_wanted(tmp_path, monkeypatch):
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    for wanted in (True, False):
        server = _server(tmp_path, [])
        monkeypatch.setattr(server._server, "run", lambda sockets: None)
        server.run(browser=wanted)
    assert len(opened) == 1
    assert "/open?token=" in opened[0]


def test_what_was_typed_wrong(tmp_path, capsys):
    """One line each, and the exit codes of all commands."""
    assert main(["console", "--no-browser", "--folder", str(tmp_path / "missing")]) == 1
    assert "there is no such folder" in capsys.readouterr().err
    assert main(["console", "--port", "99999"]) == 2
    assert main(["console", "--ledger", "mysql://x/y", "--folder", str(tmp_path)]) == 1
    assert "SQLite or Postgres" in capsys.readouterr().err


def test_without_the_extra_it_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "cloakwork.console.server", raising=False)
    assert main(["console", "--folder", str(tmp_path)]) == 1
    err = capsys.readouterr().err
    assert err == "the console needs the package 'uvicorn'; install cloakwork[console]\n"
