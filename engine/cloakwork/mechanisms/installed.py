"""The names of mechanisms: those of version 1, and those that installed packages register. None of
their code is loaded.
"""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import Distribution, EntryPoint, entry_points
from typing import Final

from cloakwork.base.globs import is_glob

MECHANISMS: Final[Mapping[str, str | None]] = {
    "bound": "bound:BoundContributions",
    "kanon/auto": None,
    "kanon/optimal": "kanon.optimal:Optimal",
    "kanon/best-first": None,
    "kanon/a-star": None,
    "kanon/pretsa": None,
    "kanon/employees": "kanon.employees:Employees",
    "kanon/generalise": "kanon.generalise:Generalise",
    "kanon/fill": "kanon.fill:Fill",
    "kanon/tlkc": "kanon.tlkc:Tlkc",
    "kanon/closeness": "kanon.closeness:Closeness",
    "variants/adaptive": "variants.adaptive:VariantAdaptive",
    "variants/threshold": "variants.threshold:VariantThreshold",
    "variants/amun": None,
    "variants/libra": None,
    "variants/amun-published": None,
    "variants/libra-published": None,
    "variants/prefix-tree": None,
    "variants/sacofa": None,
    "variants/prefix-tree-published": None,
    "variants/sacofa-published": None,
    "variants/pripel-published": None,
    "variants/travag-published": None,
    "variants/ddpm-published": None,
    "variants/markov": "variants.markov:VariantMarkov",
    "variants/travag": None,
    "variants/ddpm": None,
    "variants/transformer": None,
    "dfg/laplace": None,
    "timestamps/laplace": "timestamps.laplace:TimestampLaplace",
    "attributes/regression": "attributes.histogram:AttributesRegression",
    "attributes/histogram": "attributes.histogram:AttributesHistogram",
    "timestamps/regression": "timestamps.regression:TimestampRegression",
    "timestamps/histogram": "timestamps.histogram:TimestampHistogram",
    "attributes/randomised-response": "attributes.local:RandomisedResponse",
    "attributes/bounded-laplace": "attributes.local:BoundedLaplace",
    "attributes/redact": "attributes.redact:Redact",
    "pripel": None,
    "attributes/drop": None,
    "attributes/generalise": None,
    "attributes/pseudonymise": None,
}
"""Every mechanism that a policy of version 1 may name, in the order in which they are listed and
the planner tries them: the ``module:class`` below ``cloakwork.mechanisms`` that is it; None where
an installed package brings it, or none does.
"""

KNOWN_MECHANISMS: Final = frozenset(MECHANISMS)

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
    return entry.dist is not None and _name_of(entry.dist) == "cloakwork"


@cache
def _name_of(package: Distribution) -> str:
    # Each question for the name parses the whole metadata of a package.
    return package.name


def installed_names() -> frozenset[str]:
    """Mechanisms that installed packages bring beside the core."""
    return frozenset(entry.name for entry in installed_entries())
