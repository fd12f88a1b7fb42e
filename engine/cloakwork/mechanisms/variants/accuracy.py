"""How accurate a release of the control flow will be, known beforehand: simulated on two invented
processes.

Accuracy is relative log similarity (``evaluation/control_flow.py``; 1: the same shares of the same
variants). More cases do what more epsilon does (Hay et al. 2016, scale-epsilon exchangeability), so
each mechanism was run once, at delta 1e-4 on ``CASES`` cases of each process of
``tests/scenarios.py``, for every *signal* in ``SIGNAL``: epsilon times cases, over the cases
of a unit, scaled by ln(1e4) / ln(1/delta). In between figures are interpolated. No real log was
read for it.
``python benchmarks/variants/synthetic.py accuracy 5`` makes the table anew.
"""

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from cloakwork.base.facts import Facts
from cloakwork.mechanisms.base import Prediction

CASES: Final = 2000
SIGNAL: Final = (10, 30, 100, 300, 1000, 3000, 10_000, 30_000)

Row = tuple[float, ...]

SIMULATED: Final[Mapping[str, tuple[Row, Row]]] = {
    "variants/adaptive": (
        (0.43, 0.73, 0.89, 0.95, 0.97, 0.98, 0.99, 0.99),
        (0.26, 0.26, 0.55, 0.67, 0.71, 0.76, 0.78, 0.8),
    ),
    "variants/threshold": (
        (0.65, 0.83, 0.92, 0.95, 0.97, 0.98, 0.99, 0.99),
        (0, 0, 0, 0, 0.56, 0.61, 0.66, 0.7),
    ),
    "variants/markov": (
        (0.16, 0.51, 0.82, 0.92, 0.95, 0.97, 0.98, 0.99),
        (0.22, 0.31, 0.53, 0.67, 0.72, 0.75, 0.79, 0.8),
    ),
    "variants/amun": (
        (0.16, 0.83, 0.91, 0.95, 0.97, 0.98, 0.99, 0.99),
        (0.1, 0.19, 0.08, 0.19, 0.56, 0.61, 0.66, 0.7),
    ),
    "variants/libra": (
        (0, 0.33, 0.86, 0.91, 0.95, 0.97, 0.98, 0.98),
        (0, 0, 0, 0, 0.29, 0.57, 0.62, 0.65),
    ),
    "variants/prefix-tree": (
        (0, 0, 0.67, 0.85, 0.95, 0.96, 0.97, 0.98),
        (0, 0, 0.06, 0.27, 0.51, 0.55, 0.62, 0.68),
    ),
    "variants/sacofa": (
        (0, 0, 0.82, 0.87, 0.95, 0.96, 0.98, 0.98),
        (0, 0, 0.02, 0.09, 0.52, 0.58, 0.63, 0.67),
    ),
    "dfg/laplace": (
        (0, 0, 0.22, 0.84, 0.91, 0.96, 0.98, 0.98),
        (0.02, 0.03, 0.11, 0.55, 0.59, 0.6, 0.61, 0.61),
    ),
}
"""Mechanism to its similarity at each signal, on the structured process and on the unstructured
one: means of five runs, an empty release counting 0. Where the signal is weak they scatter by a
tenth or two.
"""

UNDECLARED: Final[Mapping[str, tuple[Row, Row]]] = {
    "variants/adaptive": (
        (0.16, 0.83, 0.92, 0.94, 0.96, 0.98, 0.99, 0.99),
        (0.09, 0.08, 0.42, 0.65, 0.71, 0.76, 0.79, 0.8),
    ),
    "variants/markov": (
        (0, 0.32, 0.82, 0.9, 0.95, 0.97, 0.98, 0.99),
        (0.09, 0, 0.52, 0.66, 0.71, 0.75, 0.78, 0.8),
    ),
    "variants/prefix-tree": (
        (0, 0, 0, 0.82, 0.92, 0.95, 0.96, 0.98),
        (0, 0, 0, 0, 0, 0.09, 0.56, 0.6),
    ),
    "variants/sacofa": (
        (0, 0, 0, 0.82, 0.92, 0.95, 0.96, 0.98),
        (0, 0, 0, 0, 0, 0.19, 0.54, 0.6),
    ),
    "dfg/laplace": (
        (0, 0, 0, 0, 0.85, 0.95, 0.96, 0.97),
        (0, 0, 0, 0, 0.04, 0.65, 0.61, 0.61),
    ),
}
"""The same where the activities are not declared, of mechanisms to which that makes a difference.
"""

HEAD_SHARES: Final = (0.1, 0.8)
"""The share of cases that the ten most frequent variants hold: in the unstructured process, in the
structured one.
"""

DEFAULT_CASES: Final = 1000
"""Cases assumed of a log whose number of units is not declared."""


def predict_similarity(
    name: str,
    epsilon: float,
    delta: float,
    facts: Facts,
    *,
    noise_factor: float = 1.0,
) -> Prediction | None:
    """What the simulation says of mechanism ``name`` at (epsilon, delta); None where it was not
    simulated.

    ``noise_factor``: by what factor the signal is less than the simulated one, such as for longer
    cases.
    """
    if name not in SIMULATED:
        return None
    units = facts.units_at_most or DEFAULT_CASES
    # More cases do what more epsilon does; a unit of m cases needs m times the noise.
    signal = epsilon * units / (facts.unit.max_cases * noise_factor)
    # The table is for delta 1e-4; a smaller one raises thresholds by the ratio of logarithms.
    if delta > 0:
        signal *= math.log(1e4) / math.log(1 / delta)
    rows = SIMULATED[name]
    if facts.alphabet is None:
        rows = UNDECLARED.get(name, rows)
    # On a logarithmic axis, since the signals of the table are spaced by ratios.
    structured, unstructured = (
        float(np.interp(math.log(signal), np.log(SIGNAL), row)) for row in rows
    )
    # Between 0 (as in the unstructured process) and 1 (as in the structured one).
    concentration = None
    if facts.head_share is not None:
        low, high = HEAD_SHARES
        concentration = min(1.0, max(0.0, (facts.head_share - low) / (high - low)))
    return Prediction(structured, unstructured, units, concentration)
