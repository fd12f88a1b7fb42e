"""What a log is given before the first step; and no case is released with two windows of a growing
log, whatever becomes of its data, and nobody else's data decides with which: what parallel
composition rests on.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from itertools import combinations, pairwise, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from cloakwork.base.lineage import CONTROL_FLOW, Lineage
from cloakwork.engines.base import Engine
from cloakwork.engines.batched import LocalEngine
from cloakwork.engines.batches import collected
from cloakwork.engines.memory import MemoryEngine
from cloakwork.errors import BudgetExceeded, MechanismError, PlanImpossible, PlanUnsound
from cloakwork.ledger.ledger import Ledger, ReservationRequest
from cloakwork.log.eventlog import CASE_ID, TIMESTAMP, EventLog
from cloakwork.plan.budget import check_profile, facts_in_window, ledger_terms
from cloakwork.plan.model import Draft, Plan
from cloakwork.plan.planner import make_plan, prove
from cloakwork.plan.sentences import assumptions_in_words, caveat_in_words
from cloakwork.policy.model import Policy
from cloakwork.publishing.from_plan import statement_of
from cloakwork.run import prepare
from cloakwork.run.prepare import SourceFigures, prepared_log
from cloakwork.run.run import Run, measure
from contracts.sample_logs import log_of
from ledger.recording import record_window
from plan.conftest import ATTRIBUTES, DP, KANON, policy_of
from run.profiles import SHARE


def planned(*lineages, released=()):
    steps = [SimpleNamespace(lineage=lineage) for lineage in lineages]
    return SimpleNamespace(steps=steps, releases=lambda name: name in released)


def test_what_is_measured_is_read_as_the_characters_of_the_source():
    """But for what the source's own values are released of: a column that is made anew is released
    too, and its source's type follows from the values of all cases.
    """
    age, kind = frozenset({"age"}), frozenset({"kind"})
    measures = Lineage(measures=age | kind | {CONTROL_FLOW}, writes=frozenset({CONTROL_FLOW}))
    assert prepare._read_as_text(planned(measures)) == {"age", "kind"}
    assert prepare._read_as_text(planned(measures, released=("age",))) == {"kind"}
    enriches = Lineage(measures=age | {CONTROL_FLOW}, writes=age, enriches=True)
    assert prepare._read_as_text(planned(enriches, released=("age",))) == {"age"}
    both = planned(measures, enriches, released=("age", "kind"))
    assert prepare._read_as_text(both) == {"age"}


MONTHLY = {"by": "case-start", "every": "1 month"}
TIMES = {"time:timestamp": {"role": "timestamp"}}
PATIENT = "case:patient"
SIMPLE = {"allow": ["variants/threshold", "kanon/*", "timestamps/laplace"]}


def growing(**spec: Any) -> Policy:
    """A policy with windows of a month, each with a total of two releases."""
    budget = {"total": {"epsilon": 2.0, "delta": 1e-5}, "windows": MONTHLY}
    return policy_of(**({"budget": budget, "mechanisms": SIMPLE} | spec))


@cache
def october() -> Plan:
    """The plan for its window of October."""
    return make_plan(growing(), window="2026-10")


def month(number: int) -> datetime:
    return datetime(2026, number, 15, tzinfo=UTC)


MONTHS = (9, 10, 11)
MOST = 3 if "CLOAKWORK_RUNS" in os.environ else 2
SETS = [set(some) for count in range(MOST + 1) for some in combinations((*MONTHS, None), count)]
"""In which months a case has events in one extract; None: an event without a time; or no event."""

EXTRACTS = 3 if "CLOAKWORK_RUNS" in os.environ else 2
HISTORIES = [history for history in product(SETS, repeat=EXTRACTS) if any(history)]
"""What a case looks like in the extracts: it may go on, be corrected, lose events or vanish."""


@cache
def extract(number: int, chosen: range | tuple[int, ...]) -> EventLog:
    """The cases ``chosen`` of all histories, as the extract with this number holds them."""
    held = [(place, HISTORIES[place][number]) for place in chosen]
    times = [[month(each) if each else None for each in sorted(some, key=str)] for _, some in held]
    log = log_of([["a"] * len(case) for case in times], times)
    ids = pl.Series(CASE_ID, [f"case {place}" for place, _ in held], pl.String)
    return replace(log, cases=log.cases.with_columns(ids))


def releases(
    folder: Path,
    order: Sequence[int],
    chosen: range | tuple[int, ...],
    *,
    recorded: bool = True,
    engine: Engine | None = None,
) -> list[set[str]]:
    """The ids of the cases that go into releases of the windows in ``order``, each of the next
    extract.
    """
    engine = engine or MemoryEngine()
    ledger, policy = Ledger(str(folder / "ledger.db"), notice=lambda _: None), growing()
    found = []
    for number, of in enumerate(order):
        name = f"2026-{of:02}"
        facts = facts_in_window(policy, policy.facts(), name)
        in_window = partial(prepare.in_window, policy=policy, facts=facts)
        log = engine.open(extract(number, chosen), in_window, None, SourceFigures()).log
        if recorded:
            terms = ledger_terms(policy, name)
            reservation = ledger.reserve(
                ReservationRequest(dataset="d", policy="p", charges=(), terms=terms)
            )
            log, _ = prepare.own_cases(log, facts, reservation, engine)
        found.append(set(collected(log).cases[CASE_ID]))
    return found


def test_windows_on_batches_are_those_of_memory(tmp_path: Path) -> None:
    """The same cases go with each window, whatever the batches."""
    for number, order in enumerate(([9, 10], [10, 9], [11, 11])):
        found = []
        for name, engine in (("m", MemoryEngine()), ("l", LocalEngine(batch_events=20))):
            folder = tmp_path / f"{name}{number}"
            folder.mkdir()
            found.append(releases(folder, order, range(120), engine=engine))
        assert found[0] == found[1]
        assert any(found[0])


def in_two_windows(order: Sequence[int], found: Sequence[set[str]]) -> set[str]:
    """The cases that were released with two windows."""
    return set().union(
        *(
            one & other
            for (first, one), (second, other) in combinations(zip(order, found, strict=True), 2)
            if first != second
        )
    )


ALL = range(len(HISTORIES))


@pytest.mark.parametrize("order", list(product(MONTHS, repeat=EXTRACTS)), ids=str)
def test_no_case_is_released_with_two_windows(order: tuple[int, ...], tmp_path: Path) -> None:
    """Over all histories; and a case without its neighbours fares the same."""
    found = releases(tmp_path, order, ALL)
    assert not in_two_windows(order, found)
    (tmp_path / "half").mkdir()
    half = releases(tmp_path / "half", order, ALL[::3])
    names = {f"case {place}" for place in ALL[::3]}
    assert half == [each & names for each in found]


def _ends(log: EventLog, timestamp: str) -> np.ndarray[Any, Any]:
    """A broken twin: a case lies in the window of its last event."""
    times = log.events[timestamp].to_physical().fill_null(-1).to_numpy()
    ends = np.full(log.cases.height, -1, np.int64)
    np.maximum.at(ends, log.case_of, times)
    return ends


def _any_event(log: EventLog, policy: Policy, facts: Any) -> EventLog:
    """A broken twin: a case lies in the window of any of its events."""
    month_of = log.events[TIMESTAMP].dt.strftime("%Y-%m").fill_null("none").to_numpy()
    touched = np.unique(log.case_of[month_of == facts.release_window])
    return log.keep_cases(touched)


def _goes_on(history: tuple[set[int | None], ...]) -> bool:
    """Whether a case only gets later events from extract to extract."""
    times = [{each for each in some if each is not None} for some in history]
    if not all(times) or any(None in some for some in history):
        return False
    grows = all(one <= other for one, other in pairwise(times))
    return grows and len({min(some) for some in times}) == 1


@pytest.mark.parametrize(("name", "twin"), [("_starts", _ends), ("in_window", _any_event)])
def test_other_rules_would_release_a_case_twice(
    name: str, twin: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its end a case that goes on is in two windows, by its events a long one is; neither needs
    a correction of what was recorded. The start does.
    """
    goes_on = tuple(place for place in ALL if _goes_on(HISTORIES[place]))
    order = (10, 11, 11)[:EXTRACTS]
    assert not in_two_windows(order, releases(tmp_path, order, goes_on, recorded=False))
    monkeypatch.setattr(prepare, name, twin)
    assert in_two_windows(order, releases(tmp_path, order, goes_on, recorded=False))


def test_without_the_record_a_corrected_case_is_released_twice(tmp_path: Path) -> None:
    order = (10, 11, 9)[:EXTRACTS]
    assert in_two_windows(order, releases(tmp_path, order, ALL, recorded=False))


def log_in(*starts: datetime | None) -> EventLog:
    """A case of two events for each start; None: a case without times."""
    times = [[start, start] for start in starts]
    log = log_of([["a", "b"]] * len(times), times)
    patients = pl.Series(PATIENT, ["p"] * len(times), pl.String)
    return replace(log, cases=log.cases.with_columns(patients))


def test_borders_are_of_utc_and_cases_without_time_or_id_stay_out() -> None:
    border = datetime(2026, 11, 1, tzinfo=UTC)
    before = datetime(2026, 10, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    log = log_in(datetime(2026, 10, 1, tzinfo=UTC), before, border, None, month(10))
    ids = pl.Series(CASE_ID, ["a", "b", "c", "d", None], pl.String)
    log = replace(log, cases=log.cases.with_columns(ids))
    for unit, expected in (("case", ["a", "b"]), ({"attribute": PATIENT}, ["a", "b", None])):
        policy = growing(unit=unit, attributes=ATTRIBUTES | {PATIENT: {"role": "identifier"}})
        facts = facts_in_window(policy, policy.facts(), "2026-10")
        assert prepare.in_window(log, policy, facts).cases[CASE_ID].to_list() == expected


@pytest.mark.parametrize("goal", [DP, KANON])
@pytest.mark.parametrize("log", [EventLog.empty(), log_in(None, None), log_in(month(9))])
def test_it_never_stops_on_data(goal: dict[str, Any], log: EventLog, tmp_path: Path) -> None:
    plan = october() if goal is DP else make_plan(growing(guarantees=[goal]), window="2026-10")
    made = Run(plan=plan).release(log, Ledger(str(tmp_path / "ledger.db"), notice=lambda _: None))
    assert made.log.cases.height == 0


def test_a_column_without_times_is_refused() -> None:
    policy = growing(attributes=ATTRIBUTES | {"when": {"role": "timestamp"}})
    log = log_in(month(10))
    log = replace(log, events=log.events.with_columns(pl.lit("noon").alias("when")))
    with pytest.raises(MechanismError, match="'when' has the role timestamp and does not"):
        prepared_log(log, make_plan(policy, window="2026-10"))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(str(tmp_path / "ledger.db"), notice=lambda _: None)


LOG = log_in(*[month(10)] * 30, *[month(11)] * 30)


def test_windows_are_charged_apart_and_one_window_again(ledger: Ledger) -> None:
    """Two releases of a window fit; the third does not, and one of another window does."""
    for _ in range(2):
        made = Run(plan=october()).release(LOG, ledger)
        assert made.plan.charges[0].window == "2026-10"
        assert "30 cases of the log start in window" in " ".join(made.internal.notes)
    with pytest.raises(BudgetExceeded, match="window 2026-10"):
        Run(plan=october()).release(LOG, ledger)
    Run(plan=make_plan(growing(), window="2026-11")).release(LOG, ledger)


def test_persons_are_charged_in_every_window(ledger: Ledger) -> None:
    unit = {"attribute": PATIENT}
    attributes = ATTRIBUTES | {PATIENT: {"role": "identifier"}}
    policy = growing(unit=unit, attributes=attributes)
    charges = make_plan(policy, window="2026-10").charges
    for name in ("2026-10", "2026-11"):
        ledger.reserve(
            ReservationRequest(
                dataset="d", policy="p", charges=tuple(charges), terms=ledger_terms(policy, name)
            )
        )
    with pytest.raises(BudgetExceeded, match="per 'case:patient'"):
        ledger.reserve(
            ReservationRequest(
                dataset="d",
                policy="p",
                charges=tuple(charges),
                terms=ledger_terms(policy, "2026-12"),
            )
        )


def test_a_release_of_everything_is_charged_in_every_window(ledger: Ledger) -> None:
    whole = growing(budget={"total": {"epsilon": 2.0, "delta": 1e-5}})
    Run(plan=october()).release(LOG, ledger)
    Run(plan=make_plan(whole)).release(LOG, ledger)
    with pytest.raises(BudgetExceeded, match="window 2026-10"):
        Run(plan=october()).release(LOG, ledger)


@pytest.mark.parametrize(
    ("policy", "name", "said"),
    [
        (
            growing(),
            None,
            "spelt as in this example: --window 2026-10",
        ),
        (growing(), "2026-W43", "there is no window '2026-W43': with every: 1 month"),
        (policy_of(), "2026-10", "the policy has no windows, and '2026-10' was named"),
    ],
)
def test_a_window_is_named_where_there_are_any(
    policy: Policy, name: str | None, said: str, ledger: Ledger
) -> None:
    with pytest.raises(PlanImpossible, match=said):
        make_plan(policy, window=name)


def test_claims_name_the_window() -> None:
    """As what they rest on, as a caveat, and where times alone are protected as known: another time
    could take a case out of the window, which shows.
    """
    metric = {"kind": "metric-privacy", "epsilon": 1.0, "shift": "1h", "over": ["timestamps"]}
    policy = growing(guarantees=[KANON, metric], attributes=ATTRIBUTES | TIMES)
    plan = make_plan(policy, window="2026-10")
    _, noised = plan.claims
    rests_on = " ".join(assumptions_in_words(noised))
    assert "cases whose first event lies in 2026-10 (UTC) are taken" in rests_on
    assert "the window from 2026-10-01 to 2026-10-31" in noised.sentence
    (metric_charge,) = plan.charges
    assert metric_charge.window == "2026-10"
    said = " ".join(map(caveat_in_words, plan.warnings))
    assert "whoever knows that a case is in it knows that it started then" in said
    assert "knows that it started" not in " ".join(map(caveat_in_words, october().warnings))


def test_the_statement_names_the_window_and_its_total() -> None:
    plan = october()
    statement = statement_of(plan, "id", released=(), private=True)
    assert statement.window is not None
    assert (statement.window.name, statement.window.before) == (
        "2026-10",
        datetime(2026, 11, 1, tzinfo=UTC),
    )
    assert [spent.window for spent in statement.budget] == ["2026-10"]


@pytest.mark.parametrize(
    "change",
    [
        {"release_window": "2026-11"},
        {"release_window": None},
        {"window": None},
        {"release_window": "2026-13"},
    ],
)
def test_a_plan_of_another_window_is_not_proved(change: dict[str, Any]) -> None:
    plan = october()
    assert prove(plan)
    with pytest.raises(PlanUnsound):
        prove(plan.model_copy(update={"facts": plan.facts.model_copy(update=change)}))
    uncharged = tuple(each.model_copy(update={"window": "2026-11"}) for each in plan.charges)
    with pytest.raises(PlanUnsound):
        prove(plan.model_copy(update={"charges": uncharged}))


def test_the_window_takes_the_place_of_the_declared_one() -> None:
    declared = {"window": {"start": "2020-01-01T00:00:00Z", "end": "2030-01-01T00:00:00Z"}}
    policy = growing(assume={**declared, "grid": "1m"})
    found = facts_in_window(policy, policy.facts(), "2026-10").window
    assert found is not None
    assert found.start == datetime(2026, 10, 1, tzinfo=UTC)
    assert found.end == datetime(2026, 10, 31, 23, 59, tzinfo=UTC)


def test_a_profile_belongs_to_its_window(ledger: Ledger) -> None:
    """It is charged in it alone, and its cases are recorded with it."""
    policy = growing(profile=SHARE)
    profile = measure(policy, LOG, ledger, window="2026-10")
    for name, causes in (("2026-10", 0), ("2026-11", 1)):
        facts = facts_in_window(policy, policy.facts(), name)
        draft = Draft(policy, facts, {}, goals=policy.goals(), profile=profile)
        found = [cause.reason for cause in check_profile(draft).causes]
        assert len(found) == causes
        assert all("it was measured on window 2026-10" in reason for reason in found)
    (record,) = ledger.history("d")
    assert [charge.window for charge in record.charges] == [record.window] == ["2026-10"]
    later = ledger.reserve(
        ReservationRequest(
            dataset="d", policy="p", charges=(), terms=ledger_terms(policy, "2026-11")
        )
    )
    assert record_window(later, ["case 0", "case 30"]) == {"case 0"}
