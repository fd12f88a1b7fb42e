"""The one folder whose files the console shows and writes: policies, logs, releases, packed files;
and the policies that a page can name: files of the folder, and versions of the registry.

No path that a form sends leads out of it, by ``..``, by an absolute path or by a symbolic link.
"""

import itertools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path
from threading import Event, Lock, Semaphore, Thread
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from cloakwork.authoring.registry import PolicySource, Registry, is_reference, saved_policy
from cloakwork.base.errors import CloakworkError, OutputError, first_line
from cloakwork.base.files import replace_file
from cloakwork.base.frozen import frozen
from cloakwork.base.progress import silent
from cloakwork.base.text import printable
from cloakwork.ledger.ledger import Ledger
from cloakwork.policy.load import read_policy_text
from cloakwork.report.failures import notes_of
from cloakwork.report.html import templates_of
from cloakwork.report.texts import threshold_lines

DEEPEST: Final = 3
"""Folders below the console's own that are looked through."""

MOST_ENTRIES: Final = 5000
"""Entries of folders that are looked at for one page."""

LOG_ENDINGS: Final = (
    ".xes",
    ".xes.gz",
    ".csv",
    ".csv.gz",
    ".parquet",
    ".pq",
    ".xlsx",
    ".xlsm",
    ".jsonocel",
    ".xmlocel",
    ".sqlite",
    ".sqlite3",
)
_OBJECT_CENTRIC: Final[dict[str, tuple[bytes, ...]]] = {
    ".json": (b'"objectTypes"', b'"eventTypes"', b'"relationships"'),
    ".db": (b"object_map_type",),
}
"""What tells an object-centric log among the files of an ending that others have, too."""

_BEGINNING: Final = 65_536
"""Bytes of a file that are looked at."""

POLICY_ENDINGS: Final = (".yaml", ".yml")
PLAN_ENDING: Final = ".json"
_PLANS: Final = {PLAN_ENDING: (b'"format": "cloakwork/plan/v',)}
STATEMENT: Final = "statement.json"


class OutsideFolder(CloakworkError):
    """A path leads out of the console's folder, or names nothing that is shown."""


@dataclass(frozen=True)
class FoundFiles:
    """What a folder holds, as paths relative to it; ``all_seen``: whether nothing was left out."""

    policies: tuple[str, ...]
    logs: tuple[str, ...]
    plans: tuple[str, ...]
    releases: tuple[str, ...]
    packed: tuple[str, ...]
    all_seen: bool


@dataclass(frozen=True)
class Workplace:
    """A folder; ``root`` is resolved."""

    root: Path

    @classmethod
    def at(cls, folder: Path) -> "Workplace":
        """The workplace at ``folder``; raises OutputError unless that is a folder."""
        if not folder.is_dir():
            raise OutputError(f"{folder}: there is no such folder; name one with --folder")
        return cls(folder.resolve())

    @cached_property
    def label(self) -> str:
        """The folder's name, for people."""
        return self.root.name or str(self.root)

    def existing(self, relative: str) -> Path:
        """What lies at ``relative``; raises OutsideFolder where that is nothing of this folder."""
        path = self._inside(relative)
        if not path.exists():
            raise OutsideFolder(f"{relative}: there is no such file in {self.label}")
        return path

    def existing_file(self, relative: str) -> Path:
        """As ``existing``, of a file."""
        path = self.existing(relative)
        if not path.is_file():
            raise OutsideFolder(f"{relative}: is a folder; name a file in it")
        return path

    def new(self, relative: str, *, ending: str = "") -> Path:
        """A path where nothing is yet, in a folder that exists."""
        name = relative.strip()
        if not name or name.endswith(("/", ".")):
            raise OutsideFolder("a name is missing; give the new file or folder one")
        if ending and not name.lower().endswith(ending):
            name += ending
        path = self._inside(name)
        # A link that leads nowhere exists, too: writing to it would make what it names.
        if os.path.lexists(path):
            raise OutsideFolder(f"{name}: exists already; choose another name")
        if not path.parent.is_dir():
            raise OutsideFolder(f"{name}: there is no folder to put it in; name one that exists")
        return path

    def relative(self, path: Path) -> str | None:
        """``path`` as the console calls it; None where it lies elsewhere."""
        try:
            return path.resolve().relative_to(self.root).as_posix()
        # Links in a circle lead nowhere.
        except (ValueError, OSError, RuntimeError):
            return None

    def in_own_names(self, text: str) -> str:
        """A message in which files of this folder are called as the pages call them."""
        return text.replace(f"{self.root}{os.sep}", "")

    def look(self) -> FoundFiles:
        """What the folder holds, in alphabetical order."""
        paths = list(itertools.islice(self._walk(self.root, DEEPEST), MOST_ENTRIES + 1))
        found: dict[str, list[str]] = {}
        for path in paths[:MOST_ENTRIES]:
            found.setdefault(_kind_of(path), []).append(path.relative_to(self.root).as_posix())
        kinds = ("policies", "logs", "plans", "releases", "packed")
        lists = {kind: tuple(sorted(found.get(kind, ()))) for kind in kinds}
        return FoundFiles(**lists, all_seen=len(paths) <= MOST_ENTRIES)

    def _inside(self, relative: str) -> Path:
        # By its names first, then by what links on the way lead to.
        names = relative.split("/")
        # A NUL ends a path for the system, and a backslash divides one on Windows.
        unusable = "\0" in relative or "\\" in relative
        if unusable or any(not name or name.startswith(".") for name in names):
            raise OutsideFolder(f"{relative!r}: is no path inside {self.label}")
        path = self.root.joinpath(*names)
        if self.relative(path) is None:
            raise OutsideFolder(f"{relative!r}: leads out of {self.label}")
        return path

    def _walk(self, folder: Path, deeper: int) -> Iterator[Path]:
        """Files and folders, links and hidden ones left out; a release is not looked into."""
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            return
        for entry in entries:
            # A link could lead out of the folder, or around in a circle.
            if entry.name.startswith(".") or entry.is_symlink():
                continue
            path = Path(entry.path)
            yield path
            if deeper and entry.is_dir() and not (path / STATEMENT).is_file():
                yield from self._walk(path, deeper - 1)


def _kind_of(path: Path) -> str:
    """Which of the lists of ``FoundFiles`` a file or a folder stands in; empty for none."""
    name = path.name.lower()
    # A release is known by its statement, whatever its folder is called.
    if (path / STATEMENT).is_file():
        return "releases"
    if not path.is_file():
        return ""
    if name.endswith(POLICY_ENDINGS):
        return "policies"
    if _begins_like(path, _PLANS):
        return "plans"
    if name.endswith(LOG_ENDINGS) or _begins_like(path, _OBJECT_CENTRIC):
        return "logs"
    return "packed" if name.endswith(".zip") else ""


def _begins_like(path: Path, signs_of: Mapping[str, tuple[bytes, ...]]) -> bool:
    """Whether a file of an ending that others have, too, begins with one of the signs of it."""
    signs = signs_of.get(path.suffix.lower())
    if signs is None:
        return False
    try:
        with path.open("rb") as file:
            begins = file.read(_BEGINNING)
    except OSError:
        return False
    return any(sign in begins for sign in signs)


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all; one that stands there is replaced, with its mode."""
    try:
        replace_file(path, text.encode(), private=False)
    except OSError as error:
        raise OutputError(f"{path.name}: cannot be written: {error.strerror}") from error


if TYPE_CHECKING:
    from jinja2 import Environment


JobState = Literal["waiting", "running", "done", "failed", "cancelled"]

AT_ONCE: Final = 2
"""Jobs that run at a time: each may hold a log in memory."""

MOST_MESSAGES: Final = 200
MOST_JOBS: Final = 50
"""Jobs that are remembered, the newest."""

ENDED: Final = ("done", "failed", "cancelled")


@frozen
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
        # Each message once, and not without end: the page shows them all.
        if message not in self._job.messages and len(self._job.messages) < MOST_MESSAGES:
            self._job.messages.append(message)
        self._job.detail = ""

    def spends(self, *, is_so: bool) -> None:
        """Whether what the job does is charged, once it is known."""
        self._job.spends = is_so

    def detail(self, message: str) -> None:
        """How far the stage is."""
        self._stop_if_asked()
        self._job.detail = self._job.worded(message)

    def _stop_if_asked(self) -> None:
        # The job ends as if by Ctrl-C, so that what is paid for is recorded.
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
            # Only jobs that ended are forgotten: one that runs can still be followed and stopped.
            ended = [number for number, each in self._jobs.items() if each.ended]
            for number in ended[: max(0, len(self._jobs) - MOST_JOBS)]:
                del self._jobs[number], self._threads[number]
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
        # All are asked before the first is waited for, so that they end side by side.
        for job in self._jobs.values():
            job.stop.set()
        for thread in self._threads.values():
            thread.join(seconds)

    def _run(self, job: Job, work: Callable[[JobProgress], JobResult]) -> None:
        progress = JobProgress(job)
        # The job waits here while AT_ONCE others run.
        with self._running:
            try:
                job.state = "running"
                progress("begun")
                job.result = work(progress)
                job.state = "done"
            except KeyboardInterrupt as error:
                job.problem = job.worded(notes_of(error)).removeprefix("; ")
                job.exit_code = 130
                job.state = "cancelled"
            except CloakworkError as error:
                job.problem = job.worded(str(error) + notes_of(error))
                job.exit_code = error.exit_code
                job.state = "failed"
            except Exception as error:
                what = f"internal error: {type(error).__name__}: {first_line(error)}"
                job.problem = f"{what} (please report)"
                job.exit_code = 1
                job.state = "failed"


MOST_BYTES: Final = 4_000_000
"""Of a form: a policy of a million bytes, each of them escaped, and the rest."""

FORM_TOKEN: Final = "form_token"  # noqa: S105 - a field's name


@frozen
class ConsoleState:
    """What the console works with: a folder, a ledger by its address, and work in progress."""

    workplace: Workplace
    ledger_url: str | None
    jobs: Jobs = field(default_factory=Jobs)

    def ledger(self, notice: Callable[[str], None] | None = None) -> Ledger:
        """The ledger, opened for one request or one job."""
        # A new ledger is made by jobs alone, which tell of it themselves.
        return Ledger(self.ledger_url, notice=notice or silent)


@frozen
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

    def new_file(self, ending: str = "") -> tuple[Path, str]:
        """The path that the form names for what is to be written, and how the pages call it."""
        path = self.workplace.new(self.sent("out"), ending=ending)
        return path, self.workplace.relative(path) or path.name

    def page(self, template: str, status: int = 200, **content: object) -> Response:
        """A page of the console."""
        path = self.request.url.path
        shown = {
            "form_token": self.request.state.form_token,
            "folder": self.workplace.label,
            "root": str(self.workplace.root),
            "path": path,
            "part": _PARTS.get(path.split("/")[1], path),
            "working": sum(not job.ended for job in self.state.jobs.newest_first()),
        }
        # What every page shows: where it lies, what runs, and the session's token.
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


Page = Callable[[Visit], Response]


def go(address: str) -> Response:
    """Send the reader to another page of the console, which is fetched anew."""
    return RedirectResponse(address, 303)


def job_page(job: Job) -> str:
    """Where a job is followed."""
    return f"/work/{job.id}"


def address(path: str, **query: str | Sequence[str]) -> str:
    """A page's address with what it is about, each value escaped."""
    given = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


# An address of ours begins with one slash; two would name another host.
_LINK: Final = re.compile(r'( (?:href|action|formaction|src|data-follow|data-schema)=")/(?!/)')


async def form_of(request: Request) -> dict[str, tuple[str, ...]]:
    """The fields of a form; raises CloakworkError where it is too large or is none."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise CloakworkError("what was sent is no form of the console")
    # Read piece by piece: the length that a request states proves nothing.
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise CloakworkError("what was sent is too large for a form of the console")
    try:
        # Bounded in number, too: many small fields cost more than their bytes.
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
    environment.filters |= {"shown": shown, "beyond": threshold_lines}
    return environment


def shown(text: object) -> str:
    """Text from outside without letters that a browser would obey, such as those that turn the
    direction of writing: they are shown by their code.
    """
    return "\n".join(map(printable, str(text).split("\n")))


def policy_names(visit: Visit) -> tuple[str, ...]:
    """The versions of the registry that are not revoked, the newest first; the files; saved plans,
    which stand for their policies.
    """
    versions = Registry(visit.state.ledger()).versions()
    kept = [each.reference for each in versions if each.state != "revoked"]
    found = visit.workplace.look()
    return (*reversed(kept), *found.policies, *found.plans)


def policy_source(visit: Visit, name: str) -> PolicySource:
    """The policy that a page names, by a file, a version or a saved plan; its errors call it so.

    Raises OutsideFolder where it is neither a version nor a file of the folder.
    """
    if name.lower().endswith(PLAN_ENDING):
        return saved_policy(visit.workplace.existing_file(name), name)
    # A file may be called NAME@VERSION, too; its ending tells it apart.
    if is_reference(name) and not name.lower().endswith(POLICY_ENDINGS):
        return PolicySource(Registry(visit.state.ledger()).get(name).text, name, None)
    path = policy_file(visit, name)
    return PolicySource(read_policy_text(path), name, path)


def policy_file(visit: Visit, name: str) -> Path:
    """The path of a policy file of the folder; raises OutsideFolder where it is none."""
    if not name.lower().endswith(POLICY_ENDINGS):
        raise OutsideFolder(f"{name}: is no policy file, which ends in .yaml")
    return visit.workplace.existing_file(name)
