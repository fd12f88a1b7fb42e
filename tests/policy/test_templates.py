"""The templates of sectors: refused until their questions are answered, and planned after that."""

import re
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from cloakwork.errors import PolicyError
from cloakwork.plan.planner import make_plan
from cloakwork.plan.policies import parse_policy
from cloakwork.policy.load import list_templates, template_text
from cloakwork.policy.semantics import STILL_OPEN
from conftest import Said, runs

SLOW = ("municipality", "insurer")
"""Planning finds noise for several seconds."""


def answered(text: str) -> str:
    """The template with an answer to each of its questions."""
    answers = {
        "dataset": "records",
        "start": "2023-01-01T00:00:00Z",
        "end": "2025-01-01T00:00:00Z",
        "domain": "[one, another]",
        "alphabet": "[first, second]",
        "range": "[0, 1000]",
    }
    numbers = count(1)

    def answer(found: re.Match[str]) -> str:
        key = found[1].strip('"')
        return f"{found[1]}: {answers.get(key, f'answer {next(numbers)}')}"

    return re.sub(r'("?[\w:]+"?): "<[^<>]*>"', answer, text)


def test_every_sector_has_one() -> None:
    """Those that the documentation names."""
    sectors = {"bank", "hospital", "insurer", "it-service", "manufacturer", "municipality"}
    assert set(list_templates()) == sectors


@pytest.mark.parametrize("name", list_templates())
def test_a_template_is_refused_for_its_questions_alone(name: str) -> None:
    """Each at its place; nothing else is wrong with it."""
    text = template_text(name)
    with pytest.raises(PolicyError) as caught:
        parse_policy(text)
    problems = caught.value.problems
    assert all(STILL_OPEN in problem.message for problem in problems)
    lines = [number for number, line in enumerate(text.splitlines(), 1) if '"<' in line]
    assert [problem.line for problem in problems] == lines


@pytest.mark.parametrize("name", list_templates())
def test_an_answered_template_plans(name: str) -> None:
    """And releases nothing that no guarantee covers."""
    policy = parse_policy(answered(template_text(name)))
    assert policy.metadata.name == name
    if name in SLOW and not runs(0):
        return  # CLOAKWORK_RUNS=1
    plan = make_plan(policy)
    assert len(plan.claims) == len(policy.spec.guarantees)
    assert {item.column for item in plan.exposed} <= {"metadata"}


def test_init_takes_a_template(cloakwork: Callable[..., Said], tmp_path: Path) -> None:
    """With what was said of it; the rest stays a question."""
    out = tmp_path / "mine.yaml"
    listed = cloakwork("policy", "init", "--list").out
    assert "it-service" in listed and "kanon-dp-timestamps" in listed
    said = cloakwork("policy", "init", "--template", "bank", "--owner", "me", "--out", out)
    assert said.code == 0 and "questions" in said.out, said.err
    refused = cloakwork("policy", "validate", out)
    assert refused.code == 3
    assert "metadata.owner" not in refused.err and "metadata.purpose" in refused.err
    wrong = cloakwork("policy", "init", "--template", "banc", "--out", tmp_path / "p.yaml")
    assert wrong.code == 2 and "did you mean 'bank'" in wrong.err
    both = cloakwork("policy", "init", "--from", "dp-control-flow", "--template", "bank")
    assert both.code == 2 and "name one of them" in both.err


def test_init_borrows_no_dataset(cloakwork: Callable[..., Said], tmp_path: Path) -> None:
    """An example's owner, dataset and legal basis are nobody else's."""
    out = tmp_path / "mine.yaml"
    assert cloakwork("policy", "init", "--out", out).code == 0
    text = out.read_text("utf-8")
    assert not re.search(r"(?m)^  (owner|dataset|purpose|legalBasis): .*(hospital|GDPR)", text)
    assert cloakwork("policy", "validate", out).code == 3
