"""One log of one table, in a process of its own: a line of JSON for each figure, as it comes.

    python -m benchmarks.papers.measuring '{"table": "pretsa-5", "log": "CoSeLog", "runs": 1,
                                            "parameters": [{"algorithm": "PRETSA", "k": 4}]}'

``ours`` is our form of the paper's mechanism with the paper's parameters, ``ours_by_choice`` what
the planner takes by itself for the same guarantee, from declared facts (here read off the log, as
in ``benchmarks/variants``). Figures are medians, ``spread`` the least and the most of the runs.
"""

import itertools
import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from benchmarks.generative.cell import OPTIONS as NETWORKS
from benchmarks.generative.cell import UNIFORM
from benchmarks.generative.cell import uniform as drawn_uniformly
from benchmarks.papers.tables import Row, read_table
from benchmarks.variants.cell import declared as cell_facts
from cloakwork.accounting.events import cost
from cloakwork.base.costs import DiscreteLaplace, PoissonSampled, Repeated
from cloakwork.base.facts import Facts
from cloakwork.engines.memory import MemoryEngine
from cloakwork.errors import CloakworkError
from cloakwork.evaluation.control_flow import (
    absolute_log_difference,
    directly_follows,
    distances_of_steps,
    histogram,
    ordinary_cases,
    published_figures,
    relative_log_similarity,
    true_variants,
)
from cloakwork.evaluation.discovery import evaluate_in_subprocess
from cloakwork.evaluation.utility import MOST_PAIRS
from cloakwork.guarantees import ConfidenceBound, KAnonymity
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.log.formats import read_log
from cloakwork.mechanisms.registry import catalogue
from cloakwork.noise import reproducible, secret
from cloakwork.plan.budget import largest_delta
from cloakwork.plan.planner import make_plan
from cloakwork.policy.model import Policy
from cloakwork.run.run import Run
from cloakwork.testing import prepare
from cloakwork_extras.libra import published_epsilon

MINING = 300.0
"""Seconds that mining and trying a process model may take."""

MINED = {"F-score": "f_score"} | {name: name for name in ("fitness", "precision", "generalisation")}
OF_PAIRS = ("relative log similarity", "absolute log difference")
"""Measures that compare every two variants: none of a release that has too many, or none."""

NOT_MINED = "why no model was mined"
"""Beside the figures of a run, where mining or trying its model failed or took too long."""

ALGORITHMS = {"PRETSA": "kanon/pretsa", "BF-PRETSA": "kanon/best-first", "PRETSA*": "kanon/a-star"}
PURE = 1e-6
"""Delta of what the planner takes beside a paper that has none."""

NAMES = {
    "SaCoFa": "variants/sacofa-published",
    "SaCoFa, pruned by rules": "variants/sacofa-published",
    "Laplace tree": "variants/prefix-tree-published",
    "TraVaG": "variants/travag-published",
    "DDPM": "variants/ddpm-published",
}


@dataclass(frozen=True)
class Made:
    """One release: what is measured of it is asked for by name."""

    source: EventLog
    release: EventLog
    seconds: float
    known: dict[str, float]
    """Figures that the mechanism knows itself."""

    times: bool = False
    """Whether the release has times of its own."""


Make = Callable[[], Made]


def figures(made: Made, wanted: list[str]) -> dict[str, Any]:
    """The figures that are wanted; None where this release has none."""
    sides = histogram(made.source), histogram(made.release)
    found: dict[str, Any] = {"seconds": made.seconds} | made.known
    if {*wanted} & MINED.keys() and sides[1]:
        try:
            mined = evaluate_in_subprocess(*sides, MINING).model_dump()
            found |= {name: mined[field] for name, field in MINED.items()}
        except CloakworkError as error:
            found[NOT_MINED] = f"{error}".splitlines()[0]
    if "ordinary cases" in wanted:
        found["ordinary cases"] = ordinary_cases(*sides)
    few = len(sides[0]) * len(sides[1]) <= MOST_PAIRS
    if "relative log similarity" in wanted and few and sides[1]:
        found["relative log similarity"] = relative_log_similarity(*sides)
    if "absolute log difference" in wanted and few:
        found["absolute log difference"] = absolute_log_difference(*sides)
    edges, frequencies = distances_of_steps(*map(directly_follows, sides))
    found |= {"EMD Freq": frequencies, "EMD Freq, edge by edge": edges}
    found |= {"retained variants": len(true_variants(*sides)), "cases": sum(sides[1].values())}
    printed = published_figures((made.source, made.release), sides)
    found |= {
        "modified traces": printed.modified_traces,
        "DF-representativeness": printed.df_representativeness,
        "attribute error": printed.cycle_time_error,
    }
    if made.times:
        found["EMD Time"] = printed.dfg_hours_distance_sorted
        found["EMD Time, edge by edge"] = printed.dfg_hours_distance
    return {name: found.get(name) for name in [*wanted, NOT_MINED]}


def repeated(make: Make, wanted: list[str], runs: int) -> tuple[list[dict[str, Any]], str]:
    """The figures of each run; and why there are none, or fewer."""
    found: list[dict[str, Any]] = []
    for _ in range(runs):
        try:
            made = make()
            found.append(figures(made, wanted) | {"seconds of a run": made.seconds})
        except CloakworkError as error:
            return found, str(error).splitlines()[0]
        except Exception as error:
            return found, f"{type(error).__name__}: {error}".splitlines()[0]
    return found, ""


def middle(runs: list[dict[str, Any]], name: str) -> tuple[float | None, list[float] | None]:
    """Median, and the least and the most, of the runs that have the figure."""
    values = [run[name] for run in runs if run.get(name) is not None]
    if not values:
        return None, None
    return round(float(np.median(values)), 4), [round(float(min(values)), 4), round(max(values), 4)]


def declared(log: EventLog) -> dict[str, Any]:
    """The facts that every mechanism is given, read off the log: public ones would be declared."""
    return cell_facts(log, histogram(log))


def by_mechanism(name: str, log: EventLog, options: dict[str, Any], **budget: float) -> Make:
    """Runs of one mechanism; its noise is found once."""
    prepared = prepare(name, options=options, **budget, **declared(log))

    def make() -> Made:
        begun = time.process_time()
        release = prepared.run(log)
        return Made(log, release, time.process_time() - begun, {})

    return make


def by_plan(log: EventLog, guarantees: list[dict[str, Any]], *, times: bool) -> Make:
    """Runs of what the planner takes by itself."""
    assume = declared(log) | {"alphabet": list(declared(log)["alphabet"])}
    rules = {ACTIVITY: {"role": "control-flow"}}
    if times:
        rules[TIMESTAMP] = {"role": "timestamp"}
        days = log.events[TIMESTAMP].drop_nulls().dt.date().cast(pl.String)
        window = {"start": f"{days.min()}T00:00:00Z", "end": f"{days.max()}T23:59:59Z"}
        assume |= {"window": window, "longest_gap": "365d"}
    spec = {"unit": "case", "attributes": rules | {"*": {"treatment": "drop"}}}
    header = dict.fromkeys(("name", "owner", "purpose", "dataset"), "papers")
    policy = Policy.model_validate(
        {
            "apiVersion": "cloakwork/v1",
            "kind": "PrivacyPolicy",
            "metadata": header | {"version": "1.0.0"},
            "spec": spec | {"guarantees": guarantees, "assume": assume},
        }
    )
    begun = time.process_time()
    plan = make_plan(policy)
    planning = time.process_time() - begun
    seeds = itertools.count(1)

    def make() -> Made:
        begun = time.process_time()
        # Drawn from seeds: no ledger is charged for a benchmark, and nothing is published.
        release = Run(plan=plan, noise=reproducible(next(seeds))).release(log, None).log
        return Made(log, release, planning + time.process_time() - begun, {}, times)

    return make


def k_anonymous(name: str, log: EventLog, k: int, scope: str) -> Make:
    """One algorithm of the family; how far the cases moved is its own figure."""
    mechanism = catalogue()[name]
    goal = KAnonymity.model_validate({"kind": "k-anonymity", "k": k, "scope": scope})
    offer = mechanism.offer(goal, Facts(), {})

    def make() -> Made:
        begun = time.process_time()
        summary = mechanism.step(offer.params, Facts()).summary.of(log)
        decision = mechanism.decide(offer.params, summary, secret())
        seconds = time.process_time() - begun
        rewrite = mechanism.rewrite(offer.params, decision, secret().stream())
        release = MemoryEngine().rewrite(log, rewrite)
        return Made(log, release, seconds, {"log distance": decision.internal["distance"]})

    return make


def suppressed(log: EventLog, k: int) -> float:
    """Events that TLKC leaves out, which is the edit distance of all cases from what they were."""
    longest = int(np.diff(log.offsets).max())
    goal = ConfidenceBound(kind="confidence-bound", L=longest, K=k)
    mechanism = catalogue()["kanon/tlkc"]
    offer = mechanism.offer(goal, Facts(), {})
    summary = mechanism.step(offer.params, Facts()).summary.of(log)
    kept = mechanism.decide(offer.params, summary, secret()).internal
    return float(kept["events"] - kept["events_kept"])


def over_tlkc(make: Make, log: EventLog, k: int) -> Make:
    """The ratio of TLKC's log distance to that of ``make``."""

    def ratio() -> Made:
        made = make()
        known = {"log distance ratio": suppressed(log, k) / max(made.known["log distance"], 1)}
        return Made(made.source, made.release, made.seconds, known)

    return ratio


def characteristics(log: EventLog) -> Make:
    """What table 4 says of a log."""
    counts = list(histogram(log).values())
    known: dict[str, float] = {
        "traces": sum(counts),
        "activities": len(declared(log)["alphabet"]),
        "variants": len(counts),
        "traces per variant": round(sum(counts) / len(counts), 1),
        "most traces of a variant": max(counts),
    }
    return lambda: Made(log, log, 0.0, known)


def uniform(log: EventLog) -> Make:
    """As many cases, each of any of the log's variants: all that a leaked domain gives away."""
    source = histogram(log)

    def make() -> Made:
        begun = time.process_time()
        drawn = drawn_uniformly(source)
        labels = [variant for variant, count in drawn.items() for _ in range(count)]
        cases = len(labels)
        events = pl.DataFrame({ACTIVITY: [label for each in labels for label in each]})
        ids = pl.DataFrame({CASE_ID: [f"{case}" for case in range(cases)]})
        of_case = np.repeat(np.arange(cases), [len(each) for each in labels])
        release = EventLog.build(events, ids, of_case)
        return Made(log, release, time.process_time() - begun, {})

    return make


def libra_noise(given: dict[str, Any]) -> dict[str, Any]:
    """Libra's noise: what it draws has the scale 1/epsilon, epsilon being the Renyi divergence of
    order alpha of Laplace(b) (equation 2 and algorithm 1), not b.
    """
    order, b = given["alpha"], given["b"]
    larger = order / (2 * order - 1) * math.exp((order - 1) / b)
    smaller = (order - 1) / (2 * order - 1) * math.exp(-order / b)
    scale = (order - 1) / math.log(larger + smaller)
    return {"scale": scale, "rate": given["rate"], "alpha": order}


def printed_by(scale: float, rate: float, alpha: int) -> float:
    """The figure by which our form of Libra is asked for noise of this scale."""
    return published_epsilon(scale, rate, alpha, round(1 / rate)) * (1 + 1e-9)


def accounted(scale: float, rate: float, delta: float, events: int) -> float:
    """The epsilon that Libra costs a case of so many events: in each of the 1/rate samples the case
    moves an edge and a time for every event, of which its accounting counts one. What it clips
    without noise is not in it, and has no bound.
    """
    noisy = DiscreteLaplace(scale=scale, sensitivity=2 * events)
    sample = PoissonSampled(rate=rate, event=noisy)
    return float(cost(Repeated(times=round(1 / rate), event=sample), delta).epsilon)


def makers(table: str, name: str, log: EventLog, given: dict[str, Any]) -> tuple[Any, Any, str]:
    """Ours, ours by choice (functions that return a ``Make``; None where there is nothing), and
    what is to be said of it.
    """
    if table == "pretsa-4":
        return partial(characteristics, log), None, ""
    if table in ("pretsa-5", "pretsa-6"):
        algorithm = ALGORITHMS[given.get("algorithm", "BF-PRETSA")]
        ours = partial(k_anonymous, algorithm, log, given["k"], "prefixes")
        # What the planner takes for k-anonymity by itself.
        choice = partial(k_anonymous, "kanon/optimal", log, given["k"], "variants")
        if table == "pretsa-5":
            return ours, choice, ""
        return (
            lambda: over_tlkc(ours(), log, given["k"]),
            lambda: over_tlkc(choice(), log, given["k"]),
            "",
        )
    # Papers ask for a larger delta than a policy may.
    asked = given.get("delta", PURE)
    delta = min(asked, largest_delta(declared(log)["units_at_most"]))
    goal = {"kind": "differential-privacy", "epsilon": given["epsilon"], "delta": delta}
    lowered = f"ours_by_choice: delta {delta:.2g}, the most that a policy may ask"
    if "delta" not in given:
        lowered = f"ours_by_choice: with delta {delta:g}, without which it takes nothing by itself"
    lowered = "" if delta == asked and "delta" in given else lowered
    if table in ("libra-2", "libra-3"):
        options = {"rate": given["rate"], "alpha": given["alpha"]}
        budget = {"epsilon": printed_by(**libra_noise(given)), "delta": given["delta"]}
        ours = partial(by_mechanism, "variants/libra-published", log, options, **budget)
        over = goal | {"over": ["control-flow", "timestamps"]}
        said = "; ".join(["ours: it releases no times", *filter(None, [lowered])])
        return ours, partial(by_plan, log, [over], times=True), said
    over = goal | {"over": ["control-flow"]}
    choice = partial(by_plan, log, [over], times=False)
    if given["mechanism"] == UNIFORM:
        return partial(uniform, log), None, "the uniform draw has no epsilon"
    budget = {"epsilon": given["epsilon"], "delta": given.get("delta", PURE)}
    mechanism = NAMES[given["mechanism"]]
    options = NETWORKS.get((mechanism, file_of(table, name)), {})
    if table == "sacofa":
        options = {"length": given["N"], "threshold": given["P"]}
        if given["mechanism"] != "Laplace tree":
            options["harmless_threshold"] = given.get("harmless", given["P"])
    ours = partial(by_mechanism, mechanism, log, options, **budget)
    return ours, choice, lowered


def file_of(table: str, name: str) -> str | None:
    """The file of a log that a paper calls so."""
    return read_table(table).logs.get(name, {}).get("file")


def with_real_costs(table: str, log: EventLog, given: dict[str, Any]) -> list[dict[str, Any]]:
    """The parameters, and of Libra a second time with the epsilon that its accounting costs a case
    of the log's median length.
    """
    if table != "libra-2":
        return [given]
    events = int(np.median(np.diff(log.offsets)))
    real = accounted(libra_noise(given)["scale"], given["rate"], given["delta"], events)
    return [given, given | {"claimed": given["epsilon"], "epsilon": round(real, 2)}]


def measured(
    table: str, name: str, log: EventLog, given: dict[str, Any], wanted: list[str], runs: int
) -> Any:
    """The figures of one log with one set of parameters: one row each."""
    ours, choice, said = makers(table, name, log, given)
    sides = {}
    notes = [said] if said else []
    for side, prepared in (("ours", ours), ("ours_by_choice", choice)):
        found: list[dict[str, Any]] = []
        if prepared is not None:
            try:
                found, reason = repeated(prepared(), wanted, runs)
            except Exception as error:
                reason = f"{error}".splitlines()[0]
            notes += [f"{side}: {reason}"] * bool(reason)
        sides[side] = found
    for measure in wanted:
        row = {"log": name, "parameters": given, "measure": measure}
        missing = []
        for side, found in sides.items():
            tail = side.removeprefix("ours")
            row[side], row[f"spread{tail}"] = middle(found, measure)
            if found and row[side] is None and measure in OF_PAIRS:
                missing.append(f"{side}: the release has no case, or too many variants to compare")
            if measure in MINED:
                missing += sorted({f"{side}: {run[NOT_MINED]}" for run in found if run[NOT_MINED]})
            seconds, _ = middle(found, "seconds of a run")
            row[f"seconds{tail}"] = None if seconds is None else round(seconds, 3)
            row[f"runs{tail}"] = len(found)
        yield row | {"note": "; ".join([*notes, *missing])}


def wanted_of(table: str, rows: list[Row]) -> list[str]:
    """The measures of these rows; where a published one ignores which edge is which, also that
    which does not.
    """
    measures = list(dict.fromkeys(row.measure for row in rows))
    if table == "libra-2":
        measures += [f"{measure}, edge by edge" for measure in measures]
    return measures


def read(table: str, file: str) -> EventLog:
    """A real log, activities and times; of PRETSA's tables as its authors prepared it."""
    from benchmarks.kanon.cell import found, prepared

    if table.startswith("pretsa"):
        return prepared(file, filtered=True)
    path = found(file)
    if path is None:
        raise SystemExit(f"there is no {file}.xes.gz")
    return read_log(path, keep=lambda column: column in (ACTIVITY, TIMESTAMP))


def main(cell: dict[str, Any]) -> None:
    """One line a figure."""
    table = read_table(cell["table"])
    log = read(table.name, table.logs[cell["log"]]["file"])
    for stated in cell["parameters"]:
        rows = [r for r in table.rows if (r.log, r.parameters) == (cell["log"], stated)]
        for given in with_real_costs(table.name, log, stated):
            wanted = wanted_of(table.name, rows)
            for row in measured(table.name, cell["log"], log, given, wanted, cell["runs"]):
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
