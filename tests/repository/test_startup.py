"""What the command line loads before it does anything: `--help` must stay quick, extras must stay
optional.
"""

import subprocess
import sys
from collections.abc import Sequence

import pytest

from cloakwork.cli import COMMANDS
from repository.checkout import environment

HEAVY = {
    *("dp_accounting", "jinja2", "numpy", "opendp", "pandas"),
    *("polars", "pydantic", "rich", "scipy", "sqlalchemy"),
}
EXTRAS = {"pm4py", "pyspark", "torch"}
SCRIPT = """
import sys
from cloakwork import cli
code = max(cli.main(line.split()) for line in sys.argv[1:])
print(*sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
sys.exit(code)
"""


def loaded_by(*commands: Sequence[str]) -> set[str]:
    """Top-level modules in memory after these commands, each ``cloakwork ARGUMENTS``, in a fresh
    interpreter.
    """
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(" ".join, commands)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_the_frame_loads_nothing_heavy(arguments: list[str]) -> None:
    """Help and version come from the table of commands; the package's own import must be lazy as
    well.
    """
    assert loaded_by(arguments) & (HEAVY | EXTRAS) == set()


def test_no_command_loads_an_extra_to_show_its_help() -> None:
    """What `pip install cloakwork` does not bring is imported only where it is used; all commands
    in one process, since none of them may.
    """
    assert loaded_by(*((command, "--help") for command in COMMANDS)) & EXTRAS == set()
