"""Is this case in the log? An attack that learns from releases of random halves of the log what a
release shows of a case that was in it (shadow models; Shokri et al. 2017, Carlini et al. 2022): by
what a mechanism may have counted of it.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from time import monotonic
from typing import Any, Final

import numpy as np
import polars as pl
from scipy.sparse import csr_array

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.base.errors import LogError, MechanismError
from cloakwork.base.frozen import frozen
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
from cloakwork.log.eventlog import ACTIVITY, CASE_ID, TIMESTAMP, EventLog, joined_batches
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
CASES_OF_A_CANARY: Final = 100
"""So many at least, that canaries do not hide others."""

_LONGEST_CANARY: Final = 4
"""Activities."""

_MOST_INFERRED: Final = 200
"""Targets whose attributes are guessed."""

_DECIMALS: Final = 9
_SECONDS_BETWEEN: Final = 2.0

_NOT_MADE_UP: Final = (
    "the plan makes no cases anew (it changes those of the log), so releases of halves of the log "
    "tell nothing that linking does not; leave out --membership"
)


@frozen
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
    unit = units_of(log, attacked.unit)
    units = int(unit.max(initial=-1)) + 1
    if units < 2:
        raise LogError("log", "holds fewer than two cases, so nobody's membership can be attacked")
    # For each unit how many cases have the rarest of its sequences.
    variants = variants_of(log)
    alike = np.full(units, log.cases.height)
    np.minimum.at(alike, unit, variants.counts[variants.of_case])
    drawn = np.random.default_rng([seed, 4]).permutation(units)
    chosen = np.sort(drawn[:targets])
    sizes = alike[chosen]
    reporter("attacking membership")
    first_case = np.unique(unit, return_index=True)[1]
    number = min(MOST_CANARIES, units // CASES_OF_A_CANARY)
    log = with_canaries(log, first_case[drawn[:number]], attacked.unit, seed)
    # Each canary is a unit of its own, behind all others.
    canaries = units + np.arange(number)
    unit = np.append(unit, canaries)
    every = np.append(chosen, canaries)
    sought = SoughtCells.of(log, unit, every, attacked.columns)
    inferring = Inferring(log, first_case[chosen], attacked.columns)
    with heard_by(reporter):
        counts, member = shadow_runs(
            log, unit, every, sought, attacked.release, runs, seed, inferring.look
        )
    group = np.append(np.digitize(sizes, _GROUP_SIZES), np.full(number, -1))
    # Taught on one half of the releases and judged on the other: no score judges itself.
    half = runs // 2
    shown = sought.statistics(counts, counts[:half])
    # Of few cells each target teaches by itself; of many, few releases tell little of one alone.
    by_target = not attacked.columns
    ratios = likelihood_ratios(
        shown[:half], member[:half], group, shown[half:], by_target=by_target
    )
    scores = JudgedScores(ratios, member[half:])
    groups: list[tuple[GroupName, JudgedScores]] = [
        ("all", scores.of_targets(np.flatnonzero(group >= 0)))
    ]
    # Whoever is alone with a sequence is hardest to hide, so these are judged apart, too.
    alone = np.flatnonzero(sizes == 1)
    if 0 < len(alone) < len(chosen):
        groups.append(("alone", scores.of_targets(alone)))
    if number:
        groups.append(("canaries", scores.of_targets(np.flatnonzero(group < 0))))
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
    return np.array(
        [
            numbers.setdefault(row if name is None else name, len(numbers))
            for row, name in enumerate(names)
        ],
        np.int64,
    )


def shadow_runs(
    log: EventLog,
    unit: Ints,
    targets: Ints,
    sought: "SoughtCells",
    release: ReleaseOf,
    runs: int,
    seed: int,
    seen: Callable[[EventLog, Bools], None] = lambda released, member: None,
) -> tuple[Floats, Bools]:
    """``runs`` releases, each of a log that holds every unit of ``log`` with probability 1/2: how
    often each has the sought cells, shape (runs, cells), and which targets were in its log, shape
    (runs, targets).

    ``unit``: int64, shape (cases,); whose case each is, from 0. ``targets``: the units that are
    looked for. ``seen`` is shown every release, and which targets were in its log. Given all
    others, a target is in or out by a coin of its own, so what an attack on such runs finds is
    bounded by the differential privacy of ``release``.
    """
    draws = np.random.default_rng([seed, 5])
    counts = np.empty((runs, sought.cells.height))
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
    return counts, member


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
    add("each activity", events)
    joined = events.group_by("case", maintain_order=True).agg(pl.col("at").str.join("\n"))
    add("the whole sequence", joined)
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
        values = values_of(log.table_of(name), name)
        if name in bins:
            numbers = values.cast(pl.Float64, strict=False)
            values = pl.Series(bins[name]).search_sorted(numbers).set(numbers.is_null(), None)
        values = values.cast(pl.String).alias("value")
        rows, table = events, "the values of each activity"
        if name in log.cases.columns:
            rows, table = cases, "the values of the case"
        add(table, rows.with_columns(values, name=pl.lit(name)).drop_nulls("value"))
    return pl.concat(found)


def by_size(microseconds: pl.Expr) -> pl.Expr:
    """Spans of time as powers of two of a second."""
    return (microseconds / SECOND + 1).log(2).floor().cast(pl.Int64)


@frozen
class SoughtCells:
    """What the targets have of what a mechanism may count.

    ``cells``: distinct ones, ``table`` and ``cell``. ``often``: how often each target has each cell
    of each of the ``tables``, shape (targets * tables, cells).
    """

    columns: frozenset[str]
    bins: Mapping[str, Floats]
    tables: tuple[str, ...]
    cells: pl.DataFrame
    often: csr_array

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
        shape = len(targets) * len(tables), cells.height
        often = csr_array((held["len"].to_numpy().astype(np.float64), (place, cell)), shape)
        return cls(columns, bins, tables, cells, often)

    def counts(self, released: EventLog) -> Floats:
        """How often a release has each cell: shape (cells,)."""
        if not released.event_count:
            return np.zeros(self.cells.height)
        there = cells_of(released, self.columns, self.bins).group_by("cell").len()
        found = self.cells.join(there, on="cell", how="left", maintain_order="left")["len"]
        return found.fill_null(0).to_numpy().astype(np.float64)

    def statistics(self, counts: Floats, taught: Floats) -> Floats:
        """For each target and table how much more of the target's cells there are than usual in
        releases that ``taught``: against how much each scatters, and then, of all tables again, as
        a mean; shape (runs, targets, 2 * tables).

        A case adds itself to the counts of its cells, and what it adds to ln(1 + count) is about
        1 / (1 + count). Where these logarithms scatter normally and each by itself, the sum over
        the cells of what the target adds, times how far the release is from the mean, over the
        variance, is the logarithm of the likelihood ratio, but for a constant. It is what Golob et
        al. 2024 ("Privacy Vulnerabilities in Marginals-based Synthetic Data") weigh marginals by,
        with variances that were measured in place of their ratio of densities.
        """
        counts, taught = np.log1p(counts), np.log1p(taught)
        mean = taught.mean(axis=0)
        size = np.exp(mean)
        # A cell that hardly varied in few runs may yet do so.
        variance = taught.var(axis=0) + (_OF_MEAN * (size - 1) + _LEAST_VARIANCE) / size**2
        sums = self.often @ ((counts - mean) / (size * variance)).T
        means = (self.often @ (counts - mean).T) / np.maximum(self.often.sum(axis=1), 1)[:, None]
        shape = len(counts), -1, len(self.tables)
        return np.concatenate([np.reshape(each.T, shape) for each in (sums, means)], axis=2)


def likelihood_ratios(
    taught: Floats, member: Bools, group: Ints, judged: Floats, *, by_target: bool = False
) -> Floats:
    """How much likelier what a release shows of a target is with the target in the log than
    without, as logarithms: shape (runs, targets). It is the likelihood-ratio attack (Carlini et al.
    2022), by normal distributions of one covariance for all targets of a group: Fisher's
    discriminant.

    ``taught``, ``judged``: statistics, shape (runs, targets, statistics). ``member``: of the runs
    that taught, shape (runs, targets). ``group``: int64, shape (targets,): targets that are alike.
    ``by_target``: what membership changes is learned of each target by itself, and drawn towards
    the mean of its group.
    """
    scores = np.zeros(judged.shape[:2])
    for each in np.unique(group):
        alike = group == each
        values, inside = taught[:, alike], member[:, alike]
        # Nothing is learned of targets that were always in, or always out.
        if inside.all() or not inside.any():
            continue
        means = [_mean(values, chosen, by_target=by_target) for chosen in (inside, ~inside)]
        apart = (values - np.where(inside[:, :, None], *means)).reshape(inside.size, -1)
        covariance = apart.T @ apart / inside.size
        # Keeps the matrix invertible where statistics say the same, or never vary.
        covariance += np.diag(_RIDGE * np.diag(covariance) + _RIDGE**2)
        effect = means[0] - means[1]
        if by_target:
            effect = _drawn_together(effect, inside, covariance)
        weights = np.linalg.solve(covariance, effect.T).T
        scores[:, alike] = ((judged[:, alike] - (means[0] + means[1]) / 2) * weights).sum(axis=2)
    # What differs by rounding alone is the same.
    return np.asarray(np.round(scores, _DECIMALS))


def _mean(values: Floats, chosen: Bools, *, by_target: bool) -> Floats:
    """Over the runs that are ``chosen`` of each target, or of all: shape (targets or 1,
    statistics).
    """
    total = np.where(chosen[:, :, None], values, 0.0).sum(axis=0)
    many = chosen.sum(axis=0)[:, None]
    if not by_target:
        total, many = (each.sum(axis=0, keepdims=True) for each in (total, many))
    return np.asarray(total / np.maximum(many, 1), np.float64)


def _drawn_together(effect: Floats, inside: Bools, covariance: Floats) -> Floats:
    """Effects of targets, each drawn towards their mean by as much as chance explains how far it is
    (James and Stein 1961). A target that was always in, or always out, has none of its own.
    """
    many = np.stack([inside.sum(axis=0), (~inside).sum(axis=0)])
    known = many.all(axis=0)
    shared = effect[known].mean(axis=0) if known.any() else np.zeros(effect.shape[1])
    apart = effect - shared
    # By chance alone, the mean of this squared distance is the number of statistics.
    distance = (apart * np.linalg.solve(covariance, apart.T).T).sum(axis=1)
    distance /= (1 / np.maximum(many, 1)).sum(axis=0)
    share = np.maximum(0.0, 1 - len(shared) / np.maximum(distance, 1e-12))
    return np.asarray(shared + (share * known)[:, None] * apart, np.float64)


def with_canaries(log: EventLog, cases: Ints, attribute: str | None, seed: int) -> EventLog:
    """``log``, and behind it each of ``cases`` again, of somebody new (by ``attribute``): it begins
    as it did, and then ends with the activity that follows there the least often, each with another
    pair of activities, at random of several.

    A model that remembers cases shows the pair although it is rare (Carlini et al. 2019, "The
    Secret Sharer"); random cases begin as is usual.
    """
    draws = np.random.default_rng([seed, 6])
    follows = Counter[tuple[str, str]]()
    variants = variants_of(log)
    for row, count in enumerate(variants.counts.tolist()):
        for pair in pairwise(variants.labels(row)):
            follows[pair] += count
    again = log.keep_cases(cases)
    labels = again.activities.fill_null("").to_list()
    kept, used = np.ones(len(labels), np.bool_), Counter[tuple[str, str]]()
    for first, behind in pairwise(again.offsets.tolist()):
        last = min(behind, first + _LONGEST_CANARY) - 1
        before = labels[last - 1] if last > first else ""
        pairs = [(before, end) for end in variants.alphabet]
        pair = min(pairs, key=lambda each: (used[each], follows[each], draws.random()))
        used[pair] += 1
        labels[last] = pair[1]
        kept[last + 1 : behind] = False
    names = pl.Series([f"canary {number}" for number in range(len(cases))], dtype=pl.String)
    events = again.events.with_columns(pl.Series(ACTIVITY, labels, dtype=pl.String))
    owners = again.cases.with_columns(names.alias(name) for name in {CASE_ID, attribute or CASE_ID})
    again = replace(again, events=events, cases=owners).keep_events(kept)
    return replace(joined_batches([log, again]), case_index=None)


class Inferring:
    """Guesses of attributes of ``cases`` of ``log`` (rows), by each of many releases: who knows all
    of a case but one attribute takes that of the nearest released case.

    The control is the same cases where they were left out of the release's log.
    """

    def __init__(self, log: EventLog, cases: Ints, columns: Collection[str]) -> None:
        self.log, self.cases = log, cases[:_MOST_INFERRED]
        known = known_attributes(log)
        self.names = [[name for name in names if name in columns] for names in known]
        # Chances of success with the case in the log, and without it.
        self.tries: dict[str, tuple[list[float], list[float]]] = {
            name: ([], []) for names in self.names for name in names
        }

    def look(self, released: EventLog, member: Bools) -> None:
        """Guess by one release, of a log that had these cases."""
        if not (released.event_count and self.tries):
            return
        tables = case_tables(code_logs(self.log, released), *self.names)
        attacked = ReleaseAttacked(tables[0], tables[1])
        for case, inside in zip(self.cases.tolist(), member.tolist(), strict=False):
            chances = attacked.inferred(case, list(self.tries))
            for tries, chance in zip(self.tries.values(), chances, strict=True):
                tries[0 if inside else 1].append(chance)

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
    # Without members, or without others, there is nothing to judge.
    kept = [each for each in groups if each[1].member.any() and not each[1].member.all()]
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
