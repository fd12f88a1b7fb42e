"""One method on one log at one epsilon, in a process of its own; prints a line of JSON a run.

    python benchmarks/wholelog/cell.py '{"method": "ours", "log": "sepsis", "epsilon": 2.0,
                                         "runs": 5, "seed": 1}'

``ours`` is what ``make_plan`` and ``execute`` make of the log's policy; the other methods are in
``baselines.py``. Noise is drawn from a seed, so that figures can be had again. Reading the log and
taking the figures are not part of the seconds; planning is, and is also given by itself. The peak
of memory is the process's up to the release, the log in it. Similarity is taken of as many runs as
``COMPARING`` seconds allow, one at least.
"""

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import baselines
import numpy as np
import yaml

from cloakwork.errors import CloakworkError
from cloakwork.evaluation.control_flow import Histogram, histogram, relative_log_similarity
from cloakwork.evaluation.utility import week_clock
from cloakwork.evaluation.whole_log import compare_whole_logs
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, CASE_PREFIX, TIMESTAMP, EventLog
from cloakwork.log.formats import read_log
from cloakwork.noise import reproducible
from cloakwork.plan.planner import make_plan
from cloakwork.policy.model import Policy
from cloakwork.run.run import Run

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[2] / "shared"
POLICIES = {
    "sepsis": SHARED / "contract" / "policies" / "whole-log-sepsis.yaml",
    "receipt": SHARED / "contract" / "policies" / "whole-log-receipt.yaml",
    "road_traffic_fines": SHARED / "contract" / "policies" / "whole-log-fines.yaml",
}
"""Where the policy of a log is; of others it lies beside this file."""

DELTAS = {
    "sepsis": 1e-5,
    "receipt": 1e-5,
    "bpic2020_domestic_declarations": 4.9e-6,
    "bpic2012": 4.9e-6,
    "bpic2012_a": 2.4e-6,
    "bpic2014_f": 9e-7,
    "road_traffic_fines": 4.9e-7,
}
VALUES = {
    "bpic2011_hospital": ("case:age",),
    "bpic2012_a": ("org:resource",),
    "bpic2013_incidents": ("impact", "org:role", "lifecycle:transition"),
    "bpic2013_open_problems": ("impact", "org:group", "lifecycle:transition"),
    "bpic2015_1": ("case:termName", "org:resource"),
    "bpic2015_5": ("case:termName", "org:resource"),
    "bpic2020_international_declarations": ("org:role", "case:Permit OrganizationalEntity"),
    "bpic2020_permit_log": ("org:role", "case:OrganizationalEntity"),
    "hospital_billing_10k_sample": ("casetype", "closecode"),
    "production": ("org:resource",),
}
"""The values that are released of logs without a policy of their own."""

MOST_VALUES = 20
"""Of a number that is a code; one with more has a range."""

COMPARING = 60.0
MOST_PAIRS = 60_000_000
"""Pairs of variants to compare; 26 million take half a minute and 2 GB."""


def policy_of(name: str) -> dict[str, Any]:
    """The policy of a log, as its file says it; of a log without one, what ``declared`` makes."""
    path = POLICIES.get(name, HERE / "policies" / f"{name}.yaml")
    if not path.is_file():
        return declared(name)
    return dict(yaml.safe_load(path.read_text("utf-8")))


def declared(name: str) -> dict[str, Any]:
    """A policy that says generously what whoever keeps the log knows of it: whole years, twice the
    cases, half as long again as the longest case, the activities, and the values of ``VALUES``.
    """
    log = read(name, list(VALUES.get(name, ())))
    years = log.events[TIMESTAMP].dt.year()
    longest = int(np.diff(log.offsets).max())
    attributes: dict[str, Any] = {
        CASE_PREFIX + ACTIVITY: {"role": "identifier"},
        ACTIVITY: {"role": "control-flow"},
        TIMESTAMP: {"role": "timestamp"},
    }
    for column in VALUES.get(name, ()):
        values = log.table_of(column)[column].drop_nulls()
        number = values.dtype.is_numeric() and values.n_unique() > MOST_VALUES
        known = {"range": [0, 1.2 * float(values.max())]} if number else {}
        attributes[column] = {"role": "sensitive"} | (
            known or {"domain": values.unique().sort().to_list()}
        )
    over = ["control-flow", "timestamps", *VALUES.get(name, ())]
    goal = {"kind": "differential-privacy", "epsilon": 2.0, "delta": 4.9e-6, "over": over}
    return {
        "apiVersion": "cloakwork/v1",
        "kind": "PrivacyPolicy",
        "metadata": {
            "name": f"whole-log-{name.replace('_', '-')}",
            "version": "1.0.0",
            "owner": "privacy@example.org",
            "purpose": "A benchmark",
            "dataset": name,
        },
        "spec": {
            "unit": "case",
            "attributes": attributes | {"*": {"treatment": "drop"}},
            "guarantees": [goal],
            "assume": {
                "units_at_most": 2 * log.case_count,
                "alphabet": sorted(set(log.activities.drop_nulls())),
                "longest_case": 5 + 3 * longest // 2,
                "longest_gap": "730d",
                "time_zone": "Europe/Amsterdam",
                "window": {
                    "start": f"{years.min()}-01-01T00:00:00Z",
                    "end": f"{years.max() + 1}-01-01T00:00:00Z",
                },
            },
            "output": {"format": "xes.gz"},
        },
    }


def asked(policy: dict[str, Any], name: str, epsilon: float) -> Policy:
    """The policy at another epsilon, with the largest delta that it may ask."""
    goal = policy["spec"]["guarantees"][0]
    goal["epsilon"], goal["delta"] = epsilon, DELTAS.get(name, goal["delta"])
    policy["spec"]["budget"] = {"total": {"epsilon": epsilon, "delta": goal["delta"]}}
    return Policy.model_validate(policy)


def attributes_of(policy: Policy) -> list[str]:
    """The attributes that the goal is over."""
    over = policy.spec.guarantees[0].over
    return [name for name in over if name not in ("control-flow", "timestamps")]


def read(name: str, attributes: list[str]) -> EventLog:
    """A real log: its activities, its times, and these attributes."""
    needed = {CASE_ID, ACTIVITY, TIMESTAMP, *attributes}
    path = next((SHARED / "logs").glob(f"{name}.*"))
    return read_log(path, keep=needed.__contains__)


def main(cell: dict[str, Any]) -> None:
    """One line a run, as soon as it is measured."""
    policy = asked(policy_of(cell["log"]), cell["log"], cell["epsilon"])
    log = read(cell["log"], attributes_of(policy))
    source, spent = histogram(log), 0.0
    for run in range(cell["runs"]):
        found, seconds = one_run(cell, policy, log, run, source, similar=spent < COMPARING)
        spent += seconds
        print(json.dumps(found), flush=True)
        if "refused" in found:
            return


def one_run(
    cell: dict[str, Any],
    policy: Policy,
    log: EventLog,
    run: int,
    source: Histogram,
    *,
    similar: bool,
) -> tuple[dict[str, Any], float]:
    """The figures of one run, and the seconds that its similarity took."""
    forget_peak()
    begun = time.perf_counter()
    try:
        before, release, figures = made(cell["method"], policy, log, cell["seed"] + run)
    except CloakworkError as error:
        return {"refused": str(error).splitlines()[0]}, 0.0
    except Exception as error:
        refused = f"{type(error).__name__}: {error}".splitlines()[0]
        return {"refused": refused, "failed": True}, 0.0
    figures |= {"seconds": round(time.perf_counter() - begun, 2), "mib": peak()}
    figures |= compared(policy, before, release)
    begun = time.perf_counter()
    if similar:
        whole = source if before is log else histogram(before)
        figures["rls"] = similarity(whole, histogram(release))
    return figures, time.perf_counter() - begun


def made(
    method: str, policy: Policy, log: EventLog, seed: int
) -> tuple[EventLog, EventLog, dict[str, Any]]:
    """What a release is compared with, the release, and what is known of the run."""
    if method != "ours":
        before, release = baselines.METHODS[method](log, policy, seed)
        return before, release, {}
    begun = time.perf_counter()
    plan = make_plan(policy)
    planned = time.perf_counter() - begun
    found = Run(plan=plan, noise=reproducible(seed)).release(log, None)
    paid = [claim.cost.epsilon for claim in plan.claims if claim.cost]
    steps = [step.mechanism for step in plan.steps]
    figures = {"plan_s": round(planned, 2), "paid_epsilon": max(paid), "steps": steps}
    return log, found.log, figures


def compared(policy: Policy, before: EventLog, release: EventLog) -> dict[str, Any]:
    """The measures of whole logs, under their short names, and what no release may have."""
    facts = policy.facts()
    clock = week_clock(facts)
    found = compare_whole_logs(
        before,
        release,
        attributes=attributes_of(policy),
        ranges=facts.ranges,
        clock=clock,
    )
    times = release.events[TIMESTAMP]
    inside = np.diff(release.case_of) == 0
    steps = np.diff(times.to_physical().fill_null(0).to_numpy())
    return {
        "dur": found.case_durations,
        "wait": found.waiting_times,
        "how": found.hours_of_week if clock.days_from is None else found.weekdays,
        "attr": found.attributes_per_activity,
        "attr0": found.attributes_over_all,
        "cattr": found.case_attributes,
        "tv2": found.two_way_tables,
        "num": found.numbers,
        "cases": release.cases.height,
        "events": release.events.height,
        "null_times": times.null_count(),
        "out_of_order": int((steps[inside] < 0).sum()),
        "each": {item.attribute: round(item.distance, 4) for item in found.attributes},
        "notes": list(found.notes),
    }


def similarity(source: Histogram, release: Histogram) -> float | None:
    """Relative log similarity; None above ``MOST_PAIRS``."""
    if len(source) * len(release) > MOST_PAIRS:
        return None
    return relative_log_similarity(source, release)


def forget_peak() -> None:
    """Let the process's peak of memory begin anew (Linux; elsewhere it is that of the process)."""
    switch = Path("/proc/self/clear_refs")
    if switch.exists():
        switch.write_text("5", "ascii")


def peak() -> int | None:
    """The peak of the process's memory in MiB; None where the system does not say."""
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s+(\d+)", status.read_text("ascii")) if status.exists() else None
    return int(found[1]) // 1024 if found else None


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
