"""What every kind of guarantee says of itself: nothing else needs to know which kinds exist.

There are two families: guarantees that are counted on a release, and guarantees that rest on noise.
A kind that leaves out a part cannot be defined: the import fails, and names what is missing.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from cloakwork.base.costs import Cost, Currency
from cloakwork.base.quantities import Frozen
from cloakwork.guarantees.caveats import GuaranteeCaveat, ReleaseOutline

Direction = Literal["more", "less"]


@dataclass(frozen=True, slots=True)
class LeastGroup:
    """How many released cases, or how many units, share at least what a guarantee speaks of.

    ``symbol``: what the policy calls the number, such as ``k``.
    """

    symbol: str
    least: int
    counts: Literal["cases", "units"]


@dataclass(frozen=True, slots=True)
class GuaranteePrice:
    """What a guarantee may cost at most, in its currency.

    ``shift``: for metric privacy, how far one value may move for that cost. ``per``: for local
    differential privacy, whether the cost is that of a value or of a case.
    """

    currency: Currency
    cost: Cost
    shift: timedelta | None = None
    per: Literal["value", "case"] | None = None


class PrivacyGuarantee(Frozen, ABC):
    """What a policy may ask for and a release may claim.

    ``currency``: what pays for it; None where it is counted on the release and costs nothing.
    ``bounds_values``: whether it bounds what a group of cases tells about an attribute's values.
    ``stricter_if``: for each number that says how strong it is, whether more or less is stricter.
    ``strictest_word``: the same for its words, each with the strictest choice.
    """

    currency: ClassVar[Currency | None]
    bounds_values: ClassVar[bool]
    stricter_if: ClassVar[Mapping[str, Direction]]
    strictest_word: ClassVar[Mapping[str, str]]

    if TYPE_CHECKING:  # fields in some kinds, computed in others: pydantic must not see them here

        @property
        def kind(self) -> str:
            """The name that a policy gives it."""

        @property
        def over(self) -> tuple[str, ...]:
            """The columns that it covers."""

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        """Raise TypeError for a kind that leaves out a part; the two families are no kinds."""
        super().__pydantic_init_subclass__(**options)
        if "kind" not in cls.model_fields:
            return
        declared = ("currency", "bounds_values", "stricter_if", "strictest_word", "over")
        known = {*cls.model_fields, *(name for each in cls.__mro__ for name in vars(each))}
        missing = {*cls.__abstractmethods__, *(name for name in declared if name not in known)}
        if missing:
            raise TypeError(f"the guarantee {cls.__name__} leaves out {', '.join(sorted(missing))}")

    @abstractmethod
    def sentence(self) -> str:
        """Say it to a person."""

    @abstractmethod
    def compared_logs(self) -> str | None:
        """Which two logs an attacker can hardly distinguish, in words; None where none are
        compared.
        """

    @abstractmethod
    def price(self) -> GuaranteePrice | None:
        """What it may cost at most; None where it costs nothing."""

    @abstractmethod
    def least_group(self) -> LeastGroup | None:
        """How many cases or units share what it speaks of; None where it counts none."""

    @abstractmethod
    def quasi_identifiers(self) -> tuple[str, ...]:
        """The attributes by whose written values it groups cases."""

    @abstractmethod
    def hides_presence(self) -> bool:
        """Whether it hides if a unit is in the source log at all."""

    @abstractmethod
    def hides_attribute_names(self) -> bool:
        """Whether the names of a log's attributes are data that it must hide."""

    @abstractmethod
    def takes_columns_as_known(self) -> bool:
        """Whether it holds given all that is released beside the columns that it covers."""

    @abstractmethod
    def caveats(self, release: ReleaseOutline) -> Iterator[GuaranteeCaveat]:
        """What it leaves open on such a release."""

    @classmethod
    def default_columns(cls) -> tuple[str, ...]:
        """The columns that it covers where a policy names none."""
        over = cls.model_fields.get("over")
        return () if over is None or over.is_required() else tuple(over.default)

    @classmethod
    def columns_as_written(
        cls, written: Mapping[str, Any]
    ) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """The columns and attributes that ``written``, an entry of a policy, covers.

        Each comes with its place in the entry. Nothing about the entry's shape is taken for
        granted.
        """
        over = written.get("over")
        listed = over if isinstance(over, list) else cls.default_columns()
        for position, name in enumerate(listed):
            if isinstance(name, str):
                yield ("over", position), name
        if isinstance(written.get("attribute"), str):
            yield ("attribute",), written["attribute"]


class CountedGuarantee(PrivacyGuarantee):
    """A guarantee that is counted on the released log: it costs nothing and compares no logs."""

    currency: ClassVar[Currency | None] = None

    def compared_logs(self) -> str | None:
        """None: it speaks of one release."""
        return None

    def price(self) -> GuaranteePrice | None:
        """None: it draws on no budget."""
        return None

    def hides_presence(self) -> bool:
        """No."""
        return False

    def hides_attribute_names(self) -> bool:
        """No: every name is taken as given."""
        return False

    def takes_columns_as_known(self) -> bool:
        """No: it speaks of its own columns alone."""
        return False


class NoiseGuarantee(PrivacyGuarantee):
    """A guarantee that rests on noise: it bounds probabilities and draws on the budget."""

    bounds_values: ClassVar[bool] = False

    if TYPE_CHECKING:

        @property
        def epsilon(self) -> float:
            """How much one may learn at most."""

    @abstractmethod
    def price(self) -> GuaranteePrice:
        """What it may cost at most."""

    def least_group(self) -> LeastGroup | None:
        """None: it counts no groups."""
        return None

    def quasi_identifiers(self) -> tuple[str, ...]:
        """None: it groups no cases."""
        return ()
