"""Differential privacy: one unit's data changes no probability by more than a factor."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import ConfigDict, Field, model_validator

from cloakwork.base.costs import RARE, Cost, Currency, epsilon_of_advantage, guessing_advantage
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.base.quantities import LEAST_EPSILON, MOST_EPSILON, as_number
from cloakwork.base.text import listed
from cloakwork.guarantees.base import Direction, GuaranteePrice, NoiseGuarantee
from cloakwork.guarantees.caveats import GuaranteeCaveat, MayRevealTimes, ReleaseOutline
from cloakwork.guarantees.fields import Columns, Delta, Epsilon
from cloakwork.guarantees.phrases import factor_text, listed_briefly, rounded_up


def _epsilon_or_advantage(schema: dict[str, Any]) -> None:
    """Let the published schema accept ``guessing_advantage`` in place of ``epsilon``."""
    schema["properties"]["guessing_advantage"] = {
        "type": "number",
        "exclusiveMinimum": 0,
        "exclusiveMaximum": 1,
        "description": (
            "Instead of epsilon: the largest rise of an attacker's probability "
            "that somebody is in the log"
        ),
    }
    schema["required"] = [name for name in schema["required"] if name != "epsilon"]
    schema["oneOf"] = [{"required": ["epsilon"]}, {"required": ["guessing_advantage"]}]


_STILL_TOLD: Final = (
    "What many cases have in common can still be learned from the release, about people in the log "
    "as about others; what only one protected unit's data would tell cannot, beyond this bound."
)


class DifferentialPrivacy(NoiseGuarantee):
    """The joint distribution of everything observable about ``over`` is (epsilon, delta)-DP.

    ``neighbours`` is *unbounded* (one unit's whole contribution added or removed) or *bounded* (one
    unit's timestamps changed, control flow given). A policy may state ``guessing_advantage``
    instead of epsilon; it is read as the epsilon that it comes to.
    """

    model_config = ConfigDict(json_schema_extra=_epsilon_or_advantage)

    currency: ClassVar[Currency | None] = "unit"
    stricter_if: ClassVar[Mapping[str, Direction]] = {
        "epsilon": "less",
        "delta": "less",
        "guessing_advantage": "less",
    }
    strictest_word: ClassVar[Mapping[str, str]] = {}

    kind: Literal["differential-privacy"]
    epsilon: Epsilon
    delta: Delta = 0.0
    over: Columns
    neighbours: Annotated[
        Literal["unbounded", "bounded"],
        Field(
            description=(
                "unbounded hides whether a unit is in the log, "
                "bounded hides when its events happened"
            )
        ),
    ] = "unbounded"

    @model_validator(mode="before")
    @classmethod
    def _read_advantage(cls, values: Any) -> Any:
        if not isinstance(values, dict) or "guessing_advantage" not in values:
            return values
        if "epsilon" in values:
            raise ValueError("guessing_advantage and epsilon say the same thing: state one of them")
        rest = {name: value for name, value in values.items() if name != "guessing_advantage"}
        advantage = as_number(values["guessing_advantage"])
        if not isinstance(advantage, int | float) or not 0 < advantage < 1:
            raise ValueError("guessing_advantage must be a number between 0 and 1")
        delta = as_number(values.get("delta", 0.0))
        epsilon = epsilon_of_advantage(advantage, delta if isinstance(delta, int | float) else 0.0)
        if not LEAST_EPSILON <= epsilon <= MOST_EPSILON:
            raise ValueError(
                f"guessing_advantage comes to epsilon {epsilon:g}, "
                f"which must be between {LEAST_EPSILON:g} and {MOST_EPSILON:g}"
            )
        return {**rest, "epsilon": epsilon}

    @model_validator(mode="after")
    def _bounded_is_about_time(self) -> "DifferentialPrivacy":
        if self.neighbours == "bounded" and self.over != (TIMESTAMPS,):
            raise ValueError("bounded neighbours are defined for over: [timestamps] only")
        return self

    def sentence(self) -> str:
        """Say it to a person."""
        factor = factor_text(self.epsilon)
        apart = f" (apart from probability {self.delta:g})" if self.delta else ""
        if self.neighbours == "bounded":
            return (
                f"Changing when the events of one protected unit happened, but not which events "
                f"they were, changes the probability of any release by at most {factor}{apart}: "
                f"differential privacy over {listed(self.over)}, "
                f"given the order of events and every other released column."
            )
        rarely = f", apart from outcomes of probability {RARE * self.delta:g}" if self.delta else ""
        gain = rounded_up(100 * guessing_advantage(self.epsilon, self.delta))
        return (
            f"Whether one protected unit is in the source log or not changes the probability of "
            f"any release by at most {factor}{apart}; whoever guesses whether that unit is in it "
            f"gains at most {gain:g} percentage points{rarely} "
            f"(differential privacy over {self._covered()})."
        ) + (f" {_STILL_TOLD}" if self.covers_whole_log() else "")

    def covers_whole_log(self) -> bool:
        """Whether it is over the order of events and other columns, of whole units: it is derived
        where nothing else of the log is released without noise that it counts.
        """
        return self.hides_presence() and CONTROL_FLOW in self.over and len(set(self.over)) > 1

    def _covered(self) -> str:
        if not self.covers_whole_log():
            return listed(self.over)
        return f"the log as a whole: {listed_briefly(self.over)}"

    def compared_logs(self) -> str:
        """Two neighbours."""
        if self.neighbours == "unbounded":
            return (
                "two logs that differ by everything that one protected unit contributes (unbounded)"
            )
        return (
            "two logs with the same order of events that differ in the times of one protected "
            "unit only (bounded)"
        )

    def price(self) -> GuaranteePrice:
        """Epsilon and delta for one unit."""
        return GuaranteePrice("unit", Cost(epsilon=self.epsilon, delta=self.delta))

    def hides_presence(self) -> bool:
        """Between unbounded neighbours."""
        return self.neighbours == "unbounded"

    def hides_attribute_names(self) -> bool:
        """Between unbounded neighbours: one case may be the only one with some attribute."""
        return self.neighbours == "unbounded"

    def takes_columns_as_known(self) -> bool:
        """Between bounded neighbours, which have all but their times in common."""
        return self.neighbours == "bounded"

    def caveats(self, release: ReleaseOutline) -> Iterator[GuaranteeCaveat]:
        """Between bounded neighbours, what other columns reveal of times."""
        if self.takes_columns_as_known() and release.beside_times:
            yield MayRevealTimes(columns=release.beside_times)
