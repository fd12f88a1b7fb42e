"""Do the proved trees end, at every length and threshold? variants/prefix-tree and variants/sacofa
at their hardest.

    python benchmarks/variants/trees.py [--logs receipt,sepsis] [--epsilons 0.1,1] [--deltas
    1e-6,1e-4]

N is the longest case of the log, every extension is kept whose noisy count is 1 or more (threshold
1 of both kinds), over the log's activities as declared ones. Each mechanism and log has a process
of its own. A cell's seconds, by the clock and of the processor, hold everything but reading the log
(finding the noise, the run, the release made); its MiB are the peak of the process, the log in it.
Bars: 60 s of the processor, so that what else the machine does is not held against it, and 4 GiB.
Exit code 1 where a cell is over a bar or does not end.
"""

import argparse
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import product
from typing import Any

from cell import declared, forget_peak, peak, read

from cloakwork.evaluation.control_flow import histogram
from cloakwork.testing import prepare

LOGS = (
    "sepsis",
    "bpic2013_incidents",
    "bpic2012_a",
    "receipt",
    "road_traffic_fines",
    "unrineweginfectie",
)
OPTIONS: dict[str, dict[str, Any]] = {
    "variants/prefix-tree": {"threshold": 1},
    "variants/sacofa": {"threshold": 1, "harmful_threshold": 1, "most_harmful": 100_000},
}
"""What lets the most through: no extension is pruned whose noisy count is 1 or more, however many
rules it breaks.
"""

EPSILONS, DELTAS = (0.1, 0.5, 1.0, 2.0), (1e-4,)
SECONDS, MEBIBYTES = 60.0, 4096.0
LIMIT = 900
"""Seconds by the clock for one cell, on average over those of a process."""


def cells(
    mechanism: str, name: str, budgets: list[tuple[float, float]]
) -> Iterator[dict[str, float]]:
    """Run it once at each budget, and say what that took."""
    log = read(name)
    facts = declared(log, histogram(log))
    for epsilon, delta in budgets:
        forget_peak()
        begun, worked = time.perf_counter(), time.process_time()
        prepared = prepare(
            mechanism, options=OPTIONS[mechanism], epsilon=epsilon, delta=delta, **facts
        )
        found = time.process_time() - worked
        released = prepared.run(log)
        yield {
            "length": prepared.params.length,
            "noise": found,
            "seconds": time.perf_counter() - begun,
            "processor": time.process_time() - worked,
            "mib": peak() or 0.0,
            "cases": released.cases.height,
            "variants": len(histogram(released)),
        }


def apart(
    mechanism: str, name: str, budgets: list[tuple[float, float]]
) -> Iterator[dict[str, float] | str]:
    """The cells in a process of their own, as they end, or why they did not."""
    command = [sys.executable, __file__, "--cells", json.dumps([mechanism, name, budgets])]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        stop = threading.Timer(LIMIT * len(budgets), child.kill)
        stop.start()
        missing = len(budgets)
        for line in child.stdout or ():
            missing -= 1
            yield json.loads(line)
        said = child.stderr.read().strip() if child.stderr else ""
        stop.cancel()
    yield from [(said or f"ended with {child.wait()}").splitlines()[-1]] * missing


def main() -> int:
    """The table; 1 where a bar is missed."""
    parser = argparse.ArgumentParser(
        prog="python benchmarks/variants/trees.py", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--logs", default=",".join(LOGS))
    parser.add_argument("--epsilons", default=",".join(map(str, EPSILONS)))
    parser.add_argument("--deltas", default=",".join(map(str, DELTAS)))
    parser.add_argument("--cells", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.cells:
        for found in cells(*json.loads(asked.cells)):
            print(json.dumps(found), flush=True)
        return 0
    over = 0
    given, times = f"{'epsilon':>7} {'delta':>6}", f"{'N':>5} {'noise CPU':>9} {'CPU s':>7}"
    print(
        f"{'log':19} {'mechanism':21} {given} {times} {'clock s':>7} {'MiB':>6} {'cases':>7}",
        end=" ",
    )
    print(f"{'variants':>8}")
    budgets = [
        *product(*(list(map(float, text.split(","))) for text in (asked.epsilons, asked.deltas)))
    ]
    for name, mechanism in product(asked.logs.split(","), OPTIONS):
        for (epsilon, delta), row in zip(budgets, apart(mechanism, name, budgets), strict=True):
            start = f"{name:19} {mechanism:21} {epsilon:7g} {delta:6g}"
            missed = isinstance(row, str) or row["processor"] > SECONDS or row["mib"] > MEBIBYTES
            over += missed
            print(
                start,
                row if isinstance(row, str) else figures(row),
                "OVER" if missed else "",
                flush=True,
            )
    print(f"bars: {SECONDS:g} s, {MEBIBYTES:g} MiB; cells over: {over}")
    return int(over > 0)


def figures(row: dict[str, float]) -> str:
    """One cell's, in columns."""
    times = f"{row['length']:5} {row['noise']:9.1f} {row['processor']:7.1f} {row['seconds']:7.1f}"
    return f"{times} {row['mib']:6.0f} {row['cases']:7} {row['variants']:8}"


if __name__ == "__main__":
    sys.exit(main())
