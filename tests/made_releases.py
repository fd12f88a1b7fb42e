"""Releases of the shipped policies, each made once for all workers of a session, for all tests that
only look at one, or copy it to change it.
"""

import os
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from cloakwork.base.files import lock_file
from cloakwork.cli import main
from conftest import EXAMPLES, ROOT, hurried, look_for_few, take_few_turns
from drawn_entropy import entropy_of


@dataclass(frozen=True)
class MadeRelease:
    """A release ``folder`` of ``log`` under ``policy``, in ``ledger``; ``home`` has its key."""

    folder: Path
    policy: Path
    log: Path
    ledger: str
    home: Path


class MadeReleases:
    """Makes each release at its first use; of k-anonymity what a short search finds. ``folder``:
    one for all workers.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)

    def __call__(self, name: str) -> MadeRelease:
        """The release under the shipped policy of this name."""
        place = self._folder / name
        log = "permit" if name == "dp-guessing-advantage" else "hospital"
        found = MadeRelease(
            folder=place / "release",
            policy=place / f"{name}.yaml",
            log=EXAMPLES / f"{log}.xes.gz",
            # Policies of one dataset would share its budget in one ledger.
            ledger=f"sqlite:///{place / 'ledger.db'}",
            home=self._folder / "home",
        )
        # One key signs them all: two workers would make two.
        lock = lock_file(self._folder / "lock")
        try:
            if not found.folder.exists():
                place.mkdir()
                hurried(ROOT / "policies" / found.policy.name, place, seconds=0.1)
                _make(found)
        finally:
            lock.release()
        return found


def _make(asked: MadeRelease) -> None:
    """Apply the policy; what is drawn does not hang on which test asks first."""
    words = ["apply", asked.policy, asked.log, "--out", asked.folder, "--ledger", asked.ledger]
    known = entropy_of(f"release under {asked.policy.name}")
    drawn = nullcontext() if "CLOAKWORK_RUNS" in os.environ else known
    with pytest.MonkeyPatch.context() as patch, drawn:
        patch.setenv("CLOAKWORK_HOME", str(asked.home))
        take_few_turns(patch)
        look_for_few(patch)
        assert main([str(word) for word in [*words, "--quiet"]]) == 0
