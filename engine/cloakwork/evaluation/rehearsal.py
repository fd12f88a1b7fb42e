"""The noise that a plan puts on times, tried once more: how sharply it tells cases apart.

The times that come out belong to known cases, and nobody but the risk report sees them.
"""

from dataclasses import replace
from typing import Final

import numpy as np

from cloakwork.base.arrays import Ints
from cloakwork.engines.memory import MemoryEngine
from cloakwork.evaluation.coded import CodedLog
from cloakwork.evaluation.scales import Scales
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP
from cloakwork.mechanisms.base import Perturbs
from cloakwork.mechanisms.registry import catalogue
from cloakwork.noise import reproducible
from cloakwork.plan.model import Plan, Step
from cloakwork.run.execute import granted
from cloakwork.run.steps import look, take

_MICROSECOND: Final = 1e-6


def scales_of(plan: Plan) -> Scales | None:
    """How far the plan moves times; None where no step of it puts noise on them."""
    step = _noisy_step(plan)
    if step is None:
        return None
    mechanism = catalogue()[step.mechanism]
    assert isinstance(mechanism, Perturbs)  # noqa: S101 - see _noisy_step
    noise = mechanism.perturbs(mechanism.Params.model_validate(step.params))
    grid = noise.grid.step.total_seconds() / _MICROSECOND
    if noise.noised == "times":
        return Scales(noise.start_scale * grid)
    return Scales(noise.start_scale * grid, max(noise.gap_scale, 1.0) * grid)


def rehearsed_times(plan: Plan, source: CodedLog, seed: int) -> Ints | None:
    """The times of the source's events under fresh noise, int64, shape (events,); None where no
    step of the plan puts noise on them.
    """
    step = _noisy_step(plan)
    if step is None or source.times is None:
        return None
    mechanism = catalogue()[step.mechanism]
    params = mechanism.Params.model_validate(step.params)
    kept = source.log.events.select(ACTIVITY, TIMESTAMP)
    log = replace(source.log, events=kept, cases=source.log.cases.select(CASE_ID))
    engine, noise, grant = MemoryEngine(), reproducible(seed), granted(step, plan)
    seen = look(mechanism, params, log, engine, noise, grant)
    made = engine.rewrite(log, take(mechanism, params, seen, noise, grant).rewrite)
    if not np.array_equal(made.offsets, log.offsets):
        return None
    return made.events[TIMESTAMP].to_physical().to_numpy().astype(np.int64)


def _noisy_step(plan: Plan) -> Step | None:
    """The last step that puts noise on times."""
    noisy = [step for step in plan.steps if isinstance(catalogue().get(step.mechanism), Perturbs)]
    return noisy[-1] if noisy else None
