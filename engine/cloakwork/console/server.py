"""The console's server: on loopback, for one person, until it is stopped."""

import hmac
import socket
import sys
import traceback
import webbrowser
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from cloakwork.base.errors import CloakworkError, OutputError
from cloakwork.console import datasets, policies, releases, work
from cloakwork.console.guard import OPEN, BrowserSessions, RequestGuard, cookie_name
from cloakwork.console.visits import FORM_TOKEN, ConsoleState, Page, Visit, Workplace, form_of

_STATIC: Final = Path(__file__).parent / "static"

SHOWN: Final[dict[str, Page]] = {
    "/": datasets.all_datasets,
    "/dataset": datasets.one_dataset,
    "/policies": policies.all_policies,
    "/policy": policies.editor,
    "/policy/schema": policies.schema,
    "/diff": policies.compare_two,
    "/registry": policies.all_versions,
    "/registry/version": policies.one_version,
    "/compare": work.compare_form,
    "/logs": work.all_logs,
    "/suggest": work.suggest_form,
    "/plan": work.plan_form,
    "/work": work.all_work,
    "/work/{job}": work.follow,
    "/work/{job}/progress": work.progress,
    "/work/{job}/document": work.document,
    "/risk": releases.risk_form,
    "/releases": releases.all_releases,
    "/release": releases.one_release,
    "/release/report": releases.report,
    "/packed": releases.download,
}
"""What each address shows."""

DONE: Final[dict[str, Page]] = {
    "/policy/new": policies.from_template,
    "/policy/save": policies.save,
    "/policy/check": policies.check,
    "/policy/measure": policies.measure,
    "/policy/lint": work.lint_log,
    "/registry/add": policies.add,
    "/registry/approve": policies.approve,
    "/registry/revoke": policies.revoke,
    "/dataset/declare": datasets.declare,
    "/compare": work.compare_settings,
    "/suggest": work.suggest,
    "/suggest/take": work.take,
    "/risk": releases.attack,
    "/plan": work.plan,
    "/plan/save": work.save_plan,
    "/apply": work.apply,
    "/work/{job}/stop": work.stop,
    "/release/verify": releases.verify,
    "/release/pack": releases.pack,
}
"""What each form does."""


def application(state: ConsoleState, sessions: BrowserSessions, port: int) -> ASGIApp:
    """The console that is reached at ``port`` of this machine."""
    pages: list[BaseRoute] = [
        Route(path, _showing(page, state), methods=["GET"]) for path, page in SHOWN.items()
    ]
    forms = [Route(path, _doing(page, state), methods=["POST"]) for path, page in DONE.items()]
    opening = Route(OPEN, _opening(sessions, port), methods=["GET"])
    static = Mount("/static", StaticFiles(directory=_STATIC))
    starlette = Starlette(
        routes=[opening, static, *pages, *forms],
        exception_handlers={HTTPException: _not_found(state)},
    )
    return RequestGuard(starlette, sessions, port)


def _showing(page: Page, state: ConsoleState) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        # In a thread: pages read files and the ledger, which would block the event loop.
        return await run_in_threadpool(_answered, page, Visit(state, request))

    return endpoint


def _doing(page: Page, state: ConsoleState) -> Callable[[Request], Awaitable[Response]]:
    """A page that changes something: only for a form that holds its session's token."""

    async def endpoint(request: Request) -> Response:
        # Read within its bounds before a thread is taken: what is no form costs none.
        try:
            fields = await form_of(request)
        except CloakworkError as error:
            return Visit(state, request).problem(error)
        given = fields.get(FORM_TOKEN, ("",))[0]
        # Another site cannot know the session's token: against cross-site request forgery.
        if not hmac.compare_digest(given.encode(), request.state.form_token.encode()):
            return PlainTextResponse(
                "cloakwork console: this form is not of this session; load its page again\n", 403
            )
        return await run_in_threadpool(_answered, page, Visit(state, request, fields))

    return endpoint


def _answered(page: Page, visit: Visit) -> Response:
    """The page, or the one line that says what is wrong."""
    try:
        return page(visit)
    except CloakworkError as error:
        return visit.problem(error)
    except OSError as error:
        return visit.problem(CloakworkError(f"{error.filename or 'file'}: {error.strerror}"))
    except Exception as error:
        # A fault of ours: the traceback is for the terminal, the page has one line.
        traceback.print_exception(error, file=sys.stderr)
        what = " ".join(f"{type(error).__name__}: {error}".split())
        return visit.problem(CloakworkError(f"internal error: {what} (please report)"))


def _opening(sessions: BrowserSessions, port: int) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        # A look ahead must not use up the link.
        if request.method == "HEAD":
            return Response()
        cookie = sessions.cookie_for(request.query_params.get("token", ""))
        if cookie is None:
            return PlainTextResponse(
                "cloakwork console: this link was used already, or is not of this console; "
                "the terminal shows one that works\n",
                403,
            )
        # A cookie that is strict does not come with a redirection which another site began.
        below = sessions.folder
        response = HTMLResponse(
            '<!doctype html><html lang="en"><title>Cloakwork</title>'
            f'<link rel="icon" href="{below}/static/icon.svg">'
            f'<meta http-equiv="refresh" content="0;url={below}/">'
            f'<p><a href="{below}/">Open the console</a></p></html>'
        )
        name = cookie_name(port)
        response.set_cookie(name, cookie, httponly=True, samesite="strict", path=below)
        return response

    return endpoint


def _not_found(state: ConsoleState) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def endpoint(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        # Addresses that need no session, such as static files, have no page to show.
        if not hasattr(request.state, "form_token"):
            return PlainTextResponse("cloakwork console: there is nothing here\n", status)
        return Visit(state, request).page(
            "problem.html", status, lines=["there is no such page"], code=1
        )

    return endpoint


LOOPBACK: Final = "127.0.0.1"

PATIENCE: Final = 10.0
"""Seconds that a job has to end when the console is stopped."""


class ConsoleServer:
    """A console at a port of this machine; ``say`` hears the link that opens it, and each new
    one.

    ``port``: 0 for any that is free. Raises OutputError where it is taken.
    """

    def __init__(self, state: ConsoleState, port: int, say: Callable[[str], None]) -> None:
        self.state = state
        self._say = say
        self._socket = _listening(port)
        self.port: int = self._socket.getsockname()[1]
        self.sessions = BrowserSessions(lambda token: say(self._link(token)))
        self._server = uvicorn.Server(
            # Headers of a proxy are not believed: there is none, and anybody could send them.
            uvicorn.Config(
                application(state, self.sessions, self.port),
                access_log=False,
                http="h11",
                lifespan="off",
                log_level="warning",
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=2,
                ws="none",
            )
        )

    @property
    def link(self) -> str:
        """The address that opens the console, once."""
        return self._link(self.sessions.token)

    def run(self, *, browser: bool) -> None:
        """Serve until Ctrl-C, or ``stop``; then end the jobs that run."""
        self._say(self.link)
        if browser:
            webbrowser.open(self.link)
        try:
            self._server.run(sockets=[self._socket])
        except KeyboardInterrupt:
            pass  # uvicorn hands on the signal that it stopped for
        finally:
            # The socket first, so that no new job begins while the others end.
            self._socket.close()
            self.state.jobs.stop_all(PATIENCE)

    def stop(self) -> None:
        """End ``run``, from another thread."""
        self._server.should_exit = True

    def _link(self, token: str) -> str:
        return f"http://{LOOPBACK}:{self.port}{OPEN}?token={token}"


def _listening(port: int) -> socket.socket:
    """A socket that is bound, so that a port which is taken is told at once."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        # The port of a console that ended just now can be taken again.
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((LOOPBACK, port))
        found.listen()
    except OSError as error:
        found.close()
        reason = error.strerror or str(error)
        raise OutputError(f"port {port}: cannot be used ({reason}); name another") from error
    return found


def serve(
    folder: Path,
    ledger: str | None,
    port: int,
    *,
    browser: bool,
    say: Callable[[str], None],
    note: Callable[[str], None],
) -> None:
    """Serve the console of ``folder`` and ``ledger`` until it is stopped.

    ``say`` hears how it is opened, ``note`` what it works with. Raises OutputError for a folder
    that is none, and a port that is taken.
    """
    state = ConsoleState(Workplace.at(folder), ledger)
    note(f"folder {state.workplace.root}, ledger {state.ledger().url}")

    def show_link(link: str) -> None:
        say(f"Open this link, which works once (Ctrl-C ends the console):\n  {link}")

    ConsoleServer(state, port, say=show_link).run(browser=browser)
