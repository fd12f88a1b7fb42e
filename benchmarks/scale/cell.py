"""One cell of the benchmark: ``cloakwork apply``, or the group-by, in a process that is watched.

Memory is what the process and all its children hold together at one moment, sampled; pages that
several of them share count in each. ``held_mb`` leaves out pages of files, which the system takes
back when it needs them. CPU is that of all of them, which the system counts.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
EVERY = 0.05
"""Seconds between two looks at the processes; files are looked at every tenth time."""


@dataclass
class Watch:
    """The most memory and disk that a process and its children had, in bytes."""

    process: int
    folder: Path
    resident: int = 0
    held: int = 0
    disk: int = 0
    processes: int = 0

    def run(self, ended: threading.Event) -> None:
        """Look until told to end."""
        looks = 0
        while not ended.wait(EVERY):
            self.look_at_memory()
            if looks % 10 == 0:
                self.look_at_disk()
            looks += 1

    def look_at_memory(self) -> None:
        """Sum over the tree of processes."""
        running = [each for each in tree_of(self.process) if not is_starting(each)]
        found = [_memory_of(process) for process in running]
        self.processes = max(self.processes, len(found))
        self.resident = max(self.resident, sum(resident for resident, _ in found))
        self.held = max(self.held, sum(held for _, held in found))

    def look_at_disk(self) -> None:
        """Sum over the folder that everything is written to."""
        total = 0
        for path in self.folder.rglob("*"):
            with suppress(OSError):
                total += path.lstat().st_size
        self.disk = max(self.disk, total)


def tree_of(process: int) -> list[int]:
    """The process and all below it that are there now."""
    found, waiting = [], [process]
    while waiting:
        one = waiting.pop()
        found.append(one)
        with suppress(OSError):
            for task in Path(f"/proc/{one}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
    return found


def is_starting(process: int) -> bool:
    """Whether a process still has the memory of the one that started it: until it runs a program
    of its own, that memory would count twice.
    """
    try:
        parent, stack = _parent_and_stack(process)
        return stack != 0 and _parent_and_stack(parent)[1] == stack
    except OSError:
        return False


def _parent_and_stack(process: int) -> tuple[int, int]:
    """The process that started it, and where its stack begins, which each program has anew."""
    # Behind the name, which may hold anything, stand fields 3 and on of proc(5).
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[4 - 3]), int(fields[28 - 3])


def _memory_of(process: int) -> tuple[int, int]:
    """Bytes that are resident, and those of them that are no pages of files."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0, 0
    kilobytes = {
        name: int(rest.split()[0])
        for name, _, rest in (line.partition(":") for line in lines)
        if name in ("VmRSS", "RssFile")
    }
    resident = kilobytes.get("VmRSS", 0) * 1024
    return resident, resident - kilobytes.get("RssFile", 0) * 1024


def watched(command: list[str], folder: Path) -> tuple[dict[str, Any], bytes]:
    """Run ``command``, which writes below ``folder`` alone; its figures and what it printed."""
    environment = os.environ | {
        "CLOAKWORK_HOME": str(folder),
        "CLOAKWORK_LEDGER": f"sqlite:///{folder}/ledger.db",
        "TMPDIR": str(folder),
    }
    begun = time.perf_counter()
    with (folder / "printed").open("w+b") as printed, (folder / "errors").open("w+b") as errors:
        child = subprocess.Popen(
            command, env=environment, stdout=printed, stderr=errors, cwd=folder
        )
        watch, ended = Watch(child.pid, folder), threading.Event()
        thread = threading.Thread(target=watch.run, args=(ended,))
        thread.start()
        _, status, used = os.wait4(child.pid, 0)
        ended.set()
        thread.join()
        wall = time.perf_counter() - begun
        watch.look_at_disk()
        if status:
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip().splitlines() or [
                f"status {status}"
            ]
            return {"failed": said[-1].replace(str(folder), "FOLDER")[:300]}, b""
        printed.seek(0)
        figures = {
            "wall_s": round(wall, 2),
            "cpu_s": round(used.ru_utime + used.ru_stime, 2),
            "peak_mb": round(watch.resident / 1e6),
            "held_mb": round(watch.held / 1e6),
            "largest_process_mb": round(used.ru_maxrss * 1024 / 1e6),
            "disk_mb": round(watch.disk / 1e6),
            "processes": watch.processes,
        }
        return figures, printed.read()


def released(policy: Path, log: Path, engine: str, *, report: bool) -> dict[str, Any]:
    """The figures of one release, file to file; with a ``report`` also its stages, and the utility
    that is measured for it.
    """
    with tempfile.TemporaryDirectory(dir=os.environ.get("CLOAKWORK_SCALE")) as name:
        folder = Path(name)
        if not report:
            text = policy.read_text("utf-8").replace("report: [json]", "report: []")
            policy = folder / policy.name
            policy.write_text(text, "utf-8")
        command = [sys.executable, "-m", "cloakwork", "apply", str(policy), str(log)]
        command += ["--out", str(folder / "out"), "--engine", engine, "--quiet", "--json"]
        figures, printed = watched(command, folder)
        if "failed" in figures:
            return figures
        if report:
            text = (folder / "out" / "internal" / "report.json").read_text("utf-8")
            stages = json.loads(text)["stages"].items()
            figures["stages_s"] = {stage: round(seconds, 2) for stage, seconds in stages}
        parts = [path for path in folder.glob("out/log*") if path.is_file()]
        parts += [path for path in folder.glob("out/log*/*") if path.is_file()]
        return figures | {
            "released": json.loads(printed)["log"],
            "parts": len(parts),
            "released_mb": round(sum(path.stat().st_size for path in parts) / 1e6),
        }


def group_by(log: Path) -> dict[str, Any]:
    """polars' streaming group-by over the same file: events of each case, cases of each length."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("CLOAKWORK_SCALE")) as name:
        figures, _ = watched([sys.executable, str(HERE / "group_by.py"), str(log)], Path(name))
        return figures


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    if asked["engine"] == "group-by":
        print(json.dumps(group_by(Path(asked["file"]))))
    else:
        policy, file = Path(asked["policy"]).resolve(), Path(asked["file"]).resolve()
        print(json.dumps(released(policy, file, asked["engine"], report=asked["report"])))
