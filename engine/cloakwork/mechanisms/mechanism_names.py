"""The mechanisms that a policy of version 1 may name."""

from typing import Final

KNOWN_MECHANISMS: Final = frozenset(
    {
        "bound",
        "pripel",
        "dfg/laplace",
        "variants/adaptive",
        "variants/threshold",
        "variants/prefix-tree",
        "variants/sacofa",
        "variants/amun",
        "variants/libra",
        "variants/travag",
        "variants/ddpm",
        "variants/markov",
        "variants/transformer",
        "variants/prefix-tree-published",
        "variants/sacofa-published",
        "variants/amun-published",
        "variants/libra-published",
        "variants/pripel-published",
        "variants/travag-published",
        "variants/ddpm-published",
        "kanon/pretsa",
        "kanon/best-first",
        "kanon/a-star",
        "kanon/optimal",
        "kanon/auto",
        "kanon/generalise",
        "kanon/tlkc",
        "kanon/closeness",
        "kanon/fill",
        "timestamps/laplace",
        "timestamps/histogram",
        "timestamps/regression",
        "attributes/redact",
        "attributes/drop",
        "attributes/generalise",
        "attributes/pseudonymise",
        "attributes/randomised-response",
        "attributes/bounded-laplace",
        "attributes/histogram",
        "attributes/regression",
    }
)
"""Every mechanism name that a policy of version 1 may speak of, built in this version or not."""
