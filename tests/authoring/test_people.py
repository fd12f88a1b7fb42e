"""Values that look like people."""

import polars as pl
import pytest

from authoring.sample_logs import rich_log
from cloakwork.authoring.classify import classify
from cloakwork.authoring.figures import figures_of, looks_like_a_person, share_like_people
from cloakwork.log.eventlog import EventLog

PEOPLE = (
    "Anna Schmidt",
    "Anna-Lena Größer",
    "José García",
    "Garcia, M.",
    "J. Smith",
    "Mw. Bakker",
    "j.smith",
    "jan_devries",
    "CORP\\jsmith",
    "jane@example.org",
    "Resource21",
    "user_7",
    "admin3",
)
OTHERS = (
    "Ward A",
    "Front Desk",
    "Laboratory",
    "Blood count",
    "In Progress",
    "PROD582",
    "EMPLOYEE",
    "order.created",
    "declaration 86791",
    "a long text about somebody called Anna Schmidt",
    "",
    "2024-01-01",
)


@pytest.mark.parametrize("text", PEOPLE)
def test_people_are_seen(text: str) -> None:
    """Names, initials, titles, logins, addresses, numbers of staff; accents do not matter."""
    assert looks_like_a_person(text)


@pytest.mark.parametrize("text", OTHERS)
def test_other_things_are_not(text: str) -> None:
    """Places, states, codes, sentences."""
    assert not looks_like_a_person(text)


def test_a_share_of_nothing_is_none() -> None:
    """A column without values."""
    assert share_like_people(pl.Series([], dtype=pl.String)) == 0
    assert share_like_people(pl.Series(["Anna", "Ward A"])) == 0.5


def test_people_are_found_whatever_the_column_is_called() -> None:
    """Those who work on many cases are staff; those whom a case is about, identifiers."""
    frame = rich_log().to_polars()
    names = ["Anna Berg", "Peter Vos", "Maria Roth", "Erik Holm", "Paul Lang", "Jan Smit"]
    of_case = pl.Series("case:x", [f"{names[row // 3 % 6]} {row // 3}" for row in range(180)])
    with_people = frame.with_columns(
        pl.Series("zz", [names[row % 6] for row in range(len(frame))]),
        pl.Series("case:client", [names[row // 3 % 6] for row in range(len(frame))]),
        of_case.str.replace(r"\d+", "").str.strip_chars() + pl.Series(_letters()),
    )
    found = {
        each.name: each for each in map(classify, figures_of(EventLog.from_polars(with_people)))
    }
    assert found["zz"].nature == "staff" and "work on many cases" in found["zz"].reason
    assert found["case:client"].nature == "identifier"
    assert found["case:x"].nature == "identifier"


def _letters() -> list[str]:
    """One ending for each case, in letters."""
    return [f" {chr(97 + row // 3 // 26)}{chr(97 + row // 3 % 26)}" for row in range(180)]
