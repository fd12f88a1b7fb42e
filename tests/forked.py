"""The command line in processes that are forked off one that has loaded everything: as apart as if
Python were started for each, and ten times as fast.
"""

import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing.context import ForkServerContext
from pathlib import Path

import failing
from conftest import ROOT, Said

SERVER = """
import faulthandler, gc, json, os, sys
os.environ.setdefault("POT_BACKEND_DISABLE_PYTORCH", "1")
import jinja2, jsonschema, ot  # as reports and statements do, late
import polars, pydantic, sqlalchemy.dialects.sqlite, sqlalchemy.dialects.postgresql.psycopg
import cryptography.hazmat.primitives.asymmetric.ed25519
import cryptography.hazmat.primitives.serialization
import cloakwork.api, cloakwork.cli.plan, cloakwork.publishing.publish, cloakwork.report.html
import cloakwork.ledger.ledger, cloakwork.mechanisms.registry, cloakwork.accounting.events
import cloakwork.evaluation.attacked, cloakwork.report.outcome, polars._utils.parquet
from cloakwork.cli import main
from cloakwork.report.html import _environment

for page in _environment().list_templates(extensions=["html"]):
    _environment().get_template(page)  # compiled once: half of what a release takes, else
answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
main(sys.argv[1:])  # a plan: loads what planning loads, and starts no thread
gc.freeze()  # no child looks through what was loaded, nor copies its pages
for line in sys.stdin:
    asked = json.loads(line)
    if "end" in asked:
        print(os.waitstatus_to_exitcode(os.waitpid(asked["end"], 0)[1]), file=answers)
    elif child := os.fork():
        print(child, file=answers)
    else:
        # A child that stands still says where, and ends.
        faulthandler.dump_traceback_later(300, exit=True, file=open(asked["err"] + ".stuck", "w"))
        for place, name in enumerate(("out", "err"), start=1):
            os.dup2(os.open(asked[name], os.O_WRONLY | os.O_CREAT), place)
        os.environ.update(asked["environment"])
        exec(asked["first"], {})
        code = main(asked["words"])
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
"""
"""Reads one request a line. A process id stays its own until its end is asked for."""

POLICY = ROOT / "policies" / "dp-control-flow.yaml"


def forking_server() -> ForkServerContext:
    """Where pools of processes come from; it has loaded what their tests load.

    Its processes have the environment that the first one of them was made in.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pytest", "hypothesis", "yaml", "cloakwork.api", "jinja2"])
    return context


class Forks:
    """Starts commands; ``folder``: where they print to."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        warm = ["plan", str(POLICY), str(ROOT / "examples" / "logs" / "hospital.csv.gz")]
        path = os.pathsep.join([str(ROOT / "engine"), os.environ.get("PYTHONPATH", "")])
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVER, *warm, "--quiet", "--no-preview"],
            env=os.environ | {"PYTHONPATH": path} | failing.library(folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, words: Sequence[object], *, err: Path | None = None, first: str = "") -> "Fork":
        """One command, begun. ``err``: where its standard error goes; ``first``: Python that its
        process runs before it.
        """
        self._count += 1
        out, err = self._folder / f"out{self._count}", err or self._folder / f"err{self._count}"
        home = {
            name: os.environ[name] for name in ("CLOAKWORK_HOME", "TMPDIR") if name in os.environ
        }
        asked = {"words": [str(word) for word in words], "out": str(out), "err": str(err)}
        return Fork(self, self.ask(asked | {"first": first, "environment": home}), out, err)

    def run(self, words: Sequence[object], *, first: str = "") -> Said:
        """One command, to its end; the code is negative for a signal."""
        fork = self.start(words, first=first)
        return Said(fork.end(), fork.out.read_text("utf-8"), fork.err.read_text("utf-8"))

    def ask(self, request: dict[str, object]) -> int:
        """The answer to one line."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        """No more commands."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


class Fork:
    """A command in a process of its own, whose number is ``process``."""

    def __init__(self, forks: Forks, process: int, out: Path, err: Path) -> None:
        self.process, self.out, self.err, self._forks = process, out, err, forks

    def end(self) -> int:
        """The exit code, negative for a signal; waits for it."""
        code = self._forks.ask({"end": self.process})
        stuck = Path(f"{self.err}.stuck")
        assert not (stuck.exists() and stuck.stat().st_size), stuck.read_text("utf-8")
        return code
