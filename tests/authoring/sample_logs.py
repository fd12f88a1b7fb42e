"""A log with an attribute of every nature."""

from datetime import UTC, datetime, timedelta

import polars as pl

from cloakwork.log.eventlog import EventLog

CASES = 60


def rich_log() -> EventLog:
    """Sixty cases of three events, in three variants; each attribute is named in ``NATURES``."""
    rows = [row for case in range(CASES) for row in _rows(case)]
    return EventLog.from_polars(pl.DataFrame(rows))


NATURES = {
    "case:copy": "copy",
    "case:path": "copy",
    "case:mail": "identifier",
    "case:ticket nr": "identifier",
    "case:code": "identifier",
    "case:opened": "time",
    "case:customer": "identifier",
    "case:age": "quasi-identifier",
    "case:odd": "quasi-identifier",
    "case:diagnosis": "sensitive",
    "case:note": "free text",
    "step": "copy",
    "org:resource": "staff",
    "lifecycle:transition": "constant",
    "state": "technical",
    "kind": "other",
    "hunch": "sensitive",
    "cost": "sensitive",
}
"""What each attribute of the log is."""


def _rows(case: int) -> list[dict[str, object]]:
    start = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=case)
    path = [("a", "b", "c"), ("a", "c", "b"), ("a", "a", "b")][case % 3]
    of_case = {
        "case:concept:name": f"number {case}",
        "case:copy": f"number {case}",
        "case:path": f"path{case % 3}",
        "case:mail": f"person{case % 7}@example.org",
        "case:ticket nr": f"T{case // 2 if case < 50 else case}",
        "case:code": f"{case * 7919 % 10007}",
        "case:opened": f"2024-01-{case % 28 + 1:02} 10:00:00",
        "case:customer": f"customer {case % 20}",
        "case:age": 20 + case % 50,
        "case:odd": "seldom" if case == 3 else None,
        "case:diagnosis": ["ordinary", "usual"][case % 2],
        "case:note": f"called {case % 40} times about it and was told {'again ' * 20}",
    }
    return [
        of_case
        | {
            "concept:name": activity,
            "time:timestamp": start + timedelta(minutes=10 * place),
            "step": {"a": "1st", "b": "2nd", "c": "3rd"}[activity],
            "org:resource": f"clerk {(case + place) % 4}",
            "lifecycle:transition": "complete",
            "state": ["open", "closed"][(case + place) % 2],
            "kind": ["p", "q"][(case + place) // 2 % 2],
            "hunch": bool((case + place) % 3),
            "cost": 13.37 * (case % 5) + place + 0.01,
        }
        for place, activity in enumerate(path)
    ]
