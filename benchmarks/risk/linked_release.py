"""A release whose true links are known, for ``attack.py``: never to be published.

    python benchmarks/risk/linked_release.py POLICY LOG FOLDER

Writes ``FOLDER/release`` (as ``apply`` makes it) and ``FOLDER/truth.csv`` (released id, id in
the log). The links are taken from memory, at the step that gives fresh ids.
"""

import csv
import sys
from pathlib import Path

import cloakwork
from cloakwork.engines import base
from cloakwork.log.eventlog import CASE_ID, EventLog
from cloakwork.noise import Stream


def main(policy: str, log: str, folder: str) -> None:
    """Make the release and note the links."""
    links: list[tuple[str, str]] = []
    fresh = base.with_fresh_ids

    def noted(made: EventLog, stream: Stream) -> EventLog:
        after = fresh(made, stream)
        links.extend(zip(after.cases[CASE_ID], made.cases[CASE_ID], strict=True))
        return after

    base.with_fresh_ids = noted
    out = Path(folder)
    out.mkdir(parents=True)
    cloakwork.release(policy, log, out / "release", ledger=str(out / "ledger.db"))
    with (out / "truth.csv").open("w", newline="") as file:
        csv.writer(file).writerows(links)


if __name__ == "__main__":
    main(*sys.argv[1:4])
