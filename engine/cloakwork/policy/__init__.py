"""The privacy policy: its language, its loading, the shipped ones."""

from cloakwork.policy.load import digest
from cloakwork.policy.model import Policy
from cloakwork.policy.semantics import Vocabulary

__all__ = ["Policy", "Vocabulary", "digest"]
