"""What a log of version 0.1.0 holds because a name was read as a pattern."""

import pytest

from cloakwork.log.eventlog import EventLog
from cloakwork.publishing.earlier import EarlierPlan
from cloakwork.publishing.verify_earlier import read_as_pattern
from publishing.earlier_releases import A, timed


def released_by(rules: dict[str, tuple[str, str]]) -> EarlierPlan:
    """A plan of version 0.1.0 with these attributes, each with its column and treatment."""
    return EarlierPlan.model_validate(
        {
            "format": "cloakwork/plan/v1",
            "engine": "0.1.0",
            "policy": {"metadata": {}, "spec": {"attributes": {}, "output": {"format": "csv"}}},
            "policy_digest": "",
            "attributes": [
                {"attribute": name, "column": column, "treatment": how}
                for name, (column, how) in rules.items()
            ],
            "steps": [],
            "claims": [],
            "exposed": [],
        }
    )


@pytest.mark.parametrize(
    ("times", "column", "seen"),
    [
        ("drop", "value", "the log holds times, which the plan drops"),
        ("keep", "value", None),
        ("keep", "^value$", "the log holds '^value$', a name that was read as a pattern"),
        ("keep", "*", "the log holds '*', a name that was read as a pattern"),
        ("keep", "hidden\nname", "the log holds 'hidden\\nname', which the plan drops"),
    ],
)
def test_what_a_log_holds_because_a_name_was_a_pattern(
    times: str, column: str, seen: str | None
) -> None:
    plan = released_by(
        {
            "time:timestamp": ("timestamps", times),
            "*": ("*", "keep"),
            "hidden*": ("hidden*", "drop"),
        }
    )
    log = timed([[A]])
    renamed = EventLog(log.events.rename({"value": column}), log.cases, log.offsets)

    assert read_as_pattern(renamed, plan) == seen
