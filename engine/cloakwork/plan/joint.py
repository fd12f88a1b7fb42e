"""Choose mechanisms for a goal over several parts of a log, and calibrate them together.

A goal of differential privacy over the control flow and more columns is parted: control flow,
timestamps, and all attributes. Each part is served by a mechanism that offers it (``offer_part``),
with Gaussian noise that a unit moves by a share of one total mu: squares add up, so shares are of
mu squared. One search finds the largest total at which what all parts really draw, composed by the
accountant, costs no more than the goal allows: never a sum of budgets of black boxes. Thresholds
spend a share of delta; what they leave of it is the noise's.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cloakwork.accounting.calibrate import meets_target
from cloakwork.accounting.gaussians import mu_of_cost
from cloakwork.base.costs import Composed, Cost, PrivacyEvent
from cloakwork.base.errors import Cause
from cloakwork.base.facts import Facts
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.mechanisms.base import Mechanism, Offer, Options, PartOfGoal, Refusal
from cloakwork.plan.choose import (
    Candidate,
    MechanismChoice,
    Weighed,
    cause_of_lists,
    in_preference_order,
    near_misses,
    options_for,
    refusal_text,
    step_of,
    weigh,
    with_prediction,
)
from cloakwork.plan.model import Catalogue, ConsideredMechanism
from cloakwork.policy.model import ATTRIBUTES, Mechanisms, PartName

SHARES: Final[Mapping[PartName, float]] = {CONTROL_FLOW: 0.5, TIMESTAMPS: 0.25, ATTRIBUTES: 0.25}
"""Weights of the parts' shares of mu squared, where the policy sets none; compared with others on
synthetic logs alone (``docs/decisions/14-joint-goals.md``).
"""

THRESHOLD_SHARES: Final[Mapping[PartName, float]] = {
    CONTROL_FLOW: 0.15,
    TIMESTAMPS: 0.05,
    ATTRIBUTES: 0.05,
}
"""The share of delta that the thresholds of each part may spend."""

_TOLERANCE: Final = 1e-4
"""The total mu that is found is at most by this share below the largest one."""

_LEAST_PART: Final = 1e-4
"""The search ends at this share of the mu that it begins with: beneath, nothing is left to see."""


@dataclass(frozen=True, slots=True)
class JointTerms:
    """What a joint goal is planned by.

    ``goal``: what the profile leaves of it, ``in_all``: what it allows together with the profile,
    whose noise is ``profiled``. ``shares``: the policy's weights of the parts; none: ``SHARES``.
    """

    goal: DifferentialPrivacy
    facts: Facts
    allowed: Mechanisms
    catalogue: Catalogue
    shares: Mapping[PartName, float]
    profiled: PrivacyEvent | None
    in_all: Cost

    def allows(self, events: list[PrivacyEvent]) -> bool:
        """Whether ``events`` cost no more than the goal, by themselves and with the profile.

        By themselves too: a profile may serve several releases, and the ledger charges it once.
        """
        composed = Composed(events=tuple(events))
        if not meets_target(composed, Cost(epsilon=self.goal.epsilon, delta=self.goal.delta)):
            return False
        if self.profiled is None:
            return True
        return meets_target(Composed(events=(self.profiled, *events)), self.in_all)


@dataclass(frozen=True, slots=True)
class Part:
    """Columns that one mechanism serves; ``goal``: as people cite this part of a goal.

    ``mu_share``: of the total mu; ``delta``: what its thresholds may spend; ``replaced`` and
    ``beside``: as of ``PartOfGoal``.
    """

    name: PartName
    columns: tuple[str, ...]
    goal: str
    mu_share: float
    delta: float
    replaced: bool
    beside: tuple[str, ...]

    def at(self, mu: float) -> PartOfGoal:
        """What a mechanism is asked to serve, at ``mu``."""
        return PartOfGoal(self.columns, mu, self.delta, self.replaced, self.beside)


@dataclass(frozen=True, slots=True)
class _Weighed:
    """A part, and what was weighed for it."""

    part: Part
    weighed: Weighed

    @property
    def chosen(self) -> Candidate:
        """The best."""
        return self.weighed.ranked[0]

    def causes(self, allowed: Mechanisms) -> tuple[Cause, ...]:
        """Why the part is not served; none where it is."""
        if self.weighed.misset:
            return self.weighed.misset
        if self.weighed.ranked:
            return ()
        goal = self.part.goal
        refused = list(near_misses(self.weighed.considered, allowed))
        if (cause := cause_of_lists(goal, refused, allowed)) is not None:
            return (cause,)
        missed = tuple(Cause(goal, item.reason, item.mechanism) for item in refused)
        reason = "no mechanism serves it together with the other columns of the guarantee"
        return missed or (Cause(goal, reason),)


Offers = tuple[Offer[Any], ...]


def is_joint(goal: DifferentialPrivacy) -> bool:
    """Whether a goal is over the control flow and other columns of whole units, or over columns
    that are drawn on a control flow which is taken as known.
    """
    columns = _columns_by_part(goal)
    if goal.takes_columns_as_known():
        return goal.delta > 0
    return goal.hides_presence() and CONTROL_FLOW in columns and len(columns) > 1


def _columns_by_part(goal: DifferentialPrivacy) -> dict[PartName, tuple[str, ...]]:
    """The goal's columns, each once; the form of the release comes with the cases that are made."""
    over = dict.fromkeys(goal.over)
    columns: dict[PartName, tuple[str, ...]] = {
        CONTROL_FLOW: tuple(name for name in over if name == CONTROL_FLOW),
        TIMESTAMPS: tuple(name for name in over if name == TIMESTAMPS),
        ATTRIBUTES: tuple(
            name for name in over if name not in (CONTROL_FLOW, TIMESTAMPS, METADATA)
        ),
    }
    return {name: found for name, found in columns.items() if found}


def choose_parts(
    index: int, terms: JointTerms, alone: Iterable[ConsideredMechanism]
) -> MechanismChoice:
    """The steps that serve all parts of a joint goal, calibrated together.

    ``alone``: why no mechanism serves the goal by itself.
    """
    goal_parts = _joint_parts(terms)
    if isinstance(goal_parts, Cause):
        return MechanismChoice((), tuple(alone), (goal_parts,))
    # First a mechanism for each part, at about the noise that it will have.
    found = [_weighed(part, terms) for part in goal_parts]
    # That a mechanism serves another part is not said.
    of_parts = (item for each in found for item in each.weighed.considered if item.kind != "never")
    considered = (*_considered_alone(alone, terms), *of_parts)
    causes = tuple(cause for each in found for cause in each.causes(terms.allowed))
    if causes:
        return MechanismChoice((), considered, causes)
    # Only then the noise of all of them, for what one part spends limits the others.
    offers = _largest_offers(found, terms)
    if isinstance(offers, Cause):
        return MechanismChoice((), considered, (offers,))
    steps = []
    for each, offer in zip(found, offers, strict=True):
        mechanism = each.chosen.mechanism
        facts = terms.facts
        step = step_of(mechanism, offer.params, facts, why=offer.why, goals=(index,))
        steps.append(with_prediction(step, mechanism.predict(offer.params, facts)))
    return MechanismChoice(tuple(steps), considered, ())


def _joint_parts(terms: JointTerms) -> tuple[Part, ...] | Cause:
    """The parts of the goal with their shares, or why it cannot be parted."""
    goal = terms.goal
    columns = _columns_by_part(terms.goal)
    if goal.delta <= 0:
        reason = "noise that is calibrated together is Gaussian, and needs a delta above 0"
        return Cause(goal.cited(), f"{reason}; declare guarantees[].delta")
    weights = terms.shares or SHARES
    missing = [name for name in columns if name not in weights]
    if missing:
        lacking = " and ".join(missing)
        return Cause(
            "budget.shares",
            f"it gives no weight to {lacking}, which a guarantee covers; "
            f"weigh each of {', '.join(columns)}, or leave budget.shares out",
            where=("spec", "budget", "shares"),
        )
    # Weights of parts that the goal does not cover count for nothing.
    total = sum(weights[name] for name in columns)
    # Weights share out mu squared, which is what adds up; a part's mu takes the root of its share.
    return tuple(
        Part(
            name=name,
            columns=covered,
            goal=f"{goal.kind} over {_label(name, covered)}",
            mu_share=(weights[name] / total) ** 0.5,
            delta=goal.delta * THRESHOLD_SHARES[name],
            replaced=goal.takes_columns_as_known(),
            beside=goal.over,
        )
        for name, covered in columns.items()
    )


def _label(name: PartName, columns: tuple[str, ...]) -> str:
    if name != ATTRIBUTES:
        return name
    return columns[0] if len(columns) == 1 else f"{len(columns):,} attributes"


def _weighed(part: Part, terms: JointTerms) -> _Weighed:
    """The mechanisms for one part, at about the noise that it will have."""
    mu = _first_mu(terms) * part.mu_share
    offering = [
        mechanism
        for mechanism in in_preference_order(terms.allowed, terms.catalogue)
        if mechanism.serves_parts
    ]

    def ask(mechanism: Mechanism[Any], options: Options) -> Offer[Any] | Refusal:
        return mechanism.offer_part(part.at(mu), terms.facts, options)

    return _Weighed(part, weigh(ask, part.goal, terms.facts, terms.allowed, offering))


def _first_mu(terms: JointTerms) -> float:
    """The total mu that the goal allows at most, about."""
    return mu_of_cost(terms.goal.epsilon, terms.goal.delta)


def _considered_alone(
    alone: Iterable[ConsideredMechanism], terms: JointTerms
) -> Iterator[ConsideredMechanism]:
    """The mechanisms that serve no part, with why."""
    for item in alone:
        mechanism = terms.catalogue[item.mechanism]
        if mechanism.serves_parts:
            continue
        if any(each.kind == terms.goal.kind for each in mechanism.gives) and item.kind != "needs":
            reason = "its noise is not calibrated together with that on other columns"
            yield item.model_copy(update={"kind": "not_yet", "reason": reason})
        else:
            yield item


def _largest_offers(found: list[_Weighed], terms: JointTerms) -> Offers | Cause:
    """What the chosen mechanisms offer at the largest total mu that the goal allows."""
    options = [options_for(each.chosen.mechanism, terms.allowed) for each in found]
    refusals: list[Cause] = []

    def offers_at(mu: float) -> Offers | None:
        offers: list[Offer[Any]] = []
        for each, chosen in zip(found, options, strict=True):
            mechanism = each.chosen.mechanism
            part = each.part.at(mu * each.part.mu_share)
            offer = mechanism.offer_part(part, terms.facts, chosen)
            # One refusal rules out this total; where none is left, the last is told.
            if isinstance(offer, Refusal):
                refusals.append(Cause(each.part.goal, refusal_text(offer), mechanism.name))
                return None
            offers.append(offer)
        # What the parts really draw is judged, not what they were asked for.
        events = [
            each.chosen.mechanism.step(offer.params, terms.facts).event
            for each, offer in zip(found, offers, strict=True)
        ]
        return tuple(offers) if terms.allows(events) else None

    best = _largest(offers_at, _first_mu(terms))
    if best is not None:
        return best
    goal = terms.goal
    reason = f"no amount of noise meets epsilon {goal.epsilon:g}, delta {goal.delta:g}"
    return refusals[-1] if refusals else Cause(goal.cited(), reason)


def _largest(offers_at: Callable[[float], Offers | None], first: float) -> Offers | None:
    """The offers at the largest mu that has some, by bisection; None where there is none."""
    high = first
    low = first
    # Upwards while it is allowed, to about four times the first guess.
    found = offers_at(first)
    while found is not None and high < 4 * first:
        # Parts that draw more noise than they were asked for leave something.
        low = high
        best = found
        high = 1.25 * high
        found = offers_at(high)
    # Where the first guess is too much, downwards: in small steps first, then by halves.
    while low == high:
        low = 0.9 * low if low > 0.5 * first else 0.5 * low
        if low < _LEAST_PART * first:
            return None
        found = offers_at(low)
        if found is None:
            high = low
        else:
            best = found
    # Then narrow the interval between the largest total that was allowed and the one above it.
    while high - low > _TOLERANCE * high:
        middle = (low + high) / 2
        found = offers_at(middle)
        if found is None:
            high = middle
        else:
            low = middle
            best = found
    return best
