"""The DP profile that a policy may buy: what its share pays for."""

from cloakwork.accounting.calibrate import largest_delta
from cloakwork.base.costs import Cost
from cloakwork.base.errors import Cause, PlanImpossible
from cloakwork.guarantees import DifferentialPrivacy, Guarantee
from cloakwork.mechanisms.profile import Profile, ProfileParams, params_within
from cloakwork.policy.model import Policy, ProfileShare

__all__ = ["Profile", "profile_params", "require_profile_params"]


def require_profile_params(policy: Policy) -> ProfileParams:
    """``profile_params`` of a policy that may pay for a profile; raises PlanImpossible also where
    its delta is too large.
    """
    params = profile_params(policy)
    limit = largest_delta(policy.facts().units_at_most)
    if params.delta > limit:
        raise _no_profile(
            policy, f"delta {params.delta:g} is more than {limit:g}, which the units declared allow"
        )
    return params


def profile_params(policy: Policy) -> ProfileParams:
    """The noise for the policy's share. Raises PlanImpossible where the policy has none, or none
    that it can pay for.
    """
    share = policy.spec.profile
    if share is None:
        raise _no_profile(policy, "the policy sets no spec.profile, so there is no budget for one")
    if not any(_can_pay_for(goal, share) for goal in policy.goals()):
        reason = (
            "no guarantee of differential privacy with unbounded neighbours has more to spend "
            "than spec.profile"
        )
        raise _no_profile(policy, reason)
    return params_within(
        policy.spec.unit,
        Cost(epsilon=share.epsilon, delta=share.delta),
        share.activities_per_case,
        selects_alphabet=policy.spec.assume.alphabet is None and share.delta > 0,
    )


def _no_profile(policy: Policy, reason: str) -> PlanImpossible:
    return PlanImpossible([Cause("profile", reason)], policy=policy.metadata.name)


def _can_pay_for(goal: Guarantee, share: ProfileShare) -> bool:
    """Whether a guarantee can pay for the profile out of its own budget."""
    if not isinstance(goal, DifferentialPrivacy) or goal.neighbours != "unbounded":
        return False
    return goal.epsilon > share.epsilon and goal.delta >= share.delta
