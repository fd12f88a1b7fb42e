"""Explaining, linting and comparing policies."""

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from cloakwork.policy import Policy, parse_policy
from cloakwork.policy.diff import diff, verdict
from cloakwork.policy.explain import explain
from cloakwork.policy.library import list_policies, load_shipped, shipped
from cloakwork.policy.lint import lint

Edit = Callable[[dict[str, Any]], object]


def edited(name: str, *edits: Edit) -> Policy:
    """A shipped policy with changes to its spec."""
    content = yaml.safe_load((shipped("policies") / f"{name}.yaml").read_text("utf-8"))
    for edit in edits:
        edit(content["spec"])
    return parse_policy(yaml.safe_dump(content))


def advice(name: str, *edits: Edit) -> str:
    """All advice on an edited policy."""
    return "\n".join(item.message for item in lint(edited(name, *edits)))


def goal(**fields: object) -> Edit:
    """Change fields of the first guarantee."""
    return lambda spec: spec["guarantees"][0].update(fields)


def rule(name: str, **fields: object) -> Edit:
    """Declare an attribute."""
    return lambda spec: spec["attributes"].update({name: fields})


def put(key: str, value: object) -> Edit:
    """Set a key of the spec."""
    return lambda spec: spec.update({key: value})


@pytest.mark.parametrize("name", list_policies())
def test_a_policy_explains_itself(name: str) -> None:
    policy = load_shipped(name)
    said = {section.title: section.lines for section in explain(policy)}
    assert said["What every release guarantees"] == tuple(
        item.sentence() for item in policy.spec.guarantees
    )
    assert policy.metadata.owner in said["What this is"][0]
    assert len(said["What happens to each attribute"]) == len(policy.spec.attributes)


def test_the_explanation_names_what_is_exposed_and_why() -> None:
    said = {
        section.title: section.lines
        for section in explain(load_shipped("kanon-with-generalised-attributes"))
    }
    exposed = said["What stays exposed, and why"]
    assert any(
        line.startswith("case:age: covered by no guarantee. Reason given: Four broad bands")
        for line in exposed
    )
    assert any("number of cases" in line for line in exposed)


def test_the_explanation_gives_the_budget_in_both_currencies() -> None:
    said = {
        section.title: section.lines for section in explain(load_shipped("dp-guessing-advantage"))
    }
    assert said["What it may cost"][0] == (
        "One release: at most epsilon 0.296, delta 1e-06 (whoever guesses whether a protected unit is in the log gains at most "
        "10 percentage points, apart from outcomes of probability 1e-05)."
    )


def test_shipped_policies_need_little_advice() -> None:
    talkative = [name for name in list_policies() if lint(load_shipped(name))]
    assert talkative == ["kanon-with-generalised-attributes"]


EXPOSED = put("expose", {"case:diagnosis": "The partner is bound by contract"})


@pytest.mark.parametrize(
    ("said", "name", "edits"),
    [
        (
            "homogeneity",
            "kanon-control-flow",
            [rule("case:diagnosis", role="sensitive", treatment="keep"), EXPOSED],
        ),
        ("is small", "kanon-control-flow", [goal(k=2)]),
        (
            "keep their frequencies",
            "kanon-control-flow",
            [rule("case:doctor", treatment="pseudonymise")],
        ),
        (
            "tie all releases",
            "kanon-control-flow",
            [rule("case:doctor", treatment="pseudonymise", link=True)],
        ),
        (
            "singled out",
            "kanon-control-flow",
            [rule("case:zip", role="quasi-identifier", treatment="keep")],
        ),
        ("owns several cases", "dp-control-flow", [rule("case:patient", role="identifier")]),
        (
            "use count: units",
            "kanon-control-flow",
            [rule("case:p", role="identifier"), put("unit", {"attribute": "case:p"})],
        ),
        ("epsilon 5 is large: whoever guesses", "dp-control-flow", [goal(epsilon=5)]),
        ("delta 1e-05 is more than 1e-06", "dp-control-flow", [goal(delta=1e-5)]),
        (
            "delta 0.01 is more than 0.001",
            "dp-control-flow",
            [goal(delta=1e-2), put("assume", {"units_at_most": 100})],
        ),
        ("needs a delta", "dp-control-flow", [goal(delta=0)]),
        ("no budget.total", "dp-control-flow", [put("budget", {})]),
        (
            "is short",
            "kanon-control-flow",
            [
                rule("case:diagnosis", treatment="keep"),
                put("expose", {"case:diagnosis": "because"}),
            ],
        ),
        (
            "nothing to expose",
            "kanon-control-flow",
            [rule("case:diagnosis", treatment="drop"), EXPOSED],
        ),
        (
            "no attribute has role: control-flow",
            "dp-control-flow",
            [lambda spec: spec["attributes"].pop("concept:name")],
        ),
        (
            "attributes that are not listed",
            "dp-control-flow",
            [lambda spec: spec["attributes"].pop("*")],
        ),
        ("accept_unproven", "dp-control-flow", [put("mechanisms", {"accept_unproven": True})]),
    ],
)
def test_advice(said: str, name: str, edits: list[Edit]) -> None:
    assert said not in advice(name)
    assert said in advice(name, *edits)


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
    assert field in [change.field for change in diff(old, new) if change.verdict == "tightened"]
    assert field in [change.field for change in diff(new, old) if change.verdict == "loosened"]


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
    assert [change.verdict for change in gone] == ["loosened"]
    assert str(gone[0]).startswith(
        "loosened   spec.guarantees[metric-privacy over timestamps]: gone, was Moving one time"
    )


def test_an_exposure_more_is_loosening() -> None:
    new = edited(
        "kanon-control-flow",
        rule("case:age", treatment="keep"),
        put("expose", {"case:age": "Agreed by contract"}),
    )
    changes = diff(load_shipped("kanon-control-flow"), new)
    assert {change.field: change.verdict for change in changes} == {
        "spec.attributes['case:age']": "loosened",
        "spec.expose['case:age']": "loosened",
    }
    assert verdict(changes) == "loosened"


def test_what_neither_protects_nor_harms_is_changed() -> None:
    changes = diff(
        load_shipped("dp-control-flow"), edited("dp-control-flow", put("output", {"format": "xes"}))
    )
    assert verdict(changes) == "changed"
