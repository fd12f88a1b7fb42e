"""Goals and parameters for ``variants/libra``."""

from cloakwork.base.facts import Facts
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.mechanisms.base import Offer
from cloakwork_extras.libra import VariantLibra, VariantLibraPublished

LIBRA, PUBLISHED = VariantLibra(), VariantLibraPublished()


def goal(epsilon=1.0, delta=1e-4):
    """Differential privacy over the control flow."""
    return DifferentialPrivacy(
        kind="differential-privacy", epsilon=epsilon, delta=delta, over=("control-flow",)
    )


def params_of(facts=None, epsilon=1.0, delta=1e-4, **options):
    """What is offered."""
    answer = LIBRA.offer(goal(epsilon, delta), facts or Facts(), options)
    assert isinstance(answer, Offer), answer
    return answer.params
