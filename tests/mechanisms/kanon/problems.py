"""Problems that searches for a k-anonymous answer are tried on."""

import random

from cloakwork.mechanisms.kanon.problem import (
    KAnonymityProblem,
    Scope,
)


def random_problem(variants: int, k: int, scope: Scope = "variants") -> KAnonymityProblem:
    """Far too many variants to try everything: sequences that share a little."""
    dice = random.Random(7)
    texts = {"".join(dice.choices("abcdefgh", k=dice.randint(4, 14))) for _ in range(variants)}
    return KAnonymityProblem.of(
        sorted(texts), [dice.choice([1, 1, 1, 2, 5]) for _ in texts], k, scope
    )
