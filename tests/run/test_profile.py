"""The DP profile: what it measures, what it costs, and what planning makes of it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from cloakwork.accounting.events import cost
from cloakwork.accounting.ledger import Ledger
from cloakwork.cli import cloakwork_command, main
from cloakwork.errors import BudgetExceeded, LedgerError, PlanImpossible, PlanUnsound
from cloakwork.facts import Unit
from cloakwork.log.eventlog import EventLog
from cloakwork.log.io import write_log
from cloakwork.mechanisms.profile import Profile, measure_profile, profile_params
from cloakwork.noise import reproducible, secret
from cloakwork.plan.model import Plan
from cloakwork.plan.planner import make_plan
from cloakwork.plan.prove import prove
from cloakwork.plan.sentences import assumptions_in_words, caveat_in_words, reasons_in_words
from cloakwork.policy.model import Policy
from cloakwork.run.execute import execute
from cloakwork.run.profile import measure
from contracts.sample_logs import log_of
from plan.conftest import DP, policy_of

SHARE = {"epsilon": 0.2, "delta": 1e-7, "activities_per_case": 3}
LOG = log_of([["a", "b"]] * 9000 + [["a", "c", "c", "b"]] * 3000 + [["rare"]])
"""So large that noise of scale 30 hides none of its activities but "rare", save with a probability
of e**-80.
"""


def buying(**spec: Any) -> Policy:
    return policy_of(
        **({"profile": SHARE, "budget": {"total": {"epsilon": 3.0, "delta": 1e-5}}} | spec)
    )


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")


@pytest.mark.parametrize("unit", ["case", {"attribute": "case:row", "max_cases": 3}])
@pytest.mark.parametrize("assume", [{}, {"alphabet": ["a", "b"]}])
def test_it_costs_at_most_its_share(unit: Any, assume: dict[str, Any]) -> None:
    """As the accountant sees the noise drawn, without what plain addition allows being lost."""
    params = profile_params(buying(unit=unit, assume=assume))
    spent = cost(params.event(), params.delta)
    assert 0.19 < spent.epsilon <= params.epsilon == 0.2
    assert spent.delta <= params.delta == (0.0 if assume else 1e-7)


def test_it_is_near_the_truth_on_a_large_log() -> None:
    figures = measure_profile(profile_params(buying()), LOG, reproducible(1))
    assert figures.cases == pytest.approx(12001, abs=600)
    assert figures.lengths["0.5"] == 2
    assert figures.lengths["0.9"] == 4
    assert figures.top["1"] == pytest.approx(9000, abs=2000)
    assert figures.alphabet == ("a", "b", "c")


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
    execute(make_plan(policy, profile=profile), LOG, ledger)
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


def test_a_claim_made_with_it_covers_its_cost(ledger: Ledger) -> None:
    plan = make_plan(buying(), profile=measure(buying(), LOG, ledger))
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


def test_prove_takes_the_profile_from_the_plan_and_nothing_else(ledger: Ledger) -> None:
    plan = make_plan(buying(), profile=measure(buying(), LOG, ledger))
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
    changes: dict[str, Any], cause: str, ledger: Ledger
) -> None:
    made = measure(buying(), LOG, ledger)
    own = {name: value for name, value in changes.items() if name in Profile.model_fields}
    params = made.params.model_copy(
        update={name: value for name, value in changes.items() if name not in own}
    )
    with pytest.raises(PlanImpossible, match=cause):
        make_plan(buying(), profile=made.model_copy(update=own | {"params": params}))


def test_it_belongs_to_differential_privacy(ledger: Ledger) -> None:
    made = measure(buying(), LOG, ledger)
    kanon = {"kind": "k-anonymity", "k": 5, "over": ["control-flow"]}
    with pytest.raises(PlanImpossible, match="unbounded neighbours"):
        make_plan(buying(guarantees=[kanon]), profile=made)
    with pytest.raises(PlanImpossible, match=r"no spec\.profile"):
        make_plan(buying(profile=None), profile=made)


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


def test_a_policy_that_buys_none_is_refused_before_the_log_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As any other policy that cannot be met: exit code 3, one line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(
        buying(profile=None).model_dump_json(by_alias=True, exclude_unset=True)
    )
    (tmp_path / "log.csv").write_text("no log at all")
    assert main(["profile", "p.yaml", "log.csv", "--out", "profile.json", "--quiet"]) == 3
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "profile: the policy sets no spec.profile" in line
    assert not (tmp_path / "profile.json").exists() and not (tmp_path / "cloakwork.db").exists()


def test_fixed_noise_is_no_profile(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="not private"):
        measure(buying(), LOG, ledger, noise=reproducible(1))


def test_without_the_file_the_plan_says_that_the_share_goes_unspent() -> None:
    plan = make_plan(buying())
    assert any("none was given" in caveat_in_words(caveat) for caveat in plan.warnings)
    assert plan.charges[0].cost.epsilon == 1.0


def test_a_case_counts_for_few_activities() -> None:
    """One case of a hundred activities adds at most ``activities_per_case`` to all counts together.

    That three draws of forty pairs out of a hundred name the same activities is less likely than
    1e-30.
    """
    params = profile_params(buying(profile=SHARE | {"activities_per_case": 2}))
    log = log_of([[str(i) for i in range(100)]] * 40)
    loud = params.model_copy(update={"selection_scale": 1e-3, "tau": 1})
    found = [measure_profile(loud, log, secret()).alphabet for _ in range(3)]
    assert all(names is not None and len(names) <= 80 for names in found)
    assert len(set(found)) > 1, "which activities count is drawn"


def test_counts_are_unbiased() -> None:
    params = profile_params(buying())
    log = log_of([["a"]] * 500)
    noise = reproducible(1)
    counts = np.array([measure_profile(params, log, noise).cases for _ in range(300)])
    spread = np.sqrt(2) * params.count_scale / np.sqrt(300)
    assert abs(counts.mean() - 500) < 5 * spread


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLOAKWORK_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CLOAKWORK_LEDGER", raising=False)
    text = buying(output={"format": "csv"}).model_dump_json(by_alias=True, exclude_unset=True)
    (tmp_path / "p.yaml").write_text(text)
    write_log(LOG, tmp_path / "log.csv", "csv")
    runs = (
        (["profile", "p.yaml", "log.csv", "--out", "profile.json"], "charged: epsilon 0.2"),
        (
            ["plan", "p.yaml", "log.csv", "--profile", "profile.json", "--out", "plan.json"],
            "facts that come from it",
        ),
        (["apply", "plan.json", "log.csv", "--out", "out"], "epsilon 0.8"),
        (["verify", "out"], "every claim and cost was derived again"),
    )
    for arguments, said in runs:
        result = CliRunner().invoke(cloakwork_command, arguments)
        shown = " ".join(result.stdout.split())
        assert result.exit_code == 0 and said in shown, result.output
    assert (
        json.loads((tmp_path / "out" / "plan.json").read_text())["profile"]["figures"]["cases"] > 0
    )


def test_errors_of_the_commands_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(buying().model_dump_json(by_alias=True, exclude_unset=True))
    write_log(log_of([["a"]]), tmp_path / "log.csv", "csv")
    (tmp_path / "there.json").write_text("{}")
    for arguments, said in (
        (["profile", "p.yaml", "log.csv", "--out", "there.json"], "exists"),
        (["profile", "p.yaml", "log.csv", "--out", "no/where.json"], "no folder"),
        (["profile", "p.yaml", "none.csv", "--out", "new.json"], "no such file"),
        (["plan", "p.yaml", "log.csv", "--profile", "there.json"], "is not a profile"),
        (["plan", "p.yaml", "log.csv", "--profile", "none.json"], "cannot be read as a profile"),
    ):
        assert main(arguments) != 0
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert said in line
