"""The release made by hand that a report is about: it is published, and taken as proved."""

import pytest

from cloakwork.guarantees import Guarantee
from cloakwork.publishing.from_plan import statement_of
from cloakwork.publishing.statement import PrivacyStatement
from cloakwork.report.render import render
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


_PAGES: dict[str, str] = {}


@pytest.fixture
def pages(published):  # noqa: F811 - the fixture
    """The page of that release for each audience, made once: to be looked at."""
    if not _PAGES:
        _PAGES.update(
            (audience, render(published, audience)) for audience in ("public", "internal")
        )
    return _PAGES
