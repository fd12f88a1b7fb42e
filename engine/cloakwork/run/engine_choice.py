"""Which engine a log is worked on by, and what that engine opens."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from cloakwork.base.errors import CloakworkError
from cloakwork.base.progress import Reporter
from cloakwork.engines.base import Engine
from cloakwork.engines.executors import Executor, InThisProcess, Processes
from cloakwork.engines.memory import MemoryEngine
from cloakwork.log.eventlog import EventLog
from cloakwork.log.formats.row_source import RowSource
from cloakwork.log.limits import OnExcess
from cloakwork.mechanisms.registry import catalogue
from cloakwork.plan.model import Plan
from cloakwork.policy.model import Policy
from cloakwork.run.fitting import needs_all_cases
from cloakwork.run.reading import log_in_memory, read_under, rows_under

if TYPE_CHECKING:
    import pandas as pd

ENGINES: Final = ("memory", "local", "spark")
ALIASES: Final = {"polars": "memory"}

ENGINE_ENTRIES: Final = "cloakwork.engines"
"""The group under which a package registers an engine."""

IN_MEMORY: Final = 5_000_000
"""Events up to which a log is worked on in memory where nobody says otherwise: about 1 GB."""

SMALL_FILE: Final = 20_000_000
"""Bytes of a file, packed or not, that are fewer events than ``IN_MEMORY``."""

PROCESSES: Final = "CLOAKWORK_PROCESSES"
"""The environment's name for how many processes work on batches."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An engine, and what it opens. ``because``: why it was chosen, where nobody named it."""

    engine: Engine
    source: object
    because: str | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """How a log is read: arguments of ``read_under``."""

    columns: Mapping[str, str] | None
    keep: Callable[[str], bool] | None
    on_excess: OnExcess

    def log(self, policy: Policy, path: str | Path) -> EventLog:
        """The log at ``path``, read at once."""
        return read_under(
            policy, path, columns=self.columns, keep=self.keep, on_excess=self.on_excess
        )

    def rows(self, policy: Policy, path: str | Path) -> RowSource:
        """Its rows, to be read in little memory."""
        return rows_under(
            policy, path, columns=self.columns, keep=self.keep, on_excess=self.on_excess
        )


def choice_for(
    engine: str | Engine | None,
    log: object,
    plan: Plan,
    columns: dict[str, str] | None,
    keep: Callable[[str], bool],
    reporter: Reporter,
) -> Choice:
    """The engine, and what it opens of a log in memory, at a path or in a table; LogError for what
    is none of these. ``engine``: a name, or an engine of Spark.
    """
    if not isinstance(engine, str | None) or type(log).__module__.startswith("pyspark."):
        reading = Reading(columns, keep, on_excess_under(plan))
        return Choice(*registered_engine("spark").opened(engine, log, plan.policy, reading))
    if isinstance(log, EventLog):
        return _choice_in_memory(engine, log, plan.policy)
    if isinstance(log, str | Path):
        reporter(f"reading {log}")
        chosen = _choice_of_file(engine, log, plan, Reading(columns, keep, on_excess_under(plan)))
        _say_of_objects(plan, chosen.source, reporter)
        return chosen
    if type(log).__module__.partition(".")[0] == "pm4py":
        table = EventLog.from_pandas(cast("pd.DataFrame", log))
        return _choice_in_memory(engine, table, plan.policy)
    return _choice_in_memory(engine, log_in_memory(plan.policy, log, columns), plan.policy)


def _choice_of_file(name: str | None, path: str | Path, plan: Plan, reading: Reading) -> Choice:
    """Without a name ``memory``, or ``local`` for a log of more than ``IN_MEMORY`` events, unless a
    step of the plan needs all cases at once.
    """
    policy, named = plan.policy, engine_name(name)
    if named == "memory":
        return Choice(MemoryEngine(), reading.log(policy, path))
    if named not in (None, "local"):
        return Choice(*registered_engine(named).opened(named, path, policy, reading))
    rows = reading.rows(policy, path)
    if named == "local":
        return Choice(local_engine(), rows)
    events = _expected_events(rows, Path(path))
    if events <= IN_MEMORY or needs_all_cases(plan, catalogue()):
        return Choice(MemoryEngine(), reading.log(policy, path))
    because = f"about {events:,} events: worked on in batches on disk (engine local)"
    return Choice(local_engine(), rows, because)


class SparkTable(Protocol):
    """A DataFrame of Spark, by what tells it from others."""

    @property
    def sparkSession(self) -> Any: ...  # noqa: D102, N802 - Spark's name


class RegisteredEngine(Protocol):
    """An engine of a package, under the entry-point group ``cloakwork.engines``."""

    def opened(
        self, engine: object, log: object, policy: Policy, reading: Reading
    ) -> tuple[Engine, object]:
        """The engine, and what it opens of ``log``: an event log, a path, or what it alone reads.

        ``engine``: its name, None, or an engine that it made before.
        """
        ...


def registered_engine(name: str) -> RegisteredEngine:
    """The engine that a package registers as ``name``; CloakworkError where none does."""
    for entry in entry_points(group=ENGINE_ENTRIES, name=name):
        found: RegisteredEngine = entry.load()()
        return found
    raise CloakworkError(
        f"the engine '{name}' is not installed: no package registers it under {ENGINE_ENTRIES}"
    )


def _expected_events(rows: RowSource, path: Path) -> int:
    """About how many events a log has; 0 for a file that is small whatever it holds."""
    found = rows.expected_rows()
    files = path.iterdir() if path.is_dir() else (path,)
    if found or sum(file.stat().st_size for file in files) < SMALL_FILE:
        return found
    # What a text holds is known from its beginning; reading starts anew afterwards.
    chunks = rows.chunks()
    next(chunks, None)
    return rows.expected_rows()


def _say_of_objects(plan: Plan, log: object, reporter: Reporter) -> None:
    """What was made of an object-centric log."""
    options = plan.policy.spec.input
    if options is not None and options.object_type is not None and isinstance(log, EventLog):
        for note in log.notes:
            reporter(f"internal, never publish: {note}")


def on_excess_under(plan: Plan) -> OnExcess:
    """Under a claim that noise pays for, one case's value must not decide whether there is a
    release.
    """
    return "drop" if any(claim.cost is not None for claim in plan.claims) else "refuse"


def _choice_in_memory(name: str | None, log: EventLog, policy: Policy) -> Choice:
    """The engine called ``name`` with a log in memory; by default ``memory``."""
    named = engine_name(name) or "memory"
    if named == "memory":
        return Choice(MemoryEngine(), log)
    if named == "local":
        return Choice(local_engine(), log)
    reading = Reading(None, None, "refuse")
    return Choice(*registered_engine(named).opened(named, log, policy, reading))


def engine_name(name: str | None) -> str | None:
    """The name of an engine, of which it may be another; CloakworkError for one that is none."""
    named = ALIASES.get(name, name) if name is not None else None
    if named is not None and named not in ENGINES:
        raise CloakworkError(f"there is no engine '{name}'; there are {', '.join(ENGINES)}")
    return named


def local_engine() -> Engine:
    """The engine ``local``, with as many processes as ``CLOAKWORK_PROCESSES`` says; one by
    default.
    """
    from cloakwork.engines.local import LocalEngine

    return LocalEngine(executor=_executor())


def _executor() -> Executor:
    text = os.environ.get(PROCESSES, "1")
    if not text.isdecimal() or not 1 <= int(text) <= 256:
        raise CloakworkError(f"{PROCESSES}: must be a number from 1 to 256 (got {text!a})")
    return InThisProcess() if int(text) == 1 else Processes(int(text))
