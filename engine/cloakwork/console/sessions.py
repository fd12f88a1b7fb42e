"""Who may see the pages: whoever opened the link that the terminal showed, once."""

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock


@dataclass(slots=True)
class BrowserSessions:
    """Links that open the console, and the cookies that they were exchanged for.

    A link works once. Where one is used again, ``show_link`` is handed a new one, for the terminal
    alone: whoever reads the terminal may come in. ``folder``: below which all pages lie.
    """

    show_link: Callable[[str], None]
    folder: str = field(default_factory=lambda: f"/{secrets.token_urlsafe()}")
    _token: str = field(default_factory=secrets.token_urlsafe)
    _used: set[str] = field(default_factory=set)
    _forms: dict[str, str] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @property
    def token(self) -> str:
        """What the link holds that works now."""
        return self._token

    def cookie_for(self, token: str) -> str | None:
        """The cookie's value for ``token``; None where it was used already, or never was one."""
        with self._lock:
            if hmac.compare_digest(token.encode(), self._token.encode()):
                self._used.add(token)
                self._token = secrets.token_urlsafe()
                cookie = secrets.token_urlsafe()
                self._forms[cookie] = secrets.token_urlsafe()
                return cookie
            was_used = token in self._used
            self._used.discard(token)
        if was_used:
            self.show_link(self._token)
        return None

    def form_token(self, cookie: str | None) -> str | None:
        """What the forms of this session must send; None where there is no such session."""
        return None if cookie is None else self._forms.get(cookie)
