"""How processor time, memory and disk grow with the events of a log: formulas, fitted on cells of
``results.json``, with what they miss, and what they say of a log that was never run.

    python benchmarks/scale/growth.py [--policies dp-control-flow,dp-attributes] [--format parquet]
        [--events 100000,300000,1000000,3000000,10000000] [--to 10000000000]

Processor time and disk are a constant and so much an event; memory is a constant and so much for
each tenfold of the events. They are fitted by least squares of relative errors, so that small logs
count as much as large ones. *Missed* is the largest relative error over the cells, *foretold* by
how much the largest cell differs from what the others say of it.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).resolve().parent
SIZES = "100000,300000,1000000,3000000,10000000"


class Figure(NamedTuple):
    """A figure of a cell, and by what of the number of events it grows."""

    name: str
    title: str
    grows: Callable[[np.ndarray], np.ndarray]
    by: str


FIGURES = (
    Figure("cpu_s", "CPU, s", lambda events: events / 1e6, "million events"),
    Figure("peak_mb", "memory, MB", np.log10, "tenfold"),
    Figure("disk_mb", "disk, MB", lambda events: events / 1e6, "million events"),
)


def fitted(grows: np.ndarray, found: np.ndarray) -> np.ndarray:
    """The constant and the slope with the least squares of relative errors."""
    columns = np.stack([np.ones_like(grows), grows], axis=1)
    return np.linalg.lstsq(columns / found[:, None], np.ones_like(found), rcond=None)[0]


def formulas(cells: list[dict[str, Any]], events: np.ndarray, most: float) -> Iterator[str]:
    """A row of a table a figure."""
    for figure in FIGURES:
        found = np.array([cell[figure.name] for cell in cells], np.float64)
        grows = figure.grows(events)
        constant, slope = fitted(grows, found)
        missed = np.abs((constant + slope * grows) / found - 1).max()
        before, each = fitted(grows[:-1], found[:-1])
        foretold = (before + each * grows[-1]) / found[-1] - 1
        to = constant + slope * float(figure.grows(np.array([most]))[0])
        formula = f"{constant:.4g} + {slope:.3g} a {figure.by}".replace("+ -", "- ")
        yield (
            f"| {cells[0]['policy']} | {figure.title} | {formula} | {missed:.0%} | "
            f"{foretold:+.0%} | {to:,.0f} |"
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--policies", default="dp-control-flow,dp-attributes")
    parser.add_argument("--format", default="parquet")
    parser.add_argument("--events", default=SIZES)
    parser.add_argument("--to", type=float, default=1e10)
    asked = parser.parse_args()
    known = json.loads((HERE / "results.json").read_text("utf-8"))
    events = np.array([float(size) for size in asked.events.split(",")])
    print(f"| policy | of | formula | missed | foretold | at {asked.to:,.0f} events |")
    print("|---|---|---|---|---|---|")
    for policy in asked.policies.split(","):
        keys = [f"{int(size)} {asked.format} {policy} local" for size in events]
        if lacking := [key for key in keys if "cpu_s" not in known.get(key, {})]:
            raise SystemExit(f"not measured: {', '.join(lacking)}; run benchmarks/scale first")
        print("\n".join(formulas([known[key] for key in keys], events, asked.to)))


if __name__ == "__main__":
    main()
