"""Which column is which, in tables that nobody has described."""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from cloakwork.log.formats.guess_columns import guess_columns

Row = tuple[str, str, str, str, str]

HEADERS = {
    "german": ("Fallnummer", "Tätigkeit", "Zeitpunkt", "Bearbeiter", "Patient"),
    "dutch": ("zaaknummer", "processtap", "datum", "behandelaar", "aanvrager"),
    "french": ("numéro de dossier", "étape", "horodatage", "gestionnaire", "client"),
    "italian": ("id_pratica", "fase", "data_ora", "responsabile", "richiedente"),
    "spanish": ("expediente", "estado", "fecha", "agente", "usuario"),
    "helpdesk": ("Ticket ID", "Status", "Updated At", "Assigned To", "Caller"),
    "factory": ("Order No", "Operation", "Start", "Worker", "Customer"),
    "bank": ("application_id", "event_type", "ts", "clerk", "customer_no"),
    "purchasing": ("PurchasingDocument", "Action", "CreatedOn", "User", "Vendor"),
}
"""Case, activity, time, a clerk, a person."""

WRITTEN = ("%d.%m.%Y %H:%M", "%Y-%m-%d %H:%M:%S", "%Y%m%d%H%M%S", "%d/%m/%Y %H.%M")


def rows(time_format: str) -> list[Row]:
    """Forty cases of four steps each."""
    chance = random.Random(3)
    start = datetime(2024, 1, 1, tzinfo=UTC)
    return [
        (
            f"N{1000 + case}",
            step,
            (start + timedelta(days=5 * case, hours=9 * place)).strftime(time_format),
            chance.choice(("u1", "u2")),
            f"P{case // 2}",
        )
        for case in range(40)
        for place, step in enumerate(("new", "seen", "decided", "closed"))
    ]


@pytest.mark.parametrize("time_format", WRITTEN)
@pytest.mark.parametrize("language", HEADERS)
def test_headers_of_many_languages(language: str, time_format: str) -> None:
    """Whatever stands first in the table."""
    case, activity, time, *_ = HEADERS[language]
    shown = pl.DataFrame(rows(time_format), HEADERS[language], orient="row")
    for table in (shown, shown.select(reversed(shown.columns))):
        found = guess_columns(table.columns, table)
        assert found.to_name == {
            "case:concept:name": case,
            "concept:name": activity,
            "time:timestamp": time,
        }
        assert not [said for said in found.questions if "no column" in said]


def test_common_names_need_no_mapping() -> None:
    """Readers know them."""
    header = ("case_id", "activity", "timestamp", "clerk", "client")
    table = pl.DataFrame(rows(WRITTEN[1]), header, orient="row")
    found = guess_columns(header, table)
    assert (found.to_name, found.questions) == ({}, ())


@pytest.mark.parametrize(
    "make",
    [
        lambda: pl.DataFrame({"a": ["x", "y"], "b": ["x", "y"]}),
        lambda: pl.DataFrame(schema={"a": pl.String}),
        lambda: pl.DataFrame({"a": [None, None]}, schema={"a": pl.String}),
    ],
)
def test_what_cannot_be_told_is_asked(make: Callable[[], pl.DataFrame]) -> None:
    """A question for each of the three."""
    table = make()
    found = guess_columns(table.columns, table)
    assert (found.to_name, len(found.questions)) == ({}, 3)
