"""What the noisy values of an attribute stand for."""

from dataclasses import dataclass

from pydantic import JsonValue


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
