"""A plan tried on a log of which nothing is released: for figures of what would be left."""

from cloakwork.base.progress import silent
from cloakwork.engines.memory import MemoryEngine, in_memory
from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.registry import catalogue
from cloakwork.noise import Noise
from cloakwork.plan.model import Plan
from cloakwork.run.execute import (
    Observation,
    Stopwatch,
    finished,
    take_steps,
    without_hidden,
)
from cloakwork.run.prepare import prepared_log, require_enough_cases
from cloakwork.run.search_cache import SearchCache


def trial(
    plan: Plan,
    log: EventLog,
    noise: Noise,
    *,
    observe: Observation | None = None,
    searches: SearchCache | None = None,
) -> tuple[EventLog, EventLog]:
    """The log as prepared for ``plan``, and what its steps make of it, under the standard names.

    The plan comes from ``make_plan`` just now and is not proved again; no ledger is charged, no
    claim checked, and there is no release: what comes back must not leave the comparison. The
    caller answers for the log: where a claim rests on noise, it must hold nothing that the noise
    protects. Raises as ``execute`` does where a step refuses the log.
    """
    prepared = prepared_log(log, plan)
    engine = MemoryEngine()
    require_enough_cases(prepared, plan, engine)
    result, _ = take_steps(
        plan,
        prepared,
        noise,
        engine=engine,
        catalogue=catalogue(),
        reporter=silent,
        watch=Stopwatch(),
        observe=observe,
        searches=searches,
    )
    released = in_memory(finished(result, plan, engine, noise))
    return prepared, without_hidden(released, plan)
