"""What each attribute of a log is, and why: from figures of the log, and from the attribute's name.

It proposes; the author of a policy decides. The figures are internal: they are computed on the raw
log. No value of the log stands in them, nor in a reason.
"""

import re
import unicodedata
from typing import Final, Literal

import numpy as np
import polars as pl

from cloakwork.base.arrays import Floats
from cloakwork.base.frozen import frozen
from cloakwork.base.naming import SERVICE_TIME, values_of
from cloakwork.base.text import words_of
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, CASE_PREFIX, TIMESTAMP, EventLog
from cloakwork.log.times import parse_times
from cloakwork.log.variants import variants_of, with_activity
from cloakwork.policy.attribute_words import (
    DIRECT,
    FREE_TEXT,
    NAMED,
    NUMBERED,
    PERSON,
    SENSITIVE,
    SENSITIVE_INSIDE,
    STAFF,
    TECHNICAL,
    WHO,
    holds_one_of,
    names_one_of,
    stems,
)
from cloakwork.policy.model import Role

PEOPLE_SAMPLE: Final = 2_000
"""Distinct values that are looked at."""

MOST_WORDS: Final = 4
"""Words of a name; what has more is a sentence."""

_TITLES: Final = stems("""
    dr prof mr mrs ms herr frau hr fr mw mevr dhr sr sra mme monsieur madame dott sig
""")
_ACCOUNTS: Final = stems("admin sysadmin administrator emp usr sachb mdw")
# J. Smith; Smith, J.; j.smith12.
_WITH_INITIAL: Final = re.compile(
    r"([A-Z]\.\s?)+[A-Z][\w'-]+|[A-Z][\w'-]+,\s([A-Z]\.?\s?)+|[a-z][._][a-z]{3,}\d{0,3}"
)
# DOMAIN\login, or an address of mail.
_LOGIN: Final = re.compile(r"[\w.-]+\\[\w.-]+|[^@\s]+@[^@\s]+\.\w+")
_BREAKS: Final = re.compile(r"[\s,._]+")


def share_like_people(known: pl.Series) -> float:
    """The share of distinct texts that look like people; between 0 and 1."""
    sample = known.head(PEOPLE_SAMPLE).to_list()
    return sum(map(looks_like_a_person, sample)) / len(sample) if sample else 0.0


def looks_like_a_person(text: str) -> bool:
    """Whether a value seems to name a person, or somebody's account.

    >>> [looks_like_a_person(text) for text in ("Anna de Vries", "j.smith", "Resource21", "Ward A")]
    [True, True, True, False]
    """
    # The list of given names has no accents.
    plain = _plain(text.strip())
    words = [word for word in _BREAKS.split(plain) if word]
    if not 1 <= len(words) <= MOST_WORDS:
        return False
    if _LOGIN.fullmatch(plain) or _WITH_INITIAL.fullmatch(plain):
        return True
    lowered = [word.lower() for word in words]
    if len(words) > 1 and lowered[0] in _TITLES:
        return True
    # Anne-Marie is two given names.
    letters = {part for word in lowered for part in word.split("-")}
    is_worded = all(word.replace("-", "").replace("'", "").isalpha() for word in words)
    if is_worded and not letters.isdisjoint(GIVEN_NAMES):
        return True
    # Resource21, user_7: a member of staff under a number.
    parts = words_of(plain)
    is_account = names_one_of(parts, STAFF) or not _ACCOUNTS.isdisjoint(parts)
    return len(parts) == 1 and is_account and plain[-1].isdigit()


def _plain(text: str) -> str:
    """The text without accents."""
    letters = unicodedata.normalize("NFKD", text)
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


GIVEN_NAMES: Final = frozenset(
    re.findall(
        r"\w+",
        """
    aaron abdul abdullah abigail adam adele adrian adriana agata agnes agnieszka ahmed ahmet
    aisha aleksander aleksandra alessandra alessandro alex alexander alexandra alexandre alexei
    alexis alfonso alfred ali alice alicia alina alison allison amalia amanda amelia amina amir
    amit amy ana anand anders andre andrea andreas andrei andres andrew andrzej angela angelika
    angelo anil anita anja anke ann anna anne annemarie annette annika anouk anthony antoine
    anton antonella antonia antonio arash arjun arne arno arthur arturo asha astrid atsushi
    audrey aurelie aurora ayse bart bartosz beata beatrice beatriz ben benjamin bernadette
    bernard bernd bernhard bert birgit bjorn bob bogdan boris brandon brenda brian brigitte
    bruce bruno camilla camille carl carla carlo carlos carmen carol carolina caroline carsten
    catalina catherine cathy cecile cecilia cees celine chantal charles chen chloe chris
    christiane christina christine christoph christophe christopher claire clara claudia claudio
    clemens colin connor cornelia cristina dagmar damian daniel daniela daniele danielle danuta
    dariusz david debbie deborah deepak denis dennis derek diana didier diego dieter dietmar
    dimitri dirk dmitri dominik dominique donald donna doris dorota dorothea douglas duncan
    eduardo edward edwin eileen elena eleni elias elif elisa elisabeth elise elizabeth elke
    ellen elodie els elsa emanuele emil emilia emilie emily emma emmanuel enrico enrique eric
    erica erich erik erika ernst erwin esther ethan etienne eugene eva evelien evelyn ewa fabian
    fabio fabrice fatima fatma federica federico felipe felix femke ferdinand fernanda fernando
    filip filippo fiona francesca francesco francisco franck francois francoise frank franz fred
    frederic frederick frederik friedrich frits fritz gabriel gabriela gabriele gary gemma
    geoffrey georg george georges gerald gerard gerhard gerrit gert gertrud gianluca gilles gina
    giorgio giovanni giulia giuseppe gonzalo gordon greg gregor gregory grzegorz guido guillaume
    gunter gunther gustav guy hanna hannah hannelore hannes hans harald harry hasan hassan
    heather heidi heike heiko heinrich heinz helen helena helene helga helmut hendrik henk henri
    henrik henry herbert herman hermann hilde hiroshi holger horst hubert hugo hussein ian
    ibrahim ida ignacio igor ilona ilse ine ines inga inge ingeborg ingrid ioana irena irene
    irina isaac isabel isabella isabelle ivan ivana ivo jacek jack jackie jacob jacqueline
    jacques jaime jakob jakub james jamie jan jana jane janet janina janine jannik janusz
    jaroslaw jason javier jean jeanette jeff jeffrey jennifer jenny jens jerome jerzy jesse
    jessica jesus jim joachim joan joanna joao jochen joe johan johann johanna johannes john
    jolanda jonas jonathan joost jorg jorge jose josef joseph josephine joshua joyce juan juana
    judith julia julian juliane julie julien juliette julio jurgen justin justyna kai karen
    karin karina karl karla karolina karsten katarina katarzyna kate katharina katherine
    kathleen kathrin kathryn katja katrin kay keith kelly ken kenji kenneth kerstin kevin khalid
    kim kirsten klaas klara klaus konrad kris kristian kristin kristina kristine krystyna
    krzysztof kumar kurt larissa larry lars laura laurence laurent lea leah lena leo leon
    leonardo leonie lieke liesbeth lieselotte linda lisa liselotte loic lorenzo louis louise luc
    luca lucas lucia lucie lucy ludwig luigi luis luisa luise lukas lukasz lutz lydia maarten
    maciej madeleine magdalena magnus mahmoud maike malgorzata malte manfred manon manuel
    manuela marc marcel marcello marcin marco marcos marcus marek margaret margarete margarita
    margot margreet margriet maria mariana marianne marie marieke marijke marina mario marion
    marius marjan marjolein markus marlene marloes marta marten martha martijn martin martina
    martine mary mateusz mathias mathieu mathilde matteo matthew matthias matthieu maureen
    maurice mauro mehmet meike melanie melissa mercedes mia michael michaela michal michel
    michele michelle michiel miguel mihai mikael mike mila miriam mirjam mohamed mohammad
    mohammed monica monika monique moritz moses muhammad mustafa nadia nadine nadja nancy
    natalia natalie natasha nathalie nathan neil nele nicholas nick nico nicola nicolas nicole
    niels nikita niklas nikola nikolai nikos nils nina noah nora norbert norma norman nuria olaf
    ole oleg olga oliver olivia olivier omar oscar oskar osman otto owen pablo paloma pamela
    paola paolo pascal patrice patricia patrick patrik patrizia paul paula paulina pauline paulo
    pavel pawel pedro peggy per petar peter petra philip philipp philippe pierre pieter pietro
    pilar piotr priya przemyslaw quentin rachel radoslaw rafael rafal rainer raj rajesh ralf
    ralph ramon raphael raquel raul ravi rebecca regina reiner reinhard remco renate rene
    ricardo riccardo richard rick rita robert roberta roberto robin rodrigo roel roger roland
    rolf romain roman ron ronald rosa rosemarie ross roswitha roxana ruben rudolf rui ruth ryan
    sabine sabrina said sam samantha samir samuel sandra sandrine sanjay sanne sara sarah sascha
    saskia scott sean sebastian sebastien selma serge sergei sergio severine sharon sheila
    shirley sibylle siegfried sigrid silke silvia silvio simon simona simone siobhan sjoerd
    slawomir sofia sofie sonia sonja sophia sophie stefan stefania stefanie stefano steffen
    stella stephan stephanie stephen steve steven stijn stuart sunil susan susana susanne
    suzanne svein sven svenja svetlana sybille sylvain sylvia sylvie takashi tamara tania tanja
    tatiana tatjana ted terence teresa tess theo theodor theresa therese thierry thijs thomas
    thorsten tilman tim timo timothy tina tobias todd tom tomas tomasz tommaso tony torben
    torsten tracy trevor udo ulf ulrich ulrike ursula ute uwe valentin valentina valeria valerie
    vanessa vera veronica veronika victor viktor vincent vincenzo viola virginie vivian vladimir
    volker waldemar walter wanda wendy werner wieslaw wilhelm willem william wim wladyslaw
    wojciech wolfgang wouter xavier yannick yasmin yolanda yusuf yves yvette yvonne zbigniew zoe
    zofia
    """,
    )
)


ValueType = Literal["text", "whole number", "number", "truth value", "time"]

SAMPLE: Final = 2_000
"""Values of a text column that are tried as times."""

WORDS_OF_A_SENTENCE: Final = 4


@frozen
class Figures:
    """Figures of one attribute; shares lie between 0 and 1.

    - ``filled``: share of the events (of the cases, for a case attribute) that have a value.
    - ``distinct``: how many values there are.
    - ``cases``: how many cases have a value.
    - ``alone``: share of these cases that have a value which no other case has.
    - ``least``: the number of cases that have the rarest value.
    - ``constant_in_case``: share of these cases that have one value only.
    - ``in_words``: share of the distinct values of text that are sentences: four words or more.
    - ``like_people``: share of the distinct values of text that look like people's names or logins.
    - ``longest``: characters of the longest text.
    - ``follows_activity``: an event's activity tells the value, and there are several of both.
    - ``follows_variant``: the value in a case tells its activity sequence, and several cases share
      one.
    - ``copies``: the standard column whose text each value repeats.
    """

    name: str
    type: ValueType
    filled: float
    distinct: int
    cases: int
    alone: float
    least: int
    constant_in_case: float
    in_words: float
    like_people: float
    longest: int
    follows_activity: bool
    follows_variant: bool
    copies: str | None

    @property
    def of_case(self) -> bool:
        """Whether it is an attribute of cases."""
        return self.name.startswith(CASE_PREFIX)

    @property
    def bare_name(self) -> str:
        """Its name without the prefix of case attributes."""
        return self.name.removeprefix(CASE_PREFIX)


def waits_of(log: EventLog) -> Floats:
    """The time between each event of a case and the next one, in hours, of those that take any:
    float64, shape (waits,).
    """
    if TIMESTAMP not in log.events.columns:
        return np.empty(0)
    times = log.events[TIMESTAMP]
    waits = (times.diff().dt.total_milliseconds() / 3_600_000).to_numpy()
    is_inside = np.diff(log.case_of, prepend=-1) == 0
    # A case's events stand in order of time; what is not above 0 is a tie, or has no time.
    found: Floats = waits[is_inside & (waits > 0)]
    return found


def figures_of(log: EventLog) -> tuple[Figures, ...]:
    """The figures of all attributes of ``log`` but the three standard ones, in the log's order."""
    standard = (CASE_ID, ACTIVITY, TIMESTAMP)
    # An event without an activity belongs to no activity sequence.
    variants = pl.Series(variants_of(with_activity(log)).of_case)
    return tuple(_figures(log, name, variants) for name in log.columns if name not in standard)


def _figures(log: EventLog, name: str, variants: pl.Series) -> Figures:
    of_case = name.startswith(CASE_PREFIX)
    table = log.cases if of_case else log.events
    values = values_of(table, name)
    text = values.cast(pl.String)
    case = pl.Series(range(log.cases.height), dtype=pl.Int64) if of_case else pl.Series(log.case_of)
    held = pl.DataFrame({"case": case, "value": text}).drop_nulls()
    # Each value counts once for a case, however many of its events have it.
    pairs = held.unique()
    cases_of_value = pairs.group_by("value").len()
    values_of_case = pairs.group_by("case").len()
    # Values that one case alone has, with that case.
    alone = pairs.join(cases_of_value.filter(pl.col("len") == 1), on="value", how="semi")
    cases = values_of_case.height
    known = cases_of_value["value"]
    type_ = _type_of(values, known)
    told, keys, told_values = _counts(log.events[ACTIVITY], text) if not of_case else (0, 0, 0)
    tells, of_variants, of_values = _counts(variants.gather(pairs["case"]), pairs["value"])
    return Figures(
        name=name,
        type=type_,
        filled=held.height / table.height if table.height else 0.0,
        distinct=cases_of_value.height,
        cases=cases,
        alone=alone["case"].n_unique() / cases if cases else 0.0,
        least=int(cases_of_value["len"].min() or 0),  # type: ignore[arg-type]
        constant_in_case=_share(values_of_case["len"] == 1),
        in_words=_share(known.str.split(" ").list.len() >= WORDS_OF_A_SENTENCE),
        like_people=share_like_people(known) if type_ == "text" else 0.0,
        longest=int(known.str.len_chars().max() or 0),  # type: ignore[arg-type]
        # An activity has one value at most.
        follows_activity=told_values > 1 and told == keys,
        # One to one, with some case that shares its variant; or so few values that it is no chance.
        follows_variant=cases == pairs.height
        and tells == of_values
        and of_variants > 1
        and (tells == of_variants < cases or 2 * tells <= cases),
        copies=_copied(log, text, of_case=of_case),
    )


def _share(holds: pl.Series) -> float:
    return float(holds.mean() or 0.0)  # type: ignore[arg-type]


def _type_of(values: pl.Series, known: pl.Series) -> ValueType:
    """The type of a column; ``known``: its values as text, each once."""
    dtype = values.dtype
    if dtype == pl.Boolean:
        return "truth value"
    if dtype.is_integer():
        return "whole number"
    if dtype.is_numeric():
        return "number"
    if dtype.is_temporal():
        return "time"
    # Many logs hold text that reads as times or numbers throughout.
    sample = known.head(SAMPLE)
    if sample.is_empty():
        return "text"
    if not parse_times(sample).values.is_null().any():
        return "time"
    if not sample.cast(pl.Int64, strict=False).is_null().any():
        return "whole number"
    if not sample.cast(pl.Float64, strict=False).is_null().any():
        return "number"
    return "text"


def _counts(key: pl.Series, text: pl.Series) -> tuple[int, int, int]:
    """How many pairs, keys and values there are where both are known."""
    pairs = pl.DataFrame({"key": key, "value": text}).drop_nulls().unique()
    return pairs.height, pairs["key"].n_unique(), pairs["value"].n_unique()


def _copied(log: EventLog, text: pl.Series, *, of_case: bool) -> str | None:
    """The standard column that is repeated wherever there is a value."""
    # A column without values would repeat every other one.
    if text.null_count() == len(text):
        return None
    ids = log.cases[CASE_ID]
    columns = {CASE_ID: ids if of_case else ids.gather(log.case_of)}
    if not of_case:
        columns[ACTIVITY] = log.events[ACTIVITY]
        if TIMESTAMP in log.events.columns:
            columns[TIMESTAMP] = log.events[TIMESTAMP]
    is_held = text.is_not_null()
    for name, column in columns.items():
        held = text.filter(is_held)
        # Times may be written otherwise, so they are compared as times.
        if column.dtype.is_temporal():
            held = parse_times(held).values
        if (held == column.filter(is_held)).fill_null(False).all():
            return name
    return None


Nature = Literal[
    "copy",
    "identifier",
    "staff",
    "time",
    "free text",
    "constant",
    "technical",
    "quasi-identifier",
    "sensitive",
    "other",
]

MOSTLY_ALONE: Final = 0.5
"""Share of the cases with a value that no other case has, from which on values identify cases."""

SOMETIMES_ALONE: Final = 0.05
"""The same share, from which on a numbered thing identifies cases, and values single cases out."""

FEW_CASES: Final = 10
"""Cases; a value that fewer have is rare."""

SENTENCES: Final = 0.3
"""Share of the values that are sentences, from which on a text of many values is free."""

LIKE_PEOPLE: Final = 0.3
"""Share of the values that look like people, from which on a column holds people."""

COMMON_ONLY: Final = "has common values only; nothing else is known of it"

MANY_VALUES: Final = 30
LONG_TEXT: Final = 100  # characters


@frozen
class Proposal:
    """What an attribute seems to be.

    ``reason``: in words, without a figure or a value of the log.
    """

    figures: Figures
    nature: Nature
    role: Role
    reason: str

    @property
    def name(self) -> str:
        """The attribute."""
        return self.figures.name

    @property
    def may_be_released(self) -> bool:
        """Whether an analyst may want it, under a guarantee that covers it."""
        return self.nature in ("technical", "quasi-identifier", "sensitive", "other")


def classify(figures: Figures) -> Proposal:
    """What one attribute seems to be. The rules stand in order of caution: the first one that
    speaks of the attribute decides.
    """
    words = words_of(figures.bare_name)
    is_measured = figures.type in ("number", "truth value") or figures.name == SERVICE_TIME
    rare = "; some values are rare" if 0 < figures.least < FEW_CASES else ""

    def named(kinds: frozenset[str]) -> bool:
        return names_one_of(words, kinds)

    def proposal(nature: Nature, role: Role, reason: str) -> Proposal:
        return Proposal(figures, nature, role, reason)

    # What the log says elsewhere, or what tells the whole case.
    if figures.copies is not None:
        of_case: Role = "identifier" if figures.copies == "case:concept:name" else "insensitive"
        return proposal("copy", of_case, f"repeats {figures.copies}")
    if figures.follows_activity:
        return proposal("copy", "insensitive", "follows from the activity")
    if figures.follows_variant:
        return proposal("copy", "identifier", "stands for the whole activity sequence of a case")

    # Persons by the attribute's name.
    if named(DIRECT):
        reason = "is named like an identifier of persons"
        return proposal("identifier", "identifier", reason)
    # The last word says what it is: a patient, but not a patient's age.
    is_person = bool(words) and names_one_of(words[-1:], PERSON)
    is_numbered_person = named(PERSON) and named(NUMBERED | NAMED)
    if figures.distinct > 1 and (is_person or is_numbered_person):
        reason = "names or numbers the persons that the log is about"
        return proposal("identifier", "identifier", reason)
    if figures.type == "time":
        reason = "holds times, which no protection of time:timestamp reaches"
        return proposal("time", "quasi-identifier", reason)
    # The country of a resource is no person.
    if named(STAFF) and not is_measured and not named(WHO):
        reason = "names members of staff, whom a guarantee about cases does not protect"
        return proposal("staff", "identifier", reason)

    # Persons by the values, whatever the attribute is called.
    if figures.like_people >= LIKE_PEOPLE and not named(WHO):
        # One of staff may be named here, or whom the case is about: it is protected as the latter.
        if figures.of_case:
            reason = "holds what looks like names or logins of people, one for each case"
            return proposal("identifier", "identifier", reason)
        if figures.alone >= MOSTLY_ALONE:
            reason = "holds what looks like names or logins of people, most in one case only"
            return proposal("identifier", "identifier", reason)
        reason = (
            "holds what looks like names or logins of people who work on many cases, whom a "
            "guarantee about cases does not protect"
        )
        return proposal("staff", "identifier", reason)

    # Values that tell nothing.
    if figures.distinct == 0:
        return proposal("constant", "insensitive", "has no value")
    if figures.distinct == 1 and figures.filled == 1:
        return proposal("constant", "insensitive", "has one value throughout")

    # Values that single cases out.
    if named(NUMBERED) and not is_measured and figures.alone >= SOMETIMES_ALONE:
        reason = "numbers or refers to something that few cases share"
        return proposal("identifier", "identifier", reason)
    # Among few cases most values are alone by chance.
    is_unique = figures.alone >= MOSTLY_ALONE and figures.cases >= FEW_CASES
    if is_unique and not is_measured and not named(SENSITIVE | WHO):
        reason = "gives most cases a value that no other case has"
        return proposal("identifier", "identifier", reason)
    if figures.type == "text" and figures.in_words >= SENTENCES and figures.distinct > 1:
        is_long = figures.longest >= LONG_TEXT and figures.distinct >= MANY_VALUES
        if is_long or named(FREE_TEXT):
            reason = "holds text that people write, and so perhaps names"
            return proposal("free text", "identifier", reason)

    # What others know of somebody, or must not learn, by the attribute's name.
    if named(SENSITIVE) or holds_one_of(words, SENSITIVE_INSIDE):
        return proposal("sensitive", "sensitive", "is named like something sensitive" + rare)
    if named(WHO):
        reason = "may be known to others of a person or an organisation" + rare
        return proposal("quasi-identifier", "quasi-identifier", reason)
    if named(TECHNICAL) and figures.alone < SOMETIMES_ALONE:
        return proposal("technical", "insensitive", "says how a system keeps its records")

    # Nothing is known of it: what its values show.
    if figures.cases < FEW_CASES:
        reason = "belongs to so few cases that having it singles a case out"
        return proposal("quasi-identifier", "quasi-identifier", reason)
    if figures.alone >= SOMETIMES_ALONE:
        reason = "gives some cases a value that no other case has"
        return proposal("quasi-identifier", "quasi-identifier", reason)
    if figures.type == "truth value" or figures.least < FEW_CASES:
        return proposal("sensitive", "sensitive", "is not known to be harmless" + rare)
    return proposal("other", "insensitive", COMMON_ONLY)
