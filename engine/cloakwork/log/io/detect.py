"""What ``spec.input`` of a policy for a file may be: proposals to its author, found in the file.

Never used where a release is made: there the policy says how its log is read.
"""

from dataclasses import dataclass
from pathlib import Path

from cloakwork.log.io.options import InputOptions


@dataclass(frozen=True, slots=True)
class DetectedInput:
    """Proposed ``options``; ``questions``: what the file leaves open, one sentence each, such as
    whether the day or the month comes first. Internal, as both come from the log.
    """

    options: InputOptions
    questions: tuple[str, ...] = ()


def detect_input(path: str | Path) -> InputOptions:
    """The options that a file seems to need, to be confirmed by the policy's author; what cannot
    be told is left out.
    """
    return examine_input(path).options


def examine_input(path: str | Path) -> DetectedInput:
    """As ``detect_input``, with what the file leaves open."""
    raise NotImplementedError(str(path))
