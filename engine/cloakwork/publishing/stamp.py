"""The stamp: what a released log says about itself, in XES log attributes.

It uses two extensions. *Privacy* is Rafiei and van der Aalst's ("Privacy-Preserving Data
Publishing in Process Mining", BPM Forum 2020): which operations were run, at which level, on what.
*Cloakwork* says what is guaranteed, what is exposed, and which signed statement belongs to the log.
Neither holds anything from the raw log. What belongs together stands in lists, since readers such
as pm4py's drop attributes nested below a text.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue

from cloakwork.base.errors import LogError, VerificationFailed, first_line
from cloakwork.base.facts import Unit
from cloakwork.base.lineage import CONTROL_FLOW
from cloakwork.log.formats import Attribute, Extension, InputOptions, read_annotations
from cloakwork.log.formats.xes_write import FORBIDDEN, paths_and_texts
from cloakwork.plan.model import Plan
from cloakwork.publishing.folder import read_document
from cloakwork.publishing.keys import read_json
from cloakwork.publishing.statement import (
    ExposedColumn,
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

COLUMNS: Final = "cloakwork:columns"
_SCHEMA: Final = "ARROW:schema"
_OPERATIONS: Final = {
    "suppression": ("attributes/redact", "bound", "kanon/tlkc"),
    "condensation": (
        "kanon/auto",
        "kanon/optimal",
        "kanon/best-first",
        "kanon/a-star",
        "kanon/pretsa",
        "kanon/generalise",
        "kanon/fill",
        "kanon/closeness",
    ),
    "substitution": ("dfg/laplace",),
}
"""Our mechanisms in the extension's words. Of any other step its lineage tells: one that measures
adds noise, which counts as *addition* there, and one that does not is a *substitution*. A stamp
must follow from the plan alone, also where the step's package is not installed.
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
    unproven = [_unproven_attributes(item) for item in statement.unproven]
    exposed = [_exposed_attributes(column) for column in statement.exposed]
    guarantees = [_guarantee_attributes(claim, statement) for claim in statement.guarantees]
    lists = (
        _numbered_list("cloakwork:UNPROVEN", "cloakwork:unproven", unproven),
        _numbered_list("privacy:anonymizations", "privacy:anonymizer", [*_anonymizers(plan)]),
        _numbered_list("cloakwork:exposed", "cloakwork:exposed", exposed),
        _numbered_list("cloakwork:guarantees", "cloakwork:guarantee", guarantees),
    )
    policy = statement.policy
    origin = {
        "statement": predicate_digest(statement),
        "policy": policy.name,
        "policy version": policy.version,
        "policy digest": policy.digest,
        "engine": statement.engine,
    }
    if statement.mark:
        origin["mark"] = statement.mark
    return (*(each for each in lists if each.children), *_text_attributes(origin))


def _numbered_list(key: str, entry: str, entries: list[tuple[Attribute, ...]]) -> Attribute:
    """A list of lists: ``entry`` with its number, from 1, is the key of each."""
    numbered = [Attribute(f"{entry}{n}", None, said) for n, said in enumerate(entries, start=1)]
    return Attribute(key, None, tuple(numbered))


def _anonymizers(plan: Plan) -> Iterator[tuple[Attribute, ...]]:
    """Every operation of every step, in the words of the extension *Privacy*."""
    treatments = {item.column: item.treatment for item in plan.attributes}
    for step in plan.steps:
        by_lineage = "addition" if step.lineage.measures else "substitution"
        own_words = [word for word, names in _OPERATIONS.items() if step.mechanism in names]
        default_word = own_words[0] if own_words else by_lineage
        # A step may treat each of its columns otherwise.
        operations: dict[str, list[str]] = {}
        for column in sorted(step.lineage.writes) or [_ALL]:
            word = default_word
            if column != _ALL:
                word = _TREATMENTS.get(treatments.get(column, ""), default_word)
            operations.setdefault(word, []).append(column)
        for word, targets in operations.items():
            # A step that rewrites the control flow works on cases, any other on attributes.
            rewrites_cases = bool({CONTROL_FLOW, _ALL} & set(targets))
            if step.mechanism == "attributes/redact":
                rewrites_cases = False
            yield (
                Attribute("privacy:operation type", word),
                Attribute("privacy:level", "case" if rewrites_cases else "attribute"),
                Attribute("privacy:target", _writable_text(", ".join(targets))),
                *_text_attributes({"mechanism": step.mechanism}),
            )


def _unproven_attributes(item: UnprovenGoal) -> tuple[Attribute, ...]:
    derived = "no bound"
    if item.cost.epsilon is not None:
        derived = f"epsilon {item.cost.epsilon!r}, delta {item.cost.delta!r}"
    return _text_attributes(
        {
            "mechanism": item.mechanism,
            "sentence": item.sentence,
            "published": item.published,
            "derived": derived,
            "because": "; ".join(item.why),
        }
    )


def _exposed_attributes(column: ExposedColumn) -> tuple[Attribute, ...]:
    names = {"names": ", ".join(column.names)} if column.names else {}
    # The reason is the policy's own text, or follows from the record and may be reworded.
    reason_key = "reason" if column.why.kind == "policy" else "because"
    return _text_attributes(
        {
            "column": column.column,
            **names,
            "why": column.why.kind,
            "tells": column.says,
            reason_key: column.reason,
        }
    )


def _guarantee_attributes(
    claim: StatedGuarantee, statement: PrivacyStatement
) -> tuple[Attribute, ...]:
    """The guarantee's parameters, figures as figures, columns in one line; then what it takes as
    known.
    """
    values = claim.guarantee.model_dump(mode="json", exclude={"kind", "unit"}, exclude_none=True)
    unit = statement.unit
    if claim.guarantee.employees is not None:
        unit = Unit(attribute=claim.guarantee.employees, level="event")
    if claim.given is not None:
        values["given"] = claim.given.columns
    figures = {
        name: ", ".join(value) if isinstance(value, list | tuple) else value
        for name, value in values.items()
    }
    return (
        *_text_attributes({"kind": claim.guarantee.kind, "unit": str(unit)}),
        *_text_attributes(figures),
        *_text_attributes({"sentence": claim.sentence}),
    )


def _text_attributes(values: Mapping[str, str | int | float]) -> tuple[Attribute, ...]:
    """Attributes of our own extension; the texts as XML can hold them."""
    return tuple(
        Attribute(
            f"cloakwork:{name}",
            _writable_text(value) if isinstance(value, str) else value,
        )
        for name, value in values.items()
    )


def _writable_text(text: str) -> str:
    return re.sub(FORBIDDEN, "\ufffd", text)


def sidecar(plan: Plan, statement: PrivacyStatement) -> dict[str, JsonValue]:
    """What stands beside a CSV log: its stamp, the names of its columns (the attribute: the
    column), and where it lies and its delimiter as W3C's metadata of tables have them.
    """
    written = plan.output.options or InputOptions()
    return {
        "@context": "http://www.w3.org/ns/csvw",
        "url": f"log.{plan.output.format}",
        "dialect": {"delimiter": written.delimiter or ","},
        COLUMNS: {**written.columns},
        **paths_and_texts(stamp(plan, statement)),
    }


def read_stamp(log: Path) -> dict[str, Any]:
    """What a released log says of itself: values by the path of keys that leads to them.

    XES: every attribute of the log element. Parquet: the metadata in the file's footer. Of CSV the
    file beside it is asked, whose values may be objects. Raises LogError.
    """
    if log.suffix == ".json":
        try:
            found = read_json(read_document(log))
        except (VerificationFailed, ValueError) as error:
            raise LogError(log, f"is no readable JSON ({first_line(error)})") from error
        return found if isinstance(found, dict) else {}
    if log.suffix != ".parquet":
        return paths_and_texts(read_annotations(log))
    import polars as pl

    try:
        metadata = pl.read_parquet_metadata(log)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise LogError(log, f"its metadata cannot be read ({first_line(error)})") from error
    return {name: text for name, text in metadata.items() if name != _SCHEMA}


def differences(
    expected: Mapping[str, JsonValue], found: Mapping[str, JsonValue]
) -> tuple[str, ...]:
    """How a stamp that was read differs from the one that belongs there, one line each; empty when
    they state the same.

    Sentences are not compared: they follow from the parameters beside them.
    """
    compared = {
        place: text for place, text in expected.items() if place.rpartition("/")[2] not in _PROSE
    }
    missing = [f"{place} is missing" for place in compared if place not in found]
    unknown = [f"{place!a} does not belong there" for place in found if place not in expected]
    changed = [
        f"{place} says {found[place]!a}, the statement {text!a}"
        for place, text in compared.items()
        if found.get(place, text) != text
    ]
    return (*missing, *unknown, *changed)
