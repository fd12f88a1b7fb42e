"""One cell of the benchmark, in a process of its own: one algorithm on one log at one k; prints one
line of JSON.

    python benchmarks/kanon/cell.py '{"log": "receipt", "filtered": true, "scope": "variants", "k":
    4, ...}'

Reading the log is not part of the time; coding the variants, distances and solving are.
"""

import json
import os
import resource
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from cloakwork.base.facts import Facts
from cloakwork.engines.memory import MemoryEngine
from cloakwork.evaluation.control_flow import directly_follows, histogram, published_figures
from cloakwork.guarantees import KAnonymity
from cloakwork.log.eventlog import ACTIVITY, TIMESTAMP, EventLog
from cloakwork.log.formats import read_log
from cloakwork.log.variants import variants_of
from cloakwork.mechanisms.base import Offer
from cloakwork.mechanisms.bound import BoundContributions, BoundParams
from cloakwork.mechanisms.registry import catalogue
from cloakwork.mechanisms.steps import Decision
from cloakwork.noise import secret

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "logs"
FOLDERS = [BESIDE, *map(Path, os.environ.get("CLOAKWORK_LOGS", "").split(os.pathsep))]
"""Where logs are looked for: beside this checkout, then in the folders that ``CLOAKWORK_LOGS``
names.
"""
LIFECYCLE = "lifecycle:transition"
JOINED = ("bpic2013_closed_problems",)
"""Logs whose events are told apart by activity and lifecycle together, as in the paper."""


def found(name: str) -> Path | None:
    """The file of a log, where there is one."""
    return next((file for folder in FOLDERS if (file := folder / f"{name}.xes.gz").is_file()), None)


def prepared(name: str, filtered: bool) -> EventLog:
    """The log without empty cases and, as the paper does, without variants that occur once."""
    file, joined = found(name), name in JOINED
    if file is None:
        raise SystemExit(f"there is no {name}.xes.gz; name its folder in CLOAKWORK_LOGS")
    log = read_log(file, keep=lambda column: column in (ACTIVITY, TIMESTAMP, *[LIFECYCLE] * joined))
    if joined:
        log = replace(
            log,
            events=log.events.with_columns(
                pl.concat_str(ACTIVITY, LIFECYCLE, separator="/").alias(ACTIVITY)
            ),
        )
    bound = BoundContributions()
    rewrite = bound.rewrite(BoundParams(), Decision(pl.DataFrame()), secret().stream())
    log = MemoryEngine().rewrite(log, rewrite)
    if not filtered:
        return log
    variants = variants_of(log)
    return log.keep_cases(np.flatnonzero(variants.counts[variants.of_case] > 1))


def run(cell: dict[str, Any]) -> dict[str, Any]:
    """Distance, proved bound, seconds, memory, and what is left of the log's behaviour."""
    log, mechanism = prepared(cell["log"], cell["filtered"]), catalogue()[cell["algorithm"]]
    goal = KAnonymity(kind="k-anonymity", k=cell["k"], scope=cell["scope"])
    offer = mechanism.offer(goal, Facts(), cell["options"])
    if not isinstance(offer, Offer):
        return {"refused": offer.reason}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.perf_counter()
    summary = mechanism.step(offer.params, Facts()).summary.of(log)
    decision = mechanism.decide(offer.params, summary, secret())
    seconds = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rewrite = mechanism.rewrite(offer.params, decision, secret().stream())
    released = MemoryEngine().rewrite(log, rewrite)
    figures = decision.internal
    return {
        "distance": figures["distance"],
        "bound": figures.get("bound"),
        "gap": figures.get("gap"),
        "stopped": figures["stopped"],
        "cases_modified": figures["cases_moved"],
        "variants": figures["variants_after"],
        "of_variants": figures["variants_before"],
        "seconds": round(seconds, 3),
        "peak_mb": round(peak / 1024),
        "of_which_solving_mb": round((peak - before) / 1024),
        **kept(log, released),
    }


def kept(log: EventLog, released: EventLog) -> dict[str, float | None]:
    """How the directly-follows steps of ``log`` are represented, the share of them that are
    ``lost``, and the error of mean cycle times.
    """
    variants = histogram(log), histogram(released)
    before, after = (directly_follows(side) for side in variants)
    found = published_figures((log, released), variants)
    return {
        "representative": found.df_representativeness,
        "lost": round(1 - len(before.keys() & after.keys()) / max(len(before), 1), 4),
        "cycle_time_error": found.cycle_time_error,
    }


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))))
