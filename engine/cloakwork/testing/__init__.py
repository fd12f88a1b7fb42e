"""For audits, and for people who write a mechanism of their own.

``run_mechanism`` runs one without ledger, plan or files. ``MechanismContract`` is the class of
tests that every mechanism passes, ``audit_mechanism`` the statistical audit of what it claims, and
``attack_membership`` an attack on who is in a log.
"""

from cloakwork.evaluation.membership import attack_membership
from cloakwork.evaluation.one_mechanism import Prepared, prepare, run_mechanism
from cloakwork.evaluation.pairs import audit_mechanism, auditable
from cloakwork.testing.contract import MechanismContract

__all__ = [
    "MechanismContract",
    "Prepared",
    "attack_membership",
    "audit_mechanism",
    "auditable",
    "prepare",
    "run_mechanism",
]
