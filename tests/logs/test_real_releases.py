"""The main job on real logs: released, verified, opened by pm4py, and nothing of the source in any
public file.
"""

import gzip
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from cloakwork.log.eventlog import ACTIVITY, TIMESTAMP, EventLog
from cloakwork.log.formats import read_log
from conftest import PATTERNS_BY_CHANCE, SHARED, Said, hurried

LOGS, POLICIES = SHARED / "logs", SHARED / "contract" / "policies"
pytestmark = pytest.mark.skipif(
    not LOGS.is_dir(), reason="the real logs are not beside this checkout"
)
LARGE = ["road_traffic_fines"] if "CLOAKWORK_RUNS" in os.environ else []
KANON = ["sepsis", "receipt", *LARGE]
DP = ["bpic2012_a", *LARGE]
JOBS = [("kanon-then-dp-time", log) for log in KANON] + [("dp-control-flow", log) for log in DP]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where this module's releases lie."""
    return tmp_path_factory.mktemp("releases")


@pytest.fixture
def released(cloakwork: Callable[..., Said], folder: Path) -> Callable[[str, str], Path]:
    """The release of a log under a policy, made once and verified."""

    def make(policy: str, log: str) -> Path:
        out = folder / f"{policy}-{log}"
        if not out.exists():
            ledger = f"sqlite:///{folder / 'ledger.db'}"
            quick = hurried(POLICIES / f"{policy}.yaml", folder, seconds=5)
            said = cloakwork(
                "apply", quick, LOGS / f"{log}.xes.gz", "--out", out, "--ledger", ledger
            )
            assert said.code == 0, said.err
            verified = cloakwork("verify", out)
            assert verified.code == 0, verified.err
        return out

    return make


def public_text(folder: Path) -> str:
    """Everything in the public files, unpacked, the signed payload included."""
    texts = []
    for path in (path for path in folder.iterdir() if path.is_file()):
        content = path.read_bytes()
        texts.append((gzip.decompress(content) if path.suffix == ".gz" else content).decode())
    envelope = json.loads((folder / "statement.json").read_text("utf-8"))
    from base64 import b64decode

    return "\n".join([*texts, b64decode(envelope["payload"]).decode()])


def strings(document: Any) -> Iterator[str]:
    """All keys and texts of a JSON document."""
    if isinstance(document, dict):
        yield from document
        document = list(document.values())
    if isinstance(document, list):
        for item in document:
            yield from strings(item)
    elif isinstance(document, str):
        yield document


@pytest.mark.parametrize(("policy", "log"), JOBS)
def test_nothing_of_the_source_is_left(
    released: Callable[[str, str], Path], policy: str, log: str
) -> None:
    """No case id, no attribute name or value that the policy does not release, no log-level
    attribute.
    """
    folder, source = released(policy, log), read_log(LOGS / f"{log}.xes.gz")
    text = public_text(folder)
    words = set(re.findall(r'[^\s",<>=]+', text)) | set(
        re.findall(r'(?:key|value)="([^"]*)"', text)
    )
    words |= set(strings(json.loads((folder / "plan.json").read_text("utf-8"))))
    ids = set(source.cases["case:concept:name"].drop_nulls().to_list())
    assert not {value for value in ids & words if len(value) > 2}
    assert not ids & set(re.findall(r'value="([^"]*)"', text))
    kept = set(source.events[ACTIVITY].drop_nulls().unique())
    dropped = set(source.columns) - {"case:concept:name", ACTIVITY, TIMESTAMP} - kept
    assert dropped
    assert not {name for name in dropped if f'"{name.removeprefix("case:")}"' in text}
    assert "meta_" not in text
    instances = (
        source.events["concept:instance"].drop_nulls().to_list()
        if "concept:instance" in source.events.columns
        else []
    )
    assert not set(map(str, instances)) & words - kept


def gap_patterns(log: EventLog) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Fingerprints of every three consecutive non-zero gaps inside a case, in microseconds."""
    rows = pl.DataFrame({"case": log.case_of, "time": log.events[TIMESTAMP].to_physical()})
    gaps = rows.with_columns(gap=pl.col("time").diff().over("case")).filter(
        pl.col("gap").is_not_null() & (pl.col("gap") != 0)
    )
    threes = gaps.with_columns(
        second=pl.col("gap").shift(-1).over("case"), third=pl.col("gap").shift(-2).over("case")
    )
    return (
        threes.drop_nulls()
        .select(pl.struct("gap", "second", "third").hash())
        .to_series()
        .unique()
        .to_numpy()
    )


@pytest.mark.parametrize("log", KANON if LARGE else KANON[-1:])
def test_no_gap_pattern_survives(released: Callable[[str, str], Path], log: str) -> None:
    """No case has an unchanged pattern of three or more non-zero gaps, but for what chance
    explains.
    """
    source = gap_patterns(read_log(LOGS / f"{log}.xes.gz", keep=lambda _: False))
    result = gap_patterns(read_log(released("kanon-then-dp-time", log) / "log.xes.gz"))
    assert len(source)
    assert len(result)
    assert len(np.intersect1d(source, result)) <= PATTERNS_BY_CHANCE


@pytest.mark.parametrize("log", KANON)
def test_pm4py_opens_the_release(released: Callable[[str, str], Path], log: str) -> None:
    """pm4py finds the same cases, events and variants as we do."""
    pm4py = pytest.importorskip("pm4py", reason="pm4py is not installed (extra: mining)")
    path = released("kanon-then-dp-time", log) / "log.xes.gz"
    ours, theirs = read_log(path), pm4py.read_xes(str(path))
    assert (ours.cases.height, ours.events.height) == (
        theirs["case:concept:name"].nunique(),
        len(theirs),
    )
    assert set(ours.events[ACTIVITY].unique()) == set(theirs[ACTIVITY].unique())
    assert len(pm4py.get_variants(theirs)) == len(set(variants(ours)))


def variants(log: EventLog) -> Iterator[tuple[str, ...]]:
    """The activity sequence of each case."""
    labels = log.events[ACTIVITY].to_list()
    for begin, end in zip(log.offsets, log.offsets[1:], strict=False):
        yield tuple(labels[begin:end])
