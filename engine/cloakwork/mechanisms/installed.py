"""The names of mechanisms that installed packages register; none of their code is loaded."""

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from cloakwork.base.globs import is_glob
from cloakwork.mechanisms.mechanism_names import KNOWN_MECHANISMS

ENTRY_POINTS: Final = "cloakwork.mechanisms"
"""The group under which a package registers ``name = "module:class"``."""


@cache
def installed_entries() -> tuple[EntryPoint, ...]:
    """What installed packages register, ``cloakwork_extras`` among them, sorted by name.

    A name that reads as a glob is no name: in a policy it would stand for mechanisms of ours.
    """
    named = (entry for entry in entry_points(group=ENTRY_POINTS) if not is_glob(entry.name))
    return tuple(sorted(named, key=lambda entry: entry.name))


def is_ours(entry: EntryPoint) -> bool:
    """Whether Cloakwork's own distribution registers it."""
    return entry.dist is not None and entry.dist.name == "cloakwork"


def installed_names() -> frozenset[str]:
    """Mechanisms that installed packages bring beside the core."""
    return frozenset(entry.name for entry in installed_entries())


def known_names() -> frozenset[str]:
    """Every mechanism that a policy may name here: version 1's, and those of other packages."""
    return KNOWN_MECHANISMS | installed_names()
