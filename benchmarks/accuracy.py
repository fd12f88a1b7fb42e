"""How often the intervals of a public report hold what they are about: coverage on shipped logs.

    python benchmarks/accuracy.py [RUNS]     # 200 by default

Each run makes a release of the same log under the same policy with noise of its own, and compares
its 90 % intervals with the log's own figures. Printed is the share of intervals that hold them.
"""

import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from cloakwork import load_policy, make_plan, read_log
from cloakwork.evaluation.bounds import figure_bounds
from cloakwork.evaluation.control_flow import directly_follows, histogram
from cloakwork.noise import reproducible
from cloakwork.plan.model import Plan
from cloakwork.publishing.folder import measurements_table
from cloakwork.run.prepare import prepared_log
from cloakwork.run.run import Run

ROOT = Path(__file__).resolve().parent.parent
CASES = tuple(
    (policy, name, epsilon, prefer)
    for policy, name, prefer in (
        ("dp-whole-log", "hospital", ""),
        ("dp-control-flow", "hospital", ""),
        ("dp-control-flow", "hospital", "variants/markov"),
        ("dp-control-flow", "permit", ""),
        ("dp-control-flow", "permit", "variants/markov"),
    )
    for epsilon in (1, 4)
)


def planned(policy: str, epsilon: float, prefer: str) -> Plan:
    """Of a shipped policy, at another price."""
    text = (ROOT / f"policies/{policy}.yaml").read_text()
    text = re.sub(r"epsilon: [0-9.]+", f"epsilon: {epsilon}", text)
    if prefer:
        text = text.replace("mechanisms:", f"mechanisms:\n    prefer: [{prefer}]")
    with TemporaryDirectory() as folder:
        path = Path(folder, "policy.yaml")
        path.write_text(text)
        return make_plan(load_policy(path))


def truths(log):
    """The log's own figures by kind and key."""
    counts = directly_follows(log, ends=True)
    found = {("cases", ()): sum(log.values())}
    for edge, count in counts.items():
        found["step", edge] = count
    events = Counter()
    for (first, _), count in counts.items():
        if first is not None:
            events[first] += count
    return found | {("activity", (label,)): count for label, count in events.items()}


def coverage(plan: Plan, log, runs: int, seed: int = 1):
    """Of each kind of figure the shares of intervals that hold the log's, by figure; and how wide
    they are on average, as a share of it.
    """
    prepared = prepared_log(log, plan)
    real = truths(histogram(prepared))
    held, width = defaultdict(list), defaultdict(list)
    # Times and values have no interval: what makes the cases is enough.
    flow = tuple(step for step in plan.steps if step.lineage.generates)
    for number in range(runs):
        made, records = Run(plan=plan, noise=reproducible(seed + number)).steps(prepared, flow)
        answers = [answer for record in records for answer in record.answers]
        for each in figure_bounds(measurements_table(answers), histogram(made)):
            truth = real.get((each.figure, each.key), 0)
            held[each.figure, each.key].append(each.low <= truth <= each.high)
            width[each.figure, each.key].append((each.high - each.low) / max(truth, 1))
    return held, width


def main(runs: int) -> None:
    for policy, name, epsilon, prefer in CASES:
        log = read_log(ROOT / f"examples/logs/{name}.xes.gz")
        plan = planned(policy, epsilon, prefer)
        called = f"{name}, {policy} at epsilon {epsilon}{', ' if prefer else ''}{prefer}:"
        held, width = coverage(plan, log, runs)
        for kind in ("cases", "activity", "step"):
            keys = [key for key in held if key[0] == kind]
            if not keys:
                print(f"{called} {kind} none told")
                continue
            all_held = np.concatenate([held[key] for key in keys])
            wide = np.concatenate([width[key] for key in keys])
            shares = [np.mean(held[key]) for key in keys if len(held[key]) >= runs / 2]
            print(
                f"{called} {kind} held {np.mean(all_held):.3f}"
                f" (lowest figure {min(shares, default=0):.2f}, {len(shares)} figures),"
                f" width {np.median(wide):.2f} of the figure",
                flush=True,
            )
            if "-v" in sys.argv:
                for key in keys:
                    print("   ", key[1], len(held[key]), f"{np.mean(held[key]):.2f}")


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[1:] if each.isdigit()]
    main(numbers[0] if numbers else 200)
