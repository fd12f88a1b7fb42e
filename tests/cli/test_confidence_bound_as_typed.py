"""A confidence bound as a user types it: for persons with several cases, and where nothing can be
kept.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from cloakwork.log.formats import read_log
from conftest import EXAMPLES, Said

LOG = EXAMPLES / "hospital.xes.gz"


def policy_at(folder: Path, **goal: Any) -> Path:
    """A bound over two events that patients are protected by, and their diagnosis."""
    bound = {
        "kind": "confidence-bound",
        "L": 2,
        "K": 20,
        "C": 0.4,
        "attribute": "case:diagnosis",
    } | goal
    attributes = {
        "case:concept:name": {"role": "identifier"},
        "case:patient": {"role": "identifier", "treatment": "drop"},
        "case:diagnosis": {"role": "sensitive"},
        "concept:name": {"role": "control-flow"},
        "*": {"treatment": "drop"},
    }
    unit = {"attribute": "case:patient", "max_cases": 3}
    metadata = {
        "name": "bound",
        "version": "1.0.0",
        "owner": "o",
        "purpose": "a test",
        "dataset": "hospital",
    }
    spec = {"unit": unit, "attributes": attributes, "guarantees": [bound]}
    path = folder / "policy.yaml"
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "cloakwork/v1",
                "kind": "PrivacyPolicy",
                "metadata": metadata,
                "spec": spec,
            }
        )
    )
    return path


def test_patients_are_counted_and_stay_unnamed(
    cloakwork: Callable[..., Said], tmp_path: Path, ledger: str
) -> None:
    """By patient before the release, by case on the written file, which no longer has patients."""
    out = tmp_path / "out"
    said = cloakwork("apply", policy_at(tmp_path), LOG, "--out", out, "--ledger", ledger)
    assert said.code == 0, said.err
    assert "different values of 'case:patient'" in said.err
    assert cloakwork("verify", out).code == 0
    released = read_log(out / "log.xes.gz")
    assert "case:patient" not in released.columns
    assert set(released.cases["case:diagnosis"].drop_nulls()) <= set(
        read_log(LOG).cases["case:diagnosis"]
    )


def test_nothing_is_written_where_nothing_can_be_kept(
    cloakwork: Callable[..., Said], tmp_path: Path, ledger: str
) -> None:
    """More patients are asked for than there are."""
    out = tmp_path / "out"
    said = cloakwork("apply", policy_at(tmp_path, K=5000), LOG, "--out", out, "--ledger", ledger)
    assert said.code == 3
    last = said.err.rstrip().splitlines()[-1]
    assert "K = 5,000, but the log holds 855 different values of 'case:patient'" in last
    assert not out.exists()
