"""Policies are read exactly, or refused with the place of every fault."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from cloakwork.base import globs
from cloakwork.base.costs import epsilon_of_advantage
from cloakwork.base.globs import MOST_GLOBS
from cloakwork.errors import PolicyError
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.mechanisms.installed import KNOWN_MECHANISMS
from cloakwork.mechanisms.registry import catalogue
from cloakwork.plan.policies import load_policy, parse_policy, vocabulary
from cloakwork.policy import Policy, digest, load
from cloakwork.policy.document import LARGEST_FILE, MOST_VALUES
from cloakwork.policy.lint import lint
from cloakwork.policy.load import canonical, list_policies, shipped
from conftest import runs

HERE = Path(__file__).parent
BROKEN = HERE / "broken"
EXPECTED: dict[str, list[str]] = yaml.safe_load((HERE / "expected.yaml").read_text("utf-8"))
CONTRACT = HERE.parents[2] / "shared" / "contract" / "policies"

GOOD = """\
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: good, version: 1.0.0, owner: dpo@hospital.example, purpose: Tests, dataset: d1}
spec:
  attributes:
    "concept:name": {role: control-flow}
    "diagnosis": {role: sensitive, treatment: keep}
    "*": {treatment: drop}
  guarantees:
    - {kind: k-anonymity, k: 10}
  expose:
    diagnosis: The partner is bound by contract
"""


def lines(error: PolicyError, path: str | Path) -> list[str]:
    """The lines of an error without the path that each begins with."""
    said = str(error).splitlines()
    assert all(line.startswith(f"{path}:") for line in said)
    return [line.removeprefix(f"{path}:").strip() for line in said]


def refusal(text: str) -> str:
    """What is said about a text."""
    with pytest.raises(PolicyError) as caught:
        parse_policy(text, "p.yaml")
    return str(caught.value)


def test_every_broken_policy_has_its_expectation() -> None:
    assert sorted(EXPECTED) == sorted(path.name for path in BROKEN.glob("*.yaml"))


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_broken_policy_is_refused_line_by_line(name: str) -> None:
    with pytest.raises(PolicyError) as caught:
        load_policy(BROKEN / name)
    assert EXPECTED[name] == lines(caught.value, BROKEN / name)
    assert caught.value.exit_code == 3
    # In file order, each on one line.
    places = [(problem.line or 0, problem.column or 0) for problem in caught.value.problems]
    assert places == sorted(places)
    assert all(len(str(problem).splitlines()) == 1 for problem in caught.value.problems)


@pytest.mark.skipif(not CONTRACT.is_dir(), reason="no ../shared/contract beside this checkout")
def test_every_contract_policy_is_valid() -> None:
    found = sorted(CONTRACT.rglob("*.yaml"))
    assert found
    for path in found:
        load_policy(path)


def test_bytes_that_are_not_utf8_are_placed(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes(GOOD.replace("Tests", "Prüfung").encode("latin-1"))
    with pytest.raises(PolicyError) as caught:
        load_policy(path)
    column = GOOD.splitlines()[2].index("Tests") + len("Pr") + 1
    assert lines(caught.value, path) == [
        f"3:{column}: is not UTF-8 text (byte 0xfc); save it as UTF-8"
    ]


def test_the_bytes_of_a_file(tmp_path: Path) -> None:
    """UTF-16 and large files are refused; a byte-order mark is passed over."""
    path = tmp_path / "policy.yaml"
    path.write_bytes(GOOD.encode("utf-16"))
    with pytest.raises(PolicyError, match="1:1: is not UTF-8 text"):
        load_policy(path)
    path.write_text(GOOD + "#" * LARGEST_FILE)
    with pytest.raises(PolicyError, match="is larger than 1 MiB"):
        load_policy(path)
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert load_policy(path) == parse_policy(GOOD)


def test_globs_beyond_the_limit_are_never_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither to find clashes nor to find which of them decides."""
    many = "".join(f'    "a{number}*b?": {{treatment: drop}}\n' for number in range(MOST_GLOBS + 1))
    text = GOOD.replace('    "*": {treatment: drop}\n', many)
    for name in ("overlap", "contains"):
        monkeypatch.setattr(globs, name, _not_to_be_called)
    said = refusal(text)
    assert said.count("\n") == 0
    assert "must hold at most 100 globs" in said


def _not_to_be_called(*_: object) -> bool:
    raise AssertionError


def test_values_beyond_the_limit_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file far below the largest can hold more of them than can be read at once."""
    assert 4 * MOST_VALUES < LARGEST_FILE
    monkeypatch.setattr("cloakwork.policy.document.MOST_VALUES", 100)
    # The mapping, its key and the list count, too.
    assert "holds more than" not in refusal("a:\n" + "- a\n" * 97)
    assert refusal("a:\n" + "- a\n" * 98) == ("p.yaml:99:3: holds more than 100 keys and values")


@pytest.mark.parametrize("mark", "\u202a\u202d\u202e\u2066\u2069")
def test_marks_that_turn_the_direction_are_refused(mark: str) -> None:
    """Also in comments; a value can hold them by their code, and advice tells of it."""
    code = ascii(mark)[1:-1]
    said = refusal(GOOD.replace("kind: PrivacyPolicy", f"kind: PrivacyPolicy # {mark}x"))
    assert said.startswith(f"p.yaml:2:23: holds {code}, which turns the direction")
    policy = parse_policy(GOOD.replace("purpose: Tests", f'purpose: "Te{code}sts"'))
    assert policy.metadata.purpose == f"Te{mark}sts"
    found = [each for each in lint(policy) if each.rule == "invisible-characters"]
    assert [each.steps for each in found] == [("metadata", "purpose")]
    assert code in found[0].message


def test_missing_files_and_folders_are_one_line(tmp_path: Path) -> None:
    for path, said in (
        (tmp_path / "none.yaml", "no such file"),
        (tmp_path, "is a folder, not a policy file"),
    ):
        with pytest.raises(PolicyError) as caught:
            load_policy(path)
        assert lines(caught.value, path) == [said]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_files_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "secret.yaml"
    path.write_text(GOOD)
    path.chmod(0)
    with pytest.raises(PolicyError, match="cannot be read: Permission denied"):
        load_policy(path)


def test_deep_nesting_is_refused_without_recursion() -> None:
    assert "nested more than 40 levels deep" in refusal("[" * 100_000)
    assert "nested more than 40 levels deep" in refusal(
        "\n".join(" " * depth + "a:" for depth in range(500))
    )


def test_modest_aliases_are_read() -> None:
    text = GOOD.replace('"diagnosis": {role', '"diagnosis": &kept {role').replace(
        "  guarantees", "  guarantees", 1
    )
    text = text.replace('    "*"', '    "severity": *kept\n    "*"')
    rules = parse_policy(
        text.replace("contract\n", "contract\n    severity: So is everybody there\n")
    ).spec.attributes
    assert rules["severity"] == rules["diagnosis"]


@pytest.mark.parametrize("written", ["1e-6", "1.0e-6", "0.000001", "1E-06", '"1e-6"'])
def test_small_numbers_are_numbers(written: str) -> None:
    goal = f"{{kind: differential-privacy, epsilon: 1, delta: {written}, over: [control-flow]}}"
    policy = parse_policy(GOOD.replace("{kind: k-anonymity, k: 10}", goal))
    found = policy.spec.guarantees[0]
    assert isinstance(found, DifferentialPrivacy)
    assert found.delta == 1e-6


def test_a_guessing_advantage_is_read_as_epsilon() -> None:
    goal = (
        "{kind: differential-privacy, guessing_advantage: 0.4, delta: 1e-6, over: [control-flow]}"
    )
    found = parse_policy(GOOD.replace("{kind: k-anonymity, k: 10}", goal)).spec.guarantees[0]
    assert isinstance(found, DifferentialPrivacy)
    assert found.epsilon == epsilon_of_advantage(0.4, 1e-6)
    assert "guessing_advantage" not in found.model_dump()


def test_the_unit_is_read_in_both_forms() -> None:
    named = GOOD.replace("spec:\n", "spec:\n  unit: {max_cases: 1}\n")
    assert (
        parse_policy(named)
        == parse_policy(GOOD.replace("spec:\n", "spec:\n  unit: case\n"))
        == parse_policy(GOOD)
    )


def test_a_policy_may_name_every_mechanism_that_there_is() -> None:
    """A new one that is forgotten here could be chosen, but neither preferred, denied nor given
    parameters.
    """
    assert set(catalogue()) <= KNOWN_MECHANISMS


def test_the_caller_may_bring_mechanisms_of_its_own() -> None:
    text = GOOD + "  mechanisms: {allow: [acme/*]}\n"
    assert "matches no mechanism" in refusal(text)
    own = replace(vocabulary(), names={"acme/noise"})
    assert load.parse_policy(text, "p.yaml", own).spec.mechanisms.allows("acme/noise")


def test_nothing_is_said_twice_about_one_value() -> None:
    assert refusal(GOOD.replace("k: 10", "k: no")).count("\n") == 0


def test_text_that_moves_the_cursor_is_not_printed_as_it_is() -> None:
    said = refusal(GOOD.replace("kind: PrivacyPolicy", 'kind: "\\e[2J\\nok"'))
    assert said == r"p.yaml:2:7: kind must be PrivacyPolicy (got '\x1b[2J\nok')"


def test_the_digest_does_not_depend_on_comments_order_or_format() -> None:
    content = yaml.safe_load(GOOD)
    other = "# a comment\n" + yaml.safe_dump(
        dict(reversed(content.items())), default_flow_style=True
    )
    assert digest(parse_policy(other)) == digest(parse_policy(GOOD))
    assert len(digest(parse_policy(GOOD))) == 64


def test_the_digest_depends_on_meaning() -> None:
    assert digest(parse_policy(GOOD.replace("k: 10", "k: 11"))) != digest(parse_policy(GOOD))


@pytest.mark.parametrize("name", list_policies())
def test_a_policy_dumps_to_json_and_reads_back_equal(name: str) -> None:
    policy = load_policy(shipped("policies") / f"{name}.yaml")
    assert policy.metadata.name == name
    dumped = policy.model_dump_json(by_alias=True)
    assert Policy.model_validate_json(dumped) == policy
    assert Policy.model_validate(json.loads(dumped)) == policy
    assert parse_policy(canonical(policy).replace(":null", ": null")) == policy


TOKENS = st.sampled_from(
    [
        *"[]{}:,-?&*!|>'\"%@`#\t\n ",
        "null",
        "no",
        ".nan",
        "1e999",
        "<<: ",
        "*x",
        "&x ",
        "!!int ",
        "---\n",
        '"\\uD800"',
        "9" * 50,
    ]
)


@settings(max_examples=runs(150))
@given(st.one_of(st.text(), st.lists(TOKENS).map("".join)))
def test_any_text_is_a_policy_or_a_policy_error(text: str) -> None:
    try:
        parse_policy(text)
    except PolicyError as error:
        assert all(len(str(problem).splitlines()) == 1 for problem in error.problems)


@settings(max_examples=runs(150))
@given(st.integers(0, len(GOOD)), st.integers(0, 12), st.lists(TOKENS, max_size=3).map("".join))
def test_any_slip_of_the_pen_is_a_policy_or_a_policy_error(
    start: int, length: int, put: str
) -> None:
    try:
        parse_policy(GOOD[:start] + put + GOOD[start + length :])
    except PolicyError as error:
        assert error.problems


@settings(max_examples=runs(60))
@given(st.binary())
def test_any_bytes_are_a_policy_or_a_policy_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.mktemp("bytes") / "policy.yaml"
    path.write_bytes(data)
    with pytest.raises(PolicyError):
        load_policy(path)
