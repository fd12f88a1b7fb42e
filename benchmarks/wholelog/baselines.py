"""What whole logs are compared with: each gives the log that its release is compared with, and the
release.

- ``halves``: one half of the cases against the other, without any noise.
- ``drawn anew``: as many cases as the log has, drawn from it with replacement: what a release
  loses that knows the log's distribution exactly and makes new cases of it. About the best there
  is; not private at all.
- ``flat marginals``: cases by ``variants/markov``, and every gap, start and value drawn from one
  noisy table a column, whatever the activity. Differentially private as ours is: .6 of epsilon
  and half of delta for the control flow, the rest for Gaussian tables of equal size; in each, a
  case weighs 1. Noise of numpy.
- ``PRIPEL, published``: ``variants/pripel-published``: cases by the published prefix tree, each
  with the values of a real case, every value at the full epsilon. No claim for a case.
- ``PRIPEL, split per case``: the same idea with an epsilon that adds up: half of it for the control
  flow, by ``variants/markov``, and the other half divided by the values that a case may have, over
  declared ranges and domains; whether a value is missing is randomised too. Which real case is
  taken still follows from the raw log, so even this claims too much.
- ``k = 10, raw values``: every released variant is that of ten cases; times and values are the
  log's own. Not differentially private, and with the values most cases are recognisable.
"""

from collections.abc import Callable

import flat
import numpy as np
import pripel

from cloakwork.log.eventlog import TIMESTAMP, EventLog
from cloakwork.noise import reproducible
from cloakwork.plan.planner import make_plan
from cloakwork.policy.model import Policy
from cloakwork.run.run import Run

Made = tuple[EventLog, EventLog]
"""What a release is compared with, and the release."""


def halves(log: EventLog, policy: Policy, seed: int) -> Made:
    """One half of the cases, and the other."""
    order = np.random.default_rng(seed).permutation(log.cases.height)
    middle = len(order) // 2
    return log.keep_cases(order[:middle]), log.keep_cases(order[middle:])


def drawn_anew(log: EventLog, policy: Policy, seed: int) -> Made:
    """As many cases as there are, with replacement."""
    chosen = np.random.default_rng(seed).integers(0, log.cases.height, log.cases.height)
    return log, log.keep_cases(np.sort(chosen))


def k_anonymous(log: EventLog, policy: Policy, seed: int) -> Made:
    """k = 10 over variants, and everything else as it is."""
    document = policy.model_dump(mode="json", by_alias=True, exclude_unset=True)
    spec = document["spec"]
    names = [name for name in spec["guarantees"][0]["over"] if name != "control-flow"]
    spec["attributes"] |= {name: {"treatment": "keep"} for name in names if name != "timestamps"}
    spec["attributes"][TIMESTAMP] = {"role": "timestamp", "treatment": "keep"}
    goal = {"kind": "k-anonymity", "k": 10, "over": ["control-flow"], "scope": "variants"}
    spec["guarantees"] = [goal]
    spec["expose"] = dict.fromkeys(names, "a baseline: it is released as it is")
    spec["mechanisms"] = {"prefer": ["kanon/best-first"]}
    del spec["assume"], spec["budget"]
    plan = make_plan(Policy.model_validate(document))
    return log, Run(plan=plan, noise=reproducible(seed)).release(log, None).log


METHODS: dict[str, Callable[[EventLog, Policy, int], Made]] = {
    "drawn anew": drawn_anew,
    "halves": halves,
    "flat marginals": flat.flat_marginals,
    "PRIPEL, published": pripel.published,
    "PRIPEL, split per case": pripel.split,
    "k = 10, raw values": k_anonymous,
}
