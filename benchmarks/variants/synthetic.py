"""Synthetic logs: constants of the mechanisms were chosen on them, and predictions are simulated on
them.

    python benchmarks/variants/synthetic.py families 5   # three mechanisms on five families
    python benchmarks/variants/synthetic.py choice 200   # how well adaptive chooses
    python benchmarks/variants/synthetic.py accuracy 5   # what mechanisms hold as simulated, anew

Compared are variants/threshold, markov and adaptive; ``choice`` goes over random processes. Prints
relative log similarity at delta 1e-4; figures are means over the runs asked for. Every process is
made up: a sequence with choices and a tangle of parallel steps and loops
(``tests/scenarios.py``), short loops over four labels, a small set of variants, work
items taken up again and again, and random mixtures. No log was fitted; decision 16 says
which constants were settled after real logs had been seen.
"""

import random
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from cloakwork.errors import MechanismError
from cloakwork.evaluation.control_flow import Variant, histogram, relative_log_similarity
from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.registry import catalogue
from cloakwork.mechanisms.variants.accuracy import CASES, SIGNAL
from cloakwork.testing import run_mechanism

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from scenarios import SCENARIOS, log_of, scenario, structured, unstructured

DELTA = 1e-4
COMPARED = ("variants/threshold", "variants/markov", "variants/adaptive")
Process = Callable[[random.Random], Variant]


def looping(draw: random.Random) -> Variant:
    """Few labels, short loops, cases that loop more or less."""
    labels = ["A"]
    if draw.random() < 0.75:
        labels = ["A", "A"]
    elif draw.random() < 0.6:
        labels = ["Q", "A"]
    again = draw.choice([0.15, 0.4, 0.6, 0.8])
    while draw.random() < again and len(labels) < 100:
        if draw.random() < 0.9:
            labels += draw.choice(["A", "QA", "AA", "QAA", "U"])
        else:
            labels += draw.choice("AQCU")
    return (*labels, "C", *(["C"] * (draw.random() < 0.6)))


def few(draw: random.Random) -> Variant:
    """Nine variants."""
    shares = {
        "abz": 40,
        "abc": 15,
        "abcdz": 15,
        "abcdefg": 10,
        "abcdegf": 7,
        "abcdfeg": 5,
        "abcx": 4,
        "abcdx": 3,
        "abcdex": 1,
    }
    return tuple(draw.choices(list(shares), list(shares.values()))[0])


def work_items(draw: random.Random) -> Variant:
    """Applications: early refusals, work items that are taken up again and again, offers that are
    sent more than once.
    """
    labels = ["submitted", "registered"]
    if draw.random() < 0.26:
        return (*labels, "declined")
    labels += [*repeated(draw, "check", 0.5), "accepted", *repeated(draw, "complete", 0.6)]
    if draw.random() < 0.3:
        return (*labels, draw.choice(["declined", "cancelled"]), "complete")
    offer = ["selected", "created", "sent"]
    labels += [*offer, *repeated(draw, "call", 0.7)]
    while draw.random() < 0.25:
        labels += ["withdrawn", *offer, *repeated(draw, "call", 0.6)]
    if draw.random() < 0.2:
        return (*labels, "cancelled", "call")
    labels += ["returned", *repeated(draw, "assess", 0.55)]
    if draw.random() < 0.35:
        labels += [*repeated(draw, "incomplete", 0.8), *repeated(draw, "assess", 0.3)]
    end = ["approved", "paid", "archived"]
    draw.shuffle(end)
    return (*labels, *(["refused"] if draw.random() < 0.25 else end), "assess")


def repeated(draw: random.Random, label: str, again: float) -> list[str]:
    """The label once, and again with a chance that is ``again`` on average and differs by case."""
    chance = min(0.97, draw.betavariate(2, 2 / again * (1 - again)))
    times = 1
    while draw.random() < chance and times < 60:
        times += 1
    return [label] * times


FAMILIES: dict[str, tuple[Process, int]] = {
    "usual": (structured, 1400),
    "varied": (unstructured, 1000),
    "looping": (looping, 7500),
    "few": (few, 13000),
    "work items": (work_items, 2500),
}
"""Family to what draws one case, and how many cases there are."""


def random_process(draw: random.Random) -> Process:
    """A mixture of clear paths, some events lost, and a random walk over the labels."""
    labels = [f"l{number}" for number in range(draw.choice([4, 8, 15, 25, 40]))]
    paths = [
        [draw.choice(labels) for _ in range(draw.randint(2, 12))]
        for _ in range(draw.choice([3, 6, 12]))
    ]
    weights = [draw.paretovariate(1) for _ in paths]
    clear, lost, stop = (
        draw.choice([0, 0.2, 0.5, 0.8, 0.95]),
        draw.choice([0, 0.02, 0.1]),
        draw.choice([0.1, 0.2, 0.4]),
    )
    branches = draw.choice([1, 2, 3, 5])
    after = {label: draw.sample(labels, min(branches, len(labels))) for label in labels}
    shares = {label: [draw.paretovariate(1) for _ in after[label]] for label in labels}

    def draw_variant(own: random.Random) -> Variant:
        if own.random() < clear:
            path = own.choices(paths, weights)[0]
            return tuple([label for label in path if own.random() > lost] or path[:1])
        steps = [own.choice(labels[:3])]
        while own.random() > stop and len(steps) < 60:
            steps.append(own.choices(after[steps[-1]], shares[steps[-1]])[0])
        return tuple(steps)

    return draw_variant


def similarity(
    name: str, log: EventLog, epsilon: float, runs: int, *, declared: bool = True
) -> float:
    """The mean over the runs; ``declared``: whether the labels are public. An empty release counts
    as 0.
    """
    source = histogram(log)
    facts = {"alphabet": tuple(sorted(set().union(*source)))} if declared else {}
    found = []
    for _ in range(runs):
        released = histogram(run_mechanism(name, log, epsilon=epsilon, delta=DELTA, **facts))
        found.append(relative_log_similarity(source, released) if released else 0.0)
    return float(np.mean(found))


def families(runs: int) -> None:
    """One line a family and epsilon."""
    for family, (draw_variant, cases) in FAMILIES.items():
        draw = random.Random(family)
        log = log_of([draw_variant(draw) for _ in range(cases)])
        for epsilon in (2.0, 1.0, 0.1):
            figures = (f"{name} {similarity(name, log, epsilon, runs):.3f}" for name in COMPARED)
            print(family, epsilon, *figures, flush=True)


def choice(logs: int) -> None:
    """The mean over random processes of each mechanism, and of the better of threshold and
    markov.
    """
    rows = []
    for seed in range(logs):
        draw = random.Random(1000 + seed)
        chosen = {0: structured, 1: unstructured}.get(seed % 8)
        draw_variant = chosen or random_process(draw)
        cases, epsilon = draw.choice([300, 1000, 1500, 3000]), draw.choice([0.1, 0.2, 0.5, 1, 2])
        log = log_of([draw_variant(draw) for _ in range(cases)])
        if len(histogram(log)) <= 2000:
            rows.append([similarity(name, log, epsilon, 2) for name in COMPARED])
    found = np.array(rows)
    print(
        *(f"{name} {mean:.3f}" for name, mean in zip(COMPARED, found.mean(axis=0), strict=True)),
        end=" ",
    )
    print(f"better of the first two {found[:, :2].max(axis=1).mean():.3f} ({len(rows)} logs)")


def accuracy(runs: int) -> None:
    """Every mechanism that is proved, at each signal, on both scenarios: with declared labels, and
    without.
    """
    logs = {name: scenario(name, CASES) for name in SCENARIOS}
    for declared, figures_of in ((True, "simulated"), (False, "undeclared")):
        print(figures_of)
        for mechanism, known in catalogue().items():
            if getattr(known, figures_of, None) is None:
                continue
            print(f'    "{mechanism}": (')
            for log in logs.values():
                figures = (at(mechanism, log, signal / CASES, runs, declared) for signal in SIGNAL)
                print(
                    f"        ({', '.join(format(round(figure, 2), 'g') for figure in figures)}),",
                    flush=True,
                )
            print("    ),", flush=True)


def at(mechanism: str, log: EventLog, epsilon: float, runs: int, declared: bool) -> float:
    """0 where the mechanism refuses."""
    try:
        return similarity(mechanism, log, epsilon, runs, declared=declared)
    except MechanismError:
        return 0.0


if __name__ == "__main__":
    command, number = sys.argv[1], int(sys.argv[2])
    {"families": families, "choice": choice, "accuracy": accuracy}[command](number)
