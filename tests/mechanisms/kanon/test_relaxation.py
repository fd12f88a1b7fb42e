"""The Lagrangian bound of kanon/a-star where decisions leave no answer."""

import numpy as np

from cloakwork.mechanisms.kanon.a_star import Relaxation
from cloakwork.mechanisms.kanon.problem import KAnonymityProblem
from cloakwork.mechanisms.kanon.whole_variants import MoveCosts


def test_eight_forbidden_children_are_no_gain() -> None:
    """Eight children of one prefix must open, none may take what it lacks: there is no answer.

    Eight times the cost that stands for what is forbidden exceeds int64.
    """
    texts = ("a", *(f"a{letter}" for letter in "bcdefghi"))
    problem = KAnonymityProblem.of(texts, [2] + [1] * 8, 2, "prefixes")
    relaxation = Relaxation(MoveCosts.of(problem, "kanon/a-star"))
    everything_stays = np.eye(len(texts), dtype=bool), np.ones(len(texts), bool)
    nothing_forbidden = np.ones((len(texts), len(texts)), bool), np.zeros(len(texts), bool)
    no_duals = np.zeros(len(texts), np.int64)
    least = relaxation(no_duals, *nothing_forbidden)
    assert relaxation(no_duals, *everything_stays).value >= 1 << 59 > least.value
