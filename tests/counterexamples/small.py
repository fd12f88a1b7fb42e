"""A small log and a policy that runs on it in no time."""

from pathlib import Path

_POLICY = """
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {name: small, version: 1.0.0, owner: o, purpose: p, dataset: DATASET}
spec:
  attributes:
    "case:concept:name": {role: identifier}
    "concept:name": {role: control-flow}
    "*": {treatment: drop}
  guarantees: [{kind: differential-privacy, epsilon: 1.0, delta: 1.0e-6, over: [control-flow]}]
  mechanisms: {allow: [variants/threshold, attributes/*, bound]}
  budget: {total: {epsilon: TOTAL, delta: 0.01}}
  output: {format: csv, report: [html, json]}
"""


def small_policy(folder: Path, dataset: str = "clinic", total: float = 1000.0) -> Path:
    """The policy as a file in ``folder``."""
    file = folder / f"{dataset}-{total:g}.yaml"
    file.write_text(_POLICY.replace("DATASET", dataset).replace("TOTAL", str(total)), "utf-8")
    return file


def small_log(folder: Path, prefix: str = "c", cases: int = 60) -> Path:
    """A log of two events a case, with case ids of its own."""
    lines = ["case:concept:name,concept:name,time:timestamp"]
    for number in range(cases):
        lines += [
            f"{prefix}{number},{activity},2024-01-01T0{hour}:00:00Z"
            for hour, activity in enumerate("ab")
        ]
    file = folder / f"{prefix}-log.csv"
    file.write_text("\n".join(lines) + "\n", "utf-8")
    return file
