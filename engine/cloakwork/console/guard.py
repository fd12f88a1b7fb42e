"""What every request must satisfy before a page is made, and the headers that every page has.

The console listens on loopback. Pages of other sites can still send a browser there: by a form, a
script or a name that they point at 127.0.0.1. So the name asked for must be loopback's, a form must
come from a page of the console and hold the token of its session, and nothing may be framed.

A browser sends the cookies of a host to all its ports, also to one where another account of the
machine listens. So all pages lie below a folder with a random name, and the cookie is of that
folder: whoever does not know it is never sent the cookie. The link, which other accounts may see
among the arguments of a process, does not hold it, nor does a referrer of another origin.
"""

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from threading import Lock
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send


@dataclass(slots=True)
class BrowserSessions:
    """Links that open the console, and the cookies that they were exchanged for.

    A link works once. Where one is used again, ``show_link`` is handed a new one, for the terminal
    alone: whoever reads the terminal may come in. ``folder``: below which all pages lie.
    ``token``: what the link holds that works now.
    """

    show_link: Callable[[str], None]
    folder: str = field(default_factory=lambda: f"/{secrets.token_urlsafe()}")
    token: str = field(default_factory=secrets.token_urlsafe)
    _used: set[str] = field(default_factory=set)
    _forms: dict[str, str] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def cookie_for(self, token: str) -> str | None:
        """The cookie's value for ``token``; None where it was used already, or never was one."""
        with self._lock:
            # Compared in constant time, so that timing tells nothing of the token.
            if hmac.compare_digest(token.encode(), self.token.encode()):
                self._used.add(token)
                # Replaced at once, so that each link opens one session.
                self.token = secrets.token_urlsafe()
                cookie = secrets.token_urlsafe()
                self._forms[cookie] = secrets.token_urlsafe()
                return cookie
            # A used link shows a new one once, so that repeating it does not flood the terminal.
            was_used = token in self._used
            self._used.discard(token)
        if was_used:
            self.show_link(self.token)
        return None

    def form_token(self, cookie: str | None) -> str | None:
        """What the forms of this session must send; None where there is no such session."""
        return None if cookie is None else self._forms.get(cookie)


CONTENT_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
REPORT_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; "
    "frame-ancestors 'none'; base-uri 'none'; sandbox"
)
"""Of reports, which hold their style themselves: no script, and an origin of their own."""

_HEADERS: Final = {
    "Content-Security-Policy": CONTENT_POLICY,
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    # Without a referrer a browser would send the origin 'null' with a form.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
OPEN: Final = "/open"
STATIC: Final = "/static/"


class RequestGuard:
    """Lets requests of an open session through to ``application``, and answers all others."""

    def __init__(self, application: ASGIApp, sessions: BrowserSessions, port: int) -> None:
        self._application = application
        self._sessions = sessions
        self._below = sessions.folder
        self._hosts = {f"{name}:{port}" for name in NAMES}
        self._cookie = cookie_name(port)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; there are no other connections than of HTTP."""
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                # A page that brings its own policy, such as a report, keeps it.
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                # Pages redirect without the random folder, as they link.
                if headers.get("location", "").startswith("/"):
                    headers["location"] = self._below + headers["location"]
            await send(message)

        scope = dict(scope)
        is_below = scope["path"].startswith(f"{self._below}/")
        if is_below:
            # The pages know nothing of the folder: it is added to the links that they send.
            scope["path"] = scope["path"].removeprefix(self._below)
            scope["raw_path"] = scope.get("raw_path", b"").removeprefix(self._below.encode())
        answer = self._refusal(scope, is_below=is_below) or self._application
        await answer(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope, *, is_below: bool) -> Response | None:
        headers = Headers(scope=scope)
        method = scope["method"]
        path = scope["path"]
        # One Host, and of loopback: a foreign name that points here (DNS rebinding) is refused.
        if headers.getlist("host") not in [[host] for host in self._hosts]:
            return _refused("this address is not the console's; open the link in its terminal", 421)
        if method not in ("GET", "HEAD", "POST"):
            return _refused(f"{method} is not understood", 405)
        # The browser names the origin of a form: against cross-site request forgery.
        is_own_page = (
            headers.get("origin") in [f"http://{host}" for host in self._hosts]
            and headers.get("sec-fetch-site", "same-origin") == "same-origin"
        )
        if method == "POST" and not is_own_page:
            return _refused("this form was not sent by a page of the console", 403)
        # The link begins a session, and static files hold nothing of the user's: neither needs one.
        is_open_to_all = path.startswith(STATIC) if is_below else path == OPEN
        if is_open_to_all:
            return None
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        # What is no cookie opens no session, and is no fault of ours.
        except CookieError:
            cookie = None
        form_token = self._sessions.form_token(cookie.value if cookie else None)
        if form_token is None or not is_below:
            return _refused(
                "no session: open the link that 'cloakwork console' showed in its terminal", 403
            )
        scope["state"] = {"form_token": form_token, "below": self._below}
        return None


def cookie_name(port: int) -> str:
    """Cookies are shared between the ports of a host, so the port is part of the name."""
    return f"cloakwork_console_{port}"


def _refused(why: str, status: int) -> Response:
    return PlainTextResponse(f"cloakwork console: {why}\n", status)
