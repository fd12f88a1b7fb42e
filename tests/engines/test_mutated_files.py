"""``local`` against ``memory`` on damaged files: the same exit code, the same line, and under the
same noise the same released rows, byte by byte.

A dozen files; with ``CLOAKWORK_RUNS=200`` so many of each format.
"""

import random
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
import yaml

from cloakwork.engines.memory import MemoryEngine
from conftest import runs
from counterexamples.frozen_answers import FrozenAnswers, Parts, applied
from counterexamples.neighbours import WRITERS, Facts, case_of
from fuzz.mutations import BYTES, CSV, TOKENS, XES, bomb, many_columns, many_keys, splice_token
from log.formats.object_logs import write_json, write_sqlite

FILES = runs(3)
FOUND = {"parquet": [183]}
"""Files on which they differed: a library's panic, with numbers of its threads."""

FORMATS = ("csv", "xes", "parquet", "json", "sqlite")
COLUMNS = ("cost", "department", "case:age")
LARGE = {many_keys, many_columns, bomb}
"""What tries limits, which others test, and takes long."""


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """All is kept, under a guarantee that small logs meet; and noise."""
    folder = tmp_path_factory.mktemp("policies")
    kept = {name: {"role": "sensitive", "treatment": "keep"} for name in COLUMNS}
    spec = {
        "attributes": {
            "case:concept:name": {"role": "identifier"},
            "concept:name": {"role": "control-flow"},
            "time:timestamp": {"role": "timestamp", "treatment": "keep"},
            **kept,
            "*": {"treatment": "drop"},
        },
        "guarantees": [{"kind": "k-anonymity", "k": 2, "over": ["control-flow"]}],
        "expose": dict.fromkeys(["time:timestamp", *COLUMNS], "a test"),
        "mechanisms": {"allow": ["kanon/pretsa", "attributes/*", "bound"]},
        "output": {"format": "csv", "report": []},
    }
    noisy = spec | {
        "attributes": {name: rule for name, rule in spec["attributes"].items() if name[0] in "c*"}
        | {name: {"role": "sensitive", "treatment": "drop"} for name in ("case:age", "cost")},
        "guarantees": [
            {
                "kind": "differential-privacy",
                "epsilon": 8.0,
                "delta": 1e-6,
                "over": ["control-flow"],
            }
        ],
        "mechanisms": {"allow": ["variants/threshold", "attributes/*", "bound"]},
        "budget": {"total": {"epsilon": 8.0, "delta": 1e-6}},
    }
    del noisy["expose"]
    meta = {"version": "1.0.0", "owner": "o", "purpose": "p", "dataset": "d"}
    made = {}
    objects = spec | {"input": {"object_type": "order"}}
    for name, each in (("kept", spec), ("noisy", noisy), ("objects", objects)):
        document = {"apiVersion": "cloakwork/v1", "kind": "PrivacyPolicy"}
        document |= {"metadata": meta | {"name": name}, "spec": each}
        made[name] = folder / f"{name}.yaml"
        made[name].write_text(yaml.safe_dump(document, sort_keys=False), "utf-8")
    return made


def whole(written: str, path: Path, facts: Facts) -> None:
    """A file that is not damaged."""
    if written in WRITERS:
        cases = [case_of(facts, ("abcd", "abd", "ad")[place % 3], place) for place in range(60)]
        for place, case in enumerate(cases):
            case.attributes = {"case:age": 20 + place % 9}
            for event in case.events:
                for name in event.keys() - {"concept:name", "time:timestamp", *COLUMNS}:
                    del event[name]
        WRITERS[written](cases, path)
    else:
        {"json": write_json, "sqlite": write_sqlite}[written](path)


def damaged(written: str, seed: int, path: Path, facts: Facts) -> None:
    """One file of a format, by a seed; some are whole."""
    chance = random.Random(f"{written} {seed}")
    whole(written, path, facts)
    content = path.read_bytes()
    text = written in ("csv", "xes", "json")
    changes = [*BYTES, *{"csv": CSV, "xes": XES}.get(written, [])]
    for _ in range(chance.choice([0, 1, 1, 1, 2, 4])):
        if text and chance.random() < 0.6:
            content = splice_token(content, chance, TOKENS.get(written, TOKENS["csv"]))
        else:
            change = chance.choice([each for each in changes if each not in LARGE])
            content = change(content, chance)
    path.write_bytes(content[: 8 << 20])


def told(parts: Parts) -> Parts:
    """What has to be alike: the last line of standard error, the exit code, and the rows."""
    lines = parts["standard error"].decode().strip().splitlines()
    said = [line for line in lines if not line.startswith(("reading", "read ", "plan proved"))]
    kept = {name: content for name, content in parts.items() if name.startswith("log.")}
    is_made = parts["exit code"] == b"0"
    return kept | {
        "exit code": parts["exit code"],
        "line": b"" if is_made else "\n".join(said[-1:]).encode(),
    }


def unlike(policy: Path, log: Path, folder: Path, codes: list[str]) -> str:
    """How the engines differ; an empty text where they do not. ``codes``: gets the exit code."""
    found = []
    for engine in ("memory", "local"):
        made = folder / engine
        found.append(told(applied(policy, log, made, FrozenAnswers(), "--engine", engine)))
        shutil.rmtree(made)
    one, other = found
    codes.append(one["exit code"].decode())
    for parts in found:
        code, line = parts["exit code"], parts["line"].decode()
        odd = [word for word in ("internal error", "Traceback", "Panic") if word in line]
        if not re.fullmatch(b"[0135]", code) or odd:
            return f"{code!r}: {line}"
    return "; ".join(
        f"{name}: {one.get(name, b'')[-200:]!r} and {other.get(name, b'')[-200:]!r}"
        for name in sorted({*one, *other})
        if one.get(name) != other.get(name)
    )


@pytest.mark.parametrize("written", FORMATS)
def test_engines_agree_on_damaged_files(
    written: str, policies: dict[str, Path], tmp_path: Path
) -> None:
    """The same code and line, or the same rows."""
    names = ["objects"] if written in ("json", "sqlite") else ["kept", "kept", "noisy"]
    found: list[str] = []
    codes: list[str] = []
    for seed in sorted({*range(FILES), *FOUND.get(written, [])}):
        policy = policies[names[seed % len(names)]]
        log = tmp_path / f"{seed}.{written}"
        damaged(written, seed, log, Facts.of(policies["kept"]))
        if said := unlike(policy, log, tmp_path / f"run{seed}", codes=codes):
            found.append(f"{written} {seed}: {said}")
            print("UNLIKE", found[-1])
    print(f"{FILES} files of {written}: {Counter(codes)}")
    assert not found, "\n".join(found)


def test_engines_that_differ_are_found(
    policies: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One loses the last case."""
    opened = MemoryEngine.open

    def lost(engine, source, *given, **named):
        return opened(engine, source.slice_cases(0, source.case_count - 1), *given, **named)

    log = tmp_path / "log.csv"
    whole("csv", log, Facts.of(policies["kept"]))
    assert not unlike(policies["kept"], log, tmp_path / "alike", [])
    monkeypatch.setattr(MemoryEngine, "open", lost)
    assert "log.csv" in unlike(policies["kept"], log, tmp_path / "unlike", [])
