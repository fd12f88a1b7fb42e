"""Advice on ``spec.input`` of a policy for one log: where the file seems to be otherwise."""

from pathlib import Path
from typing import Final

from cloakwork.log.io.detect import detect_input
from cloakwork.log.io.options import InputOptions
from cloakwork.policy.advice import Advice
from cloakwork.policy.model import Policy

_COMPARED: Final = ("encoding", "delimiter", "time_format", "decimal")
_ALIKE: Final = ({"latin-1", "cp1252"}, {"utf-16", "utf-16-le"}, {"utf-16", "utf-16-be"})
"""Encodings that the bytes of most files do not tell apart."""


def lint_input(policy: Policy, path: str | Path) -> tuple[Advice, ...]:
    """Where ``spec.input`` does not seem to fit the file at ``path``; internal, as it comes from
    the log. LogError for what is no readable file.
    """
    stated = policy.spec.input or InputOptions()
    seems = detect_input(path)
    found: list[Advice] = []
    for name in _COMPARED:
        said, seen = getattr(stated, name), getattr(seems, name)
        if seen is None or said == seen or {said, seen} in _ALIKE:
            continue
        given = "is not stated" if said is None else f"is {said!r}"
        message = f"{given}, and this log seems to need {seen!r}"
        found.append(Advice(("spec", "input", name), message))
    return tuple(found)
