"""A console on a small folder, asked without a browser."""

import re
import shutil
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from conftest import EXAMPLES, ROOT

pytest.importorskip("starlette", reason="the console: pip install 'cloakwork[console]'")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the test client, about a package that may replace httpx
    from starlette.testclient import TestClient

from httpx import Response

from cloakwork.console.guard import BrowserSessions
from cloakwork.console.server import ConsoleServer, application
from cloakwork.console.visits import ConsoleState, Job, Workplace

PORT = 8123
ADDRESS = f"http://127.0.0.1:{PORT}"
POLICY, LOG = "dp-control-flow.yaml", "hospital.csv.gz"


class Visitor:
    """Asks a console for pages, and sends its forms; ``links``: what its terminal showed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = ConsoleState(Workplace.at(folder), str(folder / "ledger.db"))
        self.links: list[str] = []
        self.sessions = BrowserSessions(self.links.append)
        self.application = application(self.state, self.sessions, PORT)
        below = f"{ADDRESS}{self.sessions.folder}"
        self.client = TestClient(self.application, base_url=below, headers={"origin": ADDRESS})

    def enter(self) -> "Visitor":
        """Open the link."""
        assert self.get(f"/open?token={self.sessions.token}").status_code == 200
        return self

    @property
    def form_token(self) -> str:
        """What the forms of the session hold."""
        found = re.search('name="form_token" value="([^"]+)"', self.get("/plan").text)
        assert found is not None
        return found[1]

    def get(self, path: str, **options: object) -> Response:
        """A page; its links, and all paths, are without the random folder."""
        at_root = ADDRESS if path.partition("?")[0] == "/open" else ""
        return self._without_folder(self.client.get(at_root + path, **options))

    def send(self, path: str, **fields: str) -> Response:
        """Send a form with the session's token; where it leads is not followed."""
        fields = {"form_token": self.form_token} | fields
        return self._without_folder(self.client.post(path, data=fields, follow_redirects=False))

    def _without_folder(self, answer: Response) -> Response:
        answer._content = answer.content.replace(self.sessions.folder.encode(), b"")
        for name in {"location"} & set(answer.headers):
            answer.headers[name] = answer.headers[name].removeprefix(self.sessions.folder)
        return answer

    def job(self, answer: Response) -> Job:
        """The job that a form began, when it has ended."""
        assert answer.status_code == 303, answer.text
        job = self.state.jobs.get(answer.headers["location"].removeprefix("/work/"))
        assert job is not None
        deadline = time.monotonic() + 60
        while not job.ended:
            assert time.monotonic() < deadline, job.messages
            job.stop.wait(0.01)
        return job

    def result(self, answer: Response) -> str:
        """The page that shows what came of the job that a form began."""
        job = self.job(answer)
        assert job.state == "done", job.problem
        return self.get(f"/work/{job.id}").text

    def release(self, out: str, policy: str = POLICY, window: str = "") -> Job:
        """Plan and apply, as the pages do."""
        asked = {"policy": policy, "log": LOG, "window": window}
        planned = self.result(self.send("/plan", **asked))
        digest = re.search('name="digest" value="([^"]+)"', planned)
        assert digest is not None
        return self.job(self.send("/apply", **asked, digest=digest[1], out=out))


@pytest.fixture
def folder(tmp_path):
    """A folder with a policy and a log."""
    place = tmp_path / "work"
    place.mkdir()
    shutil.copy(ROOT / "policies" / POLICY, place)
    shutil.copy(EXAMPLES / LOG, place)
    return place


@pytest.fixture
def visitor(folder):
    """Somebody whose session is open."""
    found = Visitor(folder).enter()
    yield found
    found.state.jobs.stop_all(60)


@contextmanager
def served(server: ConsoleServer) -> Iterator[ConsoleServer]:
    """A console that answers while the block runs, from a thread of this process."""
    thread = Thread(target=server.run, kwargs={"browser": False}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(60)
        assert not thread.is_alive()
