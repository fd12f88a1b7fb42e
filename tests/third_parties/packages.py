"""Packages with mechanisms of their own, put on the path as pip would leave them."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import yaml

from cloakwork.cli import main
from cloakwork.mechanisms.installed import installed_entries
from cloakwork.mechanisms.registry import catalogue
from conftest import ROOT, Said

EXAMPLE = ROOT / "examples" / "mechanism"
LOG = ROOT / "examples" / "logs" / "hospital.csv.gz"
NAME, CLASS = "acme/noise", "ExampleThreshold"
WORKING = (EXAMPLE / "example_threshold.py").read_text("utf-8").replace("example/threshold", NAME)
"""The example's module, as another package's."""

PRIVATE = {
    "kind": "differential-privacy",
    "epsilon": 2.0,
    "delta": 1e-6,
    "over": ["control-flow"],
}


def install(site: Path, module: str, target: str = CLASS, name: str = NAME) -> Path:
    """Write a module and its entry point into ``site``, as an installed package has them."""
    described = site / "acme-1.0.dist-info"
    described.mkdir(parents=True)
    (site / "acme.py").write_text(module, "utf-8")
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    entry = f"[cloakwork.mechanisms]\n{name} = acme:{target}\n"
    (described / "entry_points.txt").write_text(entry)
    return site


def install_example(site: Path) -> Path:
    """The package of ``examples/mechanism``, by its own build backend; nothing is fetched."""
    from hatchling.build import build_wheel

    copy = site.parent / "source"
    copy.mkdir()
    for path in EXAMPLE.glob("*.*"):
        (copy / path.name).write_bytes(path.read_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(copy)
        wheel = build_wheel(str(copy))
    with ZipFile(copy / wheel) as packed:
        packed.extractall(site)
    return site


def write_policy(folder: Path, goal: dict[str, Any] | None = None, **mechanisms: Any) -> Path:
    """A policy over the control flow, under these ``mechanisms``; differential privacy, if no other
    ``goal`` is given.
    """
    spec: dict[str, Any] = {
        "unit": "case",
        "attributes": {
            "case:concept:name": {"role": "identifier"},
            "concept:name": {"role": "control-flow"},
            "*": {"treatment": "drop"},
        },
        "guarantees": [goal or PRIVATE],
        "mechanisms": mechanisms,
    }
    if goal is None:
        spec["budget"] = {"total": {"epsilon": 100, "delta": 1e-3}}
    names = ("name", "owner", "purpose", "dataset")
    document = {
        "apiVersion": "cloakwork/v1",
        "kind": "PrivacyPolicy",
        "metadata": {**dict.fromkeys(names, "third-party"), "version": "1.0.0"},
        "spec": spec,
    }
    path = folder / "policy.yaml"
    path.write_text(yaml.safe_dump(document), "utf-8")
    return path


def cloakwork(folder: Path, *arguments: str | Path, site: Path | None = None) -> Said:
    """The command line in this process, which sees the packages in ``site`` as long as it runs: to
    start Python for each command takes ten times as long.
    """
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, _installed(site):
        patch.chdir(folder)
        patch.setenv("CLOAKWORK_HOME", str(folder))
        with redirect_stdout(out), redirect_stderr(err):
            code = main([str(argument) for argument in arguments])
    return Said(code, out.getvalue(), err.getvalue())


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


def applied(folder: Path, module: str, target: str = CLASS, goal: Any = None) -> Said:
    """``apply`` of a policy that allows this mechanism of another package; it may not release."""
    site = install(folder / "site", module, target)
    policy = write_policy(folder, goal, allow=["bound", "attributes/*", NAME])
    done = cloakwork(folder, "apply", policy, LOG, "--out", "release", "--quiet", site=site)
    assert done.code == 1, done.out
    assert "Traceback" not in done.err
    assert not (folder / "release").exists()
    return done


def document(done: Said) -> Any:
    """What a command printed with ``--json``."""
    return json.loads(done.out)
