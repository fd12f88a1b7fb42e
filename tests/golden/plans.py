"""The first screen of ``plan`` for each shipped policy, on a terminal of 80 columns.

The log is never read (``--no-preview``), so that the screens hold no figure of it and take no time.
"""

import os
import tempfile
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Final
from unittest.mock import patch

from cloakwork.cli import main

ROOT: Final = Path(__file__).resolve().parents[2]
LOG: Final = ROOT / "examples" / "logs" / "hospital.xes.gz"
POLICIES: Final = tuple(sorted((ROOT / "policies").glob("*.yaml")))


def screen(policy: Path) -> str:
    """What ``plan`` prints of a policy."""
    printed, problems = StringIO(), StringIO()
    with tempfile.TemporaryDirectory() as folder:
        ledger = str(Path(folder) / "ledger.db")
        name = str(policy.relative_to(ROOT))
        command = ["plan", name, str(LOG), "--no-preview", "--quiet", "--ledger", ledger]
        with (
            chdir(ROOT),
            patch.dict(os.environ, {"COLUMNS": "80", "NO_COLOR": "1"}),
            redirect_stdout(printed),
            redirect_stderr(problems),
        ):
            code = main(command)
    assert code == 0, problems.getvalue()
    return printed.getvalue()
