"""A misspelt option is an error where it stands; it never makes another mechanism run silently."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from cloakwork.base.facts import Facts
from cloakwork.errors import PlanImpossible, PolicyError
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.mechanisms.kanon.closeness import _OPTIONS as CLOSENESS
from cloakwork.mechanisms.kanon.employees import EmployeesParams
from cloakwork.mechanisms.kanon.family import _SET_BY_GOAL as SET_BY_GOAL
from cloakwork.mechanisms.kanon.family import Anonymiser
from cloakwork.mechanisms.registry import catalogue
from cloakwork.mechanisms.timestamps.laplace import NOISED
from cloakwork.mechanisms.variants.family import VariantRelease
from cloakwork.plan.planner import make_plan
from cloakwork.plan.policies import parse_policy
from cloakwork_extras.trees.published import PublishedTreeOptions
from conftest import Said

POLICY = """apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {{name: p, version: 1.0.0, owner: a@b.c, purpose: Finds misspelt options, dataset: d}}
spec:
  attributes:
    "concept:name": {{role: control-flow}}
    "*": {{treatment: drop}}
  guarantees: [{{kind: k-anonymity, k: 10, over: [control-flow]}}]
  mechanisms:
    parameters:
      {options}
"""


def accepted(name: str) -> set[str]:
    """The options that a mechanism's code takes."""
    mechanism: Any = catalogue()[name]
    if isinstance(mechanism, Anonymiser):
        return set(mechanism.Params.model_fields) - set(SET_BY_GOAL)
    own = {
        "kanon/employees": set(EmployeesParams.model_fields) - {"k", "attribute"},
        "kanon/closeness": set(CLOSENESS),
        "timestamps/laplace": {NOISED},
        "variants/pripel-published": set(PublishedTreeOptions.model_fields),
    }
    return own.get(name) or set(fields(name))


def fields(name: str) -> dict[str, Any]:
    """The fields of the model that reads a mechanism's options, where there is one."""
    mechanism: Any = catalogue()[name]
    if isinstance(mechanism, VariantRelease):
        goal = DifferentialPrivacy(
            kind="differential-privacy", epsilon=1, delta=1e-6, over=("control-flow",)
        )
        with pytest.raises(ValidationError) as refused:
            mechanism.meet(goal, Facts(), {"no such option": 1})
        # The model stands in the module of the mechanism, or in that of its family.
        homes = [vars(sys.modules[each.__module__]) for each in type(mechanism).__mro__]
        model = next(home[refused.value.title] for home in homes if refused.value.title in home)
        return dict(model.model_fields)
    if isinstance(mechanism, Anonymiser) or name in ("kanon/closeness", "kanon/employees"):
        return dict(mechanism.Params.model_fields)
    return {}


@pytest.mark.parametrize("name", list(catalogue()))
def test_the_table_is_what_the_mechanisms_accept(name: str) -> None:
    """An option too few would refuse a good policy, one too many would let a misspelt one pass."""
    assert set(catalogue()[name].options) == accepted(name)


@pytest.mark.parametrize("name", list(catalogue()))
def test_the_meaning_of_an_option_ends_with_its_default(name: str) -> None:
    """Where the default is one value; it may change in the code alone."""
    found = fields(name)
    for option, meaning in catalogue()[name].options.items():
        assert meaning == meaning.strip().rstrip("."), (name, option)
        default = found[option].default if option in found else None
        if isinstance(default, bool | int | float | str):
            shown = f"{default:,g}" if isinstance(default, float) else str(default).lower()
            shown = f"{default:,}" if type(default) is int else shown
            assert meaning.endswith(f"({shown})"), (name, option, default)


def test_a_misspelt_option_is_refused_with_its_place() -> None:
    """File, line, column, what was meant, and what there is."""
    with pytest.raises(PolicyError) as refused:
        parse_policy(POLICY.format(options="kanon/optimal: {secnds: 5}"), "p.yaml")
    assert str(refused.value) == (
        "p.yaml:11:23: spec.mechanisms.parameters['kanon/optimal']: unknown option 'secnds', "
        "did you mean 'seconds'?"
    )


def test_an_option_of_a_mechanism_without_any_is_refused() -> None:
    """Some mechanisms are run by the planner itself, and take none."""
    with pytest.raises(PolicyError, match="the mechanism has no options"):
        parse_policy(POLICY.format(options="bound: {max_cases: 5}"))


def test_options_belong_to_one_mechanism() -> None:
    """A glob would match, and set nothing."""
    with pytest.raises(PolicyError, match="is a glob, and options belong to one mechanism"):
        parse_policy(POLICY.format(options='"kanon/*": {seconds: 5}'))


def test_a_value_that_rules_its_mechanism_out_makes_no_other_run() -> None:
    """kanon/optimal comes first: another one would do, but somebody set an option of it."""
    policy = parse_policy(POLICY.format(options="kanon/optimal: {seconds: -1}"))
    with pytest.raises(PlanImpossible, match=r"kanon/optimal: option seconds: .*greater than 0"):
        make_plan(policy)


@pytest.mark.parametrize(
    ("among", "said"),
    [
        ("[kanon/pretsa, pretsa]", "option among.1: input should be 'kanon/pretsa', 'kanon/best"),
        ("[kanon/a-star]", "option among: the policy's lists of mechanisms allow none of it"),
        ("kanon/pretsa", "option among: input should be a list"),
    ],
)
def test_a_misspelt_algorithm_of_auto_is_refused(among: str, said: str) -> None:
    """It is not left out silently, as one is that the policy denies."""
    policy = POLICY.format(options=f"kanon/auto: {{among: {among}}}") + "    deny: [kanon/a-star]\n"
    with pytest.raises(PlanImpossible, match=re.escape(said)):
        make_plan(parse_policy(policy))


def test_the_command_line_ends_with_3(cloakwork: Callable[..., Said], tmp_path: Path) -> None:
    """As for every policy that is invalid."""
    path = tmp_path / "p.yaml"
    path.write_text(POLICY.format(options="kanon/optimal: {secnds: 5}"), "utf-8")
    said = cloakwork("policy", "validate", str(path))
    assert said.code == 3
    assert "did you mean 'seconds'?" in said.err
