"""Make the two example logs: ``python examples/logs/generate.py [FOLDER]``.

Both logs are synthetic from the first event to the last: every name, number and note is invented
here, and nothing was taken or learned from a real log. They are made to look like what hospital and
permit systems export, faults included: a few paths that most cases follow and many that one case
follows alone, ties, nights and weekends, summer and winter time, several cases of one person, staff
names, free text about persons, and file headers that give exact counts away.

The same seeds give the same bytes, on any machine: the script needs nothing but the standard
library, draws only ``random()``, rounds all times to whole seconds, and writes the gzip header
itself.
"""

import csv
import io
import struct
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from math import exp
from pathlib import Path
from random import Random
from statistics import NormalDist
from typing import Final, TypeVar
from xml.sax.saxutils import quoteattr

SEEDS: Final = {"hospital": 20260422, "permit": 20260425}
CASES: Final = {"hospital": 1_040, "permit": 1_000}

Value = str | int | float | datetime
Attributes = dict[str, Value]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a pathway: taken with ``chance``, then repeated with chance ``again``, at most
    ``most`` times.
    """

    activity: str
    chance: float = 1.0
    again: float = 0.0
    most: int = 3


@dataclass(frozen=True, slots=True)
class Pathway:
    """One usual way through the process, how often it is taken, and which case values go with it."""

    weight: float
    labels: tuple[tuple[str, float], ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """One event; ``time`` is UTC."""

    activity: str
    time: datetime
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class Case:
    """One case: its attributes, ``concept:name`` first, and its events in order."""

    attributes: Attributes
    events: list[Event]


@dataclass(frozen=True, slots=True)
class Log:
    """A whole log: its title, its cases in file order."""

    name: str
    title: str
    cases: list[Case]


@dataclass(slots=True)
class Dice:
    """All randomness of one log, by ``random()`` alone, whose stream Python promises to keep."""

    seed: int
    _random: Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)

    def chance(self, probability: float) -> bool:
        """Whether something of this probability happens."""
        return self._random.random() < probability

    def below(self, bound: int) -> int:
        """An integer from 0 to ``bound`` - 1."""
        return int(self._random.random() * bound)

    def one_of(self, choices: Sequence[T]) -> T:
        """One of ``choices``, all alike."""
        return choices[self.below(len(choices))]

    def weighted(self, choices: Iterable[tuple[T, float]]) -> T:
        """One of ``choices``, each given with its weight."""
        pairs = list(choices)
        left = self._random.random() * sum(weight for _, weight in pairs)
        for choice, weight in pairs:
            left -= weight
            if left < 0:
                return choice
        return pairs[-1][0]

    def normal(self) -> float:
        """A standard normal value."""
        return NormalDist().inv_cdf(min(max(self._random.random(), 1e-12), 1 - 1e-12))

    def log_normal(self, median: float, spread: float) -> float:
        """A positive value around ``median``; ``spread`` is the standard deviation of its
        logarithm.
        """
        return median * exp(spread * self.normal())


# --- Clocks and calendars
# ---------------------------------------------------------------------------------------------


def local(time: datetime) -> datetime:
    """The wall clock of central Europe: +01:00 in winter, +02:00 from the last Sunday of March to
    that of October.
    """
    begin, end = (_last_sunday(time.year, month) for month in (3, 10))
    return time.astimezone(timezone(timedelta(hours=2 if begin <= time < end else 1)))


def _last_sunday(year: int, month: int) -> datetime:
    last = datetime(year, month, 31, 1, tzinfo=UTC)
    return last - timedelta(days=(last.weekday() + 1) % 7)


def within_hours(time: datetime, dice: Dice, *, first: int, last: int, weekends: bool) -> datetime:
    """The same time when people are at work, else a while after they come in next."""
    wall = local(time)
    if first <= wall.hour < last and (weekends or wall.weekday() < 5):
        return time
    opening = wall.replace(hour=first, minute=0, second=0)
    if wall.hour >= last or wall.weekday() >= 5:
        opening += timedelta(days=1)
    while not weekends and opening.weekday() >= 5:
        opening += timedelta(days=1)
    return max(time, opening.astimezone(UTC) + timedelta(seconds=dice.below(5_400)))


def arrivals(
    dice: Dice, count: int, begin: datetime, days: int, rate: Callable[[datetime], float]
) -> list[datetime]:
    """``count`` instants in order, thicker where ``rate`` (local time -> 0 to 1) is high."""
    chosen: list[datetime] = []
    while len(chosen) < count:
        time = begin + timedelta(seconds=dice.below(days * 86_400))
        if dice.chance(rate(local(time))):
            chosen.append(time)
    return sorted(chosen)


# --- Paths
# ------------------------------------------------------------------------------------------------------------


def walk(pathway: Pathway, dice: Dice) -> list[str]:
    """One way along the pathway."""
    path: list[str] = []
    for step in pathway.steps:
        if not dice.chance(step.chance):
            continue
        path.append(step.activity)
        for _ in range(step.most - 1):
            if not dice.chance(step.again):
                break
            path.append(step.activity)
    return path


def shuffle_ties(path: list[str], ties: frozenset[str], dice: Dice) -> list[str]:
    """The path with some neighbouring steps that share a time written down the other way round."""
    path = list(path)
    for place in range(len(path) - 1):
        if {path[place], path[place + 1]} <= ties and dice.chance(0.12):
            path[place], path[place + 1] = path[place + 1], path[place]
    return path


def stray(path: list[str], rare: Sequence[str], dice: Dice) -> list[str]:
    """The path with something unusual in it: a step left out, done twice, done early, or one that
    hardly ever occurs.
    """
    for _ in range(dice.weighted([(1, 0.35), (2, 0.4), (3, 0.25)])):
        place = 1 + dice.below(len(path) - 2)
        kind = dice.weighted([("skip", 0.2), ("repeat", 0.2), ("early", 0.25), ("rare", 0.35)])
        if kind == "skip" and len(path) > 4:
            path = path[:place] + path[place + 1 :]
        elif kind == "repeat":
            path = [*path[:place], path[place], *path[place:]]
        elif kind == "early" and place > 1:
            path = [*path[: place - 1], path[place], path[place - 1], *path[place + 1 :]]
        else:
            path = [*path[:place], dice.one_of(rare), *path[place:]]
    return path


@dataclass(frozen=True, slots=True)
class Work:
    """How one activity is done: by whom, after how long, at which hours, for how much money."""

    staff: str
    minutes: float
    spread: float = 0.6
    hours: tuple[int, int] | None = None
    money: float = 0.0


@dataclass(frozen=True, slots=True)
class Workplace:
    """How all activities are done; two in ``ties`` that follow each other often share their time."""

    work: dict[str, Work]
    ties: frozenset[str] = frozenset()
    weekends: bool = True


def clock(path: list[str], start: datetime, place: Workplace, dice: Dice) -> list[datetime]:
    """When each step of the path happens."""
    time, times = start, [start]
    for before, activity in pairwise(path):
        if not ({activity, before} <= place.ties and dice.chance(0.75)):
            how = place.work[activity]
            time += timedelta(seconds=int(60 * dice.log_normal(how.minutes, how.spread)))
            if how.hours:
                time = within_hours(
                    time, dice, first=how.hours[0], last=how.hours[1], weekends=place.weekends
                )
        times.append(time)
    return times


# --- The hospital
# -----------------------------------------------------------------------------------------------------

FIRST_NAMES: Final = (
    "Acorn", "Bramble", "Clover", "Dapple", "Ember", "Fennel", "Gingham", "Hazel", "Indigo", "Juniper", "Kestrel", "Lichen",
    "Marigold", "Nettle", "Olive", "Pepper", "Quill", "Rowan", "Sorrel", "Thistle", "Umber", "Velvet", "Willow", "Yarrow",
    "Zinnia",
)  # fmt: skip
LAST_NAMES: Final = (
    "Anyperson", "Bogusson", "Cardboard", "Dummyfield", "Examplar", "Fictive", "Fabricatus", "Inventson", "Madeup",
    "Mockington", "Nobodysson", "Nonesuch", "Placeholder", "Pretendly", "Sampleton", "Someoneova", "Specimen", "Standin",
    "Testcase", "Unreal",
)  # fmt: skip

STAFF: Final = {
    "desk": ("Clerk Comma", "Clerk Colon", "Clerk Ampersand"),
    "nurse": (
        "Nurse Nutmeg",
        "Nurse Cinnamon",
        "Nurse Saffron",
        "Nurse Paprika",
        "Nurse Cardamom",
        "Nurse Sumac",
    ),
    "lab": ("Lab Lantern", "Lab Ladder", "Lab Lattice"),
    "radiology": ("Dr. Parallax", "Dr. Prism"),
    "doctor": ("Dr. Driftwood", "Dr. Doorbell", "Dr. Dovetail", "Dr. Daydream", "Dr. Dominoes"),
    "ward": ("Nurse Teacup", "Nurse Saucer", "Nurse Kettle", "Nurse Biscuit"),
    "intensive care": ("Dr. Icicle", "Nurse Glacier"),
    "surgery": ("Dr. Scissortail", "Dr. Stitchwort"),
    "social": ("Counsellor Pebble",),
}
DEPARTMENTS: Final = {
    "desk": "Admissions", "nurse": "Emergency", "lab": "Laboratory", "radiology": "Radiology", "doctor": "Emergency",
    "ward": "Ward", "intensive care": "Intensive Care", "surgery": "Surgery", "social": "Social Service",
}  # fmt: skip

HOSPITAL_WORK: Final = {
    "Register": Work("desk", 0),
    "Triage": Work("nurse", 7, 0.7),
    "Examine": Work("doctor", 35, 0.8, money=65),
    "Blood count": Work("lab", 22, 0.6, money=18.5),
    "CRP test": Work("lab", 25, 0.6, money=11.25),
    "Lactate test": Work("lab", 25, 0.6, money=14),
    "X-ray": Work("radiology", 40, 0.7, money=72),
    "CT scan": Work("radiology", 95, 0.8, money=310),
    "Dress wound": Work("nurse", 25, 0.5, money=38),
    "Give antibiotics": Work("nurse", 30, 0.7, money=24.8),
    "Give fluids": Work("nurse", 12, 0.6, money=9.4),
    "Operate": Work("surgery", 420, 0.7, money=3_450),
    "Transfer to ward": Work("ward", 150, 0.7, money=120),
    "Ward round": Work("ward", 1_100, 0.35, hours=(8, 11), money=95),
    "Transfer to ICU": Work("intensive care", 80, 0.9, money=1_850),
    "Discharge": Work("desk", 75, 0.8, hours=(7, 22)),
    "Readmission": Work("desk", 17_000, 0.6),
    "Isolate": Work("ward", 60, 0.8, money=140),
    "Second opinion": Work("doctor", 700, 0.6, hours=(8, 17), money=110),
    "Social counselling": Work("social", 900, 0.5, hours=(9, 16), money=60),
    "Transfusion": Work("intensive care", 160, 0.6, money=420),
    "Leave against advice": Work("nurse", 180, 0.9),
}
LABS: Final = frozenset({"Blood count", "CRP test", "Lactate test"})
EMERGENCY: Final = Workplace(HOSPITAL_WORK, ties=LABS)
RARE_CARE: Final = (
    "Isolate",
    "Second opinion",
    "Social counselling",
    "Transfusion",
    "Leave against advice",
    "Transfer to ICU",
)

ENTRY: Final = (Step("Register"), Step("Triage"))
BLOOD: Final = (Step("Blood count"), Step("CRP test"))
CARE: Final = (
    Pathway(
        31,
        (("Laceration", 5), ("Sprain", 4), ("Burn", 1), ("Bite wound", 0.6)),
        (*ENTRY, Step("Examine"), Step("X-ray", 0.3), Step("Dress wound", again=0.04, most=2), Step("Discharge")),
    ),
    Pathway(
        17,
        (("Fracture", 9), ("Concussion", 2)),
        (*ENTRY, Step("Examine"), Step("X-ray", again=0.2, most=2), Step("CT scan", 0.12), Step("Discharge")),
    ),
    Pathway(
        24,
        (("Influenza", 5), ("Pneumonia", 4), ("Asthma", 2), ("Tuberculosis", 0.2), ("HIV infection", 0.3)),
        (*ENTRY, *BLOOD, Step("Examine"), Step("X-ray", 0.35), Step("Give antibiotics", 0.6), Step("Discharge"),
         Step("Readmission", 0.05)),
    ),
    Pathway(
        16,
        (("Sepsis", 4), ("Pneumonia", 3), ("Kidney infection", 3), ("Alcohol dependence", 0.8)),
        (*ENTRY, *BLOOD, Step("Lactate test", again=0.3), Step("Give fluids"), Step("Give antibiotics"),
         Step("Transfer to ward"), Step("CRP test", again=0.28), Step("Discharge"), Step("Readmission", 0.1)),
    ),
    Pathway(
        8,
        (("Appendicitis", 5), ("Gallstones", 4), ("Hernia", 2)),
        (*ENTRY, *BLOOD, Step("CT scan"), Step("Operate"), Step("Transfer to ward"), Step("Ward round", again=0.35, most=3),
         Step("Discharge")),
    ),
    Pathway(
        2.2,
        (("Sepsis", 6), ("Overdose", 1), ("Heart attack", 2)),
        (*ENTRY, *BLOOD, Step("Lactate test"), Step("Transfer to ICU"), Step("Lactate test", again=0.4),
         Step("Give antibiotics", 0.7), Step("Transfer to ward", 0.8), Step("Discharge", 0.9)),
    ),
)  # fmt: skip
NOTES: Final = (
    "{name} ({age}) reports pain since yesterday, will be fetched by a relative.",
    "Called the family of {name}, number +00 555 {digits}.",
    "{name} lives alone in 12 Nowhere Lane, needs transport home.",
    "Pat. {patient} allergic to penicillin, told {staff}.",
    "{name} asked not to inform the employer about {diagnosis}.",
    "Seen together with {staff}; see also previous stay of {patient}.",
)


def hospital(dice: Dice, count: int) -> Log:
    """An emergency department and the wards behind it, 2023 and 2024."""
    begin = datetime(2023, 1, 1, tzinfo=UTC)
    cases: list[Case] = []
    people: list[_Person] = []
    for number, start in enumerate(arrivals(dice, count, begin, 730, _emergency_rate)):
        pathway = dice.weighted([(pathway, pathway.weight) for pathway in CARE])
        path = shuffle_ties(walk(pathway, dice), LABS, dice)
        if dice.chance(0.066):
            path = stray(path, RARE_CARE, dice)
        times = clock(path, start, EMERGENCY, dice)
        person = _patient(people, start, times[-1], dice)
        attributes: Attributes = {
            "concept:name": f"ADM-{local(start):%y%m}-{10_412 + 3 * number + dice.below(3):06d}",
            "patient": person.number,
            "patient_name": person.name,
            "age": person.age(start),
            "diagnosis": dice.weighted(pathway.labels),
        }
        events = [
            _care(activity, time, attributes, dice)
            for activity, time in zip(path, times, strict=True)
        ]
        cases.append(Case(attributes, events))
    return Log("hospital", "Emergency care of the invented hospital of Nowhere", cases)


@dataclass(slots=True)
class _Person:
    number: str
    name: str
    born: int
    stays: int
    away_until: datetime

    def age(self, time: datetime) -> int:
        return time.year - self.born


def _emergency_rate(wall: datetime) -> float:
    season = 1.0 if wall.month in (12, 1, 2) else 0.8 if wall.month in (3, 11) else 0.62
    hour = 0.22 if wall.hour < 7 else 1.0 if 9 <= wall.hour < 21 else 0.6
    return season * hour * (1.0 if wall.weekday() in (0, 5, 6) else 0.85)


def _patient(people: list[_Person], start: datetime, end: datetime, dice: Dice) -> _Person:
    """Somebody who comes again, not before leaving and at most four times in all, or somebody new."""
    home = [person for person in people if person.away_until < start and person.stays < 4]
    if home and dice.chance(0.2):
        person = dice.one_of(home)
    else:
        age = min(max(int(47 + 24 * dice.normal()), 0), 97)
        name = f"{dice.one_of(FIRST_NAMES)} {dice.one_of(LAST_NAMES)}"
        person = _Person(f"P{200_000 + dice.below(700_000)}", name, start.year - age, 0, start)
        people.append(person)
    person.stays += 1
    person.away_until = end + timedelta(days=2)
    return person


def _care(activity: str, time: datetime, case: Attributes, dice: Dice) -> Event:
    how = HOSPITAL_WORK[activity]
    staff = dice.one_of(STAFF[how.staff])
    attributes: Attributes = {"org:resource": staff, "department": DEPARTMENTS[how.staff]}
    if how.staff == "ward":
        attributes["department"] = f"Ward {dice.one_of('ABC')}"
    if how.money:
        attributes["cost"] = round(dice.log_normal(how.money, 0.15), 2)
    if activity in ("Triage", "Examine", "Ward round", "Discharge") and dice.chance(0.3):
        digits = f"{dice.below(10_000):04d}"
        attributes["note"] = dice.one_of(NOTES).format(
            name=case["patient_name"], age=case["age"], patient=case["patient"], diagnosis=case["diagnosis"],
            staff=staff, digits=digits,
        )  # fmt: skip
    return Event(activity, time, attributes)


# --- The permit office
# ------------------------------------------------------------------------------------------------

OFFICE: Final = {
    "front": ("Teller Tangerine", "Teller Turnip", "Teller Tomato"),
    "officer": ("Officer Oak", "Officer Ash", "Officer Elm", "Officer Birch", "Officer Larch"),
    "inspector": ("Inspector Inkwell", "Inspector Inchworm"),
    "legal": ("Counsel Quibble", "Counsel Caveat"),
    "head": ("Head Hollyhock",),
    "treasury": ("Treasurer Tuppence", "Treasurer Thimble"),
    "system": ("SYSTEM",),
}
CLOSED: Final = (8, 17)
PERMIT_WORK: Final = {
    "Receive application": Work("front", 0),
    "Confirm receipt": Work("system", 0.2, 0.4),
    "Check completeness": Work("officer", 1_900, 0.7, CLOSED),
    "Request documents": Work("officer", 45, 0.8, CLOSED),
    "Receive documents": Work("front", 11_000, 0.7, CLOSED),
    "Inspect site": Work("inspector", 9_000, 0.6, CLOSED),
    "Consult fire service": Work("officer", 2_800, 0.7, CLOSED),
    "Consult neighbours": Work("officer", 15_000, 0.4, CLOSED),
    "Draft decision": Work("officer", 4_200, 0.7, CLOSED),
    "Review legally": Work("legal", 5_000, 0.7, CLOSED),
    "Grant permit": Work("head", 1_500, 0.8, CLOSED),
    "Refuse permit": Work("head", 1_700, 0.8, CLOSED),
    "Send invoice": Work("treasury", 900, 0.9, CLOSED, money=280),
    "Receive payment": Work("treasury", 17_000, 0.6, CLOSED, money=280),
    "Send reminder": Work("treasury", 30_000, 0.2, CLOSED, money=305),
    "Archive": Work("system", 0.5, 0.3),
    "Withdraw application": Work("front", 9_000, 0.9, CLOSED),
    "Lodge objection": Work("front", 26_000, 0.3, CLOSED),
    "Hold hearing": Work("legal", 32_000, 0.4, CLOSED),
    "Decide objection": Work("legal", 12_000, 0.5, CLOSED),
    "Extend deadline": Work("head", 3_000, 0.8, CLOSED),
    "Escalate to mayor": Work("head", 6_000, 0.8, CLOSED),
    "Correct file": Work("officer", 600, 0.9, CLOSED),
}
TOWN_HALL: Final = Workplace(PERMIT_WORK, weekends=False)
RARE_OFFICE: Final = (
    "Extend deadline",
    "Escalate to mayor",
    "Correct file",
    "Hold hearing",
    "Withdraw application",
)
START: Final = (Step("Receive application"), Step("Confirm receipt"), Step("Check completeness"))
MISSING: Final = (
    Step("Request documents", again=0.16, most=2), Step("Receive documents", again=0.14, most=2), Step("Check completeness"),
)  # fmt: skip
MONEY: Final = (
    Step("Send invoice"),
    Step("Send reminder", 0.12, again=0.25, most=2),
    Step("Receive payment"),
    Step("Archive"),
)
OFFICE_PATHS: Final = (
    Pathway(41, (("Garden shed", 5), ("Carport", 4), ("Fence", 4), ("Sign", 2)),
            (*START, Step("Draft decision"), Step("Grant permit"), *MONEY)),
    Pathway(18, (("Garden shed", 3), ("Carport", 3), ("Extension", 5)),
            (*START, *MISSING, Step("Inspect site", 0.25), Step("Draft decision"), Step("Review legally", 0.2),
             Step("Grant permit"), *MONEY)),
    Pathway(17, (("House", 5), ("Extension", 4), ("Shop", 2)),
            (*START, Step("Inspect site", again=0.2, most=2), Step("Consult fire service", 0.4), Step("Draft decision"),
             Step("Review legally", 0.7), Step("Grant permit"), *MONEY)),
    Pathway(9, (("House", 2), ("Shop", 3), ("Workshop", 3)),
            (*START, *MISSING, Step("Inspect site"), Step("Consult neighbours", 0.4), Step("Draft decision"),
             Step("Review legally"), Step("Refuse permit"), Step("Archive"))),
    Pathway(7, (("Sign", 3), ("Fence", 3), ("House", 1)),
            (*START, Step("Request documents", 0.6), Step("Withdraw application"), Step("Archive"))),
    Pathway(2, (("Workshop", 1), ("Shop", 1)),
            (*START, Step("Inspect site"), Step("Draft decision"), Step("Refuse permit"), Step("Lodge objection"),
             Step("Hold hearing"), Step("Decide objection"), Step("Archive"))),
)  # fmt: skip
DISTRICTS: Final = (
    ("Northbridge", 5.0),
    ("Millside", 4.0),
    ("Old Harbour", 3.0),
    ("Foxhill", 2.0),
    ("Lighthouse Island", 0.15),
)
CHANNELS: Final = (("portal", 5.0), ("mail", 3.0), ("counter", 2.0), ("fax", 0.1))


def permit(dice: Dice, count: int) -> Log:
    """The building permits of an invented town, 2022 to 2024."""
    begin = datetime(2022, 3, 1, tzinfo=UTC)
    cases: list[Case] = []
    applicants: Counter[str] = Counter()
    for number, arrival in enumerate(arrivals(dice, count, begin, 850, _office_rate)):
        pathway = dice.weighted([(pathway, pathway.weight) for pathway in OFFICE_PATHS])
        path = walk(pathway, dice)
        if dice.chance(0.066):
            path = stray(path, RARE_OFFICE, dice)
        channel = dice.weighted(CHANNELS)
        start = (
            arrival
            if channel == "portal"
            else within_hours(arrival, dice, first=8, last=17, weekends=False)
        )
        attributes: Attributes = {
            "concept:name": f"BP/{local(start).year}/{1_000 + number}-{dice.one_of('NMOF')}",
            "applicant": _applicant(applicants, dice),
            "district": dice.weighted(DISTRICTS),
            "responsible": dice.one_of(OFFICE["officer"]),
            "building": dice.weighted(pathway.labels),
        }
        application = _Application(attributes, channel, dice.log_normal(1.0, 0.5))
        times = clock(path, start, TOWN_HALL, dice)
        events = [
            _office(activity, time, application, dice)
            for activity, time in zip(path, times, strict=True)
        ]
        cases.append(Case(attributes, events))
    return Log("permit", "Building permits of the invented town of Nowhere", cases)


@dataclass(frozen=True, slots=True)
class _Application:
    attributes: Attributes
    channel: str
    fee: float


def _office_rate(wall: datetime) -> float:
    season = 1.0 if 3 <= wall.month <= 6 else 0.75 if 7 <= wall.month <= 10 else 0.45
    hour = 1.0 if 8 <= wall.hour < 17 else 0.4 if 17 <= wall.hour < 23 else 0.03
    return season * hour * (0.3 if wall.weekday() >= 5 else 1.0)


def _applicant(known: Counter[str], dice: Dice) -> str:
    """Somebody new, or somebody who applied before, at most four times in all."""
    again = [name for name, times in known.items() if times < 4]
    if again and dice.chance(0.15):
        name = dice.one_of(again)
    else:
        name = f"{dice.one_of(FIRST_NAMES)} {dice.one_of(LAST_NAMES)} {1950 + dice.below(55)}"
    known[name] += 1
    return name


def _office(activity: str, time: datetime, application: _Application, dice: Dice) -> Event:
    how = PERMIT_WORK[activity]
    own = how.staff == "officer" and dice.chance(0.85)
    attributes: Attributes = {
        "org:resource": application.attributes["responsible"]
        if own
        else dice.one_of(OFFICE[how.staff])
    }
    if how.money:
        attributes["amount"] = round(how.money * application.fee, 2)
    if activity in (
        "Receive application",
        "Receive documents",
        "Withdraw application",
        "Lodge objection",
    ):
        attributes["channel"] = application.channel if dice.chance(0.9) else dice.weighted(CHANNELS)
    return Event(activity, time, attributes)


# --- Writing
# ----------------------------------------------------------------------------------------------------------

XES_TYPES: Final = {str: "string", int: "int", float: "float", datetime: "date"}
EXTENSIONS: Final = {
    "Concept": "concept",
    "Lifecycle": "lifecycle",
    "Organizational": "org",
    "Time": "time",
}


def written(value: Value) -> str:
    """A value as both formats write it; times carry milliseconds and the offset of their season."""
    return (
        local(value).isoformat(timespec="milliseconds")
        if isinstance(value, datetime)
        else str(value)
    )


def _xes(attributes: Attributes, indent: str) -> list[str]:
    return [
        f"{indent}<{XES_TYPES[type(value)]} key={quoteattr(key)} value={quoteattr(written(value))}/>"
        for key, value in attributes.items()
    ]


def _event_attributes(event: Event) -> Attributes:
    standard: Attributes = {
        "concept:name": event.activity,
        "lifecycle:transition": "complete",
        "time:timestamp": event.time,
    }
    return standard | event.attributes


def _header(log: Log) -> list[str]:
    """Log-level attributes; like those of published logs, they give exact counts away."""
    counts = Counter(event.activity for case in log.cases for event in case.events)
    staff = Counter(
        str(event.attributes["org:resource"]) for case in log.cases for event in case.events
    )
    events = counts.total()
    lines = [
        f'\t<extension name="{name}" prefix="{prefix}" uri="http://www.xes-standard.org/{prefix}.xesext"/>'
        for name, prefix in EXTENSIONS.items()
    ]
    lines += [
        '\t<global scope="trace">',
        '\t\t<string key="concept:name" value="UNKNOWN"/>',
        "\t</global>",
    ]
    lines += ['\t<global scope="event">', '\t\t<string key="concept:name" value="UNKNOWN"/>']
    lines += [
        '\t\t<date key="time:timestamp" value="1970-01-01T00:00:00.000+00:00"/>',
        "\t</global>",
    ]
    lines += ['\t<classifier name="Activity" keys="concept:name"/>']
    lines += ['\t<classifier name="Activity and resource" keys="concept:name \'org:resource\'"/>']
    lines += _xes(
        {
            "concept:name": log.title,
            "source:system": "invented",
            "source:exported_by": "Clerk Comma",
        },
        "\t",
    )
    lines += _xes(
        {"meta_general:traces_total": len(log.cases), "meta_general:events_total": events}, "\t"
    )
    lines += _xes({"meta_general:events_average": round(events / len(log.cases), 4)}, "\t")
    for key, counter in (
        ("meta_concept:different_names_total", counts),
        ("meta_org:different_resources_total", staff),
    ):
        lines += [
            f'\t<int key="{key}" value="{len(counter)}">',
            *_xes(dict(sorted(counter.items())), "\t\t"),
            "\t</int>",
        ]
    return lines


def to_xes(log: Log) -> str:
    """The log as XES 1.0."""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<log xes.version="1.0" xes.features="nested-attributes">',
    ]
    lines += _header(log)
    for case in log.cases:
        lines += ["\t<trace>", *_xes(case.attributes, "\t\t")]
        for event in case.events:
            lines += ["\t\t<event>", *_xes(_event_attributes(event), "\t\t\t"), "\t\t</event>"]
        lines.append("\t</trace>")
    return "\n".join([*lines, "</log>", ""])


def to_csv(log: Log) -> str:
    """The log as a table, one row an event, all rows in order of time as systems export them."""
    rows = [
        {f"case:{key}": written(value) for key, value in case.attributes.items()}
        | {key: written(value) for key, value in _event_attributes(event).items()}
        for case, event in sorted(
            ((case, event) for case in log.cases for event in case.events),
            key=lambda pair: pair[1].time,
        )
    ]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    text = io.StringIO()
    table = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return text.getvalue()


def gzipped(text: str) -> bytes:
    """Text in gzip's format, with no name and no date in it."""
    data = text.encode()
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = deflate.compress(data) + deflate.flush()
    return (
        b"\x1f\x8b\x08\0\0\0\0\0\x02\xff" + body + struct.pack("<II", zlib.crc32(data), len(data))
    )


def make_logs() -> tuple[Log, Log]:
    """Both logs, each from its own seed."""
    return hospital(Dice(SEEDS["hospital"]), CASES["hospital"]), permit(
        Dice(SEEDS["permit"]), CASES["permit"]
    )


def make_texts() -> dict[str, str]:
    """What each file holds, by file name without ``.gz``."""
    first, second = make_logs()
    return {
        "hospital.xes": to_xes(first),
        "hospital.csv": to_csv(first),
        "permit.xes": to_xes(second),
    }


def main() -> None:
    """Write the files into the folder given, or beside this script."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in make_texts().items():
        (folder / f"{name}.gz").write_bytes(gzipped(text))


if __name__ == "__main__":
    main()
