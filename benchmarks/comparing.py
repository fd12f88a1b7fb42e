"""How near a stand-in comes to the log: what ``compare`` says beforehand of three real logs under
policies for the log as a whole, beside what releases of these logs kept.

    python benchmarks/comparing.py                 # declared facts alone
    python benchmarks/comparing.py --cases         # the number of cases is public, too
    python benchmarks/comparing.py --profile       # a DP profile at epsilon .1 was bought

Real figures are those of benchmarks/wholelog/results.json (``ours``), medians of five runs. Prints
predicted median, low and high beside the real figure, and the mean absolute error. A profile draws
from a seed here: nothing is released.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "wholelog"))

from cell import asked, policy_of, read  # noqa: E402 - beside this file

from cloakwork.engines.memory import MemoryEngine  # noqa: E402
from cloakwork.evaluation.compare import (  # noqa: E402
    FigureSpread,
    stand_in_logs,
    summary,
    tried_once,
)
from cloakwork.evaluation.stand_in import stand_in_facts  # noqa: E402
from cloakwork.mechanisms.bound import BoundContributions, BoundParams  # noqa: E402
from cloakwork.mechanisms.profile import Profile  # noqa: E402
from cloakwork.mechanisms.steps import Decision  # noqa: E402
from cloakwork.noise import reproducible  # noqa: E402
from cloakwork.plan.budget import profile_params  # noqa: E402
from cloakwork.plan.planner import make_plan  # noqa: E402
from cloakwork.policy.model import Policy, ProfileShare  # noqa: E402
from cloakwork.run.run import figures_of  # noqa: E402

LOGS = {"sepsis": 1050, "receipt": 1430, "bpic2020_domestic_declarations": 10500}
"""The logs, and how many cases each has."""

HELD_OUT = {"bpic2012": 13100}
"""A log that had no part in how processes are invented (--held-out)."""

EPSILONS = (0.5, 1.0, 2.0)
SHARE = 0.1


def profiled(policy: Policy, name: str) -> Profile:
    """A profile of the real log at epsilon ``SHARE``."""
    import polars as pl

    spec = policy.spec.model_copy(update={"profile": ProfileShare(epsilon=SHARE)})
    params, noise = profile_params(policy.model_copy(update={"spec": spec})), reproducible(1)
    facts = policy.facts()
    bounds = BoundParams(alphabet=facts.alphabet, longest_case=facts.longest_case)
    cut = BoundContributions().rewrite(bounds, Decision(pl.DataFrame()), noise.stream())
    figures = figures_of(params, MemoryEngine().rewrite(read(name, []), cut), noise)
    return Profile(
        engine="", dataset="", release="", ledger_entry="", params=params, figures=figures
    )


def real(name: str, epsilon: float) -> dict[str, float]:
    """What releases of the real log kept."""
    results = json.loads((HERE / "wholelog" / "results.json").read_text("utf-8"))
    runs = results[f"{name} {epsilon:g} ours"]
    names = {"similarity": "rls", "durations": "dur", "attributes": "attr"}
    return {
        ours: statistics.median(run[theirs] for run in runs if theirs in run)
        for ours, theirs in names.items()
    }


def shown(figure: FigureSpread | None) -> str:
    """Median and spread."""
    return "-" if figure is None else f"{figure.median:.2f} ({figure.low:.2f} to {figure.high:.2f})"


def main() -> None:
    """One line a log and epsilon."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--held-out", action="store_true")
    given = parser.parse_args()
    errors: dict[str, list[float]] = {}
    outside = 0.0
    logs = HELD_OUT if given.held_out else LOGS
    for name, cases in logs.items():
        policy = asked(policy_of(name), name, 1.0)
        profile = profiled(policy, name) if given.profile else None
        facts = stand_in_facts([policy], profile, cases if given.cases else None)
        invented = stand_in_logs(facts)
        for epsilon in EPSILONS:
            plan = make_plan(asked(policy_of(name), name, epsilon))
            runs = [tried_once(plan, log, seed)[2] for seed, log in enumerate(invented)]
            found, kept = summary(runs), real(name, epsilon)
            line = [name, f"{epsilon:g}"]
            for figure in ("similarity", "durations", "attributes"):
                predicted = getattr(found, figure)
                line.append(f"{figure} {shown(predicted)} real {kept[figure]:.2f}")
                errors.setdefault(figure, []).append(abs(predicted.median - kept[figure]))
            low, high = found.similarity.low, found.similarity.high
            outside = max(outside, low - kept["similarity"], kept["similarity"] - high)
            print(*line, sep="  ", flush=True)
    for figure, apart in errors.items():
        print(f"{figure}: off by {statistics.mean(apart):.2f} on average")
    print(f"similarity outside of the spread by {outside:.2f} at most")


if __name__ == "__main__":
    main()
