"""Local differential privacy: the claim follows from values that passed noise alone, and fails when
a condition is taken away.
"""

import pytest

from cloakwork.base.costs import EpsilonDelta
from cloakwork.base.facts import Facts
from cloakwork.guarantees import LocalDP
from cloakwork.guarantees.claims import DomainsDeclared
from cloakwork.plan.planner import derive
from guarantees.test_derive import step


def goal(*over, epsilon=1.0, per="value"):
    """A local guarantee."""
    return LocalDP(kind="local-dp", epsilon=epsilon, over=over, per=per)


def randomises(*names, epsilon=1.0, **more):
    """A step that randomises each value of these attributes."""
    given = {"params": {"per": more.pop("per", "value")}, "currency": "local"}
    event = EpsilonDelta(epsilon=epsilon)
    return step("local", measures=names, writes=names, event=event, **(given | more))


def derived(asked, *steps, released=("drug", "ward")):
    """The derivation of one goal."""
    return derive([asked], steps, released, Facts())


def test_randomised_values_give_the_claim():
    """Of values each attribute by itself, of cases all together; what a step fills in later only
    moves noisy values.
    """
    asked = goal("drug", "ward")
    found = derived(asked, randomises("drug"), randomises("ward"))
    assert not found.causes
    (claim,) = found.claims
    assert (claim.currency, claim.cost.epsilon) == ("local", 1.0)
    assert DomainsDeclared(attributes=("drug", "ward")) in claim.assumptions
    fills = step("fill", reads=("control-flow",), writes=("drug",), fills=True)
    assert derived(goal("drug"), randomises("drug"), fills, released=("drug",)).claims
    cases = goal("drug", "ward", per="case", epsilon=2.0)
    halves = [randomises(name, per="case") for name in ("drug", "ward")]
    (claim,) = derived(cases, *halves).claims
    assert claim.cost.epsilon == 2.0


@pytest.mark.parametrize(
    ("asked", "steps", "reason"),
    [
        (goal("drug"), [], "raw drug would reach the release"),
        (goal("drug"), [randomises("ward")], "raw drug would reach the release"),
        (goal("drug"), [randomises("drug", epsilon=1.1)], "more than 1"),
        (goal("drug"), [randomises("drug"), randomises("drug")], "costs epsilon 2"),
        (goal("drug"), [randomises("drug", proof="published")], "would reach the release"),
        (goal("drug"), [randomises("drug", currency="unit")], "each value by itself"),
        (goal("drug", per="case"), [randomises("drug")], "counts one value"),
        (
            goal("drug", "ward", per="case"),
            [randomises("drug", per="case"), randomises("ward", per="case")],
            "costs epsilon 2 a case",
        ),
        (
            goal("drug"),
            [step("copies", reads=("drug",), writes=("ward",)), randomises("drug")],
            "the released ward without noise",
        ),
        (
            goal("drug"),
            [step("joins", reads=("drug",), writes=("drug",), stability=None), randomises("drug")],
            "its noise bounds nothing",
        ),
        (
            goal("drug"),
            [step("makes", measures=("control-flow",), writes=("control-flow",), generates=True)],
            "is not in the release",
        ),
        (goal("dose"), [randomises("dose")], "is not in the release"),
    ],
)
def test_each_condition_counts(asked, steps, reason):
    """Without it, there is a cause and no claim."""
    found = derived(asked, *steps)
    assert not found.claims
    assert any(reason in str(cause) for cause in found.causes), found.causes
