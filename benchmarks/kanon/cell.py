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
    log = (
        BoundContributions()
        .rewrite(BoundParams(), Decision(pl.DataFrame()), secret().stream())
        .apply(log)
    )
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
    released = mechanism.rewrite(offer.params, decision, secret().stream()).apply(log)
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
        **directly_follows(log, released),
        "cycle_time_error": cycle_time_error(log, released),
    }


def directly_follows(log: EventLog, released: EventLog) -> dict[str, float]:
    """How the directly-follows relations of ``log`` are represented (Knols and van der Werf, ICPM
    2019).

    A relation's ratio is its released count over its count. ``representative``: share of relations
    whose ratio lies within one standard deviation of the expected one (cases over cases); ``lost``:
    share of relations that are gone.
    """
    counts, after = _pairs(log), _pairs(released)
    ratios = np.array([after.get(pair, 0) / count for pair, count in counts.items()])
    expected, spread = released.cases.height / max(log.cases.height, 1), ratios.std()
    within = (np.abs(ratios - expected) <= spread) & (ratios > 0)
    return {
        "representative": round(float(within.mean()), 4),
        "lost": round(float((ratios == 0).mean()), 4),
    }


def _pairs(log: EventLog) -> dict[tuple[str, str], int]:
    case = log.case_of
    inside = pl.Series(case[1:] == case[:-1])
    frame = pl.DataFrame(
        {"from": log.events[ACTIVITY][:-1], "to": log.events[ACTIVITY][1:]}
    ).filter(inside)
    rows = frame.group_by("from", "to").agg(pl.len()).rows()
    return {(one, other): count for one, other, count in rows}


def cycle_time_error(log: EventLog, released: EventLog) -> float | None:
    """Mean over the activities of the relative error of the mean time since the event before;
    inserted events have none.

    None for a log without times.
    """
    before, after = _means(log), _means(released)
    errors = [
        abs(after[name] - mean) / mean
        for name, mean in before.items()
        if mean > 0 and after.get(name) is not None
    ]
    return round(float(np.mean(errors)), 4) if errors else None


def _means(log: EventLog) -> dict[str, float]:
    frame = pl.DataFrame(
        {"case": log.case_of, "name": log.events[ACTIVITY], "time": log.events[TIMESTAMP]}
    )
    known = frame.filter(pl.col("time").is_not_null()).with_columns(
        gap=(pl.col("time") - pl.col("time").shift(1).over("case")).dt.total_milliseconds()
    )
    means = known.group_by("name").agg(pl.col("gap").mean()).drop_nulls()
    return dict(means.rows())


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))))
