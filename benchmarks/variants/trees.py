"""Do the proved trees end, at every length and threshold? variants/prefix-tree and variants/sacofa at their hardest.

    python benchmarks/variants/trees.py [--logs receipt,sepsis] [--epsilons 0.1,1] [--deltas 1e-6,1e-4]

N is the longest case of the log, every extension is kept whose noisy count is 1 or more (threshold 1 of both kinds), over
the log's activities as declared ones. Each cell is a process of its own: its seconds, by the clock and of the processor,
hold everything but reading the log (finding the noise, the run, the release made), its MiB are the process's peak. Bars:
60 s by the clock and 4 GiB. Exit code 1 where a cell is over a bar or fails.
"""

import argparse
import json
import subprocess
import sys
import time
from itertools import product
from typing import Any

from cell import declared, peak, read

from cloakwork.audit.utility import histogram
from cloakwork.testing import prepare

LOGS = ("sepsis", "bpic2013_incidents", "bpic2012_a", "receipt", "road_traffic_fines", "unrineweginfectie")
OPTIONS: dict[str, dict[str, Any]] = {
    "variants/prefix-tree": {"threshold": 1},
    "variants/sacofa": {"threshold": 1, "harmful_threshold": 1, "most_harmful": 100_000},
}
"""What lets the most through: no extension is pruned whose noisy count is 1 or more, however many rules it breaks."""

EPSILONS, DELTAS = (0.1, 0.5, 1.0, 2.0), (1e-4,)
SECONDS, MEBIBYTES = 60.0, 4096.0
LIMIT = 600


def cell(mechanism: str, name: str, epsilon: float, delta: float) -> dict[str, float]:
    """Run it once, and say what it took."""
    log = read(name)
    facts = declared(log, histogram(log))
    begun, worked = time.perf_counter(), time.process_time()
    prepared = prepare(mechanism, options=OPTIONS[mechanism], epsilon=epsilon, delta=delta, **facts)
    found = time.perf_counter() - begun
    released = prepared.run(log)
    return {
        "length": prepared.params.length,
        "noise": found,
        "seconds": time.perf_counter() - begun,
        "processor": time.process_time() - worked,
        "mib": peak() or 0.0,
        "cases": released.cases.height,
        "variants": len(histogram(released)),
    }


def apart(asked: tuple[str, str, float, float]) -> dict[str, float] | str:
    """The cell in a process of its own, or why it did not end."""
    command = [sys.executable, __file__, "--cell", json.dumps(asked)]
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return f"not ended after {LIMIT} s"
    if child.returncode:
        return (child.stderr.strip() or f"ended with {child.returncode}").splitlines()[-1]
    return json.loads(child.stdout.splitlines()[-1])


def main() -> int:
    """The table; 1 where a bar is missed."""
    parser = argparse.ArgumentParser(prog="python benchmarks/variants/trees.py", description=__doc__.splitlines()[0])
    parser.add_argument("--logs", default=",".join(LOGS))
    parser.add_argument("--epsilons", default=",".join(map(str, EPSILONS)))
    parser.add_argument("--deltas", default=",".join(map(str, DELTAS)))
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.cell:
        print(json.dumps(cell(*json.loads(asked.cell))))
        return 0
    over = 0
    print(
        "log                 mechanism             epsilon  delta     N  noise s  total s    CPU s     MiB   cases variants"
    )
    numbers = (list(map(float, text.split(","))) for text in (asked.epsilons, asked.deltas))
    for name, mechanism, epsilon, delta in product(asked.logs.split(","), OPTIONS, *numbers):
        row = apart((mechanism, name, epsilon, delta))
        start = f"{name:19} {mechanism:21} {epsilon:7g} {delta:6g}"
        if isinstance(row, str):
            print(start, row, flush=True)
            over += 1
            continue
        missed = row["seconds"] > SECONDS or row["mib"] > MEBIBYTES
        over += missed
        figures = (
            f"{row['length']:5} {row['noise']:8.1f} {row['seconds']:8.1f} {row['processor']:8.1f} {row['mib']:7.0f}"
        )
        print(start, figures, f"{row['cases']:7} {row['variants']:8}", "OVER" if missed else "", flush=True)
    print(f"bars: {SECONDS:g} s, {MEBIBYTES:g} MiB; cells over: {over}")
    return int(over > 0)


if __name__ == "__main__":
    sys.exit(main())
