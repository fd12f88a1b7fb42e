"""Our own verifier on the corpus for other people's: good releases pass, and each forgery is
refused for the reason that its verdict gives. And the rules open nothing.
"""

import ast
import inspect
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cloakwork.errors import VerificationFailed
from cloakwork.publishing import examine, keys
from cloakwork.publishing import verify as rules
from cloakwork.publishing.examine import verify
from cloakwork.publishing.folder import Check
from cloakwork.publishing.statement import PLAN_SCHEMA, published_schema, schema_fault
from conftest import Said
from verifier_corpus.corpus import verdicts, write_corpus

VERDICTS = verdicts()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every release of the corpus by its name."""
    return write_corpus(tmp_path_factory.mktemp("corpus") / "out")


def _signer(corpus: dict[str, Path]) -> Path:
    return corpus["good-csv"].with_name("signer.pub.pem")


def test_each_release_has_a_verdict(corpus: dict[str, Path]) -> None:
    assert corpus.keys() == VERDICTS.keys()
    written = json.loads(corpus["good-csv"].with_name("verdicts.json").read_bytes())
    assert written.keys() == corpus.keys()
    for name, each in VERDICTS.items():
        assert (each.verdict == "accept") == name.startswith("good-"), name
        assert (each.verdict == "refuse") == bool(each.says), name


@pytest.mark.parametrize("name", sorted(VERDICTS))
def test_ours_agrees(corpus: dict[str, Path], name: str) -> None:
    expected = VERDICTS[name]
    if expected.verdict == "accept":
        assert verify(corpus[name], public_key=_signer(corpus)).checks
        return
    with pytest.raises(VerificationFailed) as refused:
        verify(corpus[name], public_key=_signer(corpus))
    assert any(expected.says in line for line in refused.value.mismatches), refused.value


def test_the_command_writes_a_good_one_and_a_bad_one(
    corpus: dict[str, Path], cloakwork: Any
) -> None:
    codes = {}
    for name in ("good-packed", "plan-with-half-the-noise"):
        said: Said = cloakwork("verify", corpus[name], "--public-key", _signer(corpus))
        codes[name] = said.code
    assert codes == {"good-packed": 0, "plan-with-half-the-noise": 5}


# Rules that are taken out, each with a forgery that only it refuses.
BROKEN = {
    "envelope-with-blanks": (keys.Envelope, "as_file", lambda self: _Anything()),
    "plan-with-other-blanks": (rules, "plan_bytes", lambda plan: _Anything()),
    "statement-signs-a-file-twice": (rules, "len", lambda value: 0),
    "plan-and-statement-claim-a-smaller-epsilon": (rules, "prove", lambda plan: plan.claims),
    "recorded-less-noise-than-planned": (rules, "_fits_planned", lambda *events: True),
    "log-with-the-stamp-of-another-claim": (rules, "differences", lambda expected, found: ()),
    "measurements-without-noise": (examine, "read_measurements", lambda file: None),
    "log-with-a-case-in-two-parts": (examine, "check_contents", lambda *given: ()),
    "statement-drops-its-caveats": (examine, "check_statement", lambda *given: ()),
    "log-with-a-line-behind-it": (examine, "check_signed_files", lambda *given: []),
    "no-budget-charged": (examine, "check_private", lambda *given: Check(True, "")),
}


class _Anything:
    """Equal to whatever it is compared with."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_a_verifier_that_lacks_a_rule_is_found(
    corpus: dict[str, Path], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder, rule, without = BROKEN[name]
    monkeypatch.setattr(holder, rule, without, raising=rule != "len")
    assert verify(corpus[name], public_key=_signer(corpus)).checks


# --- the rules open nothing


@contextmanager
def _nothing_opened() -> Iterator[list[str]]:
    """What was opened, or listed, while the block ran."""
    opened: list[str] = []
    watching = [True]

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if watching[0] and event in ("open", "os.listdir", "os.scandir", "socket.connect"):
            opened.append(f"{event} {arguments[0]!r}")

    sys.addaudithook(note)
    try:
        yield opened
    finally:
        watching[0] = False


def _apply_rules(folder: Path, patch: pytest.MonkeyPatch) -> list[Any]:
    """Calls of rules as ``verify`` makes them, with what it gave them."""
    calls: list[Any] = []
    for name, rule in inspect.getmembers(rules, inspect.isfunction):
        if rule.__module__ != rules.__name__ or not name.startswith(("check_", "read_")):
            continue
        if name not in vars(examine):
            continue

        def noting(*given: Any, rule: Any = rule, name: str = name) -> Any:
            calls.append((name, rule, given))
            found = rule(*given)
            return list(found) if inspect.isgenerator(found) else found

        patch.setattr(examine, name, noting)
    verify(folder, public_key=folder.with_name("signer.pub.pem"))
    return calls


@pytest.mark.parametrize("name", ["good-csv", "good-noisy", "good-xes"])
def test_rules_open_nothing(
    corpus: dict[str, Path], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are given what was read, or what reads: here that has been read before."""
    with monkeypatch.context() as patch:
        calls = _apply_rules(corpus[name], patch)
    assert {"check_signature", "read_statement", "read_plan", "check_proof"} <= {
        rule for rule, _, _ in calls
    }
    for rule_name, rule, given in calls:
        known: dict[str, Any] = {}

        def remembered(reader: Any, known: dict[str, Any] = known) -> Any:
            def read(*asked: Any, **how: Any) -> Any:
                key = repr((asked, how))
                if key not in known:
                    known[key] = reader(*asked, **how)
                return known[key]

            return read

        prepared = [remembered(each) if callable(each) else each for each in given]
        found = rule(*prepared)
        first = list(found) if inspect.isgenerator(found) else found
        with _nothing_opened() as opened:
            again = rule(*prepared)
            assert (list(again) if inspect.isgenerator(again) else again) == first
        assert opened == [], rule_name
    # What is watched does see a file that is opened.
    with _nothing_opened() as opened:
        corpus[name].joinpath("plan.json").read_bytes()
    assert opened


def test_the_module_of_rules_imports_nothing_that_opens() -> None:
    tree = ast.parse(Path(rules.__file__).read_text("utf-8"))
    called = {
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    }
    opening = {"open", "read_bytes", "read_text", "iterdir", "exists", "is_file", "is_dir", "stat"}
    assert not called & opening
    modules = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    assert not modules & {"os", "io", "shutil", "tempfile", "zipfile"}


# --- the schemas


def test_a_fault_of_a_record_is_told_where_it_lies(corpus: dict[str, Path]) -> None:
    """Of the kinds that a record may have, that which it names is tried."""
    schema = published_schema(PLAN_SCHEMA)
    plan = json.loads((corpus["good-noisy"] / "plan.json").read_bytes())
    assert schema_fault(plan, schema) is None
    plan["claims"][0]["guarantee"]["epsilon"] = "two"
    told = schema_fault(plan, schema)
    assert told is not None and told.startswith("$.claims[0].guarantee.epsilon ")
    nested: Any = plan["steps"][0]["event"]
    for _ in range(3000):
        nested = {"kind": "composed", "events": [nested], "count": 1}
    plan["steps"][0]["event"] = nested
    assert schema_fault(plan, schema) is not None
