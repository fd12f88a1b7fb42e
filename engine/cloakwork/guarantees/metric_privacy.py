"""Metric privacy: a single value may move a little, and nobody can tell."""

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from cloakwork.base.costs import Cost, Currency
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.base.quantities import LONGEST, SHORTEST, Duration, duration_text, format_duration
from cloakwork.base.text import listed
from cloakwork.guarantees.base import (
    Columns,
    Direction,
    Epsilon,
    GuaranteePrice,
    NoiseGuarantee,
    ReleaseOutline,
    factor_text,
    times_text,
)
from cloakwork.guarantees.claims import GuaranteeCaveat, MayRevealTimes, SingleTimesOnly
from cloakwork.guarantees.differential_privacy import derive_given_columns
from cloakwork.guarantees.flow import Derived, Flow, Underived


class MetricPrivacy(NoiseGuarantee):
    """Moving one raw value by at most ``shift`` changes no output probability by more than
    e^epsilon.
    """

    currency: ClassVar[Currency | None] = "metric"
    stricter_if: ClassVar[Mapping[str, Direction]] = {"epsilon": "less", "shift": "more"}
    strictest_word: ClassVar[Mapping[str, str]] = {}

    kind: Literal["metric-privacy"]
    epsilon: Epsilon
    shift: Annotated[Duration, Field(ge=SHORTEST, le=LONGEST)]
    """How far a single time may move and stay hidden, for example 1h; from 1ms to 36525d"""

    over: Columns = (TIMESTAMPS,)

    def sentence(self) -> str:
        """Say it to a person."""
        return (
            f"Moving one time of one event by up to {format_duration(self.shift)} changes the "
            f"probability of any release by at most {factor_text(self.epsilon)}: "
            f"metric privacy over {listed(self.over)}, "
            f"given the order of events and every other released column."
        )

    def in_short(self, who: str = "case") -> str:
        """Its line on a screen."""
        return (
            f"one event's time can hardly be told from another within "
            f"{duration_text(self.shift)}: no outcome is more than {times_text(self.epsilon)} as "
            f"likely (epsilon {self.epsilon:g})"
        )

    def derive(self, flow: Flow) -> Derived | Underived:
        """Raw times reach nothing but through charged noise; all else is taken as known."""
        return derive_given_columns(self, flow)

    def compared_logs(self) -> str:
        """Two logs that lie ``shift`` apart."""
        shift = format_duration(self.shift)
        return f"two logs that differ in one time of one event, by at most {shift}"

    def price(self) -> GuaranteePrice:
        """Epsilon for one value that moves by ``shift``; there is no delta."""
        return GuaranteePrice("metric", Cost(epsilon=self.epsilon), shift=self.shift)

    def hides_presence(self) -> bool:
        """No: how many events there are is taken as known."""
        return False

    def takes_columns_as_known(self) -> bool:
        """Yes: it bounds what noised values add to everything else."""
        return True

    def caveats(self, release: ReleaseOutline) -> Iterator[GuaranteeCaveat]:
        """What other columns reveal of times, and what several times of a case do."""
        if release.beside_times:
            yield MayRevealTimes(columns=release.beside_times)
        if TIMESTAMPS in self.over:
            yield SingleTimesOnly()
