"""The stamp: what a released log says about itself, in XES log attributes.

It uses two extensions. *Privacy* is Rafiei and van der Aalst's ("Privacy-Preserving Data
Publishing in Process Mining", BPM Forum 2020): which operations were run, at which level, on what.
*Cloakwork* says what is guaranteed, what is exposed, and which signed statement belongs to the log.
Neither holds anything from the raw log. What belongs together stands in lists, since readers such
as pm4py's drop attributes nested below a text.
"""

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from cloakwork.errors import LogError
from cloakwork.lineage import CONTROL_FLOW
from cloakwork.log.io import Attribute, Extension, read_annotations
from cloakwork.plan.model import Plan, Step
from cloakwork.publishing.statement import (
    PrivacyStatement,
    StatedGuarantee,
    UnprovenGoal,
    predicate_digest,
)

PRIVACY: Final = Extension(
    name="Privacy", prefix="privacy", uri="http://www.xes-standard.org/privacy.xesext"
)
CLOAKWORK: Final = Extension(name="Cloakwork", prefix="cloakwork", uri="urn:cloakwork:xes:v1")
EXTENSIONS: Final = (PRIVACY, CLOAKWORK)

_SCHEMA: Final = "ARROW:schema"
_UNWRITABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_OPERATIONS: Final = (
    ("attributes/redact", "suppression"),
    ("bound", "suppression"),
    ("kanon/tlkc", "suppression"),
    ("kanon/*", "condensation"),
    ("*histogram*", "substitution"),
    ("variants/*", "addition"),
    ("timestamps/*", "addition"),
    ("attributes/*", "addition"),
)
"""Our mechanisms in the extension's words; adding noise counts as *addition* there. The first glob
that fits wins.
"""
_TREATMENTS: Final = {
    "generalise": "generalization",
    "pseudonymise": "cryptography",
    "drop": "suppression",
}
_ALL: Final = "*"
_PROSE: Final = frozenset(
    f"cloakwork:{name}" for name in ("sentence", "tells", "published", "because")
)
"""Keys of the stamp whose values are sentences, for readers alone."""


def stamp(plan: Plan, statement: PrivacyStatement) -> tuple[Attribute, ...]:
    """The log attributes of a release of ``plan`` with ``statement`` as its predicate."""
    operations = [
        (step.mechanism, _operation_attributes(step, word, targets))
        for step in plan.steps
        for word, targets in _operations_of(step, plan).items()
    ]
    anonymizers = [
        Attribute(
            f"privacy:anonymizer{number}", None, (*said, _text_attribute("mechanism", mechanism))
        )
        for number, (mechanism, said) in enumerate(operations, start=1)
    ]
    guarantees = [
        Attribute(f"cloakwork:guarantee{number}", None, _guarantee_attributes(claim, statement))
        for number, claim in enumerate(statement.guarantees, start=1)
    ]
    exposed = [
        Attribute(
            f"cloakwork:exposed{number}",
            None,
            (
                _text_attribute("column", column.column),
                *((_text_attribute("names", ", ".join(column.names)),) if column.names else ()),
                _text_attribute("why", column.why.kind),
                _text_attribute("tells", column.says),
                _text_attribute(
                    "reason" if column.why.kind == "policy" else "because", column.reason
                ),
            ),
        )
        for number, column in enumerate(statement.exposed, start=1)
    ]
    unproven = [
        Attribute(f"cloakwork:unproven{number}", None, _unproven_attributes(item))
        for number, item in enumerate(statement.unproven, start=1)
    ]
    lists = {
        "cloakwork:UNPROVEN": unproven,
        "privacy:anonymizations": anonymizers,
        "cloakwork:exposed": exposed,
        "cloakwork:guarantees": guarantees,
    }
    return (
        *(Attribute(key, None, tuple(entries)) for key, entries in lists.items() if entries),
        _text_attribute("statement", predicate_digest(statement)),
        *_origin_attributes(statement),
    )


def read_stamp(log: Path) -> dict[str, str]:
    """What a released log says of itself: values by the path of keys that leads to them.

    XES: every attribute of the log element. Parquet: the metadata in the file's footer. Raises
    LogError.
    """
    if log.suffix != ".parquet":
        return flat(read_annotations(log))
    import polars as pl

    try:
        return {
            name: text for name, text in pl.read_parquet_metadata(log).items() if name != _SCHEMA
        }
    except (OSError, pl.exceptions.PolarsError) as error:
        raise LogError(
            log, f"its metadata cannot be read ({str(error).partition(chr(10))[0]})"
        ) from error


def flat(attributes: Iterable[Attribute], above: str = "") -> dict[str, str]:
    """Every attribute's value as text by the path of keys that leads to it; a repeated key gets a
    mark of its own.

    Lists that hold something have no value of their own and stand only in the paths of what they
    hold.
    """
    values: dict[str, str] = {}
    for attribute in attributes:
        place = above + attribute.key
        while place in values:
            place += " (again)"
        if attribute.value is not None:
            values[place] = str(attribute.value)
        elif not attribute.children:
            values[place] = ""
        values |= flat(attribute.children, place + "/")
    return values


def differences(expected: dict[str, str], found: dict[str, str]) -> tuple[str, ...]:
    """How a stamp that was read differs from the one that belongs there, one line each; empty when
    they state the same.

    Sentences are not compared: they follow from the parameters beside them.
    """
    missing = [
        f"{place} is missing" for place in expected if place not in found and not _is_prose(place)
    ]
    unknown = [f"{place!a} does not belong there" for place in found if place not in expected]
    changed = [
        f"{place} says {found[place]!a}, the statement {text!a}"
        for place, text in expected.items()
        if found.get(place, text) != text and not _is_prose(place)
    ]
    return (*missing, *unknown, *changed)


def _is_prose(place: str) -> bool:
    return place.rpartition("/")[2] in _PROSE


def _operations_of(step: Step, plan: Plan) -> dict[str, list[str]]:
    """What a step does, in the extension's words, and to which columns; it may treat each of them
    otherwise.
    """
    default_word = next(
        (word for glob, word in _OPERATIONS if fnmatchcase(step.mechanism, glob)), "substitution"
    )
    treatments = {item.column: item.treatment for item in plan.attributes}
    operations: dict[str, list[str]] = {}
    for column in sorted(step.lineage.writes) or [_ALL]:
        word = (
            _TREATMENTS.get(treatments.get(column, ""), default_word)
            if column != _ALL
            else default_word
        )
        operations.setdefault(word, []).append(column)
    return operations


def _operation_attributes(step: Step, word: str, targets: Sequence[str]) -> tuple[Attribute, ...]:
    rewrites_cases = bool({CONTROL_FLOW, _ALL} & set(targets))
    if step.mechanism.startswith("attributes/"):
        rewrites_cases = False
    return (
        Attribute("privacy:operation type", word),
        Attribute("privacy:level", "case" if rewrites_cases else "attribute"),
        Attribute("privacy:target", _text(", ".join(targets))),
    )


def _guarantee_attributes(
    claim: StatedGuarantee, statement: PrivacyStatement
) -> tuple[Attribute, ...]:
    """The guarantee's parameters, figures as figures, columns in one line; then what it takes as
    known.
    """
    values = claim.guarantee.model_dump(mode="json", exclude={"kind"}, exclude_none=True)
    values |= {"given": claim.given.columns} if claim.given is not None else {}
    written = [
        _text_attribute(name, ", ".join(value) if isinstance(value, list | tuple) else value)
        for name, value in values.items()
    ]
    kind, unit = (
        _text_attribute("kind", claim.guarantee.kind),
        _text_attribute("unit", str(statement.unit)),
    )
    return (kind, unit, *written, _text_attribute("sentence", claim.sentence))


def _unproven_attributes(item: UnprovenGoal) -> tuple[Attribute, ...]:
    derived = "no bound"
    if item.cost.epsilon is not None:
        derived = f"epsilon {item.cost.epsilon!r}, delta {item.cost.delta!r}"
    values = {
        "mechanism": item.mechanism,
        "sentence": item.sentence,
        "published": item.published,
        "derived": derived,
        "because": "; ".join(item.why),
    }
    return tuple(_text_attribute(name, text) for name, text in values.items())


def _origin_attributes(statement: PrivacyStatement) -> tuple[Attribute, ...]:
    policy = statement.policy
    values = {
        "policy": policy.name,
        "policy version": policy.version,
        "policy digest": policy.digest,
        "engine": statement.engine,
    }
    if statement.mark:
        values["mark"] = statement.mark
    return tuple(_text_attribute(name, text) for name, text in values.items())


def _text_attribute(name: str, value: str | int | float) -> Attribute:
    return Attribute(f"cloakwork:{name}", _text(value) if isinstance(value, str) else value)


def _text(text: str) -> str:
    """Text as XML can hold it."""
    return _UNWRITABLE.sub("\ufffd", text)
