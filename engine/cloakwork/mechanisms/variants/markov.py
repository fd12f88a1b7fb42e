"""Frequent variants as they are; the other cases as a Markov chain of variable order describes
them.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import numpy as np
import polars as pl
from pydantic import JsonValue

from cloakwork.arrays import Floats, Ints
from cloakwork.budget import Cost
from cloakwork.facts import Facts
from cloakwork.guarantees import DifferentialPrivacy
from cloakwork.mechanisms.base import Decision, Offer, Refusal, Theorem
from cloakwork.mechanisms.variants.chain import (
    MOST_CASES,
    Context,
    MarkovChain,
    Table,
    fit_flow,
    refine_contexts,
)
from cloakwork.mechanisms.variants.family import VariantRelease, variant_table
from cloakwork.mechanisms.variants.markov_params import (
    LONGEST,
    MarkovOptions,
    MarkovParams,
    Selection,
    all_sigmas,
    calibrate_markov,
    noise_event,
    selection_delta,
    selection_deltas,
)
from cloakwork.mechanisms.variants.transitions import (
    MOST_CELLS,
    UNIT_NORM,
    PaddedVariants,
    transition_masses,
)
from cloakwork.noise import Noise
from cloakwork.privacy_event import NonPrivate, PrivacyEvent

PENALTIES: Final = (1.5, 0.7, 0.7)
"""By order: how many sigmas a count must stand out by, to be believed against what is expected."""

KNOWN: Final = 5.0
"""Sigmas of a longer context's noise that its mass must have, for its own continuations to be
counted.
"""

MOST_CONTEXTS: Final = 4096


class VariantMarkov(VariantRelease[MarkovParams]):
    """Release frequent variants by threshold, and make the other cases from noisy counts of what
    follows what.

    The cases that are left when frequent variants are out are counted with noise, and so are their
    transitions of order 1, 2 and 3 (every cell of order 1; longer contexts only where the noisy
    order before says that they are common). A Markov chain fitted to these draws as many cases.
    Steps that stand out of the noise too little are lost, and frequent steps come out a little more
    frequent (``sharpness``): the release shows common behaviour, not the rare one. Where no
    activities are declared, those that enough cases hold are selected, with noise, beside those of
    the frequent variants, which are released anyway; others are left out.

    An empty log gives an empty release or one of a few cases made of noise; one case, or variants
    that are all unique, are drowned by noise; with a single activity there is one transition to
    count. It never aborts on data.
    """

    name: ClassVar[str] = "variants/markov"
    summary: ClassVar[str] = (
        "Releases frequent variants, and draws the other cases from a noisy Markov model."
    )
    theorem: ClassVar[Theorem] = Theorem(
        "For units of at most m cases (unbounded neighbours): (1) noisy counts of the variants "
        "that one unit alone has reach tau with probability at most d = m Pr[m + N >= tau], which "
        "is (-ln(1 - d), d)-DP, and all other counts move by at most m (L2); (2) given which "
        "variants are released, one unit changes at most m of the other cases, hence their number "
        "by at most m, and each table of transitions by at most m (L2), a case's vector having "
        "norm at most 1. Where no activities are declared: (3) a case counts for its first 64 "
        "activities as a vector of norm at most 1, and one of the at most 64 m activities that one "
        "unit alone has reaches its tau with probability at most d' = 64 m Pr[m + N >= tau], "
        "again (-ln(1 - d'), d')-DP. Discrete Gaussian noise on all of them composes adaptively; "
        "the chain is post-processing.",
        "Rafiei, Wangelik, van der Aalst 2022 (TraVaS); Canonne, Kamath, Steinke 2020, theorem 14 "
        "and proposition 25; Zhang, Xiao, Xie 2016 (PrivTree), for contexts that grow where they "
        "are common",
    )
    Params = MarkovParams
    needs_delta: ClassVar[bool] = True

    def meet(
        self, goal: DifferentialPrivacy, facts: Facts, options: Mapping[str, JsonValue]
    ) -> Offer[MarkovParams] | Refusal:
        """The least noise, shared out as ``SHARES`` says."""
        chosen = MarkovOptions.model_validate(options)
        target = Cost(epsilon=goal.epsilon, delta=goal.delta)
        sigmas, tau, selection = calibrate_markov(
            target, facts.unit.max_cases, chosen.shares, facts.alphabet is not None
        )
        params = MarkovParams(
            epsilon=goal.epsilon,
            delta=goal.delta,
            max_cases=facts.unit.max_cases,
            alphabet=None if facts.alphabet is None else tuple(dict.fromkeys(facts.alphabet)),
            selection=selection,
            longest=facts.longest_case or LONGEST,
            sharpness=chosen.sharpness,
            sigmas=sigmas,
            tau=tau,
        )
        return Offer(
            params,
            "keeps frequent variants, and draws the other cases from a noisy Markov model of them",
        )

    def event(self, params: MarkovParams, facts: Facts) -> PrivacyEvent:
        """Noise on five tables, and the chance that a variant of one unit alone passes the
        threshold.
        """
        m = params.max_cases
        deltas = [selection_delta(params.sigmas[0], params.tau, m)]
        if params.selection is not None:
            sigma, tau = params.selection.sigma, params.selection.tau
            deltas.append(selection_delta(sigma, tau, m, labels=MOST_CELLS))
        elif params.alphabet is None:
            return NonPrivate(
                reason="activities that are neither declared nor selected would be read off the log"
            )
        planned = selection_deltas(params.delta, len(deltas))
        return noise_event(all_sigmas(params), tuple(map(max, deltas, planned)), m)

    def decide(self, params: MarkovParams, summary: pl.DataFrame, noise: Noise) -> Decision:
        """Select the frequent variants, count the transitions of the remaining cases, fit a chain,
        and draw from it.
        """
        variants, cases = _variants_within(summary, params.alphabet)
        noisy = noise.gaussian_counts(cases * UNIT_NORM, params.sigmas[0])
        is_frequent = noisy >= params.tau
        frequent = [variants[row] for row in np.flatnonzero(is_frequent)]
        frequent_cases = np.rint(noisy[is_frequent] / UNIT_NORM).astype(np.int64)
        others = [variants[row] for row in np.flatnonzero(~is_frequent)]
        alphabet = params.alphabet
        if alphabet is None:
            selected = _select_activities(variants, cases, params.selection, noise)
            alphabet = tuple(sorted(set(selected).union(*frequent)))
        drawn: list[tuple[str, ...]] = []
        if alphabet:
            released = _code_variants(frequent, frequent_cases, alphabet)
            remaining = _code_variants(others, cases[~is_frequent], alphabet)
            for codes in self._generate_variants(remaining, released, params, noise):
                drawn.append(tuple(alphabet[code - 1] for code in codes))
        one_each = np.ones(len(drawn), np.int64)
        counts = np.concatenate([frequent_cases, one_each])
        return Decision(
            _shuffled_table([*frequent, *drawn], counts, noise),
            {
                "variants in the log": len(variants),
                "frequent variants": len(frequent),
                "cases in the log": int(cases.sum()),
                "cases of frequent variants, released": int(frequent_cases.sum()),
                "cases drawn from the model": len(drawn),
            },
        )

    def _generate_variants(
        self,
        remaining: PaddedVariants,
        released: PaddedVariants,
        params: MarkovParams,
        noise: Noise,
    ) -> list[tuple[int, ...]]:
        """As many sequences as there are remaining cases, but for noise, from a chain fitted to
        noisy counts of their steps.
        """
        cases = np.array([int(remaining.cases.sum())])
        noisy = int(noise.gaussian_counts(cases * UNIT_NORM, params.sigmas[1])[0])
        count = min(max(round(noisy / UNIT_NORM), 0), MOST_CASES)
        expected = _expected_transitions(released, count)
        rows = _measure_transitions(remaining, expected, params, noise)
        if rows[(0,)].sum() <= 0:
            return []
        chain = MarkovChain.from_masses(rows, params.sharpness)
        return chain.draw_sequences(count, params.longest, noise)


def _select_activities(
    variants: Sequence[tuple[str, ...]],
    cases: Ints,
    selection: Selection | None,
    noise: Noise,
) -> tuple[str, ...]:
    """The activities that enough cases hold: each case counts for its first ``MOST_CELLS``, as a
    vector of norm at most 1.
    """
    if selection is None:
        return ()
    mass: Counter[str] = Counter()
    for variant, count in zip(variants, cases.tolist(), strict=True):
        held = tuple(dict.fromkeys(variant))[:MOST_CELLS]
        # n equal entries of floor(norm / sqrt(n)): a vector of at most that norm.
        entry = math.isqrt(UNIT_NORM**2 // len(held))
        for label in held:
            mass[label] += count * entry
    labels = sorted(mass)
    masses = np.array([mass[label] for label in labels], np.int64)
    reached = noise.gaussian_counts(masses, selection.sigma) >= selection.tau
    return tuple(labels[row] for row in np.flatnonzero(reached))


def _variants_within(
    summary: pl.DataFrame, alphabet: Sequence[str] | None
) -> tuple[list[tuple[str, ...]], Ints]:
    """Variants without any label outside ``alphabet`` (if there is one), and their cases; none
    without events.

    The order is that of the labels: it says nothing about the log's.
    """
    variants = [tuple(labels) for labels in summary["variant"].to_list()]
    if alphabet is not None:
        known = frozenset(alphabet)
        variants = [tuple(label for label in labels if label in known) for labels in variants]
    cases_of: Counter[tuple[str, ...]] = Counter()
    for variant, cases in zip(variants, summary["cases"].to_list(), strict=True):
        if variant:
            cases_of[variant] += cases
    ordered = sorted(cases_of)
    return ordered, np.array([cases_of[variant] for variant in ordered], np.int64)


def _code_variants(
    variants: Sequence[tuple[str, ...]], cases: Ints, alphabet: Sequence[str]
) -> PaddedVariants:
    """Each label by its place in ``alphabet`` (from 1), without any other label; variants left
    without events are left out.
    """
    code_of = {label: code for code, label in enumerate(alphabet, start=1)}
    coded: list[tuple[int, ...]] = []
    rows: list[int] = []
    for row, variant in enumerate(variants):
        codes = tuple(code_of[label] for label in variant if label in code_of)
        if codes:
            coded.append(codes)
            rows.append(row)
    kept_cases = cases[np.array(rows, np.int64)]
    return PaddedVariants.from_codes(coded, kept_cases, len(alphabet))


def _expected_transitions(released: PaddedVariants, count: int) -> Table:
    """The transitions that ``count`` more cases would have if they followed the released variants;
    zero if none was released.
    """
    side = released.labels + 1
    total = int(released.cases.sum())
    if total == 0:
        return np.zeros((side, side))
    return _first_order_table(released) * (count / total)


def _first_order_table(variants: PaddedVariants) -> Table:
    """Every transition of order 1, in grid steps: the layout of ``chain.Table``."""
    base = variants.labels + 2
    # START and the labels, 0 to A; the labels and END, 1 to A + 1.
    source = np.arange(base - 1)
    target = np.arange(1, base)
    codes = source[:, None] * base + target
    return transition_masses(variants, 1).mass_of(codes).astype(np.float64)


def _measure_transitions(
    remaining: PaddedVariants, prior: Table, params: MarkovParams, noise: Noise
) -> dict[Context, Floats]:
    """Masses of what follows each context: all of order 1, then, order by order, of contexts that
    are frequent by what is known so far.
    """
    first = _with_noise(_first_order_table(remaining), params.sigmas[2], noise)
    flow = fit_flow(first, prior, PENALTIES[0] * params.sigmas[2])
    measured: dict[Context, Floats] = {
        (label,): flow[label] for label in range(remaining.labels + 1)
    }
    latest = list(measured)
    for order, sigma in enumerate(params.sigmas[3:], start=2):
        contexts, mass = _frequent_contexts(measured, latest, KNOWN * sigma)
        counts = _transition_counts(remaining, order, contexts)
        noisy = _with_noise(counts, sigma, noise)
        if contexts:
            suffixes = [_masses_of_longest_suffix(measured, context[1:]) for context in contexts]
            penalty = PENALTIES[order - 1] * sigma
            refined = refine_contexts(noisy, np.array(suffixes), mass, penalty)
            measured |= zip(contexts, refined, strict=True)
        latest = contexts
    return measured


def _frequent_contexts(
    rows: Mapping[Context, Floats], latest: Sequence[Context], least: float
) -> tuple[list[Context], Floats]:
    """One step longer than ``latest``: the contexts of more than ``least`` mass, the largest
    ``MOST_CONTEXTS``.
    """
    found: list[tuple[float, Context]] = []
    for context in latest:
        # Without the last column: nothing follows END.
        masses = rows[context][:-1]
        for column in np.flatnonzero(masses > least):
            longer = (*context, int(column) + 1)
            found.append((float(masses[column]), longer))
    # The largest first; of equal ones the first by its labels, so that the order is fixed.
    found.sort(key=lambda item: (-item[0], item[1]))
    largest = found[:MOST_CONTEXTS]
    return [context for _, context in largest], np.array([mass for mass, _ in largest])


def _transition_counts(remaining: PaddedVariants, order: int, contexts: Sequence[Context]) -> Table:
    """Transitions from each of ``contexts``, in grid steps: shape (contexts, A + 1)."""
    base = remaining.labels + 2

    def code_of(context: Context) -> int:
        """The context as digits to the base, with 0 for what follows: see ``TransitionMasses``."""
        powers = (base**exponent for exponent in range(order, 0, -1))
        return sum(step * power for step, power in zip(context, powers, strict=True))

    begins = np.array([code_of(context) for context in contexts]).astype(np.int64)
    codes = begins[:, None] + np.arange(1, base)
    return transition_masses(remaining, order).mass_of(codes).astype(np.float64)


def _masses_of_longest_suffix(rows: Mapping[Context, Floats], context: Context) -> Floats:
    """The masses of the longest end of ``context`` that was measured."""
    while context not in rows:
        context = context[1:]
    return rows[context]


def _with_noise(table: Table, sigma: float, noise: Noise) -> Table:
    return table + noise.gaussian_values(sigma, table.size).reshape(table.shape)


def _shuffled_table(
    variants: Sequence[tuple[str, ...]], counts: Ints, noise: Noise
) -> pl.DataFrame:
    """The release, each variant once, in random order."""
    total: Counter[tuple[str, ...]] = Counter()
    for variant, cases in zip(variants, counts.tolist(), strict=True):
        total[variant] += cases
    distinct = list(total)
    shuffled = [distinct[row] for row in noise.permutation(len(distinct))]
    return variant_table(shuffled, [total[variant] for variant in shuffled])
