"""The names of mechanisms: those of version 1, and those that installed packages register. None of
their code is loaded.
"""

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from cloakwork.base.globs import is_glob

IN_ORDER: Final = (
    "bound",
    "kanon/auto",
    "kanon/optimal",
    "kanon/best-first",
    "kanon/a-star",
    "kanon/pretsa",
    "kanon/generalise",
    "kanon/fill",
    "kanon/tlkc",
    "kanon/closeness",
    "variants/adaptive",
    "variants/threshold",
    "variants/amun",
    "variants/libra",
    "variants/amun-published",
    "variants/libra-published",
    "variants/prefix-tree",
    "variants/sacofa",
    "variants/prefix-tree-published",
    "variants/sacofa-published",
    "variants/pripel-published",
    "variants/travag-published",
    "variants/ddpm-published",
    "variants/markov",
    "variants/travag",
    "variants/ddpm",
    "variants/transformer",
    "dfg/laplace",
    "timestamps/laplace",
    "attributes/histogram",
    "attributes/regression",
    "timestamps/histogram",
    "timestamps/regression",
    "attributes/randomised-response",
    "attributes/bounded-laplace",
    "attributes/redact",
    "pripel",
    "attributes/drop",
    "attributes/generalise",
    "attributes/pseudonymise",
)
"""Every mechanism name that a policy of version 1 may speak of, built and installed or not, in the
order in which they are listed and the planner tries them.
"""

KNOWN_MECHANISMS: Final = frozenset(IN_ORDER)

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
