"""All attacks on a log, and on a release of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Final

import numpy as np

from cloakwork.base.arrays import Floats, Ints
from cloakwork.base.errors import LogError
from cloakwork.base.naming import values_of
from cloakwork.base.progress import Reporter, silent
from cloakwork.evaluation.article29 import ReleaseAttacked
from cloakwork.evaluation.attack_sources import LogReading, LogSource
from cloakwork.evaluation.attribute_attacks import (
    code_attributes,
    kept_attributes,
    known_attributes,
    same_values,
)
from cloakwork.evaluation.background import (
    Knowledge,
    Searched,
    Target,
    attributes_known,
    kinds_of_knowledge,
)
from cloakwork.evaluation.bounds import excess, share_of
from cloakwork.evaluation.case_table import CaseTable, case_tables
from cloakwork.evaluation.coded import CodedLog, at_other_times, code_logs
from cloakwork.evaluation.links import Links
from cloakwork.evaluation.of_plan import attack_by_plan, plan_attacked
from cloakwork.evaluation.rehearsal import rehearsed_times, scales_of
from cloakwork.evaluation.results import article_29_attacks, attacks_of, own_sizes
from cloakwork.evaluation.risk_figures import Attack, RiskReport, Share
from cloakwork.ledger.ledger import Ledger
from cloakwork.plan.model import Plan
from cloakwork.policy.model import Policy
from cloakwork.publishing.opened import OpenedLog

TARGETS: Final = 1000
INTERNAL: Final = "internal, of the raw log: never publish these figures, nor choose noise by them"
_ARTICLE_29_AT_MOST: Final = 500
_WIDE: Final = 0.5
_MANY: Final = 100
"""Targets of which alone bounds are not wide."""


def risk(
    original: LogSource,
    released: LogSource | None = None,
    *,
    other: LogSource | None = None,
    control: LogSource | None = None,
    columns: dict[str, str] | None = None,
    policy: Policy | str | Path | None = None,
    ledger: Ledger | str | None = None,
    targets: int = TARGETS,
    seed: int = 1,
    membership: int = 0,
    reporter: Reporter = silent,
) -> RiskReport:
    """Attack ``original``, and a release of it: how often does somebody who knows a little about a
    case find it, or learn more about it?

    ``released``: a release folder, a packed release or a log file, or a log; what its plan says of
    noise on times is used where it has one. ``other``: a second release of the same log, for the
    linking of both. ``control``: cases of the same process that are not in ``original``, as the
    control group of singling out, linkability and inference. ``original`` and ``control`` are read
    as ``policy`` says, else as the policy of the release's plan; ``columns``, as for ``read_log``,
    go before it. ``policy``: a policy, its file or name, or ``NAME@VERSION`` of the registry in
    ``ledger``. ``targets``: cases that are looked for, of more cases
    so many at random by ``seed``. ``membership``: how many releases of random halves of
    ``original`` to make by the plan of ``released``, else of ``policy``, for an attack on who is in
    the log; 0: none, else at least 20. Shares lie between 0 and 1, bounds hold at 95 %. The figures
    are internal. Nothing is linked with a release without events, and a note says so. Raises
    LogError for what is no log, and for an ``original`` or ``control`` without events.
    """
    reporter("reading")
    releases = [each for each in (released, other) if each is not None]
    given = LogReading(policy, columns, ledger).open(original, releases, control)
    first, *others = given
    found, rest = others[: len(releases)], others[len(releases) :]
    for each in (first, *rest):
        _require_events(each)
    empty = [each.name for each in found if each.log.events.height == 0]
    members = None
    if membership:
        plan = plan_attacked(found, policy, ledger)
        members = attack_by_plan(
            plan, first.log, membership, targets=targets, seed=seed, reporter=reporter
        )
    notes = [f"nothing can be linked with {name}, as it holds no events" for name in empty]
    found = list(takewhile(lambda each: each.log.events.height > 0, found))
    given = [first, *found, *rest]
    coded = code_logs(*(each.log for each in given))
    report = _Assessment(
        source=coded[0],
        released=coded[1] if found else None,
        second=coded[2] if len(found) == 2 else None,
        control=coded[-1] if control is not None else None,
        opened=given,
        targets=targets,
        seed=seed,
        reporter=reporter,
        notes=notes,
    ).report()
    return report.model_copy(update={"membership": members})


def _require_events(opened: OpenedLog) -> None:
    if opened.log.events.height == 0:
        raise LogError(opened.name, "has no events, so there is nothing to attack")


@dataclass
class _Assessment:
    """The logs under one alphabet, and what is asked of them."""

    source: CodedLog
    released: CodedLog | None
    second: CodedLog | None
    control: CodedLog | None
    opened: Sequence[OpenedLog]
    targets: int
    seed: int
    reporter: Reporter
    notes: list[str]

    def __post_init__(self) -> None:
        self._found_links: dict[int, Links] = {}
        draws = np.random.default_rng(self.seed)
        self.chosen = np.sort(draws.permutation(self.source.cases)[: self.targets])
        self.of_cases, self.of_events = known_attributes(self.source.log)
        if self.control is not None:
            self.of_cases = self._there(self.of_cases, self.control.log.cases.columns)
            self.of_events = self._there(self.of_events, self.control.log.events.columns)
        self.census = len(self.chosen) == self.source.cases

    def report(self) -> RiskReport:
        """Every attack."""
        attacks = [*self._who_is_found(), *self._article_29()]
        if self.second is not None:
            attacks.append(self._linking_releases())
        return RiskReport(
            internal=INTERNAL,
            release=self.opened[1].release if self.released is not None else None,
            cases=self.source.cases,
            released_cases=None if self.released is None else self.released.cases,
            targets=len(self.chosen),
            seed=self.seed,
            attacks=tuple(attacks),
            notes=tuple(self.notes),
        )

    def _who_is_found(self) -> list[Attack]:
        """Uniqueness and linking, for each kind of knowledge."""
        (own,) = code_attributes([self.source], self.of_cases, self.of_events)
        kinds = kinds_of_knowledge(own, times=self.source.times is not None)
        self.reporter("looking for cases in the log itself")
        sizes = own_sizes(self.source, self.chosen, kinds, own, self.seed)
        after_sizes: dict[str, list[int]] = {}
        after: dict[str, Share] = {}
        control = None
        if self.released is not None:
            after = self._found_after(kinds)
            if _is_made_up(self.opened[1].plan):
                control = f"{self._stand_ins()} (after the release only)"
            else:
                after_sizes = self._released_sizes(kinds)
        found = []
        for kind in kinds:
            census = self.census and not kind.sampled
            share = after.get(kind.name)
            found += attacks_of(kind, sizes, after_sizes, share, control, census=census)
        return [each for each in found if each.name.startswith("uniqueness")] + [
            each for each in found if each.name.startswith("linking")
        ]

    def _in_both(self) -> tuple[list[str], list[str]]:
        """The attributes that the release has with the values of the source."""
        assert self.released is not None  # noqa: S101 - asked only then
        before, after = self.source.log, self.released.log
        pairs = [(self.of_cases, before.cases, after.cases)]
        pairs.append((self.of_events, before.events, after.events))
        kept: list[list[str]] = []
        replaced: set[str] = set()
        for names, old, new in pairs:
            there = [name for name in names if name in new.columns]
            kept.append(
                [name for name in there if same_values(values_of(old, name), values_of(new, name))]
            )
            replaced |= set(there) - set(kept[-1])
        if replaced:
            names_of_them = ", ".join(sorted(replaced))
            self._note(f"not compared, as the release has other values of them: {names_of_them}")
        return kept[0], kept[1]

    def _there(self, names: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
        """The attributes that the control group has too."""
        for name in sorted(set(names) - set(columns)):
            self._note(f"the control group has no {name}, so it is left out")
        return tuple(name for name in names if name in columns)

    def _note(self, words: str) -> None:
        if words not in self.notes:
            self.notes.append(words)

    def _released_sizes(self, kinds: Sequence[Knowledge]) -> dict[str, list[int]]:
        """Of cases of the release, how many others are like them there."""
        released = self.released
        assert released is not None  # noqa: S101 - asked only then
        draws = np.random.default_rng(self.seed)
        chosen = np.sort(draws.permutation(released.cases)[: self.targets])
        of_cases, of_events = self._in_both()
        (own,) = code_attributes([released], of_cases, of_events)
        possible = [kind for kind in kinds if not kind.timed or released.times is not None]
        self.reporter("looking for cases in the release itself")
        return own_sizes(released, chosen, possible, own, self.seed)

    def _found_after(self, kinds: Sequence[Knowledge]) -> dict[str, Share]:
        """How often the best guess in the release is right.

        Where the release is made up, guesses lead to cases that resemble the target by chance: what
        counts is what is found beyond stand-ins, which are cases that gave nothing to the release,
        or else the targets at other times. Where it is not known how times were moved, that is the
        lower bound of what times find.
        """
        released, plan = self.released, self.opened[1].plan
        assert released is not None  # noqa: S101 - asked only then
        links = self._links(released, self.opened[1])
        chances = self._chances(kinds, self.source, links, self.chosen)
        found = {name: share_of(each, census=False) for name, each in chances.items()}
        made_up = _is_made_up(plan)
        if not made_up and (not links.has_times or (plan is not None and scales_of(plan))):
            return found
        control = self._found_of_stand_ins(kinds, released)
        for each in kinds:
            beyond, share = excess(chances[each.name], control[each.name]), found[each.name]
            if made_up:
                found[each.name] = beyond
            elif each.timed:
                low = min(share.low, beyond.low)
                found[each.name] = share.model_copy(update={"low": low})
        return found

    def _stand_ins(self) -> str:
        if self.control is not None:
            return "cases that are not in the log"
        return "the log's cases at other times"

    def _found_of_stand_ins(
        self, kinds: Sequence[Knowledge], released: CodedLog
    ) -> dict[str, list[float]]:
        """The same attack on cases that are not in the release."""
        self.reporter("looking for stand-ins in the release")
        stand_ins, chosen = self.source, self.chosen
        if self.control is not None:
            stand_ins = self.control
            chosen = np.arange(min(len(chosen), stand_ins.cases))
        elif stand_ins.times is not None:
            stand_ins = at_other_times(stand_ins, self.seed)
        links = Links(stand_ins, released, self.seed)
        links.fit()
        return self._chances(kinds, stand_ins, links, chosen)

    def _chances(
        self, kinds: Sequence[Knowledge], source: CodedLog, links: Links, chosen: Ints
    ) -> dict[str, list[float]]:
        """How likely the best guess in the release is right, for each kind and target."""
        released = self.released
        assert released is not None  # noqa: S101 - asked only then
        own, theirs = code_attributes([source, released], *self._in_both())
        comparable = {each.name for each in attributes_known(own)}
        by_kind: dict[str, list[float]] = {kind.name: [] for kind in kinds}
        for number, case in enumerate(chosen.tolist()):
            if number % 100 == 0:
                self.reporter(f"looking for cases of the log in the release: {number}")
            posterior = links.posterior(case)
            target = Target(source, case, self.seed, own)
            searched = Searched(released, links.nearest, links.aligned, theirs, posterior)
            for kind in kinds:
                known = not kind.timed or links.has_times
                if kind.name.endswith("-attributes"):
                    known = kind.name in comparable
                # Who knows what the release does not hold has a guess at random.
                fit = kind.fits(target, searched).chance(released, posterior) if known else None
                at_random = float(posterior.sum()) / released.cases
                by_kind[kind.name].append(at_random if fit is None else fit)
        return by_kind

    def _links(self, released: CodedLog, opened: OpenedLog) -> Links:
        """Which case is whose, by the plan's noise where it is known."""
        if id(released) not in self._found_links:
            self._found_links[id(released)] = self._fitted_links(released, opened)
        return self._found_links[id(released)]

    def _fitted_links(self, released: CodedLog, opened: OpenedLog) -> Links:
        self.reporter("comparing log and release")
        plan = opened.plan
        links = Links(self.source, released, self.seed)
        if kept := kept_attributes(self.source.log, released.log, plan):
            before, after = code_attributes([self.source, released], kept, ())
            links.kept_values = (before.cases, after.cases)
        if plan is not None:
            links.scales = scales_of(plan)
            if links.scales is not None:
                links.rehearse = partial(rehearsed_times, plan, seed=self.seed)
            if _is_made_up(plan):
                self._note(
                    "the cases of this release are made up, nobody's is in it: after it, a share "
                    f"is what is found beyond a control, {self._stand_ins()}"
                )
        elif links.has_times:
            self._note(
                f"no plan came with {opened.name}, so how far its times were moved is "
                "estimated; a release folder gives better figures (docs: risk)"
            )
        links.fit()
        return links

    def _linking_releases(self) -> Attack:
        """From a case of one release to the case of the other that fits best."""
        first, second = self.released, self.second
        assert first is not None  # noqa: S101 - --other asks for a release
        assert second is not None  # noqa: S101
        here = self._links(first, self.opened[1])
        there = self._links(second, self.opened[2])
        between = Links(first, second, self.seed)
        between.fit()
        draws = np.random.default_rng([self.seed, 2])
        chances = []
        self.reporter("linking the two releases")
        for case in self.chosen.tolist():
            likely = here.posterior(case)
            rest = 1.0 - float(likely.sum())
            drawn = int(draws.choice(first.cases + 1, p=_normalised(likely, rest)))
            if drawn == first.cases:
                chances.append(0.0)
                continue
            guess = between.posterior(drawn)
            best = np.flatnonzero(guess == guess.max())
            chances.append(float(there.posterior(case)[best].mean()))
        return Attack(
            name="linking-releases",
            knows="a case of the first release: which case of the second is it?",
            before=None,
            after=share_of(chances, census=False),
        )

    def _article_29(self) -> list[Attack]:
        """Before: the log released as it is."""
        logs = [self.source]
        of_cases: Sequence[str] = self.of_cases
        of_events: Sequence[str] = self.of_events
        extra = [self.control] if self.control is not None else []
        before = self._attacked(case_tables([*logs, *logs, *extra], of_cases, of_events), None)
        after = None
        if self.released is not None:
            of_cases, of_events = self._in_both()
            links = self._links(self.released, self.opened[1])
            tables = case_tables([self.source, self.released, *extra], of_cases, of_events)
            after = self._attacked(tables, links)
        targets = self.chosen[:_ARTICLE_29_AT_MOST]
        attacks = article_29_attacks(before, after, targets, self.seed, self.reporter)
        for attack in attacks:
            for share in (attack.before, attack.after):
                wide = share is not None and share.high - share.low > _WIDE
                if wide and len(targets) >= _MANY:
                    self._note(
                        f"the bounds of {attack.name} are wide as its control succeeds nearly "
                        "always, so that hardly anything is left to be found beyond it"
                    )
        return attacks

    def _attacked(self, tables: Sequence[CaseTable], links: Links | None) -> ReleaseAttacked:
        def itself(case: int) -> Floats:
            return np.asarray(np.arange(self.source.cases) == case, np.float64)

        others = tables[2] if len(tables) > 2 else None
        posterior = itself if links is None else links.posterior
        return ReleaseAttacked(tables[0], tables[1], posterior, others)


def _is_made_up(plan: Plan | None) -> bool:
    """Whether the plan draws new cases instead of rewriting those of the log."""
    return plan is not None and any(step.lineage.generates for step in plan.steps)


def _normalised(likely: Floats, rest: float) -> Floats:
    padded = np.append(likely, max(0.0, rest))
    return np.asarray(padded / padded.sum())
