"""What is charged is what was drawn: each mechanism's event names the scale that reaches the source
of noise.

Draws are seeded, since later noise may be asked for only where earlier noise says so.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from pydantic import JsonValue

from cloakwork.base.costs import (
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    PoissonSampled,
    PrivacyEvent,
    Repeated,
    TruncatedGeometric,
)
from cloakwork.base.exact import drawn_rate, drawn_scale, drawn_sigma
from cloakwork.base.facts import Facts, Window
from cloakwork.base.quantities import parse_duration
from cloakwork.evaluation.one_mechanism import run_step
from cloakwork.guarantees import DifferentialPrivacy, Guarantee, MetricPrivacy
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.mechanisms.base import Offer
from cloakwork.mechanisms.registry import catalogue
from cloakwork.noise import Addresses, Stream, reproducible
from measuring import release

pytestmark = pytest.mark.usefixtures("few_turns")

DAY = "2024-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class RecordingStream(Stream):
    """A keyed stream that writes down the scales and sigmas that pass it."""

    scales: set[float]

    def laplace_values(self, scale: float, at: Addresses) -> NDArray[np.int64]:
        self.scales.add(drawn_scale(scale))
        return Stream.laplace_values(self, scale, at)

    def gaussian_values(self, sigma: float, at: Addresses) -> NDArray[np.int64]:
        self.scales.add(drawn_sigma(sigma))
        return Stream.gaussian_values(self, sigma, at)


class Recorder:
    """A source that writes down the scales, sigmas and rates of samples that pass it."""

    def __init__(self) -> None:
        self.scales: set[float] = set()
        self.rates: list[float] = []
        self.source = reproducible(1)

    def laplace_values(self, scale: float, size: int) -> NDArray[np.int64]:
        self.scales.add(drawn_scale(scale))
        return self.source.laplace_values(scale, size)

    def gaussian_values(self, sigma: float, size: int) -> NDArray[np.int64]:
        self.scales.add(drawn_sigma(sigma))
        return self.source.gaussian_values(sigma, size)

    def coins(self, rate: Fraction | float, size: int) -> NDArray[np.bool_]:
        self.rates.append(drawn_rate(rate))
        return self.source.coins(rate, size)

    def stream(self) -> Stream:
        stream = self.source.stream()
        return RecordingStream(stream.secret, stream.private, self.scales)

    def __getattr__(self, name: str) -> object:
        return getattr(self.source, name)


def scales(event: PrivacyEvent) -> Iterator[float]:
    """The scales of all Laplace noise and the sigmas of all Gaussian noise that an event charges
    for.
    """
    match event:
        case DiscreteLaplace(scale=scale) | TruncatedGeometric(scale=scale):
            yield scale
        case DiscreteGaussian(sigma=sigma):
            yield sigma
        case Repeated(event=inner) | PoissonSampled(event=inner):
            yield from scales(inner)
        case Composed(events=events):
            for each in events:
                yield from scales(each)


def rates(event: PrivacyEvent) -> Iterator[float]:
    """The rates of all samples that an event charges for, each as often as it is drawn."""
    match event:
        case PoissonSampled(rate=rate):
            yield rate
        case Repeated(event=inner, times=times):
            for _ in range(times):
                yield from rates(inner)
        case Composed(events=events):
            for each in events:
                yield from rates(each)


def log() -> EventLog:
    """A hundred cases of three events."""
    times = [f"2024-01-01T{hour:02}:00:00Z" for hour in (8, 9, 11)] * 100
    frame = pl.DataFrame(
        {
            CASE_ID: [str(i // 3) for i in range(300)],
            ACTIVITY: ["a", "b", "c"] * 100,
            TIMESTAMP: times,
        }
    )
    return EventLog.from_polars(frame)


FACTS = Facts(
    alphabet=("a", "b", "c", "d"),
    longest_case=5,
    longest_gap=parse_duration("2d"),
    window=Window.model_validate({"start": DAY, "end": "2024-03-01T00:00:00Z"}),
)


DOMAIN: JsonValue = [["a", "b", "c"], ["d"]]
FLOW = DifferentialPrivacy(
    kind="differential-privacy", epsilon=0.7, delta=1e-6, over=("control-flow",)
)


@pytest.mark.parametrize(
    ("name", "goal", "options"),
    [
        ("variants/threshold", FLOW, {}),
        ("variants/threshold", FLOW, {"noise": "laplace"}),
        ("variants/threshold", FLOW, {"noise": "gaussian"}),
        ("variants/threshold", FLOW, {"noise": "truncated-geometric"}),
        ("variants/amun", FLOW, {}),
        ("variants/amun", FLOW, {"variants": DOMAIN}),
        ("variants/libra", FLOW, {}),
        ("variants/libra", FLOW, {"noise": "gaussian", "rate": 0.5}),
        ("variants/travag", FLOW, {"domain": DOMAIN, "steps": 2, "hidden": 1}),
        ("variants/ddpm", FLOW, {"domain": DOMAIN, "steps": 2, "hidden": 1, "rate": 0.5}),
        ("variants/prefix-tree", FLOW, {}),
        (
            "variants/prefix-tree",
            DifferentialPrivacy(kind="differential-privacy", epsilon=0.7, over=("control-flow",)),
            {},
        ),
        ("variants/sacofa", FLOW, {}),
        ("variants/markov", FLOW, {}),
        ("dfg/laplace", FLOW, {}),
        (
            "timestamps/laplace",
            MetricPrivacy(kind="metric-privacy", epsilon=0.7, shift=parse_duration("10m")),
            {},
        ),
        (
            "timestamps/laplace",
            DifferentialPrivacy(
                kind="differential-privacy", epsilon=0.7, over=("timestamps",), neighbours="bounded"
            ),
            {},
        ),
    ],
)
def test_events_charge_for_the_noise_drawn(
    name: str, goal: Guarantee, options: dict[str, JsonValue], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every scale drawn is charged, and every scale charged is drawn; so are the rates of
    samples.
    """
    if name == "variants/ddpm":
        # What is drawn of the network afterwards is no noise.
        monkeypatch.setattr("cloakwork_extras.networks.ddpm_network.CHAINS", 16)
    mechanism, recorder = catalogue()[name], Recorder()
    offer = mechanism.offer(goal, FACTS, options)
    assert isinstance(offer, Offer)
    run_step(mechanism, offer.params, log(), recorder, FACTS)
    event = mechanism.step(offer.params, FACTS).event
    charged = set(scales(event))
    if name == "variants/markov":
        # Transitions of order 2 and 3, and lengths, are read where order 1 is large enough: beside
        # one frequent variant it is not.
        charged -= {offer.params.sigmas[2], *offer.params.sigmas[4:]}
    assert recorder.scales == charged
    # A sample of everybody needs no draw.
    assert [rate for rate in rates(event) if rate < 1] == sorted(recorder.rates)


@pytest.mark.parametrize(
    ("cases", "taken"), [(2_000, "variants/threshold"), (1, "variants/markov")]
)
@pytest.mark.parametrize("facts", [FACTS, Facts()], ids=["declared", "undeclared"])
def test_adaptive_draws_what_it_charges_for_looking_and_what_the_mechanism_it_takes_charges(
    cases: int, taken: str, facts: Facts
) -> None:
    """Its event holds the layers and the more expensive mechanism's cost; the noise drawn is that
    of the layers and of one of the two.
    """
    mechanism = catalogue()["variants/adaptive"]
    offer = mechanism.offer(FLOW.model_copy(update={"epsilon": 2.0}), facts, {})
    assert isinstance(offer, Offer)
    variants = [
        list(map("abcd".__getitem__, divmod(place % 16, 4))) * (1 + place // 16)
        for place in range(3_000 // cases)
    ]
    summary = pl.DataFrame({"variant": variants or [["a"]], "cases": cases})
    recorder = Recorder()
    said = release(mechanism, offer.params, summary, recorder).internal["released by"]
    parts = {"variants/threshold": offer.params.threshold, "variants/markov": offer.params.markov}
    # With declared activities, a model of all cases where no variant is frequent.
    if cases == 1 and facts.alphabet is not None:
        assert said == "variants/markov, of all cases"
        parts["variants/markov"] = offer.params.of_all
    else:
        assert said == taken
    (looked,) = scales(mechanism.step(offer.params, facts).event)
    assert recorder.scales == {looked, *scales(catalogue()[taken].step(parts[taken], facts).event)}
