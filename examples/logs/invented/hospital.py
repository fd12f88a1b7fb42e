"""An invented emergency department and the wards behind it."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from invented.people import invent_name
from invented.process import (
    Attributes,
    Case,
    Dice,
    Event,
    Log,
    Pathway,
    Step,
    Work,
    Workplace,
    draw_arrivals,
    draw_path,
    draw_times,
    local_time,
    make_unusual,
    shuffle_ties,
)

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


def invent_hospital(dice: Dice, count: int) -> Log:
    """An emergency department and the wards behind it, 2023 and 2024."""
    begin = datetime(2023, 1, 1, tzinfo=UTC)
    cases: list[Case] = []
    people: list[_Person] = []
    for number, start in enumerate(draw_arrivals(dice, count, begin, 730, _emergency_rate)):
        pathway = dice.weighted_choice([(pathway, pathway.weight) for pathway in CARE])
        path = shuffle_ties(draw_path(pathway, dice), LABS, dice)
        if dice.happens(0.066):
            path = make_unusual(path, RARE_CARE, dice)
        times = draw_times(path, start, EMERGENCY, dice)
        person = _arriving_patient(people, start, times[-1], dice)
        attributes: Attributes = {
            "concept:name": f"ADM-{local_time(start):%y%m}-{10_412 + 3 * number + dice.below(3):06d}",
            "patient": person.number,
            "patient_name": person.name,
            "age": person.age(start),
            "diagnosis": dice.weighted_choice(pathway.labels),
        }
        events = [
            _care_event(activity, time, attributes, dice)
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
    if wall.month in (12, 1, 2):
        season = 1.0
    elif wall.month in (3, 11):
        season = 0.8
    else:
        season = 0.62
    if wall.hour < 7:
        hour = 0.22
    elif 9 <= wall.hour < 21:
        hour = 1.0
    else:
        hour = 0.6
    weekday = 1.0 if wall.weekday() in (0, 5, 6) else 0.85
    return season * hour * weekday


def _arriving_patient(people: list[_Person], start: datetime, end: datetime, dice: Dice) -> _Person:
    """Somebody who comes again, not before leaving and at most four times in all, or somebody new."""
    may_come = [person for person in people if person.away_until < start and person.stays < 4]
    if may_come and dice.happens(0.2):
        person = dice.one_of(may_come)
    else:
        age = min(max(int(47 + 24 * dice.normal()), 0), 97)
        name = invent_name(dice)
        number = f"P{200_000 + dice.below(700_000)}"
        person = _Person(number, name, born=start.year - age, stays=0, away_until=start)
        people.append(person)
    person.stays += 1
    person.away_until = end + timedelta(days=2)
    return person


def _care_event(activity: str, time: datetime, case: Attributes, dice: Dice) -> Event:
    how = HOSPITAL_WORK[activity]
    staff = dice.one_of(STAFF[how.staff])
    attributes: Attributes = {"org:resource": staff, "department": DEPARTMENTS[how.staff]}
    if how.staff == "ward":
        attributes["department"] = f"Ward {dice.one_of('ABC')}"
    if how.money:
        attributes["cost"] = round(dice.log_normal(how.money, 0.15), 2)
    if activity in ("Triage", "Examine", "Ward round", "Discharge") and dice.happens(0.3):
        digits = f"{dice.below(10_000):04d}"
        attributes["note"] = dice.one_of(NOTES).format(
            name=case["patient_name"], age=case["age"], patient=case["patient"], diagnosis=case["diagnosis"],
            staff=staff, digits=digits,
        )  # fmt: skip
    return Event(activity, time, attributes)
