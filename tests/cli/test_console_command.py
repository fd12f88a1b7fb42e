"""``cloakwork console`` as a process: the link, a page, and the end by Ctrl-C."""

import os
import re
import signal
import subprocess
import sys
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

pytest.importorskip("uvicorn", reason="the console: pip install 'cloakwork[console]'")


def test_it_serves_until_ctrl_c(tmp_path):
    """The link stands on standard output, and an end by Ctrl-C is no error."""
    command = [sys.executable, "-m", "cloakwork", "console", "--no-browser", "--folder", tmp_path]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout is not None
        assert "works once" in process.stdout.readline()
        link = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/open\?token=[\w-]{20,}", link)
        with urlopen(link, timeout=60) as answer:
            assert answer.status == 200
        with pytest.raises(HTTPError, match="403"):
            urlopen(link, timeout=60)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert link not in out  # the second use showed another
    assert "/open?token=" in out
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []
