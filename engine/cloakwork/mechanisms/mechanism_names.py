"""The mechanisms that a policy of version 1 may name."""

from typing import Final

IN_ORDER: Final = (
    "bound",
    "kanon/auto",
    "kanon/optimal",
    "kanon/best-first",
    "kanon/a-star",
    "kanon/pretsa",
    "kanon/generalise",
    "kanon/fill",
    "kanon/tlkc",
    "kanon/closeness",
    "variants/adaptive",
    "variants/threshold",
    "variants/amun",
    "variants/libra",
    "variants/amun-published",
    "variants/libra-published",
    "variants/prefix-tree",
    "variants/sacofa",
    "variants/prefix-tree-published",
    "variants/sacofa-published",
    "variants/pripel-published",
    "variants/travag-published",
    "variants/ddpm-published",
    "variants/markov",
    "variants/travag",
    "variants/ddpm",
    "variants/transformer",
    "dfg/laplace",
    "timestamps/laplace",
    "attributes/histogram",
    "attributes/regression",
    "timestamps/histogram",
    "timestamps/regression",
    "attributes/randomised-response",
    "attributes/bounded-laplace",
    "attributes/redact",
    "pripel",
    "attributes/drop",
    "attributes/generalise",
    "attributes/pseudonymise",
)
"""Every mechanism name that a policy of version 1 may speak of, built and installed or not, in the
order in which they are listed and the planner tries them.
"""

KNOWN_MECHANISMS: Final = frozenset(IN_ORDER)
