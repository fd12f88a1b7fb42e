"""The only source of randomness: every draw of the engine comes from here."""

from cloakwork.noise.source import (
    LARGEST_SCALE,
    NAME_LENGTH,
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
    "Noise",
    "drawn_rate",
    "drawn_scale",
    "drawn_sigma",
    "reproducible",
    "secret",
]
