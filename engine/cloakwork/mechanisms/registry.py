"""The mechanisms there are: ours by name, third parties' by entry point."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint
from typing import Any, Final

from cloakwork.base.errors import MechanismError
from cloakwork.mechanisms.base import Mechanism
from cloakwork.mechanisms.installed import installed_entries, is_ours
from cloakwork.mechanisms.mechanism_names import IN_ORDER, KNOWN_MECHANISMS
from cloakwork.mechanisms.packages import package_of
from cloakwork.mechanisms.third_party import load_mechanism

_ATTRIBUTES: Final = "cloakwork.mechanisms.attributes"

OURS: Final[Mapping[str, str]] = {
    "bound": "cloakwork.mechanisms.bound:BoundContributions",
    "kanon/auto": "cloakwork.mechanisms.kanon.auto:Auto",
    "kanon/optimal": "cloakwork.mechanisms.kanon.optimal:Optimal",
    "kanon/best-first": "cloakwork.mechanisms.kanon.best_first:BestFirst",
    "kanon/a-star": "cloakwork.mechanisms.kanon.a_star:AStar",
    "kanon/pretsa": "cloakwork.mechanisms.kanon.pretsa:Pretsa",
    "kanon/generalise": "cloakwork.mechanisms.kanon.generalise:Generalise",
    "kanon/fill": "cloakwork.mechanisms.kanon.fill:Fill",
    "kanon/tlkc": "cloakwork.mechanisms.kanon.tlkc:Tlkc",
    "kanon/closeness": "cloakwork.mechanisms.kanon.closeness:Closeness",
    "variants/adaptive": "cloakwork.mechanisms.variants.adaptive:VariantAdaptive",
    "variants/threshold": "cloakwork.mechanisms.variants.threshold:VariantThreshold",
    "variants/amun": "cloakwork.mechanisms.variants.amun:VariantAmun",
    "variants/markov": "cloakwork.mechanisms.variants.markov:VariantMarkov",
    "timestamps/laplace": "cloakwork.mechanisms.timestamps.laplace:TimestampLaplace",
    "attributes/histogram": "cloakwork.mechanisms.attributes.histogram:AttributesHistogram",
    "attributes/regression": f"{_ATTRIBUTES}.regression:AttributesRegression",
    "timestamps/histogram": "cloakwork.mechanisms.timestamps.histogram:TimestampHistogram",
    "timestamps/regression": "cloakwork.mechanisms.timestamps.regression:TimestampRegression",
    "attributes/randomised-response": f"{_ATTRIBUTES}.randomised_response:RandomisedResponse",
    "attributes/bounded-laplace": f"{_ATTRIBUTES}.bounded_laplace:BoundedLaplace",
    "attributes/redact": "cloakwork.mechanisms.attributes.redact:Redact",
}
"""Name to ``module:class``; a module loads when its mechanism is used."""


_PLACES: Final = {name: place for place, name in enumerate(IN_ORDER)}


class Catalogue(Mapping[str, Mechanism[Any]]):
    """Mechanisms by name; a mapping that loads each one when it is asked for.

    ``modules``: ours, as ``module:class``. ``others``: ready made. ``entries``: what installed
    packages register. Asking for one of those that is unfit raises MechanismError.
    """

    def __init__(
        self,
        modules: Mapping[str, str],
        others: Mapping[str, Mechanism[Any]] | None = None,
        entries: Mapping[str, EntryPoint] | None = None,
    ) -> None:
        self._modules = dict(modules)
        self._others = dict(others or {})
        self._entries = entries or {}
        self._loaded: dict[str, Mechanism[Any]] = {}

    def __getitem__(self, name: str) -> Mechanism[Any]:
        if name in self._others:
            return self._others[name]
        if name not in self._loaded:
            self._loaded[name] = self._load_mechanism(name)
        return self._loaded[name]

    def _load_mechanism(self, name: str) -> Mechanism[Any]:
        if name in self._entries:
            return load_mechanism(self._entries[name])
        module, _, attribute = self._modules[name].partition(":")
        mechanism: Mechanism[Any] = getattr(import_module(module), attribute)()
        return mechanism

    def __iter__(self) -> Iterator[str]:
        names = (*self._modules, *self._others, *self._entries)
        return iter(sorted(names, key=lambda name: _PLACES.get(name, len(_PLACES))))

    def __contains__(self, name: object) -> bool:
        return name in self._modules or name in self._others or name in self._entries

    def __len__(self) -> int:
        return len(self._modules) + len(self._others) + len(self._entries)

    def with_mechanism(self, mechanism: Mechanism[Any]) -> "Catalogue":
        """This catalogue and one mechanism more, whose name must be new."""
        if mechanism.name in self:
            raise MechanismError(mechanism.name, "a mechanism of this name exists already")
        others = {**self._others, mechanism.name: mechanism}
        return Catalogue(self._modules, others, self._entries)


@cache
def catalogue() -> Catalogue:
    """Our mechanisms, and those that installed packages register under ``cloakwork.mechanisms``:
    ``cloakwork_extras``, which is ours too, and others.

    Raises MechanismError where a package takes a name that is ours, or another package's.
    """
    entries: dict[str, EntryPoint] = {}
    for entry in installed_entries():
        taken = OURS.keys() if is_ours(entry) else {*OURS, *KNOWN_MECHANISMS}
        if entry.name in taken:
            raise package_of(entry).package_error("takes the name of a mechanism of Cloakwork")
        if entry.name in entries:
            other = package_of(entries[entry.name]).package
            raise package_of(entry).package_error(f"takes a name that {other} has taken")
        entries[entry.name] = entry
    return Catalogue(OURS, entries=entries)
