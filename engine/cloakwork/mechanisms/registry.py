"""The mechanisms there are: ours by name, third parties' by entry point."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Final

from cloakwork.errors import MechanismError
from cloakwork.mechanisms.base import Mechanism

ENTRY_POINTS: Final = "cloakwork.mechanisms"

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
    "variants/libra": "cloakwork.mechanisms.variants.libra:VariantLibra",
    "variants/amun-published": "cloakwork.mechanisms.variants.amun_published:VariantAmunPublished",
    "variants/libra-published": "cloakwork.mechanisms.variants.libra_published:VariantLibraPublished",
    "variants/prefix-tree": "cloakwork.mechanisms.variants.prefix_tree:PrefixTree",
    "variants/sacofa": "cloakwork.mechanisms.variants.sacofa:Sacofa",
    "variants/prefix-tree-published": "cloakwork.mechanisms.variants.published_trees:PublishedPrefixTree",
    "variants/sacofa-published": "cloakwork.mechanisms.variants.published_trees:PublishedSacofa",
    "variants/markov": "cloakwork.mechanisms.variants.markov:VariantMarkov",
    "dfg/laplace": "cloakwork.mechanisms.variants.dfg_laplace:DfgLaplace",
    "timestamps/laplace": "cloakwork.mechanisms.timestamps.laplace:TimestampLaplace",
    "attributes/redact": "cloakwork.mechanisms.attributes.redact:Redact",
}
"""Name to ``module:class``, in the order in which the planner tries them; a module loads when its
mechanism is used.
"""


class Catalogue(Mapping[str, Mechanism[Any]]):
    """Mechanisms by name; a mapping that loads each one when it is asked for."""

    def __init__(
        self, homes: Mapping[str, str], others: Mapping[str, Mechanism[Any]] | None = None
    ) -> None:
        self._homes, self._others = dict(homes), dict(others or {})
        self._loaded: dict[str, Mechanism[Any]] = {}

    def __getitem__(self, name: str) -> Mechanism[Any]:
        if name in self._others:
            return self._others[name]
        if name not in self._loaded:
            module, _, attribute = self._homes[name].partition(":")
            self._loaded[name] = getattr(import_module(module), attribute)()
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*self._homes, *self._others))

    def __len__(self) -> int:
        return len(self._homes) + len(self._others)

    def with_mechanism(self, mechanism: Mechanism[Any]) -> "Catalogue":
        """This catalogue and one mechanism more, whose name must be new."""
        if mechanism.name in self:
            raise MechanismError(mechanism.name, "a mechanism of this name exists already")
        return Catalogue(self._homes, {**self._others, mechanism.name: mechanism})


@cache
def catalogue() -> Catalogue:
    """Our mechanisms and those that installed packages register under ``cloakwork.mechanisms``."""
    found = Catalogue(OURS)
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            mechanism = entry.load()()
        except Exception as error:
            raise MechanismError(
                entry.name, f"cannot be loaded from {entry.value}: {error}"
            ) from error
        found = found.with_mechanism(mechanism)
    return found
