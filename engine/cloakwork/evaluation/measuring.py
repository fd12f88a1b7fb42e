"""What is left of a log under one setting: the plan is run and compared with what it ran on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.engines.memory import in_memory
from cloakwork.evaluation.comparison_model import FigureSpread, SettingFigures
from cloakwork.evaluation.release_comparison import whole_log_utility
from cloakwork.evaluation.times import TimeUtility, compare_times_of_batches
from cloakwork.evaluation.utility import histogram, relative_log_similarity
from cloakwork.log.eventlog import EventLog
from cloakwork.log.handle import LogHandle
from cloakwork.noise import reproducible
from cloakwork.plan.model import Plan, Step
from cloakwork.run.run import Observer, Run
from cloakwork.run.search_cache import SearchCache

MOST_PAIRS: Final = 6_000_000
"""Pairs of variants to compare; of more, the similarity is left out."""


@dataclass(slots=True)
class RunFigures(Observer):
    """Sees one run, and keeps its figures; None where there is nothing to compare."""

    similarity: float | None = None
    cases: float | None = None
    events: float | None = None
    durations: float | None = None
    attributes: float | None = None
    _times: TimeUtility | None = None

    def stepped(self, step: Step, before: LogHandle, after: LogHandle) -> None:
        """Durations, where events stay and only their times change."""
        written = step.lineage.writes
        if TIMESTAMPS in written and CONTROL_FLOW not in written and not step.lineage.enriches:
            self._times = compare_times_of_batches(before, after)

    def compare(self, plan: Plan, source: EventLog, released: EventLog) -> None:
        """Every figure of a release against what it was made from."""
        before, after = histogram(source), histogram(released)
        if before and len(before) * len(after) <= MOST_PAIRS:
            self.similarity = relative_log_similarity(before, after)
        cases, events = sum(before.values()), source.events.height
        self.cases = sum(after.values()) / cases if cases else None
        self.events = released.events.height / events if events else None
        found = whole_log_utility(plan, source, released)
        if found is not None:
            self.durations = found.case_durations
            distances = [each.distance for each in found.attributes]
            self.attributes = float(np.mean(distances)) if distances else None
        times = self._times
        if self.durations is None and times is not None and times.duration_source_mean:
            self.durations = (times.duration_distance or 0.0) / times.duration_source_mean


def run_figures(
    plan: Plan, log: EventLog, seed: int, searches: SearchCache | None = None
) -> RunFigures:
    """One run of ``plan`` on ``log`` with noise that follows from ``seed``. Nothing is released,
    and no ledger charged. Raises as ``trial`` does.
    """
    found = RunFigures()
    run = Run(plan=plan, noise=reproducible(seed), observers=(found,), searches=searches)
    source, released = run.trial(log)
    found.compare(plan, in_memory(source), in_memory(released))
    return found


def summary(runs: Sequence[RunFigures]) -> SettingFigures:
    """Median and spread of each figure over the runs that have it."""
    names = SettingFigures.model_fields
    return SettingFigures(**{name: _spread(getattr(run, name) for run in runs) for name in names})


def _spread(values: Iterable[float | None]) -> FigureSpread | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return FigureSpread(median=float(np.median(known)), low=min(known), high=max(known))
