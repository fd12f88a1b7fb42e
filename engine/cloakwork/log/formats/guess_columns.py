"""Which column of an unknown table holds the case, which the activity, which the time: a guess from
what they are called and from what they hold, for the author of a policy to check. Of several
columns of times one says when events happened, and the others something else, such as when somebody
was born.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import time
from typing import Final

import polars as pl

from cloakwork.base.frozen import frozen
from cloakwork.base.naming import ACTIVITY, CASE_ID, TIMESTAMP, values_of
from cloakwork.base.text import shown, words_of
from cloakwork.log.formats.column_names import common_column
from cloakwork.log.formats.written_times import candidate_formats
from cloakwork.log.times import parse_times

LEAST: Final = 3
"""Points from which on a column is taken."""

MOST_ACTIVITIES: Final = 500

_AMOUNT: Final = r"^\d+[.,]\d{1,2}$"

_WORDS: Final = {CASE_ID: "case", ACTIVITY: "activity", TIMESTAMP: "timestamp"}


@frozen
class OpenAnswer:
    """What a file's author has to say before it can be read.

    - ``name``: of the option, or of the role of a column (``is_column``).
    - ``question``: what is open, without a remedy; ``candidates``: what it could be.
    """

    name: str
    question: str
    candidates: tuple[str, ...] = ()
    is_column: bool = False


@frozen
class GuessedColumns:
    """Columns by the full names of what they hold.

    - ``taken``: of the case, the activity and the timestamp, as far as found or said.
    - ``to_name``: those of ``taken`` that readers do not find by themselves.
    - ``questions``: what its author has to check, one sentence each.
    - ``unanswered``: the roles that no column was taken for.
    """

    taken: dict[str, str] = field(default_factory=dict)
    to_name: dict[str, str] = field(default_factory=dict)
    questions: tuple[str, ...] = ()
    unanswered: tuple[OpenAnswer, ...] = ()


class _Search:
    """Columns of one table that are still free, and what was found."""

    def __init__(
        self,
        header: Sequence[str],
        table: pl.DataFrame,
        said: Mapping[str, str],
    ) -> None:
        self.header = header
        self.table = table
        self.taken = {full: said[full] for full in _WORDS if full in said}
        self.others = {column for full, column in said.items() if full not in _WORDS}
        given = [name for name in header if name in table.columns]
        self.times = {name for name in given if _reads_as_times(name, values_of(table, name))}
        self.unanswered: list[OpenAnswer] = []
        self.questions: list[str] = []

    def free(self) -> list[str]:
        gone = self.others | set(self.taken.values())
        return [name for name in self.header if name in self.table.columns and name not in gone]

    def find(self, full: str, points_of: Callable[[str], int]) -> None:
        """The column with most points, none of times."""
        if full in self.taken:
            return
        known = common_column(full, self.free())
        if known is not None:
            self.taken[full] = known
            return
        # Columns of times are judged by themselves, in ``find_time``.
        points = {name: points_of(name) for name in self.free() if name not in self.times}
        ranked = sorted(points, key=lambda name: -points[name])
        role = _WORDS[full]
        if not ranked or points[ranked[0]] < LEAST:
            possible = tuple(name for name in ranked[:3] if points[name] > 0)
            # Whoever has little to go by takes an example for advice, and a wrong case protects
            # nobody.
            possible = () if full == CASE_ID else possible
            self.leave_open(full, f"no column seems to hold the {role}", possible)
            return
        self.taken[full] = ranked[0]
        if points[ranked[0]] < 2 * LEAST:
            self.questions.append(f"column '{shown(ranked[0])}' is taken for the {role}: check it")

    def find_time(self) -> None:
        """The column of the events' times: the best one by a clear margin.

        A column that does not change within cases never stands where another does, nor a day where
        another has the time of day.
        """
        if TIMESTAMP in self.taken:
            return
        if TIMESTAMP in self.header:
            self.taken[TIMESTAMP] = TIMESTAMP
            return
        columns = [self._time_column(name) for name in self.free() if name in self.times]
        births = [each for each in columns if each.is_birth]
        columns = [each for each in columns if not each.is_birth]
        # Each preference counts only where some column fulfils it.
        for is_better in (lambda each: not each.is_constant, lambda each: each.has_clock):
            columns = [each for each in columns if is_better(each)] or columns
        if not columns:
            self._leave_time_open(births)
            return
        columns.sort(key=lambda each: -each.points)
        best = columns[0]
        near = [each for each in columns if best.points - each.points < MARGIN]
        if len(near) > 1:
            listed = _listed(near)
            # Of the beginning and the end of a step the end counts, as in XES.
            ends = [each for each in near if names(words_of(each.name), COMPLETED_WORDS)]
            if len(ends) != 1:
                said = f"which column holds the timestamp is open: {listed}"
                self.leave_open(TIMESTAMP, said, tuple(each.name for each in near))
                return
            best = ends[0]
            others = f", of {listed} (--input starts=NAME reads when work began)"
            is_sure = False
        elif best.is_constant and (best.points < 0 or names(words_of(best.name), OF_CASE_WORDS)):
            self._leave_time_open([best], (best.name,))
            return
        else:
            others = ""
            is_sure = best.varies is not None and not best.is_constant and best.points >= 2 * MARGIN
        self.taken[TIMESTAMP] = best.name
        if not is_sure:
            self.questions.append(
                f"column '{shown(best.name)}' is taken for the timestamp{others}: check it"
            )

    def _time_column(self, name: str) -> "TimeColumn":
        values = values_of(self.table, name)
        case_id = self.taken.get(CASE_ID)
        varies = None
        if case_id in self.table.columns:
            cases = values_of(self.table, case_id)
            pairs = pl.DataFrame({"case": cases, "value": values}).drop_nulls()
            several = _cases_of_several(pairs)["found"] > 1
            varies = float(several.mean() or 0.0) if len(several) else None  # type: ignore[arg-type]
        return TimeColumn(name, _has_clock(values), varies, 20 * values.null_count() > len(values))

    def _leave_time_open(
        self,
        others: "Sequence[TimeColumn]",
        candidates: tuple[str, ...] = (),
    ) -> None:
        named_else = f" ({_listed(others)} is named for something else)" if others else ""
        said = f"no column seems to hold the timestamp{named_else}"
        self.leave_open(TIMESTAMP, said, candidates)

    def leave_open(self, full: str, question: str, candidates: tuple[str, ...]) -> None:
        answer = OpenAnswer(_WORDS[full], question, candidates, is_column=True)
        self.unanswered.append(answer)


def guess_columns(
    header: Sequence[str],
    table: pl.DataFrame,
    said: Mapping[str, str] | None = None,
) -> GuessedColumns:
    """What the columns of ``table``, its first rows, seem to hold; ``said``: columns by full names,
    as the author says.
    """
    said = said or {}
    search = _Search(header, table, said)
    # The case first: times and activities are judged by how they vary within cases.
    objects = tuple(name for name in search.free() if name.startswith(("ocel:type:", "ot:")))
    if objects and CASE_ID not in search.taken:
        counts = [f"'{shown(name)}' ({values_of(table, name).count():,})" for name in objects]
        said_of = f"which objects are cases is open; of {table.height:,} rows these name one: "
        search.leave_open(CASE_ID, said_of + ", ".join(counts), objects)
    else:
        search.find(CASE_ID, lambda name: _points_as_case(name, values_of(table, name), table))
    search.find_time()
    case_id = search.taken.get(CASE_ID)
    cases = values_of(table, case_id) if case_id in table.columns else None
    search.find(ACTIVITY, lambda name: _points_as_activity(name, values_of(table, name), cases))
    taken = {full: search.taken[full] for full in _WORDS if full in search.taken}
    to_name = {
        full: column
        for full, column in taken.items()
        if full not in said and common_column(full, header) != column
    }
    return GuessedColumns(
        taken,
        to_name,
        tuple(search.questions),
        tuple(search.unanswered),
    )


def _points_as_case(name: str, values: pl.Series, table: pl.DataFrame) -> int:
    distinct = values.n_unique()
    rows = len(values)
    texts = values.cast(pl.String)
    # Missing somewhere, another one in each row, or an amount: no id of a case.
    if values.null_count() or distinct in (0, rows) or texts.str.contains(_AMOUNT).any():
        return 0
    named = words_of(name)
    is_numbered = any(word in NUMBERED_WORDS for word in named)
    points = 4 * names(named, CASE_WORDS) + 2 * is_numbered
    points -= 3 * names(named, PEOPLE_WORDS)
    if distinct == 1:  # a log of one case, or a column that says nothing
        return points - 1
    with_digits = texts.str.contains(r"\d").mean()
    points += with_digits is not None and float(with_digits) > 0.9  # type: ignore[arg-type]
    points += 2 <= rows / distinct <= 100
    # What is the same throughout each case tells of an id that stands for more.
    others = (values_of(table, each) for each in table.columns if points > 1)
    return points + any(
        1 < other.n_unique() < distinct
        and pl.DataFrame({"value": values, "other": other}).unique().height == distinct
        for other in others
    )


def _points_as_activity(
    name: str,
    values: pl.Series,
    cases: pl.Series | None,
) -> int:
    """Steps of a case mostly differ and follow each other; clerks and departments come again."""
    distinct = values.n_unique()
    if values.dtype != pl.String or not 2 <= distinct <= min(MOST_ACTIVITIES, len(values) // 2 + 1):
        return 0
    named = words_of(name)
    is_named = names(named, ACTIVITY_WORDS)
    others = [word for word in named if not (is_named and word in NAME_WORDS)]
    points = 5 * is_named - 6 * names(others, PEOPLE_WORDS)
    points -= 3 * any(word in NUMBERED_WORDS for word in named)
    if cases is None:
        return points
    pairs = pl.DataFrame({"case": cases, "value": values}).drop_nulls()
    several = _cases_of_several(pairs)
    varied = (several["found"] / several["events"]).mean()
    if varied is None or float(varied) <= 0.8:  # type: ignore[arg-type]
        return points
    return points + 2 + 2 * (_share_foretold(pairs) > 0.3)


def _cases_of_several(pairs: pl.DataFrame) -> pl.DataFrame:
    """How many ``events`` and values (``found``) each case has; those of one event do not tell how
    a column varies.
    """
    in_case = pairs.group_by("case").agg(
        pl.len().alias("events"), pl.col("value").n_unique().alias("found")
    )
    return in_case.filter(pl.col("events") > 1)


def _share_foretold(pairs: pl.DataFrame) -> float:
    """How many wrong guesses at a value knowing the one before it in its case saves, as a share
    (Goodman and Kruskal's lambda, 1954); at most 1.
    """
    next_ones = pairs.with_columns(pl.col("value").shift(1).over("case").alias("before"))
    steps = next_ones.drop_nulls().group_by("before", "value").len()
    total = int(steps["len"].sum())
    if not total:
        return 0.0
    # By the value before; a step that was seen once foretells nothing.
    often = steps.group_by("before").agg(pl.col("len").max().alias("most"))
    by_last = float(often.filter(pl.col("most") > 1)["most"].sum()) / total
    alone = steps.group_by("value").agg(pl.col("len").sum())["len"].to_list()
    by_none = max(alone) / total
    return (by_last - by_none) / (1 - by_none) if by_none < 1 else 0.0


SAMPLE: Final = 2_000
"""Values that are tried as times."""

MARGIN: Final = 2
"""Points by which the best column has to lead."""

SELDOM: Final = 0.05
"""Share of the cases of several events with several times, below which a column says one thing of
a whole case.
"""


@frozen
class TimeColumn:
    """A column that reads as times.

    ``has_clock``: whether any value says more than a day; ``varies``: the share of the cases of
    several events in which there are several values, None where no case is known to have several
    events.
    """

    name: str
    has_clock: bool
    varies: float | None
    has_gaps: bool

    @property
    def is_birth(self) -> bool:
        """Whether it is named for a birth or a death, which is the time of no event."""
        return names(words_of(self.name), BIRTH_WORDS)

    @property
    def is_constant(self) -> bool:
        """Whether it says one thing of a whole case."""
        return self.varies is not None and self.varies < SELDOM

    @property
    def points(self) -> int:
        """How much speaks for it."""
        named = words_of(self.name)
        found = 3 * self.has_clock + 2 * names(named, TIME_WORDS | COMPLETED_WORDS) - self.has_gaps
        found -= 4 * names(named, OF_CASE_WORDS)
        if self.varies is not None:
            found += 2 * (self.varies >= SELDOM) + 2 * (self.varies >= 0.5)
        return found


def _listed(columns: Sequence[TimeColumn]) -> str:
    return ", ".join(f"'{shown(each.name)}'" for each in columns[:6])


def _has_clock(values: pl.Series) -> bool:
    held = values.drop_nulls()
    if held.dtype == pl.Datetime:
        return bool((held.dt.time() != time(0)).any())
    if held.dtype != pl.String:
        return False
    sample = held.head(SAMPLE)
    if not parse_times(sample).values.null_count():
        return bool(sample.str.contains(":").any())
    return any(re.search("%[HI]|epoch", form) for form in candidate_formats(sample))


def _reads_as_times(name: str, values: pl.Series) -> bool:
    held = values.drop_nulls().head(SAMPLE)
    if held.is_empty() or 2 * values.null_count() > len(values):
        return False
    if held.dtype in (pl.Datetime, pl.Date):
        return True
    if held.dtype != pl.String:
        return False
    if not parse_times(held).values.null_count():
        return True
    # Digits alone may number something.
    if held.str.contains(r"^\d+$").all() and not names(words_of(name), TIME_WORDS):
        return False
    return bool(candidate_formats(held))


def names(found: Sequence[str], known: frozenset[str]) -> bool:
    """Whether one of the words is known, or begins or ends with a known one of four letters or
    more.
    """
    # Shorter words begin or end too many others.
    long = tuple(word for word in known if len(word) > 3)
    return any(word in known or word.startswith(long) or word.endswith(long) for word in found)


def _known(text: str) -> frozenset[str]:
    return frozenset(text.split())


CASE_WORDS: Final = _known("""
    case trace vorgang fall aktenzeichen akte zaak dossier pratica expediente tramite ticket
    incident inc claim schaden schade sinistre siniestro sinistro order auftrag bestelling commande
    pedido ordine workorder application antrag aanvraag demande solicitud domanda loan kredit
    transaction request document beleg declaration permit invoice rechnung factuur facture shipment
    lieferung batch charge process instance visit admission encounter opname aufnahme verfahren
    problem change contract vertrag
""")
NUMBERED_WORDS: Final = _known("""
    id ids nr no num number nummer numero numéro número key code ref reference uuid identifier
    kennung
""")
ACTIVITY_WORDS: Final = _known("""
    activity activities event task step action operation stage phase status state transition
    milestone aktivität aktivitaet aktivitat tätigkeit taetigkeit tatigkeit schritt arbeitsschritt
    vorgang arbeitsgang ereignis zustand maßnahme massnahme verrichtung prozedur procedure leistung
    activiteit handeling stap processtap processstap fase gebeurtenis taak verrichting maatregel
    etape étape activité activite evenement événement acte opération actividad evento estado
    etapa paso tarea acción accion operación attività attivita stato passo azione operazione
    atividade ação passagem aktivitet hændelse händelse czynność
""")
TIME_WORDS: Final = _known("""
    timestamp time datetime date ts at zeit zeitpunkt zeitstempel datum tijd tijdstip uhrzeit
    completetime complete completed start started begin end ended updated created booked fecha hora
    horodatage heure data ora quando moment
""")
COMPLETED_WORDS: Final = _known("""
    complete completed completetime end ended endzeit endtime ende finished finish eind einde fin
    fine fim abgeschlossen beendet
""")
PEOPLE_WORDS: Final = _known("""
    user customer client patient caller person employee resource assigned assignee agent staff
    klant kunde cliente utente usuario vendor supplier member clerk owner policyholder name names
    naam nom nombre nome vorname nachname by von por durch bearbeiter sachbearbeiter
    mitarbeiter medewerker behandelaar arzt ärztin doctor nurse physician handler worker
    responsable responsabile verantwortlich paciente paziente
""")
NAME_WORDS: Final = _known("name names naam nom nombre nome")
BIRTH_WORDS: Final = _known("""
    birth birthday birthdate born geburt gebdat gebdatum gebd geb dob naissance nacimiento nascita
    nascimento geboorte geboren födelse fødsel urodzenia
    death died sterbe todes overlijden décès deces fallecimiento decesso
""")
"""When a person was born or died: the time of no event."""

OF_CASE_WORDS: Final = _known("""
    admission admitted aufnahme opname admisión admision ingreso ricovero discharge entlass ontslag
    alta invoice rechnung factuur facture factura fattura due deadline fällig faellig frist verval
    échéance echeance vencimiento scadenza expir ablauf gültig gueltig valid planned geplant gepland
    planung expected erwartet target contract vertrag contrat eintritt hired joined delivery liefer
    received eingang submitted submission registration anmelde accident unfall bestelldatum
    order ordered purchase effective maturity enrolment enrollment einschreib termin appointment
""")
"""What is dated once in a case, and not when its events happened."""
