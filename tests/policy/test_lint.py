"""Advice on a policy: given where it is due, and only there."""

import pytest

from cloakwork.plan.policies import load_shipped
from cloakwork.policy.lint import lint
from cloakwork.policy.load import list_policies
from cloakwork.policy.semantics import NO_OWNER
from policy.edits import Edit, edited, goal, put, rule


def advice(name: str, *edits: Edit) -> str:
    """All advice on an edited policy."""
    return "\n".join(item.message for item in lint(edited(name, *edits)))


def test_shipped_policies_need_little_advice() -> None:
    talkative = [name for name in list_policies() if lint(load_shipped(name))]
    assert talkative == ["kanon-with-generalised-attributes"]


def test_a_variant_is_no_unit_of_protection() -> None:
    """As the case id it tells cases apart, or activity sequences: no person owns several of it."""
    for name in ("case:variant", "case:variant-index", "case:Variant index"):
        assert "several cases" not in advice("dp-control-flow", rule(name, role="identifier"))


def test_advice_does_not_repeat_its_place() -> None:
    policy = edited("dp-control-flow")
    header = policy.metadata.model_copy(update={"owner": NO_OWNER, "purpose": NO_OWNER})
    unstated = policy.model_copy(update={"metadata": header})
    found = [each for each in lint(unstated) if each.rule == "purpose-not-stated"]
    assert {each.steps[-1] for each in found} == {"owner", "purpose"}
    assert all(each.message.startswith("is not stated; ") for each in found)


MONTHLY = {"by": "case-start", "every": "1 month"}
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
        (
            "several cases may belong to one",
            "dp-control-flow",
            [rule("case:patient", role="identifier")],
        ),
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
            "is less than a release costs: one guarantee asks for 3",
            "dp-control-flow",
            [goal(epsilon=3), put("budget", {"total": {"epsilon": 2.9, "delta": 1e-6}})],
        ),
        (
            "is less than a release costs",
            "dp-control-flow",
            [goal(epsilon=3), put("budget", {"release": {"guessing_advantage": 0.5}})],
        ),
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
        (
            "without assume.window a twentieth of the share of times is spent",
            "dp-control-flow",
            [goal(over=["control-flow", "timestamps"])],
        ),
        ("accept_unproven", "dp-control-flow", [put("mechanisms", {"accept_unproven": True})]),
        (
            "which values 'department' may have must be public",
            "dp-whole-log",
            [rule("department", role="insensitive")],
        ),
        (
            "it is not used: a case starts in the window",
            "dp-whole-log",
            [put("budget", {"windows": MONTHLY})],
        ),
        (
            "all windows share one total",
            "dp-control-flow",
            [
                put("budget", {"windows": MONTHLY}),
                put("unit", {"attribute": "case:p"}),
                rule("case:p", role="identifier"),
            ],
        ),
        (
            "declare its domain if it is known without the log",
            "dp-whole-log",
            [rule("department", role="insensitive", find_values=True)],
        ),
        (
            "'department' says who is protected",
            "dp-whole-log",
            [put("unit", {"attribute": "department"})],
        ),
        ("'cost' is an identifier", "dp-whole-log", [rule("cost", role="identifier")]),
        (
            "the values of 'ward' are declared, but no guarantee covers it",
            "dp-whole-log",
            [rule("ward", role="insensitive", domain=["A", "B"])],
        ),
    ],
)
def test_advice(said: str, name: str, edits: list[Edit]) -> None:
    assert said not in advice(name)
    assert said in advice(name, *edits)


@pytest.mark.parametrize("letter", ["\u200b", "\u200e", "\xad", "\ufeff", "\x85"])
def test_characters_that_nobody_sees_are_told_in_keys_and_values(letter: str) -> None:
    """A key, a group of a hierarchy, and a value of a list."""
    policy = edited(
        "kanon-control-flow",
        rule(f"ward{letter}", treatment="drop"),
        rule(
            "site",
            treatment="generalise",
            level=1,
            hierarchy={f"north{letter}": ["a", f"b{letter}"]},
        ),
    )
    code = ascii(letter)[1:-1]
    found = [each for each in lint(policy) if each.rule == "invisible-characters"]
    assert {each.steps[2:] for each in found} == {
        (f"ward{letter}",),
        ("site", "hierarchy", f"north{letter}"),
        ("site", "hierarchy", f"north{letter}", 1),
    }
    assert all(f"holds {code}," in each.message for each in found)
