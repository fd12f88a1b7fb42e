"""From policy to verified release with the real planner, engine and proof; and what forged plans
meet there.
"""

import base64
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cloakwork.base.records import stated
from cloakwork.errors import VerificationFailed
from cloakwork.plan.model import Plan
from cloakwork.publishing import verify as verifying
from cloakwork.publishing.examine import verify
from cloakwork.publishing.keys import SigningKey, signing_key
from cloakwork.publishing.statement import Statement
from conftest import runs
from publishing.conftest import (
    REAL_PROOF,
    VARIANTS,
    MadeOnce,
    a_log,
    a_policy,
    envelope_of,
    resign,
    write_plan,
)

JUNK: tuple[Any, ...] = (
    None,
    True,
    -1,
    10**30,
    1e308,
    "",
    "x",
    "\x00",
    [],
    {},
    [None],
    {"kind": "k-anonymity"},
    "Infinity",
)


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> MadeOnce:
    return MadeOnce.of(a_policy(), a_log(VARIANTS * 5), tmp_path_factory.mktemp("made"))


@pytest.fixture
def made(
    made_once: MadeOnce, tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A release that the engine itself planned and made, proved in earnest."""
    monkeypatch.setattr(verifying, "prove", REAL_PROOF)
    return made_once.copied(tmp_path, own_home)[0]


@pytest.fixture
def key(made: Path) -> SigningKey:
    """What signed it."""
    return signing_key()


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in a JSON value with every key or index into it."""
    pairs = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for place, below in list(pairs):
        yield value, place
        yield from places(below)


def test_a_real_release_holds(made: Path) -> None:
    assert any("derived again" in check for check in verify(made).checks)


def test_a_plan_that_claims_more_than_it_gives_fails_though_signed(
    made: Path, key: SigningKey
) -> None:
    """The signer states epsilon 0.5 everywhere, for noise that gives 1."""

    def claim_more(statement: dict[str, Any]) -> None:
        statement["predicate"]["guarantees"][1]["cost"]["epsilon"] = 0.5

    plan = json.loads((made / "plan.json").read_text())
    plan["claims"][1]["cost"]["epsilon"] = 0.5
    write_plan(made, plan)
    resign(made, key, claim_more)

    with pytest.raises(VerificationFailed, match="cannot be derived again"):
        verify(made)


def test_plans_of_junk_fail_without_a_traceback(made: Path, key: SigningKey) -> None:
    original = (made / "plan.json").read_text()
    rng = random.Random(3)  # all kinds of refusals
    for _ in range(runs(100)):
        plan = json.loads(original)
        container, place = rng.choice(list(places(plan)))
        container[place] = rng.choice(JUNK)
        write_plan(made, plan)
        resign(made, key)
        _fails_or_is_the_same(made, original, (made / "plan.json").read_text(), _meaning)


def test_statements_of_junk_fail_without_a_traceback(made: Path, key: SigningKey) -> None:
    original = envelope_of(made)
    rng = random.Random(2)

    def spoil(statement: dict[str, Any]) -> None:
        container, place = rng.choice(list(places(statement)))
        container[place] = rng.choice(JUNK)

    for _ in range(runs(100)):
        (made / "statement.json").write_text(json.dumps(original))
        resign(made, key, spoil)
        _fails_or_is_the_same(made, original["payload"], envelope_of(made)["payload"], _said)


def _meaning(text: str) -> object:
    """A plan without the words that only explain it: nothing follows from them, and nobody is shown
    them.
    """
    return stated(Plan.model_validate_json(text))


def _said(payload: str) -> object:
    """A statement without the words that only explain it."""
    return stated(Statement.model_validate_json(base64.b64decode(payload)))


def _fails_or_is_the_same(
    folder: Path, before: str, after: str, meaning: Callable[[str], object] = str
) -> None:
    try:
        verify(folder)
    except VerificationFailed:
        return
    assert meaning(before) == meaning(after), "a change went unnoticed"
