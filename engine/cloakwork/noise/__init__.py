"""The only source of randomness: every draw of the engine comes from here."""

from cloakwork.noise.keyed import NAME_LENGTH, Addresses, Stream
from cloakwork.noise.source import Noise, reproducible, secret, source_of

__all__ = ["NAME_LENGTH", "Addresses", "Noise", "Stream", "reproducible", "secret", "source_of"]
