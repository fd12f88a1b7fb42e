"""Which column is which, in tables that nobody has described; and which one says when events
happened, beside birthdays, admissions and invoices.
"""

import random
from collections.abc import Callable
from datetime import datetime, timedelta

import polars as pl
import pytest

from cloakwork.log.formats.guess_columns import guess_columns

WRITTEN = (
    ("%d.%m.%Y %H:%M", "%d.%m.%Y"),
    ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d"),
    ("%d/%m/%Y %H.%M", "%d/%m/%Y"),
    None,
    ("%Y%m%d%H%M%S", "%Y%m%d"),
)
"""How times and days are written; None for a workbook, which types them."""

DAYS = {"birth", "fixed", "due", "day", "start"}
"""What else a column of times may say."""

CLEAR = """
Fallnummer:case Tätigkeit:step Zeitpunkt:time Bearbeiter:clerk Patient:person
zaaknummer:case processtap:step datum:time behandelaar:clerk aanvrager:person
numéro_de_dossier:case étape:step horodatage:time gestionnaire:clerk client:person
id_pratica:case fase:step data_ora:time responsabile:clerk richiedente:person
expediente:case estado:step fecha:time agente:clerk usuario:person
Ticket_ID:case Status:step Updated_At:time Assigned_To:clerk Caller:person
Order_No:case Operation:step Start:time Worker:clerk Customer:person
application_id:case event_type:step ts:time clerk:clerk customer_no:person
PurchasingDocument:case Action:step CreatedOn:time User:clerk Vendor:person
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
            held |= {"case": f"C{case:03}", "step": step, "clerk": who, "person": f"P{case // 2}"}
            rows.append([held[kind] for kind in columns.values()])
    return pl.DataFrame(rows, list(columns), orient="row")


@pytest.mark.parametrize(
    ("columns", "written"),
    [
        (columns, written)
        for number, columns in enumerate(columns_of(CLEAR))
        for place, written in enumerate(WRITTEN)
        if number == 0 or (number + place) % len(WRITTEN) < 2
        # Days as digits alone may number something.
        if written != WRITTEN[-1] or not DAYS & set(columns.values())
    ],
)
def test_the_events_own_times_are_found(
    columns: dict[str, str], written: tuple[str, str] | None
) -> None:
    """In either order of the columns; each table in two ways of writing times, one in all."""
    shown = table(columns, written)
    for each in (shown, shown.select(reversed(shown.columns))):
        found = guess_columns(each.columns, each)
        assert not found.unanswered
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


def test_common_names_need_no_mapping() -> None:
    """Readers know them."""
    (columns,) = columns_of("case_id:case activity:step timestamp:time clerk:clerk client:person")
    shown = table(columns, WRITTEN[1])
    found = guess_columns(shown.columns, shown)
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
    shown = make()
    found = guess_columns(shown.columns, shown)
    assert (found.to_name, len(found.unanswered)) == ({}, 3)


def test_an_object_centric_table_is_not_flattened_unasked() -> None:
    """Which objects are cases is for its author to say, who sees how many rows name one; the twin
    without objects of types is guessed as any table.
    """
    rows = 40
    table = pl.DataFrame(
        {
            "ocel:eid": [f"e{i}" for i in range(rows)],
            "ocel:activity": ["place", "pay"] * (rows // 2),
            "ocel:timestamp": [f"2024-03-01T10:{i:02}:00Z" for i in range(rows)],
            "ocel:type:order": [f"o{i // 4}" for i in range(rows)],
            "ocel:type:item": [None if i % 4 else f"i{i}" for i in range(rows)],
        }
    )
    found = guess_columns(table.columns, table)
    (answer,) = found.unanswered
    assert (answer.name, answer.is_column) == ("case", True)
    assert answer.candidates == ("ocel:type:order", "ocel:type:item")
    assert "of 40 rows" in answer.question and "'ocel:type:item' (10)" in answer.question
    said = guess_columns(table.columns, table, {"case:concept:name": "ocel:type:order"})
    assert said.unanswered == () and said.taken["case:concept:name"] == "ocel:type:order"
    plain = table.rename({"ocel:type:order": "order id", "ocel:type:item": "item"})
    assert guess_columns(plain.columns, plain).taken["case:concept:name"] == "order id"


def test_the_case_is_no_amount():
    """Though it is named for an order, and comes again."""
    draw = random.Random(3)
    rows = []
    for case in range(300):
        amount = f"{draw.uniform(5, 90):.2f}"
        for step in ("announce", "label", "refund")[: draw.choice((2, 3))]:
            day = draw.randint(1, 28)
            rows.append((f"R{case:05d}", step, f"2024-02-{day:02d} 08:00:00", amount))
    header = ("return_id", "step", "at", "order_value")
    table = pl.DataFrame(rows, schema=list(header), orient="row")
    assert guess_columns(header, table).taken["case:concept:name"] == "return_id"
    # The twin: as whole numbers they could number orders.
    whole = table.with_columns(pl.col("order_value").str.replace(".", "", literal=True))
    assert guess_columns(header, whole).taken["case:concept:name"] == "order_value"


def test_the_case_is_no_amount_and_stands_for_more_than_itself():
    """An amount named for an order is no order; an id without a telling name has attributes that
    are the same throughout it, where an age has none.
    """
    draw = random.Random(3)
    rows = []
    for case in range(300):
        amount, land, age = round(draw.uniform(5, 90), 2), draw.choice("ABC"), draw.randint(6, 80)
        for step in ("announce", "label", "refund")[: draw.choice((2, 3))]:
            day = draw.randint(1, 28)
            rows.append((f"P{case:05d}", step, f"2024-02-{day:02d} 08:00:00", amount, land, age))
    for header in (
        ("return_id", "step", "at", "order_value", "country", "age"),
        ("Kennzeichen", "Schritt", "Zeitpunkt", "Auftragswert", "Land", "Alter"),
    ):
        table = pl.DataFrame(rows, schema=list(header), orient="row").cast(pl.String)
        found = guess_columns(header, table)
        assert found.taken["case:concept:name"] == header[0], found
    # Without anything that depends on it, a number of few values stays open.
    alone = table.select("Schritt", "Zeitpunkt", "Alter")
    assert "case:concept:name" not in guess_columns(alone.columns, alone).taken
