"""Puts what a plan states into words; nothing else does.

The kinds of guarantee supply their own sentence (``guarantees``); the policy supplies its reasons,
and a mechanism the description of its own step. Everything else that a plan, a statement or a
report says is written here, from records alone, so that correcting a word changes no claim.
``tests/golden/sentences.txt`` holds every sentence.
"""

from cloakwork.plan.sentences.assumptions import assumption_in_words
from cloakwork.plan.sentences.caveats import caveat_in_words
from cloakwork.plan.sentences.claims import (
    assumptions_in_words,
    claim_sentence,
    possible_time_attributes,
    reasons_in_words,
    unproven_cost,
    unproven_sentence,
)
from cloakwork.plan.sentences.columns import (
    column_in_words,
    exposure_in_words,
    treatment_in_words,
)
from cloakwork.plan.sentences.reasons import reason_in_words
from cloakwork.plan.sentences.steps import enforced_sentence, proof_in_words

__all__ = [
    "assumption_in_words",
    "assumptions_in_words",
    "caveat_in_words",
    "claim_sentence",
    "column_in_words",
    "enforced_sentence",
    "exposure_in_words",
    "possible_time_attributes",
    "proof_in_words",
    "reason_in_words",
    "reasons_in_words",
    "treatment_in_words",
    "unproven_cost",
    "unproven_sentence",
]
