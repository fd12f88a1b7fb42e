"""What attacks on a log and its release found: figures of the raw log, never to be published."""

from typing import Annotated, Final, Literal

from pydantic import Field

from cloakwork.quantities import Frozen

RISK_FORMAT: Final = "cloakwork/risk/v1"

Method = Literal["every case", "sample"]


class Share(Frozen):
    """A share of the targets from 0 to 1, with bounds at 95 % confidence."""

    share: Annotated[float, Field(ge=0, le=1)]
    low: Annotated[float, Field(ge=0, le=1)]
    high: Annotated[float, Field(ge=0, le=1)]


class GroupSizes(Frozen):
    """How many cases fit what is known of a target: the share of the targets in each group."""

    alone: float
    two_to_four: float
    five_to_nine: float
    ten_or_more: float


class Attack(Frozen):
    """One attack: what it is called, what the attacker knows, how often it succeeds.

    ``before``: on the log itself; ``after``: on the release, null without one. ``method``: whether
    every case was a target or a sample was, or part of what is known was drawn at random; of every
    case the bounds are the share itself.
    """

    name: str
    knows: str
    before: Share | None
    after: Share | None = None
    method: Method = "sample"
    groups_before: GroupSizes | None = None
    groups_after: GroupSizes | None = None
    control: str | None = None


class RiskReport(Frozen):
    """All attacks, on how many targets, and what the figures take as given."""

    format: Literal["cloakwork/risk/v1"] = RISK_FORMAT
    internal: str
    cases: int
    released_cases: int | None
    targets: int
    seed: int
    confidence: float = 0.95
    attacks: tuple[Attack, ...]
    notes: tuple[str, ...]

    def attack(self, name: str) -> Attack:
        """The attack of this name; KeyError if there is none."""
        for attack in self.attacks:
            if attack.name == name:
                return attack
        raise KeyError(name)
