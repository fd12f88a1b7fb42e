"""The screens that ``plan`` prints, a file for each shipped policy: on a terminal of 80 columns.

``python tests/golden/screens.py`` writes them anew; somebody reads the difference. The log is
never read (``--no-preview``), so that the screens hold no figure of it and take no time.
"""

import io
import os
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Final

from cloakwork.cli import main

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = Path(__file__).with_name("screens")
LOG: Final = ROOT / "examples" / "logs" / "hospital.xes.gz"
WIDTH: Final = 80
POLICIES: Final = tuple(sorted((ROOT / "policies").glob("*.yaml")))


def screen(policy: Path, ledger: Path) -> str:
    """What ``plan`` prints of a policy."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        code = main(arguments(policy, ledger))
    if code:
        raise SystemExit(f"{policy}: plan ended with {code}")
    return printed.getvalue()


def arguments(policy: Path, ledger: Path) -> list[str]:
    """The command's arguments."""
    name = str(policy.relative_to(ROOT))
    return ["plan", name, str(LOG), "--no-preview", "--quiet", "--ledger", str(ledger)]


if __name__ == "__main__":
    os.chdir(ROOT)
    os.environ["COLUMNS"] = str(WIDTH)
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for path in POLICIES:
            text = screen(path, Path(folder) / "ledger.db")
            (FOLDER / f"{path.stem}.txt").write_text(text, "utf-8")
