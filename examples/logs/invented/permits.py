"""The invented permit office of a town."""

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
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
    within_hours,
)

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


def invent_permits(dice: Dice, count: int) -> Log:
    """The building permits of an invented town, 2022 to 2024."""
    begin = datetime(2022, 3, 1, tzinfo=UTC)
    cases: list[Case] = []
    applicants: Counter[str] = Counter()
    for number, arrival in enumerate(draw_arrivals(dice, count, begin, 850, _office_rate)):
        pathway = dice.weighted_choice([(pathway, pathway.weight) for pathway in OFFICE_PATHS])
        path = draw_path(pathway, dice)
        if dice.happens(0.066):
            path = make_unusual(path, RARE_OFFICE, dice)
        channel = dice.weighted_choice(CHANNELS)
        start = arrival
        if channel != "portal":
            start = within_hours(arrival, dice, first=8, last=17, weekends=False)
        attributes: Attributes = {
            "concept:name": f"BP/{local_time(start).year}/{1_000 + number}-{dice.one_of('NMOF')}",
            "applicant": _next_applicant(applicants, dice),
            "district": dice.weighted_choice(DISTRICTS),
            "responsible": dice.one_of(OFFICE["officer"]),
            "building": dice.weighted_choice(pathway.labels),
        }
        application = _Application(attributes, channel, dice.log_normal(1.0, 0.5))
        times = draw_times(path, start, TOWN_HALL, dice)
        events = [
            _office_event(activity, time, application, dice)
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
    if 3 <= wall.month <= 6:
        season = 1.0
    elif 7 <= wall.month <= 10:
        season = 0.75
    else:
        season = 0.45
    if 8 <= wall.hour < 17:
        hour = 1.0
    elif 17 <= wall.hour < 23:
        hour = 0.4
    else:
        hour = 0.03
    weekday = 0.3 if wall.weekday() >= 5 else 1.0
    return season * hour * weekday


def _next_applicant(known: Counter[str], dice: Dice) -> str:
    """Somebody new, or somebody who applied before, at most four times in all."""
    again = [name for name, times in known.items() if times < 4]
    if again and dice.happens(0.15):
        name = dice.one_of(again)
    else:
        name = f"{invent_name(dice)} {1950 + dice.below(55)}"
    known[name] += 1
    return name


def _office_event(activity: str, time: datetime, application: _Application, dice: Dice) -> Event:
    how = PERMIT_WORK[activity]
    if how.staff == "officer" and dice.happens(0.85):
        resource = application.attributes["responsible"]
    else:
        resource = dice.one_of(OFFICE[how.staff])
    attributes: Attributes = {"org:resource": resource}
    if how.money:
        attributes["amount"] = round(how.money * application.fee, 2)
    if activity in (
        "Receive application",
        "Receive documents",
        "Withdraw application",
        "Lodge objection",
    ):
        attributes["channel"] = (
            application.channel if dice.happens(0.9) else dice.weighted_choice(CHANNELS)
        )
    return Event(activity, time, attributes)
