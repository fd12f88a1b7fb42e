"""How a step's guarantee is known, in words."""

from typing import Final

from cloakwork.mechanisms.base import Proof

_IN_WORDS: Final[dict[Proof, str]] = {
    "proved": "proved",
    "kernel": "enforced by the kernel",
    "published": "published",
}


def proof_in_words(proof: Proof) -> str:
    """One phrase, as it stands beside a mechanism's name."""
    return _IN_WORDS[proof]


def enforced_sentence() -> str:
    """What ``proof: kernel`` means."""
    return (
        "enforced by the kernel: the log is seen only through answers that are bounded, noised and "
        "counted against the planned cost, whatever the mechanism's code does"
    )
