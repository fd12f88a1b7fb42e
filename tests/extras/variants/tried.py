"""A mechanism of variants as tests of the extras try it: what it answers, offers and releases."""

from dataclasses import dataclass
from typing import Any

import polars as pl

from cloakwork.base.facts import Facts
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.mechanisms.aggregates import VARIANT_COUNTS_SCHEMA
from cloakwork.mechanisms.base import Offer, Refusal
from cloakwork.noise import secret
from measuring import release

FACTS = Facts(alphabet=("a", "b", "c"), longest_case=4)
PLENTY = {"epsilon": 2_000.0, "delta": 0.0}
"""A budget at which no noise is drawn but for e**-128: its scale is 1/128."""

ROWS_OF_ODD_LOGS = [
    {},
    {("a",): 1},
    {("z",): 3},
    {(): 4},
    {("a", "b", "c", "a", "b"): 1, ("b",): 1},
]


def histogram(rows):
    """Cases by variant, as a log's summary has them."""
    columns = {"variant": list(map(list, rows)), "cases": list(rows.values())}
    return pl.DataFrame(columns, schema=VARIANT_COUNTS_SCHEMA)


@dataclass
class Tried:
    """``asked``: its answer; ``offered``: its parameters; ``released``: cases by variant."""

    mechanism: Any

    def asked(self, facts=FACTS, epsilon=1.0, delta=1e-3, **options):
        # Unchecked: some tests ask for more than a policy may.
        goal = DifferentialPrivacy.model_construct(
            kind="differential-privacy",
            epsilon=epsilon,
            delta=delta,
            over=("control-flow",),
            neighbours="unbounded",
        )
        return self.mechanism.offer(goal, facts, options)

    def offered(self, facts=FACTS, epsilon=1.0, delta=1e-3, **options):
        answer = self.asked(facts, epsilon, delta, **options)
        assert isinstance(answer, Offer), answer
        return answer.params

    def refused(self, facts, delta, options, words):
        """That it refuses, in these words."""
        answer = self.asked(facts, delta=delta, **options)
        assert isinstance(answer, Refusal)
        assert words in answer.reason

    def released(self, rows, params, noise=None):
        table = release(self.mechanism, params, histogram(rows), noise or secret()).table
        return {tuple(variant): cases for variant, cases in table.rows()}

    def event(self, params, facts=FACTS):
        return self.mechanism.step(params, facts).event
