"""A release made by hand: six cases of two variants, a k-anonymous control flow, noised times."""

import base64
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from cloakwork.api import publish
from cloakwork.base.costs import FREE, Charge, Cost, DiscreteLaplace, PrivacyEvent
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS, Lineage
from cloakwork.guarantees import KAnonymity, MetricPrivacy
from cloakwork.guarantees.claims import (
    ConditionedOn,
    Intersection,
    MeasuredOnRelease,
    MovesWholeCases,
    OthersReadNoTimes,
    PolicyReason,
    ProtectsOneTime,
    TimesOnlyThroughNoise,
    WellFormed,
)
from cloakwork.ledger.ledger import Ledger
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.plan.columns import exposure
from cloakwork.plan.model import Claim, ConsideredMechanism, Plan, Step, TreatedAttribute
from cloakwork.plan.planner import make_plan
from cloakwork.policy.model import Policy
from cloakwork.publishing import verify as verifying
from cloakwork.publishing.from_plan import plan_bytes
from cloakwork.publishing.keys import SigningKey, canonical, seal, signing_key, trust
from cloakwork.publishing.publish import Published
from cloakwork.publishing.statement import file_digest
from cloakwork.run.run import Internal, Release, Run, StepRecord, Verdict

RAW_NAME = "ward7-export-of-patients.xes"
RAW_FIGURES = (918273, 645546, 777111.5)
"""Figures and names that only the internal report may hold."""

REAL_PROOF = verifying.prove
VARIANTS = ([["register", "treat", "leave"]] * 3) + ([["register", "leave"]] * 3)


@pytest.fixture(autouse=True)
def _taken_as_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan here is made by hand and cannot be derived; that ``prove`` is asked is tested on its
    own.
    """
    monkeypatch.setattr(verifying, "prove", lambda plan: plan.claims)


MadeByHand = Callable[[str], tuple[Published, Path]]


@pytest.fixture(scope="session")
def made_by_hand(tmp_path_factory: pytest.TempPathFactory) -> MadeByHand:
    """A release in each format, made once, and the home of the key that signed it."""
    home = tmp_path_factory.mktemp("signers-home")

    @cache
    def made(format_: str) -> tuple[Published, Path]:
        folder = tmp_path_factory.mktemp("made") / "release"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CLOAKWORK_HOME", str(home))
            patch.setattr(verifying, "prove", lambda plan: plan.claims)
            return publish(a_release(format_), folder, signing_key=signing_key()), home

    return made


@pytest.fixture
def key(made_by_hand: MadeByHand, own_home: Path) -> SigningKey:
    """The key of all releases made by hand, as if it had been made just now."""
    _, home = made_by_hand("xes")
    shutil.copytree(home, own_home, dirs_exist_ok=True)
    return replace(signing_key(), new=True)


@dataclass(frozen=True)
class MadeOnce:
    """A release that the engine itself planned and made; ``home``: where its key lies."""

    folder: Path
    home: Path

    @classmethod
    def of(cls, policy: Policy, log: EventLog, folder: Path) -> "MadeOnce":
        """A release of ``log`` in the new folder ``folder``, proved in earnest."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(verifying, "prove", REAL_PROOF)
            patch.setenv("CLOAKWORK_HOME", str(folder / "home"))
            ledger = Ledger(str(folder / "ledger.db"), notice=lambda _: None)
            release = Run(plan=make_plan(policy)).release(log, ledger)
            publish(release, folder / "made", signing_key=signing_key())
        return cls(folder / "made", folder / "home")

    def copied(self, folder: Path, home: Path) -> tuple[Path, SigningKey]:
        """The release in a folder of the test's own, and the key that signed it."""
        shutil.copytree(self.home, home, dirs_exist_ok=True)
        return Path(shutil.copytree(self.folder, folder / "made")), signing_key()


@pytest.fixture
def published(tmp_path: Path, key: SigningKey, made_by_hand: MadeByHand) -> Path:
    """A release folder that holds everything it says."""
    made, _ = made_by_hand("xes")
    return Path(shutil.copytree(made.folder, tmp_path / "release"))


@pytest.fixture
def publish_as(
    tmp_path: Path, key: SigningKey, made_by_hand: MadeByHand
) -> Callable[..., Published]:
    """A changed release in a fresh folder."""

    def publish_it(**changes: Any) -> Published:
        folder = tmp_path / f"release-{sum(1 for _ in tmp_path.iterdir())}"
        if changes.keys() <= {"format_"}:
            made, _ = made_by_hand(changes.get("format_", "xes"))
            shutil.copytree(made.folder, folder)
            return replace(made, folder=folder, log=folder / made.log.name)
        return publish(a_release(**changes), folder, signing_key=key)

    return publish_it


def a_log(variants: list[list[str]] = VARIANTS) -> EventLog:
    start = datetime(2020, 1, 1, tzinfo=UTC)
    rows = [
        {
            CASE_ID: f"case{case}",
            ACTIVITY: activity,
            TIMESTAMP: start + timedelta(hours=100 * case + event),
        }
        for case, activities in enumerate(variants)
        for event, activity in enumerate(activities)
    ]
    return EventLog.from_polars(pl.DataFrame(rows))


def a_policy(format_: str = "xes", **changes: Any) -> Policy:
    spec: dict[str, Any] = {
        "unit": "case",
        "attributes": {
            "case:concept:name": {"role": "identifier"},
            "concept:name": {"role": "control-flow"},
            "time:timestamp": {"role": "timestamp"},
            "*": {"treatment": "drop"},
        },
        "guarantees": [
            {"kind": "k-anonymity", "k": 3, "over": ["control-flow"]},
            {"kind": "metric-privacy", "epsilon": 1.0, "shift": "1h", "over": ["timestamps"]},
        ],
        "budget": {"total": {"epsilon": 4.0, "delta": 1e-5}},
        "expose": {"metadata": "the partner needs to know how many cases there are"},
        "output": {"format": format_, "report": ["html", "json"]},
    }
    metadata = {
        "name": "hospital-process-discovery",
        "version": "1.0.0",
        "owner": "dpo@hospital.example",
        "purpose": "Process discovery by an <external> research partner",
        "legalBasis": "GDPR Art. 9(2)(j)",
        "dataset": "hospital-2014",
    }
    return Policy.model_validate(
        {
            "apiVersion": "cloakwork/v1",
            "kind": "PrivacyPolicy",
            "metadata": metadata,
            "spec": spec | changes,
        }
    )


def a_plan(format_: str = "xes", **changes: Any) -> Plan:
    policy = a_policy(format_)
    k, metric = policy.spec.guarantees
    assert isinstance(k, KAnonymity) and isinstance(metric, MetricPrivacy)
    laplace = DiscreteLaplace(scale=7200.0, sensitivity=7200)
    plan = Plan(
        engine=version("cloakwork"),
        policy=policy,
        policy_digest="a" * 64,
        facts=policy.facts(),
        attributes=(
            TreatedAttribute(
                attribute="concept:name", column=CONTROL_FLOW, treatment="protect", why="covered"
            ),
            TreatedAttribute(
                attribute="time:timestamp", column=TIMESTAMPS, treatment="protect", why="covered"
            ),
        ),
        steps=(
            Step(
                mechanism="kanon/pretsa",
                params={"k": 3},
                why="every variant is brought to at least 3 cases",
                goals=(0,),
                proof="proved",
                event=FREE,
                currency="unit",
                lineage=Lineage(
                    reads=frozenset({CONTROL_FLOW}),
                    writes=frozenset({CONTROL_FLOW, METADATA}),
                    stability=None,
                ),
            ),
            Step(
                mechanism="timestamps/laplace",
                params={"epsilon": 1.0},
                why="noise of scale 2h on each time",
                goals=(1,),
                proof="proved",
                event=laplace,
                currency="metric",
                lineage=Lineage(measures=frozenset({TIMESTAMPS}), writes=frozenset({TIMESTAMPS})),
            ),
        ),
        claims=(
            Claim(
                guarantee=k,
                sentence=k.sentence(),
                basis="derived and measured",
                derivation=(
                    MovesWholeCases(mechanism="kanon/pretsa"),
                    MeasuredOnRelease(what="groups"),
                ),
            ),
            Claim(
                guarantee=metric,
                sentence=metric.sentence(),
                basis="derived",
                currency="metric",
                cost=Cost(epsilon=1.0),
                naive=Cost(epsilon=1.0),
                given=ConditionedOn(columns=(CONTROL_FLOW, METADATA)),
                derivation=(
                    TimesOnlyThroughNoise(mechanisms=("timestamps/laplace",)),
                    OthersReadNoTimes(),
                ),
                assumptions=(ProtectsOneTime(), WellFormed()),
            ),
        ),
        exposed=(
            exposure(
                METADATA, PolicyReason(reason="the partner needs to know how many cases there are")
            ),
        ),
        charges=(Charge(currency="metric", cost=Cost(epsilon=1.0), shift=timedelta(hours=1)),),
        considered=(
            ConsideredMechanism(
                goal="3-anonymity",
                mechanism="kanon/tlkc",
                kind="other chosen",
                reason="PRETSA is preferred",
            ),
        ),
        warnings=(Intersection(of="k-anonymity"),),
    )
    return plan.model_copy(update=changes)


def a_release(
    format_: str = "xes",
    *,
    plan: Plan | None = None,
    log: EventLog | None = None,
    private: bool = True,
) -> Release:
    plan = plan or a_plan(format_)
    internal = Internal(
        source={"file": RAW_NAME, "cases": RAW_FIGURES[0], "events": RAW_FIGURES[1]},
        steps=(
            StepRecord(
                "kanon/pretsa",
                0.25,
                {"mean distance": RAW_FIGURES[2], "nested": {"values": [1, None, True]}},
            ),
            StepRecord("timestamps/laplace", 0.01, {}, _recorded_last(plan)),
        ),
        stages={"read": 0.5, "steps": 0.26},
        notes=(f"{RAW_NAME}: 3 events without a case were left out",),
    )
    verdicts = tuple(
        Verdict(claim, True, "the smallest group holds 3 cases") for claim in plan.claims
    )
    return Release(log or a_log(), plan, verdicts, "5f0c2a", internal, private, "e" * 64)


def _recorded_last(plan: Plan) -> PrivacyEvent | None:
    """What the second step records: all that its plan lists."""
    return plan.steps[1].event if len(plan.steps) > 1 else None


def write_plan(folder: Path, plan: Any) -> None:
    """A plan as it would be written, so that only what it says can be wrong; of what is no plan,
    the JSON.
    """
    try:
        content = plan_bytes(Plan.model_validate(plan))
    except ValueError:
        content = json.dumps(plan, indent=2).encode() + b"\n"
    (folder / "plan.json").write_bytes(content)


def envelope_of(folder: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((folder / "statement.json").read_text())
    return loaded


def resign(
    folder: Path, key: SigningKey, change: Callable[[dict[str, Any]], None] = lambda _: None
) -> None:
    """Sign the folder's statement anew after ``change``, with the digests of the files as they are
    now.

    What a signer could do who means ill or errs: everything is authentic, and still not right.
    """
    statement = json.loads(base64.b64decode(envelope_of(folder)["payload"]))
    for subject in statement["subject"]:
        if (folder / subject["name"]).exists():
            subject["digest"]["sha256"] = file_digest(folder / subject["name"])
    change(statement)
    (folder / "statement.json").write_bytes(seal(canonical(statement), key))


@pytest.fixture
def another_key(tmp_path_factory: pytest.TempPathFactory) -> SigningKey:
    """A second key that is trusted here."""
    key = signing_key(_new_key_file(tmp_path_factory))
    trust(public_file(key, tmp_path_factory.mktemp("public")), "another")
    return key


def public_file(key: SigningKey, folder: Path) -> Path:
    """The public half of a key as its owner hands it on."""
    path = folder / f"{key.keyid[:8]}.pub.pem"
    path.write_text(key.public_pem)
    return path


@pytest.fixture
def stranger(tmp_path_factory: pytest.TempPathFactory) -> SigningKey:
    """A key that is not trusted here, though it signs here."""
    return signing_key(_new_key_file(tmp_path_factory))


def _new_key_file(folders: pytest.TempPathFactory) -> Path:
    path = folders.mktemp("keys") / "key.pem"
    pem = Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    path.write_bytes(pem)
    return path
