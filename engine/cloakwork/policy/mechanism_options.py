"""The options that a policy may set for each mechanism of Cloakwork, by name.

Values are judged by the mechanism itself, while planning. The names stand here, below the
mechanisms, so that a misspelt one is found where the policy is read, with its place in the file.
``tests/policy/test_mechanism_options.py`` holds the table to what the mechanisms accept.
"""

from collections.abc import Mapping
from typing import Final

_TREE: Final = ("length", "noise", "split", "threshold", "prefixes")
_PUBLISHED_TREE: Final = ("length", "threshold", "prefixes")

OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "bound": (),
    "kanon/auto": ("distance", "seconds", "gap", "split_cases", "among"),
    "kanon/optimal": ("distance", "seconds", "gap", "split_cases"),
    "kanon/best-first": ("distance",),
    "kanon/a-star": ("distance", "seconds", "memory"),
    "kanon/pretsa": ("distance",),
    "kanon/generalise": (),
    "kanon/fill": (),
    "kanon/tlkc": (),
    "kanon/closeness": ("infeasible", "step"),
    "variants/adaptive": ("share",),
    "variants/threshold": ("noise",),
    "variants/amun": ("variants",),
    "variants/libra": ("rate", "samples", "selection_share", "omega", "rho", "noise"),
    "variants/amun-published": (),
    "variants/libra-published": ("rate", "alpha"),
    "variants/prefix-tree": _TREE,
    "variants/sacofa": (
        *_TREE,
        "rules",
        "rules_from",
        "share",
        "harmful_threshold",
        "most_harmful",
        "score",
    ),
    "variants/prefix-tree-published": _PUBLISHED_TREE,
    "variants/sacofa-published": (*_PUBLISHED_TREE, "harmless_threshold", "bound"),
    "variants/markov": ("sharpness", "shares"),
    "dfg/laplace": ("most_steps",),
    "timestamps/laplace": ("noised", "start_share"),
    "attributes/redact": (),
}
"""Of the mechanisms that this version has; what those of other packages accept, only they know."""
