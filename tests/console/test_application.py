"""All pages: that they are there, ask nobody else for anything, and escape what they show."""

import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest

from cloakwork.console import datasets
from cloakwork.console.server import SHOWN
from cloakwork.console.visits import page_templates
from cloakwork.ledger.ledger import ReservationRequest
from console.conftest import LOG, POLICY, Visitor

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


def test_every_page_asks_only_the_console_and_runs_nothing_inline(visitor: Visitor) -> None:
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


def test_names_from_outside_are_shown_and_nothing_else(folder: Path) -> None:
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


def test_what_turns_the_writing_is_not_shown() -> None:
    """It stays in the value that a form sends back, where nobody reads it."""
    text = page_templates().from_string("<p>{{ name|shown }}</p>").render(name=HOSTILE)
    assert "\u202e" not in text
    assert "\\u202eevil" in text


def test_a_fault_of_ours_is_one_line(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The traceback goes to the terminal, not into the page."""

    def fail(*_: object) -> None:
        raise ValueError("two\nlines <x-mark>")

    monkeypatch.setattr(datasets, "altered", fail)
    answer = visitor.get("/")
    assert answer.status_code == 400
    assert "internal error: ValueError: two lines &lt;x-mark&gt; (please report)" in answer.text
    assert "Traceback" not in answer.text
    assert "Traceback" in capsys.readouterr().err


def test_there_is_no_such_page(visitor: Visitor) -> None:
    for path in ("/nothing", "/work/99", "/static/../guard.py", "/static/%2e%2e/guard.py"):
        answer = visitor.get(path)
        assert answer.status_code in (400, 404), path
        assert "import" not in answer.text
