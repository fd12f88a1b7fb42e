"""Settings beside each other, and forms of release beside each other, before one is chosen.

What the settings run on is decided by what all of them guarantee. Whoever compares chooses
afterwards, and what a choice depends on is part of what is released (``privacy.md`` 3.7, 3.8). So
one source serves all settings, and the guarantee that allows the least decides:

- one that hides who is in the log (differential privacy of whole units), or local privacy: a
  stand-in, made of public facts. The log is not read;
- one that takes everything but times as known (metric privacy of times, differential privacy of
  times given the order of events): the log with invented times, in the order of the log's own;
- only such as are counted on the release: the log.

Forms of release are tried on the log itself (``rehearsed``): what each keeps, and who is found in
it. The form that is proposed follows from the author's answers alone, so it is no choice by these
figures; whoever takes another one has chosen by them, and the policy says so. Nothing is released,
and no budget is charged.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import polars as pl
from pydantic import Field, JsonValue

from cloakwork.base.costs import Cost, cost_text, guessing_advantage
from cloakwork.base.errors import (
    BudgetExceeded,
    CloakworkError,
    LedgerError,
    LogError,
    PlanImpossible,
    first_line,
)
from cloakwork.base.frozen import frozen
from cloakwork.base.lineage import METADATA, TIMESTAMPS
from cloakwork.base.naming import values_of
from cloakwork.base.notebook_html import InNotebooks
from cloakwork.base.progress import Reporter
from cloakwork.base.quantities import Frozen, format_duration
from cloakwork.base.text import tried_on
from cloakwork.engines.memory import MemoryEngine, in_memory
from cloakwork.evaluation.control_flow import histogram, relative_log_similarity
from cloakwork.evaluation.knowledge import shares_found
from cloakwork.evaluation.risk_figures import Share
from cloakwork.evaluation.stand_in import StandInFacts, stand_in_facts
from cloakwork.evaluation.sweeping import PolicySetting, Values, read_sweep, settings_of, sweep_of
from cloakwork.evaluation.times import rewrites_only_times
from cloakwork.evaluation.utility import ATTACKED, MOST_PAIRS, whole_log_utility
from cloakwork.evaluation.whole_log import Timed, duration_distance
from cloakwork.guarantees import ConfidenceBound, Guarantee
from cloakwork.ledger.ledger import Ledger
from cloakwork.log.eventlog import TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.mechanisms.profile import Profile
from cloakwork.noise import reproducible, secret
from cloakwork.plan.budget import reservation_request
from cloakwork.plan.model import Plan
from cloakwork.plan.planner import make_plan
from cloakwork.policy.load import digest
from cloakwork.policy.model import Policy, describe_version
from cloakwork.run.prepare import prepared_log, require_enough_cases
from cloakwork.run.reading import read_sample, read_under
from cloakwork.run.run import Run
from cloakwork.run.search_cache import SearchCache

SourceKind = Literal["log", "log-with-invented-times", "stand-in"]
"""What the settings run on: the log; the log with times that were invented; an invented log."""


class FigureSpread(Frozen):
    """A figure over several runs: its median, and the least and the largest."""

    median: float
    low: float
    high: float


class SettingFigures(Frozen):
    """What is left of the log under one setting; None where there is nothing to compare.

    ``similarity``: relative log similarity of the control flow, from 0 to 1, 1 best; None where
    there is no case before. ``cases``, ``events``: those released over those of the source.
    ``durations``: Wasserstein distance of case durations over the source's mean duration, 0 best.
    ``attributes``: share of values that differ, mean over the attributes that are released as they
    are, 0 best.
    """

    similarity: FigureSpread | None = None
    cases: FigureSpread | None = None
    events: FigureSpread | None = None
    durations: FigureSpread | None = None
    attributes: FigureSpread | None = None


class AttackBound(Frozen):
    """What a guarantee bounds of an attack: derived from it, not measured.

    ``attack``: what the attacker tries. ``most``: the largest probability of success (``guess``: a
    case is picked out of those that fit), or the largest rise of that probability (``presence``).
    ``beside``: released columns that the bound does not reckon with, which can tell more.
    """

    kind: Literal["guess", "presence"]
    attack: str
    most: float
    beside: tuple[str, ...] = ()


class ComparedSetting(Frozen):
    """One row of a comparison.

    ``guarantees``: in a few words. ``cost``: what a release would take from the budget, by
    currency; ``remarks``: what else to know, such as that the budget does not cover it. ``found``:
    the share of the cases of the first run that are found in it, by what is known (``KNOWN``).
    ``refused``: why there is no such release; all of these are then empty.
    """

    policy: str
    policy_digest: str
    values: dict[str, JsonValue]
    guarantees: tuple[str, ...] = ()
    bounds: tuple[AttackBound, ...] = ()
    cost: tuple[str, ...] = ()
    figures: SettingFigures | None = None
    found: dict[str, Share] = {}
    runs: int = 0
    remarks: tuple[str, ...] = ()
    refused: str | None = None


class Comparison(InNotebooks, Frozen):
    """Settings beside each other, in the order in which they were asked for.

    ``source``: what they ran on; ``internal``: whether figures of the raw log are among them.
    ``assumed``: what the stand-in takes for granted since no policy declares it, and what to
    declare.
    """

    format: Literal["cloakwork/comparison/v1"] = "cloakwork/comparison/v1"
    dataset: str
    source: SourceKind
    internal: bool
    notice: tuple[str, ...] = Field(description="What must be known before a figure is read")
    assumed: tuple[str, ...] = ()
    settings: tuple[ComparedSetting, ...]


RUNS_OF_STAND_IN: Final = 3
"""Runs for each invented process."""

RUNS_OF_TIMES: Final = 3

_SEARCHING: Final = "kanon/optimal"
_SEARCH_SECONDS: Final = 1.0

_NOTICES: Final[Mapping[SourceKind, tuple[str, ...]]] = {
    "stand-in": (
        "A stand-in, invented from public facts: figures of the log will differ. The log was not "
        "opened, as choosing by noisy runs of it voids the guarantee. Nothing is charged.",
    ),
    "log-with-invented-times": (
        "INTERNAL, not to be published: the log, with invented times in the same order. Settings "
        "are chosen by all but times, which guarantees of times take as known. Nothing is charged.",
    ),
    "log": (
        "INTERNAL, not to be published: the log itself. Settings are chosen by looking at raw "
        "data, which guarantees that are counted on a release allow. Nothing is charged.",
    ),
}
"""What must be known before a figure is read."""

NO_LOG: Final = (
    "A stand-in, invented from public facts: figures of the log will differ. No log was named, and "
    "none opened. Nothing is charged."
)

Sweeps = Mapping[str, Iterable[Values]] | Sequence[str]


@frozen
class PublicFacts:
    """What is known of the log beside the policies. ``columns``: how its columns are called;
    ``cases``: how many it has. ``profile``: what was paid for; ``window``: of the budget.
    """

    columns: dict[str, str] | None = None
    profile: Profile | None = None
    cases: int | None = None
    window: str | None = None


def compare_settings(
    log: EventLog | Path | pl.DataFrame | None,
    policies: Sequence[Policy],
    known: PublicFacts,
    *,
    sweep: Sweeps,
    ledger: Ledger,
    reporter: Reporter,
) -> Comparison:
    """See ``cloakwork.compare``."""
    if not policies:
        raise CloakworkError("compare: needs a policy")
    if isinstance(sweep, Mapping):
        sweeps = [sweep_of(name, values) for name, values in sweep.items()]
    else:
        sweeps = [read_sweep(text) for text in ([sweep] if isinstance(sweep, str) else sweep)]
    settings = settings_of(policies, sweeps)
    dataset, *others = dict.fromkeys(policy.metadata.dataset for policy in policies)
    if others:
        raise CloakworkError(
            f"compare: the policies are about the datasets '{dataset}' and '{others[0]}'; "
            "one log is of one dataset"
        )
    # Sweeps change what is guaranteed, never which kinds of guarantees there are.
    kind = "stand-in" if log is None else source_kind(policies)
    facts = None if kind == "log" else stand_in_facts(policies, known.profile, known.cases)
    # Recorded before the log is opened, so that no look at it goes unnoted.
    ledger.record_event("compared", dataset, comparison_event(policies, settings, kind))
    trial = _Trial(
        kind=kind,
        facts=facts,
        log=None if kind == "stand-in" else _opened(log, policies, known.columns, reporter),
        ledger=ledger,
        known=known,
        searches=None if kind == "stand-in" else SearchCache.of_user(),
    )
    rows = []
    for place, setting in enumerate(settings, start=1):
        reporter(f"setting {place} of {len(settings)}")
        rows.append(trial.row(setting))
    notice = [NO_LOG] if log is None else list(_NOTICES[kind])
    if trial.log is not None and trial.log.sample:
        notice.append(f"All figures are {tried_on(trial.log.sample)}.")
    assumed = [] if facts is None else list(facts.assumed)
    if known.window is not None and kind != "log":
        notice.append(
            f"Cases of window {known.window} are drawn by invented starts: how many there are, and "
            "which, says nothing of the log's own window."
        )
    # Of what a stand-in assumes, only what is about times went into this log.
    if kind == "log-with-invented-times":
        assumed = [line for line in assumed if "window" in line or "longest_gap" in line]
    return Comparison(
        dataset=dataset,
        source=kind,
        internal=kind != "stand-in",
        notice=tuple(notice),
        assumed=tuple(assumed),
        settings=tuple(rows),
    )


def source_kind(policies: Sequence[Policy]) -> SourceKind:
    """What may be looked at before choosing between ``policies``."""
    noised = [goal for policy in policies for goal in policy.goals() if goal.price() is not None]
    # A guarantee without a price is counted on the release: raw data may be looked at.
    if not noised:
        return "log"
    given = all(goal.takes_columns_as_known() for goal in noised)
    over = {column for goal in noised for column in goal.over}
    return "log-with-invented-times" if given and over == {TIMESTAMPS} else "stand-in"


def comparison_event(
    policies: Sequence[Policy],
    settings: Sequence[PolicySetting],
    kind: SourceKind,
) -> dict[str, Any]:
    """What the ledger keeps of a comparison: no figure of the log is in it."""
    named = [
        {
            "name": policy.metadata.name,
            "version": policy.metadata.version,
            "digest": digest(policy),
        }
        for policy in policies
    ]
    tried = [
        {"policy": describe_version(setting.base), "values": dict(setting.values)}
        for setting in settings
    ]
    return {"policies": named, "settings": tried, "measured_on": kind}


def _opened(
    log: Any,
    policies: Sequence[Policy],
    columns: dict[str, str] | None,
    reporter: Reporter,
) -> EventLog:
    """The log as the policies read it; refuses those that read it in several ways."""
    ways = [policy.spec.input != policies[0].spec.input for policy in policies]
    if any(ways) and not isinstance(log, EventLog):
        raise CloakworkError("compare: the policies read the log in several ways (spec.input)")
    if isinstance(log, Path):
        reporter(f"reading {log}")
    found: EventLog = read_under(
        policies[0], log, columns=columns, on_excess="drop", read=read_sample
    )
    return found


def stand_in_logs(facts: StandInFacts) -> list[EventLog]:
    """What settings run on where the log may not be opened: some logs of each invented process."""
    return [facts.log(shape, seed) for shape in facts.shapes for seed in range(RUNS_OF_STAND_IN)]


def with_invented_times(
    log: EventLog,
    facts: StandInFacts,
    seed: int,
) -> EventLog:
    """The log with other times in the same order, in every column that a policy calls its
    timestamp; nothing of the raw times is left but the order of events.

    Raises LogError where policies call two columns of the log so, as their orders may differ.
    """
    named = [name for name in facts.time_names if name in log.events.columns]
    own = [name for name in named if name != TIMESTAMP]
    if len(own) > 1:
        raise LogError("log", f"'{own[0]}' and '{own[1]}' are both times by these policies")
    # The policies' own time column decides the order that the invented times follow.
    if own and isinstance(log.events.schema[own[0]], pl.Datetime):
        times = values_of(log.events, own[0]).cast(TIME_TYPE).alias(TIMESTAMP)
        ordered = log.events.with_columns(times)
        log = EventLog.build(ordered, log.cases, log.case_of, source=log.source)
    # Nothing of the log's times is in them; noise is drawn for them later.
    draw = np.random.default_rng([seed, 2])
    # The activity of each event by the last policy that names a column for it, from 0.
    codes = np.zeros(log.events.height, np.int64)
    activities = [name for name in facts.activity_names if name in log.events.columns]
    if activities:
        texts = values_of(log.events, activities[-1]).cast(pl.String).fill_null("")
        codes = texts.rank("dense").to_numpy().astype(np.int64) - 1
    stamps = facts.times.drawn(codes, log.offsets, int(codes.max(initial=0)) + 1, draw)
    events = log.events.with_columns(stamps.alias(name) for name in {TIMESTAMP, *named})
    return replace(log, events=events, notes=())


@dataclass(frozen=True)
class _Trial:
    """What every setting is tried on and with.

    ``facts``: what is invented is made of; None where the log is taken as it is. ``log``: the raw
    log; None where nothing of it may be looked at.
    """

    kind: SourceKind
    facts: StandInFacts | None
    log: EventLog | None
    ledger: Ledger
    known: PublicFacts
    searches: SearchCache | None

    @cached_property
    def logs(self) -> list[EventLog]:
        """The logs that every setting runs on, one a run."""
        if self.log is None:
            assert self.facts is not None  # noqa: S101 - a stand-in is made of them
            return stand_in_logs(self.facts)
        if self.facts is None:
            return [self.log]
        return [with_invented_times(self.log, self.facts, seed) for seed in range(RUNS_OF_TIMES)]

    def row(self, setting: PolicySetting) -> ComparedSetting:
        """One row; what goes wrong with a setting is said there."""
        policy = setting.base if setting.policy is None else setting.policy
        row = ComparedSetting(
            policy=describe_version(policy),
            policy_digest=digest(policy),
            values=dict(setting.values),
            refused=setting.refused or None,
        )
        if setting.policy is None:
            return row
        try:
            return row.model_copy(update=self._found(policy))
        # A fault of the ledger is no property of a setting: the whole comparison stops.
        except LedgerError:
            raise
        except CloakworkError as error:
            return row.model_copy(update={"refused": _refusal(error)})

    def _found(self, policy: Policy) -> dict[str, Any]:
        # A profile serves only the policies that name one.
        paid_for = self.known.profile if policy.spec.profile is not None else None
        window = self.known.window
        plan = tried = make_plan(policy, profile=paid_for, window=window)
        searches = any(step.mechanism == _SEARCHING for step in plan.steps)
        # A search on an invented log is cut short: what a longer one gains there is not to be had
        # on the log itself. Bounds and costs are those of the full plan.
        if self.kind == "stand-in" and searches:
            brief = searching_briefly(policy, _SEARCH_SECONDS)
            tried = make_plan(brief, profile=paid_for, window=window)
        figures: list[Mapping[str, float | None]] = []
        found: dict[str, Share] = {}
        for seed, log in enumerate(self.logs):
            source, released, figures_of_run = tried_once(tried, log, seed, self.searches)
            figures.append(figures_of_run)
            # Of one run alone, and of few cases: looking for made-up ones takes the longest.
            found = found or shares_found(
                source, released, tried, targets=MOST_SOUGHT, sample=MOST_SOUGHT
            )
        return {
            "guarantees": tuple(map(in_few_words, policy.goals())),
            "bounds": tuple(attack_bounds(plan)),
            "cost": tuple(costs(plan)),
            "remarks": tuple(self._remarks(plan)),
            "figures": summary(figures),
            "found": found,
            "runs": len(figures),
        }

    def _remarks(self, plan: Plan) -> Iterator[str]:
        """What the dataset's budget says to a release of ``plan``, and what is unproven."""
        try:
            self.ledger.check(reservation_request(plan))
        except BudgetExceeded as error:
            yield first_line(error)
        if plan.unproven:
            yield "UNPROVEN: a guarantee rests on a published claim alone"


def searching_briefly(policy: Policy, most: float) -> Policy:
    """The policy with at most so many seconds for the search of the least change."""
    parameters = policy.spec.mechanisms.parameters
    own = parameters.get(_SEARCHING, {})
    seconds = own.get("seconds", most)
    if isinstance(seconds, int | float):
        own = {**own, "seconds": min(seconds, most)}
    mechanisms = policy.spec.mechanisms.model_copy(
        update={"parameters": {**parameters, _SEARCHING: own}}
    )
    spec = policy.spec.model_copy(update={"mechanisms": mechanisms})
    return policy.model_copy(update={"spec": spec})


def _refusal(error: CloakworkError) -> str:
    """Why a setting cannot be, in one line; of several causes the first."""
    if not isinstance(error, PlanImpossible):
        return first_line(error)
    more = len(error.causes) - 1
    return f"{error.causes[0]}" + (f" (and {more} more)" if more else "")


MOST_SOUGHT: Final = 300
"""Cases of a run, at random, that somebody looks for in it."""


def tried_once(
    plan: Plan,
    log: EventLog,
    seed: int,
    searches: SearchCache | None = None,
) -> tuple[EventLog, EventLog, dict[str, float | None]]:
    """One run of ``plan`` on ``log`` with noise that follows from ``seed``: before, after, and its
    figures by the names of ``SettingFigures``; None where there is nothing to compare. Nothing is
    released, and no ledger charged. Raises as ``trial`` does.
    """
    run = Run(plan=plan, noise=reproducible(seed), searches=searches)
    source, released = map(in_memory, run.trial(log))
    return source, released, measured_figures(plan, source, released)


def measured_figures(plan: Plan, source: EventLog, released: EventLog) -> dict[str, float | None]:
    """What is left of ``source`` in what ``plan`` made of it, by the names of ``SettingFigures``,
    and ``waits`` (by how many powers of ten); None where there is nothing to compare.
    """
    before = histogram(source)
    after = histogram(released)
    cases = sum(before.values())
    events = source.events.height
    similarity = durations = waits = attributes = None
    if before and len(before) * len(after) <= MOST_PAIRS:
        similarity = relative_log_similarity(before, after)
    found = whole_log_utility(plan, source, released)
    if found is not None:
        durations = found.case_durations
        waits = found.waiting_times
        distances = [each.distance for each in found.attributes]
        attributes = float(np.mean(distances)) if distances else None
    # No figure of the whole log where a step rewrote times alone.
    if durations is None and any(map(rewrites_only_times, plan.steps)):
        durations = duration_distance(Timed(source).durations(), Timed(released).durations())
    return {
        "similarity": similarity,
        "cases": sum(after.values()) / cases if cases else None,
        "events": released.events.height / events if events else None,
        "durations": durations,
        "waits": waits,
        "attributes": attributes,
    }


def summary(runs: Sequence[Mapping[str, float | None]]) -> SettingFigures:
    """Median and spread of each figure over the runs that have it."""
    spreads = {}
    for name in SettingFigures.model_fields:
        known = [value for run in runs if (value := run[name]) is not None]
        if known:
            spreads[name] = FigureSpread(
                median=float(np.median(known)),
                low=min(known),
                high=max(known),
            )
    return SettingFigures(**spreads)


_KINDS: Final = {
    "k-anonymity": "",
    "differential-privacy": "DP",
    "metric-privacy": "metric",
    "local-dp": "local",
    "t-closeness": "",
    "l-diversity": "",
    "confidence-bound": "",
}


def in_few_words(guarantee: Guarantee) -> str:
    """``k 10``, ``DP epsilon 1, delta 1e-06``, ``t 0.3 of diagnosis``."""
    numbers = []
    for name in guarantee.stricter_if:
        value = getattr(guarantee, name, None)
        # Values that say nothing are left out: delta 0, and C 1.
        if value is None or (name, value) in (("delta", 0.0), ("C", 1.0)):
            continue
        shown = format_duration(value) if name == "shift" else f"{value:g}"
        numbers.append(f"{name} {shown}")
    words = f"{_KINDS.get(guarantee.kind, guarantee.kind)} {', '.join(numbers)}".strip()
    attribute = getattr(guarantee, "attribute", None)
    if attribute is not None:
        return f"{words} of {attribute}"
    if guarantee.price() is not None and tuple(guarantee.over) == (TIMESTAMPS,):
        return f"{words} of times"
    return words


def attack_bounds(plan: Plan) -> Iterator[AttackBound]:
    """What the claims of a plan bound of an attack; by derivation, with no figure of any log."""
    # Columns that tell cases apart though k cases share a sequence: those of which noise hides
    # single values only, and those without any protection.
    tell_more: list[str] = []
    for claim in plan.claims:
        price = claim.guarantee.price()
        if price is not None and price.currency != "unit":
            tell_more += claim.guarantee.over
    tell_more += [item.column for item in plan.exposed if item.column != METADATA]
    for claim in plan.claims:
        goal = claim.guarantee
        group = goal.least_group()
        price = goal.price()
        if group is not None:
            knows = "the activity sequence"
            if isinstance(goal, ConfidenceBound):
                knows = f"{goal.L} events"
            elif goal.quasi_identifiers():
                knows = f"the activity sequence and {', '.join(goal.quasi_identifiers())}"
            yield AttackBound(
                kind="guess",
                attack=f"picking out a case by {knows}",
                most=1 / group.least,
                beside=tuple(dict.fromkeys(tell_more)),
            )
        elif price is not None and goal.hides_presence():
            rise = guessing_advantage(price.cost.epsilon, price.cost.delta)
            attack = "telling whether somebody is in the log"
            yield AttackBound(kind="presence", attack=attack, most=rise)


def costs(plan: Plan) -> Iterator[str]:
    """What a release takes from the dataset's budget, by currency."""
    for charge in plan.charges:
        name = {"unit": "", "metric": "metric ", "local": "local "}.get(charge.currency, "")
        yield f"{name}{cost_text(charge.cost, digits=6)}"


SEARCH_SECONDS: Final = 5.0


class RehearsedForm(Frozen):
    """One form of release, as it was tried. ``name``: what it is called.

    ``similarity`` of the control flow (1 best), ``durations``, ``waits`` and ``attributes`` (0
    best): what is kept; None where there is nothing to compare. ``found``: the share of the cases
    that are found, by what is known (``KNOWN``). ``claims``: in few words; ``cost`` in the currency
    of its unit, and ``left`` of the budget after it, None where no total binds. ``fault``: why it
    cannot be; all else is then empty.
    """

    name: str
    claims: tuple[str, ...] = ()
    similarity: float | None = None
    durations: float | None = None
    waits: float | None = None
    attributes: float | None = None
    found: dict[str, Share] = {}
    cost: Cost | None = None
    left: Cost | None = None
    fault: str | None = None


def rehearsed(
    log: EventLog, forms: Mapping[str, Policy], ledger: Ledger, reporter: Reporter
) -> tuple[RehearsedForm, ...]:
    """Each form, by name, tried once on ``log``, with what ``ledger`` has left for it; the ledger
    notes that they were compared.
    """
    policies = list(forms.values())
    found = []
    # Noted before anything is tried, so that no choice by what is seen goes unnoted.
    noted = comparison_event(policies, settings_of(policies, []), "log")
    ledger.record_event("compared", policies[0].metadata.dataset, noted)
    for place, (name, policy) in enumerate(forms.items(), start=1):
        reporter(f"trying {name} ({place} of {len(forms)})")
        claims = tuple(map(in_few_words, policy.goals()))
        row = RehearsedForm(name=name, claims=claims)
        try:
            found.append(_tried(row, policy, log, ledger, reporter))
        except CloakworkError as error:
            found.append(row.model_copy(update={"fault": str(error).partition("\n")[0]}))
    return tuple(found)


def release_fault(policy: Policy, log: EventLog | None, ledger: Ledger) -> str | None:
    """Why there is no release of ``log`` under ``policy``: the dataset's budget does not pay, or is
    counted by another unit, or there are too few cases or units; None where there can be one.
    """
    try:
        plan = make_plan(policy)
        ledger.check(reservation_request(plan))
        if log is not None:
            require_enough_cases(prepared_log(log, plan), plan, MemoryEngine())
    except CloakworkError as error:
        return str(error).partition("\n")[0]
    return None


def _tried(
    row: RehearsedForm, policy: Policy, log: EventLog, ledger: Ledger, reporter: Reporter
) -> RehearsedForm:
    plan = make_plan(policy)
    after = ledger.check(reservation_request(plan)).after
    brief = make_plan(searching_briefly(policy, SEARCH_SECONDS))
    source, released = map(in_memory, Run(plan=brief, noise=secret()).trial(log))
    figures = measured_figures(brief, source, released)
    kept = {name: figures[name] for name in ("similarity", "durations", "waits", "attributes")}
    others = {
        "found": shares_found(source, released, brief, targets=ATTACKED, reporter=reporter),
        "cost": next((each.cost for each in plan.charges if each.currency != "none"), None),
        "left": after[0].left if after else None,
    }
    return row.model_copy(update=kept | others)
