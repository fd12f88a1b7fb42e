"""What an attribute is, from its name and its figures."""

from dataclasses import replace

import pytest

from authoring.sample_logs import NATURES, rich_log
from cloakwork.authoring.classify import FEW_CASES, Proposal, classify
from cloakwork.authoring.figures import figures_of
from cloakwork.log.eventlog import EventLog
from conftest import SHARED

PROPOSALS = {each.name: each for each in map(classify, figures_of(rich_log()))}


def test_every_attribute_is_classified() -> None:
    """All but the three standard ones."""
    assert list(PROPOSALS) == [name for name in rich_log().columns if name in NATURES]


@pytest.mark.parametrize(("name", "nature"), NATURES.items())
def test_each_nature_is_found(name: str, nature: str) -> None:
    """By name, by what repeats, by how many cases share a value."""
    assert PROPOSALS[name].nature == nature, PROPOSALS[name]


def test_what_identifies_is_an_identifier() -> None:
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


def test_reasons_hold_no_value_and_no_figure() -> None:
    """They stand in the policy, which is published."""
    for proposal in PROPOSALS.values():
        assert not any(character.isdigit() for character in proposal.reason), proposal.reason


def test_an_empty_log_is_classified() -> None:
    """No case, no attribute."""
    assert figures_of(EventLog.empty()) == ()


def test_an_author_may_say_otherwise() -> None:
    """The role decides what becomes of it."""
    changed: Proposal = PROPOSALS["kind"].with_role("identifier")
    assert changed.role == "identifier" and not changed.may_be_released
    assert PROPOSALS["case:code"].with_role("insensitive").may_be_released


WHO_IT_WAS = {
    "identifier": ("codice_fiscale", "DNI", "ip", "client_ip", "gps", "Steuernummer", "apellido"),
    "staff": ("Sachbearbeiter", "login", "firmante", "medico", "utente", "gebruiker", "usuario"),
    "quasi-identifier": ("lat", "lon"),
}


@pytest.mark.parametrize("nature", WHO_IT_WAS)
def test_names_in_other_languages_tell_persons(nature: str) -> None:
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
def test_identifiers_of_real_logs_are_found(name: str) -> None:
    """Each that a person would call one, and no other; the table in docs/authoring.md has all."""
    from cloakwork.log.formats import read_log

    path = SHARED / "logs" / name
    if not path.exists():
        pytest.skip(f"{path} is missing")
    found = list(map(classify, figures_of(read_log(path))))
    assert {each.name for each in found if each.role == "identifier"} == set(IDENTIFYING[name])


def test_few_cases_single_out() -> None:
    """A value that few hold is told by who has any."""
    assert PROPOSALS["case:odd"].figures.cases < FEW_CASES
