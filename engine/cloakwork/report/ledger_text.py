"""What ``cloakwork ledger`` prints: budgets of a dataset, and the history of its releases."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Final

import click

from cloakwork.base.text import listed
from cloakwork.report.screen import block, columns
from cloakwork.report.texts import cost_text, counted, duration

if TYPE_CHECKING:
    from cloakwork.base.costs import Charge, Cost
    from cloakwork.ledger.account import Balance
    from cloakwork.ledger.advisories import AdvisoryMatch
    from cloakwork.ledger.declarations import DatasetDeclaration
    from cloakwork.ledger.ledger import Summary
    from cloakwork.ledger.records import Record

CURRENCY_NAMES: Final = {
    "unit": "differential privacy of a unit",
    "metric": "metric privacy of a value",
    "local": "local privacy of a value",
    "none": "no DP guarantee",
}

_LABEL: Final = 12

_SHORT_STATUS: Final = {"void": "void", "open": "may be void", "weakened": "weakened"}

_FAILURES: Final = {
    "KeyboardInterrupt": "interrupted",
    "SystemExit": "the process was ended",
    "OutputError": "the release could not be written",
    "OSError": "a file could not be read or written",
    "MechanismError": "a step refused the log",
    "Infeasible": "no release of this log gives what the policy asks for",
    "GuaranteeBroken": "a guarantee did not hold on the result",
    "VerificationFailed": "what was written did not pass verification",
    "LogError": "the log could not be read",
    "LedgerError": "the ledger could not be written",
    "MissingExtra": "a package is not installed",
    "MemoryError": "memory ran out",
}


def history_lines(records: "tuple[Record, ...]", width: int | None = None) -> Iterator[str]:
    """Every release as a block of lines: when and what, whom it protects, cost, folder."""
    width = columns() if width is None else width
    yield counted(len(records), "release")
    for record in records:
        policy = f"{record.policy} {record.version}".strip()
        yield ""
        yield from block("", [f"{date_text(record.created_at)}  {record.id}"], width, indent=0)
        where = without_release(record) or (record.place.folder if record.place else "")
        charged = list(_charge_lines(record.charges))
        fields: dict[str, list[str]] = {
            "dataset": [record.dataset],
            "window": [record.window] if record.window else [],
            "policy": [policy] if policy else [],
            "protects": [f"each {record.unit}"],
            "state": [record.state],
            "cost": charged,
            "folder": [where] if where else [],
        }
        for label, entries in fields.items():
            yield from block(f"  {label}", entries, width, indent=_LABEL)


def summary_lines(
    summary: "Summary",
    width: int | None = None,
    *,
    with_declaration: bool = True,
    describe: "Callable[[Balance], str] | None" = None,
) -> Iterator[str]:
    """What a dataset has spent and has left, a line a budget in use; then what to know of it.

    ``describe``: what the line of a budget says, where not the usual.
    """
    describe = describe or balance_text
    width = columns() if width is None else width
    yield from block("", [f"Dataset {summary.dataset}: {_releases(summary)}"], width, indent=0)
    declared = declaration_line(summary.declaration) if with_declaration else None
    yield from block("", [declared] if declared else [], width, indent=2)
    by_window = any(balance.window for balance in summary.balances)
    for balance in listed_balances(summary):
        other = by_window and balance.window is None and balance.book.by_window
        line = ("any other window, " if other else "") + describe(balance)
        yield from block("", [line], width, indent=2)
    lines = [*budget_notes(summary), *_without_release(summary), *affected_lines(summary)]
    for line in lines:
        text = line.lstrip()
        yield from block("", [text], width, indent=len(line) - len(text))


def listed_balances(summary: "Summary") -> "tuple[Balance, ...]":
    """The budgets of a dataset that are spent from or have a declared total, and the unit's."""
    declared = summary.declaration.totals
    return tuple(each for each in summary.balances if is_listed(each) or each.currency in declared)


def is_listed(balance: "Balance") -> bool:
    """Whether a budget was spent from, or is the unit's: an unused currency is left out."""
    used = balance.spent.epsilon > 0 or balance.spent.delta > 0
    return used or balance.currency == "unit" or bool(balance.unconverted)


def priced(balance: "Balance", cost: "Cost | None", *, digits: int = 6) -> str:
    """A cost in the currency of a budget: delta only where it has one, or spent one."""
    has_delta = balance.currency == "unit" or balance.spent.delta > 0
    if cost is not None and not has_delta:
        cost = cost.model_copy(update={"delta": 0.0})
    return cost_text(cost, digits=digits)


def balance_text(balance: "Balance") -> str:
    """Spent, left and total of one budget."""
    spent = priced(balance, balance.spent)
    if balance.left is None:
        return f"{budget_name(balance)}: {spent} spent, no total declared"
    left, total = priced(balance, balance.left), priced(balance, balance.total)
    return f"{budget_name(balance)}: {spent} spent; left: {left}; total: {total}"


def _releases(summary: "Summary") -> str:
    """How many releases there are, and how many runs ended before one was written."""
    failed = sum(record.failed_before_release for record in summary.records)
    made = counted(len(summary.records) - failed, "release")
    return made + (f", and {failed} failed, whose cost stays spent" if failed else "")


def budget_notes(summary: "Summary") -> Iterator[str]:
    """What the figures leave out, and what they rest on."""
    for balance in summary.balances:
        if balance.apart_from:
            yield f"The book per {balance.book.name} is {kept_apart(balance)}."
        if balance.unconverted:
            missing = ", ".join(balance.unconverted)
            yield (
                f"The book per {balance.book.name} lacks what was charged per {missing}: "
                "it cannot be converted."
            )


def _without_release(summary: "Summary") -> Iterator[str]:
    for record in summary.records:
        if (why := without_release(record)) is not None:
            yield f"  {record.id} ({record.state}): {why}"
    if summary.without_dp:
        yield (
            f"{counted(len(summary.without_dp), 'release')} without a DP guarantee; "
            "no budget bounds what is disclosed by:"
        )
        for record in summary.without_dp:
            yield f"  {_entry(record)}"


def affected_lines(summary: "Summary") -> Iterator[str]:
    """Entries whose claims were found false since: by which advisory, and how to settle it."""
    from cloakwork.ledger.records import advisories_of

    matches = ((record, advisories_of(record)) for record in summary.records)
    severe = [
        (record, [each for each in found if each.status in _SHORT_STATUS])
        for record, found in matches
    ]
    concerned = [(record, found) for record, found in severe if found]
    if not concerned:
        return
    yield (
        f"{len(concerned)} concerned by what was found since; 'cloakwork verify DIR' settles "
        "what it can:"
    )
    for record, found in concerned:
        statuses = [
            f"{words} {ids}"
            for status, words in _SHORT_STATUS.items()
            if (ids := _advisory_ids(found, status))
        ]
        yield f"  {_entry(record)}: {'; '.join(statuses)}"
    titles = {each.advisory.id: each.advisory.title for _, found in concerned for each in found}
    for number, title in sorted(titles.items()):
        yield f"  {number}  {title}"


def _advisory_ids(found: "list[AdvisoryMatch]", status: str) -> str:
    return ", ".join(sorted({each.advisory.id for each in found if each.status == status}))


def _entry(record: "Record") -> str:
    made = date_text(record.created_at)
    return f"{made}  {record.id}  {record.policy} {record.version}".rstrip()


def failure_in_words(recorded: str | None) -> str:
    """Why a release came to nothing, in plain words; ``recorded``: the kind of error, or a
    sentence, from the ledger.
    """
    if recorded is None:
        return "the reason was not recorded"
    if recorded.isidentifier():
        return _FAILURES.get(recorded, f"an internal error, {recorded}")
    return recorded


def without_release(record: "Record") -> str | None:
    """Why the ledger knows of no release folder for an entry, in plain words; None where one stood,
    or none is made.
    """
    aim = "" if record.place is None else f"{record.place.folder} on {record.place.host}"
    look = f"'cloakwork ledger reconcile {record.place.folder}' tells" if record.place else ""
    match record.state:
        case "reserved" if record.makes == "profile":
            return "a DP profile that is being measured, or whose process ended; its cost is spent"
        case "reserved" if not aim:
            return (
                "released in memory, no folder was written; or its process ended before that; "
                "its cost is spent"
            )
        case "reserved":
            return (
                f"running, or ended before anything was written to {aim}; its cost is spent; {look}"
            )
        case "publishing":
            return f"written for {aim}, and not confirmed to stand there; its cost is spent; {look}"
        case "failed":
            return f"no release came of it ({failure_in_words(record.failure)}); its cost is spent"
        case "committed" if record.makes == "release" and record.statement_digest is None:
            return "committed before it was written: a folder may never have stood"
    return None


_OF_VALUES: Final = {"metric": " for single values, metric", "local": " for single values, local"}


def total_text(currency: str, cost: "Cost") -> str:
    """A declared total, and of what it is one where that is not a unit."""
    return f"{cost_text(cost)}{_OF_VALUES.get(currency, '')}"


def declaration_line(declaration: "DatasetDeclaration") -> str | None:
    """What is declared, in one line; None where nothing is."""
    if declaration.says_nothing:
        return None
    said = [f"owner {declaration.owner}"] if declaration.owner else []
    if declaration.unit:
        said.append(f"unit {declaration.unit}")
    said += [f"total {total_text(*item)}" for item in declaration.totals.items()]
    if declaration.windows:
        none = declaration.windows == "none"
        said.append("no windows" if none else f"windows of {declaration.windows}")
    if declaration.require_approval:
        said.append("approved policies only")
    return f"declared: {'; '.join(said)}"


def budget_name(balance: "Balance") -> str:
    """What a budget is about, as people read it."""
    where = f"window {balance.window}, " if balance.window else ""
    if balance.currency == "unit":
        return where + _name_per_unit(balance.book.unit)
    per = f", per {duration(balance.shift)}" if balance.shift else ""
    return where + CURRENCY_NAMES[balance.currency] + per


def _name_per_unit(unit: str | None) -> str:
    if unit is None:
        return "differential privacy of a unit that is not said"
    whom = "case" if unit == "case" else f"unit of '{unit}'"
    return f"differential privacy of each {whom}"


def kept_apart(balance: "Balance") -> str:
    """From which units' books a book is kept apart, and what that means."""
    names = listed(balance.apart_from)
    return f"kept apart from what is charged per {names}: they do not add up to one person's risk"


def _charge_lines(charges: "Iterable[Charge]") -> Iterator[str]:
    """What a release charged, a line a currency; what no currency bounds comes last."""
    priced = [charge_text(charge) for charge in charges if charge.currency != "none"]
    yield from priced
    if any(charge.currency == "none" for charge in charges):
        yield f"{CURRENCY_NAMES['none']} for the rest" if priced else CURRENCY_NAMES["none"]


def charge_text(charge: "Charge") -> str:
    """What one release charged in one currency."""
    if charge.currency == "none":
        return CURRENCY_NAMES["none"]
    name = CURRENCY_NAMES[charge.currency]
    if charge.currency == "unit":
        name = _name_per_unit(charge.unit)
    elif charge.shift:
        name += f", per {duration(charge.shift)}"
    if charge.window is not None:
        name = f"window {charge.window}, {name}"
    return f"{name}: {cost_text(charge.cost, digits=6)}"


def date_text(moment: datetime) -> str:
    """A UTC date and time, to the minute."""
    return f"{moment:%Y-%m-%d %H:%M}"


def print_lines(lines: Iterator[str]) -> None:
    """Print lines, one after another."""
    for line in lines:
        click.echo(line)
