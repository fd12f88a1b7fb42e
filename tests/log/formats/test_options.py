"""What ``spec.input`` may say, and what is said of what it may not."""

import pytest
from pydantic import ValidationError

from cloakwork.log.formats.options import InputOptions
from cloakwork.plan.policies import load_shipped, parse_policy
from cloakwork.policy.load import canonical, digest

KNOWN = {
    "kanon-control-flow": "e4c07f18d0133fd06e783092a173642a62d02eac28a50a239b70f3ec94f13649",
    "dp-per-person": "6a704464c009a462b26a931e0a8d50c472993439fcb8b002f1e0056cf1a97855",
}
POLICY = """
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: q, version: 1.0.0, owner: me, purpose: test, dataset: d}
spec:
  input: {columns: {case: Fall}, encoding: Latin1, delimiter: tab}
  attributes: {Schritt: {role: control-flow}}
  guarantees: [{kind: k-anonymity, k: 5, over: [control-flow]}]
"""


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("columns", {"concept:nam": "x"}, "none of case, activity, timestamp, row and case:NAME"),
        ("columns", {"case": "x", "case:concept:name": "y"}, "twice"),
        ("columns", {"case": "x", "activity": "x"}, "the column 'x' twice"),
        ("delimiter", "a", "one sign"),
        ("delimiter", '"', "stands inside values"),
        ("encoding", "utf-7", "utf-8"),
        ("time_zone", "Mars/Base", "time zone by its name"),
        ("time_format", "%d.%m", "the year"),
        ("time_format", "%d.%m.%Y %I:%M", "%I and %p together"),
        ("time_format", "%d.%m.%Y %Q", "%Q"),
        ("time_format", "%d.%m.%Y %m", "%m twice"),
        ("time_format", "%d.%m.%Y %M", "minute"),
    ],
)
def test_what_an_option_may_not_be(field: str, value: object, said: str) -> None:
    """Each says what is wrong."""
    with pytest.raises(ValidationError) as refusal:
        InputOptions.model_validate({field: value})
    assert said in str(refusal.value)


def test_spellings_of_one_thing_are_one() -> None:
    """So that they have one digest."""
    options = InputOptions.model_validate(
        {"columns": {"case": "Fall"}, "encoding": "ISO-8859-1", "delimiter": "tab"}
    )
    assert options.model_dump(mode="json") == {
        "columns": {"case:concept:name": "Fall"},
        "encoding": "latin-1",
        "delimiter": "\t",
    }


def test_columns_of_the_caller_go_first() -> None:
    """A column is one attribute's, so that what had it before has none."""
    options = InputOptions(columns={"case": "A", "activity": "B"})
    assert options.with_columns({"case": "B"}).columns == {"case:concept:name": "B"}


def test_policies_without_input_keep_their_digest() -> None:
    """Statements and plans of earlier versions name it."""
    assert {name: digest(load_shipped(name)) for name in KNOWN} == KNOWN
    assert '"input":{"columns"' in canonical(parse_policy(POLICY))


def test_a_fault_has_its_line() -> None:
    """In the policy's file."""
    with pytest.raises(Exception, match=r"policy\.yaml:6:44: spec\.input\.encoding must be one of"):
        parse_policy(POLICY.replace("Latin1", "latin-17"))
