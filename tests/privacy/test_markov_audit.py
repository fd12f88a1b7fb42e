"""Statistical audits of variants/markov on its worst neighbours, and of broken counterparts that
must fail.

What is audited is all that the kernel answers about cases that follow no frequent variant: their
noisy number, their lengths and the noisy tables of transitions, summed up in the statistic that
tells two neighbours best apart (each table, less what the others put there, along what the one case
adds to it, divided by the noise's variance: Neyman and Pearson's ratio for Gaussian noise). The
chain reads no more.

A run of the whole mechanism takes some hundredths of a second, so some hundreds of them find gross
faults only: noise of a twelfth, not of half. What half the noise does is seen on the tables
themselves (``test_markov_tables_audit.py``). Draws are seeded: what is found is found in every run.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice, product
from typing import Any

import numpy as np
import polars as pl
import pytest

from cloakwork.accounting.events import cost
from cloakwork.base.arrays import Floats, Ints
from cloakwork.base.costs import Cost
from cloakwork.base.facts import Facts, Unit
from cloakwork.engines.measured import measured_of
from cloakwork.errors import PlanUnsound
from cloakwork.evaluation.dp_audit import AuditResult, HalfLine, empirical_epsilon
from cloakwork.kernel import (
    Books,
    Cases,
    Clip,
    Entries,
    Gaussian,
    Kernel,
    Measured,
    NoisySums,
    Query,
    vectors_of,
)
from cloakwork.kernel.vectors import Sums
from cloakwork.mechanisms.variants import chain, markov, markov_params
from cloakwork.mechanisms.variants.markov import VariantMarkov
from cloakwork.mechanisms.variants.markov_params import (
    SPREAD,
    UNIT_NORM,
    MarkovParams,
    lengths_by,
    transitions_of,
)
from cloakwork.noise import Noise, reproducible
from measuring import Release, release
from privacy.sources import CONFIDENCE, Changed, offered

RUNS = 80
EPSILON, DELTA = 1.0, 1e-2
WIDE = 0.2
"""A delta at which the claim is audited too: noise that is Gaussian and too small shows there in
fewer runs.
"""

ALPHABET = ("a", "b", "c", "d")
CASE = tuple("abcd" * 5)
"""The one case that neighbours differ in: long, with transitions that many others have too."""

Counterpart = Callable[[MarkovParams], MarkovParams]


@dataclass(frozen=True, slots=True)
class Heard:
    """What was asked, and of which keys the noisy sums were read."""

    query: Query
    noise: Gaussian
    clip: Clip
    codes: Ints
    noisy: Ints

    def likelihood(self) -> float:
        """What was heard beyond what all other cases put there, along what the one case adds to it,
        both in sigmas.
        """
        there, along = (each.at(self.codes) for each in true_sums(self.query, self.clip))
        return float(np.dot(self.noisy - there, along)) / self.noise.sigma**2


@cache
def true_sums(query: Query, clip: Clip) -> list[Sums]:
    """Of all other cases, and of the one case."""
    return [
        vectors_of(Cases.of(cases, ALPHABET), query, clip).sums(np.ones(len(cases), np.int64))
        for cases in (others(), [CASE])
    ]


class Overheard:
    """A sum that keeps what is read of it."""

    def __init__(self, sums: NoisySums, question: tuple[Any, ...], heard: list[Heard]) -> None:
        self.sums, self.question, self.heard = sums, question, heard

    def at(self, codes: Ints) -> Ints:
        found = self.sums.at(codes)
        self.heard.append(Heard(*self.question, codes.ravel(), found.ravel()))
        return found


def others() -> list[tuple[str, ...]]:
    """A hundred and twenty cases that all begin alike and go on each in its own way."""
    return [("a", "b", "c", *rest) for rest in islice(product(ALPHABET, repeat=4), 120)]


def params(counterpart: Counterpart = lambda honest: honest, max_cases: int = 1) -> MarkovParams:
    """What the mechanism offers, or a counterpart of it."""
    facts = Facts(
        alphabet=ALPHABET, longest_case=5, unit=Unit(attribute="case:owner", max_cases=max_cases)
    )
    return counterpart(offered("variants/markov", EPSILON, DELTA, facts))


def summary(cases: list[tuple[str, ...]]) -> pl.DataFrame:
    """A variant histogram."""
    schema = pl.Schema([("variant", pl.List(pl.String())), ("cases", pl.Int64())])
    return (
        pl.DataFrame({"variant": [list(case) for case in cases], "cases": 1}, schema=schema)
        .group_by("variant", maintain_order=True)
        .sum()
    )


Statistic = Callable[..., Callable[[int], Floats]]


@pytest.fixture
def statistic(monkeypatch: pytest.MonkeyPatch) -> Statistic:
    """How much everything measured speaks for the neighbour with the case more; one number a
    run.
    """
    monkeypatch.setattr(chain, "_ROUNDS", 3)
    monkeypatch.setattr(markov, "ROUNDS", 0)
    # However long the chain's cases are, the neighbours' one case has a length of its own.
    edges = np.array([len(CASE), len(CASE) + 20])
    monkeypatch.setattr(markov, "length_edges", lambda *_: edges)
    # Equal questions are one, so that what they find is counted once for all runs.
    lengths = lengths_by(edges)
    monkeypatch.setattr(markov, "lengths_by", lambda _: lengths)
    monkeypatch.setattr(markov, "transitions_of", cache(transitions_of))
    heard: list[Heard] = []
    asked = Kernel.sum

    def overheard(kernel: Kernel, *question: Any, **further: Any) -> Overheard:
        return Overheard(asked(kernel, *question, **further), question, heard)

    monkeypatch.setattr(Kernel, "sum", overheard)
    source = reproducible(1)

    def runs_of(given: MarkovParams, log: pl.DataFrame, part: float = 1.0) -> Statistic:
        measured = measured_of(log, source)
        noise = Changed(part, source)

        def once() -> float:
            heard.clear()
            released(given, measured, noise)
            return sum(each.likelihood() for each in heard)

        return lambda runs: np.array([once() for _ in range(runs)])

    return runs_of


def released(given: MarkovParams, log: Measured | pl.DataFrame, noise: object) -> Release:
    """One run."""
    unit = Unit(attribute="case:owner", max_cases=given.max_cases)
    return release(VariantMarkov(), given, log, noise, Facts(unit=unit))  # type: ignore[arg-type]


def midway(a: Floats, b: Floats) -> list[HalfLine]:
    """One event, so that little is lost to choosing: the statistic lies on the likelier side of the
    middle.
    """
    return [
        HalfLine(float(np.median(a) + np.median(b)) / 2, upper=bool(np.median(a) > np.median(b)))
    ]


def audit(
    runs_of: Statistic, given: MarkovParams, more: int, runs: int = RUNS, part: float = 1.0
) -> AuditResult:
    """The log with and without ``more`` cases of one person, all of them nearly the same."""
    without, with_case = (
        summary(others()),
        summary(others() + [CASE + ("d",) * place for place in range(more)]),
    )
    here, there = (runs_of(given, log, part) for log in (with_case, without))
    claim = cost(
        VariantMarkov().step(params(max_cases=given.max_cases), Facts()).event, WIDE
    ).epsilon
    return empirical_epsilon(
        here, there, runs=runs, delta=WIDE, claim=claim, events=midway, confidence=CONFIDENCE
    )


def less_noise(given: MarkovParams) -> MarkovParams:
    """A twelfth of the noise on everything but the variants."""
    return given.model_copy(
        update={"sigmas": (given.sigmas[0], *(max(1024.0, s / 12) for s in given.sigmas[1:]))}
    )


def test_one_long_case_more_is_covered(statistic: Statistic) -> None:
    """The case and its twenty events show in the number of cases and in three tables at once."""
    assert audit(statistic, params(), 1).passed


def test_less_noise_is_found(statistic: Statistic) -> None:
    """By the same audit, whether the parameters say so or the source draws too little."""
    assert not audit(statistic, params(less_noise), 1).passed
    assert not audit(statistic, params(), 1, part=1 / 12).passed


def test_less_noise_than_the_plan_lists_is_refused() -> None:
    """The books of the plan hold the parameters to it."""
    noise = reproducible(1)
    books = Books.of(VariantMarkov().step(params(), Facts()).event)
    kernel = Kernel(measured_of(summary(others()), noise), books, noise, max_cases=1)
    with pytest.raises(PlanUnsound, match="does not list"):
        VariantMarkov().measure(params(less_noise), kernel)


def test_a_case_cannot_count_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """A counterpart whose query counts each transition ten times gets the same answers: the kernel
    clips. So what was found here before cannot be written any more.
    """

    def answers(query: Query) -> list[int]:
        counted = vectors_of(Cases.of([CASE], ALPHABET), query, SPREAD).sums(np.ones(1, np.int64))
        return counted.sums.tolist()

    def tenfold(cases: Cases) -> Entries:
        found = transitions_of(2)(cases)
        return replace(found, value=10 * found.value)

    assert answers(tenfold) == answers(transitions_of(2))


def test_a_person_of_twelve_cases_needs_the_declared_bound(statistic: Statistic) -> None:
    """Twelve cases of one person are covered where they are declared, and show where one case is
    assumed.
    """
    assert audit(statistic, params(max_cases=12), 12, runs=40).passed
    assert not audit(statistic, params(), 12).passed


def frequent(given: MarkovParams, cases: int, noise: Noise) -> Callable[[int], Ints]:
    """Whether a variant of ``cases`` cases, otherwise alone in the log, comes out among the
    frequent: 1 or 0.
    """
    one = summary([("d", "a")] * cases)

    def once() -> int:
        found = released(given, one, noise).internal["frequent variants"]
        assert isinstance(found, int)
        return found

    return lambda runs: np.array([once() for _ in range(runs)])


def no_threshold(given: MarkovParams) -> MarkovParams:
    """Whatever has a positive noisy count is frequent."""
    return given.model_copy(update={"tau": 1})


def low_threshold(given: MarkovParams) -> MarkovParams:
    """A variant of one case is frequent whenever its noise is above 0."""
    return given.model_copy(update={"tau": UNIT_NORM + 3})


@pytest.mark.parametrize(
    ("counterpart", "passes"), [(lambda honest: honest, True), (low_threshold, False)]
)
def test_a_variant_of_one_case_is_covered_by_delta(
    counterpart: Counterpart, passes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one log alone: it passes the threshold with probability at most delta, and without a
    threshold often.
    """
    monkeypatch.setattr(chain, "_ROUNDS", 3)
    monkeypatch.setattr(markov, "ROUNDS", 0)
    given, noise, events = params(counterpart), reproducible(1), [HalfLine(1, upper=True)]
    present, absent = (frequent(given, cases, noise) for cases in (1, 0))
    result = empirical_epsilon(
        present,
        absent,
        runs=120,
        delta=DELTA,
        claim=EPSILON,
        events=events,
        confidence=CONFIDENCE,
    )
    assert result.passed is passes, result


def test_a_missing_threshold_is_refused() -> None:
    """One that a variant of one unit alone reaches without any noise."""
    with pytest.raises(PlanUnsound, match="hides no key"):
        released(params(no_threshold), summary(others()), reproducible(1))


def test_the_threshold_keeps_to_its_share_of_delta() -> None:
    """No audit of feasible size sees a threshold one too low; the tail does."""
    for max_cases in (1, 5):
        sigmas, tau, _ = markov_params.calibrate_markov(
            Cost(epsilon=EPSILON, delta=1e-4), max_cases, markov_params.SHARES, True
        )
        spent = markov_params.selection_delta(sigmas[0], tau, max_cases)
        assert (
            spent
            <= markov_params.SELECTION_SHARE * 1e-4
            < markov_params.selection_delta(sigmas[0], tau - 1, max_cases)
        )


@pytest.mark.parametrize("counterpart", [less_noise, low_threshold])
def test_a_broken_counterpart_costs_more_than_it_claims(counterpart: Counterpart) -> None:
    """The event names the noise drawn, so the accountant finds the counterparts too."""
    assert cost(VariantMarkov().step(params(), Facts()).event, WIDE).epsilon < EPSILON
    honest, broken = (
        cost(VariantMarkov().step(given, Facts()).event, DELTA)
        for given in (params(), params(counterpart))
    )
    assert honest.epsilon <= EPSILON < broken.epsilon
    assert honest.delta <= DELTA
