"""Mechanisms that randomise each value by itself: randomised response over a declared domain, and
Laplace noise inside declared bounds.
"""

from fractions import Fraction
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field, JsonValue, model_validator

from cloakwork.base.exact import exactly, rounded_down
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS, Lineage
from cloakwork.base.naming import CASE_PREFIX
from cloakwork.base.quantities import IF_SAID, Frozen
from cloakwork.guarantees import Guarantee, LocalDP
from cloakwork.kernel.local import BoundedNoise, LocalNoise, Randomisation, Response
from cloakwork.mechanisms.base import (
    Gives,
    Mechanism,
    Offer,
    Options,
    Proof,
    Refusal,
    Theorem,
    no_option,
)
from cloakwork.mechanisms.steps import NoiseOnValuesStep, PublicValues

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
    integer: Annotated[bool, IF_SAID] = False

    @model_validator(mode="after")
    def _one_of_both(self) -> "LocalAttribute":
        if (self.domain is None) == (self.range is None):
            raise ValueError(f"'{self.name}' needs a domain, or a range")
        if self.domain is not None and not self.domain:
            raise ValueError(f"the domain of '{self.name}' has no value")
        if self.range is not None and not self.range[0] < self.range[1]:
            raise ValueError(f"the range of '{self.name}' is empty")
        return self

    def noise(self, epsilon: float) -> LocalNoise:
        """What one of its values gets at ``epsilon``."""
        if self.domain is not None:
            return Response(len(self.domain), epsilon)
        # Half of epsilon hides whether there is a number, the other half where it lies.
        presence = rounded_down(exactly(epsilon) / 2)
        # The sensitivity is the whole range, in steps; the scale is rounded up.
        scale = float(STEPS / (exactly(epsilon) - exactly(presence)) * _ABOVE)
        return BoundedNoise(STEPS, scale, presence)


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
        # Each event has values of its own, so their number must be bounded to be charged.
        if self.per == "case" and self.longest_case is None and _of_events(names):
            raise ValueError("a claim about cases needs longest_case")
        return self

    @property
    def names(self) -> frozenset[str]:
        """The attributes by name."""
        return frozenset(attribute.name for attribute in self.attributes)

    def randomisation(self) -> Randomisation:
        """The noise on each attribute; see ``kernel.local``."""
        noises = {each.name: each.noise(self.epsilon) for each in self.attributes}
        if self.per == "value":
            return Randomisation(noises)
        return Randomisation(
            noises,
            per_case=values_of_a_case([*noises], self.longest_case),
            times=self.longest_case,
        )


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
    options: Options,
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
        return no_option(options)
    names = list(dict.fromkeys(goal.over))
    declared = {name: _declared(name, facts, draws_from) for name in names}
    if lacking := [name for name, attribute in declared.items() if attribute is None]:
        return Refusal(
            "needs",
            "it draws from values that are public",
            tuple(f"attributes[{name!r}].{draws_from}" for name in lacking),
        )
    epsilon = goal.epsilon
    # All values of a case are charged together: each gets an equal part of epsilon.
    if goal.per == "case":
        if facts.longest_case is None and _of_events(names):
            return Refusal(
                "needs",
                "a case may have any number of values, which all cost",
                ("assume.longest_case",),
            )
        # Rounded down, so that all parts together are no more than the goal.
        epsilon = rounded_down(exactly(epsilon) / values_of_a_case(names, facts.longest_case))
    return LocalParams(
        attributes=tuple(each for each in declared.values() if each is not None),
        epsilon=epsilon,
        per=goal.per,
        longest_case=facts.longest_case if goal.per == "case" else None,
    )


def _declared(
    name: str,
    facts: Facts,
    draws_from: PublicFact,
) -> LocalAttribute | None:
    """The attribute, where that fact of it is public."""
    if draws_from == "domain":
        domain = facts.domains.get(name)
        return LocalAttribute(name=name, domain=domain) if domain else None
    span = facts.numeric_range(name)
    integer = facts.types.get(name) == "integer"
    return LocalAttribute(name=name, range=span, integer=integer) if span else None


class RandomisesValues(Mechanism[LocalParams]):
    """The offer, the cost and the lineage of a step that puts a noisy value in the place of each
    value.
    """

    Params = LocalParams
    gives: ClassVar[tuple[Gives, ...]] = (Gives("local-dp"),)
    proof: ClassVar[Proof] = "proved"
    draws_from: ClassVar[PublicFact]
    does: ClassVar[str]
    """What an offer says of it."""

    def offer(
        self,
        goal: Guarantee,
        facts: Facts,
        options: Options,
    ) -> Offer[LocalParams] | Refusal:
        """Attributes of which ``draws_from`` is declared."""
        found = local_params(goal, facts, options, self.draws_from)
        return found if isinstance(found, Refusal) else Offer(found, self.does)

    def step(self, params: LocalParams, facts: Facts) -> NoiseOnValuesStep:
        """Each value is measured by itself, and whether there is one too: at the cost of one value,
        or of all values of a case.
        """
        noise = params.randomisation()
        return NoiseOnValuesStep(
            lineage=Lineage(measures=params.names, writes=params.names),
            event=noise.event(),
            noise=noise,
            values={
                each.name: PublicValues(each.domain, each.range, STEPS, each.integer)
                for each in params.attributes
            },
        )


class RandomisedResponse(RandomisesValues):
    """Each value stays with a probability that epsilon allows, else another of the domain takes
    its place; a missing value is one of them, and one that is not declared counts as missing.

    **Edge cases.** An empty log stays empty; an attribute that the log lacks is drawn as one that
    is missing everywhere. Of a claim about cases, values behind the ``longest_case``-th event are
    drawn as missing ones. The larger the domain, the fewer values stay: at epsilon 2 e**2 / (e**2 +
    k), so 79 % of k = 2 values, 42 % of ten, 7 % of a hundred.

    **Large domains.** Optimal local hashing (Wang et al. 2017) estimates frequencies better, from
    hashes that are kept; as a value in a log it would keep fewer true ones (``kernel.local``).
    """

    name: ClassVar[str] = "attributes/randomised-response"
    action: ClassVar[str] = "randomise {attributes}"
    summary: ClassVar[str] = "Replaces values by others of their domain, each by itself at random."
    draws_from: ClassVar[PublicFact] = "domain"
    does: ClassVar[str] = "puts another value of its domain in the place of some values"
    theorem: ClassVar[Theorem] = Theorem(
        "Each released value is epsilon-locally private in the raw one, missing or not; all values "
        "of a case of at most M events together, where the claim is about cases.",
        "Warner 1965; Kairouz, Oh and Viswanath 2016, Extremal mechanisms; composition: Dwork and "
        "Roth 2014, theorem 3.16",
    )


class BoundedLaplace(RandomisesValues):
    """Each number is moved inside the declared range, gets discrete Laplace noise of the range's
    width over half of epsilon, and is moved inside again; the other half of epsilon hides whether
    there is a number at all.

    **Edge cases.** What is no number counts as missing, a number outside the range as its nearer
    end. Where a value is shown that the log does not have, it is the middle of the range with
    noise. An empty log stays empty; an attribute that the log lacks is missing everywhere. Of a
    claim about cases, values behind the ``longest_case``-th event count as missing.
    """

    name: ClassVar[str] = "attributes/bounded-laplace"
    action: ClassVar[str] = "add noise to {attributes}"
    summary: ClassVar[str] = "Adds noise to numbers, each by itself, inside declared bounds."
    draws_from: ClassVar[PublicFact] = "range"
    does: ClassVar[str] = "adds noise to numbers inside their declared range"
    theorem: ClassVar[Theorem] = Theorem(
        "Each released number, and whether there is one, is epsilon-locally private in the raw "
        "value; all values of a case of at most M events together, where the claim is about cases.",
        "Laplace mechanism: Dwork and Roth 2014, theorem 3.6, in its discrete form (Ghosh, "
        "Roughgarden and Sundararajan 2009); Warner 1965 for presence; composition: Dwork and "
        "Roth 2014, theorem 3.16",
    )
