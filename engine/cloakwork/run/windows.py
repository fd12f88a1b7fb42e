"""The cases of one window of a growing log: row work, before anything else is done with them."""

from datetime import datetime, timedelta
from typing import Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Ints
from cloakwork.base.errors import MechanismError
from cloakwork.base.facts import UNIX_EPOCH, Facts
from cloakwork.engines.base import Engine
from cloakwork.ledger.ledger import Reservation
from cloakwork.log.eventlog import CASE_ID, TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.log.handle import LogHandle
from cloakwork.plan.windows import charged_window
from cloakwork.policy.model import Policy
from cloakwork.run.all_cases import HashedIds

_NEVER: Final = np.iinfo(np.int64).max


def in_window(log: EventLog, policy: Policy, facts: Facts) -> EventLog:
    """The cases whose first time lies in the window of ``facts``; the log as it is without one.

    A case without any time lies in no window. Where a case is to be known again by its id, one
    without an id is left out. Each case stays or goes by its own data alone.
    """
    windows = policy.spec.budget.windows
    if windows is None or facts.release_window is None:
        return log
    first, after = windows.span(facts.release_window)
    starts = _starts(log, policy.attribute_with("timestamp") or TIMESTAMP)
    stays = (starts >= _microseconds(first)) & (starts < _microseconds(after))
    if charged_window(facts) is not None:
        stays &= log.cases[CASE_ID].is_not_null().to_numpy()
    return log.keep_cases(np.flatnonzero(stays))


def own_cases(
    log: LogHandle, facts: Facts, reservation: Reservation | None, engine: Engine
) -> tuple[LogHandle, tuple[str, ...]]:
    """The cases of a log of one window that the ledger has in no other window, now recorded with
    this one; and a note for the internal report.

    All of them, where the window has no account of its own, or nothing is charged.
    """
    if reservation is None or charged_window(facts) is None:
        return log, ()
    hashing = HashedIds(reservation.ledger.case_id_key())
    hashes = frozenset(engine.summarise(log, hashing)["hash"].drop_nulls().to_list())
    elsewhere = reservation.ledger.record_hashes(reservation, hashes)
    note = (
        f"{log.case_count:,} cases of the log start in window {facts.release_window}; "
        f"{len(elsewhere):,} of them were left out, as they were released with another window"
    )
    if not elsewhere:
        return log, (note,)

    def own(batch: EventLog) -> EventLog:
        stays = [each not in elsewhere for each in hashing.hashes(batch)]
        return batch.keep_cases(np.flatnonzero(stays))

    return engine.choose_cases(log, own), (note,)


def require_times(values: pl.Series, name: str) -> None:
    """Refuse a column without times where the policy says that it holds them."""
    if not (values.dtype.is_temporal() or values.dtype == pl.Null):
        raise MechanismError(
            "input",
            f"'{name}' has the role timestamp and does not hold times; "
            "correct the policy or the log",
        )


def _starts(log: EventLog, timestamp: str) -> Ints:
    """The first time of each case in microseconds, ``_NEVER`` where it has none."""
    starts = np.full(log.cases.height, _NEVER, np.int64)
    if timestamp in log.events.columns:
        require_times(log.events[timestamp], timestamp)
        times = log.events[timestamp].cast(TIME_TYPE).to_physical().fill_null(_NEVER).to_numpy()
        np.minimum.at(starts, log.case_of, times)
    return starts


def _microseconds(moment: datetime) -> int:
    return (moment - UNIX_EPOCH) // timedelta(microseconds=1)
