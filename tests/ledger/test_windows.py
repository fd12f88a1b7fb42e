"""The books of a growing log: no case and no person is ever charged more than every total allows,
whatever is released of whichever window, in whatever order.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloakwork.base.costs import Charge, Cost
from cloakwork.errors import BudgetExceeded, LedgerError, PlanImpossible
from cloakwork.ledger.account import Account, BudgetTerms, require_fit
from cloakwork.ledger.books import Book
from cloakwork.ledger.journal import tables
from cloakwork.ledger.ledger import Ledger, Reservation
from ledger.recording import record_window
from ledger.test_ledger import request

PATIENT = "case:patient"
MOST = 3
"""Cases that one patient owns in the dataset, as declared."""

TOTAL = Fraction(2)
WINDOWS = ("2026-09", "2026-10", "2026-11")


def released(unit: str, window: str | None, tenths: int) -> Charge:
    """What a release costs that protects ``unit``; where that is a case, in its window alone."""
    in_window = window if unit == "case" else None
    return Charge(currency="unit", cost=Cost(epsilon=tenths / 10), unit=unit, window=in_window)


Asked = tuple[str, str | None, int]
ASKED = st.tuples(
    st.sampled_from(["case", PATIENT]), st.sampled_from([None, *WINDOWS]), st.integers(1, 9)
)


def risk_of_case(made: Sequence[Asked], window: str) -> Fraction:
    """What releases tell of a case of ``window`` at most: those of its window, of the whole log,
    and of persons (as a replacement) of whatever window.
    """
    risk = Fraction(0)
    for unit, of, tenths in made:
        if unit == PATIENT:
            risk += 2 * Fraction(tenths, 10)
        elif of in (None, window):
            risk += Fraction(tenths, 10)
    return risk


def risk_of_patient(made: Sequence[Asked]) -> Fraction:
    """What they tell at most of a patient, whose cases may lie in any window."""
    weights = {"case": MOST, PATIENT: 1}
    return sum((weights[unit] * Fraction(tenths, 10) for unit, _, tenths in made), Fraction(0))


def fits(made: Sequence[Asked], totals: tuple[str, ...]) -> bool:
    cases = all(risk_of_case(made, window) <= TOTAL for window in (*WINDOWS, "2026-12"))
    return ("case" not in totals or cases) and (
        PATIENT not in totals or risk_of_patient(made) <= TOTAL
    )


def accepted(asked: Sequence[Asked], totals: tuple[str, ...]) -> list[tuple[Asked, bool]]:
    """Which of the releases the books let pass, one after another."""
    held, answers = Account(), []
    for each in asked:
        unit, window, tenths = each
        charges = (released(unit, window, tenths),)
        terms = BudgetTerms(
            unit=unit,
            totals={"unit": Cost(epsilon=float(TOTAL))} if unit in totals else {},
            cases_per_unit={PATIENT: MOST},
            window=window,
        )
        declared = terms.declared(charges)
        try:
            require_fit("d", held, charges, declared, terms, "p")
        except BudgetExceeded:
            answers.append((each, False))
            continue
        held = held.with_release(charges, declared, terms.cases_per_unit)
        answers.append((each, True))
    return answers


@given(asked=st.lists(ASKED, max_size=12), totals=st.sampled_from([("case",), ("case", PATIENT)]))
def test_nobody_is_charged_more_than_the_totals(
    asked: list[Asked], totals: tuple[str, ...]
) -> None:
    """Compared with what each case and each patient risks, counted one by one. What is refused
    would have been too much; a release whose own policy declares no total is held to the others'.
    """
    made: list[Asked] = []
    declared: set[str] = set()
    for each, passed in accepted(asked, totals):
        binding = tuple(declared | ({each[0]} & set(totals)))
        assert passed == fits([*made, each], binding)
        if passed:
            made.append(each)
            declared |= {each[0]} & set(totals)


def test_windows_of_persons_apart_would_be_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken twin, in which a person's book is kept by window, is found out by the count."""
    asked: list[Asked] = [("case", window, 5) for window in WINDOWS]
    asked.append((PATIENT, None, 1))

    def made() -> list[Asked]:
        return [each for each, passed in accepted(asked[::-1], (PATIENT,)) if passed]

    assert fits(made(), (PATIENT,))
    monkeypatch.setattr(Book, "by_window", True)
    assert not fits(made(), (PATIENT,))


def test_a_charge_per_person_has_no_window() -> None:
    with pytest.raises(ValueError, match="counts in every window"):
        Charge(currency="unit", cost=Cost(epsilon=1.0), unit=PATIENT, window="2026-10")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(str(tmp_path / "ledger.db"))


def reserve(
    ledger: Ledger, window: str | None, epsilon: float = 0.5, every: str | None = "1 month"
) -> Reservation:
    """A release that protects each case, of a dataset whose total is 1."""
    return ledger.reserve(
        request(
            (Charge(currency="unit", cost=Cost(epsilon=epsilon), window=window),),
            dataset="d",
            terms=BudgetTerms(
                totals={"unit": Cost(epsilon=1.0)}, window=window, every=every if window else None
            ),
        )
    )


def test_each_window_has_the_total_to_itself(ledger: Ledger) -> None:
    """The same window again is charged again; a release of the whole log in every window."""
    for window in ("2026-10", "2026-10", "2026-11"):
        reserve(ledger, window)
    with pytest.raises(BudgetExceeded, match=r"window 2026-10 .* no epsilon is left"):
        reserve(ledger, "2026-10")
    with pytest.raises(BudgetExceeded, match="window 2026-10"):
        reserve(ledger, None, 0.1)
    reserve(ledger, "2026-12", 0.2)
    left = {
        window: balance.left.epsilon
        for window in (*WINDOWS, "2026-12")
        if (balance := ledger.remaining("d", window=window)["case"]).left is not None
    }
    assert left == {"2026-09": 1.0, "2026-10": 0.0, "2026-11": 0.5, "2026-12": 0.8}
    assert [record.window for record in ledger.history("d")] == [
        "2026-10",
        "2026-10",
        "2026-11",
        "2026-12",
    ]


def test_a_release_of_the_whole_log_counts_in_windows_to_come(ledger: Ledger) -> None:
    reserve(ledger, None, 0.6)
    with pytest.raises(BudgetExceeded):
        reserve(ledger, "2026-10")
    reserve(ledger, "2026-10", 0.4)
    (summary,) = ledger.summary("d")
    spent = {balance.window: balance.spent.epsilon for balance in summary.balances}
    assert spent == {None: 0.6, "2026-10": 1.0}


def test_windows_of_another_length_are_refused(ledger: Ledger) -> None:
    """They would overlap: a case would be in two."""
    first = reserve(ledger, "2026-10")
    with pytest.raises(PlanImpossible, match=rf"of 1 month, by release {first.id}.*every: 1 month"):
        reserve(ledger, "2026-W43", every="1 week")
    assert len(ledger.history("d")) == 1


def test_a_case_has_the_window_of_its_first_release(ledger: Ledger) -> None:
    """Also in a release of that window again; of another dataset it knows nothing."""
    october, november = reserve(ledger, "2026-10"), reserve(ledger, "2026-11")
    assert record_window(october, ["a", "b"]) == frozenset()
    assert record_window(november, ["b", "c"]) == {"b"}
    assert record_window(october, ["a", "c", "d"]) == {"c"}
    other = ledger.reserve(request(dataset="e", terms=BudgetTerms(window="2026-11")))
    assert record_window(other, ["a"]) == frozenset()


def test_windows_race_for_a_case(ledger: Ledger) -> None:
    """Of eight windows at once, one gets each case."""
    ids = [f"case {number}" for number in range(50)]
    reserved = [reserve(ledger, f"2026-0{month}") for month in range(1, 9)]
    with ThreadPoolExecutor(8) as pool:
        elsewhere = list(pool.map(lambda each: record_window(each, ids), reserved))
    got = sorted(name for lost in elsewhere for name in set(ids) - lost)
    assert got == sorted(ids)


def test_a_record_that_is_gone_is_noticed(ledger: Ledger) -> None:
    """Its cases would be released with a second window, which no entry of the chain would show.
    Also that of a release without any case of its own.
    """
    for window in ("2026-09", "2026-10"):
        release = reserve(ledger, window)
        record_window(release, ["a"])
        release.commit()
    table = tables().windows
    with ledger.journal._sql_engine().connect() as connection, connection.begin():
        connection.execute(table.delete().where(table.c.window == "2026-10"))
    with pytest.raises(LedgerError, match=f"release {release.id} .* no longer recorded"):
        record_window(reserve(ledger, "2026-11"), ["a"])


def test_another_key_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    """With it no case would be known again."""
    record_window(reserve(ledger, "2026-10"), ["a"])
    (tmp_path / "ledger.db.key").unlink()
    with pytest.raises(LedgerError, match="recorded with another key"):
        record_window(reserve(ledger, "2026-11"), ["a"])


def test_ids_do_not_lie_in_the_ledger(ledger: Ledger, tmp_path: Path) -> None:
    record_window(reserve(ledger, "2026-10"), ["a very telling id"])
    held = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"telling" not in held
