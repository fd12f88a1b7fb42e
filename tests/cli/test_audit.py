"""``cloakwork audit dp``: what keeps its claim passes, what does not is found, and every error is
one line.

Draws are seeded: what is found is found in every run.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from cloakwork.audit.dp_audit import AuditResult
from cloakwork.audit.pairs import PairAudit
from cloakwork.audit.plot import audit_svg
from cloakwork.cli import cloakwork_command, main
from cloakwork.errors import MechanismError
from cloakwork.mechanisms import registry
from cloakwork.mechanisms.base import Offer
from cloakwork.mechanisms.timestamps.laplace import TimestampLaplace
from cloakwork.mechanisms.variants.threshold import VariantThreshold
from cloakwork.noise import reproducible
from cloakwork.testing import audit_mechanism
from cloakwork.testing import runs as testing_runs


class NoThreshold(VariantThreshold):
    """Releases whatever has a positive noisy count."""

    name: ClassVar[str] = "variants/no-threshold"

    def meet(self, *given: Any) -> Any:
        offer = super().meet(*given)
        assert isinstance(offer, Offer)
        return Offer(offer.params.model_copy(update={"tau": 1}), offer.why)


class TenthOfTheNoise(VariantThreshold):
    """Draws noise of a tenth of the scale."""

    name: ClassVar[str] = "variants/a-tenth"

    def meet(self, *given: Any) -> Any:
        offer = super().meet(*given)
        assert isinstance(offer, Offer)
        return Offer(offer.params.model_copy(update={"scale": offer.params.scale / 10}), offer.why)


class QuietTimes(TimestampLaplace):
    """Draws noise of a fifth of the scale."""

    name: ClassVar[str] = "timestamps/quiet"

    def offer(self, *given: Any) -> Any:
        offer = super().offer(*given)
        assert isinstance(offer, Offer)
        scales = {
            "start_scale": offer.params.start_scale / 5,
            "gap_scale": offer.params.gap_scale / 5,
        }
        return Offer(offer.params.model_copy(update=scales), offer.why)


COUNTERPARTS = (NoThreshold, TenthOfTheNoise, QuietTimes)


@pytest.fixture(autouse=True)
def _counterparts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    here = {counterpart.name: f"{__name__}:{counterpart.__name__}" for counterpart in COUNTERPARTS}
    monkeypatch.setattr(
        registry,
        "OURS",
        {**registry.OURS, **here, "variants/raw": "plan.fake_published:FakePublished"},
    )
    registry.catalogue.cache_clear()
    yield
    registry.catalogue.cache_clear()


@pytest.fixture(autouse=True)
def _seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = reproducible(1)
    monkeypatch.setattr(testing_runs, "secret", lambda: noise)


@pytest.mark.parametrize(
    ("name", "bound"), [("variants/threshold", 0.0), ("timestamps/laplace", 0.6)]
)
def test_what_keeps_its_claim_passes(name: str, bound: float) -> None:
    """And something is seen, so the pairs are not idle."""
    found = audit_mechanism(name, epsilon=1.0, delta=1e-3, runs=300)
    assert all(item.result.passed for item in found)
    assert max(item.result.epsilon_lower_bound for item in found) > bound


@pytest.mark.parametrize(
    ("name", "pair"),
    [
        ("variants/no-threshold", "variant of its own"),
        ("variants/a-tenth", "one case more on a variant"),
        ("timestamps/quiet", "middle of three times"),
        ("timestamps/quiet", "one edge of the bounds"),
    ],
)
def test_a_broken_counterpart_is_found_on_the_pair_made_for_it(name: str, pair: str) -> None:
    found = audit_mechanism(name, epsilon=1.0, delta=1e-3, runs=250)
    assert [item.result.passed for item in found if pair in item.pair] == [False], found


def test_the_command_exits_with_5_where_the_claim_is_exceeded(tmp_path: Path) -> None:
    """A published mechanism that releases raw counts; the drawing is well-formed and says it."""
    arguments = [
        "audit",
        "dp",
        "variants/raw",
        "--runs",
        "100",
        "--json",
        "--quiet",
        "--out",
        str(tmp_path / "a.svg"),
    ]
    result = CliRunner().invoke(cloakwork_command, arguments)
    assert result.exit_code == 5
    document = json.loads(result.stdout)
    assert document["proof"] == "published" and not document["passed"]
    assert max(pair["epsilon_at_least"] for pair in document["pairs"]) > 1
    assert "audit failed" in result.stderr
    assert "claimed 1" in "".join(ElementTree.parse(tmp_path / "a.svg").getroot().itertext())


def test_options_reach_the_mechanism() -> None:
    """As JSON or as a word; ``noised`` belongs to one of the two claims about times, so that one is
    audited.
    """
    arguments = [
        "audit",
        "dp",
        "timestamps/laplace",
        "--runs",
        "10",
        "--quiet",
        "--json",
        "--option",
        "noised=times",
    ]
    result = CliRunner().invoke(cloakwork_command, arguments)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["options"] == {"noised": "times"} and len(document["pairs"]) == 1


def test_the_command_says_what_it_saw() -> None:
    result = CliRunner().invoke(
        cloakwork_command, ["audit", "dp", "variants/threshold", "--runs", "50", "--quiet"]
    )
    said = " ".join(result.stdout.split())
    assert result.exit_code == 0 and said.count("within the claim of 1") == 5


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["variants/nothing"], 2, "there is no mechanism"),
        (["variants/threshold", "--runs", "5"], 2, "5 is not in the range"),
        (["variants/threshold", "--epsilon", "nan"], 2, "epsilon must be between 1e-05 and 100"),
        (["variants/threshold", "--delta", "0"], 1, "needs a delta above 0"),
        (["variants/threshold", "--option", "noise"], 2, "is not NAME=VALUE"),
        (["variants/threshold", "--option", "noise=pink"], 1, "option noise"),
        (["timestamps/laplace", "--option", "noise=pink"], 1, "unknown option"),
        (["kanon/pretsa"], 1, "claims no differential privacy"),
        (["variants/threshold", "--runs", "10", "--out", "/nowhere/a.svg"], 1, "cannot be written"),
    ],
)
def test_errors_are_one_line(
    arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "dp", *arguments, "--quiet"]) == code
    lines = capsys.readouterr().err.strip().splitlines()
    assert any(said in line for line in lines)
    assert code == 2 or len(lines) == 1


def test_other_mechanisms_are_refused() -> None:
    for name in ("bound", "attributes/redact", "kanon/tlkc"):
        with pytest.raises(MechanismError, match="no differential privacy"):
            audit_mechanism(name, epsilon=1.0, delta=1e-3, runs=10)


def test_a_bound_of_nothing_is_drawn() -> None:
    result = AuditResult(-math.inf, 1.0, 0.0, True, "no event", "neither way", (0, 0), 10, 0.9)
    drawing = audit_svg("a < b", 1.0, [PairAudit("a & b", "f", result)])
    assert "nothing seen" in "".join(ElementTree.fromstring(drawing).itertext())
