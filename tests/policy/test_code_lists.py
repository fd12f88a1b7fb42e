"""Values that stand in a file beside the policy: read once, as the policy's own."""

from pathlib import Path

import pytest

from cloakwork.errors import PolicyError
from cloakwork.plan.planner import plan_text
from cloakwork.plan.policies import load_policy
from cloakwork.policy.load import digest, read_policy_text

POLICY = """\
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {{name: x, version: 1.0.0, owner: o, purpose: p, dataset: d}}
spec:
  unit: case
  attributes:
    "case:diag": {{role: sensitive, domain: {domain}}}   # a comment
    "case:age":
      role: sensitive
      range:
        {range}
      type: integer
    "concept:name": {{role: control-flow}}
    "*": {{treatment: drop}}
  guarantees:
    - kind: differential-privacy
      epsilon: 2.0
      delta: 1.0e-6
      over: [control-flow, "case:diag", "case:age"]
  budget: {{total: {{epsilon: 8.0, delta: 4.0e-6}}}}
"""
LIST = "{file: codes.csv, column: code}"
RANGE = "file: codes/dictionary.csv\n        column: name"


def written(
    folder: Path, domain: str = LIST, range_: str = RANGE, codes: bytes = b"code\na\n"
) -> Path:
    """A policy with a code list and a data dictionary beside it."""
    (folder / "codes").mkdir()
    (folder / "codes.csv").write_bytes(codes)
    (folder / "codes" / "dictionary.csv").write_text("name,min,max\ncase:age,0,120\n", "utf-8")
    path = folder / "p.yaml"
    path.write_text(POLICY.format(domain=domain, range=range_), "utf-8")
    return path


def test_values_are_the_policys_own(tmp_path):
    """Whatever characters they hold; the digest covers them, and lines stay where they are."""
    codes = '\ufeffcode;label\n"a ""x"" #1: [";foo\n007;ü\n007;b\n;c\n\'`{*&;d\n'.encode()
    path = written(tmp_path, codes=codes)
    read = load_policy(path)
    assert read.spec.attributes["case:diag"].domain == ('a "x" #1: [', "007", "'`{*&")
    assert read.spec.attributes["case:age"].range == (0, 120)
    raw = path.read_text("utf-8")
    text = read_policy_text(path)
    assert [line.split("#")[-1] for line in text.splitlines() if "a comment" in line] == [
        " a comment"
    ]
    assert text.splitlines().index("    - " + raw.partition("    - ")[2].splitlines()[0]) == len(
        raw.partition("    - ")[0].splitlines()
    )
    (tmp_path / "codes.csv").write_text("code\nb\n", "utf-8")
    assert digest(load_policy(path)) != digest(read)
    assert plan_text(read_policy_text(path), str(path)).policy_digest == digest(load_policy(path))


def test_numbers_where_they_are_said_to_be(tmp_path):
    """Text else: 007 is no 7."""
    domain = "{file: codes.csv, column: code, type: number}"
    read = load_policy(written(tmp_path, domain, codes=b"code\n1\n2.5\n"))
    assert read.spec.attributes["case:diag"].domain == (1, 2.5)


@pytest.mark.parametrize(
    ("domain", "codes", "fault"),
    [
        ("{file: codes.csv, column: cod}", b"code\na\n", "no column 'cod', but code"),
        ("{file: none.csv, column: code}", b"code\na\n", "none.csv: no such file"),
        ("{file: codes, column: code}", b"code\na\n", "codes: is a folder"),
        ("{file: ../x.csv, column: code}", b"code\na\n", "does not lie beside"),
        ("{file: /etc/passwd, column: code}", b"code\na\n", "does not lie beside"),
        ('{file: "a\\0b", column: code}', b"code\na\n", "does not lie beside"),
        ("{file: codes.csv, colum: code}", b"code\na\n", "mapping of column, file, type"),
        ("{file: codes.csv, column: [code]}", b"code\na\n", "single words or texts"),
        ("{column: code}", b"code\na\n", "file is needed"),
        (LIST, b"code\n\xff\n", "line 2: is not UTF-8"),
        (LIST, b"code\n" + b"x" * (1 << 20), "larger than 1 MiB"),
        (LIST, b"code\n" + b"x" * 200_000, "no table"),
        (LIST, b"", "no table"),
        (LIST, b'code\n"a\n', "no table"),
        (LIST, b"code\n\n", "holds no value"),
        ("{file: codes.csv, column: code, type: number}", b"code\nx\n", "no number"),
    ],
)
def test_what_cannot_be_read(domain, codes, fault, tmp_path):
    """One line, with the place in the policy."""
    path = written(tmp_path, domain, codes=codes)
    with pytest.raises(PolicyError, match=fault) as caught:
        load_policy(path)
    (problem,) = caught.value.problems
    assert (problem.path, problem.line) == (str(path), 7)
    assert "\n" not in str(problem)


def test_a_dictionary_without_the_attribute(tmp_path):
    """The row is the attribute's, or the one that is named."""
    path = written(tmp_path, range_=RANGE + "\n        row: weight")
    with pytest.raises(PolicyError, match=r":11:9: .*no row of the file has 'weight'"):
        load_policy(path)
