"""The privacy policy: its language, its loading, the shipped ones."""

from cloakwork.mechanisms.mechanism_names import KNOWN_MECHANISMS
from cloakwork.policy.load import digest, load_policy, parse_policy
from cloakwork.policy.model import Policy

__all__ = ["KNOWN_MECHANISMS", "Policy", "digest", "load_policy", "parse_policy"]
