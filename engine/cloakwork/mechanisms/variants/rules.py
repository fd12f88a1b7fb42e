"""Public rules of a process as structural zeros: which steps a prefix may be followed by.

Post-processing: a release is a function of noisy answers, of the rules, which are declared, and of
fresh randomness, so a rule costs nothing, whatever the log does (Dwork and Roth 2014, proposition
2.1).
"""

from collections.abc import Sequence

import numpy as np

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.base.rules import ProcessRules
from cloakwork.mechanisms.variants.chain import StepFactors


def permitted_steps(rules: ProcessRules, alphabet: Sequence[str]) -> StepFactors:
    """1 for each label, or the END, that may follow a prefix which keeps the rules, and 0 for those
    that would break one. After an event the END always may; before any, it never does.
    """
    code = {label: place for place, label in enumerate(alphabet)}
    size = len(alphabet)
    is_start = np.array([label in rules.starts_with for label in alphabet], np.bool_)
    once = np.array([label in rules.at_most_once for label in alphabet], np.bool_)
    # Of a pair whose first activity is none of the alphabet, the second never happens.
    before = [(code.get(a), code[b]) for a, b in rules.before if b in code]
    together = [[code[label] for label in group if label in code] for group in rules.never_together]

    def factors(prefixes: Ints) -> Floats:
        cases, events = prefixes.shape
        seen = np.zeros((cases, size), np.bool_)
        seen[np.arange(cases)[:, None], prefixes - 1] = True
        allowed = np.ones((cases, size + 1), np.bool_)
        labels = allowed[:, :size]
        labels &= ~(seen & once)
        for a, b in before:
            labels[:, b] &= False if a is None else seen[:, a]
        for group in together:
            # Whichever of them happened, no other may.
            others = seen[:, group].sum(axis=1, keepdims=True) - seen[:, group]
            labels[:, group] &= others == 0
        if not events:
            allowed[:, size] = False
            if rules.starts_with:
                labels &= is_start
        return allowed.astype(np.float64)

    return factors


def permitted_pairs(rules: ProcessRules, alphabet: Sequence[str]) -> Bools:
    """Which steps of order 1 some case may take: the layout of ``chain.Table``."""
    found = np.ones((len(alphabet) + 1, len(alphabet) + 1), np.bool_)
    factors = permitted_steps(rules, alphabet)
    found[0] = factors(np.zeros((1, 0), np.int64))[0] > 0
    for a, one in enumerate(alphabet):
        found[a + 1, a] &= one not in rules.at_most_once
        for group in rules.never_together:
            if one in group:
                found[a + 1, :-1] &= [other == one or other not in group for other in alphabet]
    return found
