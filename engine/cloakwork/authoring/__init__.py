"""From an unknown log to a policy: what its attributes are, and a file to begin with."""

from cloakwork.authoring.advice import lint_log
from cloakwork.authoring.exploration import Exploration, explore
from cloakwork.authoring.suggestion import Suggestion, header_of, policy_text, suggest

__all__ = [
    "Exploration",
    "Suggestion",
    "explore",
    "header_of",
    "lint_log",
    "policy_text",
    "suggest",
]
