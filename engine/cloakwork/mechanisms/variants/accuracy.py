"""How accurate a release of the control flow will be, known beforehand: simulated on two invented
processes.

Accuracy is relative log similarity (``evaluation/control_flow.py``; 1: the same shares of the same
variants). More cases do what more epsilon does (Hay et al. 2016, scale-epsilon exchangeability), so
each mechanism was run once, at delta 1e-4 on ``CASES`` cases of each process of
``tests/scenarios.py``, for every *signal* in ``SIGNAL``: epsilon times cases, over the cases
of a unit, scaled by ln(1e4) / ln(1/delta). In between figures are interpolated. No real log was
read for it.
``python benchmarks/variants/synthetic.py accuracy 5`` makes the figures of all mechanisms anew.
"""

import math
from typing import Final

import numpy as np

from cloakwork.base.facts import Facts
from cloakwork.mechanisms.base import Prediction

CASES: Final = 2000
SIGNAL: Final = (10, 30, 100, 300, 1000, 3000, 10_000, 30_000)

Row = tuple[float, ...]

Simulated = tuple[Row, Row]
"""The similarity at each signal, on the structured process and on the unstructured one: means of
five runs, an empty release counting 0. Where the signal is weak they scatter by a tenth or two.
"""

HEAD_SHARES: Final = (0.1, 0.8)
"""The share of cases that the ten most frequent variants hold: in the unstructured process, in the
structured one.
"""

DEFAULT_CASES: Final = 1000
"""Cases assumed of a log whose number of units is not declared."""


def predict_similarity(
    rows: Simulated,
    epsilon: float,
    delta: float,
    facts: Facts,
    *,
    noise_factor: float = 1.0,
) -> Prediction:
    """What the simulation of a mechanism says of it at (epsilon, delta).

    ``noise_factor``: by what factor the signal is less than the simulated one, such as for longer
    cases.
    """
    units = facts.units_at_most or DEFAULT_CASES
    # More cases do what more epsilon does; a unit of m cases needs m times the noise.
    signal = epsilon * units / (facts.unit.max_cases * noise_factor)
    # The table is for delta 1e-4; a smaller one raises thresholds by the ratio of logarithms.
    if delta > 0:
        signal *= math.log(1e4) / math.log(1 / delta)
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
