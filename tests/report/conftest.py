"""The release made by hand that a report is about: it is published, and taken as proved."""

from cloakwork.guarantees import Guarantee
from cloakwork.publishing.from_plan import statement_of
from cloakwork.publishing.statement import PrivacyStatement
from publishing.conftest import (  # noqa: F401 - fixtures
    _taken_as_proved,
    a_plan,
    key,
    made_by_hand,
    publish_as,
    published,
)


def statement_with(*guarantees: Guarantee) -> PrivacyStatement:
    """The statement of a release that is not published, with other guarantees."""
    plan = a_plan()
    claims = tuple(
        plan.claims[0].model_copy(update={"guarantee": guarantee}) for guarantee in guarantees
    )
    changed = plan.model_copy(update={"claims": claims})
    return statement_of(changed, "r", released=(), private=True)
