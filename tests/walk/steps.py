"""What the walks share: the logs they run on, and the edits that an author makes."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import EXAMPLES, SHARED

PURPOSE = "How long people wait"


@dataclass(frozen=True)
class WalkedLog:
    """A log, two of its windows, and how long these are."""

    path: Path
    every: str
    windows: tuple[str, str]

    def __str__(self) -> str:
        return self.path.name.partition(".")[0]


SHIPPED = WalkedLog(EXAMPLES / "hospital.xes.gz", "1 year", ("2023", "2024"))

REAL = tuple(
    WalkedLog(SHARED / "logs" / name, every, windows)
    for name, every, windows in (
        ("sepsis.xes.gz", "1 year", ("2014", "2015")),
        ("receipt.xes.gz", "1 year", ("2010", "2011")),
        ("bpic2020_domestic_declarations.xes.gz", "1 year", ("2017", "2018")),
        ("bpic2013_incidents.xes.gz", "1 month", ("2012-04", "2012-05")),
        ("bpic2015_1.xes.gz", "1 year", ("2012", "2013")),
    )
)


def with_windows(policy: str, every: str) -> str:
    """The policy as its author edits it: enough for one release of each window."""
    found = re.sub(
        r"\n    total: \{[^}]*\}[^\n]*\n",
        f"\n    total: {{epsilon: 2.0, delta: 1.0e-6}}\n"
        f"    windows: {{by: case-start, every: {every}}}\n",
        policy,
    )
    assert found != policy, "the suggested policy has no total to edit"
    return found


def require(log: WalkedLog) -> None:
    """Skip where the log is not there."""
    if not log.path.exists():
        pytest.skip(f"there is no {log.path.name} in ../shared/logs")
