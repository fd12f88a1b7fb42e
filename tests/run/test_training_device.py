"""Plans that train networks: where, how long, and what stays of them when it ends early."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloakwork.api import load_policy, make_plan
from cloakwork.base.costs import Repeated
from cloakwork.kernel import Descent
from cloakwork.ledger.ledger import Ledger
from cloakwork.mechanisms.registry import catalogue
from cloakwork.mechanisms.variants.threshold import VariantThreshold
from cloakwork.run.requirements import duration_in_words, training_line
from cloakwork_extras.networks.steps import TrainsNetwork, chosen_device
from conftest import EXAMPLES, Said
from extras.networks.test_devices import stand_in_for_torch
from kernel.small import kernel_of, measured

HOSPITAL = EXAMPLES / "hospital.csv.gz"
POLICY = """
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: trained, version: 1.0.0, owner: o, purpose: p, dataset: hospital}
spec:
  unit: case
  attributes:
    "case:concept:name": {role: identifier}
    "concept:name": {role: control-flow}
    "*": {treatment: drop}
  guarantees:
    - {kind: differential-privacy, epsilon: 1.0, delta: 1.0e-6, over: [control-flow]}
  mechanisms: {allow: [variants/threshold, bound]}
"""
SPENT = "its cost stays spent (cloakwork ledger show)"
Cloakwork = Callable[..., Said]


class Trained(TrainsNetwork, VariantThreshold):
    """Says that it trains, for three minutes, and stands for ``variants/threshold``."""

    def training_seconds(self, params: Any, facts: Any, device: str) -> float | None:
        assert device in ("cpu", "cuda")
        return 180.0 if device == "cpu" else 20.0


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A policy whose mechanism trains."""
    monkeypatch.setitem(catalogue()._loaded, "variants/threshold", Trained())
    path = tmp_path / "trained.yaml"
    path.write_text(POLICY)
    return path


def test_every_mechanism_that_trains_says_so() -> None:
    """Else torch would be missed only once the budget was charged."""
    trains = [
        name
        for name, mechanism in catalogue().items()
        if ".networks." in type(mechanism).__module__
    ]
    assert trains
    assert [name for name in trains if not catalogue()[name].trains] == []


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "less than a minute"),
        (59.9, "less than a minute"),
        (61.0, "about 1 minute"),
        (170.0, "about 3 minutes"),
        (3600.0, "about 1 hour"),
        (10_000.0, "about 3 hours"),
    ],
)
def test_a_prediction_in_words(seconds: float, words: str) -> None:
    """Rounded as such a figure is."""
    assert duration_in_words(seconds) == words


def test_plan_says_how_long_training_takes(
    cloakwork: Cloakwork, policy: Path, tmp_path: Path, ledger: str
) -> None:
    """On the screen, and not in the plan."""
    said = cloakwork("plan", policy, HOSPITAL, "--no-preview", "--out", tmp_path / "plan.json")
    assert "Takes           training takes about 3 minutes on this machine\n" in said.out
    assert "minutes" not in (tmp_path / "plan.json").read_text()


def test_nothing_is_said_where_nothing_trains(tmp_path: Path) -> None:
    """Nor where a step cannot tell."""
    path = tmp_path / "p.yaml"
    path.write_text(POLICY)
    assert training_line(make_plan(load_policy(path))) is None


def test_a_step_that_cannot_tell(monkeypatch: pytest.MonkeyPatch, policy: Path) -> None:
    """No figure is better than a wrong one."""
    monkeypatch.setattr(Trained, "training_seconds", lambda *_: None)
    assert training_line(make_plan(load_policy(policy))) is None


def test_plan_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, policy: Path) -> None:
    """Before anybody waits for it."""
    monkeypatch.setitem(sys.modules, "torch", None)
    line = training_line(make_plan(load_policy(policy)))
    assert line == (
        "training needs torch, which is not installed here: pip install 'cloakwork[generative]'"
    )


def test_a_device_is_no_part_of_what_is_published(
    cloakwork: Cloakwork,
    monkeypatch: pytest.MonkeyPatch,
    policy: Path,
    tmp_path: Path,
    ledger: str,
) -> None:
    """It is heard by the mechanism, and by nobody who reads the release."""
    stand_in_for_torch(monkeypatch, card=True)
    heard = []

    def listening(self: Trained, params: Any, kernel: Any) -> Any:
        heard.append(chosen_device().type)
        return VariantThreshold.measure(self, params, kernel)

    monkeypatch.setattr(Trained, "measure", listening)
    out = tmp_path / "out"
    said = cloakwork(
        "apply", policy, HOSPITAL, "--out", out, "--ledger", ledger, "--device", "cuda"
    )
    assert said.code == 0, said.err
    assert heard == ["cuda"]
    assert "training takes less than a minute on this machine" in said.err
    written = [path.read_bytes() for path in out.rglob("*") if path.is_file()]
    assert not any(b"cuda" in content for content in written)


def test_what_is_missing_stops_before_the_charge(
    cloakwork: Cloakwork,
    monkeypatch: pytest.MonkeyPatch,
    policy: Path,
    tmp_path: Path,
    ledger: str,
) -> None:
    """torch, a graphics card, or a device that there is not: one line each, and nothing spent."""
    arguments = ("apply", policy, HOSPITAL, "--out", tmp_path / "out", "--ledger", ledger)
    monkeypatch.setitem(sys.modules, "torch", None)
    said = cloakwork(*arguments, "--quiet")
    assert said.code == 1
    assert said.err.startswith("training a network needs torch")
    assert said.err.count("\n") == 1
    stand_in_for_torch(monkeypatch, card=False)
    said = cloakwork(*arguments, "--quiet", "--device", "cuda")
    assert said.code == 2
    assert said.err.startswith("there is no graphics card")
    assert said.err.count("\n") == 1
    assert cloakwork(*arguments, "--device", "tpu").code == 2
    assert Ledger(ledger).history() == ()


def test_an_interrupt_while_it_trains(
    cloakwork: Cloakwork,
    monkeypatch: pytest.MonkeyPatch,
    policy: Path,
    tmp_path: Path,
    ledger: str,
) -> None:
    """One line, nothing written, and the reservation stands; with --json as one document."""
    stand_in_for_torch(monkeypatch, card=False)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Trained, "measure", interrupted)
    out = tmp_path / "out"
    said = cloakwork(
        "apply", policy, HOSPITAL, "--out", out, "--ledger", ledger, "--quiet", "--json"
    )
    assert said.code == 130
    assert said.err.endswith(f"\ncloakwork: interrupted; nothing was written; {SPENT}\n")
    assert json.loads(said.out)["error"]["kind"] == "Interrupted"
    assert not out.exists()
    (entry,) = Ledger(ledger).history()
    assert entry.failure == "KeyboardInterrupt"
    assert entry.charges[0].cost.epsilon == 1


def test_an_interrupt_inside_a_gradient_is_heard() -> None:
    """What else fails there is passed over in silence, since it would tell of one case."""

    def interrupted(*_: object) -> Any:
        raise KeyboardInterrupt

    descent = Descent.of(times=3, rate=1.0, norm=1.0, multiplier=1.0, denominator=2.0)
    kernel = kernel_of(measured([("a",)], [2]), Repeated(times=3, event=descent.event(1, 1)))
    with pytest.raises(KeyboardInterrupt):
        kernel.steps(interrupted, np.zeros(1), interrupted, descent)
