"""Which column of an unknown table holds the case, which the activity, which the time: a guess from
what they are called and from what they hold, for the author of a policy to check.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import polars as pl

from cloakwork.log.io.column_names import common_column
from cloakwork.log.io.source import shown
from cloakwork.log.io.time_faults import candidate_formats
from cloakwork.log.io.times import parse_times
from cloakwork.log.naming import ACTIVITY, CASE_ID, TIMESTAMP, values_of

SAMPLE: Final = 2_000
"""Rows that are looked at as times."""

LEAST: Final = 3
"""Points from which on a column is taken."""

MOST_ACTIVITIES: Final = 500

_ROLES: Final = {TIMESTAMP: "timestamp", CASE_ID: "case", ACTIVITY: "activity"}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CASE: Final = _words("""
    case trace vorgang fall aktenzeichen akte zaak dossier pratica expediente tramite ticket
    incident inc claim schaden schade sinistre siniestro sinistro order auftrag bestelling commande
    pedido ordine workorder application antrag aanvraag demande solicitud domanda loan kredit
    transaction request document beleg declaration permit invoice rechnung factuur facture shipment
    lieferung batch charge process instance visit admission encounter opname aufnahme verfahren
    problem change contract vertrag
""")
_NUMBERED: Final = _words("""
    id ids nr no num number nummer numero numéro número key code ref reference uuid identifier
    kennung
""")
_ACTIVITY: Final = _words("""
    activity activities event task step action operation stage phase status state transition
    milestone aktivität aktivitaet aktivitat tätigkeit taetigkeit tatigkeit schritt arbeitsschritt
    vorgangsschritt ereignis vorgangsart zustand activiteit handeling stap processtap processstap
    fase gebeurtenis taak etape étape activité activite evenement événement actividad evento estado
    etapa paso tarea attività attivita stato passo
""")
_TIME: Final = _words("""
    timestamp time datetime date ts at zeit zeitpunkt zeitstempel datum tijd tijdstip uhrzeit
    completetime complete completed start started begin end ended updated created booked fecha hora
    horodatage heure data ora quando moment
""")
_PEOPLE: Final = _words("""
    user customer client patient caller person employee resource assigned assignee agent staff
    klant kunde cliente utente usuario vendor supplier member clerk owner policyholder
""")


def guess_columns(
    header: Sequence[str], table: pl.DataFrame
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Columns that need to be named, by full names, and what is open about them, one sentence each.

    ``table``: the first rows. A column that readers know by its name need not be named.
    """
    known = {full: common_column(full, header) for full in _ROLES}
    taken = {name for name in known.values() if name is not None}
    found: dict[str, str] = {}
    questions: list[str] = []
    points_of: Mapping[str, Callable[[str], int]] = {
        TIMESTAMP: lambda name: _points_as_time(name, values_of(table, name)),
        CASE_ID: lambda name: _points_as_case(name, values_of(table, name)),
        ACTIVITY: lambda name: _points_as_activity(
            name, values_of(table, name), table, known[CASE_ID] or found.get(CASE_ID)
        ),
    }
    for full, role in _ROLES.items():
        if known[full] is not None:
            continue
        free = [name for name in header if name in table.columns and name not in taken]
        points = {name: points_of[full](name) for name in free}
        best = max(points, key=lambda name: points[name], default=None)
        if best is None or points[best] < LEAST:
            questions.append(f"no column seems to hold the {role}: name it under columns")
            continue
        found[full] = best
        taken.add(best)
        if points[best] < 2 * LEAST:
            questions.append(f"column '{shown(best)}' is taken for the {role}: check it")
    order: tuple[str, ...] = (CASE_ID, ACTIVITY, TIMESTAMP)
    return {full: found[full] for full in order if full in found}, tuple(questions)


def _words_of(name: str) -> tuple[str, ...]:
    divided = re.sub(r"(?<=[a-zà-ÿ])(?=[A-ZÀ-Þ])", " ", name)
    return tuple(word.lower() for word in re.findall(r"[^\W\d_]+", divided))


def _names(words: Sequence[str], known: frozenset[str]) -> bool:
    """Whether one of the words is known, or begins or ends with a known one of four letters or
    more.
    """
    long = tuple(word for word in known if len(word) > 3)
    return any(word in known or word.startswith(long) or word.endswith(long) for word in words)


def _points_as_time(name: str, values: pl.Series) -> int:
    held = values.drop_nulls().head(SAMPLE)
    if held.is_empty() or 2 * values.null_count() > len(values):
        return 0
    is_named = _names(_words_of(name), _TIME)
    if held.dtype.is_temporal():
        return 6 if is_named else 5
    if held.dtype != pl.String:
        return 0
    if not parse_times(held).values.null_count():
        return 6 if is_named else 5
    formats = candidate_formats(held)
    if not formats:
        return 0
    is_number = held.str.contains(r"^\d+$").all()
    if is_named:
        return 6
    return 0 if is_number else 5


def _points_as_case(name: str, values: pl.Series) -> int:
    distinct, rows = values.n_unique(), len(values)
    if values.null_count() or distinct < 2 or distinct == rows:
        return 0
    words = _words_of(name)
    points = 4 * _names(words, _CASE) + 2 * any(word in _NUMBERED for word in words)
    points -= 3 * _names(words, _PEOPLE)
    with_digits = values.cast(pl.String).str.contains(r"\d").mean()
    points += with_digits is not None and float(with_digits) > 0.9  # type: ignore[arg-type]
    return points + (2 <= rows / distinct <= 100)


def _points_as_activity(
    name: str, values: pl.Series, table: pl.DataFrame, case_id: str | None
) -> int:
    distinct = values.n_unique()
    if values.dtype != pl.String or not 2 <= distinct <= min(MOST_ACTIVITIES, len(values) // 2 + 1):
        return 0
    words = _words_of(name)
    points = 5 * _names(words, _ACTIVITY) - 3 * _names(words, _PEOPLE)
    if case_id is None:
        return points
    pairs = pl.DataFrame({"case": values_of(table, case_id), "value": values}).drop_nulls()
    in_case = pairs.group_by("case").agg(
        pl.col("value").n_unique().alias("found"), pl.len().alias("events")
    )
    varied = (in_case["found"] / in_case["events"]).mean()
    # Steps of a case mostly differ; clerks and departments come again.
    return points + 2 * (varied is not None and float(varied) > 0.8)  # type: ignore[arg-type]
