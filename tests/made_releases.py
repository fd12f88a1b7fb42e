"""Releases of the shipped policies, each made once a session, for all tests that only look at one,
or copy it to change it.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest

from cloakwork.cli import main
from conftest import EXAMPLES, ROOT, hurried, look_for_few, take_few_turns


@dataclass(frozen=True)
class MadeRelease:
    """A release ``folder`` of ``log`` under ``policy``, in ``ledger``; ``home`` has its key."""

    folder: Path
    policy: Path
    log: Path
    ledger: str
    home: Path


class MadeReleases:
    """Makes each release at its first use; of k-anonymity what a short search finds."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._made = folder, dict[str, MadeRelease]()

    def __call__(self, name: str) -> MadeRelease:
        """The release under the shipped policy of this name."""
        if name not in self._made:
            self._made[name] = self._release(name)
        return self._made[name]

    def _release(self, name: str) -> MadeRelease:
        place = self._folder / name
        place.mkdir()
        log = "permit" if name == "dp-guessing-advantage" else "hospital"
        found = MadeRelease(
            folder=place / "release",
            policy=hurried(ROOT / "policies" / f"{name}.yaml", place, seconds=0.1),
            log=EXAMPLES / f"{log}.xes.gz",
            # Policies of one dataset would share its budget in one ledger.
            ledger=f"sqlite:///{place / 'ledger.db'}",
            home=self._folder / "home",
        )
        words = ["apply", found.policy, found.log, "--out", found.folder, "--ledger", found.ledger]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CLOAKWORK_HOME", str(found.home))
            take_few_turns(patch)
            look_for_few(patch)
            assert main([str(word) for word in [*words, "--quiet"]]) == 0
        return found
