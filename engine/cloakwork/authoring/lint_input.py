"""Advice on ``spec.input`` of a policy for one log: where its file seems to differ from it."""

from pathlib import Path
from typing import Final

from cloakwork.log.formats.detect import detect_input
from cloakwork.log.formats.options import TIMESTAMP, InputOptions
from cloakwork.policy.advice import Advice, named_advice
from cloakwork.policy.model import Policy

_COMPARED: Final = ("encoding", "delimiter", "time_format", "decimal")
_ALIKE: Final = ({"latin-1", "cp1252"}, {"utf-16", "utf-16-le"}, {"utf-16", "utf-16-be"})
"""Encodings that the bytes of most files do not tell apart."""


def lint_input(policy: Policy, path: str | Path) -> tuple[Advice, ...]:
    """Where ``spec.input`` does not seem to fit the file at ``path``; internal, as it comes from
    the log. LogError for what is no readable file.
    """
    stated = policy.spec.input or InputOptions()
    column = stated.columns.get(TIMESTAMP, policy.attribute_with("timestamp"))
    known = dict(stated.columns)
    if column is not None and column not in (TIMESTAMP, *known.values()):
        known[TIMESTAMP] = column
    part = stated.model_copy(update=dict.fromkeys(_COMPARED) | {"columns": known})
    seems = detect_input(path, part)
    found: list[Advice] = []
    if column == TIMESTAMP and TIMESTAMP in seems.columns:
        meant = seems.columns[TIMESTAMP]
        message = f"columns.timestamp is not stated, and this log seems to need {meant!r}"
        found.append(Advice(("spec", "input"), message))
        seems = seems.model_copy(update={"time_format": None})
    elif column is None:
        seems = seems.model_copy(update={"time_format": None})
    for name in _COMPARED:
        said, seen = getattr(stated, name), getattr(seems, name)
        if seen is None or said == seen or {said, seen} in _ALIKE:
            continue
        given = "is not stated" if said is None else f"is {said!r}"
        message = f"{given}, and this log seems to need {seen!r}"
        found.append(Advice(("spec", "input", name), message))
    return tuple(named_advice("input-of-log", found))
