"""What the passes say about the release beside its claims."""

from cloakwork.base.lineage import METADATA
from cloakwork.plan.planner import make_plan
from cloakwork.plan.policies import load_shipped


def test_what_the_form_of_a_release_shows_is_said_with_who_changes_it() -> None:
    """Events that are inserted or taken out, and missing values that change places, show no longer
    as in the source.
    """
    plan = make_plan(load_shipped("kanon-t-closeness"))
    (exposure,) = [item for item in plan.exposed if item.column == METADATA]
    assert exposure.reason.endswith(", except for what kanon/auto and kanon/closeness change")


def test_a_claim_about_whole_cases_covers_the_form() -> None:
    """Noise covers how many cases there are."""
    assert METADATA not in {
        item.column for item in make_plan(load_shipped("dp-control-flow")).exposed
    }
