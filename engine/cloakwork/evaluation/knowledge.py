"""The attack by what somebody knows of a case: is it alone with that, and is the best guess right?

A kind of knowledge says which cases of a log fit best what is known of a target. A new kind is one
more line in ``KINDS``.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Final, Literal, NamedTuple

import numpy as np

from cloakwork.base.arrays import Floats, Ints
from cloakwork.base.progress import Reporter, silent
from cloakwork.evaluation.attacked import AttackedLogs, is_made_up
from cloakwork.evaluation.bounds import excess, share_of
from cloakwork.evaluation.coded import (
    DAY,
    HOUR,
    SECOND,
    CodedAttributes,
    CodedLog,
    code_attributes,
    code_logs,
)
from cloakwork.evaluation.links import Beside, Links, Moved
from cloakwork.evaluation.risk_figures import Attack, GroupSizes, Share
from cloakwork.log.eventlog import EventLog
from cloakwork.plan.model import Plan
from cloakwork.run.reading import OpenedLog

KNOWN: Final = ("sequence", "timed-events-3", "sequence-times")
"""What somebody knows of a case where few kinds are looked at: its activities in order; three of
its events with their times to the hour; both, with all times.
"""

SAMPLE: Final = 2000
"""Cases of the log, at random, that are compared with made-up ones: all cost minutes."""

_UNUSUAL: Final = 0.05
"""Of the cases, the share that is looked at apart."""

FARTHEST: Final = 2**53
"""Microseconds that a known event is taken to be away where no event is left for it: 285 years, and
exact as a float, too."""


class BestFit(NamedTuple):
    """The cases that fit best, among which an attacker can only guess: as rows of variants, or of
    cases; one of the two is None. ``score``: how well they fit.
    """

    variants: Ints | None = None
    cases: Ints | None = None
    score: float = 0.0

    def size(self, log: CodedLog) -> int:
        """How many cases they are."""
        if self.cases is not None:
            return len(self.cases)
        return int(log.sizes[self.variants].sum())

    def found(self, part: CodedLog, posterior: Floats) -> tuple[float, int, float]:
        """In a part of a log: the score, how many cases they are, and the probability that one of
        them is the target; ``posterior``: shape (cases,).
        """
        cases = self.cases
        if cases is None:
            is_best = np.zeros(len(part.sizes), np.bool_)
            is_best[self.variants] = True
            cases = np.flatnonzero(is_best[part.variant])
        return self.score, len(cases), float(posterior[cases].sum())


@dataclass(frozen=True)
class Target:
    """A case that somebody looks for: ``case``, a row of ``log``. ``seed``: decides which of its
    events are known.
    """

    log: CodedLog
    case: int
    seed: int
    attributes: CodedAttributes

    @property
    def variant(self) -> int:
        """The row of its variant."""
        return int(self.log.variant[self.case])

    @property
    def sequence(self) -> tuple[int, ...]:
        """Its activities."""
        return self.log.sequences[self.variant]

    @property
    def times(self) -> Ints:
        """Its times, in microseconds."""
        return self.log.times_of(self.case)

    def points(self, number: int) -> Ints:
        """The positions of ``number`` events at random, or of all, in order."""
        # Seeded by the case, so that log and release are searched with the same knowledge.
        draws = np.random.default_rng([self.seed, self.case, number])
        return np.sort(draws.permutation(len(self.sequence))[:number])


@dataclass(frozen=True)
class Searched:
    """The log in which a target is looked for.

    ``links``: from the target's log, which may be the same. ``posterior``: how likely each case is
    to be the target by all its times; None where the log is the target's own.
    """

    log: CodedLog
    attributes: CodedAttributes
    links: Links
    posterior: Floats | None = None


Fits = Callable[[Target, Searched], BestFit]


@dataclass(frozen=True)
class Knowledge:
    """One kind of knowledge. ``name``: for programs; ``knows``: for people, {} stands for the names
    of attributes. ``needs``: what a log must have, beside activities. ``sampled``: which part of a
    case is known is drawn at random.
    """

    name: str
    knows: str
    fits: Fits
    needs: Literal["times", "cases", "events"] | None = None
    sampled: bool = False

    def is_known(self, attributes: CodedAttributes, *, times: bool) -> bool:
        """Whether a log with these attributes allows it; ``times``: it has some."""
        return {
            None: True,
            "times": times,
            "cases": bool(attributes.of_cases),
            "events": bool(attributes.of_events),
        }[self.needs]


def who_is_found(attacked: AttackedLogs) -> Iterator[Attack]:
    """Uniqueness, and then linking, by each kind of knowledge."""
    source = attacked.source
    (own,) = code_attributes([source], attacked.of_cases, attacked.of_events)
    names = {"cases": ", ".join(attacked.of_cases), "events": ", ".join(attacked.of_events)}
    kinds = [
        replace(kind, knows=kind.knows.format(names.get(kind.needs or "")))
        for kind in KINDS
        if kind.is_known(own, times=source.times is not None)
    ]
    attacked.reporter("looking for cases in the log itself")
    sizes = _own_sizes(source, attacked.targets, kinds, own, attacked.seed)
    sizes_after: dict[str, Ints] = {}
    found_after: dict[str, Share] = {}
    control = None
    if attacked.released is not None:
        found_after = _found_after(attacked, kinds)
        if attacked.is_made_up:
            control = f"{attacked.name_of_stand_ins} (after the release only)"
        else:
            # Of cases of the release, how many others are like them there.
            released = attacked.released
            (theirs,) = code_attributes([released], *attacked.in_both)
            chosen = attacked.drawn_cases(released)
            attacked.reporter("looking for cases in the release itself")
            sizes_after = _own_sizes(released, chosen, kinds, theirs, attacked.seed)
    # A census, without bounds: every case is a target, and nothing that is known was drawn.
    whole = len(attacked.targets) == source.cases and not source.log.sample
    for kind in kinds:
        census = whole and not kind.sampled
        after = sizes_after.get(kind.name)
        yield Attack(
            name=f"uniqueness/{kind.name}",
            knows=kind.knows,
            before=_share_alone(sizes[kind.name], census=census),
            after=None if after is None else _share_alone(after, census=census),
            method="every case" if census else "sample",
            groups_before=_groups(sizes[kind.name]),
            groups_after=None if after is None else _groups(after),
        )
    for kind in kinds:
        census = whole and not kind.sampled
        yield Attack(
            name=f"linking/{kind.name}",
            knows=kind.knows,
            before=share_of((1 / sizes[kind.name]).tolist(), census=census),
            after=found_after.get(kind.name),
            method="every case" if census else "sample",
            control=control,
        )


def findable(source: EventLog, released: EventLog, plan: Plan, targets: int) -> tuple[Attack, ...]:
    """``shares_found`` as attacks, each as ``after``."""
    words = {kind.name: kind.knows for kind in KINDS}
    return tuple(
        Attack(name=f"linking/{name}", knows=words[name], before=None, after=share)
        for name, share in shares_found(source, released, plan, targets=targets).items()
    )


def shares_found(
    source: EventLog,
    released: EventLog,
    plan: Plan,
    *,
    targets: int,
    sample: int = SAMPLE,
    reporter: Reporter = silent,
) -> dict[str, Share]:
    """What share of the cases of ``source`` somebody finds in ``released``, by what he knows
    (``KNOWN``); of ``targets`` of them at random. Made-up cases are compared with ``sample`` of the
    log. Nothing without events.

    Figures of the raw log: internal.
    """
    if not (source.events.height and released.events.height):
        return {}
    opened = OpenedLog(released, "the release", plan)
    # Made-up cases are nobody's, so whom of a sample they give away says what they do of all.
    if is_made_up(opened) and source.case_count > sample:
        drawn = np.random.default_rng(0).permutation(source.case_count)[:sample]
        source = source.keep_cases(np.sort(drawn))
    coded, made = code_logs(source, released)
    attacked = AttackedLogs(
        source=coded,
        releases=[made],
        opened=[opened],
        most_targets=targets,
        seed=0,
        reporter=reporter,
        notes=[],
    )
    (own,) = code_attributes([coded], attacked.of_cases, attacked.of_events)
    has_times = coded.times is not None and made.times is not None
    kinds = [each for each in KINDS if each.name in KNOWN and each.is_known(own, times=has_times)]
    return _found_after(attacked, kinds)


def most_unusual(attacked: AttackedLogs) -> Iterator[Attack]:
    """Linking of the most unusual cases alone, by ``KNOWN``: those whose sequences are the least
    likely where each activity follows the one before as often as it does in the log.
    """
    source = attacked.source
    apart = copy(attacked)
    apart.targets = _least_likely(attacked)
    (own,) = code_attributes([source], (), ())
    attacked.reporter("looking for the most unusual cases")
    kinds = [kind for kind in KINDS if kind.name in KNOWN]
    sizes = _own_sizes(source, apart.targets, kinds, own, attacked.seed)
    kinds = [kind for kind in kinds if kind.name in sizes]
    after = {} if attacked.released is None else _found_after(apart, kinds)
    for kind in kinds:
        yield Attack(
            name=f"unusual/{kind.name}",
            knows=kind.knows,
            before=share_of((1 / sizes[kind.name]).tolist(), census=False),
            after=after.get(kind.name),
            control=attacked.name_of_stand_ins if attacked.is_made_up else None,
        )


def _least_likely(attacked: AttackedLogs) -> Ints:
    """The most unusual cases, of more than are looked for so many at random: rows, ascending."""
    log = attacked.source
    # Before the first activity, and after the last one, there is none: a code of its own.
    steps = [list(pairwise((-1, *sequence, -1))) for sequence in log.sequences]
    times = Counter[tuple[int, int]]()
    left = Counter[int]()
    for pairs, cases in zip(steps, log.sizes.tolist(), strict=True):
        for pair in pairs:
            times[pair] += cases
            left[pair[0]] += cases
    likely = [sum(math.log(times[pair] / left[pair[0]]) for pair in pairs) for pairs in steps]
    number = math.ceil(_UNUSUAL * log.cases)
    # Cases that are as likely as each other come in random order.
    draws = np.random.default_rng([attacked.seed, 5])
    shuffled = draws.permutation(log.cases)
    order = np.argsort(np.array(likely)[log.variant[shuffled]], kind="stable")
    chosen = draws.permutation(shuffled[order][:number])
    return np.sort(chosen[: attacked.most_targets])


def _own_sizes(
    log: CodedLog,
    chosen: Ints,
    kinds: Sequence[Knowledge],
    attributes: CodedAttributes,
    seed: int,
) -> dict[str, Ints]:
    """For each kind that can be known, how many cases fit what is known of each target."""
    searched = Searched(log, attributes, Links(log, log, seed))
    targets = [Target(log, case, seed, attributes) for case in chosen.tolist()]
    return {
        kind.name: np.array([kind.fits(target, searched).size(log) for target in targets])
        for kind in kinds
        if kind.is_known(attributes, times=log.times is not None)
    }


def _share_alone(sizes: Ints, *, census: bool) -> Share:
    return share_of((sizes == 1).tolist(), census=census)


def _groups(sizes: Ints) -> GroupSizes:
    edges = np.searchsorted([1, 2, 5, 10], sizes, side="right") - 1
    shares = np.bincount(edges, minlength=4) / len(sizes)
    return GroupSizes(**dict(zip(GroupSizes.model_fields, shares.tolist(), strict=True)))


def _found_after(attacked: AttackedLogs, kinds: Sequence[Knowledge]) -> dict[str, Share]:
    """How often the best guess in the release is right.

    Where the release is made up, guesses lead to cases that resemble the target by chance: what
    counts is what is found beyond stand-ins, which are cases that gave nothing to the release, or
    else the targets at other times. Where it is not known how times were moved, that is the lower
    bound of what times find.
    """
    links = attacked.links()
    # What attributes tell is not looked for in batches.
    if attacked.whole:
        kinds = [kind for kind in kinds if kind.needs in (None, "times")]
    noise_is_known = links.rehearse is not None or links.times_are_drawn
    chances = _chances(attacked, kinds, links, attacked.targets)
    found = {name: share_of(each, census=False) for name, each in chances.items()}
    # Rewritten cases, by known noise or without times: the links tell all without a control.
    if not attacked.is_made_up and (noise_is_known or not links.has_times):
        return found
    attacked.reporter("looking for stand-ins in the release")
    stand_ins, chosen = attacked.stand_ins()
    between = Links(stand_ins, links.released, attacked.seed, looked_for=attacked.most_targets)
    between.fit()
    control = _chances(attacked, kinds, between, chosen)
    for kind in kinds:
        beyond = excess(chances[kind.name], control[kind.name])
        share = found[kind.name]
        if attacked.is_made_up:
            found[kind.name] = beyond
        elif kind.needs == "times":
            found[kind.name] = share.model_copy(update={"low": min(share.low, beyond.low)})
    return found


def _chances(
    attacked: AttackedLogs,
    kinds: Sequence[Knowledge],
    links: Links,
    chosen: Ints,
) -> dict[str, list[float]]:
    """How likely the best guess in the release is right, for each kind and target."""
    own, theirs = code_attributes([links.source, links.released], *attacked.in_both)
    best: dict[tuple[str, int], tuple[float, int, float]] = {}
    by_variants: dict[tuple[str, int], BestFit] = {}
    for number, (case, part, posterior) in enumerate(links.posteriors(chosen.tolist())):
        place = number % len(chosen)
        if place % 100 == 0:
            attacked.reporter(
                f"looking for cases of the log in the release: {place:,} of {len(chosen):,}"
            )
        target = Target(links.source, case, attacked.seed, own)
        searched = Searched(part, theirs, links, posterior)
        for kind in kinds:
            # Who knows what the release does not hold has a guess at random.
            key = kind.name, case
            fit = by_variants.get(key) or BestFit(cases=np.arange(part.cases))
            if key not in by_variants and kind.is_known(own, times=links.has_times):
                fit = kind.fits(target, searched)
            # All parts have the variants of the whole log.
            if fit.variants is not None and attacked.whole:
                by_variants[key] = fit
            score, size, right = fit.found(part, posterior)
            before = best.get(key, (score, 0, 0.0))
            # What fits as well in two parts is guessed among together.
            if score == before[0]:
                size, right = size + before[1], right + before[2]
            best[key] = max(before, (score, size, right))
    shares = {key: right / size for key, (_, size, right) in best.items()}
    return {kind.name: [shares[kind.name, case] for case in chosen.tolist()] for kind in kinds}


def _highest(scores: Floats | Ints) -> Ints:
    return np.flatnonzero(scores == scores.max())


def _best_of(scores: Floats | Ints, cases: Ints | None = None) -> BestFit:
    """The cases with the highest score: rows, or those of ``cases``, which the scores are of."""
    if not len(scores):
        return BestFit(cases=np.zeros(0, np.int64), score=-math.inf)
    best = _highest(scores)
    return BestFit(cases=best if cases is None else cases[best], score=float(scores[best[0]]))


def _events(number: int, *, ordered: bool = False) -> Fits:
    def fits(target: Target, searched: Searched) -> BestFit:
        known = [target.sequence[place] for place in target.points(number)]
        log = searched.log
        # Of the known events how many each variant has, repeated ones as often as known.
        activities, times = np.unique(known, return_counts=True)
        score = np.minimum(log.counts[:, activities], times).sum(axis=1)
        # Among variants that have all of them, order breaks the tie.
        if ordered:
            score = score + log.contains_in_order(known, score == len(known))
        return BestFit(variants=_highest(score))

    return fits


def _prefix(target: Target, searched: Searched) -> BestFit:
    known = target.sequence[:3]
    agree = searched.log.beginnings[:, : len(known)] == np.array(known)
    # Behind the first difference the product stays 0, so the sum is how many agree.
    return BestFit(variants=_highest(np.cumprod(agree, axis=1).sum(axis=1)))


def _activities(target: Target, searched: Searched) -> BestFit:
    known = np.zeros(len(searched.log.alphabet), np.bool_)
    known[list(target.sequence)] = True
    return BestFit(variants=_highest(-((searched.log.counts > 0) != known).sum(axis=1)))


def _start(resolution: int) -> Fits:
    def fits(target: Target, searched: Searched) -> BestFit:
        away = away_from(searched.log.starts, int(target.times[0]), resolution)
        return _best_of(-away)

    return fits


def _duration(target: Target, searched: Searched) -> BestFit:
    known = int(target.times[-1] - target.times[0])
    return _best_of(-away_from(searched.log.durations, known, HOUR))


def _timed_events(number: int) -> Fits:
    """Each known event is one event of its activity in a case, no two of them the same one."""

    def fits(target: Target, searched: Searched) -> BestFit:
        known: dict[int, list[int]] = {}
        for place in target.points(number).tolist():
            known.setdefault(target.sequence[place], []).append(int(target.times[place]))
        return _best_of(-least_away(searched.log, known))

    return fits


def _with_start(target: Target, searched: Searched) -> BestFit:
    rows = searched.links.nearest(target.variant)
    cases = np.concatenate([searched.log.cases_of[row] for row in rows.tolist()])
    away = away_from(searched.log.starts[cases], int(target.times[0]), SECOND)
    return _best_of(-away, cases)


def _with_times(target: Target, searched: Searched) -> BestFit:
    # In a release, the links' posterior is what all times together tell.
    if searched.posterior is not None:
        return _best_of(searched.posterior)
    return _by_times(target, searched, lambda moved: moved.apart)


def _by_times(
    target: Target,
    searched: Searched,
    figure: Callable[[Moved], Floats],
) -> BestFit:
    """The cases of the nearest sequences where a figure of the times is least."""
    rows = searched.links.nearest(target.variant).tolist()
    aligned = {row: searched.links.aligned(target.variant, row) for row in rows}
    moved = Beside.of(searched.log, aligned).moved(target.times)
    cases = np.concatenate([searched.log.cases_of[row] for row in rows])
    return _best_of(-figure(moved), cases)


def _case_values(target: Target, searched: Searched) -> BestFit:
    equal = searched.attributes.cases == target.attributes.cases[target.case]
    return _best_of(equal.sum(axis=1))


def _event_values(target: Target, searched: Searched) -> BestFit:
    """Cases with an event of the activity, and of these the most equal values in one event."""
    place = int(target.points(1)[0])
    known = target.attributes.events[int(target.log.offsets[target.case]) + place]
    rows, cases, begins = searched.log.occurrences[target.sequence[place]]
    # No case has the activity, so all fit alike, and the guess is at random.
    if not len(rows):
        return BestFit(cases=np.arange(searched.log.cases))
    equal = (searched.attributes.events[rows] == known).sum(axis=1)
    return _best_of(np.maximum.reduceat(equal, begins), cases)


KINDS: Final = (
    Knowledge("events-1", "one of its activities", _events(1), sampled=True),
    Knowledge("events-2", "2 of its activities", _events(2), sampled=True),
    Knowledge("events-3", "3 of its activities", _events(3), sampled=True),
    Knowledge(
        "order-2", "2 of its activities, and their order", _events(2, ordered=True), sampled=True
    ),
    Knowledge(
        "order-3", "3 of its activities, and their order", _events(3, ordered=True), sampled=True
    ),
    Knowledge("prefix-3", "its first 3 activities", _prefix),
    Knowledge("activities", "which activities it has", _activities),
    Knowledge(
        "sequence",
        "its whole sequence of activities",
        lambda target, searched: BestFit(variants=searched.links.nearest(target.variant)),
    ),
    Knowledge("start-second", "when it started, to the second", _start(SECOND), "times"),
    Knowledge("start-hour", "when it started, to the hour", _start(HOUR), "times"),
    Knowledge("start-day", "when it started, to the day", _start(DAY), "times"),
    Knowledge("duration", "how long it took, to the hour", _duration, "times"),
    *(
        Knowledge(
            f"timed-events-{number}",
            f"{'one' if number == 1 else number} of its events, with times to the hour",
            _timed_events(number),
            "times",
            sampled=True,
        )
        for number in (1, 2, 3)
    ),
    Knowledge(
        "sequence-start",
        "its sequence, and when it started, to the second",
        _with_start,
        "times",
    ),
    Knowledge(
        "sequence-gaps",
        "its sequence, and how long each step took",
        lambda target, searched: _by_times(target, searched, lambda moved: moved.gaps),
        "times",
    ),
    Knowledge("sequence-times", "its sequence, and the time of every event", _with_times, "times"),
    Knowledge("case-attributes", "attributes of the case: {}", _case_values, "cases"),
    Knowledge(
        "event-attributes",
        "one event, with its attributes: {}",
        _event_values,
        "events",
        sampled=True,
    ),
)
"""In the order of the report."""


def away_from(values: Ints, known: int, resolution: int) -> Ints:
    """How far values lie from the interval of a known one, in microseconds."""
    # A known time is anywhere in its unit, such as its hour: in there nothing is away.
    first = known // resolution * resolution
    return np.asarray(np.maximum(np.maximum(first - values, values - first - resolution + 1), 0))


def least_away(log: CodedLog, known: dict[int, list[int]]) -> Ints:
    """How far the events of each case lie in all from the hours of the known events, when each of
    these is one event of the case, of its activity: int64, shape (cases,); microseconds.

    ``known``: up to three times, by activity.
    """
    total = np.full(log.cases, FARTHEST * sum(map(len, known.values())))
    for activity, times in known.items():
        rows, cases, begins = log.occurrences[activity]
        if len(rows):
            away = [away_from(log.clock[rows], time, HOUR) for time in times]
            total[cases] += _matched(away, begins) - FARTHEST * len(times)
    return total


def _matched(away: list[Ints], begins: Ints) -> Ints:
    """The same of one activity, whose events lie so far from each known one, and begin in each case
    that has some at ``begins``.
    """
    if len(away) == 1:
        return np.asarray(np.minimum.reduceat(away[0], begins))
    # The most events first, so that the cases that have one more are the first ones.
    sizes = np.diff(begins, append=len(away[0]))
    order = np.argsort(-sizes)
    # Of known events, as bits of a number: how far they are away, if each is another one of the
    # events so far, or none.
    none = [[FARTHEST * known.bit_count()] for known in range(1 << len(away))]
    least: Ints = np.repeat(none, len(begins), axis=1)
    for place in range(sizes.max()):
        longer = order[: np.count_nonzero(sizes > place)]
        apart = [each[begins[longer] + place] for each in away]
        # Known events before fewer of them, to which this event is not given yet.
        for known, (number, each) in product(reversed(range(len(least))), enumerate(apart)):
            if known >> number & 1:
                others = least[known ^ 1 << number, : len(longer)]
                here = least[known, : len(longer)]
                np.minimum(here, others + each, out=here)
    return np.asarray(least[-1, np.argsort(order)])
