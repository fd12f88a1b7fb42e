"""All that people read, in files that somebody has read.

``python tests/golden/regenerate.py`` writes them anew, with engine/ on PYTHONPATH, and says which
changed; read the difference before you commit it. ``test_golden.py`` compares.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
if __name__ == "__main__":
    sys.path[0] = str(HERE.parent)

from golden import commands, plans, sentences  # noqa: E402


def golden_files() -> Mapping[str, Callable[[], str]]:
    """Every golden file by its path below this folder, with what makes its content."""
    return dict(_golden_files())


def _golden_files() -> Iterator[tuple[str, Callable[[], str]]]:
    yield "sentences.txt", sentences.text
    for policy in plans.POLICIES:
        yield f"plans/{policy.stem}.txt", partial(plans.screen, policy)
    for page in commands.PAGES:
        yield f"commands/{page}.txt", partial(commands.page, page)


def stale_files() -> set[str]:
    """Files that nothing makes any more."""
    found = {path.relative_to(HERE).as_posix() for path in HERE.rglob("*.txt")}
    return found - golden_files().keys()


def write() -> None:
    """Write what differs, remove what is stale, and name both."""
    for name in sorted(stale_files()):
        (HERE / name).unlink()
        print(f"removed {name}")
    for name, content in golden_files().items():
        path, text = HERE / name, content()
        if not path.exists() or path.read_text("utf-8") != text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
            print(f"wrote {name}")


if __name__ == "__main__":
    write()
