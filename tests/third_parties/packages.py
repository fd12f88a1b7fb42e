"""Packages with mechanisms of their own, put on the path as pip would leave them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml

from cloakwork.cli import main
from cloakwork.mechanisms.installed import installed_entries
from cloakwork.mechanisms.registry import catalogue
from conftest import ROOT

EXAMPLE = ROOT / "examples" / "mechanism"

POLICY: dict[str, Any] = {
    "apiVersion": "cloakwork/v1",
    "kind": "PrivacyPolicy",
    "metadata": {
        "name": "third-party",
        "version": "1.0.0",
        "owner": "dpo@example.org",
        "purpose": "Tests",
        "dataset": "third-party",
    },
    "spec": {
        "unit": "case",
        "attributes": {
            "case:concept:name": {"role": "identifier"},
            "concept:name": {"role": "control-flow"},
            "*": {"treatment": "drop"},
        },
        "guarantees": [
            {
                "kind": "differential-privacy",
                "epsilon": 2.0,
                "delta": 1e-6,
                "over": ["control-flow"],
            }
        ],
        "budget": {"total": {"epsilon": 100, "delta": 1e-3}},
    },
}


def install(site: Path, module: str, name: str, target: str, *, package: str = "acme") -> Path:
    """Write a module and its entry point into ``site``, as an installed package has them."""
    site.mkdir(exist_ok=True)
    (site / f"{package}.py").write_text(module, "utf-8")
    described = site / f"{package}-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    entry = f"[cloakwork.mechanisms]\n{name} = {package}:{target}\n"
    (described / "entry_points.txt").write_text(entry)
    return site


def install_example(site: Path) -> Path:
    """The package of ``examples/mechanism``, by its own build backend; nothing is fetched."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(site)]
    copy = site.parent / "source"
    copy.mkdir()
    for path in EXAMPLE.glob("*.*"):
        (copy / path.name).write_bytes(path.read_bytes())
    subprocess.run([*command, *offline, str(copy)], check=True)
    return site


def write_policy(folder: Path, **mechanisms: Any) -> Path:
    """A policy of differential privacy over the control flow, under these ``mechanisms``."""
    spec = POLICY["spec"] | {"mechanisms": mechanisms}
    path = folder / "policy.yaml"
    path.write_text(yaml.safe_dump(POLICY | {"spec": spec}), "utf-8")
    return path


def own_process(folder: Path, *arguments: str | Path, site: Path) -> CompletedProcess[str]:
    """The command line in a process of its own, which sees the packages in ``site``."""
    path = os.pathsep.join((str(ROOT / "engine"), str(site)))
    here = os.environ | {"PYTHONPATH": path, "CLOAKWORK_HOME": str(folder)}
    command = [sys.executable, "-m", "cloakwork", *map(str, arguments)]
    return subprocess.run(
        command, cwd=folder, env=here, capture_output=True, text=True, check=False
    )


def cloakwork(
    folder: Path, *arguments: str | Path, site: Path | None = None
) -> CompletedProcess[str]:
    """The command line in this process, which sees the packages in ``site`` as long as it runs: to
    start Python for each command takes ten times as long.
    """
    words = [str(argument) for argument in arguments]
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, _installed(site):
        patch.chdir(folder)
        patch.setenv("CLOAKWORK_HOME", str(folder))
        with redirect_stdout(out), redirect_stderr(err):
            code = main(words)
    return CompletedProcess(words, code, out.getvalue(), err.getvalue())


@contextmanager
def _installed(site: Path | None) -> Iterator[None]:
    """Entry points and modules of ``site`` are found, and forgotten afterwards."""
    path, modules = list(sys.path), set(sys.modules)
    sys.path.extend([str(site)] if site else [])
    _forget_entries()
    try:
        yield
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            if site and str(getattr(sys.modules[name], "__file__", "")).startswith(str(site)):
                del sys.modules[name]
        _forget_entries()


def _forget_entries() -> None:
    installed_entries.cache_clear()
    catalogue.cache_clear()


def document(done: subprocess.CompletedProcess[str]) -> Any:
    """What a command printed with ``--json``."""
    return json.loads(done.stdout)
