"""The console's server: on loopback, for one person, until it is stopped."""

import socket
import webbrowser
from collections.abc import Callable
from typing import Final

import uvicorn

from cloakwork.base.errors import OutputError
from cloakwork.console.application import application
from cloakwork.console.guard import OPEN
from cloakwork.console.sessions import BrowserSessions
from cloakwork.console.visits import ConsoleState

LOOPBACK: Final = "127.0.0.1"

PATIENCE: Final = 10.0
"""Seconds that a job has to end when the console is stopped."""


class ConsoleServer:
    """A console at a port of this machine; ``say`` hears the link that opens it, and each new
    one.

    ``port``: 0 for any that is free. Raises OutputError where it is taken.
    """

    def __init__(self, state: ConsoleState, port: int, say: Callable[[str], None]) -> None:
        self.state, self._say = state, say
        self._socket = _listening(port)
        self.port: int = self._socket.getsockname()[1]
        self.sessions = BrowserSessions(lambda token: say(self._link(token)))
        self._server = uvicorn.Server(
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
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((LOOPBACK, port))
        found.listen()
    except OSError as error:
        found.close()
        reason = error.strerror or str(error)
        raise OutputError(f"port {port}: cannot be used ({reason}); name another") from error
    return found
