"""A2: in policies only ``*`` and ``?`` are globs; which of several decides follows from the policy,
never from a log.
"""

import random
import re
from functools import cache
from itertools import product
from typing import Final

import polars as pl
import pytest

import cloakwork
from cloakwork.errors import PlanImpossible, PolicyError
from cloakwork.plan.planner import make_plan
from cloakwork.plan.policies import parse_policy
from cloakwork.policy.model import Policy
from conftest import runs

HEAD: Final = """\
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: globs, version: 1.0.0, owner: o@x.example, purpose: Tests, dataset: d}
spec:
  attributes:
    "case:concept:name": {role: identifier}
    "concept:name": {role: control-flow}
"""
COUNTED: Final = "  guarantees: [{kind: k-anonymity, k: 2}]\n"
KEEP: Final = "{treatment: keep}"
DROP: Final = "{treatment: drop}"


def policy(rules: dict[str, str], goal: str = COUNTED) -> Policy:
    """A policy with these rules beside the case id and the activity; what is kept is exposed."""
    said = "".join(f'    "{name}": {rule}\n' for name, rule in rules.items())
    kept = [name for name, rule in rules.items() if "keep" in rule]
    exposed = (
        "  expose:\n" + "".join(f'    "{name}": the partner needs it\n' for name in kept)
        if kept
        else ""
    )
    return parse_policy(HEAD + said + goal + exposed, "p.yaml")


def released(rules: dict[str, str], names: list[str], ledger: str) -> set[str]:
    """Which of the attributes ``names`` of a log such a policy lets out."""
    columns = {"case:concept:name": ["1", "2"], "concept:name": ["a", "a"]} | {
        name: ["x", "y"] for name in names
    }
    log = cloakwork.EventLog.from_polars(pl.DataFrame(columns))
    out = cloakwork.apply(make_plan(policy(rules)), log, ledger=ledger).log
    return set(out.columns) & set(names)


def test_brackets_are_literal(ledger: str) -> None:
    names = ["cost[eur]", "coste", "costu", "costr"]
    assert released({"cost[eur]": KEEP, "*": DROP}, names, ledger) == {"cost[eur]"}


def test_a_name_with_brackets_is_no_glob_where_roles_and_guarantees_need_a_name() -> None:
    text = HEAD.replace('"concept:name": {role', '"act[1]": {role')
    made = parse_policy(text + '    "*": {treatment: drop}\n' + COUNTED)
    assert made.attribute_with("control-flow") == "act[1]"


def test_the_smallest_glob_decides_not_the_longest_text(ledger: str) -> None:
    """``?a`` matches two names where ``*****a`` matches any number; the longer text decided."""
    assert released({"??????": DROP, "se?????*": KEEP, "*": DROP}, ["secret"], ledger) == set()
    assert released({"*?*?*?*": KEEP, "abc*": DROP}, ["abcd", "xyz"], ledger) == {"xyz"}


def test_a_name_like_a_glob_of_the_policy_is_matched_as_any_other(ledger: str) -> None:
    """Else whoever writes the file would choose the rule: ``a*`` drops this name, ``*`` is not
    spelt for it.
    """
    assert released({"*": KEEP, "?": DROP}, ["*", "ab"], ledger) == {"ab"}


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (
            {"case:*": KEEP, "*age": DROP},
            "p.yaml:9:5: spec.attributes: '*age' and 'case:*' overlap",
        ),
        ({"a?": KEEP, "?b": DROP}, "p.yaml:9:5: spec.attributes: '?b' and 'a?' overlap"),
        (
            {"a*": KEEP, "*b": "{treatment: pseudonymise}"},
            "p.yaml:9:5: spec.attributes: '*b' and 'a*' overlap",
        ),
        ({"*": DROP, "**": DROP}, "p.yaml:9:5: spec.attributes: '**' and '*' match the same names"),
        (
            {"?*": KEEP, "*?": DROP},
            "p.yaml:9:5: spec.attributes: '*?' and '?*' match the same names",
        ),
    ],
)
def test_globs_of_which_nothing_says_which_decides_are_refused(
    rules: dict[str, str], said: str
) -> None:
    with pytest.raises(PolicyError) as caught:
        policy(rules)
    assert said in str(caught.value)


def test_planning_refuses_them_too() -> None:
    """A policy may be made without its text being read."""
    read = policy({"case:*": KEEP, "name*": DROP}).model_dump(by_alias=True)
    read["spec"]["attributes"]["*age"] = {"treatment": "drop"}
    with pytest.raises(PlanImpossible, match=r"'\*age' and 'case:\*' overlap"):
        make_plan(Policy.model_validate(read))


@pytest.mark.parametrize(
    "rules",
    [
        {"case:*": DROP, "*age": DROP},  # the same rule: it does not matter which of them decides
        {"case:*": DROP, "*age": "{treatment: drop, role: sensitive}"},
        {"case:*": DROP, "case:a*": KEEP, "case:a?": DROP},  # one inside the other
        {"a*": KEEP, "b*": DROP},  # apart
        {"name": KEEP, "na*": DROP, "*": KEEP},  # a name decides about itself
    ],
)
def test_other_globs_stand(rules: dict[str, str]) -> None:
    make_plan(policy(rules))


@pytest.mark.parametrize(
    ("goal", "said"),
    [
        (
            "  guarantees: [{kind: t-closeness, t: 0.3, attribute: 'case:d*'}]\n",
            "names the glob 'case:d*'",
        ),
        ("  unit: {attribute: 'case:p?'}\n" + COUNTED, "names the glob 'case:p?'"),
    ],
)
def test_guarantees_and_units_are_of_attributes_by_name(goal: str, said: str) -> None:
    with pytest.raises(PolicyError, match=re.escape(said)):
        policy({"case:d*": DROP, "case:p?": DROP}, goal)


@pytest.mark.parametrize("treatment", ["keep", "pseudonymise", "generalise, bins: [0, 1]"])
def test_under_differential_privacy_a_glob_releases_nothing_and_the_reason_is_said(
    treatment: str,
) -> None:
    privacy = "kind: differential-privacy, epsilon: 1, delta: 1.0e-6, over: [control-flow]"
    text = (
        HEAD
        + f'    "case:*": {{treatment: {treatment}}}\n'
        + f"  guarantees: [{{{privacy}}}]\n"
        + "  expose: {'case:*': the partner needs it}\n"
    )
    with pytest.raises(PlanImpossible, match="which names a log has is data; spell out the names"):
        make_plan(parse_policy(text))


def test_no_more_globs_than_can_be_compared() -> None:
    with pytest.raises(PolicyError, match="must hold at most 100 globs"):
        policy({f"case:{i}*": DROP for i in range(101)})


PATTERNS: Final = [
    "".join(signs) for length in range(6) for signs in product("ab*?", repeat=length)
]
WORDS: Final = [
    "".join(letters) for length in range(9) for letters in product("abz", repeat=length)
]


@cache
def fitting(glob: str) -> frozenset[int]:
    """The places in ``WORDS`` of what fits, by a regular expression that shares nothing with the
    engine's.
    """
    expression = re.compile("".join({"*": ".*", "?": "."}.get(sign, sign) for sign in glob))
    return frozenset(place for place, word in enumerate(WORDS) if expression.fullmatch(word))


def test_overlap_and_containment_are_what_they_are_over_all_short_names() -> None:
    """All names of up to 8 letters tell two globs of up to 5 signs apart; ``z`` stands in
    neither.
    """
    from cloakwork.base.globs import contains, matches, overlap

    source = random.Random(runs(150))
    for _ in range(runs(150)):
        one, other = source.choice(PATTERNS), source.choice(PATTERNS)
        assert overlap(one, other) == bool(fitting(one) & fitting(other)), (one, other)
        assert contains(one, other) == (fitting(other) <= fitting(one)), (one, other)
        word = source.randrange(len(WORDS))
        assert matches(one, WORDS[word]) == (word in fitting(one)), (one, WORDS[word])
