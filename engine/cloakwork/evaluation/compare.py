"""``compare``: settings beside each other, before one is chosen."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cloakwork.api import budget, load_policy
from cloakwork.base.errors import (
    BudgetExceeded,
    CloakworkError,
    LedgerError,
    LogError,
    PlanImpossible,
    first_line,
)
from cloakwork.base.progress import Reporter, silent
from cloakwork.evaluation.compared_source import SettingSource, source_kind
from cloakwork.evaluation.comparison_messages import attack_bounds, costs, in_few_words
from cloakwork.evaluation.comparison_model import ComparedSetting, Comparison, SourceKind
from cloakwork.evaluation.measuring import run_figures, summary
from cloakwork.evaluation.stand_in import StandInFacts, stand_in_facts
from cloakwork.evaluation.sweeping import (
    PolicySetting,
    Sweep,
    Values,
    read_sweep,
    settings_of,
    sweep_of,
)
from cloakwork.ledger.ledger import Ledger
from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.profile import Profile
from cloakwork.plan.model import Plan
from cloakwork.plan.planner import make_plan
from cloakwork.policy.load import digest
from cloakwork.policy.model import Policy, describe_version
from cloakwork.run.reading import log_in_memory, read_under
from cloakwork.run.search_cache import SearchCache

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

Sweeps = Mapping[str, Iterable[Values]] | Sequence[str]

_SEARCHING: Final = "kanon/auto"
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


def compare(
    log: "EventLog | str | Path | pl.DataFrame | pd.DataFrame",
    policies: Policy | str | Path | Sequence[Policy | str | Path],
    *,
    sweep: Sweeps = (),
    ledger: Ledger | str | None = None,
    columns: dict[str, str] | None = None,
    profile: Profile | None = None,
    cases: int | None = None,
    window: str | None = None,
    reporter: Reporter = silent,
) -> Comparison:
    """What each setting guarantees, costs, and leaves of the log; the ledger notes that settings
    were compared, and is charged nothing.

    ``log``: as for ``apply``; it is not opened where a setting asks for differential privacy of
    whole units or local privacy. ``sweep``: values by the name of a guarantee's number, such as
    ``{"k": [5, 10]}``, or texts such as ``"k=5,10"``. ``profile``: one that was bought.
    ``cases``: how many cases the log has, where that is public. ``window``: as for ``make_plan``.
    Raises CloakworkError, or one of its kinds, for what concerns all settings; what concerns one
    is said there.
    """
    book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    chosen = _policies(policies, book)
    settings = settings_of(chosen, _sweeps(sweep))
    dataset = _dataset(chosen)
    if isinstance(log, str | Path):
        _require_file(Path(log))
    # Sweeps change what is guaranteed, never which kinds of guarantees there are.
    kind = source_kind(chosen)
    facts = None if kind == "log" else stand_in_facts(chosen, profile, cases)
    book.record_event("compared", dataset, _event(chosen, settings, kind))
    opened = None if kind == "stand-in" else _opened(log, chosen, columns, reporter)
    trial = _Trial(
        source=SettingSource(kind, facts, opened),
        book=book,
        profile=profile,
        window=window,
        searches=None if kind == "stand-in" else SearchCache.of_user(),
        reporter=reporter,
    )
    rows = []
    for place, setting in enumerate(settings, start=1):
        reporter(f"setting {place} of {len(settings)}")
        rows.append(trial.row(setting))
    return Comparison(
        dataset=dataset,
        source=kind,
        internal=kind != "stand-in",
        notice=(*_NOTICES[kind], *_of_window(kind, window)),
        assumed=_assumed(facts, kind),
        settings=tuple(rows),
    )


def _of_window(kind: SourceKind, window: str | None) -> tuple[str, ...]:
    if window is None or kind == "log":
        return ()
    return (
        f"Cases of window {window} are drawn by invented starts: how many there are, and which, "
        "says nothing of the log's own window.",
    )


def _policies(
    given: Policy | str | Path | Sequence[Policy | str | Path], book: Ledger
) -> tuple[Policy, ...]:
    listed = [given] if isinstance(given, Policy | str | Path) else list(given)
    if not listed:
        raise CloakworkError("compare: needs a policy")
    return tuple(
        each if isinstance(each, Policy) else load_policy(each, ledger=book) for each in listed
    )


def _sweeps(given: Sweeps) -> tuple[Sweep, ...]:
    if isinstance(given, str):
        return (read_sweep(given),)
    if isinstance(given, Mapping):
        return tuple(sweep_of(name, values) for name, values in given.items())
    return tuple(map(read_sweep, given))


def _dataset(policies: Sequence[Policy]) -> str:
    """The dataset that all policies are about; refuses several, as one log is of one."""
    names = list(dict.fromkeys(policy.metadata.dataset for policy in policies))
    if len(names) > 1:
        raise CloakworkError(
            f"compare: the policies are about the datasets '{names[0]}' and '{names[1]}'; "
            "one log is of one dataset"
        )
    return names[0]


def _require_file(path: Path) -> None:
    if not path.is_file():
        raise LogError(path, "is a folder" if path.is_dir() else "there is no such file")


def _event(
    policies: Sequence[Policy], settings: Sequence[PolicySetting], kind: SourceKind
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


def _assumed(facts: StandInFacts | None, kind: SourceKind) -> tuple[str, ...]:
    if facts is None:
        return ()
    if kind == "stand-in":
        return facts.assumed
    return tuple(line for line in facts.assumed if "window" in line or "longest_gap" in line)


def _opened(
    log: Any, policies: Sequence[Policy], columns: dict[str, str] | None, reporter: Reporter
) -> EventLog:
    """The log as the policies read it; refuses those that read it in several ways."""
    if isinstance(log, EventLog):
        return log
    if any(policy.spec.input != policies[0].spec.input for policy in policies):
        raise CloakworkError("compare: the policies read the log in several ways (spec.input)")
    if isinstance(log, str | Path):
        reporter(f"reading {log}")
        return read_under(policies[0], log, columns=columns, on_excess="drop")
    return log_in_memory(policies[0], log, columns)


@dataclass(frozen=True, slots=True)
class _Trial:
    """What every setting is tried on and with."""

    source: SettingSource
    book: Ledger
    profile: Profile | None
    window: str | None
    searches: SearchCache | None
    reporter: Reporter

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
        except LedgerError:
            raise
        except CloakworkError as error:
            return row.model_copy(update={"refused": _refusal(error)})

    def _found(self, policy: Policy) -> dict[str, Any]:
        """What there is to say of a policy that can be met."""
        paid_for = self.profile if policy.spec.profile is not None else None
        plan = make_plan(policy, profile=paid_for, window=self.window)
        tried = plan
        if self.source.kind == "stand-in" and any(
            step.mechanism == _SEARCHING for step in plan.steps
        ):
            tried = make_plan(_searching_briefly(policy), profile=paid_for, window=self.window)
        runs = [
            run_figures(tried, self.source.of_run(run), seed, self.searches)
            for seed, run in enumerate(self.source.runs())
        ]
        return {
            "guarantees": tuple(map(in_few_words, policy.goals())),
            "bounds": tuple(attack_bounds(plan)),
            "cost": tuple(costs(plan)),
            "remarks": (*_budget_remarks(plan, self.book), *_unproven(plan)),
            "figures": summary(runs),
            "runs": len(runs),
        }


def _searching_briefly(policy: Policy) -> Policy:
    """The policy with at most ``_SEARCH_SECONDS`` for the least change to an invented log: what a
    longer search gains there is not to be had on the log itself.
    """
    parameters = policy.spec.mechanisms.parameters
    own = parameters.get(_SEARCHING, {})
    seconds = own.get("seconds", _SEARCH_SECONDS)
    if isinstance(seconds, int | float):
        own = {**own, "seconds": min(seconds, _SEARCH_SECONDS)}
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


def _budget_remarks(plan: Plan, book: Ledger) -> tuple[str, ...]:
    """What the dataset's budget says to a release of ``plan``."""
    try:
        budget(plan, ledger=book)
    except BudgetExceeded as error:
        return (first_line(error),)
    return ()


def _unproven(plan: Plan) -> tuple[str, ...]:
    if not plan.unproven:
        return ()
    return ("UNPROVEN: a guarantee rests on a published claim alone",)
