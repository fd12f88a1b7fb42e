"""The only source of randomness: every draw of the engine comes from here."""

from cloakwork.noise.keyed import LARGEST_SCALE, NAME_LENGTH, Addresses, Stream
from cloakwork.noise.source import (
    Noise,
    drawn_rate,
    drawn_scale,
    drawn_sigma,
    reproducible,
    secret,
)

__all__ = [
    "LARGEST_SCALE",
    "NAME_LENGTH",
    "Addresses",
    "Noise",
    "Stream",
    "drawn_rate",
    "drawn_scale",
    "drawn_sigma",
    "reproducible",
    "secret",
]
