"""What a statement says that each step measured: what the kernel recorded, and no more than was
planned.
"""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cloakwork.api import publish
from cloakwork.base.costs import FREE, Composed, DiscreteLaplace
from cloakwork.errors import BudgetExceeded, VerificationFailed
from cloakwork.ledger.ledger import Ledger
from cloakwork.plan.planner import make_plan
from cloakwork.policy.load import shipped
from cloakwork.publishing import verify as verifying
from cloakwork.publishing.examine import verify
from cloakwork.publishing.keys import SigningKey, signing_key
from cloakwork.publishing.statement import STATEMENT_SCHEMA
from cloakwork.run.run import Run
from publishing.conftest import (
    REAL_PROOF,
    VARIANTS,
    MadeOnce,
    a_log,
    a_policy,
    envelope_of,
    resign,
)

Monkey = pytest.MonkeyPatch
SCHEMA = json.loads((shipped("schemas") / STATEMENT_SCHEMA).read_bytes())

NOISE = DiscreteLaplace(scale=0.01).model_dump(mode="json")
"""Less noise than any plan here has."""


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> MadeOnce:
    """A release of noisy counts of variants."""
    dp = {"kind": "differential-privacy", "epsilon": 2.0, "delta": 1e-6, "over": ["control-flow"]}
    policy = a_policy(
        attributes={
            "case:concept:name": {"role": "identifier"},
            "concept:name": {"role": "control-flow"},
            "*": {"treatment": "drop"},
        },
        guarantees=[dp],
        expose={},
        mechanisms={"allow": ["bound", "attributes/*", "variants/threshold"]},
    )
    return MadeOnce.of(policy, a_log(VARIANTS * 30), tmp_path_factory.mktemp("made"))


@pytest.fixture
def made(made_once: MadeOnce, tmp_path: Path, own_home: Path, monkeypatch: Monkey) -> Path:
    """The same for each test, proved in earnest."""
    monkeypatch.setattr(verifying, "prove", REAL_PROOF)
    return made_once.copied(tmp_path, own_home)[0]


@pytest.fixture
def key(made: Path) -> SigningKey:
    """What signed it."""
    return signing_key()


def payload_of(folder: Path) -> dict[str, Any]:
    """What was signed."""
    found: dict[str, Any] = json.loads(base64.b64decode(envelope_of(folder)["payload"]))
    return found


def test_a_statement_holds_what_was_recorded(made: Path) -> None:
    """One entry, beside what the plan lists; the schema knows it."""
    (row,) = verify(made).statement.recorded
    plan = json.loads((made / "plan.json").read_text())
    step = plan["steps"][row.step]
    assert row.mechanism == step["mechanism"] == "variants/threshold"
    assert row.planned.model_dump(mode="json") == step["event"]
    assert row.recorded == row.planned != FREE
    jsonschema.validate(payload_of(made)["predicate"], SCHEMA)


def test_a_whole_log_is_verified_step_by_step(tmp_path: Path, monkeypatch: Monkey) -> None:
    """Variants, times and attributes, each recorded; the total is for units alone."""
    monkeypatch.setattr(verifying, "prove", REAL_PROOF)
    over = ["control-flow", "timestamps", "Age"]
    dp = {"kind": "differential-privacy", "epsilon": 2.0, "delta": 1e-6, "over": over}
    policy = a_policy(
        attributes={
            "case:concept:name": {"role": "identifier"},
            "concept:name": {"role": "control-flow"},
            "time:timestamp": {"role": "timestamp"},
            "Age": {"role": "sensitive", "range": [0, 120]},
            "*": {"treatment": "drop"},
        },
        guarantees=[dp],
        expose={},
        budget={"total": {"epsilon": 2.0, "delta": 1e-6}},
    )
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    release = Run(plan=make_plan(policy)).release(a_log(VARIANTS * 200), ledger)
    folder = publish(release, tmp_path / "made").folder
    found = verify(folder).statement
    assert [row.mechanism for row in found.recorded] == [
        "variants/markov",
        "timestamps/regression",
        "attributes/regression",
    ]
    jsonschema.validate(payload_of(folder)["predicate"], SCHEMA)
    with pytest.raises(BudgetExceeded):
        Run(plan=make_plan(policy)).release(a_log(VARIANTS), ledger)


def test_verification_says_that_it_fits(made: Path) -> None:
    said = "each measuring step recorded no more than its plan lists"
    assert any(said in check for check in verify(made).checks)


def test_a_release_that_measures_nothing_says_nothing_of_it(tmp_path: Path) -> None:
    """Neither in the signed text nor among the checks."""
    policy = a_policy(
        guarantees=[{"kind": "k-anonymity", "k": 3, "over": ["control-flow"]}],
        expose={"metadata": "a test", "timestamps": "a test"},
    )
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    release = Run(plan=make_plan(policy)).release(a_log(VARIANTS * 5), ledger)
    folder = publish(release, tmp_path / "made").folder
    assert "recorded" not in payload_of(folder)["predicate"]
    assert not any("recorded" in check for check in verify(folder).checks)


Predicate = dict[str, Any]


def _row(change: Callable[[Predicate], Predicate]) -> Callable[[Predicate], object]:
    """Changes the only row of what was recorded."""
    return lambda predicate: predicate["recorded"][0].update(change(predicate["recorded"][0]))


FORGED: dict[str, tuple[Callable[[Predicate], object], str]] = {
    "left out": (lambda said: said.pop("recorded"), "is not of the steps"),
    "of another step": (_row(lambda row: {"step": 10**6}), "is not of the steps"),
    "twice": (
        lambda said: said["recorded"].append(said["recorded"][0]),
        "'recorded' is not what plan.json says",
    ),
    "planned less": (
        _row(lambda row: {"planned": NOISE, "recorded": NOISE}),
        "'recorded' is not what plan.json says",
    ),
    "of another mechanism": (
        _row(lambda row: {"mechanism": "variants/amun"}),
        "'recorded' is not what plan.json says",
    ),
    "drawn less": (_row(lambda row: {"recorded": NOISE}), "recorded more, or less noise"),
    "asked twice": (
        _row(lambda row: {"recorded": {"kind": "repeated", "times": 2, "event": row["recorded"]}}),
        "recorded more, or less noise",
    ),
    "looked at": (
        _row(lambda row: {"recorded": {"kind": "non-private", "reason": "a look"}}),
        "recorded more, or less noise",
    ),
}


@pytest.mark.parametrize(("forge", "said"), FORGED.values(), ids=FORGED.keys())
def test_a_forged_record_fails_though_signed(
    made: Path, key: SigningKey, forge: Callable[[Predicate], object], said: str
) -> None:
    resign(made, key, lambda statement: forge(statement["predicate"]))
    with pytest.raises(VerificationFailed) as raised:
        verify(made)
    assert any(said in line for line in raised.value.mismatches)


def test_fewer_answers_than_planned_are_no_fault(made: Path, key: SigningKey) -> None:
    """A mechanism may stop early: that it did is the signer's word."""

    def stop_early(statement: dict[str, Any]) -> None:
        free = Composed().model_dump(mode="json")
        statement["predicate"]["recorded"][0]["recorded"] = free

    resign(made, key, stop_early)
    with pytest.raises(VerificationFailed) as raised:
        verify(made)
    # The log's stamp has the digest of the statement as it was.
    assert all("stamp" in line for line in raised.value.mismatches)
