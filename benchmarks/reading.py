"""CPU and memory of reading a XES log, and of writing it again: Cloakwork beside pm4py, each in a
process of its own, all in one run.

    python benchmarks/reading.py [LOG] [--repeat 3] [--json FILE]

CPU is user and system time of reading or writing alone, imports left out; the peak is the process's
largest resident size, imports included. With several repeats, the smallest of each counts. Without
LOG, the largest of the real logs is taken if they lie beside the repository.
"""

import argparse
import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DEFAULT = ROOT.parent / "shared" / "logs" / "road_traffic_fines.xes.gz"

MEASURE = """
import json, os, resource, sys
sys.stderr = open(os.devnull, "w")
{prepare}
path = sys.argv[1]
before = resource.getrusage(resource.RUSAGE_SELF)
log = {read}
after = resource.getrusage(resource.RUSAGE_SELF)
events = {events}
cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
print("\\n" + json.dumps(dict(cpu=cpu, peak=after.ru_maxrss / 1024, events=events)))
"""
CLOAKWORK = (
    f"sys.path.insert(0, {str(ROOT / 'engine')!r})\nfrom cloakwork.log.formats import read_log"
)
FULL = (
    f"sys.path.insert(0, {str(ROOT / 'engine')!r})\nfrom pathlib import Path\n"
    "from cloakwork.log.formats.row_source import ReadRequest, collected\n"
    "from cloakwork.log.formats.xes import XesSource\n"
    "from cloakwork.log.formats.xes_full import full_chunks"
)
PM4PY = "from pm4py.objects.log.importer.xes import importer"
SILENT = "{'show_progress_bar': False}"
PM4PY_EVENTS = "sum(map(len, log))"


def _pm4py(variant: str) -> tuple[str, str, str]:
    read = f"importer.apply(path, variant=importer.Variants.{variant}, parameters={SILENT})"
    return PM4PY, read, PM4PY_EVENTS


READERS: dict[str, tuple[str, str, str]] = {
    "cloakwork, all attributes": (CLOAKWORK, "read_log(path)", "log.events.height"),
    "cloakwork, standard attributes only": (
        CLOAKWORK,
        "read_log(path, keep=lambda name: False)",
        "log.events.height",
    ),
    "cloakwork, full parser": (
        FULL,
        "collected(XesSource([Path(path)], ReadRequest(), (full_chunks,)))",
        "log.events.height",
    ),
    "pm4py iterparse": _pm4py("ITERPARSE"),
    "pm4py chunk_regex (its default)": _pm4py("CHUNK_REGEX"),
    "pm4py line_by_line": _pm4py("LINE_BY_LINE"),
}

WRITTEN = (
    "import tempfile\nfolder = tempfile.TemporaryDirectory()\nout = folder.name + '/log.xes'\n"
)
WRITERS: dict[str, tuple[str, str, str]] = {
    "cloakwork, written": (
        f"{CLOAKWORK}, write_log\n{WRITTEN}made = read_log(sys.argv[1])",
        "write_log(made, out, 'xes')",
        "made.events.height",
    ),
    "pm4py, written": (
        f"import pm4py\n{WRITTEN}made = pm4py.read_xes(sys.argv[1])",
        "pm4py.write_xes(made, out)",
        "len(made)",
    ),
}


def measure(reader: str, path: Path, repeat: int) -> dict[str, float] | None:
    """CPU seconds, peak MiB and events of one reader; None when it does not run here."""
    prepare, read, events = (READERS | WRITERS)[reader]
    script = MEASURE.format(prepare=prepare, read=read, events=events)
    runs = []
    for _ in range(repeat):
        done = subprocess.run(
            [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            return None
        runs.append(json.loads(done.stdout.strip().splitlines()[-1]))
    return {name: min(run[name] for run in runs) for name in ("cpu", "peak", "events")}


def show(
    options: argparse.Namespace, rows: dict[str, Any], against: str
) -> dict[str, dict[str, float] | None]:
    """Measure some rows and print them; CPU beside that of ``against``."""
    figures = {reader: measure(reader, options.log, options.repeat) for reader in rows}
    base = figures[against]
    print(f"\n{'':38}{'CPU s':>8}{'of ' + against:>20}{'peak MiB':>10}{'events':>10}")
    for reader, figure in figures.items():
        if figure is None:
            print(f"{reader:38}  does not run here")
            continue
        share = f"1/{base['cpu'] / figure['cpu']:.1f}" if base else "-"
        size = f"{figure['peak']:10.0f}{figure['events']:10.0f}"
        print(f"{reader:38}{figure['cpu']:8.2f}{share:>20}{size}")
    return figures


def main() -> int:
    """Print the table; exit status 1 when the log is missing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("log", nargs="?", type=Path, default=DEFAULT)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    if not options.log.is_file():
        print(f"{options.log}: there is no such log; name one")
        return 1
    machine = f"{platform.machine()}, Python {platform.python_version()}"
    print(f"{options.log.name}, {machine}, best of {options.repeat}")
    figures = show(options, READERS, "pm4py iterparse")
    figures |= show(options, WRITERS, "pm4py, written")
    if options.json:
        options.json.write_text(
            json.dumps({"log": options.log.name, "figures": figures}, indent=2) + "\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
