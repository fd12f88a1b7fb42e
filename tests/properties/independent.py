"""Released files read and measured by code that shares nothing with the engine: plain Python, by
the definitions.

A log is a list of cases; a case is a pair of its attributes and its events, each a dictionary from
a name to a value. A value is a pair ``(spelling, meaning)``: what the file says, and what it parses
to. A name without a value is missing.
"""

import csv
import gzip
import io
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime
from fractions import Fraction
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?[+-]\d{2}:\d{2}")
CASE, ACTIVITY, TIME = "case:concept:name", "concept:name", "time:timestamp"

Value = tuple[str, Any]
Row = dict[str, Value]
Case = tuple[Row, list[Row]]


def read(file: Path) -> list[Case]:
    """The cases of a released log."""
    name = file.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        return _of_rows(_parquet(file))
    content = file.read_bytes()
    content = gzip.decompress(content) if file.name.endswith(".gz") else content
    if name.endswith(".xes"):
        return _xes(content)
    rows = list(csv.reader(io.StringIO(content.decode("utf-8"), newline="")))
    header = rows[0]
    assert all(len(row) == len(header) for row in rows[1:]), (
        "a row has another number of fields than the header"
    )
    columns = [_told([row[place] for row in rows[1:]]) for place in range(len(header))]
    table = (dict(zip(header, row, strict=True)) for row in zip(*columns, strict=True))
    return _of_rows(
        {name: value for name, value in row.items() if value is not None} for row in table
    )


def _told(cells: list[str]) -> list[Value | None]:
    """A column of a table without types: numbers, truth values or instants where all of it reads
    so, else text.
    """
    for meaning in (_instant, _truth, _number):
        meant = [meaning(cell) for cell in cells]
        if all(value is not None for cell, value in zip(cells, meant, strict=True) if cell != ""):
            return [
                (cell, value) if cell != "" else None
                for cell, value in zip(cells, meant, strict=True)
            ]
    return [(cell, cell) if cell != "" else None for cell in cells]


def _instant(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if INSTANT.fullmatch(text) else None


def _truth(text: str) -> str | None:
    return text.lower() if text.lower() in ("true", "false") else None


def _number(text: str) -> float | None:
    try:
        number = float(text) if text.strip() == text and "_" not in text else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _parquet(file: Path) -> Iterator[Row]:
    import pyarrow.parquet as pq

    table = pq.read_table(file)
    names = table.column_names
    for row in zip(*(table.column(place).to_pylist() for place in range(len(names))), strict=True):
        yield {
            name: (repr(value), value)
            for name, value in zip(names, row, strict=True)
            if value is not None
        }


def _of_rows(rows: Any) -> list[Case]:
    cases: dict[str, Case] = {}
    for row in rows:
        of_case = {name: value for name, value in row.items() if name.startswith("case:")}
        event = {name: value for name, value in row.items() if not name.startswith("case:")}
        known = cases.setdefault(row[CASE][0], (of_case, []))
        assert known[0] == of_case, "the rows of one case say different things about it"
        if event:
            known[1].append(event)
    return list(cases.values())


def _xes(content: bytes) -> list[Case]:
    root = ElementTree.fromstring(content)
    cases = []
    for trace in root.iter():
        if _tag(trace) != "trace":
            continue
        attributes = {f"case:{name}": value for name, value in _attributes(trace)}
        cases.append(
            (attributes, [dict(_attributes(event)) for event in trace if _tag(event) == "event"])
        )
    return cases


def _tag(element: Any) -> str:
    return str(element.tag).rpartition("}")[2]


def _attributes(element: Any) -> Iterator[tuple[str, Value]]:
    kinds: dict[str, Callable[[str], Any]] = {
        "string": str,
        "id": str,
        "int": int,
        "float": float,
        "boolean": str.lower,
        "date": datetime.fromisoformat,
    }
    for child in element:
        if _tag(child) in kinds:
            text = child.get("value")
            yield child.get("key"), (f"{_tag(child)} {text}", kinds[_tag(child)](text))


def course(case: Case) -> tuple[str, ...]:
    """The activities of a case, in order."""
    return tuple(event[ACTIVITY][0] if ACTIVITY in event else "" for event in case[1])


def beginnings(case: Case, over: str) -> list[int]:
    """How many events each class that the case belongs to looks at."""
    return [len(case[1])] if over == "variants" else list(range(1, len(case[1]) + 1))


def smallest_class(
    cases: list[Case], attributes: list[str], scope: str, unit: str | None = None
) -> int | None:
    """k: the fewest cases (units) that share what is released; None for a log without cases."""
    held: dict[Any, set[Any]] = defaultdict(set)
    for number, case in enumerate(cases):
        own = tuple(_spelt(case[0], name) for name in attributes if name.startswith("case:"))
        owner = number if unit is None else _spelt(case[0], unit)
        for length in beginnings(case, scope):
            events = case[1][:length]
            seen = tuple(
                tuple(_spelt(event, name) for event in events)
                for name in attributes
                if name[:5] != "case:"
            )
            members = held[course(case)[:length], own, seen]
            if owner is not None:
                members.add(owner)
    return min(map(len, held.values()), default=None)


def _spelt(row: Row, name: str) -> str | None:
    return row[name][0] if name in row else None


def _groups(
    cases: list[Case], attribute: str, classes: str
) -> tuple[dict[Any, list[Any]], dict[Any, list[Any]]]:
    """The values at each activity, and those of each class at it; None for a missing one."""
    whole: dict[Any, list[Any]] = defaultdict(list)
    parts: dict[Any, list[Any]] = defaultdict(list)
    of_case = attribute.startswith("case:")
    for case in cases:
        path = course(case)
        if of_case:
            value = _meant(case[0], attribute)
            whole[None].append(value)
            for length in beginnings(case, classes):
                parts[path[:length], None].append(value)
            continue
        for place, event in enumerate(case[1]):
            value = _meant(event, attribute)
            whole[path[place]].append(value)
            parts[path if classes == "variants" else path[: place + 1], path[place]].append(value)
    return dict(whole), dict(parts)


def _meant(row: Row, name: str) -> Any:
    return row[name][1] if name in row else None


def farthest(cases: list[Case], attribute: str, classes: str) -> float:
    """t: the largest earth mover's distance of a class from its activity; missing counts as a value
    1 from all others.
    """
    whole, parts = _groups(cases, attribute, classes)
    every = [value for values in whole.values() for value in values if value is not None]
    numbers = bool(every) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in every
    )
    times = bool(every) and all(isinstance(value, datetime) for value in every)
    far = 0.0
    for (_, topic), values in parts.items():
        if every:
            far = max(far, _distance(values, whole[topic], numbers or times))
    return far


def _distance(part: list[Any], whole: list[Any], ordered: bool) -> float:
    p, q = _shares(part), _shares(whole)
    if not ordered:
        return float(
            sum(max(Fraction(0), share - q.get(value, Fraction(0))) for value, share in p.items())
        )
    known = sorted(value for value in whole if value is not None)
    below = {value: sum(other < value for other in known) for value in set(known)}
    place = {
        value: (below[value] + Fraction(known.count(value), 2)) / len(known) for value in below
    }
    if None not in p and None not in q:
        ascending, total, run = sorted(place), Fraction(0), Fraction(0)
        for one, other in pairwise(ascending):
            run += p.get(one, Fraction(0)) - q.get(one, Fraction(0))
            total += abs(run) * (place[other] - place[one])
        return float(total)
    return _transported(p, q, place)


def _shares(values: list[Any]) -> dict[Any, Fraction]:
    return {value: Fraction(count, len(values)) for value, count in Counter(values).items()}


def _transported(
    p: dict[Any, Fraction], q: dict[Any, Fraction], place: dict[Any, Fraction]
) -> float:
    """The earth mover's distance as a linear program."""
    import numpy as np
    from scipy.optimize import linprog

    rows, columns = list(p), list(q)

    def way(one: Any, other: Any) -> float:
        if one is None or other is None:
            return float((one is None) != (other is None))
        return float(abs(place[one] - place[other]))

    costs = np.array([[way(one, other) for other in columns] for one in rows])
    sums = []
    for row in range(len(rows)):
        sums.append(np.repeat(np.arange(len(rows)) == row, len(columns)))
    for column in range(len(columns)):
        sums.append(np.tile(np.arange(len(columns)) == column, len(rows)))
    have = [float(p[one]) for one in rows] + [float(q[one]) for one in columns]
    found = linprog(costs.ravel(), A_eq=np.array(sums, float)[:-1], b_eq=have[:-1])
    assert found.status == 0, found.message
    return float(found.fun)


def least_variety(cases: list[Case], attribute: str, classes: str, variety: str) -> float:
    """l: the least variety of a class that has any value; infinite where none has."""
    _, parts = _groups(cases, attribute, classes)
    least = math.inf
    for values in parts.values():
        known = Counter(value for value in values if value is not None)
        if known:
            total = known.total()
            entropy = -sum(count / total * math.log(count / total) for count in known.values())
            least = min(least, len(known) if variety == "distinct" else math.exp(entropy))
    return least


def worst_knowledge(
    cases: list[Case], size: int, background: str, attribute: str | None
) -> tuple[int, float] | None:
    """TLKC: the fewest cases that match some knowledge of up to ``size`` events, and the largest
    share with one value.
    """
    matching: dict[Any, set[int]] = defaultdict(set)
    for number, case in enumerate(cases):
        symbols: list[Any] = list(course(case))
        if background == "set":
            symbols = sorted(set(symbols))
        elif background == "multiset":
            symbols = sorted(symbols)
        elif background == "relative":
            symbols = [
                (event[ACTIVITY][0], event[TIME][1] if TIME in event else None) for event in case[1]
            ]
        for length in range(size + 1):
            for known in combinations(symbols, length):
                matching[known].add(number)
    if not cases:
        return None
    confidence = 0.0
    for members in matching.values():
        held: Counter[Any] = Counter()
        for number in members if attribute else ():
            rows = [cases[number][0]] if attribute.startswith("case:") else cases[number][1]
            held.update({row[attribute][1] for row in rows if attribute in row})
        confidence = max(confidence, max(held.values(), default=0) / len(members))
    return min(map(len, matching.values())), confidence
