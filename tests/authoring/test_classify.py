"""The figures of attributes, against a count by hand. Values that look like people. What an
attribute is, from its name and its figures.
"""

from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authoring.sample_logs import NATURES, rich_log
from cloakwork.authoring.attributes import (
    FEW_CASES,
    Figures,
    classify,
    figures_of,
    looks_like_a_person,
    share_like_people,
)
from cloakwork.log.eventlog import EventLog
from conftest import SHARED

VALUES = st.sampled_from([None, "x", "y", "z"])
CASES = st.lists(st.lists(st.tuples(st.sampled_from("ab"), VALUES), min_size=1, max_size=4))


def log_of(cases: list[list[tuple[str, str | None]]]) -> EventLog:
    """A log whose events have an activity and, some of them, a value."""
    schema = ("case:concept:name", "concept:name", "value")
    rows = [
        (str(case), activity, value)
        for case, events in enumerate(cases)
        for activity, value in events
    ]
    frame = pl.DataFrame(rows, dict.fromkeys(schema, pl.String), orient="row")
    return EventLog.from_polars(frame)


@given(CASES)
def test_figures_agree_with_a_count_by_hand(cases):
    """Filled, distinct, cases, alone, least, constant in a case."""
    (found,) = figures_of(log_of(cases))
    held = [{value for _, value in events if value is not None} for events in cases]
    having = {value: sum(value in values for values in held) for value in "xyz"}
    with_value = [values for values in held if values]
    events = [value for case in cases for _, value in case]
    filled = [value for value in events if value is not None]
    assert found.filled == (len(filled) / len(events) if events else 0)
    assert found.distinct == sum(count > 0 for count in having.values())
    assert found.cases == len(with_value)
    alone = sum(any(having[value] == 1 for value in values) for values in with_value)
    assert found.alone == (alone / len(with_value) if with_value else 0)
    assert found.least == min((count for count in having.values() if count), default=0)
    constant = sum(len(values) == 1 for values in with_value)
    assert found.constant_in_case == (constant / len(with_value) if with_value else 0)


def only(values: list[object]) -> Figures:
    """The figures of one column of events, each of a case of its own."""
    frame = pl.DataFrame(
        {
            "case:concept:name": [str(case) for case in range(len(values))],
            "concept:name": ["a"] * len(values),
            "value": values,
        }
    )
    return figures_of(EventLog.from_polars(frame))[0]


def test_text_that_reads_as_something_else_is_that():
    """Many logs hold numbers and times as text."""
    assert only(["1", "2"]).type == "whole number"
    assert only(["1.5", "2"]).type == "number"
    assert only(["2024-01-01 10:00:00", "2024-01-02"]).type == "time"
    assert only(["1", "a"]).type == "text"
    assert only([True, False]).type == "truth value"


def test_a_copy_of_the_activity_is_found_though_values_are_missing():
    """Where there is a value, it is the activity's."""
    assert only(["a", None, "a"]).copies == "concept:name"
    assert only(["a", "b", "a"]).copies is None


PEOPLE = (
    *("Anna Schmidt", "Anna-Lena Größer", "José García", "Garcia, M.", "J. Smith", "Mw. Bakker"),
    *("j.smith", "jan_devries", "CORP\\jsmith", "jane@example.org", "Resource21"),
    *("user_7", "admin3"),
)
OTHERS = (
    *("Ward A", "Front Desk", "Laboratory", "Blood count", "In Progress", "PROD582", "EMPLOYEE"),
    *("order.created", "declaration 86791", "a long text about somebody called Anna Schmidt"),
    *("", "2024-01-01"),
)


@pytest.mark.parametrize("text", PEOPLE)
def test_people_are_seen(text):
    """Names, initials, titles, logins, addresses, numbers of staff; accents do not matter."""
    assert looks_like_a_person(text)


@pytest.mark.parametrize("text", OTHERS)
def test_other_things_are_not(text):
    """Places, states, codes, sentences."""
    assert not looks_like_a_person(text)


def test_a_share_of_nothing_is_none():
    """A column without values."""
    assert share_like_people(pl.Series([], dtype=pl.String)) == 0
    assert share_like_people(pl.Series(["Anna", "Ward A"])) == 0.5


def test_people_are_found_whatever_the_column_is_called():
    """Those who work on many cases are staff; those whom a case is about, identifiers."""
    frame = rich_log().to_polars()
    names = ["Anna Berg", "Peter Vos", "Maria Roth", "Erik Holm", "Paul Lang", "Jan Smit"]
    of_case = pl.Series("case:x", [f"{names[row // 3 % 6]} {row // 3}" for row in range(180)])
    with_people = frame.with_columns(
        pl.Series("zz", [names[row % 6] for row in range(len(frame))]),
        # Whose names go by no variant.
        pl.Series("case:client", [names[row // 15 % 6] for row in range(len(frame))]),
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


PROPOSALS = {each.name: each for each in map(classify, figures_of(rich_log()))}


def test_every_attribute_is_classified():
    """All but the three standard ones."""
    assert list(PROPOSALS) == [name for name in rich_log().columns if name in NATURES]


@pytest.mark.parametrize(("name", "nature"), NATURES.items())
def test_each_nature_is_found(name, nature):
    """By name, by what repeats, by how many cases share a value."""
    assert PROPOSALS[name].nature == nature, PROPOSALS[name]


def test_what_identifies_is_an_identifier():
    """Whatever the reason: a copy of the case id, a mail address, a name of staff, free text."""
    identifiers = {each.name for each in PROPOSALS.values() if each.role == "identifier"}
    assert identifiers == {
        "case:copy",
        "case:path",
        "case:mail",
        "case:ticket nr",
        "case:code",
        "case:customer",
        "case:note",
        "org:resource",
    }


def test_reasons_hold_no_value_and_no_figure():
    """They stand in the policy, which is published."""
    for proposal in PROPOSALS.values():
        assert not any(character.isdigit() for character in proposal.reason), proposal.reason


def test_an_empty_log_is_classified():
    """No case, no attribute."""
    assert figures_of(EventLog.empty()) == ()


WHO_IT_WAS = {
    "identifier": ("codice_fiscale", "DNI", "ip", "client_ip", "gps", "Steuernummer", "apellido"),
    "staff": ("Sachbearbeiter", "login", "firmante", "medico", "utente", "gebruiker", "usuario"),
    "quasi-identifier": ("lat", "lon"),
}


@pytest.mark.parametrize("nature", WHO_IT_WAS)
def test_names_in_other_languages_tell_persons(nature):
    """Also where each value is frequent, and would pass for harmless by its figures."""
    frequent = PROPOSALS["kind"].figures
    for name in WHO_IT_WAS[nature]:
        assert classify(replace(frequent, name=name)).nature == nature, name


IDENTIFYING = {
    "bpic2012.xes.gz": ("org:resource",),
    "bpic2020_domestic_declarations.xes.gz": ("case:id", "case:DeclarationNumber", "id"),
    "receipt.xes.gz": ("case:responsible", "concept:instance", "org:resource"),
    "production.xes.gz": (
        "case:variant",
        "case:variant-index",
        "case:creator",
        "org:resource",
        "Resource",
    ),
    "bpic2015_1.xes.gz": (
        "case:Responsible_actor",
        "case:parts",
        "case:IDofConceptCase",
        "case:landRegisterID",
        "monitoringResource",
        "org:resource",
    ),
}
"""Checked by hand: attributes of real logs that identify cases, people or staff."""


@pytest.mark.parametrize("name", ["receipt.xes.gz", "production.xes.gz"])
def test_identifiers_of_real_logs_are_found(name):
    """Each that a person would call one, and no other; the table in docs/tutorial.md has all."""
    from cloakwork.log.formats import read_log

    path = SHARED / "logs" / name
    if not path.exists():
        pytest.skip(f"{path} is missing")
    found = list(map(classify, figures_of(read_log(path))))
    assert {each.name for each in found if each.role == "identifier"} == set(IDENTIFYING[name])


def test_how_long_work_took_is_a_number():
    """Seconds that no other case has number nothing; they are to be asked for."""
    for name, released in (("service_time", True), ("seconds", False)):
        cases = [f"c{number:02}" for number in range(60)]
        events = {"case:concept:name": cases, "concept:name": "a", name: range(60)}
        log = EventLog.from_polars(pl.DataFrame(events, strict=False))
        (figures,) = (each for each in figures_of(log) if each.name == name)
        assert classify(figures).may_be_released is released


def test_few_cases_single_out():
    """A value that few hold is told by who has any."""
    assert PROPOSALS["case:odd"].figures.cases < FEW_CASES
