"""Statistical audits of variants/markov on its worst neighbours, and of broken counterparts that
must fail.

What is audited is all that reads the log: the noisy counts of variants and cases and the noisy
tables of transitions, summed up in the statistic that tells two neighbours best apart (each table,
less what the others put there, along what the one case adds to it, divided by the noise's variance:
Neyman and Pearson's ratio for Gaussian noise). The chain reads no more.

A run of the whole mechanism takes some hundredths of a second, so some hundreds of them find gross
faults only: noise of a twelfth, not of half. What half the noise does is seen on the tables
themselves (``test_markov_tables_audit.py``). Draws are seeded: what is found is found in every run.
"""

from collections.abc import Callable, Iterator
from itertools import islice, product

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from cloakwork.accounting.events import cost
from cloakwork.audit.dp_audit import AuditResult, HalfLine, empirical_epsilon
from cloakwork.budget import Cost
from cloakwork.facts import Facts, Unit
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.mechanisms.base import Offer
from cloakwork.mechanisms.variants import chain, markov, markov_params, transitions
from cloakwork.mechanisms.variants.markov import VariantMarkov
from cloakwork.mechanisms.variants.markov_params import MarkovParams
from cloakwork.noise import Noise, reproducible
from measuring import release

RUNS = 160
EPSILON, DELTA = 1.0, 1e-2
WIDE = 0.2
"""A delta at which the claim is audited too: noise that is Gaussian and too small shows there in
fewer runs.
"""

ALPHABET = ("a", "b", "c", "d")
CASE = tuple("abcd" * 5)
"""The one case that neighbours differ in: long, with transitions that many others have too."""

Counterpart = Callable[[MarkovParams], MarkovParams]


class Spy:
    """A source of noise that keeps what passes it: noisy counts, and noise by table."""

    def __init__(self, source: Noise) -> None:
        self.source = source
        self.counts: list[NDArray[np.int64]] = []

    def gaussian_counts(self, counts: NDArray[np.int64], sigma: float) -> NDArray[np.int64]:
        self.counts.append(self.source.gaussian_counts(counts, sigma))
        return self.counts[-1]

    def __getattr__(self, name: str) -> object:
        return getattr(self.source, name)


def others() -> list[tuple[str, ...]]:
    """A hundred and twenty cases that all begin alike and go on each in its own way."""
    return [("a", "b", "c", *rest) for rest in islice(product(ALPHABET, repeat=4), 120)]


def params(counterpart: Counterpart = lambda honest: honest, max_cases: int = 1) -> MarkovParams:
    """What the mechanism offers, or a counterpart of it."""
    goal = DifferentialPrivacy(
        kind="differential-privacy", epsilon=EPSILON, delta=DELTA, over=("control-flow",)
    )
    facts = Facts(
        alphabet=ALPHABET, longest_case=5, unit=Unit(attribute="case:owner", max_cases=max_cases)
    )
    offer = VariantMarkov().offer(goal, facts, {})
    assert isinstance(offer, Offer)
    return counterpart(offer.params)


def summary(cases: list[tuple[str, ...]]) -> pl.DataFrame:
    """A variant histogram."""
    schema = pl.Schema([("variant", pl.List(pl.String())), ("cases", pl.Int64())])
    return (
        pl.DataFrame({"variant": [list(case) for case in cases], "cases": 1}, schema=schema)
        .group_by("variant", maintain_order=True)
        .sum()
    )


@pytest.fixture
def statistic(
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., Callable[[int], NDArray[np.float64]]]]:
    """How much everything measured speaks for the neighbour with the case more; one number a
    run.
    """
    monkeypatch.setattr(chain, "_ROUNDS", 3)
    tables: list[tuple[int, list[tuple[int, ...]], NDArray[np.float64]]] = []
    following, noised = markov._transition_counts, markov._with_noise
    seen: list[list[tuple[int, ...]]] = []

    def keep_contexts(
        variants: object, order: int, contexts: list[tuple[int, ...]]
    ) -> NDArray[np.float64]:
        seen.append(contexts)
        return following(variants, order, contexts)

    def keep_table(table: NDArray[np.float64], sigma: float, noise: Noise) -> NDArray[np.float64]:
        found = noised(table, sigma, noise)
        tables.append((len(tables) + 1, seen[-1] if tables else [], found))
        return found

    monkeypatch.setattr(markov, "_transition_counts", keep_contexts)
    monkeypatch.setattr(markov, "_with_noise", keep_table)

    def rows(cases: list[tuple[str, ...]]) -> list[dict[tuple[int, ...], NDArray[np.float64]]]:
        """What these cases put on each row of the three tables, as the mechanism counts it."""
        code = {label: place for place, label in enumerate(ALPHABET, start=1)}
        coded = [tuple(code[label] for label in case) for case in cases]
        variants = transitions.PaddedVariants.from_codes(
            coded, np.ones(len(cases), np.int64), len(ALPHABET)
        )
        labels = range(len(ALPHABET) + 1)
        found = []
        for order in (1, 2, 3):
            contexts = [
                (first, *rest) for first in labels for rest in product(labels[1:], repeat=order - 1)
            ]
            table = (
                markov._first_order_table(variants)
                if order == 1
                else following(variants, order, contexts)
            )
            found.append(dict(zip(contexts, table, strict=True)))
        return found

    source = reproducible(1)

    def runs_of(given: MarkovParams, log: pl.DataFrame) -> Callable[[int], NDArray[np.float64]]:
        adds, usual = rows([CASE]), rows(others())

        def once() -> float:
            tables.clear()
            spy = Spy(source)
            release(VariantMarkov(), given, log, spy)
            total = transitions.UNIT_NORM * float(
                spy.counts[1][0] - len(others()) * transitions.UNIT_NORM
            )
            total /= given.sigmas[1] ** 2
            for order, contexts, noisy in tables:
                for context, row in zip(
                    contexts if order > 1 else list(usual[0]), noisy, strict=True
                ):
                    beyond = row - usual[order - 1][context]
                    total += float(beyond @ adds[order - 1][context]) / given.sigmas[order + 1] ** 2
            return total

        return lambda runs: np.array([once() for _ in range(runs)])

    yield runs_of


def midway(a: NDArray[np.float64], b: NDArray[np.float64]) -> list[HalfLine]:
    """One event, so that little is lost to choosing: the statistic lies on the likelier side of the
    middle.
    """
    return [
        HalfLine(float(np.median(a) + np.median(b)) / 2, upper=bool(np.median(a) > np.median(b)))
    ]


def audit(
    runs_of: Callable[..., Callable[[int], NDArray[np.float64]]],
    given: MarkovParams,
    more: int,
    runs: int = RUNS,
) -> AuditResult:
    """The log with and without ``more`` cases of one person, all of them nearly the same."""
    without, with_case = (
        summary(others()),
        summary(others() + [CASE + ("d",) * place for place in range(more)]),
    )
    here, there = runs_of(given, with_case), runs_of(given, without)
    claim = cost(VariantMarkov().event(params(max_cases=given.max_cases), Facts()), WIDE).epsilon
    return empirical_epsilon(here, there, runs=runs, delta=WIDE, claim=claim, events=midway)


def less_noise(given: MarkovParams) -> MarkovParams:
    """A twelfth of the noise on everything but the variants."""
    return given.model_copy(
        update={"sigmas": (given.sigmas[0], *(max(1024.0, s / 12) for s in given.sigmas[1:]))}
    )


def test_one_long_case_more_is_covered(
    statistic: Callable[..., Callable[[int], NDArray[np.float64]]],
) -> None:
    """The case and its twenty events show in the number of cases and in three tables at once."""
    assert audit(statistic, params(), 1).passed


def test_less_noise_is_found(
    statistic: Callable[..., Callable[[int], NDArray[np.float64]]],
) -> None:
    """By the same audit."""
    assert not audit(statistic, params(less_noise), 1).passed


def test_a_case_that_counts_in_full_is_found(
    statistic: Callable[..., Callable[[int], NDArray[np.float64]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A counterpart that does not scale a case's transitions: twenty events count twenty times."""
    honest = transitions.transition_masses

    def unscaled(variants: transitions.PaddedVariants, order: int) -> transitions.TransitionMasses:
        scaled = honest(variants, order)
        return transitions.TransitionMasses(scaled.code, scaled.mass * 10)

    monkeypatch.setattr(markov, "transition_masses", unscaled)
    assert not audit(statistic, params(), 1).passed


def test_a_person_of_twelve_cases_needs_the_declared_bound(
    statistic: Callable[..., Callable[[int], NDArray[np.float64]]],
) -> None:
    """Twelve cases of one person are covered where they are declared, and show where one case is
    assumed.
    """
    assert audit(statistic, params(max_cases=12), 12, runs=80).passed
    assert not audit(statistic, params(), 12).passed


def released(given: MarkovParams, cases: int, noise: Noise) -> Callable[[int], NDArray[np.int64]]:
    """Whether a variant of ``cases`` cases, otherwise alone in the log, comes out among the
    frequent: 1 or 0.
    """
    one = summary([("d", "a")] * cases)

    def once() -> int:
        frequent = release(VariantMarkov(), given, one, noise).internal.get("frequent variants", 0)
        assert isinstance(frequent, int)
        return frequent

    return lambda runs: np.array([once() for _ in range(runs)])


def no_threshold(given: MarkovParams) -> MarkovParams:
    """Whatever has a positive noisy count is frequent."""
    return given.model_copy(update={"tau": 1})


@pytest.mark.parametrize(
    ("counterpart", "passes"), [(lambda honest: honest, True), (no_threshold, False)]
)
def test_a_variant_of_one_case_is_covered_by_delta(
    counterpart: Counterpart, passes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one log alone: it passes the threshold with probability at most delta, and without a
    threshold often.
    """
    monkeypatch.setattr(chain, "_ROUNDS", 3)
    given, noise, events = params(counterpart), reproducible(1), [HalfLine(1, upper=True)]
    present, absent = (released(given, cases, noise) for cases in (1, 0))
    result = empirical_epsilon(present, absent, runs=200, delta=DELTA, claim=EPSILON, events=events)
    assert result.passed is passes, result


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


@pytest.mark.parametrize("counterpart", [less_noise, no_threshold])
def test_a_broken_counterpart_costs_more_than_it_claims(counterpart: Counterpart) -> None:
    """The event names the noise drawn, so the accountant finds the counterparts too."""
    assert cost(VariantMarkov().event(params(), Facts()), WIDE).epsilon < EPSILON
    honest, broken = (
        cost(VariantMarkov().event(given, Facts()), DELTA)
        for given in (params(), params(counterpart))
    )
    assert honest.epsilon <= EPSILON < broken.epsilon
    assert honest.delta <= DELTA
