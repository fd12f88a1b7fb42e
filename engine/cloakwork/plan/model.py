"""A plan as data: what will be done, what it gives, what it costs. ``apply`` consumes it and
decides nothing. And a draft: a plan in the making, which passes improve.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field, JsonValue

from cloakwork.base.costs import Charge, Cost, Currency, PrivacyEvent
from cloakwork.base.errors import Cause
from cloakwork.base.facts import Facts
from cloakwork.base.frozen import frozen
from cloakwork.base.globs import rule_resolver
from cloakwork.base.lineage import Lineage
from cloakwork.base.notebook_html import InNotebooks
from cloakwork.base.quantities import IF_SAID, Frozen
from cloakwork.base.records import PROSE, Prose
from cloakwork.guarantees import Guarantee
from cloakwork.guarantees.claims import (
    Assumption,
    Caveat,
    ConditionedOn,
    ExposureReason,
    Reason,
    StartsFromService,
    TreatmentReason,
)
from cloakwork.mechanisms.base import Mechanism, Proof
from cloakwork.mechanisms.profile import Profile
from cloakwork.policy.model import LogForm, Policy

PLAN_FORMAT: Final = "cloakwork/plan/v2"

RELEASED: Final = ("keep", "pseudonymise", "generalise", "protect")
"""Treatments under which an attribute is released in some form."""


class Step(Frozen):
    """One mechanism with its parameters; ``goals`` index the policy's guarantees that it serves.

    ``published``: what the literature claims for it, in words, where its proof is only published.
    ``predicted``: how accurate it will be, where a simulation tells. These and ``why`` are the
    mechanism's own words.
    """

    mechanism: str
    params: dict[str, JsonValue]
    why: Prose
    goals: tuple[int, ...] = ()
    proof: Proof
    event: PrivacyEvent
    currency: Currency
    lineage: Lineage
    published: Annotated[str | None, PROSE] = None
    predicted: Annotated[str | None, PROSE] = None


class Claim(Frozen):
    """One guarantee that the release will carry, and how it is known.

    ``basis``: *derived* from lineage and privacy events, or *derived and measured* again on the
    released log. ``given``: what the claim takes as known, None where it holds whatever else is
    released. ``cost``: what the accountant charges for it, beside the plain sum of all events
    (``naive``). ``derivation``: the reasons. ``assumptions``: public facts and circumstances that
    it rests on. ``sentence`` follows from the others (``plan.sentences``).
    """

    guarantee: Guarantee
    sentence: Prose
    basis: Literal["derived", "derived and measured"]
    currency: Currency | None = None
    cost: Cost | None = None
    naive: Cost | None = None
    given: ConditionedOn | None = None
    derivation: tuple[Reason, ...]
    assumptions: tuple[Assumption, ...] = ()


class UnprovenClaim(Frozen):
    """A goal that the policy lets a mechanism serve by a published claim alone: the release does
    not guarantee it.

    ``published``: the claim as the literature makes it, in the mechanism's words. ``cost``: what
    can be derived for the step, None where no epsilon bounds it. ``why``: why the claim is not
    derived, one sentence each.
    """

    guarantee: Guarantee
    mechanism: str
    published: Prose
    currency: Currency
    cost: Cost | None
    why: Annotated[tuple[str, ...], Field(min_length=1), PROSE]


class PlannedExposure(Frozen):
    """A column that is released without protection, and why; ``reason`` says why in words."""

    column: str
    why: ExposureReason
    reason: Prose


Kind = Literal["never", "not_yet", "needs", "misconfigured", "denied", "other chosen"]


class ConsideredMechanism(Frozen):
    """A mechanism that was weighed for a goal and not chosen, with the reason."""

    goal: str
    mechanism: str
    kind: Kind
    reason: Prose


AttributeTreatment = Literal["keep", "drop", "pseudonymise", "generalise", "replace", "protect"]


class TreatedAttribute(Frozen):
    """What happens to the attributes that match one rule of the policy.

    ``mechanism``: whose published claim alone covers them, where ``why`` is *unproven*; which makes
    new cases without them, where it is *not-generated*.
    """

    attribute: str
    column: str
    treatment: AttributeTreatment
    why: TreatmentReason
    mechanism: str | None = None


def released_columns(attributes: Iterable[TreatedAttribute]) -> frozenset[str]:
    """The columns that are released, in whatever form."""
    return frozenset(item.column for item in attributes if item.treatment in RELEASED)


class Plan(InNotebooks, Frozen):
    """Everything ``apply`` needs, and everything an auditor asks; holds no figure from the raw log,
    and of names only those that ``form`` has: columns of the log, where the policy's output is
    ``auto``.
    """

    format: Literal["cloakwork/plan/v2"] = PLAN_FORMAT
    engine: Annotated[str, Field(description="Version of Cloakwork that made the plan")]
    policy: Policy
    policy_digest: str
    facts: Facts
    profile: Profile | None = None
    attributes: tuple[TreatedAttribute, ...]
    steps: tuple[Step, ...]
    claims: tuple[Claim, ...]
    unproven: tuple[UnprovenClaim, ...] = ()
    exposed: tuple[PlannedExposure, ...]
    charges: tuple[Charge, ...]
    considered: tuple[ConsideredMechanism, ...]
    warnings: tuple[Caveat, ...] = ()
    form: Annotated[LogForm | None, IF_SAID] = None

    @property
    def output(self) -> LogForm:
        """How the log is written; where the policy leaves it to the log that comes in, as that."""
        return self.policy.form_of_release(self.form, starts=StartsFromService() in self.warnings)

    @property
    def released(self) -> frozenset[str]:
        """The columns that are released, in whatever form."""
        return released_columns(self.attributes)

    @property
    def employees(self) -> frozenset[str]:
        """The attributes of events by which claims count who performed them; none is released."""
        names = (claim.guarantee.employees for claim in self.claims)
        return frozenset(name for name in names if name is not None)

    @property
    def bounded(self) -> bool:
        """Whether differential privacy bounds everything that is released; else something is
        released without any bound.
        """
        return any(claim.currency == "unit" and claim.given is None for claim in self.claims)

    def treated(self, attribute: str) -> TreatedAttribute | None:
        """What happens to an attribute of the source by the rule that decides about it; None where
        none does.
        """
        rules = rule_resolver(
            self, self.attributes, lambda: {item.attribute: item for item in self.attributes}
        )
        return rules.rule(attribute)

    def releases(self, attribute: str) -> bool:
        """Whether an attribute of the source is released in any form."""
        item = self.treated(attribute)
        return item is not None and item.treatment in RELEASED


Catalogue = Mapping[str, Mechanism[Any]]


@frozen
class Draft:
    """A plan in the making. ``goals`` are the policy's guarantees over columns instead of attribute
    names.
    """

    policy: Policy
    facts: Facts
    catalogue: Catalogue
    goals: tuple[Guarantee, ...] = ()
    attributes: tuple[TreatedAttribute, ...] = ()
    exposed: tuple[PlannedExposure, ...] = ()
    steps: tuple[Step, ...] = ()
    charges: tuple[Charge, ...] = ()
    considered: tuple[ConsideredMechanism, ...] = ()
    causes: tuple[Cause, ...] = ()
    warnings: tuple[Caveat, ...] = ()
    profile: Profile | None = None

    @property
    def released(self) -> frozenset[str]:
        """The columns that are released."""
        return released_columns(self.attributes)


Pass = Callable[[Draft], Draft]
