"""The policies that a page can name: files of the folder, and versions of the registry."""

import getpass
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from cloakwork.authoring.registry import Registry, is_reference
from cloakwork.authoring.sources import PolicySource
from cloakwork.base.errors import CloakworkError
from cloakwork.base.progress import silent
from cloakwork.console.jobs import Job, JobProgress, JobResult, Jobs
from cloakwork.console.workplace import POLICY_ENDINGS, OutsideFolder, Workplace, read_policy_text
from cloakwork.ledger.ledger import Ledger
from cloakwork.report.html import templates_of

if TYPE_CHECKING:
    from jinja2 import Environment


MOST_BYTES: Final = 4_000_000
"""Of a form: a policy of a million bytes, each of them escaped, and the rest."""

FORM_TOKEN: Final = "form_token"  # noqa: S105 - a field's name


@dataclass(frozen=True, slots=True)
class ConsoleState:
    """What the console works with: a folder, a ledger by its address, and work in progress."""

    workplace: Workplace
    ledger_url: str | None
    jobs: Jobs = field(default_factory=Jobs)

    def ledger(self, notice: Callable[[str], None] | None = None) -> Ledger:
        """The ledger, opened for one request or one job."""
        # A new ledger is made by jobs alone, which tell of it themselves.
        return Ledger(self.ledger_url, notice=notice or silent)


@dataclass(frozen=True, slots=True)
class Visit:
    """One request: what it asks for, and the fields of the form that it sends."""

    state: ConsoleState
    request: Request
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def workplace(self) -> Workplace:
        """The console's folder."""
        return self.state.workplace

    def asked(self, name: str) -> str:
        """A value of the address after the question mark; empty without one."""
        return str(self.request.query_params.get(name, ""))

    def sent(self, name: str) -> str:
        """A field of the form, without blanks around it; empty without one."""
        values = self.fields.get(name, ())
        return values[0].strip() if values else ""

    def page(self, template: str, status: int = 200, **content: object) -> Response:
        """A page of the console."""
        shown = {
            "form_token": self.request.state.form_token,
            "folder": self.workplace.label,
            "root": str(self.workplace.root),
            "path": self.request.url.path,
            "part": _part_of(self.request.url.path),
            "working": sum(not job.ended for job in self.state.jobs.newest_first()),
        }
        text = page_templates().get_template(template).render(shown | content)
        # The console's folder stands in each link. What is not of the templates has no ``"`` left,
        # and so is no link.
        linked = _LINK.sub(rf"\g<1>{self.request.state.below}/", text)
        return HTMLResponse(linked, status)

    def problem(self, error: CloakworkError) -> Response:
        """What went wrong, one line a problem."""
        lines = self.workplace.in_own_names(str(error)).splitlines()
        return self.page("problem.html", 400, lines=lines, code=error.exit_code)

    def begin(
        self, title: str, work: Callable[[JobProgress], JobResult], *, spends: bool = False
    ) -> Response:
        """Start a job, and go to the page that follows it."""
        worded = self.workplace.in_own_names
        return go(job_page(self.state.jobs.start(title, work, spends=spends, worded=worded)))


_PARTS: Final = {
    "dataset": "/",
    "policy": "/policies",
    "diff": "/policies",
    "registry": "/policies",
    "suggest": "/logs",
    "apply": "/plan",
    "release": "/releases",
    "risk": "/releases",
    "packed": "/releases",
    "work": "/work",
}
"""Under which entry of the navigation a page lies, by the first word of its address."""


def _part_of(path: str) -> str:
    return _PARTS.get(path.split("/")[1], path)


Page = Callable[[Visit], Response]


def go(address: str) -> Response:
    """Send the reader to another page of the console, which is fetched anew."""
    return RedirectResponse(address, 303)


def job_page(job: Job) -> str:
    """Where a job is followed."""
    return f"/work/{job.id}"


def address(path: str, **query: str) -> str:
    """A page's address with what it is about, each value escaped."""
    given = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


_LINK: Final = re.compile(r'( (?:href|action|formaction|src|data-follow|data-schema)=")/(?!/)')


def user_name() -> str:
    """Who started the console, as the machine knows them; empty where it does not."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return ""


async def form_of(request: Request) -> dict[str, tuple[str, ...]]:
    """The fields of a form; raises CloakworkError where it is too large or is none."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise CloakworkError("what was sent is no form of the console")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise CloakworkError("what was sent is too large for a form of the console")
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=1000)
    except ValueError as error:
        raise CloakworkError("what was sent cannot be read as a form") from error
    found: dict[str, tuple[str, ...]] = {}
    for name, value in pairs:
        found[name] = (*found.get(name, ()), value)
    return found


@cache
def page_templates() -> "Environment":
    """The templates of the console; everything that they are given is escaped."""
    environment = templates_of("cloakwork.console")
    environment.globals["address"] = address
    environment.filters["shown"] = shown
    return environment


def shown(text: object) -> str:
    """Text from outside without letters that a browser would obey, such as those that turn the
    direction of writing: they are shown by their code.
    """
    return "".join(
        letter if letter.isprintable() or letter == "\n" else ascii(letter)[1:-1]
        for letter in str(text)
    )


def policy_names(visit: Visit) -> tuple[str, ...]:
    """The versions of the registry that are not revoked, the newest first; then the files."""
    versions = Registry(visit.state.ledger()).versions()
    kept = [each.reference for each in versions if each.state != "revoked"]
    return (*reversed(kept), *visit.workplace.look().policies)


def policy_source(visit: Visit, name: str) -> PolicySource:
    """The policy that a page names; its errors call it so.

    Raises OutsideFolder where it is neither a version nor a file of the folder.
    """
    if is_reference(name) and not name.lower().endswith(POLICY_ENDINGS):
        return PolicySource(Registry(visit.state.ledger()).get(name).text, name, None)
    path = policy_file(visit, name)
    return PolicySource(read_policy_text(path), name, path)


def policy_file(visit: Visit, name: str) -> Path:
    """The path of a policy file of the folder; raises OutsideFolder where it is none."""
    if not name.lower().endswith(POLICY_ENDINGS):
        raise OutsideFolder(f"{name}: is no policy file, which ends in .yaml")
    return visit.workplace.existing_file(name)
