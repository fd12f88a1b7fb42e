"""Columns that look like times, in a log and in batches of it."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import polars as pl

from cloakwork import make_plan
from cloakwork.evaluation.notes import TimeHints
from cloakwork.log.eventlog import EventLog
from cloakwork.plan.model import Plan
from cloakwork.plan.policies import parse_policy
from contracts.sample_logs import log_of
from log_in_parts import LogInParts

NAMES = ("day", "text", "words", "most", "fewest", "missing", "none", "truth", "case:number")
KEPT = "".join(f'    "{name}": {{role: insensitive, treatment: keep}}\n' for name in NAMES)
EXPOSED = ", ".join(f'"{name}": for a test' for name in NAMES)
POLICY = f"""
apiVersion: cloakwork/v1
kind: PrivacyPolicy
metadata: {{name: p, version: 1.0.0, owner: o, purpose: test, dataset: d}}
spec:
  attributes:
    "case:concept:name": {{role: identifier}}
    "concept:name": {{role: control-flow}}
    "time:timestamp": {{role: timestamp}}
{KEPT}  guarantees:
    - {{kind: k-anonymity, k: 2, over: [control-flow]}}
    - {{kind: metric-privacy, epsilon: 1.0, shift: 1h, over: [timestamps]}}
  expose: {{{EXPOSED}}}
"""


def hinted(log: EventLog, plan: Plan) -> set[str]:
    """The columns that are named, the same of the log and of its batches."""
    found = set(TimeHints(plan).notes(log))
    for parts in (1, 3, 9):
        assert set(TimeHints(plan).notes(LogInParts.evenly(log, parts))) == found
    return {hint.split("'")[1] for hint in found}


def test_types_texts_and_most_numbers_tell() -> None:
    """A few numbers far off move nothing; nor does one batch that has nothing else."""
    plan = make_plan(parse_policy(POLICY))
    log = log_of([["a"]] * 9)
    seconds = 1.7e9
    columns = {
        "day": pl.Series([None] * 8 + [datetime(2020, 1, 1, tzinfo=UTC)]),
        "text": ["nothing"] * 8 + ["on 2020-01-31"],
        "words": ["nothing"] * 9,
        "most": [0.0] * 4 + [seconds] * 5,
        "fewest": [0.0] * 5 + [seconds] * 4,
        "missing": pl.Series([None] * 7 + [seconds] * 2),
        "none": pl.Series([None] * 9, dtype=pl.Float64),
        "truth": [True] * 9,
    }
    events = log.events.with_columns(pl.Series(name, values) for name, values in columns.items())
    cases = log.cases.with_columns(pl.Series("case:number", np.arange(9) + int(seconds)))
    given = replace(log, events=events, cases=cases)

    assert hinted(given, plan) == {"day", "text", "most", "missing", "case:number"}
    assert hinted(given.keep_cases(np.arange(0)), plan) == {"day"}
