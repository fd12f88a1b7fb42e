"""PRIPEL as published: the noisy prefix tree makes cases, each is matched with one of the log, and
takes its times and values over, each through noise of its own.
"""

import math
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Annotated, ClassVar, Final

import numpy as np
from pydantic import Field, JsonValue, ValidationError

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.base.costs import NonPrivate
from cloakwork.base.facts import UNIX_EPOCH, Facts
from cloakwork.base.frozen import frozen
from cloakwork.base.lineage import CONTROL_FLOW, METADATA, TIMESTAMPS, Lineage
from cloakwork.base.naming import CASE_PREFIX
from cloakwork.base.progress import say
from cloakwork.guarantees import DifferentialPrivacy, Guarantee
from cloakwork.kernel import Cases, Column, Kernel, Measured, Randomness
from cloakwork.kernel.perturb import Grid
from cloakwork.log.variants import positions_to_codes
from cloakwork.mechanisms.base import (
    Gives,
    Mechanism,
    Offer,
    Options,
    Proof,
    Refusal,
    Theorem,
    option_fault,
)
from cloakwork.mechanisms.steps import Listed, Measurement, MeasureStep, Numbers, Times
from cloakwork_extras.trees.prefix_tree import DEFAULT_LENGTH
from cloakwork_extras.trees.published import (
    TREE_OPTIONS,
    PublishedTreeOptions,
    PublishedTreeParams,
    RawVariants,
    grow_as_published,
)

_AT_ONCE: Final = 64
"""Sequences whose distances to all others are held at once."""


@frozen
class DistinctCases:
    """The distinct sequences of ``cases``: ``first``, a case of each; ``of_case``, which of them a
    case follows; all int64.
    """

    cases: Cases
    first: Ints
    of_case: Ints

    @classmethod
    def of(cls, cases: Cases) -> "DistinctCases":
        """In the order in which they first occur."""
        rows: dict[bytes, int] = {}
        first: list[int] = []
        of_case = np.empty(len(cases), np.int64)
        bounds = cases.offsets.tolist()
        for case in range(len(cases)):
            # The bytes of a sequence are its key: equal codes, equal bytes.
            row = rows.setdefault(cases.codes[bounds[case] : bounds[case + 1]].tobytes(), len(rows))
            if row == len(first):
                first.append(case)
            of_case[case] = row
        return cls(cases, np.array(first, np.int64), of_case)

    @property
    def counts(self) -> Ints:
        """How many cases follow each."""
        return np.bincount(self.of_case, minlength=len(self.first)).astype(np.int64)

    def texts(self) -> list[str]:
        """Each sequence with one character for an activity, by its place in the alphabet."""
        letters = positions_to_codes(np.arange(len(self.cases.alphabet), dtype="<u4"))
        bounds = self.cases.offsets.tolist()
        return [
            letters[self.cases.codes[bounds[case] : bounds[case + 1]]].tobytes().decode("utf-32-le")
            for case in self.first.tolist()
        ]


def matched_cases(made: Cases, source: Cases, random: Randomness) -> Ints:
    """For each case of ``made`` one of ``source``, each of which is taken once; -1 for those that
    are left over. Both are coded by one alphabet.

    Cases of the same sequence first; then each sequence, in random order, takes the nearest ones
    that are left, by edit distance: the greedy form of the assignment, whose optimum is cubic.
    """
    new, old = DistinctCases.of(made), DistinctCases.of(source)
    required, left = new.counts, old.counts
    texts = old.texts()
    place = {text: row for row, text in enumerate(texts)}
    new_texts = new.texts()
    taken: list[tuple[int, int, int]] = []

    def take(one: int, other: int) -> None:
        number = int(min(required[one], left[other]))
        required[one] -= number
        left[other] -= number
        taken.append((one, other, number))

    # The same sequence first: no distance has to be known.
    for one, text in enumerate(new_texts):
        if text in place:
            take(one, place[text])
    # In random order, so that no sequence has the first choice by its place.
    unmatched = random.permutation(len(new_texts))
    unmatched = unmatched[required[unmatched] > 0]
    say(f"matching {len(unmatched):,} sequences with the nearest of {len(texts):,}")
    # So many rows of distances at a time, lest the whole matrix fill the memory.
    for start in range(0, len(unmatched), _AT_ONCE):
        if not left.any():
            break
        rows = unmatched[start : start + _AT_ONCE]
        distances = _distances([new_texts[row] for row in rows], texts)
        for row, distance in zip(rows.tolist(), distances, strict=True):
            while required[row] and left.any():
                nearest = int(np.argmin(np.where(left > 0, distance, np.iinfo(np.int32).max)))
                take(row, nearest)
    return _pairs_of(new, old, taken)


def _distances(rows: list[str], columns: list[str]) -> Ints:
    from rapidfuzz import process
    from rapidfuzz.distance import Levenshtein

    return process.cdist(rows, columns, scorer=Levenshtein.distance, dtype=np.int32)


def _pairs_of(new: DistinctCases, old: DistinctCases, taken: list[tuple[int, int, int]]) -> Ints:
    """Which cases go together, where ``taken`` says how many of (new, old) do."""
    found = np.full(len(new.of_case), -1)
    # Cases stand by sequence; each pair takes the next ones of both sides.
    of_new, of_old = (np.argsort(side.of_case, kind="stable") for side in (new, old))
    at_new, at_old = (np.cumsum(side.counts) - side.counts for side in (new, old))
    for one, other, number in taken:
        rows = of_new[at_new[one] : at_new[one] + number]
        found[rows] = of_old[at_old[other] : at_old[other] + number]
        at_new[one] += number
        at_old[other] += number
    return found


def matched_events(
    made: Cases,
    source: Cases,
    case: Ints,
    random: Randomness,
) -> Ints:
    """For each event of ``made`` one of ``source`` with the same activity, which must occur there:
    of the case that ``case`` matches with its own, the first that is not taken yet; where there is
    none, any.
    """
    letters = len(made.alphabet)
    # An event's group is its case and activity.
    group = source.case_of * letters + source.codes
    by_group = np.argsort(group, kind="stable")
    sorted_groups = group[by_group]
    with_case = case[made.case_of]
    required = with_case * letters + made.codes
    first = np.searchsorted(sorted_groups, required)
    # The n-th event of an activity takes the n-th of the matched case.
    place = first + _turns(made.case_of * letters + made.codes)
    ends = np.searchsorted(sorted_groups, required, side="right")
    found: Bools = (place < ends) & (with_case >= 0)
    event = np.full(len(made.codes), -1)
    event[found] = by_group[place[found]]
    # The others take any event of their activity, in whatever case.
    by_code = np.argsort(source.codes, kind="stable")
    begins = np.searchsorted(source.codes[by_code], np.arange(letters + 1))
    codes = made.codes[~found]
    event[~found] = by_code[begins[codes] + random.uniform(np.diff(begins)[codes])]
    return event


def _turns(group: Ints) -> Ints:
    """How often each value stands before in ``group``."""
    order = np.argsort(group, kind="stable")
    grouped = group[order]
    turns = np.empty(len(group), np.int64)
    turns[order] = np.arange(len(group)) - np.searchsorted(grouped, grouped)
    return turns


_FINE: Final = 1 << 53
"""So many steps lie between 0 and 1."""

_TRUTH: Final = {"false": False, "true": True}
_MICROSECONDS: Final = Grid(UNIX_EPOCH, timedelta(microseconds=1))


def values_as_published(
    column: Column,
    rows: Ints,
    epsilon: float,
    random: Randomness,
    *,
    is_number: bool,
) -> Listed | Numbers:
    """The values of a raw column at ``rows``, each through noise of ``epsilon``; missing ones stay.
    ``is_number``: a text is the number that it spells, or missing.

    Numbers: bounded Laplace noise over the range of the log. Truth values: randomised response.
    Others: the exponential mechanism over the values of the log, of which the true one has the
    utility 1, all others 0.
    """
    # By texts: truth values by randomised response, others by the exponential mechanism.
    if not is_number and (column.alphabet or column.is_missing.all()):
        codes, values = column.codes[rows], column.alphabet
        if not _TRUTH.keys() >= set(values):
            return Listed(_exchanged(codes, len(values), epsilon / 2, random), values)
        truths = tuple(_TRUTH[value] for value in values)
        return Listed(_exchanged(codes, len(values), epsilon, random), truths)
    known = column.values[~column.is_missing]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    noisy = bounded_laplace(np.asarray(column.values[rows], np.float64), low, high, epsilon, random)
    return Numbers(np.where(column.is_missing[rows], np.nan, noisy))


def _exchanged(
    codes: Ints,
    size: int,
    exponent: float,
    random: Randomness,
) -> Ints:
    """Of ``size`` codes the true one with a weight of e**exponent, each other with 1; -1 stays."""
    if size < 2:
        return codes
    stays = random.coins(1 / (1 + (size - 1) * math.exp(-exponent)), len(codes))
    others = random.uniform(np.full(len(codes), size - 1, np.int64))
    # The other code is drawn by its distance from the true one, round the codes.
    return np.where(stays | (codes < 0), codes, (codes + 1 + others) % size)


def bounded_laplace(
    values: Floats,
    low: float | Floats,
    high: float | Floats,
    epsilon: float,
    random: Randomness,
) -> Floats:
    """Each value with Laplace noise of (high - low) / epsilon, given that the sum lies between
    ``low`` and ``high`` (Holohan et al. 2020, definition 3.1; any value may become any other).

    By inverting the distribution function, in floating point: nothing proved rests on it.
    """
    width = np.asarray(high / 2 - low / 2)
    # Halves, so that the range of the largest numbers is a number.
    # The distribution function at both ends, between which the draw lies.
    place = np.divide(values / 2 - low / 2, width, out=np.zeros(len(values)), where=width > 0)
    below = np.exp(-epsilon * place) / 2
    above = 1 - np.exp(-epsilon * (1 - place)) / 2
    uniform = (random.uniform(np.full(len(values), _FINE, np.int64)) + 0.5) / _FINE
    share = below + uniform * (above - below)
    # Inverted from the nearer end, where logarithms are precise.
    nearer_end = np.maximum(np.minimum(share, 1 - share), np.finfo(np.float64).tiny)
    moved = np.log(2 * nearer_end) / epsilon
    noisy = np.clip(place + np.where(share < 0.5, moved, -moved), 0, 1)
    return np.asarray(low * (1 - noisy) + high * noisy, np.float64)


def times_as_published(
    source: Cases,
    made: Cases,
    case: Ints,
    event: Ints,
    epsilon: float,
    random: Randomness,
) -> Times:
    """For each case of ``made`` the start of the case of ``source`` at ``case``, for each other
    event the gap before the one at ``event``, each through bounded Laplace noise of ``epsilon``:
    over all starts, and over the gaps that lead to an activity.

    A gap that is missing is 0, a start that is missing the earliest; no times at all are 1970.
    """
    follows = np.flatnonzero(made.place)
    gaps = source.gaps
    # The longest gap before each activity, read off the log as published.
    longest = np.zeros(len(source.alphabet))
    np.maximum.at(longest, source.codes, np.maximum(gaps.values, 0))
    raw = np.asarray(gaps.values[event[follows]], np.float64)
    noisy = bounded_laplace(np.maximum(raw, 0), 0.0, longest[made.codes[follows]], epsilon, random)
    starts = _starts_of(source)
    if len(case):
        low, high = float(starts.min()), float(starts.max())
        begins = bounded_laplace(starts[case], low, high, epsilon, random)
    else:
        begins = np.zeros(0)
    steps = np.zeros(len(made.codes))
    steps[follows] = noisy
    # Gaps add up within a case: the running sum less that at its first event.
    passed = np.cumsum(steps)
    first = made.offsets[made.case_of]
    times = begins[made.case_of] + passed - passed[first]
    # Inside what an integer holds before the calendar bounds it.
    return Times(_MICROSECONDS.microseconds(np.clip(times, -1e18, 1e18).astype(np.int64)))


def _starts_of(cases: Cases) -> Floats:
    """The first time of each case (microseconds), the earliest of all where it has none."""
    times = cases.times
    known = np.flatnonzero(~times.is_missing)
    starts = np.full(len(cases), np.nan)
    # Backwards, so that the first one is written last.
    starts[cases.case_of[known][::-1]] = times.values[known][::-1]
    earliest = float(np.nanmin(starts)) if len(known) else 0.0
    return np.where(np.isnan(starts), earliest, starts)


class PripelPublishedParams(PublishedTreeParams):
    """``columns``: what is released beside the control flow, by the names of a lineage; of these,
    ``numbers`` have a declared range. The rest as of the published prefix tree; ``published`` is
    also the epsilon of each value.
    """

    columns: Annotated[tuple[str, ...], Field(min_length=1)]
    numbers: tuple[str, ...] = ()


class PripelPublished(Mechanism[PripelPublishedParams]):
    """Make cases by the published prefix tree; match each with a case of the log, of the same
    sequence or else of one at the least edit distance; take its values over, each through local
    noise of the full epsilon.

    Numbers (of a declared range), and times as the gap before an event and the start of a case:
    Laplace noise of range over epsilon, inside the range (Holohan et al. 2020), which is the log's
    own: that of an attribute, of the gaps that lead to an activity, of all starts. Truth values:
    randomised response. Others: the exponential mechanism, by which a value is worth 1 in its own
    place and 0 elsewhere, over the values that the log has. A value that is missing stays so.
    Events without a counterpart in the matched case take the values of any event of their activity,
    cases that are left over those of any case.

    **Edge cases.** An empty log has no activities: nothing is released. No times at all: all events
    take place in 1970.
    """

    name: ClassVar[str] = "variants/pripel-published"
    options: ClassVar[Mapping[str, str]] = TREE_OPTIONS
    action: ClassVar[str] = "draw activity sequences with noise"
    summary: ClassVar[str] = "Whole logs as PRIPEL was published; it is NOT differentially private."
    proof: ClassVar[Proof] = "published"
    gives: ClassVar[tuple[Gives, ...]] = (Gives("differential-privacy"),)
    theorem: ClassVar[Theorem] = Theorem(
        "Claimed: epsilon-DP of the event log: an epsilon-DP query of variants, and epsilon-local "
        "DP of all contextual information.",
        "Fahrenkrog-Petersen, van der Aa, Weidlich 2020 (PRIPEL), BPM, section 4; its "
        "query: Mannhardt et al. 2019, algorithm 1",
    )
    Params = PripelPublishedParams

    def offer(
        self,
        goal: Guarantee,
        facts: Facts,
        options: Options,
    ) -> Offer[PripelPublishedParams] | Refusal:
        """Accept differential privacy over the control flow together with other columns, for whole
        units.
        """
        if not isinstance(goal, DifferentialPrivacy) or not goal.hides_presence():
            return Refusal(
                "never", f"it claims differential privacy of whole logs, not {goal.kind}"
            )
        # The number of cases is made anew with the control flow.
        columns = tuple(sorted({*goal.over} - {CONTROL_FLOW, METADATA}))
        if CONTROL_FLOW not in goal.over or not columns:
            return Refusal("never", "it releases the control flow together with other columns")
        try:
            chosen = PublishedTreeOptions.model_validate(options)
        except ValidationError as error:
            return Refusal("misconfigured", option_fault(error))
        params = PripelPublishedParams(
            published=goal.epsilon,
            length=chosen.length or facts.longest_case or DEFAULT_LENGTH,
            threshold=chosen.threshold,
            prefixes=chosen.prefixes,
            columns=columns,
            numbers=tuple(name for name in columns if facts.numeric_range(name)),
        )
        return Offer(
            params,
            "takes times and values of matched real cases over as published, which claims epsilon "
            f"{goal.epsilon:g}",
        )

    def step(self, params: PripelPublishedParams, facts: Facts) -> MeasureStep:
        """Reads everything as it is; no epsilon bounds it."""
        columns = frozenset({CONTROL_FLOW, METADATA, *params.columns})
        flaw = (
            "which real case is matched, which values are missing, and the activities, "
            "values and ranges that there are, are read off the log; of a case, each value costs "
            f"epsilon {params.published:g} by itself, and each event (of "
            f"{params.length:,} at most) in the tree {params.published + math.log(2):.4g}"
        )
        return MeasureStep(
            lineage=Lineage(reads=columns, writes=columns, generates=True),
            event=NonPrivate(reason=flaw),
            measure=partial(self.measure, params),
        )

    def measure(self, params: PripelPublishedParams, kernel: Kernel) -> Measurement:
        """Grow the tree, match its cases, and take values over."""
        random, epsilon = kernel.randomness, params.published
        raw = kernel.raw().cases
        source = raw.within(tuple(sorted(raw.alphabet)))
        found = grow_as_published(RawVariants.of(_histogram(source)), params, random)
        made = Cases.of(found.variants, source.alphabet)
        made = made.take(np.repeat(np.arange(len(made)), found.cases))
        matched = matched_cases(made, source, random)
        event = matched_events(made, source, matched, random)
        # Whoever is left over takes the start and the values of any case.
        anyone = random.uniform(np.full(len(made), max(1, len(source)), np.int64))
        case = np.where(matched >= 0, matched, anyone)
        figures: dict[str, JsonValue] = {
            "cases matched with one of the log": int((matched >= 0).sum()),
            "cases left over": int((matched < 0).sum()),
        }

        def values(name: str) -> Listed | Numbers | Times:
            if name == TIMESTAMPS:
                return times_as_published(source, made, case, event, epsilon, random)
            rows, column = case if name.startswith(CASE_PREFIX) else event, source.columns[name]
            is_number = name in params.numbers
            return values_as_published(column, rows, epsilon, random, is_number=is_number)

        columns = {name: values(name) for name in params.columns}
        return Measurement(found.variants, found.cases, figures, columns)


def _histogram(cases: Cases) -> Measured:
    """The distinct sequences alone, and how many cases follow each."""
    distinct = DistinctCases.of(cases)
    sequences = Cases(cases.alphabet, cases.codes, cases.offsets)
    return Measured(sequences.take(distinct.first), distinct.counts)
