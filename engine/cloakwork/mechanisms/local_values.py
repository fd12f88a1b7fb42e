"""The shape of mechanisms that randomise each value of an attribute by itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from pydantic import JsonValue

from cloakwork.kernel.local import Randomisation


@dataclass(frozen=True, slots=True)
class PublicValues:
    """What the codes of an attribute stand for: the places in ``domain``, or so many equal
    ``steps`` from the least to the largest number of ``range``, rounded where they are of type
    ``integer``.
    """

    domain: tuple[JsonValue, ...] | None = None
    range: tuple[float, float] | None = None
    steps: int = 0
    integer: bool = False


@runtime_checkable
class Randomises(Protocol):
    """A mechanism that puts a noisy value in the place of each value, and never sees one."""

    def randomises(self, params: Any) -> Randomisation:
        """The noise on each attribute, which its ``event`` charges for."""
        ...

    def public_values(self, params: Any) -> Mapping[str, PublicValues]:
        """What the codes of each attribute stand for."""
        ...
