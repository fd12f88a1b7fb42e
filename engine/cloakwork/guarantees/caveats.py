"""What a kind of guarantee leaves open, as records; ``plan.sentences`` puts them into words."""

from dataclasses import dataclass
from typing import Literal

from cloakwork.base.quantities import Frozen


@dataclass(frozen=True, slots=True)
class ReleaseOutline:
    """What a kind needs to know of a release in order to say what it leaves open.

    ``unit_attribute``: the attribute that identifies units of privacy; None where each case is one.
    ``sensitive``: released sensitive attributes whose values no guarantee bounds.
    ``beside_times``: released columns other than control flow, times and form.
    """

    unit_attribute: str | None = None
    sensitive: tuple[str, ...] = ()
    beside_times: tuple[str, ...] = ()


class Homogeneity(Frozen):
    """Sensitive attributes are released beside k-anonymity alone."""

    kind: Literal["homogeneity"] = "homogeneity"
    attributes: tuple[str, ...]


class Intersection(Frozen):
    """Two releases of one dataset under this kind of guarantee can be intersected."""

    kind: Literal["intersection"] = "intersection"
    of: Literal["k-anonymity", "confidence-bound"]


class CountsCases(Frozen):
    """k counts cases, while one unit may own several."""

    kind: Literal["counts-cases"] = "counts-cases"
    attribute: str


class RangeScale(Frozen):
    """t-closeness compares the numbers of ``attribute`` as a share of their range."""

    kind: Literal["range-scale"] = "range-scale"
    attribute: str


class LargeT(Frozen):
    """``t`` is no less than what numbers compared by rank can be apart."""

    kind: Literal["large-t"] = "large-t"
    attribute: str
    t: float


class MayRevealTimes(Frozen):
    """A claim over times takes ``columns`` as known: whoever can read times off them learns the
    times.
    """

    kind: Literal["may-tell-times"] = "may-tell-times"
    columns: tuple[str, ...]


class SingleTimesOnly(Frozen):
    """Metric privacy hides each time by itself, not which case is whose."""

    kind: Literal["single-times-only"] = "single-times-only"


GuaranteeCaveat = (
    Homogeneity
    | Intersection
    | CountsCases
    | RangeScale
    | LargeT
    | MayRevealTimes
    | SingleTimesOnly
)
