"""How processor time, memory and disk grow: formulas, fitted on five cells each, with what they
miss.

    python benchmarks/scale/growth.py [--policies dp-control-flow,dp-attributes] [--format parquet]
        [--events 100000,300000,1000000,3000000,10000000] [--to 10000000000]
    python benchmarks/scale/growth.py --vary variants,activities,attributes [--size 300000]

The first is about events: of cells of ``results.json``, and what they say of a log that was never
run. Processor time and disk are a constant and so much an event; memory is a constant and so much
for each tenfold of the events.

The second leaves the events as they are, in the engine ``local``, and varies one thing: variants
(``generate.py --mutate``), activities (``--copies``) or declared attributes (``--amounts``). Each
figure is a constant and so much for each of these; for activities also for a power of them, where
that misses less. Cells that ``growth.json`` lacks are measured; logs are made in the folder that
CLOAKWORK_SCALE names, else in that of temporary files.

All are fitted by least squares of relative errors, so that small cells count as much as large ones.
*Missed* is the largest relative error over the cells, *foretold* by how much the largest cell
differs from what the others say of it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import yaml

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from cell import released  # noqa: E402 - beside this script
from generate import alphabet_of  # noqa: E402 - beside this script

from cloakwork.log.eventlog import ACTIVITY, CASE_ID  # noqa: E402

SIZES = "100000,300000,1000000,3000000,10000000"
VARIED = HERE / "growth.json"


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


class Varied(NamedTuple):
    """What is varied: by which option of ``generate.py``, the policy that runs on the logs, and by
    what of it figures may grow: a name, a power, and so many of these. Taken is what misses least.
    """

    option: str
    values: tuple[float, ...]
    policy: str
    grows: tuple[tuple[str, float, float], ...]


VARIES = {
    "variants": Varied(
        "--mutate", (0, 0.03, 0.1, 0.3, 1), "dp-whole-log", (("thousand variants", 1, 1000),)
    ),
    "activities": Varied(
        "--copies",
        (1, 4, 8, 16, 32),
        "dp-whole-log",
        (
            ("hundred activities", 1, 100),
            ("hundred activities to the power of 1.5", 1.5, 100**1.5),
            ("hundred activities squared", 2, 100**2),
        ),
    ),
    "attributes": Varied(
        "--amounts", (1, 2, 4, 8, 16), "dp-attributes", (("declared attribute", 1, 1),)
    ),
}


def fitted(grows: np.ndarray, found: np.ndarray) -> np.ndarray:
    """The constant and the slope with the least squares of relative errors."""
    columns = np.stack([np.ones_like(grows), grows], axis=1)
    return np.linalg.lstsq(columns / found[:, None], np.ones_like(found), rcond=None)[0]


def missed(grows: np.ndarray, found: np.ndarray) -> float:
    """The largest relative error of what is fitted."""
    constant, slope = fitted(grows, found)
    return float(np.abs((constant + slope * grows) / found - 1).max())


def formulas(
    cells: list[dict[str, Any]],
    sizes: np.ndarray,
    most: float,
    of: str,
    figures: tuple[Figure, ...] = FIGURES,
) -> Iterator[str]:
    """A row of a table a figure."""
    for figure in figures:
        found = np.array([cell[figure.name] for cell in cells], np.float64)
        grows = figure.grows(sizes)
        constant, slope = fitted(grows, found)
        error = missed(grows, found)
        before, each = fitted(grows[:-1], found[:-1])
        foretold = (before + each * grows[-1]) / found[-1] - 1
        to = constant + slope * float(figure.grows(np.array([most]))[0])
        formula = f"{constant:.4g} + {slope:.3g} a {figure.by}".replace("+ -", "- ")
        yield f"| {of} | {figure.title} | {formula} | {error:.0%} | {foretold:+.0%} | {to:,.0f} |"


def policy_for(varied: str, value: float) -> str:
    """The policy's text, declaring the activities or the attributes that the log has."""
    text = (HERE / "policies" / f"{VARIES[varied].policy}.yaml").read_text("utf-8")
    policy = yaml.safe_load(text)
    spec = policy["spec"]
    if varied == "activities":
        spec["assume"]["alphabet"] = alphabet_of(spec["assume"]["alphabet"], int(value))
    if varied == "attributes":
        amounts = [f"amount {number}" for number in range(int(value))]
        amount = spec["attributes"]["amount"]
        del spec["attributes"]["amount"], spec["attributes"]["org:resource"]
        spec["attributes"] = dict.fromkeys(amounts, amount) | spec["attributes"]
        spec["guarantees"][0]["over"] = ["control-flow", "timestamps", *amounts]
    spec["output"]["report"] = []
    return yaml.safe_dump(policy, sort_keys=False)


def measured(varied: str, value: float, events: int) -> dict[str, Any]:
    """A cell: a log is made, released, and left out again."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("CLOAKWORK_SCALE")) as name:
        log, policy = Path(name) / "log.parquet", Path(name) / "policy.yaml"
        command = [sys.executable, str(HERE / "generate.py"), str(log), str(events)]
        subprocess.run([*command, VARIES[varied].option, str(value)], check=True)
        policy.write_text(policy_for(varied, value), "utf-8")
        figures = released(policy, log, "local", report=False)
        cases = pl.read_parquet(log).group_by(CASE_ID, maintain_order=True).agg(ACTIVITY)
        counted = {
            "variants": cases[ACTIVITY].list.join("\n").n_unique(),
            "activities": cases[ACTIVITY].explode().n_unique(),
            "attributes": int(value) if varied == "attributes" else 0,
        }
    return {"events": events, "policy": VARIES[varied].policy} | counted | figures


def vary(varied: str, events: int) -> Iterator[str]:
    """Measure the cells that are missing, then the rows of the table."""
    cells = []
    for value in VARIES[varied].values:
        known = json.loads(VARIED.read_text("utf-8")) if VARIED.is_file() else {}
        key = f"{events} {varied} {value:g}"
        if "cpu_s" not in known.get(key, {}):
            known[key] = measured(varied, value, events)
            print(key, known[key], file=sys.stderr)
            VARIED.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", "utf-8")
        cells.append(known[key])
    if failed := [cell["failed"] for cell in cells if "failed" in cell]:
        raise SystemExit("\n".join(failed))
    sizes = np.array([float(cell[varied]) for cell in cells])
    of = f"{sizes[0]:,.0f} to {sizes[-1]:,.0f} {varied}"
    figures = []
    for figure in FIGURES:
        found = np.array([cell[figure.name] for cell in cells], np.float64)
        candidates = [
            Figure(figure.name, figure.title, partial(powers_of, power=power, unit=unit), by)
            for by, power, unit in VARIES[varied].grows
        ]
        errors = [missed(each.grows(sizes), found) for each in candidates]
        figures.append(candidates[errors.index(min(errors))])
    yield from formulas(cells, sizes, 10 * sizes[-1], of, tuple(figures))


def powers_of(sizes: np.ndarray, power: float, unit: float) -> np.ndarray:
    """So many units of the power of each."""
    return np.asarray(sizes**power / unit)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--policies", default="dp-control-flow,dp-attributes")
    parser.add_argument("--format", default="parquet")
    parser.add_argument("--events", default=SIZES)
    parser.add_argument("--to", type=float, default=1e10)
    parser.add_argument("--vary", help=", ".join(VARIES))
    parser.add_argument("--size", type=int, default=300_000, help="events, where others vary")
    asked = parser.parse_args()
    if asked.vary:
        print("| varied | of | formula | missed | foretold | at ten times the largest |")
        print("|---|---|---|---|---|---|")
        for varied in asked.vary.split(","):
            print("\n".join(vary(varied, asked.size)))
        return
    known = json.loads((HERE / "results.json").read_text("utf-8"))
    events = np.array([float(size) for size in asked.events.split(",")])
    print(f"| policy | of | formula | missed | foretold | at {asked.to:,.0f} events |")
    print("|---|---|---|---|---|---|")
    for policy in asked.policies.split(","):
        keys = [f"{int(size)} {asked.format} {policy} local" for size in events]
        if lacking := [key for key in keys if "cpu_s" not in known.get(key, {})]:
            raise SystemExit(f"not measured: {', '.join(lacking)}; run benchmarks/scale first")
        print("\n".join(formulas([known[key] for key in keys], events, asked.to, policy)))


if __name__ == "__main__":
    main()
