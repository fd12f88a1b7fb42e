"""The parameters of mechanisms that randomise each value by itself, and how they are found."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue, model_validator

from cloakwork.base.exact import exactly, rounded_down
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.base.naming import CASE_PREFIX
from cloakwork.base.quantities import Frozen
from cloakwork.guarantees import Guarantee, LocalDP
from cloakwork.kernel.local import BoundedNoise, LocalNoise, Randomisation, Response
from cloakwork.mechanisms.base import Refusal

STEPS: Final = 100_000
"""Into how many steps a declared range is divided: far finer than any useful noise."""

PublicFact = Literal["domain", "range"]

_ABOVE: Final = 1 + Fraction(1, 10**12)
"""Scales are rounded up by this factor."""


class LocalAttribute(Frozen):
    """An attribute with its public ``domain``, or its ``range``: the least and the largest
    number, all of them of ``integer`` type if so declared.
    """

    name: str
    domain: tuple[JsonValue, ...] | None = None
    range: tuple[float, float] | None = None
    integer: Annotated[bool, Field(exclude_if=lambda integer: not integer)] = False

    @model_validator(mode="after")
    def _one_of_both(self) -> "LocalAttribute":
        if (self.domain is None) == (self.range is None):
            raise ValueError(f"'{self.name}' needs a domain, or a range")
        if self.domain is not None and not self.domain:
            raise ValueError(f"the domain of '{self.name}' has no value")
        if self.range is not None and not self.range[0] < self.range[1]:
            raise ValueError(f"the range of '{self.name}' is empty")
        return self


class LocalParams(Frozen):
    """What is randomised, and by how much.

    ``epsilon``: of one value. ``per``: what the claim is about. ``longest_case``: of a claim about
    cases, how many events of a case keep values of their own.
    """

    attributes: Annotated[tuple[LocalAttribute, ...], Field(min_length=1)]
    epsilon: Annotated[float, Field(gt=0)]
    per: Literal["value", "case"] = "value"
    longest_case: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _cases_are_bounded(self) -> "LocalParams":
        names = [attribute.name for attribute in self.attributes]
        if len(set(names)) < len(names):
            raise ValueError("an attribute is named twice")
        if self.per == "case" and self.longest_case is None and _of_events(names):
            raise ValueError("a claim about cases needs longest_case")
        return self

    @property
    def names(self) -> frozenset[str]:
        """The attributes by name."""
        return frozenset(attribute.name for attribute in self.attributes)

    def randomisation(self) -> Randomisation:
        """The noise on each attribute; see ``kernel.local``."""
        noises = {each.name: _noise_on(each, self.epsilon) for each in self.attributes}
        if self.per == "value":
            return Randomisation(noises)
        return Randomisation(
            noises,
            per_case=values_of_a_case([*noises], self.longest_case),
            times=self.longest_case,
        )


def _noise_on(attribute: LocalAttribute, epsilon: float) -> LocalNoise:
    if attribute.domain is not None:
        return Response(len(attribute.domain), epsilon)
    presence = rounded_down(exactly(epsilon) / 2)
    scale = float(STEPS / (exactly(epsilon) - exactly(presence)) * _ABOVE)
    return BoundedNoise(STEPS, scale, presence)


def _of_events(names: list[str]) -> int:
    return sum(not name.startswith(CASE_PREFIX) for name in names)


def values_of_a_case(names: list[str], longest_case: int | None) -> int:
    """How many values a case has at most: one of each attribute of cases, and one an event of each
    of the others.
    """
    of_events = _of_events(names)
    return of_events * (longest_case or 0) + len(names) - of_events


def local_params(
    goal: Guarantee,
    facts: Facts,
    options: Mapping[str, JsonValue],
    draws_from: PublicFact,
) -> LocalParams | Refusal:
    """Parameters that meet ``goal``, a local one over attributes alone, or why there are none.

    ``draws_from``: which fact of each attribute must be declared.
    """
    if not isinstance(goal, LocalDP):
        return Refusal("never", "randomising values by themselves gives local-dp and nothing else")
    if unlike := {CONTROL_FLOW, TIMESTAMPS, METADATA} & set(goal.over):
        return Refusal("never", f"it randomises attributes, not {', '.join(sorted(unlike))}")
    if options:
        return Refusal("misconfigured", f"unknown option {', '.join(sorted(options))}")
    names = list(dict.fromkeys(goal.over))
    declared = {name: _declared(name, facts, draws_from) for name in names}
    if lacking := [name for name, attribute in declared.items() if attribute is None]:
        return Refusal(
            "needs",
            "it draws from values that are public",
            tuple(f"attributes[{name!r}].{draws_from}" for name in lacking),
        )
    epsilon = goal.epsilon
    if goal.per == "case":
        if facts.longest_case is None and _of_events(names):
            return Refusal(
                "needs",
                "a case may have any number of values, which all cost",
                ("assume.longest_case",),
            )
        epsilon = rounded_down(exactly(epsilon) / values_of_a_case(names, facts.longest_case))
    return LocalParams(
        attributes=tuple(each for each in declared.values() if each is not None),
        epsilon=epsilon,
        per=goal.per,
        longest_case=facts.longest_case if goal.per == "case" else None,
    )


def _declared(name: str, facts: Facts, draws_from: PublicFact) -> LocalAttribute | None:
    """The attribute, where that fact of it is public."""
    if draws_from == "domain":
        domain = facts.domains.get(name)
        return LocalAttribute(name=name, domain=domain) if domain else None
    span, integer = facts.numeric_range(name), facts.types.get(name) == "integer"
    return LocalAttribute(name=name, range=span, integer=integer) if span else None
