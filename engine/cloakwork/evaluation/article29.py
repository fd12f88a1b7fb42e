"""Singling out, linkability and attribute inference in the sense of the Article 29 Working Party
(Opinion 05/2014), measured as Giomi et al. 2023 ("A Unified Framework for Quantifying Privacy Risk
in Synthetic Data", PETS) measure them.

Each attack has a control: the same attack where the target gave nothing to the release. The risk is
what the attack finds beyond its control. The paper takes cases that were held back; where there are
none, the control here is the release without the target's own case, as far as it is known.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from cloakwork.base.arrays import Bools, Floats, Ints
from cloakwork.base.frozen import frozen
from cloakwork.base.naming import values_of
from cloakwork.evaluation.attacked import AttackedLogs
from cloakwork.evaluation.bounds import excess
from cloakwork.evaluation.coded import CodedLog, codes_together
from cloakwork.evaluation.risk_figures import Attack

MOST_TARGETS: Final = 500
TOLERANCE: Final = 0.05
"""A guessed number counts as right within this share of the true one."""
COLUMNS_OF_A_PREDICATE: Final = 3
_SAME: Final = 1e-12
"""Distances that differ by less are the same: sums of numbers are rounded."""
_LEAST_LIKELY: Final = 1e-12
_OF_A_COLUMN: Final = 7.0
"""By how much, in logarithms, a case is less likely that differs in a column."""

_WIDE: Final = 0.5
_MANY: Final = 100
"""Targets of which alone bounds are not wide."""
_FLOW: Final = ("number of events", "first activity", "last activity", "sequence")
"""Columns of a case table that its sequence decides."""

Posterior = Callable[[int], Floats]
"""For a case of the source, how likely each released case is to be the one made from it."""


def article_29(attacked: AttackedLogs) -> Iterator[Attack]:
    """Singling out, linkability, and the inference of each attribute; without attributes, of the
    last activity. Before: the log released as it is.
    """
    control = [] if attacked.control is None else [attacked.control]
    logs = [attacked.source, attacked.source, *control]
    # Before the release, the link from a case to itself is certain.
    tables = case_tables(logs, attacked.of_cases, attacked.of_events)

    def itself(case: int) -> Floats:
        return np.asarray(np.arange(attacked.source.cases) == case, np.float64)

    both = [ReleaseAttacked(tables[0], tables[1], itself, next(iter(tables[2:]), None))]
    # In a part of a release nobody is singled out of all.
    if attacked.released is not None and not attacked.whole:
        # Tables are made anew: only attributes that kept their values compare with a release.
        in_both = attacked.in_both
        links = attacked.links()
        tables = case_tables([attacked.source, attacked.released, *control], *in_both)
        others = next(iter(tables[2:]), None)
        both.append(ReleaseAttacked(tables[0], tables[1], links.posterior, others))
        if not (control or attacked.is_made_up):
            # Whoever guesses a value does not know it, so it must not have told whose case it is.
            both[1] = replace(both[1], by_flow=links.by_flow().posterior)
    targets = attacked.targets[:MOST_TARGETS]
    for result in _results(both, targets, attacked):
        yield result
        for share in (result.before, result.after):
            wide = share is not None and share.high - share.low > _WIDE
            if wide and len(targets) >= _MANY:
                attacked.note(
                    f"the bounds of {result.name} are wide as its control succeeds nearly "
                    "always, so that hardly anything is left to be found beyond it"
                )


def _results(
    both: Sequence["ReleaseAttacked"],
    targets: Ints,
    attacked: AttackedLogs,
) -> Iterator[Attack]:
    """The attacks on the log itself and, if there is one, on its release."""
    control = "the release without the case"
    if attacked.control is not None:
        control = attacked.name_of_stand_ins

    def result(name: str, knows: str, tried: Sequence[Tries]) -> Attack:
        shares = [excess(each.attack, each.control) if each.attack else None for each in tried]
        return Attack(
            name=name,
            knows=knows,
            before=shares[0],
            after=shares[1] if len(shares) > 1 else None,
            control=control,
        )

    attacked.reporter("singling out")
    yield result(
        "singling-out",
        "the release: a predicate of 3 columns that holds of one case only",
        [each.singling_out(len(targets), attacked.seed) for each in both],
    )
    # Linkability needs two halves that do not follow from each other: the flow, and the rest.
    rest = [name for name in both[0].source if name not in _FLOW]
    secrets = sorted({*attacked.of_cases, *attacked.of_events}) or ["last activity"]
    linked = []
    inferred = []
    for each in both:
        attacked.reporter("linkability and inference")
        known = [name for name in rest if name in each.source]
        there = [secret for secret in secrets if secret in each.source]
        of_release = each.guesses(targets, (_FLOW, known) if known else None, there)
        linked.append(of_release[0])
        inferred.append(of_release[1])
    if rest:
        words = f"the sequence of a case, and apart from it: {', '.join(rest)}"
        yield result("linkability", words, linked)
    nothing = Tries([], [])
    for secret in secrets:
        # A secret that the release does not hold is never inferred: no tries, and so no share.
        tried = [found.get(secret, nothing) for found in inferred]
        yield result(f"inference/{secret}", f"all of a case but: {secret}", tried)


@frozen
class CaseColumn:
    """A value a case, in tables that were made together.

    ``values``: of numbers float64, divided by how far those of all tables lie apart, NaN where
    there is none; of categories int64. Shape (cases,).
    """

    values: Floats | Ints
    is_number: bool

    def apart(self, value: float) -> Floats:
        """How far each case is from a value of another table, from 0 to 1."""
        if not self.is_number:
            return np.asarray(self.values != value, np.float64)
        # A missing number is as far away as can be, from another missing one, too.
        return np.nan_to_num(np.abs(self.values - value), copy=False, nan=1.0)

    def like(self, value: float, middle: float) -> Bools:
        """Which cases have the same category, or a number at least as far on the same side."""
        if not self.is_number:
            return np.asarray(self.values == value)
        if np.isnan(value):
            return np.isnan(self.values)
        return np.asarray(self.values >= value if value > middle else self.values <= value)

    def tells(self, cases: Ints, value: float) -> float:
        """How likely one of the ``cases`` tells the value of another table."""
        guesses = self.values[cases]
        if not self.is_number:
            return float((guesses == value).mean())
        # A missing number is guessed by a missing one alone.
        if np.isnan(value):
            return float(np.isnan(guesses).mean())
        return float((np.abs(guesses - value) <= TOLERANCE * np.abs(value)).mean())


CaseTable = Mapping[str, CaseColumn]
"""One row a case; the columns by their names, numbers first."""


def number_of_cases(table: CaseTable) -> int:
    """The rows of a table."""
    return len(next(iter(table.values())).values)


def case_tables(
    logs: Sequence[CodedLog],
    of_cases: Sequence[str],
    of_events: Sequence[str],
) -> Sequence[CaseTable]:
    """A table for each log, with its sequences, its times where all have some, and the named
    attributes; of an event's attribute, the first value of the case.
    """
    # Of each column the values in each of the logs.
    numbers = {"number of events": [_floats(np.diff(log.offsets)) for log in logs]}
    if all(log.times is not None for log in logs):
        numbers["start"] = [_floats(log.starts) for log in logs]
        numbers["duration"] = [_floats(log.durations) for log in logs]
    categories = {
        "first activity": [log.codes[log.offsets[:-1]] for log in logs],
        "last activity": [log.codes[log.offsets[1:] - 1] for log in logs],
        "sequence": _sequences(logs),
    }
    named = [(name, [values_of(log.log.cases, name) for log in logs]) for name in of_cases]
    named += [(name, [log.first_values(name) for log in logs]) for name in of_events]
    for name, values in named:
        if all(column.dtype.is_numeric() for column in values):
            numbers[name] = [_floats(column.cast(pl.Float64).to_numpy()) for column in values]
        else:
            categories[name] = codes_together(values)
    tables: list[dict[str, CaseColumn]] = [{} for _ in logs]
    for name, columns in numbers.items():
        # Divided by how far all values lie apart, so that two are at most 1 apart.
        known = np.concatenate(columns)
        known = known[~np.isnan(known)]
        span = (float(np.ptp(known)) if len(known) else 0.0) or 1.0
        for table, column in zip(tables, columns, strict=True):
            table[name] = CaseColumn(column / span, is_number=True)
    for name, codes in categories.items():
        for table, code in zip(tables, codes, strict=True):
            table[name] = CaseColumn(code, is_number=False)
    return tables


def _floats(values: Ints | Floats) -> Floats:
    """Infinite ones are as good as missing: no number is near them."""
    found = values.astype(np.float64)
    return np.where(np.isfinite(found), found, np.nan)


def _sequences(logs: Sequence[CodedLog]) -> list[Ints]:
    """The sequence of each case by one numbering."""
    number: dict[tuple[int, ...], int] = {}
    for log in logs:
        for sequence in log.sequences:
            number.setdefault(sequence, len(number))
    return [np.array([number[each] for each in log.sequences])[log.variant] for log in logs]


class Tries(NamedTuple):
    """Chances of success of each try of an attack, and of its control."""

    attack: list[float]
    control: list[float]


Halves = tuple[Sequence[str], Sequence[str]]
Success = Callable[[Sequence[Ints]], float]
"""By the nearest released cases by one distance or two, the chance that a guess is right."""


@dataclass(frozen=True)
class ReleaseAttacked:
    """A release, the log that it was made from, and, if there are any, cases that it was not made
    from. ``by_flow``: the posterior by sequence and times alone.
    """

    source: CaseTable
    released: CaseTable
    posterior: Posterior = np.zeros
    others: CaseTable | None = None
    by_flow: Posterior | None = None

    def guesses(
        self,
        targets: Ints,
        halves: Halves | None,
        secrets: Sequence[str],
    ) -> tuple[Tries, dict[str, Tries]]:
        """Linkability, and the inference of each secret.

        Who knows some columns of a case, and others of it without knowing that they are of one
        case: do both lead to the same released case? And who knows all columns but one guesses
        that one from the nearest released case.
        """
        linked = Tries([], [])
        inferred = {secret: Tries([], []) for secret in secrets}
        if halves is None and not secrets:
            return linked, inferred
        tries = [linked, *inferred.values()] if halves else list(inferred.values())
        for target in targets.tolist():
            # Without a control group, the control leaves out the target's likeliest case.
            posterior = self.posterior(target) if self.others is None else None
            own = None if posterior is None else int(np.argmax(posterior))
            known = None
            if self.by_flow is not None:
                known = self.by_flow(target)
            found = self._found(self.source, target, halves, secrets, own, known)
            for each, (with_own, without) in zip(tries, found, strict=True):
                each.attack.append(with_own)
                if posterior is not None:
                    # Where that case is not the target's own, leaving it out changes nothing.
                    chance = float(posterior[own])
                    each.control.append(chance * without + (1 - chance) * with_own)
        if self.others is not None:
            for row in range(min(len(targets), number_of_cases(self.others))):
                found = self._found(self.others, row, halves, secrets, None)
                for each, (with_own, _) in zip(tries, found, strict=True):
                    each.control.append(with_own)
        return linked, inferred

    def inferred(self, row: int, secrets: Sequence[str]) -> list[float]:
        """How likely the nearest released case tells each of the secrets of a case of the log."""
        found = self._found(self.source, row, None, secrets, None)
        return [with_own for with_own, _ in found]

    def _found(
        self,
        table: CaseTable,
        row: int,
        halves: Halves | None,
        secrets: Sequence[str],
        own: int | None,
        likely: Floats | None = None,
    ) -> Iterator[tuple[float, float]]:
        """The chance of success of each guess, with all released cases and without ``own``;
        ``likely``: how likely each is the row's by what no secret tells.
        """
        # How far each case is from the row, by each column: Gower's distance is the sum.
        released = self.released.items()
        apart = {name: column.apart(table[name].values[row]) for name, column in released}
        if halves:
            sums = [np.sum([apart[name] for name in names], axis=0) for names in halves]
            yield _with_and_without(_in_common, sums, own)
        # Gower's distance by all columns; for each secret its own column is taken off again.
        every = np.sum(list(apart.values()), axis=0) if secrets else np.zeros(0)
        if secrets and likely is not None:
            every = every - np.log(np.maximum(likely, _LEAST_LIKELY)) / _OF_A_COLUMN
        for secret in secrets:
            column = self.released[secret]
            true = table[secret].values[row]

            def guessed(found: Sequence[Ints]) -> float:
                return column.tells(found[0], true)  # noqa: B023 - called before the next secret

            yield _with_and_without(guessed, [every - apart[secret]], own)

    def singling_out(self, number: int, seed: int) -> Tries:
        """Predicates that hold of exactly one released case: do they hold of exactly one case of
        the source?

        Without cases that were held back, a predicate counts for the control where the case that it
        isolates is not the one that the released case was made from.
        """
        tries = Tries([], [])
        for record, predicate in self._predicates(number, seed):
            alone = np.flatnonzero(predicate(self.source))
            success = float(len(alone) == 1)
            tries.attack.append(success)
            if self.others is not None:
                tries.control.append(float(predicate(self.others).sum() == 1))
            elif success:
                tries.control.append(1.0 - float(self.posterior(int(alone[0]))[record]))
            else:
                tries.control.append(0.0)
        return tries

    def _predicates(
        self,
        number: int,
        seed: int,
    ) -> Iterator[tuple[int, Callable[[CaseTable], Bools]]]:
        """At most ``number`` predicates of some columns of a released case that no other released
        case fulfils: a number at least or at most as far from the middle, the same category.
        """
        draws = np.random.default_rng([seed, 29])
        names = list(self.released)
        middles = dict.fromkeys(names, np.nan)
        for name, column in self.released.items():
            if column.is_number and not np.isnan(column.values).all():
                middles[name] = float(np.nanmedian(column.values))
        seen: set[tuple[object, ...]] = set()
        # A draw may hold of several cases or come twice, so there are more tries than predicates.
        for _ in range(20 * number):
            if len(seen) == number:
                return
            record = int(draws.integers(number_of_cases(self.released)))
            size = min(COLUMNS_OF_A_PREDICATE, len(names))
            chosen = sorted(draws.choice(len(names), size, replace=False).tolist())
            like = {names[place]: self.released[names[place]].values[record] for place in chosen}

            def predicate(table: CaseTable, like: Mapping[str, float] = like) -> Bools:
                """Whether each case is like the record in the chosen columns."""
                columns = [table[each].like(value, middles[each]) for each, value in like.items()]
                return np.asarray(np.logical_and.reduce(columns))

            # The same columns with the same values are one predicate, whichever record they are of.
            key = (*chosen, *map(float, like.values()))
            if predicate(self.released).sum() == 1 and key not in seen:
                seen.add(key)
                yield record, predicate


def _in_common(found: Sequence[Ints]) -> float:
    both = len(np.intersect1d(found[0], found[1], assume_unique=True))
    return both / (len(found[0]) * len(found[1]))


def _with_and_without(
    success: Success,
    apart: Sequence[Floats],
    own: int | None,
) -> tuple[float, float]:
    """The success with the nearest cases by each of the distances, and without one case."""
    found = [_nearest(each) for each in apart]
    with_own = success(found)
    # Only where the case is among the nearest does its absence change the guess.
    if own is None or not any(own in each for each in found):
        return with_own, with_own
    if len(apart[0]) == 1:
        return with_own, 0.0
    # Changed in place: nobody reads these distances afterwards.
    for each in apart:
        each[own] = np.inf
    return with_own, success([_nearest(each) for each in apart])


def _nearest(apart: Floats) -> Ints:
    """The cases at the least distance, ties and all."""
    return np.flatnonzero(apart <= apart.min() + _SAME)
