"""The noise that a plan puts on times, tried once more: how sharply it tells cases apart.

The times that come out belong to known cases, and nobody but the risk report sees them.
"""

from dataclasses import replace
from typing import Final

import numpy as np

from cloakwork.base.arrays import Ints
from cloakwork.base.lineage import TIMESTAMPS
from cloakwork.engines.memory import MemoryEngine
from cloakwork.evaluation.coded import CodedLog
from cloakwork.evaluation.scales import Scales
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP
from cloakwork.mechanisms.registry import catalogue
from cloakwork.mechanisms.steps import NoiseOnTimesStep
from cloakwork.noise import reproducible
from cloakwork.plan.model import Plan
from cloakwork.run.run import granted
from cloakwork.run.steps import GrantedStep

_MICROSECOND: Final = 1e-6


def scales_of(plan: Plan) -> Scales | None:
    """How far the plan moves times; None where no step of it puts noise on them."""
    found = _noise_on_times(plan)
    if found is None:
        return None
    noise = found[1].noise
    grid = noise.grid.step.total_seconds() / _MICROSECOND
    if noise.noised == "times":
        return Scales(noise.start_scale * grid)
    return Scales(noise.start_scale * grid, max(noise.gap_scale, 1.0) * grid)


def rehearsed_times(plan: Plan, source: CodedLog, seed: int) -> Ints | None:
    """The times of the source's events under fresh noise, int64, shape (events,); None where no
    step of the plan puts noise on them.
    """
    found = _noise_on_times(plan)
    if found is None or source.times is None:
        return None
    kept = source.log.events.select(ACTIVITY, TIMESTAMP)
    log = replace(source.log, events=kept, cases=source.log.cases.select(CASE_ID))
    step, engine, noise = found[0], MemoryEngine(), reproducible(seed)
    made = engine.rewrite(log, step.take(step.look(log, engine, noise), noise).rewrite)
    if not np.array_equal(made.offsets, log.offsets):
        return None
    return made.events[TIMESTAMP].to_physical().to_numpy().astype(np.int64)


def _noise_on_times(plan: Plan) -> tuple[GrantedStep, NoiseOnTimesStep] | None:
    """The last step that puts noise on times."""
    mechanisms = catalogue()
    for step in reversed(plan.steps):
        if TIMESTAMPS in step.lineage.measures and step.mechanism in mechanisms:
            taken = granted(step, plan, mechanisms)
            if isinstance(taken.kind, NoiseOnTimesStep):
                return taken, taken.kind
    return None
