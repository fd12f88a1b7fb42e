"""What the ledger makes of an entry that an advisory concerns."""

import dataclasses
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cloakwork.accounting.charge import Charge
from cloakwork.base.budget import Cost
from cloakwork.ledger.affected import advisories_of, with_voided_charges
from cloakwork.ledger.ledger import Ledger
from cloakwork.ledger.records import Record
from cloakwork.publishing.advisories import (
    shipped_advisories,
)
from publishing.earlier_releases import EARLIER, records


def test_an_entry_tells_less_than_a_release_and_so_stays_open(tmp_path: Path) -> None:
    dp = next(record for record in records(tmp_path) if record.policy == "dp-control-flow")
    status = {each.advisory.id: each.status for each in advisories_of(dp)}

    assert status["CW-2026-01"] == "open" and status["CW-2026-12"] == "weakened"
    assert "CW-2026-09" not in status, "its delta is noted: 1e-6"
    assert with_voided_charges(dp) == dp, "what is open is not recharged"


def test_a_new_entry_says_which_version_made_it(tmp_path: Path) -> None:
    book = Ledger(f"sqlite:///{tmp_path / 'new.db'}")
    book.reserve("d", policy="p", charges=[Charge(currency="none")])
    (record,) = book.history()

    assert record.engine.startswith("0.2") and advisories_of(record) == ()


def test_an_entry_whose_claim_is_void_counts_without_bound_and_what_it_charged_stays_spent() -> (
    None
):
    void = shipped_advisories()[0].model_copy(update={"depends": None})
    record = Record(
        id="x",
        dataset="d",
        policy="p",
        version="1",
        policy_digest="",
        charges=(Charge(currency="unit", cost=Cost(epsilon=1.0)),),
        totals=(),
        note="Whether ... (differential privacy over control-flow).",
        state="committed",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        digest="0" * 64,
    )

    assert with_voided_charges(record, [void]).charges == (*record.charges, Charge(currency="none"))
    assert with_voided_charges(with_voided_charges(record, [void]), [void]) == with_voided_charges(
        record, [void]
    )
    assert with_voided_charges(record, [void]).without_dp
    later = dataclasses.replace(record, engine="0.2.0")
    assert with_voided_charges(later, [void]) == later


def test_the_ledger_counts_what_is_void_as_without_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry of version 0.1.0 that paid for differential privacy; nothing that it charged is
    handed back.
    """
    copy = shutil.copy(EARLIER / "ledger.db", tmp_path / "ledger.db")
    book = Ledger(f"sqlite:///{copy}")
    (before,) = book.summary()
    void = shipped_advisories()[0].model_copy(update={"depends": None})
    monkeypatch.setattr("cloakwork.publishing.advisories.shipped_advisories", lambda: (void,))
    (after,) = book.summary()

    assert {each.policy for each in after.without_dp} - {
        each.policy for each in before.without_dp
    } == {"dp-control-flow"}
    assert after.balances == before.balances
