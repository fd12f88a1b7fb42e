"""Logs that fit a policy, as files, and neighbours of them: all of one unit is otherwise that a
claim of the policy protects, and nothing that it takes as known.
"""

import csv
import io
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any
from xml.sax.saxutils import quoteattr

import yaml

ID, LABEL, TIME = "case:concept:name", "concept:name", "time:timestamp"
VARIANTS = ("abcd", "abd", "acd", "abbd", "ad", "abcbd")
CASES = 600
"""So many that frequent sequences pass every threshold."""

ODD: tuple[Any, ...] = (
    None, "", "n/a", "=1+1", "\u202e\U0001f600", "NaN", "1e308", '"', "a,b\nc", "0001-01-01", " ",
    "-0.0", "9" * 40, "true", 7, -1e300, True, "x" * 3000,
)  # fmt: skip
ODD_LABELS = ("\u202e,\n", "0", " a", "a ", "A", "é", "e\u0301", "NaN", "x" * 300, '"')
BEGIN = datetime(2024, 1, 1, 8, tzinfo=UTC)
UNDECLARED = ("cost", "department", "case:age", "org:resource", "diagnosis")


@dataclass
class Case:
    """``events``: each by its attributes, the label and the time among them."""

    id: str | None
    attributes: dict[str, Any]
    events: list[dict[str, Any]]


@dataclass(frozen=True)
class Facts:
    """What a policy says of its log."""

    document: dict[str, Any]
    alphabet: tuple[str, ...]
    named: dict[str, dict[str, Any]]
    unit: str | None
    begin: datetime

    @classmethod
    def of(cls, policy: Path) -> "Facts":
        document = yaml.safe_load(policy.read_text("utf-8"))
        spec = document["spec"]
        assumed = spec.get("assume", {})
        unit = spec.get("unit", "case")
        window = assumed.get("window")
        begin = BEGIN
        if window:
            begin = datetime.fromisoformat(window["start"].replace("Z", "+00:00")).astimezone(UTC)
        return cls(
            document,
            tuple(assumed.get("alphabet", "abcd"))[:4],
            {name: rule for name, rule in spec["attributes"].items() if name != "*"},
            unit["attribute"] if isinstance(unit, dict) else None,
            begin + timedelta(hours=9),
        )

    @property
    def kinds(self) -> set[str]:
        return {goal["kind"] for goal in self.document["spec"]["guarantees"]}

    @property
    def protects_all(self) -> bool:
        """Whether all that is released rests on noise, presence included."""
        goals = self.document["spec"]["guarantees"]
        bounded = any(goal.get("neighbours") == "bounded" for goal in goals)
        return self.kinds == {"differential-privacy"} and not bounded

    @property
    def columns(self) -> list[str]:
        """All that the log has beside ids, labels and times."""
        own = [name for name in self.named if name not in (ID, LABEL, TIME)]
        return own + [name for name in UNDECLARED if name not in own]

    def value(self, name: str, place: int) -> Any:
        """A usual one."""
        if name == self.unit:
            return f"p{place // 2}"
        rule = self.named.get(name, {})
        if "domain" in rule:
            values = rule["domain"]
            return values[place * place % 5 % len(values)]
        if "hierarchy" in rule:
            values = [each for group in rule["hierarchy"].values() for each in group]
            return values[place % 3]
        if "range" in rule or "bins" in rule or name == "case:age":
            return 20 + place * 7 % 40
        return f"v{place % 6}"


def case_of(facts: Facts, labels: str, place: int, hours: float = 0) -> Case:
    """The case at ``place``; every seventh has two events at one time."""
    start = facts.begin + timedelta(hours=5 * place + hours)
    events = [
        {
            LABEL: facts.alphabet["abcd".index(label)] if label in "abcd" else label,
            TIME: start + timedelta(minutes=17 * (at if place % 7 or at != 1 else 0)),
            **{
                name: facts.value(name, place + at)
                for name in facts.columns
                if not name.startswith("case:")
            },
        }
        for at, label in enumerate(labels)
    ]
    own = [name for name in facts.columns if name.startswith("case:")]
    return Case(f"c{place}", {name: facts.value(name, place) for name in own}, events)


def usual_cases(facts: Facts) -> list[Case]:
    """Which case follows which variant has no rhythm."""
    return [
        case_of(facts, VARIANTS[place * place % 17 % len(VARIANTS)], place)
        for place in range(CASES)
    ]


# --- what is otherwise


def _odd_values(facts: Facts, cases: list[Case], draw: Random) -> None:
    """Values of what no claim takes as known: other types, none, odd characters, and one that
    nobody else has.
    """
    free = facts.columns if facts.protects_all else [n for n in UNDECLARED if n not in facts.named]
    free = [name for name in free if name != facts.unit]
    for case in cases:
        for table in (case.attributes, *case.events):
            for name in table.keys() & set(free):
                if draw.random() < 0.7:
                    table[name] = draw.choice(ODD)
        if draw.random() < 0.5:
            case.events[0]["nobody:else"] = draw.choice(ODD)
            case.attributes["case:nobody:else"] = draw.choice(ODD)


def _other_times(facts: Facts, cases: list[Case], draw: Random) -> None:
    """All times of a case moved and stretched, in the same order, ties as they were; spelt by
    another clock, or more precisely.
    """
    later = timedelta(hours=draw.choice([-900_000, -3, 0, 1, 500, 900_000]))
    later += timedelta(microseconds=draw.choice([0, 1, 123_456]))
    factor = draw.choice([1e-6, 0.5, 1, 3, 90_000])
    clock = timezone(timedelta(minutes=draw.choice([0, 330, -720, 840])))
    for case in cases:
        first = case.events[0][TIME]
        for event in case.events:
            event[TIME] = (first + later + factor * (event[TIME] - first)).astimezone(clock)


def _other_events(facts: Facts, cases: list[Case], draw: Random) -> None:
    """Another course: the longest, of labels that nobody has, all at one time, without times."""
    for case in cases:
        kind = draw.choice(["long", "odd", "short", "tied", "untimed", "unlabelled", "other"])
        sample = case.events[-1]
        if kind == "long":
            case.events += [
                {**sample, LABEL: draw.choice(facts.alphabet)}
                for _ in range(draw.choice([30, 300]))
            ]
        if kind == "short":
            case.events = [sample]
        for event in case.events:
            if kind == "odd":
                event[LABEL] = draw.choice(ODD_LABELS)
            if kind == "tied":
                event[TIME] = sample[TIME]
            if kind == "untimed" and draw.random() < 0.6:
                event[TIME] = None
            if kind == "unlabelled" and draw.random() < 0.6:
                event[LABEL] = None
            if kind == "other":
                event[LABEL] = draw.choice(facts.alphabet)


def neighbour(facts: Facts, seed: int) -> tuple[list[Case], int]:
    """The usual cases but for one unit, by a seed, and how many neighbours away they are: who is
    another is taken out and put in.
    """
    draw = Random(seed)
    cases = usual_cases(facts)
    # The first and the last rows may decide how a file is read.
    place = draw.choice([0, len(cases) - 1, draw.randrange(len(cases)), draw.randrange(len(cases))])
    if facts.protects_all:
        kind = draw.choice(["changed", "changed", "added", "removed"])
        # Which cases of a unit stay is drawn at their places: those of others keep theirs.
        if facts.unit is not None and kind != "changed":
            place = len(cases)
        if kind == "added":
            added = case_of(facts, draw.choice(VARIANTS), draw.randrange(80))
            added.id = draw.choice(["new", "\u202enew", "0", "c1 ", "x" * 500, "", None])
            cases.insert(place, added)
            if facts.unit is not None:
                added.attributes[facts.unit] = draw.choice([None, "", "nobody else", "\u202e"])
            changed = [added]
        elif kind == "removed":
            own = 1 if facts.unit is None else 2
            place = min(place, len(cases) - own)
            del cases[place : place + own]
            return cases, 1
        else:
            changed = _own(facts, cases, place)
            if facts.unit is not None and draw.random() < 0.4:
                # Somebody else's name would make two units of it.
                name = draw.choice([None, "", "nobody else", "\u202e"])
                for case in changed:
                    case.attributes[facts.unit] = name
        if draw.random() < 0.8:
            _other_events(facts, changed, draw)
        if draw.random() < 0.5 and all(e[TIME] for c in changed for e in c.events):
            _other_times(facts, changed, draw)
        _odd_values(facts, changed, draw)
        return cases, 1 if kind == "added" else 2
    changed = _own(facts, cases, place)
    _odd_values(facts, changed, draw)
    if draw.random() < 0.8:
        _other_times(facts, changed, draw)
    return cases, 1


def _own(facts: Facts, cases: list[Case], place: int) -> list[Case]:
    """All cases of the unit at ``place``."""
    if facts.unit is None:
        return [cases[place]]
    owner = cases[place].attributes[facts.unit]
    return [case for case in cases if case.attributes[facts.unit] == owner]


# --- files


def _columns(cases: list[Case]) -> tuple[list[str], list[str]]:
    of_cases = dict.fromkeys(name for case in cases for name in case.attributes)
    of_events = dict.fromkeys(name for case in cases for e in case.events for name in e)
    return list(of_cases), [name for name in of_events if name not in of_cases]


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else "" if value is None else str(value)


def write_csv(cases: list[Case], path: Path) -> None:
    of_cases, of_events = _columns(cases)
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow([ID, *of_cases, *of_events])
    for case in cases:
        # A row may say something else of its case.
        table.writerows(
            [_text(case.id)]
            + [_text(event.get(name, case.attributes.get(name))) for name in of_cases]
            + [_text(event.get(name)) for name in of_events]
            for event in case.events
        )
    path.write_text(text.getvalue(), "utf-8")


def _element(name: str, value: Any) -> str:
    if value is None:
        return ""
    kinds = {bool: "boolean", int: "int", float: "float", datetime: "date"}
    kind = kinds.get(type(value), "string")
    text = str(value).lower() if kind == "boolean" else _text(value)
    return f"<{kind} key={quoteattr(name)} value={quoteattr(text)}/>"


def write_xes(cases: list[Case], path: Path) -> None:
    """Each value by its own type."""
    traces = []
    for case in cases:
        own = "".join(
            _element(name.removeprefix("case:"), value) for name, value in case.attributes.items()
        )
        events = "".join(
            f"<event>{''.join(_element(*each) for each in event.items())}</event>"
            for event in case.events
        )
        traces.append(f"<trace>{_element('concept:name', case.id)}{own}{events}</trace>\n")
    path.write_text(f"<log>\n{''.join(traces)}</log>\n", "utf-8")


def write_parquet(cases: list[Case], path: Path) -> None:
    """Times are times; all else is text: of a column all values have one type."""
    import polars as pl

    of_cases, of_events = _columns(cases)
    rows = [
        {ID: case.id}
        | {name: case.attributes.get(name) for name in of_cases}
        | {name: event.get(name) for name in of_events}
        for case in cases
        for event in case.events
    ]
    columns = {}
    for name in [ID, *of_cases, *of_events]:
        values = [row[name] for row in rows]
        if name == TIME:
            columns[name] = pl.Series(values, dtype=pl.Datetime("us", "UTC"))
        else:
            columns[name] = pl.Series(
                [None if v is None else _text(v) for v in values], dtype=pl.String
            )
    pl.DataFrame(columns).write_parquet(path)


WRITERS = {"csv": write_csv, "xes": write_xes, "parquet": write_parquet}
