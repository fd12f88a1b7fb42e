"""Which column says when events happened, beside birthdays, admissions and invoices."""

import random
from datetime import datetime, timedelta

import polars as pl
import pytest

from cloakwork.log.formats.guess_columns import guess_columns

WRITTEN = (("%d.%m.%Y %H:%M", "%d.%m.%Y"), ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d"), None)
"""How times and days are written; None for a workbook, which types them."""

CLEAR = """
Fallnummer:case Patientenname:clerk Geburtsdatum:birth Aufnahmetag:fixed Schritt:step Zeitpunkt:time
Rechnungsdatum:fixed Auftrag:case Vorgang:step Startzeit:time Bearbeiter:clerk
GebDat:birth Fall-ID:case Maßnahme:step Beginn:start Ende:time
Datum:fixed Aktenzeichen:case Schritt:step Zeitstempel:time Sachbearbeiter:clerk
Geburtsdatum:birth Fall:case Tätigkeit:step Datum:day Entlassdatum:fixed
Case:case Birth_date:birth Admission_date:fixed Activity:step Start_time:time Performed_by:clerk
DOB:birth Visit:case Procedure:step Recorded:time Doctor:clerk
Date:fixed Ticket_ID:case Status:step Updated_At:time Due_date:due
Due_date:due Order_No:case Operation:step When:time Customer:clerk
geboortedatum:birth zaaknummer:case opnamedatum:fixed handeling:step tijdstip:time
Date_de_naissance:birth Numéro_de_dossier:case Étape:step Horodatage:time Date_de_facture:fixed
Fecha_de_nacimiento:birth Expediente:case Paso:step Fecha_y_hora:time Fecha_de_ingreso:fixed
data_di_nascita:birth pratica:case fase:step data_ora:time data_fattura:fixed
Data_de_nascimento:birth Pedido:case Atividade:step Data/hora:time
data_urodzenia:birth Fall:case Schritt:step czas:time
"""

OPEN = """
Geburtsdatum:birth Fall:case Tätigkeit:step
Aufnahmedatum:fixed Fall:case Tätigkeit:step
Fall:case Tätigkeit:step Buchungstag:day Belegtag:due
Fall:case Tätigkeit:step Gemessen:time Erfasst:start
"""


def columns_of(text: str) -> list[dict[str, str]]:
    """One table a line: what each of its columns holds."""
    lines = [line.split() for line in text.strip().splitlines()]
    return [dict(field.rsplit(":", 1) for field in line) for line in lines]


def table(columns: dict[str, str], written: tuple[str, str] | None) -> pl.DataFrame:
    """Sixty cases of three or four steps."""
    chance = random.Random(4)
    rows = []
    for case in range(60):
        born = datetime(chance.randrange(1940, 2000), 1 + case % 12, 1 + case % 28)
        now = begun = datetime(2024, 1, 1) + timedelta(minutes=chance.randrange(200_000))
        for step in ("neu", *chance.choice((("prüfen",), ("messen", "prüfen"))), "ende"):
            now += timedelta(minutes=chance.randrange(20, 3_000))
            due = now + timedelta(days=chance.randrange(30))
            days = {"birth": born, "fixed": begun, "due": due, "day": now}
            times = {"time": now, "start": now - timedelta(minutes=9)}
            held: dict[str, object] = {
                name: day.replace(hour=0, minute=0) if written is None else f"{day:{written[1]}}"
                for name, day in days.items()
            }
            for name, time in times.items():
                held[name] = time if written is None else f"{time:{written[0]}}"
            who = chance.choice(("Anna Ito", "Karl Maier", "Eva Weiß"))
            held |= {"case": f"C{case:03}", "step": step, "clerk": who}
            rows.append([held[kind] for kind in columns.values()])
    return pl.DataFrame(rows, list(columns), orient="row")


@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize("columns", columns_of(CLEAR), ids=lambda columns: " ".join(columns)[:30])
def test_the_events_own_times_are_found(
    columns: dict[str, str], written: tuple[str, str] | None
) -> None:
    """In either order of the columns."""
    shown = table(columns, written)
    for each in (shown, shown.select(reversed(shown.columns))):
        found = guess_columns(each.columns, each)
        kinds = {full: columns[name] for full, name in found.taken.items()}
        assert kinds.pop("time:timestamp") in ("time", "day")
        assert kinds == {"case:concept:name": "case", "concept:name": "step"}


@pytest.mark.parametrize("columns", columns_of(OPEN), ids=lambda columns: " ".join(columns)[:30])
def test_what_is_open_is_a_question(columns: dict[str, str]) -> None:
    """A birthday is the time of no event, and of two columns alike neither is chosen."""
    shown = table(columns, WRITTEN[0])
    found = guess_columns(shown.columns, shown)
    assert "time:timestamp" not in found.taken
    assert [answer.name for answer in found.unanswered] == ["timestamp"]
    time = next(name for name, kind in columns.items() if kind not in ("case", "step"))
    said = guess_columns(shown.columns, shown, {"time:timestamp": time})
    assert not said.unanswered
