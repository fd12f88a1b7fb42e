"""``cloakwork console`` as a process: the link, a page, and the end by Ctrl-C."""

import os
import re
import signal
import time
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

pytest.importorskip("uvicorn", reason="the console: pip install 'cloakwork[console]'")


def test_it_serves_until_ctrl_c(tmp_path, forks):
    """The link stands on standard output, and an end by Ctrl-C is no error."""
    fork = forks.start(["console", "--no-browser", "--folder", tmp_path])
    deadline = time.monotonic() + 60
    while not (fork.out.exists() and fork.out.read_text("utf-8").count("\n") == 2):
        assert time.monotonic() < deadline, fork.err.read_text("utf-8")
        time.sleep(0.02)
    first, link = map(str.strip, fork.out.read_text("utf-8").splitlines())
    assert "works once" in first
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/open\?token=[\w-]{20,}", link)
    with urlopen(link, timeout=60) as answer:
        assert answer.status == 200
    with pytest.raises(HTTPError, match="403"):
        urlopen(link, timeout=60)
    os.kill(fork.process, signal.SIGINT)
    assert fork.end() == 0, fork.err.read_text("utf-8")
    shown = fork.out.read_text("utf-8").removeprefix(f"{first}\n").strip()
    assert shown.count("/open?token=") == 2  # the second use showed another
    assert "Traceback" not in fork.err.read_text("utf-8")
    assert list(tmp_path.iterdir()) == []
