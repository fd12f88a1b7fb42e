"""What has become stricter between two policies, and what looser."""

from typing import Any

import pytest

from cloakwork.plan.policies import load_shipped
from cloakwork.policy.diff import diff, verdict
from cloakwork.policy.load import list_policies
from policy.edits import Edit, edited, goal, put, rule


@pytest.mark.parametrize("name", list_policies())
def test_a_policy_says_the_same_as_itself(name: str) -> None:
    assert diff(load_shipped(name), load_shipped(name)) == ()
    assert verdict(()) == "same"


RELEASE = {"epsilon": 1, "delta": 1e-6}

DP = "spec.guarantees[differential-privacy over control-flow]"

COARSE = "kanon-with-generalised-attributes"


def protect_persons(spec: dict[str, Any]) -> None:
    """Protect persons instead of cases."""
    spec["unit"] = {"attribute": "case:p"}
    spec["attributes"]["case:p"] = {"role": "identifier"}


def drop_resource(spec: dict[str, Any]) -> None:
    """Stop releasing pseudonyms of staff."""
    del spec["attributes"]["org:resource"], spec["expose"]["org:resource"]


def longer_shift(spec: dict[str, Any]) -> None:
    """Hide larger shifts in time."""
    spec["guarantees"][1]["shift"] = "2h"


@pytest.mark.parametrize(
    ("field", "name", "edit"),
    [
        ("spec.guarantees[k-anonymity over control-flow].k", "kanon-control-flow", goal(k=20)),
        (f"{DP}.epsilon", "dp-control-flow", goal(epsilon=0.5)),
        (f"{DP}.delta", "dp-control-flow", goal(delta=1e-8)),
        (
            "spec.budget.total.epsilon",
            "dp-control-flow",
            put("budget", {"release": RELEASE, "total": {"epsilon": 2, "delta": 1e-4}}),
        ),
        ("spec.unit", "dp-control-flow", protect_persons),
        ("spec.attributes['org:resource']", COARSE, drop_resource),
        (
            "spec.attributes['case:age'].bins",
            COARSE,
            rule("case:age", role="quasi-identifier", treatment="generalise", bins=[0, 40, 120]),
        ),
        (
            "spec.guarantees[metric-privacy over timestamps].shift",
            "kanon-dp-timestamps",
            longer_shift,
        ),
    ],
)
def test_tightening_is_seen_and_loosening_is_its_mirror(field: str, name: str, edit: Edit) -> None:
    old, new = edited(name), edited(name, edit)
    assert field in [change.field for change in diff(old, new) if change.verdict == "tighter"]
    assert field in [change.field for change in diff(new, old) if change.verdict == "looser"]


def test_a_guarantee_that_goes_is_loosening() -> None:
    old = load_shipped("kanon-dp-timestamps")
    new = edited(
        "kanon-dp-timestamps",
        lambda spec: spec["guarantees"].pop(1),
        rule("time:timestamp", treatment="drop"),
    )
    gone = [
        change
        for change in diff(old, new)
        if change.after is None and change.field.startswith("spec.guarantees")
    ]
    assert [change.verdict for change in gone] == ["looser"]
    assert str(gone[0]).startswith(
        "looser   spec.guarantees[metric-privacy over timestamps]: gone, was Moving one time"
    )


def test_an_exposure_more_is_loosening() -> None:
    new = edited(
        "kanon-control-flow",
        rule("case:age", treatment="keep"),
        put("expose", {"case:age": "Agreed by contract"}),
    )
    changes = diff(load_shipped("kanon-control-flow"), new)
    assert {change.field: change.verdict for change in changes} == {
        "spec.attributes['case:age']": "looser",
        "spec.expose['case:age']": "looser",
    }
    assert verdict(changes) == "looser"


def test_what_neither_protects_nor_harms_is_changed() -> None:
    changes = diff(
        load_shipped("dp-control-flow"), edited("dp-control-flow", put("output", {"format": "xes"}))
    )
    assert verdict(changes) == "other"


def test_windows_loosen_the_total_of_cases() -> None:
    """It is that of each window then; persons share one over all of them."""
    monthly, yearly = (
        {"windows": {"by": "case-start", "every": f"1 {each}"}} for each in ("month", "year")
    )
    plain, windows = edited("dp-control-flow", put("budget", {})), put("budget", monthly)
    (change,) = diff(plain, edited("dp-control-flow", windows))
    assert str(change) == "looser   spec.budget.windows: new: by case-start, every 1 month"
    (change,) = diff(edited("dp-control-flow", windows), plain)
    assert change.verdict == "tighter"
    (change,) = diff(
        edited("dp-control-flow", windows), edited("dp-control-flow", put("budget", yearly))
    )
    assert change.verdict == "other"
    persons = edited("dp-control-flow", put("budget", {}), protect_persons)
    (change,) = diff(persons, edited("dp-control-flow", windows, protect_persons))
    assert change.verdict == "other"


def test_other_shares_of_a_budget_are_no_other_guarantee() -> None:
    shares = {"control-flow": 2, "timestamps": 1}
    changed = edited("dp-control-flow", put("budget", {"shares": shares}))
    plain = edited("dp-control-flow", put("budget", {}))
    changes = diff(plain, changed)
    fields = {f"spec.budget.shares['{name}']" for name in shares}
    assert ({change.field for change in changes}, verdict(changes)) == (fields, "other")


def test_more_in_a_book_of_its_own_is_loosening() -> None:
    """A book is a total like the budget's own."""
    less, more = (
        edited("dp-control-flow", put("budget", {"books": {"case": {"epsilon": epsilon}}}))
        for epsilon in (1, 2)
    )
    (change,) = diff(less, more)
    assert str(change) == "looser   spec.budget.books['case'].epsilon: 1 -> 2"
    (change,) = diff(more, less)
    assert change.verdict == "tighter"
