"""What columns are called, in the languages that tables are written in."""

import re
from collections.abc import Sequence
from typing import Final


def words(name: str) -> tuple[str, ...]:
    """The words of a column's name, in lower case, without numbers and signs.

    >>> words("Claim_id"), words("CreatedOn")
    (('claim', 'id'), ('created', 'on'))
    """
    # A capital letter behind a small one begins a word.
    divided = re.sub(r"(?<=[a-zà-ÿ])(?=[A-ZÀ-Þ])", " ", name)
    return tuple(word.lower() for word in re.findall(r"[^\W\d_]+", divided))


def names(found: Sequence[str], known: frozenset[str]) -> bool:
    """Whether one of the words is known, or begins or ends with a known one of four letters or
    more.
    """
    # Shorter words begin or end too many others.
    long = tuple(word for word in known if len(word) > 3)
    return any(word in known or word.startswith(long) or word.endswith(long) for word in found)


def holds_stem(found: Sequence[str], stems: frozenset[str]) -> bool:
    """Whether a word holds one of ``stems`` anywhere, as compounds do; a stem of four letters or
    fewer must be the whole word.
    """
    return any(word == stem if len(stem) <= 4 else stem in word for word in found for stem in stems)


def _known(text: str) -> frozenset[str]:
    return frozenset(text.split())


CASE: Final = _known("""
    case trace vorgang fall aktenzeichen akte zaak dossier pratica expediente tramite ticket
    incident inc claim schaden schade sinistre siniestro sinistro order auftrag bestelling commande
    pedido ordine workorder application antrag aanvraag demande solicitud domanda loan kredit
    transaction request document beleg declaration permit invoice rechnung factuur facture shipment
    lieferung batch charge process instance visit admission encounter opname aufnahme verfahren
    problem change contract vertrag
""")
NUMBERED: Final = _known("""
    id ids nr no num number nummer numero numéro número key code ref reference uuid identifier
    kennung
""")
ACTIVITY: Final = _known("""
    activity activities event task step action operation stage phase status state transition
    milestone aktivität aktivitaet aktivitat tätigkeit taetigkeit tatigkeit schritt arbeitsschritt
    vorgang arbeitsgang ereignis zustand maßnahme massnahme verrichtung prozedur procedure leistung
    activiteit handeling stap processtap processstap fase gebeurtenis taak verrichting maatregel
    etape étape activité activite evenement événement acte opération actividad evento estado
    etapa paso tarea acción accion operación attività attivita stato passo azione operazione
    atividade ação passagem aktivitet hændelse händelse czynność
""")
TIME: Final = _known("""
    timestamp time datetime date ts at zeit zeitpunkt zeitstempel datum tijd tijdstip uhrzeit
    completetime complete completed start started begin end ended updated created booked fecha hora
    horodatage heure data ora quando moment
""")
COMPLETED: Final = _known("""
    complete completed completetime end ended endzeit endtime ende finished finish eind einde fin
    fine fim abgeschlossen beendet
""")
PEOPLE: Final = _known("""
    user customer client patient caller person employee resource assigned assignee agent staff
    klant kunde cliente utente usuario vendor supplier member clerk owner policyholder name names
    naam nom nombre nome vorname nachname by von por durch bearbeiter sachbearbeiter
    mitarbeiter medewerker behandelaar arzt ärztin doctor nurse physician handler worker
    responsable responsabile verantwortlich paciente paziente
""")
NAME: Final = _known("name names naam nom nombre nome")
BIRTH: Final = _known("""
    birth birthday birthdate born geburt gebdat gebdatum gebd geb dob naissance nacimiento nascita
    nascimento geboorte geboren födelse fødsel urodzenia
    death died sterbe todes overlijden décès deces fallecimiento decesso
""")
"""When a person was born or died: the time of no event."""

OF_CASE: Final = _known("""
    admission admitted aufnahme opname admisión admision ingreso ricovero discharge entlass ontslag
    alta invoice rechnung factuur facture factura fattura due deadline fällig faellig frist verval
    échéance echeance vencimiento scadenza expir ablauf gültig gueltig valid planned geplant gepland
    planung expected erwartet target contract vertrag contrat eintritt hired joined delivery liefer
    received eingang submitted submission registration anmelde accident unfall bestelldatum
    order ordered purchase effective maturity enrolment enrollment einschreib termin appointment
""")
"""What is dated once in a case, and not when its events happened."""
