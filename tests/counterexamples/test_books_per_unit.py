"""B8: each protected unit has its own books; what cannot be converted is not added up."""

import html
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from cloakwork.base.costs import Charge, Cost
from cloakwork.ledger.ledger import ReservationRequest
from conftest import Said

Cloakwork = Callable[..., Said]
PATIENT = "case:patient"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """One patient with 60 cases, and thirty with one."""
    owners = ["p0"] * 60 + [f"p{i}" for i in range(1, 31)]
    lines = ["case:concept:name,case:patient,concept:name,time:timestamp"]
    for number, owner in enumerate(owners):
        for hour, activity in enumerate("ab"):
            lines.append(f"c{number},{owner},{activity},2024-01-01T{hour:02}:00:00Z")
    file = tmp_path / "log.csv"
    file.write_text("\n".join(lines) + "\n", "utf-8")
    return file


def policy(
    folder: Path, name: str, *, unit: Any = "case", epsilon: float = 1.0, **more: Any
) -> Path:
    """A policy that releases the control flow with differential privacy per ``unit``."""
    document = {
        "apiVersion": "cloakwork/v1",
        "kind": "PrivacyPolicy",
        "metadata": {
            "name": name,
            "version": "1.0.0",
            "owner": "o",
            "purpose": "p",
            "dataset": "clinic",
        },
        "spec": {
            "unit": unit,
            "attributes": {
                "case:concept:name": {"role": "identifier"},
                PATIENT: {"role": "identifier"},
                "concept:name": {"role": "control-flow"},
                "time:timestamp": {"role": "timestamp", "treatment": "drop"},
            },
            "guarantees": more.pop("guarantees", None)
            or [
                {
                    "kind": "differential-privacy",
                    "epsilon": epsilon,
                    "delta": 1e-6,
                    "over": ["control-flow"],
                }
            ],
            "mechanisms": {
                "allow": [
                    "variants/threshold",
                    "timestamps/*",
                    "kanon/pretsa",
                    "attributes/*",
                    "bound",
                ]
            },
            "budget": {"total": {"epsilon": 2.0, "delta": 1e-5}},
            "output": {"format": "csv", "report": []},
        },
    }
    for section, content in more.items():
        document["spec"][section] = content
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(document), "utf-8")
    return file


PERSON = {"attribute": PATIENT, "max_cases": 1}
Apply = Callable[..., Said]


@pytest.fixture
def apply(cloakwork: Cloakwork, tmp_path: Path, ledger: str, log: Path) -> Apply:
    """Release the log under a policy into a folder of this name."""

    def run(policy: Path, out: str, *options: str) -> Said:
        where = ("--out", tmp_path / out, "--ledger", ledger)
        return cloakwork("apply", policy, log, *where, *options)

    return run


def test_case_and_person_are_not_added_up(apply: Apply, tmp_path: Path) -> None:
    """Per case 1 and per patient 1 were "2 of 2", while a patient with 60 cases stood open in the
    first: refused.
    """
    by_case = policy(tmp_path, "by-case")
    by_person = policy(tmp_path, "by-person", unit=PERSON)
    assert apply(by_case, "one").code == 0
    said = apply(by_person, "two", "--quiet")
    assert said.code == 3, said.out
    assert len(said.err.splitlines()) == 1
    assert "cases_per_unit" in said.err and "budget.books" in said.err
    assert not (tmp_path / "two").exists()


def test_the_other_way_round(apply: Apply, tmp_path: Path) -> None:
    """A release per case after one per person opens the person's book just as much."""
    by_person = policy(tmp_path, "by-person", unit=PERSON)
    by_case = policy(tmp_path, "by-case")
    assert apply(by_person, "one").code == 0
    assert apply(by_case, "two").code == 3


def test_a_person_counts_twice_per_case(apply: Apply, tmp_path: Path) -> None:
    """Without one of its cases a person may be represented by another: epsilon .4 per person is .8
    per case.
    """
    bound = {"cases_per_unit": {PATIENT: 60}}
    generous = {"total": {"epsilon": 100.0, "delta": 0.1}}
    by_person = policy(
        tmp_path, "by-person", unit=PERSON, epsilon=0.4, assume=bound, budget=generous
    )
    assert apply(by_person, "one").code == 0
    by_case = policy(
        tmp_path, "by-case", epsilon=0.05, budget={"total": {"epsilon": 0.84, "delta": 1e-5}}
    )
    said = apply(by_case, "two")
    assert said.code == 4, said.err
    assert "left are epsilon 0.04" in said.err


def test_a_declared_bound_converts_by_group_privacy(
    apply: Apply, cloakwork: Cloakwork, tmp_path: Path, ledger: str
) -> None:
    """Epsilon .1 per case is 6 for whoever owns 60 cases; the delta grows by (e**6 - 1) / (e**.1 -
    1).
    """
    bound = {"cases_per_unit": {PATIENT: 60}}
    budget = {"total": {"epsilon": 10.0, "delta": 0.1}}
    by_case = policy(tmp_path, "by-case", epsilon=0.1, assume=bound, budget=budget)
    by_person = policy(tmp_path, "by-person", unit=PERSON, assume=bound, budget=budget)
    assert apply(by_case, "one").code == 0
    assert apply(by_person, "two").code == 0
    shown = json.loads(cloakwork("ledger", "show", "--ledger", ledger, "--json").out)
    books = {book["book"]: book for book in shown["datasets"][0]["budgets"]}
    assert books[PATIENT]["spent"]["epsilon"] == 7.0
    assert books[PATIENT]["spent"]["delta"] == pytest.approx(
        1e-6 * (1 + 402.428793 / 0.105170918), rel=1e-6
    )
    assert books["case"]["spent"]["epsilon"] == 2.1
    assert books["case"]["spent"]["delta"] == pytest.approx(1e-6 * (1 + 1 + 2.718281828), rel=1e-6)


def test_books_kept_apart(apply: Apply, cloakwork: Cloakwork, tmp_path: Path, ledger: str) -> None:
    """With a total each, and then statement and ledger say that they do not add up to one person's
    risk.
    """
    apart = {
        "books": {"case": {"epsilon": 1.0, "delta": 1e-5}, PATIENT: {"epsilon": 1.0, "delta": 1e-5}}
    }
    by_case = policy(tmp_path, "by-case", budget=apart)
    by_person = policy(tmp_path, "by-person", unit=PERSON, budget=apart)
    assert apply(by_case, "one").code == 0
    assert apply(by_person, "two").code == 0
    assert apply(by_person, "three").code == 4
    shown = " ".join(cloakwork("ledger", "show", "--ledger", ledger).out.split())
    assert "do not add up to one person's risk" in shown
    public = html.unescape(cloakwork("report", tmp_path / "two", "--audience", "public").out)
    assert "does not add up to one person's risk" in public


def test_books_apart_do_not_loosen_an_earlier_total(apply: Apply, tmp_path: Path) -> None:
    """What an earlier statement promised of all releases counts the later ones, converted."""
    by_case = policy(tmp_path, "by-case", budget={"total": {"epsilon": 2.0, "delta": 1e-5}})
    apart = {
        "books": {"case": {"epsilon": 9.0, "delta": 1e-5}, PATIENT: {"epsilon": 9.0, "delta": 1e-5}}
    }
    by_person = policy(tmp_path, "by-person", unit=PERSON, budget=apart)
    assert apply(by_case, "one").code == 0
    said = apply(by_person, "two")
    assert said.code == 4, said.err
    assert "per 'case'" in said.err


def test_all_times_of_a_case_count_in_the_metric_book(apply: Apply, tmp_path: Path) -> None:
    """Epsilon 2 over all times of a case moves each single time by no more: metric 2 of 2 is
    spent.
    """
    times = {
        "attributes": {
            "case:concept:name": {"role": "identifier"},
            PATIENT: {"role": "identifier"},
            "concept:name": {"role": "control-flow"},
            "time:timestamp": {"role": "timestamp"},
        },
        "assume": {
            "window": {"start": "2023-01-01T00:00:00Z", "end": "2025-01-01T00:00:00Z"},
            "longest_gap": "1d",
            "longest_case": 15,
        },
    }
    same_order = {"kind": "k-anonymity", "k": 2, "over": ["control-flow"]}
    of_cases = {
        "kind": "differential-privacy",
        "epsilon": 2.0,
        "over": ["timestamps"],
        "neighbours": "bounded",
    }
    of_values = {"kind": "metric-privacy", "epsilon": 0.5, "shift": "1h", "over": ["timestamps"]}
    first = policy(tmp_path, "by-case", guarantees=[same_order, of_cases], **times)
    second = policy(tmp_path, "by-value", guarantees=[same_order, of_values], **times)
    assert apply(first, "one").code == 0
    said = apply(second, "two")
    assert said.code == 4, said.out
    assert "(metric privacy of a value)" in said.err


def spent_per_case(cloakwork: Cloakwork, ledger: Path) -> float:
    """What the ledger shows as spent in the book per case."""
    shown = json.loads(cloakwork("ledger", "show", "--ledger", ledger, "--json").out)
    return next(
        float(book["spent"]["epsilon"])
        for book in shown["datasets"][0]["budgets"]
        if book["book"] == "case"
    )


BOUND = {"cases_per_unit": {PATIENT: 60}}
OF_PERSONS = {"books": {PATIENT: {"epsilon": 2.0, "delta": 1e-4}}}


def spent_by_cases(apply: Apply, tmp_path: Path) -> None:
    """A release that costs epsilon 1 per case, under a policy that declares no total."""
    by_case = policy(tmp_path, "by-case", budget={})
    assert apply(by_case, "cases").code == 0


def test_a_book_alone_is_apart_from_nothing(
    apply: Apply, cloakwork: Cloakwork, tmp_path: Path, ledger: str, log: Path
) -> None:
    """The only book said "2 left" of a patient who stands at 60: M is declared, so what cases spent
    is converted.
    """
    spent_by_cases(apply, tmp_path)
    by_person = policy(tmp_path, "by-person", unit=PERSON, budget=OF_PERSONS, assume=BOUND)
    assert cloakwork("plan", by_person, log, "--ledger", ledger).code == 4
    said = apply(by_person, "out")
    assert said.code == 4, said.out
    assert "no epsilon is left" in said.err
    assert not (tmp_path / "out").exists()


def test_a_book_alone_without_a_bound_is_refused(apply: Apply, tmp_path: Path) -> None:
    """Nothing converts, and the one book listed is apart from nothing: exit 3, and what to
    declare.
    """
    spent_by_cases(apply, tmp_path)
    by_person = policy(tmp_path, "by-person", unit=PERSON, budget=OF_PERSONS)
    said = apply(by_person, "out")
    assert said.code == 3, said.out
    assert "cases_per_unit" in said.err and "budget.books" in said.err


def test_a_book_is_apart_from_what_is_listed_only(apply: Apply, tmp_path: Path) -> None:
    """Books of patients and wards are apart from each other, and both count what cases spend."""
    spent_by_cases(apply, tmp_path)
    total = {"epsilon": 2.0, "delta": 1e-4}
    books = {"books": {PATIENT: total, "case:ward": total}}
    by_person = policy(tmp_path, "by-person", unit=PERSON, budget=books, assume=BOUND)
    assert apply(by_person, "out").code == 4


@pytest.mark.parametrize("currency", ["unit", "local"])
def test_an_entry_that_does_not_say_whom_it_protected_is_refused(
    cloakwork: Cloakwork, tmp_path: Path, currency: str
) -> None:
    """It is not taken for one about cases, who cost the least: epsilon 1 may be 120 for a patient
    of 60 cases.
    """
    from cloakwork.ledger.journal import Journal
    from cloakwork.ledger.ledger import Ledger

    old = tmp_path / "old.db"
    charge = Charge(currency="unit", cost=Cost(epsilon=1.0))
    Ledger(str(old)).reserve(ReservationRequest(dataset="clinic", policy="old", charges=(charge,)))
    with Journal(str(old)).writing() as writing:
        body = writing.entries[-1].fields()
        body["charges"] = [{"currency": currency, "epsilon": "1.0", "delta": "0.0"}]
        writing.append("reserve", "abc", "clinic", body)
    said = cloakwork("ledger", "show", "--ledger", old)
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert "entry 2 cannot be read" in said.err


def test_what_a_book_is_apart_from_is_named(
    cloakwork: Cloakwork, tmp_path: Path, ledger: str, log: Path
) -> None:
    """By the plan, the statement and ``ledger show``; a book alone is apart from nothing."""
    total = {"epsilon": 2.0, "delta": 1e-4}
    budgets: dict[str, Any] = {
        "listed": {"books": {"case": total, PATIENT: total}},
        "alone": OF_PERSONS,
    }
    for name, names in (("listed", ["case"]), ("alone", [])):
        book = str(tmp_path / f"{name}.db")
        by_person = policy(tmp_path, name, unit=PERSON, budget=budgets[name])
        planned = cloakwork("plan", by_person, log, "--ledger", book, "--json")
        books = {each["book"]: each for each in json.loads(planned.out)["ledger"]["books"]}
        assert books[PATIENT]["apart_from"] == names
        assert (
            "kept apart from what is charged per case"
            in " ".join(cloakwork("plan", by_person, log, "--ledger", book).out.split())
        ) == bool(names)
        assert (
            cloakwork("apply", by_person, log, "--out", tmp_path / name, "--ledger", book).code == 0
        )
        public = json.loads(
            cloakwork("report", tmp_path / name, "--audience", "public", "--format", "json").out
        )
        assert public["statement"]["budget"][0].get("apart_from", []) == names
        shown = json.loads(cloakwork("ledger", "show", "--ledger", book, "--json").out)["datasets"][
            0
        ]["budgets"]
        assert {each["book"]: each["apart_from"] for each in shown}[PATIENT] == names


def test_an_earlier_total_is_not_loosened_by_books_apart(apply: Apply, tmp_path: Path) -> None:
    """The first statement promised 2 per patient by all releases: what cannot be converted into it
    is refused.
    """
    by_person = policy(tmp_path, "by-person", unit=PERSON)
    total = {"epsilon": 9.0, "delta": 1e-4}
    by_case = policy(tmp_path, "by-case", budget={"books": {"case": total, PATIENT: total}})
    assert apply(by_person, "one").code == 0
    said = apply(by_case, "two")
    assert said.code == 3, said.out
    assert "an earlier release declared a total" in said.err and "cases_per_unit" in said.err
