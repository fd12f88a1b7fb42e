"""What it costs to move a variant as a whole."""

import pytest

from cloakwork.errors import MechanismError
from cloakwork.mechanisms.kanon.problem import (
    KAnonymityProblem,
)
from cloakwork.mechanisms.kanon.whole_variants import MoveCosts


def test_distances_that_do_not_fit_are_refused() -> None:
    """Rather than counted too low."""
    with pytest.raises(MechanismError, match="the log holds a longer one"):
        MoveCosts.of(
            KAnonymityProblem.of(["a" * 40_000, "b" * 40_000], [2, 2], 2, "variants"),
            "kanon/best-first",
        )
