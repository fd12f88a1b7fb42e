"""The options that a policy may set for each mechanism of Cloakwork, by name, and what each means.

Values are judged by the mechanism itself, while planning. The names stand here, below the
mechanisms, so that a misspelt one is found where the policy is read, with its place in the file.
``tests/policy/test_mechanism_options.py`` holds the table to what the mechanisms accept.
"""

from collections.abc import Mapping
from typing import Final

_DISTANCE: Final = {
    "distance": "what one edit is: levenshtein, or indel, where a replacement counts as two "
    "(levenshtein)"
}
_SEARCH: Final = {
    "seconds": "the most that the search may take (30)",
    "gap": "share above the least possible distance at which the search may stop (0.01)",
    "split_cases": "whether identical cases may move to different variants, where cases are "
    "counted (true)",
}
_COUNT_NOISE: Final = (
    "laplace, gaussian or truncated-geometric "
    "(truncated-geometric where its threshold is lower, else laplace)"
)
_LENGTH: Final = "how many events of a case are counted (assume.longest_case, else 20)"
_TREE: Final = {
    "length": _LENGTH,
    "noise": "gaussian, or laplace (gaussian; laplace where delta is 0)",
    "split": "uniform: the same noise at every length; geometric: less for longer prefixes "
    "(uniform)",
    "threshold": "the least noisy count that is kept, in cases (such that on average at most half "
    "an extension that nobody took passes for each prefix)",
    "prefixes": "the most prefixes kept of one length (5,000)",
}
_PUBLISHED_TREE: Final = {
    "length": _LENGTH,
    "threshold": "the least noisy count that is kept, in cases (20)",
    "prefixes": "the most prefixes kept of one length (1,000)",
}
_GENERATIVE_PUBLISHED: Final = {
    "batch": "cases in a batch, on average (64)",
}
_ONE_HOT: Final = {
    "domain": "the variants that are public, each a list of activities "
    "(none: they are selected, as by variants/threshold)",
    "selection_share": "the part of epsilon for selecting variants, where none are declared (0.9)",
    "steps": "gradient steps of each phase of training (40)",
    "hidden": "the width of the hidden layers (16)",
    "rate": "the chance of a unit to be in the sample of a step (1)",
}

OPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "bound": {},
    "kanon/auto": {
        **_DISTANCE,
        **_SEARCH,
        "among": "the algorithms that may be tried, by name (all that the policy allows)",
    },
    "kanon/optimal": {
        **_DISTANCE,
        **_SEARCH,
        "seconds": "the most that the search may take (60)",
        "gap": "share above the least possible distance at which the search may stop (0)",
        "split_cases": "whether identical cases may move to different variants, where cases are "
        "counted (false)",
    },
    "kanon/best-first": _DISTANCE,
    "kanon/a-star": {
        **_DISTANCE,
        "seconds": "after how many seconds the best answer so far is taken (60)",
        "memory": "how many MiB the states that wait may take (1,024)",
    },
    "kanon/pretsa": _DISTANCE,
    "kanon/generalise": {},
    "kanon/fill": {},
    "kanon/tlkc": {},
    "kanon/closeness": {
        "infeasible": "refuse the log, or suppress what cannot be brought to the aim (refuse)",
        "step": "for distance: stochastic over a range, the step to which numbers are rounded (1)",
    },
    "variants/adaptive": {
        "share": "the part of epsilon that is spent on measuring how cases are spread over "
        "variants (a twentieth; more on small logs)",
    },
    "variants/threshold": {"noise": _COUNT_NOISE},
    "variants/amun": {
        "variants": "the variants that are public, each a list of activities "
        "(none: they are selected, as by variants/threshold)",
    },
    "variants/travag": _ONE_HOT,
    "variants/ddpm": _ONE_HOT,
    "variants/libra": {
        "rate": "the chance of a unit to be in a sample (0.05)",
        "samples": "how many samples are drawn (1/rate)",
        "selection_share": "the part of the budget for finding frequent variants (0.5)",
        "omega": "the noisy count from which a sample counts as a sighting of a variant (1)",
        "rho": "the significance of the test that a variant was seen; 1 keeps all (0.05)",
        "noise": f"of the selection: {_COUNT_NOISE}",
    },
    "variants/amun-published": {},
    "variants/libra-published": {
        "rate": "the share of the cases in a sample (0.05)",
        "alpha": "the order of the Renyi divergence that is reported (10)",
    },
    "variants/prefix-tree": _TREE,
    "variants/sacofa": {
        **_TREE,
        "rules": "a list of [activity, relation, activity] that are known beforehand, or measured: "
        "with noise, at a share of the budget (measured)",
        "rules_from": "the id of the earlier private release that the rules were read off (none)",
        "share": "the part of the budget for measuring rules (0.1)",
        "harmful_threshold": "as threshold, for extensions that break a rule (such that a quarter "
        "of one passes)",
        "most_harmful": "the most extensions kept of one length that break a rule (100)",
        "score": "which of these are kept: binary, all alike; bounded-count, rather those that "
        "break fewer rules (bounded-count)",
    },
    "variants/prefix-tree-published": _PUBLISHED_TREE,
    "variants/pripel-published": _PUBLISHED_TREE,
    "variants/sacofa-published": {
        **_PUBLISHED_TREE,
        "harmless_threshold": "as threshold, for extensions that keep all rules (2)",
        "bound": "how many broken rules count at most (1)",
    },
    "variants/travag-published": {
        **_GENERATIVE_PUBLISHED,
        "epochs": "how often the autoencoder sees every case (20)",
        "adversarial_epochs": "how often the adversarial network sees every case (10)",
        "code": "how many numbers a variant is encoded in (128)",
    },
    "variants/ddpm-published": {
        **_GENERATIVE_PUBLISHED,
        "epochs": "how often the network sees every case (10)",
        "steps": "the steps of the diffusion, from a variant to noise (100)",
    },
    "variants/markov": {
        "sharpness": "from 1 to 4: 1 draws steps with the shares measured, more makes frequent "
        "steps more frequent (1.4)",
        "shares": "five numbers, how the budget is split over frequent variants, the number of "
        "other cases, and steps after one, two and three others",
    },
    "variants/transformer": {
        "share": "the part of the budget that trains the network; the tables of variants/markov "
        "get the rest (0.3)",
        "steps": "how many gradient steps (20)",
        "learning": "how far a step goes (0.18, or half of it where the signal is weak)",
        "width": "numbers a place in attention, even; 0 for none of it (8)",
        "places": "how many events of a case are learned from (64)",
    },
    "dfg/laplace": {
        "most_steps": "for how many steps one case counts (longest_case + 1, at most 21)",
    },
    "timestamps/laplace": {
        "noised": "for metric privacy, what gets noise: times, or gaps (and starts) (times)",
        "start_share": "for differential privacy, the part of epsilon for the start of a case "
        "(the one with the least expected error)",
    },
    "timestamps/histogram": {
        "shares": "how the budget for times is split between gaps, gaps-by-activity, gaps-by-pair, "
        "starts, hours and totals, by name; those left out keep theirs "
        "(0.08, 0.17, 0.35, 0.12, 0.11, 0.17)",
    },
    "timestamps/regression": {
        "shares": "as of timestamps/histogram, without gaps-by-activity; gaps-by-pair is the share "
        "of the regression of gaps (0.2), totals that of the one of durations (0.47)",
    },
    "attributes/histogram": {
        "norms_share": "the part of the budget for attributes that finds how large cases are, "
        "from 0.001 to 0.5 (0.03)",
        "structure_share": "the part that finds which attributes belong together; 0 draws them "
        "independently of each other (0.1)",
        "selection_share": "the part of the rest that finds values, where find_values asks for it, "
        "from 0.001 to 0.5 (0.2)",
    },
    "attributes/regression": {
        "norms_share": "as of attributes/histogram (0.03)",
        "structure_share": "as of attributes/histogram (0.1)",
        "selection_share": "as of attributes/histogram (0.2)",
        "start_share": "the part of what is left for values that tables are counted with, from "
        "0.05 to 0.95; the rest is for the gradient step (0.3)",
    },
    "attributes/randomised-response": {},
    "attributes/bounded-laplace": {},
    "attributes/redact": {},
}
"""By mechanism and option, the meaning, with the default in brackets at its end. Of the mechanisms
that this version has; what those of other packages accept, only they know.
"""
