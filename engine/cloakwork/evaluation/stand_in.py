"""The stand-in: an invented log that has nothing of the raw log but declared facts and what a DP
profile, which was paid for, tells.

An invented process is a table of variants with their frequencies. Frequencies follow what is known,
or supposed, of the most frequent variants; activity sequences are walks over a graph in which each
activity has a usual successor and a few others. It is invented anew for every seed. No privacy
rests on these draws: nothing of a log is in them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import polars as pl

from cloakwork.base.arrays import Bools, Floats, Ints, offsets_of
from cloakwork.base.facts import Facts, RangeType, Window, leaves_of_tree
from cloakwork.base.frozen import frozen
from cloakwork.base.globs import is_glob
from cloakwork.log.eventlog import (
    ACTIVITY,
    CASE_ID,
    CASE_PREFIX,
    TIME_TYPE,
    TIMESTAMP,
    EventLog,
)
from cloakwork.mechanisms.profile import Profile, ProfileFigures
from cloakwork.policy.declared import number_of_end
from cloakwork.policy.model import AttributeRule, Policy

# What is usual is taken where no policy declares anything.
USUAL_CASES: Final = 1_000
USUAL_ACTIVITIES: Final = 12
USUAL_GAP: Final = timedelta(days=30)
USUAL_WINDOW: Final = Window(
    start=datetime(2022, 1, 1, tzinfo=UTC),
    end=datetime(2024, 1, 1, tzinfo=UTC),
)
USUAL_LENGTHS: Final = (8, 20, 30, 60)
"""Lengths of cases; none is above a declared longest case."""

USUAL_VALUES: Final = 10
"""Values of an attribute."""

MOST_CASES: Final = 20_000
MOST_VARIANTS: Final = 1_500
"""A stand-in is no larger: comparing so many variants with as many takes a second."""

MOST_VALUES: Final = 200
"""Of a declared domain, so many values occur at most."""

RANKS: Final = (1, 10, 100)
"""Numbers of most frequent variants whose share of the cases a shape tells."""

LENGTH_SHARES: Final = (0.5, 0.9, 0.95, 0.99)
"""Shares of the cases up to whose lengths a shape tells."""

FEW: Final = ("few variants hold most cases", (0.45, 0.9, 0.99))
MANY: Final = ("nearly every case is a variant of its own", (0.02, 0.1, 0.25))

_BEYOND: Final = 1.0
"""Exponent by which frequencies fall beyond the last of ``RANKS``."""

_LONGER_THAN_MEDIAN: Final = (1, 3, 4, 8)
"""How many times the median the lengths at ``LENGTH_SHARES`` are at most."""

_REPEATED: Final = 3
"""Activities that long cases repeat."""

_TRIES: Final = 6
"""Walks for each variant that is needed; those that end up the same are counted together."""

_SECOND: Final = 1_000_000
_HOUR: Final = 3_600 * _SECOND
_DAY: Final = 24 * _HOUR
_MONDAY: Final = 3
"""1 January 1970 was a Thursday."""

_SHORTEST_MEDIAN: Final = 60.0
"""Seconds; medians of gaps lie between this and a tenth of the longest gap."""

_BREADTH: Final = 1.2
"""Standard deviation of the logarithm of a gap."""

_MERGED: Final = ("alphabet", "units_at_most", "longest_case", "longest_gap", "window")
_NO_VALUES: Final = ("control-flow", "timestamp", "identifier")

Labels = tuple[int, ...]
"""An activity sequence, by the positions of the activities in the alphabet."""


@frozen
class ProcessShape:
    """How alike cases are and how long.

    ``name``: in a few words. ``heads``: the share of cases that the ``RANKS`` most frequent
    variants hold. ``lengths``: the events that a case has at most, at each of ``LENGTH_SHARES``.
    """

    name: str
    heads: tuple[float, ...]
    lengths: tuple[int, ...]

    @property
    def concentration(self) -> float:
        """Between 0, nearly every case a variant of its own, and 1, few variants hold nearly
        all.
        """
        return float(np.clip((self.heads[1] - 0.1) / 0.7, 0.0, 1.0))

    def shares_by_rank(self, cases: int) -> Floats:
        """The share of the cases at each rank: what a block of ranks holds, spread within it as 1
        over the rank; beyond the blocks, falling from the last on.
        """
        ranks = np.arange(1, max(cases, RANKS[-1]) + 1)
        shares = np.zeros(len(ranks))
        begin = 0
        held = 0.0
        for end, head in zip(RANKS, self.heads, strict=True):
            weights = 1.0 / ranks[begin:end]
            shares[begin:end] = (head - held) * weights / weights.sum()
            begin = end
            held = head
        tail = ranks[begin:]
        if len(tail):
            # Falls on from the last block, but holds no more than what is left.
            falling = shares[begin - 1] * (begin / tail) ** _BEYOND
            shares[begin:] = falling * min(1.0, (1.0 - held) / max(falling.sum(), 1e-12))
        # A variant of less than one case on average is no rank of its own.
        shares[shares * cases < 1.0] = 0.0
        return shares


def profiled_shape(figures: ProfileFigures, longest_case: int | None) -> ProcessShape:
    """The shape that a DP profile tells; noise may have put its figures out of order."""
    cases = max(1, figures.cases)
    heads = [figures.top.get(str(rank), 0) / cases for rank in RANKS]
    ordered = np.clip(np.maximum.accumulate(heads), 0.0, 1.0)
    longest = longest_case or 2 * USUAL_LENGTHS[-1]
    lengths = list[int]()
    least = 1
    median = figures.lengths.get(str(LENGTH_SHARES[0])) or USUAL_LENGTHS[0]
    for share, times in zip(LENGTH_SHARES, _LONGER_THAN_MEDIAN, strict=True):
        # Noise of many empty bins drives the upper quantiles up to the last bins.
        length = min(figures.lengths.get(str(share)) or longest, times * median)
        least = max(least, min(length, longest))
        lengths.append(least)
    return ProcessShape("as its DP profile says", tuple(map(float, ordered)), tuple(lengths))


@frozen
class InventedTimes:
    """Most cases start in office hours; the gap before an event goes by the pair of activities."""

    window: Window
    longest_gap: timedelta

    def drawn(
        self,
        codes: Ints,
        offsets: Ints,
        activities: int,
        draw: np.random.Generator,
    ) -> pl.Series:
        """A time for each event, ascending within a case.

        ``codes``: each event's activity, 0 to ``activities`` - 1, int64, shape (events,);
        ``offsets``: as in ``EventLog``.
        """
        longest = self.longest_gap.total_seconds()
        most = max(longest / 10, _SHORTEST_MEDIAN)
        # A median for each pair of activities, evenly drawn on a logarithmic scale.
        logs = draw.uniform(np.log(_SHORTEST_MEDIAN), np.log(most), activities * activities)
        # The first event ends no pair; what stands for it is not used.
        pairs = np.concatenate([[0], codes[:-1] * activities + codes[1:]])
        noise = _BREADTH * draw.standard_normal(len(codes))
        seconds = np.exp(logs[pairs[: len(codes)]] + noise)
        gaps = np.asarray(np.minimum(seconds, longest) * _SECOND, np.int64)
        lengths = np.diff(offsets)
        first = offsets[:-1][lengths > 0]
        gaps[first] = 0
        starts = self._starts(len(lengths), draw)
        # One running sum over all cases, from which each case's beginning is taken off.
        passed = np.cumsum(gaps)
        since_first = passed - np.repeat(passed[first], lengths[lengths > 0])
        stamps = np.repeat(starts, lengths) + since_first
        return pl.Series(TIMESTAMP, stamps, pl.Int64).cast(pl.Datetime("us", "UTC")).cast(TIME_TYPE)

    def _starts(self, count: int, draw: np.random.Generator) -> Ints:
        begin = int(self.window.start.timestamp()) * _SECOND
        span = max(1, int(self.window.end.timestamp()) * _SECOND - begin)
        anywhere = begin + (draw.random(count) * span).astype(np.int64)
        days = anywhere // _DAY
        is_weekday = (days + _MONDAY) % 7 < 5
        # From 8 to 17 o'clock; the others start anywhere in the window.
        office = days * _DAY + ((8 + 9 * draw.beta(2, 2, count)) * _HOUR).astype(np.int64)
        in_office = is_weekday & (draw.random(count) < 0.85)
        starts = np.where(in_office, office, anywhere)
        return np.asarray(np.clip(starts, begin, begin + span - 1), np.int64)


@frozen
class InventedAttribute:
    """One attribute: either ``values`` of which each has a share, or numbers from ``low`` to
    ``high``, of ``kind``.
    """

    name: str
    values: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    kind: RangeType = "number"

    def of_cases(self, count: int, draw: np.random.Generator) -> pl.Series:
        """A value for each case."""
        return self._drawn(np.zeros(count, np.int64), 1, np.ones(count, np.bool_), draw)

    def of_events(
        self,
        codes: Ints,
        activities: int,
        draw: np.random.Generator,
    ) -> pl.Series:
        """A value for each event of the activities that have the attribute: of all, or of two. At
        each of them values have likelihoods of their own.
        """
        # Half of all attributes are of every activity, the others of one or two.
        having = np.full(activities, draw.random() < 0.5)
        having[draw.integers(0, activities, 2)] = True
        return self._drawn(codes, activities, having[codes], draw)

    def _drawn(
        self,
        groups: Ints,
        count: int,
        present: Bools,
        draw: np.random.Generator,
    ) -> pl.Series:
        """``groups``: which table of shares an event or a case draws from, int64, shape (rows,)."""
        if self.values:
            # Shares as 1 over the rank; each group ranks the values in an order of its own.
            shares = 1.0 / np.arange(1, len(self.values) + 1)
            edges = np.cumsum(shares / shares.sum())
            ranks = np.minimum(np.searchsorted(edges, draw.random(len(groups))), len(edges) - 1)
            orders = np.array([draw.permutation(len(self.values)) for _ in range(count)])
            rows = np.asarray(orders[groups, ranks], np.int64)
            found = pl.Series(self.name, self.values, strict=False).gather(rows)
        else:
            found = self._numbers(draw.beta(2, 5, count)[groups], draw)
        drawn = pl.select(pl.when(pl.Series(present)).then(found).otherwise(None))
        return drawn.to_series().alias(self.name)

    def _numbers(self, centres: Floats, draw: np.random.Generator) -> pl.Series:
        """Numbers about a centre of their group, both as shares of the range."""
        place = np.clip(centres + 0.12 * draw.standard_normal(len(centres)), 0.0, 1.0)
        numbers = self.low + (self.high - self.low) * place
        if self.kind == "number":
            return pl.Series(self.name, np.round(numbers, 2))
        numbers = np.floor(numbers).astype(np.int64)
        if self.kind == "integer":
            return pl.Series(self.name, numbers)
        unit = _DAY if self.kind == "date" else _SECOND
        return pl.Series(self.name, numbers * unit).cast(pl.Datetime("us", "UTC"))


@frozen
class StandInFacts:
    """Everything that invented logs are made of, merged over the policies that are compared.

    ``assumed``: what nobody declared, one line each, with what to declare. ``activity_names``,
    ``time_names``: the attributes that the policies give these roles. ``units``: attributes that
    name units of privacy, and the most cases of each.
    """

    shapes: tuple[ProcessShape, ...]
    cases: int
    alphabet: tuple[str, ...]
    times: InventedTimes
    attributes: tuple[InventedAttribute, ...]
    activity_names: tuple[str, ...]
    time_names: tuple[str, ...]
    units: Mapping[str, int]
    assumed: tuple[str, ...] = ()

    def log(self, shape: ProcessShape, seed: int) -> EventLog:
        """The invented log of a shape and a seed."""
        draw = np.random.default_rng([seed, len(self.alphabet), self.cases])
        # The control flow: cases of each variant, the variants, and which each case takes.
        shares = shape.shares_by_rank(self.cases)
        drawn = draw.multinomial(self.cases, np.append(shares, max(0.0, 1.0 - shares.sum())))
        # What no rank holds are variants of one case each.
        sizes = np.concatenate([drawn[:-1][drawn[:-1] > 0], np.ones(drawn[-1], np.int64)])
        sizes = sizes[:MOST_VARIANTS]
        variants = _drawn_variants(shape, len(self.alphabet), len(sizes), draw)
        variant_of = np.repeat(np.arange(len(variants)), sizes[: len(variants)])
        variant_of = draw.permutation(variant_of)
        lengths = np.array([len(variant) for variant in variants], np.int64)[variant_of]
        codes = np.concatenate([np.array(variants[row], np.int64) for row in variant_of])
        offsets = offsets_of(lengths)
        # Times, then columns of events, then those of cases: each draws after the one before.
        stamps = self.times.drawn(codes, offsets, len(self.alphabet), draw)
        labels = pl.Series(ACTIVITY, self.alphabet, pl.String).gather(codes)
        events = {name: labels.alias(name) for name in self.activity_names}
        events |= {name: stamps.alias(name) for name in self.time_names}
        for attribute in self.attributes:
            if not attribute.name.startswith(CASE_PREFIX):
                events[attribute.name] = attribute.of_events(codes, len(self.alphabet), draw)
        cases = dict(self._columns_of_cases(len(variant_of), draw))
        return EventLog(pl.DataFrame(events), pl.DataFrame(cases), offsets)

    def _columns_of_cases(
        self,
        count: int,
        draw: np.random.Generator,
    ) -> Iterator[tuple[str, pl.Series]]:
        yield CASE_ID, pl.Series(CASE_ID, [f"case {row}" for row in range(count)], pl.String)
        for name, most in self.units.items():
            # Most units have one case; some have up to as many as are kept.
            sizes = np.minimum(draw.geometric(0.6, count), most)
            owners = np.repeat(np.arange(count), sizes)[:count]
            yield name, pl.Series(name, [f"unit {owner}" for owner in owners], pl.String)
        for attribute in self.attributes:
            if attribute.name.startswith(CASE_PREFIX):
                yield attribute.name, attribute.of_cases(count, draw)


def stand_in_facts(
    policies: Sequence[Policy],
    profile: Profile | None = None,
    cases: int | None = None,
) -> StandInFacts:
    """What invented logs are made of: declared facts of ``policies``, and a profile's figures.

    ``cases``: how many cases the log is publicly known to have.
    """
    declared = [policy.facts() for policy in policies]
    # Of each fact what the first policy that declares it says.
    merged: dict[str, Any] = {}
    for name in _MERGED:
        values = (getattr(each, name) for each in declared)
        merged[name] = next((value for value in values if value is not None), None)
    facts = Facts(**merged)
    if profile is not None:
        facts = profile.facts(facts)
    roles = {rule.role for policy in policies for rule in policy.spec.attributes.values()}
    units = [policy.spec.unit for policy in policies]
    max_cases = {
        unit.attribute: unit.max_cases
        for unit in units
        if unit.attribute is not None and unit.level == "case"
    }
    # In the order in which they are told.
    assumed = list[str]()
    number = _cases(facts, profile, cases, assumed)
    shapes = _shapes(facts, profile, assumed)
    alphabet = facts.alphabet
    if alphabet is None:
        assumed.append(f"{USUAL_ACTIVITIES} activities: declare assume.alphabet")
        alphabet = tuple(f"activity {place}" for place in range(1, USUAL_ACTIVITIES + 1))
    return StandInFacts(
        cases=number,
        shapes=shapes,
        alphabet=alphabet,
        # Where no policy names a time, nothing about times needs to be said.
        times=_times(facts, assumed if "timestamp" in roles else []),
        attributes=_attributes(policies, max_cases, assumed),
        activity_names=_names(policies, "control-flow", ACTIVITY),
        time_names=_names(policies, "timestamp", TIMESTAMP),
        units=max_cases,
        assumed=tuple(assumed),
    )


def _cases(
    facts: Facts,
    profile: Profile | None,
    known: int | None,
    assumed: list[str],
) -> int:
    """As publicly known, as the profile counted, or half of what is declared at most."""
    if known is not None:
        return min(known, MOST_CASES)
    if profile is not None:
        return min(max(1, profile.figures.cases), MOST_CASES)
    if facts.units_at_most is None:
        assumed.append(
            f"{USUAL_CASES:,} cases: declare assume.units_at_most, or give the number of cases "
            "where it is public"
        )
        return USUAL_CASES
    count = min(max(1, facts.units_at_most // 2), MOST_CASES)
    assumed.append(
        f"{count:,} cases, of at most {facts.units_at_most:,} declared: give the number of "
        "cases where it is public"
    )
    return count


def _shapes(
    facts: Facts,
    profile: Profile | None,
    assumed: list[str],
) -> tuple[ProcessShape, ...]:
    if profile is not None:
        return (profiled_shape(profile.figures, facts.longest_case),)
    assumed.append(
        "how alike cases are: two processes, one of few variants and one of many, are tried; a DP "
        "profile (cloakwork profile) tells it"
    )
    if facts.longest_case is None:
        assumed.append("cases of 8 events, of 60 at most: declare assume.longest_case")
    # The two ends of what logs are like, as nothing tells of which kind this one is.
    longest = facts.longest_case or USUAL_LENGTHS[-1]
    lengths = tuple(min(length, longest) for length in USUAL_LENGTHS)
    return tuple(ProcessShape(name, heads, lengths) for name, heads in (FEW, MANY))


def _times(facts: Facts, assumed: list[str]) -> InventedTimes:
    if facts.window is None:
        assumed.append("starts within two years: declare assume.window")
    if facts.longest_gap is None:
        assumed.append("at most 30 days between two events: declare assume.longest_gap")
    return InventedTimes(facts.window or USUAL_WINDOW, facts.longest_gap or USUAL_GAP)


def _names(
    policies: Sequence[Policy],
    role: str,
    standard: str,
) -> tuple[str, ...]:
    named = [
        name
        for policy in policies
        for name, rule in policy.spec.attributes.items()
        if rule.role == role
    ]
    return tuple(dict.fromkeys([standard, *named]))


def _attributes(
    policies: Sequence[Policy],
    units: Mapping[str, int],
    assumed: list[str],
) -> tuple[InventedAttribute, ...]:
    """Every attribute that a policy names and may release or group by."""
    rules = dict[str, AttributeRule]()
    for policy in policies:
        for name, rule in policy.spec.attributes.items():
            without_values = rule.role in _NO_VALUES or rule.treatment == "drop"
            if is_glob(name) or without_values or name in units:
                continue
            known = rules.setdefault(name, rule)
            # A rule that tells which values there are beats one that does not, in whatever policy.
            if not (known.domain or known.range or known.bins or known.hierarchy):
                rules[name] = rule
    # Who performed events is counted, and never released.
    for policy in policies:
        for goal in policy.goals():
            if goal.employees is not None:
                rules[goal.employees] = AttributeRule(role="insensitive")
    return tuple(_attribute(name, rule, assumed) for name, rule in rules.items())


def _attribute(
    name: str,
    rule: AttributeRule,
    assumed: list[str],
) -> InventedAttribute:
    if rule.domain is not None:
        return InventedAttribute(name, rule.domain[:MOST_VALUES])
    if rule.range is not None:
        low, high = map(number_of_end, rule.range)
        return InventedAttribute(
            name,
            low=low,
            high=high,
            kind=rule.value_type(),
        )
    if rule.bins is not None:
        return InventedAttribute(
            name,
            low=float(rule.bins[0]),
            high=float(rule.bins[-1]),
        )
    if rule.hierarchy is not None:
        values = tuple(value for _, value in leaves_of_tree(rule.hierarchy, ()))
        return InventedAttribute(name, values[:MOST_VALUES])
    assumed.append(f"{USUAL_VALUES} values of '{name}': declare its domain or range")
    return InventedAttribute(name, tuple(f"value {row}" for row in range(1, USUAL_VALUES + 1)))


def _drawn_variants(
    shape: ProcessShape,
    activities: int,
    count: int,
    draw: np.random.Generator,
) -> list[Labels]:
    """``count`` different variants of a process that is invented anew, those most often walked
    first: a graph of activities, and a few of them that long cases repeat.

    Fewer where so many were not found. Activities are 0 to ``activities`` - 1.
    """
    branches = min(4, activities)
    successors = draw.integers(0, activities, (activities, branches))
    # The usual successor is the next activity; after the last one comes the first.
    successors[:, 0] = (np.arange(activities) + 1) % activities
    usual = 0.45 + 0.45 * shape.concentration
    weights = np.array([usual, *((1.0 - usual) * np.array([0.55, 0.3, 0.15]))])[:branches]
    weights /= weights.sum()
    repeated = draw.permutation(activities)[: min(_REPEATED, activities)]
    opening = max(1, min(activities, (shape.lengths[0] + 1) // 2))
    # Events of cases: evenly drawn between the quantiles that the shape tells.
    shares = (0.0, *LENGTH_SHARES, 1.0)
    ends = (max(1.0, shape.lengths[0] / 2), *shape.lengths, shape.lengths[-1])
    drawn = np.interp(draw.random(_TRIES * count + 100), shares, ends)
    lengths = np.maximum(1, np.rint(drawn)).astype(np.int64)
    found: Counter[Labels] = Counter()
    for length in lengths.tolist():
        choices = draw.choice(branches, size=length, p=weights)
        again = draw.integers(0, len(repeated), length)
        here = 0
        labels = [0]
        for place in range(1, length):
            # Between opening and end a long case only repeats its few activities.
            if opening <= place < length - 1:
                labels.append(int(repeated[again[place]]))
                continue
            here = int(successors[here, choices[place]])
            labels.append(here)
        found[tuple(labels)] += 1
    return [walk for walk, _ in found.most_common(count)]
