"""A whole run, from file to signed release: wall time, peak memory, and the share of each stage.

    python benchmarks/end_to_end.py [POLICY LOG]... [--json]

Without arguments: the contract's policies on the real logs beside this checkout (`../shared`), else
a shipped policy on a shipped log. Each run is a process of its own; the stages come from the
release's internal report.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"


def runs() -> list[tuple[Path, Path]]:
    """The pairs of policy and log to run."""
    named = [Path(argument) for argument in sys.argv[1:] if not argument.startswith("--")]
    if named:
        return list(zip(named[::2], named[1::2], strict=True))
    policies, logs = SHARED / "contract" / "policies", SHARED / "logs"
    if not (policies.is_dir() and logs.is_dir()):
        return [
            (
                ROOT / "policies" / "kanon-dp-timestamps.yaml",
                ROOT / "examples" / "logs" / "hospital.xes.gz",
            )
        ]
    kanon, dp = policies / "kanon-then-dp-time.yaml", policies / "dp-control-flow.yaml"
    return [
        (kanon, logs / f"{name}.xes.gz") for name in ("sepsis", "receipt", "road_traffic_fines")
    ] + [(dp, logs / f"{name}.xes.gz") for name in ("bpic2012_a", "road_traffic_fines")]


def measure(policy: Path, log: Path) -> dict[str, Any]:
    """Run one policy on one log in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        command = [
            sys.executable,
            "-m",
            "cloakwork",
            "apply",
            policy,
            log,
            "--out",
            out,
            "--quiet",
            "--json",
        ]
        environment = os.environ | {
            "CLOAKWORK_HOME": folder,
            "CLOAKWORK_LEDGER": f"sqlite:///{folder}/ledger.db",
        }
        begun = time.perf_counter()
        child = subprocess.Popen(
            [str(part) for part in command], env=environment, stdout=subprocess.PIPE
        )
        printed = child.stdout.read() if child.stdout else b""
        _, status, used = os.wait4(child.pid, 0)
        wall = time.perf_counter() - begun
        if status:
            raise SystemExit(f"{policy.name} on {log.name} failed")
        stages = json.loads((out / "internal" / "report.json").read_text("utf-8"))["stages"]
        released = json.loads(printed)["log"]
    return {
        "policy": policy.stem,
        "log": log.name,
        "wall_s": round(wall, 2),
        "cpu_s": round(used.ru_utime + used.ru_stime, 2),
        "peak_mb": round(used.ru_maxrss / 1024),
        "released": released,
        "stages_s": {name: round(seconds, 3) for name, seconds in stages.items()},
    }


def main() -> None:
    """Run them all; print a table, or JSON."""
    results = [measure(policy, log) for policy, log in runs()]
    if "--json" in sys.argv:
        print(json.dumps(results, indent=2))
        return
    for result in results:
        print(
            "{policy} on {log}: {wall_s} s wall, {cpu_s} s CPU, {peak_mb} MB peak".format(**result)
        )
        stages = result["stages_s"]
        rest = result["wall_s"] - sum(stages.values())
        for name, seconds in {**stages, "start, plan, prove, sign": rest}.items():
            print(f"    {name:24} {seconds:8.3f} s  {seconds / result['wall_s']:6.1%}")


if __name__ == "__main__":
    main()
