"""What ``cloakwork ledger``, ``dataset`` and ``plan`` say of budgets and releases: in lines, and as
JSON values.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from cloakwork.base.costs import NOTHING, Cost, cost_text
from cloakwork.base.errors import CURRENCY_WORDS
from cloakwork.base.quantities import duration_text, format_duration
from cloakwork.base.text import counted, listed
from cloakwork.report.screen import block, columns

if TYPE_CHECKING:
    from cloakwork.base.costs import Charge
    from cloakwork.ledger.account import Balance
    from cloakwork.ledger.datasets import DatasetOverview
    from cloakwork.ledger.declarations import DatasetDeclaration
    from cloakwork.ledger.journal import Entry
    from cloakwork.ledger.ledger import BudgetForecast, Summary
    from cloakwork.ledger.records import Record
    from cloakwork.plan.model import Plan
    from cloakwork.publishing.reconcile import Reconciliation


CURRENCY_NAMES: Final = {
    **CURRENCY_WORDS,
    "unit": "differential privacy of a unit",
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


def _block(label: str, entries: Iterable[str], indent: int = 0) -> Iterator[str]:
    return block(label, entries, columns(), indent=indent)


def history_lines(records: "tuple[Record, ...]") -> Iterator[str]:
    """Every release as a block of lines: when and what, whom it protects, cost, folder."""
    yield counted(len(records), "release")
    for record in records:
        policy = f"{record.policy} {record.version}".strip()
        yield ""
        yield from _block("", [f"{date_text(record.created_at)}  {record.id}"])
        where = without_release(record) or (record.place.folder if record.place else "")
        charged = [charge_text(each) for each in record.charges if each.currency != "none"]
        # What no currency bounds comes last.
        if len(charged) < len(record.charges):
            unbounded = CURRENCY_NAMES["none"]
            charged.append(f"{unbounded} for the rest" if charged else unbounded)
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
            yield from _block(f"  {label}", entries, indent=_LABEL)


def summary_lines(
    summary: "Summary",
    *,
    with_declaration: bool = True,
    describe: "Callable[[Balance], str] | None" = None,
) -> Iterator[str]:
    """What a dataset has spent and has left, a line a budget in use; then what to know of it.

    ``describe``: what the line of a budget says, where not the usual.
    """
    describe = describe or balance_text
    yield from _block("", [f"Dataset {summary.dataset}: {releases_text(summary)}"])
    declared = declaration_line(summary.declaration) if with_declaration else None
    yield from _block("", [declared] if declared else [], indent=2)
    for balance in listed_balances(summary):
        yield from _block("", [other_windows(summary, balance) + describe(balance)], indent=2)
    lines = [*budget_notes(summary)]
    for record in summary.records:
        if (why := without_release(record)) is not None:
            lines.append(f"  {record.id} ({record.state}): {why}")
    if summary.without_dp:
        lines.append(
            f"{counted(len(summary.without_dp), 'release')} with what no DP guarantee covers; "
            "no budget bounds what is disclosed by:"
        )
        lines += [f"  {_entry(record)}" for record in summary.without_dp]
    for line in [*lines, *affected_lines(summary)]:
        text = line.lstrip()
        yield from _block("", [text], indent=len(line) - len(text))


def listed_balances(summary: "Summary") -> "tuple[Balance, ...]":
    """The budgets of a dataset that are spent from or have a declared total, and the unit's."""
    declared = summary.declaration.totals
    return tuple(each for each in summary.balances if is_listed(each) or each.currency in declared)


def other_windows(summary: "Summary", balance: "Balance") -> str:
    """What stands before a budget of no window where some are of windows: it is of any other."""
    by_window = any(each.window for each in summary.balances)
    is_other = by_window and balance.window is None and balance.book.by_window
    return "any other window, " if is_other else ""


def is_listed(balance: "Balance") -> bool:
    """Whether a budget was spent from, or is the unit's: an unused currency is left out."""
    used = balance.spent.epsilon > 0 or balance.spent.delta > 0
    return used or balance.currency == "unit" or bool(balance.unconverted)


def priced(balance: "Balance", cost: Cost | None) -> str:
    """A cost in the currency of a budget: delta only where it has one, or spent one."""
    has_delta = balance.currency == "unit" or balance.spent.delta > 0
    if cost is not None and not has_delta:
        cost = cost.model_copy(update={"delta": 0.0})
    return cost_text(cost, digits=6)


def balance_text(balance: "Balance") -> str:
    """Spent, left and total of one budget."""
    spent = priced(balance, balance.spent)
    if balance.left is None:
        return f"{budget_name(balance)}: {spent} spent, no total declared"
    left = priced(balance, balance.left)
    total = priced(balance, balance.total)
    return f"{budget_name(balance)}: {spent} spent; left: {left}; total: {total}"


def releases_text(summary: "Summary") -> str:
    """How many releases there are, and how many runs ended before one was written."""
    failed = [record for record in summary.records if record.failed_before_release]
    made = counted(len(summary.records) - len(failed), "release")
    cost = "whose cost stays spent" if any(map(is_charged, failed)) else "which cost nothing"
    return made + (f", and {len(failed)} failed, {cost}" if failed else "")


def is_charged(made: "Record | Plan") -> bool:
    """Whether a budget pays for it."""
    return any(charge.currency != "none" for charge in made.charges)


def unbounded_text(summary: "Summary") -> str:
    """How many releases no budget bounds; empty where there is none."""
    number = len(summary.without_dp)
    they = "it discloses" if number == 1 else "they disclose"
    said = f"{counted(number, 'release')} with what no differential privacy covers"
    return f"{said}: no budget bounds what {they}." if number else ""


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


def affected_lines(summary: "Summary") -> Iterator[str]:
    """Entries whose claims were found false since: by which advisory, and how to settle it."""
    from cloakwork.ledger.records import advisories_of

    concerned = []
    for record in summary.records:
        # An advisory about wording alone concerns no claim.
        severe = [each for each in advisories_of(record) if each.status in _SHORT_STATUS]
        if severe:
            concerned.append((record, severe))
    if not concerned:
        return
    yield (
        f"{len(concerned)} concerned by what was found since; 'cloakwork verify DIR' settles "
        "what it can:"
    )
    for record, found in concerned:
        statuses = []
        for status, words in _SHORT_STATUS.items():
            ids = {each.advisory.id for each in found if each.status == status}
            if ids:
                statuses.append(f"{words} {', '.join(sorted(ids))}")
        yield f"  {_entry(record)}: {'; '.join(statuses)}"
    titles = {each.advisory.id: each.advisory.title for _, found in concerned for each in found}
    for number, title in sorted(titles.items()):
        yield f"  {number}  {title}"


def _entry(record: "Record") -> str:
    made = date_text(record.created_at)
    return f"{made}  {record.id}  {record.policy} {record.version}".rstrip()


def failure_in_words(recorded: str | None) -> str:
    """Why a release came to nothing, in plain words; ``recorded``: the kind of error, or a
    sentence, from the ledger.
    """
    if recorded is None:
        return "the reason was not recorded"
    # The kind of an error is one word, and a sentence is not.
    if recorded.isidentifier():
        return _FAILURES.get(recorded, f"an internal error, {recorded}")
    return recorded


def without_release(record: "Record") -> str | None:
    """Why the ledger knows of no release folder for an entry, in plain words; None where one stood,
    or none is made.
    """
    spent = "its cost is spent" if is_charged(record) else "nothing was charged"
    aim = "" if record.place is None else f"{record.place.folder} on {record.place.host}"
    look = f"'cloakwork ledger reconcile {record.place.folder}' tells" if record.place else ""
    # In the order of a run: reserved, publishing, then committed or failed.
    match record.state:
        case "reserved" if record.makes == "profile":
            return f"a DP profile that is being measured, or whose process ended; {spent}"
        case "reserved" if not aim:
            return (
                "released in memory, no folder was written; or its process ended before that; "
                f"{spent}"
            )
        case "reserved":
            return f"running, or ended before anything was written to {aim}; {spent}; {look}"
        case "publishing":
            return f"written for {aim}, and not confirmed to stand there; {spent}; {look}"
        case "failed":
            return f"no release came of it ({failure_in_words(record.failure)}); {spent}"
        case "committed" if record.makes == "release" and record.statement_digest is None:
            return "committed before it was written: a folder may never have stood"
    return None


_OF_VALUES: Final = {"metric": " for single values, metric", "local": " for single values, local"}


def total_text(currency: str, cost: Cost) -> str:
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
    if declaration.distinct_from:
        said.append(f"other people than {listed(declaration.distinct_from)}")
    return f"declared: {'; '.join(said)}"


def budget_name(balance: "Balance") -> str:
    """What a budget is about, as people read it."""
    return _name_of(balance.currency, balance.book.unit, balance.shift, balance.window)


def _name_of(
    currency: str,
    unit: str | None,
    shift: timedelta | None,
    window: str | None,
) -> str:
    name = CURRENCY_NAMES[currency]
    if currency == "unit" and unit is None:
        name = "differential privacy of a unit that is not said"
    elif currency == "unit":
        whom = "case" if unit == "case" else f"unit of '{unit}'"
        name = f"differential privacy of each {whom}"
    elif shift:
        name += f", per {duration_text(shift)}"
    return f"window {window}, {name}" if window else name


def lowered_lines(outlook: "BudgetForecast") -> Iterator[str]:
    """The totals that a release lowers for good: a line a book."""
    for now, then, cost in zip(outlook.standing, outlook.before, outlook.cost, strict=True):
        # A total binds where the release spends.
        if cost != NOTHING and now.total not in (None, then.total):
            yield (
                f"{budget_name(now)}: this policy's total, {priced(then, then.total)}, is below "
                f"the dataset's, {priced(now, now.total)}, and binds it from this release on"
            )


def kept_apart(balance: "Balance") -> str:
    """From which units' books a book is kept apart, and what that means."""
    names = listed(balance.apart_from)
    return f"kept apart from what is charged per {names}: they do not add up to one person's risk"


def charge_text(charge: "Charge") -> str:
    """What one release charged in one currency."""
    if charge.currency == "none":
        return CURRENCY_NAMES["none"]
    name = _name_of(charge.currency, charge.unit, charge.shift, charge.window)
    return f"{name}: {cost_text(charge.cost, digits=6)}"


def date_text(moment: datetime) -> str:
    """A UTC date and time, to the minute."""
    return f"{moment:%Y-%m-%d %H:%M}"


_GAUGE: Final = 20
"""Characters of a gauge."""


def share_spent(balance: "Balance") -> float | None:
    """How much of the total is spent, of epsilon or of delta, whichever is nearer its end; None
    without a total.
    """
    spent, total = balance.spent, balance.total
    if total is None:
        return None
    # A total of 0 is used up by whatever is spent.
    shares = [
        part / of if of else 1.0
        for part, of in ((spent.epsilon, total.epsilon), (spent.delta, total.delta))
        if part > 0
    ]
    return min(1.0, max(shares, default=0.0))


def gauge(share: float) -> str:
    """How much is spent as a bar; full and empty only where it is exactly that.

    >>> gauge(0.5), gauge(0.001)
    ('[##########..........]', '[#...................]')
    """
    # Rounding never makes a gauge full or empty.
    cells = min(max(round(share * _GAUGE), 1), _GAUGE - 1)
    if share in (0.0, 1.0):
        cells = int(share * _GAUGE)
    return f"[{'#' * cells}{'.' * (_GAUGE - cells)}]"


def list_lines(found: "Sequence[DatasetOverview]") -> Iterator[str]:
    """Every dataset in a few lines: name, owner, releases, and a gauge a book."""
    for number, each in enumerate(found):
        if number:
            yield ""
        owner = each.declaration.owner
        answers = f"owner {owner}" if owner else "no owner declared"
        # A run that failed before it released is spent, and is no release.
        made = sum(not record.failed_before_release for record in each.summary.records)
        head = f"{each.name}  ({answers}; {counted(made, 'release')})"
        yield from _block("", [head])
        for balance in listed_balances(each.summary):
            yield from _block("", [gauge_text(balance)], indent=2)
        if each.overlaps:
            names = ", ".join(overlap.dataset for overlap in each.overlaps)
            line = f"seems to hold cases of: {names} (internal)"
            yield from _block("", [line], indent=2)


def show_lines(overview: "DatasetOverview") -> Iterator[str]:
    """One dataset: what is declared, what is left of each book, and what to know of it."""
    from cloakwork.ledger.datasets import signed_text
    from cloakwork.publishing.keys import signed_by

    for label, entries in declared_fields(overview.declaration).items():
        yield from _block(label, entries, indent=_LABEL)
    yield ""
    yield from summary_lines(overview.summary, with_declaration=False, describe=gauge_text)
    yield ""
    if overview.overlaps is None:
        lines = ["Overlaps with other datasets: not readable with these rights."]
    else:
        lines = [f"Internal, read off the raw logs: {found}" for found in overview.overlaps]
    made = len(overview.comparisons)
    lines = lines or ["Overlaps: no other dataset is known to hold the same cases."]
    lines.append(
        f"Comparisons made before choosing: {made}." if made else "No comparisons were made."
    )
    for entry in overview.declared:
        said = entry.fields()
        reason = said.get("reason")
        signature = said.get("signature")
        at = entry.at[:16].replace("T", " ")
        if signature is not None:
            at += f", signed by {signed_by(signed_text(entry.dataset, said), signature)}"
        lines.append(f"Declared {at}{f': {reason}' if reason else ''}.")
    yield from _block("", lines)


def declared_fields(declaration: "DatasetDeclaration") -> dict[str, list[str]]:
    """What is declared, by label; what is not is said to be so."""
    unit = f"each {declaration.unit}" if declaration.unit else "not declared: any policy's"
    windows = {None: "not declared: any policy's", "none": "none"}
    approval = "any valid policy may be applied"
    if declaration.require_approval:
        approval = "only approved policies may be applied"
    totals = [total_text(currency, cost) for currency, cost in declaration.totals.items()]
    fields = {
        "owner": [declaration.owner or "not declared"],
        "unit": [unit],
        "total": totals or ["not declared: the smallest of its policies binds"],
        "windows": [windows.get(declaration.windows, f"of {declaration.windows}")],
        "approval": [approval],
    }
    if declaration.distinct_from:
        fields["people"] = [f"others than those of {listed(declaration.distinct_from)}"]
    return fields


def gauge_text(balance: "Balance") -> str:
    """One budget with its gauge; in words alone where no total is declared."""
    share = share_spent(balance)
    if share is None:
        return balance_text(balance)
    spent, left, total = (
        priced(balance, cost) for cost in (balance.spent, balance.left, balance.total)
    )
    amount = f"{spent} of {total}; {left} left"
    return f"{gauge(share)} {100 * share:.3g}% spent: {amount}; {budget_name(balance)}"


def overview_json(overview: "DatasetOverview") -> dict[str, Any]:
    """One dataset."""
    overlaps = overview.overlaps
    return summary_json(overview.summary) | {
        "declarations": [
            {"at": entry.at, "entry": entry.seq, "says": entry.fields()}
            for entry in overview.declared
        ],
        "overlaps": None
        if overlaps is None
        else [{"dataset": each.dataset, "share": each.share} for each in overlaps],
        "comparisons": [{"at": entry.at, "entry": entry.seq} for entry in overview.comparisons],
    }


_MEASURED_ON: Final = {
    "log": "the log",
    "log-with-invented-times": "the log with invented times",
    "stand-in": "a stand-in; the log was not opened",
}


def comparison_lines(entries: "Sequence[Entry]") -> Iterator[str]:
    """Every comparison as a block of lines; nothing where there is none."""
    if not entries:
        return
    yield ""
    yield f"{counted(len(entries), 'comparison')} of settings, which cost nothing"
    for entry in entries:
        body = entry.fields()
        yield ""
        yield from _block("", [date_text(datetime.fromisoformat(entry.at))])
        settings = []
        for each in body["settings"]:
            swept = ", ".join(f"{name} {value}" for name, value in each["values"].items())
            # A setting's policy is named where there are several.
            whose = f"{each['policy']}: " if len(body["policies"]) > 1 else ""
            settings.append(f"{whose}{swept or 'as it is'}")
        fields = {
            "dataset": [entry.dataset],
            "policy": [f"{each['name']} {each['version']}" for each in body["policies"]],
            "settings": settings,
            "measured": [f"on {_MEASURED_ON.get(body['measured_on'], body['measured_on'])}"],
        }
        for label, lines in fields.items():
            yield from _block(f"  {label}", lines, indent=_LABEL)


def summary_json(summary: "Summary") -> dict[str, Any]:
    """A dataset's budgets and what concerns its releases."""
    from cloakwork.ledger.records import advisories_of

    of_balance = ("window", "apart_from", "unconverted", "shift", "spent", "left", "total")
    return {
        "dataset": summary.dataset,
        "releases": sum(not record.failed_before_release for record in summary.records),
        "failed": sum(record.failed_before_release for record in summary.records),
        "budgets": [
            {
                "currency": balance.currency,
                "book": balance.book.name,
                "unit": balance.book.unit,
                **fields_json(balance, *of_balance),
            }
            for balance in summary.balances
        ],
        "without_dp": [record.id for record in summary.without_dp],
        "concerned": [
            {"release": record.id, "advisory": finding.advisory.id, "status": finding.status}
            for record in summary.records
            for finding in advisories_of(record)
        ],
        "declaration": declaration_json(summary.declaration),
    }


def outlook_json(outlook: "BudgetForecast") -> dict[str, Any]:
    """What a release would mean for the budget, book by book."""
    books = zip(outlook.before, outlook.cost, outlook.after, strict=True)
    return {
        "books": [
            {
                "book": before.book.name,
                **fields_json(before, "window", "currency", "shift"),
                "before": _as_json(before.left),
                "this": _as_json(cost),
                "after": _as_json(after.left),
                **fields_json(before, "spent", "total"),
                "apart_from": list(after.apart_from),
            }
            for before, cost, after in books
        ],
        "earlier_releases": outlook.earlier,
        "earlier_without_dp": outlook.without_dp,
        "declaration": declaration_json(outlook.declaration),
    }


def declaration_json(declaration: "DatasetDeclaration") -> dict[str, Any]:
    """What a dataset is declared with."""
    return fields_json(declaration, *type(declaration).model_fields)


def record_json(record: "Record") -> dict[str, Any]:
    """One entry of the ledger."""
    from cloakwork.ledger.records import advisories_of

    policy = ("policy", "version", "policy_digest")
    return {
        **fields_json(record, "id", "dataset", *policy, "unit", "makes", "window", "state"),
        "without_release": without_release(record),
        "folder": record.place.folder if record.place else None,
        "host": record.place.host if record.place else None,
        **fields_json(record, "created_at", "committed_at", "statement_digest"),
        "guarantees": record.note,
        "engine": record.engine,
        "advisories": [
            {"id": each.advisory.id, "status": each.status, "title": each.advisory.title}
            for each in advisories_of(record)
        ],
        "charges": [
            fields_json(charge, "currency", "unit", "shift") | (_as_json(charge.cost) or {})
            for charge in record.charges
        ],
        "details": dict(record.details),
    }


def reconciliation_json(done: "Reconciliation") -> dict[str, Any]:
    """What ``ledger reconcile`` found and did."""
    findings = [
        fields_json(each, "outcome", "release", "folder", "says")
        | {"release": each.release or None}
        for each in done.findings
    ]
    return {**fields_json(done, "agrees", "drafts_removed"), "findings": findings}


def fields_json(value: object, *names: str) -> dict[str, Any]:
    """Fields of a record as JSON values, by the names that they have."""
    return {name: _as_json(getattr(value, name)) for name in names}


def _as_json(value: Any) -> Any:
    """Epsilon is null where there is no bound: JSON has no infinity. No time apart is null, too."""
    match value:
        case timedelta():
            return format_duration(value) if value else None
        case datetime():
            return value.isoformat()
        case Mapping():
            return {key: _as_json(each) for key, each in value.items()}
        case tuple():
            return list(value)
        case Cost(epsilon=epsilon, delta=delta):
            return {"epsilon": epsilon if math.isfinite(epsilon) else None, "delta": delta}
    return value
