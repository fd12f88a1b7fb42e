"""Broken counterparts of mechanisms, under names of their own, and noise that repeats."""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest

from cloakwork.evaluation import one_mechanism
from cloakwork.mechanisms import registry
from cloakwork.mechanisms.base import Offer
from cloakwork.mechanisms.timestamps.laplace import TimestampLaplace
from cloakwork.mechanisms.variants.threshold import VariantThreshold
from cloakwork.noise import reproducible
from plan.fake_published import FakePublished


def offering(offer: Any, changed: Callable[[Any], dict[str, Any]]) -> Any:
    """The offer, if it is one, with other parameters."""
    if not isinstance(offer, Offer):
        return offer
    return Offer(offer.params.model_copy(update=changed(offer.params)), offer.why)


class NoThreshold(VariantThreshold):
    """Releases whatever has a positive noisy count."""

    name: ClassVar[str] = "variants/no-threshold"

    def meet(self, *given: Any) -> Any:
        return offering(super().meet(*given), lambda _: {"tau": 1})


class TenthOfTheNoise(VariantThreshold):
    """Draws noise of a tenth of the scale."""

    name: ClassVar[str] = "variants/a-tenth"

    def meet(self, *given: Any) -> Any:
        return offering(super().meet(*given), lambda params: {"scale": params.scale / 10})


class QuietTimes(TimestampLaplace):
    """Draws noise of a fifth of the scale."""

    name: ClassVar[str] = "timestamps/quiet"

    def offer(self, *given: Any) -> Any:
        scales = ("start_scale", "gap_scale")
        return offering(
            super().offer(*given),
            lambda params: {name: getattr(params, name) / 5 for name in scales},
        )


class RawCounts(FakePublished):
    """Only its paper claims anything."""

    name: ClassVar[str] = "variants/raw"


COUNTERPARTS = (NoThreshold, TenthOfTheNoise, QuietTimes, RawCounts)


@pytest.fixture(scope="module", autouse=True)
def _counterparts() -> Iterator[None]:
    here = {counterpart.name: f"{__name__}:{counterpart.__name__}" for counterpart in COUNTERPARTS}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "OURS", {**registry.OURS, **here})
        registry.catalogue.cache_clear()
        yield
    registry.catalogue.cache_clear()


@pytest.fixture(autouse=True)
def _seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = reproducible(1)
    monkeypatch.setattr(one_mechanism, "secret", lambda: noise)
