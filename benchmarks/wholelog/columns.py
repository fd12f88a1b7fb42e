"""Columns of logs as the baselines read and write them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.random import Generator
from numpy.typing import NDArray

from cloakwork.base.facts import Facts
from cloakwork.evaluation.distances import bins_of, round_edges
from cloakwork.log.eventlog import CASE_PREFIX, TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.noise import reproducible
from cloakwork.policy.model import Policy
from cloakwork.testing import run_mechanism

SECOND = 1_000_000  # microseconds


def budget_of(policy: Policy) -> tuple[float, float]:
    """Epsilon and delta of the goal."""
    goal: Any = policy.spec.guarantees[0]
    return goal.epsilon, goal.delta


def columns_of(policy: Policy) -> list[str]:
    """The attributes of the goal."""
    over = policy.spec.guarantees[0].over
    return [name for name in over if name not in ("control-flow", "timestamps")]


def control_flow(log: EventLog, facts: Facts, epsilon: float, delta: float, seed: int) -> EventLog:
    """Cases without anything else, by ``variants/markov``."""
    return run_mechanism(
        "variants/markov",
        log,
        noise=reproducible(seed),
        epsilon=epsilon,
        delta=delta,
        alphabet=facts.alphabet,
        longest_case=facts.longest_case,
        units_at_most=facts.units_at_most,
    )


def stamps_of(log: EventLog) -> NDArray[np.int64]:
    """The times in microseconds since 1970."""
    return log.events[TIMESTAMP].dt.timestamp("us").to_numpy().astype(np.int64)


def with_times(log: EventLog, stamps: NDArray[np.int64]) -> EventLog:
    """The log with these times."""
    times = pl.Series(TIMESTAMP, stamps, pl.Int64).cast(TIME_TYPE)
    return replace(log, events=log.events.with_columns(times))


def with_values(log: EventLog, name: str, values: pl.Series) -> EventLog:
    """The log with one attribute more."""
    if name.startswith(CASE_PREFIX):
        return replace(log, cases=log.cases.with_columns(values.alias(name)))
    return replace(log, events=log.events.with_columns(values.alias(name)))


def following(log: EventLog) -> NDArray[np.int64]:
    """The events that are not the first of their case."""
    return np.flatnonzero(np.diff(log.case_of, prepend=-1) == 0)


def chained(log: EventLog, starts: NDArray[Any], gaps: NDArray[Any]) -> NDArray[np.int64]:
    """Times of events from the starts of their cases and the gaps between them (``following``)."""
    steps = np.zeros(log.events.height)
    steps[following(log)] = gaps
    sums = np.cumsum(steps)
    first = log.offsets[:-1]
    lengths = np.diff(log.offsets)
    within = sums - np.repeat(sums[np.minimum(first, max(len(sums) - 1, 0))], lengths)
    return np.asarray(np.repeat(starts, lengths) + within, np.int64)


def window_of(facts: Facts) -> tuple[float, float]:
    """The declared window in microseconds."""
    window = facts.window
    return window.start.timestamp() * SECOND, window.end.timestamp() * SECOND


def raw_values(log: EventLog, name: str) -> pl.Series:
    """The values of an attribute."""
    table = log.cases if name.startswith(CASE_PREFIX) else log.events
    return table.get_column(name).alias("")


@dataclass(frozen=True, slots=True)
class Coded:
    """An attribute as codes, -1 where it is missing: places in ``domain``, or bins of ``edges``."""

    codes: NDArray[np.int64]
    domain: pl.Series | None
    edges: NDArray[np.float64] | None

    @classmethod
    def of(cls, log: EventLog, facts: Facts, name: str) -> "Coded":
        """By the declared domain or range."""
        values = raw_values(log, name)
        if name in facts.ranges:
            numbers = values.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
            edges = round_edges(*facts.ranges[name])
            return cls(bins_of(numbers, edges), None, edges)
        domain = pl.Series(facts.domains[name])
        listed = {str(value): place for place, value in enumerate(domain.to_list())}
        codes = [listed.get(str(value), -1) for value in values.to_list()]
        return cls(np.array(codes, np.int64), domain, None)

    @property
    def size(self) -> int:
        """How many values there are beside the missing one."""
        if self.domain is not None:
            return len(self.domain)
        return len(self.edges if self.edges is not None else ()) - 1

    def values(self, codes: NDArray[np.int64], rng: Generator) -> pl.Series:
        """The values of codes; of a bin any number in it."""
        missing = pl.Series(codes < 0)
        if self.domain is not None:
            return self.domain.gather(np.maximum(codes, 0)).set(missing, None)
        low, high = (self.edges[np.maximum(codes, 0) + side] for side in (0, 1))
        return pl.Series(low + rng.random(len(codes)) * (high - low)).set(missing, None)
