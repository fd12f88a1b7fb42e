"""``cloakwork dataset``: what each dataset is declared with, what is spent and what is left."""

import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import click

from cloakwork.base.errors import CloakworkError
from cloakwork.cli.options import (
    json_option,
    ledger_option,
    open_ledger,
    print_json,
    print_lines,
)
from cloakwork.ledger.declarations import WINDOW_LENGTHS, DatasetWindows, declared_cost

if TYPE_CHECKING:
    from cloakwork.base.costs import Cost, Currency
    from cloakwork.ledger.datasets import DatasetOverview
    from cloakwork.ledger.ledger import Ledger

_TOTAL: Final = re.compile(r"(?:(unit|metric|local):)?epsilon=([^,]+)(?:,\s*delta=([^,]+))?")


@click.group()
def dataset() -> None:
    """Show and declare datasets: owner, unit, total, windows, and what is left of the budget."""


@dataset.command("list", short_help="List every dataset and what is left of its budget.")
@ledger_option
@json_option
def list_(ledger: str | None, as_json: bool) -> None:
    """List every dataset of the ledger: who answers for it, and what is left."""
    from cloakwork.ledger.datasets import datasets
    from cloakwork.report.ledger_text import list_lines, overview_json

    book = open_ledger(ledger, tell_missing=True)
    found = datasets(book)
    if as_json:
        shown = [overview_json(each) for each in found]
        print_json({"ledger": book.url, "datasets": shown}, only_ascii=True)
    elif not found:
        click.echo(f"No datasets in {book.url}; 'cloakwork dataset declare NAME' declares one.")
    else:
        print_lines(list_lines(found))


@dataset.command(short_help="Show one dataset: declared, spent, left, overlaps.")
@click.argument("name")
@ledger_option
@json_option
def show(name: str, ledger: str | None, as_json: bool) -> None:
    """Show one dataset: what it is declared with, spent and left in each book and window, overlaps
    with other datasets, comparisons made.

    Overlaps are read off the raw logs: keep them inside.
    """
    from cloakwork.report.ledger_text import overview_json, show_lines

    book = open_ledger(ledger, tell_missing=True)
    found = _named(book, name)
    if as_json:
        print_json({"ledger": book.url, "dataset": overview_json(found)}, only_ascii=True)
    else:
        print_lines(show_lines(found))


@dataset.command(short_help="Declare what binds every later release of a dataset.")
@click.argument("name")
@click.option("--owner", metavar="NAME", help="Who answers for it.")
@click.option(
    "--unit", metavar="UNIT", help="Whom every policy must protect: case or an attribute."
)
@click.option(
    "--total",
    "totals",
    multiple=True,
    metavar="[CURRENCY:]epsilon=E[,delta=D]",
    help="The most that all releases may cost together; with 'metric:' or 'local:' in front, "
    "the total of single values.",
)
@click.option(
    "--windows",
    type=click.Choice(WINDOW_LENGTHS),
    help="How long the windows are that it is released in; none: it has none.",
)
@click.option(
    "--require-approval", is_flag=True, help="Only approved policies may be applied to it."
)
@click.option("--reason", default="", metavar="TEXT", help="Why, for the record.")
@ledger_option
@json_option
def declare(
    name: str,
    owner: str | None,
    unit: str | None,
    totals: tuple[str, ...],
    windows: DatasetWindows | None,
    require_approval: bool,
    reason: str,
    ledger: str | None,
    as_json: bool,
) -> None:
    """Declare NAME's owner, unit, total or windows; every later release must keep to them.

    What is not given stays as it was. A later declaration may lower a total or add a condition,
    never loosen one; the owner may change. Costs of earlier releases count.
    """
    from cloakwork.ledger.datasets import declare_dataset
    from cloakwork.report.ledger_text import overview_json, show_lines

    if not (owner or unit or totals or windows or require_approval):
        raise click.UsageError("nothing to declare: say --owner, --unit, --total or --windows")
    book = open_ledger(ledger)
    _, is_new = declare_dataset(
        book,
        name,
        owner=owner,
        unit=unit,
        totals=_parsed_totals(totals, book.declaration(name).totals),
        windows=windows,
        require_approval=require_approval,
        reason=reason,
    )
    found = _named(book, name)
    if as_json:
        document = {"ledger": book.url, "declared": is_new, "dataset": overview_json(found)}
        print_json(document, only_ascii=True)
        return
    click.echo("Declared." if is_new else "Declared already; nothing was written.")
    print_lines(show_lines(found))


def _parsed_totals(
    given: tuple[str, ...], known: "Mapping[Currency, Cost]"
) -> "dict[Currency, Cost]":
    """The totals by currency; where delta is not given, that of ``known`` stays."""
    bad = partial(click.BadParameter, param_hint="--total")
    found: dict[Currency, Cost] = {}
    for text in given:
        match = _TOTAL.fullmatch(text.strip())
        if match is None:
            raise bad(f"'{text}' is not [CURRENCY:]epsilon=E[,delta=D], such as epsilon=2")
        # The pattern has no other currencies.
        currency = cast("Currency", match[1] or "unit")
        if currency in found:
            raise bad(f"'{text}' is the second for {currency}")
        kept = known[currency].delta if currency in known else 0.0
        try:
            delta = kept if match[3] is None else float(match[3])
            found[currency] = declared_cost(float(match[2]), delta)
        except ValueError as error:
            raise bad(f"'{text}' is no total: {error}") from None
    return found


def _named(book: "Ledger", name: str) -> "DatasetOverview":
    from cloakwork.ledger.datasets import datasets

    for found in datasets(book):
        if found.name == name:
            return found
    raise CloakworkError(
        f"ledger {book.url}: knows no dataset '{name}'; 'cloakwork dataset list' lists them"
    )
