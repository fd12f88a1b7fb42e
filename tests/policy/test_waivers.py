"""A waiver silences advice until a day, and changes nothing else."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from cloakwork.errors import PolicyError
from cloakwork.plan.planner import make_plan
from cloakwork.policy.advice import LOG_RULES, judged, waiver_lines
from cloakwork.policy.diff import diff
from cloakwork.policy.lint import ADVICE_RULES, RULES, lint
from cloakwork.policy.load import digest
from policy.edits import Edit, edited, goal, put

LAST_DAY = date(2027, 6, 30)


def waived(**fields: Any) -> Edit:
    """Waive the advice that k is small."""
    usual = {"rule": "small-k", "reason": "Nobody knows", "by": "Ann", "expires": str(LAST_DAY)}
    return put("waivers", [usual | fields])


@pytest.mark.parametrize(
    ("today", "silenced"), [(LAST_DAY, True), (LAST_DAY + timedelta(days=1), False)]
)
def test_a_waiver_counts_through_its_last_day(today: date, silenced: bool) -> None:
    policy = edited("kanon-control-flow", goal(k=3), waived())
    first, *rest = judged(lint(policy), policy.spec.waivers, known=ADVICE_RULES, today=today)
    assert (first.advice.rule, first.waiver is not None) == ("small-k", silenced)
    assert [each.advice.rule for each in rest] == ([] if silenced else ["waiver-expired"])
    (line,) = waiver_lines(policy.spec.waivers, today)
    assert line.endswith("(expired)") is not silenced


def test_today_is_the_day_in_utc() -> None:
    yesterday = datetime.now(UTC).date() - timedelta(days=2)
    policy = edited("kanon-control-flow", goal(k=3), waived(expires=str(yesterday)))
    first, _ = judged(lint(policy), policy.spec.waivers, known=ADVICE_RULES)
    assert first.waiver is None


def test_a_waiver_changes_no_claim() -> None:
    """Nor steps, costs and what is exposed; only the policy is another one."""
    plain = make_plan(edited("kanon-control-flow", goal(k=3)))
    silent = make_plan(edited("kanon-control-flow", goal(k=3), waived()))
    others = {"policy": silent.policy, "policy_digest": silent.policy_digest}
    assert plain.model_copy(update=others) == silent
    assert plain.policy_digest != silent.policy_digest
    (change,) = diff(plain.policy, silent.policy)
    assert (change.field, change.verdict) == ("spec.waivers", "other")


def test_a_policy_without_waivers_keeps_its_digest() -> None:
    """That of a policy that was written before there were any."""
    plain, empty = edited("kanon-control-flow"), edited("kanon-control-flow", put("waivers", []))
    assert digest(plain) == digest(empty)
    assert "waivers" not in plain.model_dump(mode="json")["spec"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"reason": "ok"}, ".reason must be at least 3 characters"),
        ({"by": ""}, ".by must not be empty"),
        ({"expires": "soon"}, ".expires must be a day such as 2027-06-30"),
        ({"expires": 20270630}, ".expires must be a day such as 2027-06-30"),
        ({"expires": "2027-06-31"}, ".expires must be a day such as 2027-06-30"),
        ({"expires": None}, ".expires"),
        ({"until": "2027-06-30"}, ": unknown key 'until'"),
        ({"reason": "two\nlines"}, ".reason must match"),
    ],
)
def test_a_waiver_needs_reason_name_and_day(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(PolicyError) as caught:
        edited("kanon-control-flow", waived(**fields))
    assert f"spec.waivers[0]{said}" in str(caught.value)


def test_every_rule_has_an_id_and_a_level() -> None:
    assert not RULES.keys() & LOG_RULES.keys()
