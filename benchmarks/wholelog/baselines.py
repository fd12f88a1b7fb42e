"""What whole logs are compared with. None of this is a mechanism of Cloakwork: numpy's noise, and
claims as the docstrings say.

- ``halves``: one half of the cases against the other, without any noise.
- ``drawn anew``: as many cases as the log has, drawn from it with replacement: what a release
  loses that knows the log's distribution exactly and makes new cases of it. About the best there
  is; not private at all.
- ``flat marginals``: cases by ``variants/markov``, and every gap, start and value drawn from one
  noisy table a column, whatever the activity. Differentially private as ours is: .6 of epsilon
  and half of delta for the control flow, the rest for Gaussian tables of equal size; in each, a
  case weighs 1.
- ``PRIPEL-like, per value``: cases as above at the full epsilon; each is matched with a real case
  of the least edit distance and takes its values over, each under local differential privacy of
  the full epsilon, in ranges and domains that are read off the log (Fahrenkrog-Petersen, van der
  Aa and Weidlich 2020). A case has many values, and the match reads it raw: no claim for a case.
- ``PRIPEL-like, split``: half of epsilon for the control flow, and the other half divided by the
  values that a case may have, over declared ranges and domains; whether a value is missing is
  randomised too. The match still reads the raw log, so even this claims too much.
- ``k = 10, raw values``: every released variant is that of ten cases; times and values are the
  log's own. Not differentially private, and with the values most cases are recognisable.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
import polars as pl
from numpy.random import Generator
from numpy.typing import NDArray
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from cloakwork.audit.distances import bins_of, round_edges
from cloakwork.facts import Facts
from cloakwork.log.eventlog import ACTIVITY, CASE_PREFIX, TIME_TYPE, TIMESTAMP, EventLog
from cloakwork.log.variants import Variants, variants_of
from cloakwork.noise import reproducible
from cloakwork.plan.planner import make_plan
from cloakwork.policy.model import Policy
from cloakwork.run.execute import execute
from cloakwork.testing import run_mechanism

SECOND = 1_000_000  # microseconds
BINS_OF_GAPS = 60
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
    return log, execute(plan, log, None, noise=reproducible(seed)).log


def flat_marginals(log: EventLog, policy: Policy, seed: int) -> Made:
    """Control flow by a mechanism of ours, every other column from one noisy table."""
    rng, facts = np.random.default_rng(seed), policy.facts()
    epsilon, delta = budget_of(policy)
    release = control_flow(log, facts, 0.6 * epsilon, delta / 2, seed)
    names = columns_of(policy)
    mu = mu_of(0.4 * epsilon, delta / 2) / math.sqrt(2 + len(names))
    times = noisy_times(log, release, facts, 1 / mu, rng)
    release = with_times(release, times)
    for name in names:
        release = with_values(release, name, flat_values(log, release, facts, name, 1 / mu, rng))
    return log, release


def pripel_per_value(log: EventLog, policy: Policy, seed: int) -> Made:
    """Every value costs the full epsilon, in ranges of the log's own."""
    epsilon, delta = budget_of(policy)
    return log, pripel(log, policy, seed, (epsilon, delta), epsilon, declared=False)


def pripel_split(log: EventLog, policy: Policy, seed: int) -> Made:
    """All values of a case cost half of epsilon together, in declared ranges."""
    (epsilon, delta), facts = budget_of(policy), policy.facts()
    names = columns_of(policy)
    of_cases = sum(name.startswith(CASE_PREFIX) for name in names)
    values = (facts.longest_case or 100) * (1 + len(names) - of_cases) + of_cases
    budget = epsilon / 2, delta
    return log, pripel(log, policy, seed, budget, epsilon / 2 / values, declared=True)


METHODS: dict[str, Callable[[EventLog, Policy, int], Made]] = {
    "drawn anew": drawn_anew,
    "halves": halves,
    "flat marginals": flat_marginals,
    "PRIPEL-like, per value": pripel_per_value,
    "PRIPEL-like, split": pripel_split,
    "k = 10, raw values": k_anonymous,
}


def budget_of(policy: Policy) -> tuple[float, float]:
    """Epsilon and delta of the goal."""
    goal: Any = policy.spec.guarantees[0]
    return goal.epsilon, goal.delta


def columns_of(policy: Policy) -> list[str]:
    """The attributes of the goal."""
    over = policy.spec.guarantees[0].over
    return [name for name in over if name not in ("control-flow", "timestamps")]


def mu_of(epsilon: float, delta: float) -> float:
    """The mu of a Gaussian mechanism that is (epsilon, delta)-private (Balle and Wang 2018)."""
    normal = NormalDist()

    def spent(mu: float) -> float:
        first = normal.cdf(mu / 2 - epsilon / mu)
        return first - math.exp(epsilon) * normal.cdf(-mu / 2 - epsilon / mu)

    low, high = 1e-6, 100.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if spent(middle) <= delta else (low, middle)
    return low


def control_flow(log: EventLog, facts: Facts, epsilon: float, delta: float, seed: int) -> EventLog:
    """Cases without anything else, by ``variants/markov``."""
    return run_mechanism(
        "variants/markov",
        log,
        noise=reproducible(seed),
        epsilon=epsilon,
        delta=delta,
        alphabet=facts.alphabet,
        longest_case=facts.longest_case,
        units_at_most=facts.units_at_most,
    )


def stamps_of(log: EventLog) -> NDArray[np.int64]:
    """The times in microseconds since 1970."""
    return log.events[TIMESTAMP].dt.timestamp("us").to_numpy().astype(np.int64)


def with_times(log: EventLog, stamps: NDArray[np.int64]) -> EventLog:
    """The log with these times."""
    times = pl.Series(TIMESTAMP, stamps, pl.Int64).cast(TIME_TYPE)
    return replace(log, events=log.events.with_columns(times))


def with_values(log: EventLog, name: str, values: pl.Series) -> EventLog:
    """The log with one attribute more."""
    if name.startswith(CASE_PREFIX):
        return replace(log, cases=log.cases.with_columns(values.alias(name)))
    return replace(log, events=log.events.with_columns(values.alias(name)))


def following(log: EventLog) -> NDArray[np.int64]:
    """The events that are not the first of their case."""
    return np.flatnonzero(np.diff(log.case_of, prepend=-1) == 0)


def chained(log: EventLog, starts: NDArray[Any], gaps: NDArray[Any]) -> NDArray[np.int64]:
    """Times of events from the starts of their cases and the gaps between them (``following``)."""
    steps = np.zeros(log.events.height)
    steps[following(log)] = gaps
    sums = np.cumsum(steps)
    first = log.offsets[:-1]
    lengths = np.diff(log.offsets)
    within = sums - np.repeat(sums[np.minimum(first, max(len(sums) - 1, 0))], lengths)
    return np.asarray(np.repeat(starts, lengths) + within, np.int64)


def window_of(facts: Facts) -> tuple[float, float]:
    """The declared window in microseconds."""
    window = facts.window
    return window.start.timestamp() * SECOND, window.end.timestamp() * SECOND


def noisy_share(counts: NDArray[Any], sigma: float, rng: Generator) -> NDArray[np.float64]:
    """Shares from counts with Gaussian noise; equal ones where nothing is left."""
    noisy = np.maximum(counts + rng.normal(0, sigma, len(counts)), 0)
    total = noisy.sum()
    return noisy / total if total > 0 else np.full(len(counts), 1 / len(counts))


def noisy_times(
    log: EventLog, release: EventLog, facts: Facts, sigma: float, rng: Generator
) -> NDArray[np.int64]:
    """Starts by weeks of the window, gaps on a log scale: one table each."""
    stamps, (begin, end) = stamps_of(log), window_of(facts)
    week = 7 * 86_400 * SECOND
    weeks = math.ceil((end - begin) / week)
    place = np.clip((stamps[log.offsets[:-1]] - begin) // week, 0, weeks - 1).astype(np.int64)
    shares = noisy_share(np.bincount(place, minlength=weeks), sigma, rng)
    cases = release.cases.height
    starts = begin + (rng.choice(weeks, cases, p=shares) + rng.random(cases)) * week

    rows, most = following(log), math.log10(1 + facts.longest_gap.total_seconds())
    gaps = np.log10(1 + (stamps[rows] - stamps[rows - 1]) / SECOND)
    width = most / BINS_OF_GAPS
    bins = np.clip(np.ceil(gaps / width), 0, BINS_OF_GAPS).astype(np.int64)
    weights = 1 / (np.diff(log.offsets)[log.case_of[rows]] - 1)
    shares = noisy_share(np.bincount(bins, weights, BINS_OF_GAPS + 1), sigma, rng)
    drawn = rng.choice(BINS_OF_GAPS + 1, len(following(release)), p=shares)
    exponents = np.maximum(drawn - rng.random(len(drawn)), 0) * width
    return chained(release, starts, (10**exponents - 1) * SECOND * (drawn > 0))


def flat_values(
    log: EventLog, release: EventLog, facts: Facts, name: str, sigma: float, rng: Generator
) -> pl.Series:
    """Values from one noisy table over the declared domain or range; missing is a value."""
    coded = Coded.of(log, facts, name, declared=True)
    of_case = name.startswith(CASE_PREFIX)
    weights = None if of_case else 1 / np.diff(log.offsets)[log.case_of]
    counts = np.bincount(coded.codes + 1, weights, minlength=coded.size + 1)
    shares = noisy_share(counts, sigma, rng)
    height = release.cases.height if of_case else release.events.height
    return coded.values(rng.choice(coded.size + 1, height, p=shares) - 1, rng)


@dataclass(frozen=True, slots=True)
class Coded:
    """An attribute as codes, -1 where it is missing: places in ``domain``, or bins of ``edges``."""

    codes: NDArray[np.int64]
    domain: pl.Series | None
    edges: NDArray[np.float64] | None

    @classmethod
    def of(cls, log: EventLog, facts: Facts, name: str, *, declared: bool) -> "Coded":
        """By the declared domain or range, or by what the log has."""
        values = raw_values(log, name)
        if name in facts.ranges:
            numbers = values.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
            edges = round_edges(*facts.ranges[name])
            return cls(bins_of(numbers, edges), None, edges)
        domain = pl.Series(facts.domains[name])
        if not declared:
            domain = values.drop_nulls().unique().sort()
        listed = {str(value): place for place, value in enumerate(domain.to_list())}
        codes = [listed.get(str(value), -1) for value in values.to_list()]
        return cls(np.array(codes, np.int64), domain, None)

    @property
    def size(self) -> int:
        """How many values there are beside the missing one."""
        if self.domain is not None:
            return len(self.domain)
        return len(self.edges if self.edges is not None else ()) - 1

    def values(self, codes: NDArray[np.int64], rng: Generator) -> pl.Series:
        """The values of codes; of a bin any number in it."""
        missing = pl.Series(codes < 0)
        if self.domain is not None:
            return self.domain.gather(np.maximum(codes, 0)).set(missing, None)
        low, high = (self.edges[np.maximum(codes, 0) + side] for side in (0, 1))
        return pl.Series(low + rng.random(len(codes)) * (high - low)).set(missing, None)


def raw_values(log: EventLog, name: str) -> pl.Series:
    """The values of an attribute."""
    table = log.cases if name.startswith(CASE_PREFIX) else log.events
    return table.get_column(name).alias("")


def pripel(
    log: EventLog,
    policy: Policy,
    seed: int,
    budget: tuple[float, float],
    per_value: float,
    *,
    declared: bool,
) -> EventLog:
    """Cases at ``budget``, each with the values of a real one, each value at ``per_value``."""
    rng, facts = np.random.default_rng(seed), policy.facts()
    release = control_flow(log, facts, *budget, seed)
    case, event = matched(log, release, rng)
    stamps = stamps_of(log)
    starts = bounded_laplace(stamps[log.offsets[case]], window_of(facts), per_value, rng)
    gaps = pripel_gaps(log, release, event, facts, per_value, rng, declared=declared)
    release = with_times(release, chained(release, starts, gaps))
    for name in columns_of(policy):
        taken = case if name.startswith(CASE_PREFIX) else event
        values = noisy_values(log, facts, name, taken, per_value, rng, declared=declared)
        release = with_values(release, name, values)
    return release


def matched(
    log: EventLog, release: EventLog, rng: Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each released case a real case of the nearest variant, and for each released event the
    event of that case with its activity and occurrence, else any event of that activity.
    """
    real, new = variants_of(log), variants_of(release)
    nearest = nearest_variants(real, new)[new.of_case]
    of_variant = np.argsort(real.of_case, kind="stable")
    begins = np.concatenate([[0], np.cumsum(real.counts)])
    drawn = (rng.random(len(nearest)) * real.counts[nearest]).astype(np.int64)
    case = of_variant[begins[nearest] + drawn]
    keys = ["case", "label", "turn"]
    here = occurrences(log).with_row_index("event")
    there = occurrences(release).with_columns(case=pl.Series(case[release.case_of]))
    joined = there.join(here, on=keys, how="left", maintain_order="left")["event"]
    event = joined.fill_null(-1).cast(pl.Int64).to_numpy().copy()
    for label in there["label"].unique().sort():
        open_rows = np.flatnonzero((event < 0) & (there["label"] == label).to_numpy())
        pool = np.flatnonzero((here["label"] == label).to_numpy())
        if not len(pool):
            pool = np.arange(log.events.height)
        event[open_rows] = rng.choice(pool, len(open_rows))
    return case, event


def occurrences(log: EventLog) -> pl.DataFrame:
    """For each event its case, its activity, and how often that came before in the case."""
    frame = pl.DataFrame({"case": log.case_of, "label": log.events[ACTIVITY]})
    return frame.with_columns(turn=pl.int_range(pl.len()).over("case", "label"))


def nearest_variants(real: Variants, new: Variants) -> NDArray[np.int64]:
    """For each new variant the real one of the least edit distance."""
    letters = {
        label: chr(0x4E00 + place)
        for place, label in enumerate(sorted({*real.alphabet, *new.alphabet}))
    }
    texts = [
        ["".join(letters[label] for label in side.labels(row)) for row in range(len(side))]
        for side in (new, real)
    ]
    if not texts[0]:
        return np.zeros(0, np.int64)
    costs = process.cdist(*texts, scorer=Levenshtein.distance, dtype=np.int32)
    return costs.argmin(axis=1).astype(np.int64)


def pripel_gaps(
    log: EventLog,
    release: EventLog,
    event: NDArray[np.int64],
    facts: Facts,
    epsilon: float,
    rng: Generator,
    *,
    declared: bool,
) -> NDArray[np.float64]:
    """The gap before each event that was taken over, with noise: over the declared longest gap, or
    over the log's own longest before that activity.
    """
    stamps = stamps_of(log)
    raw = np.zeros(log.events.height)
    raw[following(log)] = np.diff(stamps)[following(log) - 1]
    most = np.full(len(raw), facts.longest_gap.total_seconds() * SECOND)
    if not declared:
        by_label = pl.DataFrame({"label": log.events[ACTIVITY], "gap": raw})
        most = by_label.select(pl.col("gap").max().over("label")).to_series().to_numpy()
    chosen = event[following(release)]
    return bounded_laplace(raw[chosen], (0, most[chosen]), epsilon, rng)


def bounded_laplace(
    values: NDArray[Any], span: tuple[Any, Any], epsilon: float, rng: Generator
) -> NDArray[np.float64]:
    """Each value clamped, with Laplace noise of the range over epsilon, and clamped again."""
    low, high = span
    noise = rng.laplace(0, 1, len(values)) * (np.asarray(high) - low) / epsilon
    return np.clip(np.clip(values, low, high) + noise, low, high)


def noisy_values(
    log: EventLog,
    facts: Facts,
    name: str,
    taken: NDArray[np.int64],
    epsilon: float,
    rng: Generator,
    *,
    declared: bool,
) -> pl.Series:
    """The values that were taken over: numbers with Laplace noise, others by k-ary randomised
    response. ``declared``: whether a value is missing is randomised too, else it stays as it is.
    """
    values = raw_values(log, name)
    coded = Coded.of(log, facts, name, declared=declared)
    if coded.domain is not None:
        codes = coded.codes[taken]
        size = coded.size + declared
        shown = randomised(codes + declared, size, epsilon, rng) - declared
        return coded.values(np.where((codes < 0) & (not declared), -1, shown), rng)
    numbers = values.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()[taken]
    known = ~np.isnan(numbers)
    span = facts.ranges[name] if declared else (np.nanmin(numbers), np.nanmax(numbers))
    presence = randomised(known.astype(np.int64), 2, epsilon / 2, rng) == 1
    shown = presence if declared else known
    part = epsilon / 2 if declared else epsilon
    middle = np.where(known, numbers, (span[0] + span[1]) / 2)
    noisy = bounded_laplace(middle, span, part, rng)
    return pl.Series(noisy).set(pl.Series(~shown), None)


def randomised(
    codes: NDArray[np.int64], size: int, epsilon: float, rng: Generator
) -> NDArray[np.int64]:
    """k-ary randomised response: the true code with e**epsilon / (e**epsilon + size - 1)."""
    stays = rng.random(len(codes)) < 1 / (1 + (size - 1) * math.exp(-epsilon))
    others = (codes + rng.integers(1, max(size, 2), len(codes))) % max(size, 1)
    return np.where(stays | (size < 2), codes, others)
