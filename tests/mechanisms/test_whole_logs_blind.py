"""Whole logs, with a kernel that answers as of an empty log: what is released, said and recorded is
the same whatever the log holds, and one odd case moves each true answer by no more than its clip.

So nothing reaches a release but through sums that are clipped.
"""

import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloakwork import read_log
from cloakwork.engines.measured import measured_log, measured_of
from cloakwork.kernel import Clip, Descent, Kernel, Selected, vectors
from cloakwork.kernel.books import composed
from cloakwork.kernel.noises import selection_event
from cloakwork.kernel.vectors import Sums
from cloakwork.mechanisms.steps import Enrichment, Times
from cloakwork.mechanisms.timestamps.regression import TimestampRegression
from cloakwork.noise import reproducible
from cloakwork.plan.model import Plan
from cloakwork.plan.planner import make_plan
from cloakwork.run import steps
from cloakwork.run.prepare import required_attributes
from cloakwork.run.reading import on_excess_under
from cloakwork.run.run import Run
from conftest import in_long_form
from plan.conftest import policy_of

pytestmark = pytest.mark.usefixtures("few_turns")

Vector = dict[Any, float]
Answers = list[tuple[Clip, Vector]]

SELECTED = (("a", "b", "c"), ("a", "c"), ("a",), ("a", "b") * 5)
"""Variants that any log is said to have, and the labels of its activities."""

HEADER = "case:concept:name,concept:name,time:timestamp,drug,case:ward,price\n"


def ordinary(cases: int = 60) -> str:
    return "".join(
        f"c{case},{label},2021-03-{case % 28 + 1:02d}T10:0{place}:00Z,"
        f"{'xy'[place % 2]},{'ab'[case % 2]},{10.5 + place}\n"
        for case in range(cases)
        for place, label in enumerate("abc")
    )


ODD = {
    "values and times at their ends": (
        "z,a,0001-01-01T00:00:00Z,x,a,nan\nz,b,9999-12-31T23:59:59Z,y,a,inf\nz,c,,y,,-1e308\n"
        "z,a,2021-03-01T10:00:00+14:00,x,a,1\nz,b,2021-03-01T10:00:00-12:00,x,a,2\n"
    ),
    "no times": "z,a,,x,a,1\nz,b,,y,,2\n",
    "other types": "z,a,2021-01-01 00:00,2020-01-01T00:00:00+00:00,TRUE,ten\n",
    "unlisted": "z,q,2021-01-01,x,a,1\nz,,2021-01-01,x,a,1\n",
    "long": "".join(f"z,{'abc'[row % 3]},2021-01-01,x,a,{row}\n" for row in range(3_000)),
    "long texts": f"z,{'A' * 200_000},2021-01-01,{'t' * 300_000},u,1\n" * 3,
    "many labels": "".join(f"z,act{row},2021-01-01,x,a,1\n" for row in range(2000)),
}


def planned(declared: bool, *denied: str) -> Plan:
    attributes = {"drug": ["x", "y", "10.5"], "case:ward": ["a", "b"]}
    known = {
        "alphabet": ["a", "b", "c"],
        "longest_case": 40,
        "longest_gap": "400d",
        "window": {"start": "2020-01-01T00:00:00Z", "end": "2024-01-01T00:00:00Z"},
    }
    goal = {
        "kind": "differential-privacy",
        "epsilon": 2.0,
        "delta": 1e-6,
        "over": ["control-flow", "timestamps", *attributes, "price"],
    }
    return make_plan(
        policy_of(
            attributes={
                "case:concept:name": {"role": "identifier"},
                "concept:name": {"role": "control-flow"},
                "time:timestamp": {"role": "timestamp"},
                **{
                    name: {"role": "sensitive", "domain": each} for name, each in attributes.items()
                },
                "price": {"role": "sensitive", "range": [0, 100]},
                "*": {"treatment": "drop"},
            },
            guarantees=[goal],
            assume=known if declared else {},
            mechanisms={"deny": list(denied)},
        )
    )


DENIED = ("variants/markov",)
# Where activities are declared, many others are as one; where they are not, none is unlisted.
PLANS = [
    (True, (), [name for name in ODD if name != "many labels"]),
    (False, (), ["long", "many labels"]),
    (True, DENIED, ["unlisted", "long"]),
    *in_long_form(*((known, DENIED, list(ODD)) for known in (True, False))),
]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answers]:
    """The true sums of all questions; what is answered has none of them."""
    true_sums: Callable[..., Sums] = Kernel._Kernel__sums  # type: ignore[attr-defined]
    found: Answers = []

    def sums(self: Any, query: Any, clip: Clip, labels: str | None = None) -> Sums:
        true = true_sums(self, query, clip, labels)
        keys = true.keys.tolist() if isinstance(true.keys, np.ndarray) else true.keys
        found.append((clip, dict(zip(keys, true.sums.tolist(), strict=True))))
        return Sums(np.zeros(0, np.int64), np.zeros(0, np.int64))

    def select(
        self: Any,
        query: Any,
        noise: Any,
        least: int,
        clip: Clip = vectors.ONE,
        **_: Any,
    ) -> Selected:
        sums(self, query, clip)
        cases = self._Kernel__max_cases
        delta = selection_event(noise.selection_delta(least, clip, cases))
        events = (composed([each, delta]) for each in noise.events(clip, cases, None))
        self._Kernel__books.record(*events)
        labels = SELECTED if clip.cells == 1 else (("a",), ("b",))
        each = np.full(len(labels), max(7, 8 * least), np.int64)
        return Selected(np.zeros(len(labels), np.int64), labels, each)

    true_gradients = Descent.summed

    def summed(self: Descent, gradient: Any, parameters: Any, *of: Any) -> Any:
        true = true_gradients(self, gradient, parameters, *of)
        # In parts of the clip, which is larger than one of sparse vectors may be.
        clip = Clip("l2", 1 << 20, len(true))
        found.append((clip, dict(enumerate((true * (clip.most / self.clip)).tolist()))))
        return np.zeros_like(true)

    # A plan is proved by what is declared: the same for all logs.
    monkeypatch.setattr("cloakwork.run.run.replan", lambda plan, _: plan)
    monkeypatch.setattr(Descent, "summed", summed)
    monkeypatch.setattr(Kernel, "_Kernel__sums", sums)
    monkeypatch.setattr(Kernel, "select", select)
    # How many draws an order takes follows from the log; nothing else may.
    monkeypatch.setattr(steps, "measured_of", lambda seen, _: measured_of(seen, reproducible(2)))
    monkeypatch.setattr(
        steps, "measured_log", lambda log, rows, _: measured_log(log, rows, reproducible(2))
    )
    yield found


def run(plan: Plan, path: Path, asked: Answers) -> tuple[tuple[str, ...], Answers]:
    """All that whoever runs the plan may see or publish, and the true sums."""
    asked.clear()
    said: list[str] = []
    printed = io.StringIO()
    with redirect_stderr(printed), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        log = read_log(path, keep=required_attributes(plan), on_excess=on_excess_under(plan))
        release = Run(plan=plan, noise=reproducible(1), reporter=said.append).release(log, None)
    recorded = [str(step.recorded) for step in release.internal.steps]
    tables = [release.log.events, release.log.cases]
    seen = [str(each.schema) + each.write_json() for each in tables]
    public = (*seen, *said, *recorded, *(str(each.message) for each in warned), printed.getvalue())
    return public, list(asked)


def moved(one: Answers, other: Answers) -> float:
    """By how many clips, or of how many cells, the answers differ at most."""
    largest = 0.0
    for (clip, mine), (same, yours) in zip(one, other, strict=True):
        assert clip == same
        moves = np.array([mine.get(key, 0) - yours.get(key, 0) for key in mine.keys() | yours])
        order = {"l1": 1, "l2": 2, "max": np.inf}[clip.norm]
        norm = float(np.linalg.norm(moves, order)) if len(moves) else 0.0
        largest = max(largest, norm / clip.most, np.count_nonzero(moves) / clip.cells)
    return largest


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], Path]:
    def write(path: Path, rows: str) -> Path:
        path.write_text(HEADER + rows)
        return path

    return partial(write, tmp_path / "log.csv")


@pytest.mark.parametrize(("declared", "denied", "odd"), PLANS)
def test_nothing_but_clipped_sums_reaches_a_release(declared, denied, odd, asked, written):
    plan = planned(declared, *denied)
    public, answers = run(plan, written(ordinary()), asked)
    assert run(plan, written(""), asked)[0] == public
    for name in odd:
        also, others = run(plan, written(ordinary() + ODD[name]), asked)
        assert also == public, name
        assert moved(answers, others) <= 1 + 1e-12, name


def test_a_clip_that_is_left_out_is_found(asked, written, monkeypatch):
    """A broken twin."""
    plan = planned(True)
    _, answers = run(plan, written(ordinary()), asked)
    monkeypatch.setattr(vectors, "_clipped", lambda case, value, clip: 2 * value)
    _, others = run(plan, written(ordinary() + ODD["long"]), asked)
    assert moved(answers, others) > 1


def test_a_look_at_the_log_is_found(asked, written, monkeypatch):
    """A broken twin: times are later by as many seconds as there are cases."""
    plan, enrich = planned(True), TimestampRegression.enrich

    def twin(self: Any, params: Any, kernel: Any, cases: Any) -> Any:
        times = enrich(self, params, kernel, cases).columns["timestamps"].microseconds
        moved_by = 10**6 * len(kernel._Kernel__measured.cases)
        return Enrichment({"timestamps": Times(times + moved_by)})

    monkeypatch.setattr(TimestampRegression, "enrich", twin)
    public, _ = run(plan, written(ordinary()), asked)
    assert run(plan, written(ordinary(61)), asked)[0] != public
