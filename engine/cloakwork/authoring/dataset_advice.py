"""Advice on a policy for the dataset that a ledger keeps: where the two do not fit together."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cloakwork.base.costs import Charge, Cost
from cloakwork.base.errors import PlanImpossible
from cloakwork.base.facts import unit_name
from cloakwork.ledger.account import Account, BudgetTerms, require_same_period
from cloakwork.ledger.books import NOTHING, DeclaredTotal, shifts_covering
from cloakwork.ledger.declarations import DatasetDeclaration
from cloakwork.ledger.ledger import Ledger
from cloakwork.ledger.records import Record
from cloakwork.plan.budget import ledger_terms
from cloakwork.policy.advice import Advice, named_advice
from cloakwork.policy.document import Steps
from cloakwork.policy.model import Policy

_WINDOWS: Final[Steps] = ("spec", "budget", "windows")


def lint_dataset(policy: Policy, ledger: Ledger) -> tuple[Advice, ...]:
    """Where ``policy`` is otherwise than its dataset is declared in ``ledger``, or declares totals
    above those that bind. Raises LedgerError where the ledger cannot be read.
    """
    dataset, terms = policy.metadata.dataset, ledger_terms(policy)
    declaration, records = ledger.declaration(dataset), ledger.history(dataset)
    said = dict(declaration.contradictions(terms))
    units = (Advice(("spec", "unit"), said["unit"]),) if "unit" in said else ()
    return (
        *named_advice("dataset-unit", units),
        *named_advice("dataset-windows", _windows(policy, terms, said, records)),
        *named_advice("dataset-total", _totals(policy, terms, declaration, records)),
    )


def _windows(
    policy: Policy, terms: BudgetTerms, said: Mapping[Any, str], records: tuple[Record, ...]
) -> Iterator[Advice]:
    """Other windows than declared; else than those of earlier releases."""
    if "budget.windows" in said:
        yield Advice(_WINDOWS, said["budget.windows"])
        return
    try:
        require_same_period(policy.metadata.dataset, records, terms.every, policy.metadata.name)
    except PlanImpossible as error:
        yield from (Advice(_WINDOWS, cause.reason) for cause in error.causes)


def _totals(
    policy: Policy,
    terms: BudgetTerms,
    declaration: DatasetDeclaration,
    records: tuple[Record, ...],
) -> Iterator[Advice]:
    """The smallest total ever declared binds, so a larger one of the policy promises too much."""
    charges = _asked(policy)
    account = declaration.bind(Account.of(records), charges)
    said = set[tuple[Steps, bool]]()
    for own in terms.declared(charges, records):
        for bound in account.bounds(own.book):
            least = NOTHING.left_of(bound.cost, shifts_covering(bound.shift, own.shift))
            key = _place(policy, own), bound.of_dataset
            if key in said or (own.cost.epsilon <= least.epsilon and own.cost.delta <= least.delta):
                continue
            said.add(key)
            by = (
                "the dataset is declared with" if bound.of_dataset else "an earlier policy declared"
            )
            message = (
                f"the policy allows {_text(own.cost)} in the book '{own.book.name}'; {by} "
                f"{_text(least)}, and that binds: releases above it are refused"
            )
            yield Advice(key[0], message)


def _asked(policy: Policy) -> tuple[Charge, ...]:
    """What the guarantees would cost: for which shift of times, and in which books."""
    prices = [price for goal in policy.goals() if (price := goal.price()) is not None]
    return tuple(
        Charge(
            currency=price.currency,
            cost=price.cost,
            shift=price.shift,
            unit=unit_name(policy.spec.unit) if price.currency == "unit" else price.per,
        )
        for price in prices
    )


def _place(policy: Policy, total: DeclaredTotal) -> Steps:
    """Where the policy says a total: a unit's book, one of its own for single values, the total."""
    book, budget = total.book, policy.spec.budget
    if book.currency == "unit" and book.unit in budget.books:
        return ("spec", "budget", "books", str(book.unit))
    place = ("spec", "budget", "total")
    if book.currency != "unit" and getattr(budget.total, book.currency, None) is not None:
        return (*place, book.currency)
    return place


def _text(cost: Cost) -> str:
    delta = f", delta {cost.delta:g}" if cost.delta else ""
    return f"epsilon {cost.epsilon:g}{delta}"
