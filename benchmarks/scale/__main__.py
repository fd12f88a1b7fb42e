"""How the engines grow: wall time, processor time, memory and disk, by stage, from 1 to 100 million
events.

    python benchmarks/scale [--engines memory,local,spark] [--events 1000000,8000000]
        [--policies kanon-times,dp-control-flow] [--formats parquet] [--without-report]
        [--folder DIR] [--fresh] [--table-only]

Logs are made by ``generate.py`` in ``--folder`` (default: the folder that CLOAKWORK_SCALE names,
else that of temporary files) and stay there; 100 million events take about 1.5 GB as Parquet. Each
cell is a process of its own. Cells that were measured before are taken from ``results.json``,
unless ``--fresh``.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS, PLOT = HERE / "results.json", HERE / "scale.svg"
POLICIES = {path.stem: path for path in sorted((HERE / "policies").glob("*.yaml"))}
ENGINES, GROUP_BY = ("memory", "local", "spark"), "group-by"
COLUMNS = (
    ("engine", 8),
    ("policy", 16),
    ("format", 8),
    ("events", 12),
    ("wall s", 8),
    ("CPU s", 8),
    ("peak MB", 8),
    ("held MB", 8),
    ("disk MB", 8),
    ("stages (s)", 0),
)


def arguments() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(
        prog="python benchmarks/scale", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--engines", default="memory,local")
    parser.add_argument("--events", default="1000000")
    parser.add_argument("--policies", default="kanon-times,dp-control-flow")
    parser.add_argument("--formats", default="parquet", help="parquet, csv.gz, xes.gz, folder")
    parser.add_argument(
        "--without-report", action="store_true", help="neither stages nor utility are measured"
    )
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--table-only", action="store_true", help="measure nothing")
    return parser.parse_args()


def cells(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The cells that are asked for, small ones first; the group-by once a file."""
    for events, form in product(map(int, asked.events.split(",")), asked.formats.split(",")):
        file = {"format": form, "events": events}
        if form != "xes.gz":
            yield {"engine": GROUP_BY, "policy": "", "report": False} | file
        for policy, engine in product(asked.policies.split(","), asked.engines.split(",")):
            yield {"engine": engine, "policy": policy, "report": not asked.without_report} | file


def key(cell: dict[str, Any]) -> str:
    """What a cell is filed under."""
    reported = " with report" if cell["report"] else ""
    return f"{cell['events']} {cell['format']} {cell['policy'] or '-'} {cell['engine']}{reported}"


def file_of(cell: dict[str, Any], folder: Path) -> Path:
    """The log of a cell, which is made where it is not there."""
    name = f"scale-{cell['events']}"
    path = folder / (name if cell["format"] == "folder" else f"{name}.{cell['format']}")
    if not path.exists():
        print(f"making {path.name}", file=sys.stderr)
        command = [sys.executable, HERE / "generate.py", path, cell["events"]]
        command += ["--people", 3, "--attributes"]
        subprocess.run([str(word) for word in command], check=True)
    return path


def measured(cell: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run one cell in a process of its own."""
    policy = str(POLICIES.get(cell["policy"], ""))
    asked = cell | {
        "file": str(file_of(cell, folder)),
        "policy": policy,
    }
    command = [sys.executable, str(HERE / "cell.py"), json.dumps(asked)]
    environment = os.environ | {"CLOAKWORK_SCALE": str(folder)}
    child = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if child.returncode:
        return cell | {"failed": (child.stderr.strip().splitlines() or ["no word"])[-1][:300]}
    return cell | json.loads(child.stdout.splitlines()[-1])


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """One line a cell."""
    yield " ".join(name.ljust(width) for name, width in COLUMNS)
    for row in rows:
        values = [row["engine"], row["policy"], row["format"], f"{row['events']:,}"]
        if "failed" in row:
            values.append(row["failed"])
        else:
            values += [f"{row['wall_s']:.1f}", f"{row['cpu_s']:.1f}", f"{row['peak_mb']:,}"]
            values += [f"{row['held_mb']:,}", f"{row['disk_mb']:,}"]
            stages = [each for each in row.get("stages_s", {}).items() if each[1] >= 0.1]
            values.append(" ".join(f"{name} {seconds:g}" for name, seconds in stages))
        yield " ".join(
            str(value).ljust(width) for value, (_, width) in zip(values, COLUMNS, strict=False)
        )


def plot(rows: list[dict[str, Any]]) -> None:
    """Processor time, memory and disk against events of Parquet, a row a policy; with a report
    dashed, the group-by of polars in grey.
    """
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.hashsalt": "scale", "svg.fonttype": "none"}
    import matplotlib.pyplot as plt

    rows = [row for row in rows if "failed" not in row and row["format"] in ("parquet", "folder")]
    policies = sorted({row["policy"] for row in rows if row["policy"]})
    if not policies:
        return
    figures = (("cpu_s", "CPU seconds"), ("peak_mb", "peak memory, MB"), ("disk_mb", "disk, MB"))
    figure, axes = plt.subplots(
        len(policies), 3, figsize=(13, 3.6 * len(policies)), squeeze=False, layout="constrained"
    )
    for line, policy in zip(axes, policies, strict=True):
        for axis, (name, label) in zip(line, figures, strict=True):
            of_policy = [row for row in rows if row["policy"] in ("", policy)]
            colours = dict(zip(ENGINES, mpl.color_sequences["tab10"], strict=False))
            for engine, report in sorted({(row["engine"], row["report"]) for row in of_policy}):
                # A folder of several files goes before one file of as many events.
                points = {
                    row["events"]: row[name]
                    for row in sorted(of_policy, key=lambda row: row["format"], reverse=True)
                    if (row["engine"], row["report"]) == (engine, report)
                }
                axis.plot(
                    *zip(*sorted(points.items()), strict=True),
                    marker="o",
                    color=colours.get(engine, "grey"),
                    linestyle="--" if report else "-",
                    label=f"{engine}, with report" if report else engine,
                )
            axis.set(xscale="log", yscale="log", xlabel="events", ylabel=label, title=policy)
            axis.grid(visible=True, alpha=0.3)
    line[0].legend()
    figure.savefig(PLOT, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Measure what is missing, then show everything that was asked for."""
    asked = arguments()
    named = asked.folder or os.environ.get("CLOAKWORK_SCALE") or Path(tempfile.gettempdir())
    folder = Path(named).resolve()
    known: dict[str, Any] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.is_file() else {}
    wanted = list(cells(asked))
    for cell in wanted:
        old = known.get(key(cell), {"failed": ""})
        if asked.table_only or not ("failed" in old or asked.fresh):
            continue
        known[key(cell)] = measured(cell, folder)
        print("\n".join(list(table([known[key(cell)]]))[1:]), file=sys.stderr)
        RESULTS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", "utf-8")
    print("\n".join(table([known[key(cell)] for cell in wanted if key(cell) in known])))
    plot(list(known.values()))


if __name__ == "__main__":
    main()
