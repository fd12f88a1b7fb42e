"""What the names of attributes say, in the languages that logs are written in."""

from typing import Final


def names_one_of(words: tuple[str, ...], stems: frozenset[str]) -> bool:
    """Whether one of ``words`` begins with one of ``stems``; a stem of three letters or fewer must
    be the whole word.
    """
    return any(_fits(word, stem) for word in words for stem in stems)


def _fits(word: str, stem: str) -> bool:
    return word == stem if len(stem) <= SHORT_STEM else word.startswith(stem)


def holds_one_of(words: tuple[str, ...], stems: frozenset[str]) -> bool:
    """Whether one of ``words`` holds one of ``stems`` anywhere, as compounds do.

    >>> holds_one_of(("hauptdiagnose",), frozenset({"diagnos"}))
    True
    """
    return any(stem in word for word in words for stem in stems)


def stems(text: str) -> frozenset[str]:
    """The words of ``text``."""
    return frozenset(text.split())


SHORT_STEM: Final = 3

DIRECT: Final = stems("""
    email mail phone telephone mobile telefon tel fax iban bsn ssn svnr passport
    passnummer firstname lastname surname vorname nachname achternaam voornaam fullname
    address adresse adres street strasse straat plate license kenteken kennzeichen
    insurance patientname customername clientname ip ipv ipaddr mac imei imsi gps
    dni nif nie cif nss cpf pesel ahv steuernummer steuerid sozialversicherung
    versichertennummer fiscale direccion indirizzo cognome apellido nombre correo courriel naissance
""")
"""What identifies a person wherever it stands."""

NUMBERED: Final = stems("""
    id ids uuid guid number nummer numero num nr no key identifier kennung barcode ref
    reference token hash serial ticket invoice contract account konto rekening
""")
"""What numbers or refers to a thing, and with it to whoever has it."""

STAFF: Final = stems("""
    resource user staff employee medewerker mitarbeiter doctor nurse physician arzt arts
    clerk agent operator assignee assigned handler responsible actor creator author editor
    approver reviewer manager supervisor owner verantwoordelijke bearbeiter behandelaar
    worker performer analyst caseworker officer matricola login username benutzer
    sachbearbeiter ansprechpartner zustaendig zuständig unterzeichner gebruiker medewerkster
    ondertekenaar verpleegkundige dokter chirurg surgeon firmante usuario empleado
    responsable medico médico enfermer funcionario operatore operador responsabile utente
    impiegato infermier dottor dipendente firmatario utilisateur employé signatory
    signer
""")
"""People who work on a case, and are not whom a guarantee about cases protects."""

TECHNICAL: Final = stems("""
    lifecycle version schema stage state status transition flag index sequence
""")
"""How systems keep their records."""

WHO: Final = stems("""
    age leeftijd alter sex gender geslacht geschlecht birth geburt geboorte dob zip
    zipcode postal postcode plz city town stadt plaats municipality gemeente region
    country land nation marital family household education school occupation profession
    job language nationality vehicle employer company organisation organization
    organizational department entity budget project parish district location site branch
    channel lat lon lng latitude longitude coordinates
    wijk buurt stadsdeel stadtteil afdeling abteilung
""")
"""What others may know of somebody."""

SENSITIVE: Final = stems("""
    diagnos disease illness symptom icd drg treatment therapy drug medic medication lab
    crp leucocytes leuko lactic blood infect infus hypo oligurie pregnan disab allerg
    vaccin weight height bmi income salary wage credit loan debt amount cost costs price
    payment paid expense balance fee fees leges fine penalt offence offense article
    dismissal points crime criminal court convict religion ethnic race union party politic
    sexual orientation gene genetic biometric speciality specialism specialty ward score
    risk complaint reason betrag bedrag kosten diagnostic disfunc sirs
""")
"""What people would not have known of them."""

SENSITIVE_INSIDE: Final = stems("""
    diagnos krank befund medik gesundheit pflege behinder schwanger therap symptom impf
    ziekte gezond zwanger handicap verslav schuld straf gehalt gehälter einkommen lohn vermögen
    inkomen salaris religion konfession glauben gewerkschaft vakbond migration asyl
""")
"""The same inside compounds of German and Dutch, such as Hauptdiagnose."""

PERSON: Final = stems("""
    patient client customer citizen person member subscriber applicant student debtor
    insured klant kunde burger buerger inwoner taxpayer passenger guest tenant caller
    requester requestor claimant complainant aanvrager indiener melder antragsteller
    policyholder borrower debitor versicherungsnehmer versichert verzekerde asegurado assure
    assicurato richiedente solicitante demandeur cliente paciente paziente mieter huurder
    pupil schüler schueler schuler leerling élève eleve alumno alunno studierende auszubildende
    azubi participant teilnehmer deelnemer resident bewohner bewoner recipient empfänger
    empfaenger beneficiary beneficiario bewerber candidate kandidat sollicitant victim opfer
    verdächtige verdaechtige defendant angeklagte witness zeuge traveller traveler reisende
    bürger cliënt patiënt versicherter
""")
"""People whom a log is about, and who may have several cases."""

FREE_TEXT: Final = stems("""
    description comment note remark text message subject title summary omschrijving opmerking
    toelichting beschreibung bemerkung kommentar notiz anmerkung betreff descripcion descripción
    comentario observacion descrizione commento nota remarque commentaire
""")
"""What people write in their own words."""

NAMED: Final = stems("name naam nom")
"""What, beside a word for a person, says that a column holds names."""
