"""A plan as data: what will be done, what it gives, what it costs. ``apply`` consumes it and decides nothing."""

from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue

from cloakwork.accounting.charge import Charge
from cloakwork.budget import Cost, Currency
from cloakwork.facts import Facts
from cloakwork.guarantees import Guarantee, brief
from cloakwork.lineage import Lineage
from cloakwork.mechanisms.profile import Profile
from cloakwork.policy.globs import decisive
from cloakwork.policy.model import Policy
from cloakwork.privacy_event import PrivacyEvent
from cloakwork.quantities import Frozen

PLAN_FORMAT: Final = "cloakwork/plan/v1"

RELEASED: Final = ("keep", "pseudonymise", "generalise", "protect")
"""Treatments that let an attribute leave the house in some form."""


class Step(Frozen):
    """One mechanism with its parameters; ``goals`` index the policy's guarantees that it serves.

    ``published``: what the literature claims for it, in words, where its proof is only published. ``predicted``: how
    accurate it will be, where a simulation tells.
    """

    mechanism: str
    params: dict[str, JsonValue]
    why: str
    goals: tuple[int, ...] = ()
    proof: Literal["proved", "published"]
    event: PrivacyEvent
    currency: Currency
    lineage: Lineage
    published: str | None = None
    predicted: str | None = None


class Claim(Frozen):
    """One guarantee that the release will carry, and how it is known.

    ``basis``: *derived* from lineage and privacy events, or *derived and measured* again on the released log.
    ``given``: columns that the claim takes as known. ``cost``: what the accountant charges for it, beside the plain
    sum of all events (``naive``). ``derivation``: the reasons, one sentence each. ``assumptions``: public facts and
    circumstances that it rests on.
    """

    guarantee: Guarantee
    sentence: str
    basis: Literal["derived", "derived and measured"]
    currency: Currency | None = None
    cost: Cost | None = None
    naive: Cost | None = None
    given: tuple[str, ...] = ()
    derivation: tuple[str, ...]
    assumptions: tuple[str, ...] = ()


class Unproven(Frozen):
    """A goal that the policy lets a mechanism serve by a published claim alone: the release does not guarantee it.

    ``published``: the claim as the literature makes it. ``cost``: what can be derived for the step, None where no epsilon
    bounds it. ``why``: why the claim is not derived, one sentence each.
    """

    guarantee: Guarantee
    mechanism: str
    published: str
    currency: Currency
    cost: Cost | None
    why: Annotated[tuple[str, ...], Field(min_length=1)]

    def sentence(self) -> str:
        """Say it to a person."""
        return f"{brief(self.guarantee)} was asked for and is NOT guaranteed: {self.mechanism} is only published, not proved."

    def derived(self) -> str:
        """The cost that can be derived, in words."""
        if self.cost is None:
            return "derived here: no bound (epsilon infinite)"
        return f"derived here: epsilon {self.cost.epsilon:.6g}, delta {self.cost.delta:.3g}"


class Exposure(Frozen):
    """A column that leaves the house under no guarantee, and why the policy lets it."""

    column: str
    reason: str


Kind = Literal["never", "not_yet", "needs", "misconfigured", "denied", "other chosen"]


class Considered(Frozen):
    """A mechanism that was weighed for a goal and not chosen, with the reason."""

    goal: str
    mechanism: str
    kind: Kind
    reason: str


class Treated(Frozen):
    """What happens to the attributes that match one rule of the policy."""

    attribute: str
    column: str
    treatment: Literal["keep", "drop", "pseudonymise", "generalise", "replace", "protect"]
    why: str


class Plan(Frozen):
    """Everything ``apply`` needs, and everything an auditor asks; holds no figure and no name from the raw log."""

    format: Literal["cloakwork/plan/v1"] = PLAN_FORMAT
    engine: Annotated[str, Field(description="Version of Cloakwork that made the plan")]
    policy: Policy
    policy_digest: str
    facts: Facts
    profile: Profile | None = None
    attributes: tuple[Treated, ...]
    steps: tuple[Step, ...]
    claims: tuple[Claim, ...]
    unproven: tuple[Unproven, ...] = ()
    exposed: tuple[Exposure, ...]
    charges: tuple[Charge, ...]
    considered: tuple[Considered, ...]
    warnings: tuple[str, ...] = ()

    @property
    def released(self) -> frozenset[str]:
        """The columns that leave the house, in whatever form."""
        return frozenset(item.column for item in self.attributes if item.treatment in RELEASED)

    @property
    def bounded(self) -> bool:
        """Whether differential privacy bounds everything that is released; else something leaves without any bound."""
        return any(claim.currency == "unit" and not claim.given for claim in self.claims)

    def releases(self, attribute: str) -> bool:
        """Whether an attribute of the source leaves the house in any form."""
        treated = decisive(self, self.attributes, lambda: {item.attribute: item for item in self.attributes})
        item = treated.rule(attribute)
        return item is not None and item.treatment in RELEASED
