"""What the statement says, and that it says nothing of the raw log."""

import json
import math
from datetime import timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cloakwork.base.costs import Charge, Cost
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.guarantees.claims import PolicyReason
from cloakwork.plan.columns import exposure
from cloakwork.plan.model import TreatedAttribute, UnprovenClaim
from cloakwork.plan.sentences import column_in_words
from cloakwork.publishing.from_plan import statement_of
from cloakwork.publishing.keys import read_json
from cloakwork.publishing.statement import (
    NOT_PRIVATE,
    PrivacyStatement,
    ReleasedColumn,
    predicate_digest,
    statement_payload,
)
from publishing.conftest import a_plan, a_policy

SCHEMA = Path(__file__).parents[2] / "schemas" / "privacy-statement-v2.json"


def test_the_statement_is_an_in_toto_statement_with_sorted_subjects() -> None:
    statement = json.loads(
        statement_payload(
            statement_of(a_plan(), "r1", released=(), private=True),
            {"plan.json": "b" * 64, "log.xes": "a" * 64},
        )
    )
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "urn:cloakwork:privacy-statement:v2"
    assert statement["subject"] == [
        {"name": "log.xes", "digest": {"sha256": "a" * 64}},
        {"name": "plan.json", "digest": {"sha256": "b" * 64}},
    ]


def test_it_names_policy_guarantees_exposures_and_budget() -> None:
    stated = statement_of(a_plan(), "r1", released=(), private=True)

    assert stated.policy.legal_basis == "GDPR Art. 9(2)(j)"
    assert stated.policy.dataset == "hospital-2014"
    assert [claim.guarantee.kind for claim in stated.guarantees] == [
        "k-anonymity",
        "metric-privacy",
    ]
    assert (
        stated.guarantees[1].neighbours
        == "two logs that differ in one time of one event, by at most 1h"
    )
    assert stated.exposed[0].says == column_in_words("metadata")
    assert stated.budget[0].total is not None
    assert (stated.budget[0].cost.epsilon, stated.budget[0].total.epsilon) == (1.0, 4.0)
    assert stated.mark is None


def test_the_first_thing_it_says_is_what_is_unproven_then_what_is_exposed() -> None:
    assert list(PrivacyStatement.model_fields)[:2] == ["unproven", "exposed"]


def test_separate_totals_go_before_the_general_one() -> None:
    policy = a_policy(budget={"total": {"epsilon": 4.0, "metric": {"epsilon": 2.0}}})
    stated = statement_of(
        a_plan().model_copy(update={"policy": policy}), "r1", released=(), private=True
    )
    assert stated.budget[0].total is not None and stated.budget[0].total.epsilon == 2.0


def test_a_cost_without_bound_is_null() -> None:
    plan = a_plan(charges=(Charge(currency="unit", cost=Cost(epsilon=math.inf)),))
    stated = read_json(
        statement_payload(
            statement_of(plan, "r1", released=(), private=True), {"log.xes": "a" * 64}
        )
    )
    assert isinstance(stated, dict)
    assert stated["predicate"]["budget"][0]["cost"] == {"epsilon": None, "delta": 0.0}


@pytest.mark.parametrize(
    ("treatment", "says"),
    [
        ("keep", "the true values of 'case:age'"),
        ("generalise", "which of the policy's groups each value of 'case:age' falls into"),
        (
            "pseudonymise",
            "which rows share a value of 'case:age' and how often each occurs, under another name",
        ),
    ],
)
def test_what_an_exposed_column_tells_depends_on_its_treatment(treatment: Any, says: str) -> None:
    treated = TreatedAttribute(
        attribute="case:age", column="case:age", treatment=treatment, why="policy"
    )
    plan = a_plan(
        attributes=(treated,), exposed=(exposure("case:age", PolicyReason(reason="cohorts")),)
    )
    column = ReleasedColumn(name="case:age", scope="case", treatment=treatment, rule="case:age")
    assert statement_of(plan, "r1", released=(column,), private=True).exposed[0].says == says


def test_a_reproducible_release_is_marked() -> None:
    assert statement_of(a_plan(), "r1", released=(), private=False).mark == NOT_PRIVATE


def test_what_is_unproven_is_said_with_the_published_claim_and_the_derived_cost() -> None:
    goal = DifferentialPrivacy(kind="differential-privacy", epsilon=1.0, over=("control-flow",))
    item = UnprovenClaim(
        guarantee=goal,
        mechanism="variants/x-published",
        published="is 1-DP",
        currency="unit",
        cost=None,
        why=("no",),
    )

    said = statement_of(a_plan(unproven=(item,)), "r1", released=(), private=True).unproven[0]

    assert (said.mechanism, said.published, said.cost.epsilon, said.why) == (
        item.mechanism,
        "is 1-DP",
        None,
        ("no",),
    )
    assert "NOT guaranteed" in said.sentence


@pytest.mark.parametrize(
    ("neighbours", "word"), [("unbounded", "unbounded"), ("bounded", "bounded")]
)
def test_differential_privacy_names_its_neighbours(neighbours: str, word: str) -> None:
    over = ("timestamps",) if neighbours == "bounded" else ("control-flow",)
    guarantee = DifferentialPrivacy.model_validate(
        {"kind": "differential-privacy", "epsilon": 1, "over": over, "neighbours": neighbours}
    )
    claim = a_plan().claims[1].model_copy(update={"guarantee": guarantee})
    stated = (
        statement_of(a_plan(claims=(claim,)), "r1", released=(), private=True)
        .guarantees[0]
        .neighbours
    )
    assert stated is not None and stated.endswith(f"({word})")


def test_the_digest_depends_on_every_part_of_the_predicate() -> None:
    stated = statement_of(a_plan(), "r1", released=(), private=True)
    others = [
        stated.model_copy(update={"release": "r2"}),
        stated.model_copy(update={"issued": stated.issued + timedelta(seconds=1)}),
        stated.model_copy(update={"exposed": ()}),
    ]
    assert len({predicate_digest(predicate) for predicate in (stated, *others)}) == 4


def test_a_statement_fits_the_shipped_schema() -> None:
    stated = json.loads(
        statement_payload(
            statement_of(a_plan(), "r1", released=(), private=False), {"log.xes": "a" * 64}
        )
    )["predicate"]
    jsonschema.Draft202012Validator.check_schema(json.loads(SCHEMA.read_text()))
    jsonschema.validate(stated, json.loads(SCHEMA.read_text()))
