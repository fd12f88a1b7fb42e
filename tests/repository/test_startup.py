"""What the command line loads before it does anything: `--help` must stay quick, extras must stay
optional.
"""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from cloakwork.cli import COMMANDS
from repository.checkout import ROOT, environment

HEAVY = {
    *("dp_accounting", "jinja2", "numpy", "opendp", "pandas"),
    *("polars", "pydantic", "rich", "scipy", "sqlalchemy"),
}
EXTRAS = {"pm4py", "pyspark", "torch"}
SCRIPT = """
import sys, time
from cloakwork import cli
code = max(cli.main(line.split()) for line in sys.argv[1:])
seconds = time.process_time()
print(seconds, *sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
sys.exit(code)
"""


@dataclass(frozen=True)
class Start:
    """Seconds of a core until the last command was done, and the modules that were then loaded."""

    seconds: float
    modules: set[str]


def started(*commands: Sequence[str]) -> Start:
    """These commands, each ``cloakwork ARGUMENTS``, one after the other in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(" ".join, commands)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seconds, *modules = done.stderr.splitlines()[-1].split()
    return Start(float(seconds), set(modules))


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_the_frame_loads_nothing_heavy(arguments: list[str]) -> None:
    """Help and version come from the table of commands; the package's own import must be lazy as
    well. Half a second of a core is five times what it takes.
    """
    start = started(arguments)
    assert start.modules & (HEAVY | EXTRAS) == set()
    assert start.seconds < 0.5


def test_no_command_loads_an_extra_unless_it_is_used() -> None:
    """What `pip install cloakwork` does not bring is imported only where it is used: not to show
    help, to list the mechanisms, or to plan. All commands in one process, since none of them may.
    """
    log = ROOT / "examples" / "logs" / "hospital.csv.gz"
    planning = ("plan", "dp-control-flow", str(log), "--no-preview", "--quiet")
    help_of_all = ((command, "--help") for command in COMMANDS)
    found = started(*help_of_all, ("mechanisms",), planning).modules
    assert found & EXTRAS == set()


def test_errors_are_there_after_a_plain_import() -> None:
    """Who reads a log can say ``except cloakwork.errors.LogError`` and import nothing else."""
    said = subprocess.run(
        [sys.executable, "-c", "import cloakwork; print(cloakwork.errors.LogError.__name__)"],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "LogError\n"
