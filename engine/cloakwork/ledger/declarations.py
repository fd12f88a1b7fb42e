"""What is declared of a dataset beside any release: who answers for it, whom its releases protect,
what they may cost together, into which windows it falls, whether policies need approval.

A declaration is an entry of the journal and binds every later release, in the transaction that
reserves. A later one may tighten what was declared, never loosen it: earlier releases were made,
and their statements read, under the former terms.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import Field

from cloakwork.base.costs import Charge, Cost, Currency
from cloakwork.base.errors import Cause, LedgerError, PlanImpossible
from cloakwork.base.quantities import MOST_BUDGET, Frozen
from cloakwork.base.text import folded
from cloakwork.ledger.account import CURRENCIES, Account, BudgetTerms, largest_shift
from cloakwork.ledger.books import METRIC, Book, DeclaredTotal
from cloakwork.ledger.journal import Entry
from cloakwork.ledger.records import Record, charge_fields, cost_fields, cost_from_fields

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
    whether only approved policies may be applied. ``distinct_from``: other datasets that have some
    of the same case ids and hold other people, on the owner's word.
    """

    owner: DeclaredName | None = None
    unit: DeclaredName | None = None
    totals: Mapping[Currency, Cost] = {}
    windows: DatasetWindows | None = None
    require_approval: bool = False
    distinct_from: tuple[DeclaredName, ...] = ()

    @property
    def says_nothing(self) -> bool:
        """Whether nothing is declared."""
        return self == NOTHING_DECLARED

    def tightened_by(
        self, later: "DatasetDeclaration", dataset: str, unspent: Collection[Currency]
    ) -> "DatasetDeclaration":
        """This declaration after a later one; raises PlanImpossible where that would loosen it.
        ``unspent``: the currencies in which nothing was spent, whose totals may still be raised.
        """
        place = f"declaration of dataset '{dataset}'"
        causes = [Cause(place, reason) for reason in _loosened(self, later, unspent)]
        if causes:
            raise PlanImpossible(causes, policy="dataset")
        return DatasetDeclaration(
            owner=later.owner or self.owner,
            unit=later.unit or self.unit,
            totals={**self.totals, **later.totals},
            windows=later.windows or self.windows,
            require_approval=later.require_approval or self.require_approval,
            distinct_from=tuple(dict.fromkeys((*self.distinct_from, *later.distinct_from))),
        )

    def is_raised_by(self, later: "DatasetDeclaration") -> bool:
        """Whether ``later`` would loosen something, were all of it spent."""
        return any(True for _ in _loosened(self, later, ()))

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
        totals = {currency: cost_fields(cost) for currency, cost in self.totals.items()}
        fields = {"totals": totals, **{name: getattr(self, name) for name in _SAID}}
        return {name: value for name, value in fields.items() if value}


_SAID: Final = ("owner", "unit", "windows", "require_approval", "distinct_from")
"""What an entry's body says beside the totals, where it is said."""

NOTHING_DECLARED: Final = DatasetDeclaration()


def _loosened(
    earlier: DatasetDeclaration, later: DatasetDeclaration, unspent: Collection[Currency]
) -> Iterable[str]:
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
        if known is None or _may_be_raised(currency, earlier, later, unspent):
            continue
        if not cost.is_within(known):
            yield (
                f"its total ({currency}) is epsilon {known.epsilon:g}, delta {known.delta:g}, "
                "and may be lowered, never raised, as releases were made under it"
            )


def _may_be_raised(
    currency: Currency,
    earlier: DatasetDeclaration,
    later: DatasetDeclaration,
    unspent: Collection[Currency],
) -> bool:
    """Whether nothing was spent of what the total bounds: the unit's stands for single times and
    values as well, where these have none of their own.
    """
    bounds = {currency}
    if currency == "unit":
        bounds |= set(CURRENCIES) - earlier.totals.keys() - later.totals.keys()
    return bounds <= set(unspent)


def _no_looser(
    said: DatasetDeclaration, earlier: DatasetDeclaration, unspent: Collection[Currency]
) -> DatasetDeclaration:
    """``said`` without what loosens ``earlier``, but for the totals of ``unspent`` currencies: an
    entry that was filed by hand counts for nothing there, and the ledger stays readable.
    """
    totals = {
        currency: cost
        if (known := earlier.totals.get(currency)) is None
        or _may_be_raised(currency, earlier, said, unspent)
        else Cost(epsilon=min(cost.epsilon, known.epsilon), delta=min(cost.delta, known.delta))
        for currency, cost in said.totals.items()
    }
    unit = earlier.unit or said.unit
    windows = earlier.windows or said.windows
    return said.model_copy(update={"totals": totals, "unit": unit, "windows": windows})


def declared_cost(epsilon: float, delta: float) -> Cost:
    """A total; raises ValueError unless epsilon is above 0 and finite, and delta in [0, 1)."""
    if not (0 < epsilon <= MOST_BUDGET and 0 <= delta < 1):
        raise ValueError(
            f"epsilon must be above 0 and at most {MOST_BUDGET:g}, delta at least 0 and below 1"
        )
    return Cost(epsilon=epsilon, delta=delta)


def declaration_of(entries: Iterable[Entry], dataset: str, url: str) -> DatasetDeclaration:
    """What the entries, oldest first, declare of ``dataset``; raises LedgerError where one cannot
    be read.
    """
    own = (entry for entry in entries if entry.is_of(dataset))
    return declarations(own, url).get(folded(dataset), NOTHING_DECLARED)


def declarations(entries: Iterable[Entry], url: str) -> dict[str, DatasetDeclaration]:
    """What the entries declare, by dataset (``folded``), in order of first declaration."""
    found: dict[str, DatasetDeclaration] = {}
    spent: dict[str, set[Currency]] = {}
    for entry in entries:
        name = folded(entry.dataset)
        if entry.kind not in ("dataset-declared", "reserve"):
            continue
        try:
            fields = entry.fields()
            if entry.kind == "reserve":
                spent.setdefault(name, set()).update(_currencies(fields["charges"]))
                continue
            totals = fields.get("totals", {})
            said = DatasetDeclaration(
                totals={currency: cost_from_fields(cost) for currency, cost in totals.items()},
                **{name: fields[name] for name in _SAID if name in fields},
            )
            earlier = found.get(name, NOTHING_DECLARED)
            # What only its owner may say counts where it was signed.
            is_signed = "signature" in fields
            unspent = set(CURRENCIES) - spent.get(name, set()) if is_signed else set[Currency]()
            if not is_signed:
                said = said.model_copy(update={"distinct_from": ()})
            found[name] = earlier.tightened_by(_no_looser(said, earlier, unspent), name, unspent)
        except (ValueError, KeyError, TypeError, AttributeError, PlanImpossible):
            raise LedgerError(url, f"entry {entry.seq} cannot be read") from None
    return found


def _currencies(charges: Iterable[Mapping[str, Any]]) -> Iterator[Currency]:
    """The currencies in which these charges of an entry count."""
    for charge in charges:
        if charge["currency"] != "none":
            yield charge["currency"]
        if "times" in charge:
            yield "metric"


def unspent_currencies(records: Iterable[Record]) -> set[Currency]:
    """Those in which none of the records spent anything."""
    charges = [charge for record in records for charge in record.charges]
    return set(CURRENCIES) - set(_currencies(map(charge_fields, charges)))
