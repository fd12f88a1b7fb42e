"""The stamp: what a released log says of itself, read back the way it was written."""

import dataclasses
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cloakwork.base.errors import LogError
from cloakwork.base.lineage import Lineage
from cloakwork.guarantees.claims import PolicyReason
from cloakwork.log.formats import Attribute, read_annotations
from cloakwork.log.formats.xes_write import paths_and_texts
from cloakwork.plan.model import TreatedAttribute
from cloakwork.policy.load import shipped
from cloakwork.publishing import stamp as stamps
from cloakwork.publishing.from_plan import statement_of
from cloakwork.publishing.publish import Published
from cloakwork.publishing.stamp import PRIVACY, differences, read_stamp, stamp
from cloakwork.publishing.statement import NOT_PRIVATE, predicate_digest
from publishing.conftest import a_plan

PARTS = ("operation type", "level", "target")


@pytest.mark.parametrize("format_", ["xes", "xes.gz", "parquet"])
def test_a_written_stamp_reads_back(publish_as: Callable[..., Published], format_: str) -> None:
    done = publish_as(format_=format_)
    assert (
        differences(paths_and_texts(stamp(a_plan(format_), done.statement)), read_stamp(done.log))
        == ()
    )


def test_it_carries_the_predicates_digest(publish_as: Callable[..., Published]) -> None:
    done = publish_as()
    assert read_stamp(done.log)["cloakwork:statement"] == predicate_digest(done.statement)


def test_it_names_operations_in_the_privacy_extensions_words(published: Path) -> None:
    said = read_stamp(published / "log.xes")
    first, second = ("privacy:anonymizations/privacy:anonymizer" + number for number in "12")
    assert said[f"{first}/cloakwork:mechanism"] == "kanon/pretsa"
    assert said[f"{first}/privacy:operation type"] == "condensation"
    assert said[f"{first}/privacy:level"] == "case"
    assert said[f"{second}/privacy:operation type"] == "addition"
    assert said[f"{second}/privacy:target"] == "timestamps"


def used_beyond(extension: Path, log: Path) -> set[str]:
    """What a log's stamp says under the prefix that an extension's file does not define."""
    root = ET.parse(extension).getroot()
    assert dataclasses.astuple(PRIVACY) == tuple(map(root.get, ("name", "prefix", "uri")))
    defined = {f"privacy:{each.attrib['key']}" for level in root for each in level}
    keys = {key for place in read_stamp(log) for key in place.split("/")}
    used = {key.rstrip("0123456789") for key in keys if key.startswith("privacy:")}
    assert used
    return used - defined


def test_the_file_of_the_extension_defines_what_a_log_uses(published: Path, tmp_path: Path) -> None:
    """It is shipped; a file that lacks one attribute, the twin, is seen."""
    file = shipped("schemas") / "privacy.xesext"
    assert used_beyond(file, published / "log.xes") == set()
    (tmp_path / file.name).write_text(file.read_text("utf-8").replace('"level"', '"depth"'))
    assert used_beyond(tmp_path / file.name, published / "log.xes") == {"privacy:level"}
    text = file.read_text("utf-8")
    assert {*stamps._OPERATIONS, *stamps._TREATMENTS.values(), "addition"} == set(
        re.search(r'"operation type">\s*<alias [^>]*name="([^"]*)"', text)[1]  # type: ignore[index]
        .replace(" or ", ", ")
        .split(", ")
    )


def test_each_treatment_is_an_operation_of_its_own() -> None:
    plan = a_plan()
    treated = tuple(
        TreatedAttribute(attribute=name, column=name, treatment=treatment, why="policy")
        for name, treatment in (
            ("age", "generalise"),
            ("doctor", "pseudonymise"),
            ("ward", "generalise"),
        )
    )
    redact = plan.steps[1].model_copy(
        update={
            "mechanism": "attributes/redact",
            "lineage": Lineage(writes=frozenset({"age", "doctor", "ward"})),
        }
    )
    bound = plan.steps[1].model_copy(update={"mechanism": "bound", "lineage": Lineage()})
    plan = a_plan(steps=(bound, redact), attributes=treated)

    said = paths_and_texts(stamp(plan, statement_of(plan, "r1", released=(), private=True)))

    found = [
        tuple(
            said[f"privacy:anonymizations/privacy:anonymizer{number}/privacy:{part}"]
            for part in PARTS
        )
        for number in (1, 2, 3)
    ]
    assert found == [
        ("suppression", "case", "*"),
        ("generalization", "attribute", "age, ward"),
        ("cryptography", "attribute", "doctor"),
    ]


def test_figures_are_figures(published: Path) -> None:
    guarantees = next(
        one for one in read_annotations(published / "log.xes") if one.key == "cloakwork:guarantees"
    )
    parameters = [
        {child.key: child.value for child in claim.children} for claim in guarantees.children
    ]
    assert [each["cloakwork:kind"] for each in parameters] == ["k-anonymity", "metric-privacy"]
    assert parameters[0]["cloakwork:k"] == 3
    assert parameters[1]["cloakwork:epsilon"] == 1.0
    assert parameters[1]["cloakwork:shift"] == "1h"
    assert parameters[1]["cloakwork:given"] == "control-flow, metadata"


def test_it_names_what_is_exposed_with_the_reason(published: Path) -> None:
    said = read_stamp(published / "log.xes")
    assert said["cloakwork:exposed/cloakwork:exposed1/cloakwork:column"] == "metadata"
    assert said["cloakwork:exposed/cloakwork:exposed1/cloakwork:reason"].startswith(
        "the partner needs"
    )


def test_a_reproducible_release_is_stamped() -> None:
    statement = statement_of(a_plan(), "r1", released=(), private=False)
    assert paths_and_texts(stamp(a_plan(), statement))["cloakwork:mark"] == NOT_PRIVATE


def test_texts_that_xml_cannot_hold_still_read_back(publish_as: Callable[..., Published]) -> None:
    plan = a_plan()
    strange = plan.exposed[0].model_copy(
        update={"why": PolicyReason(reason="tab\there, bell\x07, <&\"'>, line\nend, ünï \ufffe")}
    )
    plan = plan.model_copy(update={"exposed": (strange,)})
    done = publish_as(plan=plan)
    assert differences(paths_and_texts(stamp(plan, done.statement)), read_stamp(done.log)) == ()


def test_differences_are_told_one_by_one() -> None:
    expected = paths_and_texts(
        [Attribute("a", 1), Attribute("b", "x"), Attribute("c", None, (Attribute("d", 2.5),))]
    )
    found = paths_and_texts(
        [Attribute("a", 2), Attribute("c", None, (Attribute("d", 2.5),)), Attribute("a", 1)]
    )
    assert differences(expected, found) == (
        "b is missing",
        "'a (again 1)' does not belong there",
        "a says '2', the statement '1'",
    )


def test_repeated_keys_are_named_in_linear_time() -> None:
    def steps(first: str, times: int) -> int:
        keys = [first.format(n) for n in range(times)] + ["a"] * times
        taken = list[str]()

        def count(_: object, event: str, __: object) -> Callable[..., Any]:
            taken.append(event)
            return count

        sys.settrace(count)
        found = paths_and_texts([Attribute(key, 1) for key in keys])
        sys.settrace(None)
        return len(taken) + sum(map(len, found))

    assert all(steps(first, 400) < 5 * steps(first, 100) for first in ("a", "a (again {})"))


def test_lists_are_seen() -> None:
    assert paths_and_texts([Attribute("meta_general:source", None)]) == {"meta_general:source": ""}
    twice = [Attribute("c", None, (Attribute("d", value),)) for value in (1, 2)]
    assert paths_and_texts(twice) == {"c/d": "1", "c/d (again 1)": "2"}


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_date_that_utc_does_not_have_is_told_in_one_line(tmp_path: Path, moment: str) -> None:
    forged = tmp_path / "log.xes"
    forged.write_text(f'<log><date key="d" value="{moment}"/><trace/></log>')
    with pytest.raises(LogError, match="the value of a <date> is none"):
        read_stamp(forged)
