"""Local differential privacy: each value is randomised by itself."""

import math
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

from cloakwork.accounting.events import cost, naive
from cloakwork.base.costs import Composed, Cost, Currency
from cloakwork.base.text import listed
from cloakwork.guarantees.base import (
    Columns,
    Direction,
    Epsilon,
    GuaranteePrice,
    NoiseGuarantee,
    ReleaseOutline,
    rounded_up,
    times_text,
)
from cloakwork.guarantees.claims import (
    DomainsDeclared,
    GuaranteeCaveat,
    NoiseCosts,
    ValuesOnlyThroughNoise,
)
from cloakwork.guarantees.flow import Derived, Flow, FlowStep, Underived, form_assumptions


class LocalDP(NoiseGuarantee):
    """Each value passed an epsilon-locally-private randomiser over a declared domain."""

    currency: ClassVar[Currency | None] = "local"
    stricter_if: ClassVar[Mapping[str, Direction]] = {"epsilon": "less"}
    strictest_word: ClassVar[Mapping[str, str]] = {"per": "case"}

    kind: Literal["local-dp"]
    epsilon: Epsilon
    over: Columns
    per: Literal["value", "case"] = "value"
    """Whether epsilon covers one value or a whole case"""

    def sentence(self) -> str:
        """Say it to a person."""
        return (
            f"Each {self.per}'s contribution to {listed(self.over)} was randomised: "
            f"no released value is more than {rounded_up(math.exp(self.epsilon)):.4g} times "
            f"likelier under one true value than under another. How many there are shows."
        )

    def in_short(self, who: str = "case") -> str:
        """Its line on a screen."""
        whose = "case's" if self.per == "case" else "value of"
        return (
            f"each {whose} {listed(self.over)} is randomised: no released value is more than "
            f"{times_text(self.epsilon)} as likely (epsilon {self.epsilon:g})"
        )

    def derive(self, flow: Flow) -> Derived | Underived:
        """No raw value of a covered attribute reaches any released column but through local noise,
        which costs a value, or a case, no more than is allowed.

        Of a claim about values each attribute is charged by itself: the guarantee is about one
        value, and given all others. Of one about cases the costs of all attributes add up.
        """
        columns = flow.columns
        used = [columns[name].measured for name in self.over if name in columns]
        steps = frozenset[int]().union(*used)
        causes = (
            *self._raw_values(flow),
            *self._without_local_noise([flow.steps[index] for index in sorted(steps)]),
            *(reason for index, reason in flow.unproven.items() if index in steps),
        )
        if causes:
            return Underived(causes)
        charged = [
            Composed(events=tuple(flow.steps[index].event for index in sorted(indexes)))
            for indexes in ([steps] if self.per == "case" else used)
        ]
        # At delta 0: local differential privacy allows none.
        largest = max(charged, key=lambda event: cost(event, 0.0).epsilon)
        spent = cost(largest, 0.0)
        allowed = self.price().cost
        if not spent.is_within(allowed):
            cause = (
                f"the noise costs epsilon {spent.epsilon:.6g} a {self.per}: "
                f"more than {allowed.epsilon:g}"
            )
            return Underived((cause,))
        return Derived(
            derivation=(
                ValuesOnlyThroughNoise(mechanisms=flow.names_of(steps)),
                NoiseCosts(cost=spent),
            ),
            assumptions=(
                *form_assumptions(flow.facts),
                DomainsDeclared(attributes=tuple(sorted(self.over))),
            ),
            cost=spent,
            naive=naive(largest),
        )

    def _raw_values(self, flow: Flow) -> Iterator[str]:
        """How raw values of the covered attributes would reach the release."""
        columns = flow.columns
        covered = set(self.over)
        unit = flow.facts.unit.attribute
        if unit in covered:
            yield f"which cases are released follows from raw {unit}, the unit of privacy"
        for column in self.over:
            if column not in columns or column not in flow.released:
                yield f"{column} is not in the release"
            # Of other columns it may hold what it will: the claim is about these values.
            elif covered & columns[column].raw:
                yield f"raw {column} would reach the release without noise"
            elif not columns[column].measured:
                yield f"no step randomises {column}"
        for column in sorted(flow.released - covered):
            seen = covered & columns[column].raw if column in columns else set()
            if seen:
                raw = ", ".join(sorted(seen))
                yield f"raw {raw} would reach the released {column} without noise"

    def _without_local_noise(self, used: list[FlowStep]) -> Iterator[str]:
        """The steps that do not randomise each value by itself, or count a case's values as one."""
        for step in used:
            if step.currency != "local":
                yield f"{step.mechanism} does not randomise each value by itself"
            elif not step.proved:
                yield f"{step.mechanism} is only published, not proved"
            elif self.per == "case" and step.params.get("per") != "case":
                yield f"{step.mechanism} counts one value, and a case has several"

    def compared_logs(self) -> str:
        """Two logs that differ in what is randomised."""
        return f"two logs that differ in the contribution of one {self.per}"

    def price(self) -> GuaranteePrice:
        """Epsilon for a value or a case; there is no delta."""
        return GuaranteePrice("local", Cost(epsilon=self.epsilon), per=self.per)

    def hides_presence(self) -> bool:
        """No: how many values there are shows."""
        return False

    def hides_attribute_names(self) -> bool:
        """Yes: which names a log has may tell whose values are in it."""
        return True

    def takes_columns_as_known(self) -> bool:
        """No: it bounds what a value reveals by itself."""
        return False

    def caveats(self, release: ReleaseOutline) -> Iterator[GuaranteeCaveat]:
        """None beyond its sentence."""
        return iter(())
