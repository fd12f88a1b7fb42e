"""A mechanism that measures times and an attribute that the release drops, from file to file."""

from pathlib import Path

import pytest

from cloakwork.log.formats import read_log
from third_parties.packages import cloakwork, install, write_policy

MODULE = """
import numpy as np
from pydantic import BaseModel
from cloakwork.kernel import Clip, Entries, Laplace
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS, Lineage
from functools import partial
from cloakwork.mechanisms.base import Gives, Mechanism, Offer, Refusal, Theorem
from cloakwork.mechanisms.steps import Measurement, MeasureStep
from cloakwork.base.costs import DiscreteLaplace

class Params(BaseModel):
    cases: int

class Waits(Mechanism):
    name = "acme/waits"
    summary = "Counts ages and gaps."
    proof = "kernel"
    theorem = Theorem("Noise on clipped sums.", "a test")
    gives = (Gives("differential-privacy", CONTROL_FLOW),)
    Params = Params
    def offer(self, goal, facts, options):
        if goal.kind != "differential-privacy" or goal.over != (CONTROL_FLOW,):
            return Refusal("never", "it makes cases of counts")
        return Offer(Params(cases=facts.unit.max_cases), "counts")
    def step(self, params, facts):
        measured = frozenset({CONTROL_FLOW, TIMESTAMPS, "case:Age"})
        written = frozenset({CONTROL_FLOW, METADATA})
        return MeasureStep(
            lineage=Lineage(measures=measured, writes=written, generates=True),
            event=DiscreteLaplace(scale=2.0, sensitivity=3 * params.cases),
            measure=partial(self.measure, params),
        )
    def measure(self, params, kernel):
        noisy = kernel.sum(found, Laplace(2.0), Clip("l1", 3, 3), keys=3).at(np.arange(3))
        return Measurement([("aged",), ("text",), ("waited",)], noisy)

def found(cases):
    age, gap = cases.columns["case:Age"], cases.gaps
    text = np.array([each == "07" for each in (*age.alphabet, None)])[age.codes]
    waits = np.flatnonzero(~gap.is_missing & (gap.values == 3_600_000_000))
    parts = [np.flatnonzero(age.values >= 60), np.flatnonzero(text), cases.case_of[waits]]
    case = np.concatenate(parts)
    code = np.repeat(np.arange(3), [len(part) for part in parts])
    return Entries(case, np.ones(len(case), np.int64), code)
"""


@pytest.mark.parametrize("odd", ["1.5", "unknown"])
def test_what_is_measured_reaches_the_kernel_and_not_the_release(tmp_path: Path, odd: str) -> None:
    """Whatever type one case's value gives the column in the file."""
    site = install(tmp_path / "site", MODULE, "Waits", "acme/waits")
    policy = write_policy(tmp_path, allow=["bound", "attributes/*", "acme/waits"])
    write_log(tmp_path / "log.csv", odd)
    done = cloakwork(tmp_path, "apply", policy, "log.csv", "--out", "release", site=site)
    assert done.code == 0, done.err
    log = read_log(next((tmp_path / "release").glob("log.*")))
    assert set(log.columns) <= {"case:concept:name", "concept:name", "time:timestamp"}
    assert log.events["time:timestamp"].null_count() == log.events.height
    counted = dict(log.events["concept:name"].value_counts().rows())
    # Noise of scale 2: more than 60 off is no accident.
    for label, expected in (("aged", 300), ("text", 200), ("waited", 500)):
        assert abs(counted[label] - expected) < 60


def write_log(path: Path, odd: str) -> None:
    """500 cases of two events an hour apart: 300 of age 70, 200 of 07, the first of ``odd``."""
    ages = [odd, *["70"] * 300, *["07"] * 200]
    lines = ["case:concept:name,concept:name,time:timestamp,case:Age"]
    for row, age in enumerate(ages):
        lines.append(f"c{row},a,2020-01-01T00:00:00Z,{age}")
        lines.append(f"c{row},b,2020-01-01T0{row % 501 > 0:d}:00:00Z,{age}")
    path.write_text("\n".join(lines) + "\n", "utf-8")
