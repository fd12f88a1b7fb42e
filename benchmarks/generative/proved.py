"""What the proved forms of variants/travag and variants/ddpm lose, part by part, and how long they
take.

    python benchmarks/generative/proved.py parts sepsis 2,1 5   # a log, epsilons, runs
    python benchmarks/generative/proved.py learning 5           # rates of learning, synthetic logs
    python benchmarks/generative/proved.py seconds bpic2012     # every variant of the log declared

``parts`` prints relative log similarity at delta 1e-4 (means of the runs, an empty release counts
0): of the exact counts of the variants that the selection finds (what the selection loses), of a
uniform draw over them, of their noisy counts (what the noise on them loses besides), and of the
trained networks (what training adds or loses); beside them variants/threshold and variants/adaptive
with the whole budget. ``seconds`` prints the time and the memory of one run.
"""

import random
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from cloakwork.evaluation.control_flow import Histogram, histogram, relative_log_similarity
from cloakwork.log.eventlog import ACTIVITY, TIMESTAMP, EventLog
from cloakwork.log.formats import read_log
from cloakwork.mechanisms.registry import catalogue
from cloakwork.testing import Prepared, prepare

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "variants"))
from synthetic import FAMILIES, log_of

LOGS = Path(__file__).resolve().parents[3] / "shared" / "logs"
DELTA = 1e-4
NAMES = ("variants/travag", "variants/ddpm")
RATES = (1e-9, 0.002, 0.01, 0.03, 0.1, 0.2)
"""The first one leaves the networks as they begin."""

CASES = 1000
"""Cases of the synthetic logs."""


def read(name: str) -> EventLog:
    """A real log, its activities and times only."""
    return read_log(LOGS / f"{name}.xes.gz", keep=lambda column: column in (ACTIVITY, TIMESTAMP))


def units(log: EventLog) -> int:
    """The cases, rounded up to two digits: what is declared."""
    unit = 10 ** max(0, len(str(log.cases.height)) - 2)
    return -(-log.cases.height // unit) * unit


def drawing(prepared: Prepared, log: EventLog) -> Callable[[], Histogram]:
    """What makes one release."""
    return lambda: histogram(prepared.run(log))


def mean(draw: Callable[[], Histogram], source: Histogram, runs: int) -> str:
    """The mean and the deviation over the runs."""
    found = []
    for _ in range(runs):
        release = draw()
        found.append(relative_log_similarity(source, release) if release else 0.0)
    return f"{np.mean(found):.3f} +-{np.std(found):.3f}"


def of_selection(
    budget: dict[str, float], log: EventLog, source: Histogram
) -> dict[str, Callable[[], Histogram]]:
    """What the selection alone gives, by what becomes of the counts."""
    params = prepare("variants/travag", **budget).params.selection
    selected = drawing(prepare("variants/threshold", **params.model_dump()), log)
    return {
        "exact counts of the selected": lambda: {each: source[each] for each in selected()},
        "uniform over the selected": lambda: dict.fromkeys(selected(), 1),
        "noisy counts of the selected": selected,
    }


def parts(name: str, epsilons: str, runs: int) -> None:
    """One line a part."""
    log = read(name)
    source = histogram(log)
    for epsilon in map(float, epsilons.split(",")):
        budget = {"epsilon": epsilon, "delta": DELTA, "units_at_most": units(log)}
        for other in ("variants/threshold", "variants/adaptive"):
            prepared = prepare(other, **budget)
            shown = mean(drawing(prepared, log), source, runs)
            print(name, epsilon, other, shown, flush=True)
        for part, draw in of_selection(budget, log, source).items():
            print(name, epsilon, part, mean(draw, source, runs), flush=True)
        for network in NAMES:
            prepared = prepare(network, **budget)
            shown = mean(drawing(prepared, log), source, runs)
            print(name, epsilon, network, shown, flush=True)


def learning(runs: int) -> None:
    """Each rate of learning on two synthetic logs, of selected and of declared variants (those of
    the log, and of another one like it).
    """
    for family in ("usual", "few"):
        draw = random.Random(family)
        drawn = [[FAMILIES[family][0](draw) for _ in range(CASES)] for _ in range(2)]
        log, source = log_of(drawn[0]), histogram(log_of(drawn[0]))
        domain = sorted({*drawn[0], *drawn[1]})
        for name in NAMES:
            for options in ({}, {"domain": domain}):
                budget = {"epsilon": 1.0, "delta": DELTA, "units_at_most": CASES}
                prepared = prepare(name, options=options, **budget)
                for rate in RATES:
                    params = prepared.params.model_copy(update={"learning_rate": rate})
                    changed = replace(prepared, params=params)
                    shown = mean(drawing(changed, log), source, runs)
                    kind = "declared" if options else "selected"
                    print(family, name, kind, f"{rate:g}", shown, flush=True)


def seconds(name: str) -> None:
    """One run of each, every variant of the log declared."""
    log = read(name)
    source = histogram(log)
    facts = {"units_at_most": units(log)}
    options = {"domain": sorted(source)}
    for network in NAMES:
        prepared = prepare(network, epsilon=1.0, delta=DELTA, options=options, **facts)
        predicted = catalogue()[network].training_seconds(prepared.params, prepared.facts, "cpu")
        begun, used = time.perf_counter(), time.process_time()
        release = histogram(prepared.run(log))
        clock, processor = time.perf_counter() - begun, time.process_time() - used
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{name}: {log.cases.height:,} cases, {len(source):,} variants, {network}: "
            f"{clock:.0f} s by the clock, {processor:.0f} s of the processor, predicted "
            f"{predicted:.0f} s; {memory:.0f} MiB with the log; {len(release):,} variants released",
            flush=True,
        )


if __name__ == "__main__":
    command, arguments = sys.argv[1], sys.argv[2:]
    if command == "parts":
        parts(arguments[0], arguments[1], int(arguments[2]))
    elif command == "learning":
        learning(int(arguments[0]))
    else:
        seconds(arguments[0])
