"""Make the two example logs: ``python examples/logs/generate.py [FOLDER]``.

Both logs are synthetic from the first event to the last: every name, number and note is invented
here, and nothing was taken or learned from a real log. They are made to look like what hospital and
permit systems export, faults included: a few paths that most cases follow and many that one case
follows alone, ties, nights and weekends, summer and winter time, several cases of one person, staff
names, free text about persons, and file headers that give exact counts away.

The same seeds give the same bytes, on any machine: the script needs nothing but the standard
library, draws only ``random()``, rounds all times to whole seconds, and writes the gzip header
itself.
"""

import sys
from pathlib import Path
from typing import Final

from invented.formats import gzipped, to_csv, to_xes
from invented.hospital import invent_hospital
from invented.permits import invent_permits
from invented.process import Dice, Log

SEEDS: Final = {"hospital": 20260422, "permit": 20260425}
CASES: Final = {"hospital": 1_040, "permit": 1_000}


def make_logs() -> tuple[Log, Log]:
    """Both logs, each from its own seed."""
    stays = invent_hospital(Dice(SEEDS["hospital"]), CASES["hospital"])
    permits = invent_permits(Dice(SEEDS["permit"]), CASES["permit"])
    return stays, permits


def make_texts() -> dict[str, str]:
    """What each file holds, by file name without ``.gz``."""
    stays, permits = make_logs()
    return {
        "hospital.xes": to_xes(stays),
        "hospital.csv": to_csv(stays),
        "permit.xes": to_xes(permits),
    }


def main() -> None:
    """Write the files into the folder given, or beside this script."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in make_texts().items():
        (folder / f"{name}.gz").write_bytes(gzipped(text))


if __name__ == "__main__":
    main()
