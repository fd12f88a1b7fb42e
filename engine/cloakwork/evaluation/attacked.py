"""The logs that are attacked, under one alphabet, and what several attacks ask of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Protocol

import numpy as np

from cloakwork.base.arrays import Ints
from cloakwork.base.naming import values_of
from cloakwork.base.progress import Reporter
from cloakwork.evaluation.coded import (
    CodedLog,
    at_other_times,
    code_attributes,
    kept_attributes,
    known_attributes,
    same_values,
)
from cloakwork.evaluation.links import Links, draws_times, rehearsed_times, scales_of
from cloakwork.evaluation.risk_figures import Attack
from cloakwork.log.eventlog import TIMESTAMP
from cloakwork.run.reading import OpenedLog


@dataclass(kw_only=True)
class AttackedLogs:
    """What an attack is given.

    ``source``: the log itself. ``releases``: at most two of it, and ``opened``: what came with
    them. ``control``: cases of the same process that are not in the log, if there are any.
    ``most_targets``: of more cases, so many are looked for. ``notes``: what the report says of how
    its figures came about. ``whole``: of log and first release all cases, in batches, where
    ``source`` and ``releases`` are samples of these.
    """

    source: CodedLog
    releases: Sequence[CodedLog]
    opened: Sequence[OpenedLog]
    control: CodedLog | None = None
    most_targets: int
    seed: int
    reporter: Reporter
    notes: list[str]
    whole: Sequence[CodedLog] = ()
    targets: Ints = field(init=False)
    of_cases: Sequence[str] = field(init=False)
    of_events: Sequence[str] = field(init=False)

    def __post_init__(self) -> None:
        self._links: dict[int, Links] = {}
        self.targets = self.drawn_cases(self.source)
        self.of_cases, self.of_events = known_attributes(self.source.log)
        if self.control is not None:
            self.of_cases = self._in_control(self.of_cases, self.control.log.cases.columns)
            self.of_events = self._in_control(self.of_events, self.control.log.events.columns)

    def _in_control(self, names: Sequence[str], columns: Sequence[str]) -> Sequence[str]:
        for name in sorted(set(names) - set(columns)):
            self.note(f"the control group has no {name}, so it is left out")
        return [name for name in names if name in columns]

    def note(self, words: str) -> None:
        """Have the report say so, once."""
        if words not in self.notes:
            self.notes.append(words)

    def drawn_cases(self, log: CodedLog) -> Ints:
        """At most ``most_targets`` cases of a log, at random: rows, ascending."""
        draws = np.random.default_rng(self.seed)
        return np.sort(draws.permutation(log.cases)[: self.most_targets])

    @property
    def released(self) -> CodedLog | None:
        """The first release."""
        return self.releases[0] if self.releases else None

    @property
    def is_made_up(self) -> bool:
        """Whether the first release has new cases instead of those of the log, rewritten."""
        return bool(self.opened) and is_made_up(self.opened[0])

    @property
    def name_of_stand_ins(self) -> str:
        """Cases that gave nothing to the release, in words."""
        if self.control is not None:
            return "cases that are not in the log"
        return "the log's cases at other times"

    def stand_ins(self) -> tuple[CodedLog, Ints]:
        """A log of such cases, and which of them are looked for."""
        if self.control is not None:
            return self.control, np.arange(min(len(self.targets), self.control.cases))
        # Without times nothing can be moved, so the log's own cases stand in.
        if self.source.times is None:
            return self.source, self.targets
        return at_other_times(self.source, self.seed), self.targets

    @cached_property
    def in_both(self) -> tuple[list[str], list[str]]:
        """The attributes of cases, and of events, that the release has with the values of the
        source.
        """
        before, after = self.source.log, self.releases[0].log
        kept: list[list[str]] = []
        replaced: set[str] = set()
        for names, old, new in (
            (self.of_cases, before.cases, after.cases),
            (self.of_events, before.events, after.events),
        ):
            there = [name for name in names if name in new.columns]
            same = [
                name for name in there if same_values(values_of(old, name), values_of(new, name))
            ]
            kept.append(same)
            replaced |= set(there) - set(same)
        if replaced:
            names_of_them = ", ".join(sorted(replaced))
            self.note(f"not compared, as the release has other values of them: {names_of_them}")
        return kept[0], kept[1]

    def links(self, place: int = 0) -> Links:
        """Which case of a release is whose, by its plan's noise where that is known."""
        if place not in self._links:
            self._links[place] = self._fitted_links(self.releases[place], self.opened[place])
        return self._links[place]

    def _fitted_links(self, released: CodedLog, opened: OpenedLog) -> Links:
        self.reporter("comparing log and release")
        plan, source = opened.plan, self.source
        if self.whole:
            in_all, released = self.whole
            # Made-up cases belong to nobody: what they tell of a sample, they tell of all cases.
            source = source if is_made_up(opened) else in_all
        links = Links(source, released, self.seed, looked_for=self.most_targets)
        # Values that cases keep tell links apart, beside sequences and times.
        kept = () if self.whole else kept_attributes(source.log, released.log, plan)
        if kept:
            before, after = code_attributes([source, released], kept, ())
            links.kept_values = (before.cases, after.cases)
        # A plan tells how times were moved; without one, ``fit`` estimates it from both logs.
        if plan is not None:
            links.scales = scales_of(plan)
            if links.has_times and draws_times(plan):
                links.times_are_drawn = True
                self.note(
                    "the times of this release were drawn anew, nobody's are in it: they tell of "
                    "no case whose it is, and a guess by them is right as often as by its sequence"
                )
            if links.scales is not None:
                links.rehearse = partial(rehearsed_times, plan, seed=self.seed)
            if is_made_up(opened):
                self.note(
                    "the cases of this release are made up, nobody's is in it: after it, a share "
                    f"is what is found beyond a control, {self.name_of_stand_ins}"
                )
        elif links.has_times:
            self.note(
                f"no plan came with {opened.name}, so how far its times were moved is "
                "estimated; a release folder gives better figures (docs: risk)"
            )
        links.fit()
        return links


class Attacker(Protocol):
    """One attack: rows of the report, in its order.

    What it learns from the logs several attacks may need is remembered in ``attacked``; what must
    be known beside its figures goes there as a note.
    """

    def __call__(self, attacked: AttackedLogs) -> Iterable[Attack]:
        """The rows; none where the logs do not allow it."""
        ...


def is_made_up(opened: OpenedLog) -> bool:
    """Whether its cases are new ones."""
    plan = opened.plan
    return plan is not None and any(step.lineage.generates for step in plan.steps)


def tells_of_times(opened: OpenedLog) -> bool:
    """Whether a release's plan says how its times came about, or it has none."""
    plan = opened.plan
    return TIMESTAMP not in opened.log.events.columns or (
        plan is not None
        and (is_made_up(opened) or draws_times(plan) or scales_of(plan) is not None)
    )
