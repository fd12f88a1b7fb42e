"""Logs with attributes, and runs of the mechanisms that enrich."""

from dataclasses import replace

import numpy as np
import polars as pl

from cloakwork.base.facts import Facts, Unit
from cloakwork.base.naming import ACTIVITY
from cloakwork.evaluation.one_mechanism import run_step
from cloakwork.log.variants import log_of_variants
from cloakwork.mechanisms.attributes.histogram import AttributesHistogram
from cloakwork.mechanisms.base import PartOfGoal
from cloakwork.testing.contract_logs import log_of

MECHANISM = AttributesHistogram()
DOMAINS = {
    "role": ("nurse", "doctor", "clerk"),
    "urgent": (True, False),
    "case:age": (10, 20, 30),
    "score": (0.5, 1.5, 2.0),
}
RANGES = {"cost": (0.0, 1000.0), "case:weight": (-50.0, 50.0)}
FACTS = Facts(domains=DOMAINS, ranges=RANGES)
LONG, SHORT = ("register", "treat", "pay"), ("register", "pay")
COLUMNS = (*DOMAINS, *RANGES)


def ordinary(cases=300):
    """A log whose first events carry ``urgent``, whose payments cost something, and whose ``role``
    stays what it is through a case.
    """
    rows = [
        ("register", "treat", "pay") if row % 3 else ("register", "pay") for row in range(cases)
    ]
    log = log_of(rows)
    case, label = log.case_of, log.events[ACTIVITY].to_numpy()
    is_first, is_last = label == "register", label == "pay"
    random = np.random.default_rng(7)
    cost = np.exp(random.normal(4, 1, len(label)))
    events = {
        "role": [DOMAINS["role"][row % 2] for row in case.tolist()],
        "urgent": np.where(is_first, case % 4 == 0, None).tolist(),
        "cost": np.where(is_last, np.minimum(cost, 1000.0), None).tolist(),
        "score": random.choice([0.5, 1.5, 2.0], len(label)).tolist(),
    }
    of_cases = {
        "case:age": [(10, 20, 20, None)[row % 4] for row in range(cases)],
        "case:weight": (np.arange(cases) % 100 - 49.5).tolist(),
    }
    return replace(
        log,
        events=log.events.with_columns(**{k: pl.Series(v) for k, v in events.items()}),
        cases=log.cases.with_columns(**{k: pl.Series(v) for k, v in of_cases.items()}),
    )


def offered(mu=1.0, facts=FACTS, columns=COLUMNS, mechanism=MECHANISM, **options):
    return mechanism.offer_part(PartOfGoal(columns, mu, 0.0), facts, options)


def params_of(mu=1.0, max_cases=1, **more):
    return offered(mu, FACTS.model_copy(update={"unit": Unit(max_cases=max_cases)}), **more).params


def released_of(variants, times=None):
    return log_of_variants(variants, np.ones(len(variants), np.int64) if times is None else times)


def enriched(log, noise, mu=1.0, released=None, mechanism=MECHANISM):
    """What is made of ``log``, for cases of its own kind unless ``released`` says else."""
    if released is None:
        released = released_of(
            [("register", "treat", "pay"), ("register", "pay")], np.array([200, 100])
        )
    params = params_of(mu, mechanism=mechanism)
    return run_step(mechanism, params, log, noise, FACTS, released=released)
