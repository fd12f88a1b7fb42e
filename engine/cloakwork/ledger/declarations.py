"""What is declared of a dataset beside any release: who answers for it, whom its releases protect,
what they may cost together, into which windows it falls, whether policies need approval.

A declaration is an entry of the journal and binds every later release, in the transaction that
reserves. A later one may tighten what was declared, never loosen it: earlier releases were made,
and their statements read, under the former terms.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import Field

from cloakwork.base.costs import Charge, Cost, Currency
from cloakwork.base.errors import Cause, LedgerError, PlanImpossible
from cloakwork.base.quantities import MOST_BUDGET, Frozen
from cloakwork.ledger.account import Account, BudgetTerms, largest_shift
from cloakwork.ledger.books import METRIC, Book, DeclaredTotal
from cloakwork.ledger.journal import Entry
from cloakwork.ledger.records import cost_fields, cost_from_fields

DatasetWindows = Literal["1 day", "1 week", "1 month", "1 year", "none"]
"""How long the windows of a dataset are, as a policy spells it; ``none``: it has none."""

WINDOW_LENGTHS: Final[tuple[DatasetWindows, ...]] = get_args(DatasetWindows)

LONGEST_NAME: Final = 200  # characters

DeclaredName = Annotated[
    str, Field(min_length=1, max_length=LONGEST_NAME, pattern=r"^[^\r\n\x00]+$")
]


def is_one_line(text: str) -> bool:
    """Whether an owner or a unit may be called so."""
    return 0 < len(text) <= LONGEST_NAME and not set("\r\n\x00") & set(text)


class DatasetDeclaration(Frozen):
    """What is declared of a dataset; None, or empty, where nothing is said.

    ``owner``: who answers for it. ``unit``: whom every policy must protect, ``case`` or an
    attribute. ``totals``: by currency; those of metric and local privacy are the unit's unless
    given. ``windows``: the length that every policy must have, or ``none``. ``require_approval``:
    whether only approved policies may be applied.
    """

    owner: DeclaredName | None = None
    unit: DeclaredName | None = None
    totals: Mapping[Currency, Cost] = {}
    windows: DatasetWindows | None = None
    require_approval: bool = False

    @property
    def says_nothing(self) -> bool:
        """Whether nothing is declared."""
        return self == NOTHING_DECLARED

    def tightened_by(self, later: "DatasetDeclaration", dataset: str) -> "DatasetDeclaration":
        """This declaration after a later one; raises PlanImpossible where that would loosen it."""
        place = f"declaration of dataset '{dataset}'"
        causes = [Cause(place, reason) for reason in _loosened(self, later)]
        if causes:
            raise PlanImpossible(causes, policy="dataset")
        return DatasetDeclaration(
            owner=later.owner or self.owner,
            unit=later.unit or self.unit,
            totals={**self.totals, **later.totals},
            windows=later.windows or self.windows,
            require_approval=later.require_approval or self.require_approval,
        )

    def require_allowed(self, dataset: str, terms: BudgetTerms, policy: str) -> None:
        """Raise PlanImpossible where a policy with these terms protects another unit, or has other
        windows, than declared.
        """
        causes = [
            Cause(f"{field} of dataset '{dataset}'", reason)
            for field, reason in self.contradictions(terms)
        ]
        if causes:
            raise PlanImpossible(causes, policy=policy)

    def contradictions(
        self, terms: BudgetTerms
    ) -> Iterator[tuple[Literal["unit", "budget.windows"], str]]:
        """The fields of a policy with these terms that are otherwise than declared, and how."""
        if self.unit is not None and terms.unit != self.unit:
            yield "unit", f"the policy protects each '{terms.unit}'; declared is '{self.unit}'"
        if self.windows is not None and (terms.every or "none") != self.windows:
            declared = "no windows" if self.windows == "none" else f"windows of {self.windows}"
            own = "has none" if terms.every is None else f"has windows of {terms.every}"
            reason = f"the dataset is declared with {declared}; the policy {own}"
            yield "budget.windows", reason

    def bind(self, account: Account, charges: Sequence[Charge] = ()) -> Account:
        """The account with the declared totals in force; ``charges``: of a release at hand.

        A total of its own for times binds at once; the unit's stands for times only where a
        release is about single ones, as in a policy.
        """
        known = (*account.charges, *charges)
        found = []
        for_unit = self.totals.get("unit")
        if for_unit is not None:
            found.append(DeclaredTotal(Book("unit", self.unit), for_unit, of_dataset=True))
        # Of single values: a total of its own, else the unit's.
        for_values = self.totals.get("local", for_unit)
        local_units = {charge.unit for charge in known if charge.currency == "local"}
        if "local" in self.totals:
            local_units.add("value")
        if for_values is not None:
            for unit in sorted(local_units, key=str):
                found.append(DeclaredTotal(Book("local", unit), for_values, of_dataset=True))
        # Of times the same, over the largest shift that is known.
        for_times = self.totals.get("metric", for_unit)
        about_times = any(charge.currency == "metric" for charge in known)
        if for_times is not None and ("metric" in self.totals or about_times):
            shift = largest_shift(known)
            found.append(DeclaredTotal(METRIC, for_times, shift, of_dataset=True))
        return account.with_release((), found, {})

    def fields(self) -> dict[str, Any]:
        """As an entry's body holds it: only what is said."""
        said: dict[str, Any] = {}
        if self.totals:
            said["totals"] = {currency: cost_fields(cost) for currency, cost in self.totals.items()}
        for name in ("owner", "unit", "windows"):
            if (value := getattr(self, name)) is not None:
                said[name] = value
        if self.require_approval:
            said["require_approval"] = True
        return said


_SAID: Final = ("owner", "unit", "windows", "require_approval")
"""What an entry's body says beside the totals, where it is said."""

NOTHING_DECLARED: Final = DatasetDeclaration()


def _loosened(earlier: DatasetDeclaration, later: DatasetDeclaration) -> Iterable[str]:
    """Where ``later`` asks for less than ``earlier``, each with what to do."""
    if None not in (earlier.unit, later.unit) and earlier.unit != later.unit:
        yield f"its unit is '{earlier.unit}', and stays that; name '{later.unit}' another dataset"
    if None not in (earlier.windows, later.windows) and earlier.windows != later.windows:
        yield f"its windows are '{earlier.windows}', and stay that: releases went by them"
    for currency, cost in later.totals.items():
        known = earlier.totals.get(currency)
        if known is None:
            # Until now the unit's total stood for this currency.
            known = earlier.totals.get("unit")
        if known is None:
            continue
        if cost.epsilon > known.epsilon or cost.delta > known.delta:
            yield (
                f"its total ({currency}) is epsilon {known.epsilon:g}, delta {known.delta:g}, "
                "and may be lowered, never raised"
            )


def declared_cost(epsilon: float, delta: float = 0.0) -> Cost:
    """A total; raises ValueError unless epsilon is above 0 and finite, and delta in [0, 1)."""
    if not (0 < epsilon <= MOST_BUDGET and 0 <= delta < 1):
        raise ValueError(
            f"epsilon must be above 0 and at most {MOST_BUDGET:g}, delta at least 0 and below 1"
        )
    return Cost(epsilon=epsilon, delta=delta)


def declaration_of(entries: Iterable[Entry], dataset: str, url: str = "") -> DatasetDeclaration:
    """What the entries, oldest first, declare of ``dataset``; raises LedgerError where one cannot
    be read.
    """
    own = (entry for entry in entries if entry.dataset == dataset)
    return declarations(own, url).get(dataset, NOTHING_DECLARED)


def declarations(entries: Iterable[Entry], url: str = "") -> dict[str, DatasetDeclaration]:
    """What the entries declare, by dataset, in order of first declaration."""
    found: dict[str, DatasetDeclaration] = {}
    for entry in entries:
        if entry.kind != "dataset-declared":
            continue
        try:
            fields = entry.fields()
            totals = fields.get("totals", {})
            later = DatasetDeclaration(
                totals={currency: cost_from_fields(cost) for currency, cost in totals.items()},
                **{name: fields[name] for name in _SAID if name in fields},
            )
            earlier = found.get(entry.dataset, NOTHING_DECLARED)
            found[entry.dataset] = earlier.tightened_by(later, entry.dataset)
        except (ValueError, KeyError, TypeError, AttributeError, PlanImpossible):
            raise LedgerError(url, f"entry {entry.seq} cannot be read") from None
    return found
