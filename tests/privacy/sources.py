"""What the audits of mechanisms share: sources of noise that draw too little, and the parameters
that a mechanism offers.
"""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloakwork.base.facts import Facts
from cloakwork.evaluation.dp_audit import empirical_epsilon
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.mechanisms.base import Offer
from cloakwork.mechanisms.registry import catalogue
from cloakwork.noise import Addresses, Noise, Stream, reproducible

CONFIDENCE = 0.999
"""Of audits whose draws are seeded: a false alarm, in one of a thousand choices of the seed, shows
when the test is written, not later. An error of 1e-6 takes twice as many runs.
"""

seeded_audit = partial(empirical_epsilon, confidence=CONFIDENCE)


class OtherStream(Stream):
    """A keyed stream whose noise is a part of what is asked for."""

    share = 1.0

    def laplace_values(self, scale: float, at: Addresses) -> NDArray[np.int64]:
        return Stream.laplace_values(self, self.share * scale, at)

    def gaussian_values(self, sigma: float, at: Addresses) -> NDArray[np.int64]:
        return Stream.gaussian_values(self, self.share * sigma, at)


class Changed:
    """The counterpart that every mechanism shares: a source whose noise is a part of what is asked
    for, or a multiple. No book shows what a source draws; audits do.
    """

    def __init__(self, part: float, source: Noise | None = None) -> None:
        self.part, self.source = part, source or reproducible(1)

    def laplace_values(self, scale: float, size: int) -> NDArray[np.int64]:
        return self.source.laplace_values(self.part * scale, size)

    def gaussian_values(self, sigma: float, size: int) -> NDArray[np.int64]:
        return self.source.gaussian_values(self.part * sigma, size)

    def stream(self) -> Stream:
        changed = type("ChangedStream", (OtherStream,), {"share": self.part})
        return changed(self.source.stream().secret, private=False)

    def __getattr__(self, name: str) -> object:
        return getattr(self.source, name)


def offered(
    name: str, epsilon: float, delta: float, facts: Facts | None = None, **options: object
) -> Any:
    """The parameters that the mechanism offers for this claim on the control flow."""
    goal = DifferentialPrivacy(
        kind="differential-privacy", epsilon=epsilon, delta=delta, over=("control-flow",)
    )
    offer = catalogue()[name].offer(goal, facts or Facts(), options)
    assert isinstance(offer, Offer), offer
    return offer.params
