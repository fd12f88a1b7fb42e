"""A plan in the making, and what improves it."""

from collections.abc import Callable
from dataclasses import dataclass

from cloakwork.base.costs import Charge
from cloakwork.base.errors import Cause
from cloakwork.base.facts import Facts
from cloakwork.guarantees import Guarantee
from cloakwork.guarantees.claims import Caveat
from cloakwork.mechanisms.profile import Profile
from cloakwork.plan.choose import Catalogue
from cloakwork.plan.model import (
    RELEASED,
    ConsideredMechanism,
    PlannedExposure,
    Step,
    TreatedAttribute,
)
from cloakwork.policy.model import Policy


@dataclass(frozen=True, slots=True)
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
        return frozenset(item.column for item in self.attributes if item.treatment in RELEASED)


Pass = Callable[[Draft], Draft]
