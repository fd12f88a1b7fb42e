"""A directly-follows graph under differential privacy, as a table."""

from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.engines.measured import measured_of
from cloakwork.evaluation.one_mechanism import run_step
from cloakwork.kernel import Books, Kernel
from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.aggregates import VariantCounts
from cloakwork.mechanisms.bound import BoundParams
from cloakwork.mechanisms.registry import catalogue
from cloakwork.noise import Noise, secret
from cloakwork_extras.dfg import DirectlyFollows

GRAPH_SCHEMA: Final = pl.Schema(
    [("source", pl.String()), ("target", pl.String()), ("count", pl.Int64())]
)
"""Of a directly-follows graph as a table."""


def directly_follows_graph(
    log: EventLog,
    epsilon: float,
    alphabet: tuple[str, ...],
    most_steps: int,
    *,
    unit_attribute: str | None = None,
    max_cases: int = 1,
    noise: Noise | None = None,
) -> pl.DataFrame:
    """The noisy counts of dfg/laplace as a table: epsilon-DP for units of at most ``max_cases``
    cases.

    One row a pair of labels of the public ``alphabet``: ``source`` (null: the case begins),
    ``target`` (null: it ends) and ``count`` (may be negative). Each case counts for at most
    ``most_steps`` of its steps. Not a release: no policy names it, and no ledger records it. Raises
    MechanismError where the arguments allow no noise.

    >>> directly_follows_graph(EventLog.empty(), 1.0, ("a", "b"), 4).columns
    ['source', 'target', 'count']
    """
    source = noise or secret()
    graph = DirectlyFollows.for_epsilon(epsilon, alphabet, most_steps, max_cases)
    bounds = BoundParams(attribute=unit_attribute, max_cases=max_cases, alphabet=graph.alphabet)
    # Cases are bounded before anything is counted, so that a unit has no more than was said.
    bounded = run_step(catalogue()["bound"], bounds, log, source)
    seen = measured_of(VariantCounts().of(bounded), source)
    noisy = graph.measure(Kernel(seen, Books.of(graph.event), source, max_cases))
    return _table_of_graph(noisy, graph.alphabet)


def _table_of_graph(counts: Ints, alphabet: tuple[str, ...]) -> pl.DataFrame:
    """One row a pair, of counts as ``DirectlyFollows.measure`` has them."""
    side = len(alphabet) + 1
    source, column = np.divmod(np.arange(side * side), side)
    # Place 0 is START as a source and, one turn further, END as a target.
    labels = pl.Series([None, *alphabet], dtype=pl.String)
    frame = pl.DataFrame(
        {
            "source": labels.gather(source),
            "target": labels.gather((column + 1) % side),
            "count": counts.ravel(),
        },
        GRAPH_SCHEMA,
    )
    # No case goes from START to END at once.
    return frame.filter(pl.any_horizontal(pl.col("source", "target").is_not_null()))
