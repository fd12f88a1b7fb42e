"""The server: where it listens, what it says, and how it ends."""

import socket
import sys
import webbrowser
from http.client import HTTPConnection
from pathlib import Path

import pytest

from cloakwork.cli import main
from cloakwork.console.server import LOOPBACK, ConsoleServer
from cloakwork.console.visits import ConsoleState
from cloakwork.console.workplace import Workplace
from cloakwork.errors import OutputError
from console.keyboard import served


def _server(folder: Path, said: list[str], port: int = 0) -> ConsoleServer:
    return ConsoleServer(ConsoleState(Workplace.at(folder), None), port, say=said.append)


def _answer(port: int, path: str, cookie: str = "") -> tuple[int, str, str]:
    connection = HTTPConnection(LOOPBACK, port, timeout=60)
    connection.request("GET", path, headers={"cookie": cookie} if cookie else {})
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text, response.getheader("set-cookie", "")


def test_the_link_opens_the_console_on_loopback_alone(tmp_path: Path) -> None:
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


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OutputError, match=f"port {port}: cannot be used"):
            _server(tmp_path, [], port)


def test_a_browser_is_opened_unless_it_is_not_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    for wanted in (True, False):
        server = _server(tmp_path, [])
        monkeypatch.setattr(server._server, "run", lambda sockets: None)
        server.run(browser=wanted)
    assert len(opened) == 1
    assert "/open?token=" in opened[0]


def test_what_was_typed_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line each, and the exit codes of all commands."""
    assert main(["console", "--no-browser", "--folder", str(tmp_path / "missing")]) == 1
    assert "there is no such folder" in capsys.readouterr().err
    assert main(["console", "--port", "99999"]) == 2
    assert main(["console", "--ledger", "mysql://x/y", "--folder", str(tmp_path)]) == 1
    assert "SQLite or Postgres" in capsys.readouterr().err


def test_without_the_extra_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "cloakwork.console.server", raising=False)
    assert main(["console", "--folder", str(tmp_path)]) == 1
    err = capsys.readouterr().err
    assert err == "the console needs the package 'uvicorn'; install cloakwork[console]\n"
