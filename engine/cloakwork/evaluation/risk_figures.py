"""What attacks on a log and its release found: figures of the raw log, never to be published."""

import math
from collections.abc import Iterable
from typing import Annotated, Final, Literal, Self

from pydantic import Field, computed_field, model_validator

from cloakwork.base.notebook_html import InNotebooks
from cloakwork.base.quantities import IF_SAID, Frozen

RISK_FORMAT: Final = "cloakwork/risk/v1"

Method = Literal["every case", "sample"]
Part = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]

ClaimBasis = Literal["derived", "published"]
"""``derived``: differential privacy that the engine derives. ``published``: what a paper claims."""

_CHOSEN: Final = (
    "linking/events-3",
    "linking/prefix-3",
    "linking/activities",
    "linking/sequence",
    "linking/start-second",
    "linking/start-day",
    "linking/duration",
    "linking/timed-events-3",
    "linking/sequence-times",
    "linking/case-attributes",
    "linking/event-attributes",
    "unusual/timed-events-3",
    "unusual/sequence-times",
    "linking-releases",
    "singling-out",
    "linkability",
)


class Share(Frozen):
    """A share of the targets from 0 to 1, with bounds at 95 % confidence."""

    share: Part
    low: Part
    high: Part

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.low <= self.share <= self.high:
            raise ValueError("a share lies between its bounds")
        return self

    def __str__(self) -> str:
        return f"{self.share:.1%} ({self.low:.1%} to {self.high:.1%})"


class GroupSizes(Frozen):
    """How many cases fit what is known of a target: the share of the targets in each group."""

    alone: Part
    two_to_four: Part
    five_to_nine: Part
    ten_or_more: Part


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

    @property
    def in_words(self) -> str:
        """The attack in one line: what is known, or what is tried."""
        kind, _, name = self.name.partition("/")
        tried = {
            "uniqueness": f"(alone) {self.knows}",
            "singling-out": "(singled out) 3 columns of a released case",
            "linkability": "(joined) its sequence, and the rest apart from it",
            "unusual": f"(5 % most unusual) {self.knows}",
            "inference": f"(inferred) all but {name}: what is its {name}?",
            "linking-releases": "(two releases) its case in one of them",
        }
        return tried.get(kind, self.knows)


class ClaimedBound(Frozen):
    """The (epsilon, delta) that is claimed for a release."""

    epsilon: Annotated[float, Field(ge=0)]
    delta: Part = 0.0
    basis: ClaimBasis = "derived"

    def limit(self, false_positives: float) -> float:
        """The largest share of members that any attack recognises at this share of false alarms:
        the smaller of ``e^epsilon f + delta`` and ``1 - e^-epsilon (1 - delta - f)`` (Kairouz, Oh
        and Viswanath 2015, theorem 2.1), at most 1.

        >>> round(ClaimedBound(epsilon=1.0).limit(0.01), 4)
        0.0272
        """
        # Beyond e^700 a float overflows.
        growth = math.exp(min(self.epsilon, 700.0))
        by_alarms = growth * false_positives + self.delta
        by_misses = 1 - (1 - self.delta - false_positives) / growth
        return min(1.0, by_alarms, by_misses)


class RecognisedMembers(Frozen):
    """One point of the attack: how many members it recognises at so many false alarms.

    ``at_most``: the share of false alarms that it may have.
    """

    at_most: Part
    false_positives: Share
    true_positives: Share


GroupName = Literal["all", "alone", "canaries"]


class MembershipGroup(Frozen):
    """How well members are told from others, among some of the targets: *alone*, those whose
    sequence nobody else has, or cases that were put in: *canaries*, which begin as many do and end
    as hardly any.

    ``area``: the probability that a member scores higher than somebody who is none: .5 is
    guessing. ``curve``: points (share of false alarms, share of members recognised), ascending,
    from where ten false alarms are.
    """

    name: GroupName
    targets: Count
    area: Share
    levels: tuple[RecognisedMembers, ...]
    curve: tuple[tuple[Part, Part], ...]

    @property
    def in_words(self) -> str:
        """Which targets these are."""
        if self.name == "alone":
            return "targets alone with their sequence"
        if self.name == "canaries":
            return "cases put in with a usual beginning and a rare end"
        return "all targets"


class MembershipFigures(Frozen):
    """An attack by shadow releases: made of random halves of the log, each target in or out.

    ``runs``: releases that were made, of which the last ``judged`` were attacked; the others taught
    the attack what to look at. ``targets``: cases (units) that were looked for. ``claimed``: None
    where no epsilon is claimed. ``epsilon_at_least``: the largest epsilon that the points of the
    attack show, by bounds at 99.9 % each; 0 where they show none. ``looked_at``: what was counted
    in log and release, in words. ``inferred``: for each attribute, how often it is guessed right
    from all else of a case beyond what it is in releases that the case was left out of.
    """

    mechanism: str
    runs: Count
    judged: Count
    targets: Count
    claimed: ClaimedBound | None
    epsilon_at_least: Annotated[float, Field(ge=0)]
    groups: tuple[MembershipGroup, ...]
    looked_at: tuple[str, ...] = ()
    inferred: dict[str, Share] = {}

    @property
    def exceeded(self) -> bool:
        """Whether the attack recognises more members than the claim allows to any."""
        return self.claimed is not None and self.epsilon_at_least > self.claimed.epsilon


class DisclosureBounds(Frozen):
    """What one log tells of employees at most.

    ``places``: of the activity sequences, with events that somebody performed. ``most`` of
    ``events`` at one of them are one employee's, the largest such share: the bound of identity
    disclosure. ``alone``: places at which all may be one employee's, so that it can be certain that
    somebody's events are in the log: membership disclosure. ``attribute``: the largest distance of
    the times since the event before, at a place, from all of the activity (that of t-closeness, by
    rank): attribute disclosure; None where there are none.
    """

    places: Count
    most: Count
    events: Count
    alone: Count
    attribute: float | None = None

    @computed_field  # type: ignore[prop-decorator]  # of pydantic
    @property
    def identity(self) -> float:
        """The largest probability to be right about who performed an event."""
        return self.most / self.events if self.events else 0.0

    @computed_field  # type: ignore[prop-decorator]  # of pydantic
    @property
    def membership(self) -> float:
        """The share of the places that name an employee for certain."""
        return self.alone / self.places if self.places else 0.0


class EmployeeBounds(Frozen):
    """The bounds for the employees that ``attribute`` of events names: in the log itself, and in
    the release, of which nobody but the log's owner knows who performed its events. ``claimed``:
    the k that the release's plan guarantees, unverified: a share of 1/k at most.
    """

    attribute: str
    before: DisclosureBounds
    after: DisclosureBounds | None = None
    claimed: int | None = None

    def in_words(self) -> str:
        """Of both logs, in one line."""
        said = [f"who performed an event ('{self.attribute}') is guessed right"]
        for where, found in (("in the log", self.before), ("in the release", self.after)):
            if found is not None:
                said.append(
                    f"{where} with probability at most {found.identity:.1%} ({found.most:,} of "
                    f"{found.events:,} events at one place of an activity sequence; certain at "
                    f"{found.alone:,} of {found.places:,} places)"
                )
        k = "" if self.claimed is None else f"; the release itself guarantees 1/{self.claimed}"
        return f"{said[0]} {' and '.join(said[1:])}{k}"


class RiskReport(InNotebooks, Frozen):
    """All attacks, on how many targets, and what the figures take as given.

    ``release``: the id that the attacked release's statement states, which nothing here verifies;
    None where a log alone was attacked. ``membership``: None where that was not attacked.
    ``employees``: None where nobody said which attribute names them. ``threshold``: the largest
    share of cases that may be found, as the policy assumes it; None where nobody said one.
    """

    format: Literal["cloakwork/risk/v1"] = RISK_FORMAT
    internal: str
    release: str | None = None
    cases: Count
    released_cases: Count | None
    targets: Count
    seed: int
    confidence: Part = 0.95
    attacks: tuple[Attack, ...]
    membership: MembershipFigures | None = None
    employees: Annotated[EmployeeBounds | None, IF_SAID] = None
    threshold: Annotated[float | None, IF_SAID] = None
    notes: tuple[str, ...]

    @property
    def above(self) -> tuple[Attack, ...]:
        """The attacks that find more cases in the release than may be found, the worst first."""
        return above_threshold(self.attacks, self.threshold)

    @property
    def chosen(self) -> tuple[Attack, ...]:
        """What one screen shows; of the inference of attributes, the worst."""
        by_name = {attack.name: attack for attack in self.attacks}
        found = [by_name[name] for name in _CHOSEN if name in by_name]
        inferred = [each for each in self.attacks if each.name.startswith("inference/")]
        if inferred:
            found.append(
                max(inferred, key=lambda each: (_proven(each.after), _proven(each.before)))
            )
        return tuple(found)

    def attack(self, name: str) -> Attack:
        """The attack of this name; KeyError if there is none."""
        for attack in self.attacks:
            if attack.name == name:
                return attack
        raise KeyError(name)


def above_threshold(attacks: Iterable[Attack], threshold: float | None) -> tuple[Attack, ...]:
    """The attacks ``linking/*`` that find a larger share of the cases in a release, the worst
    first.
    """
    found = [
        (attack.after.share, attack)
        for attack in attacks
        if attack.name.startswith("linking/") and attack.after is not None
    ]
    found.sort(key=lambda each: -each[0])
    return tuple(each for share, each in found if threshold is not None and share > threshold)


def _proven(share: Share | None) -> float:
    return 0.0 if share is None else share.low
