"""What a plan states beside its steps, as typed records.

One file for each question: why a claim holds (``reasons``), what it rests on (``assumptions``), why
a column is released without protection (``exposures``), what stays open (``caveats``).

No record holds a sentence. ``plan.sentences`` puts records into words; ``prove`` and ``verify``
compare records alone. Every record is frozen and has a ``kind``, which distinguishes the members of
a union.
"""

from cloakwork.guarantees.claims.assumptions import Assumption, Source
from cloakwork.guarantees.claims.caveats import Caveat
from cloakwork.guarantees.claims.exposures import ExposureReason, TreatmentReason
from cloakwork.guarantees.claims.reasons import ConditionedOn, Reason

__all__ = [
    "Assumption",
    "Caveat",
    "ConditionedOn",
    "ExposureReason",
    "Reason",
    "Source",
    "TreatmentReason",
]
