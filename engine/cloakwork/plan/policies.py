"""Policies as planning reads them: in the vocabulary of the mechanisms that are installed."""

from pathlib import Path

from cloakwork.mechanisms.installed import KNOWN_MECHANISMS, installed_names
from cloakwork.mechanisms.registry import options_of
from cloakwork.policy import load
from cloakwork.policy.load import shipped_path
from cloakwork.policy.model import Policy
from cloakwork.policy.semantics import Vocabulary


def vocabulary() -> Vocabulary:
    """What a policy may say of mechanisms: version 1's, and those that installed packages bring,
    each named in full.
    """
    installed = installed_names()
    return Vocabulary(KNOWN_MECHANISMS | installed, installed, options_of)


def load_policy(path: str | Path) -> Policy:
    """Read a policy file; raises PolicyError with every fault found."""
    return load.load_policy(path, vocabulary())


def parse_policy(text: str, path: str = "policy.yaml") -> Policy:
    """Read a policy from text; ``path`` is what the errors call it."""
    return load.parse_policy(text, path, vocabulary())


def load_shipped(name: str) -> Policy:
    """Read a shipped policy by its name; raises PolicyError where there is none."""
    return load_policy(shipped_path(name))
