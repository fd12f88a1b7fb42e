"""t-closeness, l-diversity and a confidence bound as a user meets them: applied, verified, refused
in one line; for persons with several cases, and where nothing can be kept.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from cloakwork.log.formats import read_log
from conftest import EXAMPLES, ROOT

pytestmark = pytest.mark.usefixtures("no_figures")

TABLE, LOG = EXAMPLES / "hospital.csv.gz", EXAMPLES / "hospital.xes.gz"
GOALS = {
    "a case's number": [{"kind": "t-closeness", "t": 0.05, "attribute": "case:age"}],
    "a case's text": [{"kind": "t-closeness", "t": 0.3, "attribute": "case:diagnosis"}],
    "an event's text": [
        {"kind": "l-diversity", "l": 2, "attribute": "department", "variety": "entropy"}
    ],
    "times": [{"kind": "t-closeness", "t": 0.05, "attribute": "time:timestamp"}],
    "chance": [{"kind": "t-closeness", "t": 2, "attribute": "case:age", "distance": "stochastic"}],
    "several": [
        {"kind": "l-diversity", "l": 3, "attribute": "case:diagnosis"},
        {"kind": "t-closeness", "t": 0.1, "attribute": "case:age"},
        {"kind": "t-closeness", "t": 0.1, "attribute": "timestamps"},
    ],
}
FORMS = {"times": "csv", "several": "parquet"}
"""The formats of some of the releases; others are XES."""

ATTRIBUTES = {
    "case:age": {"role": "sensitive", "range": [0, 120]},
    "case:diagnosis": {"role": "sensitive"},
    "department": {"role": "sensitive"},
    "time:timestamp": {"role": "timestamp"},
}


def write_policy(
    folder: Path, goals: list[dict[str, object]], output: str = "xes.gz", **options: str
) -> Path:
    """The shipped policy with other guarantees beside k-anonymity, over attributes of the
    example.
    """
    policy = yaml.safe_load((ROOT / "policies" / "kanon-t-closeness.yaml").read_text("utf-8"))
    spec = policy["spec"]
    spec["attributes"] = {**spec["attributes"], **ATTRIBUTES}
    spec["guarantees"] = [spec["guarantees"][0], *goals]
    spec["mechanisms"]["parameters"] = {"kanon/closeness": options}
    spec["output"]["format"] = output
    return written(folder, policy)


def written(folder: Path, policy: Mapping[str, Any]) -> Path:
    """A policy as a file."""
    path = folder / "policy.yaml"
    path.write_text(yaml.safe_dump(policy), "utf-8")
    return path


@pytest.mark.parametrize("name", GOALS)
def test_released_and_verified(name, cloakwork, tmp_path, ledger):
    """Each guarantee is claimed, and measured again on the written file unless it is about
    probabilities.
    """
    options = {"infeasible": "suppress"} if name in ("an event's text", "a case's text") else {}
    policy = write_policy(tmp_path, GOALS[name], FORMS.get(name, "xes.gz"), **options)
    out = tmp_path / "out"
    said = cloakwork("apply", policy, TABLE, "--out", out, "--ledger", ledger)
    assert said.code == 0, said.err
    assert "homogeneity" not in said.err
    verified = cloakwork("verify", out, "--all")
    assert verified.code == 0, verified.err
    for goal in GOALS[name]:
        column = goal["attribute"].replace("time:timestamp", "timestamps")
        measured = f"measured again: {goal['kind']} over {column}"
        assert (measured in verified.out) == (name != "chance")


def test_values_of_the_shipped_policy_are_those_of_the_source(releases):
    """The same ages, with other cases."""
    released = releases("kanon-t-closeness").folder / "log.xes.gz"
    before, after = (read_log(path).cases["case:age"].sort() for path in (LOG, released))
    assert before.equals(after)


def test_an_infeasible_t_is_refused_with_the_least_one(cloakwork, tmp_path, ledger):
    """In one line, with nothing written; the t that it names can be had."""
    goal: dict[str, object] = {"kind": "t-closeness", "t": 0.001, "attribute": "case:age"}
    arguments = (TABLE, "--out", tmp_path / "out", "--ledger", ledger)
    said = cloakwork("apply", write_policy(tmp_path, [goal]), *arguments)
    (line,) = [line for line in said.err.splitlines() if "kanon/closeness: t =" in line]
    assert said.code != 0
    assert not (tmp_path / "out").exists()
    goal["t"] = float(line.split("reaches is ")[1].split(",")[0])
    assert cloakwork("apply", write_policy(tmp_path, [goal]), *arguments).code == 0


BOUND = """
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: bound, version: 1.0.0, owner: o, purpose: a test, dataset: hospital}
spec:
  unit: {attribute: "case:patient", max_cases: 3}
  attributes:
    "case:concept:name": {role: identifier}
    "case:patient": {role: identifier, treatment: drop}
    "case:diagnosis": {role: sensitive}
    "concept:name": {role: control-flow}
    "*": {treatment: drop}
  guarantees: [{kind: confidence-bound, L: 2, K: 20, C: 0.4, attribute: "case:diagnosis"}]
"""
"""A bound over two events that patients are protected by, and their diagnosis."""


def test_patients_are_counted_and_stay_unnamed(cloakwork, tmp_path, ledger):
    """By patient before the release, by case on the written file, which no longer has patients."""
    policy, out = written(tmp_path, yaml.safe_load(BOUND)), tmp_path / "out"
    said = cloakwork("apply", policy, LOG, "--out", out, "--ledger", ledger)
    assert said.code == 0, said.err
    assert "different values of 'case:patient'" in said.err
    assert cloakwork("verify", out).code == 0
    released = read_log(out / "log.xes.gz")
    assert "case:patient" not in released.columns
    known = set(read_log(LOG).cases["case:diagnosis"])
    assert set(released.cases["case:diagnosis"].drop_nulls()) <= known


def test_nothing_is_written_where_nothing_can_be_kept(cloakwork, tmp_path, ledger):
    """More patients are asked for than there are."""
    policy = written(tmp_path, yaml.safe_load(BOUND.replace("K: 20", "K: 5000")))
    out = tmp_path / "out"
    said = cloakwork("apply", policy, LOG, "--out", out, "--ledger", ledger)
    assert said.code == 3
    last = said.err.rstrip().splitlines()[-1]
    assert "K = 5,000, but the log holds 855 different values of 'case:patient'" in last
    assert not out.exists()
