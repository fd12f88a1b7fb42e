"""How often the intervals of a public report hold what they are about: coverage, on shipped logs
and on others.

    python benchmarks/accuracy.py [RUNS] [LOG ...] [-v]     # 200 by default, on the shipped logs

Each run makes a release of the same log under the same policy with noise of its own, and compares
its 90 % intervals with the log's own figures, of the activities that the release has. Printed is
the share of intervals that hold them. Releases with times and values take long: of these there are
a tenth of the runs.
"""

import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

from cloakwork import load_policy, make_plan, read_log
from cloakwork.evaluation.bounds import figure_bounds
from cloakwork.evaluation.control_flow import directly_follows, histogram
from cloakwork.evaluation.whole_log import Timed
from cloakwork.log.eventlog import EventLog
from cloakwork.noise import reproducible
from cloakwork.plan.model import Plan
from cloakwork.publishing.folder import measurements_table
from cloakwork.run.prepare import prepared_log
from cloakwork.run.run import Run

ROOT = Path(__file__).resolve().parent.parent
HOSPITAL, PERMIT = (str(ROOT / f"examples/logs/{name}.xes.gz") for name in ("hospital", "permit"))
CASES = (
    ("dp-control-flow", HOSPITAL, "", False),
    ("dp-control-flow", HOSPITAL, "variants/markov", False),
    ("dp-control-flow", PERMIT, "", False),
    ("dp-control-flow", PERMIT, "variants/markov", False),
    ("dp-whole-log", HOSPITAL, "", True),
    ("dp-whole-log", HOSPITAL, "timestamps/histogram, attributes/histogram", True),
)
"""Policy, log, preferred mechanisms, and whether there are times and values."""


def planned(policy: str, epsilon: float, prefer: str) -> Plan:
    """Of a shipped policy, at another price."""
    text = (ROOT / f"policies/{policy}.yaml").read_text()
    text = re.sub(r"epsilon: [0-9.]+", f"epsilon: {epsilon}", text)
    if prefer:
        own = f"  mechanisms:\n    prefer: [{prefer}]\n"
        found = "  mechanisms:\n" in text
        text = text.replace(
            "  mechanisms:\n" if found else "  budget:\n", own if found else f"{own}  budget:\n", 1
        )
    with TemporaryDirectory() as folder:
        path = Path(folder, "policy.yaml")
        path.write_text(text)
        return make_plan(load_policy(path))


def truths(log: EventLog, labels: frozenset[str]):
    """The log's own figures by kind and key, other activities than ``labels`` left out."""
    log = log.keep_events(log.events["concept:name"].cast(pl.String).is_in(labels).to_numpy())
    counts = directly_follows(histogram(log), ends=True)
    found = {("step", edge): count for edge, count in counts.items()}
    events = Counter()
    for (first, _), count in counts.items():
        if first is not None:
            events[first] += count
    found |= {("activity", (label,)): count for label, count in events.items()}
    if "time:timestamp" in log.events.columns:
        places, waits = Timed(log).gaps()
        case = log.case_of[places]
        several = np.unique(case)
        found["wait", ()] = np.median(waits)
        found["duration", ()] = np.median(np.bincount(case, waits)[several])
    for name in log.columns:
        values = (log.cases if name in log.cases.columns else log.events)[name].drop_nulls()
        numbers = values.cast(pl.Float64, strict=False)
        if len(values) and not numbers.has_nulls():
            found["number", (name,)] = numbers.median()
        # Numbers and truth values may be measured one by one, too.
        for value, count in values.value_counts().iter_rows():
            found["value", (name, spelled(value))] = count / len(values)
    return found


def spelled(value):
    """A value of a log, or of a domain that a policy declares: 25 and "25", True and "true"."""
    if isinstance(value, bool | str):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, int | float) else value


def releases(plan: Plan, log: EventLog, runs: int, *, whole: bool = False, seed: int = 1):
    """Tables and logs of so many releases, of a log as ``prepared_log`` has it; ``whole``: with
    times and values.
    """
    steps = plan.steps if whole else tuple(each for each in plan.steps if each.lineage.generates)
    for number in range(runs):
        made, records = Run(plan=plan, noise=reproducible(seed + number)).steps(log, steps)
        answers = [answer for record in records for answer in record.answers]
        yield measurements_table(answers), made


def coverage(log: EventLog, made, grid: float = 0.0):
    """Of each figure by kind and key, which intervals of the releases hold the log's, and how wide
    they are, as a share of it.
    """
    held, width, known = defaultdict(list), defaultdict(list), {}
    for tables, released in made:
        variants = histogram(released)
        labels = frozenset(label for variant in variants for label in variant)
        if labels not in known:
            known[labels] = truths(log, labels) | {("cases", ()): log.case_count}
        for each in figure_bounds(tables, variants, released, grid):
            key = each.key
            if each.figure == "value":
                key = (key[0], spelled(key[1]))
            truth = known[labels].get((each.figure, key), 0)
            held[each.figure, each.key].append(each.low <= truth <= each.high)
            width[each.figure, each.key].append((each.high - each.low) / (truth or 1))
    return held, width


def printed(called: str, held, width, runs: int) -> None:
    for kind in dict.fromkeys(kind for kind, _ in held):
        keys = [key for key in held if key[0] == kind]
        all_held = np.concatenate([held[key] for key in keys])
        wide = np.concatenate([width[key] for key in keys])
        often = [np.mean(held[key]) for key in keys if len(held[key]) >= runs / 2]
        print(
            f"{called} {kind} held {np.mean(all_held):.3f}"
            f" (lowest figure {min(often, default=0):.2f}, {len(often)} figures),"
            f" width {np.median(wide):.2f} of the figure",
            flush=True,
        )
        for key in keys if "-v" in sys.argv else ():
            print("   ", key[1], len(held[key]), f"{np.mean(held[key]):.2f}")


def main(runs: int, paths: list[str]) -> None:
    cases = CASES
    if paths:
        cases = [("dp-control-flow", path, "variants/markov", False) for path in paths]
    for policy, path, prefer, whole in cases:
        for epsilon in (1, 4):
            plan = planned(policy, epsilon, prefer)
            log = prepared_log(read_log(path), plan)
            own = max(2, runs // 10) if whole else runs
            called = f"{Path(path).name}, {policy} at epsilon {epsilon} {prefer}:"
            grid = plan.facts.grid.total_seconds()
            printed(called, *coverage(log, releases(plan, log, own, whole=whole), grid), own)


if __name__ == "__main__":
    words = [each for each in sys.argv[1:] if each != "-v"]
    main(int(words[0]) if words else 200, words[1:])
