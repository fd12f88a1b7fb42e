"""The DP profile of a log: charged once, kept, and what planning makes of it."""

from pathlib import Path
from typing import Any

import pytest

from cloakwork.base.facts import Unit
from cloakwork.errors import BudgetExceeded, LedgerError, PlanImpossible, PlanUnsound
from cloakwork.ledger.ledger import Ledger
from cloakwork.log.eventlog import EventLog
from cloakwork.mechanisms.profile import Profile
from cloakwork.noise import reproducible
from cloakwork.plan.model import Plan
from cloakwork.plan.planner import make_plan, prove
from cloakwork.plan.sentences import assumptions_in_words, caveat_in_words, reasons_in_words
from cloakwork.run.run import Run, measure
from contracts.sample_logs import log_of
from plan.conftest import DP
from run.profiles import LOG, buying


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")


@pytest.fixture(scope="module")
def bought(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    """A profile, for tests that charge nothing."""
    return measure(buying(), LOG, Ledger(str(tmp_path_factory.mktemp("bought") / "ledger.db")))


@pytest.mark.parametrize(
    "log",
    [
        EventLog.empty(),
        log_of([[]]),
        log_of([["a"]]),
        log_of([["a"] * 3000]),
        log_of([[str(i)] for i in range(50)]),
    ],
)
def test_it_never_stops_on_data(log: EventLog, ledger: Ledger) -> None:
    """Whatever is drawn: only with 10**5 cases, made of noise of scale 30, would the policy's delta
    be too large.
    """
    for policy in (buying(), buying(assume={"alphabet": ["x"], "longest_case": 3})):
        plan = make_plan(policy, profile=measure(policy, log, ledger))
        assert prove(plan)


def test_the_ledger_is_charged_once_for_each(ledger: Ledger) -> None:
    """The release takes what the profile left, so both together are what the guarantee says."""
    policy = buying()
    profile = measure(policy, LOG, ledger)
    Run(plan=make_plan(policy, profile=profile)).release(LOG, ledger)
    bought, released = ledger.history("d")
    assert [charge.cost.epsilon for record in (bought, released) for charge in record.charges] == [
        0.2,
        0.8,
    ]
    assert [charge.cost.delta for record in (bought, released) for charge in record.charges] == [
        1e-7,
        9e-7,
    ]
    assert bought.id == profile.release and bought.state == "committed"
    with pytest.raises(BudgetExceeded):
        for _ in range(11):
            measure(policy, LOG, ledger)


def test_a_claim_made_with_it_covers_its_cost(bought: Profile) -> None:
    plan = make_plan(buying(), profile=bought)
    (claim,) = plan.claims
    assert claim.guarantee.model_dump()["epsilon"] == 1.0
    assert claim.cost is not None and 0.95 < claim.cost.epsilon <= 1.0 and claim.cost.delta <= 1e-6
    assert any("DP profile" in line for line in reasons_in_words(claim))
    assert {"alphabet", "units_at_most"} <= set(plan.facts.measured)
    assert any("selected by the DP profile" in line for line in assumptions_in_words(claim))


def test_what_the_policy_declares_goes_before(ledger: Ledger) -> None:
    policy = buying(assume={"alphabet": ["a"], "longest_case": 2, "units_at_most": 5000})
    plan = make_plan(policy, profile=measure(policy, LOG, ledger))
    assert (
        plan.facts.model_copy(update={"head_share": None}) == policy.facts()
        and plan.facts.measured == ()
    )


def test_prove_takes_the_profile_from_the_plan_and_nothing_else(bought: Profile) -> None:
    plan = make_plan(buying(), profile=bought)
    read = Plan.model_validate_json(plan.model_dump_json(by_alias=True))
    assert prove(read) == plan.claims
    with pytest.raises(PlanUnsound):
        prove(plan.model_copy(update={"profile": None}))
    assert plan.profile is not None
    less = plan.profile.params.model_copy(
        update={"count_scale": plan.profile.params.count_scale / 4}
    )
    with pytest.raises(PlanUnsound):
        prove(plan.model_copy(update={"profile": plan.profile.model_copy(update={"params": less})}))


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"dataset": "other"}, "of dataset 'other'"),
        ({"unit": Unit(attribute="case:row", max_cases=2)}, "its unit of privacy"),
        ({"epsilon": 1.0}, "leaves nothing"),
        ({"delta": 1e-3}, "leaves nothing"),
    ],
)
def test_a_profile_that_does_not_fit_is_refused(
    changes: dict[str, Any], cause: str, bought: Profile
) -> None:
    own = {name: value for name, value in changes.items() if name in Profile.model_fields}
    params = bought.params.model_copy(
        update={name: value for name, value in changes.items() if name not in own}
    )
    with pytest.raises(PlanImpossible, match=cause):
        make_plan(buying(), profile=bought.model_copy(update=own | {"params": params}))


def test_it_belongs_to_differential_privacy(bought: Profile) -> None:
    kanon = {"kind": "k-anonymity", "k": 5, "over": ["control-flow"]}
    with pytest.raises(PlanImpossible, match="unbounded neighbours"):
        make_plan(buying(guarantees=[kanon]), profile=bought)
    with pytest.raises(PlanImpossible, match=r"no spec\.profile"):
        make_plan(buying(profile=None), profile=bought)


@pytest.mark.parametrize(
    "spec",
    [
        {"profile": None},
        {"profile": {"epsilon": 1.0}},
        {"profile": {"epsilon": 0.1, "delta": 1e-5}},
        {"guarantees": [{"kind": "k-anonymity", "k": 5, "over": ["control-flow"]}]},
        {"guarantees": [DP | {"delta": 1e-3}], "profile": {"epsilon": 0.1, "delta": 1e-4}},
    ],
)
def test_what_cannot_be_bought_is_refused_before_it_is_charged(
    spec: dict[str, Any], ledger: Ledger
) -> None:
    with pytest.raises(PlanImpossible):
        measure(buying(**spec), LOG, ledger)
    assert ledger.history() == ()


def test_fixed_noise_is_no_profile(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="not private"):
        measure(buying(), LOG, ledger, noise=reproducible(1))


def test_without_the_file_the_plan_says_that_the_share_goes_unspent() -> None:
    plan = make_plan(buying())
    assert any("none was given" in caveat_in_words(caveat) for caveat in plan.warnings)
    assert plan.charges[0].cost.epsilon == 1.0
