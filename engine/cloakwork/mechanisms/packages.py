"""The packages that bring mechanisms, and how errors name them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any, ParamSpec, TypeVar

from cloakwork.base.errors import CloakworkError, MechanismError, first_line

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Package:
    """Who brings a mechanism: ``name`` of the mechanism, ``package`` with its version."""

    name: str
    package: str

    def package_error(self, message: str) -> MechanismError:
        """One line that names the package."""
        return MechanismError(self.name, f"(package {self.package}) {message}")

    @contextmanager
    def errors_attributed(self, what: str) -> Iterator[None]:
        """Tell what is raised inside as this package's; errors of our tree say it themselves."""
        try:
            yield
        except CloakworkError:
            raise
        except Exception as error:
            said = f"{what}: {type(error).__name__}: {first_line(error)}"
            raise self.package_error(said.rstrip(": ")) from error

    def guarded(self, function: Callable[P, T], what: str) -> Callable[P, T]:
        """``function`` of this package, whose errors name it."""

        def call(*args: P.args, **more: P.kwargs) -> T:
            with self.errors_attributed(what):
                return function(*args, **more)

        return call

    def require_type(self, value: Any, kinds: type[T] | tuple[type[T], ...], what: str) -> T:
        """``value``, if it has the type that the protocol names."""
        if isinstance(value, kinds):
            return value
        expected = kinds if isinstance(kinds, tuple) else (kinds,)
        names = " or ".join(kind.__name__ for kind in expected)
        raise self.package_error(f"{what} returned {type(value).__name__}, not {names}")


def package_of(entry: EntryPoint) -> Package:
    """The package that registers ``entry``."""
    found = entry.dist
    named = "of unknown name" if found is None else f"{found.name} {found.version}"
    return Package(entry.name, named)
