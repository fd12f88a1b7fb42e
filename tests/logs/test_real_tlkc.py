"""The confidence bound on real logs: released, verified, and most events kept."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from cloakwork.log.eventlog import ACTIVITY, TIME_TYPE, TIMESTAMP
from cloakwork.log.formats import read_log
from conftest import SHARED, Said

LOGS = SHARED / "logs"
pytestmark = pytest.mark.skipif(
    not LOGS.is_dir(), reason="the real logs are not beside this checkout"
)

DAY = 24 * 60 * 60 * 1000  # milliseconds
SENSITIVE = {"receipt": "case:responsible", "sepsis": "Diagnose"}
# log, background, a sensitive attribute with C = 0.3 or not, events kept at least (measured, less a
# hundredth)
JOBS = [
    ("receipt", "set", False, 0.975),
    ("receipt", "multiset", False, 0.970),
    ("receipt", "sequence", False, 0.953),
    ("receipt", "relative", False, 0.776),
    ("receipt", "sequence", True, 0.746),
    ("sepsis", "set", False, 0.984),
    ("sepsis", "multiset", False, 0.984),
    ("sepsis", "sequence", False, 0.979),
    ("sepsis", "relative", False, 0.791),
    ("sepsis", "sequence", True, 0.973),
]


def policy(log: str, background: str, sensitive: bool) -> dict[str, Any]:
    """L = 2, K = 20 over the control flow; for background relative, days since a case's first
    event.
    """
    attributes: dict[str, Any] = {
        "case:concept:name": {"role": "identifier"},
        ACTIVITY: {"role": "control-flow"},
        "*": {"treatment": "drop"},
    }
    goal: dict[str, Any] = {"kind": "confidence-bound", "L": 2, "K": 20, "background": background}
    if background == "relative":
        attributes[TIMESTAMP] = {"role": "timestamp"}
        goal["precision"] = "1d"
    if sensitive:
        attributes[SENSITIVE[log]] = {"role": "sensitive"}
        goal |= {"C": 0.3, "attribute": SENSITIVE[log]}
    metadata = {
        "name": "bound",
        "version": "1.0.0",
        "owner": "o",
        "purpose": "a test",
        "dataset": log,
    }
    spec = {"attributes": attributes, "guarantees": [goal]}
    return {
        "apiVersion": "cloakwork/v1",
        "kind": "PrivacyPolicy",
        "metadata": metadata,
        "spec": spec,
    }


@pytest.mark.parametrize(("log", "background", "sensitive", "kept"), JOBS)
def test_a_real_log_is_released_and_verified(
    cloakwork: Callable[..., Said],
    tmp_path: Path,
    ledger: str,
    log: str,
    background: str,
    sensitive: bool,
    kept: float,
) -> None:
    """The written file is measured again; the sensitive attribute is in it, and times only as the
    bound allows.
    """
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(policy(log, background, sensitive)))
    source, out = LOGS / f"{log}.xes.gz", tmp_path / "out"
    said = cloakwork("apply", tmp_path / "policy.yaml", source, "--out", out, "--ledger", ledger)
    assert said.code == 0, said.err
    verified = cloakwork("verify", "--all", out)
    assert verified.code == 0, verified.err
    assert "measured again: confidence-bound" in verified.out
    released = read_log(out / "log.xes.gz")
    assert released.events.height >= kept * read_log(source, keep=lambda _: False).events.height
    assert (SENSITIVE[log] in released.columns) == sensitive
    times = released.events[TIMESTAMP].drop_nulls().cast(TIME_TYPE)
    assert len(times) == (released.events.height if background == "relative" else 0)
    assert not (times.dt.timestamp("ms") % DAY != 0).any()
