"""The mechanisms there are: ours by name, those of installed packages by entry point, loaded when
they are used and held to what they declare.

Whatever goes wrong in one of another package is told in one line that names it. What they do to a
log is checked as it is of ours: by the kinds of step (``mechanisms.steps``) and where steps are
taken.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import EntryPoint
from typing import Any, Final, ParamSpec, TypeVar, cast, get_args

from pydantic import BaseModel

from cloakwork.base.errors import CloakworkError, MechanismError, first_line
from cloakwork.base.facts import Facts
from cloakwork.base.frozen import frozen
from cloakwork.guarantees import Guarantee
from cloakwork.mechanisms.base import (
    Device,
    Gives,
    Mechanism,
    Offer,
    Options,
    PartOfGoal,
    Prediction,
    Proof,
    Refusal,
    Theorem,
)
from cloakwork.mechanisms.installed import (
    ENTRY_POINTS,
    KNOWN_MECHANISMS,
    MECHANISMS,
    installed_entries,
    is_ours,
)
from cloakwork.mechanisms.steps import ContradictingStep, RewriteStep, StepKind

P = ParamSpec("P")
T = TypeVar("T")


@frozen
class Package:
    """Who brings a mechanism: ``name`` of the mechanism, ``package`` with its version; None where
    it is Cloakwork, whose own errors are told as they are.
    """

    name: str
    package: str | None

    def fault(self, message: str) -> MechanismError:
        """One line that names the package."""
        by = "" if self.package is None else f"(package {self.package}) "
        return MechanismError(self.name, f"{by}{message}")

    @contextmanager
    def errors_attributed(self, what: str) -> Iterator[None]:
        """Tell what is raised inside as this package's; errors of our tree say it themselves."""
        try:
            yield
        except CloakworkError:
            raise
        except Exception as error:
            if self.package is None:
                raise
            said = f"{what}: {type(error).__name__}: {first_line(error)}"
            raise self.fault(said.rstrip(": ")) from error

    def held(
        self,
        function: Callable[P, Any],
        returns: type[T],
        what: str,
    ) -> Callable[P, T]:
        """``function`` of this package, called ``what`` where it fails or returns another type."""

        def call(*args: P.args, **more: P.kwargs) -> T:
            with self.errors_attributed(f"{what} failed"):
                found = function(*args, **more)
            return self.require_type(found, returns, what)

        return call

    def require_type(
        self,
        value: Any,
        kinds: type[T] | tuple[type[T], ...],
        what: str,
    ) -> T:
        """``value``, if it has the type that the protocol names."""
        if isinstance(value, kinds):
            return value
        expected = kinds if isinstance(kinds, tuple) else (kinds,)
        names = " or ".join(kind.__name__ for kind in expected)
        raise self.fault(f"{what} returned {type(value).__name__}, not {names}")


def source_of(entry: EntryPoint) -> Package:
    """Who registers ``entry``."""
    found = entry.dist
    named = "of unknown name" if found is None else f"{found.name} {found.version}"
    return Package(entry.name, named)


def load(entry: EntryPoint, source: Package) -> Mechanism[Any]:
    """The mechanism that ``entry`` registers, held to what it declares where another package brings
    it; raises MechanismError where it is unfit.
    """
    # Whatever a package does while it is imported is told as its own.
    with source.errors_attributed(f"cannot be loaded from {entry.value}"):
        found = entry.load()
        if not (isinstance(found, type) and issubclass(found, Mechanism)):
            raise source.fault(
                f"is no subclass of cloakwork.mechanisms.base.Mechanism ({entry.value})"
            )
        mechanism: Mechanism[Any] = found()
    _require_introduction(mechanism, source)
    if source.package is None:
        return mechanism
    # What a class declares for all its objects, this one has for itself.
    return cast("Mechanism[Any]", OfPackage(mechanism, source))


def _require_introduction(mechanism: Mechanism[Any], package: Package) -> None:
    """Refuse a class that does not declare what the planner and the reports go by."""
    name = getattr(mechanism, "name", None)
    if name != package.name:
        raise package.fault(f"calls itself {name!r}; its entry point says '{package.name}'")
    for attribute, kind in (("summary", str), ("theorem", Theorem), ("gives", tuple)):
        if not isinstance(getattr(mechanism, attribute, None), kind):
            raise package.fault(f"declares no {attribute} ({kind.__name__})")
    if not all(isinstance(each, Gives) for each in mechanism.gives):
        raise package.fault("declares no gives (tuple of Gives)")
    if getattr(mechanism, "proof", None) not in get_args(Proof):
        known = " or ".join(f"'{each}'" for each in get_args(Proof))
        raise package.fault(f"declares no proof: {known}")
    params = getattr(mechanism, "Params", None)
    if not (isinstance(params, type) and issubclass(params, BaseModel)):
        raise package.fault("declares no Params (a pydantic model)")


class OfPackage:
    """A mechanism of another package; each method is the mechanism's, and its result is checked.

    All that it declares is the mechanism's own (``__getattr__``).
    """

    def __init__(self, mechanism: Mechanism[Any], source: Package) -> None:
        self._mechanism = mechanism
        self._source = source
        self.package = source.package
        self.__doc__ = mechanism.__doc__

    def __getattr__(self, declared: str) -> Any:
        # Asked for what this object itself lacks, as while it is copied.
        if declared.startswith("_"):
            raise AttributeError(declared)
        return getattr(self._mechanism, declared)

    def offer(
        self,
        goal: Guarantee,
        facts: Facts,
        options: Options,
    ) -> Offer[Any] | Refusal:
        """Its offer, for kinds that it declares only; ``why`` then names the package."""
        offer = self._offered("offer", goal, facts, options)
        if isinstance(offer, Offer) and goal.kind not in {each.kind for each in self.gives}:
            raise self._source.fault(f"offers {goal.kind}, which it does not declare to give")
        return offer

    def offer_part(
        self,
        part: PartOfGoal,
        facts: Facts,
        options: Options,
    ) -> Offer[Any] | Refusal:
        """Its offer for a part of a goal; ``why`` then names the package."""
        return self._offered("offer_part", part, facts, options)

    def _offered(self, method: str, *asked: object) -> Offer[Any] | Refusal:
        with self._source.errors_attributed(f"{method} failed"):
            answer = getattr(self._mechanism, method)(*asked)
        if isinstance(answer, Refusal):
            return answer
        # A plan is made of what is offered: its types are what it is proved by.
        offer: Offer[Any] = self._source.require_type(answer, Offer, method)
        self._source.require_type(offer.params, self.Params, method)
        return Offer(offer.params, f"{offer.why} (package {self.package})")

    def step(self, params: Any, facts: Facts) -> StepKind:
        """What it does, with a proof that is known of such a step."""
        with self._source.errors_attributed("step failed"):
            try:
                found = self._mechanism.step(params, facts)
            except ContradictingStep as error:
                raise self._source.fault(str(error)) from error
        step: StepKind = self._source.require_type(found, get_args(StepKind), "step")
        # Nobody takes a proof for more than is known of it.
        if isinstance(step, RewriteStep) and self.proof == "kernel":
            raise self._source.fault("asks no kernel that would enforce its guarantee")
        if not isinstance(step, RewriteStep) and self.proof == "proved":
            said = "measures the log, so what is known of it is what the kernel enforces: its proof"
            raise self._source.fault(f"{said} is 'kernel', or 'published'")
        return step

    def predict(self, params: Any, facts: Facts) -> Prediction | None:
        """Its prediction."""
        with self._source.errors_attributed("predict failed"):
            predicted = self._mechanism.predict(params, facts)
        if predicted is None:
            return None
        return self._source.require_type(predicted, Prediction, "predict")

    def training_device(self) -> Device:
        """Where it says that it trains."""
        with self._source.errors_attributed("training_device failed"):
            return self._mechanism.training_device()

    def training_seconds(
        self,
        params: Any,
        facts: Facts,
        device: Device,
    ) -> float | None:
        """How long it says that training takes."""
        with self._source.errors_attributed("training_seconds failed"):
            return self._mechanism.training_seconds(params, facts, device)


OURS: Final[Mapping[str, str]] = {
    name: f"cloakwork.mechanisms.{place}" for name, place in MECHANISMS.items() if place is not None
}
"""Name to ``module:class``; a module loads when its mechanism is used."""

_PLACES: Final = {name: place for place, name in enumerate(MECHANISMS)}


class Catalogue(Mapping[str, Mechanism[Any]]):
    """Mechanisms by name; a mapping that loads each one when it is asked for.

    ``modules``: ours, as ``module:class``. ``entries``: what installed packages register. Asking
    for one of those that is unfit raises MechanismError.
    """

    def __init__(
        self,
        modules: Mapping[str, str],
        entries: Mapping[str, EntryPoint],
    ) -> None:
        self._modules = modules
        self._entries = entries
        self._loaded: dict[str, Mechanism[Any]] = {}
        names = (*modules, *entries)
        # In the order in which the planner tries them; those of other packages come last.
        self._names = sorted(names, key=lambda name: _PLACES.get(name, len(_PLACES)))

    def __getitem__(self, name: str) -> Mechanism[Any]:
        if name not in self._loaded:
            entry = self._entries.get(name)
            source = Package(name, None)
            if entry is None:
                entry = EntryPoint(name, self._modules[name], ENTRY_POINTS)
            elif not is_ours(entry):
                source = source_of(entry)
            self._loaded[name] = load(entry, source)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._modules or name in self._entries

    def __len__(self) -> int:
        return len(self._names)


@cache
def catalogue() -> Catalogue:
    """Our mechanisms, and those that installed packages register under ``cloakwork.mechanisms``:
    ``cloakwork_extras``, which is ours too, and others.

    Raises MechanismError where a package takes a name that is ours, or another package's.
    """
    # No code of a package is loaded here: names alone are judged.
    entries: dict[str, EntryPoint] = {}
    for entry in installed_entries():
        source = source_of(entry)
        # Extras may take names that the core leaves to them; other packages none that is known.
        taken = OURS.keys() if is_ours(entry) else {*OURS, *KNOWN_MECHANISMS}
        if entry.name in taken:
            raise source.fault("takes the name of a mechanism of Cloakwork")
        if entry.name in entries:
            other = source_of(entries[entry.name]).package
            raise source.fault(f"takes a name that {other} has taken")
        entries[entry.name] = entry
    return Catalogue(OURS, entries)


def options_of(name: str) -> Mapping[str, str] | None:
    """What a policy may set for a mechanism of Cloakwork, loaded if need be; None where there is
    none of this name: what mechanisms of other packages accept, only they know.
    """
    entries = {each.name: each for each in installed_entries() if is_ours(each)}
    ours = Catalogue(OURS, entries)
    return ours[name].options if name in ours else None
