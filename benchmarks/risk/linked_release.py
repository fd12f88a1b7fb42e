"""A release whose true links are known, for ``attack.py``: never to be published.

    python benchmarks/risk/linked_release.py POLICY LOG FOLDER

Writes ``FOLDER/release`` (as ``apply`` makes it) and ``FOLDER/truth.csv`` (released id, id in
the log). The links are taken from memory, at the step that gives fresh ids.
"""

import csv
import sys
from pathlib import Path

import cloakwork
from cloakwork.log.eventlog import CASE_ID, EventLog
from cloakwork.noise import Noise
from cloakwork.run import execute


def main(policy: str, log: str, folder: str) -> None:
    """Make the release and note the links."""
    links: list[tuple[str, str]] = []
    fresh = execute.with_fresh_ids

    class Watched:
        """A source of noise that notes how the cases are shuffled."""

        def __init__(self, noise: Noise) -> None:
            self.noise = noise

        def permutation(self, size: int) -> object:
            self.order = self.noise.permutation(size)
            return self.order

        def __getattr__(self, name: str) -> object:
            return getattr(self.noise, name)

    def noted(made: EventLog, noise: Noise) -> EventLog:
        watched = Watched(noise)
        after = fresh(made, watched)  # type: ignore[arg-type]
        before = made.cases[CASE_ID][watched.order]
        links.extend(zip(after.cases[CASE_ID], before, strict=True))
        return after

    execute.with_fresh_ids = noted
    out = Path(folder)
    out.mkdir(parents=True)
    cloakwork.release(policy, log, out / "release", ledger=str(out / "ledger.db"))
    with (out / "truth.csv").open("w", newline="") as file:
        csv.writer(file).writerows(links)


if __name__ == "__main__":
    main(*sys.argv[1:4])
