"""The datasets of a ledger, as one overview each."""

from datetime import timedelta
from pathlib import Path

from cloakwork.base.costs import Cost
from cloakwork.ledger.case_hashes import fingerprint
from cloakwork.ledger.datasets import datasets, declare_dataset
from cloakwork.ledger.ledger import Ledger
from ledger.test_ledger import metric, reserve, total, unit


def signed(text: bytes) -> dict[str, str]:
    """A signature of nobody's."""
    return {"keyid": "0" * 64, "sig": str(len(text))}


def test_all_that_is_known(tmp_path: Path) -> None:
    """Declared or released from, in order of first entry, with what overlaps and what was
    compared.
    """
    ledger = Ledger(str(tmp_path / "ledger.db"), notice=lambda _: None)
    declare_dataset(ledger, "planned", owner="A", totals={"unit": Cost(epsilon=2.0)})
    ids = [str(number) for number in range(500)]
    key = ledger.case_id_key()
    reserve(ledger, unit(0.5), total(1.0), sample=fingerprint(ids, key))
    declare_dataset(ledger, "other", owner="O", distinct_from=["CLAIMS"], sign=signed)
    reserve(ledger, metric(1.0, 1), dataset="other", sample=fingerprint(ids[:250], key))
    ledger.record_event("compared", "claims", {"policies": 2})
    declare_dataset(ledger, "claims", owner="B")
    planned, claims, other_found = datasets(ledger)
    assert [each.name for each in (planned, claims, other_found)] == ["planned", "claims", "other"]
    assert planned.summary.balances[0].left == Cost(epsilon=2.0)
    assert planned.overlaps == ()
    assert [found.dataset for found in claims.overlaps or ()] == ["other"]
    assert [found.dataset for found in other_found.overlaps or ()] == ["claims"]
    assert [entry.kind for entry in claims.comparisons] == ["compared"]
    assert (claims.declaration.owner, other_found.declaration.owner) == ("B", "O")
    assert other_found.summary.balances[-1].shift == timedelta(hours=1)


def test_a_ledger_that_does_not_exist_has_none(tmp_path: Path) -> None:
    """And is not made by looking."""
    assert datasets(str(tmp_path / "ledger.db")) == ()
    assert list(tmp_path.iterdir()) == []
