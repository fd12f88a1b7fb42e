"""Is this case in the log? An attack that learns from releases of random halves of the log what a
release shows of a case that was in it (shadow models; Shokri et al. 2017, Carlini et al. 2022): by
what a mechanism may have counted of it.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from time import monotonic
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.base.errors import LogError, MechanismError
from cloakwork.base.lineage import CONTROL_FLOW, TIMESTAMPS
from cloakwork.base.naming import values_of
from cloakwork.base.progress import Reporter, heard_by, say, silent
from cloakwork.engines.memory import in_memory
from cloakwork.evaluation.article29 import ReleaseAttacked, case_tables
from cloakwork.evaluation.bounds import NORMAL_999, JudgedScores, excess
from cloakwork.evaluation.coded import DAY, HOUR, SECOND, code_logs, known_attributes
from cloakwork.evaluation.dp_audit import epsilon_of_shares
from cloakwork.evaluation.one_mechanism import prepare
from cloakwork.evaluation.risk_figures import (
    ClaimBasis,
    ClaimedBound,
    GroupName,
    MembershipFigures,
    MembershipGroup,
    RecognisedMembers,
    Share,
)
from cloakwork.guarantees import DifferentialPrivacy, Guarantee
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog
from cloakwork.log.variants import variants_of
from cloakwork.mechanisms.base import Mechanism
from cloakwork.noise import reproducible
from cloakwork.plan.model import Plan
from cloakwork.run.prepare import prepared_log
from cloakwork.run.run import Run

ReleaseOf = Callable[[EventLog], EventLog]
"""Makes a release of a log, with noise of its own each time."""

FEWEST_RUNS: Final = 20
MOST_TARGETS: Final = 1000

LEVELS: Final = (0.001, 0.01, 0.1)
"""Shares of false alarms at which an attack is judged, where others are enough to tell them."""

_FEWEST_ALARMS: Final = 10
_GROUP_SIZES: Final = (2, 5, 10)

_OF_MEAN: Final = 0.1
_LEAST_VARIANCE: Final = 0.05
"""Of a cell, and so much of its mean besides."""

_RIDGE: Final = 1e-3
_BINS: Final = 20
"""Of numbers that have more values than that."""

_HOURS_OF_WEEK: Final = 168
MOST_CANARIES: Final = 20
_CASES_OF_CANARY: Final = 20
_USUAL: Final = 0.05
"""Of the cases, the share that begins as a canary does, at least."""

_LONGEST_BEGINNING: Final = 10
_MOST_INFERRED: Final = 200
"""Targets whose attributes are guessed."""

_DECIMALS: Final = 9
_SECONDS_BETWEEN: Final = 2.0

_NOT_MADE_UP: Final = (
    "the plan makes no cases anew (it changes those of the log), so releases of halves of the log "
    "tell nothing that linking does not; leave out --membership"
)


@dataclass(frozen=True, slots=True)
class AttackedMechanism:
    """What makes releases of logs, and what is claimed for it, over which ``columns`` beside the
    control flow; ``unit``: the attribute of cases that names whose they are, None where each case
    is by itself.
    """

    name: str
    release: ReleaseOf
    claimed: ClaimedBound | None
    unit: str | None = None
    columns: frozenset[str] = frozenset()


def membership(
    log: EventLog,
    attacked: AttackedMechanism,
    *,
    runs: int,
    targets: int = MOST_TARGETS,
    seed: int = 1,
    reporter: Reporter = silent,
) -> MembershipFigures:
    """How well somebody who sees a release, and knows the process, tells whose case is in the log.

    ``runs`` releases are made, each of a log that holds every case (unit) of ``log`` with
    probability 1/2: the first half teaches what a release shows of each target with and without it,
    and the other half is judged. ``targets``: so many at random. Internal: the figures are of the
    raw log. Raises LogError for a log of fewer than two units, ValueError for fewer than
    ``FEWEST_RUNS`` runs.
    """
    if runs < FEWEST_RUNS:
        raise ValueError(f"an attack on membership needs at least {FEWEST_RUNS} releases")
    log = log.keep_cases(np.flatnonzero(np.diff(log.offsets)))
    own = units_of(log, attacked.unit)
    units = int(own.max(initial=-1)) + 1
    if units < 2:
        raise LogError("log", "holds fewer than two cases, so nobody's membership can be attacked")
    chosen = np.sort(np.random.default_rng([seed, 4]).permutation(units)[:targets])
    reporter("attacking membership")
    canaries = Canaries.put_into(log, attacked.unit, seed)
    unit = units_of(canaries.log, attacked.unit)
    # Units of canaries come last, as their cases do.
    every = np.concatenate([chosen, units + np.arange(canaries.number)])
    sought = SoughtCells.of(canaries.log, unit, every, attacked.columns)
    inferring = Inferring(log, np.unique(own, return_index=True)[1][chosen], attacked.columns)
    with heard_by(reporter):
        found = shadow_runs(
            canaries.log, unit, every, sought, attacked.release, runs, seed, inferring.look
        )
    # For each unit how many cases have the rarest of its sequences.
    variants = variants_of(log)
    alike = np.full(units, log.cases.height)
    np.minimum.at(alike, own, variants.counts[variants.of_case])
    sizes = alike[chosen]
    group = np.full(len(every), len(_GROUP_SIZES) + 1)
    group[: len(chosen)] = np.digitize(sizes, _GROUP_SIZES)
    # Taught on one half of the releases and judged on the other: no score judges itself.
    taught, judged = found.part(slice(0, runs // 2)), found.part(slice(runs // 2, runs))
    ratios = LikelihoodRatios.learned(sought.statistics(taught, taught), taught.member, group)
    scores = JudgedScores(ratios.scores(sought.statistics(judged, taught)), judged.member)
    of_log = np.arange(len(chosen))
    groups: list[tuple[GroupName, JudgedScores]] = [("all", scores.of_targets(of_log))]
    # Whoever is alone with a sequence is hardest to hide, so these are judged apart, too.
    alone = np.flatnonzero(sizes == 1)
    if 0 < len(alone) < len(chosen):
        groups.append(("alone", scores.of_targets(alone)))
    if canaries.number:
        groups.append(("canaries", scores.of_targets(np.arange(len(chosen), len(every)))))
    figures = _figures(attacked, groups, runs, len(chosen))
    return figures.model_copy(update={"looked_at": sought.tables, "inferred": inferring.found()})


def units_of(log: EventLog, attribute: str | None) -> Ints:
    """Whose case each is, numbered from 0: int64, shape (cases,). Cases that name nobody are their
    own.
    """
    if attribute is None or attribute not in log.cases.columns:
        return np.arange(log.cases.height)
    names = values_of(log.cases, attribute).cast(pl.String).to_list()
    numbers: dict[object, int] = {}
    found = np.empty(len(names), np.int64)
    for row, name in enumerate(names):
        found[row] = numbers.setdefault(row if name is None else name, len(numbers))
    return found


@dataclass(frozen=True, slots=True)
class ShadowRuns:
    """What each release holds of what the targets have, and whether a target was in its log.

    ``counts``: float32, shape (runs, cells). ``member``: bool, shape (runs, targets).
    """

    counts: NDArray[np.float32]
    member: Bools

    def __len__(self) -> int:
        return len(self.member)

    def part(self, chosen: slice) -> "ShadowRuns":
        """Some of the runs."""
        return ShadowRuns(self.counts[chosen], self.member[chosen])


def shadow_runs(
    log: EventLog,
    unit: Ints,
    targets: Ints,
    sought: "SoughtCells",
    release: ReleaseOf,
    runs: int,
    seed: int,
    seen: Callable[[EventLog, Bools], None] = lambda released, member: None,
) -> ShadowRuns:
    """``runs`` releases, each of a log that holds every unit of ``log`` with probability 1/2.

    ``unit``: int64, shape (cases,); whose case each is, from 0. ``targets``: the units that are
    looked for. ``seen`` is shown every release, and which targets were in its log. Given all
    others, a target is in or out by a coin of its own, so what an attack on such runs finds is
    bounded by the differential privacy of ``release``.
    """
    draws = np.random.default_rng([seed, 5])
    counts = np.empty((runs, sought.cells.height), np.float32)
    member = np.empty((runs, len(targets)), np.bool_)
    begun = reported = monotonic()
    for run in range(runs):
        if monotonic() - reported > _SECONDS_BETWEEN:
            reported = monotonic()
            left = (reported - begun) / run * (runs - run) if run else 0.0
            say(f"{run:,} of {runs:,} releases, about {left:,.0f} s left")
        # One coin a unit: all its cases are in, or all are out.
        drawn = draws.random(int(unit.max(initial=-1)) + 1) < 0.5
        with heard_by(silent):
            released = release(log.keep_cases(np.flatnonzero(drawn[unit])))
        counts[run] = sought.counts(released)
        member[run] = drawn[targets]
        seen(released, member[run])
    return ShadowRuns(counts, member)


def cells_of(log: EventLog, columns: Collection[str], bins: Mapping[str, Floats]) -> pl.DataFrame:
    """What cases have that a mechanism may count: ``table``, ``cell``, and ``case``, the row of the
    case that has it, once for each time that it does.

    ``columns``: those that are looked at, beside the control flow; of numbers the ``bins``. A cell
    is a hash, the same for any log.
    """
    found: list[pl.DataFrame] = []

    def add(table: str, frame: pl.DataFrame) -> None:
        cell = pl.struct(pl.lit(table).alias("table"), pl.exclude("case")).hash()
        found.append(frame.select(pl.lit(table).alias("table"), cell.alias("cell"), "case"))

    events = pl.DataFrame({"case": log.case_of, "at": log.activities.fill_null("")})
    cases = pl.DataFrame({"case": np.arange(log.case_count)})
    # What follows a case's last event is its end, and before the first there was nothing.
    steps = pl.concat([events, cases.with_columns(at=pl.lit(None, pl.String))])
    steps = steps.sort("case", maintain_order=True)
    steps = steps.with_columns(pl.col("at").shift(n).over("case").alias(f"-{n}") for n in (1, 2, 3))
    add("each step", steps.select("case", "at", "-1"))
    add("each step after three others", steps)
    joined = events.group_by("case", maintain_order=True).agg(pl.col("at").str.join("\n"))
    add("the whole sequence", joined)
    add("the number of events", events.group_by("case").len())
    if TIMESTAMPS in columns and TIMESTAMP in log.events.columns:
        timed = steps.drop_nulls("at").with_columns(log.microseconds.alias("time"))
        apart = pl.col("time").diff().over("case")
        waits = timed.select("case", "at", "-1", by_size(apart)).drop_nulls()
        add("the time between two activities", waits)
        add("the hour of the week", timed.select("case", pl.col("time") // HOUR % _HOURS_OF_WEEK))
        spans = timed.group_by("case").agg(
            by_size(pl.col("time").max() - pl.col("time").min()).alias("span"),
            (pl.col("time").min() // (7 * DAY)).alias("week"),
        )
        add("the duration", spans.select("case", "span"))
        add("the week of the start", spans.select("case", "week"))
    for name in log.columns:
        if name not in columns:
            continue
        values = in_bins(values_of(log.table_of(name), name), bins.get(name)).alias("value")
        rows, table = events, "the values of each activity"
        if name in log.cases.columns:
            rows, table = cases, "the values of the case"
        add(table, rows.with_columns(values, name=pl.lit(name)).drop_nulls("value"))
    return pl.concat(found)


def by_size(microseconds: pl.Expr) -> pl.Expr:
    """Spans of time as powers of two of a second."""
    return (microseconds / SECOND + 1).log(2).floor().cast(pl.Int64)


def in_bins(values: pl.Series, bins: Floats | None) -> pl.Series:
    """Values as texts, numbers by their bin."""
    if bins is None:
        return values.cast(pl.String)
    numbers = values.cast(pl.Float64)
    place = pl.Series(np.searchsorted(bins, numbers.fill_null(0).to_numpy()))
    return place.cast(pl.String).zip_with(numbers.is_not_null(), pl.Series([None], dtype=pl.String))


@dataclass(frozen=True, slots=True)
class SoughtCells:
    """What the targets have of what a mechanism may count.

    ``cells``: distinct ones, ``table`` and ``cell``. Entry i of ``cell``, ``place`` and ``often``:
    a row of ``cells``, where in (targets, tables) it counts, and how often the target has it.
    """

    columns: frozenset[str]
    bins: Mapping[str, Floats]
    tables: tuple[str, ...]
    targets: int
    cells: pl.DataFrame
    cell: Ints
    place: Ints
    often: Ints

    @classmethod
    def of(
        cls, log: EventLog, unit: Ints, targets: Ints, columns: frozenset[str] = frozenset()
    ) -> "SoughtCells":
        """Of all cases of the units ``targets``, each of which has one, by these ``columns`` beside
        the control flow.
        """
        bins = {}
        for name in columns & set(log.columns):
            values = values_of(log.table_of(name), name).drop_nulls()
            if values.dtype.is_numeric() and values.n_unique() > _BINS:
                shares = np.arange(1, _BINS) / _BINS
                bins[name] = np.unique(np.quantile(values.to_numpy(), shares))
        owner = np.full(int(unit.max(initial=-1)) + 1, -1)
        owner[targets] = np.arange(len(targets))
        every = cells_of(log, columns, bins)
        every = every.with_columns(pl.Series("target", owner[unit[every["case"].to_numpy()]]))
        held = every.filter(pl.col("target") >= 0).group_by("table", "cell", "target").len()
        held = held.sort("table", "cell", "target")
        cells = held.select("table", "cell").unique(maintain_order=True).with_row_index("row")
        tables = tuple(cells["table"].unique(maintain_order=True))
        table = cells["table"].cast(pl.Enum(tables)).to_physical().to_numpy().astype(np.int64)
        cell = held.join(cells, on=["table", "cell"], maintain_order="left")["row"].to_numpy()
        place = held["target"].to_numpy() * len(tables) + table[cell]
        return cls(columns, bins, tables, len(targets), cells, cell, place, held["len"].to_numpy())

    def counts(self, released: EventLog) -> Floats:
        """How often a release has each cell: shape (cells,)."""
        if not released.event_count:
            return np.zeros(self.cells.height)
        there = cells_of(released, self.columns, self.bins).group_by("cell").len()
        found = self.cells.join(there, on="cell", how="left", maintain_order="left")["len"]
        return found.fill_null(0).to_numpy().astype(np.float64)

    def statistics(self, runs: ShadowRuns, taught: ShadowRuns) -> Floats:
        """For each target and table how much more of the target's cells there are than usual,
        against how much each scatters: shape (runs, targets, tables).

        A case adds itself to the counts of its cells. Where these scatter normally and each by
        itself, the sum of (count - mean) / variance over the cells, each as often as the target has
        it, is the logarithm of the likelihood ratio, but for a constant. It is what Golob et al.
        2024 ("Privacy Vulnerabilities in Marginals-based Synthetic Data") weigh marginals by, with
        variances that were measured in place of their ratio of densities.
        """
        mean = taught.counts.mean(axis=0)
        # A cell that hardly varied in few runs may yet do so.
        variance = taught.counts.var(axis=0) + _OF_MEAN * mean + _LEAST_VARIANCE
        size = self.targets * len(self.tables)
        sums = [
            np.bincount(self.place, (((each - mean) / variance)[self.cell] * self.often), size)
            for each in runs.counts
        ]
        return np.reshape(sums, (len(runs), self.targets, len(self.tables)))


@dataclass(frozen=True, slots=True)
class LikelihoodRatios:
    """How much likelier what a release shows of a target is with the target in the log than
    without: the likelihood-ratio attack (Carlini et al. 2022), by normal distributions of one
    covariance for all targets of a group.

    ``middle`` and ``weights``: float64, shape (targets, statistics); the logarithm of the ratio is
    the product of ``weights`` with the distance from ``middle``.
    """

    middle: Floats
    weights: Floats

    @classmethod
    def learned(cls, statistics: Floats, member: Bools, group: Ints) -> "LikelihoodRatios":
        """From runs: shapes (runs, targets, statistics) and (runs, targets); ``group``: int64,
        shape (targets,): targets that are alike, as few runs tell little of one alone.
        """
        weights, middle = np.zeros_like(statistics[0]), np.zeros_like(statistics[0])
        for each in np.unique(group):
            alike = group == each
            values, inside = statistics[:, alike], member[:, alike]
            parts = [values[inside], values[~inside]]
            # Nothing is learned of targets that were always in, or always out.
            if any(len(part) == 0 for part in parts):
                continue
            means = [part.mean(axis=0) for part in parts]
            apart = np.concatenate([p - m for p, m in zip(parts, means, strict=True)])
            covariance = apart.T @ apart / len(apart)
            # Keeps the matrix invertible where statistics say the same, or never vary.
            steady = _RIDGE * np.diag(covariance) + _LEAST_VARIANCE**2
            weights[alike] = np.linalg.solve(covariance + np.diag(steady), means[0] - means[1])
            middle[alike] = (means[0] + means[1]) / 2
        return cls(middle, weights)

    def scores(self, statistics: Floats) -> Floats:
        """The logarithm of each ratio: float64, shape (runs, targets)."""
        found = ((statistics - self.middle) * self.weights).sum(axis=2)
        # What differs by rounding alone is the same.
        rounded: Floats = np.round(found, _DECIMALS)
        return rounded


@dataclass(frozen=True, slots=True)
class Canaries:
    """Made-up cases that go through ``log`` with the others: each begins as many do, and ends as
    hardly any. ``log`` has them behind its own cases, ``number`` of them.
    """

    log: EventLog
    number: int

    @classmethod
    def put_into(cls, log: EventLog, unit: str | None, seed: int) -> "Canaries":
        """Cases at random, cut where the usual ends, with one event more, of the activity that
        follows there the least often: for each canary another pair of activities, and of more than
        one such, one at random.

        A model that remembers cases shows the pair although it is rare (Carlini et al. 2019, "The
        Secret Sharer"). A canary is nobody's case: it has no value of ``unit``.
        """
        draws = np.random.default_rng([seed, 6])
        variants = variants_of(log)
        cases = Counter[tuple[int, ...]]()
        follows = Counter[tuple[int, int]]()
        sequences = [tuple(variants[each].tolist()) for each in range(len(variants))]
        for sequence, count in zip(sequences, variants.counts.tolist(), strict=True):
            for length in range(1, min(len(sequence), _LONGEST_BEGINNING + 1)):
                cases[sequence[:length]] += count
            for pair in pairwise(sequence):
                follows[pair] += count
        chosen, kept, ends = list[int](), list[int](), list[int]()
        used = set[tuple[int, int]]()
        for case in draws.permutation(log.case_count).tolist():
            if len(chosen) == min(MOST_CANARIES, log.case_count // _CASES_OF_CANARY):
                break
            sequence = sequences[variants.of_case[case]]
            usual = [
                length
                for length in range(1, min(len(sequence), _LONGEST_BEGINNING + 1))
                if cases[sequence[:length]] >= _USUAL * log.case_count
            ]
            if not usual:
                continue
            last = sequence[usual[-1] - 1]
            left = [(last, end) for end in range(len(variants.alphabet)) if (last, end) not in used]
            if not left:
                continue
            pair = min(left, key=lambda each: (follows[each], draws.random()))
            used.add(pair)
            chosen.append(case)
            kept.append(usual[-1] + 1)
            ends.append(pair[1])
        rows = np.concatenate([np.arange(log.case_count), np.array(chosen, np.int64)])
        longer = log.keep_cases(rows)
        lengths = np.diff(longer.offsets)
        lengths[log.case_count :] = kept
        longer = longer.keep_events(longer.position_of_event < lengths[longer.case_of])
        labels = longer.activities.to_numpy().copy()
        labels[longer.offsets[log.case_count + 1 :] - 1] = np.array(variants.alphabet)[ends]
        events = longer.events.with_columns(pl.Series(ACTIVITY, labels, dtype=pl.String))
        ids = [f"canary {number}" for number in range(len(chosen))]
        own = {CASE_ID: pl.Series(ids, dtype=pl.String)}
        if unit in log.cases.columns:
            own[unit] = pl.Series([None] * len(chosen), dtype=log.cases.schema[unit])
        replaced = [pl.concat([log.cases[name], each]).alias(name) for name, each in own.items()]
        return cls(
            replace(longer, events=events, cases=longer.cases.with_columns(replaced)), len(chosen)
        )


class Inferring:
    """Guesses of attributes of ``cases`` of ``log`` (rows), by each of many releases: who knows all
    of a case but one attribute takes that of the nearest released case.

    The control is the same cases where they were left out of the release's log.
    """

    def __init__(self, log: EventLog, cases: Ints, columns: Collection[str]) -> None:
        self.log, self.cases = log, cases[:_MOST_INFERRED]
        known = known_attributes(log)
        self.names = [[name for name in names if name in columns] for names in known]
        self.secrets = sorted({*self.names[0], *self.names[1]})
        self.tries = {secret: ([], []) for secret in self.secrets}

    def look(self, released: EventLog, member: Bools) -> None:
        """Guess by one release, of a log that had these cases."""
        if not (released.event_count and self.secrets):
            return
        there = [[name for name in names if name in released.columns] for names in self.names]
        tables = case_tables(code_logs(self.log, released), *there)
        attacked = ReleaseAttacked(tables[0], tables[1], lambda case: np.zeros(0))
        secrets = [secret for secret in self.secrets if secret in tables[1]]
        for case, inside in zip(self.cases.tolist(), member.tolist(), strict=False):
            for secret, chance in zip(secrets, attacked.inferred(case, secrets), strict=True):
                self.tries[secret][0 if inside else 1].append(chance)

    def found(self) -> dict[str, Share]:
        """What of each attribute is guessed right beyond the control."""
        return {name: excess(*each) for name, each in self.tries.items() if all(each)}


def _figures(
    attacked: AttackedMechanism,
    groups: Sequence[tuple[GroupName, JudgedScores]],
    runs: int,
    targets: int,
) -> MembershipFigures:
    delta = 0.0 if attacked.claimed is None else attacked.claimed.delta
    kept = [(name, scores) for name, scores in groups if scores.can_be_judged]
    shown = [epsilon_shown(scores, level, delta) for _, scores in kept for level in _levels(scores)]
    return MembershipFigures(
        mechanism=attacked.name,
        runs=runs,
        judged=runs - runs // 2,
        targets=targets,
        claimed=attacked.claimed,
        epsilon_at_least=max([0.0, *shown]),
        groups=tuple(_group(name, scores) for name, scores in kept),
    )


def _levels(scores: JudgedScores) -> list[float]:
    others = int((~scores.member).sum())
    return [level for level in LEVELS if level * others >= _FEWEST_ALARMS]


def _group(name: GroupName, scores: JudgedScores) -> MembershipGroup:
    least = _FEWEST_ALARMS / int((~scores.member).sum())
    levels = []
    for level in _levels(scores):
        false, true = scores.rates(scores.threshold(level))
        levels.append(RecognisedMembers(at_most=level, false_positives=false, true_positives=true))
    return MembershipGroup(
        name=name,
        targets=scores.member.shape[1],
        area=scores.area(),
        levels=tuple(levels),
        curve=tuple(point for point in scores.curve() if point[0] >= least),
    )


def epsilon_shown(scores: JudgedScores, level: float, delta: float) -> float:
    """How large epsilon must be at ``delta``, given the members recognised at this share of false
    alarms, by bounds at 99.9 %: below 0 where nothing shows.
    """
    false, true = scores.rates(scores.threshold(level), NORMAL_999)
    return epsilon_of_shares(true.low, false.high, delta)


def attack_membership(
    name: str | Mechanism[Any],
    log: EventLog,
    *,
    epsilon: float,
    delta: float,
    runs: int,
    targets: int = MOST_TARGETS,
    seed: int = 1,
    options: Mapping[str, Any] | None = None,
    **facts: Any,
) -> MembershipFigures:
    """Attack releases that the mechanism ``name`` (or one that is not registered) makes of random
    halves of ``log``, beside what the claim (epsilon, delta) allows.

    ``facts``: declared facts, as for ``run_mechanism``; the others as for ``attacks.membership``.
    What is found follows from ``seed``. Charges no ledger; the figures are of the raw log. Raises
    MechanismError where the mechanism refuses the claim.

    >>> from cloakwork.testing.contract_logs import log_of
    >>> log = log_of([["a", "b"]] * 20 + [["a", "c"]])
    >>> found = attack_membership("variants/threshold", log, epsilon=1.0, delta=1e-3, runs=20)
    >>> found.exceeded
    False
    """
    claim = {"epsilon": epsilon, "delta": delta}
    prepared = prepare(name, options=options, **claim, **facts)
    noise = reproducible(seed)
    mechanism = prepared.mechanism
    basis = "published" if mechanism.proof == "published" else "derived"
    attacked = AttackedMechanism(
        mechanism.name,
        lambda half: prepared.run(half, noise),
        ClaimedBound.model_validate({**claim, "basis": basis}),
        prepared.facts.unit.attribute,
    )
    return membership(log, attacked, runs=runs, targets=targets, seed=seed)


def attacked_plan(plan: Plan, seed: int) -> AttackedMechanism:
    """The steps of ``plan`` that make the cases and the columns of its widest claim on them, and
    that claim.

    No ledger is charged, and nothing is released: what comes out must not leave the attack. The
    noise follows from ``seed``. Raises MechanismError where the plan makes no cases anew.
    """
    if not any(step.lineage.generates for step in plan.steps):
        raise MechanismError("risk", _NOT_MADE_UP)
    # The widest claim on the control flow, of several the least; else what a paper claims.
    derived = _hiding_members(each.guarantee for each in plan.claims if each.given is None)
    published = _hiding_members(each.guarantee for each in plan.unproven)
    claimed, columns = None, frozenset[str]()
    if derived or published:
        least = min(derived or published, key=lambda each: (-len(each.over), each.epsilon))
        basis: ClaimBasis = "derived" if derived else "published"
        claimed = ClaimedBound(epsilon=least.epsilon, delta=least.delta, basis=basis)
        columns = frozenset(least.over) - {CONTROL_FLOW}
    # Nothing that is looked at changes after the last of these.
    last = max(
        place
        for place, step in enumerate(plan.steps)
        if step.lineage.generates or step.lineage.writes & columns
    )
    run = Run(
        plan=plan.model_copy(update={"steps": plan.steps[: last + 1]}), noise=reproducible(seed)
    )

    def release(prepared: EventLog) -> EventLog:
        return in_memory(run.steps(prepared)[0])

    name = next(step.mechanism for step in plan.steps if step.lineage.generates)
    return AttackedMechanism(name, release, claimed, plan.facts.unit.attribute, columns)


def log_for(plan: Plan, log: EventLog) -> EventLog:
    """``log`` as the plan's steps see it, of which halves may be taken."""
    return replace(prepared_log(log, plan), notes=())


def _hiding_members(guarantees: Iterable[Guarantee]) -> list[DifferentialPrivacy]:
    """Those that hide from who sees the control flow whether a unit is in the log."""
    return [
        each
        for each in guarantees
        if isinstance(each, DifferentialPrivacy)
        and each.neighbours == "unbounded"
        and CONTROL_FLOW in each.over
    ]
