"""Measuring the DP profile that a policy buys."""

import polars as pl

from cloakwork.base.costs import Cost
from cloakwork.base.text import version_of
from cloakwork.engines.measured import measured_of
from cloakwork.engines.memory import MemoryEngine
from cloakwork.kernel import Books, Kernel
from cloakwork.ledger.ledger import Ledger, Require, ReservationRequest
from cloakwork.log.eventlog import CASE_ID, EventLog
from cloakwork.mechanisms.aggregates import VariantCounts
from cloakwork.mechanisms.bound import BoundContributions, BoundParams
from cloakwork.mechanisms.profile import Profile, ProfileFigures, ProfileParams, measure_profile
from cloakwork.mechanisms.steps import Decision
from cloakwork.noise import Noise, secret
from cloakwork.plan.budget import facts_in_window, ledger_terms, require_profile_params, unit_charge
from cloakwork.policy.load import digest
from cloakwork.policy.model import Policy
from cloakwork.run.prepare import (
    case_id_sample,
    in_time_order,
    in_window,
    own_cases,
    under_standard_names,
    with_one_unit_a_case,
)
from cloakwork.run.run import recording_failure


def measure(
    policy: Policy,
    log: EventLog,
    ledger: Ledger,
    *,
    noise: Noise | None = None,
    window: str | None = None,
    require: Require | None = None,
) -> Profile:
    """The DP profile of ``log`` that ``policy`` buys; its share is charged to ``ledger`` before the
    log is looked at. ``window``: of a growing log, the one whose cases are measured.
    ``require``: as for ``execute``.

    Raises PlanImpossible where the policy buys none, or its delta is too large, BudgetExceeded and
    LedgerError as ``execute`` does, and LedgerError for a ``noise`` source with a fixed seed.
    """
    noise = noise or secret()
    params = require_profile_params(policy)
    # The same preparation as of a release, as far as the profile looks.
    facts = facts_in_window(policy, policy.facts(), window)
    needs = {CASE_ID, facts.unit.attribute}.__contains__
    log = in_window(with_one_unit_a_case(log, facts.unit), policy, facts)
    prepared = in_time_order(
        log,
        under_standard_names(log, policy, needs),
        policy,
        needs,
        facts.unit,
    )
    engine = MemoryEngine()
    request = ReservationRequest(
        dataset=policy.metadata.dataset,
        policy=policy.metadata.name,
        version=policy.metadata.version,
        policy_digest=digest(policy),
        charges=(unit_charge(Cost(epsilon=params.epsilon, delta=params.delta), facts),),
        terms=ledger_terms(policy, window),
        note="DP profile: noisy figures of the log, for planning",
        makes="profile",
        private=noise.private,
        require=require,
        sample=case_id_sample(prepared, engine, ledger) if noise.private else None,
    )
    reservation = ledger.reserve(request)
    with recording_failure(reservation):
        # Bounded as a release bounds it: the parameters charge for that.
        own, _ = own_cases(prepared, facts, reservation, engine)
        bounds = BoundParams(
            attribute=facts.unit.attribute,
            max_cases=facts.unit.max_cases,
            alphabet=facts.alphabet,
            longest_case=facts.longest_case,
        )
        cut = BoundContributions().rewrite(
            bounds,
            Decision(pl.DataFrame()),
            noise.stream(),
        )
        figures = figures_of(params, engine.rewrite(own, cut), noise)
    reservation.commit()
    return Profile(
        engine=version_of("cloakwork"),
        dataset=policy.metadata.dataset,
        window=window,
        release=reservation.id,
        ledger_entry=reservation.digest,
        params=params,
        figures=figures,
    )


def figures_of(
    params: ProfileParams,
    log: EventLog,
    noise: Noise,
) -> ProfileFigures:
    """The noisy figures of ``log``, which has been bounded, by a kernel that answers what the
    parameters charge for.
    """
    measured = measured_of(MemoryEngine().summarise(log, VariantCounts()), noise)
    kernel = Kernel(
        measured,
        Books.of(params.event()),
        noise,
        params.unit.max_cases,
    )
    return measure_profile(params, kernel)
