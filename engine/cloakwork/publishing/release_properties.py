"""What advisories go by."""

from cloakwork.plan.model import Plan
from cloakwork.publishing.advisories import ReleaseProperties


def properties_of(plan: Plan) -> ReleaseProperties:
    """What advisories go by, of a plan of this version's format."""
    return ReleaseProperties(
        engine=plan.engine,
        guarantees=tuple(claim.guarantee.model_dump(mode="json") for claim in plan.claims),
        mechanisms=tuple(step.mechanism for step in plan.steps),
        rules={item.attribute: item.treatment for item in plan.attributes},
        unit=plan.facts.unit.attribute or "",
    )
