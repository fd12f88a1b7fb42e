"""A rewrite in two passes is open to mechanisms of other packages, and is watched in both."""

from datetime import timedelta
from typing import Any

import polars as pl
import pytest

from cloakwork.engines.memory import MemoryEngine
from cloakwork.errors import MechanismError
from cloakwork.facts import Facts
from cloakwork.guarantees import MetricPrivacy
from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.base import Decision, MapCases, MapCasesBySummary, Offer, Searches
from cloakwork.mechanisms.kanon.pretsa import Pretsa
from cloakwork.mechanisms.third_party import Package, Watched
from cloakwork.mechanisms.timestamps.laplace import TimestampLaplace
from cloakwork.noise import reproducible
from cloakwork.testing.contract import BATCH_LOG, assert_same_log, random_batches

PACKAGE = Package("timestamps/laplace", "acme 1.0")
METRIC = MetricPrivacy(kind="metric-privacy", epsilon=1, shift=timedelta(hours=1))


class Broken(TimestampLaplace):
    """Fails in one pass, or returns what is no mapping."""

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def rewrite(self, params: Any, decision: Decision, stream: Any) -> Any:
        action = super().rewrite(params, decision, stream)
        assert isinstance(action, MapCasesBySummary)

        def fails(_: Any) -> Any:
            raise KeyError("a fault")

        class Failing:
            of = staticmethod(fails)
            merge = staticmethod(action.aggregate.merge)

        def with_another_column(log: EventLog) -> EventLog:
            return EventLog(log.events.with_columns(note=pl.lit("x")), log.cases, log.offsets)

        return {
            "first pass": MapCasesBySummary(Failing(), action.mapping),
            "mapping": MapCasesBySummary(action.aggregate, fails),
            "no mapping": MapCasesBySummary(action.aggregate, lambda table: table),
            "second pass": MapCasesBySummary(action.aggregate, lambda _: MapCases(fails)),
            "column": MapCasesBySummary(action.aggregate, lambda _: MapCases(with_another_column)),
        }[self.fault]


def run(mechanism: TimestampLaplace, batches: int = 1) -> EventLog:
    """The log of the contract after the mechanism, watched."""
    watched = Watched(mechanism, PACKAGE)
    offer = watched.offer(METRIC, Facts(), {})
    assert isinstance(offer, Offer)
    action = watched.rewrite(offer.params, Decision(pl.DataFrame()), reproducible(1).stream())
    return MemoryEngine(batches, random_batches(batches)).rewrite(BATCH_LOG, action)


def test_a_watched_mechanism_releases_the_same() -> None:
    """In one batch and in several."""
    assert_same_log(run(TimestampLaplace()), run(TimestampLaplace(), 4))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("first pass", "summarise failed: KeyError"),
        ("mapping", "rewrite failed: KeyError"),
        ("no mapping", "rewrite returned DataFrame, not MapCases"),
        ("second pass", "rewrite failed: KeyError"),
        ("column", "releases note, which its lineage does not write"),
    ],
)
def test_each_pass_is_watched(fault: str, said: str) -> None:
    """One line that names the package."""
    with pytest.raises(MechanismError, match=said) as caught:
        run(Broken(fault))
    assert "(package acme 1.0)" in str(caught.value)


def test_no_search_of_another_package_is_kept() -> None:
    """A watched mechanism does not search, even where the one behind it does."""
    assert isinstance(Pretsa(), Searches)
    assert not isinstance(Watched(Pretsa(), PACKAGE), Searches)
