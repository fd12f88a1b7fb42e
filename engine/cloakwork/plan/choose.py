"""Choose mechanisms: for one goal, candidates, the first that offers, and why others did not; for a
goal over several parts of a log, one a part, calibrated together.

A goal of differential privacy over the control flow and more columns is parted: control flow,
timestamps, and all attributes. Each part is served by a mechanism that offers it (``offer_part``),
with Gaussian noise that a unit moves by a share of one total mu: squares add up, so shares are of
mu squared. One search finds the largest total at which what all parts really draw, composed by the
accountant, costs no more than the goal allows: never a sum of budgets of black boxes. Thresholds
spend a share of delta; what they leave of it is the noise's.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel, JsonValue

from cloakwork.accounting.calibrate import meets_target
from cloakwork.accounting.leaf_events import mu_of_cost
from cloakwork.base.costs import Composed, Cost, PrivacyEvent
from cloakwork.base.errors import Cause
from cloakwork.base.facts import Facts
from cloakwork.base.frozen import frozen
from cloakwork.base.globs import matches
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS
from cloakwork.guarantees import DifferentialPrivacy, Guarantee, LocalDP
from cloakwork.mechanisms.base import Mechanism, Offer, Options, PartOfGoal, Prediction, Refusal
from cloakwork.mechanisms.installed import installed_names
from cloakwork.plan.model import Catalogue, ConsideredMechanism, Kind, Step
from cloakwork.policy.model import ATTRIBUTES, Mechanisms, PartName


@frozen
class MechanismChoice:
    """The steps chosen for a goal (none where it is refused), what else was weighed, and the causes
    of a refusal.
    """

    steps: tuple[Step, ...]
    considered: tuple[ConsideredMechanism, ...]
    causes: tuple[Cause, ...]


@frozen
class Candidate:
    """A mechanism that offers to meet the goal and may.

    ``preference_rank``: the place of the first glob under ``prefer`` that names it; where none
    does, one more than the last place.
    """

    mechanism: Mechanism[Any]
    offer: Offer[Any]
    predicted: Prediction | None
    preference_rank: int


def choose_mechanism(
    index: int, goal: Guarantee, facts: Facts, allowed: Mechanisms, catalogue: Catalogue
) -> MechanismChoice:
    """The first mechanism that is allowed, proved and offers to meet the goal, preferred ones
    first; see ``weigh``.
    """

    def ask(mechanism: Mechanism[Any], options: Options) -> Offer[Any] | Refusal:
        return mechanism.offer(goal, facts, options)

    claiming = (each for each in in_preference_order(allowed, catalogue) if each.gives)
    found = weigh(ask, goal.cited(), facts, allowed, claiming)
    if not found.ranked:
        causes = _causes_of_none(goal, found.considered, allowed)
        return MechanismChoice((), found.considered, causes)
    # Options that rule out a mechanism refuse the plan, although another one would serve.
    if found.misset:
        return MechanismChoice((), found.considered, found.misset)
    first = found.ranked[0]
    step = step_of(first.mechanism, first.offer.params, facts, why=first.offer.why, goals=(index,))
    return MechanismChoice((with_prediction(step, first.predicted),), found.considered, ())


Ask = Callable[[Mechanism[Any], Options], Offer[Any] | Refusal]
"""What a mechanism offers with these options, or why not."""


@frozen
class Weighed:
    """The mechanisms that can be taken, the best first; what was considered and not taken; and why
    options that the policy sets rule a mechanism out.
    """

    ranked: tuple[Candidate, ...]
    considered: tuple[ConsideredMechanism, ...]
    misset: tuple[Cause, ...]


def weigh(
    ask: Ask,
    name: str,
    facts: Facts,
    allowed: Mechanisms,
    mechanisms: Iterable[Mechanism[Any]],
) -> Weighed:
    """Ask each mechanism for what is called ``name``, and rank those that offer it.

    Of those that one glob names, and of those that none does, the one that is predicted to be most
    accurate comes first, those that yield to others last; the catalogue's order decides between
    equals (``EQUAL_WITHIN``) and among those that cannot tell. One that is only published is taken
    where the policy accepts unproven mechanisms and ``prefer`` has its very name: a glob might mean
    others. None is taken where the options that the policy sets rule one out.
    """
    considered: list[ConsideredMechanism] = []
    candidates: list[Candidate] = []
    misset: list[Cause] = []
    for mechanism in mechanisms:
        found = _offer_or_refusal(mechanism, ask, facts, allowed)
        if isinstance(found, Candidate):
            candidates.append(found)
        else:
            kind, reason = found
            if kind == "misconfigured" and _is_ruled_out_by_options(mechanism, ask, allowed):
                where = ("spec", "mechanisms", "parameters", mechanism.name)
                misset.append(Cause(name, reason, mechanism.name, where))
            considered.append(
                ConsideredMechanism(goal=name, mechanism=mechanism.name, kind=kind, reason=reason)
            )
    ranked = _in_order_of_choice(candidates)
    # What could have been taken is listed as well, with how to get it.
    considered += [
        ConsideredMechanism(
            goal=name,
            mechanism=other.mechanism.name,
            kind="other chosen",
            reason=(
                f"{ranked[0].mechanism.name} comes first"
                + (f", for {other.offer.yields}" if other.offer.yields else "")
                + "; name it under mechanisms.prefer to use it"
                + (f"; predicted: {other.predicted}" if other.predicted else "")
            ),
        )
        for other in ranked[1:]
    ]
    return Weighed(tuple(ranked), tuple(considered), tuple(misset))


def with_prediction(step: Step, predicted: Prediction | None) -> Step:
    """The step with how accurate it will be, where a simulation tells."""
    if predicted is None:
        return step
    return step.model_copy(update={"predicted": str(predicted)})


def _offer_or_refusal(
    mechanism: Mechanism[Any], ask: Ask, facts: Facts, allowed: Mechanisms
) -> Candidate | tuple[Kind, str]:
    # Asked even where the policy denies it, to say whether it could have served.
    answer = ask(mechanism, options_for(mechanism, allowed))
    if isinstance(answer, Refusal):
        return answer.kind, refusal_text(answer)
    accepted_unproven = allowed.accept_unproven and mechanism.name in allowed.prefer
    if mechanism.proof == "published" and not accepted_unproven:
        return "never", "its guarantee is only published, so it cannot satisfy a policy"
    if not allowed.allows(mechanism.name):
        return "denied", "could give this, but mechanisms.allow or mechanisms.deny rules it out"
    # What is denied by name must not run under another one.
    for name in mechanism.runs:
        if any(matches(glob, name) for glob in allowed.deny):
            return "denied", f"could give this, but may run {name}, which mechanisms.deny rules out"
    predicted = mechanism.predict(answer.params, facts)
    preferring = (
        place for place, glob in enumerate(allowed.prefer) if matches(glob, mechanism.name)
    )
    rank = next(preferring, len(allowed.prefer))
    return Candidate(mechanism, answer, predicted, rank)


def _is_ruled_out_by_options(mechanism: Mechanism[Any], ask: Ask, allowed: Mechanisms) -> bool:
    """Whether nothing but the options that the policy sets keeps a mechanism from being taken.

    Whoever sets options means the mechanism to run: taking another one instead would hide that it
    cannot.
    """
    if mechanism.name not in allowed.parameters or not allowed.allows(mechanism.name):
        return False
    if mechanism.proof == "published" and not allowed.accept_unproven:
        return False
    # Asked again, as if the policy set no options at all.
    without = allowed.model_copy(update={"parameters": {}})
    return isinstance(ask(mechanism, options_for(mechanism, without)), Offer)


EQUAL_WITHIN: Final = 0.01
"""Predictions that differ by no more are equal: they come from a few runs."""


def _in_order_of_choice(candidates: list[Candidate]) -> list[Candidate]:
    """By ``prefer``; under one glob those that yield to others last, and else by what is
    predicted, last those that cannot tell.
    """
    # The best prediction under each glob; what comes close enough counts as equal to it.
    best: dict[int, float] = {}
    for each in candidates:
        if each.predicted is not None:
            rank = each.preference_rank
            best[rank] = max(best.get(rank, 0.0), each.predicted.expected)

    def order(each: Candidate) -> tuple[int, bool, float]:
        rank = each.preference_rank
        yields = bool(each.offer.yields)
        if each.predicted is None:
            return rank, yields, 1.0  # no predicted similarity, negated, is that large
        expected = each.predicted.expected
        if best[rank] - expected <= EQUAL_WITHIN:
            expected = best[rank]
        return rank, yields, -expected

    # The sort is stable: between equals the order of the catalogue stays.
    return sorted(candidates, key=order)


def options_for(mechanism: Mechanism[Any], allowed: Mechanisms) -> dict[str, JsonValue]:
    """What the policy sets for a mechanism; one that delegates to others delegates to allowed ones
    only.
    """
    options: dict[str, JsonValue] = dict(allowed.parameters.get(mechanism.name, {}))
    delegates = mechanism.delegates
    if not delegates:
        return options
    left_out = _left_out(allowed)
    asked = options.get("among", [name for name in delegates if name not in left_out])
    if isinstance(asked, list):
        # What is no delegate at all stays, for the mechanism to refuse by name.
        asked = [name for name in asked if name not in delegates or allowed.allows(str(name))]
    return options | {"among": asked}


def step_of(
    mechanism: Mechanism[Any],
    params: BaseModel,
    facts: Facts,
    *,
    why: str,
    goals: tuple[int, ...] = (),
) -> Step:
    """The plan's entry for a mechanism with its parameters: cost and lineage are the mechanism's
    own.
    """
    theorem = mechanism.theorem
    kind = mechanism.step(params, facts)
    published = None
    if mechanism.proof == "published":
        published = f"{theorem.statement} ({theorem.source})"
    return Step(
        mechanism=mechanism.name,
        params=params.model_dump(mode="json", by_alias=True),
        why=why,
        goals=goals,
        proof=mechanism.proof,
        event=kind.event,
        currency=kind.currency,
        lineage=kind.lineage,
        published=published,
    )


def in_preference_order(allowed: Mechanisms, catalogue: Catalogue) -> Iterator[Mechanism[Any]]:
    """All mechanisms, those that ``prefer`` names first and in its order."""
    preferred = [name for glob in allowed.prefer for name in catalogue if matches(glob, name)]
    left_out = _left_out(allowed)
    for name in dict.fromkeys([*preferred, *catalogue]):
        if name not in left_out:
            yield catalogue[name]


def _left_out(allowed: Mechanisms) -> frozenset[str]:
    """Mechanisms of the extras and of other packages that the policy does not name in full.

    If they took part, a plan would depend on what is installed where it is made, and be another one
    where it is verified.
    """
    return installed_names() - {*allowed.allow, *allowed.prefer, *allowed.parameters}


def refusal_text(refusal: Refusal) -> str:
    """The reason, and what to declare."""
    return refusal.reason + (f"; declare {', '.join(refusal.needs)}" if refusal.needs else "")


def _causes_of_none(
    goal: Guarantee, considered: tuple[ConsideredMechanism, ...], allowed: Mechanisms
) -> tuple[Cause, ...]:
    """Near misses and what a later version brings, else what each allowed mechanism says."""
    name = goal.cited()
    # What a later version must bring before the goal can be met.
    missing: list[str] = []
    if goal.hides_presence() and CONTROL_FLOW not in goal.over:
        missing.append(
            "under differential privacy no value is released but in cases that were made through "
            f"noise: name {CONTROL_FLOW} in the same guarantee"
        )
    elif isinstance(goal, LocalDP):
        missing.append(
            "one local-dp guarantee covers attributes that all have a domain, or all a range of "
            "numbers: where there are both, write a guarantee for each kind"
        )
    refused = list(near_misses(considered, allowed))
    of_lists = None if missing else cause_of_lists(name, refused, allowed)
    if of_lists is not None and of_lists.mechanism == "mechanisms.deny":
        return (of_lists,)
    # Where nothing else explains it, what the mechanisms say that are left.
    if not missing and all(item.kind == "denied" for item in refused):
        refused = [] if of_lists is not None else refused
        of_other_kinds = (item for item in considered if item.kind == "never")
        refused += [item for item in of_other_kinds if allowed.allows(item.mechanism)]
    # Each reason is said once, with all mechanisms that give it.
    mechanisms_by_reason: dict[str, list[str]] = {}
    for item in refused:
        mechanisms_by_reason.setdefault(item.reason, []).append(item.mechanism)
    refusals = mechanisms_by_reason.items()
    return (
        *(() if of_lists is None else (of_lists,)),
        *(Cause(name, reason, ", ".join(mechanisms)) for reason, mechanisms in refusals),
        *(Cause(name, why) for why in missing),
    )


def cause_of_lists(
    goal: str, refused: Iterable[ConsideredMechanism], allowed: Mechanisms
) -> Cause | None:
    """Where ``allow`` and ``deny`` alone are in the way of a goal: which of them leaves nothing."""
    refused = list(refused)
    if not refused or any(item.kind != "denied" for item in refused):
        return None
    names = dict.fromkeys(item.mechanism for item in refused)
    # What is allowed as well was denied.
    allows = (any(matches(glob, name) for glob in allowed.allow) for name in names)
    key = "deny" if any(allows) else "allow"
    reason = f"it leaves none that gives this; without it these could: {', '.join(names)}"
    return Cause(goal, reason, f"mechanisms.{key}", ("spec", "mechanisms", key))


def near_misses(
    considered: Iterable[ConsideredMechanism], allowed: Mechanisms
) -> Iterator[ConsideredMechanism]:
    """The mechanisms that could meet the goal under another policy."""
    for item in considered:
        could = item.kind in ("needs", "misconfigured", "not_yet")
        if item.kind == "denied" or (could and allowed.allows(item.mechanism)):
            yield item


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


@frozen
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


@frozen
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


@frozen
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
